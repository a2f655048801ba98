use std::fmt;

use mcp_proto::{Redactor, Secret};
use ring::digest;

use super::error::AuthError;
use super::error_reply::ErrorReply;
use super::form::Form;
use super::pkce::Pkce;
use super::random::{Randomness, token};
use super::scope::Scopes;
use super::web_url::WebUrl;

/// Parameters that nobody else may set.
const RESERVED: [&str; 11] = [
    "client_id",
    "code_challenge",
    "code_challenge_method",
    "nonce",
    "redirect_uri",
    "request",
    "request_uri",
    "resource",
    "response_type",
    "scope",
    "state",
];

/// What a person has to open. `Debug` and `Display` show where it leads, and no parameter of it.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorizationRequest {
    endpoint: WebUrl,
    url: Secret,
    state: Secret,
    redirect_uri: String,
}

/// An authorization that has been asked for and not been answered. Kept in memory alone.
#[derive(Debug)]
pub(super) struct Pending {
    state: Secret,
    pub(super) pkce: Pkce,
    pub(super) redirect_uri: String,
    issuer: String,
    /// Whether answers must name the issuer.
    needs_issuer: bool,
}

/// What to ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) endpoint: &'a WebUrl,
    pub(super) issuer: &'a str,
    pub(super) needs_issuer: bool,
    pub(super) client_id: &'a str,
    pub(super) redirect_uri: &'a str,
    pub(super) resource: Option<&'a str>,
    pub(super) scopes: &'a Scopes,
    pub(super) extra: &'a [(String, String)],
}

/// What an answer that came in is worth.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Code(Secret),
    Denied(ErrorReply),
    /// It is not the answer to this request; the true one may still come.
    Foreign(ForeignAnswer),
}

/// Why an answer is not the one that is waited for. None of its text is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignAnswer {
    /// It holds neither a code nor an error.
    #[error("the answer holds neither a code nor an error")]
    Empty,
    /// It does not come from the authorization server that was asked.
    #[error("the answer comes from another authorization server")]
    Issuer,
    /// It belongs to another request, or to none.
    #[error("the answer belongs to another login")]
    State,
}

impl AuthorizationRequest {
    /// The URL, for the person's eyes and browser alone.
    #[must_use]
    pub fn url(&self) -> &Secret {
        &self.url
    }

    /// Tells this request from others in what comes back.
    #[must_use]
    pub fn state(&self) -> &Secret {
        &self.state
    }

    /// Where the answer will come to.
    #[must_use]
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }
}

impl Pending {
    /// Makes a request with a state and a verifier of its own.
    ///
    /// # Source
    ///
    /// RFC 6749, section 4.1.1; RFC 7636, section 4.3; RFC 8707, section 2.1.
    pub(super) fn ask(
        wish: &Wish<'_>,
        randomness: &dyn Randomness,
    ) -> Result<(Self, AuthorizationRequest), AuthError> {
        if let Some((name, _)) = wish.extra.iter().find(|(name, _)| RESERVED.contains(&name.as_str())) {
            return Err(AuthError::Config(format!("extra_authorization_params may not set {name}")));
        }
        let (state, pkce) = (token(randomness)?, Pkce::new(randomness)?);
        // No parameter comes twice (RFC 6749, section 3.1): here the user's own goes first.
        let asks_consent = wish.scopes.ask_offline() && !wish.extra.iter().any(|(name, _)| name == "prompt");
        let form = Form::new()
            .with("response_type", "code")
            .with("client_id", wish.client_id)
            .with("redirect_uri", wish.redirect_uri)
            .with("state", state.clone())
            .with("code_challenge", pkce.challenge())
            .with("code_challenge_method", "S256")
            .with_some("resource", wish.resource)
            .with_some("scope", wish.scopes.to_parameter())
            .with_some("prompt", asks_consent.then_some("consent"));
        let form =
            wish.extra.iter().fold(form, |form, (name, value)| form.with(name.as_str(), value.as_str()));
        let endpoint = wish.endpoint.as_str().split('#').next().unwrap_or_default();
        let separator = match wish.endpoint.query() {
            None => "?",
            Some("") => "",
            Some(_) => "&",
        };
        let url = Secret::new(format!("{endpoint}{separator}{}", form.encode().expose()));
        let request = AuthorizationRequest {
            endpoint: wish.endpoint.clone(),
            url,
            state: state.clone(),
            redirect_uri: wish.redirect_uri.to_owned(),
        };
        let pending = Self {
            state,
            pkce,
            redirect_uri: wish.redirect_uri.to_owned(),
            issuer: wish.issuer.to_owned(),
            needs_issuer: wish.needs_issuer,
        };
        Ok((pending, request))
    }

