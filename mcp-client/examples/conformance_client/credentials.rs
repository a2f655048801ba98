use std::error::Error;
use std::sync::Arc;

use mcp_proto::Secret;
use mcp_transport::auth::{
    ConfiguredClient, FixedIdentity, Grant, IdentityProvider, OAuthSettings, SigningAlgorithm, SigningKey,
    WebUrl,
};
use serde::Deserialize;

/// Where the suite says that the document of its clients is.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

/// What the suite gives a client to be authorized with, in place of a user's configuration.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Credentials {
    client_id: Option<String>,
    client_secret: Option<Secret>,
    issuer: Option<String>,
    private_key_pem: Option<Secret>,
    signing_algorithm: Option<String>,
    idp_client_id: Option<String>,
    idp_id_token: Option<Secret>,
    idp_token_endpoint: Option<String>,
    valid_jwt: Option<Secret>,
}

impl Credentials {
    /// The configuration that a user with these would write; `is_for_itself` if no person is there to log in.
    pub(crate) fn settings(self, is_for_itself: bool) -> Result<OAuthSettings, Box<dyn Error + Send + Sync>> {
        let mut settings = OAuthSettings::default();
        settings.client_metadata_url = Some(CLIENT_METADATA_URL.to_owned());
        settings.issuer = self.issuer;
        // The suite tells the issuer in few scenarios, and never where the client acts for itself.
        settings.allows_any_issuer = true;
        settings.client =
            self.client_id.map(|id| ConfiguredClient { id, secret: self.client_secret, method: None });
        if let Some(pem) = &self.private_key_pem {
            let key = SigningKey::from_pem(pem)?;
            let named = self.signing_algorithm.as_deref();
            let algorithm = named.map(|name| SigningAlgorithm::parse(name).ok_or("an unknown algorithm"));
            settings.signer = Some(Arc::new(match algorithm.transpose()? {
                Some(algorithm) => key.with_algorithm(algorithm)?,
                None => key,
            }));
        }
        settings.grant = match (self.idp_token_endpoint, self.idp_client_id, self.idp_id_token) {
            (Some(endpoint), Some(client), Some(token)) => {
                let source = Arc::new(FixedIdentity(token));
                Grant::EnterpriseManaged(IdentityProvider::new(WebUrl::parse(&endpoint)?, client, source))
            }
            _ => match self.valid_jwt {
                Some(token) => Grant::WorkloadIdentity(Arc::new(FixedIdentity(token))),
                None if is_for_itself => Grant::ClientCredentials,
                None => Grant::AuthorizationCode,
            },
        };
        Ok(settings)
    }
}
