use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http::HeaderMap;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::auth::{
    ConfiguredClient, GatePass, InteractiveGate, InvalidClient, PkceMetadata, ResourceParameter,
    SystemRandomness,
};

const NOW: f64 = 1_700_000_000.0;
const REDIRECT: &str = "http://127.0.0.1:7000/callback";

/// A protected server and its authorization server, each with `name` in every text, as a table of answers.
#[derive(Debug, Clone)]
struct Site {
    name: &'static str,
    resource: Value,
    server: Value,
    registration: (u16, Value),
    token: (u16, Value),
}

impl Site {
    fn new(name: &'static str) -> Self {
        let (rs, issuer) = (format!("https://rs-{name}.example"), format!("https://as-{name}.example"));
        Self {
            name,
            resource: json!({"resource": format!("{rs}/mcp"), "authorization_servers": [issuer]}),
            server: json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "registration_endpoint": format!("{issuer}/register"),
                "code_challenge_methods_supported": ["S256"],
            }),
            registration: (201, json!({"client_id": format!("client-{name}")})),
            token: (200, json!({"access_token": format!("token-{name}"), "expires_in": 3600})),
        }
    }

    fn answer(&self, request: &OAuthRequest) -> OAuthResponse {
        let (status, body) = match request.url.path() {
            path if path == format!("/prm-{}", self.name) => (200, &self.resource),
            "/.well-known/oauth-authorization-server" => (200, &self.server),
            "/register" => (self.registration.0, &self.registration.1),
            "/token" => (self.token.0, &self.token.1),
            _ => (404, &Value::Null),
        };
        let own = [format!("rs-{}.example", self.name), format!("as-{}.example", self.name)];
        assert!(own.contains(&request.url.origin().host), "{} asks {}", self.name, request.url);
        OAuthResponse::new(status, HeaderMap::new(), body.to_string().into_bytes())
    }

    fn plan(&self) -> LoginPlan {
        let challenge = format!("Bearer resource_metadata=\"/prm-{}\"", self.name);
        LoginPlan {
            settings: OAuthSettings::default(),
            server: WebUrl::parse(&format!("https://rs-{}.example/mcp", self.name)).unwrap(),
            challenges: Challenges::parse([challenge.as_bytes()]),
            wanted: None,
            refused: None,
            nonces: DpopNonces::default(),
            is_forced: false,
        }
    }
}

/// A login that is driven by hand, and what it has done.
struct Flow {
    site: Site,
    login: Login,
    /// What it wants; `None` while a test keeps it.
    wants: LoginOutput,
    kept: Option<CredentialRecord>,
    requests: Vec<OAuthRequest>,
    wishes: Vec<RedirectWish>,
    urls: Vec<Form>,
    commits: Vec<CredentialRecord>,
    end: Option<Result<CredentialRecord, AuthError>>,
}

impl Flow {
    fn new(site: Site) -> Self {
        let plan = site.plan();
        Self::with(site, plan, None)
    }

    fn with(site: Site, plan: LoginPlan, kept: Option<CredentialRecord>) -> Self {
        let (login, wants) = Login::begin(plan, Arc::new(SystemRandomness));
        assert!(matches!(wants, LoginOutput::NeedGate));
        let (requests, wishes, urls, commits) = Default::default();
        Self { site, login, wants, kept, requests, wishes, urls, commits, end: None }
    }

    fn configured(site: Site, settings: OAuthSettings) -> Self {
        let plan = LoginPlan { settings, ..site.plan() };
        Self::with(site, plan, None)
    }

    fn input(&mut self, input: LoginInput) {
        self.wants = self.login.step(input, UnixTime::from_seconds(NOW)).expect("it waits for this");
    }

    fn enter(&mut self) {
        self.input(LoginInput::GateEntered(self.kept.clone().map(Box::new)));
    }

    fn right_answer(&self) -> Form {
        let state = self.urls.last().expect("a person was asked").get("state").unwrap().clone();
        Form::new().with("state", state).with("code", format!("code-{}", self.site.name))
    }

