use std::fmt;
use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// How far a figure may be from the recorded one, in per cent.
pub(super) const TOLERATED_PERCENT: u64 = 5;

/// What stands above the figures.
const HEADER: &str = "\
# Instructions in user space of one more of each, on x86_64, as `cargo xtask instructions` counts them.
# More than 5 % over a figure fails; `cargo xtask instructions --record` writes this file.
";

/// The figures that are committed: name of a case and instructions, one to a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record(Vec<(String, u64)>);

/// How a figure stands to the recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Over it by more than is tolerated.
    Grown,
    /// Under it by more than that: the record would let the gain be lost again.
    Shrunk,
    Within,
}

impl Record {
    pub(super) fn of(figures: Vec<(&str, u64)>) -> Self {
        Self(figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect())
    }

    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        Self::parse(&fs::read_to_string(path).map_err(Failure::io("read", path))?)
    }

    /// Reads lines of `NAME FIGURE`; empty ones and those that begin with `#` say nothing.
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut figures: Vec<(String, u64)> = Vec::new();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        for (index, line) in lines {
            let wrong = |what| Failure::new(format!("recorded instructions, line {}: {what}", index + 1));
            let (name, figure) = parse_line(line).ok_or_else(|| wrong("not understood"))?;
            if figures.iter().any(|(known, _)| *known == name) {
                return Err(wrong("a repetition"));
            }
            figures.push((name, figure));
        }
        Ok(Self(figures))
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        print!("{self}");
        fs::write(path, format!("{HEADER}\n{self}")).map_err(Failure::io("write", path))
    }

    /// Requires a figure for each of `names`, and no other.
    ///
    /// # Errors
    ///
    /// Names the first difference.
    pub(super) fn cover<const N: usize>(&self, names: [&str; N]) -> Result<(), Failure> {
        for name in names {
            self.figure(name)?;
        }
        match self.0.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some((gone, _)) => {
                Err(Failure::new(format!("instructions are recorded of {gone}, which is gone")))
            }
        }
    }

    /// The figure of a case.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(super) fn figure(&self, name: &str) -> Result<u64, Failure> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, figure)| *figure).ok_or_else(|| {
            Failure::new(format!(
                "no instructions are recorded of {name}: `cargo xtask instructions --record`"
            ))
        })
    }
}

/// The lines of the file, without what stands above them.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, figure)| writeln!(f, "{name:<14} {figure:>12}"))
    }
}

impl Verdict {
    pub(super) fn of(recorded: u64, counted: u64) -> Self {
        let (before, now) = (u128::from(recorded), u128::from(counted) * 100);
        let tolerated = u128::from(TOLERATED_PERCENT);
        if now > before * (100 + tolerated) {
            Self::Grown
        } else if now < before * (100 - tolerated) {
            Self::Shrunk
        } else {
            Self::Within
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grown => "GROWN",
            Self::Shrunk => "less",
            Self::Within => "ok",
        })
    }
}

/// A name and a figure above 0, of which a share can be taken.
fn parse_line(line: &str) -> Option<(String, u64)> {
    let mut words = line.split_whitespace();
    let (name, figure) = (words.next()?, words.next()?.parse().ok().filter(|figure| *figure > 0)?);
    words.next().is_none().then(|| (name.to_owned(), figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_the_tolerated_share_nothing_is_said() {
        for (counted, expected) in [
            (u64::MAX, Verdict::Grown),
            (1051, Verdict::Grown),
            (1050, Verdict::Within),
            (1000, Verdict::Within),
            (950, Verdict::Within),
            (949, Verdict::Shrunk),
            (0, Verdict::Shrunk),
        ] {
            assert_eq!(Verdict::of(1000, counted), expected, "{counted}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let record = Record::of(vec![("two", 2), ("one", 11_000_000)]);
        let path = std::env::temp_dir().join(format!("xtask-instructions-{}.txt", std::process::id()));
        record.write(&path).unwrap();
        let read = Record::read(&path);
        fs::remove_file(path).unwrap();
        assert_eq!(read.unwrap(), record);
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for (line, part) in [
            ("one", "not understood"),
            ("one many", "not understood"),
            ("one -1", "not understood"),
            ("one 0", "not understood"),
            ("one 1 2", "not understood"),
            ("zero 7", "a repetition"),
        ] {
            let failure = Record::parse(&format!("# said\nzero 5\n{line}\n")).unwrap_err().to_string();
            assert!(failure.contains("line 3") && failure.contains(part), "{line}: {failure}");
        }
    }

    #[test]
    fn each_case_must_be_recorded_and_nothing_else() {
        let record = Record::of(vec![("one", 1), ("two", 2)]);
        record.cover(["two", "one"]).unwrap();
        for (names, part) in [(["one", "three"], "recorded of three"), (["one", "one"], "two, which is gone")]
        {
            let failure = record.cover(names).unwrap_err().to_string();
            assert!(failure.contains(part), "{failure}");
        }
    }
}
