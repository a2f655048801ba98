use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use mcp_proto::Secret;
use zeroize::Zeroizing;

/// Largest file that is read as a secret, in bytes.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// Reads a secret that is the content of a file, without the white space around it: a password, a token,
/// a key in PEM form.
///
/// It blocks as reading a file does. A link is followed: platforms replace what it leads to.
///
/// # Errors
///
/// It is no file, cannot be read, has more than 64 KiB, is no text, or is empty. The error does not quote
/// it.
pub fn read_secret_file(path: &Path) -> io::Result<Secret> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    // Opening a pipe would wait for whoever writes to it.
    if !fs::metadata(path)?.is_file() {
        return refused("it is no file");
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(8 * 1024));
    File::open(path)?.take(MAX_SECRET_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SECRET_BYTES {
        return refused("it has more than 64 KiB");
    }
    match std::str::from_utf8(&bytes).map(str::trim) {
        Ok("") => refused("it is empty"),
        Ok(text) => Ok(Secret::new(text)),
        Err(_) => refused("it is no text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_whole_and_nothing_else_is_taken_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let read = |content: &[u8]| {
            let path = folder.path().join("secret");
            fs::write(&path, content).unwrap();
            read_secret_file(&path)
                .map(|secret| secret.expose().to_owned())
                .map_err(|error| error.to_string())
        };
        assert_eq!(read(b"  hunter2 \r\n"), Ok("hunter2".to_owned()));
        let most = "x".repeat(64 * 1024);
        assert_eq!(read(most.as_bytes()), Ok(most.clone()));
        assert_eq!(read(format!("{most}\n").as_bytes()), Err("it has more than 64 KiB".to_owned()));
        assert_eq!(read(b"canary\xff"), Err("it is no text".to_owned()));
        assert_eq!(read(b" \n"), Err("it is empty".to_owned()));
        assert_eq!(read_secret_file(folder.path()).unwrap_err().to_string(), "it is no file");
        let missing = read_secret_file(&folder.path().join("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
