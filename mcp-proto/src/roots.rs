use crate::message::message;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::request::{Notification, Request};

message! {
    /// Asks which folders the server may work in.
    ///
    /// In all versions; since 2026-07-28 it travels in an [`InputRequired`](crate::InputRequired).
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, client/roots.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ListRoots {
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// The answer to [`ListRoots`].
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ListRootsResult {
        /// The folders and files.
        roots: Vec<Root> = "roots", List;
        /// Metadata.
        meta: Option<RawJson> = "_meta", Optional, until V2025_11_25;
    }
}

message! {
    /// A folder or file that a server may work in.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    Root {
        /// Its address, a `file:` URI.
        uri: String = "uri", Required;
        /// Name for people.
        name: Option<String> = "name", Hint;
        /// Metadata.
        meta: Option<RawJson> = "_meta", Optional, since V2025_06_18;
    }
}

message! {
    /// Says that the answer to [`ListRoots`] would be another one now (until 2025-11-25).
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, client/roots.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    RootsListChanged {
        /// Metadata.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

impl ListRootsResult {
    /// Answers with `roots`.
    #[must_use]
    pub fn new(roots: Vec<Root>) -> Self {
        Self { roots, ..Self::default() }
    }
}

impl Root {
    /// The folder or file at `uri`.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::default() }
    }

    /// Adds the name for people.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl Request for ListRoots {
    const METHOD: Method = Method::ROOTS_LIST;
    type Result = ListRootsResult;
}

impl Notification for RootsListChanged {
    const METHOD: Method = Method::ROOTS_LIST_CHANGED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_written_as_the_specification_has_them() {
        let result =
            ListRootsResult::new(vec![Root::new("file:///a").with_name("A"), Root::new("file:///b")]);
        let text = r#"{"roots":[{"uri":"file:///a","name":"A"},{"uri":"file:///b"}]}"#;
        assert_eq!(serde_json::to_string(&result).unwrap(), text);
        assert_eq!(serde_json::from_str::<ListRootsResult>(text).unwrap(), result);
    }

    #[test]
    fn what_has_no_name_is_written_back() {
        let text = r#"{"roots":[{"uri":"file:///a","x":1e400}],"_meta":{"k":[1.0]},"y":{"z":null}}"#;
        let read: ListRootsResult = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read.other.get("y").unwrap().get(), r#"{"z":null}"#);
        assert_eq!(read.other.get("z"), None);
    }

    #[test]
    fn of_repeated_members_the_last_counts_with_and_without_a_name() {
        let read: Root = serde_json::from_str(r#"{"uri":"a","x":1,"uri":"b","x":2}"#).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"uri":"b","x":2}"#);
    }

    #[test]
    fn a_root_needs_an_address_and_nothing_else() {
        let read: ListRootsResult = serde_json::from_str(r#"{"roots":[{"uri":"a","name":7}]}"#).unwrap();
        assert_eq!(read.roots, [Root::new("a")]);
        assert!(serde_json::from_str::<ListRootsResult>(r#"{"roots":[{"name":"a"}]}"#).is_err());
        assert!(serde_json::from_str::<ListRootsResult>("{}").is_err());
    }
}
