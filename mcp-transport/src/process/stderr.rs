use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_proto::{Redactor, escape};
use memchr::{memchr, memrchr};
use tokio::time::Instant;

/// How much of what a process wrote is kept, in bytes.
const MAX_KEPT: usize = 64 * 1024;

/// How much of one line is kept, in bytes.
const MAX_LINE: usize = 8 * 1024;

/// Longest tail that goes into an error, in bytes.
const MAX_TAIL: usize = 4 * 1024;

/// Lines that are logged a second; the rest is counted.
const MAX_LOGGED: u32 = 100;

const WINDOW: Duration = Duration::from_secs(1);

const CUT: &str = "…";

/// What one process writes to standard error: kept in part, and passed on to the log line by line.
///
/// Bounded whatever comes: the last 64 KiB are kept, lines are cut at 8 KiB, 100 lines a second are
/// logged. Everything that leaves is redacted and escaped.
///
/// The log is told outside the lock: it may be slow, and it may ask for the tail.
#[derive(Debug)]
pub(super) struct StderrLog {
    server: Arc<str>,
    redactor: Arc<Redactor>,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    /// Whole lines, each with a line end.
    kept: VecDeque<u8>,
    /// The line that has no end yet.
    line: Vec<u8>,
    is_cut: bool,
    window: Option<Instant>,
    logged: u32,
    suppressed: u64,
}

/// What is to be logged.
#[derive(Debug)]
enum Note {
    Line(Vec<u8>),
    Suppressed(u64),
}

impl StderrLog {
    pub(super) fn new(server: Arc<str>, redactor: Arc<Redactor>) -> Self {
        Self { server, redactor, lines: Mutex::default() }
    }

    /// Takes in what was read, and logs the lines that it completes.
    pub(super) fn push(&self, bytes: &[u8], now: Instant) {
        let notes = self.lines().push(bytes, now);
        self.tell(notes);
    }

    /// The stream has ended: what stands without a line end is a line as well.
    pub(super) fn finish(&self, now: Instant) {
        let notes = self.lines().finish(now);
        self.tell(notes);
    }

    /// The last lines as one redacted and escaped line of at most 4 KiB.
    pub(super) fn tail(&self) -> String {
        let all = self.lines().all();
        // From the start of a line, so that no secret is cut before it is looked for.
        let (front, _) = all.split_at(all.len().saturating_sub(MAX_TAIL));
        let start = memrchr(b'\n', front).map_or(0, |end| end + 1);
        let text = String::from_utf8_lossy(all.get(start..).unwrap_or_default());
        let redacted = self.redactor.redact(text.trim_ascii());
        let escaped = escape(&redacted, usize::MAX);
        if start == 0 && escaped.len() <= MAX_TAIL {
            return escaped.into_owned();
        }
        let over = escaped.len().saturating_sub(MAX_TAIL - CUT.len());
        format!("{CUT}{}", escaped.get(escaped.ceil_char_boundary(over)..).unwrap_or_default())
    }

