use super::web_url::WebUrl;

/// Where the metadata of a resource may be, in the order in which to ask; each place once.
///
/// `named` is the URL of the server's challenge, if it can be used.
///
/// # Source
///
/// MCP 2025-11-25 and 2026-07-28, basic/authorization; RFC 9728, section 3.
#[must_use]
pub fn resource_metadata_places(server: &WebUrl, named: Option<&WebUrl>) -> Vec<WebUrl> {
    let own_path = server.path().trim_end_matches('/');
    let guesses = [
        format!("/.well-known/oauth-protected-resource{own_path}"),
        "/.well-known/oauth-protected-resource".to_owned(),
    ];
    let guesses = guesses.into_iter().filter_map(|path| at(server, &path));
    let mut places: Vec<WebUrl> = Vec::new();
    for place in named.cloned().into_iter().chain(guesses) {
        if !places.iter().any(|known| known.origin() == place.origin() && known.target() == place.target()) {
            places.push(place);
        }
    }
    places
}

/// Where the metadata of an authorization server may be, in the order in which to ask.
///
/// An issuer with a path is never asked for at its root, which belongs to another tenant.
///
/// # Source
///
/// MCP 2025-11-25 and 2026-07-28, basic/authorization; RFC 8414, section 3; OpenID Connect Discovery
/// 1.0, section 4.
#[must_use]
pub fn server_metadata_places(issuer: &WebUrl) -> Vec<WebUrl> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    paths.iter().filter_map(|path| at(issuer, path)).collect()
}

fn at(url: &WebUrl, path: &str) -> Option<WebUrl> {
    WebUrl::parse(&format!("{}{path}", url.origin())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> WebUrl {
        WebUrl::parse(text).unwrap()
    }

    fn texts(urls: &[WebUrl]) -> Vec<&str> {
        urls.iter().map(WebUrl::as_str).collect()
    }

    #[test]
    fn d01_a_resource_is_asked_for_by_challenge_path_and_root() {
        let well_known = "https://a.example/.well-known/oauth-protected-resource";
        for (server, path) in [
            ("https://a.example/b/mcp?key=canary#x", "/b/mcp"),
            ("https://a.example/b/mcp/", "/b/mcp"),
            ("https://A.example:443/b", "/b"),
        ] {
            let places = resource_metadata_places(&url(server), None);
            assert_eq!(texts(&places), [format!("{well_known}{path}").as_str(), well_known]);
        }
        for server in ["https://a.example", "https://a.example/", "https://a.example?x"] {
            assert_eq!(texts(&resource_metadata_places(&url(server), None)), [well_known], "{server}");
        }
        let named = url("https://c.example/custom?x=1");
        let places = resource_metadata_places(&url("https://a.example/b"), Some(&named));
        assert_eq!(texts(&places), [named.as_str(), &format!("{well_known}/b"), well_known]);
        let named = url(&format!("{well_known}/b"));
        let places = resource_metadata_places(&url("https://a.example/b"), Some(&named));
        assert_eq!(texts(&places), [named.as_str(), well_known], "no place twice");
    }

    #[test]
    fn d01_an_issuer_with_a_path_is_never_asked_for_at_its_root() {
        for issuer in ["https://b.example/tenant1", "https://b.example/tenant1/"] {
            assert_eq!(
                texts(&server_metadata_places(&url(issuer))),
                [
                    "https://b.example/.well-known/oauth-authorization-server/tenant1",
                    "https://b.example/.well-known/openid-configuration/tenant1",
                    "https://b.example/tenant1/.well-known/openid-configuration",
                ]
            );
        }
        for issuer in ["http://b.example:8080", "http://b.example:8080/"] {
            assert_eq!(
                texts(&server_metadata_places(&url(issuer))),
                [
                    "http://b.example:8080/.well-known/oauth-authorization-server",
                    "http://b.example:8080/.well-known/openid-configuration",
                ]
            );
        }
    }
}
