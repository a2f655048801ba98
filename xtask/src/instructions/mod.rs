//! Instructions that one more call costs: unlike time, they hardly depend on what else the machine does.
//!
//! [`count`] takes the figures; [`record`] knows those that are committed, and judges.

mod count;
mod record;

use std::env;

use self::count::{Case, Counter};
use self::record::{Record, TOLERATED_PERCENT, Verdict};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Where the figures are committed.
const RECORD: &str = "xtask/instructions.txt";

/// All over stdio, and as small as figures allow that repeat.
const CASES: [Case; 6] = [
    Case { name: "call", flags: "--scenario seq --warmup 50", repetitions: (200, 700), each: 1 },
    Case {
        name: "call-of-16",
        flags: "--scenario conc --concurrency 16 --warmup 200",
        repetitions: (400, 1600),
        each: 1,
    },
    Case {
        name: "call-of-256",
        flags: "--scenario conc --concurrency 256 --warmup 512",
        repetitions: (600, 2600),
        each: 1,
    },
    Case { name: "call-of-1-MiB", flags: "--scenario bulk --payload 1048576", repetitions: (2, 6), each: 1 },
    Case { name: "list-of-1000", flags: "--scenario list --tools 1000", repetitions: (1, 3), each: 1 },
    Case { name: "notification", flags: "--scenario flood", repetitions: (1, 2), each: 10_000 },
];

/// Counts each case and compares it with the record, or with `record` makes that anew.
///
/// Without valgrind it says that it is skipped; in CI, and for the record, that is a failure.
///
/// # Errors
///
/// A figure is more than [`TOLERATED_PERCENT`] over the recorded one, the record has other cases, or a
/// figure cannot be taken: something cannot be built, or a run fails.
pub(crate) fn run(workspace: &Workspace, record: bool) -> Result<(), Failure> {
    if !count::is_valgrind_there()? {
        return skip(record || env::var_os("CI").is_some());
    }
    let path = workspace.path(RECORD);
    if record {
        return Record::of(count_all(workspace)?).write(&path);
    }
    let recorded = Record::read(&path)?;
    recorded.cover(CASES.map(|case| case.name))?;
    judge(&recorded, &count_all(workspace)?)
}

fn skip(is_needed: bool) -> Result<(), Failure> {
    let wanted = "valgrind, which counts instructions, is not installed (Debian: `apt-get install valgrind`)";
    if is_needed {
        return Err(Failure::new(wanted));
    }
    eprintln!("SKIPPED: instructions: {wanted}");
    Ok(())
}

fn count_all(workspace: &Workspace) -> Result<Vec<(&'static str, u64)>, Failure> {
    let counter = Counter::build(workspace)?;
    CASES.iter().map(|case| Ok((case.name, counter.count(case)?))).collect()
}

/// Prints the table, then fails with the names of what has grown.
fn judge(recorded: &Record, counted: &[(&str, u64)]) -> Result<(), Failure> {
    println!("{:<14} {:>12} {:>12} {:>8}", "instructions", "recorded", "counted", "change");
    let mut grown = Vec::new();
    let mut has_shrunk = false;
    for &(name, counted) in counted {
        let before = recorded.figure(name)?;
        let verdict = Verdict::of(before, counted);
        let change = (counted as f64 / before as f64 - 1.0) * 100.0;
        println!("{name:<14} {before:>12} {counted:>12} {change:>+6.1} % {verdict}");
        match verdict {
            Verdict::Grown => grown.push(name),
            Verdict::Shrunk => has_shrunk = true,
            Verdict::Within => {}
        }
    }
    if has_shrunk {
        println!("Lower the record: `cargo xtask instructions --record`, and commit {RECORD}.");
    }
    if grown.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "more than {TOLERATED_PERCENT} % over {RECORD}: {}. Where the cost is meant, raise the record with \
         `cargo xtask instructions --record` and say why in the commit",
        grown.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_record_has_every_case() {
        let recorded = Record::read(&Workspace::here().path(RECORD)).unwrap();
        recorded.cover(CASES.map(|case| case.name)).unwrap();
    }

    #[test]
    fn what_has_grown_fails_by_its_name() {
        let recorded = Record::of(vec![("one", 1000), ("two", 1000), ("three", 1000)]);
        judge(&recorded, &[("one", 1050), ("two", 500), ("three", 1000)]).unwrap();
        let failure = judge(&recorded, &[("one", 1051), ("two", 500), ("three", 1051)]).unwrap_err();
        assert!(failure.to_string().contains("instructions.txt: one, three."), "{failure}");
    }

    #[test]
    fn without_valgrind_only_where_it_is_needed_something_fails() {
        skip(false).unwrap();
        assert!(skip(true).unwrap_err().to_string().contains("valgrind"));
    }
}
