use std::time::Duration;

/// What `cargo xtask` prints when it is not understood.
pub(crate) const USAGE: &str = "\
Usage: cargo xtask COMMAND

  build [ARGS…]             everything, with all targets
  test [ARGS…]              unit and integration tests, doctests, examples; without ARGS the
                            interleavings three times more, with different seeds
  ci                        all that a change must pass, in order, up to the first failure
  tidy                      the rules of layout and text that no compiler checks
  features                  each crate with each of its features alone, and with none
  dependencies              licences, sources and bans, as deny.toml states them
  conformance [--install] [--official] [--at VERSION] [NAME…]
                            runs the official conformance suites against this client, strictly:
                            scenarios whose name contains a NAME, at one VERSION of the protocol or
                            of an older suite (0.1.16); --install only installs the suites, --official
                            runs what each version requires by the suite's own rule, to compare
  bench    [ARGS…]          speed beside other clients, as ratios of one run; needs `../shared/bench`;
                            ARGS go to its `run.py`, for example `--cases http --rounds 7`
  fuzz     [--seconds N] [TARGET…]
                            what libFuzzer comes up with, N seconds (60) for each target
  instructions [--record]   counts what one more call costs, and fails at more than 5 % over
                            `xtask/instructions.txt`, which --record writes; needs valgrind
  load     [--quick] [NAME…]
                            many servers, calls and faults, and the bounds that must hold: crowd,
                            neighbours, soak; --quick does less and judges no time
  mutants  [NAME…]          changes the files that only decide, and counts what no unit test notices;
                            installs cargo-mutants
  simulate --seeds N        the seeded simulation, N seeds long
           [--first N] [--release]
  repeat   --times N [--jobs M] [--limit SECONDS] [--package CRATE] NAME…
                            each test whose name contains a NAME, of all crates or of one, N times,
                            a process each
  prove    [--check] [NAME…]
                            puts known defects back and requires their tests to fail;
                            --check only looks whether the patches still apply
  real-servers [--install]  installs the pinned real servers and runs the tests against them;
                            --install only installs
  help                      this text";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Bench { extra: Vec<String> },
    Build { extra: Vec<String> },
    Ci,
    Conformance(Conformance),
    Dependencies,
    Features,
    Fuzz(Fuzz),
    Help,
    Instructions { record: bool },
    Load(Load),
    Mutants(Mutants),
    Prove(Prove),
    RealServers { install_only: bool },
    Repeat(Repeat),
    Simulate(Simulate),
    Test { extra: Vec<String> },
    Tidy,
}

/// Options of `conformance`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Conformance {
    /// Install the suites, run nothing.
    pub(crate) install_only: bool,
    /// Parts of scenario names; empty means all.
    pub(crate) names: Vec<String>,
    /// By the suite's own rule, all at once: a report.
    pub(crate) official: bool,
    /// One version of the protocol, or that of an older suite; `None` means all.
    pub(crate) at: Option<String>,
}

/// Options of `fuzz`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fuzz {
    /// Names of targets; empty means all.
    pub(crate) names: Vec<String>,
    /// How long each is run.
    pub(crate) seconds: u64,
}

/// Options of `load`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Which loads; empty means all.
    pub(crate) names: Vec<String>,
    /// Less of each, without judging times.
    pub(crate) quick: bool,
}

/// Options of `mutants`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mutants {
    /// Parts of file names; empty means all.
    pub(crate) names: Vec<String>,
}

/// Options of `prove`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prove {
    /// Apply the patches, run nothing.
    pub(crate) check_only: bool,
    /// Parts of patch names; empty means all.
    pub(crate) names: Vec<String>,
}

/// Options of `repeat`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repeat {
    /// Processes at a time.
    pub(crate) jobs: usize,
    /// How long one run may take before it is killed and counted as failed.
    pub(crate) limit: Duration,
    /// Parts of test names; at least one.
    pub(crate) names: Vec<String>,
    /// The only crate whose tests are built and run.
    pub(crate) package: Option<String>,
    /// Runs of each test.
    pub(crate) times: u64,
}

/// Options of `simulate`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Simulate {
    /// The first seed.
    pub(crate) first: u64,
    /// Optimise; worth the build from some ten thousand seeds on.
    pub(crate) release: bool,
    /// How many seeds.
    pub(crate) seeds: u64,
}

