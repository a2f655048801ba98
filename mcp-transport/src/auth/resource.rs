use super::web_url::WebUrl;

/// Whether metadata that speaks of `resource` may be believed about the server at `server`.
///
/// Scheme, host and port must be the same, and the path that of the server or one above it, segment by
/// segment. Otherwise a server could have tokens issued that another one accepts.
///
/// # Source
///
/// RFC 9728, section 3.3; MCP 2026-07-28, basic/authorization.
#[must_use]
pub fn speaks_of(resource: &str, server: &WebUrl) -> bool {
    let Ok(resource) = WebUrl::parse(resource) else { return false };
    let (above, path) = (resource.path().trim_end_matches('/'), server.path());
    let is_above = path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    !resource.has_fragment() && resource.origin() == server.origin() && is_above
}

/// The name of a resource whose server publishes none: its URL without query, fragment and the slash of
/// a bare origin, scheme and host in lower case.
///
/// # Source
///
/// MCP 2025-11-25, basic/authorization, *Canonical Server URI*; RFC 8707, section 2.
#[must_use]
pub fn canonical_resource(server: &WebUrl) -> String {
    let path = if server.path() == "/" { "" } else { server.path() };
    format!("{}{path}", server.origin())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d03_only_the_server_itself_or_what_is_above_it_is_believed() {
        let server = WebUrl::parse("https://a.example/api/mcp?key=1").unwrap();
        for (resource, expected) in [
            ("https://a.example/api/mcp", true),
            ("https://a.example/api/mcp/", true),
            ("https://a.example/api", true),
            ("https://a.example/api/", true),
            ("https://a.example", true),
            ("https://a.example/", true),
            ("https://A.EXAMPLE:443/api/mcp?other=2", true),
            ("https://a.example/api/mc", false),
            ("https://a.example/ap", false),
            ("https://a.example/api/mcp2", false),
            ("https://a.example/api/mcp/x", false),
            ("https://a.example/API", false),
            ("https://a.example/api#x", false),
            ("http://a.example/api", false),
            ("https://a.example:8443/api", false),
            ("https://a.example.evil.example/api", false),
            ("https://b.example/api", false),
            ("a.example", false),
            ("", false),
        ] {
            assert_eq!(speaks_of(resource, &server), expected, "{resource}");
        }
        let sibling = WebUrl::parse("https://a.example/mcp2").unwrap();
        assert!(!speaks_of("https://a.example/mcp", &sibling));
    }

    #[test]
    fn r01_a_resource_has_one_name() {
        for (server, expected) in [
            ("HTTPS://A.example:443", "https://a.example"),
            ("https://a.example/", "https://a.example"),
            ("https://a.example/Mcp/?key=1#x", "https://a.example/Mcp/"),
            ("http://[::1]:80/a", "http://[::1]/a"),
            ("http://localhost:3000/mcp", "http://localhost:3000/mcp"),
        ] {
            assert_eq!(canonical_resource(&WebUrl::parse(server).unwrap()), expected, "{server}");
        }
    }
}
