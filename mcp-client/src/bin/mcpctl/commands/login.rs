use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcp_client::{Insist, LoginError, Reach, ServerConfig};
use mcp_lifecycle::State;
use mcp_transport::auth::{
    AuthError, AuthorizationRequest, CallbackHub, LoginEnd, LoopbackUi, Pasted, Presenter,
};
use serde_json::json;
use tokio::time::Instant;

use super::Context;
use crate::args::LoginArgs;
use crate::browser::{self, Opened};
use crate::exit::Exit;
use crate::host::Host;
use crate::keyboard::Keyboard;
use crate::output::{Output, safe};
use crate::problem::{Problem, concluded};
use crate::running::{Limit, Persistence, ready, with_client};
use crate::source::Source;

/// How long the listener for the answer may take to end.
const HUB_END: Duration = Duration::from_secs(1);

/// Has the person at the terminal log in to one server.
pub(crate) async fn run(context: &Context, args: &LoginArgs) -> Result<Exit, Problem> {
    let Context { global, host, output } = context;
    let server = Source::one(global, host, output, &[], Some(&args.server))?;
    let server = prepared(server, args);
    // Before anything is opened, registered or shown.
    if !(args.paste || args.no_browser || io::stderr().is_terminal()) {
        let message = "nobody is here to log in: give --no-browser if somebody reads standard error, \
                       or --paste if somebody writes to standard input";
        return Err(Problem::new(Exit::NeedsAuthorization, message));
    }
    let (name, limit) = (server.name.clone(), Limit::begin(args.timeout));
    let hub = CallbackHub::default();
    let terminal = Arc::new(Terminal::new(host, output, args));
    let ui = Arc::new(LoopbackUi::new(hub.clone(), terminal));
    let is_forced = args.force || args.scope.is_some();
    let asked = with_client(host, output, Persistence::Once, vec![server], async |client| {
        let handle =
            client.server(&name).ok_or_else(|| Problem::usage(format!("there is no server {name:?}")))?;
        // What the server asks for is in its refusal.
        let status = handle.settled(limit.patience()).await;
        match status.state {
            State::NeedsAuth => {}
            State::Ready { .. } if !is_forced => return Ok(false),
            _ if is_forced => {}
            _ => drop(ready(&handle, limit).await?),
        }
        let insist = if is_forced { Insist::Always } else { Insist::IfNeeded };
        let login = client.login(&name, ui, insist);
        let login = match limit.deadline() {
            Some(deadline) => tokio::time::timeout_at(deadline, login).await,
            None => Ok(login.await),
        };
        match login {
            Ok(login) => login.map(|()| true).map_err(problem),
            Err(_) => {
                Err(Problem::new(Exit::TimedOut, "nobody has logged in within the time that was given"))
            }
        }
    })
    .await;
    hub.close(Instant::now() + HUB_END).await;
    let asked = asked?;
    if output.is_json() {
        return concluded(
            output.document(&json!({"server": name, "ok": true, "asked": asked})),
            Exit::Success,
        );
    }
    let shown = safe(&name);
    concluded(
        output.line(match asked {
            true => format!("logged in to server \"{shown}\""),
            false => format!("server \"{shown}\" takes calls already; --force logs in all the same"),
        }),
        Exit::Success,
    )
}

/// The server as it has to be for a login.
fn prepared(mut server: ServerConfig, args: &LoginArgs) -> ServerConfig {
    server.settings.enabled = true;
    if let (Some(scope), Reach::Http(address)) = (&args.scope, &mut server.reach) {
        *address = address.clone().scope(scope);
    }
    server
}

/// Why nobody has logged in, or out.
pub(super) fn problem(error: LoginError) -> Problem {
    let exit = match &error {
        LoginError::Failed { error, .. } => match error {
            error if error.is_transient() => Exit::Unreachable,
            AuthError::Login(LoginEnd::TimedOut) => Exit::TimedOut,
            AuthError::Client(_) | AuthError::Config(_) | AuthError::RegistrationRejected(_) => Exit::Usage,
            error if error.needs_auth() => Exit::NeedsAuthorization,
            AuthError::Denied(_) | AuthError::Login(_) => Exit::NeedsAuthorization,
            _ => Exit::Failed,
        },
        _ => Exit::Usage,
    };
    Problem::new(exit, safe(&error.to_string())).retryable(exit == Exit::Unreachable)
}

/// The terminal at which a person logs in.
#[derive(Debug)]
struct Terminal {
    output: Output,
    host: Host,
    opens_browser: bool,
    /// Where answers are pasted, if they can be.
    keyboard: Option<Keyboard>,
    opened: Mutex<Option<Opened>>,
}

impl Terminal {
    fn new(host: &Host, output: &Output, args: &LoginArgs) -> Self {
        let keyboard = (args.paste || Keyboard::is_terminal()).then(Keyboard::default);
        Self {
            output: output.clone(),
            host: host.clone(),
            opens_browser: !(args.no_browser || args.paste),
            keyboard,
            opened: Mutex::default(),
        }
    }
}

#[async_trait]
impl Presenter for Terminal {
    async fn show(&self, request: &AuthorizationRequest) -> Result<(), LoginEnd> {
        let url = request.url().expose();
        self.output.address("open this URL in a browser and grant access:", url);
        if self.keyboard.is_some() {
            self.output.message("or paste here the URL at which the browser ends; \"skip\" gives up");
        }
        if self.opens_browser {
            match browser::open(&self.host, url) {
                Some(Ok(opened)) => {
                    *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
                }
                Some(Err(error)) => tracing::debug!(%error, "no browser could be opened"),
                None => {}
            }
        }
        Ok(())
    }

    async fn pasted(&self) -> Pasted {
        let Some(keyboard) = &self.keyboard else { return std::future::pending().await };
        // At the end of the input nobody can answer any more.
        let Some(line) = keyboard.line().await else { return Pasted::Skip };
        let pasted = Pasted::read(&line);
        if let Pasted::Unreadable = pasted
            && !line.trim().is_empty()
        {
            self.output
                .message("that is not the URL at which the browser ends; paste all of it, or \"skip\"");
        }
        pasted
    }
}
