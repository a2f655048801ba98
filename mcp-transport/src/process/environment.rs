use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// Names of the variables that a child inherits; beside them, all that begin with `XDG_`.
pub const INHERITED: &[&str] =
    &["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

const INHERITED_PREFIX: &[u8] = b"XDG_";

/// Begins the value of an exported shell function, which is code and not data.
const SHELL_FUNCTION: &[u8] = b"()";

/// Keeps the variables that a child may inherit: those of [`INHERITED`], without shell functions.
///
/// This library never reads the environment: the program that has one passes it in.
///
/// # Source
///
/// MCP, basic/transports: a small allow-list is what the official SDKs pass on.
///
/// # Examples
///
/// ```
/// use mcp_transport::process::filter_environment;
///
/// let kept = filter_environment([("PATH", "/bin"), ("TOKEN", "secret"), ("TERM", "() { :;}")]);
/// assert_eq!(kept, [("PATH".into(), "/bin".into())]);
/// ```
pub fn filter_environment<K, V>(variables: impl IntoIterator<Item = (K, V)>) -> Vec<(OsString, OsString)>
where
    K: Into<OsString>,
    V: Into<OsString>,
{
    variables
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .filter(|(name, value)| may_inherit(name) && !value.as_bytes().starts_with(SHELL_FUNCTION))
        .collect()
}

fn may_inherit(name: &OsStr) -> bool {
    let is_listed = INHERITED.iter().any(|listed| *listed == name);
    is_listed || name.as_bytes().starts_with(INHERITED_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f157_only_listed_variables_are_inherited() {
        let table = [
            ("PATH", "/bin", true),
            ("XDG_CONFIG_HOME", "/c", true),
            ("LOGNAME", "me", true),
            ("path", "/bin", false),
            ("AWS_SECRET_ACCESS_KEY", "canary", false),
            ("LD_PRELOAD", "/evil.so", false),
            ("HOME", "() { :; }; evil", false),
            ("HOMEX", "a", false),
            ("", "a", false),
        ];
        for (name, value, kept) in table {
            assert_eq!(filter_environment([(name, value)]).len(), usize::from(kept), "{name}");
        }
    }
}