    /// Does what is wanted, once the gate is entered. Answers whether there is more to do.
    fn advance(&mut self) -> bool {
        let wants = std::mem::replace(&mut self.wants, LoginOutput::NeedGate);
        let input = match wants {
            LoginOutput::Send(number, request) => {
                let response = self.site.answer(&request);
                self.requests.push(*request);
                LoginInput::Response(number, Ok(response))
            }
            LoginOutput::NeedListener(wish) => {
                self.wishes.push(wish);
                LoginInput::Listening(REDIRECT.to_owned())
            }
            LoginOutput::NeedUser(request) => {
                let (_, query) = request.url().expose().split_once('?').unwrap();
                self.urls.push(Form::parse(query));
                LoginInput::Answer(self.right_answer())
            }
            LoginOutput::NeedFence => LoginInput::FenceTaken(self.kept.clone().map(Box::new)),
            LoginOutput::Commit(record) => {
                let revision = record.revision + 1;
                self.kept = Some(CredentialRecord { revision, ..(*record).clone() });
                self.commits.push(*record);
                LoginInput::Saved(Ok(Saved { revision, stamp: None }))
            }
            LoginOutput::Done(end) => {
                self.end = Some(end.map(|record| *record));
                return false;
            }
            other => panic!("{other:?}"),
        };
        self.input(input);
        true
    }

    fn run(mut self) -> Self {
        self.enter();
        while self.advance() {}
        self
    }

    fn paths(&self) -> Vec<&str> {
        self.requests.iter().map(|request| request.url.path()).collect()
    }

    fn form(&self, path: &str) -> Form {
        let request = self.requests.iter().find(|request| request.url.path() == path).unwrap();
        Form::parse(request.body.as_ref().unwrap().expose())
    }

    fn error(&self) -> &AuthError {
        self.end.as_ref().unwrap().as_ref().unwrap_err()
    }

    fn record(&self) -> &CredentialRecord {
        self.end.as_ref().unwrap().as_ref().unwrap()
    }

    /// A second login with what the first one has kept.
    fn again(&self, site: Site, plan: LoginPlan) -> Self {
        Self::with(site, LoginPlan { is_forced: true, ..plan }, self.kept.clone()).run()
    }
}

fn value(form: &Form, name: &str) -> Option<String> {
    form.get(name).map(|value| value.expose().to_owned())
}

fn access(record: &CredentialRecord) -> &str {
    record.tokens.as_ref().unwrap().access_token.expose()
}

type Entering = Pin<Box<dyn Future<Output = GatePass>>>;

fn entering(gate: &InteractiveGate) -> Entering {
    let gate = gate.clone();
    Box::pin(async move { gate.enter().await })
}

fn poll(entering: &mut Entering) -> Option<GatePass> {
    match entering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(pass) => Some(pass),
        Poll::Pending => None,
    }
}

#[test]
fn f165_s01_two_flows_take_turns_and_each_answer_reaches_the_flow_that_asked() {
    let gate = InteractiveGate::default();
    let mut log = Vec::new();
    // Both requests to the servers are under way at once: that traffic takes no turns.
    let (mut a, mut b) = (Flow::new(Site::new("a")), Flow::new(Site::new("b")));
    let (mut a_entering, mut b_entering) = (entering(&gate), entering(&gate));
    let pass = poll(&mut a_entering).expect("the gate is free");
    assert!(poll(&mut b_entering).is_none(), "b waits behind a");
    a.enter();
    let mut steps = 0;
    loop {
        let number = match &a.wants {
            LoginOutput::Send(number, request) => {
                log.push(format!("a {}", request.url));
                Some(*number)
            }
            _ => None,
        };
        let has_more = a.advance();
        assert!(poll(&mut b_entering).is_none(), "b waits during step {steps} of a");
        // An answer that has been given, or one to somebody else, is not taken and changes nothing.
        if let Some(number) = number {
            for wrong in [number, number + 2] {
                let again = LoginInput::Response(wrong, Err(OAuthHttpError::TooLarge));
                assert_eq!(a.login.step(again, UnixTime::from_seconds(NOW)).unwrap_err(), UnexpectedInput);
            }
        }
        steps += 1;
        if !has_more {
            break;
        }
    }
    assert_eq!(access(a.record()), "token-a");
    drop(pass);
    // The repeated request of a goes on for as long as it likes; b is in.
    log.push("a repeats its request, which is not answered".to_owned());
    let _pass = poll(&mut b_entering).expect("a is through");
    b.enter();
    while let Some(()) = {
        if let LoginOutput::Send(_, request) = &b.wants {
            log.push(format!("b {}", request.url));
        }
        b.advance().then_some(())
    } {}
    assert_eq!(access(b.record()), "token-b");
    let expected = ["a", "b"].map(|name| {
        let (rs, issuer) = (format!("https://rs-{name}.example"), format!("https://as-{name}.example"));
        vec![
            format!("{name} {rs}/prm-{name}"),
            format!("{name} {issuer}/.well-known/oauth-authorization-server"),
            format!("{name} {issuer}/register"),
            format!("{name} {issuer}/token"),
        ]
    });
    let [of_a, of_b] = expected;
    assert_eq!(log, [of_a, vec!["a repeats its request, which is not answered".to_owned()], of_b].concat());
    for (flow, name) in [(&a, "a"), (&b, "b")] {
        let kept = flow.kept.as_ref().unwrap();
        assert_eq!(
            (access(kept), kept.issuer.as_str()),
            (&*format!("token-{name}"), &*format!("https://as-{name}.example"))
        );
        assert_eq!(value(&flow.form("/token"), "code").unwrap(), format!("code-{name}"));
        assert_eq!(value(&flow.form("/token"), "client_id").unwrap(), format!("client-{name}"));
    }
}

