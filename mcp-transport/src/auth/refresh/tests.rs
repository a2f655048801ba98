use std::sync::Arc;

use http::HeaderMap;
use mcp_proto::Secret;
use serde_json::{Value, json};

use super::*;
use crate::auth::{
    ConfiguredClient, OAuthSettings, Saved, Scopes, ServerMetadata, StoreError, SystemRandomness, Tokens,
    WebUrl,
};

const NOW: f64 = 1_700_000_000.0;
const ISSUER: &str = "https://as.example";

fn at(seconds: f64) -> UnixTime {
    UnixTime::from_seconds(NOW + seconds)
}

fn plan(settings: OAuthSettings, server: WebUrl) -> RenewalPlan {
    RenewalPlan::new(settings, server, Arc::new(SystemRandomness))
}

fn reply(access: &str, refresh: Option<&str>, lifetime: u64) -> TokenReply {
    let body = json!({"access_token": access, "refresh_token": refresh, "expires_in": lifetime});
    let response = OAuthResponse::new(200, HeaderMap::new(), body.to_string().into_bytes());
    TokenReply::read(&response, &Redactor::default()).unwrap()
}

fn metadata(issuer: &str, token_endpoint: &str) -> ServerMetadata {
    ServerMetadata {
        issuer: Some(issuer.to_owned()),
        token_endpoint: Some(token_endpoint.to_owned()),
        ..ServerMetadata::default()
    }
}

/// Credentials whose access token `a1` has ended at `NOW`.
fn ended() -> CredentialRecord {
    let client = ClientRecord::new(ClientSource::Registered, "c");
    let mut record = CredentialRecord::new("https://rs.example/mcp", ISSUER, client);
    record.revision = 4;
    record.resource = Some("https://rs.example/mcp?x".to_owned());
    record.tokens = Some(Tokens::granted(reply("a1", Some("r1"), 100), Scopes::parse("x"), at(-100.0)));
    record.metadata = Some(CachedMetadata {
        document: metadata(ISSUER, "https://as.example/token"),
        fetched_at: at(-100.0),
    });
    record
}

/// The same, with the access token alive, and refused by the server.
fn alive() -> CredentialRecord {
    let mut record = ended();
    record.tokens = Some(Tokens::granted(reply("a1", Some("r1"), 1000), Scopes::parse("x"), at(-100.0)));
    record
}

/// Answers of the token endpoint, in order, and what became of them.
struct Run {
    settings: OAuthSettings,
    refused: Option<&'static str>,
    kept: Option<CredentialRecord>,
    /// What somebody else leaves in the store when it is read again.
    replaced_by: Option<CredentialRecord>,
    answers: Vec<(u16, Value)>,
    document: Value,
    posts: Vec<Form>,
    asked: Vec<String>,
    commits: Vec<CredentialRecord>,
    seconds: f64,
}

impl Run {
    fn new(kept: CredentialRecord, answers: &[(u16, Value)]) -> Self {
        Self {
            settings: OAuthSettings::default(),
            refused: None,
            kept: Some(kept),
            replaced_by: None,
            answers: answers.to_vec(),
            document: json!({"issuer": ISSUER, "token_endpoint": "https://as.example/token2"}),
            posts: Vec::new(),
            asked: Vec::new(),
            commits: Vec::new(),
            seconds: 0.0,
        }
    }

    fn refused(self) -> Self {
        Self { refused: Some("a1"), ..self }
    }

