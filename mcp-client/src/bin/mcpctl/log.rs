use std::io::{self, Write};

use mcp_proto::Redactor;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Sends log records of at least the wanted level to standard error, one line each.
pub(crate) fn start(verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::OFF,
        1 => LevelFilter::WARN,
        2 => LevelFilter::INFO,
        3 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(Lines).init();
}

/// Makes a writer for each record.
#[derive(Debug, Clone, Copy)]
struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Vec::new())
    }
}

/// One record; written whole when it ends, without anything that looks like a secret.
#[derive(Debug)]
struct Line(Vec<u8>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.0);
        let clean = Redactor::default().redact(&text).into_owned();
        // Without a standard error there is nobody to tell.
        let _ = io::stderr().lock().write_all(clean.as_bytes());
    }
}
