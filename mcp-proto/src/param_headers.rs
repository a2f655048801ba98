use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::escape::escape;
use crate::header_value::encode_header_value;
use crate::member::Member;
use crate::payload::{decode, decode_with};
use crate::raw_json::RawJson;

/// The member of a property's schema that asks for its value in a header.
const ANNOTATION: &str = "x-mcp-header";

/// What the names of such headers begin with.
const PREFIX: &str = "Mcp-Param-";

/// Most annotated parameters of one tool: few servers and proxies take more than 100 headers in all.
const MAX_PARAMETERS: usize = 64;

/// Most bytes that names and paths of one tool may have together.
const MAX_BYTES: usize = 16 * 1024;

/// Most bytes of a name or a path that an error shows.
const SHOWN_BYTES: usize = 128;

/// The largest integer that every JSON implementation holds exactly, 2^53 − 1.
const MAX_SAFE_INTEGER: i64 = 9_007_199_254_740_991;

/// Keywords whose value is a schema or a list of schemas.
const SUBSCHEMAS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value gives schemas names; the names are no keywords.
const NAMED_SUBSCHEMAS: &[&str] =
    &["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"];

/// Which arguments of a tool are mirrored into HTTP headers, as its input schema asks for.
///
/// A server annotates properties with `x-mcp-header`, so that proxies can route by their values without
/// reading bodies. Only the modern era has this, and only over HTTP.
///
/// # Source
///
/// MCP 2026-07-28, basic/transports/streamable-http: custom headers from tool parameters; SEP-2243.
///
/// # Examples
///
/// ```
/// use mcp_proto::{ParamHeaders, RawJson};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema = RawJson::from_text(
///     r#"{"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}"#,
/// )?;
/// let arguments = RawJson::from_text(r#"{"region": "us-west1", "query": "SELECT 1"}"#)?;
/// let headers = ParamHeaders::of_schema(&schema)?.mirror(Some(&arguments))?;
/// assert_eq!(headers, [("Mcp-Param-Region".to_owned(), "us-west1".to_owned())]);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParamHeaders {
    properties: Vec<(String, Property)>,
    size: usize,
}

/// One property on the way to an annotated one, or an annotated one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Property {
    /// The whole name of its header.
    header: Option<String>,
    properties: Vec<(String, Property)>,
}

/// An annotation breaks the rules, so that its tool cannot be called over modern HTTP. The server is at
/// fault.
///
/// Names are escaped and cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAnnotation {
    /// Two headers would have the same name, in any case of letters.
    #[error("two parameters ask for the header name \"{0}\"")]
    Duplicate(String),
    /// The name is no text, or an empty one.
    #[error("the header name of the parameter \"{0}\" is not a text, or empty")]
    Nameless(String),
    /// The name holds characters that no header name can have.
    #[error("\"{0}\" cannot be the name of a header")]
    Token(String),
    /// More parameters are annotated than the limit of 64, or their names are longer than 16 KiB in all.
    #[error("too many parameters ask for a header, or their names are too long")]
    TooMany,
    /// The parameter is not declared as one integer, text or boolean.
    #[error("the parameter \"{0}\" asks for a header, but is no integer, string or boolean")]
    Type(String),
    /// The annotation is at a place that does not stand for one parameter: below `items`, `oneOf`, a
    /// definition, or at the root.
    #[error("an annotation is not at a parameter, but below \"{0}\"")]
    Unreachable(String),
    /// The schema seems to have annotations, and numbers or texts that cannot be read, or far more
    /// entries than its length accounts for.
    #[error("the schema cannot be read")]
    Unreadable,
}

/// An argument cannot be mirrored into the header that its tool asks for. The caller is at fault.
///
/// Names are escaped and cut; no value is shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// The arguments are no object that can be read.
    #[error("the arguments are not a readable object")]
    Arguments,
    /// An integer is beyond ±(2^53 − 1), or has a fraction.
    #[error("the header {0} takes integers between -(2^53 - 1) and 2^53 - 1")]
    Integer(String),
    /// The value is an array, an object, or a text that cannot be read.
    #[error("the header {0} takes a text, an integer or a boolean")]
    Value(String),
}