    fn go(&mut self) -> Result<CredentialRecord, AuthError> {
        let server = WebUrl::parse("https://rs.example/mcp").unwrap();
        let refused = self.refused.map(Secret::from);
        let (mut refresh, mut wants) =
            Refresh::begin(RenewalPlan { refused, ..plan(self.settings.clone(), server) });
        let mut answers = self.answers.clone().into_iter();
        loop {
            let input = match wants {
                RenewalOutput::NeedFence => RenewalInput::FenceTaken(self.kept.clone().map(Box::new)),
                RenewalOutput::Reload => {
                    self.kept = self.replaced_by.take().or(self.kept.take());
                    RenewalInput::Reloaded(self.kept.clone().map(Box::new))
                }
                RenewalOutput::Send(number, request) => {
                    self.asked.push(request.url.as_str().to_owned());
                    let (status, body) = match &request.body {
                        Some(body) => {
                            self.posts.push(Form::parse(body.expose()));
                            answers.next().expect("one post too many")
                        }
                        None => (200, self.document.clone()),
                    };
                    let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
                    let response = OAuthResponse::new(status, HeaderMap::new(), body.into_bytes());
                    let answer = if status == 0 { Err(OAuthHttpError::TooLarge) } else { Ok(response) };
                    RenewalInput::Response(number, answer)
                }
                RenewalOutput::Commit(record) => {
                    let revision = record.revision + 1;
                    self.kept = Some(CredentialRecord { revision, ..(*record).clone() });
                    self.commits.push(*record);
                    RenewalInput::Saved(Ok(Saved { revision, stamp: None }))
                }
                RenewalOutput::Done(end) => return end.map(|record| *record),
                RenewalOutput::NeedIdentity(..) => panic!("there is a refresh token"),
            };
            wants = refresh.step(input, at(self.seconds)).expect("it waits for this");
        }
    }
}

fn error(code: &str) -> (u16, Value) {
    (400, json!({"error": code}))
}

fn access(record: &CredentialRecord) -> Option<&str> {
    record.tokens.as_ref().map(|tokens| tokens.access_token.expose())
}

fn refresh_token(record: &CredentialRecord) -> Option<&str> {
    record.tokens.as_ref()?.refresh_token.as_ref().map(Secret::expose)
}

#[test]
fn t03_a_refresh_renews_what_is_kept_before_anybody_gets_it() {
    let brought = json!({"access_token": "a2", "refresh_token": "r2", "expires_in": 50});
    let mut run = Run::new(ended(), &[(200, brought)]);
    let record = run.go().unwrap();
    assert_eq!((access(&record), refresh_token(&record), record.revision), (Some("a2"), Some("r2"), 5));
    assert_eq!(run.commits.len(), 1);
    assert_eq!(record.tokens.unwrap().expires_at, Some(at(50.0)));
    let mut run = Run::new(ended(), &[(201, json!({"access_token": "a2"}))]);
    let record = run.go().unwrap();
    assert_eq!((access(&record), refresh_token(&record)), (Some("a2"), Some("r1")));
    assert_eq!(record.tokens.as_ref().unwrap().granted, Scopes::parse("x"));
    assert_eq!(run.kept.as_ref(), Some(&record), "memory and store hold the same");
}

#[test]
fn r01_k01_a_refresh_names_the_resource_of_the_grant_and_no_scope() {
    let mut run = Run::new(ended(), &[(200, json!({"access_token": "a2"}))]);
    // As after a restart: through the document that is kept.
    run.kept = Some(CredentialRecord::read(&ended().write()).unwrap().0);
    run.go().unwrap();
    let value = |name| run.posts[0].get(name).map(Secret::expose);
    assert_eq!(value("resource"), Some("https://rs.example/mcp?x"));
    assert_eq!((value("grant_type"), value("refresh_token")), (Some("refresh_token"), Some("r1")));
    assert_eq!((value("client_id"), value("scope")), (Some("c"), None));
    assert_eq!(run.asked, ["https://as.example/token"], "nothing is discovered that is known");
}

#[test]
fn f166_n04_a_record_that_was_poked_is_normalised_before_the_request() {
    for poked in [None, Some("none"), Some("")] {
        let mut record = ended();
        record.client.client_secret = Some("s".into());
        record.client.token_endpoint_auth_method = poked.map(str::to_owned);
        let mut run = Run::new(record, &[(200, json!({"access_token": "a2"}))]);
        run.go().unwrap();
        assert_eq!(run.posts[0].get("client_secret").unwrap().expose(), "s");
        assert!(!run.posts[0].repeats("client_secret"));
    }
}

#[test]
fn the_secret_of_a_configured_client_comes_from_the_configuration() {
    let client = ConfiguredClient { id: "c".into(), secret: Some("s".into()), method: None };
    let settings = OAuthSettings { client: Some(client), ..OAuthSettings::default() };
    let mut record = ended();
    record.client.source = ClientSource::Configured;
    record.fingerprint = settings.fingerprint();
    let mut run = Run { settings, ..Run::new(record, &[(200, json!({"access_token": "a2"}))]) };
    let record = run.go().unwrap();
    assert_eq!(run.posts[0].get("client_secret").unwrap().expose(), "s");
    assert_eq!(record.client.client_secret, None);
}

