use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::output::Secrets;

/// Sends log records of at least the wanted level to standard error, one line each, without secrets.
pub(crate) fn start(verbosity: u8, secrets: Secrets) {
    let level = match verbosity {
        0 => LevelFilter::OFF,
        1 => LevelFilter::WARN,
        2 => LevelFilter::INFO,
        3 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(Lines(secrets)).init();
}

/// Makes a writer for each record.
#[derive(Debug)]
struct Lines(Secrets);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { text: Vec::new(), secrets: &self.0 }
    }
}

/// One record, written whole when it ends.
#[derive(Debug)]
struct Line<'a> {
    text: Vec<u8>,
    secrets: &'a Secrets,
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
        let clean = self.secrets.redact(&String::from_utf8_lossy(&self.text));
        // Without a standard error there is nobody to tell.
        let _ = io::stderr().lock().write_all(clean.as_bytes());
    }
}
