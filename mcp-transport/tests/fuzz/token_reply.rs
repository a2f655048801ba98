use mcp_proto::Redactor;
use mcp_transport::auth::{OAuthResponse, Scopes, TokenFailure, TokenReply, Tokens, UnixTime};
use mcp_transport::http::HeaderMap;

/// Answers of token endpoints, with the status in front: a token that is taken can be sent, no lifetime
/// overflows, and what is shown is one line without the secret that the request held.
pub(crate) fn run(data: &[u8]) {
    let (status, body) = data.split_first_chunk::<3>().unwrap_or((b"200", data));
    let status = std::str::from_utf8(status).ok().and_then(|digits| digits.parse().ok()).unwrap_or(200);
    let response = OAuthResponse::new(status, HeaderMap::new(), body.to_vec());
    let redactor = Redactor::new(["canary-code".into()]);
    match TokenReply::read(&response, &redactor) {
        Ok(reply) => {
            assert!(response.is_success());
            assert!(reply.access_token.expose().bytes().all(|byte| (0x21..0x7f).contains(&byte)));
            assert!(!reply.access_token.expose().is_empty());
            let now = UnixTime::from_seconds(1e9);
            let tokens = Tokens::granted(reply.clone(), Scopes::default(), now);
            // Any answer will do; a panic will not.
            let _ = tokens.is_fresh(now);
            let refreshed = tokens.refreshed(reply, now);
            assert_eq!(refreshed.refresh_token, tokens.refresh_token);
        }
        Err(TokenFailure::Refused(reply)) => {
            let shown = reply.to_string();
            assert!(!shown.contains(char::is_control) && shown.len() <= 2000, "{shown:?}");
            assert!(!shown.contains("canary-code"), "{shown:?}");
        }
        Err(_) => {}
    }
}
