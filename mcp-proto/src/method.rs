use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeSeed;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::message::NameReader;
use crate::version::Era;

/// The name of a request or notification.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Method(Cow<'static, str>);

/// In which eras one side may send a method as a message of its own.
///
/// Requests of a server that travel inside a result in the modern era are no messages there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Eras {
    Both,
    Legacy,
    Modern,
    Never,
}

impl Eras {
    const fn contain(self, era: Era) -> bool {
        matches!((self, era), (Self::Both, _) | (Self::Legacy, Era::Legacy) | (Self::Modern, Era::Modern))
    }
}

/// Who may send a method, and when.
struct Usage {
    client: Eras,
    server: Eras,
}

macro_rules! methods {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, client: $client:ident, server: $server:ident;)*) => {
        impl Method {
            $($(#[$doc])* pub const $constant: Self = Self(Cow::Borrowed($name));)*

            /// Every method that has a constant here.
            pub const KNOWN: &'static [Self] = &[$(Self::$constant,)*];

            /// Takes a name as received; known names are not copied.
            #[must_use]
            pub fn from_wire(name: &str) -> Self {
                Self::known(name.as_bytes()).unwrap_or_else(|| Self(Cow::Owned(name.to_owned())))
            }

            fn known(name: &[u8]) -> Option<Self> {
                $(if name == $name.as_bytes() {
                    return Some(Self::$constant);
                })*
                None
            }

            fn usage(&self) -> Option<Usage> {
                match self.as_str() {
                    $($name => Some(Usage { client: Eras::$client, server: Eras::$server }),)*
                    _ => None,
                }
            }
        }
    };
}

// The schemas of all five versions, and the extensions tasks and skills of 2026-07-28.
methods! {
    /// Opens a legacy connection; never cancelled.
    INITIALIZE = "initialize", client: Legacy, server: Never;
    /// Asks a modern server for versions and capabilities.
    DISCOVER = "server/discover", client: Modern, server: Never;
    /// Asks whether the peer lives.
    PING = "ping", client: Legacy, server: Legacy;
    /// Lists tools, by pages.
    TOOLS_LIST = "tools/list", client: Both, server: Never;
    /// Runs a tool.
    TOOLS_CALL = "tools/call", client: Both, server: Never;
    /// Lists resources, by pages.
    RESOURCES_LIST = "resources/list", client: Both, server: Never;
    /// Lists resource templates, by pages.
    RESOURCE_TEMPLATES_LIST = "resources/templates/list", client: Both, server: Never;
    /// Reads a resource.
    RESOURCES_READ = "resources/read", client: Both, server: Never;
    /// Asks to be told of changes of one resource.
    RESOURCES_SUBSCRIBE = "resources/subscribe", client: Legacy, server: Never;
    /// Ends [`Method::RESOURCES_SUBSCRIBE`].
    RESOURCES_UNSUBSCRIBE = "resources/unsubscribe", client: Legacy, server: Never;
    /// Lists what a directory holds (extension skills).
    RESOURCES_DIRECTORY_READ = "resources/directory/read", client: Modern, server: Never;
    /// Asks to be told of changes, for as long as the request lives.
    SUBSCRIPTIONS_LISTEN = "subscriptions/listen", client: Modern, server: Never;
    /// Lists prompts, by pages.
    PROMPTS_LIST = "prompts/list", client: Both, server: Never;
    /// Fills a prompt in.
    PROMPTS_GET = "prompts/get", client: Both, server: Never;
    /// Proposes values for an argument.
    COMPLETION_COMPLETE = "completion/complete", client: Both, server: Never;
    /// Sets the lowest level of log messages that are wanted.
    LOGGING_SET_LEVEL = "logging/setLevel", client: Legacy, server: Never;
    /// Asks which folders the server may work in.
    ROOTS_LIST = "roots/list", client: Never, server: Legacy;
    /// Asks the client to run a model.
    SAMPLING_CREATE_MESSAGE = "sampling/createMessage", client: Never, server: Legacy;
    /// Asks a person, through the client.
    ELICITATION_CREATE = "elicitation/create", client: Never, server: Legacy;
    /// Asks how a task is getting on (2025-11-25, and the extension tasks).
    TASKS_GET = "tasks/get", client: Both, server: Legacy;
    /// Cancels a task (2025-11-25, and the extension tasks).
    TASKS_CANCEL = "tasks/cancel", client: Both, server: Legacy;
    /// Takes the result of a task (2025-11-25).
    TASKS_RESULT = "tasks/result", client: Legacy, server: Legacy;
    /// Lists tasks, by pages (2025-11-25).
    TASKS_LIST = "tasks/list", client: Legacy, server: Legacy;
    /// Gives a task the input it waits for (extension tasks).
    TASKS_UPDATE = "tasks/update", client: Modern, server: Never;
    /// Lists skills (extension skills).
    SKILLS_LIST = "skills/list", client: Modern, server: Never;
    /// Fetches a skill (extension skills).
    SKILLS_GET = "skills/get", client: Modern, server: Never;
    /// Ends the legacy handshake.
    INITIALIZED = "notifications/initialized", client: Legacy, server: Never;
    /// Cancels a request; from a modern server, ends a subscription.
    CANCELLED = "notifications/cancelled", client: Both, server: Both;
    /// Tells how far a request has come.
    PROGRESS = "notifications/progress", client: Legacy, server: Both;
    /// A log line of the server.
    LOG_MESSAGE = "notifications/message", client: Never, server: Both;
    /// The tools have changed.
    TOOLS_LIST_CHANGED = "notifications/tools/list_changed", client: Never, server: Both;
    /// The prompts have changed.
    PROMPTS_LIST_CHANGED = "notifications/prompts/list_changed", client: Never, server: Both;
    /// The resources have changed.
    RESOURCES_LIST_CHANGED = "notifications/resources/list_changed", client: Never, server: Both;
    /// One resource has changed.
    RESOURCES_UPDATED = "notifications/resources/updated", client: Never, server: Both;
    /// The folders of the client have changed.
    ROOTS_LIST_CHANGED = "notifications/roots/list_changed", client: Legacy, server: Never;
    /// A person has finished what a URL asked of them (2025-11-25).
    ELICITATION_COMPLETE = "notifications/elicitation/complete", client: Never, server: Legacy;
    /// A task has changed its state (2025-11-25).
    TASKS_STATUS = "notifications/tasks/status", client: Legacy, server: Legacy;
    /// A task has changed its state (extension tasks).
    TASKS_CHANGED = "notifications/tasks", client: Never, server: Modern;
    /// A subscription has begun.
    SUBSCRIPTIONS_ACKNOWLEDGED = "notifications/subscriptions/acknowledged", client: Never, server: Modern;
}

impl Method {
    /// As [`from_wire`](Self::from_wire), of a name that is known to be UTF-8.
    pub(crate) fn of_checked(name: &[u8]) -> Self {
        Self::known(name).unwrap_or_else(|| Self(Cow::Owned(String::from_utf8_lossy(name).into_owned())))
    }

    /// The family of the method and what is asked of it: what stands before and behind the first slash.
    pub(crate) fn family(&self) -> Option<(&str, &str)> {
        let slash = self.0.bytes().position(|byte| byte == b'/')?;
        Some((self.0.get(..slash)?, self.0.get(slash + 1..)?))
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this crate knows the method.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.usage().is_some()
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
            Self::TASKS_GET,
            Self::TASKS_LIST,
            Self::TASKS_RESULT,
        ]
        .contains(self)
    }

    /// The member of `params` that the header `Mcp-Name` mirrors, for the methods that have one.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic/transports/streamable-http; SEP-2663 for tasks.
    #[must_use]
    pub fn mirrored_member(&self) -> Option<&'static str> {
        match self.as_str() {
            "prompts/get" | "tools/call" => Some("name"),
            "resources/read" => Some("uri"),
            "tasks/cancel" | "tasks/get" | "tasks/update" => Some("taskId"),
            _ => None,
        }
    }

    /// Whether a client may send the method in `era`; unknown methods may always be sent.
    #[must_use]
    pub fn is_sendable(&self, era: Era) -> bool {
        self.usage().is_none_or(|usage| usage.client.contain(era))
    }

    /// Whether a server may send the method in `era`; unknown methods may not.
    #[must_use]
    pub fn is_receivable(&self, era: Era) -> bool {
        self.usage().is_some_and(|usage| usage.server.contain(era))
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NameReader(Self::from_wire).deserialize(deserializer)
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Writes the name escaped and cut, since unknown names come from the server.
impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::escape::escape(&self.0, 128))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, then whether it may be sent: by a legacy client, a modern client, a legacy server, a
    /// modern server.
    const TABLE: &[(&str, [u8; 4])] = &[
        ("initialize", [1, 0, 0, 0]),
        ("server/discover", [0, 1, 0, 0]),
        ("ping", [1, 0, 1, 0]),
        ("tools/list", [1, 1, 0, 0]),
        ("tools/call", [1, 1, 0, 0]),
        ("resources/list", [1, 1, 0, 0]),
        ("resources/templates/list", [1, 1, 0, 0]),
        ("resources/read", [1, 1, 0, 0]),
        ("resources/subscribe", [1, 0, 0, 0]),
        ("resources/unsubscribe", [1, 0, 0, 0]),
        ("subscriptions/listen", [0, 1, 0, 0]),
        ("prompts/list", [1, 1, 0, 0]),
        ("prompts/get", [1, 1, 0, 0]),
        ("completion/complete", [1, 1, 0, 0]),
        ("logging/setLevel", [1, 0, 0, 0]),
        ("roots/list", [0, 0, 1, 0]),
        ("sampling/createMessage", [0, 0, 1, 0]),
        ("elicitation/create", [0, 0, 1, 0]),
        ("tasks/get", [1, 1, 1, 0]),
        ("tasks/cancel", [1, 1, 1, 0]),
        ("tasks/result", [1, 0, 1, 0]),
        ("tasks/list", [1, 0, 1, 0]),
        ("tasks/update", [0, 1, 0, 0]),
        ("skills/list", [0, 1, 0, 0]),
        ("skills/get", [0, 1, 0, 0]),
        ("resources/directory/read", [0, 1, 0, 0]),
        ("notifications/initialized", [1, 0, 0, 0]),
        ("notifications/cancelled", [1, 1, 1, 1]),
        ("notifications/progress", [1, 0, 1, 1]),
        ("notifications/message", [0, 0, 1, 1]),
        ("notifications/tools/list_changed", [0, 0, 1, 1]),
        ("notifications/prompts/list_changed", [0, 0, 1, 1]),
        ("notifications/resources/list_changed", [0, 0, 1, 1]),
        ("notifications/resources/updated", [0, 0, 1, 1]),
        ("notifications/roots/list_changed", [1, 0, 0, 0]),
        ("notifications/elicitation/complete", [0, 0, 1, 0]),
        ("notifications/tasks/status", [1, 0, 1, 0]),
        ("notifications/tasks", [0, 0, 0, 1]),
        ("notifications/subscriptions/acknowledged", [0, 0, 0, 1]),
    ];

    #[test]
    fn each_method_may_be_sent_where_the_specification_has_it() {
        for (name, expected) in TABLE {
            let method = Method::from_wire(name);
            let actual = [
                method.is_sendable(Era::Legacy),
                method.is_sendable(Era::Modern),
                method.is_receivable(Era::Legacy),
                method.is_receivable(Era::Modern),
            ];
            assert_eq!(actual.map(u8::from), *expected, "{name}");
        }
    }

    #[test]
    fn the_table_is_complete() {
        let mut known: Vec<&str> = Method::KNOWN.iter().map(Method::as_str).collect();
        let mut expected: Vec<&str> = TABLE.iter().map(|(name, _)| *name).collect();
        known.sort_unstable();
        expected.sort_unstable();
        assert_eq!(known, expected);
        assert!(
            Method::KNOWN
                .iter()
                .all(|method| matches!(Method::from_wire(method.as_str()).0, Cow::Borrowed(_)))
        );
    }

    #[test]
    fn a_request_mirrors_the_member_that_its_method_says() {
        fn mirrors<R: crate::Request>(request: &R) {
            let params = serde_json::to_value(request).unwrap();
            let member = R::METHOD.mirrored_member().map(|member| params[member].as_str().unwrap());
            assert_eq!(request.mirrored_name(), member, "{}", R::METHOD);
        }
        mirrors(&crate::CallTool::new("a"));
        mirrors(&crate::GetPrompt::new("a"));
        mirrors(&crate::ReadResource::new("a"));
        mirrors(&crate::SubscribeResource::new("a"));
        mirrors(&crate::ListTools::new());
        mirrors(&crate::tasks::GetTask::new("a"));
        mirrors(&crate::tasks::CancelTask::new("a"));
        mirrors(&crate::tasks::UpdateTask::new("a", crate::Entries::new()));
        mirrors(&crate::tasks::GetTaskPayload::new("a"));
        mirrors(&crate::skills::GetSkill::new("a"));
        let count = Method::KNOWN.iter().filter(|method| method.mirrored_member().is_some()).count();
        assert_eq!(count, 6);
    }

    #[test]
    fn the_readme_has_a_row_for_each_method() {
        let readme = include_str!("../README.md");
        let named = |name: &str| readme.lines().any(|line| line.starts_with("| `") && line.contains(name));
        for method in Method::KNOWN {
            assert!(named(&format!("`{}`", method.as_str())), "{method}");
        }
        assert!(!named("`x/y`"));
    }

    #[test]
    fn an_unknown_method_may_be_sent_but_is_not_expected() {
        let unknown = Method::from_wire("x/y");
        for era in [Era::Legacy, Era::Modern] {
            assert!(unknown.is_sendable(era) && !unknown.is_receivable(era));
        }
        assert!(!unknown.is_known() && !unknown.is_idempotent());
    }

    #[test]
    fn a_hostile_name_is_shown_short_and_escaped() {
        let method = Method::from_wire(&"\u{1b}[2J".repeat(1000));
        for shown in [format!("{method}"), format!("{method:?}")] {
            assert!(shown.len() < 800 && !shown.contains('\u{1b}'), "{shown}");
        }
    }

    #[test]
    fn only_reading_methods_are_idempotent() {
        let repeatable: Vec<&str> =
            Method::KNOWN.iter().filter(|method| method.is_idempotent()).map(Method::as_str).collect();
        assert_eq!(
            repeatable,
            [
                "server/discover",
                "ping",
                "tools/list",
                "resources/list",
                "resources/templates/list",
                "resources/read",
                "prompts/list",
                "prompts/get",
                "tasks/get",
                "tasks/result",
                "tasks/list",
            ]
        );
    }
}
