//! URLs that a person must open before a server serves a request (2025-11-25).

use std::sync::Arc;

use mcp_proto::{
    Elicit, ElicitAction, ElicitResult, ElicitUrl, InputAnswers, ServerRequest, UrlElicitationRequired,
};
use tokio::time::{Instant, timeout_at};

use crate::error::{CallError, UrlsUnopened};
use crate::pending::{Patience, later};
use crate::rounds::{MAX_INPUTS, Questions, answer_all};
use crate::service::Service;
use crate::session::Handle;
use crate::wakes::Watch;

/// A person must open URLs before the server serves the request (2025-11-25), and has not.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UrlsRequired {
    /// What to open; untrusted. Show each whole, and open none without consent.
    pub elicitations: Vec<ElicitUrl>,
    /// Why it was not opened, or to no avail.
    pub why: UrlsUnopened,
}

impl UrlsRequired {
    pub(crate) fn new(required: UrlElicitationRequired) -> Self {
        Self { elicitations: required.elicitations, why: UrlsUnopened::Unserved }
    }

    fn because(self, why: UrlsUnopened) -> CallError {
        CallError::UrlsRequired(Box::new(Self { why, ..self }))
    }
}

/// Has a person open what the server wants, and waits until the server tells that it is done; or, as no
/// server has to tell, until half the time is up that the call has left, at most as long as a person may
/// take.
pub(crate) async fn open(
    handle: Arc<Handle>,
    required: Box<UrlsRequired>,
    patience: Patience,
    depth: u8,
) -> Result<InputAnswers, CallError> {
    let shared = &handle.shared;
    let Some(service) = &shared.service else { return Err(CallError::UrlsRequired(required)) };
    let questions = match questions(service, &required.elicitations) {
        Ok(questions) => questions,
        Err(why) => return Err(required.because(why)),
    };
    // Before anybody is asked: it may be done before the answer is here.
    let ids = required.elicitations.iter().filter_map(|asked| asked.elicitation_id.as_deref());
    let awaited: Vec<Watch<'_>> = ids.map(|id| shared.urls.watch(id)).collect();
    let answers = match answer_all(&handle, questions, depth).await {
        Ok(answers) => answers,
        Err(CallError::Input { error, .. }) => return Err(required.because(UrlsUnopened::Refused(error))),
        Err(error) => return Err(error),
    };
    let agrees = |answer: &mcp_proto::RawJson| {
        answer.decode::<ElicitResult>().is_ok_and(|result| result.action == ElicitAction::Accept)
    };
    if !answers.iter().all(|(_, answer)| agrees(answer)) {
        return Err(required.because(UrlsUnopened::Declined));
    }
    let now = Instant::now();
    let half = patience.hard_end.saturating_duration_since(now) / 2;
    let done = async {
        for awaited in &awaited {
            awaited.told().await;
        }
    };
    // Told or not: whether it is done, the server says when it is asked again.
    let _ = timeout_at(later(now, half.min(service.person_limit())), done).await;
    Ok(InputAnswers::default())
}

fn questions(service: &Service, asked: &[ElicitUrl]) -> Result<Questions, UrlsUnopened> {
    if asked.len() > MAX_INPUTS {
        return Err(UrlsUnopened::TooMany(MAX_INPUTS));
    }
    let read = |(index, asked): (usize, &ElicitUrl)| {
        let request = ServerRequest::Elicit(Box::new(Elicit::Url(asked.clone())));
        service.check_manner(&request).map_err(|error| UrlsUnopened::Refused(Box::new(error)))?;
        Ok((index.to_string(), request))
    };
    asked.iter().enumerate().map(read).collect()
}
