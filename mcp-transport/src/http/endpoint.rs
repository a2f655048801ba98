use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use mcp_proto::Secret;

use super::backend::{Origin, Scheme};

/// Headers that the transport sets itself.
const OWN_HEADERS: &[HeaderName] = &[
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Where a server is, and the headers that every request to it carries.
///
/// `Debug` and `Display` show neither header values nor the query of the URL.
#[derive(Clone)]
pub struct Endpoint {
    origin: Origin,
    target: String,
    headers: HeaderMap,
}

/// A URL or a header cannot be used. The configuration is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The name or the value of a header has characters that are not allowed.
    #[error("the header {0} cannot be sent")]
    Header(String),
    /// The transport sets this header itself.
    #[error("the header {0} is set by the client itself")]
    Reserved(String),
    /// Not a complete URL with the scheme `http` or `https`.
    #[error("not a complete http or https URL")]
    Url,
    /// A name and password in the URL: put them into a header.
    #[error("the URL holds credentials; put them into a header instead")]
    UserInfo,
}

/// Where a redirect leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// To this path on the same origin.
    SameOrigin(String),
    /// Somewhere it may not lead.
    Refused(&'static str),
}

impl Endpoint {
    /// Reads an absolute URL; a fragment is left out.
    ///
    /// # Errors
    ///
    /// See [`EndpointError`].
    pub fn parse(url: &str) -> Result<Self, EndpointError> {
        let uri: Uri = url.trim().parse().map_err(|_| EndpointError::Url)?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err(EndpointError::Url),
        };
        let authority = uri.authority().ok_or(EndpointError::Url)?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::UserInfo);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err(EndpointError::Url);
        }
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if authority.as_str() == authority.host() => scheme.default_port(),
            None => return Err(EndpointError::Url),
        };
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(Self { origin: Origin::new(scheme, host, port), target, headers: HeaderMap::new() })
    }

    /// Adds a header to every request. A later one of the same name replaces an earlier one.
    ///
    /// # Errors
    ///
    /// The header cannot be sent, or belongs to the transport: those of the connection, of the content,
    /// and all that begin with `mcp-`.
    pub fn with_header(mut self, name: &str, value: &Secret) -> Result<Self, EndpointError> {
        let shown = || mcp_proto::escape(name, 128).into_owned();
        let name = HeaderName::try_from(name).map_err(|_| EndpointError::Header(shown()))?;
        if OWN_HEADERS.contains(&name) || name.as_str().starts_with("mcp-") || name == "last-event-id" {
            return Err(EndpointError::Reserved(shown()));
        }
        let mut value = HeaderValue::try_from(value.expose()).map_err(|_| EndpointError::Header(shown()))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Where connections lead.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) fn target(&self) -> &str {
        &self.target
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Judges the `location` of an answer to a request that went to `target` here.
    pub(super) fn redirect(&self, target: &str, location: Option<&HeaderValue>) -> Redirect {
        let Some(location) = location.and_then(|location| location.to_str().ok()) else {
            return Redirect::Refused("a redirect that does not say where to is not followed");
        };
        if location.starts_with('/') && !location.starts_with("//") {
            return Redirect::SameOrigin(location.to_owned());
        }
        if !location.contains("//") {
            let path = target.split('?').next().unwrap_or_default();
            let folder = path.rfind('/').and_then(|end| path.get(..=end)).unwrap_or("/");
            return Redirect::SameOrigin(format!("{folder}{location}"));
        }
        match Self::parse(location) {
            Ok(other) if other.origin == self.origin => Redirect::SameOrigin(other.target),
            _ => Redirect::Refused("a redirect to another origin is not followed"),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "{}{}", self.origin, mcp_proto::escape(path, 256))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("Endpoint").field("url", &self.to_string()).field("headers", &names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let table: &[(&str, &str, &str)] = &[
            ("http://Localhost:3000/mcp", "http://localhost:3000", "/mcp"),
            ("https://example.com", "https://example.com", "/"),
            ("https://example.com:443/a?b=c", "https://example.com", "/a?b=c"),
            ("http://[::1]:8080/x", "http://[::1]:8080", "/x"),
            (" http://h/ ", "http://h", "/"),
        ];
        for (url, origin, target) in table {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!(
                (endpoint.origin.to_string().as_str(), endpoint.target()),
                (*origin, *target),
                "{url}"
            );
        }
        for url in
            ["", "mcp", "/mcp", "ftp://h/", "localhost:3000/mcp", "http://", "http:///x", "http://h:99999/"]
        {
            assert_eq!(Endpoint::parse(url).unwrap_err(), EndpointError::Url, "{url}");
        }
        assert_eq!(Endpoint::parse("http://me:pw@h/").unwrap_err(), EndpointError::UserInfo);
    }

    #[test]
    fn headers_of_the_transport_cannot_be_replaced_and_values_are_not_shown() {
        let endpoint = Endpoint::parse("http://h/p?key=canary").unwrap();
        for name in ["Host", "accept", "Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID"] {
            let refused = endpoint.clone().with_header(name, &"x".into());
            assert!(matches!(refused, Err(EndpointError::Reserved(_))), "{name}");
        }
        for (name, value) in [("a b", "x"), ("x", "a\nb"), ("", "x")] {
            let refused = endpoint.clone().with_header(name, &value.into());
            assert!(matches!(refused, Err(EndpointError::Header(_))), "{name} {value}");
        }
        let endpoint = endpoint.with_header("Authorization", &"Bearer canary".into()).unwrap();
        let shown = format!("{endpoint:?} {endpoint} {:?}", endpoint.headers());
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn redirects_stay_on_the_origin() {
        let endpoint = Endpoint::parse("https://h/a/b?c").unwrap();
        let to = |target: &str| Redirect::SameOrigin(target.to_owned());
        for (location, expected) in [
            ("/x?y", Some(to("/x?y"))),
            ("https://H:443/x", Some(to("/x"))),
            ("c/", Some(to("/a/c/"))),
            ("http://h/x", None),
            ("https://h:444/x", None),
            ("https://other/x", None),
            ("//other/x", None),
            ("https://me:pw@h/x", None),
        ] {
            let location = HeaderValue::from_static(location);
            let judged = endpoint.redirect("/a/b?c", Some(&location));
            match expected {
                Some(expected) => assert_eq!(judged, expected, "{location:?}"),
                None => assert!(matches!(judged, Redirect::Refused(_)), "{location:?}"),
            }
        }
        assert!(matches!(endpoint.redirect("/", None), Redirect::Refused(_)));
    }
}
