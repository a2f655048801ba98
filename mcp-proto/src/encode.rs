use bytes::Bytes;
use memchr::memchr2;
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::entries::Entries;
use crate::error::ErrorObject;
use crate::id::RequestId;
use crate::input_required::InputAnswers;
use crate::json::plain::has_controls;
use crate::json::scratch::Scratch;
use crate::json::writer::write_json;
use crate::meta_key;
use crate::method::Method;
use crate::payload::{DecodeError, Payload};

/// Members to put into `params._meta`, kept as the text they are written in.
///
/// The members of a session are written once and appended to every request as they are; what
/// differs from call to call is added to a clone, but for the progress token, which is the id.
#[derive(Debug, Clone, Default)]
pub struct MetaMembers {
    text: String,
    asks_progress: bool,
}

impl MetaMembers {
    /// No members: requests carry no `_meta` at all.
    #[must_use]
    pub const fn new() -> Self {
        Self { text: String::new(), asks_progress: false }
    }

    /// Asks for progress too: each request carries its own id as `progressToken`, the last member.
    #[must_use]
    pub fn with_progress(mut self) -> Self {
        self.asks_progress = true;
        self
    }

    /// Adds the member `key`.
    ///
    /// # Errors
    ///
    /// `value` has no JSON form.
    pub fn push<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), DecodeError> {
        let length = self.text.len();
        let mut write = || {
            if length > 0 {
                self.text.push(',');
            }
            write_json(&mut self.text, key)?;
            self.text.push(':');
            write_json(&mut self.text, value)
        };
        write().inspect_err(|_| self.text.truncate(length))
    }

    /// The names of all members, that of the progress token among them.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let text = ["{", self.text.as_str(), "}"].concat();
        let members: Entries<IgnoredAny> = serde_json::from_str(&text).unwrap_or_default();
        let token = self.asks_progress.then(|| meta_key::PROGRESS_TOKEN.to_owned());
        members.into_iter().map(|(name, _)| name).chain(token).collect()
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.asks_progress
    }
}

/// Writes a request as one frame without any line break.
///
/// `params` must serialise to an object (or to `null`, which is written as an empty object), must
/// not have a `_meta` member of its own, and gets `meta` as its `_meta`.
///
/// # Errors
///
/// `params` has no JSON form or is not an object.
pub fn encode_request<P: Serialize + ?Sized>(
    id: &RequestId,
    method: &Method,
    params: &P,
    meta: &MetaMembers,
) -> Result<Bytes, DecodeError> {
    let mut out = Scratch::take();
    write_head(&mut out, id, method)?;
    let token = if meta.asks_progress { Some(id) } else { None };
    write_params(&mut out, params, meta, token)?;
    out.push('}');
    Ok(finish(out))
}

/// Writes a request once more, under another id and with the answers to what the server asked for.
///
/// `first` is the frame that [`encode_request`] has written for `first_id` and `method`, with metadata
/// that [asks for progress](MetaMembers::with_progress); its parameters are sent as they are there. They
/// must have no members `inputResponses` and `requestState`.
///
/// # Errors
///
/// `first` is not such a frame, or an answer has no JSON form.
///
/// # Source
///
/// MCP 2026-07-28, basic/patterns/mrtr.
pub fn encode_round(
    first: &[u8],
    first_id: &RequestId,
    method: &Method,
    id: &RequestId,
    answers: &InputAnswers,
) -> Result<Bytes, DecodeError> {
    let mut head = String::with_capacity(96);
    write_head(&mut head, first_id, method)?;
    head.push('{');
    let mut token = String::with_capacity(40);
    write_token(&mut token, first_id)?;
    token.push_str("}}}");
    let params = first.strip_prefix(head.as_bytes()).and_then(|params| params.strip_suffix(token.as_bytes()));
    let params = params.and_then(|params| std::str::from_utf8(params).ok());
    let params =
        params.ok_or_else(|| DecodeError::about("the frame is not the first round of the request"))?;

    let mut out = Scratch::take();
    write_head(&mut out, id, method)?;
    write_json(&mut out, answers)?;
    // What follows goes into the object that was just written.
    out.pop();
    if !out.ends_with('{') {
        out.push(',');
    }
    out.push_str(params);
    write_token(&mut out, id)?;
    out.push_str("}}}");
    Ok(finish(out))
}

/// Writes a notification as one frame without any line break.
///
/// # Errors
///
/// As for [`encode_request`].
pub fn encode_notification<P: Serialize + ?Sized>(
    method: &Method,
    params: &P,
    meta: &MetaMembers,
) -> Result<Bytes, DecodeError> {
    let mut out = Scratch::take();
    out.push_str("{\"jsonrpc\":\"2.0\",\"method\":");
    write_json(&mut out, method.as_str())?;
    out.push_str(",\"params\":");
    write_params(&mut out, params, meta, None)?;
    out.push('}');
    Ok(finish(out))
}

