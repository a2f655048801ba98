use bytes::Bytes;

use crate::error::ErrorObject;
use crate::id::RequestId;
use crate::json::scan::{ScanFault, Text};
use crate::members::{Batch, Id, Members};
use crate::method::Method;
use crate::payload::Payload;
use crate::sniff::sniff_id;

/// One JSON-RPC message, its payloads still undecoded.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Expects no answer.
    Notification {
        /// What it is about.
        method: Method,
        /// Its `params`, `{}` when absent.
        params: Payload,
    },
    /// Expects an answer with the same id.
    Request {
        /// Chosen by the sender.
        id: RequestId,
        /// What to do.
        method: Method,
        /// Its `params`, `{}` when absent.
        params: Payload,
    },
    /// Answers the request with the same id.
    Response {
        /// `None` only for an error about a request whose id could not be read.
        id: Option<RequestId>,
        /// How the request ended.
        outcome: Outcome,
    },
}

/// What an answer holds: the undecoded result, or the peer's error.
pub type Outcome = Result<Payload, ErrorObject>;

/// What one frame holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// An array of messages; only version 2025-03-26 has them. Each entry stands for itself.
    Batch(Vec<Result<Message, EnvelopeError>>),
    /// One message.
    Single(Message),
}

/// A frame is not a JSON-RPC message.
///
/// The sender is at fault. `id` is set where it can be read, so that the call it belongs to can be
/// failed instead of left to its deadline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
#[non_exhaustive]
pub struct EnvelopeError {
    /// The id in the broken frame, where it can be read.
    pub id: Option<RequestId>,
    /// What is wrong.
    pub fault: EnvelopeFault,
}

/// What makes a frame invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeFault {
    /// Not exactly one of method, result and error, or no id where one is needed.
    #[error("the message is neither a request, a notification nor a response")]
    Ambiguous,
    /// A batch with no entry, or with more than 100.
    #[error("a batch must have 1 to 100 entries, this one has {0}")]
    BatchSize(usize),
    /// Not JSON, not UTF-8, a repeated member, or a member of the wrong type.
    #[error("not a JSON-RPC message at line {line}, column {column}")]
    Malformed {
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault, from 1.
        column: usize,
    },
    /// Arrays and objects nested deeper than 127 levels.
    #[error("the message is nested deeper than 127 levels")]
    TooDeep,
    /// The `jsonrpc` member is missing or is not `"2.0"`.
    #[error("the member jsonrpc is missing or is not \"2.0\"")]
    Version,
}

/// Largest number of entries in a batch that is read.
pub(crate) const MAX_BATCH: usize = 100;

/// Reads one frame: one pass over the bytes, payloads stay slices of `frame`.
///
/// A response with a number as its id costs no allocation; a text as id and an unknown method cost one
/// each. A member that is repeated makes the frame invalid.
///
/// # Errors
///
/// The frame is not a JSON-RPC message; the error names the id where it can be read.
///
/// # Source
///
/// JSON-RPC 2.0, sections 4 to 6; MCP 2026-07-28, basic.
pub fn parse_frame(frame: &Bytes) -> Result<Frame, EnvelopeError> {
    let text = Text::check(frame).map_err(|at| {
        let fault = EnvelopeFault::malformed(frame, at);
        EnvelopeError { id: sniff_id(frame), fault }
    })?;
    if !frame.trim_ascii_start().starts_with(b"[") {
        return parse_message(frame, text).map(Frame::Single);
    }
    let batch = Batch::read(text).map_err(|fault| {
        let fault = EnvelopeFault::of(frame, fault);
        EnvelopeError { id: None, fault }
    })?;
    if batch.length == 0 || batch.length > MAX_BATCH {
        return Err(EnvelopeError { id: None, fault: EnvelopeFault::BatchSize(batch.length) });
    }
    let read = |entry: &&[u8]| parse_message(&frame.slice_ref(entry), text.part(entry));
    Ok(Frame::Batch(batch.entries.iter().map(read).collect()))
}

