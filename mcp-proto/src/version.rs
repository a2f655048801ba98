use std::fmt;

use serde::{Deserialize, Serialize};

/// Which of the two wire vocabularies a connection speaks.
///
/// # Source
///
/// MCP 2026-07-28, basic/lifecycle; earlier revisions share the legacy vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// Opened by `initialize`: sessions, `ping`, requests from the server.
    Legacy,
    /// Opened by `server/discover`: `_meta` on every request, no sessions.
    Modern,
}

/// A published revision of the protocol, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 2024-11-05.
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    /// 2025-03-26, the only one with batches.
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    /// 2025-06-18.
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    /// 2025-11-25, the newest legacy one.
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    /// 2026-07-28, the first modern one.
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

impl ProtocolVersion {
    /// Every version this crate speaks, oldest first.
    pub const ALL: &'static [Self] =
        &[Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// What `initialize` offers.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;
    /// What `server/discover` offers.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// Reads a wire name; `None` for a version that is not spoken here.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|version| version.as_str() == text)
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The vocabulary this version uses.
    #[must_use]
    pub fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }

    /// Whether messages may arrive in arrays.
    #[must_use]
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_reads_its_own_name() {
        for version in ProtocolVersion::ALL {
            assert_eq!(ProtocolVersion::parse(version.as_str()), Some(*version));
            assert_eq!(serde_json::to_string(version).unwrap(), format!("\"{version}\""));
        }
        assert_eq!(ProtocolVersion::parse("1999-01-01"), None);
    }
}
