use std::fmt;

use mcp_proto::Secret;
use mcp_transport::auth::{Grant, OAuthSettings, WebUrl};
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
    auth: Auth,
}

/// How its requests are authorized.
#[derive(Clone, PartialEq)]
enum Auth {
    /// With OAuth if the server asks for it, unless there is a header for that.
    Automatic,
    /// With OAuth, like this.
    With(Box<OAuthSettings>),
    /// Not at all, or by a header.
    Off,
}

/// The endpoint follows from the rest.
impl PartialEq for HttpServer {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, &self.headers, &self.auth) == (&other.url, &other.headers, &other.auth)
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
        Ok(Self { endpoint: Endpoint::parse(url.expose())?, url, headers: Vec::new(), auth: Auth::Automatic })
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
        if is_authorization(&name) && matches!(self.auth, Auth::With(_)) {
            return Err(EndpointError::Reserved(name));
        }
        self.endpoint = self.endpoint.with_header(&name, &value)?;
        self.headers.push((name, value));
        Ok(self)
    }

    /// How the server is authorized for with OAuth, where the defaults will not do. See
    /// [`ClientBuilder::authorization`](crate::ClientBuilder::authorization).
    ///
    /// # Errors
    ///
    /// There is a header `Authorization` already: only one of the two can be right.
    pub fn oauth(mut self, settings: OAuthSettings) -> Result<Self, EndpointError> {
        if let Some((name, _)) = self.headers.iter().find(|(name, _)| is_authorization(name)) {
            return Err(EndpointError::Reserved(name.clone()));
        }
        self.auth = Auth::With(Box::new(settings));
        Ok(self)
    }

    /// Asks for these scopes, separated by spaces, in place of what the server wants. Without effect where
    /// there is no login.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        if let Some(mut settings) = self.oauth_settings() {
            settings.scope = Some(scope.into());
            self.auth = Auth::With(Box::new(settings));
        }
        self
    }

    /// Never authorizes requests with OAuth, whatever the server asks for.
    pub fn without_oauth(mut self) -> Self {
        self.auth = Auth::Off;
        self
    }

    /// How it is authorized for with OAuth; `None` if it is not.
    pub(crate) fn oauth_settings(&self) -> Option<OAuthSettings> {
        match &self.auth {
            Auth::Automatic if self.headers.iter().any(|(name, _)| is_authorization(name)) => None,
            Auth::Automatic => Some(OAuthSettings::default()),
            Auth::With(settings) => Some(OAuthSettings::clone(settings)),
            Auth::Off => None,
        }
    }

    /// Its URL, as credentials are bound to it.
    pub(crate) fn web_url(&self) -> Option<WebUrl> {
        WebUrl::parse(self.url.expose()).ok()
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
        if let Auth::With(settings) = &self.auth {
            secrets.extend(settings.client.as_ref().and_then(|client| client.secret.clone()));
            if let Grant::EnterpriseManaged(provider) = &settings.grant {
                secrets.extend(provider.client.secret.clone());
            }
        }
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

fn is_authorization(name: &str) -> bool {
    name.eq_ignore_ascii_case("authorization")
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("url", &self.endpoint.to_string())
            .field("headers", &self.headers)
            .finish_non_exhaustive()
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
