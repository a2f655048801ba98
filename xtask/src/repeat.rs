use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::args::Repeat;
use crate::failure::Failure;
use crate::shell::Ended;
use crate::test_binary::{self, TestBinary};
use crate::workspace::Workspace;

/// Builds the tests once, then runs those that match, each run in a process of its own.
///
/// A run that fails is never tried again. All runs are made, whatever fails; the output of the first
/// failure is printed as soon as it happens, and the last line counts: `repeat: N passed, N failed`.
///
/// # Errors
///
/// No test matches, or any run failed.
pub(crate) fn run(workspace: &Workspace, options: &Repeat) -> Result<(), Failure> {
    let selection = match &options.package {
        Some(package) => vec!["--package".to_owned(), package.clone()],
        None => vec!["--workspace".to_owned()],
    };
    let binaries = test_binary::build(workspace, &selection)?;
    let tests = matching(&binaries, &options.names)?;
    if tests.is_empty() {
        return Err(Failure::new(format!("no test's name contains {}", options.names.join(" or "))));
    }
    println!("{} tests, {} times each, {} at a time", tests.len(), options.times, options.jobs);
    let logs = workspace.target().join("repeat");
    fs::create_dir_all(&logs).map_err(Failure::io("create", &logs))?;
    let tally = Rounds::new(&tests, options).run(&logs)?;
    tally.print(&tests);
    match tally.failed() {
        0 => Ok(()),
        failed => Err(Failure::new(format!("{failed} runs failed"))),
    }
}

/// One test to repeat.
#[derive(Debug)]
struct Test<'a> {
    binary: &'a TestBinary,
    name: String,
}

fn matching<'a>(binaries: &'a [TestBinary], parts: &[String]) -> Result<Vec<Test<'a>>, Failure> {
    let mut tests = Vec::new();
    for binary in binaries {
        let names = binary.tests()?.into_iter().filter(|name| parts.iter().any(|part| name.contains(part)));
        tests.extend(names.map(|name| Test { binary, name }));
    }
    Ok(tests)
}

/// All runs to make, handed out one by one: every test once, then every test again.
struct Rounds<'a> {
    limit: Duration,
    next: AtomicU64,
    jobs: usize,
    tally: Mutex<Tally>,
    tests: &'a [Test<'a>],
    total: u64,
}

impl<'a> Rounds<'a> {
    fn new(tests: &'a [Test<'a>], options: &Repeat) -> Self {
        Self {
            limit: options.limit,
            next: AtomicU64::new(0),
            jobs: options.jobs,
            tally: Mutex::new(Tally::new(tests.len())),
            tests,
            total: options.times.saturating_mul(tests.len() as u64),
        }
    }

    fn run(self, logs: &Path) -> Result<Tally, Failure> {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs)
                .map(|worker| logs.join(format!("{worker}.log")))
                .map(|log| scope.spawn(|| self.work(log)))
                .collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().map_err(|_| Failure::new("a worker thread panicked"))?)
        })?;
        self.tally.into_inner().map_err(|_| Failure::new("a worker thread panicked"))
    }

    fn work(&self, log: PathBuf) -> Result<(), Failure> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.total {
                return Ok(());
            }
            let (round, index) = (number / self.tests.len() as u64, number % self.tests.len() as u64);
            let Some((index, test)) = usize::try_from(index).ok().and_then(|i| Some((i, self.tests.get(i)?)))
            else {
                return Ok(());
            };
            let began = Instant::now();
            let ended = test.binary.run(&test.name, round, self.limit, &log)?;
            let mut tally = self.tally.lock().map_err(|_| Failure::new("a worker thread panicked"))?;
            if tally.count(index, ended, began.elapsed()) == First::Failure {
                let output = fs::read_to_string(&log).unwrap_or_default();
                println!("{}: the first failure, with seed {round}: {ended:?}\n{output}", test.name);
            }
        }
    }
}

/// Whether a run is the first of all to fail.
#[derive(Debug, PartialEq, Eq)]
enum First {
    Failure,
    No,
}

/// What became of the runs so far, per test.
#[derive(Debug)]
struct Tally {
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Default)]
struct Row {
    failed: u64,
    passed: u64,
    slowest: Duration,
}

impl Tally {
    fn new(tests: usize) -> Self {
        Self { rows: vec![Row::default(); tests] }
    }

    fn count(&mut self, test: usize, ended: Ended, elapsed: Duration) -> First {
        let earlier = self.failed();
        let Some(row) = self.rows.get_mut(test) else { return First::No };
        row.slowest = row.slowest.max(elapsed);
        if matches!(ended, Ended::Exited(status) if status.success()) {
            row.passed += 1;
            return First::No;
        }
        row.failed += 1;
        if earlier == 0 { First::Failure } else { First::No }
    }

    fn failed(&self) -> u64 {
        self.rows.iter().map(|row| row.failed).sum()
    }

    fn print(&self, tests: &[Test<'_>]) {
        for (row, test) in self.rows.iter().zip(tests) {
            let mark = if row.failed == 0 { "ok  " } else { "FAIL" };
            println!(
                "{mark} {:>6} passed {:>4} failed, slowest {:>6} ms  {} {}",
                row.passed,
                row.failed,
                row.slowest.as_millis(),
                test.binary.target().package,
                test.name
            );
        }
        let passed: u64 = self.rows.iter().map(|row| row.passed).sum();
        println!("repeat: {passed} passed, {} failed", self.failed());
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn exit(code: &str) -> Ended {
        Ended::Exited(Command::new("sh").args(["-c", &format!("exit {code}")]).status().unwrap())
    }

    #[test]
    fn only_the_first_failure_of_all_is_shown() {
        let mut tally = Tally::new(2);
        assert_eq!(tally.count(0, exit("0"), Duration::from_millis(3)), First::No);
        assert_eq!(tally.count(1, exit("101"), Duration::from_millis(1)), First::Failure);
        assert_eq!(tally.count(0, Ended::TimedOut, Duration::from_millis(9)), First::No);
        assert_eq!(tally.failed(), 2);
        assert_eq!(tally.rows[0].passed, 1);
        assert_eq!(tally.rows[0].slowest, Duration::from_millis(9));
    }
}
