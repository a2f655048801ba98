//! Which version both sides use: pure rules over what each side says it speaks.

use std::fmt;

use serde::Deserialize;

use crate::error::{ErrorObject, code};
use crate::escape::escape;
use crate::version::{Era, ProtocolVersion};

/// How many of a server's versions an error names.
const NAMED_VERSIONS: usize = 16;

/// Client and server have no version in common.
///
/// Nobody is at fault; one of the two must be updated, so trying again is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server speaks {}, this client speaks {}", Offered(offered), Spoken(supported))]
#[non_exhaustive]
pub struct VersionError {
    /// What the server says it speaks, as received.
    pub offered: Vec<String>,
    /// What this client was configured to speak.
    pub supported: Vec<ProtocolVersion>,
}

impl VersionError {
    /// Names both sides.
    pub fn new(offered: &[impl AsRef<str>], supported: &[ProtocolVersion]) -> Self {
        let offered = offered.iter().map(|version| version.as_ref().to_owned()).collect();
        Self { offered, supported: supported.to_vec() }
    }
}

/// The version to offer in `initialize`: the newest legacy one that is supported.
///
/// # Source
///
/// MCP 2025-11-25, basic/lifecycle; 2026-07-28 is never offered in `initialize`.
#[must_use]
pub fn offer(supported: &[ProtocolVersion]) -> Option<ProtocolVersion> {
    supported.iter().copied().filter(|version| version.era() == Era::Legacy).max()
}

/// Judges the version that a server has answered `initialize` with.
///
/// # Errors
///
/// It is not a legacy version that is supported: close the connection, do not go on.
///
/// # Source
///
/// MCP 2025-11-25, basic/lifecycle: a client that does not speak the version should disconnect.
pub fn accept(answered: &str, supported: &[ProtocolVersion]) -> Result<ProtocolVersion, VersionError> {
    ProtocolVersion::parse(answered)
        .filter(|version| version.era() == Era::Legacy && supported.contains(version))
        .ok_or_else(|| VersionError::new(&[answered], supported))
}

/// The newest version of `era` that both sides speak.
///
/// # Source
///
/// MCP 2026-07-28, basic: a client picks from `supportedVersions` of a discovery, or from
/// `data.supported` of an error −32022.
#[must_use]
pub fn pick(offered: &[String], supported: &[ProtocolVersion], era: Era) -> Option<ProtocolVersion> {
    let is_offered = |version: &ProtocolVersion| offered.iter().any(|name| name == version.as_str());
    supported.iter().copied().filter(|version| version.era() == era).filter(is_offered).max()
}

/// The versions that an error −32022 lists; `None` for another error and for a list without a text.
#[must_use]
pub fn versions_in(error: &ErrorObject) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<serde_json::Value>,
    }
    if error.code != code::UNSUPPORTED_PROTOCOL_VERSION {
        return None;
    }
    let data: Data = error.data.as_ref()?.decode().ok()?;
    let text = |value| match value {
        serde_json::Value::String(text) => Some(text),
        _ => None,
    };
    let versions: Vec<String> = data.supported.into_iter().filter_map(text).collect();
    (!versions.is_empty()).then_some(versions)
}

struct Offered<'a>(&'a [String]);

impl fmt::Display for Offered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no version");
        }
        for (index, name) in self.0.iter().take(NAMED_VERSIONS).enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, escape(name, 32))?;
        }
        if self.0.len() > NAMED_VERSIONS {
            write!(f, " and {} more", self.0.len() - NAMED_VERSIONS)?;
        }
        Ok(())
    }
}

struct Spoken<'a>(&'a [ProtocolVersion]);

impl fmt::Display for Spoken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no version");
        }
        for (index, version) in self.0.iter().enumerate() {
            write!(f, "{}{version}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_json::RawJson;

    const ALL: &[ProtocolVersion] = ProtocolVersion::ALL;

    fn names(versions: &[&str]) -> Vec<String> {
        versions.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn v18_initialize_offers_the_newest_legacy_version_and_never_a_modern_one() {
        assert_eq!(offer(ALL), Some(ProtocolVersion::V2025_11_25));
        let older =
            [ProtocolVersion::V2025_06_18, ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_03_26];
        assert_eq!(offer(&older), Some(ProtocolVersion::V2025_06_18));
        assert_eq!(offer(&[ProtocolVersion::V2026_07_28]), None);
    }

    #[test]
    fn f115_an_answer_that_is_not_spoken_names_both_sides() {
        assert_eq!(accept("2024-11-05", ALL), Ok(ProtocolVersion::V2024_11_05));
        for answered in ["1999-01-01", "2026-07-28", "2030-01-01", ""] {
            let error = accept(answered, ALL).unwrap_err();
            assert_eq!(
                (error.offered.as_slice(), error.supported.as_slice()),
                (&names(&[answered])[..], ALL)
            );
        }
        let only = [ProtocolVersion::V2025_11_25];
        assert_eq!(
            accept("1999-01-01", &only).unwrap_err().to_string(),
            "the server speaks 1999-01-01, this client speaks 2025-11-25"
        );
    }

    #[test]
    fn a_version_error_stays_short_and_on_one_line() {
        let offered = vec!["\u{1b}[2J\n".repeat(1000); 100];
        let text = VersionError::new(&offered, &[]).to_string();
        assert!(text.len() < 2000, "{} bytes", text.len());
        assert!(!text.contains(char::is_control), "{text}");
        assert!(text.ends_with(" and 84 more, this client speaks no version"), "{text}");
    }

    #[test]
    fn v30_the_newest_mutual_version_of_the_era_is_picked() {
        let offered = names(&["2031-01-01", "2024-11-05", "2026-07-28", "2025-06-18"]);
        assert_eq!(pick(&offered, ALL, Era::Modern), Some(ProtocolVersion::V2026_07_28));
        assert_eq!(pick(&offered, ALL, Era::Legacy), Some(ProtocolVersion::V2025_06_18));
        assert_eq!(pick(&offered, &[ProtocolVersion::V2025_11_25], Era::Legacy), None);
        assert_eq!(pick(&[], ALL, Era::Modern), None);
    }

    #[test]
    fn versions_are_read_from_the_error_that_lists_them_alone() {
        let error = |code, data: &str| {
            let mut error = ErrorObject::new(code, "");
            error.data = (!data.is_empty()).then(|| RawJson::from_text(data).unwrap());
            versions_in(&error)
        };
        let listed = r#"{"supported":["a",7,null,"b"],"requested":"c"}"#;
        assert_eq!(error(-32022, listed), Some(names(&["a", "b"])));
        assert_eq!(error(-32021, listed), None);
        for unusable in
            ["", "null", "7", "{}", r#"{"supported":"a"}"#, r#"{"supported":[]}"#, r#"{"supported":[1]}"#]
        {
            assert_eq!(error(-32022, unusable), None, "{unusable}");
        }
    }
}
