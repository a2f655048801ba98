/// How much of the `WWW-Authenticate` headers of one answer is read, in bytes.
const MAX_CHALLENGE_BYTES: usize = 16 * 1024;

/// What a server asks for with one of the schemes for access tokens. Every text is untrusted.
///
/// # Source
///
/// RFC 6750, section 3; RFC 9449, section 7.1; RFC 9728, section 5.1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenChallenge {
    /// Algorithms of proofs, separated by spaces; of the scheme `DPoP` alone.
    pub algs: Option<String>,
    /// Why the request was refused, such as `insufficient_scope`.
    pub error: Option<String>,
    /// The same for a person.
    pub error_description: Option<String>,
    /// Names what is protected.
    pub realm: Option<String>,
    /// Where the metadata of the resource is, absolute or relative to the server's URL.
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs, separated by spaces.
    pub scope: Option<String>,
}

/// What the `WWW-Authenticate` headers of one answer ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenges {
    /// The first challenge of the scheme `Bearer`.
    pub bearer: Option<TokenChallenge>,
    /// The first challenge of the scheme `DPoP`: for tokens that are bound to a key.
    pub dpop: Option<TokenChallenge>,
}

impl Challenges {
    /// Reads all values of `WWW-Authenticate`, in order.
    ///
    /// A value may hold several challenges. What cannot be read is passed over, and nothing beyond
    /// 16 KiB is looked at.
    ///
    /// # Source
    ///
    /// RFC 9110, section 11.
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut challenges = Self::default();
        let mut left = MAX_CHALLENGE_BYTES;
        for value in values {
            let value = value.get(..left).unwrap_or(value);
            left -= value.len();
            challenges.read(&String::from_utf8_lossy(value));
        }
        challenges
    }

    fn read(&mut self, value: &str) {
        let mut scanner = Scanner { rest: value };
        // The challenge that parameters belong to, if it is one that is wanted.
        let mut current: Option<&mut TokenChallenge> = None;
        loop {
            scanner.skip(|byte| matches!(byte, b' ' | b'\t' | b','));
            if scanner.rest.is_empty() {
                return;
            }
            let name = scanner.token();
            if name.is_empty() {
                scanner.skip_item();
            } else if let Some(text) = scanner.value() {
                if let Some(challenge) = &mut current {
                    challenge.set(name, text);
                }
            } else {
                let place = match name {
                    name if name.eq_ignore_ascii_case("bearer") => Some(&mut self.bearer),
                    name if name.eq_ignore_ascii_case("dpop") => Some(&mut self.dpop),
                    _ => None,
                };
                // The first of each scheme counts.
                current = place
                    .filter(|place| place.is_none())
                    .map(|place| place.insert(TokenChallenge::default()));
                scanner.token68();
            }
        }
    }

    /// Whether nothing is asked for with a scheme for access tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bearer.is_none() && self.dpop.is_none()
    }

    /// Why the request was refused. Whoever has shown a bound token is told with the scheme `DPoP`.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.dpop.iter().chain(&self.bearer).find_map(|one| one.error.as_deref())
    }

    /// Where the metadata of the resource is.
    #[must_use]
    pub fn resource_metadata(&self) -> Option<&str> {
        self.schemes().find_map(|one| one.resource_metadata.as_deref())
    }

    /// The scopes that the request needs.
    #[must_use]
    pub fn scope(&self) -> Option<&str> {
        self.schemes().find_map(|one| one.scope.as_deref())
    }

    /// In the order in which they are asked for something: most servers know `Bearer` alone.
    fn schemes(&self) -> impl Iterator<Item = &TokenChallenge> {
        self.bearer.iter().chain(&self.dpop)
    }
}

impl TokenChallenge {
    /// Keeps the first of several parameters of one name.
    fn set(&mut self, name: &str, value: String) {
        let place = match name.to_ascii_lowercase().as_str() {
            "algs" => &mut self.algs,
            "error" => &mut self.error,
            "error_description" => &mut self.error_description,
            "realm" => &mut self.realm,
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            _ => return,
        };
        place.get_or_insert(value);
    }
}

