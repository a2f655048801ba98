use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::member::Member;
use crate::message::message;
use crate::method::Method;
use crate::other_members::OtherMembers;
use crate::raw_json::RawJson;
use crate::request::Request;
use crate::result_type::ResultType;
use crate::version::ProtocolVersion;
use crate::versioned::{NotInVersion, Versioned};

message! {
    /// Asks for values that would complete an argument; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/utilities/completion.
    #[derive(Debug, Clone, PartialEq, Eq)]
    Complete skipping "_meta" {
        /// What the argument belongs to.
        reference: CompletionReference = "ref", Required;
        /// The argument.
        argument: CompletionArgument = "argument", Required;
        /// What is known of the other arguments.
        context: Option<CompletionContext> = "context", Optional, since V2025_06_18;
    }
}

/// What the argument to complete belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompletionReference {
    /// Anything else, as received.
    Other(RawJson),
    /// A prompt.
    Prompt(PromptReference),
    /// A resource template.
    Resource(ResourceReference),
}

message! {
    /// Names a prompt.
    #[derive(Debug, Clone, PartialEq, Eq)]
    PromptReference skipping "type" {
        /// The prompt's name, exactly as listed.
        name: String = "name", Required;
        /// Name for people.
        title: Option<String> = "title", Hint, since V2025_06_18;
    }
}

message! {
    /// Names a resource template.
    #[derive(Debug, Clone, PartialEq, Eq)]
    ResourceReference skipping "type" {
        /// Its address with its gaps, exactly as listed.
        uri: String = "uri", Required;
    }
}

message! {
    /// An argument, as far as it is known.
    #[derive(Debug, Clone, PartialEq, Eq)]
    CompletionArgument {
        /// Its name.
        name: String = "name", Required;
        /// What has been written of it so far.
        value: String = "value", Required;
    }
}

message! {
    /// What is known beside the argument (since 2025-06-18).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    CompletionContext {
        /// The arguments that are complete, by name.
        arguments: Option<BTreeMap<String, String>> = "arguments", Optional;
    }
}

message! {
    /// The answer to [`Complete`].
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    CompleteResult {
        /// What kind of result it is.
        result_type: Option<ResultType> = "resultType", Hint, since V2026_07_28;
        /// The proposals.
        completion: Completion = "completion", Required;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// Values that would complete an argument.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    Completion {
        /// The values, the best one first; at most 100 by the specification, unchecked.
        values: Vec<String> = "values", List;
        /// How many there are in all, these among them.
        total: Option<u64> = "total", Hint;
        /// Whether there are more than these.
        has_more: Option<bool> = "hasMore", Hint;
    }
}

impl Complete {
    /// Completes the argument `name` of a prompt, of which `value` has been written.
    pub fn of_prompt(prompt: impl Into<String>, name: impl Into<String>, value: impl Into<String>) -> Self {
        let reference = PromptReference { name: prompt.into(), title: None, other: OtherMembers::default() };
        Self::of(CompletionReference::Prompt(reference), name.into(), value.into())
    }

    /// Completes the gap `name` of a resource template, of which `value` has been written.
    pub fn of_template(
        template: impl Into<String>,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        let reference = ResourceReference { uri: template.into(), other: OtherMembers::default() };
        Self::of(CompletionReference::Resource(reference), name.into(), value.into())
    }

    /// Tells the arguments that are complete.
    #[must_use]
    pub fn with_known(mut self, arguments: BTreeMap<String, String>) -> Self {
        self.context = Some(CompletionContext { arguments: Some(arguments), ..CompletionContext::default() });
        self
    }

    fn of(reference: CompletionReference, name: String, value: String) -> Self {
        let argument = CompletionArgument { name, value, other: OtherMembers::default() };
        Self { reference, argument, context: None, other: OtherMembers::default() }
    }
}

impl Request for Complete {
    const METHOD: Method = Method::COMPLETION_COMPLETE;
    type Result = CompleteResult;
}

impl Member for CompletionReference {}

impl Versioned for CompletionReference {
    fn fits(&self, version: ProtocolVersion) -> bool {
        match self {
            Self::Prompt(reference) => reference.fits(version),
            Self::Other(_) | Self::Resource(_) => true,
        }
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        match self {
            Self::Prompt(reference) => reference.fit(version),
            Self::Other(_) | Self::Resource(_) => Ok(()),
        }
    }
}

impl Serialize for CompletionReference {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type")]
        enum Tagged<'a> {
            #[serde(rename = "ref/prompt")]
            Prompt(&'a PromptReference),
            #[serde(rename = "ref/resource")]
            Resource(&'a ResourceReference),
        }
        match self {
            Self::Other(raw) => raw.serialize(serializer),
            Self::Prompt(reference) => Tagged::Prompt(reference).serialize(serializer),
            Self::Resource(reference) => Tagged::Resource(reference).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for CompletionReference {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        let read = match raw.kind().as_deref() {
            Some("ref/prompt") => raw.decode().map(Self::Prompt),
            Some("ref/resource") => raw.decode().map(Self::Resource),
            _ => return Ok(Self::Other(raw)),
        };
        read.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::for_version;

    #[test]
    fn a_reference_says_what_it_refers_to() {
        let known = BTreeMap::from([("owner".to_owned(), "a".to_owned())]);
        for (asked, text) in [
            (
                Complete::of_prompt("p", "lang", "py").with_known(known),
                r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"lang","value":"py"},"context":{"arguments":{"owner":"a"}}}"#,
            ),
            (
                Complete::of_template("file:///{path}", "path", ""),
                r#"{"ref":{"type":"ref/resource","uri":"file:///{path}"},"argument":{"name":"path","value":""}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&asked).unwrap(), text);
            assert_eq!(serde_json::from_str::<Complete>(text).unwrap(), asked);
        }
        let odd = r#"{"type":"ref/tool","name":"t","x":1.50}"#;
        let read: CompletionReference = serde_json::from_str(odd).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), odd);
    }

    #[test]
    fn the_other_arguments_are_told_only_where_the_version_has_them() {
        let asked = Complete::of_prompt("p", "a", "").with_known(BTreeMap::new());
        for (version, has_context) in [
            (ProtocolVersion::V2024_11_05, false),
            (ProtocolVersion::V2025_03_26, false),
            (ProtocolVersion::V2025_06_18, true),
            (ProtocolVersion::V2026_07_28, true),
        ] {
            assert_eq!(for_version(&asked, version).unwrap().context.is_some(), has_context, "{version}");
        }
    }

    #[test]
    fn an_answer_may_leave_out_how_many_there_are() {
        let read: CompleteResult =
            serde_json::from_str(r#"{"completion":{"values":["a"],"total":-1,"hasMore":"yes"}}"#).unwrap();
        assert_eq!((read.completion.total, read.completion.has_more), (None, None));
        assert!(serde_json::from_str::<CompleteResult>(r#"{"completion":{}}"#).is_err());
    }
}