#[test]
fn t04_only_the_word_of_the_server_that_a_token_is_void_costs_it() {
    // Every other answer leaves the store as it is, byte for byte.
    let transient: [(u16, Value); 10] = [
        (0, Value::Null),
        (408, Value::Null),
        (425, Value::Null),
        (429, Value::Null),
        (500, json!({"error": "invalid_grant"})),
        (503, Value::Null),
        (200, json!({})),
        (200, json!({"access_token": "a", "token_type": "mac"})),
        (403, "<html>".into()),
        (400, Value::Null),
    ];
    for answer in transient {
        for kept in [ended(), alive()] {
            let before = kept.write();
            let mut run = Run::new(kept, std::slice::from_ref(&answer)).refused();
            let end = run.go().unwrap_err();
            assert!(end.is_transient(), "{answer:?} {end:?}");
            assert!(run.commits.is_empty());
            assert_eq!(*run.kept.unwrap().write(), *before);
        }
    }
    for code in ["invalid_target", "invalid_scope", "invalid_request", "unsupported_grant_type"] {
        let mut run = Run::new(ended(), &[error(code)]);
        assert!(matches!(run.go().unwrap_err(), AuthError::Denied(reply) if reply.is(code)));
        assert!(run.commits.is_empty());
    }
}

#[test]
fn t04_a_void_refresh_token_is_dropped_with_a_dead_access_token_and_nothing_else() {
    let revoked = AuthError::NeedsAuth(NeedsAuth::Revoked);
    for (kept, refused, is_kept) in [(ended(), None, false), (alive(), Some("a1"), false)] {
        let mut run = Run { refused, ..Run::new(kept, &[error("invalid_grant")]) };
        assert_eq!(run.go(), Err(revoked.clone()));
        let kept = run.kept.unwrap();
        assert_eq!((kept.tokens.is_some(), kept.client.client_id.as_str()), (is_kept, "c"));
        assert!(kept.metadata.is_some());
    }
    // About to end, and good until then.
    let mut run = Run { seconds: 890.0, ..Run::new(alive(), &[error("invalid_grant")]) };
    assert_eq!(run.go(), Err(revoked));
    let kept = run.kept.unwrap();
    assert_eq!((access(&kept), refresh_token(&kept)), (Some("a1"), None));
}

#[test]
fn t05_what_a_peer_has_renewed_is_taken_and_no_old_token_is_presented() {
    let mut peers = alive();
    peers.tokens = Some(Tokens::granted(reply("a2", Some("r2"), 1000), Scopes::parse("x"), at(-1.0)));
    let mut run = Run::new(peers.clone(), &[]).refused();
    assert_eq!(access(&run.go().unwrap()), Some("a2"));
    assert!(run.posts.is_empty() && run.commits.is_empty());
    // A lifetime that nobody knows counts as alive.
    peers.tokens.as_mut().unwrap().expires_at = None;
    assert!(Run::new(peers.clone(), &[]).refused().go().is_ok());
    // Renewed and ended again: the peer's refresh token is the one to use.
    peers.tokens.as_mut().unwrap().expires_at = Some(at(-0.5));
    let mut run = Run::new(peers, &[(200, json!({"access_token": "a3"}))]).refused();
    run.go().unwrap();
    assert_eq!(run.posts[0].get("refresh_token").unwrap().expose(), "r2");
}

#[test]
fn t05_a_peer_that_knows_no_fence_is_seen_before_anything_is_dropped() {
    let mut peers = ended();
    peers.tokens = Some(Tokens::granted(reply("a2", Some("r2"), 1000), Scopes::parse("x"), at(-1.0)));
    peers.revision = 9;
    let mut run = Run::new(ended(), &[error("invalid_grant")]);
    run.replaced_by = Some(peers.clone());
    assert_eq!(access(&run.go().unwrap()), Some("a2"));
    assert!(run.commits.is_empty());
    // It has renewed, and that has ended too: its refresh token is not the void one.
    peers.tokens.as_mut().unwrap().expires_at = Some(at(-0.5));
    let mut run = Run::new(ended(), &[error("invalid_grant")]);
    run.replaced_by = Some(peers);
    run.go().unwrap_err();
    assert_eq!(refresh_token(&run.kept.unwrap()), Some("r2"));
}

