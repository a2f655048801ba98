//! How integers are read: to JSON Schema `100.0` is one as well.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

use crate::member::Member;

/// Floats are read with an error of a few units in the last place. Below 2⁴⁸ such a unit is at most
/// 1/32, so that an error can turn an integer into a fraction, which is refused, but never into
/// another integer.
const EXACT_FLOAT: f64 = 281_474_976_710_656.0;

/// The integer that a float without a fraction names, as long as its magnitude is below 2⁴⁸.
pub(crate) fn whole(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "integral and below 2⁴⁸: exact")]
    let integer = number as i64;
    (number.fract() == 0.0 && number.abs() < EXACT_FLOAT).then_some(integer)
}

impl Member for i64 {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerVisitor(PhantomData))
    }
}

impl Member for u64 {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerVisitor(PhantomData))
    }
}

struct IntegerVisitor<T>(PhantomData<T>);

impl<T: TryFrom<i64> + TryFrom<u64>> Visitor<'_> for IntegerVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer within its range")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        match whole(number) {
            Some(number) => self.visit_i64(number),
            None => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::decode_with;

    #[test]
    fn f105_an_integer_is_read_however_it_is_written_and_never_as_another_one() {
        for (text, signed, unsigned) in [
            ("0", Some(0), Some(0)),
            ("-0", Some(0), Some(0)),
            ("100.0", Some(100), Some(100)),
            ("1e2", Some(100), Some(100)),
            ("-32601.0", Some(-32601), None),
            ("-1", Some(-1), None),
            ("9223372036854775807", Some(i64::MAX), Some(9_223_372_036_854_775_807)),
            ("18446744073709551615", None, Some(u64::MAX)),
            ("18446744073709551616", None, None),
            ("281474976710655.0", Some(281_474_976_710_655), Some(281_474_976_710_655)),
            ("281474976710656.0", None, None),
            ("0.5", None, None),
            ("1e400", None, None),
            ("\"1\"", None, None),
            ("true", None, None),
            ("null", None, None),
            ("[1]", None, None),
        ] {
            assert_eq!(decode_with(text, |reader| i64::read(reader)).ok(), signed, "{text}");
            assert_eq!(decode_with(text, |reader| u64::read(reader)).ok(), unsigned, "{text}");
        }
        let error = decode_with("-1", |reader| u64::read(reader)).unwrap_err().to_string();
        assert!(error.starts_with("expected an integer within its range"), "{error}");
    }
}
