use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, header};

use crate::clock::WallClock;

/// Longest wait that a server can ask for.
const LONGEST: Duration = Duration::from_secs(300);

/// How long a server asks to wait, in seconds or until a date; what cannot be read asks for nothing.
///
/// A date counts from the one that the answer itself bears, so that clocks need not agree; only without
/// that from `clock`.
pub(super) fn retry_after(headers: &HeaderMap, clock: &dyn WallClock) -> Option<Duration> {
    wait(headers, || Some(clock.now()))
}

/// The same without a clock: a date counts for nothing if the answer does not bear its own.
#[cfg(feature = "oauth")]
pub(crate) fn retry_after_without_clock(headers: &HeaderMap) -> Option<Duration> {
    wait(headers, || None)
}

fn wait(headers: &HeaderMap, now: impl FnOnce() -> Option<SystemTime>) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match date(headers, &header::RETRY_AFTER) {
        Some(until) => {
            let now = date(headers, &header::DATE).or_else(now)?;
            // Over already: there is nothing to wait for.
            until.duration_since(now).unwrap_or_default()
        }
        None if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() => {
            // More digits than a number has are still a number.
            Duration::from_secs(text.parse().unwrap_or(u64::MAX))
        }
        None => return None,
    };
    Some(wait.min(LONGEST))
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[derive(Debug)]
    struct Fixed(SystemTime);

    impl WallClock for Fixed {
        fn now(&self) -> SystemTime {
            self.0
        }
    }

    fn wait(value: &'static str, date: Option<&'static str>) -> Option<u64> {
        // Sun, 06 Nov 1994 08:49:37 GMT, the date of the examples in RFC 9110.
        let clock = Fixed(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777));
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(value));
        headers.extend(date.map(|date| (header::DATE, HeaderValue::from_static(date))));
        retry_after(&headers, &clock).map(|wait| wait.as_secs())
    }

    #[test]
    fn f065_waits_in_every_shape() {
        for (value, expected) in [
            ("7", Some(7)),
            (" 7 ", Some(7)),
            ("0", Some(0)),
            ("1000000000", Some(300)),
            ("99999999999999999999999999", Some(300)),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10)),
            ("Sun Nov  6 08:49:47 1994", Some(10)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(300)),
            ("Sun, 06 Nov 1994 99:49:47 GMT", None),
        ] {
            assert_eq!(wait(value, None), expected, "{value}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), &Fixed(SystemTime::UNIX_EPOCH)), None);
    }

    #[test]
    fn f065_a_date_counts_from_the_date_of_the_answer() {
        let until = "Sun, 06 Nov 1994 08:50:00 GMT";
        assert_eq!(wait(until, Some("Sun, 06 Nov 1994 08:49:55 GMT")), Some(5));
        assert_eq!(wait(until, Some("Sun, 06 Nov 1994 08:55:00 GMT")), Some(0));
        assert_eq!(wait(until, Some("yesterday")), Some(23), "then our own clock");
        assert_eq!(wait("7", Some("yesterday")), Some(7));
    }
}
