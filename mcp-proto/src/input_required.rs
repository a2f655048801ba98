use serde::Serialize;

use crate::entries::Entries;
use crate::message::message;
use crate::method::Method;
use crate::payload::{DecodeError, Payload};
use crate::raw_json::RawJson;
use crate::request::Request;

message! {
    /// A result that asks for input before the request can go on (since 2026-07-28).
    ///
    /// The answer to it is the same request once more, under a new id, with an [`InputAnswers`] made of
    /// this very result.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic/patterns/mrtr: `InputRequiredResult`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    InputRequired {
        /// What is asked, under keys that the server has chosen.
        input_requests: Option<Entries<InputRequest>> = "inputRequests", Optional;
        /// What is to be sent back unchanged; opaque, kept byte for byte.
        request_state: Option<RawJson> = "requestState", Optional;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// One request of a server that travels inside a result (since 2026-07-28).
    ///
    /// [`ServerRequest::of_input`](crate::ServerRequest::of_input) reads it typed.
    #[derive(Debug, Clone, PartialEq, Eq)]
    InputRequest {
        /// What is asked.
        method: Method = "method", Required;
        /// Its parameters, as received.
        params: Option<RawJson> = "params", Optional;
    }
}

/// What the repeat of a request carries in answer to an [`InputRequired`] (since 2026-07-28).
///
/// It belongs to one request alone: state and answers of one must never reach another.
///
/// # Source
///
/// MCP 2026-07-28, basic/patterns/mrtr: `InputResponseRequestParams`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputAnswers {
    #[serde(skip_serializing_if = "Option::is_none")]
    input_responses: Option<Entries<RawJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<RawJson>,
}

impl InputRequired {
    /// Reads a result whose type is `input_required`.
    ///
    /// # Errors
    ///
    /// The result is not of that shape, or says neither what is asked nor which state to send back.
    pub fn read(result: &Payload) -> Result<Self, DecodeError> {
        let read: Self = result.decode()?;
        if read.input_requests.is_none() && read.request_state.is_none() {
            return Err(DecodeError::about("the result asks for input and says not which"));
        }
        Ok(read)
    }

    /// Whether nothing is asked, so that the request may be repeated after a short wait.
    #[must_use]
    pub fn asks_nothing(&self) -> bool {
        self.input_requests.as_ref().is_none_or(Entries::is_empty)
    }
}

impl InputAnswers {
    /// Begins the answer to `required`, with the state it brought; none if it brought none.
    #[must_use]
    pub fn to(required: &InputRequired) -> Self {
        let input_responses = required.input_requests.as_ref().map(|_| Entries::new());
        Self { input_responses, request_state: required.request_state.clone() }
    }

    /// Answers the request under `key`.
    ///
    /// # Errors
    ///
    /// `answer` has no JSON form.
    pub fn answer<R: Request>(&mut self, key: &str, answer: &R::Result) -> Result<(), DecodeError>
    where
        R::Result: Serialize,
    {
        self.answer_raw(key, RawJson::encode(answer)?);
        Ok(())
    }

    /// Answers the request under `key` with a result that is already written.
    pub fn answer_raw(&mut self, key: &str, answer: RawJson) {
        self.input_responses.get_or_insert_default().insert(key, answer);
    }

    /// Gives back the state that the server has had the call keep, in the place of any other.
    pub fn give_state(&mut self, state: RawJson) {
        self.request_state = Some(state);
    }

    /// The answers alone, by the keys of their requests.
    #[must_use]
    pub fn into_responses(self) -> Entries<RawJson> {
        self.input_responses.unwrap_or_default()
    }

    /// The requests of `required` that have no answer yet, by their keys.
    #[must_use]
    pub fn lacks<'a>(&self, required: &'a InputRequired) -> Vec<&'a str> {
        let keys = required.input_requests.iter().flat_map(|requests| requests.iter().map(|(key, _)| key));
        keys.filter(|key| self.input_responses.as_ref().and_then(|given| given.get(key)).is_none()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CallTool, Elicit, ElicitResult, ListRoots, ListRootsResult, MetaMembers, encode_request, encode_round,
    };

    fn payload(text: &'static str) -> Payload {
        Payload::from_checked(text.into())
    }

    const ASKED: &str = r#"{"resultType":"input_required","inputRequests":{
        "z":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}},
        "a":{"method":"roots/list"},"q":{"method":"x/y","params":[1.0],"extra":null}},"requestState":"\u0041\ud83e\udd80"}"#;

    #[test]
    fn what_is_asked_keeps_its_order_and_its_unknown_requests() {
        let required = InputRequired::read(&payload(ASKED)).unwrap();
        let requests = required.input_requests.as_ref().unwrap();
        let methods: Vec<String> =
            requests.iter().map(|(key, asked)| format!("{key} {}", asked.method)).collect();
        assert_eq!(methods, ["z elicitation/create", "a roots/list", "q x/y"]);
        let unknown = serde_json::to_string(requests.get("q").unwrap()).unwrap();
        assert_eq!(unknown, r#"{"method":"x/y","params":[1.0],"extra":null}"#);
    }

    #[test]
    fn the_repeat_carries_every_answer_and_the_state_byte_for_byte() {
        let required = InputRequired::read(&payload(ASKED)).unwrap();
        let mut answers = InputAnswers::to(&required);
        assert_eq!(answers.lacks(&required), ["z", "a", "q"]);
        answers.answer::<Elicit>("z", &ElicitResult::decline()).unwrap();
        answers.answer::<ListRoots>("a", &ListRootsResult::default()).unwrap();
        assert_eq!(answers.lacks(&required), ["q"]);
        let call = CallTool::new("t").with_arguments(RawJson::from_text("{ }").unwrap());
        let mut meta = MetaMembers::new().with_progress();
        meta.push("k", &1).unwrap();
        let first = encode_request(&1.into(), &CallTool::METHOD, &call, &meta).unwrap();
        let frame = encode_round(&first, &1.into(), &CallTool::METHOD, &2.into(), &answers).unwrap();
        assert_eq!(
            std::str::from_utf8(&frame).unwrap(),
            concat!(
                r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"#,
                r#""inputResponses":{"z":{"action":"decline"},"a":{"roots":[]}},"#,
                r#""requestState":"\u0041\ud83e\udd80","#,
                r#""name":"t","arguments":{ },"_meta":{"k":1,"progressToken":2}}}"#
            )
        );
    }

    #[test]
    fn f118_a_result_that_asks_for_nothing_at_all_is_invalid() {
        for text in ["{}", r#"{"inputRequests":null,"requestState":null}"#, r#"{"inputRequests":[]}"#, "7"] {
            assert!(InputRequired::read(&payload(text)).is_err(), "{text}");
        }
        let waiting = InputRequired::read(&payload(r#"{"requestState":""}"#)).unwrap();
        assert!(waiting.asks_nothing());
        let empty = InputRequired::read(&payload(r#"{"inputRequests":{}}"#)).unwrap();
        assert!(empty.asks_nothing());
    }

    #[test]
    fn only_what_a_result_brought_is_sent_back() {
        let write = |required: &'static str| {
            let answers = InputAnswers::to(&InputRequired::read(&payload(required)).unwrap());
            serde_json::to_string(&answers).unwrap()
        };
        assert_eq!(write(r#"{"requestState":{"odd":1}}"#), r#"{"requestState":{"odd":1}}"#);
        assert_eq!(write(r#"{"inputRequests":{}}"#), r#"{"inputResponses":{}}"#);
    }
}
