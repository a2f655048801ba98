use std::fmt;

use mcp_proto::Secret;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Names and values in the format of web forms. `Debug` shows the names alone.
///
/// # Source
///
/// RFC 6749, appendix B; URL standard, *application/x-www-form-urlencoded*.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Form(Vec<(String, Secret)>);

impl Form {
    /// No names yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a form, such as the query of a URL; what is no UTF-8 is replaced.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), Secret::new(decode(value)))
        });
        Self(pairs.collect())
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.0.push((name.into(), value.into()));
        self
    }

    /// Adds a value if there is one.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl Into<Secret>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The first value of a name that is not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Secret> {
        let mut values = self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value);
        values.find(|value| !value.expose().is_empty())
    }

    /// Whether a name comes at all, be it with an empty value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Whether a name comes more than once.
    #[must_use]
    pub fn repeats(&self, name: &str) -> bool {
        self.0.iter().filter(|(known, _)| known == name).count() > 1
    }

    /// Every value; all of them must be kept out of what is shown.
    pub fn values(&self) -> impl Iterator<Item = &Secret> {
        self.0.iter().map(|(_, value)| value)
    }

    /// The text that is sent.
    #[must_use]
    pub fn encode(&self) -> Secret {
        let names_and_values = self.0.iter().map(|(name, value)| name.len() + value.expose().len() + 2);
        // Room for each byte as `%XX`, so that no copy is left behind by growing.
        let mut text = String::with_capacity(3 * names_and_values.sum::<usize>());
        for (name, value) in &self.0 {
            if !text.is_empty() {
                text.push('&');
            }
            encode_into(&mut text, name);
            text.push('=');
            encode_into(&mut text, value.expose());
        }
        Secret::new(text)
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| mcp_proto::escape(name, 64))).finish()
    }
}

/// One value in the format of web forms.
pub(super) fn encode(value: &str) -> Secret {
    let mut text = String::with_capacity(3 * value.len());
    encode_into(&mut text, value);
    Secret::new(text)
}

fn encode_into(text: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b' ' => text.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"*-._".contains(&byte) => text.push(char::from(byte)),
            byte => {
                text.push('%');
                let digits = [byte >> 4, byte & 15].map(|digit| HEX.get(usize::from(digit)));
                text.extend(digits.into_iter().flatten().copied().map(char::from));
            }
        }
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let escaped = match byte {
            b'%' => {
                let mut ahead = rest.clone();
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(ahead.next()), digit(ahead.next()));
                high.zip(low)
                    .and_then(|(high, low)| u8::try_from(16 * high + low).ok())
                    .inspect(|_| rest = ahead)
            }
            b'+' => Some(b' '),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(byte));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn n06_values_are_encoded_as_forms_are() {
        let form =
            Form::new().with("a b", "c&d=e").with_some("f", Some(":%+ /é~*-._")).with_some("g", None::<&str>);
        assert_eq!(form.encode().expose(), "a+b=c%26d%3De&f=%3A%25%2B+%2F%C3%A9%7E*-._");
        assert_eq!(format!("{form:?}"), r#"["a b", "f"]"#);
    }

    #[test]
    fn broken_escapes_are_kept_and_empty_values_do_not_count() {
        let form = Form::parse("a=%zz%4&&b&=c&d=%ff&e=&e=1&e=2");
        let value = |name| form.get(name).map(Secret::expose);
        assert_eq!(
            (value("a"), value("b"), value(""), value("d")),
            (Some("%zz%4"), None, Some("c"), Some("\u{fffd}"))
        );
        assert_eq!((value("e"), form.repeats("e"), form.repeats("a")), (Some("1"), true, false));
    }

    proptest! {
        #[test]
        fn n06_what_is_encoded_is_decoded(pairs in prop::collection::vec((".{1,8}", ".{0,12}"), 0..5)) {
            let form = Form(pairs.into_iter().map(|(name, value)| (name, Secret::new(value))).collect());
            prop_assert_eq!(Form::parse(form.encode().expose()), form);
        }
    }
}