/// Writes a successful answer to a request of the server.
#[must_use]
pub fn encode_result(id: &RequestId, result: &Payload) -> Bytes {
    let mut out = Scratch::take();
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    write_id(&mut out, id);
    out.push_str(",\"result\":");
    out.push_str(result.as_str());
    out.push('}');
    finish(out)
}

/// Writes a failed answer to a request of the server.
///
/// # Errors
///
/// `error` has no JSON form.
pub fn encode_error(id: &RequestId, error: &ErrorObject) -> Result<Bytes, DecodeError> {
    let mut out = Scratch::take();
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    write_id(&mut out, id);
    out.push_str(",\"error\":");
    write_json(&mut out, error)?;
    out.push('}');
    Ok(finish(out))
}

/// Writes a request up to its parameters.
fn write_head(out: &mut String, id: &RequestId, method: &Method) -> Result<(), DecodeError> {
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    write_json(out, id)?;
    out.push_str(",\"method\":");
    write_json(out, method.as_str())?;
    out.push_str(",\"params\":");
    Ok(())
}

fn write_token(out: &mut String, id: &RequestId) -> Result<(), DecodeError> {
    out.push_str("\"progressToken\":");
    write_json(out, id)
}

fn write_id(out: &mut String, id: &RequestId) {
    // Numbers and texts always have a JSON form, and a `String` takes whatever is written to it.
    let _ = write_json(out, id);
}

/// Writes `params` and splices `_meta` in before its closing brace, so that nothing is written
/// twice and no intermediate tree is built.
fn write_params<P: Serialize + ?Sized>(
    out: &mut String,
    params: &P,
    meta: &MetaMembers,
    token: Option<&RequestId>,
) -> Result<(), DecodeError> {
    let start = out.len();
    write_json(out, params)?;
    if out.get(start..) == Some("null") {
        out.truncate(start);
        out.push_str("{}");
    }
    if !out.get(start..).is_some_and(|params| params.starts_with('{')) {
        return Err(DecodeError::about("params must be an object"));
    }
    if !meta.text.is_empty() || token.is_some() {
        out.pop();
        // Raw JSON may have blanks before its brace, and nothing but blanks inside.
        let written = out.trim_ascii_end().len();
        out.truncate(written);
        if written > start + 1 {
            out.push(',');
        }
        out.push_str("\"_meta\":{");
        out.push_str(&meta.text);
        if let Some(id) = token {
            if !meta.text.is_empty() {
                out.push(',');
            }
            write_token(out, id)?;
        }
        out.push_str("}}");
    }
    Ok(())
}

