use std::collections::BTreeMap;
use std::io::ErrorKind;

/// Every open descriptor of this process, with what it refers to (`pipe:[123]`, a path).
///
/// # Panics
///
/// There is no `/proc`.
#[must_use]
pub fn open_descriptors() -> BTreeMap<i32, String> {
    let mut open = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").expect("there is /proc") {
        let entry = entry.expect("/proc can be listed");
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok()).expect("a descriptor");
        match std::fs::read_link(entry.path()) {
            Ok(target) => drop(open.insert(number, target.to_string_lossy().into_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => panic!("descriptor {number} cannot be looked at: {error}"),
        }
    }
    // The listing itself has one, which is closed by now.
    open.retain(|number, _| std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok());
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_is_listed_until_it_is_closed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_string_lossy().into_owned();
        assert!(open_descriptors().values().any(|target| *target == path));
        drop(file);
        assert!(!open_descriptors().values().any(|target| target.starts_with(&path)));
    }
}
