//! Extensions of the protocol that the crates of this workspace know, by their identifiers.
//!
//! An extension is used when both sides have declared it under its identifier in the `extensions` of
//! their capabilities; the empty object declares it without settings (since 2026-07-28). Servers of
//! 2025-11-25 tolerate the member, and those of authorization look at it.
//!
//! # Source
//!
//! MCP 2026-07-28, basic: extensions.

use crate::meta::meta_key;

/// Tokens for a client that acts for itself. No message belongs to it: the client alone declares it.
pub const CLIENT_CREDENTIALS: &str = "io.modelcontextprotocol/oauth-client-credentials";

/// Tokens by the word of an organisation's identity provider. No message belongs to it: the client alone
/// declares it.
pub const ENTERPRISE_MANAGED: &str = "io.modelcontextprotocol/enterprise-managed-authorization";

/// Skills: instructions for a model, as files of a server.
pub const SKILLS: &str = "io.modelcontextprotocol/skills";

/// Tasks: work that outlives the request that began it.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Whether the messages of `identifier` came with 2026-07-28, so that no version before has it.
pub(crate) fn is_modern(identifier: &str) -> bool {
    [SKILLS, TASKS].contains(&identifier)
}

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
        for identifier in [CLIENT_CREDENTIALS, ENTERPRISE_MANAGED, SKILLS, TASKS, "com.example/a.b-c"] {
            assert!(is_valid(identifier), "{identifier}");
        }
        for identifier in ["tasks", "com.example/", "/tasks", "a b/c", ""] {
            assert!(!is_valid(identifier), "{identifier}");
        }
    }
}
