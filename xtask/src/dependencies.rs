use std::fs;

use serde_json::Value;

use crate::failure::Failure;
use crate::shell;
use crate::workspace::Workspace;

/// Checks what the workspace depends on against `deny.toml`: licences, sources and bans.
///
/// The same file serves `cargo deny`, which looks deeper; this needs nothing but cargo.
///
/// # Errors
///
/// A dependency breaks a rule: each is named.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let path = workspace.path("deny.toml");
    let rules = Rules::parse(&fs::read_to_string(&path).map_err(Failure::io("read", &path))?)?;
    let metadata = shell::capture(&mut workspace.cargo(["metadata", "--format-version=1", "--locked"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|error| Failure::new(format!("cargo metadata: {error}")))?;
    let packages: Vec<Package<'_>> =
        metadata["packages"].as_array().into_iter().flatten().filter_map(Package::read).collect();
    if packages.is_empty() {
        return Err(Failure::new("cargo metadata names no dependency"));
    }
    let broken: Vec<String> = packages.iter().filter_map(|package| rules.objection(package)).collect();
    if broken.is_empty() { Ok(()) } else { Err(Failure::new(broken.join("\n"))) }
}

/// A dependency that is not part of the workspace.
#[derive(Debug)]
struct Package<'a> {
    licence: Option<&'a str>,
    name: &'a str,
    source: &'a str,
}

impl<'a> Package<'a> {
    fn read(package: &'a Value) -> Option<Self> {
        let (name, source) = (package["name"].as_str()?, package["source"].as_str()?);
        Some(Self { licence: package["license"].as_str(), name, source })
    }
}

/// What `deny.toml` states.
#[derive(Debug, Default)]
struct Rules {
    banned: Vec<String>,
    licences: Vec<String>,
}

impl Rules {
    fn parse(text: &str) -> Result<Self, Failure> {
        let rules = Self { banned: list(text, "bans", "deny"), licences: list(text, "licenses", "allow") };
        if rules.banned.is_empty() || rules.licences.is_empty() {
            return Err(Failure::new("deny.toml states no licences or no bans"));
        }
        Ok(rules)
    }

    fn objection(&self, package: &Package<'_>) -> Option<String> {
        let Package { licence, name, source } = package;
        if self.banned.iter().any(|banned| banned == name) {
            return Some(format!("{name} is banned by deny.toml"));
        }
        if !source.starts_with("registry+") {
            return Some(format!("{name} comes from {source}, not from the registry"));
        }
        match licence {
            None => Some(format!("{name} states no licence")),
            Some(licence) if !self.allows(licence) => {
                Some(format!("{name} is licensed under {licence}, which deny.toml does not allow"))
            }
            Some(_) => None,
        }
    }

    /// Whether one of the alternatives of an SPDX expression is allowed in all its parts.
    ///
    /// Parentheses are read as if absent, `OR` binding weaker than `AND`; an expression that this
    /// misreads must be looked at by a person, so a part that is not allowed anywhere fails it.
    fn allows(&self, expression: &str) -> bool {
        let flat = expression.replace(['(', ')'], "").replace('/', " OR ");
        let allowed = |licence: &str| self.licences.iter().any(|allowed| allowed == licence.trim());
        if expression.contains('(') {
            return flat.split(" AND ").all(|part| part.split(" OR ").any(allowed));
        }
        flat.split(" OR ").any(|alternative| alternative.split(" AND ").all(allowed))
    }
}

/// The first quoted text of each line of `key = […]` in `[section]`.
fn list(text: &str, section: &str, key: &str) -> Vec<String> {
    let heading = format!("[{section}]");
    let opening = format!("{key} = [");
    text.lines()
        .skip_while(|line| line.trim() != heading)
        .skip_while(|line| line.trim() != opening)
        .skip(1)
        .take_while(|line| line.trim() != "]")
        .filter_map(|line| line.split('"').nth(1))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = "[licenses]\nallow = [\n    \"MIT\",\n    \"Apache-2.0\",\n    \"Unicode-3.0\",\n]\n\n[bans]\ndeny = [\n    { crate = \"nix\", reason = \"because\" },\n]\n";

    fn objection(name: &str, source: &str, licence: Option<&str>) -> Option<String> {
        Rules::parse(DENY).unwrap().objection(&Package { licence, name, source })
    }

    #[test]
    fn what_is_allowed_passes() {
        for licence in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "MIT AND Unicode-3.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
        ] {
            assert_eq!(objection("a", "registry+x", Some(licence)), None, "{licence}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        for licence in
            [Some("GPL-3.0"), Some("MIT AND GPL-3.0"), Some("(MIT OR Apache-2.0) AND GPL-3.0"), None]
        {
            assert!(objection("a", "registry+x", licence).is_some(), "{licence:?}");
        }
        assert!(objection("nix", "registry+x", Some("MIT")).unwrap().contains("banned"));
        assert!(objection("a", "git+x", Some("MIT")).unwrap().contains("git+x"));
    }

    #[test]
    fn rules_that_cannot_be_read_are_an_error() {
        assert!(Rules::parse("[licenses]\nallow = [\"MIT\"]\n").is_err());
    }
}
