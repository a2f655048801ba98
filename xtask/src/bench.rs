use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::shell;
use crate::workspace::{Workspace, files_below};

/// Where the drivers of other clients are, seen from the root; not part of this repository.
const BENCH: &str = "../shared/bench";

/// What is run where the arguments do not say otherwise: calls over stdio, one after another and side by
/// side, beside the hand-written floors and the published SDK.
const DEFAULTS: [(&str, &str); 3] = [
    ("--cases", "stdio seq 64B,stdio conc16,stdio conc256"),
    ("--drivers", "floor,actor,rmcp,ours"),
    ("--rounds", "5"),
];

/// Builds our driver and those of other clients, and prints their figures and ratios of one run.
///
/// # Errors
///
/// The other drivers are not there, something cannot be built, or a run fails.
pub(crate) fn run(workspace: &Workspace, extra: &[String]) -> Result<(), Failure> {
    let source = workspace.path(BENCH);
    if !source.join("run.py").is_file() {
        return Err(Failure::new(format!(
            "there is nothing to compare with: `{BENCH}`, which holds the drivers of other clients, is not \
             there. Our driver runs alone: `cargo run --release --example bench_driver`"
        )));
    }
    // Where they come from may be read-only.
    let copy = workspace.target().join("bench");
    copy_below(&source, &copy)?;
    let others = copy.join("target");
    let mut build = workspace.cargo(["build", "--release", "--manifest-path"]);
    shell::run(build.arg(copy.join("Cargo.toml")).arg("--target-dir").arg(&others))?;
    let ours = ["build", "--release", "--package", "mcp-client", "--example", "bench_driver"];
    shell::run(&mut workspace.cargo(ours))?;
    let ours = workspace.target().join("release/examples/bench_driver");
    let arguments = arguments(&others.join("release"), &ours, extra);
    shell::run(Command::new("python3").arg(copy.join("run.py")).args(arguments))
}

/// The arguments of `run.py`: those given, and a default for each that is not.
fn arguments(others: &Path, ours: &Path, extra: &[String]) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--awake".into(), "--bin".into(), others.into()];
    arguments.push("--driver".into());
    // The path is read as a shell reads it.
    arguments.push(format!("ours='{}'", ours.display()).into());
    let is_given = |flag: &str| extra.iter().any(|word| word.split('=').next() == Some(flag));
    for (flag, value) in DEFAULTS.into_iter().filter(|(flag, _)| !is_given(flag)) {
        arguments.extend([flag.into(), value.into()]);
    }
    arguments.extend(extra.iter().map(OsString::from));
    arguments
}

/// Copies what differs: an unchanged file keeps its time, so that nothing is built twice.
fn copy_below(source: &Path, copy: &Path) -> Result<(), Failure> {
    for from in files_below(source)? {
        let relative: PathBuf = from.strip_prefix(source).unwrap_or(&from).to_owned();
        let to = copy.join(relative);
        let contents = fs::read(&from).map_err(Failure::io("read", &from))?;
        if fs::read(&to).is_ok_and(|present| present == contents) {
            continue;
        }
        let folder = to.parent().unwrap_or(copy);
        fs::create_dir_all(folder).map_err(Failure::io("create", folder))?;
        fs::write(&to, contents).map_err(Failure::io("write", &to))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(extra: &[&str]) -> String {
        let extra: Vec<String> = extra.iter().map(|word| (*word).to_owned()).collect();
        let arguments = arguments(Path::new("/others"), Path::new("/a b/ours"), &extra);
        arguments.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_given_takes_the_place_of_its_default() {
        let defaults = words(&[]);
        assert!(defaults.contains("--rounds 5") && defaults.contains("--drivers floor,actor,rmcp,ours"));
        assert!(defaults.contains("--bin /others --driver ours='/a b/ours'"), "{defaults}");
        let given = words(&["--rounds", "7", "--cases=http"]);
        assert!(given.ends_with("--rounds 7 --cases=http"), "{given}");
        assert!(!given.contains("--rounds 5") && !given.contains("conc16"), "{given}");
    }

    #[test]
    fn a_copy_is_complete_and_leaves_alone_what_is_the_same() {
        let folder = std::env::temp_dir().join(format!("xtask-bench-{}", std::process::id()));
        let (source, copy) = (folder.join("source"), folder.join("copy"));
        fs::create_dir_all(source.join("inner")).unwrap();
        fs::write(source.join("a"), "1").unwrap();
        fs::write(source.join("inner/b"), "2").unwrap();
        copy_below(&source, &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join("inner/b")).unwrap(), "2");
        let before = fs::metadata(copy.join("a")).unwrap().modified().unwrap();
        fs::write(source.join("inner/b"), "3").unwrap();
        copy_below(&source, &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join("inner/b")).unwrap(), "3");
        assert_eq!(fs::metadata(copy.join("a")).unwrap().modified().unwrap(), before);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn without_the_other_drivers_it_says_so() {
        let folder = std::env::temp_dir().join(format!("xtask-no-bench-{}", std::process::id()));
        let workspace = Workspace::at(folder.join("checkout"), folder.join("target"));
        let failure = run(&workspace, &[]).unwrap_err().to_string();
        assert!(failure.contains("nothing to compare with"), "{failure}");
    }
}
