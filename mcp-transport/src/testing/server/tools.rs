use std::time::Duration;

use mcp_proto::code;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::state::{Counters, Request, Server, error};
use super::{Execution, ToolBehaviour};
use crate::error::CloseReason;
use crate::testing::behaviour::Action;

impl Server {
    pub(super) fn call_tool(&mut self, request: &Request<'_>, now: Instant) -> Vec<Action> {
        self.counters.calls += 1;
        let name = request.params["name"].as_str().unwrap_or_default();
        let arguments = &request.params["arguments"];
        let Some(behaviour) = self.script.tool(name) else {
            return vec![error(&request.id, code::INVALID_PARAMS, "unknown tool")];
        };
        self.log.execution(Execution {
            connection: self.connection,
            id: request.id.clone(),
            tool: name.to_owned(),
            arguments: arguments.clone(),
        });
        let delay = match behaviour {
            ToolBehaviour::Slow(delay) => delay,
            _ => Duration::from_millis(arguments["delay_ms"].as_u64().unwrap_or(0)),
        };
        match behaviour {
            ToolBehaviour::Crash(exit) => vec![Action::Close(CloseReason::Exited(exit))],
            ToolBehaviour::Echo | ToolBehaviour::Slow(_) => self.echo(request, delay, now),
            ToolBehaviour::Error(code) => self.answer(vec![error(&request.id, code, "as it was told to")]),
            ToolBehaviour::Fail => {
                let mut failure = text_result("it did not work");
                failure["isError"] = true.into();
                let failure = self.result(request, failure);
                self.answer(vec![failure])
            }
            ToolBehaviour::Hang => {
                self.open_calls.insert(request.id.clone(), None);
                Vec::new()
            }
            ToolBehaviour::Stats => {
                let Counters { calls, cancelled, answered } = self.counters;
                let stats = json!({"calls": calls, "cancelled": cancelled, "answered": answered});
                let stats = self.result(request, text_result(&stats.to_string()));
                self.after_flood(vec![stats])
            }
        }
    }

    fn echo(&mut self, request: &Request<'_>, delay: Duration, now: Instant) -> Vec<Action> {
        let arguments = &request.params["arguments"];
        let text = match arguments["payload"].as_u64().and_then(|size| usize::try_from(size).ok()) {
            Some(size) => text_result(&"x".repeat(size)),
            None => text_result(arguments["message"].as_str().unwrap_or_default()),
        };
        let token = &request.params["_meta"]["progressToken"];
        let reports = if token.is_null() { 0 } else { arguments["progress"].as_u64().unwrap_or(0) };
        let progress = |done| {
            Action::Send(json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": done, "total": reports}}))
        };
        let mut actions: Vec<Action> = (1..=reports).map(progress).collect();
        let Action::Send(answer) = self.result(request, text) else { unreachable!("results are sent") };
        if delay.is_zero() {
            actions.append(&mut self.answer(vec![Action::Send(answer)]));
        } else {
            self.open_calls.insert(request.id.clone(), Some((now + delay, answer)));
        }
        actions
    }

    /// Counts the answer to a tool call.
    pub(super) fn answer(&mut self, answer: Vec<Action>) -> Vec<Action> {
        self.counters.answered += 1;
        self.after_flood(answer)
    }

    fn after_flood(&self, answer: Vec<Action>) -> Vec<Action> {
        let flood = std::iter::repeat_n(&self.flood_line, self.script.flood);
        flood.map(|line| Action::SendRaw(line.clone())).chain(answer).collect()
    }
}

fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}
