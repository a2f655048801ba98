use std::fmt;

use serde_json::Value;

use crate::failure::Failure;

/// One thing that a suite has looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) status: Status,
    pub(super) id: String,
    pub(super) name: String,
    /// What is wrong, if the suite says so.
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Failure,
    Info,
    Skipped,
    Success,
    Warning,
}

/// How many checks came out how, those apart that must not be there at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) graded: Graded,
    /// Lines of the suite's log, such as one for each request.
    pub(super) info: usize,
}

/// How many checks have graded the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Graded {
    pub(super) success: usize,
    pub(super) skipped: usize,
}

/// Reads a `checks.json`.
///
/// # Errors
///
/// It is not a list of checks, or has one with a status that is not known.
pub(super) fn parse(text: &str) -> Result<Vec<Check>, Failure> {
    let checks: Value = serde_json::from_str(text)
        .map_err(|error| Failure::new(format!("the suite's checks are not JSON: {error}")))?;
    let checks = checks.as_array().ok_or_else(|| Failure::new("the suite's checks are no list"))?;
    checks.iter().map(Check::read).collect()
}

impl Check {
    fn read(check: &Value) -> Result<Self, Failure> {
        let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
        let status = match check["status"].as_str() {
            Some("FAILURE") => Status::Failure,
            Some("INFO") => Status::Info,
            Some("SKIPPED") => Status::Skipped,
            Some("SUCCESS") => Status::Success,
            Some("WARNING") => Status::Warning,
            _ => return Err(Failure::new(format!("a check has no status that is known: {check}"))),
        };
        Ok(Self { status, id: text("id"), name: text("name"), message: text("errorMessage") })
    }
}

impl Counts {
    pub(super) fn of(checks: &[Check]) -> Self {
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        let graded = Graded { success: count(Status::Success), skipped: count(Status::Skipped) };
        Self { graded, info: count(Status::Info) }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.graded.success, self.graded.skipped, self.info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_counted_by_their_status() {
        let text = r#"[
            {"id": "a", "name": "A", "status": "SUCCESS"}, {"id": "b", "status": "SKIPPED"},
            {"id": "c", "status": "INFO"}, {"id": "d", "status": "SUCCESS"},
            {"id": "e", "status": "FAILURE", "errorMessage": "no"}, {"id": "f", "status": "WARNING"}
        ]"#;
        let checks = parse(text).unwrap();
        assert_eq!(Counts::of(&checks), Counts { graded: Graded { success: 2, skipped: 1 }, info: 1 });
        assert_eq!((checks[4].status, checks[4].message.as_str()), (Status::Failure, "no"));
    }

    #[test]
    fn what_is_no_list_of_checks_is_an_error() {
        for text in ["", "{}", r#"[{"id": "a"}]"#, r#"[{"id": "a", "status": "PASSED"}]"#] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
