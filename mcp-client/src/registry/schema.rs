//! Normalises the input schema of a tool into the form that every large model provider takes.
//!
//! Servers write schemas of many drafts and tastes; providers refuse a whole request for one schema
//! they do not like. The steps, each on every schema inside the schema:
//!
//! 1. nothing at all becomes an empty object schema;
//! 2. `definitions` becomes `$defs`, and local references follow;
//! 3. `anyOf` / `oneOf` of one schema and null becomes that schema with `nullable`;
//! 4. a schema with `properties` or `required` is an object; an object has `properties`; `required`
//!    names only properties that exist;
//! 5. at the top stands an object schema.

use serde_json::{Map, Value, json};

/// Keywords whose value is a map from names to schemas.
const SCHEMA_MAPS: &[&str] = &["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Keywords whose value is a schema.
const SCHEMAS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas (`items` was one in old drafts).
const SCHEMA_LISTS: &[&str] = &["allOf", "anyOf", "items", "oneOf", "prefixItems"];

/// Deepest nesting that is rewritten; what lies deeper stays as it is. Texts are at most 127 deep.
const DEEPEST: usize = 128;

/// Brings an input schema into the common form. Pure; the same schema always gives the same result.
#[must_use]
pub fn normalise(schema: Value) -> Value {
    let schema = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    let mut schema = rewritten(schema, DEEPEST);
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        // A provider takes nothing but an object here; what else the server wrote cannot be called.
        schema.insert("type".to_owned(), json!("object"));
    }
    schema.entry("properties").or_insert_with(|| json!({}));
    Value::Object(schema)
}

fn rewritten(schema: Map<String, Value>, depth: usize) -> Map<String, Value> {
    if depth == 0 {
        return schema;
    }
    let mut out = Map::new();
    for (keyword, value) in schema {
        let value = rewritten_keyword(&keyword, value, depth - 1);
        match keyword.as_str() {
            // Both at once: what stands under the newer keyword wins.
            "definitions" => merge_definitions(&mut out, value),
            "$defs" => {
                let older = out.remove("$defs");
                out.insert(keyword, value);
                older.into_iter().for_each(|older| merge_definitions(&mut out, older));
            }
            _ => drop(out.insert(keyword, value)),
        }
    }
    let mut out = collapse_nullable(out);
    complete_object(&mut out);
    out
}

fn rewritten_keyword(keyword: &str, value: Value, depth: usize) -> Value {
    match value {
        Value::Object(map) if SCHEMA_MAPS.contains(&keyword) => Value::Object(
            map.into_iter().map(|(name, value)| (name, rewritten_value(value, depth))).collect(),
        ),
        Value::Object(map) if SCHEMAS.contains(&keyword) => Value::Object(rewritten(map, depth)),
        Value::Array(list) if SCHEMA_LISTS.contains(&keyword) => {
            list.into_iter().map(|value| rewritten_value(value, depth)).collect()
        }
        Value::String(target) if keyword == "$ref" => Value::String(moved_reference(&target)),
        other => other,
    }
}

/// Rewrites a value at a place where a schema is expected; `true` and `false` are schemas too.
fn rewritten_value(value: Value, depth: usize) -> Value {
    match value {
        Value::Object(map) => Value::Object(rewritten(map, depth)),
        other => other,
    }
}

fn merge_definitions(out: &mut Map<String, Value>, definitions: Value) {
    match (out.get_mut("$defs"), definitions) {
        (Some(Value::Object(known)), Value::Object(more)) => {
            for (name, schema) in more {
                known.entry(name).or_insert(schema);
            }
        }
        (None, definitions) => drop(out.insert("$defs".to_owned(), definitions)),
        (Some(_), _) => {}
    }
}

/// Follows definitions to their new place, at schema positions of the path only: a property may well
/// be called `definitions`.
fn moved_reference(target: &str) -> String {
    let Some(path) = target.strip_prefix("#/") else {
        return target.to_owned();
    };
    let mut is_name = false;
    let segments = path.split('/').map(|segment| {
        let moved = if segment == "definitions" && !is_name { "$defs" } else { segment };
        is_name = !is_name && SCHEMA_MAPS.contains(&segment);
        moved
    });
    format!("#/{}", segments.collect::<Vec<_>>().join("/"))
}

