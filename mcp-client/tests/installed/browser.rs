//! The browser of a person who agrees to everything.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// So many redirects in a row are no login any more.
const MAX_REDIRECTS: usize = 10;

/// What a page has answered.
pub struct Page {
    pub status: u16,
    location: Option<String>,
    cookies: BTreeMap<String, String>,
}

/// Follows the redirects from the URL of an authorization to the one at which it ends; does not go there.
pub fn grant(url: &str) -> String {
    let callback = url.split(['?', '&']).find_map(|pair| pair.strip_prefix("redirect_uri=")).unwrap();
    let callback = callback.replace("%3A", ":").replace("%2F", "/");
    let (mut url, mut cookies) = (url.to_owned(), BTreeMap::new());
    for _ in 0..MAX_REDIRECTS {
        if url.starts_with(&callback) {
            return url;
        }
        let page = get(&url, &cookies);
        let location = page.location.unwrap_or_else(|| panic!("{} at {url}", page.status));
        let (host, _) = parts(&url);
        url = if location.starts_with('/') { format!("http://{host}{location}") } else { location };
        cookies.extend(page.cookies);
        // That is how a cookie is taken back.
        cookies.retain(|_, value| !value.is_empty());
    }
    panic!("the redirects do not end: {url}");
}

/// Gets one page over HTTP on loopback.
pub fn get(url: &str, cookies: &BTreeMap<String, String>) -> Page {
    let (host, path) = parts(url);
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    let cookies: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    write!(stream, "{head}cookie: {}\r\n\r\n", cookies.join("; ")).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let mut page = Page { status: 0, location: None, cookies: BTreeMap::new() };
    let mut lines = answer.lines().take_while(|line| !line.is_empty());
    page.status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        match name.to_ascii_lowercase().as_str() {
            "location" => page.location = Some(value.to_owned()),
            "set-cookie" => {
                let cookie = value.split(';').next().and_then(|cookie| cookie.split_once('='));
                page.cookies.extend(cookie.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            _ => {}
        }
    }
    page
}

fn parts(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap();
    rest.split_at(rest.find('/').unwrap_or(rest.len()))
}
