use std::ffi::OsString;
use std::path::PathBuf;

/// What this program knows of the world it was started in. The only place that reads it.
#[derive(Clone)]
pub(crate) struct Host {
    variables: Vec<(OsString, OsString)>,
    /// The working directory, if it still exists.
    pub(crate) directory: Option<PathBuf>,
}

impl Host {
    /// Looks around.
    pub(crate) fn look() -> Self {
        Self { variables: std::env::vars_os().collect(), directory: std::env::current_dir().ok() }
    }

    /// The whole environment.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        self.variables.clone()
    }

    /// The value of one variable, if it is a text.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let (_, value) = self.variables.iter().find(|(known, _)| known == name)?;
        value.clone().into_string().ok()
    }
}

/// Shows no value: any of them may be a secret.
impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("variables", &self.variables.len()).finish_non_exhaustive()
    }
}
