//! Extensions of the protocol that this crate has types for, by their identifiers.
//!
//! An extension is used when both sides have declared it under its identifier in the `extensions` of
//! their capabilities; the empty object declares it without settings (since 2026-07-28).
//!
//! # Source
//!
//! MCP 2026-07-28, basic: extensions.

use crate::meta::meta_key;

/// Skills: instructions for a model, as files of a server.
pub const SKILLS: &str = "io.modelcontextprotocol/skills";

/// Tasks: work that outlives the request that began it.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Whether `identifier` follows the grammar of identifiers: that of `_meta` keys, with a prefix and a name.
#[must_use]
pub fn is_valid(identifier: &str) -> bool {
    let has_both = identifier.rsplit_once('/').is_some_and(|(_, name)| !name.is_empty());
    has_both && meta_key::is_valid(identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_has_a_prefix_and_a_name() {
        for identifier in [SKILLS, TASKS, "com.example/a.b-c"] {
            assert!(is_valid(identifier), "{identifier}");
        }
        for identifier in ["tasks", "com.example/", "/tasks", "a b/c", ""] {
            assert!(!is_valid(identifier), "{identifier}");
        }
    }
}
