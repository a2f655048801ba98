use serde::Deserialize;

use crate::open_enum::open_enum;
use crate::payload::{DecodeError, Payload};

open_enum! {
    /// What kind of result an answer is (since 2026-07-28).
    ResultType {
        /// The final result; also what an absent member means.
        Complete = "complete",
        /// The server needs input before it can go on.
        InputRequired = "input_required",
        /// A task, in the place of the result of a tool (extension tasks).
        Task = "task",
    }
}

impl ResultType {
    /// Reads the `resultType` member of a result; absent and `null` mean [`ResultType::Complete`].
    ///
    /// Legacy results have no such member: ask only on a modern connection.
    ///
    /// # Errors
    ///
    /// The result is not an object, or the member is not a text.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic: absent counts as complete, an unknown type makes the result invalid.
    pub fn of(result: &Payload) -> Result<Self, DecodeError> {
        Self::stated(result).map(|stated| stated.unwrap_or(Self::Complete))
    }

    /// Reads the `resultType` member of a result; `None` if it is absent or `null`, which means
    /// [`ResultType::Complete`], but which no modern server should leave to that.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, schema: a result must have the member.
    pub fn stated(result: &Payload) -> Result<Option<Self>, DecodeError> {
        #[derive(Deserialize)]
        struct Members {
            #[serde(rename = "resultType")]
            result_type: Option<ResultType>,
        }
        result.decode::<Members>().map(|members| members.result_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f118_r108_absent_means_complete_and_unknown_types_are_told_apart() {
        let of = |text: &'static str| ResultType::of(&Payload::from_checked(text.into()));
        let stated = |text: &'static str| ResultType::stated(&Payload::from_checked(text.into()));
        assert_eq!(stated("{}"), Ok(None));
        assert_eq!(stated(r#"{"resultType":null}"#), Ok(None));
        assert_eq!(stated(r#"{"resultType":"complete"}"#), Ok(Some(ResultType::Complete)));
        assert_eq!(of("{}"), Ok(ResultType::Complete));
        assert_eq!(of(r#"{"resultType":null}"#), Ok(ResultType::Complete));
        assert_eq!(of(r#"{"content":[],"resultType":"complete"}"#), Ok(ResultType::Complete));
        assert_eq!(of(r#"{"resultType":"input_required"}"#), Ok(ResultType::InputRequired));
        assert_eq!(of(r#"{"resultType":"task"}"#), Ok(ResultType::Task));
        assert_eq!(of(r#"{"resultType":"x"}"#), Ok(ResultType::Other("x".to_owned())));
        assert!(of(r#"{"resultType":7}"#).is_err());
        assert!(of("7").is_err());
    }
}
