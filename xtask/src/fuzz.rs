use std::fs;
use std::path::PathBuf;

use crate::args::Fuzz;
use crate::failure::Failure;
use crate::shell;
use crate::workspace::{CRATES, Workspace};

/// What makes code tell libFuzzer where it has been. All of it is stable; the sanitizers are not, and
/// code without `unsafe` has little need of them.
const INSTRUMENTATION: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0";

/// Feeds each chosen target with inputs of libFuzzer's own, for some time each.
///
/// The targets of a crate are the programs in its `fuzz/`, a package outside the workspace; their bodies
/// and seeds lie in `tests/fuzz/`, where ordinary tests run them too. What is found anew stays below the
/// target folder and is taken up by the next run. Needs a C++ compiler.
///
/// # Errors
///
/// No target has such a name, it does not build, or an input breaks it: that input is kept, and named.
pub(crate) fn run(workspace: &Workspace, options: &Fuzz) -> Result<(), Failure> {
    let targets = chosen(&targets(workspace)?, &options.names)?;
    let host = host(workspace)?;
    for target in targets {
        let program = target.build(workspace, &host)?;
        target.fuzz(workspace, &program, options.seconds)?;
    }
    Ok(())
}

/// Checks that every target compiles, without libFuzzer and so without a C++ compiler.
///
/// # Errors
///
/// One of them does not compile, or the lock file of its package is out of date.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let folder = workspace.target().join("fuzz").join("check");
    let mut packages: Vec<_> = targets(workspace)?.iter().map(|target| target.package).collect();
    packages.dedup();
    for package in packages {
        let mut cargo = workspace.cargo(["check", "--locked", "--manifest-path"]);
        cargo.arg(workspace.path(format!("{package}/fuzz/Cargo.toml"))).arg("--target-dir").arg(&folder);
        // Nothing is linked, so that nothing need be there.
        shell::capture(cargo.env("CUSTOM_LIBFUZZER_PATH", folder.join("libfuzzer.a")))?;
    }
    Ok(())
}

/// One program that libFuzzer drives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    package: &'static str,
    name: String,
}

/// Every target there is, sorted by crate and name.
fn targets(workspace: &Workspace) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for package in CRATES {
        let folder = workspace.path(format!("{package}/fuzz/fuzz_targets"));
        if !folder.is_dir() {
            continue;
        }
        let files = fs::read_dir(&folder).map_err(Failure::io("read", &folder))?;
        let stems = files.filter_map(|file| Some(file.ok()?.path().file_stem()?.to_str()?.to_owned()));
        targets.extend(stems.map(|name| Target { package, name }));
    }
    targets.sort_by(|one, other| (one.package, &one.name).cmp(&(other.package, &other.name)));
    Ok(targets)
}

/// Those with one of `names`; all, if there are none.
fn chosen(targets: &[Target], names: &[String]) -> Result<Vec<Target>, Failure> {
    if let Some(unknown) = names.iter().find(|name| targets.iter().all(|target| target.name != **name)) {
        let known: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        return Err(Failure::new(format!("there is no fuzz target `{unknown}`, only {}", known.join(", "))));
    }
    let is_chosen = |target: &&Target| names.is_empty() || names.contains(&target.name);
    Ok(targets.iter().filter(is_chosen).cloned().collect())
}

/// The platform of the compiler. Named as the target of a build, it keeps the instrumentation away from
/// build scripts and macros.
fn host(workspace: &Workspace) -> Result<String, Failure> {
    let about = shell::capture(&mut workspace.cargo(["-vV"]))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::new("cargo does not name its host"))
}

impl Target {
    fn build(&self, workspace: &Workspace, host: &str) -> Result<PathBuf, Failure> {
        let folder = workspace.target().join("fuzz");
        let mut cargo =
            workspace.cargo(["build", "--locked", "--release", "--target", host, "--bin", &self.name]);
        cargo.arg("--manifest-path").arg(workspace.path(format!("{}/fuzz/Cargo.toml", self.package)));
        shell::run(cargo.arg("--target-dir").arg(&folder).env("RUSTFLAGS", INSTRUMENTATION))?;
        Ok(folder.join(host).join("release").join(&self.name))
    }

    fn fuzz(&self, workspace: &Workspace, program: &PathBuf, seconds: u64) -> Result<(), Failure> {
        let found = self.folder(workspace, "found")?;
        let broken = self.folder(workspace, "broken")?;
        let mut command = std::process::Command::new(program);
        command
            .current_dir(workspace.root())
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", broken.display()))
            .args(["-print_final_stats=1", "-verbosity=0"])
            .arg(found)
            .arg(workspace.path(format!("{}/tests/fuzz/seeds/{}", self.package, self.name)));
        shell::run(&mut command).map_err(|failure| {
            Failure::new(format!(
                "{failure}\nThe input is in {}. Mend what it shows, and add it to {}/tests/fuzz/seeds/{}.",
                broken.display(),
                self.package,
                self.name
            ))
        })
    }

    /// Where inputs of one kind are kept, made if it is missing.
    fn folder(&self, workspace: &Workspace, kind: &str) -> Result<PathBuf, Failure> {
        let folder = workspace.target().join("fuzz").join(kind).join(self.package).join(&self.name);
        fs::create_dir_all(&folder).map_err(Failure::io("create", &folder))?;
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds_and_a_body_that_tests_run() {
        let workspace = Workspace::here();
        let targets = targets(&workspace).unwrap();
        assert!(targets.len() >= 5, "{targets:?}");
        for Target { package, name } in targets {
            let folder = workspace.path(format!("{package}/tests/fuzz"));
            assert!(folder.join("seeds").join(&name).is_dir(), "seeds of {name}");
            assert!(folder.join(format!("{name}.rs")).is_file(), "the body of {name}");
            let tests = fs::read_to_string(workspace.path(format!("{package}/tests/fuzz_seeds.rs"))).unwrap();
            assert!(tests.contains(&format!("fuzz::{name}::run")), "the test of {name}");
        }
    }

    #[test]
    fn targets_are_chosen_by_name() {
        let target = |name: &str| Target { package: "mcp-proto", name: name.to_owned() };
        let all = [target("a"), target("b")];
        assert_eq!(chosen(&all, &[]).unwrap(), all);
        assert_eq!(chosen(&all, &["b".to_owned()]).unwrap(), [target("b")]);
        let wrong = chosen(&all, &["c".to_owned()]).unwrap_err().to_string();
        assert!(wrong.contains("`c`") && wrong.contains("a, b"), "{wrong}");
    }
}
