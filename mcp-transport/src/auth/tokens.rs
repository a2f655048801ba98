use std::time::Duration;

use mcp_proto::{Redactor, Secret};

use super::access_token::AccessToken;
use super::dpop::{Binding, DpopKey};
use super::error::{AuthError, Refusal};
use super::error_reply::ErrorReply;
use super::members::{object, seconds, take_secret, take_text};
use super::oauth_http::OAuthResponse;
use super::scope::Scopes;
use super::unix_time::UnixTime;

/// A token is renewed this long before its end, or half its lifetime if that is less: clocks differ, and a
/// request may be long on its way.
const MARGIN: Duration = Duration::from_secs(60);

/// How far ahead of the clock a token may have been obtained before the clock is not believed.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// The tokens of one grant.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Tokens {
    /// What requests carry.
    pub access_token: Secret,
    /// What it is renewed with.
    pub refresh_token: Option<Secret>,
    /// When the access token ends; `None` if the server did not say.
    pub expires_at: Option<UnixTime>,
    /// When it was obtained.
    pub obtained_at: UnixTime,
    /// What was asked for.
    pub requested: Scopes,
    /// What was granted.
    pub granted: Scopes,
    /// The key that they were asked for with, if with one: the refresh token may be bound to it even where
    /// the access token is not.
    pub dpop_key: Option<DpopKey>,
    /// Whether the access token is bound to that key.
    pub is_bound: bool,
}

/// An answer of a token endpoint that brings a token.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TokenReply {
    /// The access token; never empty.
    pub access_token: Secret,
    /// A new refresh token, if there is one.
    pub refresh_token: Option<Secret>,
    /// How long the access token lives; `None` if the server does not say.
    pub lifetime: Option<Duration>,
    /// What was granted, if that is not what was asked for.
    pub scope: Option<Scopes>,
    /// Whether the access token is bound to the key that was shown, by its type.
    pub is_bound: bool,
}

/// An answer of a token endpoint that brings none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFailure {
    /// There is no such endpoint: what is known about the server is out of date.
    NoEndpoint(u16),
    /// The server refuses.
    Refused(ErrorReply),
    /// Trying again may help; nothing is to be concluded about the tokens.
    Transient(&'static str),
}

impl TokenReply {
    /// Reads an answer; `redactor` knows what must not come back in an error.
    ///
    /// # Errors
    ///
    /// See [`TokenFailure`].
    ///
    /// # Source
    ///
    /// RFC 6749, sections 5.1 and 5.2; any status of success is one. RFC 9449, section 5.
    pub fn read(response: &OAuthResponse, redactor: &Redactor) -> Result<Self, TokenFailure> {
        let reply = ErrorReply::read(response.status, &response.body, redactor);
        match response.status {
            _ if response.is_transient() => {
                return Err(TokenFailure::Transient("the server is not available"));
            }
            404 | 405 if reply.error.is_none() => return Err(TokenFailure::NoEndpoint(response.status)),
            300..=399 => return Err(TokenFailure::Transient("a redirect, which is not followed")),
            _ if !response.is_success() || reply.error.is_some() => return Err(TokenFailure::Refused(reply)),
            _ => {}
        }
        let Some(mut members) = object(&response.body) else {
            // A page: what answers here is no token endpoint, or not any more.
            if response.body.trim_ascii_start().first() == Some(&b'<') {
                return Err(TokenFailure::NoEndpoint(response.status));
            }
            return Err(TokenFailure::Transient("the answer is not a JSON object"));
        };
        let kind = take_text(&mut members, "token_type").unwrap_or_else(|| "bearer".to_owned());
        let is_bound = kind.eq_ignore_ascii_case("dpop");
        if !is_bound && !kind.eq_ignore_ascii_case("bearer") {
            return Err(TokenFailure::Transient("the token is neither of the type Bearer nor DPoP"));
        }
        let lifetime = seconds(&members, "expires_in").map(|lifetime| {
            // Negative is over already; what no clock can hold is as good as ever.
            Duration::try_from_secs_f64(lifetime.max(0.0)).unwrap_or(Duration::MAX)
        });
        Ok(Self {
            access_token: take_secret(&mut members, "access_token")
                .filter(|token| is_header_text(token.expose()))
                .ok_or(TokenFailure::Transient("the answer holds no token that can be sent"))?,
            refresh_token: take_secret(&mut members, "refresh_token"),
            lifetime,
            scope: take_text(&mut members, "scope").map(|scope| Scopes::parse(&scope)),
            is_bound,
        })
    }

    /// Whether the token can be used that was asked for with `key`.
    ///
    /// Servers that know nothing of keys issue tokens that are not bound, which are good all the same
    /// unless they have to be bound.
    pub(super) fn check(&self, key: Option<&DpopKey>, binding: Binding) -> Result<(), AuthError> {
        match (self.is_bound, binding) {
            (true, _) if key.is_none() => {
                Err(AuthError::unavailable("the token is bound to a key that was not shown"))
            }
            (false, Binding::Required) => Err(Refusal::NotBound.into()),
            _ => Ok(()),
        }
    }
}

