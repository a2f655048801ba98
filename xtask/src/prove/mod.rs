//! Puts known defects back, one at a time, and requires the test of each to notice.

mod defect;
mod scratch;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use self::defect::Defect;
use self::scratch::Scratch;
use crate::args::Prove;
use crate::failure::Failure;
use crate::shell::Ended;
use crate::test_binary::{self, Target, TestBinary};
use crate::workspace::Workspace;

/// A test that still runs after this long hangs. The longest, the simulation, takes a tenth of it.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs the test of each defect twice in a scratch copy: as the code is, and with the defect in it.
///
/// # Errors
///
/// A patch does not apply or does not compile, its test does not exist or fails without it, or the
/// test passes although the defect is there.
pub(crate) fn run(workspace: &Workspace, options: &Prove) -> Result<(), Failure> {
    let defects = chosen(Defect::read_all(&workspace.path("xtask/defects"))?, &options.names)?;
    let scratch = Scratch::copy(workspace)?;
    let verdicts = if options.check_only { check(&scratch, &defects)? } else { prove(&scratch, &defects)? };
    for (defect, verdict) in defects.iter().zip(&verdicts) {
        println!("{:<24} {:<32} {}", verdict.text(), defect.name, defect.guarantee);
        println!("{:<24} {:<32} {} {}", "", "", defect.package, defect.test);
    }
    let bad = verdicts.iter().filter(|verdict| !verdict.is_good()).count();
    println!("prove: {} passed, {bad} failed", verdicts.len() - bad);
    if bad == 0 { Ok(()) } else { Err(Failure::new(format!("{bad} defects are not proved"))) }
}

/// What came out for one defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Its test passes without it and fails with it.
    Caught,
    /// Its test does not end with it, as the patch says.
    CaughtByHanging,
    DoesNotApply,
    DoesNotCompile,
    FailsWithout,
    /// Its test does not end with it, and the patch does not say so: nobody knows what that shows.
    Hangs,
    NotCaught,
    /// It applies and its test exists; nothing was run.
    StillApplies,
    TestMissing,
}

impl Verdict {
    fn is_good(self) -> bool {
        matches!(self, Self::Caught | Self::CaughtByHanging | Self::StillApplies)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::CaughtByHanging => "caught, test hangs",
            Self::DoesNotApply => "DOES NOT APPLY",
            Self::DoesNotCompile => "DOES NOT COMPILE",
            Self::FailsWithout => "FAILS WITHOUT IT",
            Self::Hangs => "TEST HANGS",
            Self::NotCaught => "NOT CAUGHT",
            Self::StillApplies => "applies",
            Self::TestMissing => "TEST IS MISSING",
        }
    }
}

fn chosen(mut defects: Vec<Defect>, names: &[String]) -> Result<Vec<Defect>, Failure> {
    defects.retain(|defect| names.is_empty() || names.iter().any(|name| defect.name.contains(name.as_str())));
    if defects.is_empty() {
        return Err(Failure::new(format!("no defect's name contains {}", names.join(" or "))));
    }
    Ok(defects)
}

fn check(scratch: &Scratch<'_>, defects: &[Defect]) -> Result<Vec<Verdict>, Failure> {
    let mut verdicts = Vec::new();
    for defect in defects {
        let verdict = match scratch.apply(defect) {
            Err(failure) => {
                eprintln!("{failure}");
                Verdict::DoesNotApply
            }
            Ok(()) if !scratch.workspace().has_function(&defect.package, defect.function())? => {
                Verdict::TestMissing
            }
            Ok(()) => Verdict::StillApplies,
        };
        scratch.restore()?;
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

fn prove(scratch: &Scratch<'_>, defects: &[Defect]) -> Result<Vec<Verdict>, Failure> {
    let packages: BTreeSet<&str> = defects.iter().map(|defect| defect.package.as_str()).collect();
    let selection = packages.iter().map(|package| format!("--package={package}")).collect();
    let clean = build(scratch, selection)?;
    // All clean runs come first: a build with a defect replaces the program that was built without.
    let clean_runs: Vec<CleanRun<'_>> = defects
        .iter()
        .map(|defect| without_defect(&clean, defect, &scratch.log()))
        .collect::<Result<_, _>>()?;
    let mut verdicts = Vec::new();
    for (defect, clean_run) in defects.iter().zip(clean_runs) {
        let verdict = match clean_run {
            CleanRun::Passed { target, test } => with_defect(scratch, defect, target, &test)?,
            CleanRun::Unusable(verdict) => verdict,
        };
        println!("{}: {}", defect.name, verdict.text());
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

/// What became of a defect's test on the code as it is.
enum CleanRun<'a> {
    Passed { target: &'a Target, test: String },
    Unusable(Verdict),
}

fn without_defect<'a>(
    binaries: &'a [TestBinary],
    defect: &Defect,
    log: &Path,
) -> Result<CleanRun<'a>, Failure> {
    let Some((binary, test)) = find(binaries, defect)? else {
        return Ok(CleanRun::Unusable(Verdict::TestMissing));
    };
    if passed(binary.run(&test, 0, LIMIT, log)?) {
        return Ok(CleanRun::Passed { target: binary.target(), test });
    }
    println!("{}", fs::read_to_string(log).map_err(Failure::io("read", log))?);
    Ok(CleanRun::Unusable(Verdict::FailsWithout))
}

/// Runs the test with the defect in place, and takes the defect out again.
fn with_defect(
    scratch: &Scratch<'_>,
    defect: &Defect,
    target: &Target,
    test: &str,
) -> Result<Verdict, Failure> {
    if let Err(failure) = scratch.apply(defect) {
        eprintln!("{failure}");
        scratch.restore()?;
        return Ok(Verdict::DoesNotApply);
    }
    let built = build(scratch, target.selection());
    let verdict = match built {
        Err(failure) => {
            eprintln!("{failure}");
            Verdict::DoesNotCompile
        }
        Ok(binaries) => match binaries.iter().find(|binary| binary.target() == target) {
            None => Verdict::TestMissing,
            // A program runs no test of a name that it does not have, and is content.
            Some(binary) if !binary.tests()?.iter().any(|name| name == test) => Verdict::TestMissing,
            Some(binary) => match binary.run(test, 0, LIMIT, &scratch.log())? {
                Ended::TimedOut if defect.hangs => Verdict::CaughtByHanging,
                Ended::TimedOut => Verdict::Hangs,
                ended if passed(ended) => Verdict::NotCaught,
                Ended::Exited(_) => Verdict::Caught,
            },
        },
    };
    scratch.restore()?;
    Ok(verdict)
}

/// Builds test programs with every feature: without, what a defect is in may not be there at all.
fn build(scratch: &Scratch<'_>, mut selection: Vec<String>) -> Result<Vec<TestBinary>, Failure> {
    selection.push("--all-features".to_owned());
    test_binary::build(scratch.workspace(), &selection)
}

/// The one test program of the crate that holds the defect's test, and the test's full name.
fn find<'a>(
    binaries: &'a [TestBinary],
    defect: &Defect,
) -> Result<Option<(&'a TestBinary, String)>, Failure> {
    let mut found = Vec::new();
    for binary in binaries.iter().filter(|binary| binary.target().package == defect.package) {
        found.extend(
            binary.tests()?.into_iter().filter(|name| defect.is_test(name)).map(|name| (binary, name)),
        );
    }
    match found.len() {
        0 | 1 => Ok(found.pop()),
        many => Err(Failure::new(format!("{many} tests of {} are named {}", defect.package, defect.test))),
    }
}

fn passed(ended: Ended) -> bool {
    matches!(ended, Ended::Exited(status) if status.success())
}
