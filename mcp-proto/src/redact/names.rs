//! Which names tell that their value is a secret.

/// How sure a name is that its value must not be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// In each form.
    Always,
    /// Only in `name=value`.
    BehindEquals,
    /// Only in `name=value` and in quotes; `name: value` is prose as likely as not.
    InAssignments,
    /// Only as a query parameter.
    InQueries,
    /// In each form, and the value goes on to the end of the line.
    WholeLine,
}

/// Names made of one word, or the last word of a longer name.
const WORDS: &[(&str, Telling)] = &[
    ("apikey", Telling::Always),
    ("authorization", Telling::Always),
    ("cookie", Telling::WholeLine),
    ("credential", Telling::InAssignments),
    ("credentials", Telling::InAssignments),
    ("jwt", Telling::InAssignments),
    ("passphrase", Telling::Always),
    ("passwd", Telling::Always),
    ("password", Telling::Always),
    ("pwd", Telling::InAssignments),
    ("secret", Telling::Always),
    ("token", Telling::InAssignments),
];

/// Names of several words, written together.
const COMPOUNDS: &[&str] = &[
    "accesskey",
    "accesstoken",
    "apikey",
    "apitoken",
    "authtoken",
    "bearertoken",
    "clientsecret",
    "encryptionkey",
    "idtoken",
    "mcpsessionid",
    "privatekey",
    "refreshtoken",
    "secretkey",
    "sessiontoken",
    "signingkey",
];

/// What stands before `key` in names whose values are no secrets.
const HARMLESS_KEYS: &[&str] =
    &["cache", "foreign", "group", "hash", "idempotency", "index", "partition", "primary", "public", "sort"];

/// Names that tell only in a URL, where the same words mean credentials.
const QUERY_NAMES: &[&str] =
    &["auth", "code", "key", "session", "sessionid", "sig", "signature", "xamzcredential", "xamzsignature"];

/// Judges a name made of letters, digits, `_` and `-`.
pub(super) fn judge(name: &str) -> Option<Telling> {
    let together: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    if COMPOUNDS.iter().any(|compound| together.ends_with(compound)) {
        return Some(Telling::Always);
    }
    let mut words = name.rsplit(['_', '-']).map(str::to_ascii_lowercase);
    let last = words.next()?;
    if let Some((_, telling)) = WORDS.iter().find(|(word, _)| *word == last) {
        return Some(*telling);
    }
    if last == "key" {
        let is_harmless = words.next().is_some_and(|before| HARMLESS_KEYS.contains(&before.as_str()));
        return (!is_harmless).then_some(Telling::BehindEquals);
    }
    QUERY_NAMES.contains(&together.as_str()).then_some(Telling::InQueries)
}