    /// Judges an answer: whose it is, who it is from, and only then what it says.
    ///
    /// # Source
    ///
    /// RFC 6749, section 4.1.2; RFC 9207, section 2.4; MCP 2026-07-28, basic/authorization.
    pub(super) fn judge(&self, answer: &Form) -> Answer {
        let is_ours = answer.get("state").is_some_and(|state| is_same(state, &self.state));
        if !is_ours || answer.repeats("state") {
            return Answer::Foreign(ForeignAnswer::State);
        }
        let is_from_issuer = match answer.get("iss") {
            // Byte for byte: here not even the slash of a root is overlooked.
            Some(issuer) => issuer.expose() == self.issuer && !answer.repeats("iss"),
            // An empty one is there all the same.
            None => !self.needs_issuer && !answer.has("iss"),
        };
        if !is_from_issuer {
            return Answer::Foreign(ForeignAnswer::Issuer);
        }
        if let Some(error) = answer.get("error") {
            let redactor = Redactor::new([self.state.clone(), self.pkce.verifier().clone()]);
            let description = answer.get("error_description").map(Secret::expose);
            return Answer::Denied(ErrorReply::new(None, Some(error.expose()), description, &redactor));
        }
        match answer.get("code") {
            Some(code) if !answer.repeats("code") => Answer::Code(code.clone()),
            _ => Answer::Foreign(ForeignAnswer::Empty),
        }
    }
}

/// Compares by hash, so that the time it takes tells nothing about where two texts begin to differ.
fn is_same(one: &Secret, other: &Secret) -> bool {
    let hash = |text: &Secret| digest::digest(&digest::SHA256, text.expose().as_bytes());
    hash(one).as_ref() == hash(other).as_ref()
}

impl fmt::Debug for AuthorizationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuthorizationRequest").field(&self.endpoint).finish()
    }
}

