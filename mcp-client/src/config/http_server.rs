use std::fmt;

use mcp_proto::Secret;
use mcp_transport::http::{Endpoint, EndpointError, Scheme};

use super::secrets::{SHORTEST_BYTES, is_telling};

/// A server that is reached over Streamable HTTP.
///
/// `Debug` shows neither the values of its headers nor the query of its URL.
///
/// ```
/// use mcp_client::HttpServer;
///
/// # fn main() -> Result<(), mcp_client::EndpointError> {
/// let server = HttpServer::new("https://example.com/mcp?key=1234")?.header("Authorization", "Bearer 1234")?;
/// assert!(!format!("{server:?}").contains("1234"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a server does nothing until it is added to a client"]
pub struct HttpServer {
    endpoint: Endpoint,
    /// The URL as it was given.
    url: Secret,
    headers: Vec<(String, Secret)>,
}

/// The endpoint follows from the rest.
impl PartialEq for HttpServer {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, &self.headers) == (&other.url, &other.headers)
    }
}

impl HttpServer {
    /// A server at `url`, which must be complete.
    ///
    /// # Errors
    ///
    /// The URL cannot be used.
    pub fn new(url: impl Into<String>) -> Result<Self, EndpointError> {
        let url = Secret::new(url);
        Ok(Self { endpoint: Endpoint::parse(url.expose())?, url, headers: Vec::new() })
    }

    /// Adds a header to every request; its value is treated as a secret.
    ///
    /// # Errors
    ///
    /// The header cannot be sent, or is one that the client sets itself.
    pub fn header(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Self, EndpointError> {
        let (name, value) = (name.into(), Secret::new(value));
        self.endpoint = self.endpoint.with_header(&name, &value)?;
        self.headers.push((name, value));
        Ok(self)
    }

    /// Where it is and what it is sent, as the transport needs it.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What must never be shown: values of headers, and secrets in the query.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        let headers = self.headers.iter().filter(|(_, value)| value.expose().len() >= SHORTEST_BYTES);
        let parameters = self.parameters().filter(|(_, value)| value.len() >= SHORTEST_BYTES);
        let mut secrets: Vec<Secret> = headers.map(|(_, value)| value.clone()).collect();
        secrets.extend(parameters.map(|(_, value)| Secret::new(value)));
        secrets
    }

    /// What is probably not meant, and what to do about it.
    pub(super) fn warning(&self) -> Option<&'static str> {
        if self.parameters().any(|(name, value)| is_telling(name) && !value.is_empty()) {
            return Some(
                "has a secret in its query, where logs on the way can keep it; put it into \"headers\" if the server allows",
            );
        }
        let origin = self.endpoint.origin();
        let is_local = matches!(origin.host.as_str(), "localhost" | "::1") || origin.host.starts_with("127.");
        (origin.scheme == Scheme::Http && !is_local && !self.headers.is_empty()).then_some(
            "is not encrypted: everybody on the way can read its headers; write https if the server allows",
        )
    }

    fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        let query = self.url.expose().split_once('?').map_or("", |(_, query)| query);
        let query = query.split('#').next().unwrap_or_default();
        query.split('&').filter_map(|parameter| parameter.split_once('='))
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("url", &self.endpoint.to_string())
            .field("headers", &self.headers)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f159_secrets_in_a_url_are_found_and_not_shown() {
        let server = HttpServer::new("https://h/mcp?api_key=canary-1&page=a&mode=canary-2#canary").unwrap();
        let secrets = server.secrets();
        let secrets: Vec<&str> = secrets.iter().map(Secret::expose).collect();
        assert_eq!(secrets, ["canary-1", "canary-2"]);
        assert!(server.warning().unwrap().contains("query"));
        let server = server.header("Authorization", "canary").unwrap();
        assert!(!format!("{server:?}").contains("canary"), "{server:?}");
        let error = HttpServer::new("http://me:canary@h/").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"));
    }

    #[test]
    fn headers_in_the_clear_are_warned_about_except_on_this_machine() {
        for (url, is_warned) in [
            ("http://example.com/mcp", true),
            ("https://example.com/mcp", false),
            ("http://localhost:3000/mcp", false),
            ("http://127.0.0.1:3000/mcp", false),
            ("http://[::1]:3000/mcp", false),
        ] {
            let server = HttpServer::new(url).unwrap();
            assert_eq!(server.warning(), None);
            assert_eq!(server.header("x-key", "y").unwrap().warning().is_some(), is_warned, "{url}");
        }
    }
}