#[test]
fn f165_s02_a_flow_that_is_dropped_at_any_step_lets_the_next_one_in() {
    for steps in 0..20 {
        let gate = InteractiveGate::default();
        let mut a = Flow::new(Site::new("a"));
        let pass = poll(&mut entering(&gate)).unwrap();
        let mut b_entering = entering(&gate);
        assert!(poll(&mut b_entering).is_none());
        a.enter();
        let is_done = !(0..steps).all(|_| a.advance());
        drop((a, pass));
        let _pass = poll(&mut b_entering).expect("the gate is free");
        assert!(Flow::new(Site::new("b")).run().end.unwrap().is_ok());
        if is_done {
            return;
        }
    }
    panic!("a never ended");
}

#[test]
fn f165_s03_l09_a_flow_that_fails_at_any_stage_says_why_and_keeps_what_was_kept() {
    let before = Flow::new(Site::new("a")).run().kept;
    let fail = |spoil: &dyn Fn(&mut Site)| {
        let mut site = Site::new("a");
        spoil(&mut site);
        let plan = LoginPlan { is_forced: true, ..site.plan() };
        // Of another issuer, so that it must register anew.
        let mut kept = before.clone().unwrap();
        kept.issuer = "https://old.example".to_owned();
        let flow = Flow::with(site, plan, Some(kept.clone())).run();
        assert!(flow.commits.is_empty());
        assert_eq!(flow.kept, Some(kept));
        flow.end.unwrap().unwrap_err()
    };
    type Spoil<'a> = &'a dyn Fn(&mut Site);
    type Expect<'a> = &'a dyn Fn(&AuthError) -> bool;
    let table: [(Spoil<'_>, Expect<'_>); 10] = [
        (
            &|site| {
                site.resource = json!({"resource": "https://evil.example", "authorization_servers": ["x"]})
            },
            &|error| matches!(error, AuthError::Refused(Refusal::OtherResource { .. })),
        ),
        (&|site| site.server["issuer"] = "https://evil.example".into(), &|error| {
            matches!(error, AuthError::Refused(Refusal::NoServer(_)))
        }),
        (&|site| site.server["authorization_endpoint"] = Value::Null, &|error| {
            *error == AuthError::Refused(Refusal::NoEndpoint("authorization_endpoint"))
        }),
        (&|site| site.server["response_types_supported"] = json!(["token"]), &|error| {
            *error == AuthError::Refused(Refusal::NoCodeGrant)
        }),
        (&|site| site.registration = (403, Value::Null), &|error| {
            matches!(error, AuthError::RegistrationRejected(_))
        }),
        (&|site| site.registration = (503, Value::Null), &AuthError::is_transient),
        (&|site| site.registration.1["token_endpoint_auth_method"] = "client_secret_post".into(), &|error| {
            *error == AuthError::Client(InvalidClient::NoSecret)
        }),
        (
            &|site| site.token = (400, json!({"error": "invalid_grant"})),
            &|error| matches!(error, AuthError::Denied(reply) if reply.is("invalid_grant")),
        ),
        (&|site| site.token = (500, Value::Null), &AuthError::is_transient),
        (&|site| site.token = (200, "<html>".into()), &AuthError::is_transient),
    ];
    for (index, (spoil, is_expected)) in table.iter().enumerate() {
        let error = fail(spoil);
        assert!(is_expected(&error), "{index}: {error:?}");
    }
}

