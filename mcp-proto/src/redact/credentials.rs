//! Texts that are credentials by their own looks.

/// A vendor's prefix and how many characters must follow it.
const PREFIXES: &[(&str, usize)] = &[
    ("AIza", 30),
    ("AKIA", 16),
    ("ASIA", 16),
    ("dop_v1_", 16),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 16),
    ("hf_", 16),
    ("lin_api_", 16),
    ("npm_", 30),
    ("pypi-", 30),
    ("rk_live_", 16),
    ("shpat_", 16),
    ("sk-", 16),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("ya29.", 16),
];

/// Behind `Bearer`, these are words about the scheme and not its credential.
const SCHEME_TALK: &[&str] = &[
    "auth",
    "authentication",
    "authorization",
    "challenge",
    "credential",
    "credentials",
    "header",
    "scheme",
    "token",
    "tokens",
];

/// Parameters of a challenge, as a server asks for credentials.
const CHALLENGE: &[&str] = &["charset", "error", "error_description", "realm", "resource_metadata", "scope"];

/// Length of the key with a vendor's prefix that `rest` begins with.
pub(super) fn vendor_key(rest: &[u8]) -> Option<usize> {
    let slack = rest.starts_with(b"xox") && rest.get(4) == Some(&b'-');
    let (prefix, least) = if slack {
        (5, 10)
    } else {
        let known = PREFIXES.iter().find(|(prefix, _)| rest.starts_with(prefix.as_bytes()))?;
        (known.0.len(), known.1)
    };
    let body = token_length(rest.get(prefix..)?);
    (body >= least).then_some(prefix + body)
}

/// Length of the JSON Web Token that `rest` begins with: base64url parts joined by dots.
pub(super) fn web_token(rest: &[u8]) -> Option<usize> {
    const LONGEST_HEADER: usize = 2048;
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let header = rest.iter().take(LONGEST_HEADER).take_while(|byte| is_inner(byte)).count();
    if !rest.starts_with(b"eyJ") || rest.get(header) != Some(&b'.') {
        return None;
    }
    let length = token_length(rest);
    (length >= 20 && length > header).then_some(length)
}

/// Length of the private key in PEM that `rest` begins with; to the end of a text that was cut.
pub(super) fn private_key(rest: &str) -> Option<usize> {
    const LONGEST_LABEL: usize = 64;
    let label = rest.strip_prefix("-----BEGIN ")?;
    let label = label.get(..label.floor_char_boundary(LONGEST_LABEL))?;
    let (kind, _) = label.split_once("-----")?;
    if !kind.ends_with("PRIVATE KEY") {
        return None;
    }
    let end = format!("-----END {kind}-----");
    Some(rest.find(&end).map_or(rest.len(), |start| start + end.len()))
}

/// Whether `run`, which follows the name of an authentication scheme, is what the scheme carries.
pub(super) fn follows_scheme(scheme: &str, run: &str) -> bool {
    if run.is_empty() {
        return false;
    }
    if scheme.eq_ignore_ascii_case("bearer") {
        let word = run.trim_end_matches(|end: char| !end.is_ascii_alphanumeric());
        let is_talk = SCHEME_TALK.iter().any(|talk| talk.eq_ignore_ascii_case(word));
        let is_challenge = run.split_once('=').is_some_and(|(name, _)| CHALLENGE.contains(&name));
        return !is_talk && !is_challenge;
    }
    looks_random(run)
}

/// Whether a run is more likely a credential than a word: long, with a digit, or in mixed case.
pub(super) fn looks_random(run: &str) -> bool {
    let has_digit = run.bytes().any(|byte| byte.is_ascii_digit());
    let inner = run.get(1..).unwrap_or_default();
    let is_mixed = inner.bytes().any(|byte| byte.is_ascii_uppercase())
        && run.bytes().any(|byte| byte.is_ascii_lowercase());
    run.len() >= 8 && (has_digit || is_mixed || run.len() >= 32)
}

/// Length of a run of letters, digits, `_` and `-`, and of dots inside it.
fn token_length(rest: &[u8]) -> usize {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let mut length = 0;
    while let Some(byte) = rest.get(length) {
        let is_inner_dot = *byte == b'.' && rest.get(length + 1).is_some_and(is_token);
        if !is_token(byte) && !is_inner_dot {
            break;
        }
        length += 1;
    }
    length
}
