use std::collections::HashMap;

use mcp_proto::Secret;

use super::challenge::BearerChallenge;
use super::error::{AuthError, NeedsAuth};
use super::record::CredentialRecord;
use super::scope::Scopes;
use super::settings::OAuthSettings;
use super::store::Stamp;
use super::unix_time::UnixTime;

/// How often the same wider scope is asked for before it is given up, until a request succeeds.
const MAX_STEP_UPS: u32 = 3;

/// Most sets of scopes that are counted.
const MAX_COUNTED: usize = 64;

/// Which access token a request carried. Tells a refusal of the present token from one of an old token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenStamp(pub(super) u64);

/// What is known about the access to one server, and what follows from it; without I/O, clock or task.
#[derive(Debug, Default)]
pub(super) struct Access {
    record: Option<Box<CredentialRecord>>,
    /// Counts the access tokens.
    generation: u64,
    /// A token of this generation or a later one was just made, and no request has succeeded with it yet.
    unproven: Option<u64>,
    /// The state of the store that the record is from.
    pub(super) stamp: Option<Stamp>,
    /// Whether the record holds what the store does not.
    pub(super) is_unsaved: bool,
    /// What the server has asked for last.
    challenge: Option<BearerChallenge>,
    /// Scopes that a request has needed and the token does not have.
    wanted: Option<Scopes>,
    /// How often each wider scope was logged in for.
    step_ups: HashMap<String, u32>,
}

/// What a request is to carry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Carry {
    /// No token: there is none.
    Nothing,
    /// This one.
    Token(Secret),
    /// A token that has to be made first; `fallback` still works, as far as is known.
    Renewed { fallback: Option<Secret> },
}

/// What to do about a request that was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Nothing helps but a person.
    Final(AuthError),
    /// Make a new token, in place of this one if there is one.
    Renew(Option<Secret>),
    /// There is another token by now.
    Repeat,
}

impl Access {
    /// What a request is to carry at `now`, and the stamp of that.
    pub(super) fn carry(&self, settings: &OAuthSettings, now: UnixTime) -> (Carry, TokenStamp) {
        let stamp = TokenStamp(self.generation);
        let record = self.record.as_ref().filter(|record| settings.accept(record));
        let can_renew_itself = settings.is_for_itself();
        let Some(tokens) = record.and_then(|record| record.tokens.as_ref()) else {
            let carry = if can_renew_itself { Carry::Renewed { fallback: None } } else { Carry::Nothing };
            return (carry, stamp);
        };
        let token = || tokens.access_token.clone();
        let can_renew = can_renew_itself || tokens.refresh_token.is_some();
        let carry = if tokens.is_fresh(now) || !can_renew {
            // One that has ended and cannot be renewed is sent all the same: the server says what it wants.
            Carry::Token(token())
        } else {
            let is_over = tokens.expires_at.is_some_and(|end| end <= now);
            Carry::Renewed { fallback: (!is_over).then(token) }
        };
        (carry, stamp)
    }

    /// The server does not accept the token of this stamp.
    ///
    /// `renews_itself`: a token can be made without a refresh token.
    pub(super) fn on_unauthorized(
        &mut self,
        stamp: TokenStamp,
        challenge: Option<BearerChallenge>,
        renews_itself: bool,
    ) -> Refused {
        if challenge.is_some() {
            self.challenge = challenge;
        }
        if stamp.0 != self.generation {
            return Refused::Repeat;
        }
        let needs = |reason| Refused::Final(AuthError::NeedsAuth(reason));
        let Some(tokens) = self.record.as_ref().and_then(|record| record.tokens.as_ref()) else {
            return if renews_itself { Refused::Renew(None) } else { needs(NeedsAuth::Missing) };
        };
        if self.unproven.is_some_and(|unproven| unproven <= stamp.0) {
            return needs(NeedsAuth::Rejected);
        }
        match renews_itself || tokens.refresh_token.is_some() {
            true => Refused::Renew(Some(tokens.access_token.clone())),
            false => needs(NeedsAuth::Expired),
        }
    }

    /// The server wants a wider scope. The answer says what to ask a person for, or that it is no use.
    pub(super) fn on_insufficient_scope(&mut self, challenge: BearerChallenge) -> AuthError {
        let tokens = self.record.as_ref().and_then(|record| record.tokens.as_ref());
        let (requested, granted) =
            tokens.map(|tokens| (tokens.requested.clone(), tokens.granted.clone())).unwrap_or_default();
        let challenged = Scopes::parse(challenge.scope.as_deref().unwrap_or_default());
        let union = requested.union(&granted).union(&challenged);
        let required = union.to_parameter().unwrap_or_default();
        let count = self.step_ups.get(&required).copied().unwrap_or_default();
        let is_final = granted.cover(&union) || count >= MAX_STEP_UPS;
        if !is_final {
            self.challenge = Some(challenge);
            self.wanted = Some(union);
        }
        AuthError::InsufficientScope { required, is_final }
    }

