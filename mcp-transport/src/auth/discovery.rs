use std::collections::VecDeque;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use mcp_proto::escape;

use super::address::{AddressClass, AddressPolicy};
use super::error::{AuthError, Refusal};
use super::issuer::same_issuer;
use super::metadata::{ResourceMetadata, ServerMetadata};
use super::oauth_http::{OAuthHttpError, OAuthRequest, OAuthResponse};
use super::resource::speaks_of;
use super::settings::OAuthSettings;
use super::web_url::WebUrl;
use super::well_known::{resource_metadata_places, server_metadata_places};

/// How long a request for metadata may take.
const METADATA_LIMIT: Duration = Duration::from_secs(10);

/// Most redirects that are followed for one document, all on one origin.
const MAX_REDIRECTS: u32 = 5;

/// Most authorization servers of a resource that are tried.
const MAX_ISSUERS: usize = 8;

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Finds out who authorizes requests to a server, one question at a time.
///
/// ```text
/// Resource ── document ──▶ Issuer ── document ──▶ found
///    │                        └─ none of any issuer ──▶ refused, or unavailable
///    ├─ all places say no, and the version is an old one
///    │        ├─ an issuer is configured ──▶ Issuer
///    │        └─ otherwise ──▶ Legacy ──▶ found, or guessed
///    └─ otherwise ──▶ refused, or unavailable
/// ```
///
/// The first document that can be used ends each stage. A server that is not well makes the whole
/// unavailable, never absent: nothing is guessed because of it.
///
/// # Source
///
/// MCP 2025-11-25 and 2026-07-28, basic/authorization, *Authorization Server Discovery*.
#[derive(Debug)]
pub(super) struct Discovery {
    settings: OAuthSettings,
    server: WebUrl,
    /// The issuer of credentials that are kept already.
    known_issuer: Option<String>,
    stage: Stage,
    /// Places of this stage that are still to be asked, the next one first.
    places: VecDeque<WebUrl>,
    redirects: u32,
    /// What was wrong with documents that were found, for the error if nothing works.
    troubles: Vec<String>,
    /// The last server that was not well.
    unavailable: Option<AuthError>,
    resource: Option<ResourceMetadata>,
}

#[derive(Debug)]
enum Stage {
    Resource,
    Issuer { issuer: String, others: VecDeque<String> },
    Legacy { issuer: String },
}

/// What to do next.
#[derive(Debug)]
pub(super) enum DiscoveryStep {
    Ask(Box<OAuthRequest>),
    Found(Box<Discovered>),
    Failed(AuthError),
}

/// Who authorizes requests to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Discovered {
    /// What the server publishes about itself, if anything.
    pub(super) resource: Option<ResourceMetadata>,
    /// The issuer, as its metadata was asked for.
    pub(super) issuer: String,
    /// What the issuer publishes.
    pub(super) metadata: ServerMetadata,
}

/// What an answer is worth.
enum Verdict {
    Document,
    Redirect(WebUrl),
    /// There is nothing.
    Absent,
    Unavailable(AuthError),
    Unusable(String),
}

impl Discovery {
    /// Begins; `named` is what the server's challenge says about the place of its metadata.
    pub(super) fn begin(
        settings: &OAuthSettings,
        server: &WebUrl,
        named: Option<&str>,
        known_issuer: Option<&str>,
    ) -> (Self, DiscoveryStep) {
        let mut troubles = Vec::new();
        let named = named.and_then(|named| match usable(settings, server, named) {
            Ok(url) => Some(url),
            Err(why) => {
                troubles.push(format!("the place that the challenge names is not used: {why}"));
                None
            }
        });
        let mut discovery = Self {
            settings: settings.clone(),
            known_issuer: known_issuer.map(str::to_owned),
            stage: Stage::Resource,
            places: resource_metadata_places(server, named.as_ref()).into(),
            redirects: 0,
            troubles,
            unavailable: None,
            resource: None,
            server: server.clone(),
        };
        let step = discovery.next_place();
        (discovery, step)
    }

    /// Begins at an issuer that is known already.
    pub(super) fn at_issuer(
        settings: &OAuthSettings,
        server: &WebUrl,
        issuer: &str,
    ) -> (Self, DiscoveryStep) {
        let mut discovery = Self {
            settings: settings.clone(),
            known_issuer: None,
            stage: Stage::Resource,
            places: VecDeque::new(),
            redirects: 0,
            troubles: Vec::new(),
            unavailable: None,
            resource: None,
            server: server.clone(),
        };
        let step = discovery.next_issuer(VecDeque::from([issuer.to_owned()]));
        (discovery, step)
    }