impl fmt::Display for AuthorizationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::SystemRandomness;

    const ISSUER: &str = "https://as.example";

    fn ask(
        endpoint: &str,
        needs_issuer: bool,
        scopes: &str,
        extra: &[(String, String)],
    ) -> Result<(Pending, AuthorizationRequest), AuthError> {
        let wish = Wish {
            endpoint: &WebUrl::parse(endpoint).unwrap(),
            issuer: ISSUER,
            needs_issuer,
            client_id: "c&d",
            redirect_uri: "http://127.0.0.1:1/callback",
            resource: Some("https://rs.example/mcp?a=b"),
            scopes: &Scopes::parse(scopes),
            extra,
        };
        Pending::ask(&wish, &SystemRandomness)
    }

    fn answer(pending: &Pending, members: &[(&str, &str)]) -> Form {
        let form = Form::new().with("state", pending.state.clone());
        members.iter().fold(form, |form, (name, value)| form.with(*name, *value))
    }

    #[test]
    fn the_url_asks_for_everything_and_keeps_the_query_of_the_endpoint() {
        let extra = [("access_type".to_owned(), "offline".to_owned())];
        let (pending, request) =
            ask("https://as.example/a?tenant=1#x", false, "s offline_access", &extra).unwrap();
        let url = request.url().expose();
        let (endpoint, query) = url.split_once('?').unwrap();
        assert_eq!(endpoint, "https://as.example/a");
        let form = Form::parse(query);
        for (name, value) in [
            ("tenant", "1"),
            ("response_type", "code"),
            ("client_id", "c&d"),
            ("redirect_uri", "http://127.0.0.1:1/callback"),
            ("state", pending.state.expose()),
            ("code_challenge", &pending.pkce.challenge()),
            ("code_challenge_method", "S256"),
            ("resource", "https://rs.example/mcp?a=b"),
            ("scope", "s offline_access"),
            ("prompt", "consent"),
            ("access_type", "offline"),
        ] {
            assert_eq!(form.get(name).unwrap().expose(), value, "{name}");
            assert!(!form.repeats(name), "{name}");
        }
        assert!(!url.contains(pending.pkce.verifier().expose()));
        let (_, plain) = ask("https://as.example/a?", false, "", &[]).unwrap();
        assert!(plain.url().expose().starts_with("https://as.example/a?response_type="));
        assert!(!plain.url().expose().contains("scope") && !plain.url().expose().contains("prompt"));
        let extra = [("prompt".to_owned(), "select_account".to_owned())];
        let (_, own) = ask("https://as.example/a", false, "offline_access", &extra).unwrap();
        let form = Form::parse(own.url().expose().split_once('?').unwrap().1);
        assert_eq!(form.get("prompt").unwrap().expose(), "select_account");
        assert!(!form.repeats("prompt"));
        for name in RESERVED {
            let extra = [(name.to_owned(), "x".to_owned())];
            assert!(
                matches!(ask("https://as.example/a", false, "", &extra), Err(AuthError::Config(_))),
                "{name}"
            );
        }
    }

    #[test]
    fn p02_no_two_requests_share_state_or_verifier() {
        let [(one, _), (other, _)] = [(); 2].map(|()| ask("https://as.example/a", false, "", &[]).unwrap());
        assert_ne!(one.state, other.state);
        assert_ne!(one.pkce.verifier(), other.pkce.verifier());
        assert_eq!(other.judge(&answer(&one, &[("code", "c")])), Answer::Foreign(ForeignAnswer::State));
    }

    #[test]
    fn f171_p03_the_issuer_is_judged_before_anything_that_the_answer_says() {
        for content in [("code", "canary"), ("error", "canary")] {
            for (needs_issuer, issuer, is_taken) in [
                (true, Some(ISSUER), true),
                (true, None, false),
                (true, Some("https://as.example/"), false),
                (true, Some("https://evil.example"), false),
                (true, Some(""), false),
                (false, Some(ISSUER), true),
                (false, None, true),
                (false, Some(""), false),
                (false, Some("https://as.example/"), false),
                (false, Some("HTTPS://as.example"), false),
                (false, Some("https://as.example:443"), false),
                (false, Some("https://evil.example"), false),
            ] {
                let (pending, _) = ask("https://as.example/a", needs_issuer, "", &[]).unwrap();
                let mut members = vec![content, ("error_description", "canary")];
                members.extend(issuer.map(|issuer| ("iss", issuer)));
                let judged = pending.judge(&answer(&pending, &members));
                match (is_taken, content.0) {
                    (true, "code") => assert_eq!(judged, Answer::Code("canary".into())),
                    (true, _) => assert!(matches!(judged, Answer::Denied(_))),
                    (false, _) => {
                        assert_eq!(
                            judged,
                            Answer::Foreign(ForeignAnswer::Issuer),
                            "{needs_issuer} {issuer:?}"
                        );
                        assert!(!format!("{judged:?}").contains("canary"));
                    }
                }
            }
        }
    }

    #[test]
    fn p04_what_is_not_the_answer_leaves_the_request_open() {
        let (pending, _) = ask("https://as.example/a", false, "", &[]).unwrap();
        let state = pending.state.expose().to_owned();
        for query in [
            String::new(),
            "code=x".to_owned(),
            "code=x&state=".to_owned(),
            format!("code=x&state={state}x"),
            format!("code=x&state={state}&state=other"),
        ] {
            assert_eq!(pending.judge(&Form::parse(&query)), Answer::Foreign(ForeignAnswer::State), "{query}");
        }
        for query in
            [format!("state={state}"), format!("state={state}&code="), format!("state={state}&code=a&code=b")]
        {
            assert_eq!(pending.judge(&Form::parse(&query)), Answer::Foreign(ForeignAnswer::Empty), "{query}");
        }
        assert_eq!(pending.judge(&answer(&pending, &[("code", "right")])), Answer::Code("right".into()));
    }

    #[test]
    fn z01_neither_request_nor_denial_shows_what_is_secret() {
        let (pending, request) = ask("https://as.example/a", false, "", &[]).unwrap();
        let description = format!("state {} is bad", pending.state.expose());
        let denied = pending
            .judge(&answer(&pending, &[("error", "access_denied"), ("error_description", &description)]));
        let shown = format!("{denied:?} {pending:?} {request:?} {request}");
        assert!(
            !shown.contains(pending.state.expose()) && !shown.contains(pending.pkce.verifier().expose()),
            "{shown}"
        );
        let Answer::Denied(reply) = denied else { panic!("{denied:?}") };
        assert!(reply.is("access_denied"));
        assert!(reply.to_string().contains("state [secret] is bad"), "{reply}");
    }
}