    fn tell(&self, notes: Vec<Note>) {
        let server = &*self.server;
        for note in notes {
            match note {
                Note::Line(line) if tracing::enabled!(tracing::Level::DEBUG) => {
                    let text = String::from_utf8_lossy(&line);
                    let redacted = self.redactor.redact(text.trim_ascii_end());
                    tracing::debug!(server, line = &*escape(&redacted, MAX_LINE), "stderr");
                }
                Note::Line(_) => {}
                Note::Suppressed(suppressed) => {
                    tracing::debug!(server, suppressed, "more lines on stderr than are logged");
                }
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn push(&mut self, mut bytes: &[u8], now: Instant) -> Vec<Note> {
        let mut notes = Vec::new();
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            self.extend_line(line);
            self.end_line(now, &mut notes);
        }
        self.extend_line(bytes);
        notes
    }

    fn finish(&mut self, now: Instant) -> Vec<Note> {
        let mut notes = Vec::new();
        if !self.line.is_empty() {
            self.end_line(now, &mut notes);
        }
        self.note_suppressed(&mut notes);
        notes
    }

    fn all(&self) -> Vec<u8> {
        self.kept.iter().chain(&self.line).copied().collect()
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        let room = MAX_LINE - self.line.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.line.extend_from_slice(taken);
        self.is_cut |= taken.len() < bytes.len();
    }

    fn end_line(&mut self, now: Instant, notes: &mut Vec<Note>) {
        if std::mem::take(&mut self.is_cut) {
            self.line.truncate(MAX_LINE - CUT.len());
            self.line.extend_from_slice(CUT.as_bytes());
        }
        self.note(now, notes);
        self.line.push(b'\n');
        self.kept.extend(&self.line);
        self.kept.drain(..self.kept.len().saturating_sub(MAX_KEPT));
        self.line.clear();
    }

    fn note(&mut self, now: Instant, notes: &mut Vec<Note>) {
        if self.window.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            self.note_suppressed(notes);
            (self.window, self.logged) = (Some(now), 0);
        }
        if self.logged >= MAX_LOGGED {
            self.suppressed += 1;
            return;
        }
        self.logged += 1;
        notes.push(Note::Line(self.line.clone()));
    }

    fn note_suppressed(&mut self, notes: &mut Vec<Note>) {
        let suppressed = std::mem::take(&mut self.suppressed);
        if suppressed > 0 {
            notes.push(Note::Suppressed(suppressed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> StderrLog {
        StderrLog::new("server".into(), Arc::new(Redactor::new(["hunter2".into()])))
    }

    #[test]
    fn f158_secrets_are_taken_out_before_anything_is_cut() {
        for padding in [0, 4070, 4080, 4090] {
            let (log, now) = (log(), Instant::now());
            log.push(b"first line\nlogin with hunter2 failed, Authorization: Bearer abcdef ", now);
            log.push("x".repeat(padding).as_bytes(), now);
            let tail = log.tail();
            assert!(!tail.contains("unter2") && !tail.contains("abcdef"), "{tail}");
        }
    }

    #[test]
    fn f158_a_logged_line_holds_no_secret() {
        let (capture, _guard) = crate::testing::checks::LogCapture::on_this_thread();
        let (log, now) = (log(), Instant::now());
        log.push(b"login with hunter2 failed\n", now);
        let [record] = &capture.records()[..] else { panic!("one record for one line") };
        assert_eq!(record.fields["line"], "login with [secret] failed");
    }

    #[test]
    fn the_tail_is_one_escaped_line() {
        let (log, now) = (log(), Instant::now());
        assert_eq!(log.tail(), "");
        log.push(b"first\nsec", now);
        log.push(b"ond \x1b[31m\xff\n", now);
        assert_eq!(log.tail(), "first\\nsecond \\u{1b}[31m\u{fffd}");
        log.push(b"no end", now);
        assert_eq!(log.tail(), "first\\nsecond \\u{1b}[31m\u{fffd}\\nno end");
    }

    #[test]
    fn f030_long_lines_are_cut() {
        let (log, now) = (log(), Instant::now());
        for _ in 0..1000 {
            log.push(&[b'x'; 1000], now);
        }
        assert_eq!(log.lines().line.len(), MAX_LINE);
        log.push(b"\n", now);
        assert_eq!(log.lines().kept.len(), MAX_LINE + 1);
        assert!(log.tail().ends_with("xx…"));
    }

    #[test]
    fn f010_the_tail_is_bounded_whatever_was_written() {
        for text in ["short line\n", "\x1b\x07\x00\n", "ünï\u{202e}cödé\n", "\n"] {
            let (log, now) = (log(), Instant::now());
            for _ in 0..5000 {
                log.push(text.as_bytes(), now);
            }
            let tail = log.tail();
            assert!(tail.len() <= MAX_TAIL, "{} bytes", tail.len());
            assert!(!tail.contains(char::is_control));
        }
    }

    #[test]
    fn f029_a_flood_is_bounded() {
        let (log, start) = (log(), Instant::now());
        for line in 0..100_000 {
            log.push(b"flood\n", start + Duration::from_micros(line));
        }
        let counts = || {
            let lines = log.lines();
            (lines.logged, lines.suppressed)
        };
        assert_eq!(counts(), (MAX_LOGGED, 100_000 - u64::from(MAX_LOGGED)));
        assert!(log.lines().kept.len() <= MAX_KEPT);
        log.push(b"later\n", start + WINDOW);
        assert_eq!(counts(), (1, 0));
    }
}
