use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::web_url::WebUrl;
use crate::http::Origin;

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// The network at large.
    Public,
    /// A network behind a router: RFC 1918, shared space, unique local, benchmarking.
    Private,
    /// This link only; cloud providers serve secrets of the machine here.
    LinkLocal,
    /// This machine.
    Loopback,
    /// Nowhere a client should connect to: multicast, unspecified, reserved.
    Never,
}

/// Which addresses URLs may lead to that a server has named.
///
/// A server must not send its clients to places that only they can reach (server-side request
/// forgery). So the URLs it names lead to public addresses; others are reached only if the server that
/// the user has configured is itself of that class.
///
/// Names that tell their class (`localhost`) are judged before a look-up, everything else by the address
/// that is really connected to. So is the configured server: the policy of a name holds its origin until
/// somebody has [looked it up](Self::looked_up).
///
/// # Source
///
/// MCP 2026-07-28, security best practices, *Server-Side Request Forgery*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPolicy {
    class: AddressClass,
    /// The configured server, where its class is not known before it is looked up.
    server: Option<Origin>,
}

/// A URL leads to an address that a server may not send its clients to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server names an address of the class {class:?}, which it may not")]
pub struct AddressRefused {
    /// The class of the address.
    pub class: AddressClass,
}

impl AddressClass {
    /// Judges an address; one that embeds another is as private as that.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    /// Judges a host as a URL names it; a name that says nothing counts as public until it is looked up.
    #[must_use]
    pub fn of_host(host: &str) -> Self {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Self::of(address);
        }
        match host {
            "localhost" | "ip6-localhost" | "ip6-loopback" => Self::Loopback,
            host if host.ends_with(".localhost") || host.ends_with(".localdomain") => Self::Loopback,
            "instance-data" | "metadata" | "metadata.goog" | "metadata.google.internal" => Self::LinkLocal,
            _ => Self::Public,
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            // Azure and Alibaba serve the secrets of the machine here, on addresses that look like others.
            [168, 63, 129, 16] | [100, 100, 100, 200] => Self::LinkLocal,
            [127, ..] => Self::Loopback,
            [10, ..] | [192, 168, ..] | [198, 18 | 19, ..] => Self::Private,
            [172, second, ..] if second & 0xf0 == 16 => Self::Private,
            [100, second, ..] if second & 0xc0 == 64 => Self::Private,
            [169, 254, ..] => Self::LinkLocal,
            [0, ..] | [192, 0, 0, _] | [224..=255, ..] => Self::Never,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let v4 = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0] => Self::Never,
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            // Embedded IPv4: mapped, compatible, translated, NAT64, 6to4, Teredo.
            [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => v4(high, low),
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
            [0x64, 0xff9b, 1, ..] => Self::Never,
            [0x2002, high, low, ..] => v4(high, low),
            [0x2001, 0, _, _, _, _, high, low] => v4(!high, !low),
            // AWS serves the secrets of the machine here.
            [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254] => Self::LinkLocal,
            [first, ..] => match first {
                0xfc00..=0xfdff => Self::Private,
                0xfe80..=0xfebf => Self::LinkLocal,
                0xfec0..=0xfeff => Self::Private,
                0xff00..=0xffff => Self::Never,
                _ => Self::Public,
            },
        }
    }
}

impl AddressPolicy {
    /// What the server at `url` may name.
    ///
    /// Its host is judged as written: a name that leads to a private address counts as public until it
    /// is [looked up](Self::looked_up).
    #[must_use]
    pub fn of_server(url: &WebUrl) -> Self {
        let origin = url.origin();
        let class = AddressClass::of_host(&origin.host);
        let is_name = origin.host.parse::<IpAddr>().is_err();
        Self { class, server: (is_name && class == AddressClass::Public).then(|| origin.clone()) }
    }

    /// What holds for `url` where the server at `server` has named it; `None` on the origin of that
    /// server, which the user has written.
    #[must_use]
    pub fn of_url(url: &WebUrl, server: &WebUrl) -> Option<Self> {
        (url.origin() != server.origin()).then(|| Self::of_server(server))
    }

    /// What a server of this class may name.
    #[must_use]
    pub fn for_class(class: AddressClass) -> Self {
        Self { class, server: None }
    }

    /// The configured server, where only a look-up of its name can tell its class.
    #[must_use]
    pub fn unknown_server(&self) -> Option<&Origin> {
        self.server.as_ref()
    }

    /// The same policy where the name of the configured server leads to `addresses`.
    ///
    /// A name that leads to several classes, or nowhere, counts as public: it must not open a door to any
    /// of them.
    #[must_use]
    pub fn looked_up(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut classes = addresses.into_iter().map(AddressClass::of);
        let first = classes.next().unwrap_or(AddressClass::Public);
        let is_one = classes.all(|class| class == first);
        Self::for_class(if is_one { first } else { AddressClass::Public })
    }

    /// Judges the host of a URL as it is written.
    ///
    /// # Errors
    ///
    /// The server may not name it.
    pub fn check(&self, url: &WebUrl) -> Result<(), AddressRefused> {
        self.check_class(AddressClass::of_host(&url.origin().host))
    }

    /// Judges an address that a name has led to.
    ///
    /// # Errors
    ///
    /// The server may not lead there.
    pub fn check_address(&self, address: IpAddr) -> Result<(), AddressRefused> {
        self.check_class(AddressClass::of(address))
    }

