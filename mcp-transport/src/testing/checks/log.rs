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

    fn lock(&self) -> MutexGuard<'_, Vec<LogRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows an event as one line: level, module, text, fields.
impl fmt::Display for LogRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.level, self.target, self.message)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Takes events and no spans: the libraries use none.
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
        };
        event.record(&mut record);
        self.0.lock().push(record);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
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
