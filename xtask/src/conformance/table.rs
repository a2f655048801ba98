use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::suite::Row;
use super::verdict::Verdict;

/// What came of each scenario.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<(Row, Cell)>);

/// What came of one.
#[derive(Debug)]
pub(super) enum Cell {
    /// It was not run, for want of this.
    NotYet(String),
    Run(Verdict),
}

impl Table {
    pub(super) fn add(&mut self, row: Row, cell: Cell) {
        self.0.push((row, cell));
    }

    /// How many are red.
    pub(super) fn red(&self) -> usize {
        self.0.iter().filter(|(_, cell)| matches!(cell, Cell::Run(verdict) if !verdict.is_good())).count()
    }

    /// One line for each scenario, one for each fault, and the sum.
    pub(super) fn print(&self) {
        print!("{self}");
    }

    /// The columns: versions of the protocol in their order, then those of suites.
    fn columns(&self) -> Vec<&str> {
        let columns: BTreeSet<&str> = self.0.iter().map(|(row, _)| row.column.as_str()).collect();
        let (versions, suites): (Vec<&str>, Vec<&str>) =
            columns.into_iter().partition(|column| column.starts_with("20"));
        versions.into_iter().chain(suites).collect()
    }

    fn sum(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let count = |wanted: &dyn Fn(&Row) -> bool| {
            let run = self.0.iter().filter_map(|(row, cell)| match cell {
                Cell::Run(verdict) if wanted(row) => Some(verdict.is_good()),
                _ => None,
            });
            let all: Vec<bool> = run.collect();
            (all.iter().filter(|good| **good).count(), all.len())
        };
        for column in self.columns() {
            let (good, all) = count(&|row| row.is_scored && row.column == column);
            if all > 0 {
                parts.push(format!("{column} {good}/{all}"));
            }
        }
        let (good, all) = count(&|row| !row.is_scored);
        if all > 0 {
            parts.push(format!("unscored {good}/{all}"));
        }
        let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, cell) in &self.0 {
            if let Cell::NotYet(what) = cell {
                *missing.entry(what).or_default() += 1;
            }
        }
        let missing: Vec<String> = missing.iter().map(|(what, count)| format!("{what} {count}")).collect();
        let end =
            if missing.is_empty() { String::new() } else { format!("; not yet: {}", missing.join(", ")) };
        format!("conformance: {} strict{end}", parts.join(", "))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        let mut scenarios: Vec<&str> = Vec::new();
        for (row, _) in &self.0 {
            if !scenarios.contains(&row.scenario.as_str()) {
                scenarios.push(&row.scenario);
            }
        }
        let width = scenarios.iter().map(|name| name.len()).max().unwrap_or_default();
        let line = |name: &str, cells: &[String]| {
            let cells: String = cells.iter().map(|cell| format!("  {cell:12}")).collect();
            format!("{name:width$}{cells}").trim_end().to_owned()
        };
        writeln!(f, "Checks that succeeded/were skipped/inform; what no version requires is in brackets.\n")?;
        let head: Vec<String> = columns.iter().map(ToString::to_string).collect();
        writeln!(f, "{}", line("", &head))?;
        for scenario in scenarios {
            let cell = |column: &&str| {
                let found = self.0.iter().find(|(row, _)| row.scenario == scenario && row.column == **column);
                found.map_or_else(|| "-".to_owned(), |(row, cell)| text(row, cell))
            };
            writeln!(f, "{}", line(scenario, &columns.iter().map(cell).collect::<Vec<_>>()))?;
        }
        writeln!(f)?;
        for (row, cell) in &self.0 {
            let Cell::Run(verdict) = cell else { continue };
            for fault in &verdict.faults {
                writeln!(f, "{} {}: {fault}", row.column, row.scenario)?;
            }
        }
        writeln!(f, "{}", self.sum())
    }
}

fn text(row: &Row, cell: &Cell) -> String {
    let text = match cell {
        Cell::NotYet(_) => "not yet".to_owned(),
        Cell::Run(verdict) => {
            let mark = if verdict.is_good() { "ok" } else { "FAIL" };
            format!("{mark} {}", verdict.counts)
        }
    };
    if row.is_scored { text } else { format!("({text})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::checks::{Counts, Graded};
    use crate::conformance::suite::tests::row;

    fn ran(faults: &[&str]) -> Cell {
        let faults = faults.iter().map(|fault| (*fault).to_owned()).collect();
        let counts = Counts { graded: Graded { success: 2, skipped: 0 }, info: 1 };
        Cell::Run(Verdict { counts, faults, is_only_timing: false })
    }

    #[test]
    fn the_last_line_sums_up_what_was_run_and_names_what_is_missing() {
        let mut table = Table::default();
        table.add(row("2025-11-25", "a"), ran(&[]));
        table.add(row("2025-11-25", "auth/b"), Cell::NotYet("auth".to_owned()));
        table.add(row("2026-07-28", "a"), ran(&["it is wrong"]));
        table.add(row("0.1.16", "a"), ran(&[]));
        let mut unscored = row("2026-07-28", "c");
        unscored.is_scored = false;
        table.add(unscored, ran(&[]));
        let text = table.to_string();
        let last =
            "conformance: 2025-11-25 1/1, 2026-07-28 0/1, 0.1.16 1/1, unscored 1/1 strict; not yet: auth 1";
        assert_eq!(text.lines().last(), Some(last));
        assert!(text.contains("\n2026-07-28 a: it is wrong\n"), "{text}");
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        let cells: Vec<String> = line("a ")
            .split("  ")
            .map(str::trim)
            .map(str::to_owned)
            .filter(|cell| !cell.is_empty())
            .collect();
        assert_eq!(cells, ["a", "ok 2/0/1", "FAIL 2/0/1", "ok 2/0/1"]);
        assert!(line("c ").contains("(ok 2/0/1)") && line("auth/b").contains("not yet"), "{text}");
        assert_eq!(table.red(), 1);
    }
}