    fn check_class(&self, class: AddressClass) -> Result<(), AddressRefused> {
        let is_allowed = match class {
            AddressClass::Public => true,
            AddressClass::Never => false,
            other => other == self.class,
        };
        if is_allowed { Ok(()) } else { Err(AddressRefused { class }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d07_hosts_in_every_spelling_are_classed() {
        use AddressClass::{LinkLocal, Loopback, Never, Private, Public};
        let table = [
            ("127.0.0.1", Loopback),
            ("127.255.0.9", Loopback),
            ("::1", Loopback),
            ("::ffff:127.0.0.1", Loopback),
            ("::127.0.0.1", Loopback),
            ("::ffff:0:127.0.0.1", Loopback),
            ("64:ff9b::7f00:1", Loopback),
            ("2002:7f00:1::", Loopback),
            ("2001:0:0:0:0:0:80ff:fffe", Loopback),
            ("localhost", Loopback),
            ("a.localhost", Loopback),
            ("10.0.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("172.32.0.1", Public),
            ("192.168.1.1", Private),
            ("100.64.0.1", Private),
            ("100.128.0.1", Public),
            ("198.18.0.1", Private),
            ("198.20.0.1", Public),
            ("fd00::1", Private),
            ("fec0::1", Private),
            ("::ffff:10.0.0.1", Private),
            ("64:ff9b::a00:1", Private),
            ("2002:c0a8:101::1", Private),
            ("169.254.169.254", LinkLocal),
            ("fe80::1", LinkLocal),
            ("::ffff:169.254.169.254", LinkLocal),
            ("64:ff9b::a9fe:a9fe", LinkLocal),
            ("fd00:ec2::254", LinkLocal),
            ("168.63.129.16", LinkLocal),
            ("168.63.129.17", Public),
            ("100.100.100.200", LinkLocal),
            ("::ffff:100.100.100.200", LinkLocal),
            ("metadata.google.internal", LinkLocal),
            ("0.0.0.0", Never),
            ("0.1.2.3", Never),
            ("::", Never),
            ("224.0.0.1", Never),
            ("255.255.255.255", Never),
            ("240.0.0.1", Never),
            ("ff02::1", Never),
            ("192.0.0.192", Never),
            ("64:ff9b:1::a00:1", Never),
            ("8.8.8.8", Public),
            ("2606:4700::1", Public),
            ("64:ff9b::808:808", Public),
            ("login.example", Public),
            ("localhost.example", Public),
        ];
        for (host, expected) in table {
            assert_eq!(AddressClass::of_host(host), expected, "{host}");
        }
    }

    #[test]
    fn d07_a_server_may_name_public_addresses_and_its_own_class() {
        let hosts = ["login.example", "127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0"];
        let allowed = |server: &str| {
            let policy = AddressPolicy::of_server(&WebUrl::parse(server).unwrap());
            hosts.map(|host| policy.check(&WebUrl::parse(&format!("http://{host}/")).unwrap()).is_ok())
        };
        assert_eq!(allowed("https://mcp.example/"), [true, false, false, false, false]);
        assert_eq!(allowed("http://localhost:3000/mcp"), [true, true, false, false, false]);
        assert_eq!(allowed("http://10.9.9.9/mcp"), [true, false, true, false, false]);
        assert_eq!(allowed("http://0.0.0.0:3000/mcp"), [true, false, false, false, false]);
        let policy = AddressPolicy::of_server(&WebUrl::parse("https://mcp.example/").unwrap());
        assert!(policy.check_address("127.0.0.1".parse().unwrap()).is_err());
        assert!(policy.check_address("93.184.216.34".parse().unwrap()).is_ok());
    }

    #[test]
    fn d07_the_policy_of_a_name_is_that_of_its_addresses_and_of_an_address_is_known() {
        let url = |text: &str| WebUrl::parse(text).unwrap();
        let here = "127.0.0.1".parse().unwrap();
        let policy = AddressPolicy::of_server(&url("https://intranet.example/mcp"));
        assert_eq!(policy.unknown_server(), Some(url("https://intranet.example").origin()));
        let looked_up = |addresses: &[&str]| {
            let policy = policy.looked_up(addresses.iter().map(|address| address.parse().unwrap()));
            (policy.check_address(here).is_ok(), policy.unknown_server().is_some())
        };
        assert_eq!(looked_up(&["127.0.0.1", "::1"]), (true, false));
        assert_eq!(looked_up(&["8.8.8.8"]), (false, false));
        assert_eq!(looked_up(&["8.8.8.8", "127.0.0.1"]), (false, false));
        assert_eq!(looked_up(&[]), (false, false));
        for (server, class) in [
            ("http://127.0.0.1:3000/mcp", AddressClass::Loopback),
            ("http://localhost:3000/mcp", AddressClass::Loopback),
            ("https://8.8.8.8/mcp", AddressClass::Public),
        ] {
            assert_eq!(AddressPolicy::of_server(&url(server)), AddressPolicy::for_class(class), "{server}");
        }
    }

    #[test]
    fn d07_the_origin_of_the_configured_server_is_exempt_and_no_other() {
        let url = |text: &str| WebUrl::parse(text).unwrap();
        let server = url("https://rs.example:8443/mcp");
        for own in ["https://rs.example:8443/.well-known/x", "https://RS.example:8443/other?y"] {
            assert_eq!(AddressPolicy::of_url(&url(own), &server), None, "{own}");
        }
        for other in [
            "https://rs.example/x",
            "http://rs.example:8443/x",
            "https://as.example:8443/x",
            "https://10.0.0.1:8443/",
        ] {
            let policy = AddressPolicy::of_url(&url(other), &server);
            assert_eq!(policy, Some(AddressPolicy::of_server(&server)), "{other}");
        }
    }
}
