use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_proto::{Redactor, Secret, escape};
use serde::Serialize;

use crate::problem::Problem;

/// Longest text of a server in one cell or message, in bytes.
const LONGEST_TEXT: usize = 8 * 1024;

/// Everything this program prints goes through here. Clones share what they know.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    json: bool,
    terminal: bool,
    colours: bool,
    secrets: Secrets,
}

/// The secrets of the configuration. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Arc<Mutex<Redactor>>);

/// What a word means, for the colour it gets on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Bad,
    Good,
    Quiet,
    Strong,
}

impl Output {
    /// `plain` forbids colours even on a terminal.
    pub(crate) fn new(json: bool, plain: bool, secrets: Secrets) -> Self {
        let terminal = !json && io::stdout().is_terminal();
        Self { json, terminal, colours: terminal && !plain, secrets }
    }

    /// Never shows these from now on, but in what a tool was asked to return.
    pub(crate) fn learn<'a>(&self, secrets: impl Iterator<Item = &'a Secret>) {
        let mut known = self.secrets.lock();
        secrets.for_each(|secret| known.add(secret));
    }

    /// Whether machines read along.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints one line on standard output, without secrets. What comes from a server was escaped before.
    ///
    /// # Errors
    ///
    /// Nobody reads standard output any more.
    pub(crate) fn line(&self, line: impl Display) -> io::Result<()> {
        self.result(self.secrets.redact(&line.to_string()))
    }

    /// Prints one JSON document on a line of its own, without secrets.
    ///
    /// # Errors
    ///
    /// Nobody reads standard output any more.
    pub(crate) fn document(&self, value: &impl Serialize) -> io::Result<()> {
        self.line(serde_json::to_string(value)?)
    }

    /// Prints what a server returned to the person who asked for it: nothing is taken out.
    ///
    /// # Errors
    ///
    /// Nobody reads standard output any more.
    #[expect(clippy::unused_self, reason = "everything is printed through this type")]
    pub(crate) fn result(&self, text: impl Display) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }

    /// Prints a message for the person at the terminal on standard error, without secrets.
    pub(crate) fn message(&self, text: impl Display) {
        let text = self.secrets.redact(&text.to_string());
        // Without a standard error there is nobody to tell.
        let _ = writeln!(io::stderr().lock(), "mcpctl: {text}");
    }

    /// Prints an address that a person has to open, as it is: it holds what looks like secrets, and works
    /// only whole. It must have no character outside RFC 3986.
    pub(crate) fn address(&self, what: &str, address: &str) {
        self.message(what);
        // Without a standard error there is nobody to tell.
        let _ = writeln!(io::stderr().lock(), "{}", safe_lines(address));
    }

    /// Lays rows out: in columns for people, with tabs between the cells for programs.
    pub(crate) fn rows(&self, rows: &[Vec<String>]) -> Vec<String> {
        if self.terminal { table(rows) } else { rows.iter().map(|row| row.join("\t")).collect() }
    }

    /// Writes a duration: as people say it, or in milliseconds for programs.
    pub(crate) fn duration(&self, duration: Duration) -> String {
        if self.terminal { human(duration) } else { format!("{}ms", duration.as_millis()) }
    }

    /// Prints why a command did not do what was asked: a sentence, or a document for machines.
    pub(crate) fn problem(&self, problem: &Problem) {
        if problem.message.is_empty() {
            return;
        }
        // Whoever closed standard output still has standard error.
        if !(self.json && self.document(problem).is_ok()) {
            self.message(problem);
        }
    }

    /// Colours a text on a terminal.
    pub(crate) fn tone(&self, tone: Tone, text: impl Display) -> String {
        let code = match tone {
            Tone::Bad => 31,
            Tone::Good => 32,
            Tone::Quiet => 2,
            Tone::Strong => 1,
        };
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }
}

impl Secrets {
    /// Takes every secret that is known out of a text, and what looks like one.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.lock().redact(text).into_owned()
    }

    fn lock(&self) -> MutexGuard<'_, Redactor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a text from a server safe to print: one line, nothing invisible, bounded.
pub(crate) fn safe(text: &str) -> String {
    escape(text, LONGEST_TEXT).into_owned()
}

/// Makes a longer text from a server safe to print and keeps its lines.
pub(crate) fn safe_lines(text: &str) -> String {
    text.lines().map(|line| escape(line, line.len()).into_owned()).collect::<Vec<_>>().join("\n")
}

/// Writes a duration the way people say it: `3ms`, `1.2s`, `5m`.
pub(crate) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match duration.as_millis() {
        0..1_000 => format!("{}ms", duration.as_millis()),
        1_000..60_000 => format!("{seconds:.1}s"),
        60_000..3_600_000 => format!("{:.0}m", seconds / 60.0),
        _ => format!("{:.1}h", seconds / 3600.0),
    }
}

/// Lays rows out in columns. The last column is not padded.
fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f176_nothing_of_a_server_reaches_the_terminal_raw() {
        let every_control: String = (0u8..=0x9f).map(char::from).filter(|c| c.is_control()).collect();
        let hostile = format!("{every_control}\u{1b}]52;c;ZXZpbA==\u{7}\u{202e}\u{e0041}\r\n");
        assert!(!safe(&hostile).contains(|c: char| c.is_control() || c == '\u{202e}' || c == '\u{e0041}'));
        assert_eq!(safe_lines("a\u{1b}[2Jb\nc\rd"), "a\\u{1b}[2Jb\nc\\rd");
    }

    #[test]
    fn durations_are_short() {
        let shown = [0, 999, 1_500, 59_900, 300_000, 7_200_000].map(|ms| human(Duration::from_millis(ms)));
        assert_eq!(shown, ["0ms", "999ms", "1.5s", "59.9s", "5m", "2.0h"]);
    }

    #[test]
    fn tables_line_up() {
        let rows = [["a", "bb", "c"], ["ää", "b", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), ["a   bb  c", "ää  b"]);
    }
}
