use std::path::PathBuf;

/// What this program knows of the world it was started in. The only place that reads it.
#[derive(Clone)]
pub(crate) struct Host {
    variables: Vec<(String, String)>,
    /// The working directory, if it still exists.
    pub(crate) directory: Option<PathBuf>,
}

impl Host {
    /// Looks around. Variables that are no texts are left out.
    pub(crate) fn look() -> Self {
        let text = |value: std::ffi::OsString| value.into_string().ok();
        let variables = std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
        Self { variables: variables.collect(), directory: std::env::current_dir().ok() }
    }

    /// The whole environment.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        self.variables.clone()
    }

    /// The value of one variable.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}

/// Shows no value: any of them may be a secret.
impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("variables", &self.variables.len()).finish_non_exhaustive()
    }
}
