//! Answers of authorizations on loopback: who may bring one, what a browser sees, and what is left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "test code"
)]
#![cfg(feature = "oauth")]

mod auth;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use auth::*;
use mcp_transport::auth::*;
use mcp_transport::testing::checks::isolated;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::{Instant, timeout};

/// A terminal: what it shows, and what a person types.
#[derive(Debug)]
struct Terminal {
    shown: watch::Sender<Option<Form>>,
    typed: Mutex<mpsc::Receiver<&'static str>>,
    keyboard: mpsc::Sender<&'static str>,
}

impl Terminal {
    fn new() -> Arc<Self> {
        let (keyboard, typed) = mpsc::channel(8);
        Arc::new(Self { shown: watch::channel(None).0, typed: Mutex::new(typed), keyboard })
    }

    /// Waits for the URL, and answers with its parameters.
    async fn url(&self) -> Form {
        self.shown.subscribe().wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }
}

#[async_trait]
impl Presenter for Terminal {
    async fn show(&self, request: &AuthorizationRequest) -> Result<(), LoginEnd> {
        let (_, query) = request.url().expose().split_once('?').unwrap();
        self.shown.send_replace(Some(Form::parse(query)));
        Ok(())
    }

    async fn pasted(&self) -> Pasted {
        match self.typed.lock().await.recv().await {
            Some(line) => Pasted::read(line),
            None => pending().await,
        }
    }
}

/// One login at its own gate, with a terminal and perhaps a certain port.
struct Seat {
    world: World,
    oauth: OAuth,
    terminal: Arc<Terminal>,
    ui: Arc<dyn AuthUi>,
}

impl Seat {
    fn new(hub: &CallbackHub, port: Option<u16>) -> Self {
        Self::with(hub, port, |ui| ui)
    }

    fn with(hub: &CallbackHub, port: Option<u16>, adapt: impl FnOnce(LoopbackUi) -> LoopbackUi) -> Self {
        let world = World::new();
        let mut settings = OAuthSettings::default();
        settings.redirect.port = port;
        let oauth = OAuth::new("a", World::url("a"), settings, world.seams());
        let terminal = Terminal::new();
        let ui = Arc::new(adapt(LoopbackUi::new(hub.clone(), Arc::<Terminal>::clone(&terminal))));
        Self { world, oauth, terminal, ui }
    }

    fn start(&self) -> tokio::task::JoinHandle<Result<(), AuthError>> {
        let (oauth, ui) = (self.oauth.clone(), Arc::clone(&self.ui));
        #[expect(clippy::disallowed_methods, reason = "joined by the test")]
        tokio::spawn(async move { oauth.login(ui, true).await })
    }
}

fn value(form: &Form, name: &str) -> String {
    form.get(name).unwrap().expose().to_owned()
}

fn port(url: &Form) -> u16 {
    WebUrl::parse(&value(url, "redirect_uri")).unwrap().origin().port
}

