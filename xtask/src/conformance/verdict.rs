use super::checks::{Check, Counts, Graded, Status};
use super::expectations::Expected;
use super::run::Observed;
use crate::shell::Ended;

/// What is to be held of one run of a scenario.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) counts: Counts,
    /// What is wrong; green means that there is nothing.
    pub(super) faults: Vec<String>,
    /// Whether all that is wrong is the one check that depends on the clock.
    pub(super) is_only_timing: bool,
}

/// The one check whose outcome depends on the clock, to a tenth of a second.
const TIMED: &str = "client-sse-retry-timing";

impl Verdict {
    pub(super) fn is_good(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Judges a run more strictly than the suite does: the client's own exit counts however it was come by,
/// a warning is a failure, and so is a check more or less than expected.
pub(super) fn judge(observed: &Observed, expected: Expected) -> Verdict {
    let Expected { graded: expected, exit } = expected;
    let mut faults = Vec::new();
    match observed.client {
        Some(code) if code == exit => {}
        Some(code) => faults.push(format!("the client ended with {code}: {}", observed.stderr.trim())),
        None => faults.push("the client was not seen to end".to_owned()),
    }
    let checks: &[Check] = match &observed.checks {
        Ok(checks) => checks,
        Err(why) => {
            faults.push(why.clone());
            &[]
        }
    };
    let bad = || checks.iter().filter(|check| matches!(check.status, Status::Failure | Status::Warning));
    for Check { status, id, name, message } in bad() {
        faults.push(format!("{status:?} {id} ({name}): {message}"));
    }
    let counts = Counts::of(checks);
    let Graded { success, skipped } = counts.graded;
    let is_only_timing = observed.client == Some(exit)
        && matches!(observed.suite, Ended::Exited(_))
        && bad().count() > 0
        && bad().all(|check| check.id == TIMED)
        && (success + bad().count(), skipped) == (expected.success, expected.skipped);
    if observed.checks.is_ok() && counts.graded != expected {
        faults.push(format!(
            "{success} checks have succeeded and {skipped} were skipped; expected are {} and {}",
            expected.success, expected.skipped
        ));
    }
    match observed.suite {
        Ended::Exited(status) if status.success() => {}
        // It says so about any of the above.
        Ended::Exited(status) if faults.is_empty() => faults.push(format!("the suite says no: {status}")),
        Ended::Exited(_) => {}
        Ended::TimedOut => faults.push("the suite did not come to an end".to_owned()),
    }
    Verdict { counts, faults, is_only_timing }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const EXPECTED: Expected = Expected { graded: Graded { success: 1, skipped: 1 }, exit: 0 };

    fn check(status: Status) -> Check {
        Check { status, id: "some-id".to_owned(), name: "SomeName".to_owned(), message: "why".to_owned() }
    }

    fn exit(code: u8) -> Ended {
        Ended::Exited(Command::new("sh").args(["-c", &format!("exit {code}")]).status().unwrap())
    }

    /// A run without any fault.
    fn good() -> Observed {
        Observed {
            suite: exit(0),
            client: Some(0),
            stderr: String::new(),
            checks: Ok(vec![check(Status::Success), check(Status::Skipped)]),
        }
    }

    #[track_caller]
    fn assert_red(observed: &Observed, part: &str) {
        let verdict = judge(observed, EXPECTED);
        assert!(verdict.faults.iter().any(|fault| fault.contains(part)), "{verdict:?}");
    }

    #[test]
    fn only_a_run_without_any_fault_is_good() {
        let verdict = judge(&good(), EXPECTED);
        assert!(verdict.is_good(), "{verdict:?}");
        assert_eq!(verdict.counts.graded, EXPECTED.graded);
    }

    #[test]
    fn the_exit_of_the_client_counts_although_all_checks_succeed() {
        // The suite does not see that a signal has ended its client.
        assert_red(&Observed { client: Some(139), stderr: "oh".to_owned(), ..good() }, "ended with 139: oh");
        assert_red(&Observed { client: None, ..good() }, "not seen to end");
        // Where it has to refuse, success is none.
        let refusing = Expected { exit: 5, ..EXPECTED };
        assert!(judge(&Observed { client: Some(5), ..good() }, refusing).is_good());
        assert!(!judge(&good(), refusing).is_good());
        assert!(!judge(&Observed { client: Some(1), ..good() }, refusing).is_good());
    }

    #[test]
    fn a_warning_is_a_failure() {
        for status in [Status::Failure, Status::Warning] {
            let checks = Ok(vec![check(Status::Success), check(Status::Skipped), check(status)]);
            assert_red(&Observed { checks, ..good() }, "some-id (SomeName): why");
        }
    }

    #[test]
    fn only_the_check_of_the_clock_is_told_apart() {
        let timed = |status| Check { id: TIMED.to_owned(), ..check(status) };
        let judged = |checks: Vec<Check>, client| {
            let expected = Expected { graded: Graded { success: 2, skipped: 0 }, exit: 0 };
            let verdict = judge(&Observed { checks: Ok(checks), client, suite: exit(1), ..good() }, expected);
            assert!(!verdict.is_good());
            verdict.is_only_timing
        };
        for late in [Status::Failure, Status::Warning] {
            assert!(judged(vec![check(Status::Success), timed(late)], Some(0)));
            assert!(!judged(vec![check(Status::Success), timed(late)], Some(139)));
            assert!(!judged(vec![timed(late)], Some(0)), "another check is missing");
            assert!(!judged(vec![check(late), timed(late)], Some(0)));
        }
        assert!(!judged(vec![check(Status::Success)], Some(0)));
    }

    #[test]
    fn a_check_more_or_less_is_a_failure() {
        use Status::{Skipped, Success};
        for statuses in
            [&[Success][..], &[Skipped], &[Success, Success, Skipped], &[Success, Skipped, Skipped], &[]]
        {
            let checks = Ok(statuses.iter().copied().map(check).collect());
            assert_red(&Observed { checks, ..good() }, "expected are 1 and 1");
        }
    }

    #[test]
    fn checks_that_are_missing_are_a_failure() {
        assert_red(&Observed { checks: Err("there are no checks".to_owned()), ..good() }, "no checks");
    }

    #[test]
    fn what_the_suite_says_counts_too() {
        assert_red(&Observed { suite: exit(1), ..good() }, "the suite says no");
        assert_red(&Observed { suite: Ended::TimedOut, ..good() }, "did not come to an end");
    }
}
