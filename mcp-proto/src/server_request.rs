use crate::elicitation::Elicit;
use crate::input_required::InputRequest;
use crate::method::Method;
use crate::payload::{DecodeError, Payload, decode};
use crate::request::Request;
use crate::roots::ListRoots;
use crate::sampling::CreateMessage;

/// What a server asks of its client, in the same form for both eras.
///
/// In the legacy era it is a message of its own, in the modern one it travels inside a result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ServerRequest {
    /// To run a model.
    CreateMessage(Box<CreateMessage>),
    /// To ask a person.
    Elicit(Box<Elicit>),
    /// To name the folders that the server may work in.
    ListRoots(ListRoots),
    /// Something that this crate has no type for.
    Other(Method),
}

impl ServerRequest {
    /// Reads a message of the legacy era.
    ///
    /// # Errors
    ///
    /// The parameters do not fit the method: answer with
    /// [`code::INVALID_PARAMS`](crate::code::INVALID_PARAMS).
    pub fn of_message(method: &Method, params: &Payload) -> Result<Self, DecodeError> {
        Self::read(method, params.as_str())
    }

    /// Reads a request that came inside a result.
    ///
    /// # Errors
    ///
    /// The parameters do not fit the method: the call as a whole has failed.
    pub fn of_input(request: &InputRequest) -> Result<Self, DecodeError> {
        Self::read(&request.method, request.params.as_ref().map_or("{}", |params| params.get()))
    }

    /// What is asked.
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            Self::CreateMessage(_) => CreateMessage::METHOD,
            Self::Elicit(_) => Elicit::METHOD,
            Self::ListRoots(_) => ListRoots::METHOD,
            Self::Other(method) => method.clone(),
        }
    }

    fn read(method: &Method, params: &str) -> Result<Self, DecodeError> {
        match method.as_str() {
            "elicitation/create" => decode(params).map(|asked| Self::Elicit(Box::new(asked))),
            "roots/list" => decode(params).map(Self::ListRoots),
            "sampling/createMessage" => decode(params).map(|asked| Self::CreateMessage(Box::new(asked))),
            _ => Ok(Self::Other(method.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawJson;

    #[test]
    fn both_eras_are_read_alike() {
        for (method, params) in [
            ("roots/list", "{}"),
            ("sampling/createMessage", r#"{"messages":[],"maxTokens":1}"#),
            ("elicitation/create", r#"{"message":"m","requestedSchema":{"properties":{}}}"#),
            ("x/y", "[7]"),
        ] {
            let method = Method::from_wire(method);
            let message = ServerRequest::of_message(&method, &Payload::from_checked(params.into())).unwrap();
            let params = RawJson::from_text(params).unwrap();
            let input: InputRequest =
                serde_json::from_str(&format!(r#"{{"method":"{method}","params":{}}}"#, params.get()))
                    .unwrap();
            assert_eq!(message, ServerRequest::of_input(&input).unwrap());
            assert_eq!(message.method(), method);
        }
        let bare: InputRequest = serde_json::from_str(r#"{"method":"roots/list"}"#).unwrap();
        assert_eq!(ServerRequest::of_input(&bare).unwrap(), ServerRequest::ListRoots(ListRoots::default()));
    }

    #[test]
    fn parameters_that_do_not_fit_are_refused() {
        let params = Payload::from_checked("{}".into());
        assert!(ServerRequest::of_message(&Method::SAMPLING_CREATE_MESSAGE, &params).is_err());
        assert!(ServerRequest::of_message(&Method::ELICITATION_CREATE, &params).is_err());
    }
}
