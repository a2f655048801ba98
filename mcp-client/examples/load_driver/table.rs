use std::fmt;
use std::time::Duration;

use crate::Size;

/// The figures of one load, and what became of their bounds.
#[derive(Debug)]
pub(crate) struct Table {
    load: String,
    size: Size,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    what: String,
    measured: f64,
    unit: &'static str,
    bound: Option<Bound>,
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Table {
    pub(crate) fn new(load: &str, size: Size) -> Self {
        Self { load: load.to_owned(), size, rows: Vec::new() }
    }

    /// Something of which there must not be more than so much, however small the load.
    pub(crate) fn count(&mut self, what: impl Into<String>, measured: usize, at_most: u32) {
        self.add(what, number(measured), "", Some(Bound::AtMost(at_most.into())));
    }

    /// Something of which there must be so much, or the load was none.
    pub(crate) fn at_least(&mut self, what: impl Into<String>, measured: usize, at_least: usize) {
        self.add(what, number(measured), "", Some(Bound::AtLeast(number(at_least))));
    }

    /// A time or an amount of memory, judged if the load is the whole one.
    pub(crate) fn figure(
        &mut self,
        what: impl Into<String>,
        measured: f64,
        unit: &'static str,
        at_most: f64,
    ) {
        self.add(what, measured, unit, (self.size == Size::Whole).then_some(Bound::AtMost(at_most)));
    }

    /// A figure without a bound.
    pub(crate) fn note(&mut self, what: impl Into<String>, measured: f64, unit: &'static str) {
        self.add(what, measured, unit, None);
    }

    pub(crate) fn is_good(&self) -> bool {
        self.rows.iter().all(Row::is_good)
    }

    fn add(&mut self, what: impl Into<String>, measured: f64, unit: &'static str, bound: Option<Bound>) {
        self.rows.push(Row { what: what.into(), measured, unit, bound });
    }
}

impl Row {
    fn is_good(&self) -> bool {
        match self.bound {
            None => true,
            Some(Bound::AtLeast(bound)) => self.measured >= bound,
            Some(Bound::AtMost(bound)) => self.measured <= bound,
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let bound = match row.bound {
                None => String::new(),
                Some(Bound::AtLeast(bound)) => format!("at least {bound}"),
                Some(Bound::AtMost(bound)) => format!("at most {bound}"),
            };
            let verdict = if row.is_good() { "" } else { "EXCEEDED" };
            let places = if row.unit.is_empty() { 0 } else { 2 };
            let measured = format!("{:.places$} {}", row.measured, row.unit);
            let line = format!("{:<11} {:<44} {measured:>14}  {bound:<16} {verdict}", self.load, row.what);
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// The value below which 99 of 100 of the durations lie, in milliseconds; 0 without any.
pub(crate) fn p99_ms(mut durations: Vec<Duration>) -> f64 {
    durations.sort_unstable();
    let rank = (durations.len() * 99).div_ceil(100).max(1);
    durations.get(rank - 1).copied().unwrap_or_default().as_secs_f64() * 1e3
}

/// A count as a figure; none that is measured here comes near the limit.
pub(crate) fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}
