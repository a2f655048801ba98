//! Runs the official conformance suites against this client, strictly.
//!
//! Every scenario that a suite lists has a line in the [`expectations`]: what it must bring to the last
//! check, or that it cannot be run yet. [`suite`] knows what there is, [`mod@run`] runs one scenario,
//! [`verdict`] judges what came of it by stricter rules than the suite's own, [`table`] shows it all.

mod checks;
mod expectations;
mod official;
mod run;
mod suite;
mod table;
mod verdict;

use std::path::PathBuf;

use self::expectations::{Expectation, Expectations};
use self::run::Runner;
use self::suite::{Row, SUITES, Suites};
use self::table::{Cell, Table};
use crate::args::Conformance;
use crate::failure::Failure;
use crate::workspace::Workspace;
use crate::{npm, shell};

/// Where the pins and the expectations are committed.
const PINS: &str = "xtask/conformance";

/// Installs the pinned suites, builds the client, and runs one scenario after another.
///
/// # Errors
///
/// Something cannot be installed or built, or a scenario is red: each is named.
pub(crate) fn run(workspace: &Workspace, options: &Conformance) -> Result<(), Failure> {
    let folder = workspace.target().join("conformance");
    npm::install(&workspace.path(PINS), &folder)?;
    if options.install_only {
        return Ok(());
    }
    let suites = Suites::new(&folder);
    let mut rows = Vec::new();
    for suite in &SUITES {
        rows.extend(suites.rows(suite)?);
    }
    let expectations = Expectations::read(&workspace.path(PINS).join("expected.txt"))?;
    expectations.cover(&rows)?;
    rows.retain(|row| is_chosen(row, options));
    let is_graded = |row| matches!(expectations.of(row), Expectation::Graded(_));
    if !rows.iter().any(is_graded) {
        return Err(Failure::new("no scenario is chosen that can be run yet"));
    }
    let runner = Runner::new(&suites, folder.join("results"));
    if options.official {
        return official::run(&suites, &rows, &build(workspace)?, runner.results());
    }
    prove_the_gate(&runner, &rows, &expectations)?;
    let client = build(workspace)?;
    let mut table = Table::default();
    for row in rows {
        let cell = match expectations.of(&row) {
            Expectation::NotYet(why) => Cell::NotYet(why.clone()),
            Expectation::Graded(expected) => {
                let mut verdict = verdict::judge(&runner.run(&row, &client)?, *expected);
                // On a busy machine a tenth of a second is soon over: that alone gets a second chance.
                if verdict.is_only_timing {
                    let faults = verdict.faults.join("; ");
                    println!("{} {}: late, once more: {faults}", row.column, row.scenario);
                    verdict = verdict::judge(&runner.run(&row, &client)?, *expected);
                }
                Cell::Run(verdict)
            }
        };
        table.add(row, cell);
    }
    table.print();
    match table.red() {
        0 => Ok(()),
        red => Err(Failure::new(format!("{red} scenarios are red; see {}", runner.results().display()))),
    }
}

fn is_chosen(row: &Row, options: &Conformance) -> bool {
    let names = &options.names;
    options.at.as_ref().is_none_or(|at| *at == row.column)
        && (names.is_empty() || names.iter().any(|name| row.scenario.contains(name.as_str())))
}

/// As `cargo test` builds it, so that nothing is built twice.
fn build(workspace: &Workspace) -> Result<PathBuf, Failure> {
    shell::capture(&mut workspace.cargo(["build", "--workspace", "--example", "conformance_client"]))?;
    Ok(workspace.target().join("debug/examples/conformance_client"))
}

/// A client that does nothing must be red, otherwise green means nothing. The suite itself passes one in
/// its first scenario.
fn prove_the_gate(runner: &Runner<'_>, rows: &[Row], expectations: &Expectations) -> Result<(), Failure> {
    let graded = |row| match expectations.of(row) {
        Expectation::Graded(expected) => Some((row, *expected)),
        Expectation::NotYet(_) => None,
    };
    let Some((row, expected)) = rows.iter().find_map(graded) else { return Ok(()) };
    match verdict::judge(&runner.run(row, "true".as_ref())?, expected).is_good() {
        false => Ok(()),
        true => Err(Failure::new(format!("{} passes with a client that does nothing", row.scenario))),
    }
}
