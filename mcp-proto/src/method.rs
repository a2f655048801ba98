use std::borrow::Cow;
use std::fmt;

use crate::version::Era;

/// The name of a request or notification.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Method(Cow<'static, str>);

macro_rules! methods {
    ($($(#[$doc:meta])* $constant:ident = $name:literal;)*) => {
        impl Method {
            $($(#[$doc])* pub const $constant: Self = Self(Cow::Borrowed($name));)*

            /// Takes a name as received; known names are not copied.
            #[must_use]
            pub fn from_wire(name: &str) -> Self {
                match name {
                    $($name => Self::$constant,)*
                    other => Self(Cow::Owned(other.to_owned())),
                }
            }
        }
    };
}

methods! {
    /// Opens a legacy connection; never cancelled.
    INITIALIZE = "initialize";
    /// Asks a modern server for versions and capabilities.
    DISCOVER = "server/discover";
    /// Asks whether the peer lives (legacy).
    PING = "ping";
    /// Lists tools, by pages.
    TOOLS_LIST = "tools/list";
    /// Runs a tool.
    TOOLS_CALL = "tools/call";
    /// Lists resources, by pages.
    RESOURCES_LIST = "resources/list";
    /// Lists resource templates, by pages.
    RESOURCE_TEMPLATES_LIST = "resources/templates/list";
    /// Reads a resource.
    RESOURCES_READ = "resources/read";
    /// Lists prompts, by pages.
    PROMPTS_LIST = "prompts/list";
    /// Fills a prompt in.
    PROMPTS_GET = "prompts/get";
    /// Ends the legacy handshake.
    INITIALIZED = "notifications/initialized";
    /// Cancels a request.
    CANCELLED = "notifications/cancelled";
    /// Tells how far a request has come.
    PROGRESS = "notifications/progress";
    /// A log line of the server.
    LOG_MESSAGE = "notifications/message";
    /// The tools have changed.
    TOOLS_LIST_CHANGED = "notifications/tools/list_changed";
    /// The prompts have changed.
    PROMPTS_LIST_CHANGED = "notifications/prompts/list_changed";
    /// The resources have changed.
    RESOURCES_LIST_CHANGED = "notifications/resources/list_changed";
}

impl Method {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether repeating the request cannot do harm, whatever the server is.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        [
            Self::DISCOVER,
            Self::PING,
            Self::TOOLS_LIST,
            Self::RESOURCES_LIST,
            Self::RESOURCE_TEMPLATES_LIST,
            Self::RESOURCES_READ,
            Self::PROMPTS_LIST,
            Self::PROMPTS_GET,
        ]
        .contains(self)
    }

    /// Whether a client may send the method in `era`; unknown methods may always be sent.
    #[must_use]
    pub fn is_sendable(&self, era: Era) -> bool {
        match era {
            Era::Legacy => *self != Self::DISCOVER,
            Era::Modern => ![Self::INITIALIZE, Self::INITIALIZED, Self::PING].contains(self),
        }
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Writes the name escaped, since unknown names come from the server.
impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::escape::escape(&self.0, 128))
    }
}