/// Reads one message: the bytes of `frame`, which are `text`.
fn parse_message(frame: &Bytes, text: Text<'_>) -> Result<Message, EnvelopeError> {
    let fail = |fault| EnvelopeError { id: sniff_id(frame), fault };
    let members = Members::read(text).map_err(|fault| fail(EnvelopeFault::of(frame, fault)))?;
    if !members.is_version_2 {
        return Err(fail(EnvelopeFault::Version));
    }
    let payload = |raw: &[u8]| Payload::from_checked(frame.slice_ref(raw));
    let params = |raw: Option<&[u8]>| raw.filter(|raw| *raw != b"null").map_or(Payload::EMPTY, payload);
    // `null` beside the other member of a response is common among sloppy servers and says nothing.
    let (result, error) = match (members.result, members.error) {
        (Some(result), Some(b"null")) => (Some(result), None),
        (Some(b"null"), Some(error)) => (None, Some(error)),
        (result, error) => (result, error.filter(|error| *error != b"null")),
    };
    match (members.method, members.id, result, error) {
        (Some(method), Id::Read(id), None, None) => {
            Ok(Message::Request { id, method, params: params(members.params) })
        }
        (Some(method), Id::Absent, None, None) => {
            Ok(Message::Notification { method, params: params(members.params) })
        }
        (None, Id::Read(id), Some(result), None) => {
            Ok(Message::Response { id: Some(id), outcome: Ok(payload(result)) })
        }
        (None, id, None, Some(error)) => {
            Ok(Message::Response { id: id.read(), outcome: Err(read_error(&payload(error))) })
        }
        _ => Err(fail(EnvelopeFault::Ambiguous)),
    }
}

/// Reads an error object, however odd: a call must end with an error even if that error is malformed.
fn read_error(error: &Payload) -> ErrorObject {
    error.decode().unwrap_or_else(|_| {
        ErrorObject::new(crate::code::INTERNAL_ERROR, "the server sent a malformed error")
    })
}

impl EnvelopeFault {
    fn of(frame: &[u8], fault: ScanFault) -> Self {
        match fault {
            ScanFault::Malformed(at) => Self::malformed(frame, at),
            ScanFault::TooDeep => Self::TooDeep,
        }
    }

