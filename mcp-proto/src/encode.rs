use bytes::Bytes;
use memchr::memchr2;
use serde::Serialize;

use crate::error::ErrorObject;
use crate::id::RequestId;
use crate::method::Method;
use crate::payload::{DecodeError, Payload};

/// Members to put into `params._meta`, kept as the text they are written in.
///
/// The members of a session are written once and appended to every request as they are; what
/// differs from call to call is added to a clone.
#[derive(Debug, Clone, Default)]
pub struct MetaMembers(Vec<u8>);

impl MetaMembers {
    /// No members: requests carry no `_meta` at all.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds the member `key`.
    ///
    /// # Errors
    ///
    /// `value` has no JSON form.
    pub fn push<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), DecodeError> {
        let length = self.0.len();
        let mut write = || -> serde_json::Result<()> {
            if length > 0 {
                self.0.push(b',');
            }
            serde_json::to_writer(&mut self.0, key)?;
            self.0.push(b':');
            serde_json::to_writer(&mut self.0, value)
        };
        write().map_err(|error| {
            self.0.truncate(length);
            DecodeError::new(&error)
        })
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
    let mut out = Vec::with_capacity(192 + meta.0.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    write_json(&mut out, id)?;
    out.extend_from_slice(b",\"method\":");
    write_json(&mut out, method.as_str())?;
    out.extend_from_slice(b",\"params\":");
    write_params(&mut out, params, meta)?;
    out.push(b'}');
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
    let mut out = Vec::with_capacity(128 + meta.0.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
    write_json(&mut out, method.as_str())?;
    out.extend_from_slice(b",\"params\":");
    write_params(&mut out, params, meta)?;
    out.push(b'}');
    Ok(finish(out))
}

/// Writes a successful answer to a request of the server.
#[must_use]
pub fn encode_result(id: &RequestId, result: &Payload) -> Bytes {
    let mut out = Vec::with_capacity(48 + result.as_bytes().len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    write_id(&mut out, id);
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result.as_bytes());
    out.push(b'}');
    finish(out)
}

/// Writes a failed answer to a request of the server.
///
/// # Errors
///
/// `error` has no JSON form.
pub fn encode_error(id: &RequestId, error: &ErrorObject) -> Result<Bytes, DecodeError> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    write_id(&mut out, id);
    out.extend_from_slice(b",\"error\":");
    write_json(&mut out, error)?;
    out.push(b'}');
    Ok(finish(out))
}

fn write_id(out: &mut Vec<u8>, id: &RequestId) {
    // Numbers and texts always have a JSON form, and a `Vec` takes whatever is written to it.
    let _ = write_json(out, id);
}

fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), DecodeError> {
    serde_json::to_writer(out, value).map_err(|error| DecodeError::new(&error))
}

/// Writes `params` and splices `_meta` in before its closing brace, so that nothing is written
/// twice and no intermediate tree is built.
fn write_params<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    params: &P,
    meta: &MetaMembers,
) -> Result<(), DecodeError> {
    let start = out.len();
    write_json(out, params)?;
    if out.get(start..) == Some(b"null") {
        out.truncate(start);
        out.extend_from_slice(b"{}");
    }
    if out.get(start) != Some(&b'{') {
        return Err(DecodeError::about("params must be an object"));
    }
    if !meta.is_empty() {
        out.pop();
        if out.len() > start + 1 {
            out.push(b',');
        }
        out.extend_from_slice(b"\"_meta\":{");
        out.extend_from_slice(&meta.0);
        out.extend_from_slice(b"}}");
    }
    Ok(())
}

/// Ends a frame. Raw JSON may hold line breaks between its tokens; in texts they are always escaped,
/// so that a break found anywhere is white space and becomes a blank.
fn finish(mut out: Vec<u8>) -> Bytes {
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
