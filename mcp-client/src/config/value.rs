use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::ConfigFault;

/// Longest duration that a configuration may ask for: a week. Longer ones are slips, and adding them
/// to a clock could overflow.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// A duration cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationFault {
    /// Not a duration.
    #[error("must be a duration such as 500ms, 2s or 5m")]
    Malformed,
    /// Zero, negative, or too small to measure.
    #[error("must be more than zero")]
    NotPositive,
    /// Over a week.
    #[error("must be at most 7 days")]
    TooLong,
}

/// Reads `500ms`, `2s`, `5m` or `1h`; fractions are fine.
///
/// # Errors
///
/// Another form, zero, a negative number or more than seven days.
pub fn parse_duration(text: &str) -> Result<Duration, DurationFault> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or(DurationFault::Malformed)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(DurationFault::Malformed),
    };
    let number: f64 = number.trim().parse().map_err(|_| DurationFault::Malformed)?;
    from_seconds(number * seconds_per_unit)
}

/// Turns a number of seconds into a duration; NaN, infinities, zero and negatives are errors.
fn from_seconds(seconds: f64) -> Result<Duration, DurationFault> {
    if seconds.is_nan() {
        return Err(DurationFault::Malformed);
    }
    if seconds > LONGEST.as_secs_f64() {
        return Err(DurationFault::TooLong);
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) | Err(_) => Err(DurationFault::NotPositive),
    }
}

/// Reads a raw JSON value as a type, or says which kind was expected.
fn typed<T: DeserializeOwned>(raw: &RawValue, expected: &'static str) -> Result<T, ConfigFault> {
    serde_json::from_str(raw.get()).map_err(|_| ConfigFault::WrongKind { expected })
}

pub(super) fn text(raw: &RawValue) -> Result<String, ConfigFault> {
    typed(raw, "a text")
}

pub(super) fn texts(raw: &RawValue) -> Result<Vec<String>, ConfigFault> {
    typed(raw, "a list of texts")
}

pub(super) fn flag(raw: &RawValue) -> Result<bool, ConfigFault> {
    typed(raw, "true or false")
}

/// Environment values: people write numbers and booleans too, and every program reads them as texts.
pub(super) fn variables(raw: &RawValue) -> Result<BTreeMap<String, String>, ConfigFault> {
    const EXPECTED: &str = "an object whose values are texts";
    let values: BTreeMap<String, serde_json::Value> = typed(raw, EXPECTED)?;
    let plain = |value| match value {
        serde_json::Value::String(text) => Ok(text),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        serde_json::Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err(ConfigFault::WrongKind { expected: EXPECTED }),
    };
    values.into_iter().map(|(name, value)| Ok((name, plain(value)?))).collect()
}

pub(super) fn count(raw: &RawValue, min: u64, max: u64) -> Result<u64, ConfigFault> {
    match serde_json::from_str(raw.get()) {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(ConfigFault::OutOfRange { min, max }),
    }
}

/// A duration: a text with a unit, or a number of milliseconds as other programs write it.
pub(super) fn duration(raw: &RawValue) -> Result<Duration, ConfigFault> {
    match serde_json::from_str::<serde_json::Value>(raw.get()) {
        Ok(serde_json::Value::String(text)) => Ok(parse_duration(&text)?),
        Ok(serde_json::Value::Number(number)) => {
            let milliseconds = number.as_f64().ok_or(DurationFault::Malformed)?;
            Ok(from_seconds(milliseconds / 1000.0)?)
        }
        // A number too large for any machine is no JSON value for the reader, but a number it is.
        Err(_) if raw.get().starts_with(|c: char| c.is_ascii_digit()) => Err(DurationFault::TooLong.into()),
        Ok(_) | Err(_) => Err(DurationFault::Malformed.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration(" 1.5 s "), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
    }

    #[test]
    fn f155_useless_durations_are_refused() {
        for (text, fault) in [
            ("0s", DurationFault::NotPositive),
            ("-1s", DurationFault::NotPositive),
            ("0.0000000001ms", DurationFault::NotPositive),
            ("8000000000h", DurationFault::TooLong),
            ("1e400s", DurationFault::Malformed),
            ("99999999999999999999999999h", DurationFault::TooLong),
            ("NaNs", DurationFault::Malformed),
            ("infs", DurationFault::Malformed),
            ("2", DurationFault::Malformed),
            ("s", DurationFault::Malformed),
            ("", DurationFault::Malformed),
            ("2 weeks", DurationFault::Malformed),
        ] {
            assert_eq!(parse_duration(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn f155_numbers_in_json_are_milliseconds_within_bounds() {
        let read = |json: &str| duration(&RawValue::from_string(json.to_owned()).unwrap());
        assert_eq!(read("1500"), Ok(Duration::from_millis(1500)));
        assert_eq!(read("\"2s\""), Ok(Duration::from_secs(2)));
        assert_eq!(read("0"), Err(DurationFault::NotPositive.into()));
        assert_eq!(read("-5"), Err(DurationFault::NotPositive.into()));
        assert_eq!(read("1e400"), Err(DurationFault::TooLong.into()));
        assert_eq!(read("18446744073709551616"), Err(DurationFault::TooLong.into()));
        assert_eq!(read("null"), Err(DurationFault::Malformed.into()));
    }
}
