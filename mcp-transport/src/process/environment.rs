use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

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

/// What [`filter_environment`] keeps of an environment, kept once for all commands that inherit it.
///
/// `Debug` shows no values: they may hold secrets.
///
/// # Examples
///
/// ```
/// use mcp_transport::process::{Command, Inherited};
///
/// let inherited: Inherited = [("PATH", "/usr/bin:/bin"), ("TOKEN", "secret")].into_iter().collect();
/// let commands = ["one", "two"].map(|program| Command::new(program).inherit_shared(inherited.clone()));
/// ```
#[derive(Clone, Default)]
pub struct Inherited(Arc<BTreeMap<OsString, OsString>>);

impl Inherited {
    pub(super) fn add(&mut self, more: impl IntoIterator<Item = (OsString, OsString)>) {
        Arc::make_mut(&mut self.0).extend(more);
    }

    pub(super) fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.0
    }
}

/// Filters the variables.
impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Inherited {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Self(Arc::new(filter_environment(variables).into_iter().collect()))
    }
}

impl fmt::Debug for Inherited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
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
