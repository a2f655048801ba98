use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _};
use zeroize::Zeroizing;

/// A text that must never be shown: a token, a password, the value of a variable.
///
/// `Debug` and `Display` print `[secret]`, errors of deserialisation never quote the value, and there
/// is no `Serialize`. [`Secret::expose`] is the only way out. Its memory is wiped when it is dropped;
/// copies that others made of it, such as the text it was read from, are theirs to wipe.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// What stands in for a secret wherever one would have been shown.
    pub const MARKER: &'static str = "[secret]";

    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself, for the one place that must send it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::MARKER)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::MARKER)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The error of the inner reader quotes a value of a wrong kind ("invalid type: integer `42`").
        String::deserialize(deserializer)
            .map(Self::new)
            .map_err(|_| D::Error::custom("a secret must be written as a text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "[secret] [secret] Some([secret])");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn an_error_does_not_quote_the_value() {
        for text in ["90210777", "true", r#"["hunter2"]"#, r#"{"hunter2":1}"#, r#""hunter2"#, "1.5e3"] {
            let error = serde_json::from_str::<Secret>(text).unwrap_err().to_string();
            assert!(error.starts_with("a secret must be written as a text"), "{error}");
            for leak in ["hunter2", "90210777", "true", "1.5", "1500"] {
                assert!(!error.contains(leak), "{error}");
            }
        }
    }

    #[test]
    fn a_text_is_read() {
        assert_eq!(serde_json::from_str::<Secret>(r#""a\nb""#).unwrap(), Secret::new("a\nb"));
    }
}
