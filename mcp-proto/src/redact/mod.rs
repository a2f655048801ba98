mod credentials;
mod names;
mod scan;

use std::borrow::Cow;
use std::ops::Range;

use crate::secret::Secret;

/// Values of fewer bytes are replaced only where they stand alone, or they would shred the text.
const SHORT_VALUE_BYTES: usize = 4;

/// Takes secrets out of texts that leave the program: errors, log lines, what a model reads.
///
/// Two things are replaced by [`Secret::MARKER`]: the values it was told, wherever they stand, and
/// what looks like a credential: keys with a vendor's prefix, JSON Web Tokens, private keys, the value
/// behind `Bearer` and its like, of a header or a variable with a telling name, of such a query
/// parameter, and the user part of a URL. The second kind is a net below the first, not a proof: a
/// secret that is known should be told.
///
/// Redact a text before it is escaped or cut, and whole: a secret that is spread over two texts is
/// not found. Redacting twice changes nothing more. Time is linear in the text for each told value.
///
/// # Examples
///
/// ```
/// use mcp_proto::{Redactor, Secret};
///
/// let redactor = Redactor::new([Secret::new("hunter2")]);
/// let text = "login of joe with hunter2 failed, header was 'Authorization: Bearer abc'";
/// assert_eq!(
///     redactor.redact(text),
///     "login of joe with [secret] failed, header was 'Authorization: [secret]'"
/// );
/// assert_eq!(redactor.redact("a desk-lamp, monkey=7"), "a desk-lamp, monkey=7");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Each value in each form in which it may show up; never empty texts.
    values: Vec<Secret>,
}

impl Redactor {
    /// Knows `values`, besides what looks like a credential.
    pub fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut redactor = Self::default();
        values.into_iter().for_each(|value| redactor.add(&value));
        redactor
    }

    /// Learns one more value; as it is, and in the forms it takes inside JSON and URLs.
    ///
    /// Values shorter than four bytes are replaced only where no letter or digit touches them.
    pub fn add(&mut self, value: &Secret) {
        let plain = value.expose();
        for form in [plain.to_owned(), in_json(plain), in_url(plain)] {
            let form = Secret::new(form);
            if !form.expose().is_empty() && !self.values.contains(&form) {
                self.values.push(form);
            }
        }
    }

    /// Replaces each secret in `text`.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut spans = scan::credentials_in(text);
        for value in &self.values {
            spans.extend(occurrences(text, value.expose()));
        }
        if spans.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(without(text, spans)) }
    }
}

fn occurrences<'a>(text: &'a str, value: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    let touches = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let stands_alone = move |span: &Range<usize>| {
        let bytes = text.as_bytes();
        let before = span.start.checked_sub(1).and_then(|index| bytes.get(index));
        !touches(before) && !touches(bytes.get(span.end))
    };
    text.match_indices(value)
        .map(|(start, found)| start..start + found.len())
        .filter(move |span| value.len() >= SHORT_VALUE_BYTES || stands_alone(span))
}

/// Writes `text` with one marker for each run of overlapping spans.
fn without(text: &str, mut spans: Vec<Range<usize>>) -> String {
    spans.sort_by_key(|span| span.start);
    let mut out = String::with_capacity(text.len());
    let mut written = 0;
    for span in spans {
        if span.start >= written {
            out.push_str(text.get(written..span.start).unwrap_or_default());
            out.push_str(Secret::MARKER);
        }
        written = written.max(span.end);
    }
    out.push_str(text.get(written..).unwrap_or_default());
    out
}

