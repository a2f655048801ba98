use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::output::Secrets;

/// Bytes that are written at once: what a pipe takes without waiting when it takes anything.
const PIECE: usize = 4096;

/// Sends log records of at least the wanted level to standard error, one line each, without secrets.
///
/// Nobody ever waits for standard error to log: records that it does not take are counted instead.
pub(crate) fn start(verbosity: u8, secrets: Secrets) {
    let level = match verbosity {
        0 => LevelFilter::OFF,
        1 => LevelFilter::WARN,
        2 => LevelFilter::INFO,
        3 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let lines = Lines { secrets, sink: Sink::default() };
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(lines).init();
}

/// Makes a writer for each record.
#[derive(Debug)]
struct Lines {
    secrets: Secrets,
    sink: Sink,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { text: Vec::new(), lines: self }
    }
}

/// One record, written whole when it ends.
#[derive(Debug)]
struct Line<'a> {
    text: Vec<u8>,
    lines: &'a Lines,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let clean = self.lines.secrets.redact(&String::from_utf8_lossy(&self.text));
        // Not through the lock of the standard library: whoever holds it may be waiting for a reader.
        self.lines.sink.write(io::stderr().as_fd(), clean.as_bytes());
    }
}

/// Drops what cannot be written at once, for the threads that log have servers to look after, and says
/// later how much it was.
#[derive(Debug, Default)]
struct Sink(Mutex<Lost>);

#[derive(Debug, Default)]
struct Lost {
    lines: u64,
    /// The last line that was written has no end.
    is_in_line: bool,
}

impl Sink {
    fn write(&self, to: BorrowedFd<'_>, line: &[u8]) {
        let mut lost = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lost.lines > 0 {
            let begin = if lost.is_in_line { "\n" } else { "" };
            let note = format!("{begin}[lines missing from the log here: {}]\n", lost.lines);
            if !lost.note_unless_whole(to, note.as_bytes()) {
                return;
            }
            *lost = Lost::default();
        }
        lost.note_unless_whole(to, line);
    }
}

impl Lost {
    /// Writes a line if that needs no waiting; otherwise notes that it is missing.
    fn note_unless_whole(&mut self, to: BorrowedFd<'_>, line: &[u8]) -> bool {
        let left = write_at_once(to, line);
        if left > 0 {
            self.lines += 1;
            self.is_in_line |= left < line.len();
        }
        left == 0
    }
}

/// Answers how many bytes could not be written.
fn write_at_once(to: BorrowedFd<'_>, mut text: &[u8]) -> usize {
    while !text.is_empty() && is_writable(to) {
        match rustix::io::write(to, text.get(..PIECE).unwrap_or(text)) {
            Ok(written) => text = text.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Without a standard error there is nobody to tell.
            Err(_) => break,
        }
    }
    text.len()
}

fn is_writable(to: BorrowedFd<'_>) -> bool {
    let mut streams = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    poll(&mut streams, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_log_that_nobody_reads_holds_nobody_up_and_says_what_is_missing() {
        let (mut reader, writer) = io::pipe().unwrap();
        let sink = Sink::default();
        let line = format!("{}\n", "x".repeat(99));
        // Twenty times what the pipe holds: a write that waits would wait for ever.
        let written = 13_000;
        for _ in 0..written {
            sink.write(writer.as_fd(), line.as_bytes());
        }
        let lost = sink.0.lock().unwrap().lines;
        assert!(lost > 0 && lost < written, "{lost}");
        let mut kept = vec![0; line.len() * usize::try_from(written - lost).unwrap()];
        reader.read_exact(&mut kept).unwrap();
        assert_eq!(String::from_utf8(kept).unwrap(), line.repeat(usize::try_from(written - lost).unwrap()));
        sink.write(writer.as_fd(), b"after\n");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, format!("[lines missing from the log here: {lost}]\nafter\n"));
    }

    #[test]
    fn a_long_line_that_is_cut_is_ended_before_the_note() {
        let (mut reader, writer) = io::pipe().unwrap();
        let sink = Sink::default();
        sink.write(writer.as_fd(), &vec![b'x'; 1024 * 1024]);
        assert_eq!(sink.0.lock().unwrap().lines, 1);
        let mut begin = vec![0; 2 * PIECE];
        reader.read_exact(&mut begin).unwrap();
        sink.write(writer.as_fd(), b"after\n");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("xx\n[lines missing from the log here: 1]\nafter\n"), "{rest:.100}");
    }
}