#[test]
fn s07_an_input_that_is_not_waited_for_changes_nothing() {
    let now = UnixTime::from_seconds(NOW);
    let inputs = || {
        vec![
            LoginInput::Answer(Form::new()),
            LoginInput::FenceTaken(None),
            LoginInput::GateEntered(None),
            LoginInput::Listening("x".to_owned()),
            LoginInput::Response(77, Err(OAuthHttpError::TooLarge)),
            LoginInput::Saved(Err(StoreError::Busy)),
        ]
    };
    let mut flow = Flow::new(Site::new("a"));
    flow.enter();
    loop {
        let before = flow.login.stage.name();
        for input in inputs() {
            let is_waited_for = matches!(
                (&flow.wants, &input),
                (LoginOutput::NeedUser(_), LoginInput::Answer(_))
                    | (LoginOutput::NeedFence, LoginInput::FenceTaken(_))
                    | (LoginOutput::NeedListener(_), LoginInput::Listening(_))
                    | (LoginOutput::Commit(_), LoginInput::Saved(_))
            );
            if !is_waited_for {
                assert_eq!(flow.login.step(input, now).unwrap_err(), UnexpectedInput);
                assert_eq!(flow.login.stage.name(), before);
            }
        }
        if !flow.advance() {
            break;
        }
    }
    assert_eq!(access(flow.record()), "token-a");
    for input in inputs().into_iter().chain([LoginInput::Ended(LoginEnd::Cancelled)]) {
        assert_eq!(flow.login.step(input, now).unwrap_err(), UnexpectedInput, "it is over");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
    #[test]
    fn s08_in_any_order_of_steps_the_flows_do_not_mix(order in prop::collection::vec(0..4_usize, 0..120)) {
        let names = ["a", "b", "c", "d"];
        let gate = InteractiveGate::default();
        let mut flows: Vec<Flow> = names.map(|name| Flow::new(Site::new(name))).into();
        let mut lines: Vec<Option<Entering>> = names.map(|_| Some(entering(&gate))).into();
        let mut passes: Vec<Option<GatePass>> = names.map(|_| None).into();
        let mut turns = Vec::new();
        let until_all_are_through = (0..400).map(|round| round % 4);
        for turn in order.into_iter().chain(until_all_are_through) {
            if let Some(line) = &mut lines[turn] {
                if let Some(pass) = poll(line) {
                    prop_assert!(passes.iter().all(Option::is_none), "one at a time");
                    (lines[turn], passes[turn]) = (None, Some(pass));
                    turns.push(turn);
                    flows[turn].enter();
                }
            } else if passes[turn].is_some() && !flows[turn].advance() {
                passes[turn] = None;
            }
        }
        turns.sort_unstable();
        prop_assert_eq!(turns, [0, 1, 2, 3]);
        for flow in &flows {
            prop_assert_eq!(access(flow.record()), format!("token-{}", flow.site.name));
            prop_assert_eq!(flow.requests.len(), 4);
        }
    }
}

#[test]
fn p04_a_wrong_answer_does_not_consume_the_flow() {
    let mut site = Site::new("a");
    site.server["authorization_response_iss_parameter_supported"] = true.into();
    let mut flow = Flow::new(site);
    flow.enter();
    while !matches!(flow.wants, LoginOutput::NeedUser(_)) {
        assert!(flow.advance());
    }
    let LoginOutput::NeedUser(request) = &flow.wants else { unreachable!() };
    let (_, query) = request.url().expose().split_once('?').unwrap();
    flow.urls.push(Form::parse(query));
    let asked = flow.requests.len();
    for wrong in [
        Form::new(),
        Form::new().with("state", "x").with("code", "c"),
        flow.right_answer(),
        flow.right_answer().with("iss", "https://as-a.example/"),
        Form::new().with("error", "access_denied"),
    ] {
        flow.input(LoginInput::Answer(wrong));
        assert!(matches!(flow.wants, LoginOutput::KeepWaiting(_)));
    }
    flow.input(LoginInput::Answer(flow.right_answer().with("iss", "https://as-a.example")));
    assert!(matches!(flow.wants, LoginOutput::NeedFence));
    assert_eq!(flow.requests.len(), asked, "no code was redeemed");
    while flow.advance() {}
    assert_eq!(access(flow.record()), "token-a");
}

#[test]
fn f171_p03_an_answer_names_the_issuer_as_its_metadata_does() {
    for (named, stated) in
        [("https://as-a.example", "https://as-a.example/"), ("https://as-a.example/", "https://as-a.example")]
    {
        let mut site = Site::new("a");
        site.resource["authorization_servers"] = json!([named]);
        site.server["issuer"] = json!(stated);
        site.server["authorization_response_iss_parameter_supported"] = json!(true);
        let mut flow = Flow::new(site);
        flow.enter();
        while !matches!(flow.wants, LoginOutput::NeedUser(_)) {
            assert!(flow.advance());
        }
        let LoginOutput::NeedUser(request) = &flow.wants else { unreachable!() };
        let answer = |issuer: &str| {
            Form::new().with("state", request.state().clone()).with("code", "c").with("iss", issuer)
        };
        let (wrong, right) = (answer(named), answer(stated));
        flow.input(LoginInput::Answer(wrong));
        assert!(matches!(flow.wants, LoginOutput::KeepWaiting(ForeignAnswer::Issuer)), "{named}");
        flow.input(LoginInput::Answer(right));
        assert!(matches!(flow.wants, LoginOutput::NeedFence), "{stated}");
    }
}

#[test]
fn p01_f174_without_pkce_nobody_is_asked() {
    for (methods, mode, is_asked) in [
        (Value::Null, PkceMetadata::Strict, false),
        (Value::Null, PkceMetadata::Lenient, true),
        (json!(["plain"]), PkceMetadata::Lenient, false),
        (json!([]), PkceMetadata::Lenient, false),
    ] {
        let mut site = Site::new("a");
        site.server["code_challenge_methods_supported"] = methods;
        let settings = OAuthSettings { pkce_metadata: mode, ..OAuthSettings::default() };
        let flow = Flow::configured(site, settings).run();
        assert_eq!(flow.end.as_ref().unwrap().is_ok(), is_asked);
        if !is_asked {
            assert_eq!(*flow.error(), AuthError::Refused(Refusal::NoPkce));
            assert!(flow.wishes.is_empty(), "nothing was opened");
        }
    }
}

#[test]
fn d08_f172_an_endpoint_that_is_no_web_page_reaches_nobody() {
    for endpoint in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ms-cxh-full://0",
        "https://$(id).example/",
        "-https://as-a.example/",
        "https://as-a.example/\"&calc",
        "https://as-a.example/`id`",
        "http://as-a.example/authorize",
        "https://127.0.0.1/authorize",
        "/authorize",
        "//as-a.example/authorize",
    ] {
        for name in ["authorization_endpoint", "token_endpoint", "registration_endpoint"] {
            let mut site = Site::new("a");
            site.server[name] = endpoint.into();
            let flow = Flow::new(site).run();
            assert!(
                matches!(flow.error(), AuthError::Refused(Refusal::Endpoint { .. })),
                "{name} {endpoint}"
            );
            assert!(flow.wishes.is_empty() && flow.urls.is_empty() && flow.requests.len() == 2);
        }
    }
}