impl ParamHeaders {
    /// Reads the annotations of an input schema. Takes at most eight times its length, and 4 MiB.
    ///
    /// # Errors
    ///
    /// See [`InvalidAnnotation`]. One invalid annotation makes the tool as a whole invalid.
    pub fn of_schema(schema: &RawJson) -> Result<Self, InvalidAnnotation> {
        if !may_be_annotated(schema.get()) {
            return Ok(Self::default());
        }
        let schema = decode_with(schema.get(), |reader| Value::read(reader))
            .map_err(|_| InvalidAnnotation::Unreadable)?;
        let Value::Object(schema) = schema else { return Ok(Self::default()) };
        if schema.contains_key(ANNOTATION) {
            return Err(InvalidAnnotation::Unreachable(String::new()));
        }
        let mut scan = Scan::default();
        let properties = scan.object(&schema)?;
        Ok(Self { properties, size: scan.bytes })
    }

    /// Whether nothing is mirrored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    /// How many bytes the names of parameters and headers have together, at most 16 384.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size
    }

    /// The headers of a call with these arguments: names and values, ready to be sent.
    ///
    /// An argument that is missing or `null` has no header.
    /// Texts are encoded as [`encode_header_value`] does, integers are decimal, booleans `true` or
    /// `false`.
    ///
    /// # Errors
    ///
    /// See [`MirrorError`].
    pub fn mirror(&self, arguments: Option<&RawJson>) -> Result<Vec<(String, String)>, MirrorError> {
        let mut headers = Vec::new();
        let arguments = arguments.map(|arguments| arguments.get()).filter(|text| *text != "null");
        if let (Some(arguments), false) = (arguments, self.is_empty()) {
            let members = members(arguments).ok_or(MirrorError::Arguments)?;
            mirror(&self.properties, &members, &mut headers)?;
        }
        Ok(headers)
    }
}

/// Whether the name of the annotation can be somewhere in a JSON text, perhaps with escaped letters.
pub(crate) fn may_be_annotated(text: &str) -> bool {
    let is_letter = |at: usize| matches!(text.as_bytes().get(at), Some(b'2'..=b'7'));
    text.contains(ANNOTATION) || text.match_indices("\\u00").any(|(at, escape)| is_letter(at + escape.len()))
}

/// The walk through one schema.
#[derive(Default)]
struct Scan {
    /// Header names in lower case.
    names: BTreeSet<String>,
    bytes: usize,
}

impl Scan {
    /// Walks through a schema that stands for one value: its properties do so too, everything else that
    /// it holds does not.
    fn object(&mut self, schema: &Map<String, Value>) -> Result<Vec<(String, Property)>, InvalidAnnotation> {
        let mut found = Vec::new();
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    for (name, schema) in properties {
                        let Value::Object(schema) = schema else { continue };
                        let header = self.header(name, schema)?;
                        let properties = self.object(schema)?;
                        if header.is_some() || !properties.is_empty() {
                            self.count(name.len())?;
                            found.push((name.clone(), Property { header, properties }));
                        }
                    }
                }
                (keyword, value) => forbid_below(keyword, value)?,
            }
        }
        Ok(found)
    }

    /// The header that a property asks for.
    fn header(
        &mut self,
        property: &str,
        schema: &Map<String, Value>,
    ) -> Result<Option<String>, InvalidAnnotation> {
        let Some(annotation) = schema.get(ANNOTATION) else { return Ok(None) };
        let name = match annotation {
            Value::String(name) if !name.is_empty() => name,
            _ => return Err(InvalidAnnotation::Nameless(shown(property))),
        };
        if !name.bytes().all(is_token) {
            return Err(InvalidAnnotation::Token(shown(name)));
        }
        if !matches!(schema.get("type").and_then(Value::as_str), Some("boolean" | "integer" | "string")) {
            return Err(InvalidAnnotation::Type(shown(property)));
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(InvalidAnnotation::Duplicate(shown(name)));
        }
        self.count(PREFIX.len() + name.len())?;
        Ok(Some(format!("{PREFIX}{name}")))
    }

    fn count(&mut self, bytes: usize) -> Result<(), InvalidAnnotation> {
        self.bytes += bytes;
        let is_within = self.bytes <= MAX_BYTES && self.names.len() <= MAX_PARAMETERS;
        if is_within { Ok(()) } else { Err(InvalidAnnotation::TooMany) }
    }
}

/// Finds annotations below a keyword that leads to no single parameter.
fn forbid_below(keyword: &str, value: &Value) -> Result<(), InvalidAnnotation> {
    if SUBSCHEMAS.contains(&keyword) {
        match value {
            Value::Array(schemas) => schemas.iter().try_for_each(|schema| forbid(keyword, schema)),
            schema => forbid(keyword, schema),
        }
    } else if NAMED_SUBSCHEMAS.contains(&keyword) {
        let schemas = value.as_object();
        schemas.into_iter().flat_map(Map::values).try_for_each(|schema| forbid(keyword, schema))
    } else {
        // Everything else is data, `default` and `enum` among it.
        Ok(())
    }
}