/// Ends a frame. Raw JSON may hold line breaks between its tokens; in texts they are always escaped,
/// so that a break found anywhere is white space and becomes a blank.
fn finish(out: Scratch) -> Bytes {
    if !has_controls(out.as_bytes()) {
        return out.into_bytes();
    }
    let mut out = out.as_bytes().to_vec();
    let mut searched = 0;
    while let Some(rest) = out.get_mut(searched..)
        && let Some(found) = memchr2(b'\n', b'\r', rest)
        && let Some(byte) = rest.get_mut(found)
    {
        *byte = b' ';
        searched += found + 1;
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{CallTool, RawJson};

    fn text(frame: Bytes) -> String {
        String::from_utf8(frame.to_vec()).unwrap()
    }

    #[test]
    fn meta_is_spliced_into_params() {
        let mut meta = MetaMembers::new();
        meta.push("progressToken", &7).unwrap();
        let id = RequestId::from(7);
        let full = encode_request(&id, &Method::TOOLS_CALL, &json!({"name": "a"}), &meta).unwrap();
        assert_eq!(
            text(full),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":7}}}"#
        );
        let empty = encode_request(&id, &Method::PING, &(), &meta).unwrap();
        assert_eq!(
            text(empty),
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":{"progressToken":7}}}"#
        );
    }

    #[test]
    fn a_progress_token_is_the_id_and_stands_last() {
        let mut meta = MetaMembers::new().with_progress();
        let written = |meta: &MetaMembers, params: &serde_json::Value| {
            text(encode_request(&"a\"b".into(), &Method::PING, params, meta).unwrap())
        };
        let head = r#"{"jsonrpc":"2.0","id":"a\"b","method":"ping","params":"#;
        assert_eq!(written(&meta, &json!({})), format!(r#"{head}{{"_meta":{{"progressToken":"a\"b"}}}}}}"#));
        meta.push("k", &1).unwrap();
        let expected = format!(r#"{head}{{"x":2,"_meta":{{"k":1,"progressToken":"a\"b"}}}}}}"#);
        assert_eq!(written(&meta, &json!({"x": 2})), expected);
        let notification =
            encode_notification(&Method::INITIALIZED, &(), &MetaMembers::new().with_progress());
        assert!(!text(notification.unwrap()).contains("progressToken"), "nobody answers a notification");
    }

    #[test]
    fn a_further_round_has_a_new_id_the_old_parameters_and_the_answers() {
        let mut meta = MetaMembers::new().with_progress();
        meta.push("k", &json!({"progressToken": 7})).unwrap();
        let method = Method::TOOLS_CALL;
        let call = CallTool::new("t")
            .with_arguments(RawJson::from_text(r#"{ "a":1.50,"b":{"progressToken":7}}"#).unwrap());
        let first = encode_request(&7.into(), &method, &call, &meta).unwrap();
        let mut answers = InputAnswers::default();
        answers.answer_raw("q", RawJson::from_text("{\"x\":\n1}").unwrap());
        let round = |answers| text(encode_round(&first, &7.into(), &method, &"8".into(), answers).unwrap());
        let rest = concat!(
            r#""name":"t","arguments":{ "a":1.50,"b":{"progressToken":7}},"#,
            r#""_meta":{"k":{"progressToken":7},"progressToken":"8"}}}"#
        );
        let head = r#"{"jsonrpc":"2.0","id":"8","method":"tools/call","params":{"#;
        assert_eq!(round(&answers), format!(r#"{head}"inputResponses":{{"q":{{"x": 1}}}},{rest}"#));
        assert_eq!(round(&InputAnswers::default()), format!("{head}{rest}"));
    }

    #[test]
    fn a_frame_of_another_request_has_no_further_round() {
        let meta = MetaMembers::new().with_progress();
        let round = |meta, id: i64, method: Method| {
            let first = encode_request(&id.into(), &method, &json!({"name": "a"}), meta).unwrap();
            encode_round(&first, &7.into(), &Method::TOOLS_CALL, &8.into(), &InputAnswers::default())
        };
        assert!(round(&meta, 7, Method::TOOLS_CALL).is_ok());
        assert!(round(&meta, 9, Method::TOOLS_CALL).is_err());
        assert!(round(&meta, 7, Method::TOOLS_LIST).is_err());
        assert!(round(&MetaMembers::new(), 7, Method::TOOLS_CALL).is_err());
    }

    #[test]
    fn meta_is_spliced_into_raw_params_whatever_blanks_they_have() {
        let mut meta = MetaMembers::new();
        meta.push("a", &1).unwrap();
        for (params, expected) in [
            ("{ }", r#"{"_meta":{"a":1}}"#),
            ("{\r\n}", r#"{"_meta":{"a":1}}"#),
            ("{ \"b\" : 2 }", r#"{ "b" : 2,"_meta":{"a":1}}"#),
            (r#"{"b":" "}"#, r#"{"b":" ","_meta":{"a":1}}"#),
        ] {
            let params = RawJson::from_text(params).unwrap();
            let frame = encode_notification(&Method::INITIALIZED, &params, &meta).unwrap();
            let start = r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":"#;
            assert_eq!(text(frame), format!("{start}{expected}}}"));
        }
    }

    #[test]
    fn params_that_are_no_object_are_refused() {
        let refused = encode_request(&1.into(), &Method::PING, &[1, 2], &MetaMembers::new());
        assert!(refused.is_err());
    }

    #[test]
    fn a_frame_has_no_line_break_even_when_its_raw_parts_have() {
        let call =
            CallTool::new("a\nb").with_arguments(RawJson::from_text("{\n\t\"a\":\r\n\"\\n\" }").unwrap());
        let frame = encode_request(&1.into(), &Method::TOOLS_CALL, &call, &MetaMembers::new()).unwrap();
        assert_eq!(
            text(frame),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\\nb\",\
             \"arguments\":{ \t\"a\":  \"\\n\" }}}"
        );
        let result = Payload::encode(&RawJson::from_text("[1,\n2]").unwrap()).unwrap();
        assert_eq!(text(encode_result(&1.into(), &result)), r#"{"jsonrpc":"2.0","id":1,"result":[1, 2]}"#);
    }

    #[test]
    fn answers_to_the_server() {
        let error = ErrorObject::new(crate::code::METHOD_NOT_FOUND, "no \"x\"");
        assert_eq!(
            text(encode_error(&"a".into(), &error).unwrap()),
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"no \"x\""}}"#
        );
        assert_eq!(
            text(encode_result(&7.into(), &Payload::EMPTY)),
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#
        );
    }

    #[test]
    fn a_member_that_has_no_json_form_leaves_no_trace() {
        let mut meta = MetaMembers::new();
        assert!(meta.push("bad", &std::collections::BTreeMap::from([(vec![1], 2)])).is_err());
        assert!(meta.is_empty());
        meta.push("a", &1).unwrap();
        assert!(meta.push("bad", &std::collections::BTreeMap::from([(vec![1], 2)])).is_err());
        let frame = encode_notification(&Method::INITIALIZED, &(), &meta).unwrap();
        assert_eq!(
            text(frame),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{"_meta":{"a":1}}}"#
        );
    }
}
