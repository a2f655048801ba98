//! Reads the free words of a command line: `SERVER NAME key=value …`.

use std::collections::BTreeMap;

use mcp_proto::{DecodeError, RawJson};
use serde_json::Value;

use crate::problem::Problem;

/// What is called or read, and on which server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words<'a> {
    /// The server's name; `None` if an ad-hoc server takes its place.
    pub(crate) server: Option<&'a str>,
    /// Tool, address or prompt.
    pub(crate) name: &'a str,
    /// What follows.
    pub(crate) arguments: &'a [String],
}

impl<'a> Words<'a> {
    /// Splits the words; `what` names the second one in messages.
    pub(crate) fn split(words: &'a [String], has_ad_hoc: bool, what: &str) -> Result<Self, Problem> {
        match (words, has_ad_hoc) {
            ([name, arguments @ ..], true) => Ok(Self { server: None, name, arguments }),
            ([server, name, arguments @ ..], false) => Ok(Self { server: Some(server), name, arguments }),
            (_, true) => Err(Problem::usage(format!("give {what} before the --"))),
            (_, false) => Err(Problem::usage(format!("give SERVER and {what}, or {what} and -- COMMAND"))),
        }
    }

    /// For what takes no arguments.
    pub(crate) fn without_arguments(self) -> Result<Self, Problem> {
        match self.arguments {
            [] => Ok(self),
            [extra, ..] => Err(Problem::usage(format!("{extra:?} is one word too many"))),
        }
    }
}

/// Tool arguments: one JSON object, or `key=value` words.
///
/// A value is a text where the tool's `schema` says so, and otherwise whatever JSON it reads as. JSON is
/// passed on as it was written: a number keeps all its digits.
pub(crate) fn tool_arguments(words: &[String], schema: &Value) -> Result<RawJson, Problem> {
    if let [json] = words
        && json.trim_start().starts_with('{')
    {
        return RawJson::from_text(json.as_str())
            .map_err(|error| Problem::usage(format!("the arguments are not a JSON object: {error}")));
    }
    let known = schema.pointer("/properties");
    let values = pairs(words)?.into_iter().map(|(key, text)| {
        let value = typed(text, known.and_then(|known| known.get(key)))?;
        Ok((key, value))
    });
    let values: Result<BTreeMap<&str, RawJson>, DecodeError> = values.collect();
    values.and_then(|values| RawJson::encode(&values)).map_err(|error| Problem::usage(error.to_string()))
}

/// Prompt arguments: `key=value` words; every value is a text.
pub(crate) fn prompt_arguments(words: &[String]) -> Result<BTreeMap<String, String>, Problem> {
    Ok(pairs(words)?.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

fn pairs(words: &[String]) -> Result<Vec<(&str, &str)>, Problem> {
    let pair = |word: &'_ String| word.split_once('=').filter(|(key, _)| !key.is_empty()).is_some();
    if let Some(word) = words.iter().find(|word| !pair(word)) {
        return Err(Problem::usage(format!("{word:?} is neither a JSON object nor KEY=VALUE")));
    }
    Ok(words.iter().filter_map(|word| word.split_once('=')).collect())
}

fn typed(text: &str, schema: Option<&Value>) -> Result<RawJson, DecodeError> {
    let wanted = schema.and_then(|schema| schema.get("type")).and_then(Value::as_str);
    match RawJson::from_text(text) {
        Ok(value) if wanted != Some("string") => Ok(value),
        _ => RawJson::encode(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn an_ad_hoc_server_takes_the_place_of_the_name() {
        let given = words("add a=1");
        let ad_hoc = Words::split(&given, true, "TOOL").unwrap();
        assert_eq!(ad_hoc, Words { server: None, name: "add", arguments: &given[1..] });
        let named = Words::split(&given, false, "TOOL").unwrap();
        assert_eq!(named, Words { server: Some("add"), name: "a=1", arguments: &[] });
        assert!(Words::split(&given[..1], false, "TOOL").is_err());
        assert!(Words::split(&[], true, "TOOL").is_err());
        assert!(ad_hoc.without_arguments().is_err());
    }

    #[test]
    fn values_follow_the_schema() {
        let schema = json!({"properties": {"text": {"type": "string"}, "number": {"type": "integer"}}});
        let given = tool_arguments(&words("text=5 number=5 other=true plain=a=b empty="), &schema).unwrap();
        assert_eq!(
            given.decode::<Value>().unwrap(),
            json!({"text": "5", "number": 5, "other": true, "plain": "a=b", "empty": ""})
        );
    }

    #[test]
    fn f105_no_number_is_changed() {
        let given = words("big=12345678901234567890123 huge=1e400 zero=-0 list=[0.10]");
        let expected = r#"{"big":12345678901234567890123,"huge":1e400,"list":[0.10],"zero":-0}"#;
        assert_eq!(tool_arguments(&given, &Value::Null).unwrap().get(), expected);
        assert_eq!(tool_arguments(&[expected.to_owned()], &Value::Null).unwrap().get(), expected);
    }

    #[test]
    fn one_object_is_taken_as_it_is() {
        let given = tool_arguments(&[r#" {"a": "1"}"#.to_owned()], &Value::Null).unwrap();
        assert_eq!(given.get(), r#"{"a": "1"}"#);
        assert!(tool_arguments(&["{broken".to_owned()], &Value::Null).is_err());
        assert!(tool_arguments(&words("a"), &Value::Null).is_err());
        assert!(tool_arguments(&words("=a"), &Value::Null).is_err());
    }
}
