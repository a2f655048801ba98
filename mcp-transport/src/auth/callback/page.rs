/// What a browser is shown. No text of a request is ever part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// Access was granted.
    Granted,
    /// Access was denied.
    Denied,
    /// The answer belongs to no login, or not to this one.
    Foreign,
    /// There is nothing here.
    NotFound,
    /// The login is over.
    Over,
}

impl Page {
    /// The whole answer, head and body.
    pub(super) fn response(self) -> String {
        let (status, text) = match self {
            Self::Granted => ("200 OK", "Access was granted. You can close this window."),
            Self::Denied => ("200 OK", "Access was not granted. You can close this window."),
            Self::Foreign => ("400 Bad Request", "This answer belongs to no login that is going on."),
            Self::NotFound => ("404 Not Found", "There is nothing here."),
            Self::Over => ("410 Gone", "This login is over. You can close this window."),
        };
        let body = format!("<!doctype html><meta charset=\"utf-8\"><title>Login</title><p>{text}</p>\n");
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
             Content-Security-Policy: default-src 'none'\r\nCache-Control: no-store\r\n\
             Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }
}