#[test]
fn t11_an_access_token_without_a_refresh_token_is_kept() {
    let mut record = alive();
    record.tokens.as_mut().unwrap().refresh_token = None;
    let mut run = Run::new(record.clone(), &[]);
    assert_eq!(run.go(), Ok(record.clone()), "still good");
    let mut run = Run::new(record, &[]).refused();
    assert_eq!(run.go(), Err(AuthError::NeedsAuth(NeedsAuth::Expired)));
    assert!(run.commits.is_empty());
}

#[test]
fn t12_one_word_that_the_client_is_unknown_costs_nothing_and_a_second_later_one_costs_all_of_it() {
    for code in ["invalid_client", "unauthorized_client"] {
        let mut run = Run::new(ended(), &[error(code)]);
        assert!(run.go().unwrap_err().is_transient());
        let kept = run.kept.clone().unwrap();
        assert_eq!(kept.unknown_client_since, Some(at(0.0)));
        assert_eq!((kept.tokens, kept.client), (ended().tokens, ended().client));

        run.seconds = 59.0;
        let before = run.kept.clone();
        assert!(run.go().unwrap_err().is_transient(), "too soon");
        assert_eq!(run.kept, before);

        run.seconds = 61.0;
        run.asked.clear();
        run.answers = vec![error(code), error(code)];
        assert_eq!(run.go(), Err(AuthError::NeedsAuth(NeedsAuth::Revoked)));
        let place = "https://as.example/.well-known/oauth-authorization-server";
        assert_eq!(run.asked, ["https://as.example/token", place, "https://as.example/token2"]);
        let kept = run.kept.clone().unwrap();
        assert_eq!((kept.tokens, kept.metadata), (None, None));
        assert!(kept.is_client_void, "the next login registers anew");
    }
    // In between it was known again.
    let mut run = Run::new(ended(), &[error("invalid_client")]);
    run.go().unwrap_err();
    run.answers = vec![(200, json!({"access_token": "a2", "expires_in": 0}))];
    run.go().unwrap();
    assert_eq!(run.kept.unwrap().unknown_client_since, None);
}

#[test]
fn t12_a_client_is_not_dropped_on_the_word_of_a_server_that_cannot_be_looked_at() {
    let mut kept = ended();
    kept.unknown_client_since = Some(at(-100.0));
    kept.metadata.as_mut().unwrap().fetched_at = at(-2.0 * 24.0 * 3600.0);
    let mut run = Run::new(kept, &[error("invalid_client")]);
    // Its metadata is not to be had: what is old is used, and says nothing about the client.
    run.document = json!({"issuer": "https://other.example"});
    run.go().unwrap_err();
    assert_eq!((run.posts.len(), run.commits.len()), (1, 0));
    run.document = json!({"issuer": ISSUER, "token_endpoint": "https://as.example/token"});
    assert_eq!(run.go(), Err(AuthError::NeedsAuth(NeedsAuth::Revoked)));
    assert_eq!(run.commits.len(), 1);
}

#[test]
fn t06_the_fence_is_given_back_for_a_discovery_and_what_is_kept_is_read_again() {
    let mut kept = ended();
    kept.metadata = None;
    let server = WebUrl::parse("https://rs.example/mcp").unwrap();
    let (mut refresh, _) = Refresh::begin(plan(OAuthSettings::default(), server));
    assert!(refresh.needs_fence());
    let fence = |record: &CredentialRecord| RenewalInput::FenceTaken(Some(Box::new(record.clone())));
    let sent = refresh.step(fence(&kept), at(0.0)).unwrap();
    let RenewalOutput::Send(number, _) = sent else { panic!("{sent:?}") };
    assert!(!refresh.needs_fence(), "a discovery may take longer than others wait");
    let document = json!({"issuer": ISSUER, "token_endpoint": "https://as.example/token"});
    let response = OAuthResponse::new(200, HeaderMap::new(), document.to_string().into_bytes());
    let next = refresh.step(RenewalInput::Response(number, Ok(response)), at(0.0)).unwrap();
    assert!(matches!(next, RenewalOutput::NeedFence) && refresh.needs_fence(), "{next:?}");
    let sent = refresh.step(fence(&kept), at(0.0)).unwrap();
    assert!(matches!(&sent, RenewalOutput::Send(_, request) if request.body.is_some()), "{sent:?}");
    assert!(refresh.needs_fence(), "the refresh token is on its way");
}