/// What is left of a header value.
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        let end = self.rest.bytes().position(|byte| !is_skipped(byte)).unwrap_or(self.rest.len());
        self.advance(end);
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// What cannot be understood ends with the next comma.
    fn skip_item(&mut self) {
        self.advance(self.rest.find(',').unwrap_or(self.rest.len()));
    }

    fn token(&mut self) -> &'a str {
        let end = self.rest.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        token
    }

    /// The value of a parameter whose name was just read; nothing is consumed unless there is one.
    fn value(&mut self) -> Option<String> {
        let mut ahead = Scanner { rest: self.rest };
        ahead.skip(is_space);
        ahead.rest = ahead.rest.strip_prefix('=')?;
        ahead.skip(is_space);
        let value = match ahead.rest.strip_prefix('"') {
            Some(quoted) => {
                ahead.rest = quoted;
                ahead.quoted()
            }
            None => {
                let end = ahead.rest.find([',', ' ', '\t']).unwrap_or(ahead.rest.len());
                let value = ahead.rest.get(..end).unwrap_or_default().to_owned();
                ahead.advance(end);
                value
            }
        };
        self.rest = ahead.rest;
        Some(value)
    }

    /// The rest of a quoted string; one that never ends goes to the end.
    fn quoted(&mut self) -> String {
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.advance(at + 1);
                    return text;
                }
                '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                other => text.push(other),
            }
        }
        self.rest = "";
        text
    }

    /// Skips the single value that some schemes have in place of parameters, such as `Basic YTpi`.
    fn token68(&mut self) {
        let mut ahead = Scanner { rest: self.rest };
        ahead.skip(is_space);
        ahead.skip(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte));
        ahead.skip(|byte| byte == b'=');
        ahead.skip(is_space);
        if ahead.rest.is_empty() || ahead.rest.starts_with(',') {
            self.rest = ahead.rest;
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(values: &[&str]) -> Challenges {
        Challenges::parse(values.iter().map(|value| value.as_bytes()))
    }

    fn bearer(values: &[&str]) -> TokenChallenge {
        parse(values).bearer.unwrap()
    }

    #[test]
    fn d06_parameters_are_read_in_every_spelling() {
        let expected = TokenChallenge {
            error: Some("invalid_token".into()),
            resource_metadata: Some("https://a.example/x?y=1,2".into()),
            scope: Some("a b".into()),
            ..TokenChallenge::default()
        };
        for value in [
            r#"Bearer error="invalid_token", resource_metadata="https://a.example/x?y=1,2", scope="a b""#,
            r#"bearer   error=invalid_token,scope="a b",resource_metadata="https://a.example/x?y=1,2""#,
            r#"BEARER ERROR = "invalid_token" , Scope= "a b",, Resource_Metadata="https://a.example/x?y=1\,2""#,
            r#", Bearer error="invalid\_token", resource_metadata="https://a.example/x?y=1,2", scope="a b","#,
        ] {
            assert_eq!(bearer(&[value]), expected, "{value}");
        }
    }

    #[test]
    fn d06_names_are_matched_whole() {
        let found = bearer(&[r#"Bearer error_description="error=\"x\", scope=y", x_scope="z", xerror=z"#]);
        assert_eq!(found.error_description.as_deref(), Some(r#"error="x", scope=y"#));
        assert_eq!((found.error, found.scope), (None, None));
    }

    #[test]
    fn d06_the_first_bearer_of_several_challenges_is_taken() {
        let table: &[(&[&str], Option<&str>, bool)] = &[
            (&[r#"Basic realm="x", scope="no", Bearer scope="yes""#], Some("yes"), false),
            (&[r#"Basic realm="x""#, r#"Bearer scope="yes""#], Some("yes"), false),
            (&[r#"Negotiate, Bearer scope="yes", DPoP algs="ES256", scope="no""#], Some("yes"), true),
            (&[r#"Basic YWJj==, Bearer scope="yes""#], Some("yes"), false),
            (&[r#"Bearer scope="yes", Bearer scope="no""#], Some("yes"), false),
            (&[r#"Bearer scope="yes""#, r#"Bearer scope="no""#], Some("yes"), false),
            (&[r#"Bearer scope="yes", scope="no""#], Some("yes"), false),
            (&["Bearer"], None, false),
            (&["DPoP", "Bearer "], None, true),
            (&[r#"Bearer realm="a, Bearer scope=no""#], None, false),
            (&[r#"Bearer scope="yes"#], Some("yes"), false),
            (&["Bearer scope="], None, false),
            (&[r#"Bearer ;;;, scope="yes""#], Some("yes"), false),
        ];
        for (values, scope, offers_dpop) in table {
            let found = parse(values);
            assert_eq!(found.bearer.unwrap().scope.as_deref(), *scope, "{values:?}");
            assert_eq!(found.dpop.is_some(), *offers_dpop, "{values:?}");
        }
        for values in [&[][..], &[""], &[r#"Basic realm="Bearer""#], &["XBearer a=b"], &["=", "Bearer=x"]] {
            assert_eq!(parse(values).bearer, None, "{values:?}");
        }
    }

    #[test]
    fn d06_both_schemes_for_tokens_are_read_and_told_apart() {
        let found = parse(&[
            r#"Bearer scope="a", error="invalid_token", DPoP algs="ES256 PS256", error="use_dpop_nonce""#,
            r#"DPoP error="second", resource_metadata="/no", Basic error="x""#,
        ]);
        let dpop = found.dpop.clone().unwrap();
        assert_eq!((dpop.algs.as_deref(), dpop.scope), (Some("ES256 PS256"), None));
        assert_eq!((found.error(), found.scope()), (Some("use_dpop_nonce"), Some("a")));
        assert_eq!(found.resource_metadata(), None, "only the first of a scheme counts");
        let found = parse(&[r#"dpop resource_metadata="/m", scope="b", error="e""#]);
        assert_eq!((found.bearer.is_some(), found.is_empty()), (false, false));
        assert_eq!(
            (found.resource_metadata(), found.scope(), found.error()),
            (Some("/m"), Some("b"), Some("e"))
        );
        assert!(parse(&["Basic a=b"]).is_empty());
    }

    #[test]
    fn d06_no_more_than_16_kib_is_read() {
        let long = format!("Basic {}", "a=b,".repeat(MAX_CHALLENGE_BYTES / 4));
        assert_eq!(parse(&[&long, "Bearer"]).bearer, None);
        assert!(parse(&["Bearer", &long]).bearer.is_some());
    }

    proptest! {
        #[test]
        fn d06_what_is_written_is_read(
            scope in "[ -~äß]{0,30}", metadata in "[ -~]{0,30}", other in "[a-z]{1,5}", realm in "[ -~]{0,9}",
        ) {
            let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let value = format!(
                "Basic realm={}, Bearer x{other}={}, scope={}, resource_metadata={}",
                quote(&realm), quote(&realm), quote(&scope), quote(&metadata),
            );
            let found = bearer(&[&value]);
            prop_assert_eq!(found.scope.as_deref(), Some(scope.as_str()));
            prop_assert_eq!(found.resource_metadata.as_deref(), Some(metadata.as_str()));
            prop_assert_eq!(found.realm, None);
        }

        #[test]
        fn d06_nothing_panics(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..4)) {
            Challenges::parse(values.iter().map(Vec::as_slice));
        }

        #[test]
        fn d06_nothing_that_looks_like_a_challenge_panics(value in r#"([Bb]earer|scope|error|=|"|\\|,| |[é]){0,40}"#) {
            parse(&[&value]);
        }
    }
}
