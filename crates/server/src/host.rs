//! Which `Host` a request may name.
//!
//! A page of another origin can make its own name resolve to a loopback address and so let a browser read what this
//! server says (DNS rebinding). Such a request carries that name in `Host`. Names other than `localhost` and those that
//! the operator gives the server are therefore refused; an address cannot be rebound.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::uri::Authority;
use thiserror::Error;

/// A DNS name that a server is called by, such as `bank.example.com`; its case does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(pub(crate) String);

/// The text is not a [`HostName`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a DNS name: give labels of letters, digits and hyphens, without scheme, port and path")]
pub struct HostNameError {
    text: String,
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, HostNameError> {
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if text.len() <= 253 && text.split('.').all(is_label) {
            Ok(Self(text.to_owned()))
        } else {
            Err(HostNameError { text: text.to_owned() })
        }
    }
}

/// Where a server listens: an address or a [`HostName`], and a port, such as `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address of this machine, or the unspecified one for all of them.
    Socket(SocketAddr),
    /// A name, which is resolved when the server begins to listen.
    Name(HostName, u16),
}

/// The text is not a [`ListenAddress`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is no address with a port: give one such as `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`")]
pub struct ListenAddressError {
    text: String,
}

impl ListenAddress {
    /// The name, if it is none of numbers.
    #[must_use]
    pub fn name(&self) -> Option<&HostName> {
        match self {
            Self::Socket(_) => None,
            Self::Name(name, _) => Some(name),
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Socket(address)
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, ListenAddressError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Socket(address));
        }
        let named = || {
            let (host, port) = text.rsplit_once(':')?;
            let name: HostName = host.parse().ok()?;
            // What ends in a number is an address that was written wrong, such as `127.0.0:80`.
            let is_number = name.0.rsplit('.').next()?.bytes().all(|byte| byte.is_ascii_digit());
            (!is_number).then_some(Self::Name(name, port.parse().ok()?))
        };
        named().ok_or_else(|| ListenAddressError { text: text.to_owned() })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => write!(f, "{address}"),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The hosts that a server listening on one address answers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    listen: IpAddr,
    names: Vec<HostName>,
}

impl Hosts {
    pub(crate) fn new(listen: IpAddr, names: Vec<HostName>) -> Self {
        Self { listen, names }
    }

    /// Whether `authority` (`host` or `host:port`) is `localhost`, one of the names, a loopback address or the address
    /// listened on; any address when every interface is listened on. The port is not compared: it may be forwarded.
    pub(crate) fn allow(&self, authority: &str) -> bool {
        is_plain_loopback(authority) || self.allow_parsed(authority)
    }

    fn allow_parsed(&self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host();
        let is_named = |name: &HostName| host.eq_ignore_ascii_case(&name.0);
        if host.eq_ignore_ascii_case("localhost") || self.names.iter().any(is_named) {
            return true;
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match bare.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback() || ip == self.listen || self.listen.is_unspecified(),
            Err(_) => false,
        }
    }
}

/// Whether `authority` is `localhost` or `127.0.0.1`, with a port or without: what most requests name, seen without a parser.
fn is_plain_loopback(authority: &str) -> bool {
    let (host, port) = authority.split_once(':').unwrap_or((authority, "0"));
    matches!(host, "localhost" | "127.0.0.1") && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_and_the_listen_address_are_answered() {
        let loopback = ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:80", "127.9.9.9:1", "[::1]:8080"];
        let foreign = ["example.com", "localhost.example.com", "127.0.0.1.nip.io:8080", "", " ", "a b", "x@localhost"];
        let address = "192.0.2.7:8080";
        for listen in ["127.0.0.1", "::1", "192.0.2.7", "0.0.0.0", "::"] {
            let hosts = Hosts::new(listen.parse().unwrap(), Vec::new());
            assert!(loopback.iter().all(|host| hosts.allow(host)), "{listen}");
            assert!(!foreign.iter().any(|host| hosts.allow(host)), "{listen}");
            assert_eq!(hosts.allow(address), ["192.0.2.7", "0.0.0.0", "::"].contains(&listen), "{listen}");
        }
    }

    #[test]
    fn what_is_allowed_without_a_parser_is_allowed_by_it() {
        let hosts = Hosts::new([192, 0, 2, 7].into(), Vec::new());
        for (host, is_plain) in [
            ("localhost", true),
            ("localhost:8080", true),
            ("127.0.0.1", true),
            ("127.0.0.1:0", true),
            ("127.0.0.1:4294967296", true),
            ("127.0.0.1:", false),
            ("127.0.0.1:8080@x", false),
            ("localhost:80:80", false),
            ("localhost.", false),
            ("x@localhost", false),
            ("127.0.0.10", false),
            ("192.0.2.8:80", false),
        ] {
            assert_eq!(is_plain_loopback(host), is_plain, "{host}");
            assert!(!is_plain || hosts.allow_parsed(host), "{host}");
        }
    }

    #[test]
    fn names_that_the_server_is_given_are_answered_and_no_others() {
        let names = ["bank.example.com", "bank"].map(|name| name.parse().expect("a name"));
        let hosts = Hosts::new([127, 0, 0, 1].into(), names.to_vec());
        for (host, expected) in [
            ("bank.example.com", true),
            ("Bank.Example.COM:8443", true),
            ("bank", true),
            ("localhost", true),
            ("example.com", false),
            ("www.bank.example.com", false),
            ("bank.example.com.evil.example", false),
            ("x@bank.example.com", false),
        ] {
            assert_eq!(hosts.allow(host), expected, "{host}");
        }
    }

    #[test]
    fn one_listens_on_an_address_or_a_name_with_a_port() {
        for good in ["127.0.0.1:0", "[::1]:8080", "0.0.0.0:80", "localhost:8080", "bank-2.example.com:65535"] {
            let address: ListenAddress = good.parse().expect(good);
            assert_eq!(address.to_string(), good);
            assert_eq!(address.name().is_some(), good.as_bytes()[0].is_ascii_lowercase(), "{good}");
        }
        for bad in [
            "",
            "localhost",
            "127.0.0.1",
            ":8080",
            "localhost:",
            "localhost:65536",
            "127.0.0:80",
            "::1:80",
            "a b:80",
            "http://a:80",
        ] {
            assert!(bad.parse::<ListenAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_name_is_labels_of_letters_digits_and_hyphens() {
        let long = |length: usize| "a".repeat(length);
        for good in ["a", "bank-2.example.com", "1.example", &long(63)] {
            assert!(good.parse::<HostName>().is_ok(), "{good}");
        }
        let too_long = [&*long(63); 4].join(".");
        for bad in ["", "a b", "a..b", ".a", "-a", "a-", "a:80", "http://a", "a/b", "*.a", &long(64), &too_long] {
            assert!(bad.parse::<HostName>().is_err(), "{bad}");
        }
    }
}
