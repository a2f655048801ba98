use std::time::Duration;

use mcp_proto::Redactor;

use super::client_auth::{ClientProof, token_request};
use super::client_record::ClientRecord;
use super::discovery::endpoint;
use super::error::AuthError;
use super::error_reply::ErrorReply;
use super::form::Form;
use super::oauth_http::{OAuthHttp, OAuthRequest, OAuthResponse};
use super::random::Randomness;
use super::record::CredentialRecord;
use super::settings::OAuthSettings;
use super::unix_time::UnixTime;
use super::web_url::WebUrl;

/// How long revoking all tokens of a record may take: whoever logs out waits for it.
pub(super) const REVOCATION_LIMIT: Duration = Duration::from_secs(10);

/// What became of tokens, at the authorization server, that were forgotten here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Revocation {
    /// The server has taken them back.
    Done,
    /// It has not, and why; they are of use until they end by themselves.
    Failed(AuthError),
    /// There were none, or the server offers no way to take them back.
    NotOffered,
}

/// Tokens that are to be taken back: the refresh token first, as others hang on it.
///
/// # Source
///
/// RFC 7009, section 2.1.
#[derive(Debug)]
pub(super) struct Revoking<'a> {
    pub(super) record: &'a CredentialRecord,
    pub(super) settings: &'a OAuthSettings,
    pub(super) server: &'a WebUrl,
    pub(super) now: UnixTime,
    pub(super) randomness: &'a dyn Randomness,
}

impl Revoking<'_> {
    /// Takes them back with the help of `http`.
    pub(super) async fn run(&self, http: &dyn OAuthHttp) -> Revocation {
        let requests = match self.requests() {
            Ok(requests) if requests.is_empty() => return Revocation::NotOffered,
            Ok(requests) => requests,
            Err(error) => return Revocation::Failed(error),
        };
        for request in requests {
            let answer = http.send(request).await.map_err(|error| AuthError::unavailable(error.to_string()));
            if let Err(error) = answer.and_then(|response| self.read(&response)) {
                return Revocation::Failed(error);
            }
        }
        Revocation::Done
    }

    fn requests(&self) -> Result<Vec<OAuthRequest>, AuthError> {
        let Self { record, settings, server, .. } = self;
        let metadata = record.metadata.as_ref().map(|cached| &cached.document);
        let (Some(metadata), Some(tokens)) = (metadata, &record.tokens) else { return Ok(Vec::new()) };
        if metadata.revocation_endpoint.is_none() {
            return Ok(Vec::new());
        }
        if !settings.are_of(record) {
            // The secret that is configured now is not for the issuer of then.
            return Err(AuthError::Config("the tokens belong to another configuration".to_owned()));
        }
        let url = endpoint(settings, server, "revocation_endpoint", &metadata.revocation_endpoint)?;
        let proof = ClientProof {
            issuer: &record.issuer,
            metadata: Some(metadata),
            signer: settings.signer.as_deref(),
            possession: None,
            now: self.now,
            randomness: self.randomness,
        };
        let refresh = tokens.refresh_token.as_ref().map(|token| ("refresh_token", token));
        let both = refresh.into_iter().chain([("access_token", &tokens.access_token)]);
        both.map(|(kind, token)| {
            let form = Form::new().with("token", token.clone()).with("token_type_hint", kind);
            let mut request = token_request(&url, form, &self.client(), &proof)?.named_by_server(server);
            request.limit = REVOCATION_LIMIT;
            Ok(request)
        })
        .collect()
    }

    /// The client of the record, with the secret that is not kept and the method that was settled.
    fn client(&self) -> ClientRecord {
        let kept = &self.record.client;
        let Some(mut client) = self.settings.configured_client() else { return kept.clone() };
        client.token_endpoint_auth_method = kept.token_endpoint_auth_method.clone();
        client
    }

    /// A token that the server does not know is as good as taken back, and the answer to it one of success.
    fn read(&self, response: &OAuthResponse) -> Result<(), AuthError> {
        if response.is_success() {
            return Ok(());
        }
        let redactor = Redactor::new(self.record.secrets().chain(self.client().secrets()).cloned());
        let reply = ErrorReply::read(response.status, &response.body, &redactor);
        Err(match response.is_transient() {
            true => AuthError::Unavailable { what: reply.to_string(), retry_after: response.retry_after() },
            false => AuthError::Denied(reply),
        })
    }
}
