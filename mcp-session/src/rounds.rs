use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mcp_proto::{
    ErrorObject, InputAnswers, InputRequired, Method, ProtocolVersion, RawJson, RequestId, ServerRequest,
    code, encode_round,
};
use tokio::time::sleep;

use crate::depth;
use crate::error::{CallError, ProtocolFault, UnsupportedWhy, UrlsUnopened};
use crate::options::{RoundMode, TaskMode};
use crate::pending::Patience;
use crate::quota::disturbs;
use crate::service::Service;
use crate::session::Handle;
use crate::shared::Keeps;
use crate::urls::{self, UrlsRequired};

/// Most things that a server may ask for at once.
pub(crate) const MAX_INPUTS: usize = 64;

/// Most bytes of the state that a server has a call keep for it.
const MAX_STATE_BYTES: usize = 1024 * 1024;

/// How long to wait before a call is sent again for which nothing was asked: doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The answers to what a server asks, being gathered.
pub(crate) type Gathering = Pin<Box<dyn Future<Output = Result<InputAnswers, CallError>> + Send>>;

/// What a call keeps in order to be sent again, should its server ask for input before it goes on.
///
/// ```text
///   sent ──▶ input required ──▶ gathering ──▶ sent ──▶ … ──▶ complete
/// ```
///
/// State and answers live in this one call, so that they never reach another.
pub(crate) struct Rounds {
    /// The request as it was first written; a second handle to the same bytes.
    first: Bytes,
    first_id: RequestId,
    mode: RoundMode,
    tasks: TaskMode,
    /// Whether a person can be asked to open URLs, after which the request is repeated once.
    urls: Urls,
    /// The limits of one round; the hard one is that of the whole call.
    patience: Patience,
    /// How often the server has asked for input.
    asked: u32,
}

/// What becomes of a call that the server serves only after a person has opened URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urls {
    /// They were opened before.
    Opened,
    /// A person can be asked.
    Served,
    /// Nobody can be asked.
    Unserved,
}

impl Rounds {
    pub(crate) fn new(
        first: Bytes,
        first_id: RequestId,
        mode: RoundMode,
        tasks: TaskMode,
        urls: Urls,
        patience: Patience,
    ) -> Self {
        Self { first, first_id, mode, tasks, urls, patience, asked: 0 }
    }

    /// Begins to have URLs opened that the server wants to be opened first; an error if nobody can be asked,
    /// or was before.
    pub(crate) fn open_urls(
        &mut self,
        handle: &Arc<Handle>,
        mut required: Box<UrlsRequired>,
        depth: u8,
    ) -> Result<Gathering, CallError> {
        match (self.urls, self.mode) {
            (Urls::Served, RoundMode::ByHandler) => {
                self.urls = Urls::Opened;
                Ok(Box::pin(urls::open(Arc::clone(handle), required, self.patience, depth)))
            }
            (Urls::Opened, _) => {
                required.why = UrlsUnopened::Repeated;
                Err(CallError::UrlsRequired(required))
            }
            (Urls::Served | Urls::Unserved, _) => Err(CallError::UrlsRequired(required)),
        }
    }

    /// What an error says of the call, after what has happened before.
    pub(crate) fn explain(&self, error: CallError) -> CallError {
        match (self.has_begun(), self.urls) {
            (true, _) => error.of_later_round(),
            (false, Urls::Opened) => error.of_refused(),
            (false, Urls::Served | Urls::Unserved) => error,
        }
    }

    /// Whether the server has begun with the call: it was answered before, if not with a result.
    fn has_begun(&self) -> bool {
        self.asked > 0
    }

    /// For what an answer keeps its permit.
    pub(crate) fn keeps(&self) -> Keeps {
        match self.tasks {
            TaskMode::ByHand | TaskMode::Followed => Keeps::ForTask(self.patience),
            TaskMode::Refused => Keeps::ForNextRound(self.patience),
        }
    }

    pub(crate) fn mode(&self) -> RoundMode {
        self.mode
    }

    pub(crate) fn tasks(&self) -> TaskMode {
        self.tasks
    }

