use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::http::{Origin, Scheme};

/// Longest URL that is read, in bytes.
const MAX_URL_BYTES: usize = 8 * 1024;

/// An absolute `http` or `https` URL, kept byte for byte as it was written.
///
/// Identifiers of OAuth (issuers, resources, redirect URIs) are compared as texts, so nothing is
/// normalised here: [`as_str`](Self::as_str) is what was parsed, and the parts are views of it. Only
/// the characters of RFC 3986 are accepted, no user part, and no odd spelling of an address: what is
/// checked is what will be connected to.
///
/// `Debug` and `Display` leave out query and fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct WebUrl {
    text: String,
    origin: Origin,
    /// Where the path begins; where it ends and the query or the fragment begins.
    path: (usize, usize),
    /// Where the query ends.
    query_end: usize,
}

/// A text is not a URL that is used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebUrlError {
    /// A character that no URL has, or a `%` without two digits.
    #[error("a character that no URL has")]
    Character,
    /// The host is missing, has no form that is accepted, or the port is none.
    #[error("not a host and port")]
    Host,
    /// Longer than 8 KiB.
    #[error("longer than {MAX_URL_BYTES} bytes")]
    Length,
    /// Not absolute, or a scheme other than `http` and `https`.
    #[error("not a complete http or https URL")]
    Scheme,
    /// A name or password in the URL.
    #[error("a URL with credentials in it")]
    UserInfo,
}

impl WebUrl {
    /// Reads an absolute URL.
    ///
    /// # Errors
    ///
    /// See [`WebUrlError`].
    pub fn parse(text: &str) -> Result<Self, WebUrlError> {
        if text.len() > MAX_URL_BYTES {
            return Err(WebUrlError::Length);
        }
        if !has_only_url_characters(text) {
            return Err(WebUrlError::Character);
        }
        let (name, rest) = text.split_once("://").ok_or(WebUrlError::Scheme)?;
        let scheme = match name {
            name if name.eq_ignore_ascii_case("http") => Scheme::Http,
            name if name.eq_ignore_ascii_case("https") => Scheme::Https,
            _ => return Err(WebUrlError::Scheme),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let origin = origin(scheme, authority)?;
        let start = name.len() + "://".len() + authority.len();
        let end_of = |from: usize, ends: &[char]| {
            let found = text.get(from..).and_then(|tail| tail.find(ends));
            found.map_or(text.len(), |at| from + at)
        };
        let path_end = end_of(start, &['?', '#']);
        let query_end = end_of(path_end, &['#']);
        Ok(Self { text: text.to_owned(), origin, path: (start, path_end), query_end })
    }

    /// Reads `reference` as a browser at this URL would: absolute, or relative to it.
    ///
    /// # Errors
    ///
    /// The result is not a URL of this kind.
    pub fn join(&self, reference: &str) -> Result<Self, WebUrlError> {
        if has_scheme(reference) {
            return Self::parse(reference);
        }
        let before_path = self.text.get(..self.path.0).unwrap_or_default();
        let scheme = before_path.split("//").next().unwrap_or_default();
        if reference.starts_with("//") {
            return Self::parse(&format!("{scheme}{reference}"));
        }
        let (path, rest) = reference.split_at(reference.find(['?', '#']).unwrap_or(reference.len()));
        let whole = if path.is_empty() {
            self.path().to_owned()
        } else if path.starts_with('/') {
            path.to_owned()
        } else {
            let folder = self.path().rfind('/').and_then(|end| self.path().get(..=end)).unwrap_or("/");
            format!("{folder}{path}")
        };
        Self::parse(&format!("{before_path}{}{rest}", without_dots(&whole)))
    }

    /// The text as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Scheme, host in lower case, and port.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The path; empty if there is none.
    #[must_use]
    pub fn path(&self) -> &str {
        self.text.get(self.path.0..self.path.1).unwrap_or_default()
    }

    /// The query without its `?`.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.text.get(self.path.1..self.query_end)?.strip_prefix('?')
    }

    /// Whether there is a fragment, even an empty one.
    #[must_use]
    pub fn has_fragment(&self) -> bool {
        self.query_end < self.text.len()
    }

    /// Whether the scheme is `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.origin.scheme == Scheme::Https
    }

    /// Path and query as a request names them, beginning with `/`.
    #[must_use]
    pub fn target(&self) -> String {
        let written = self.text.get(self.path.0..self.query_end).unwrap_or_default();
        if written.starts_with('/') { written.to_owned() } else { format!("/{written}") }
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, mcp_proto::escape(self.path(), 256))
    }
}

impl fmt::Debug for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebUrl({self})")
    }
}

/// Whether every character is one of RFC 3986, and every `%` begins an octet.
fn has_only_url_characters(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let is_allowed = match byte {
            b'%' => {
                let mut digit = || bytes.next().is_some_and(|byte| byte.is_ascii_hexdigit());
                digit() && digit()
            }
            other => other.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&other),
        };
        if !is_allowed {
            return false;
        }
    }
    true
}

/// Whether a reference is absolute: a scheme ends before the first `/`, `?` or `#`.
fn has_scheme(reference: &str) -> bool {
    let head = reference.split(['/', '?', '#']).next().unwrap_or_default();
    head.contains(':')
}

