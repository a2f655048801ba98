//! Numbers of a form go back to the server: they are held as they were written, or not at all.

use serde_json::Number;

/// The number that a JSON number names, unless neither 64 bits nor a float hold exactly that one.
pub(crate) fn exact_number(text: &str) -> Option<Number> {
    let unsigned = text.parse::<u64>().map(Number::from);
    let integer = unsigned.or_else(|_| text.parse::<i64>().map(Number::from));
    let number = integer.ok().or_else(|| Number::from_f64(text.parse().ok()?))?;
    (Decimal::of(text)? == Decimal::of(&number.to_string())?).then_some(number)
}

/// What a JSON number says, however it is written.
#[derive(PartialEq)]
struct Decimal {
    is_negative: bool,
    /// Without zeros on either side.
    digits: String,
    /// How many zeros follow the digits; if it is negative, how many digits are behind the point.
    exponent: i64,
}

impl Decimal {
    fn of(text: &str) -> Option<Self> {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_end_matches('0');
        let zeros = i64::try_from(all.len() - digits.len()).ok()?;
        let places = i64::try_from(fraction.len()).ok()?;
        let exponent = exponent.parse::<i64>().ok()?.checked_add(zeros - places)?;
        let digits = digits.trim_start_matches('0').to_owned();
        let exponent = if digits.is_empty() { 0 } else { exponent };
        Some(Self { is_negative, digits, exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f105_a_number_is_held_as_it_is_written_or_not_at_all() {
        for (text, held) in [
            ("0", Some("0")),
            ("42", Some("42")),
            ("-7", Some("-7")),
            ("95.5", Some("95.5")),
            ("95.50", Some("95.5")),
            ("0.1", Some("0.1")),
            ("-0.0", Some("-0.0")),
            ("100.0", Some("100.0")),
            ("1E+2", Some("100.0")),
            ("0e9", Some("0.0")),
            ("1e-7", Some("1e-7")),
            ("1e300", Some("1e300")),
            ("18446744073709551615", Some("18446744073709551615")),
            ("-9223372036854775808", Some("-9223372036854775808")),
            ("18446744073709551616", None),
            ("123456789012345678901234567890", None),
            ("0.12345678901234567890", None),
            ("-9223372036854775809", None),
            ("1e400", None),
            ("1e-400", None),
            ("1e99999999999999999999", None),
            ("-0", None),
            ("null", None),
            ("\"1\"", None),
        ] {
            let read = exact_number(text).map(|number| number.to_string().replace("e+", "e"));
            assert_eq!(read.as_deref(), held, "{text}");
        }
    }
}