#[test]
fn t12_a_client_that_was_not_registered_here_is_never_dropped() {
    let client = ConfiguredClient { id: "c".into(), secret: None, method: None };
    let settings = OAuthSettings { client: Some(client), ..OAuthSettings::default() };
    let mut record = ended();
    record.client.source = ClientSource::Configured;
    record.fingerprint = settings.fingerprint();
    let mut run = Run { settings, ..Run::new(record, &[error("invalid_client")]) };
    assert!(matches!(run.go().unwrap_err(), AuthError::Denied(_)));
    assert!(run.commits.is_empty());
    let mut record = ended();
    record.client.source = ClientSource::Document;
    let mut run = Run::new(record, &[error("invalid_client")]);
    assert!(matches!(run.go().unwrap_err(), AuthError::Denied(_)));
    let kept = run.kept.unwrap();
    assert!(kept.document_refused_by.is_some() && kept.tokens.is_some());
}

#[test]
fn an_endpoint_that_has_moved_is_found_once() {
    for gone in [(404, Value::Null), (405, Value::Null), (200, "<html>".into())] {
        let mut run = Run::new(ended(), &[gone, (200, json!({"access_token": "a2"}))]);
        assert_eq!(access(&run.go().unwrap()), Some("a2"));
    }
    let mut run = Run::new(ended(), &[(404, Value::Null), (200, json!({"access_token": "a2"}))]);
    let record = run.go().unwrap();
    assert_eq!(run.asked.last().unwrap(), "https://as.example/token2");
    let document = &record.metadata.as_ref().unwrap().document;
    assert_eq!(document.token_endpoint.as_deref(), Some("https://as.example/token2"));
    let mut run = Run::new(ended(), &[(405, Value::Null), (404, Value::Null)]);
    assert!(run.go().unwrap_err().is_transient());
    assert!(run.commits.is_empty());
}

#[test]
fn b02_f173_a_refresh_token_goes_to_its_own_issuer_alone() {
    let mut unknown = ended();
    unknown.metadata = None;
    for document in [
        json!({"issuer": "https://evil.example", "token_endpoint": "https://evil.example/token"}),
        json!({"token_endpoint": "https://evil.example/token"}),
        json!({"issuer": ISSUER, "token_endpoint": "http://as.example/token"}),
        json!({"issuer": ISSUER, "token_endpoint": "https://10.0.0.1/token"}),
    ] {
        let mut run = Run { document, ..Run::new(unknown.clone(), &[]) };
        assert!(matches!(run.go().unwrap_err(), AuthError::Refused(_)));
        assert!(run.posts.is_empty() && run.commits.is_empty());
    }
    // Old metadata is fetched again; what cannot be believed does not replace it.
    let mut old = ended();
    old.metadata.as_mut().unwrap().fetched_at = at(-90_000.0);
    let mut run = Run::new(old.clone(), &[(200, json!({"access_token": "a2"}))]);
    run.go().unwrap();
    assert_eq!(run.asked.last().unwrap(), "https://as.example/token2");
    let document = json!({"issuer": "https://evil.example", "token_endpoint": "https://evil.example/token"});
    let mut run = Run { document, ..Run::new(old, &[(200, json!({"access_token": "a2"}))]) };
    run.go().unwrap();
    assert_eq!(run.asked.last().unwrap(), "https://as.example/token");
}

#[test]
fn b04_tokens_of_another_configuration_are_not_used() {
    let client = ConfiguredClient { id: "other".into(), secret: None, method: None };
    for settings in [
        OAuthSettings { client: Some(client), ..OAuthSettings::default() },
        OAuthSettings { issuer: Some("https://other.example".to_owned()), ..OAuthSettings::default() },
    ] {
        let mut run = Run { settings, ..Run::new(ended(), &[]) };
        assert_eq!(run.go(), Err(AuthError::NeedsAuth(NeedsAuth::Changed)));
        assert!(run.posts.is_empty());
    }
}

