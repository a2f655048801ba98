use mcp_transport::auth::{Challenges, DpopNonce, Scopes, WebUrl};
use mcp_transport::http::{HeaderMap, HeaderName, HeaderValue};

/// Values of `WWW-Authenticate`, one a line: whatever they are, they are read in one way, and a URL in
/// them is either refused or reads as itself. As values of `DPoP-Nonce` they are refused or can be sent.
pub(crate) fn run(data: &[u8]) {
    let values = || data.split(|byte| *byte == b'\n');
    let challenges = Challenges::parse(values());
    assert_eq!(challenges, Challenges::parse(values()));
    for value in values().filter_map(|value| HeaderValue::from_bytes(value).ok()) {
        let headers = HeaderMap::from_iter([(HeaderName::from_static("dpop-nonce"), value)]);
        let Some(nonce) = DpopNonce::of(&headers) else { continue };
        assert_eq!(headers.get("dpop-nonce"), HeaderValue::from_str(nonce.as_str()).ok().as_ref());
        assert!((1..=1024).contains(&nonce.as_str().len()));
    }
    assert_eq!(challenges.is_empty(), challenges.bearer.is_none() && challenges.dpop.is_none());
    if let Some(scope) = challenges.scope() {
        let scopes = Scopes::parse(scope);
        let parameter = scopes.to_parameter().unwrap_or_default();
        assert_eq!(Scopes::parse(&parameter), scopes);
        assert!(parameter.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
    }
    let server = WebUrl::parse("https://rs.example/a/b?c").expect("a URL");
    if let Some(Ok(url)) = challenges.resource_metadata().map(|named| server.join(named)) {
        assert_eq!(WebUrl::parse(url.as_str()).as_ref(), Ok(&url));
        assert!(url.target().starts_with('/') && !url.origin().host.is_empty());
        assert!(url.as_str().bytes().all(|byte| (0x21..0x7f).contains(&byte)));
    }
}
