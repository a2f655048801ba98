use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// The subscriber of a whole process can be set once; `None` if somebody else has set it.
static GLOBAL: OnceLock<Option<LogCapture>> = OnceLock::new();

/// Everything that was logged, for exact counts. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct LogCapture {
    records: Arc<Mutex<Vec<LogRecord>>>,
    spans: Arc<Mutex<Spans>>,
}

/// The spans that were opened, and on which thread which ones are entered.
#[derive(Debug, Default)]
struct Spans {
    texts: Vec<String>,
    entered: BTreeMap<String, Vec<u64>>,
}

/// One log event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogRecord {
    /// How grave it is.
    pub level: Level,
    /// The module it comes from.
    pub target: String,
    /// Its text.
    pub message: String,
    /// Its other fields, as text.
    pub fields: BTreeMap<String, String>,
    /// The spans that it stands in, from the outermost, each with its fields: `connection generation=1`.
    pub spans: Vec<String>,
}

impl LogCapture {
    /// Captures what this thread logs, until the guard is dropped.
    #[must_use]
    pub fn on_this_thread() -> (Self, DefaultGuard) {
        // A thread without a subscriber that is the first to reach an event would switch that event off
        // for all threads, as long as ours is the only one.
        let _ = Self::of_the_process();
        let capture = Self::default();
        let guard = tracing::subscriber::set_default(Capturing(capture.clone()));
        (capture, guard)
    }

    /// Captures what every thread of the process logs; each call gives the same capture.
    ///
    /// # Panics
    ///
    /// Another subscriber has been set for the process.
    #[must_use]
    pub fn global() -> Self {
        Self::of_the_process().expect("no other subscriber is set in this process")
    }

    fn of_the_process() -> Option<Self> {
        let capture = GLOBAL.get_or_init(|| {
            let capture = Self::default();
            tracing::subscriber::set_global_default(Capturing(capture.clone())).is_ok().then_some(capture)
        });
        capture.clone()
    }

    /// All events so far, in order.
    #[must_use]
    pub fn records(&self) -> Vec<LogRecord> {
        self.lock().clone()
    }

    /// The events of one level.
    #[must_use]
    pub fn at(&self, level: Level) -> Vec<LogRecord> {
        self.lock().iter().filter(|record| record.level == level).cloned().collect()
    }

    /// Forgets all events so far.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn spans(&self) -> MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LogRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows an event as one line: level, module, text, fields.
impl fmt::Display for LogRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.level, self.target, self.message)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))?;
        self.spans.iter().rev().try_for_each(|span| write!(f, " in {span}"))
    }
}

struct Capturing(LogCapture);

impl Subscriber for Capturing {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut record = LogRecord {
            level: *metadata.level(),
            target: metadata.target().to_owned(),
            message: String::new(),
            fields: BTreeMap::new(),
            spans: self.0.spans().around(),
        };
        event.record(&mut record);
        self.0.lock().push(record);
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut text = SpanText(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        let mut spans = self.0.spans();
        spans.texts.push(text.0);
        Id::from_u64(spans.texts.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, id: &Id) {
        self.0.spans().entered().push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        let mut spans = self.0.spans();
        let entered = spans.entered();
        if let Some(index) = entered.iter().rposition(|entered| *entered == id.into_u64()) {
            entered.remove(index);
        }
    }
}

impl Spans {
    /// The spans that this thread is in.
    fn entered(&mut self) -> &mut Vec<u64> {
        self.entered.entry(format!("{:?}", std::thread::current().id())).or_default()
    }

    fn around(&mut self) -> Vec<String> {
        let ids = self.entered().clone();
        ids.iter().filter_map(|id| self.texts.get(usize::try_from(*id).ok()? - 1).cloned()).collect()
    }
}

/// A span as text: its name and its fields.
struct SpanText(String);

impl Visit for SpanText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl Visit for LogRecord {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        match field.name() {
            "message" => self.message = value,
            name => drop(self.fields.insert(name.to_owned(), value)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            name => drop(self.fields.insert(name.to_owned(), value.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_captured_with_their_fields_until_the_guard_is_dropped() {
        let (capture, guard) = LogCapture::on_this_thread();
        tracing::warn!(server = "a", attempt = 3, "it {}", "failed");
        tracing::debug!("small talk");
        drop(guard);
        tracing::warn!("unheard");
        let records = capture.records();
        assert_eq!((records.len(), capture.at(Level::WARN).len()), (2, 1));
        assert_eq!(records[0].message, "it failed");
        assert_eq!(records[0].fields["server"], "a");
        assert!(records[0].to_string().ends_with(": it failed attempt=3 server=a"), "{}", records[0]);
    }
}
