use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;
use tracing::Level;

use super::baseline::Baseline;
use super::log::{LogCapture, LogRecord};

/// How long a test with real processes may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Held by the one test that runs: descriptors and processes are those of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// What a test inside [`isolated()`] has at hand.
#[derive(Debug)]
pub struct Isolated {
    baseline: Baseline,
    log: LogCapture,
    expected: Mutex<Vec<(Level, String)>>,
}

/// Runs a test alone in its process, on one thread, and checks that nothing is left behind.
///
/// Tests of one program take turns, if all of them use this. The runtime is made inside the turn, the
/// clock is real, and the whole test has a limit of one minute. At its end descriptors, child processes,
/// marked processes and tasks must be what they were, and nothing may have been logged as a warning or
/// an error that was not [expected](Isolated::expect_log).
///
/// # Panics
///
/// The test panics, takes too long, leaves something behind or logs something unexpected.
pub fn isolated(test: impl AsyncFnOnce(&Isolated)) {
    run(Builder::new_current_thread().enable_all(), test);
}

/// As [`isolated()`], on a runtime with this many worker threads.
///
/// # Panics
///
/// As [`isolated()`].
pub fn isolated_on(workers: usize, test: impl AsyncFnOnce(&Isolated)) {
    run(Builder::new_multi_thread().worker_threads(workers).enable_all(), test);
}

fn run(runtime: &mut Builder, test: impl AsyncFnOnce(&Isolated)) {
    let _alone = alone();
    let log = LogCapture::global();
    log.clear();
    let runtime = runtime.build().expect("a runtime can be made");
    runtime.block_on(async {
        let isolated = Isolated { baseline: Baseline::take(), log, expected: Mutex::new(Vec::new()) };
        assert!(timeout(LIMIT, test(&isolated)).await.is_ok(), "the test takes longer than {LIMIT:?}");
        isolated.baseline.assert_quiescent().await;
        isolated.assert_nothing_unexpected_logged();
    });
}

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Isolated {
    /// Says that one event of this level whose line contains `text` belongs to the test.
    ///
    /// It may have been logged already or come later; if it never comes, the test fails.
    pub fn expect_log(&self, level: Level, text: &str) {
        self.expected.lock().expect("nobody panics meanwhile").push((level, text.to_owned()));
    }

    /// Everything that was logged since the test began.
    #[must_use]
    pub fn log(&self) -> &LogCapture {
        &self.log
    }

    /// What there was before the test.
    #[must_use]
    pub fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    fn assert_nothing_unexpected_logged(&self) {
        let mut expected = self.expected.lock().expect("nobody panics meanwhile").clone();
        let mut unexpected: Vec<String> = Vec::new();
        for record in self.log.records() {
            let is_it = |(level, text): &(Level, String)| is_meant(&record, *level, text);
            if let Some(index) = expected.iter().position(is_it) {
                expected.remove(index);
            } else if record.level <= Level::WARN {
                unexpected.push(record.to_string());
            }
        }
        assert!(unexpected.is_empty(), "logged unexpectedly:\n{}", unexpected.join("\n"));
        assert!(expected.is_empty(), "expected in the log, but not there: {expected:?}");
    }
}

fn is_meant(record: &LogRecord, level: Level, text: &str) -> bool {
    record.level == level && record.to_string().contains(text)
}