fn forbid(place: &str, schema: &Value) -> Result<(), InvalidAnnotation> {
    let Value::Object(schema) = schema else { return Ok(()) };
    if schema.contains_key(ANNOTATION) {
        return Err(InvalidAnnotation::Unreachable(shown(place)));
    }
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.values().try_for_each(|schema| forbid(place, schema))?;
            }
            (keyword, value) => forbid_below(keyword, value)?,
        }
    }
    Ok(())
}

/// A character of a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn shown(name: &str) -> String {
    escape(name, SHOWN_BYTES).into_owned()
}

/// The members of an object, each as its text; of a repeated one the last counts.
type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

fn members(object: &str) -> Option<Members<'_>> {
    serde_json::from_str(object).ok()
}

fn mirror(
    properties: &[(String, Property)],
    members: &Members<'_>,
    headers: &mut Vec<(String, String)>,
) -> Result<(), MirrorError> {
    for (name, property) in properties {
        let Some(value) = members.get(name.as_str()).map(|value| value.get()) else { continue };
        if let Some(header) = &property.header
            && let Some(value) = text_of(header, value)?
        {
            headers.push((header.clone(), value));
        }
        // What is no object has no properties.
        if let (false, Some(members)) = (property.properties.is_empty(), self::members(value)) {
            mirror(&property.properties, &members, headers)?;
        }
    }
    Ok(())
}

/// What a header says of one value, `None` of `null`.
fn text_of(header: &str, value: &str) -> Result<Option<String>, MirrorError> {
    match value.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b't' | b'f') => Ok(Some(value.to_owned())),
        Some(b'"') => {
            let text: String = decode(value).map_err(|_| MirrorError::Value(header.to_owned()))?;
            Ok(Some(encode_header_value(&text).into_owned()))
        }
        Some(b'-' | b'0'..=b'9') => {
            let integer = integer(value).ok_or_else(|| MirrorError::Integer(header.to_owned()))?;
            Ok(Some(integer.to_string()))
        }
        _ => Err(MirrorError::Value(header.to_owned())),
    }
}