/// Turns "this or null" into "this, nullable".
fn collapse_nullable(mut schema: Map<String, Value>) -> Map<String, Value> {
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = schema.get(keyword) else { continue };
        let (nulls, others): (Vec<&Value>, Vec<&Value>) = branches.iter().partition(|branch| is_null(branch));
        let ([_, ..], [Value::Object(kept)]) = (nulls.as_slice(), others.as_slice()) else { continue };
        let mut kept = kept.clone();
        schema.remove(keyword);
        let is_reference = kept.contains_key("$ref");
        for (name, value) in schema {
            // A default beside a reference means different things to different readers.
            if !(name == "default" && is_reference) {
                kept.entry(name).or_insert(value);
            }
        }
        kept.insert("nullable".to_owned(), Value::Bool(true));
        return kept;
    }
    schema
}

fn is_null(branch: &Value) -> bool {
    branch.get("type").and_then(Value::as_str) == Some("null")
}

fn complete_object(schema: &mut Map<String, Value>) {
    let is_untyped = !schema.contains_key("type");
    if is_untyped && (schema.contains_key("properties") || schema.contains_key("required")) {
        schema.insert("type".to_owned(), json!("object"));
    }
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return;
    }
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), json!({}));
    }
    let known = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required: Vec<Value> = match schema.remove("required") {
        Some(Value::Array(names)) => {
            names.into_iter().filter(|name| name.as_str().is_some_and(|n| known.contains_key(n))).collect()
        }
        _ => Vec::new(),
    };
    if !required.is_empty() {
        schema.insert("required".to_owned(), Value::Array(required));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: Value, after: Value) {
        assert_eq!(normalise(before), after);
        assert_eq!(normalise(after.clone()), after, "a second time changes nothing");
    }

    #[test]
    fn nothing_becomes_an_empty_object() {
        let empty = json!({"type": "object", "properties": {}});
        for nothing in [json!(null), json!({}), json!(true), json!([])] {
            check(nothing, empty.clone());
        }
    }

    #[test]
    fn definitions_move_but_properties_of_that_name_stay() {
        check(
            json!({
                "type": "object",
                "definitions": {"definitions": {"type": "string"}},
                "properties": {
                    "definitions": {"$ref": "#/definitions/definitions"},
                    "x": {"$ref": "#/properties/definitions"},
                    "far": {"$ref": "https://example.org/#/definitions/y"}
                }
            }),
            json!({
                "type": "object",
                "$defs": {"definitions": {"type": "string"}},
                "properties": {
                    "definitions": {"$ref": "#/$defs/definitions"},
                    "x": {"$ref": "#/properties/definitions"},
                    "far": {"$ref": "https://example.org/#/definitions/y"}
                }
            }),
        );
    }

    #[test]
    fn newer_definitions_win_in_either_order() {
        let both =
            json!({"type": "object", "properties": {}, "$defs": {"a": {"const": 1}, "b": {"const": 3}}});
        for text in [
            r#"{"type":"object","definitions":{"a":{"const":2},"b":{"const":3}},"$defs":{"a":{"const":1}}}"#,
            r#"{"type":"object","$defs":{"a":{"const":1}},"definitions":{"a":{"const":2},"b":{"const":3}}}"#,
        ] {
            check(serde_json::from_str(text).unwrap(), both.clone());
        }
    }

    #[test]
    fn a_union_with_null_collapses() {
        check(
            json!({"properties": {
                "a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "title": "A"},
                "b": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/B"}], "default": 1, "description": "b"},
                "c": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}
            }}),
            json!({"type": "object", "properties": {
                "a": {"type": "string", "nullable": true, "default": null, "title": "A"},
                "b": {"$ref": "#/$defs/B", "nullable": true, "description": "b"},
                "c": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}
            }}),
        );
    }

    #[test]
    fn objects_are_completed_and_required_names_exist() {
        check(
            json!({"properties": {"in": {"required": ["x"]}, "list": {"items": {"type": "object"}}},
                   "required": ["in", "gone", 7]}),
            json!({"type": "object", "required": ["in"], "properties": {
                "in": {"type": "object", "properties": {}},
                "list": {"items": {"type": "object", "properties": {}}}
            }}),
        );
    }
}
