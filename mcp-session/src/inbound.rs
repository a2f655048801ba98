use std::borrow::Cow;
use std::fmt::Display;

use mcp_proto::tasks::Task;
use mcp_proto::{
    Cancelled, ElicitationComplete, EnvelopeError, ErrorObject, Frame, LogMessage, Message, Method,
    OtherMembers, Outcome, Payload, Progress, RawJson, RequestId, code, encode_error, encode_result,
    parse_frame,
};
use mcp_transport::{Broken, BrokenWhy, Inbound, Outbound, Rejection, Streams};
use tokio::time::Instant;

use crate::error::{CallError, ProtocolFault};
use crate::inbox::ListKind;
use crate::shared::{Entry, Shared};

/// Most bytes of progress that are kept whole, and of its message: what is shown of any text.
const MAX_PROGRESS: usize = 8 * 1024;

/// What arrives, sent to where it belongs. Nothing here waits.
impl Shared {
    pub(crate) fn route(&self, inbound: Inbound) {
        if let Inbound::OwnStream { is_open } = inbound {
            // No frame: it says nothing about the server.
            return self.inbox.note_own_stream(is_open);
        }
        match inbound {
            Inbound::Message { frame, stream } => {
                self.counts.frames.add();
                match parse_frame(&frame) {
                    Ok(Frame::Single(message)) => self.on_message(message, stream.as_ref()),
                    Ok(Frame::Batch(entries)) => self.on_batch(entries, stream.as_ref()),
                    Err(error) => self.on_invalid(error),
                }
            }
            Inbound::Broken(broken) => self.on_broken(broken),
            Inbound::StreamEnded { id, why } => self.end_call(&id, why.into()),
            other => tracing::debug!(?other, "an event of the transport that this version does not know"),
        }
    }

    /// `stream`: the request on whose own stream the message came. Only that one can be answered there.
    fn on_message(&self, message: Message, stream: Option<&RequestId>) {
        match (message, stream) {
            (Message::Response { id: Some(id), .. }, Some(asked)) if id != *asked => {
                tracing::debug!(id = %self.discreet(&id), asked = %self.discreet(&asked), "an answer with the id of another request");
                self.end_call(asked, CallError::Protocol(ProtocolFault::IdMismatch));
            }
            (Message::Response { id: None, outcome }, Some(asked)) => {
                self.on_reply(asked, outcome);
                self.end_stream(asked);
            }
            (message, _) => self.on_own_message(message, stream),
        }
    }

    fn on_own_message(&self, message: Message, stream: Option<&RequestId>) {
        match message {
            Message::Response { id: Some(id), outcome } => {
                self.on_reply(&id, outcome);
                if stream.is_none() {
                    self.end_stream(&id);
                }
            }
            Message::Response { id: None, outcome } => self.on_error_without_id(outcome),
            Message::Notification { method, params } => self.on_notification(&method, &params, stream),
            Message::Request { id, method, params } => self.on_request(&id, &method, &params, stream),
        }
    }

    /// Takes secrets out of an error before anybody can show or log it; a result is nobody's but the
    /// caller's.
    fn without_secrets(&self, outcome: Outcome) -> Outcome {
        outcome.map_err(|mut error| {
            self.redact_error(&mut error);
            error
        })
    }

    /// Takes secrets out of what a server says of a task, before any of it can be cut.
    pub(crate) fn discreet_task(&self, mut task: Task) -> Task {
        if let Some(message) = &mut task.status_message {
            self.redact(message);
        }
        if let Some(error) = &mut task.error {
            self.redact_error(error);
        }
        task
    }

    /// Takes secrets out of message and details. The page that a person is to open is for that person, as
    /// a result is: it stays as it is.
    fn redact_error(&self, error: &mut ErrorObject) {
        self.redact(&mut error.message);
        let details = error.data.as_ref().filter(|_| error.code != code::URL_ELICITATION_REQUIRED);
        let (Some(redactor), Some(details)) = (&self.redactor, details) else { return };
        if let Cow::Owned(text) = redactor.redact(details.get()) {
            // A marker that has swallowed a quote leaves no JSON: then they are one text.
            error.data = RawJson::from_text(&text).or_else(|_| RawJson::encode(&text)).ok();
        }
    }

    /// Takes secrets out of what a server says with an HTTP status, as out of any other error.
    pub(crate) fn redact_rejection(&self, rejection: &mut Rejection) {
        self.redact(&mut rejection.text);
        // Only now: a secret must not be cut before it is taken out.
        rejection.text = rejection.shown().into_owned();
        if let Some(challenge) = &mut rejection.challenge {
            self.redact(challenge);
        }
        if let Some(error) = &mut rejection.error {
            self.redact_error(error);
        }
    }

    /// A name that the server has chosen, for a log line.
    pub(crate) fn discreet(&self, name: &impl Display) -> String {
        let mut name = name.to_string();
        self.redact(&mut name);
        name
    }