#[test]
fn r01_every_request_of_a_grant_names_the_same_resource() {
    for (published, setting, expected) in [
        (Some("https://rs-a.example"), ResourceParameter::Automatic, Some("https://rs-a.example")),
        (
            Some("https://RS-A.example:443/mcp"),
            ResourceParameter::Automatic,
            Some("https://RS-A.example:443/mcp"),
        ),
        (Some("https://rs-a.example"), ResourceParameter::Fixed("urn:x".into()), Some("urn:x")),
        (Some("https://rs-a.example"), ResourceParameter::Omitted, None),
    ] {
        let mut site = Site::new("a");
        site.resource["resource"] = published.into();
        let settings = OAuthSettings { resource: setting, ..OAuthSettings::default() };
        let mut plan = LoginPlan { settings, ..site.plan() };
        plan.server = WebUrl::parse("https://rs-a.example/mcp?key=canary").unwrap();
        let flow = Flow::with(site, plan, None).run();
        let record = flow.record();
        for found in [
            value(&flow.urls[0], "resource"),
            value(&flow.form("/token"), "resource"),
            record.resource.clone(),
        ] {
            assert_eq!(found.as_deref(), expected);
        }
        assert!(
            !String::from_utf8(record.write().to_vec()).unwrap().contains("canary"),
            "the query is not kept"
        );
    }
}

#[test]
fn the_exchange_repeats_what_was_asked() {
    let flow = Flow::new(Site::new("a")).run();
    let (url, form) = (&flow.urls[0], flow.form("/token"));
    assert_eq!(value(&form, "grant_type").as_deref(), Some("authorization_code"));
    assert_eq!(value(&form, "redirect_uri").as_deref(), Some(REDIRECT));
    assert_eq!(value(url, "redirect_uri"), value(&form, "redirect_uri"));
    let verifier = value(&form, "code_verifier").unwrap();
    let hash = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
    let challenge = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, hash);
    assert_eq!(value(url, "code_challenge"), Some(challenge));
    let again = flow.again(Site::new("a"), Site::new("a").plan());
    assert_ne!(value(&again.form("/token"), "code_verifier"), Some(verifier), "p02: fresh for each attempt");
}