#[test]
fn s07_an_answer_that_was_not_asked_for_changes_nothing() {
    let server = WebUrl::parse("https://rs.example/mcp").unwrap();
    let (mut refresh, _) = Refresh::begin(plan(OAuthSettings::default(), server));
    let answer = |number| RenewalInput::Response(number, Err(OAuthHttpError::TooLarge));
    let now = at(0.0);
    assert_eq!(refresh.step(answer(1), now).unwrap_err(), UnexpectedInput);
    let sent = refresh.step(RenewalInput::FenceTaken(Some(Box::new(ended()))), now).unwrap();
    let RenewalOutput::Send(number, _) = sent else { panic!("{sent:?}") };
    for wrong in
        [answer(number + 1), RenewalInput::FenceTaken(None), RenewalInput::Saved(Err(StoreError::Busy))]
    {
        assert_eq!(refresh.step(wrong, now).unwrap_err(), UnexpectedInput);
    }
    assert!(matches!(refresh.step(answer(number), now), Ok(RenewalOutput::Done(Err(_)))));
    assert_eq!(refresh.step(answer(number), now).unwrap_err(), UnexpectedInput, "not twice");
}

#[test]
fn t08_what_cannot_be_kept_is_told() {
    let server = WebUrl::parse("https://rs.example/mcp").unwrap();
    let (mut refresh, _) = Refresh::begin(plan(OAuthSettings::default(), server));
    let now = at(0.0);
    let sent = refresh.step(RenewalInput::FenceTaken(Some(Box::new(ended()))), now).unwrap();
    let RenewalOutput::Send(number, _) = sent else { panic!("{sent:?}") };
    let body = json!({"access_token": "a2"}).to_string().into_bytes();
    let answer = RenewalInput::Response(number, Ok(OAuthResponse::new(200, HeaderMap::new(), body)));
    assert!(matches!(refresh.step(answer, now), Ok(RenewalOutput::Commit(_))));
    let end = refresh.step(RenewalInput::Saved(Err(StoreError::Io("full".to_owned()))), now).unwrap();
    assert!(matches!(end, RenewalOutput::Done(Err(AuthError::Store(StoreError::Io(_))))));
}

#[test]
fn a_client_whose_secret_has_ended_is_not_presented() {
    let mut kept = ended();
    kept.client.client_secret = Some("s".into());
    kept.client.secret_expires_at = Some(at(0.0));
    let mut run = Run { seconds: -1.0, ..Run::new(kept, &[(200, json!({"access_token": "a2"}))]) };
    run.go().unwrap();
    run.kept.as_mut().unwrap().tokens = ended().tokens;
    run.seconds = 0.0;
    assert_eq!(run.go(), Err(AuthError::NeedsAuth(NeedsAuth::Expired)));
    assert_eq!((run.posts.len(), run.commits.len()), (1, 1));
}

#[test]
fn m01_a_client_with_a_key_signs_each_renewal_anew() {
    const PEM: &str = include_str!("../../../tests/data/keys/p256-pkcs8.pem");
    let mut kept = ended();
    kept.client = ClientRecord::new(ClientSource::Document, "https://app.example/client.json");
    kept.client.token_endpoint_auth_method = Some("private_key_jwt".to_owned());
    let brought = json!({"access_token": "a2", "expires_in": 0});
    let mut run = Run::new(kept, &[(200, brought.clone())]);
    assert_eq!(run.go(), Err(crate::auth::InvalidClient::NoKey.into()));
    let key = crate::auth::SigningKey::from_pem(&PEM.into()).unwrap();
    run.settings.signer = Some(Arc::new(key));
    run.go().unwrap();
    run.go().unwrap();
    let assertion = |form: &Form| form.get("client_assertion").unwrap().expose().to_owned();
    assert_ne!(assertion(&run.posts[0]), assertion(&run.posts[1]));
    assert!(run.posts.iter().all(|form| !form.has("client_id")), "{:?}", run.posts);
}
