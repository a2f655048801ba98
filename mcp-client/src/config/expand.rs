use super::file::Lookup;

/// A text with its placeholders replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// Placeholders of a form that is not known here; they were left as they stand.
    pub(super) unknown: Vec<String>,
}

/// A placeholder without a value and without a default.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unset(pub(super) String);

/// Replaces `${NAME}`, `${env:NAME}` and `${NAME:-default}`; `$${` stands for a literal `${`.
///
/// As in a shell, the default also replaces an empty value. Text that came from a variable is not
/// expanded again.
pub(super) fn expand(text: &str, lookup: &Lookup<'_>) -> Result<Expanded, Unset> {
    let mut out = String::with_capacity(text.len());
    let mut unknown = Vec::new();
    let mut rest = text;
    while let Some((before, inside, after)) = next_placeholder(rest) {
        if let Some(plain) = before.strip_suffix('$') {
            out.push_str(plain);
            out.push_str("${");
            rest = rest.get(before.len() + 2..).unwrap_or_default();
            continue;
        }
        out.push_str(before);
        match Placeholder::parse(inside) {
            Some(placeholder) => out.push_str(&placeholder.value(lookup)?),
            None => {
                let literal = format!("${{{inside}}}");
                out.push_str(&literal);
                unknown.push(literal);
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(Expanded { text: out, unknown })
}

/// Splits at the next `${…}`: what stands before, inside and after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, tail) = text.split_once("${")?;
    let (inside, after) = tail.split_once('}')?;
    Some((before, inside, after))
}

struct Placeholder<'a> {
    name: &'a str,
    default: Option<&'a str>,
}

impl<'a> Placeholder<'a> {
    fn parse(inside: &'a str) -> Option<Self> {
        let inside = inside.strip_prefix("env:").unwrap_or(inside);
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let goes_on_well = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (starts_well && goes_on_well).then_some(Self { name, default })
    }

    fn value(&self, lookup: &Lookup<'_>) -> Result<String, Unset> {
        match (lookup(self.name), self.default) {
            (Some(value), None) => Ok(value),
            (Some(value), Some(_)) if !value.is_empty() => Ok(value),
            (_, Some(default)) => Ok(default.to_owned()),
            (None, None) => Err(Unset(self.name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("example.org".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${HOST}".to_owned()),
            _ => None,
        }
    }

    fn expanded(text: &str) -> String {
        expand(text, &lookup).unwrap().text
    }

    #[test]
    fn placeholders_are_replaced() {
        assert_eq!(expanded("https://${HOST}/${env:HOST}"), "https://example.org/example.org");
        assert_eq!(expanded("${NO:-fallback}-${HOST:-fallback}"), "fallback-example.org");
        assert_eq!(expanded("[${EMPTY}][${EMPTY:-x}][${NO:-}]"), "[][x][]");
        assert_eq!(expanded("no ${ end, $HOST, 5$"), "no ${ end, $HOST, 5$");
    }

    #[test]
    fn a_value_is_not_expanded_again_and_a_doubled_dollar_escapes() {
        assert_eq!(expanded("${NESTED}"), "${HOST}");
        assert_eq!(expanded("$${HOST} ${HOST}"), "${HOST} example.org");
    }

    #[test]
    fn an_unset_variable_is_named() {
        assert_eq!(expand("a${NO}b", &lookup), Err(Unset("NO".to_owned())));
    }

    #[test]
    fn foreign_placeholders_stay_and_are_reported() {
        let result = expand("${input:key} ${x%%y} ${HOST}", &lookup).unwrap();
        assert_eq!(result.text, "${input:key} ${x%%y} example.org");
        assert_eq!(result.unknown, ["${input:key}", "${x%%y}"]);
    }
}
