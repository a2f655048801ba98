/// The scopes of one request or grant, in order, each once.
///
/// # Source
///
/// RFC 6749, section 3.3; MCP 2026-07-28, basic/authorization, *Scope Selection Strategy*.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

/// Asks for a refresh token.
const OFFLINE_ACCESS: &str = "offline_access";

/// Most scopes that are kept, and the longest one, in bytes.
const MAX_SCOPES: usize = 256;
const MAX_SCOPE_BYTES: usize = 256;

/// Where the scopes of the first request of a grant may come from, in the order of their weight.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScopeSources<'a> {
    /// What the user has configured.
    pub configured: Option<&'a str>,
    /// What the server's challenge names.
    pub challenge: Option<&'a str>,
    /// What the metadata of the resource lists.
    pub resource: Option<&'a [String]>,
    /// What the authorization server lists; looked at for `offline_access` alone.
    pub server: Option<&'a [String]>,
    /// Whether `offline_access` may be asked for.
    pub allows_offline: bool,
}

impl Scopes {
    /// Reads scopes that are separated by spaces; those with characters that no scope has are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut scopes = Self::default();
        scopes.extend(text.split_ascii_whitespace());
        scopes
    }

    /// Chooses the scopes of the first request of a grant; none means that none is asked for.
    #[must_use]
    pub fn choose(sources: &ScopeSources<'_>) -> Self {
        let told = sources.configured.or(sources.challenge).map(Self::parse);
        let mut scopes = told.unwrap_or_else(|| {
            let mut listed = Self::default();
            listed.extend(sources.resource.unwrap_or_default().iter().map(String::as_str));
            listed
        });
        let is_offered = sources.server.is_some_and(|listed| listed.iter().any(|one| one == OFFLINE_ACCESS));
        if is_offered && sources.allows_offline && !scopes.is_empty() {
            scopes.extend([OFFLINE_ACCESS]);
        }
        scopes
    }

    /// These and the others.
    #[must_use]
    pub fn union(mut self, others: &Self) -> Self {
        self.extend(others.0.iter().map(String::as_str));
        self
    }

    /// Whether all of `others` are among these.
    #[must_use]
    pub fn cover(&self, others: &Self) -> bool {
        others.0.iter().all(|scope| self.0.contains(scope))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a refresh token is asked for.
    #[must_use]
    pub fn ask_offline(&self) -> bool {
        self.0.iter().any(|scope| scope == OFFLINE_ACCESS)
    }

    /// The value of the parameter `scope`; `None` where it is to be left out.
    #[must_use]
    pub fn to_parameter(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.0.join(" "))
    }

    fn extend<'a>(&mut self, scopes: impl IntoIterator<Item = &'a str>) {
        for scope in scopes {
            let is_kept = is_scope(scope) && self.0.len() < MAX_SCOPES;
            if is_kept && !self.0.iter().any(|known| known == scope) {
                self.0.push(scope.to_owned());
            }
        }
    }
}

fn is_scope(text: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !text.is_empty() && text.len() <= MAX_SCOPE_BYTES && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(sources: &ScopeSources<'_>) -> Option<String> {
        Scopes::choose(sources).to_parameter()
    }

    #[test]
    fn scopes_come_from_the_user_then_the_challenge_then_the_resource() {
        let listed = ["r1".to_owned(), "r2".to_owned()];
        let all = ScopeSources {
            configured: Some("u"),
            challenge: Some("c1 c2"),
            resource: Some(&listed),
            ..ScopeSources::default()
        };
        assert_eq!(choose(&all).as_deref(), Some("u"));
        assert_eq!(choose(&ScopeSources { configured: None, ..all }).as_deref(), Some("c1 c2"));
        let resource = ScopeSources { configured: None, challenge: None, ..all };
        assert_eq!(choose(&resource).as_deref(), Some("r1 r2"));
        assert_eq!(choose(&ScopeSources { resource: Some(&[]), ..resource }), None);
        // What the authorization server lists is no source.
        let server = ScopeSources { resource: None, server: Some(&listed), ..resource };
        assert_eq!(choose(&server), None);
        assert_eq!(choose(&ScopeSources { configured: Some(""), ..all }), None, "none, by the user's wish");
    }

    #[test]
    fn k03_offline_access_is_asked_for_only_where_it_is_listed() {
        let (listed, other) = ([OFFLINE_ACCESS.to_owned()], ["x".to_owned()]);
        let base = ScopeSources {
            challenge: Some("c"),
            server: Some(&listed),
            allows_offline: true,
            ..ScopeSources::default()
        };
        assert_eq!(choose(&base).as_deref(), Some("c offline_access"));
        assert_eq!(choose(&ScopeSources { server: Some(&other), ..base }).as_deref(), Some("c"));
        assert_eq!(choose(&ScopeSources { server: None, ..base }).as_deref(), Some("c"));
        assert_eq!(choose(&ScopeSources { allows_offline: false, ..base }).as_deref(), Some("c"));
        assert_eq!(choose(&ScopeSources { challenge: None, ..base }), None, "never alone");
    }

    #[test]
    fn k01_a_union_keeps_order_and_knows_what_it_covers() {
        let (a, b) = (Scopes::parse("x  y x"), Scopes::parse("y z"));
        let both = a.clone().union(&b);
        assert_eq!(both.to_parameter().as_deref(), Some("x y z"));
        assert!(both.cover(&a) && both.cover(&b) && !a.cover(&b) && a.cover(&Scopes::default()));
    }

    #[test]
    fn what_is_no_scope_is_left_out_and_their_number_is_limited() {
        assert_eq!(Scopes::parse("a b\"c d\\e f\u{7f} ä \n g").to_parameter().as_deref(), Some("a g"));
        let many: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        assert_eq!(Scopes::parse(&many.join(" ")).0.len(), MAX_SCOPES);
        assert!(Scopes::parse(&"x".repeat(300)).is_empty());
    }
}