    /// `at` bytes from the beginning of `frame`.
    fn malformed(frame: &[u8], at: usize) -> Self {
        let before = frame.get(..at).unwrap_or(frame);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        Self::Malformed { line, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::MAX_DEPTH;

    fn parse(text: &str) -> Result<Message, EnvelopeError> {
        match parse_frame(&Bytes::copy_from_slice(text.as_bytes()))? {
            Frame::Single(message) => Ok(message),
            Frame::Batch(_) => panic!("a batch"),
        }
    }

    #[test]
    fn classifies_each_kind_by_its_members() {
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            Ok(Message::Request { id: 1.into(), method: Method::PING, params: Payload::EMPTY })
        );
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":null}"#),
            Ok(Message::Notification { method: Method::INITIALIZED, params: Payload::EMPTY })
        );
        assert!(matches!(
            parse(r#"{"result":{},"id":"a","jsonrpc":"2.0"}"#),
            Ok(Message::Response { outcome: Ok(_), .. })
        ));
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#),
            Ok(Message::Response { id: None, outcome: Err(_) })
        ));
    }

    #[test]
    fn payloads_share_the_frame() {
        let frame = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{"a":[1,2]}}"#);
        let Ok(Frame::Single(Message::Response { outcome: Ok(result), .. })) = parse_frame(&frame) else {
            panic!("not a response");
        };
        assert_eq!(result.as_str(), r#"{"a":[1,2]}"#);
        assert!(frame.as_ptr_range().contains(&result.as_bytes().as_ptr()));
    }

    #[test]
    fn f104_repeated_members_are_refused_and_name_their_call_if_there_is_one() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":5,"result":1,"result":2}"#, Some(5.into())),
            (r#"{"jsonrpc":"2.0","id":5,"result":1,"res\u0075lt":2}"#, Some(5.into())),
            (r#"{"jsonrpc":"2.0","id":5,"jsonrpc":"2.0","result":1}"#, Some(5.into())),
            (r#"{"jsonrpc":"2.0","id":5,"error":null,"error":{"code":1,"message":""}}"#, Some(5.into())),
            (r#"{"jsonrpc":"2.0","id":5,"id":5,"result":1}"#, Some(5.into())),
            (r#"{"jsonrpc":"2.0","id":5,"id":6,"result":1}"#, None),
            (r#"{"jsonrpc":"2.0","id":5,"method":"ping","method":"ping"}"#, None),
            (r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":{},"params":{}}"#, None),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.id, id, "{text}");
            assert!(matches!(error.fault, EnvelopeFault::Malformed { .. }), "{text}");
        }
        let unknown = parse(r#"{"jsonrpc":"2.0","id":5,"result":1,"more":1,"more":2}"#);
        assert!(matches!(unknown, Ok(Message::Response { outcome: Ok(_), .. })), "{unknown:?}");
    }

    #[test]
    fn f104_a_repeated_member_costs_no_other_entry_of_its_batch() {
        let (good, bad) =
            (r#"{"jsonrpc":"2.0","id":1,"result":1}"#, r#"{"jsonrpc":"2.0","id":2,"result":1,"result":1}"#);
        let Ok(Frame::Batch(entries)) = parse_frame(&format!("[{good},{bad},[{good}],{good}]").into()) else {
            panic!("not a batch");
        };
        let ids: Vec<_> = entries
            .iter()
            .map(|entry| entry.as_ref().map(|_| ()).map_err(|error| error.id.clone()))
            .collect();
        assert_eq!(ids, [Ok(()), Err(Some(2.into())), Err(None), Ok(())]);
    }

    #[test]
    fn f102_a_missing_or_wrong_version_is_refused_and_names_its_call() {
        for version in ["", r#""jsonrpc":"1.0","#, r#""jsonrpc":2.0,"#, r#""jsonrpc":null,"#] {
            let error = parse(&format!(r#"{{{version}"id":5,"result":1}}"#)).unwrap_err();
            assert_eq!((error.id, error.fault), (Some(5.into()), EnvelopeFault::Version), "{version}");
        }
    }

    #[test]
    fn f103_depth_is_limited_also_where_payloads_stay_raw() {
        let nested = |levels: usize| {
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            parse(&format!(r#"{{"jsonrpc":"2.0","id":9,"result":{open}{close}}}"#))
        };
        assert!(nested(MAX_DEPTH - 1).is_ok());
        for levels in [MAX_DEPTH, 10_000, 1_000_000] {
            let error = nested(levels).unwrap_err();
            assert_eq!((error.id, error.fault), (Some(9.into()), EnvelopeFault::TooDeep));
        }
    }

    #[test]
    fn f103_brackets_in_texts_of_any_length_do_not_count() {
        let nested = |text: &str, levels: usize| {
            let open = format!(r#"["{text}","#).repeat(levels);
            parse(&format!(r#"{{"jsonrpc":"2.0","id":9,"result":{open}0{}}}"#, "]".repeat(levels)))
        };
        for length in 0..40 {
            for text in ["[", "{", r#"\""#, r"\\"].map(|part| "x".repeat(length) + part + "[[[[") {
                assert!(nested(&text, MAX_DEPTH - 1).is_ok(), "{text}");
                assert_eq!(nested(&text, MAX_DEPTH).unwrap_err().fault, EnvelopeFault::TooDeep, "{text}");
            }
        }
    }

    #[test]
    fn f103_depth_is_limited_wherever_it_is() {
        for (before, after, id) in [
            ("", "", None),
            (r#"[{"jsonrpc":"2.0","id":9,"result":"#, "}]", None),
            (r#"{"jsonrpc":"2.0","id":9,"method":"ping","params":"#, "}", None),
            (r#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"","data":"#, "}}", Some(9.into())),
            (r#"{"jsonrpc":"2.0","id":9,"result":1,"more":"#, "}", Some(9.into())),
            (r#"{"jsonrpc":"2.0","id":9,"result":["\\\"[","#, "]}", Some(9.into())),
            (r#"{"jsonrpc":"2.0","id":"#, r#","result":1}"#, None),
        ] {
            for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
                let text = format!("{before}{}1{}{after}", open.repeat(1000), close.repeat(1000));
                let error = parse_frame(&text.into()).unwrap_err();
                assert_eq!((error.id, error.fault), (id.clone(), EnvelopeFault::TooDeep), "{before}{open}");
            }
        }
    }

    #[test]
    fn f103_what_only_looks_deep_is_read() {
        let brackets = "[{".repeat(1000);
        let text = format!(r#"{{"jsonrpc":"2.0","id":9,"result":["{brackets}","\\\"{brackets}"]}}"#);
        assert!(matches!(parse(&text), Ok(Message::Response { outcome: Ok(_), .. })));
        let wide = format!(r#"{{"jsonrpc":"2.0","id":9,"result":[{}1]}}"#, "[{}],".repeat(1000));
        assert!(parse(&wide).is_ok());
    }

    #[test]
    fn f103_a_deep_text_that_is_no_frame_breaks_nothing_either() {
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let raw = crate::RawJson::from_text(deep).unwrap();
        assert!(raw.clone().decode::<serde_json::Value>().is_err());
        assert!(raw.decode::<Vec<crate::RawJson>>().is_ok());
        assert_eq!(format!("{raw:?}"), "RawJson(2000000 bytes)");
        assert!(Payload::encode(&raw).is_ok());
    }

    #[test]
    fn f106_a_lone_surrogate_in_an_envelope_is_refused() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":"\ud800","result":1}"#, None),
            (r#"{"jsonrpc":"2.0","id":5,"method":"\ud800"}"#, None),
            (r#"{"jsonrpc":"2.0","id":5,"\ud800":1,"result":1}"#, Some(5.into())),
        ] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error.fault, EnvelopeFault::Malformed { .. }), "{text}");
            assert_eq!(error.id, id, "{text}");
        }
        let error = parse(r#"{"jsonrpc":"2.0","id":5,"error":{"code":7,"message":"\udfff"}}"#);
        assert!(matches!(error, Ok(Message::Response { id: Some(_), outcome: Err(_) })), "{error:?}");
    }

    #[test]
    fn what_is_no_message_of_one_kind_is_refused() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":5}"#, Some(5.into())),
            (r#"{"jsonrpc":"2.0","id":5,"error":null}"#, Some(5.into())),
            (r#"{"jsonrpc":"2.0","id":5,"result":1,"error":{"code":1,"message":""}}"#, Some(5.into())),
            (r#"{"jsonrpc":"2.0","id":5,"method":"ping","result":1}"#, None),
            (r#"{"jsonrpc":"2.0","id":null,"result":1}"#, None),
            (r#"{"jsonrpc":"2.0","result":1}"#, None),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, None),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.id, error.fault), (id, EnvelopeFault::Ambiguous), "{text}");
        }
    }

    #[test]
    fn null_is_a_result_and_says_nothing_beside_the_other_member() {
        let outcome = |text: &str| match parse(text) {
            Ok(Message::Response { id: Some(id), outcome }) if id == 5.into() => outcome,
            other => panic!("{other:?}"),
        };
        assert_eq!(outcome(r#"{"jsonrpc":"2.0","id":5,"result":null}"#).unwrap().as_str(), "null");
        assert_eq!(
            outcome(r#"{"jsonrpc":"2.0","id":5,"result":null,"error":null}"#).unwrap().as_str(),
            "null"
        );
        assert_eq!(outcome(r#"{"jsonrpc":"2.0","id":5,"error":null,"result":7}"#).unwrap().as_str(), "7");
        let error = outcome(r#"{"jsonrpc":"2.0","id":5,"result":null,"error":{"code":7,"message":"x"}}"#);
        assert_eq!(error.unwrap_err(), ErrorObject::new(7, "x"));
    }

    #[test]
    fn a_union_with_every_member_written_is_what_is_not_null_in_it() {
        let answer = r#"{"jsonrpc":"2.0","id":5,"method":null,"params":null,"result":{},"error":null}"#;
        assert!(matches!(parse(answer), Ok(Message::Response { id: Some(_), outcome: Ok(_) })));
        let call = r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":null,"result":null,"error":null}"#;
        assert_eq!(parse(call).unwrap_err(), EnvelopeError { id: None, fault: EnvelopeFault::Ambiguous });
        assert_eq!(parse(r#"{"jsonrpc":"2.0","id":5,"method":7}"#).unwrap_err().id, None);
    }

    #[test]
    fn names_with_escapes_are_the_names_they_mean() {
        let message = parse(r#"{"jsonrp\u0063":"2.0","\u0069d":5,"m\u0065thod":"p\u0069ng"}"#);
        assert_eq!(
            message,
            Ok(Message::Request { id: 5.into(), method: Method::PING, params: Payload::EMPTY })
        );
    }

    #[test]
    fn f022_what_is_not_utf_8_or_not_json_is_refused_and_names_its_call() {
        let broken: [&[u8]; 8] = [
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":\"\xff\"}",
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":1,\"other\":\"\xc3\x28\"}",
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"a\":[\"\xed\xa0\x80\"]}}",
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":\"a\0b\"}",
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":\"a\x1bb\"}",
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":1}\0",
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":1,}",
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":1",
        ];
        for frame in broken {
            let error = parse_frame(&Bytes::from_static(frame)).unwrap_err();
            assert!(matches!(error.fault, EnvelopeFault::Malformed { .. }), "{}", frame.escape_ascii());
            assert_eq!(error.id, Some(5.into()), "{}", frame.escape_ascii());
        }
    }

    #[test]
    fn f098_a_reply_with_an_id_of_another_kind_is_nobodys() {
        for id in ["true", "[]", "{}", "null", "18446744073709551616", "1.5", "1e300", "9007199254740993.0"] {
            let error = parse(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#)).unwrap_err();
            assert_eq!(error.id, None, "{id}");
        }
        let read: [(&str, RequestId); 6] = [
            ("9007199254740993", 9_007_199_254_740_993.into()),
            ("-9223372036854775808", i64::MIN.into()),
            ("\"1\"", "1".into()),
            ("\"\"", "".into()),
            ("1.0", 1.into()),
            ("-0", 0.into()),
        ];
        for (text, expected) in read {
            let message = parse(&format!(r#"{{"jsonrpc":"2.0","id":{text},"result":1}}"#));
            assert!(
                matches!(&message, Ok(Message::Response { id: Some(id), .. }) if *id == expected),
                "{text}: {message:?}"
            );
        }
    }

    #[test]
    fn f120_a_malformed_error_still_ends_its_call() {
        let read = |error: &str| match parse(&format!(r#"{{"jsonrpc":"2.0","id":5,"error":{error}}}"#)) {
            Ok(Message::Response { id: Some(_), outcome: Err(error) }) => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(read("{}"), ErrorObject::new(0, ""));
        assert_eq!(read(r#"{"code":"x","message":7}"#), ErrorObject::new(0, ""));
        assert_eq!(read(r#"{"code":-1,"message":null,"more":[]}"#).code, -1);
        assert_eq!(read(r#"{"code":1,"code":2,"message":"x"}"#), ErrorObject::new(2, "x"));
        for odd in ["7", "\"text\"", "true"] {
            assert_eq!(read(odd).code, crate::code::INTERNAL_ERROR, "{odd}");
        }
        let large = "\\u001b".repeat(2 << 20);
        let shown = read(&format!(r#"{{"code":1,"message":"{large}","data":"{large}"}}"#)).to_string();
        assert!(shown.len() < 8 * 6 * 1024 + 100 && !shown.contains('\u{1b}'), "{} bytes", shown.len());
    }

    #[test]
    fn f100_a_batch_is_read_entry_by_entry_up_to_its_limit() {
        let parse = |text: String| parse_frame(&text.into());
        let entry = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;
        let Ok(Frame::Batch(entries)) = parse(format!(r#" [{entry},{{"id":5,"result":1}},7]"#)) else {
            panic!("not a batch");
        };
        assert_eq!(entries.len(), 3);
        assert!(entries[0].is_ok());
        assert_eq!(entries[1].as_ref().unwrap_err().id, Some(5.into()));
        assert!(entries[2].is_err());
        let sized = |count: usize| parse(format!("[{}]", vec![entry; count].join(",")));
        assert!(matches!(sized(MAX_BATCH), Ok(Frame::Batch(entries)) if entries.len() == MAX_BATCH));
        for count in [0, MAX_BATCH + 1] {
            assert_eq!(sized(count).unwrap_err().fault, EnvelopeFault::BatchSize(count));
        }
    }
}
