use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use mcp_proto::{
    ClientCapabilities, DecodeError, Elicit, ElicitResult, ElicitationCapability, ErrorObject, InputRequest,
    Method, Payload, ProtocolVersion, ServerRequest, Versioned, code,
};
use serde::Serialize;
use tokio::time::timeout;

use crate::depth;
use crate::handler::{Asker, ClientHandler, HandlerLimits};
use crate::options::SessionOptions;
use crate::quota::HandlerQuota;
use crate::related_task::{HasMeta, RelatedTask};

/// A handler as one session uses it: what it has declared, within its limits. Serves both eras.
pub(crate) struct Service {
    handler: Arc<dyn ClientHandler>,
    declared: ClientCapabilities,
    asker: Asker,
    limits: HandlerLimits,
    /// Decides how much is served; shared by all sessions of the server.
    pub(crate) quota: HandlerQuota,
}

impl Service {
    /// The service of a session; `None` if its options name no handler.
    pub(crate) fn new(options: &SessionOptions) -> Option<Self> {
        let limits = options.handler_limits;
        options.handler.as_ref().map(|handler| Self {
            handler: Arc::clone(&handler.0),
            declared: options.capabilities.clone(),
            asker: Asker::new(Arc::clone(&options.server_name)),
            limits,
            quota: options.handler_quota.clone().unwrap_or_else(|| HandlerQuota::new(limits)),
        })
    }

    /// Reads a message of a legacy server; refuses a manner of asking that was not declared.
    pub(crate) fn read(&self, method: &Method, params: &Payload) -> Result<ServerRequest, ErrorObject> {
        let request = ServerRequest::of_message(method, params).map_err(misfit)?;
        self.check_manner(&request)?;
        Ok(request)
    }

    /// Reads what a modern server asks inside a result; refuses what was not declared.
    pub(crate) fn read_input(&self, input: &InputRequest) -> Result<ServerRequest, ErrorObject> {
        self.check(&input.method)?;
        let request = ServerRequest::of_input(input).map_err(misfit)?;
        self.check_manner(&request)?;
        Ok(request)
    }

    /// Refuses what was not declared.
    pub(crate) fn check(&self, method: &Method) -> Result<(), ErrorObject> {
        let is_declared = match method.as_str() {
            "elicitation/create" => self.declared.elicitation.is_some(),
            "roots/list" => self.declared.roots.is_some(),
            "sampling/createMessage" => self.declared.sampling.is_some(),
            _ => false,
        };
        if is_declared { Ok(()) } else { Err(not_served()) }
    }

    /// Whether a person can be asked to open a URL.
    pub(crate) fn serves_urls(&self) -> bool {
        self.declared.elicitation.as_ref().is_some_and(ElicitationCapability::has_url)
    }

    /// How long a person may take.
    pub(crate) fn person_limit(&self) -> Duration {
        self.limits.person
    }

    /// Whether the server was promised to be told when the roots change.
    pub(crate) fn tells_of_roots(&self) -> bool {
        self.declared.roots.as_ref().is_some_and(|declared| declared.list_changed)
    }

    /// People and models can be asked in several manners, each declared on its own.
    pub(crate) fn check_manner(&self, request: &ServerRequest) -> Result<(), ErrorObject> {
        let declared = &self.declared;
        let is_declared = match request {
            ServerRequest::CreateMessage(asked) if asked.tools.is_some() || asked.tool_choice.is_some() => {
                declared.sampling.as_ref().is_some_and(|declared| declared.tools.is_some())
            }
            ServerRequest::Elicit(asked) => match (&**asked, &declared.elicitation) {
                (Elicit::Form(_), Some(declared)) => declared.has_form(),
                (Elicit::Url(asked), Some(declared)) if declared.has_url() => return check_url(&asked.url),
                _ => false,
            },
            _ => true,
        };
        if is_declared { Ok(()) } else { Err(unfit("this client is not asked in that manner")) }
    }

    /// Lets the handler answer, within its time, in the words of `version` and as deep as `depth`; a panic in
    /// it ends here.
    pub(crate) async fn answer(
        &self,
        request: ServerRequest,
        version: Option<ProtocolVersion>,
        depth: u8,
    ) -> Result<Payload, ErrorObject> {
        let is_for_person = matches!(request, ServerRequest::Elicit(_));
        let limit = if is_for_person { self.limits.person } else { self.limits.time };
        let method = request.method().clone();
        let task = RelatedTask::of(&request, version);
        let answering =
            AssertUnwindSafe(depth::inside(depth, self.ask(request, version, task.as_ref()))).catch_unwind();
        match timeout(limit, answering).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!(server = %self.asker.server, %method, "the handler of a client panicked");
                Err(internal("the client failed while it served the request"))
            }
            Err(_) if is_for_person => encode(ElicitResult::cancel(), version, task.as_ref()),
            Err(_) => Err(internal("the client did not serve the request in time")),
        }
    }

    async fn ask(
        &self,
        request: ServerRequest,
        version: Option<ProtocolVersion>,
        task: Option<&RelatedTask>,
    ) -> Result<Payload, ErrorObject> {
        match request {
            ServerRequest::CreateMessage(request) => {
                encode(self.handler.create_message(&self.asker, *request).await?, version, task)
            }
            ServerRequest::Elicit(request) => {
                encode(self.handler.elicit(&self.asker, *request).await?, version, task)
            }
            ServerRequest::ListRoots(_) => encode(self.handler.list_roots(&self.asker).await?, version, task),
            _ => Err(not_served()),
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("asker", &self.asker).finish_non_exhaustive()
    }
}

/// Writes an answer as `version` has it; it names the `task` on whose behalf the server has asked.
fn encode<T: Serialize + Versioned + HasMeta>(
    mut answer: T,
    version: Option<ProtocolVersion>,
    task: Option<&RelatedTask>,
) -> Result<Payload, ErrorObject> {
    if let Some(task) = task {
        task.name_in(&mut answer);
    }
    if let Some(version) = version {
        answer
            .fit(version)
            .map_err(|error| internal(format!("the client's answer does not fit: {error}")))?;
    }
    Payload::encode(&answer)
        .map_err(|error| internal(format!("the client's answer has no JSON form: {error}")))
}

pub(crate) fn not_served() -> ErrorObject {
    ErrorObject::new(code::METHOD_NOT_FOUND, "this client does not serve that method")
}

/// A URL must lead into the web. Any other can run something here (`javascript:`), or show what lies
/// here (`file:`), once a program opens it.
fn check_url(url: &str) -> Result<(), ErrorObject> {
    let begins =
        |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if begins("https://") || begins("http://") {
        Ok(())
    } else {
        Err(unfit("this client opens pages of the web alone"))
    }
}

fn misfit(error: DecodeError) -> ErrorObject {
    unfit(error.to_string())
}

fn unfit(message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, message)
}

fn internal(message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, message)
}