/// A number without a fraction within the safe range, however it is written.
fn integer(number: &str) -> Option<i64> {
    let integer = number.parse().ok().or_else(|| whole(number.parse().ok()?))?;
    (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(&integer).then_some(integer)
}

/// `1e2` and `7.0` are integers too.
fn whole(number: f64) -> Option<i64> {
    let is_whole = number.is_finite() && number.fract() == 0.0;
    // Without exponent or fraction, so that it can be read as an integer.
    is_whole.then(|| format!("{number:.0}").parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn scan(schema: &Value) -> Result<ParamHeaders, InvalidAnnotation> {
        ParamHeaders::of_schema(&RawJson::encode(schema).unwrap())
    }

    /// A tool with these properties.
    fn of(properties: &Value) -> Result<ParamHeaders, InvalidAnnotation> {
        scan(&json!({"type": "object", "properties": properties}))
    }

    fn annotated(name: &Value) -> Value {
        json!({"type": "string", "x-mcp-header": name})
    }

    fn mirrored(headers: &ParamHeaders, arguments: &str) -> Result<Vec<(String, String)>, MirrorError> {
        headers.mirror(Some(&RawJson::from_text(arguments).unwrap()))
    }

    #[test]
    fn m83_values_become_headers() {
        let headers = of(&json!({
            "text": {"type": "string", "x-mcp-header": "Text"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
            "plain": {"type": "string"},
        }))
        .unwrap();
        for (arguments, expected) in [
            (
                r#"{"text":"a","count":-42,"flag":false,"plain":"b"}"#,
                &[("Count", "-42"), ("Flag", "false"), ("Text", "a")][..],
            ),
            (r#"{"text":"","flag":true}"#, &[("Flag", "true"), ("Text", "")]),
            (r#"{"text":null,"count":null,"flag":null}"#, &[]),
            (r#"{"text":" é"}"#, &[("Text", "=?base64?IMOp?=")]),
            (r#"{"text":"a\r\nX: b"}"#, &[("Text", "=?base64?YQ0KWDogYg==?=")]),
            (r#"{"te\u0078t":"first","text":"last"}"#, &[("Text", "last")]),
            (r#"{"count":1e2}"#, &[("Count", "100")]),
            (r#"{"count":7.0}"#, &[("Count", "7")]),
            (r#"{"count":-0}"#, &[("Count", "0")]),
            (r#"{"count":"7"}"#, &[("Count", "7")]),
            (r#"{"plain":1e400}"#, &[]),
            ("{}", &[]),
        ] {
            let expected: Vec<(String, String)> =
                expected.iter().map(|(name, value)| (format!("Mcp-Param-{name}"), (*value).into())).collect();
            assert_eq!(mirrored(&headers, arguments).unwrap(), expected, "{arguments}");
        }
        assert_eq!(headers.mirror(None).unwrap(), []);
        assert_eq!(headers.mirror(Some(&RawJson::null())).unwrap(), []);
        assert_eq!(mirrored(&headers, "[]"), Err(MirrorError::Arguments));
    }

    #[test]
    fn m83_the_exact_path_counts() {
        let headers = of(&json!({
            "place": {"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
            }},
            "region": {"type": "string"},
        }))
        .unwrap();
        let region = [("Mcp-Param-Region".to_owned(), "eu".to_owned())];
        assert_eq!(mirrored(&headers, r#"{"region":"us","place":{"x":{},"region":"eu"}}"#).unwrap(), region);
        for without in [r#"{"region":"us"}"#, r#"{"place":{}}"#, r#"{"place":"region"}"#, r#"{"place":null}"#]
        {
            assert_eq!(mirrored(&headers, without).unwrap(), [], "{without}");
        }
    }

    #[test]
    fn m84_one_invalid_annotation_makes_the_tool_invalid() {
        use InvalidAnnotation as Invalid;
        let nameless = Invalid::Nameless("p".into());
        for name in [json!(""), json!(5), json!(null), json!({})] {
            assert_eq!(of(&json!({"p": annotated(&name)})), Err(nameless.clone()), "{name}");
        }
        for name in ["a b", "a:b", "é", "a\r\nb", "a\tb", "\u{7f}", "a(b)", "/"] {
            let invalid = of(&json!({"ok": annotated(&json!("Ok")), "p": annotated(&json!(name))}));
            assert_eq!(invalid, Err(Invalid::Token(shown(name))), "{name:?}");
        }
        for kind in [
            json!("number"),
            json!("object"),
            json!("array"),
            json!("null"),
            json!(["string", "null"]),
            json!(1),
        ] {
            let invalid = of(&json!({"p": {"type": kind, "x-mcp-header": "P"}}));
            assert_eq!(invalid, Err(Invalid::Type("p".into())), "{kind}");
        }
        assert_eq!(of(&json!({"p": {"x-mcp-header": "P"}})), Err(Invalid::Type("p".into())));
        let nested = json!({"type": "object", "properties": {"q": annotated(&json!("region"))}});
        assert_eq!(
            of(&json!({"p": annotated(&json!("Region")), "z": nested})),
            Err(Invalid::Duplicate("region".into()))
        );
    }

    #[test]
    fn m84_annotations_are_reached_by_properties_alone() {
        let inner = annotated(&json!("P"));
        let object = json!({"type": "object", "properties": {"p": inner}});
        for (keyword, value) in [
            ("items", inner.clone()),
            ("items", object.clone()),
            ("items", json!([inner])),
            ("oneOf", json!([inner])),
            ("anyOf", json!([object])),
            ("allOf", json!([{"if": inner}])),
            ("then", object.clone()),
            ("not", inner.clone()),
            ("additionalProperties", inner.clone()),
            ("patternProperties", json!({"default": inner})),
            ("$defs", json!({"properties": inner})),
            ("$defs", json!({"default": object})),
            ("definitions", json!({"a": {"$defs": {"b": inner}}})),
            ("dependentSchemas", json!({"a": object})),
            ("dependencies", json!({"a": object})),
        ] {
            let at_root = scan(&json!({"type": "object", keyword: value}));
            assert!(matches!(at_root, Err(InvalidAnnotation::Unreachable(_))), "{keyword}: {at_root:?}");
            let below = of(&json!({"a": {"type": "array", keyword: value}}));
            assert!(matches!(below, Err(InvalidAnnotation::Unreachable(_))), "{keyword}: {below:?}");
        }
        assert!(scan(&json!({"type": "object", "x-mcp-header": "P"})).is_err());
    }

    #[test]
    fn m84_names_and_data_are_no_annotations() {
        for schema in [
            json!({"properties": {"x-mcp-header": {"type": "string"}, "items": {"type": "string"}}}),
            json!({"properties": {"a": {"default": {"x-mcp-header": ""}, "enum": [{"x-mcp-header": 1}]}}}),
            json!({"dependentRequired": {"x-mcp-header": ["a"]}, "required": ["x-mcp-header"]}),
            json!({"dependencies": {"x-mcp-header": ["a"]}, "$defs": {"x-mcp-header": {"type": "null"}}}),
            json!({"properties": {"a": true, "b": []}, "items": false, "oneOf": {}}),
            json!({"properties": {}}),
            json!({}),
            json!(null),
            json!("x-mcp-header"),
        ] {
            assert_eq!(scan(&schema), Ok(ParamHeaders::default()), "{schema}");
        }
        let named_like_keywords = of(&json!({"items": annotated(&json!("I")), "default": {"properties": {
            "$defs": annotated(&json!("D")),
        }}}))
        .unwrap();
        let headers = mirrored(&named_like_keywords, r#"{"items":"1","default":{"$defs":"2"}}"#).unwrap();
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Mcp-Param-D", "Mcp-Param-I"]);
    }

    #[test]
    fn m84_a_schema_that_cannot_be_read_matters_only_with_annotations() {
        let of = |text: &str| ParamHeaders::of_schema(&RawJson::from_text(text).unwrap());
        assert_eq!(of(r#"{"default":1e400}"#), Ok(ParamHeaders::default()));
        assert_eq!(
            of(r#"{"default":1e400,"properties":{"a":{"x-mcp-header":"A"}}}"#),
            Err(InvalidAnnotation::Unreadable)
        );
        assert!(of(r#"{"properties":{"a":{"type":"string","\u0078-mcp\u002dheader":""}}}"#).is_err());
        assert_eq!(of(r#"{"description":"\u00e9\u4e16\u0007"}"#), Ok(ParamHeaders::default()));
    }

    #[test]
    fn m84_the_number_of_annotations_is_limited() {
        let many = |count: usize| -> Value {
            (0..count).map(|n| (format!("p{n}"), annotated(&json!(format!("H{n}"))))).collect()
        };
        assert_eq!(of(&many(64)).unwrap().properties.len(), 64);
        assert_eq!(of(&many(65)), Err(InvalidAnnotation::TooMany));
        let long = annotated(&json!("x".repeat(MAX_BYTES)));
        assert_eq!(of(&json!({"p": long})), Err(InvalidAnnotation::TooMany));
        assert!(of(&many(64)).unwrap().size_bytes() < MAX_BYTES);
    }

    #[test]
    fn m85_integers_beyond_the_safe_range_are_refused() {
        let headers = of(&json!({"n": {"type": "integer", "x-mcp-header": "N"}})).unwrap();
        for (number, expected) in [
            ("9007199254740991", Some("9007199254740991")),
            ("-9007199254740991", Some("-9007199254740991")),
            ("9007199254740991.0", Some("9007199254740991")),
            ("9007199254740992", None),
            ("-9007199254740992", None),
            ("18446744073709551616", None),
            ("1e400", None),
            ("1e300", None),
            ("0.5", None),
        ] {
            let result = mirrored(&headers, &format!(r#"{{"n":{number}}}"#));
            match expected {
                Some(value) => {
                    assert_eq!(result.unwrap(), [("Mcp-Param-N".to_owned(), value.to_owned())]);
                }
                None => assert_eq!(result, Err(MirrorError::Integer("Mcp-Param-N".into())), "{number}"),
            }
        }
        for value in ["[1]", "{}", r#""\ud800""#] {
            let result = mirrored(&headers, &format!(r#"{{"n":{value}}}"#));
            assert_eq!(result, Err(MirrorError::Value("Mcp-Param-N".into())), "{value}");
        }
    }

    #[test]
    fn errors_are_escaped_and_cut_and_show_no_value() {
        let error = of(&json!({"p": annotated(&json!("\u{1b}[31m".repeat(100)))})).unwrap_err().to_string();
        assert!(error.len() < 300 && !error.contains('\u{1b}'), "{error}");
        let headers = of(&json!({"n": annotated(&json!("N"))})).unwrap();
        let error = mirrored(&headers, r#"{"n":{"secret":"hunter2"}}"#).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    proptest! {
        #[test]
        fn any_headers_are_legal(name in any::<String>(), value in any::<String>()) {
            let Ok(headers) = of(&json!({"p": annotated(&json!(name))})) else { return Ok(()) };
            let arguments = RawJson::encode(&json!({"p": value})).unwrap();
            for (name, value) in headers.mirror(Some(&arguments)).unwrap() {
                prop_assert!(name.bytes().all(is_token), "{}", name);
                prop_assert!(value.bytes().all(|byte| (0x20..=0x7e).contains(&byte)), "{}", value);
            }
        }
    }
}
