use mcp_proto::{DecodeError, Entries, InputAnswers, Payload, RawJson};
use memchr::memmem;

/// The parameters of a raw call, without the members that the session writes as well: none is ever written
/// twice.
#[derive(Debug, Default)]
pub(crate) struct RawParams {
    /// What is left once they are taken out; `None` if there were none of them.
    pub(crate) rest: Option<Entries<RawJson>>,
    /// The members of `_meta`.
    pub(crate) meta: Entries<RawJson>,
    /// The answers to what the server has asked for, and the state that it gave.
    pub(crate) answers: Option<InputAnswers>,
}

impl RawParams {
    /// Looks for those members; answers and state are such only where a call `has_rounds`.
    pub(crate) fn read(params: &Payload, has_rounds: bool) -> Result<Self, DecodeError> {
        let mut read = Self::default();
        if !may_have_any(params.as_bytes()) {
            return Ok(read);
        }
        let members: Entries<RawJson> = params.decode()?;
        let before = members.len();
        let mut rest = Vec::with_capacity(before);
        for (name, value) in members {
            match name.as_str() {
                "_meta" => read.meta = value.decode()?,
                "inputResponses" if has_rounds => {
                    let answers = read.answers.get_or_insert_default();
                    for (key, answer) in value.decode::<Entries<RawJson>>()? {
                        answers.answer_raw(&key, answer);
                    }
                }
                "requestState" if has_rounds => {
                    read.answers.get_or_insert_default().give_state(value);
                }
                _ => rest.push((name, value)),
            }
        }
        if rest.len() < before {
            read.rest = Some(rest.into_iter().collect());
        }
        Ok(read)
    }
}

/// Whether any of those names may be there, as it is or with escapes.
fn may_have_any(params: &[u8]) -> bool {
    let names: [&[u8]; 4] = [b"_meta", b"inputResponses", b"requestState", b"\\u00"];
    names.iter().any(|name| memmem::find(params, name).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn read(params: &str, has_rounds: bool) -> Result<(String, String, String), DecodeError> {
        let params: &RawValue = serde_json::from_str(params).unwrap();
        let read = RawParams::read(&Payload::encode(params).unwrap(), has_rounds)?;
        let text = |value: Result<Payload, DecodeError>| value.unwrap().as_str().to_owned();
        Ok((
            read.rest.map_or("all".to_owned(), |rest| text(Payload::encode(&rest))),
            text(Payload::encode(&read.meta)),
            text(Payload::encode(&read.answers)),
        ))
    }

    #[test]
    fn what_is_written_anyway_is_taken_out_however_it_is_spelt() {
        let table = [
            (r#"{"a":"_meta"}"#, "all", "{}"),
            (r#"{"b":1.0,"_meta":{"k":1},"a":[0.10]}"#, r#"{"b":1.0,"a":[0.10]}"#, r#"{"k":1}"#),
            (r#"{"\u005fmeta":{"k":{"_meta":2}}}"#, "{}", r#"{"k":{"_meta":2}}"#),
            (r#"{"_meta":{"k":1},"_meta":{"k":2}}"#, "{}", r#"{"k":2}"#),
        ];
        for (params, rest, meta) in table {
            let (found, found_meta, _) = read(params, true).unwrap();
            assert_eq!((found.as_str(), found_meta.as_str()), (rest, meta), "{params}");
        }
        assert!(read(r#"{"_meta":null}"#, true).is_err());
        assert!(read(r#"["_meta"]"#, true).is_err());
    }

    #[test]
    fn answers_are_answers_only_where_there_are_rounds() {
        let params = r#"{"inputResponses":{"q":1},"requestState":"s","name":"t"}"#;
        assert_eq!(read(params, false).unwrap().0, "all");
        let (rest, _, answers) = read(params, true).unwrap();
        assert_eq!(rest, r#"{"name":"t"}"#);
        assert_eq!(answers, r#"{"inputResponses":{"q":1},"requestState":"s"}"#);
    }
}
