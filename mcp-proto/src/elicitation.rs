use serde::{Deserialize, Serialize};

use crate::entries::Entries;
use crate::error::ErrorObject;
use crate::form::{FieldValue, FormSchema};
use crate::message::message;
use crate::method::Method;
use crate::open_enum::open_enum;
use crate::raw_json::RawJson;
use crate::request::{Notification, Request};
use crate::tasks::TaskRequest;
use crate::version::ProtocolVersion;
use crate::versioned::{NotInVersion, Versioned};

/// Asks a person, through the client (since 2025-06-18).
///
/// Since 2026-07-28 it travels in an [`InputRequired`](crate::InputRequired).
///
/// # Source
///
/// MCP 2025-11-25, client/elicitation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Elicit {
    /// To fill in a form; also what an absent mode means.
    Form(ElicitForm),
    /// In a mode that this crate does not know, as received: refuse it.
    Other(RawJson),
    /// To open a URL (since 2025-11-25).
    Url(ElicitUrl),
}

message! {
    /// Asks a person to fill in a form.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ElicitForm {
        /// `form` or absent.
        mode: Option<ElicitMode> = "mode", Optional, since V2025_11_25;
        /// What the person is told; untrusted.
        message: String = "message", Required;
        /// The fields of the form.
        requested_schema: FormSchema = "requestedSchema", Required;
        /// Asks for a task instead of an answer.
        task: Option<TaskRequest> = "task", Optional, only V2025_11_25;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// Asks a person to open a URL (since 2025-11-25).
    ///
    /// Accepting it means that the person agrees to open it; what they do there stays between them and
    /// the server.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ElicitUrl {
        /// `url`.
        mode: Option<ElicitMode> = "mode", Optional;
        /// What the person is told; untrusted.
        message: String = "message", Required;
        /// What is to be opened; untrusted, never opened without consent.
        url: String = "url", Required;
        /// Names the elicitation in [`ElicitationComplete`].
        elicitation_id: Option<String> = "elicitationId", Optional, only V2025_11_25;
        /// Asks for a task instead of an answer.
        task: Option<TaskRequest> = "task", Optional, only V2025_11_25;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

open_enum! {
    /// How a person is asked.
    ElicitMode {
        /// With a form.
        Form = "form",
        /// With a URL to open.
        Url = "url",
    }
}

message! {
    /// The answer to [`Elicit`].
    #[derive(Debug, Clone, PartialEq, Eq)]
    ElicitResult {
        /// What the person has done.
        action: ElicitAction = "action", Required;
        /// What the person has filled in; only with [`ElicitAction::Accept`], and never for a URL.
        content: Option<Entries<FieldValue>> = "content", Optional;
        /// Metadata.
        meta: Option<RawJson> = "_meta", Optional, until V2025_11_25;
    }
}

open_enum! {
    /// What a person has done with an [`Elicit`].
    ElicitAction {
        /// Agreed.
        Accept = "accept",
        /// Went away without a decision.
        Cancel = "cancel",
        /// Refused.
        Decline = "decline",
    }
}

message! {
    /// A person has finished what a URL asked of them (2025-11-25 only).
    ///
    /// One about an elicitation that is unknown or over is ignored.
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, client/elicitation.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ElicitationComplete {
        /// Which elicitation, by the id of its [`ElicitUrl`].
        elicitation_id: String = "elicitationId", Required;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// What the error [`code::URL_ELICITATION_REQUIRED`](crate::code::URL_ELICITATION_REQUIRED) carries
    /// (2025-11-25 only): URLs that a person must open before the request can succeed.
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, client/elicitation: `URLElicitationRequiredError`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    UrlElicitationRequired {
        /// What to open.
        elicitations: Vec<ElicitUrl> = "elicitations", Required;
    }
}

impl Elicit {
    /// What the person is told; `None` when the mode is unknown.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Form(form) => Some(&form.message),
            Self::Other(_) => None,
            Self::Url(url) => Some(&url.message),
        }
    }
}

impl ElicitResult {
    /// The person agrees, and has filled in `content`.
    #[must_use]
    pub fn accept(content: Entries<FieldValue>) -> Self {
        Self { content: Some(content), ..Self::of(ElicitAction::Accept) }
    }

    /// The person agrees to open the URL.
    #[must_use]
    pub fn accept_url() -> Self {
        Self::of(ElicitAction::Accept)
    }

    /// The person went away without a decision.
    #[must_use]
    pub fn cancel() -> Self {
        Self::of(ElicitAction::Cancel)
    }

    /// The person refuses.
    #[must_use]
    pub fn decline() -> Self {
        Self::of(ElicitAction::Decline)
    }

    fn of(action: ElicitAction) -> Self {
        Self { action, content: None, meta: None, other: crate::OtherMembers::default() }
    }
}

impl UrlElicitationRequired {
    /// Reads the details of `error`; `None` when it is another error or its details are not readable.
    #[must_use]
    pub fn of(error: &ErrorObject) -> Option<Self> {
        let data = error.data.as_ref().filter(|_| error.code == crate::code::URL_ELICITATION_REQUIRED)?;
        data.decode().ok()
    }
}

impl Request for Elicit {
    const METHOD: Method = Method::ELICITATION_CREATE;
    type Result = ElicitResult;
}

impl Notification for ElicitationComplete {
    const METHOD: Method = Method::ELICITATION_COMPLETE;
}

