use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::checks::Graded;
use super::suite::Row;
use crate::failure::Failure;

/// What each scenario must bring.
#[derive(Debug)]
pub(super) struct Expectations(BTreeMap<Key, Expectation>);

/// Column and scenario.
type Key = (String, String);

/// What one scenario must bring.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// Exactly so many checks, and this end.
    Graded(Expected),
    /// It cannot be run yet, for want of this.
    NotYet(String),
}

/// What a run must bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) graded: Graded,
    /// How the client must end: with 0, but where it must refuse what a server wants.
    pub(super) exit: i32,
}

impl Expectations {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        Self::parse(&fs::read_to_string(path).map_err(Failure::io("read", path))?)
    }

    /// Reads lines of `COLUMN SCENARIO SUCCESS SKIPPED`, `COLUMN SCENARIO SUCCESS SKIPPED exit CODE` or
    /// `COLUMN SCENARIO not-yet WHAT`.
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut expectations = BTreeMap::new();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        for (index, line) in lines {
            let (key, expectation) = parse_line(line)
                .ok_or_else(|| Failure::new(format!("expectations, line {}: not understood", index + 1)))?;
            if expectations.insert(key, expectation).is_some() {
                return Err(Failure::new(format!("expectations, line {}: a repetition", index + 1)));
            }
        }
        Ok(Self(expectations))
    }

    /// Requires that there is one for each scenario that the suites have, and no other.
    ///
    /// # Errors
    ///
    /// Names the differences.
    pub(super) fn cover(&self, rows: &[Row]) -> Result<(), Failure> {
        let key = |row: &Row| (row.column.clone(), row.scenario.clone());
        let there: Vec<Key> = rows.iter().map(key).collect();
        let new =
            there.iter().filter(|key| !self.0.contains_key(*key)).map(|key| ("nothing is expected of", key));
        let gone =
            self.0.keys().filter(|key| !there.contains(key)).map(|key| ("the suites no longer have", key));
        let differences: Vec<String> =
            new.chain(gone).map(|(what, (column, scenario))| format!("{what} {column} {scenario}")).collect();
        if differences.is_empty() { Ok(()) } else { Err(Failure::new(differences.join("\n"))) }
    }

    /// What `row` must bring; it is covered.
    pub(super) fn of(&self, row: &Row) -> &Expectation {
        &self.0[&(row.column.clone(), row.scenario.clone())]
    }
}

fn parse_line(line: &str) -> Option<(Key, Expectation)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let graded = |success: &str, skipped: &str, exit: &str| {
        let graded = Graded { success: success.parse().ok()?, skipped: skipped.parse().ok()? };
        Some(Expectation::Graded(Expected { graded, exit: exit.parse().ok()? }))
    };
    let (column, scenario, expectation) = match words[..] {
        [column, scenario, "not-yet", what] => (column, scenario, Expectation::NotYet(what.to_owned())),
        [column, scenario, success, skipped] => (column, scenario, graded(success, skipped, "0")?),
        [column, scenario, success, skipped, "exit", code] => {
            (column, scenario, graded(success, skipped, code)?)
        }
        _ => return None,
    };
    Some(((column.to_owned(), scenario.to_owned()), expectation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::suite::tests::row;

    const TEXT: &str =
        "# Comment.\n\n2025-11-25 a 4 1\n2025-11-25 auth/b not-yet auth\n2026-07-28 auth/b 2 0 exit 5\n";

    #[test]
    fn a_line_tells_counts_or_what_is_missing() {
        let expectations = Expectations::parse(TEXT).unwrap();
        let expected = |success, skipped, exit| {
            Expectation::Graded(Expected { graded: Graded { success, skipped }, exit })
        };
        assert_eq!(*expectations.of(&row("2025-11-25", "a")), expected(4, 1, 0));
        assert_eq!(*expectations.of(&row("2026-07-28", "auth/b")), expected(2, 0, 5));
        assert_eq!(*expectations.of(&row("2025-11-25", "auth/b")), Expectation::NotYet("auth".to_owned()));
        for wrong in ["x a 1", "x a 1 none", "x a 1 0 4", "x a 1 0 exit", "x a not-yet", "x a 1 0\nx a 1 0"] {
            assert!(Expectations::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_scenario_that_is_new_or_gone_is_an_error() {
        let expectations = Expectations::parse(TEXT).unwrap();
        let (a, b) = (row("2025-11-25", "a"), row("2025-11-25", "auth/b"));
        let c = row("2026-07-28", "auth/b");
        expectations.cover(&[a.clone(), b.clone(), c.clone()]).unwrap();
        let new = expectations.cover(&[a.clone(), b, c.clone(), row("2026-07-28", "a")]);
        let new = new.unwrap_err().to_string();
        assert!(new.contains("nothing is expected of 2026-07-28 a"), "{new}");
        let gone = expectations.cover(&[a, c]).unwrap_err().to_string();
        assert!(gone.contains("no longer have 2025-11-25 auth/b"), "{gone}");
    }
}