#[test]
fn f166_n01_n04_a_secret_that_registration_brings_is_kept_with_its_method_and_used_once() {
    for (stated, listed, is_basic) in [
        (json!(null), json!(null), false),
        (json!("none"), json!(null), false),
        (json!(""), json!(["client_secret_basic"]), true),
        (json!("client_secret_basic"), json!(["client_secret_post"]), true),
    ] {
        let mut site = Site::new("a");
        site.server["token_endpoint_auth_methods_supported"] = listed;
        site.registration.1 =
            json!({"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": stated});
        let flow = Flow::new(site).run();
        let method = flow.record().client.token_endpoint_auth_method.as_deref();
        assert_eq!(method, Some(if is_basic { "client_secret_basic" } else { "client_secret_post" }));
        let token = flow.requests.last().unwrap();
        assert_eq!(token.headers.contains_key("authorization"), is_basic);
        assert_eq!(value(&flow.form("/token"), "client_secret").is_some(), !is_basic);
    }
}

#[test]
fn n05_a_registration_that_cannot_work_fails_before_anybody_is_asked() {
    for registration in [
        json!({"client_id": "c", "token_endpoint_auth_method": "client_secret_basic"}),
        json!({"client_id": "c", "token_endpoint_auth_method": "private_key_jwt"}),
        json!({"client_id": "c", "redirect_uris": ["http://127.0.0.1:9/other"]}),
        json!({"client_id": "c", "grant_types": ["client_credentials"]}),
        json!({"client_id": "c", "client_secret": "s", "client_secret_expires_at": 1}),
        json!({"client_id": ""}),
    ] {
        let mut site = Site::new("a");
        site.registration.1 = registration.clone();
        let flow = Flow::new(site).run();
        assert!(matches!(flow.error(), AuthError::Client(_)), "{registration}");
        assert!(flow.urls.is_empty() && flow.commits.is_empty());
    }
}

#[test]
fn c01_a_configured_client_goes_before_a_document_and_that_before_a_registration() {
    let configured =
        Some(ConfiguredClient { id: "configured".into(), secret: Some("s".into()), method: None });
    let document = Some("https://app.example/client.json".to_owned());
    for has_configured in [true, false] {
        for has_document in [true, false] {
            for knows_documents in [true, false] {
                for registers in [true, false] {
                    let mut site = Site::new("a");
                    site.server["client_id_metadata_document_supported"] = knows_documents.into();
                    if !registers {
                        site.server["registration_endpoint"] = Value::Null;
                    }
                    let settings = OAuthSettings {
                        client: configured.clone().filter(|_| has_configured),
                        client_metadata_url: document.clone().filter(|_| has_document),
                        ..OAuthSettings::default()
                    };
                    let flow = Flow::configured(site, settings).run();
                    let id = flow
                        .end
                        .as_ref()
                        .unwrap()
                        .as_ref()
                        .ok()
                        .map(|record| record.client.client_id.as_str());
                    let expected = if has_configured {
                        Some("configured")
                    } else if has_document && knows_documents {
                        Some("https://app.example/client.json")
                    } else if registers {
                        Some("client-a")
                    } else {
                        None
                    };
                    assert_eq!(id, expected);
                    assert_eq!(flow.paths().contains(&"/register"), expected == Some("client-a"));
                    if expected.is_none() {
                        assert!(matches!(flow.error(), AuthError::Config(_)));
                    }
                }
            }
        }
    }
    for bad in [
        "http://app.example/c",
        "https://app.example/",
        "https://app.example",
        "https://app.example/a/../c",
        "x",
    ] {
        let mut site = Site::new("a");
        site.server["client_id_metadata_document_supported"] = true.into();
        let settings = OAuthSettings { client_metadata_url: Some(bad.into()), ..OAuthSettings::default() };
        assert!(matches!(Flow::configured(site, settings).run().error(), AuthError::Config(_)), "{bad}");
    }
}

