//! Schemas that messages are held against: the official ones where they are at hand, and our own shapes.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code, of which each test uses its part"
)]

use std::fs;
use std::path::PathBuf;

use jsonschema::Validator;
use mcp_proto::ProtocolVersion;
use serde_json::{Map, Value};

/// Where the official schemas and examples lie, beside the checkout; they are not part of it.
pub(crate) fn official_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/spec")
}

/// What is written for versions whose definitions do not name it. Capabilities are no closed set there, and a
/// server of 2025-11-25 is to know of extensions of authorization.
const TOLERATED: &[&str] = &["InitializeRequest.params.capabilities.extensions"];

/// A document of definitions, all of which are compiled at once.
pub(crate) struct Schema {
    /// What it is, for messages of tests.
    pub(crate) name: String,
    /// Whether it is one of the protocol's own.
    pub(crate) is_official: bool,
    definitions: Map<String, Value>,
    validator: Validator,
}

impl Schema {
    /// The official schema of `version`; `None` where it is not at hand.
    pub(crate) fn official(version: ProtocolVersion) -> Option<Self> {
        let path = official_folder().join(version.as_str()).join("schema.json");
        let text = fs::read_to_string(path).ok()?;
        Some(Self { is_official: true, ..Self::read(format!("the official schema of {version}"), &text) })
    }

    /// Our own words for what a version demands, by its era.
    pub(crate) fn own(version: ProtocolVersion) -> Self {
        let file = if version < ProtocolVersion::V2026_07_28 { "legacy.json" } else { "modern.json" };
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/shapes").join(file);
        Self::read(format!("our shapes in {file}"), &fs::read_to_string(path).unwrap())
    }

    fn read(name: String, text: &str) -> Self {
        let mut document: Value = serde_json::from_str(text).unwrap();
        let place = if document.get("$defs").is_some() { "$defs" } else { "definitions" };
        let definitions = document[place].as_object().expect("definitions").clone();
        // An object with one member for each definition, named after it: the whole is compiled once.
        let members = definitions
            .keys()
            .map(|name| (name.clone(), serde_json::json!({ "$ref": format!("#/{place}/{name}") })));
        document["properties"] = Value::Object(members.collect());
        let validator = jsonschema::validator_for(&document).expect("a schema");
        Self { name, is_official: false, definitions, validator }
    }

    pub(crate) fn defines(&self, definition: &str) -> bool {
        self.definitions.contains_key(definition)
    }

    /// The definitions that the union `name` refers to; none if there is no such union.
    pub(crate) fn union(&self, name: &str) -> Vec<&str> {
        let parts = self.definitions.get(name).and_then(|union| union.get("anyOf"));
        parts.and_then(Value::as_array).into_iter().flatten().filter_map(referred).collect()
    }

    /// The method that messages of `definition` have.
    pub(crate) fn method(&self, definition: &str) -> Option<&str> {
        self.definitions.get(definition)?.pointer("/properties/method/const")?.as_str()
    }

    /// Fails the test unless `value` is as `definition` says.
    #[track_caller]
    pub(crate) fn assert_valid(&self, definition: &str, value: &Value) {
        assert!(self.defines(definition), "{} does not define {definition}", self.name);
        let wrapped = serde_json::json!({ definition: value });
        let faults: Vec<String> = self
            .validator
            .iter_errors(&wrapped)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{}: {value} is no {definition}: {}", self.name, faults.join("; "));
    }

    /// Fails the test if `value` has a member that its definition does not name.
    ///
    /// The official schemas tolerate such members, and so do we when we read; what we write for a
    /// version has none but the [`TOLERATED`]. Where a definition leaves a choice, nothing is asked below it.
    #[track_caller]
    pub(crate) fn assert_no_foreign_member(&self, definition: &str, value: &Value) {
        let mut foreign = Vec::new();
        self.find_foreign(&self.definitions[definition], value, definition, &mut foreign);
        assert!(foreign.is_empty(), "{}: it does not know {}", self.name, foreign.join(", "));
    }

    fn find_foreign(&self, schema: &Value, value: &Value, path: &str, foreign: &mut Vec<String>) {
        if let Some(name) = referred(schema) {
            return self.find_foreign(&self.definitions[name], value, path, foreign);
        }
        let (Some(properties), Some(members)) = (schema["properties"].as_object(), value.as_object()) else {
            return;
        };
        if schema.get("additionalProperties").is_some() || schema.get("allOf").is_some() {
            return;
        }
        for (name, member) in members.iter().filter(|(name, _)| *name != "_meta") {
            let path = format!("{path}.{name}");
            match properties.get(name) {
                Some(inner) => self.find_foreign(inner, member, &path, foreign),
                None if TOLERATED.contains(&path.as_str()) => {}
                None => foreign.push(path),
            }
        }
    }
}

fn referred(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.rsplit('/').next()
}