async fn send(host: &str, port: u16, text: &str) -> String {
    let mut stream = TcpStream::connect((host, port)).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn get(port: u16, target: &str) -> String {
    send("127.0.0.1", port, &format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")).await
}

fn right(url: &Form) -> String {
    format!("/callback?state={}&code=canary-code", value(url, "state"))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

#[test]
fn l01_one_port_stands_in_registration_url_and_exchange() {
    isolated(async |_| {
        let hub = CallbackHub::default();
        let seat = Seat::new(&hub, None);
        let login = seat.start();
        let url = seat.terminal.url().await;
        let answer = get(port(&url), &right(&url)).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        login.await.unwrap().unwrap();
        let uri = value(&url, "redirect_uri");
        assert!(uri.starts_with("http://127.0.0.1:") && uri.ends_with("/callback"), "{uri}");
        assert_eq!(seat.world.net.log().last().unwrap().value("redirect_uri"), Some(uri.clone()));
        assert_eq!(seat.world.kept("a").await.unwrap().client.redirect_uris, [uri]);
        assert_eq!(hub.close(soon()).await, 0);
    });
}

#[test]
fn f170_l02_nothing_but_the_answer_ends_or_consumes_a_login() {
    isolated(async |_| {
        let hub = CallbackHub::default();
        let seat = Seat::new(&hub, None);
        let login = seat.start();
        let url = seat.terminal.url().await;
        let port = port(&url);
        let right = right(&url);
        let head = |line: &str, host: &str| format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let here = format!("127.0.0.1:{port}");
        for (text, status) in [
            (head("GET /callback", &here), "400"),
            (head("GET /callback?code=x", &here), "400"),
            (head("GET /callback?code=x&state=forged", &here), "400"),
            (head(&format!("GET {right}&iss=https%3A%2F%2Fevil.example"), &here), "400"),
            (head(&format!("GET {right}"), "evil.example"), "400"),
            (head(&format!("POST {right}"), &here), "404"),
            (head(&format!("HEAD {right}"), &here), "404"),
            (head(&format!("GET /other{}", right.trim_start_matches("/callback")), &here), "404"),
            (head("GET /favicon.ico", &here), "404"),
            (format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000)), "400"),
            ("\u{16}\u{3}\u{1}\r\n\r\n".to_owned(), "400"),
        ] {
            let answer = send("127.0.0.1", port, &text).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{text:?} {answer}");
        }
        // A browser that opens connections in advance and says nothing takes no place from others for long.
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        let began = Instant::now();
        let answer = get(port, &right).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(began.elapsed() < Duration::from_secs(8));
        login.await.unwrap().unwrap();
        drop(silent);
        assert_eq!(hub.close(soon()).await, 0);
    });
}

#[test]
fn f170_l02_an_answer_is_taken_once() {
    isolated(async |_| {
        let hub = CallbackHub::default();
        let seat = Seat::new(&hub, None);
        seat.world.net.hold("as-a.example/token");
        let login = seat.start();
        let url = seat.terminal.url().await;
        assert!(get(port(&url), &right(&url)).await.starts_with("HTTP/1.1 200 "));
        seat.world.net.arrived("as-a.example/token", 1).await;
        assert!(get(port(&url), &right(&url)).await.starts_with("HTTP/1.1 410 "), "a second time");
        seat.world.net.release("as-a.example/token");
        login.await.unwrap().unwrap();
        assert_eq!(seat.world.net.count("as-a.example/token"), 1);
        assert_eq!(hub.close(soon()).await, 0);
    });
}

#[test]
fn l03_two_logins_share_a_port_and_finish_in_either_order() {
    isolated(async |_| {
        for is_second_first in [false, true] {
            let hub = CallbackHub::default();
            let number = free_port().await;
            let seats = [Seat::new(&hub, Some(number)), Seat::new(&hub, Some(number))];
            let logins = seats.each_ref().map(Seat::start);
            let urls = [seats[0].terminal.url().await, seats[1].terminal.url().await];
            let mut order = [0, 1];
            if is_second_first {
                order.reverse();
            }
            for index in order {
                assert_eq!(port(&urls[index]), number);
                assert!(get(number, &right(&urls[index])).await.starts_with("HTTP/1.1 200 "));
            }
            for login in logins {
                login.await.unwrap().unwrap();
            }
            assert_eq!(hub.close(soon()).await, 0);
        }
    });
}

#[test]
fn f170_l04_a_page_holds_nothing_of_the_request() {
    isolated(async |_| {
        let hub = CallbackHub::default();
        let seat = Seat::new(&hub, None);
        let login = seat.start();
        let url = seat.terminal.url().await;
        let state = value(&url, "state");
        let script = "%3Cscript%3Ealert(1)%3C%2Fscript%3Ecanary";
        for target in [
            format!("/callback?state={script}&code=canary"),
            format!("/{script}canary"),
            format!("/callback?state={state}&error={script}&error_description={script}canary"),
        ] {
            let answer = get(port(&url), &target).await;
            for leak in ["script", "canary", state.as_str()] {
                assert!(!answer.contains(leak), "{answer}");
            }
            for header in [
                "Content-Security-Policy: default-src 'none'",
                "Cache-Control: no-store",
                "Referrer-Policy: no-referrer",
                "X-Content-Type-Options: nosniff",
                "Content-Type: text/html; charset=utf-8",
                "Connection: close",
            ] {
                assert!(answer.contains(&format!("\r\n{header}\r\n")), "{header}");
            }
        }
        let denied = login.await.unwrap().unwrap_err();
        assert!(matches!(denied, AuthError::Denied(_)), "the last one was an answer");
        assert_eq!(hub.close(soon()).await, 0);
    });
}

#[test]
fn l05_localhost_is_answered_on_both_addresses() {
    isolated(async |_| {
        let hub = CallbackHub::default();
        let seat = Seat::with(&hub, None, LoopbackUi::with_localhost);
        let login = seat.start();
        let url = seat.terminal.url().await;
        let uri = value(&url, "redirect_uri");
        assert!(uri.starts_with("http://localhost:"), "{uri}");
        let ask = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", port(&url));
        assert!(send("127.0.0.1", port(&url), &ask("/x")).await.starts_with("HTTP/1.1 404 "));
        // Machines without IPv6 have nothing to answer there.
        if TcpListener::bind("[::1]:0").await.is_ok() {
            assert!(send("::1", port(&url), &ask("/x")).await.starts_with("HTTP/1.1 404 "));
        }
        assert!(send("127.0.0.1", port(&url), &ask(&right(&url))).await.starts_with("HTTP/1.1 200 "));
        login.await.unwrap().unwrap();
        assert_eq!(hub.close(soon()).await, 0);
    });
}

#[test]
fn l06_a_port_is_free_again_as_soon_as_its_login_is_over() {
    isolated(async |_| {
        let hub = CallbackHub::default();
        let number = free_port().await;
        for _ in 0..3 {
            let seat = Seat::new(&hub, Some(number));
            let login = seat.start();
            seat.terminal.url().await;
            assert!(TcpListener::bind(("127.0.0.1", number)).await.is_err(), "it is listened on");
            seat.terminal.keyboard.send("skip").await.unwrap();
            assert_eq!(login.await.unwrap(), Err(AuthError::Login(LoginEnd::Skipped)));
        }
        assert_eq!(hub.close(soon()).await, 0);
        TcpListener::bind(("127.0.0.1", number)).await.expect("nobody listens");
    });
}

#[test]
fn l01_a_port_that_is_taken_is_told_before_anybody_is_asked() {
    isolated(async |_| {
        let hub = CallbackHub::default();
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let seat = Seat::new(&hub, Some(taken.local_addr().unwrap().port()));
        assert_eq!(seat.start().await.unwrap(), Err(AuthError::Login(LoginEnd::NoListener)));
        assert_eq!(seat.world.net.count("as-a.example/register"), 0);
        assert!(seat.terminal.shown.borrow().is_none());
        assert_eq!(hub.close(soon()).await, 0);
    });
}

#[test]
fn l08_an_answer_can_be_pasted_and_rubbish_is_passed_over() {
    isolated(async |_| {
        let hub = CallbackHub::default();
        let seat = Seat::new(&hub, None);
        let login = seat.start();
        let url = seat.terminal.url().await;
        let keyboard = seat.terminal.keyboard.clone();
        for line in ["", "what?", "canary-code", "?code=c&state=forged"] {
            keyboard.send(line).await.unwrap();
        }
        let pasted = format!("http://127.0.0.1:{}{}", port(&url), right(&url));
        keyboard.send(Box::leak(pasted.into_boxed_str())).await.unwrap();
        timeout(Duration::from_secs(10), login).await.unwrap().unwrap().unwrap();
        assert_eq!(seat.world.kept_token("a").await.as_deref(), Some("a101"));
        // Nobody reads any more: what is typed now is for somebody else.
        keyboard.send("left alone").await.unwrap();
        assert_eq!(seat.terminal.typed.lock().await.recv().await, Some("left alone"));
        assert_eq!(hub.close(soon()).await, 0);
    });
}
