use std::collections::HashMap;

use mcp_proto::Secret;

use super::access_token::AccessToken;
use super::challenge::Challenges;
use super::error::{AuthError, NeedsAuth};
use super::record::CredentialRecord;
use super::scope::Scopes;
use super::settings::OAuthSettings;
use super::store::{Saved, Stamp};
use super::unix_time::UnixTime;

/// How often the same wider scope is granted in vain before it is given up, until it is really there.
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
    /// Whether the record holds what the store does not. Its revision is then the one that it follows.
    is_unsaved: bool,
    /// Counts what was made, saved or forgotten here: what was read before such a change is out of date.
    changes: u64,
    /// The access token that the server has refused.
    refused: Option<Secret>,
    /// What the server has asked for last.
    challenges: Challenges,
    /// Whether the server has refused a request for want of a token, with a challenge or without one.
    has_asked: bool,
    /// Scopes that a request has needed and the token does not have.
    wanted: Option<Scopes>,
    /// How often each wider scope was logged in for, and the new token had less.
    step_ups: HashMap<String, u32>,
}

/// What a request is to carry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Carry {
    /// No token: there is none.
    Nothing,
    /// This one.
    Token(AccessToken),
    /// A token that has to be made first; `fallback` still works, as far as is known.
    Renewed { fallback: Option<AccessToken> },
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
        // Where and for what a token is made, the server says first, as with a login.
        let can_renew_itself = settings.is_for_itself() && self.has_asked;
        let Some(tokens) = record.and_then(|record| record.tokens.as_ref()) else {
            let carry = if can_renew_itself { Carry::Renewed { fallback: None } } else { Carry::Nothing };
            return (carry, stamp);
        };
        let token = || tokens.access();
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
        challenges: Challenges,
        renews_itself: bool,
    ) -> Refused {
        self.has_asked = true;
        if !challenges.is_empty() {
            self.challenges = challenges;
        }
        if stamp.0 != self.generation {
            return Refused::Repeat;
        }
        let needs = |reason| Refused::Final(AuthError::NeedsAuth(reason));
        let Some(tokens) = self.record.as_ref().and_then(|record| record.tokens.as_ref()) else {
            return if renews_itself { Refused::Renew(None) } else { needs(NeedsAuth::Missing) };
        };
        self.refused = Some(tokens.access_token.clone());
        if self.unproven.is_some_and(|unproven| unproven <= stamp.0) {
            return needs(NeedsAuth::Rejected);
        }
        match renews_itself || tokens.refresh_token.is_some() {
            true => Refused::Renew(Some(tokens.access_token.clone())),
            false => needs(NeedsAuth::Expired),
        }
    }

    /// The server wants a wider scope than the token of this stamp has. The answer says what to ask a person
    /// for, or that it is no use. `can_ask`: whether there is one.
    pub(super) fn on_insufficient_scope(
        &mut self,
        stamp: TokenStamp,
        challenges: Challenges,
        can_ask: bool,
    ) -> Refused {
        if stamp.0 != self.generation {
            return Refused::Repeat;
        }
        let tokens = self.record.as_ref().and_then(|record| record.tokens.as_ref());
        let (requested, granted) =
            tokens.map(|tokens| (tokens.requested.clone(), tokens.granted.clone())).unwrap_or_default();
        let challenged = Scopes::parse(challenges.scope().unwrap_or_default());
        let union = requested.union(&granted).union(&challenged);
        let required = union.to_parameter().unwrap_or_default();
        let count = self.step_ups.get(&required).copied().unwrap_or_default();
        let is_final = !can_ask || granted.cover(&union) || count >= MAX_STEP_UPS;
        if !is_final {
            self.challenges = challenges;
            self.wanted = Some(union);
        }
        Refused::Final(AuthError::InsufficientScope { required, is_final })
    }

    /// A request was accepted that carried the token of this stamp.
    pub(super) fn on_accepted(&mut self, stamp: TokenStamp) {
        if self.unproven.is_some_and(|unproven| unproven <= stamp.0) {
            self.unproven = None;
        }
        if stamp.0 == self.generation {
            self.refused = None;
        }
    }

    /// A login for this wider scope has brought a new token, whatever is granted with it.
    pub(super) fn on_stepped_up(&mut self, wanted: &Scopes) {
        let granted = self.granted().is_some_and(|granted| granted.cover(wanted));
        let Some(required) = wanted.to_parameter() else { return };
        if granted {
            self.step_ups.remove(&required);
        } else if self.step_ups.len() < MAX_COUNTED || self.step_ups.contains_key(&required) {
            *self.step_ups.entry(required).or_default() += 1;
        }
    }

    /// What the store holds, in the state `stamp`. What could not be saved is worth more than that.
    pub(super) fn on_loaded(&mut self, record: Option<Box<CredentialRecord>>, stamp: Option<Stamp>) {
        if !self.is_unsaved {
            self.stamp = stamp;
            self.replace(record);
        }
    }

    /// These are the credentials from now on, as somebody else has left them in the store.
    pub(super) fn on_adopted(&mut self, record: Option<Box<CredentialRecord>>, stamp: Option<Stamp>) {
        let tokens =
            |record: &Option<Box<CredentialRecord>>| record.as_ref().and_then(|record| record.tokens.clone());
        // What could not be saved is adopted by nobody: it is here already.
        if !self.is_unsaved || tokens(&self.record) != tokens(&record) {
            self.changes += 1;
            self.is_unsaved = false;
            self.stamp = stamp;
            self.replace(record);
        }
    }

    /// A renewal or a login has brought these credentials, which are kept, or could not be.
    pub(super) fn on_renewed(&mut self, record: Box<CredentialRecord>, saved: Option<Saved>) {
        let newest = |record: Option<&CredentialRecord>| {
            let tokens = record?.tokens.as_ref()?;
            Some((tokens.access_token.clone(), tokens.obtained_at))
        };
        // A record may change in other ways, and servers may hand out the same token again.
        let is_new = newest(self.record.as_deref()) != newest(Some(&record));
        self.changes += 1;
        self.replace(Some(record));
        if is_new {
            self.unproven = Some(self.generation);
        }
        match saved {
            Some(saved) => self.on_saved(saved),
            None => self.is_unsaved = true,
        }
    }

    /// The credentials are kept.
    pub(super) fn on_saved(&mut self, saved: Saved) {
        self.changes += 1;
        self.is_unsaved = false;
        self.stamp = saved.stamp;
        if let Some(record) = &mut self.record {
            record.revision = saved.revision;
        }
    }

    /// Forgets the credentials.
    pub(super) fn on_cleared(&mut self) {
        self.changes += 1;
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
        if let (Some(wanted), Some(granted)) = (&self.wanted, self.granted())
            && granted.cover(wanted)
        {
            self.wanted = None;
        }
    }

    fn granted(&self) -> Option<&Scopes> {
        self.record.as_ref().and_then(|record| record.tokens.as_ref()).map(|tokens| &tokens.granted)
    }

    /// What a login is for: the last challenges, the scopes that were missing, the token that was refused.
    pub(super) fn on_login(&self) -> (Challenges, Option<Scopes>, Option<Secret>) {
        (self.challenges.clone(), self.wanted.clone(), self.refused.clone())
    }

    /// What the server has asked for last; empty if nothing.
    pub(super) fn challenges(&self) -> Challenges {
        self.challenges.clone()
    }

    /// Whether the token of this stamp is the present one, and bound to a key.
    pub(super) fn is_bound(&self, stamp: TokenStamp) -> bool {
        stamp.0 == self.generation && self.record.as_ref().is_some_and(|record| record.is_bound())
    }

    /// The credentials that could not be saved, to follow `kept`; `None` if there are none, or if what is
    /// kept by now goes before them.
    pub(super) fn unsaved(&self, kept: Option<&CredentialRecord>) -> Option<Box<CredentialRecord>> {
        let unsaved = self.record.as_ref().filter(|_| self.is_unsaved)?;
        let obtained = |record: &CredentialRecord| record.tokens.as_ref().map(|tokens| tokens.obtained_at);
        let gives_way = match kept {
            // Somebody has logged out, unless there never was anything.
            None => unsaved.revision > 0,
            Some(kept) => kept.revision != unsaved.revision && obtained(kept) > obtained(unsaved),
        };
        let revision = kept.map_or(0, |kept| kept.revision);
        (!gives_way).then(|| Box::new(CredentialRecord { revision, ..(**unsaved).clone() }))
    }

    /// Whether there are credentials that could not be saved.
    pub(super) fn is_unsaved(&self) -> bool {
        self.is_unsaved
    }

    /// Tells whether something was made, saved or forgotten since.
    pub(super) fn changes(&self) -> u64 {
        self.changes
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
    use crate::auth::{ClientRecord, ClientSource, Dpop, Grant, TokenReply, Tokens};

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
            is_bound: false,
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

    fn token(text: &str) -> AccessToken {
        AccessToken { token: text.into(), key: None }
    }

    fn challenge(scope: &str) -> Challenges {
        Challenges::parse([format!("Bearer scope=\"{scope}\"").as_bytes()])
    }

    const REJECTED: Refused = Refused::Final(AuthError::NeedsAuth(NeedsAuth::Rejected));

    #[test]
    fn t01_a_token_is_renewed_before_it_ends_and_not_sent_after() {
        let access = with(record("a1", Some("r1"), Some(100), ""));
        assert_eq!(carry(&access, 49.0), Carry::Token(token("a1")));
        assert_eq!(carry(&access, 50.0), Carry::Renewed { fallback: Some(token("a1")) });
        assert_eq!(carry(&access, 100.0), Carry::Renewed { fallback: None });
        assert_eq!(carry(&with(record("a1", Some("r1"), None, "")), 1e6), Carry::Token(token("a1")));
        assert_eq!(carry(&Access::default(), 0.0), Carry::Nothing);
    }

    #[test]
    fn t11_a_token_that_cannot_be_renewed_is_sent_until_it_is_refused() {
        let mut access = with(record("a1", None, Some(100), ""));
        assert_eq!(carry(&access, 1000.0), Carry::Token(token("a1")));
        let refused = access.on_unauthorized(access.generation(), Challenges::default(), false);
        assert_eq!(refused, Refused::Final(AuthError::NeedsAuth(NeedsAuth::Expired)));
    }

    #[test]
    fn whoever_acts_for_itself_makes_tokens_by_itself_once_the_server_has_asked_for_one() {
        let settings = OAuthSettings { grant: Grant::ClientCredentials, ..OAuthSettings::default() };
        let carry = |access: &Access| access.carry(&settings, at(100.0)).0;
        for (mut access, before) in [
            (Access::default(), Carry::Nothing),
            (with(record("a1", None, Some(100), "")), Carry::Token(token("a1"))),
        ] {
            assert_eq!(carry(&access), before, "the server says what it wants");
            let refused = access.on_unauthorized(access.generation(), Challenges::default(), true);
            assert!(matches!(refused, Refused::Renew(_)), "{refused:?}");
            assert_eq!(carry(&access), Carry::Renewed { fallback: None });
        }
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
        access.on_renewed(record("a2", Some("r2"), None, ""), None);
        assert_eq!(access.on_unauthorized(old, Challenges::default(), false), Refused::Repeat);
        assert_eq!(access.on_unauthorized(old, Challenges::default(), false), Refused::Repeat);
    }

    #[test]
    fn t09_a_refusal_of_a_token_that_was_just_made_is_final_until_a_request_succeeds() {
        let mut access = with(record("a1", Some("r1"), None, ""));
        assert_eq!(
            access.on_unauthorized(access.generation(), Challenges::default(), false),
            Refused::Renew(Some("a1".into()))
        );
        access.on_renewed(record("a2", Some("r2"), None, ""), None);
        let new = access.generation();
        assert_eq!(access.on_unauthorized(new, Challenges::default(), false), REJECTED);
        assert_eq!(access.on_unauthorized(new, Challenges::default(), false), REJECTED, "for every request");
        access.on_accepted(new);
        assert_eq!(
            access.on_unauthorized(new, Challenges::default(), false),
            Refused::Renew(Some("a2".into())),
            "it has worked: it was revoked"
        );
    }

    #[test]
    fn a_token_that_is_not_bound_is_not_sent_where_it_has_to_be() {
        let access = with(record("a1", Some("r1"), None, ""));
        let settings = OAuthSettings { dpop: Dpop::Required, ..OAuthSettings::default() };
        assert_eq!(access.carry(&settings, at(0.0)).0, Carry::Nothing);
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
        assert_eq!(access.on_unauthorized(access.generation(), Challenges::default(), false), missing);
    }

    #[test]
    fn k01_a_wider_scope_is_a_union_and_is_not_asked_for_without_end() {
        let mut access = with(record("a1", Some("r1"), None, "x y"));
        let wants = |required: &str, is_final| {
            Refused::Final(AuthError::InsufficientScope { required: required.to_owned(), is_final })
        };
        let insufficient = |access: &mut Access, scope| {
            let stamp = access.generation();
            access.on_insufficient_scope(stamp, challenge(scope), true)
        };
        assert_eq!(insufficient(&mut access, "y"), wants("x y", true), "it has that already");
        assert_eq!(access.on_login().1, None);
        let required = Scopes::parse("x y z");
        for token in ["a2", "a3", "a4"] {
            for _ in 0..5 {
                // A login that brings nothing is no answer of the server.
                assert_eq!(insufficient(&mut access, "z"), wants("x y z", false));
                assert_eq!(access.on_login().1, Some(required.clone()));
            }
            access.on_renewed(record(token, None, None, "x y"), None);
            access.on_stepped_up(&required);
            // Other requests succeed all the time, and say nothing about this scope.
            access.on_accepted(access.generation());
        }
        assert_eq!(insufficient(&mut access, "z"), wants("x y z", true));
        access.on_renewed(record("a5", None, None, "x y z"), None);
        assert_eq!(access.on_login().1, None, "it is granted");
        access.on_stepped_up(&required);
        access.on_renewed(record("a6", None, None, "x y"), None);
        assert_eq!(insufficient(&mut access, "z"), wants("x y z", false), "it was there, and counts anew");
        let stamp = access.generation();
        let refused = access.on_insufficient_scope(stamp, challenge("z"), false);
        assert_eq!(refused, wants("x y z", true), "there is nobody to ask");
        assert_eq!(
            insufficient(&mut access, "other"),
            wants("x y other", false),
            "each is counted for itself"
        );
    }

    #[test]
    fn k01_a_narrower_challenge_does_not_narrow_what_was_asked_for() {
        let mut access = with(record("a1", Some("r1"), None, "x"));
        access.on_insufficient_scope(access.generation(), challenge("y"), true);
        access.on_unauthorized(access.generation(), challenge("x"), false);
        assert_eq!(access.on_login().1, Some(Scopes::parse("x y")));
    }

    #[test]
    fn k01_a_refusal_of_an_old_token_for_its_scope_only_repeats_the_request() {
        let mut access = with(record("a1", Some("r1"), None, "x"));
        let old = access.generation();
        access.on_renewed(record("a2", Some("r2"), None, "x y"), None);
        assert_eq!(access.on_insufficient_scope(old, challenge("y"), true), Refused::Repeat);
        assert!(matches!(
            access.on_insufficient_scope(access.generation(), challenge("y"), true),
            Refused::Final(AuthError::InsufficientScope { is_final: true, .. })
        ));
    }

    #[test]
    fn t12_a_record_that_changes_without_a_new_token_does_not_make_the_token_a_new_one() {
        let mut access = with(record("a1", Some("r1"), None, ""));
        let mut struck = record("a1", Some("r1"), None, "");
        struck.unknown_client_since = Some(at(1.0));
        access.on_renewed(struck, None);
        let refused = access.on_unauthorized(access.generation(), Challenges::default(), false);
        assert_eq!(refused, Refused::Renew(Some("a1".into())));
        // But a renewal that brings the same token again has done what it can.
        let mut again = record("a1", Some("r1"), None, "");
        again.tokens.as_mut().unwrap().obtained_at = at(1.0);
        access.on_renewed(again, None);
        assert_eq!(access.on_unauthorized(access.generation(), Challenges::default(), false), REJECTED);
    }

    #[test]
    fn a_login_is_told_of_the_token_that_was_refused_and_of_no_other() {
        let mut access = with(record("a1", Some("r1"), None, ""));
        assert_eq!(access.on_login().2, None, "nobody has refused it");
        access.on_unauthorized(access.generation(), Challenges::default(), false);
        assert_eq!(access.on_login().2, Some("a1".into()));
        access.on_accepted(access.generation());
        assert_eq!(access.on_login().2, None, "it works after all");
    }

    #[test]
    fn t08_what_could_not_be_saved_gives_way_only_to_what_came_after_it() {
        let revised = |access: &str, obtained: f64, revision: u64| {
            let mut record = record(access, Some("r"), None, "");
            record.revision = revision;
            record.tokens.as_mut().unwrap().obtained_at = at(obtained);
            record
        };
        let mut access = with(revised("a1", 0.0, 4));
        access.on_renewed(revised("a2", 10.0, 4), None);
        let unsaved = |access: &Access, kept: Option<Box<CredentialRecord>>| {
            let unsaved = access.unsaved(kept.as_deref());
            unsaved.map(|record| (record.tokens.unwrap().access_token.expose().to_owned(), record.revision))
        };
        let expected = |access: &str, revision| Some((access.to_owned(), revision));
        assert_eq!(unsaved(&access, Some(revised("a1", 0.0, 4))), expected("a2", 4));
        assert_eq!(unsaved(&access, Some(revised("b1", 5.0, 5))), expected("a2", 5), "older than ours");
        assert_eq!(unsaved(&access, Some(revised("b1", 20.0, 5))), None);
        assert_eq!(unsaved(&access, None), None, "somebody has logged out");
        access.on_loaded(Some(revised("a1", 0.0, 4)), None);
        assert_eq!(unsaved(&access, Some(revised("a1", 0.0, 4))), expected("a2", 4), "it is not lost");
        access.on_adopted(Some(revised("b1", 20.0, 5)), None);
        assert_eq!(unsaved(&access, Some(revised("a1", 0.0, 4))), None);
        let mut first = Access::default();
        first.on_renewed(revised("a1", 0.0, 0), None);
        assert_eq!(unsaved(&first, None), expected("a1", 0), "there never was anything");
        // Tokens that are void must not come back from the store.
        let mut dropped = with(revised("a1", 0.0, 4));
        let mut void = revised("a1", 0.0, 4);
        void.tokens = None;
        dropped.on_renewed(void, None);
        assert_eq!(dropped.unsaved(Some(&revised("a1", 0.0, 4))).unwrap().tokens, None);
    }
}
