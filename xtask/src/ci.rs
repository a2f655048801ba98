use std::time::Instant;

use crate::args::{Conformance, Prove, Simulate};
use crate::failure::Failure;
use crate::workspace::Workspace;
use crate::{
    conformance, dependencies, features, fuzz, instructions, prove, real_servers, shell, simulate, tidy,
};

/// A step and what it does.
type Step = (&'static str, fn(&Workspace) -> Result<(), Failure>);

/// Cheap before dear, then the tests, with their repetition; last what is built once more, optimised.
const STEPS: [Step; 14] = [
    ("fmt", fmt),
    ("tidy", tidy::run),
    ("dependencies", dependencies::run),
    ("clippy", clippy),
    ("doc", doc),
    ("features", features::run),
    ("fuzz", fuzz::check),
    ("package", package),
    ("defects", defects),
    ("real servers", |workspace| real_servers::run(workspace, true)),
    ("simulate", |workspace| simulate::run(workspace, &Simulate { first: 0, release: false, seeds: 500 })),
    ("conformance", |workspace| conformance::run(workspace, &Conformance::default())),
    ("test", test),
    ("instructions", |workspace| instructions::run(workspace, false)),
];

/// Runs everything that a change must pass, in order, and stops at the first step that fails.
///
/// One line per step goes to standard error, with its time.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let began = Instant::now();
    for (name, step) in STEPS {
        let step_began = Instant::now();
        let result = step(workspace);
        let mark = if result.is_ok() { "ok" } else { "FAILED" };
        eprintln!("ci: {name:<14} {mark:<6} {:>7.1} s", step_began.elapsed().as_secs_f64());
        result?;
    }
    eprintln!("ci: all {} steps passed in {:.1} s", STEPS.len(), began.elapsed().as_secs_f64());
    Ok(())
}

fn fmt(workspace: &Workspace) -> Result<(), Failure> {
    quietly(workspace, &["fmt", "--all", "--check"])
}

fn clippy(workspace: &Workspace) -> Result<(), Failure> {
    quietly(
        workspace,
        &["clippy", "--locked", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"],
    )
}

fn doc(workspace: &Workspace) -> Result<(), Failure> {
    let args = ["doc", "--locked", "--workspace", "--all-features", "--no-deps", "--document-private-items"];
    shell::capture(workspace.cargo(args).env("RUSTDOCFLAGS", "-D warnings")).map(drop)
}

/// All packages together, so that each is resolved to its sibling and never to a stranger of that name.
fn package(workspace: &Workspace) -> Result<(), Failure> {
    quietly(
        workspace,
        &["package", "--locked", "--workspace", "--exclude", "xtask", "--no-verify", "--allow-dirty"],
    )
}

fn defects(workspace: &Workspace) -> Result<(), Failure> {
    prove::run(workspace, &Prove { check_only: true, names: Vec::new() })
}

/// The README's command.
fn test(workspace: &Workspace) -> Result<(), Failure> {
    shell::run(&mut workspace.cargo(["xtask", "test", "--locked"]))
}

fn quietly(workspace: &Workspace, args: &[&str]) -> Result<(), Failure> {
    shell::capture(&mut workspace.cargo(args)).map(drop)
}