    /// Takes the answer to the last question.
    pub(super) fn on_answer(&mut self, answer: Result<OAuthResponse, OAuthHttpError>) -> DiscoveryStep {
        let Some(place) = self.places.front().cloned() else { return self.next_place() };
        let verdict = self.judge(&place, &answer);
        match (verdict, answer) {
            (Verdict::Document, Ok(response)) => return self.on_document(&place, &response.body),
            (Verdict::Redirect(url), _) => {
                self.redirects += 1;
                if let Some(place) = self.places.front_mut() {
                    *place = url;
                }
                return self.ask();
            }
            (Verdict::Unavailable(error), _) => self.unavailable = Some(error),
            (Verdict::Unusable(why), _) => self.troubles.push(format!("{place}: {why}")),
            (Verdict::Absent | Verdict::Document, _) => {}
        }
        self.leave_place()
    }

    fn judge(&self, place: &WebUrl, answer: &Result<OAuthResponse, OAuthHttpError>) -> Verdict {
        let response = match answer {
            Ok(response) => response,
            Err(error @ (OAuthHttpError::Address(_) | OAuthHttpError::TooLarge)) => {
                return Verdict::Unusable(error.to_string());
            }
            Err(error) => return Verdict::Unavailable(AuthError::unavailable(format!("{place}: {error}"))),
        };
        match response.status {
            200..=299 => Verdict::Document,
            300..=399 => self.redirect(place, response),
            // What stands in front of a server says this of paths that it does not know.
            502 if !matches!(self.stage, Stage::Resource) => Verdict::Absent,
            _ if response.is_transient() => Verdict::Unavailable(AuthError::Unavailable {
                what: format!("{place} answers with the status {}", response.status),
                retry_after: response.retry_after(),
            }),
            _ => Verdict::Absent,
        }
    }

    fn redirect(&self, place: &WebUrl, response: &OAuthResponse) -> Verdict {
        let location = response.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
        let url = location.and_then(|location| place.join(location).ok());
        match url {
            Some(url) if url.origin() == place.origin() && self.redirects < MAX_REDIRECTS => {
                Verdict::Redirect(url)
            }
            _ => Verdict::Unusable("a redirect that is not followed".to_owned()),
        }
    }

    fn on_document(&mut self, place: &WebUrl, body: &[u8]) -> DiscoveryStep {
        match &self.stage {
            Stage::Resource => match ResourceMetadata::parse(body) {
                Some(metadata) => self.on_resource(metadata),
                None => self.pass_over(place, "not the metadata of a resource"),
            },
            Stage::Issuer { issuer, .. } | Stage::Legacy { issuer } => {
                let issuer = issuer.clone();
                match ServerMetadata::parse(body) {
                    Some(metadata) => self.on_server(place, issuer, metadata),
                    None => self.pass_over(place, "not the metadata of an authorization server"),
                }
            }
        }
    }

    fn on_resource(&mut self, metadata: ResourceMetadata) -> DiscoveryStep {
        let is_trusted = self.settings.trusted_resource.as_deref() == Some(metadata.resource.as_str());
        if !is_trusted && !speaks_of(&metadata.resource, &self.server) {
            let resource = escape(&metadata.resource, 200).into_owned();
            return DiscoveryStep::Failed(Refusal::OtherResource { resource }.into());
        }
        // It is here: what was wrong on the way to it does not matter any more.
        self.unavailable = None;
        self.troubles.clear();
        let mut issuers: VecDeque<String> = metadata.authorization_servers.iter().cloned().collect();
        if let Some(wanted) = &self.settings.issuer {
            issuers.retain(|issuer| same_issuer(issuer, wanted));
            if issuers.is_empty() {
                let named = listed(&metadata.authorization_servers);
                return DiscoveryStep::Failed(Refusal::IssuerNotNamed { named }.into());
            }
        } else if let Some(known) = &self.known_issuer {
            // Stable: the others keep their order.
            issuers.make_contiguous().sort_by_key(|issuer| !same_issuer(issuer, known));
        }
        issuers.truncate(MAX_ISSUERS);
        self.resource = Some(metadata);
        self.next_issuer(issuers)
    }

