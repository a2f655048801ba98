use super::super::form::Form;

/// Largest head of a request that is read, in bytes.
pub(super) const MAX_HEAD_BYTES: usize = 8 * 1024;

/// Most headers of a request.
const MAX_HEADERS: usize = 100;

/// A request that brings no answer of an authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallbackRefusal {
    /// It is meant for another host: some page has had its name lead to this machine.
    #[error("the request is meant for another host")]
    Host,
    /// It is not HTTP.
    #[error("not a request")]
    Malformed,
    /// It is a request for something else, such as an icon.
    #[error("nothing is here")]
    NotFound,
}

/// Reads the head of a request to the loopback port `port`: its path and its parameters, if it is a GET
/// that is meant for this machine.
///
/// # Errors
///
/// It brings no answer.
pub fn read_callback(head: &[u8], port: u16) -> Result<(String, Form), CallbackRefusal> {
    let head = std::str::from_utf8(head).map_err(|_| CallbackRefusal::Malformed)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(CallbackRefusal::Malformed);
    };
    let is_plain = target.starts_with('/') && target.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    if !matches!(version, "HTTP/1.0" | "HTTP/1.1") || !is_plain {
        return Err(CallbackRefusal::Malformed);
    }
    let mut host = None;
    for line in lines.take_while(|line| !line.is_empty()).take(MAX_HEADERS) {
        let (name, value) = line.split_once(':').ok_or(CallbackRefusal::Malformed)?;
        if name.eq_ignore_ascii_case("host") && host.replace(value.trim()).is_some() {
            return Err(CallbackRefusal::Malformed);
        }
    }
    let is_here = |host: &str| {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        names.iter().any(|name| host.eq_ignore_ascii_case(&format!("{name}:{port}")))
    };
    if !host.is_some_and(is_here) {
        return Err(CallbackRefusal::Host);
    }
    if method != "GET" {
        return Err(CallbackRefusal::NotFound);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok((path.to_owned(), Form::parse(query)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(head: &str) -> Result<(String, Form), CallbackRefusal> {
        read_callback(head.as_bytes(), 7000)
    }

    #[test]
    fn f170_l02_only_a_get_for_this_machine_is_read() {
        use CallbackRefusal::{Host, Malformed, NotFound};
        for host in ["127.0.0.1:7000", "localhost:7000", "LOCALHOST:7000", "[::1]:7000"] {
            let (path, form) =
                read(&format!("GET /callback?state=s&code=a+b%21 HTTP/1.1\r\nHost: {host}\r\n\r\n")).unwrap();
            assert_eq!((path.as_str(), form.get("code").unwrap().expose()), ("/callback", "a b!"));
        }
        for (head, expected) in [
            ("", Malformed),
            ("GET", Malformed),
            ("GET /  HTTP/1.1\r\n", Malformed),
            ("GET http://127.0.0.1:7000/ HTTP/1.1\r\nHost: 127.0.0.1:7000\r\n", Malformed),
            ("GET /\nx HTTP/1.1\r\nHost: 127.0.0.1:7000\r\n", Malformed),
            ("GET / HTTP/2\r\nHost: 127.0.0.1:7000\r\n", Malformed),
            ("GET / HTTP/1.1\r\nno colon\r\n", Malformed),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:7000\r\nhost: 127.0.0.1:7000\r\n", Malformed),
            ("\u{16}\u{3}\u{1}", Malformed),
            ("GET / HTTP/1.1\r\n\r\n", Host),
            ("GET / HTTP/1.1\r\nHost: evil.example:7000\r\n", Host),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", Host),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:7001\r\n", Host),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:7000.evil.example\r\n", Host),
            ("POST /callback HTTP/1.1\r\nHost: 127.0.0.1:7000\r\n", NotFound),
            ("HEAD /callback HTTP/1.1\r\nHost: 127.0.0.1:7000\r\n", NotFound),
            ("get /callback HTTP/1.1\r\nHost: 127.0.0.1:7000\r\n", NotFound),
        ] {
            assert_eq!(read(head).unwrap_err(), expected, "{head:?}");
        }
        assert_eq!(read_callback(b"GET /\xff HTTP/1.1\r\n", 7000).unwrap_err(), Malformed);
    }

    proptest! {
        #[test]
        fn l02_nothing_panics(head in prop::collection::vec(any::<u8>(), 0..200)) {
            // Any answer will do; a panic will not.
            let _ = read_callback(&head, 7000);
        }
    }
}