    /// The limits of a round.
    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// Begins to gather what the server asks for. Nobody is asked anything if one thing cannot be given.
    pub(crate) fn gather(
        &mut self,
        handle: &Arc<Handle>,
        method: &Method,
        required: InputRequired,
        depth: u8,
    ) -> Result<Gathering, CallError> {
        if self.mode == RoundMode::ByHand {
            return Err(CallError::InputRequired(Box::new(required)));
        }
        if self.asked == handle.max_rounds {
            return Err(CallError::Protocol(ProtocolFault::Rounds(self.asked)));
        }
        if required.request_state.as_ref().is_some_and(|state| state.get().len() > MAX_STATE_BYTES) {
            return Err(CallError::Protocol(ProtocolFault::StateTooLarge { limit: MAX_STATE_BYTES }));
        }
        self.asked += 1;
        if required.asks_nothing() {
            let doublings = self.asked.saturating_sub(1).min(8);
            let pause = (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE);
            return Ok(Box::pin(async move {
                sleep(pause).await;
                Ok(InputAnswers::to(&required))
            }));
        }
        let questions = questions(handle.shared.service.as_ref(), method, &required)?;
        Ok(Box::pin(gather(Arc::clone(handle), required, questions, depth)))
    }

    /// Writes the request once more, with the answers.
    pub(crate) fn write(&self, method: &Method, id: i64, answers: &InputAnswers) -> Result<Bytes, CallError> {
        encode_round(&self.first, &self.first_id, method, &RequestId::from(id), answers)
            .map_err(CallError::Encode)
    }
}

/// What the server asks, each under its key.
pub(crate) type Questions = Vec<(String, ServerRequest)>;

/// Reads what the server asks, or says why not all of it can be answered.
pub(crate) fn questions(
    service: Option<&Service>,
    method: &Method,
    required: &InputRequired,
) -> Result<Questions, CallError> {
    let unsupported =
        || CallError::Unsupported { method: method.clone(), why: UnsupportedWhy::InputRequired };
    let service = service.ok_or_else(unsupported)?;
    let inputs = required.input_requests.as_ref();
    if inputs.is_some_and(|inputs| inputs.len() > MAX_INPUTS) {
        return Err(CallError::Protocol(ProtocolFault::TooManyInputs(MAX_INPUTS)));
    }
    let read = |(key, input): (&str, &mcp_proto::InputRequest)| match service.read_input(input) {
        Ok(request) => Ok((key.to_owned(), request)),
        Err(error) if error.code == code::METHOD_NOT_FOUND => Err(unsupported()),
        Err(error) => Err(CallError::Input { method: input.method.clone(), error: Box::new(error) }),
    };
    inputs.into_iter().flat_map(|inputs| inputs.iter()).map(read).collect()
}

/// Gathers the answers to all questions, as [`answer_all`] does.
pub(crate) async fn gather(
    handle: Arc<Handle>,
    required: InputRequired,
    questions: Questions,
    depth: u8,
) -> Result<InputAnswers, CallError> {
    let mut answers = InputAnswers::to(&required);
    for (key, answer) in answer_all(&handle, questions, depth).await? {
        answers.answer_raw(&key, answer);
    }
    Ok(answers)
}

/// Asks for everything at once, within the limits of the handler. Nobody is asked anything if that
/// were too much; the first failure ends the others. `depth` is that of the call.
pub(crate) async fn answer_all(
    handle: &Handle,
    questions: Questions,
    depth: u8,
) -> Result<Vec<(String, RawJson)>, CallError> {
    let mut answers = Vec::with_capacity(questions.len());
    let Some(service) = &handle.shared.service else { return Ok(answers) };
    let disturbing = || questions.iter().map(|(_, request)| request.method()).filter(disturbs);
    let admitted = depth::of_handler(depth).and_then(|depth| {
        service.quota.keep_pace(disturbing().count())?;
        Ok(depth)
    });
    let depth = match admitted {
        Ok(depth) => depth,
        Err(error) => {
            let asked = disturbing().next().or_else(|| Some(questions.first()?.1.method()));
            let method = asked.unwrap_or(Method::ELICITATION_CREATE);
            return Err(CallError::Input { method, error: Box::new(error) });
        }
    };
    let version = handle.shared.version();
    let ask = |(key, request): (String, ServerRequest)| async move {
        let method = request.method().clone();
        match ask(service, request, version, depth).await {
            Ok(answer) => Ok((key, answer)),
            Err(error) => Err(CallError::Input { method, error: Box::new(error) }),
        }
    };
    let mut asking: FuturesUnordered<_> = questions.into_iter().map(ask).collect();
    while let Some(answered) = asking.next().await {
        answers.push(answered?);
    }
    Ok(answers)
}

async fn ask(
    service: &Service,
    request: ServerRequest,
    version: Option<ProtocolVersion>,
    depth: u8,
) -> Result<RawJson, ErrorObject> {
    let _place = service.quota.enter(depth).await?;
    let answer = service.answer(request, version, depth).await?;
    RawJson::from_text(answer.as_str())
        .map_err(|error| ErrorObject::new(code::INTERNAL_ERROR, error.to_string()))
}
