//! Properties of reading and writing envelopes, for any input.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use bytes::Bytes;
use mcp_proto::{
    ErrorObject, Frame, Message, MetaMembers, Method, Payload, RawJson, RequestId, encode_error,
    encode_notification, encode_request, encode_result, parse_frame, sniff_id,
};
use proptest::prelude::*;
use serde_json::Value;

fn any_id() -> impl Strategy<Value = RequestId> {
    prop_oneof![
        any::<i64>().prop_map(RequestId::from),
        ".{0,12}".prop_map(|text| RequestId::from(text.as_str()))
    ]
}

fn any_method() -> impl Strategy<Value = Method> {
    prop_oneof![
        prop::sample::select(Method::KNOWN.to_vec()),
        "[ -~]{0,20}".prop_map(|name| Method::from_wire(&name)),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{0,6}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-z]{1,6}", any_value(), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

fn parse(frame: &Bytes) -> Message {
    match parse_frame(frame) {
        Ok(Frame::Single(message)) => message,
        other => panic!("{other:?}"),
    }
}

/// Texts that are nearly messages, which random bytes never are.
fn nearly_a_message() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\\u0069",
        "\\ud800",
        "\"jsonrpc\"",
        "\"2.0\"",
        "\"id\"",
        "\"method\"",
        "\"params\"",
        "\"result\"",
        "\"error\"",
        "\"code\"",
        "1",
        "-0",
        "1e400",
        "null",
        "true",
        " ",
        "\n",
        "\u{feff}",
        "é",
        r#"{"jsonrpc":"2.0","#,
        r#""id":1,"#,
        r#""result":{}}"#,
        r#""method":"ping"}"#,
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_written_request_reads_as_itself(
        id in any_id(), method in any_method(), params in any_object(), token in prop::option::of(any_id()),
    ) {
        let mut meta = MetaMembers::new();
        if let Some(token) = &token {
            meta = meta.with_progress_token(token).unwrap();
        }
        let frame = encode_request(&id, &method, &params, &meta).unwrap();
        let Message::Request { id: read_id, method: read_method, params: read } = parse(&frame) else {
            panic!("not a request");
        };
        prop_assert_eq!((read_id, read_method), (id, method));
        let mut expected = params;
        if let Some(token) = token {
            expected["_meta"] = serde_json::json!({ "progressToken": token });
        }
        prop_assert_eq!(read.decode::<Value>().unwrap(), expected);
    }

    #[test]
    fn a_written_notification_reads_as_itself(method in any_method(), params in any_object()) {
        let frame = encode_notification(&method, &params, &MetaMembers::new()).unwrap();
        let Message::Notification { method: read_method, params: read } = parse(&frame) else {
            panic!("not a notification");
        };
        prop_assert_eq!(read_method, method);
        prop_assert_eq!(read.decode::<Value>().unwrap(), params);
    }

    #[test]
    fn a_written_answer_reads_as_itself(id in any_id(), result in any_value(), code in any::<i64>(), text in ".{0,20}") {
        let frame = encode_result(&id, &Payload::encode(&result).unwrap());
        let Message::Response { id: read_id, outcome: Ok(read) } = parse(&frame) else { panic!("not a result") };
        prop_assert_eq!(read_id.as_ref(), Some(&id));
        prop_assert_eq!(read.decode::<Value>().unwrap(), result.clone());
        prop_assert_eq!(sniff_id(&frame), Some(id.clone()));

        let mut error = ErrorObject::new(code, text);
        error.data = (!result.is_null()).then(|| RawJson::encode(&result).unwrap());
        let frame = encode_error(&id, &error).unwrap();
        prop_assert_eq!(parse(&frame), Message::Response { id: Some(id), outcome: Err(error) });
    }

    #[test]
    fn neither_blanks_nor_escapes_nor_the_order_of_its_members_change_a_message(
        message in prop::sample::select(vec![
            vec![("jsonrpc", r#""2.0""#), ("id", "4711"), ("result", r#"{"a":[1,"b"]}"#)],
            vec![("jsonrpc", r#""2.0""#), ("id", r#""a""#), ("error", r#"{"code":1,"message":"m"}"#), ("result", "null")],
            vec![("jsonrpc", r#""2.0""#), ("method", r#""notifications/message""#), ("params", r#"{"level":"info"}"#)],
            vec![("jsonrpc", r#""2.0""#), ("method", r#""ping""#), ("id", "-1"), ("more", "[]")],
            vec![("jsonrpc", r#""1.0""#), ("id", "1"), ("result", "{}")],
            vec![("jsonrpc", r#""2.0""#), ("id", "1"), ("id", "1"), ("result", "{}")],
            vec![("jsonrpc", r#""2.0""#), ("jsonrpc", r#""2.0""#), ("id", "1"), ("result", "{}")],
        ]).prop_shuffle(),
        blanks in prop::collection::vec(prop::sample::select(vec!["", "", " ", "\t\n"]), 32),
        escaped in prop::collection::vec(any::<bool>(), 8),
    ) {
        let mut blanks = blanks.into_iter();
        let mut blank = || blanks.next().unwrap();
        let (mut plain, mut odd) = (String::new(), blank().to_owned());
        for (index, (name, value)) in message.iter().enumerate() {
            let comma = if index == 0 { "{" } else { "," };
            plain.push_str(&format!("{comma}\"{name}\":{value}"));
            let name = match (escaped[index], name.as_bytes()) {
                (true, [first, rest @ ..]) => format!("\\u{first:04x}{}", std::str::from_utf8(rest).unwrap()),
                _ => name.to_string(),
            };
            odd.push_str(&[comma, blank(), "\"", &name, "\"", blank(), ":", blank(), value, blank()].concat());
        }
        let read = |text: String| parse_frame(&Bytes::from(text)).map_err(|error| (error.id, error.fault.to_string().len() > 40));
        odd.push('}');
        prop_assert_eq!(read(odd), read(plain + "}"));
    }

    #[test]
    fn a_frame_has_no_line_break_whatever_it_holds(params in any_object(), text in "[\n\r\t\u{2028}a\"\\\\]{0,9}") {
        let pretty = RawJson::from_text(serde_json::to_string_pretty(&params).unwrap()).unwrap();
        let params = serde_json::json!({ "text": text });
        let mut meta = MetaMembers::new();
        meta.push("pretty", &pretty).unwrap();
        let frame = encode_request(&1.into(), &Method::TOOLS_CALL, &params, &meta).unwrap();
        prop_assert!(!frame.contains(&b'\n') && !frame.contains(&b'\r'));
        let Message::Request { params: read, .. } = parse(&frame) else { panic!("not a request") };
        let read: Value = read.decode().unwrap();
        prop_assert_eq!(&read["text"], &params["text"]);
        prop_assert_eq!(&read["_meta"]["pretty"], &pretty.decode::<Value>().unwrap());
    }

    #[test]
    fn an_id_reads_as_itself(id in any_id()) {
        let text = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(serde_json::from_str::<RequestId>(&text).unwrap(), id);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse_frame(&bytes.into());
    }

    #[test]
    fn what_is_nearly_a_message_is_taken_and_kept_as_written(text in nearly_a_message()) {
        let frame = Bytes::from(text.clone());
        match parse_frame(&frame) {
            Ok(Frame::Single(Message::Response { outcome: Ok(payload), .. }
                | Message::Request { params: payload, .. } | Message::Notification { params: payload, .. })) => {
                prop_assert!(payload == Payload::EMPTY || text.contains(payload.as_str()));
                prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(payload.as_str()).is_ok());
            }
            Ok(_) => prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
