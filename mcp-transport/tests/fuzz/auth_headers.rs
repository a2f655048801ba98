use mcp_transport::auth::{Challenges, Scopes, WebUrl};

/// Values of `WWW-Authenticate`, one a line: whatever they are, they are read in one way, and a URL in
/// them is either refused or reads as itself.
pub(crate) fn run(data: &[u8]) {
    let values = || data.split(|byte| *byte == b'\n');
    let challenges = Challenges::parse(values());
    assert_eq!(challenges, Challenges::parse(values()));
    let Some(bearer) = challenges.bearer else { return };
    if let Some(scope) = &bearer.scope {
        let scopes = Scopes::parse(scope);
        let parameter = scopes.to_parameter().unwrap_or_default();
        assert_eq!(Scopes::parse(&parameter), scopes);
        assert!(parameter.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
    }
    let server = WebUrl::parse("https://rs.example/a/b?c").expect("a URL");
    if let Some(Ok(url)) = bearer.resource_metadata.as_deref().map(|named| server.join(named)) {
        assert_eq!(WebUrl::parse(url.as_str()).as_ref(), Ok(&url));
        assert!(url.target().starts_with('/') && !url.origin().host.is_empty());
        assert!(url.as_str().bytes().all(|byte| (0x21..0x7f).contains(&byte)));
    }
}