#[test]
fn c02_a_document_that_is_refused_is_remembered_and_the_client_registers_instead() {
    let settings = OAuthSettings {
        client_metadata_url: Some("https://app.example/c".into()),
        ..OAuthSettings::default()
    };
    let mut site = Site::new("a");
    site.server["client_id_metadata_document_supported"] = true.into();
    let mut refusing = site.clone();
    refusing.token = (401, json!({"error": "invalid_client"}));
    let first = Flow::configured(refusing, settings.clone()).run();
    assert!(matches!(first.error(), AuthError::Denied(_)));
    assert_eq!(first.wishes[0].ports, DOCUMENT_PORTS);
    assert!(first.wishes[0].is_binding);
    // Through the document that is kept, as after a restart.
    let (kept, _) = CredentialRecord::read(&first.kept.unwrap().write()).unwrap();
    assert!(kept.document_refused_by.is_some() && kept.tokens.is_none());
    let plan = LoginPlan { settings, ..site.plan() };
    let second = Flow::with(site, plan, Some(kept)).run();
    assert_eq!(second.record().client.client_id, "client-a");
    assert!(second.record().document_refused_by.is_some(), "and stays so");
}

#[test]
fn l09_c02_a_document_that_another_issuer_refuses_costs_no_credentials() {
    let settings = OAuthSettings {
        client_metadata_url: Some("https://app.example/c".into()),
        ..OAuthSettings::default()
    };
    // The server has moved to another authorization server.
    let mut site = Site::new("a");
    let mut old = Flow::new(site.clone()).run().kept.unwrap();
    old.issuer = "https://old.example".to_owned();
    site.server["client_id_metadata_document_supported"] = true.into();
    let mut refusing = site.clone();
    refusing.token = (401, json!({"error": "invalid_client"}));
    let plan = || LoginPlan { settings: settings.clone(), is_forced: true, ..site.plan() };
    let first = Flow::with(refusing, plan(), Some(old.clone())).run();
    assert!(matches!(first.error(), AuthError::Denied(_)));
    let kept = first.kept.unwrap();
    assert_eq!((&kept.tokens, &kept.issuer, &kept.client), (&old.tokens, &old.issuer, &old.client));
    let second = Flow::with(site.clone(), plan(), Some(kept)).run();
    assert_eq!(second.record().client.source, ClientSource::Registered, "it is not tried again");
}

#[test]
fn c03_another_kind_of_client_is_tried_once() {
    let mut site = Site::new("a");
    site.registration = (400, json!({"error": "invalid_redirect_uri"}));
    let flow = Flow::new(site).run();
    assert!(matches!(flow.error(), AuthError::RegistrationRejected(_)));
    let types: Vec<Value> = flow
        .requests
        .iter()
        .filter(|request| request.url.path() == "/register")
        .map(|request| serde_json::from_str::<Value>(request.body.as_ref().unwrap().expose()).unwrap())
        .map(|body| body["application_type"].clone())
        .collect();
    assert_eq!(types, ["native", "web"]);
}

#[test]
fn a_registered_client_is_used_again_with_its_port_or_registers_anew() {
    let first = Flow::new(Site::new("a")).run();
    assert_eq!(first.wishes[0], RedirectWish::default());
    let again = first.again(Site::new("a"), Site::new("a").plan());
    assert!(!again.paths().contains(&"/register"));
    assert_eq!((&again.wishes[0].ports, again.wishes[0].is_binding), (&vec![7000], false));
    let mut kept = first.kept.clone().unwrap();
    kept.client.redirect_uris = vec!["http://127.0.0.1:7999/callback".to_owned()];
    let plan = LoginPlan { is_forced: true, ..Site::new("a").plan() };
    let moved = Flow::with(Site::new("a"), plan.clone(), Some(kept.clone())).run();
    assert!(moved.paths().contains(&"/register"), "l01: the port is taken, so another one is registered");
    kept.client.client_secret = Some("s".into());
    kept.client.secret_expires_at = Some(UnixTime::from_seconds(NOW));
    assert!(Flow::with(Site::new("a"), plan, Some(kept)).run().paths().contains(&"/register"), "expired");
}