    /// A request was accepted that carried the token of this stamp.
    pub(super) fn on_accepted(&mut self, stamp: TokenStamp) {
        if self.unproven.is_some_and(|unproven| unproven <= stamp.0) {
            self.unproven = None;
        }
        if stamp.0 == self.generation {
            self.step_ups.clear();
        }
    }

    /// What the store holds, in the state `stamp`.
    pub(super) fn on_loaded(&mut self, record: Option<Box<CredentialRecord>>, stamp: Option<Stamp>) {
        self.stamp = stamp;
        self.replace(record);
    }

    /// A renewal or a login has brought these credentials.
    pub(super) fn on_renewed(&mut self, record: Box<CredentialRecord>) {
        self.replace(Some(record));
        self.unproven = Some(self.generation);
    }

    /// Forgets the credentials.
    pub(super) fn on_cleared(&mut self) {
        self.replace(None);
        self.is_unsaved = false;
        self.stamp = None;
    }

    fn replace(&mut self, record: Option<Box<CredentialRecord>>) {
        let token = |record: &Option<Box<CredentialRecord>>| {
            record
                .as_ref()
                .and_then(|record| record.tokens.as_ref())
                .map(|tokens| tokens.access_token.clone())
        };
        if token(&self.record) != token(&record) {
            self.generation += 1;
        }
        self.record = record;
        let granted =
            self.record.as_ref().and_then(|record| record.tokens.as_ref()).map(|tokens| &tokens.granted);
        if let (Some(wanted), Some(granted)) = (&self.wanted, granted)
            && granted.cover(wanted)
        {
            self.wanted = None;
        }
    }

    /// What a login is for: the last challenge, the scopes that were missing, the token that is of no use.
    pub(super) fn on_login(&mut self) -> (Option<BearerChallenge>, Option<Scopes>, Option<Secret>) {
        if let Some(required) = self.wanted.as_ref().and_then(Scopes::to_parameter)
            && (self.step_ups.len() < MAX_COUNTED || self.step_ups.contains_key(&required))
        {
            *self.step_ups.entry(required).or_default() += 1;
        }
        let tokens = self.record.as_ref().and_then(|record| record.tokens.as_ref());
        (self.challenge.clone(), self.wanted.clone(), tokens.map(|tokens| tokens.access_token.clone()))
    }

    /// The credentials, if they are not kept yet.
    pub(super) fn unsaved(&self) -> Option<Box<CredentialRecord>> {
        self.record.clone().filter(|_| self.is_unsaved)
    }