impl Tokens {
    /// The tokens of a new grant. If they were asked for with a key, it is to be added.
    #[must_use]
    pub fn granted(reply: TokenReply, requested: Scopes, now: UnixTime) -> Self {
        Self {
            access_token: reply.access_token,
            refresh_token: reply.refresh_token,
            expires_at: reply.lifetime.map(|lifetime| now.after(lifetime)),
            obtained_at: now,
            granted: reply.scope.unwrap_or_else(|| requested.clone()),
            requested,
            dpop_key: None,
            is_bound: reply.is_bound,
        }
    }

    /// The same grant with what a refresh has brought; what it leaves out stays.
    #[must_use]
    pub fn refreshed(&self, reply: TokenReply, now: UnixTime) -> Self {
        Self {
            access_token: reply.access_token,
            refresh_token: reply.refresh_token.or_else(|| self.refresh_token.clone()),
            expires_at: reply.lifetime.map(|lifetime| now.after(lifetime)),
            obtained_at: now,
            requested: self.requested.clone(),
            granted: reply.scope.unwrap_or_else(|| self.granted.clone()),
            dpop_key: self.dpop_key.clone(),
            is_bound: reply.is_bound,
        }
    }

    /// What requests carry, with the key if it is bound to one.
    #[must_use]
    pub fn access(&self) -> AccessToken {
        let key = self.dpop_key.as_ref().filter(|_| self.is_bound);
        AccessToken { token: self.access_token.clone(), key: key.cloned() }
    }

    /// Whether a request should carry the access token at `now`.
    ///
    /// One whose end is unknown is used until it is refused, and so is one that the clock says was
    /// obtained in the future: a clock that has been set back says nothing about its end. So such a token is
    /// used until it is refused as well.
    #[must_use]
    pub fn is_fresh(&self, now: UnixTime) -> bool {
        let Some(end) = self.expires_at else { return true };
        if self.obtained_at.since(now) > CLOCK_TOLERANCE {
            return true;
        }
        let margin = MARGIN.min(end.since(self.obtained_at) / 2);
        end.since(now) > margin
    }

    /// Everything here that must never be shown, for a [`Redactor`] to know.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let key = self.dpop_key.as_ref().map(DpopKey::secret);
        [&self.access_token].into_iter().chain(&self.refresh_token).chain(key)
    }
}

