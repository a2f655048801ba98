use crate::capabilities::ClientCapabilities;
use crate::elicitation::UrlElicitationRequired;
use crate::error::{ErrorObject, code};
use crate::message::message;
use crate::negotiation::versions_in;
use crate::version::{Era, ProtocolVersion};

/// What an error of the peer says, by its code and by the version that gives the code its meaning.
///
/// A code that the version does not know is [`ErrorMeaning::Other`], whatever it means elsewhere: servers
/// use the free ones for purposes of their own.
///
/// # Source
///
/// MCP 2026-07-28, basic: error codes; MCP 2025-11-25, server/resources and client/elicitation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorMeaning {
    /// Mirrored headers do not match the body: list the tools again, write the headers anew, repeat once
    /// (since 2026-07-28).
    HeaderMismatch,
    /// The peer failed inside.
    InternalError,
    /// The parameters do not fit the method; since 2026-07-28 also a resource that does not exist.
    InvalidParams,
    /// The message was not a valid request.
    InvalidRequest,
    /// The peer does not know the method: do not ask for it again on this connection.
    MethodNotFound,
    /// The request needs a capability that it did not declare: repeating it as it is is of no use (since
    /// 2026-07-28).
    MissingClientCapability(Box<MissingClientCapability>),
    /// Anything else.
    Other,
    /// The message was not valid JSON.
    ParseError,
    /// The resource does not exist (until 2025-11-25).
    ResourceNotFound,
    /// The version is not supported: choose another one, repeat once (since 2026-07-28).
    UnsupportedVersion(UnsupportedVersion),
    /// A person must open URLs first, then repeat the request (2025-11-25 only).
    UrlElicitationRequired(UrlElicitationRequired),
}

message! {
    /// What [`code::MISSING_CLIENT_CAPABILITY`] carries (since 2026-07-28).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    MissingClientCapability {
        /// What the request must declare.
        required_capabilities: ClientCapabilities = "requiredCapabilities", OrDefault;
    }
}

message! {
    /// What [`code::UNSUPPORTED_PROTOCOL_VERSION`] carries (since 2026-07-28).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    UnsupportedVersion {
        /// The versions that the server speaks, as received.
        supported: Vec<String> = "supported", OrDefault;
        /// The version that was asked for.
        requested: Option<String> = "requested", Hint;
    }
}

impl ErrorObject {
    /// What the error says where `version` is spoken.
    ///
    /// Details that cannot be read count as empty ones, but an error −32042 without its URLs is
    /// [`ErrorMeaning::Other`]: nobody could act on it.
    #[must_use]
    pub fn meaning(&self, version: ProtocolVersion) -> ErrorMeaning {
        match (self.code, version.era()) {
            (code::INTERNAL_ERROR, _) => ErrorMeaning::InternalError,
            (code::INVALID_PARAMS, _) => ErrorMeaning::InvalidParams,
            (code::INVALID_REQUEST, _) => ErrorMeaning::InvalidRequest,
            (code::METHOD_NOT_FOUND, _) => ErrorMeaning::MethodNotFound,
            (code::PARSE_ERROR, _) => ErrorMeaning::ParseError,
            (code::RESOURCE_NOT_FOUND, Era::Legacy) => ErrorMeaning::ResourceNotFound,
            (code::URL_ELICITATION_REQUIRED, _) if version == ProtocolVersion::V2025_11_25 => {
                UrlElicitationRequired::of(self)
                    .map_or(ErrorMeaning::Other, ErrorMeaning::UrlElicitationRequired)
            }
            (code::HEADER_MISMATCH, Era::Modern) => ErrorMeaning::HeaderMismatch,
            (code::MISSING_CLIENT_CAPABILITY, Era::Modern) => {
                ErrorMeaning::MissingClientCapability(Box::new(self.details()))
            }
            (code::UNSUPPORTED_PROTOCOL_VERSION, Era::Modern) => {
                // A list in which not everything is a version is still one to choose from.
                let supported = versions_in(self).unwrap_or_default();
                ErrorMeaning::UnsupportedVersion(UnsupportedVersion { supported, ..self.details() })
            }
            _ => ErrorMeaning::Other,
        }
    }

    /// Whether the error, as the answer to reading a resource, says that it does not exist.
    ///
    /// Since 2026-07-28 that is told by [`code::INVALID_PARAMS`], before by [`code::RESOURCE_NOT_FOUND`];
    /// servers mix them up, so that both are taken for it.
    #[must_use]
    pub fn is_resource_not_found(&self) -> bool {
        matches!(self.code, code::INVALID_PARAMS | code::RESOURCE_NOT_FOUND)
    }

    fn details<T: serde::de::DeserializeOwned + Default>(&self) -> T {
        self.data.as_ref().and_then(|data| data.decode().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawJson;

    fn meaning(code: i64, data: &str, version: ProtocolVersion) -> ErrorMeaning {
        let mut error = ErrorObject::new(code, "m");
        error.data = Some(RawJson::from_text(data).unwrap());
        error.meaning(version)
    }

    #[test]
    fn a_code_means_something_only_in_its_own_versions() {
        let url = r#"{"elicitations":[{"mode":"url","message":"m","url":"https://a","elicitationId":"e"}]}"#;
        for version in ProtocolVersion::ALL.iter().copied() {
            let is_modern = version == ProtocolVersion::V2026_07_28;
            for (code, data, has_meaning) in [
                (-32700, "null", true),
                (-32600, "null", true),
                (-32601, "null", true),
                (-32602, "null", true),
                (-32603, "null", true),
                (-32002, r#"{"uri":"a:b"}"#, !is_modern),
                (-32042, url, version == ProtocolVersion::V2025_11_25),
                (-32042, "{}", false),
                (-32020, "null", is_modern),
                (-32021, "7", is_modern),
                (-32022, "[]", is_modern),
                (-32000, "null", false),
                (-32001, "null", false),
                (-1, "null", false),
                (7, "null", false),
            ] {
                let is_other = meaning(code, data, version) == ErrorMeaning::Other;
                assert_eq!(!is_other, has_meaning, "{code} in {version}");
            }
        }
    }

    #[test]
    fn details_are_typed() {
        let modern = ProtocolVersion::V2026_07_28;
        let data = r#"{"supported":[7,"2025-11-25"],"requested":"2026-07-28"}"#;
        let ErrorMeaning::UnsupportedVersion(read) = meaning(-32022, data, modern) else {
            panic!("not read")
        };
        assert_eq!(
            (read.supported, read.requested.as_deref()),
            (vec!["2025-11-25".to_owned()], Some("2026-07-28"))
        );
        let data = r#"{"requiredCapabilities":{"sampling":{"tools":{}}}}"#;
        let ErrorMeaning::MissingClientCapability(read) = meaning(-32021, data, modern) else {
            panic!("not read")
        };
        assert!(read.required_capabilities.sampling.unwrap().tools.is_some());
        assert_eq!(meaning(-32021, "7", modern), ErrorMeaning::MissingClientCapability(Box::default()));
    }

    #[test]
    fn a_missing_resource_has_two_codes() {
        for (code, expected) in [(-32002, true), (-32602, true), (-32601, false)] {
            assert_eq!(ErrorObject::new(code, "m").is_resource_not_found(), expected, "{code}");
        }
    }
}
