use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_proto::Redactor;

use super::environment::{Inherited, filter_environment};
use super::error::SpawnError;

/// What to start, and what it gets to see.
///
/// A child gets exactly the environment that is given here: what passes the filter of
/// [`inherit`](Self::inherit), overlaid with what was set by [`env`](Self::env). Nothing is run
/// through a shell.
///
/// `Debug` shows no argument and no value of a variable: both may hold secrets. Of what the child
/// writes to standard error, everything that looks like a credential is taken out before it is kept
/// or logged, and the values that [`redactor`](Self::redactor) knows.
///
/// # Examples
///
/// ```
/// use mcp_transport::process::Command;
///
/// let command = Command::new("npx")
///     .args(["-y", "@modelcontextprotocol/server-everything"])
///     .inherit([("PATH", "/usr/bin:/bin")])
///     .env("LOG_LEVEL", "debug")
///     .server("everything");
/// assert_eq!(command.program(), "npx");
/// ```
#[derive(Clone)]
#[must_use = "a command does nothing until a factory starts it"]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    inherited: Inherited,
    configured: BTreeMap<OsString, OsString>,
    cwd: Option<PathBuf>,
    server: Option<Arc<str>>,
    redactor: Arc<Redactor>,
}

impl Command {
    /// A command without arguments, in the working directory of this process, with an empty
    /// environment.
    ///
    /// A `program` without a slash is looked up on the child's own `PATH`, or in the usual system
    /// folders if the child has none; a relative one with a slash starts at the child's working
    /// directory.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            inherited: Inherited::default(),
            configured: BTreeMap::new(),
            cwd: None,
            server: None,
            redactor: Arc::default(),
        }
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Passes on what [`filter_environment`] keeps of `variables`, usually the caller's own
    /// environment. What is set by [`env`](Self::env) wins.
    pub fn inherit<K, V>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        self.inherited.add(filter_environment(variables));
        self
    }

    /// Passes on `inherited`, in the place of what was passed on before. Many commands share it without a
    /// copy of each variable.
    pub fn inherit_shared(mut self, inherited: Inherited) -> Self {
        self.inherited = inherited;
        self
    }

    /// Sets one variable of the child, whatever its name.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.configured.insert(name.into(), value.into());
        self
    }

    /// Sets the child's working directory.
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }

    /// Names the server, for log lines.
    pub fn server(mut self, name: impl Into<Arc<str>>) -> Self {
        self.server = Some(name.into());
        self
    }

    /// Takes the values that `redactor` knows out of what the child writes to standard error.
    pub fn redactor(mut self, redactor: impl Into<Arc<Redactor>>) -> Self {
        self.redactor = redactor.into();
        self
    }

    /// The program as configured.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// The server's name, or the program's if none was given.
    #[must_use]
    pub fn display_name(&self) -> Arc<str> {
        self.server.clone().unwrap_or_else(|| self.program.to_string_lossy().into())
    }

    /// Refuses what no process can be given.
    ///
    /// # Errors
    ///
    /// [`SpawnError::Invalid`]: a NUL byte anywhere, an empty program, or a variable whose name is
    /// empty or has an `=`. Nothing was started.
    pub fn validate(&self) -> Result<(), SpawnError> {
        let refuse = |what: String| Err(SpawnError::Invalid { what });
        if self.program.is_empty() || has_nul(&self.program) {
            return refuse("the command".to_owned());
        }
        if let Some(index) = self.args.iter().position(|arg| has_nul(arg)) {
            return refuse(format!("argument {}", index + 1));
        }
        if self.cwd.as_ref().is_some_and(|cwd| has_nul(cwd.as_os_str())) {
            return refuse("the working directory".to_owned());
        }
        for (name, value) in self.environment() {
            if name.is_empty() || has_nul(name) || name.as_bytes().contains(&b'=') {
                return refuse(format!("the variable name {name:?}"));
            }
            if has_nul(value) {
                return refuse(format!("the value of variable {name:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn arguments(&self) -> &[OsString] {
        &self.args
    }

    pub(super) fn secrets(&self) -> Arc<Redactor> {
        Arc::clone(&self.redactor)
    }

    pub(super) fn directory(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    /// Each variable once, the configured value where there are two.
    pub(super) fn environment(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let inherited =
            self.inherited.variables().iter().filter(|(name, _)| !self.configured.contains_key(*name));
        inherited.chain(&self.configured).map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        let name = OsStr::new(name);
        self.configured.get(name).or_else(|| self.inherited.variables().get(name)).map(OsString::as_os_str)
    }
}

fn has_nul(text: &OsStr) -> bool {
    text.as_bytes().contains(&0)
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<_> = self.environment().map(|(name, _)| name).collect();
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("variables", &variables)
            .field("cwd", &self.cwd)
            .field("server", &self.server)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f006_what_no_process_can_take_is_refused() {
        let refused = |command: Command| command.validate().unwrap_err().to_string();
        let plain = || Command::new("cat");
        assert_eq!(refused(Command::new("")), "the command cannot be passed to a process");
        assert_eq!(refused(Command::new("a\0b")), "the command cannot be passed to a process");
        assert_eq!(refused(plain().args(["a", "b\0"])), "argument 2 cannot be passed to a process");
        assert_eq!(refused(plain().cwd("/\0")), "the working directory cannot be passed to a process");
        assert_eq!(refused(plain().env("", "x")), "the variable name \"\" cannot be passed to a process");
        assert_eq!(
            refused(plain().env("A=B", "x")),
            "the variable name \"A=B\" cannot be passed to a process"
        );
        let value = refused(plain().env("TOKEN", "canary\0"));
        assert_eq!(value, "the value of variable \"TOKEN\" cannot be passed to a process");
        assert_eq!(plain().args(["", "=", "ü"]).env("A", "").validate(), Ok(()));
    }

    #[test]
    fn configured_variables_win_in_any_order() {
        let first = Command::new("a").env("PATH", "/mine").inherit([("PATH", "/theirs"), ("HOME", "/h")]);
        let second = Command::new("a").inherit([("PATH", "/theirs"), ("HOME", "/h")]).env("PATH", "/mine");
        for command in [first, second] {
            let variables: Vec<_> = command.environment().collect();
            assert_eq!(variables, [("HOME".as_ref(), "/h".as_ref()), ("PATH".as_ref(), "/mine".as_ref())]);
        }
    }

    #[test]
    fn what_is_inherited_is_shared_until_a_command_adds_to_it() {
        let shared: Inherited = [("PATH", "/bin"), ("TOKEN", "canary")].into_iter().collect();
        let one = Command::new("a").inherit_shared(shared.clone());
        let two = Command::new("b").inherit_shared(shared.clone()).inherit([("HOME", "/h")]);
        assert!(std::ptr::eq(one.inherited.variables(), shared.variables()));
        let names =
            |command: &Command| command.environment().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert_eq!((names(&one), names(&two)), (vec!["PATH".into()], vec!["HOME".into(), "PATH".into()]));
        assert_eq!(format!("{shared:?}"), "{\"PATH\"}");
    }

    #[test]
    fn f158_debug_shows_neither_arguments_nor_values() {
        let command = Command::new("cat").arg("--token=canary").env("TOKEN", "canary");
        assert!(!format!("{command:?}").contains("canary"));
    }
}
