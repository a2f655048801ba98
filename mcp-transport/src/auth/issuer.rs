/// Whether two texts name the same issuer: byte for byte, but for the slash behind a bare origin.
///
/// Metadata is published under `https://a.example` by issuers that call themselves `https://a.example/`
/// and the other way round, so this one difference is overlooked. A parameter `iss` of an answer is
/// compared without it.
#[must_use]
pub fn same_issuer(one: &str, other: &str) -> bool {
    without_root_slash(one) == without_root_slash(other)
}

fn without_root_slash(issuer: &str) -> &str {
    match issuer.strip_suffix('/') {
        Some(bare) if bare.split_once("://").is_some_and(|(_, host)| !host.contains(['/', '?', '#'])) => bare,
        _ => issuer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d04_only_the_slash_of_a_root_is_overlooked() {
        for (one, other, expected) in [
            ("https://a.example", "https://a.example", true),
            ("https://a.example", "https://a.example/", true),
            ("https://a.example/", "https://a.example", true),
            ("https://a.example//", "https://a.example/", false),
            ("https://a.example/t", "https://a.example/t/", false),
            ("https://a.example", "https://A.example", false),
            ("https://a.example", "https://a.example:443", false),
            ("https://a.example", "http://a.example", false),
            ("https://a.example/a%20b", "https://a.example/a b", false),
            ("https://a.example", "", false),
            ("", "/", false),
        ] {
            assert_eq!(same_issuer(one, other), expected, "{one} {other}");
        }
    }
}
