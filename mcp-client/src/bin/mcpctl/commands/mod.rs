//! What the program can do, one file for each command.

pub(crate) mod call;
pub(crate) mod config_check;
pub(crate) mod list;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod prompt;
pub(crate) mod read;
pub(crate) mod status;

use std::time::Duration;

use mcp_client::ServerConfig;
use mcp_lifecycle::ServerHandle;
use mcp_proto::{Method, NotInVersion, ProtocolVersion, RawJson, Request, Versioned};
use mcp_session::CallOptions;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::args::{Global, TargetArgs};
use crate::exit::Exit;
use crate::host::Host;
use crate::output::Output;
use crate::problem::{Problem, concluded};
use crate::running::{Limit, Persistence, ready, with_client};
use crate::source::Source;

/// What every command works with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) host: Host,
    pub(crate) output: Output,
}

/// One answer of one server, as it was received.
pub(crate) struct Answer {
    server: String,
    outcome: Result<RawJson, Problem>,
    elapsed: Duration,
}

/// A request whose answer is kept as it was received.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
struct Verbatim<R>(R);

impl<R: Request> Versioned for Verbatim<R> {
    fn fits(&self, version: ProtocolVersion) -> bool {
        self.0.fits(version)
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        self.0.fit(version)
    }
}

impl<R: Request> Request for Verbatim<R> {
    const METHOD: Method = R::METHOD;
    type Result = RawJson;

    fn mirrored_name(&self) -> Option<&str> {
        self.0.mirrored_name()
    }
}

impl Context {
    /// The one server that a command works on: the ad-hoc one, or the one called `name`.
    pub(crate) fn server(&self, target: &TargetArgs, name: Option<&str>) -> Result<ServerConfig, Problem> {
        Source::one(&self.global, &self.host, &self.output, &target.program, name)
    }
}

/// Connects to a server and asks it once.
///
/// `request` is made when the server is ready, so that it can look at what the server offers.
pub(crate) async fn ask<R: Request>(
    context: &Context,
    target: &TargetArgs,
    server: ServerConfig,
    options: impl FnOnce(CallOptions) -> CallOptions,
    request: impl FnOnce(&ServerHandle) -> Result<R, Problem>,
) -> Result<Answer, Problem> {
    let Context { host, output, .. } = context;
    let name = server.name.clone();
    let limit = Limit::begin(target.timeout);
    with_client(host, output, Persistence::Once, vec![server], async |client| {
        let handle =
            client.server(&name).ok_or_else(|| Problem::usage(format!("there is no server {name:?}")))?;
        let outcome = match ready(&handle, limit).await {
            Err(problem) => Err(problem),
            Ok(_) => {
                let request = Verbatim(request(&handle)?);
                let mut options = options(CallOptions::default());
                options.deadline = limit.deadline();
                handle.call(request, options).await.map_err(|error| client.failure(&name, &error).into())
            }
        };
        Ok(Answer { server: name.clone(), outcome, elapsed: limit.elapsed() })
    })
    .await
}

impl Answer {
    /// Prints the answer: one document for machines, or whatever `show` makes of it.
    ///
    /// `subject` is the key and value of what was asked for; `fails` tells whether the answer itself
    /// says that it is an error.
    pub(crate) fn print(
        self,
        output: &Output,
        subject: (&str, &str),
        fails: impl FnOnce(&RawJson) -> bool,
        show: impl FnOnce(&RawJson) -> Result<String, Problem>,
    ) -> Result<Exit, Problem> {
        let failed = self.outcome.as_ref().is_ok_and(fails);
        let exit = match &self.outcome {
            Ok(_) if failed => Exit::Failed,
            Ok(_) => Exit::Success,
            Err(problem) => problem.exit,
        };
        if output.is_json() {
            let document = self.document(subject, failed).to_string();
            let printed = match &self.outcome {
                Ok(_) => output.result(document),
                Err(_) => output.line(document),
            };
            return concluded(printed, exit);
        }
        let result = self.outcome?;
        concluded(output.result(show(&result)?), exit)
    }

    fn document(&self, subject: (&str, &str), failed: bool) -> Value {
        let mut document = Map::new();
        document.insert("server".to_owned(), json!(self.server));
        document.insert(subject.0.to_owned(), json!(subject.1));
        document.insert("ok".to_owned(), json!(self.outcome.is_ok() && !failed));
        match &self.outcome {
            Ok(result) => drop(document.insert("result".to_owned(), json!(result))),
            Err(problem) => drop(document.insert("error".to_owned(), problem.document())),
        }
        let elapsed = u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX);
        document.insert("elapsed_ms".to_owned(), json!(elapsed));
        Value::Object(document)
    }
}