    /// Which access token there is.
    pub(super) fn generation(&self) -> TokenStamp {
        TokenStamp(self.generation)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::auth::{ClientRecord, ClientSource, TokenReply, Tokens};

    fn at(seconds: f64) -> UnixTime {
        UnixTime::from_seconds(1000.0 + seconds)
    }

    fn record(
        access: &str,
        refresh: Option<&str>,
        lifetime: Option<u64>,
        scope: &str,
    ) -> Box<CredentialRecord> {
        let client = ClientRecord::new(ClientSource::Registered, "c");
        let mut record = CredentialRecord::new("https://rs.example", "https://as.example", client);
        let reply = TokenReply {
            access_token: access.into(),
            refresh_token: refresh.map(Secret::from),
            lifetime: lifetime.map(Duration::from_secs),
            scope: None,
        };
        record.tokens = Some(Tokens::granted(reply, Scopes::parse(scope), at(0.0)));
        Box::new(record)
    }

    fn with(record: Box<CredentialRecord>) -> Access {
        let mut access = Access::default();
        access.on_loaded(Some(record), None);
        access
    }

    fn carry(access: &Access, seconds: f64) -> Carry {
        access.carry(&OAuthSettings::default(), at(seconds)).0
    }

    fn challenge(scope: &str) -> BearerChallenge {
        BearerChallenge { scope: Some(scope.to_owned()), ..BearerChallenge::default() }
    }

    const REJECTED: Refused = Refused::Final(AuthError::NeedsAuth(NeedsAuth::Rejected));

    #[test]
    fn t01_a_token_is_renewed_before_it_ends_and_not_sent_after() {
        let access = with(record("a1", Some("r1"), Some(100), ""));
        assert_eq!(carry(&access, 69.0), Carry::Token("a1".into()));
        assert_eq!(carry(&access, 70.0), Carry::Renewed { fallback: Some("a1".into()) });
        assert_eq!(carry(&access, 100.0), Carry::Renewed { fallback: None });
        assert_eq!(carry(&with(record("a1", Some("r1"), None, "")), 1e6), Carry::Token("a1".into()));
        assert_eq!(carry(&Access::default(), 0.0), Carry::Nothing);
    }

    #[test]
    fn t11_a_token_that_cannot_be_renewed_is_sent_until_it_is_refused() {
        let mut access = with(record("a1", None, Some(100), ""));
        assert_eq!(carry(&access, 1000.0), Carry::Token("a1".into()));
        let refused = access.on_unauthorized(access.generation(), None, false);
        assert_eq!(refused, Refused::Final(AuthError::NeedsAuth(NeedsAuth::Expired)));
    }

    #[test]
    fn b04_credentials_of_another_configuration_are_not_sent() {
        let access = with(record("a1", Some("r1"), None, ""));
        let pinned =
            OAuthSettings { issuer: Some("https://other.example".to_owned()), ..OAuthSettings::default() };
        assert_eq!(access.carry(&pinned, at(0.0)).0, Carry::Nothing);
    }

    #[test]
    fn t10_a_refusal_of_an_old_token_only_repeats_the_request() {
        let mut access = with(record("a1", Some("r1"), None, ""));
        let old = access.generation();
        access.on_renewed(record("a2", Some("r2"), None, ""));
        assert_eq!(access.on_unauthorized(old, None, false), Refused::Repeat);
        assert_eq!(access.on_unauthorized(old, None, false), Refused::Repeat);
    }

    #[test]
    fn t09_a_refusal_of_a_token_that_was_just_made_is_final_until_a_request_succeeds() {
        let mut access = with(record("a1", Some("r1"), None, ""));
        assert_eq!(
            access.on_unauthorized(access.generation(), None, false),
            Refused::Renew(Some("a1".into()))
        );
        access.on_renewed(record("a2", Some("r2"), None, ""));
        let new = access.generation();
        assert_eq!(access.on_unauthorized(new, None, false), REJECTED);
        assert_eq!(access.on_unauthorized(new, None, false), REJECTED, "for every request");
        access.on_accepted(new);
        assert_eq!(
            access.on_unauthorized(new, None, false),
            Refused::Renew(Some("a2".into())),
            "it has worked: it was revoked"
        );
    }

    #[test]
    fn a_record_with_the_same_token_is_no_new_generation() {
        let mut access = with(record("a1", Some("r1"), None, ""));
        let before = access.generation();
        access.on_loaded(Some(record("a1", Some("r2"), None, "")), None);
        assert_eq!(access.generation(), before);
        access.on_cleared();
        assert_ne!(access.generation(), before);
        let missing = Refused::Final(AuthError::NeedsAuth(NeedsAuth::Missing));
        assert_eq!(access.on_unauthorized(access.generation(), None, false), missing);
    }

    #[test]
    fn k01_a_wider_scope_is_a_union_and_is_not_asked_for_without_end() {
        let mut access = with(record("a1", Some("r1"), None, "x y"));
        let wants = |required: &str, is_final| AuthError::InsufficientScope {
            required: required.to_owned(),
            is_final,
        };
        assert_eq!(access.on_insufficient_scope(challenge("y")), wants("x y", true), "it has that already");
        assert_eq!(access.on_login().1, None);
        for _ in 0..3 {
            assert_eq!(access.on_insufficient_scope(challenge("z")), wants("x y z", false));
            assert_eq!(access.on_login().1, Some(Scopes::parse("x y z")));
        }
        assert_eq!(access.on_insufficient_scope(challenge("z")), wants("x y z", true));
        assert_eq!(access.on_insufficient_scope(challenge("other")), wants("x y other", false));
        access.on_accepted(access.generation());
        assert_eq!(
            access.on_insufficient_scope(challenge("z")),
            wants("x y z", false),
            "a success counts anew"
        );
        access.on_renewed(record("a2", None, None, "x y z"));
        assert_eq!(access.on_login().1, None, "it is granted");
    }

    #[test]
    fn k01_a_narrower_challenge_does_not_narrow_what_was_asked_for() {
        let mut access = with(record("a1", Some("r1"), None, "x"));
        access.on_insufficient_scope(challenge("y"));
        access.on_unauthorized(access.generation(), Some(challenge("x")), false);
        assert_eq!(access.on_login().1, Some(Scopes::parse("x y")));
    }
}
