use std::fs;

use crate::failure::Failure;
use crate::shell;
use crate::workspace::{CRATES, Workspace};

/// Every feature of every crate, `default` apart. [`unlisted`] keeps the list complete.
const FEATURES: [(&str, &[&str]); 5] = [
    ("mcp-proto", &[]),
    ("mcp-transport", &["http", "keyring", "oauth", "stdio", "test-util"]),
    ("mcp-session", &[]),
    ("mcp-lifecycle", &["metrics"]),
    ("mcp-client", &["cli"]),
];

/// Checks each crate with each of its features alone, and with none.
///
/// # Errors
///
/// One of them does not compile, or a manifest and the list above differ.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    unlisted(workspace)?;
    for (package, features) in FEATURES {
        let check = ["check", "--package", package, "--no-default-features"];
        shell::capture(&mut workspace.cargo(check))?;
        for feature in features {
            shell::capture(workspace.cargo(check).args(["--features", feature]))?;
        }
    }
    Ok(())
}

/// Fails unless the list names exactly the features of the manifests.
fn unlisted(workspace: &Workspace) -> Result<(), Failure> {
    for package in CRATES {
        let path = workspace.path(package).join("Cargo.toml");
        let manifest = fs::read_to_string(&path).map_err(Failure::io("read", &path))?;
        let listed =
            FEATURES.iter().find(|(name, _)| *name == package).map_or(&[][..], |(_, features)| features);
        let stated = stated(&manifest);
        if stated != listed {
            return Err(Failure::new(format!(
                "{package} has the features {stated:?}, xtask/src/features.rs lists {listed:?}"
            )));
        }
    }
    Ok(())
}

/// The features of a manifest but `default`, sorted.
fn stated(manifest: &str) -> Vec<&str> {
    let section = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let mut features: Vec<&str> = section
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name))
        .filter(|name| *name != "default" && !name.starts_with('#') && !name.starts_with(' '))
        .collect();
    features.sort_unstable();
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_from_their_section_alone() {
        let manifest = "[package]\nname = \"x\"\n\n[features]\ndefault = [\"b\"]\n## Two.\nb = []\n## One.\na = [\n    \"dep:c\",\n]\n\n[dependencies]\nc = \"1\"\n";
        assert_eq!(stated(manifest), ["a", "b"]);
        assert_eq!(stated("[package]\nname = \"x\"\n"), Vec::<&str>::new());
    }

    #[test]
    fn the_list_is_complete() {
        unlisted(&Workspace::here()).unwrap();
    }
}
