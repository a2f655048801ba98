use serde_json::{Map, Value, json};

/// How deep a value is made; a schema that goes deeper, or that refers to itself, ends in `null`.
const MAX_DEPTH: usize = 8;

/// Arguments for a tool: an object with all that its schema requires.
pub(crate) fn from_schema(schema: &Value) -> Value {
    object(schema, MAX_DEPTH)
}

/// The simplest value that a schema names: what it prescribes, else what its type begins with.
fn value(schema: &Value, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    if let Some(given) = ["const", "default"].iter().find_map(|key| schema.get(key)) {
        return given.clone();
    }
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
        return first.clone();
    }
    match type_of(schema) {
        Some("array") => json!([]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("null") => Value::Null,
        Some("string") => json!("text"),
        _ => object(schema, depth),
    }
}

fn object(schema: &Value, depth: usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let members = required.filter_map(Value::as_str).map(|name| {
        let member = schema.get("properties").and_then(|properties| properties.get(name));
        (name.to_owned(), value(member.unwrap_or(&Value::Null), depth))
    });
    Value::Object(members.collect::<Map<_, _>>())
}

/// The type, or the first of several.
fn type_of(schema: &Value) -> Option<&str> {
    let kind = schema.get("type")?;
    kind.as_str().or_else(|| kind.get(0)?.as_str())
}
