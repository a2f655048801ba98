use std::collections::BTreeMap;
use std::io;

use mcp_client::Client;
use mcp_lifecycle::{BreakerState, ServerEvent, ServerStatus};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::output::{Output, Tone, human, safe};

/// Shows what the client publishes of its servers while the checks go on. Nothing is judged by it.
pub(super) struct Live {
    events: Receiver<ServerEvent>,
    output: Output,
    /// What was shown last of each server.
    shown: BTreeMap<String, String>,
}

impl Live {
    /// Shows what happens from now on.
    pub(super) fn new(client: &Client, output: &Output) -> Self {
        Self { events: client.events(), output: output.clone(), shown: BTreeMap::new() }
    }

    /// Shows snapshots as they come, until nobody reads them any more: that is the error.
    pub(super) async fn show(&mut self) -> io::Error {
        loop {
            let shown = match self.events.recv().await {
                Ok(event) => self.show_event(&event),
                Err(RecvError::Lagged(missed)) => self.line(&format!("{missed} changes were not shown")),
                // There is nothing more to show.
                Err(RecvError::Closed) => std::future::pending().await,
            };
            if let Err(error) = shown {
                return error;
            }
        }
    }

    /// Shows what has happened and was not shown yet.
    pub(super) fn catch_up(&mut self) -> io::Result<()> {
        while let Ok(event) = self.events.try_recv() {
            self.show_event(&event)?;
        }
        Ok(())
    }

    fn show_event(&mut self, event: &ServerEvent) -> io::Result<()> {
        let (ServerEvent::StateChanged { status } | ServerEvent::BreakerChanged { status }) = event else {
            return Ok(());
        };
        let now = described(status);
        let before = self.shown.insert(status.name.to_string(), now.clone());
        if before.as_ref() == Some(&now) {
            return Ok(());
        }
        self.line(&format!("{:<12}  {now}", safe(&status.name)))
    }

    fn line(&self, text: &str) -> io::Result<()> {
        if self.output.is_json() {
            return Ok(());
        }
        self.output.line(self.output.tone(Tone::Quiet, format!("      {text}")))
    }
}

/// A snapshot in one line.
fn described(status: &ServerStatus) -> String {
    let mut text = format!("{} generation {}", status.state.name(), status.generation);
    if let Some(attempt) = status.state.attempt() {
        text += &format!(", attempt {attempt}");
    }
    if let Some(until) = status.state.until() {
        text += &format!(", next in {}", human(until.saturating_duration_since(Instant::now())));
    }
    match status.breaker {
        BreakerState::Closed => {}
        BreakerState::HalfOpen => text += ", breaker lets one call try",
        _ => text += ", breaker open",
    }
    if status.in_flight > 0 {
        text += &format!(", {} in flight", status.in_flight);
    }
    text
}