/// Reads the arguments after the program's name.
///
/// # Errors
///
/// One sentence that says which word is wrong.
pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Task, String> {
    let mut words = words.into_iter();
    let command = words.next().ok_or("no command given")?;
    let mut rest = Rest(words.collect());
    let task = match command.as_str() {
        "bench" => return Ok(Task::Bench { extra: rest.0 }),
        "build" => return Ok(Task::Build { extra: rest.0 }),
        "ci" => Task::Ci,
        "conformance" => Task::Conformance(Conformance {
            install_only: rest.switch("--install"),
            official: rest.switch("--official"),
            at: rest.value("--at")?,
            names: rest.names()?,
        }),
        "dependencies" => Task::Dependencies,
        "features" => Task::Features,
        "fuzz" => Task::Fuzz(Fuzz { seconds: rest.number("--seconds")?.unwrap_or(60), names: rest.names()? }),
        "help" | "--help" | "-h" => Task::Help,
        "instructions" => Task::Instructions { record: rest.switch("--record") },
        "load" => Task::Load(Load { quick: rest.switch("--quick"), names: rest.names()? }),
        "mutants" => Task::Mutants(Mutants { names: rest.names()? }),
        "prove" => Task::Prove(Prove { check_only: rest.switch("--check"), names: rest.names()? }),
        "real-servers" => Task::RealServers { install_only: rest.switch("--install") },
        "repeat" => Task::Repeat(Repeat {
            times: rest.number("--times")?.ok_or("repeat needs --times N")?,
            jobs: usize::try_from(rest.number("--jobs")?.unwrap_or(1)).map_err(|_| "--jobs is too large")?,
            limit: Duration::from_secs(rest.number("--limit")?.unwrap_or(120)),
            package: rest.value("--package")?,
            names: rest.names()?,
        }),
        "simulate" => Task::Simulate(Simulate {
            seeds: rest.number("--seeds")?.ok_or("simulate needs --seeds N")?,
            first: rest.count("--first")?.unwrap_or(0),
            release: rest.switch("--release"),
        }),
        "test" => return Ok(Task::Test { extra: rest.0 }),
        "tidy" => Task::Tidy,
        unknown => return Err(format!("there is no command `{unknown}`")),
    };
    if matches!(&task, Task::Repeat(repeat) if repeat.names.is_empty()) {
        return Err("repeat needs a part of a test's name".to_owned());
    }
    match rest.0.first() {
        None => Ok(task),
        Some(word) => Err(format!("`{command}` does not take `{word}`")),
    }
}

/// The words not yet understood.
struct Rest(Vec<String>);

impl Rest {
    /// Takes a flag without a value.
    fn switch(&mut self, flag: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| word != flag);
        self.0.len() < before
    }

    /// Takes `flag VALUE` or `flag=VALUE`.
    fn value(&mut self, flag: &str) -> Result<Option<String>, String> {
        let prefix = format!("{flag}=");
        let Some(at) = self.0.iter().position(|word| word == flag || word.starts_with(&prefix)) else {
            return Ok(None);
        };
        let word = self.0.remove(at);
        match word.strip_prefix(&prefix) {
            Some(value) => Ok(Some(value.to_owned())),
            None if at < self.0.len() => Ok(Some(self.0.remove(at))),
            None => Err(format!("{flag} needs a value")),
        }
    }

    /// Takes `flag N` or `flag=N`.
    fn count(&mut self, flag: &str) -> Result<Option<u64>, String> {
        let Some(value) = self.value(flag)? else { return Ok(None) };
        value.parse().map(Some).map_err(|_| format!("{flag} needs a number, not `{value}`"))
    }

    /// As [`count`](Self::count), and at least 1.
    fn number(&mut self, flag: &str) -> Result<Option<u64>, String> {
        match self.count(flag)? {
            Some(0) => Err(format!("{flag} must be at least 1")),
            value => Ok(value),
        }
    }

    /// Takes everything that is left; none of it may be a flag.
    fn names(&mut self) -> Result<Vec<String>, String> {
        match self.0.iter().find(|word| word.starts_with('-')) {
            Some(flag) => Err(format!("unknown option `{flag}`")),
            None => Ok(std::mem::take(&mut self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_may_stand_anywhere() {
        let expected = Task::Repeat(Repeat {
            times: 200,
            jobs: 2,
            limit: Duration::from_secs(9),
            names: vec!["f017".to_owned(), "drain".to_owned()],
            package: Some("mcp-session".to_owned()),
        });
        assert_eq!(
            parsed("repeat f017 --times 200 --jobs=2 drain --limit 9 --package mcp-session").unwrap(),
            expected
        );
        assert_eq!(
            parsed("simulate --seeds 5 --first 0").unwrap(),
            Task::Simulate(Simulate { seeds: 5, first: 0, release: false })
        );
        assert_eq!(
            parsed("test -p mcp-proto").unwrap(),
            Task::Test { extra: vec!["-p".into(), "mcp-proto".into()] }
        );
        assert_eq!(
            parsed("fuzz envelope --seconds 600").unwrap(),
            Task::Fuzz(Fuzz { names: vec!["envelope".into()], seconds: 600 })
        );
        assert_eq!(
            parsed("conformance retry --at 0.1.16").unwrap(),
            Task::Conformance(Conformance {
                names: vec!["retry".to_owned()],
                at: Some("0.1.16".to_owned()),
                ..Conformance::default()
            })
        );
        assert_eq!(
            parsed("load soak --quick").unwrap(),
            Task::Load(Load { names: vec!["soak".into()], quick: true })
        );
        assert_eq!(parsed("instructions --record").unwrap(), Task::Instructions { record: true });
        assert_eq!(
            parsed("prove --check late").unwrap(),
            Task::Prove(Prove { check_only: true, names: vec!["late".into()] })
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, part) in [
            ("", "no command"),
            ("frobnicate", "frobnicate"),
            ("repeat --times 3", "part of a test's name"),
            ("repeat f017", "--times"),
            ("repeat --times", "needs a value"),
            ("repeat --times many f017", "many"),
            ("repeat --times 0 f017", "at least 1"),
            ("repeat --times 2 f017 --fast", "--fast"),
            ("simulate --seeds 5 extra", "extra"),
            ("tidy --fix", "--fix"),
            ("instructions --lower", "--lower"),
            ("conformance --at", "needs a value"),
            ("real-servers --remove", "--remove"),
        ] {
            let wrong = parsed(line).unwrap_err();
            assert!(wrong.contains(part), "{line}: {wrong}");
        }
    }
}