/// The value as it stands between the quotes of a JSON text.
fn in_json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// The value with everything but the unreserved characters of RFC 3986 as `%XX`.
fn in_url(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn assert_redacted(table: &[(&str, &str)]) {
        for (text, expected) in table {
            assert_eq!(Redactor::default().redact(text), *expected, "{text}");
        }
    }

    #[track_caller]
    fn assert_untouched(table: &[&str]) {
        for text in table {
            assert!(
                matches!(Redactor::default().redact(text), Cow::Borrowed(same) if same == *text),
                "{text}"
            );
        }
    }

    #[test]
    fn told_values_are_replaced_wherever_they_stand() {
        let redactor = Redactor::new(["hunter2", "a\"b c/ü", "", "xy"].map(Secret::from));
        for (text, expected) in [
            ("hunter2hunter2", "[secret][secret]"),
            ("xhunter2x", "x[secret]x"),
            (r#"as it is: a"b c/ü."#, "as it is: [secret]."),
            (r#"in JSON: a\"b c/ü."#, "in JSON: [secret]."),
            ("in a URL: a%22b%20c%2F%C3%BC.", "in a URL: [secret]."),
            ("short ones stand alone: xy, xyz", "short ones stand alone: [secret], xyz"),
        ] {
            assert_eq!(redactor.redact(text), expected);
        }
        assert!(!format!("{redactor:?}").contains("hunter2"));
    }

    #[test]
    fn overlapping_values_leave_no_rest() {
        let redactor = Redactor::new(["abcdef", "defghi", "cd12", "abcdefgh"].map(Secret::from));
        assert_eq!(redactor.redact("-abcdefghi-"), "-[secret]-");
    }

    #[test]
    fn keys_with_a_vendors_prefix() {
        assert_redacted(&[
            ("bad key ghp_abcdefghijklmnopqrst0123!", "bad key [secret]!"),
            ("github_pat_11ABCDEFG0abcdefghijkl_mnop", "[secret]"),
            ("(sk-proj-abcDEF123_456-7890)", "([secret])"),
            ("sk-ant-api03-abcdefghijk.", "[secret]."),
            ("xoxb-123456789012-abcdef", "[secret]"),
            ("id AKIAIOSFODNN7EXAMPLE", "id [secret]"),
            ("glpat-abcdefghij_123456", "[secret]"),
            ("a-ghp_abcdefghijklmnopqrst0123", "a-[secret]"),
        ]);
    }

    #[test]
    fn json_web_tokens() {
        assert_redacted(&[(
            "got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN, why",
            "got [secret], why",
        )]);
        assert_untouched(&["eyJhbGciOiJIUzI1NiJ9 alone is a header"]);
    }

    #[test]
    fn values_behind_an_authentication_scheme() {
        assert_redacted(&[
            ("sent bearer abc.def~ghi== to it", "sent bearer [secret] to it"),
            ("Basic dXNlcjpwYXNz", "Basic [secret]"),
            ("Token 0123456789abcdef", "Token [secret]"),
            (r#"Digest username="joe", response="0a1b""#, "Digest [secret]"),
        ]);
        assert_untouched(&[
            "a bearer token is needed",
            r#"Bearer realm="x", error="invalid_token""#,
            "Basic authentication, token expired, digest mismatch",
        ]);
    }

    #[test]
    fn headers_with_credentials() {
        assert_redacted(&[
            ("Authorization: Bearer abc", "Authorization: [secret]"),
            ("authorization: abc\r\nhost: x", "authorization: [secret]\r\nhost: x"),
            ("Cookie: a=b; c=d\nhost: x", "Cookie: [secret]\nhost: x"),
            ("x-api-key: abc", "x-api-key: [secret]"),
            ("Mcp-Session-Id: abc-def", "Mcp-Session-Id: [secret]"),
            (r#"{"Authorization": "Bearer abc", "a": 1}"#, r#"{"Authorization": "[secret]", "a": 1}"#),
        ]);
    }

    #[test]
    fn names_and_values() {
        assert_redacted(&[
            ("token=abc&a=b", "token=[secret]&a=b"),
            ("API_KEY=abc, next", "API_KEY=[secret], next"),
            ("MY_PRIVATE_KEY='a b c' x", "MY_PRIVATE_KEY='[secret]' x"),
            ("password: hunter2", "password: [secret]"),
            ("the db_password = hunter2", "the db_password = [secret]"),
            ("accessToken: abcDEF123", "accessToken: [secret]"),
            (r#"{"token": "a\"b", "c": 1}"#, r#"{"token": "[secret]", "c": 1}"#),
            (r#"{"token":12345}"#, r#"{"token":[secret]}"#),
            (r#"{\"client_secret\":\"abc\",\"a\":1}"#, r#"{\"client_secret\":\"[secret]\",\"a\":1}"#),
            ("{'api_key': 'abc'}", "{'api_key': '[secret]'}"),
            (r#"cut off: {"password":"abc"#, r#"cut off: {"password":"[secret]"#),
            ("--token=abc", "--token=[secret]"),
        ]);
    }

    #[test]
    fn urls() {
        assert_redacted(&[
            ("https://joe:pass@host/path", "https://[secret]@host/path"),
            ("at https://abcdef@host:80.", "at https://[secret]@host:80."),
            ("http://h/cb?code=abc&state=1#x", "http://h/cb?code=[secret]&state=1#x"),
            ("http://h/f?a=1&X-Amz-Signature=0a1b", "http://h/f?a=1&X-Amz-Signature=[secret]"),
            ("http://h/?session=abc", "http://h/?session=[secret]"),
        ]);
        assert_untouched(&["ssh://git@host/x", "http://host/a@b", "mail joe@host", "http://h/?q=code"]);
    }

    #[test]
    fn private_keys() {
        assert_redacted(&[
            ("a -----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY----- b", "a [secret] b"),
            ("-----BEGIN PRIVATE KEY-----\nMIIB, cut", "[secret]"),
        ]);
        assert_untouched(&["-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"]);
    }

    #[test]
    fn ordinary_words_stay_whole() {
        assert_untouched(&[
            "desk-lamp",
            "risk-averse behaviour of a task-runner",
            "monkey=7, turkey: yes, hockey=1",
            "unexpected token: '}' at line 3",
            "exit code: 1, error code=-32601",
            "max_tokens=512, primary_key=id, sort_key: name",
            r#"{"progressToken":7,"key":"uri","token":null}"#,
            "the session: closed; a signature: fn main()",
            "sk-learn",
            "a ghp_ prefix",
            "keyboard=de",
            "",
            "日本語 token です",
        ]);
    }

    #[test]
    fn a_hostile_text_takes_no_quadratic_time() {
        // With a scan of all the rest at each word, one of these takes many minutes.
        for unit in
            ["token", "\"token\":", "a://", "Bearer ", "-----BEGIN ", "eyJ.", "sk-", "token='", "a=", "key=="]
        {
            let text = unit.repeat(200_000 / unit.len());
            let _ = Redactor::default().redact(&text).len();
        }
    }

    proptest! {
        #[test]
        fn a_told_value_never_survives(
            before in ".{0,20}", after in ".{0,20}", value in "[ -~]{4,20}",
        ) {
            prop_assume!(!Secret::MARKER.contains(&value) && !value.contains("[sec") && !value.contains("ret]"));
            let redactor = Redactor::new([Secret::from(value.as_str())]);
            let text = format!("{before}{value}{after}");
            let redacted = redactor.redact(&text);
            let pieces: Vec<&str> = redacted.split(Secret::MARKER).collect();
            prop_assert!(pieces.iter().all(|piece| !piece.contains(&value)), "{}", redacted);
        }

        #[test]
        fn redacting_twice_changes_nothing_more(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "token", "=", ": ", "\"", "'", "Bearer ", "abc123XYZ", "://", "@", "&", "?code=", "\\\"", "\n", "ü",
                "sk-", "ghp_", "-----BEGIN PRIVATE KEY-----", "eyJhbGciOi.", "Authorization", "[secret]", " ", "Cookie",
                "password", ";", "]", "}",
            ]), 0..16),
        ) {
            let once = Redactor::default().redact(&pieces.concat()).into_owned();
            prop_assert_eq!(Redactor::default().redact(&once), once.as_str(), "from {:?}", pieces.concat());
        }

        #[test]
        fn any_text_is_taken(text in ".{0,200}") {
            let _ = Redactor::default().redact(&text);
        }
    }
}
