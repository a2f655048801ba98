use std::io;
use std::sync::Arc;

use mcp_lifecycle::ShutdownReport;
use serde::Serialize;

use crate::exit::Exit;
use crate::output::{Output, Tone, safe};
use crate::problem::{Problem, concluded};

/// One promise, judged.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) ok: bool,
    pub(super) detail: String,
}

impl Check {
    pub(super) fn new(name: &'static str, ok: bool, detail: impl Into<String>) -> Self {
        Self { name, ok, detail: detail.into() }
    }
}

/// The checks so far; shows each as soon as it is decided.
#[derive(Debug)]
pub(super) struct Board {
    output: Output,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Document<'a> {
    ok: bool,
    checks: &'a [Check],
    shutdown: Option<&'a ShutdownReport>,
}

impl Board {
    pub(super) fn new(output: &Output) -> Self {
        Self { output: output.clone(), checks: Vec::new() }
    }

    pub(super) fn headline(&self, text: &str) -> io::Result<()> {
        if self.output.is_json() { Ok(()) } else { self.output.line(self.output.tone(Tone::Strong, text)) }
    }

    pub(super) fn add(&mut self, check: Check) -> io::Result<()> {
        if !self.output.is_json() {
            let verdict = match check.ok {
                true => self.output.tone(Tone::Good, "ok  "),
                false => self.output.tone(Tone::Bad, "FAIL"),
            };
            self.output.line(format!("{verdict}  {:<12}  {}", check.name, safe(&check.detail)))?;
        }
        self.checks.push(check);
        Ok(())
    }

    /// Shows the verdict.
    pub(super) fn finish(self, shutdown: &Option<Arc<ShutdownReport>>) -> Result<Exit, Problem> {
        let failed = self.checks.iter().filter(|check| !check.ok).count();
        let exit = if failed == 0 { Exit::Success } else { Exit::Failed };
        let printed = if self.output.is_json() {
            let document = Document { ok: failed == 0, checks: &self.checks, shutdown: shutdown.as_deref() };
            self.output.document(&document)
        } else {
            let verdict = match failed {
                0 => self.output.tone(Tone::Good, "every promise held"),
                _ => self
                    .output
                    .tone(Tone::Bad, format!("{failed} of {} promises were broken", self.checks.len())),
            };
            self.output.line(verdict)
        };
        concluded(printed, exit)
    }
}