    fn next_issuer(&mut self, mut issuers: VecDeque<String>) -> DiscoveryStep {
        while let Some(issuer) = issuers.pop_front() {
            match self.issuer_url(&issuer) {
                Ok(url) => {
                    self.places = server_metadata_places(&url).into();
                    self.stage = Stage::Issuer { issuer, others: issuers };
                    return self.next_place();
                }
                Err(why) => self.troubles.push(format!("{}: {why}", escape(&issuer, 200))),
            }
        }
        self.give_up(Refusal::NoServer)
    }

    /// The URL of an issuer, which is absolute: a relative one would lead to the server that is protected.
    fn issuer_url(&self, issuer: &str) -> Result<WebUrl, String> {
        WebUrl::parse(issuer).map_err(|error| error.to_string())?;
        let url = usable(&self.settings, &self.server, issuer)?;
        plain(&url).map(|()| url)
    }

    fn on_server(&mut self, place: &WebUrl, issuer: String, metadata: ServerMetadata) -> DiscoveryStep {
        let is_own = match (&metadata.issuer, &self.stage) {
            (Some(stated), _) if same_issuer(stated, &issuer) => true,
            // Nobody has named an issuer, only its origin is known; and who has that has all of its paths.
            (Some(stated), Stage::Legacy { .. }) => {
                WebUrl::parse(stated).is_ok_and(|stated| stated.origin() == self.server.origin())
            }
            (Some(_), _) => false,
            (None, _) => self.settings.allows_missing_issuer,
        };
        if !is_own {
            // Whoever publishes metadata of somebody else is not asked again.
            self.troubles.push(format!("{place}: the metadata is that of another issuer"));
            return self.leave_issuer();
        }
        if metadata.token_endpoint.is_none() {
            return self.pass_over(place, "there is no token endpoint");
        }
        self.found(issuer, metadata)
    }

    fn pass_over(&mut self, place: &WebUrl, why: &str) -> DiscoveryStep {
        self.troubles.push(format!("{place}: {why}"));
        self.leave_place()
    }

    fn leave_place(&mut self) -> DiscoveryStep {
        self.places.pop_front();
        self.next_place()
    }

    fn next_place(&mut self) -> DiscoveryStep {
        self.redirects = 0;
        if self.places.is_empty() { self.end_stage() } else { self.ask() }
    }