    fn redact(&self, text: &mut String) {
        if let Some(redactor) = &self.redactor {
            *text = redactor.redact(text).into_owned();
        }
    }

    fn on_reply(&self, id: &RequestId, outcome: Outcome) {
        let outcome = self.without_secrets(outcome);
        let RequestId::Number(number) = *id else { return self.on_unknown_reply(id) };
        let taken = self.table().remove_if(number, Entry::may_be_answered);
        match taken {
            Some(entry) => self.answer(entry, outcome.map_err(CallError::Peer)),
            // Ahead of its request, as an id that was not issued yet.
            None if self.table().get(number).is_some() => self.on_unknown_reply(id),
            None if (self.first_id..self.ids.upcoming()).contains(&number) => {
                self.counts.late_replies.add();
                tracing::debug!(request_id = number, "answer to a call that has ended");
                self.on_late_reply(number, &outcome);
            }
            None => self.on_unknown_reply(id),
        }
    }

    /// A task that nobody wants any more, since its call was given up before it was known, is cancelled.
    fn on_late_reply(&self, id: i64, outcome: &Outcome) {
        let (Ok(result), true) = (outcome, self.tasks.take_late(id)) else { return };
        if let Some((agreed, task)) =
            self.agreed.get().and_then(|agreed| Some((agreed, agreed.task_in(result)?)))
        {
            drop(self.ticket(agreed, &task));
        }
    }

    fn on_unknown_reply(&self, id: &RequestId) {
        if self.counts.unknown_replies.add() {
            tracing::warn!(request_id = %self.discreet(id), "answer to a request that was never made; further ones are counted only");
        }
    }

    /// An error about a request whose id the server could not read. With one call waiting there is no
    /// doubt which.
    fn on_error_without_id(&self, outcome: Outcome) {
        let Err(error) = self.without_secrets(outcome) else { return };
        let mut table = self.table();
        let taken = table.sole(Entry::is_owed).and_then(|id| Some((id, table.remove(id)?)));
        drop(table);
        let is_first = self.counts.unknown_replies.add();
        match taken {
            Some((id, entry)) => {
                self.answer(entry, Err(CallError::Peer(error)));
                self.end_stream(&id.into());
            }
            None if is_first => tracing::warn!(%error, "error without an id; further ones are counted only"),
            None => tracing::debug!(%error, "error without an id"),
        }
    }

    fn on_batch(&self, entries: Vec<Result<Message, EnvelopeError>>, stream: Option<&RequestId>) {
        let is_agreed = self.agreed.get().is_some_and(|agreed| agreed.has_batches());
        if !is_agreed && self.counts.broken_frames.add() {
            tracing::warn!("the server sent a batch, which the agreed version does not have");
        }
        for entry in entries {
            match entry {
                Ok(message) if is_agreed => self.on_message(message, stream),
                Ok(Message::Response { id: Some(id), .. }) => self.fail(&id, ProtocolFault::Batch),
                Ok(_) => {}
                Err(error) => self.on_invalid(error),
            }
        }
    }

    fn on_invalid(&self, error: EnvelopeError) {
        if self.counts.broken_frames.add() {
            tracing::warn!(%error, "the server sent a broken message; further ones are counted only");
        }
        if let Some(id) = error.id {
            self.fail(&id, ProtocolFault::Envelope(error.fault));
        }
    }

    fn on_broken(&self, broken: Broken) {
        // That nothing came, or no more, may be due to anything between here and the server.
        if !matches!(broken.why, BrokenWhy::Cut | BrokenWhy::NoReply) {
            self.counts.frames.add();
        }
        if self.counts.broken_frames.add() {
            tracing::warn!(why = %broken.why, "the server sent a broken message; further ones are counted only");
        }
        if let Some(id) = &broken.id {
            self.end_call(id, broken.why.into());
        }
    }

    /// Ends the one call that a faulty message belongs to; all others go on.
    fn fail(&self, id: &RequestId, fault: ProtocolFault) {
        self.end_call(id, CallError::Protocol(fault));
    }

    /// Ends a call with an error, if it has not ended yet.
    fn end_call(&self, id: &RequestId, error: CallError) {
        let RequestId::Number(number) = *id else { return };
        let taken = self.table().remove_if(number, Entry::may_be_answered);
        if let Some(entry) = taken {
            self.answer(entry, Err(error));
            self.end_stream(id);
        }
    }

    /// Ends what a transport still holds of a request that has ended otherwise than by its answer on its own
    /// stream: the request may be under way, and the stream may stay open for as long as the server likes.
    fn end_stream(&self, id: &RequestId) {
        if self.transport.streams() == Streams::PerRequest {
            self.transport.abandon(id, None);
        }
    }