/// Whether a text can be sent as a header.
fn is_header_text(text: &str) -> bool {
    text.bytes().all(|byte| (0x21..=0x7e).contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::HeaderMap;

    fn read(status: u16, body: &str) -> Result<TokenReply, TokenFailure> {
        let response = OAuthResponse::new(status, HeaderMap::new(), body.as_bytes().to_vec());
        TokenReply::read(&response, &Redactor::default())
    }

    fn at(seconds: f64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    fn tokens(lifetime: Option<f64>) -> Tokens {
        let reply = TokenReply {
            access_token: "a1".into(),
            refresh_token: Some("r1".into()),
            lifetime: lifetime.map(Duration::from_secs_f64),
            scope: None,
            is_bound: false,
        };
        Tokens::granted(reply, Scopes::parse("x y"), at(1000.0))
    }

    #[test]
    fn f167_tokens_are_read_from_every_success() {
        for (status, body, lifetime) in [
            (200, r#"{"access_token": "a", "token_type": "Bearer", "expires_in": 3600}"#, Some(3600.0)),
            (201, r#"{"access_token": "a", "token_type": "bearer", "expires_in": "60"}"#, Some(60.0)),
            (200, r#"{"access_token": "a", "expires_in": 1.5, "refresh_token": ""}"#, Some(1.5)),
            (200, r#"{"access_token": "a", "expires_in": null, "error": ""}"#, None),
            (200, r#"{"access_token": "a", "expires_in": -5}"#, Some(0.0)),
            (200, r#"{"access_token": "a", "expires_in": "soon"}"#, None),
        ] {
            let reply = read(status, body).unwrap();
            assert_eq!(reply.lifetime, lifetime.map(Duration::from_secs_f64), "{body}");
            assert_eq!((reply.access_token.expose(), &reply.refresh_token), ("a", &None), "{body}");
        }
        let endless = read(200, r#"{"access_token": "a", "expires_in": 1e300}"#).unwrap();
        let end = Tokens::granted(endless, Scopes::default(), at(0.0)).expires_at.unwrap();
        assert_eq!(end.since(at(0.0)).as_secs(), 10 * 365 * 24 * 3600);
    }

    #[test]
    fn a_token_is_bound_by_its_type_and_of_use_only_with_the_key() {
        let reply = |kind: &str| read(200, &format!(r#"{{"access_token": "a"{kind}}}"#)).unwrap();
        let key = DpopKey::generate().unwrap();
        let check = |reply: &TokenReply, key, binding| reply.check(key, binding);
        for kind in [r#", "token_type": "DPoP""#, r#", "token_type": "dpop""#] {
            let reply = reply(kind);
            assert!(reply.is_bound);
            for binding in [Binding::Wanted, Binding::Required] {
                assert_eq!(check(&reply, Some(&key), binding), Ok(()));
            }
            assert!(check(&reply, None, Binding::Free).unwrap_err().is_transient());
        }
        for kind in ["", r#", "token_type": "Bearer""#] {
            let reply = reply(kind);
            assert!(!reply.is_bound);
            assert_eq!(check(&reply, Some(&key), Binding::Wanted), Ok(()));
            assert_eq!(check(&reply, Some(&key), Binding::Required), Err(Refusal::NotBound.into()));
        }
    }

    #[test]
    fn t03_the_key_stays_with_the_tokens_whatever_they_are() {
        let key = DpopKey::generate().unwrap();
        let mut tokens = Tokens { dpop_key: Some(key.clone()), is_bound: true, ..tokens(None) };
        assert_eq!(tokens.access().key, Some(key.clone()));
        assert_eq!(tokens.secrets().last(), Some(key.secret()));
        for (kind, expected) in [("Bearer", None), ("DPoP", Some(&key))] {
            let body = format!(r#"{{"access_token": "a2", "token_type": "{kind}"}}"#);
            tokens = tokens.refreshed(read(200, &body).unwrap(), at(2000.0));
            assert_eq!((tokens.dpop_key.as_ref(), tokens.access().key.as_ref()), (Some(&key), expected));
        }
    }

    #[test]
    fn f167_answers_without_a_token_are_classed() {
        use TokenFailure::{NoEndpoint, Transient};
        let transient =
            |status, body| assert!(matches!(read(status, body), Err(Transient(_))), "{status} {body}");
        for status in [408, 425, 429, 500, 502, 503, 599] {
            transient(status, r#"{"error": "invalid_grant"}"#);
        }
        for body in [
            "",
            "[]",
            "{}",
            r#"{"access_token": ""}"#,
            r#"{"access_token": 7}"#,
            r#"{"access_token": "a\r\nx: y"}"#,
            r#"{"access_token": "a", "token_type": "N_A"}"#,
        ] {
            transient(200, body);
        }
        transient(302, "");
        assert_eq!(read(404, "<html>"), Err(NoEndpoint(404)));
        assert_eq!(read(405, ""), Err(NoEndpoint(405)));
        for page in ["<html>", "\r\n <!doctype html>"] {
            assert_eq!(read(200, page), Err(NoEndpoint(200)));
        }
        for (status, body) in [
            (400, r#"{"error": "invalid_grant"}"#),
            (404, r#"{"error": "invalid_grant"}"#),
            (200, r#"{"access_token": "a", "error": "invalid_grant"}"#),
        ] {
            let Err(TokenFailure::Refused(reply)) = read(status, body) else { panic!("{status} {body}") };
            assert!(reply.is("invalid_grant"));
        }
        assert!(matches!(read(401, "<html>"), Err(TokenFailure::Refused(_))));
    }

    #[test]
    fn f154_t02_a_token_of_any_lifetime_is_used_before_it_is_renewed() {
        for (lifetime, usable_for) in
            [(1.0, 0.5), (10.0, 5.0), (100.0, 50.0), (120.0, 60.0), (3600.0, 3540.0)]
        {
            let tokens = tokens(Some(lifetime));
            assert!(tokens.is_fresh(at(1000.0 + usable_for - 0.01)), "{lifetime}");
            assert!(!tokens.is_fresh(at(1000.0 + usable_for)), "{lifetime}");
        }
        assert!(!tokens(Some(0.0)).is_fresh(at(1000.0)));
        assert!(tokens(None).is_fresh(at(1e9)));
    }

    #[test]
    fn t02_a_clock_that_was_set_back_makes_the_end_unknown() {
        let tokens = tokens(Some(10.0));
        assert!(tokens.is_fresh(at(600.0)), "400 s before it was obtained");
        assert!(tokens.is_fresh(at(900.0)), "within the tolerance it simply is not over");
    }

    #[test]
    fn t03_what_a_refresh_leaves_out_stays() {
        let before = tokens(Some(10.0));
        let reply = |body| read(200, body).unwrap();
        let kept = before.refreshed(reply(r#"{"access_token": "a2", "refresh_token": ""}"#), at(2000.0));
        assert_eq!((kept.access_token.expose(), &kept.refresh_token), ("a2", &before.refresh_token));
        assert_eq!((&kept.granted, kept.expires_at, kept.obtained_at), (&before.granted, None, at(2000.0)));
        let body = r#"{"access_token": "a3", "refresh_token": "r2", "scope": "x", "expires_in": 5}"#;
        let rotated = kept.refreshed(reply(body), at(3000.0));
        assert_eq!(rotated.refresh_token.unwrap().expose(), "r2");
        assert_eq!((rotated.granted, rotated.requested), (Scopes::parse("x"), Scopes::parse("x y")));
        assert_eq!(rotated.expires_at, Some(at(3005.0)));
    }
}
