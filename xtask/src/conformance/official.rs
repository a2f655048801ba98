use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::suite::{Row, SUITES, Suites};
use crate::failure::Failure;
use crate::shell::{self, Ended};

/// How long all scenarios of one version may take together: the suite gives each client 30 s.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs everything that each version requires as the suite does it: all at once, by its own rule.
///
/// This is for comparison with what others publish; nothing follows from it.
///
/// # Errors
///
/// The suite cannot be run, or does not come to an end.
pub(super) fn run(suites: &Suites, rows: &[Row], client: &Path, results: &Path) -> Result<(), Failure> {
    let client = format!("'{}'", client.display());
    for (suite, version) in
        SUITES.iter().flat_map(|suite| suite.versions().iter().map(move |version| (suite, *version)))
    {
        let folder = results.join("official").join(version);
        fs::create_dir_all(&folder).map_err(Failure::io("create", &folder))?;
        let log = folder.join("suite.txt");
        let began = Instant::now();
        let mut command = suites.requirements(suite, version, &client, &folder);
        if shell::run_group_within(&mut command, LIMIT, &log)? == Ended::TimedOut {
            return Err(Failure::new(format!("the suite did not come to an end; see {}", log.display())));
        }
        let elapsed = began.elapsed().as_secs_f64();
        let summary = fs::read_to_string(&log).map_err(Failure::io("read", &log))?;
        let passed = passed(&summary);
        let required = rows.iter().filter(|row| row.is_scored && row.column == version);
        let (good, bad): (Vec<&str>, Vec<&str>) =
            required.map(|row| row.scenario.as_str()).partition(|name| passed.contains(name));
        bad.iter().for_each(|name| println!("{version} {name}: fails"));
        println!("official: {version} {}/{} in {elapsed:.1} s", good.len(), good.len() + bad.len());
    }
    Ok(())
}

/// The scenarios that pass, from lines such as `✓ tools_call: 2 passed, 0 failed`.
fn passed(summary: &str) -> BTreeSet<&str> {
    summary
        .lines()
        .filter_map(|line| line.strip_prefix("✓ ")?.split_once(": ").map(|(name, _)| name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_marked() {
        let summary = "✓ a: 1 passed, 0 failed\n✗ b: 0 passed, 1 failed\n- c: skipped\n✓ auth/d: 2 passed, 0 failed, 1 warnings\n";
        assert_eq!(passed(summary), BTreeSet::from(["a", "auth/d"]));
    }
}