    fn on_notification(&self, method: &Method, params: &Payload, stream: Option<&RequestId>) {
        if *method == Method::PROGRESS {
            self.on_progress(params);
        } else if *method == Method::LOG_MESSAGE {
            self.on_log(params);
        } else if *method == Method::TOOLS_LIST_CHANGED {
            self.on_list_changed(ListKind::Tools, params, stream);
        } else if *method == Method::RESOURCES_LIST_CHANGED {
            self.on_list_changed(ListKind::Resources, params, stream);
        } else if *method == Method::PROMPTS_LIST_CHANGED {
            self.on_list_changed(ListKind::Prompts, params, stream);
        } else if *method == Method::RESOURCES_UPDATED {
            self.on_resource_updated(params, stream);
        } else if *method == Method::SUBSCRIPTIONS_ACKNOWLEDGED {
            self.on_acknowledged(params, stream);
        } else if *method == Method::CANCELLED {
            self.on_cancelled(params, stream);
        } else if *method == Method::TASKS_STATUS || *method == Method::TASKS_CHANGED {
            self.on_task_changed(params, stream);
        } else if *method == Method::ELICITATION_COMPLETE {
            self.on_elicitation_complete(params);
        } else {
            self.counts.ignored_notifications.add();
        }
    }

    /// The server withdraws a request: it is served no further and gets no answer. In the modern era it
    /// ends a subscription.
    fn on_cancelled(&self, params: &Payload, stream: Option<&RequestId>) {
        let Ok(notice) = params.decode::<Cancelled>() else {
            self.counts.ignored_notifications.add();
            return;
        };
        let id = &notice.request_id;
        if self.withdraw(id) || self.withdraw_subscription(id, stream) {
            let mut reason = notice.reason.unwrap_or_default();
            self.redact(&mut reason);
            let reason = mcp_proto::escape(&reason, 128);
            tracing::debug!(request_id = %self.discreet(id), %reason, "the server has withdrawn a request");
        } else {
            self.counts.ignored_notifications.add();
        }
    }

    /// What a URL asked of a person is done, says the server.
    fn on_elicitation_complete(&self, params: &Payload) {
        let is_awaited = !self.urls.is_empty()
            && params.decode::<ElicitationComplete>().is_ok_and(|done| self.urls.wake(&done.elicitation_id));
        if !is_awaited {
            self.counts.ignored_notifications.add();
        }
    }

    fn on_log(&self, params: &Payload) {
        let Ok(message) = params.decode::<LogMessage>() else {
            self.counts.ignored_notifications.add();
            return;
        };
        let dropped = self.inbox.log(message, params.as_bytes().len());
        if dropped > 0 && self.counts.dropped_events.add_many(dropped) {
            tracing::warn!("log lines of the server are dropped because nobody takes them fast enough");
        }
    }

    fn on_progress(&self, params: &Payload) {
        let Ok(mut progress) = params.decode::<Progress>() else {
            self.counts.ignored_notifications.add();
            return;
        };
        // The newest progress of every call is kept until its caller looks.
        if params.as_bytes().len() > MAX_PROGRESS {
            (progress.meta, progress.other) = (None, OtherMembers::default());
            if let Some(message) = &mut progress.message {
                message.truncate(message.floor_char_boundary(MAX_PROGRESS));
                message.shrink_to_fit();
            }
        }
        let RequestId::Number(id) = progress.progress_token else {
            self.counts.ignored_progress.add();
            return;
        };
        let found = self
            .table()
            .get(id)
            .filter(|entry| entry.is_call())
            .map(|entry| (entry.slot.clone(), entry.origin.wants_progress));
        let Some((slot, is_wanted)) = found else { return self.on_task_progress(id, progress) };
        if slot.report(progress, is_wanted) {
            self.table().extend(id, Instant::now());
        } else {
            self.counts.ignored_progress.add();
        }
    }

    /// Progress under the token of a request that has ended: it may have become a task.
    fn on_task_progress(&self, token: i64, progress: Progress) {
        let Some(questions) = self.tasks.tokens.report(token, progress) else {
            self.counts.ignored_progress.add();
            return;
        };
        let now = Instant::now();
        let mut table = self.table();
        questions.into_iter().for_each(|question| table.extend(question, now));
    }

    /// Server and client count their ids separately, so an id here never meets the pending table.
    fn on_request(&self, id: &RequestId, method: &Method, params: &Payload, stream: Option<&RequestId>) {
        // Before the handshake is over, only a legacy server can ask anything.
        if !self.agreed.get().is_none_or(|agreed| agreed.answers_requests()) {
            if self.counts.refused_requests.add() {
                tracing::warn!(method = %self.discreet(method), "request from a server whose protocol version has none; ignored");
            }
            return;
        }
        if *method == Method::PING {
            return self.post(Outbound::response(encode_result(id, &Payload::EMPTY)));
        }
        let Err(error) = self.accept(id, method, params, stream) else { return };
        self.counts.refused_requests.add();
        tracing::debug!(request_id = %self.discreet(id), method = %self.discreet(method), %error, "request of the server refused");
        match encode_error(id, &error) {
            Ok(frame) => self.post(Outbound::response(frame)),
            Err(error) => tracing::error!(%error, "an error object could not be written"),
        }
    }
}
