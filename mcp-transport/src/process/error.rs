use std::path::PathBuf;

/// A process could not be started; nothing was left behind.
///
/// Errors with [`is_permanent`](Self::is_permanent) need another configuration; the others may pass
/// by themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The working directory does not exist or cannot be entered.
    #[error("working directory {} cannot be used", .0.display())]
    BadCwd(PathBuf),
    /// The file is not a program of this system.
    #[error("{command:?} is not a program that this system can run")]
    BadFormat {
        /// The command as configured.
        command: String,
    },
    /// The program is being replaced right now.
    #[error("{command:?} is being written by somebody else")]
    Busy {
        /// The command as configured.
        command: String,
    },
    /// The process factory has been shut down.
    #[error("the process factory has been shut down")]
    FactoryClosed,
    /// A name or value holds a byte that no process can take, or a name is empty or has an `=`.
    #[error("{what} cannot be passed to a process")]
    Invalid {
        /// Which argument or variable, never its value.
        what: String,
    },
    /// No such command.
    #[error("command {command:?} not found; give a full path or add its folder to PATH")]
    NotFound {
        /// The command as configured.
        command: String,
    },
    /// The file may not be executed.
    #[error("{command:?} is not executable")]
    NotExecutable {
        /// The command as configured.
        command: String,
    },
    /// The system refused for another reason.
    #[error("{command:?} could not be started: {reason}")]
    Os {
        /// The command as configured.
        command: String,
        /// What the system said.
        reason: String,
    },
    /// Out of processes, memory or descriptors.
    #[error("{command:?} could not be started: out of {what}")]
    ResourceLimit {
        /// The command as configured.
        command: String,
        /// What has run out.
        what: &'static str,
    },
}

impl SpawnError {
    /// Whether trying again without a change of configuration is pointless.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Self::Busy { .. } | Self::ResourceLimit { .. } | Self::Os { .. })
    }

    /// What a person can do about it, where the error itself does not say so.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::BadCwd(_) => Some("make that folder, or name another working directory"),
            Self::BadFormat { .. } => Some("name its interpreter as the command, or a build for this system"),
            Self::Busy { .. } => Some("try again when it is complete"),
            Self::Invalid { .. } => Some("correct it in the configuration"),
            Self::NotExecutable { .. } => {
                Some("set its executable bit, or name its interpreter as the command")
            }
            Self::ResourceLimit { .. } => Some("end other programs, or raise the limits of this user"),
            Self::FactoryClosed | Self::NotFound { .. } | Self::Os { .. } => None,
        }
    }
}