    fn ask(&self) -> DiscoveryStep {
        let Some(place) = self.places.front() else {
            return DiscoveryStep::Failed(Refusal::NoResourceMetadata.into());
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(version) = self.settings.version {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        }
        let request = OAuthRequest::get(place.clone(), headers, METADATA_LIMIT);
        DiscoveryStep::Ask(Box::new(request.named_by_server(&self.server)))
    }

    /// No place of this stage has brought a document.
    fn end_stage(&mut self) -> DiscoveryStep {
        match &self.stage {
            Stage::Resource if self.is_clean() && self.settings.allows_legacy() => {
                if let Some(wanted) = self.settings.issuer.clone() {
                    // Whoever names an issuer wants no guess about another one.
                    return self.next_issuer(VecDeque::from([wanted]));
                }
                let issuer = self.server.origin().to_string();
                self.places =
                    WebUrl::parse(&issuer).map(|url| server_metadata_places(&url)).unwrap_or_default().into();
                self.stage = Stage::Legacy { issuer };
                self.next_place()
            }
            Stage::Resource => self.give_up(|_| Refusal::NoResourceMetadata),
            Stage::Issuer { .. } => self.leave_issuer(),
            Stage::Legacy { issuer } if self.is_clean() => {
                let issuer = issuer.clone();
                let metadata = guessed(&issuer);
                self.found(issuer, metadata)
            }
            Stage::Legacy { .. } => self.give_up(Refusal::NoServer),
        }
    }

    fn leave_issuer(&mut self) -> DiscoveryStep {
        match &mut self.stage {
            Stage::Issuer { others, .. } => {
                let others = std::mem::take(others);
                self.next_issuer(others)
            }
            _ => self.give_up(Refusal::NoServer),
        }
    }

    /// Whether every place has simply said no.
    fn is_clean(&self) -> bool {
        self.unavailable.is_none() && self.troubles.is_empty()
    }

    fn give_up(&mut self, refusal: impl FnOnce(String) -> Refusal) -> DiscoveryStep {
        if let Some(error) = self.unavailable.take() {
            return DiscoveryStep::Failed(error);
        }
        if self.troubles.is_empty()
            && let Some(resource) = &self.resource
        {
            self.troubles
                .push(format!("nothing is published by {}", listed(&resource.authorization_servers)));
        }
        DiscoveryStep::Failed(refusal(self.troubles.join("; ")).into())
    }

    fn found(&mut self, issuer: String, metadata: ServerMetadata) -> DiscoveryStep {
        // The last word of every way here: secrets of the user are for the issuer that the user has named.
        if self.settings.issuer.as_ref().is_some_and(|wanted| !same_issuer(wanted, &issuer)) {
            let named = escape(&issuer, 200).into_owned();
            return DiscoveryStep::Failed(Refusal::IssuerNotNamed { named }.into());
        }
        let resource = self.resource.take();
        DiscoveryStep::Found(Box::new(Discovered { resource, issuer, metadata }))
    }
}

/// The endpoints that MCP 2025-03-26 has at the origin of a server that publishes nothing.
fn guessed(issuer: &str) -> ServerMetadata {
    ServerMetadata {
        issuer: Some(issuer.to_owned()),
        authorization_endpoint: Some(format!("{issuer}/authorize")),
        token_endpoint: Some(format!("{issuer}/token")),
        registration_endpoint: Some(format!("{issuer}/register")),
        code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
        ..ServerMetadata::default()
    }
}

/// Reads a URL that the server at `server` names, and judges whether it may be used.
///
/// It must be `https`, or `http` on this machine, or `http` where the server itself is reached so and the
/// user allows it.
pub(super) fn usable(settings: &OAuthSettings, server: &WebUrl, named: &str) -> Result<WebUrl, String> {
    let url = server.join(named).map_err(|error| error.to_string())?;
    let is_here = AddressClass::of_host(&url.origin().host) == AddressClass::Loopback;
    let is_allowed = is_here || (settings.allows_unencrypted && url.origin() == server.origin());
    if !url.is_https() && !is_allowed {
        return Err("it is not encrypted".to_owned());
    }
    if let Some(policy) = AddressPolicy::of_url(&url, server) {
        policy.check(&url).map_err(|error| error.to_string())?;
    }
    Ok(url)
}

/// The URL of an endpoint of an authorization server, which is absolute: a relative one would lead to the
/// server that is protected.
pub(super) fn endpoint(
    settings: &OAuthSettings,
    server: &WebUrl,
    name: &'static str,
    stated: &Option<String>,
) -> Result<WebUrl, Refusal> {
    let stated = stated.as_deref().ok_or(Refusal::NoEndpoint(name))?;
    let url = WebUrl::parse(stated).map_err(|error| error.to_string());
    url.and_then(|_| usable(settings, server, stated)).map_err(|why| Refusal::Endpoint { name, why })
}

fn plain(issuer: &WebUrl) -> Result<(), String> {
    match issuer.has_fragment() || issuer.query().is_some() {
        true => Err("an issuer has neither query nor fragment".to_owned()),
        false => Ok(()),
    }
}

fn listed(issuers: &[String]) -> String {
    let shown: Vec<_> = issuers.iter().take(MAX_ISSUERS).map(|issuer| escape(issuer, 200)).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use mcp_proto::ProtocolVersion;
    use serde_json::json;

    use super::*;

    const SERVER: &str = "https://rs.example/mcp";
    const PRM: &str = "https://rs.example/.well-known/oauth-protected-resource";
    const PATH_PRM: &str = "https://rs.example/.well-known/oauth-protected-resource/mcp";
    const AS_META: &str = "https://as.example/.well-known/oauth-authorization-server";
    const OIDC: &str = "https://as.example/.well-known/openid-configuration";

    /// A network of documents, and what was asked of it.
    #[derive(Default)]
    struct Net {
        answers: HashMap<String, (u16, String)>,
        asked: Vec<String>,
    }

    impl Net {
        fn with(mut self, url: &str, status: u16, body: impl ToString) -> Self {
            self.answers.insert(url.to_owned(), (status, body.to_string()));
            self
        }

        fn resource(self, url: &str, resource: &str, issuers: &[&str]) -> Self {
            self.with(url, 200, json!({"resource": resource, "authorization_servers": issuers}))
        }

        fn issuer(self, url: &str, issuer: &str) -> Self {
            self.with(url, 200, json!({"issuer": issuer, "token_endpoint": "https://as.example/token"}))
        }

        fn run(&mut self, settings: &OAuthSettings, named: Option<&str>) -> Result<Discovered, AuthError> {
            self.run_known(settings, named, None)
        }

        fn run_known(
            &mut self,
            settings: &OAuthSettings,
            named: Option<&str>,
            known: Option<&str>,
        ) -> Result<Discovered, AuthError> {
            let server = WebUrl::parse(SERVER).unwrap();
            let (mut discovery, mut step) = Discovery::begin(settings, &server, named, known);
            loop {
                let request = match step {
                    DiscoveryStep::Ask(request) => request,
                    DiscoveryStep::Found(found) => return Ok(*found),
                    DiscoveryStep::Failed(error) => return Err(error),
                };
                assert!(request.body.is_none());
                assert_eq!(request.policy, AddressPolicy::of_url(&request.url, &server));
                let names: Vec<_> = request.headers.keys().map(HeaderName::as_str).collect();
                assert!(
                    names.iter().all(|name| ["accept", "mcp-protocol-version"].contains(name)),
                    "{names:?}"
                );
                self.asked.push(request.url.as_str().to_owned());
                let (status, body) =
                    self.answers.get(request.url.as_str()).cloned().unwrap_or((404, String::new()));
                let mut headers = HeaderMap::new();
                if (300..400).contains(&status) {
                    headers.insert(header::LOCATION, body.parse().unwrap());
                }
                let answer = match status {
                    0 => Err(OAuthHttpError::Unreachable("no route".to_owned())),
                    status => Ok(OAuthResponse::new(status, headers, body.into_bytes())),
                };
                step = discovery.on_answer(answer);
            }
        }
    }

    /// The settings of a server that speaks a version without guessed endpoints.
    fn modern() -> OAuthSettings {
        OAuthSettings { version: Some(ProtocolVersion::V2026_07_28), ..OAuthSettings::default() }
    }

    fn refused(result: Result<Discovered, AuthError>) -> Refusal {
        match result.unwrap_err() {
            AuthError::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn d01_places_are_asked_in_order_and_none_after_a_hit() {
        let named = "https://rs.example/custom/prm";
        let issuer = "https://as.example";
        let tenant = "https://as.example/tenant1";
        let deep = [
            "https://as.example/.well-known/oauth-authorization-server/tenant1",
            "https://as.example/.well-known/openid-configuration/tenant1",
            "https://as.example/tenant1/.well-known/openid-configuration",
        ];
        // The four layouts of the official suite, and what is asked for in each.
        let table: [(Net, Option<&str>, Vec<&str>); 4] = [
            (
                Net::default().resource(PATH_PRM, SERVER, &[issuer]).issuer(AS_META, issuer),
                Some(PATH_PRM),
                vec![PATH_PRM, AS_META],
            ),
            (
                Net::default().resource(PATH_PRM, SERVER, &[issuer]).issuer(OIDC, issuer),
                None,
                vec![PATH_PRM, AS_META, OIDC],
            ),
            (
                Net::default().resource(PRM, "https://rs.example", &[tenant]).issuer(deep[0], tenant),
                None,
                vec![PATH_PRM, PRM, deep[0]],
            ),
            (
                Net::default().resource(named, SERVER, &[tenant]).issuer(deep[2], tenant),
                Some("/custom/prm"),
                vec![named, deep[0], deep[1], deep[2]],
            ),
        ];
        for (mut net, named, expected) in table {
            let found = net.run(&modern(), named).unwrap();
            assert_eq!(net.asked, expected);
            assert!(found.resource.is_some());
        }
    }

    #[test]
    fn d01_a_place_that_cannot_be_used_is_passed_over() {
        for named in [
            "http://rs.example:81/prm",
            "https://127.0.0.1/prm",
            "ftp://rs.example/",
            "https://me@x.example/",
        ] {
            let mut net = Net::default()
                .resource(PATH_PRM, SERVER, &["https://as.example"])
                .issuer(AS_META, "https://as.example");
            net.run(&modern(), Some(named)).unwrap();
            assert_eq!(net.asked, [PATH_PRM, AS_META], "{named}");
        }
        for body in ["<html>", "{}", "[]"] {
            let mut net = Net::default()
                .with("https://x.example/prm", 200, body)
                .with(PATH_PRM, 200, body)
                .resource(PRM, SERVER, &["https://as.example"])
                .with(AS_META, 200, "<html>")
                .issuer(OIDC, "https://as.example");
            net.run(&modern(), Some("https://x.example/prm")).unwrap();
            assert_eq!(net.asked, ["https://x.example/prm", PATH_PRM, PRM, AS_META, OIDC]);
        }
    }

    #[test]
    fn d02_a_server_that_is_not_well_makes_it_unavailable_and_nothing_is_guessed() {
        let as_at = |status: u16| {
            Net::default().resource(PATH_PRM, SERVER, &["https://as.example"]).with(AS_META, status, "")
        };
        for status in [0, 408, 425, 429, 500, 503, 504] {
            for settings in [modern(), OAuthSettings::default()] {
                for place in [PATH_PRM, PRM] {
                    let mut net = Net::default().with(place, status, "");
                    assert!(net.run(&settings, None).unwrap_err().is_transient(), "{status} {place}");
                    assert_eq!(net.asked, [PATH_PRM, PRM]);
                }
                let mut net = as_at(status);
                assert!(net.run(&settings, None).unwrap_err().is_transient(), "{status}");
                assert_eq!(net.asked, [PATH_PRM, AS_META, OIDC]);
            }
            // A later place may still answer.
            let mut net = Net::default()
                .with(PATH_PRM, status, "")
                .resource(PRM, SERVER, &["https://as.example"])
                .with(AS_META, status, "")
                .issuer(OIDC, "https://as.example");
            net.run(&modern(), None).unwrap();
        }
        // What was not well on the way does not make the end a passing one.
        let mut net = Net::default().with(PATH_PRM, 503, "").resource(PRM, SERVER, &["https://as.example"]);
        assert!(matches!(refused(net.run(&modern(), None)), Refusal::NoServer(_)));
        assert!(matches!(refused(as_at(502).run(&modern(), None)), Refusal::NoServer(_)));
        assert!(Net::default().with(PRM, 502, "").run(&modern(), None).unwrap_err().is_transient());
    }

    #[test]
    fn d03_metadata_of_another_resource_ends_it_before_any_issuer_is_asked() {
        for resource in
            ["https://other.example/mcp", "https://rs.example/mcp2", "https://rs.example/mcp#x", "rs"]
        {
            let mut net = Net::default().resource(PATH_PRM, resource, &["https://as.example"]);
            assert!(matches!(
                refused(net.run(&OAuthSettings::default(), None)),
                Refusal::OtherResource { .. }
            ));
            assert_eq!(net.asked, [PATH_PRM], "{resource}");
        }
        let mut net = Net::default()
            .resource(PATH_PRM, "https://other.example/mcp", &["https://as.example"])
            .issuer(AS_META, "https://as.example");
        let trusted = Some("https://other.example/mcp".to_owned());
        net.run(&OAuthSettings { trusted_resource: trusted, ..modern() }, None).unwrap();
    }

    #[test]
    fn d04_metadata_of_another_issuer_is_not_used() {
        let run = |named: &str, stated: Option<&str>, settings: &OAuthSettings| {
            let place = match named.strip_suffix("/t").or(named.strip_suffix("/t/")) {
                Some(_) => "https://as.example/.well-known/oauth-authorization-server/t",
                None => AS_META,
            };
            let document = json!({"issuer": stated, "token_endpoint": "https://as.example/token"});
            let mut net = Net::default().resource(PATH_PRM, SERVER, &[named]).with(place, 200, document);
            let result = net.run(settings, None);
            assert_eq!(net.asked, [PATH_PRM, place], "no other place of that issuer is asked");
            result.map(|found| found.issuer)
        };
        for (named, stated) in [
            ("https://as.example", "https://as.example/"),
            ("https://as.example/", "https://as.example"),
            ("https://as.example/t", "https://as.example/t"),
        ] {
            assert_eq!(run(named, Some(stated), &modern()).unwrap(), named);
        }
        for (named, stated) in [
            ("https://as.example", Some("https://evil.example")),
            ("https://as.example/t", Some("https://as.example/t/")),
            ("https://as.example", Some("https://AS.example")),
            ("https://as.example", None),
        ] {
            assert!(matches!(run(named, stated, &modern()), Err(AuthError::Refused(Refusal::NoServer(_)))));
        }
        let lenient = OAuthSettings { allows_missing_issuer: true, ..modern() };
        run("https://as.example", None, &lenient).unwrap();
        assert!(run("https://as.example", Some("https://evil.example"), &lenient).is_err());
    }

    #[test]
    fn d05_a_dead_authorization_server_is_named_and_not_replaced() {
        let mut net = Net::default().resource(PATH_PRM, SERVER, &["https://as.example"]);
        let refusal = refused(net.run(&OAuthSettings::default(), None));
        assert!(refusal.to_string().contains("https://as.example"), "{refusal}");
        assert_eq!(net.asked, [PATH_PRM, AS_META, OIDC]);
        for issuer in [
            "http://as.example",
            "https://10.0.0.1",
            "https://as.example?x",
            "https://as.example#x",
            "as",
            "//x.example",
        ] {
            let mut net = Net::default().resource(PATH_PRM, SERVER, &[issuer]);
            assert!(
                matches!(refused(net.run(&OAuthSettings::default(), None)), Refusal::NoServer(_)),
                "{issuer}"
            );
            assert_eq!(net.asked, [PATH_PRM], "{issuer}");
        }
    }

    #[test]
    fn d05_the_next_of_several_servers_is_tried_and_a_configured_or_known_one_first() {
        let two = ["https://one.example", "https://as.example"];
        let net = || Net::default().resource(PATH_PRM, SERVER, &two).issuer(AS_META, two[1]);
        let mut first = net();
        assert_eq!(first.run(&modern(), None).unwrap().issuer, two[1]);
        assert_eq!(first.asked.len(), 4, "one.example was asked before");
        let pinned = OAuthSettings { issuer: Some(two[1].to_owned()), ..modern() };
        let mut pinned_net = net();
        pinned_net.run(&pinned, None).unwrap();
        assert_eq!(pinned_net.asked, [PATH_PRM, AS_META]);
        let mut known = net();
        known.run_known(&modern(), None, Some(two[1])).unwrap();
        assert_eq!(known.asked, [PATH_PRM, AS_META]);
        // However many others the server names before.
        let others = (0..20).map(|number| format!("https://other{number}.example"));
        let all: Vec<String> = others.chain([two[1].to_owned()]).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        for (settings, known) in [(&pinned, None), (&modern(), Some(two[1]))] {
            let mut net = Net::default().resource(PATH_PRM, SERVER, &all).issuer(AS_META, two[1]);
            net.run_known(settings, None, known).unwrap();
            assert_eq!(net.asked, [PATH_PRM, AS_META]);
        }
        let mut crowd = Net::default().resource(PATH_PRM, SERVER, &all);
        crowd.run(&modern(), None).unwrap_err();
        assert_eq!(crowd.asked.len(), 1 + 2 * MAX_ISSUERS, "and no more than that are asked");
        let stranger = OAuthSettings { issuer: Some("https://x.example".to_owned()), ..modern() };
        assert!(matches!(refused(net().run(&stranger, None)), Refusal::IssuerNotNamed { .. }));
    }

    #[test]
    fn legacy_endpoints_are_guessed_only_for_old_versions_and_clean_answers() {
        let asked = [
            PATH_PRM,
            PRM,
            "https://rs.example/.well-known/oauth-authorization-server",
            "https://rs.example/.well-known/openid-configuration",
        ];
        let old = OAuthSettings { version: Some(ProtocolVersion::V2025_03_26), ..OAuthSettings::default() };
        for settings in [OAuthSettings::default(), old] {
            let mut net = Net::default();
            let found = net.run(&settings, None).unwrap();
            assert_eq!(net.asked, asked);
            assert_eq!(found.metadata, guessed("https://rs.example"));
        }
        let mut net = Net::default().issuer(asked[2], "https://rs.example");
        let found = net.run(&OAuthSettings::default(), None).unwrap();
        assert_ne!(found.metadata, guessed("https://rs.example"));
        // Such a server may call its issuer by another path of its own.
        let mut net = Net::default().issuer(asked[2], "https://rs.example/oauth");
        let found = net.run(&OAuthSettings::default(), None).unwrap();
        assert_eq!(found.metadata.issuer.as_deref(), Some("https://rs.example/oauth"));
        let mut net = Net::default().issuer(asked[2], "https://evil.example");
        assert!(matches!(refused(net.run(&OAuthSettings::default(), None)), Refusal::NoServer(_)));
        let off = OAuthSettings { legacy: crate::auth::Legacy::Off, ..OAuthSettings::default() };
        for settings in [modern(), off] {
            let mut net = Net::default();
            assert_eq!(refused(net.run(&settings, None)), Refusal::NoResourceMetadata);
            assert_eq!(net.asked, [PATH_PRM, PRM]);
        }
        let mut broken = Net::default().with(PRM, 200, "<html>");
        assert_eq!(refused(broken.run(&OAuthSettings::default(), None)), Refusal::NoResourceMetadata);
    }

    #[test]
    fn f174_what_is_not_encrypted_is_used_only_where_the_user_allows_it() {
        let here = WebUrl::parse("http://127.0.0.1:3000/mcp").unwrap();
        let plain = WebUrl::parse("http://rs.example/mcp").unwrap();
        let allowed = OAuthSettings { allows_unencrypted: true, ..OAuthSettings::default() };
        for (settings, server, named, expected) in [
            (&modern(), &here, "http://127.0.0.1:3000/token", true),
            (&modern(), &here, "http://localhost:4000/token", true),
            (&modern(), &plain, "http://rs.example/token", false),
            (&modern(), &plain, "https://rs.example/token", true),
            (&allowed, &plain, "http://rs.example/token", true),
            (&allowed, &plain, "http://rs.example:81/token", false),
            (&allowed, &plain, "http://as.example/token", false),
        ] {
            assert_eq!(usable(settings, server, named).is_ok(), expected, "{server} {named}");
        }
    }

    #[test]
    fn b01_with_a_configured_issuer_nothing_is_guessed_at_the_server() {
        let pinned =
            |issuer: &str| OAuthSettings { issuer: Some(issuer.to_owned()), ..OAuthSettings::default() };
        // The server publishes nothing about itself, and all it could say about its own origin.
        let own = "https://rs.example/.well-known/oauth-authorization-server";
        let mut net = Net::default().issuer(own, "https://rs.example");
        let refusal = refused(net.run(&pinned("https://as.example"), None));
        assert!(matches!(refusal, Refusal::NoServer(_)), "{refusal}");
        assert_eq!(net.asked, [PATH_PRM, PRM, AS_META, OIDC]);
        let mut net = Net::default().issuer(AS_META, "https://as.example");
        let found = net.run(&pinned("https://as.example"), None).unwrap();
        assert_eq!(found.issuer, "https://as.example");
        // Also what is known already is held against the configuration.
        let server = WebUrl::parse(SERVER).unwrap();
        let settings = pinned("https://as.example");
        let (mut discovery, _) = Discovery::at_issuer(&settings, &server, "https://other.example");
        let document =
            json!({"issuer": "https://other.example", "token_endpoint": "https://other.example/t"});
        let answer = OAuthResponse::new(200, HeaderMap::new(), document.to_string().into_bytes());
        let DiscoveryStep::Failed(error) = discovery.on_answer(Ok(answer)) else { panic!("found") };
        assert!(matches!(error, AuthError::Refused(Refusal::IssuerNotNamed { .. })), "{error}");
    }

    #[test]
    fn d07_redirects_stay_on_their_origin_and_end() {
        let moved = "https://rs.example/moved";
        let mut net = Net::default()
            .with(PATH_PRM, 302, "/moved")
            .resource(moved, SERVER, &["https://as.example"])
            .issuer(AS_META, "https://as.example");
        net.run(&modern(), None).unwrap();
        assert_eq!(net.asked, [PATH_PRM, moved, AS_META]);
        for location in
            ["https://evil.example/", "http://rs.example/moved", "//evil.example/x", "https://127.0.0.1/"]
        {
            let mut net = Net::default().with(PATH_PRM, 307, location);
            assert_eq!(refused(net.run(&modern(), None)), Refusal::NoResourceMetadata);
            assert_eq!(net.asked, [PATH_PRM, PRM], "{location}");
        }
        let mut net = Net::default().with(PATH_PRM, 302, PATH_PRM);
        assert_eq!(refused(net.run(&modern(), None)), Refusal::NoResourceMetadata);
        assert_eq!(net.asked.iter().filter(|url| *url == PATH_PRM).count(), 6);
    }
}