fn origin(scheme: Scheme, authority: &str) -> Result<Origin, WebUrlError> {
    if authority.contains('@') {
        return Err(WebUrlError::UserInfo);
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or(WebUrlError::Host)?;
            let address: Ipv6Addr = address.parse().map_err(|_| WebUrlError::Host)?;
            (address.to_string(), port)
        }
        None => {
            let (name, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            (host_name(name)?, port)
        }
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => scheme.default_port(),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0).ok_or(WebUrlError::Host)?
        }
        _ => return Err(WebUrlError::Host),
    };
    Ok(Origin::new(scheme, host, port))
}

/// A name of letters, digits, `-` and `_`, or an IPv4 address in its only proper form.
///
/// `127.1`, `0x7f.0.0.1` and `2130706433` reach 127.0.0.1 too: whatever ends like a number must be an
/// address (URL standard, "ends in a number").
fn host_name(text: &str) -> Result<String, WebUrlError> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if text.len() > 253 || !text.split('.').all(is_label) {
        return Err(WebUrlError::Host);
    }
    let name = text.to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_number {
        name.parse::<Ipv4Addr>().map_err(|_| WebUrlError::Host)?;
    }
    Ok(name)
}

/// Removes the segments `.` and `..` of an absolute path (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            other => {
                kept.push(other);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_kept_and_the_parts_are_found() {
        let table = [
            ("https://A.example", "https://a.example", "", None, false, "/"),
            ("HTTPS://a.example/", "https://a.example", "/", None, false, "/"),
            ("https://a.example:443/b?c=d#e", "https://a.example", "/b", Some("c=d"), true, "/b?c=d"),
            ("http://[::1]:80?x", "http://[::1]", "", Some("x"), false, "/?x"),
            ("http://127.0.0.1:8080/a%20b#", "http://127.0.0.1:8080", "/a%20b", None, true, "/a%20b"),
        ];
        for (text, origin, path, query, has_fragment, target) in table {
            let url = WebUrl::parse(text).unwrap();
            assert_eq!(url.as_str(), text);
            assert_eq!(url.origin().to_string(), origin);
            assert_eq!(
                (url.path(), url.query(), url.has_fragment(), url.target().as_str()),
                (path, query, has_fragment, target)
            );
        }
    }

    #[test]
    fn f172_what_is_not_a_plain_url_is_refused() {
        use WebUrlError::{Character, Host, Scheme, UserInfo};
        let table = [
            ("", Scheme),
            ("a.example", Scheme),
            ("/a", Scheme),
            ("javascript:alert(1)", Scheme),
            ("javascript://a.example/%0aalert(1)", Scheme),
            ("file:///etc/passwd", Scheme),
            ("ms-cxh-full://0", Scheme),
            ("-https://a.example", Scheme),
            (" https://a.example", Character),
            ("https://a.example/\"", Character),
            ("https://a.example/a b", Character),
            ("https://a.example/`id`", Character),
            ("https://a.example\\@b.example", Character),
            ("https://a.example/%", Character),
            ("https://a.example/%0", Character),
            ("https://ü.example/", Character),
            ("https://a.example/\n", Character),
            ("https://me:pw@a.example/", UserInfo),
            ("https://a.example@b.example/", UserInfo),
            ("https://$(id)/", Host),
            ("https:///x", Host),
            ("https://a..example/", Host),
            ("https://a.example./", Host),
            ("https://a.example:/", Host),
            ("https://a.example:0/", Host),
            ("https://a.example:65536/", Host),
            ("https://a.example:+1/", Host),
            ("https://[::1/", Host),
            ("https://[::1]x/", Host),
            ("https://[fe80::1%25eth0]/", Host),
        ];
        for (text, expected) in table {
            assert_eq!(WebUrl::parse(text).unwrap_err(), expected, "{text}");
        }
        assert_eq!(WebUrl::parse(&format!("https://a/{}", "x".repeat(9000))), Err(WebUrlError::Length));
    }

    #[test]
    fn f168_addresses_have_one_spelling() {
        for host in ["127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.0x1", "1.2.3.4.5", "0x"] {
            assert_eq!(WebUrl::parse(&format!("http://{host}/")), Err(WebUrlError::Host), "{host}");
        }
        for host in ["127.0.0.1", "a.b0", "1a.example", "x0x7f"] {
            assert!(WebUrl::parse(&format!("http://{host}/")).is_ok(), "{host}");
        }
    }

    #[test]
    fn references_are_resolved() {
        let base = WebUrl::parse("https://a.example/b/c?d").unwrap();
        for (reference, expected) in [
            ("https://x.example/y", "https://x.example/y"),
            ("//x.example/y", "https://x.example/y"),
            ("/y?z", "https://a.example/y?z"),
            ("y", "https://a.example/b/y"),
            ("../../y/./z/..", "https://a.example/y/"),
            ("?z", "https://a.example/b/c?z"),
            ("", "https://a.example/b/c"),
        ] {
            assert_eq!(base.join(reference).unwrap().as_str(), expected, "{reference}");
        }
        let bare = WebUrl::parse("https://a.example").unwrap();
        assert_eq!(bare.join("y").unwrap().as_str(), "https://a.example/y");
        assert!(base.join("data:text/plain,x").is_err());
    }

    #[test]
    fn a_query_is_never_shown() {
        let url = WebUrl::parse("https://a.example/b?canary#canary").unwrap();
        assert_eq!(format!("{url} {url:?}"), "https://a.example/b WebUrl(https://a.example/b)");
    }
}