#[test]
fn b01_a_client_is_never_shown_to_another_issuer() {
    let first = Flow::new(Site::new("a")).run();
    let mut moved = first.kept.clone().unwrap();
    moved.issuer = "https://old.example".to_owned();
    moved.client.client_id = "canary".to_owned();
    let plan = LoginPlan { is_forced: true, ..Site::new("a").plan() };
    let flow = Flow::with(Site::new("a"), plan.clone(), Some(moved.clone())).run();
    assert!(flow.paths().contains(&"/register"));
    assert_eq!(flow.record().client.client_id, "client-a");
    assert!(
        flow.requests
            .iter()
            .all(|request| { !request.body.as_ref().is_some_and(|body| body.expose().contains("canary")) })
    );

    let document = OAuthSettings {
        client_metadata_url: Some("https://app.example/c".into()),
        ..OAuthSettings::default()
    };
    let mut site = Site::new("a");
    site.server["client_id_metadata_document_supported"] = true.into();
    let carried =
        Flow::with(site, LoginPlan { settings: document, ..plan.clone() }, Some(moved.clone())).run();
    assert_eq!(carried.record().client.client_id, "https://app.example/c");

    moved.client.source = ClientSource::Configured;
    let client = ConfiguredClient { id: "canary".into(), secret: None, method: None };
    let settings = OAuthSettings { client: Some(client), ..OAuthSettings::default() };
    let refused = Flow::with(
        Site::new("a"),
        LoginPlan { settings: settings.clone(), ..plan.clone() },
        Some(moved.clone()),
    )
    .run();
    assert!(matches!(refused.error(), AuthError::Config(_)));
    let pinned = OAuthSettings { issuer: Some("https://as-a.example".into()), ..settings };
    assert!(
        Flow::with(Site::new("a"), LoginPlan { settings: pinned, ..plan }, Some(moved))
            .run()
            .end
            .unwrap()
            .is_ok()
    );
}

#[test]
fn s04_what_somebody_else_has_brought_meanwhile_is_taken() {
    let brought = Flow::new(Site::new("a")).run().kept;
    let run = |plan: LoginPlan| Flow::with(Site::new("a"), plan, brought.clone()).run();
    let plan = Site::new("a").plan();
    assert!(run(plan.clone()).requests.is_empty());
    assert_eq!(access(run(plan.clone()).record()), "token-a");
    for other in [
        LoginPlan { refused: Some("token-a".into()), ..plan.clone() },
        LoginPlan { is_forced: true, ..plan.clone() },
        LoginPlan { wanted: Some(Scopes::parse("more")), ..plan.clone() },
        LoginPlan {
            settings: OAuthSettings {
                issuer: Some("https://as-a.example/x".into()),
                ..OAuthSettings::default()
            },
            ..plan.clone()
        },
    ] {
        assert!(!run(other).requests.is_empty());
    }
}

#[test]
fn k01_a_wider_scope_is_asked_for_as_a_whole() {
    let mut site = Site::new("a");
    site.resource["scopes_supported"] = json!(["listed"]);
    let plan = LoginPlan { wanted: Some(Scopes::parse("a b c")), ..site.plan() };
    let flow = Flow::with(site, plan, None).run();
    assert_eq!(value(&flow.urls[0], "scope").as_deref(), Some("a b c"));
    assert_eq!(flow.record().tokens.as_ref().unwrap().requested, Scopes::parse("a b c"));
}

#[test]
fn a_login_that_is_ended_says_how_and_keeps_nothing() {
    for end in [LoginEnd::Cancelled, LoginEnd::Skipped, LoginEnd::TimedOut, LoginEnd::NoListener] {
        for steps in 0..7 {
            let mut flow = Flow::new(Site::new("a"));
            flow.enter();
            assert!((0..steps).all(|_| flow.advance()));
            flow.input(LoginInput::Ended(end));
            assert!(matches!(&flow.wants, LoginOutput::Done(Err(AuthError::Login(ended))) if *ended == end));
            assert!(flow.commits.is_empty(), "{steps}");
        }
    }
}

#[test]
fn z01_nothing_of_a_flow_shows_a_secret() {
    let mut site = Site::new("a");
    site.registration.1 = json!({"client_id": "c", "client_secret": "canary-secret"});
    site.token.1 = json!({"access_token": "canary-access", "refresh_token": "canary-refresh", "vendor": "canary-vendor"});
    let mut shown = String::new();
    let mut flow = Flow::new(site.clone());
    flow.enter();
    loop {
        shown += &format!("{:?} {:?}\n", flow.login, flow.wants);
        if !flow.advance() {
            break;
        }
    }
    shown += &format!("{:?} {:?} {:?}", flow.requests, flow.commits, flow.end);
    let form = flow.form("/token");
    let mut secrets: Vec<String> = ["code", "code_verifier"].map(|name| value(&form, name).unwrap()).into();
    secrets.push(value(&flow.urls[0], "state").unwrap());
    secrets.push("canary".to_owned());
    // A server that repeats in an error what it was told.
    let echo = format!("{} canary-secret", secrets[0]);
    site.token = (400, json!({"error": "invalid_grant", "error_description": echo}));
    let failed = Flow::new(site).run();
    shown += &format!("{:?} {}", failed.error(), failed.error());
    secrets.push(value(&failed.form("/token"), "code_verifier").unwrap());
    for secret in secrets {
        assert!(!shown.contains(&secret), "{secret} in {shown}");
    }
}