impl Versioned for Elicit {
    fn fits(&self, version: ProtocolVersion) -> bool {
        match self {
            Self::Form(form) => form.fits(version),
            Self::Other(_) => true,
            Self::Url(url) => version >= ProtocolVersion::V2025_11_25 && url.fits(version),
        }
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        match self {
            Self::Form(form) => form.fit(version),
            Self::Other(_) => Ok(()),
            Self::Url(_) if version < ProtocolVersion::V2025_11_25 => {
                Err(NotInVersion { what: "a request to open a URL", version })
            }
            Self::Url(url) => url.fit(version),
        }
    }
}

impl Serialize for Elicit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Form(form) => form.serialize(serializer),
            Self::Other(raw) => raw.serialize(serializer),
            Self::Url(url) => url.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Elicit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Mode {
            mode: Option<ElicitMode>,
        }
        let raw = RawJson::deserialize(deserializer)?;
        let read = match raw.decode::<Mode>().map(|read| read.mode) {
            Ok(None | Some(ElicitMode::Form)) => raw.decode().map(Self::Form),
            Ok(Some(ElicitMode::Url)) => raw.decode().map(Self::Url),
            Ok(Some(ElicitMode::Other(_))) => Ok(Self::Other(raw)),
            Err(error) => Err(error),
        };
        read.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::for_version;

    fn read(text: &str) -> Elicit {
        let read: Elicit = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        read
    }

    #[test]
    fn an_absent_mode_means_a_form() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"boolean"}}}"#;
        for mode in ["", r#""mode":"form","#] {
            let asked = read(&format!(r#"{{{mode}"message":"m","requestedSchema":{schema}}}"#));
            assert!(matches!(&asked, Elicit::Form(form) if form.requested_schema.properties.len() == 1));
            assert_eq!(asked.message(), Some("m"));
        }
    }

    #[test]
    fn a_url_is_told_from_a_form_with_and_without_its_id() {
        for id in ["", r#","elicitationId":"e""#] {
            let asked = read(&format!(r#"{{"mode":"url","message":"m","url":"https://a"{id}}}"#));
            assert!(matches!(asked, Elicit::Url(url) if url.elicitation_id.is_some() != id.is_empty()));
        }
    }

    #[test]
    fn an_unknown_mode_is_kept_and_a_broken_form_is_refused() {
        assert!(matches!(read(r#"{"mode":"voice","x":1.50}"#), Elicit::Other(_)));
        for broken in ["7", "{}", r#"{"message":"m"}"#, r#"{"mode":"url","message":"m"}"#, r#"{"mode":7}"#] {
            assert!(serde_json::from_str::<Elicit>(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn answers_are_written_as_the_specification_has_them() {
        let content = Entries::from_iter([
            ("a".to_owned(), FieldValue::Text("x".to_owned())),
            ("b".to_owned(), FieldValue::Boolean(true)),
            ("c".to_owned(), FieldValue::Number(7.into())),
            ("d".to_owned(), FieldValue::Many(vec!["p".to_owned()])),
        ]);
        for (result, text) in [
            (
                ElicitResult::accept(content),
                r#"{"action":"accept","content":{"a":"x","b":true,"c":7,"d":["p"]}}"#,
            ),
            (ElicitResult::accept_url(), r#"{"action":"accept"}"#),
            (ElicitResult::cancel(), r#"{"action":"cancel"}"#),
            (ElicitResult::decline(), r#"{"action":"decline"}"#),
        ] {
            assert_eq!(serde_json::to_string(&result).unwrap(), text);
            assert_eq!(serde_json::from_str::<ElicitResult>(text).unwrap(), result);
        }
        let odd = r#"{"action":"shrug","content":{"a":null,"b":{"c":1.0}}}"#;
        let read: ElicitResult = serde_json::from_str(odd).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), odd);
    }

    #[test]
    fn what_an_older_version_cannot_say_is_left_out_or_refused() {
        let asked = read(r#"{"mode":"url","message":"m","url":"https://a","elicitationId":"e"}"#);
        assert!(for_version(&asked, ProtocolVersion::V2025_06_18).is_err());
        assert!(
            matches!(&*for_version(&asked, ProtocolVersion::V2025_11_25).unwrap(), fitted if *fitted == asked)
        );
        let fitted = for_version(&asked, ProtocolVersion::V2026_07_28).unwrap();
        assert_eq!(
            serde_json::to_string(&*fitted).unwrap(),
            r#"{"mode":"url","message":"m","url":"https://a"}"#
        );
        let mut answer =
            ElicitResult::accept(Entries::from_iter([("d".to_owned(), FieldValue::Many(vec![]))]));
        assert!(for_version(&answer, ProtocolVersion::V2025_06_18).is_err());
        answer.meta = Some(RawJson::empty_object());
        assert!(for_version(&answer, ProtocolVersion::V2025_11_25).unwrap().meta.is_some());
        assert!(for_version(&answer, ProtocolVersion::V2026_07_28).unwrap().meta.is_none());
    }

    #[test]
    fn the_urls_of_an_error_are_read_from_that_error_alone() {
        let data = r#"{"elicitations":[{"mode":"url","elicitationId":"e","message":"m","url":"https://a"}]}"#;
        let mut error = ErrorObject::new(-32042, "open it");
        assert_eq!(UrlElicitationRequired::of(&error), None);
        error.data = Some(RawJson::from_text(data).unwrap());
        let required = UrlElicitationRequired::of(&error).unwrap();
        assert_eq!(required.elicitations[0].elicitation_id.as_deref(), Some("e"));
        error.code = -32043;
        assert_eq!(UrlElicitationRequired::of(&error), None);
    }

    #[test]
    fn the_end_of_an_elicitation_names_it() {
        let read: ElicitationComplete = serde_json::from_str(r#"{"elicitationId":"e"}"#).unwrap();
        assert_eq!(read.elicitation_id, "e");
        assert!(serde_json::from_str::<ElicitationComplete>("{}").is_err());
    }
}
