use std::process::ExitCode;

/// How the command ends. The numbers are part of its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Everything worked.
    Success,
    /// The tool or server answered with an error, or was lost during the call.
    Failed,
    /// The command line or the configuration is wrong; an unknown server name too.
    Usage,
    /// A server could not be reached.
    Unreachable,
    /// The time was up.
    TimedOut,
    /// The server wants to know who is asking.
    NeedsAuthorization,
    /// The person at the terminal stopped it.
    Interrupted,
}

impl Exit {
    /// The name of what happened, in JSON.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Success => "ok",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timeout",
            Self::NeedsAuthorization => "needs_authorization",
            Self::Interrupted => "interrupted",
        }
    }

    /// The number for the operating system.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::TimedOut => 4,
            Self::NeedsAuthorization => 5,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
