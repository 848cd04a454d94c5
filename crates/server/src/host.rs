//! Which `Host` a request may name.
//!
//! A page of another origin can make its own name resolve to a loopback address and so let a browser read what this
//! server says (DNS rebinding). Such a request carries that name in `Host`. Names other than `localhost` are therefore
//! refused; an address cannot be rebound.

use std::net::IpAddr;

use axum::http::uri::Authority;

/// The hosts that a server listening on one address answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    listen: IpAddr,
}

impl Hosts {
    pub(crate) fn new(listen: IpAddr) -> Self {
        Self { listen }
    }

    /// Whether `authority` (`host` or `host:port`) is `localhost`, a loopback address or the address listened on; any
    /// address when every interface is listened on. The port is not compared: it may be forwarded.
    pub(crate) fn allow(self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host();
        if host.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match bare.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback() || ip == self.listen || self.listen.is_unspecified(),
            Err(_) => false,
        }
    }
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
            let hosts = Hosts::new(listen.parse().unwrap());
            assert!(loopback.iter().all(|host| hosts.allow(host)), "{listen}");
            assert!(!foreign.iter().any(|host| hosts.allow(host)), "{listen}");
            assert_eq!(hosts.allow(address), ["192.0.2.7", "0.0.0.0", "::"].contains(&listen), "{listen}");
        }
    }
}
