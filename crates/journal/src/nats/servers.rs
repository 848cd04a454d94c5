//! Where the servers are, and the way to them.

use std::fmt;
use std::path::Path;

use async_nats::{Auth, AuthError, Client, ConnectOptions, ServerAddr};
use nkeys::KeyPair;
use percent_encoding::percent_decode_str;
use tokio::time::timeout;

use super::{OPEN_MAX, OpenError, PING};
use crate::security::{self, Security, SecurityError};

/// Servers of one cluster, and how they and the program know each other.
///
/// Servers that are no loopback addresses, and any that an address with `tls://` stands among, are spoken to over TLS alone. A server on
/// this machine may demand TLS, and gets it. Certificates must have the names, or the addresses, by which the servers are called here
/// and in what they tell of each other.
#[derive(Clone, PartialEq, Eq)]
pub struct Servers {
    /// Their addresses, such as `tls://host:4222` or `nats://user:password@host:4222`. One that answers is enough; others are learnt from it,
    /// unless all that are named are of this machine. A user without a password is a token.
    pub addresses: Vec<String>,
    /// How they and the program know each other.
    pub security: Security,
}

impl Servers {
    /// Servers at `addresses`, which are separated by commas, with the defaults of [`Security`].
    pub fn at(addresses: &str) -> Self {
        let addresses = addresses.split(',').map(|address| address.trim().to_owned()).collect();
        Self { addresses, security: Security::default() }
    }
}

impl From<&str> for Servers {
    fn from(addresses: &str) -> Self {
        Self::at(addresses)
    }
}

impl From<String> for Servers {
    fn from(addresses: String) -> Self {
        Self::at(&addresses)
    }
}

/// The addresses without users and passwords, as they may stand in a log.
impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let public: Vec<&str> = self.addresses.iter().map(|address| public_part(address)).collect();
        f.write_str(&public.join(","))
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("addresses", &self.to_string()).field("security", &self.security).finish()
    }
}

fn public_part(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, public)| public)
}

/// Connects to one of `servers`, as a journal does, for what else is kept and said there. The servers see `name`.
///
/// # Errors
/// When an address is none, when files cannot be used, or when there is no secure connection to any server within 20 s.
///
/// # Panics
/// If it is polled outside of a tokio runtime with its timers and its network.
///
/// # Cancel safety
/// Dropping the future has no effect.
pub async fn connect(servers: &Servers, name: &str) -> Result<Client, OpenError> {
    let Servers { addresses, security } = servers;
    let parsed: Result<Vec<ServerAddr>, OpenError> = addresses.iter().map(|text| parse(text)).collect();
    let parsed = parsed?;
    let encrypts =
        parsed.iter().any(ServerAddr::tls_required) || security.encrypts(parsed.iter().map(ServerAddr::host));
    let mut options = who(&parsed, security)?
        .name(name)
        .ping_interval(PING)
        .request_timeout(None)
        .require_tls(encrypts)
        .tls_client_config(security.config()?);
    // What is learnt may be elsewhere.
    if !encrypts && !security.allows_plain {
        options = options.ignore_discovered_servers();
    }
    let connecting = options.connect(parsed.into_iter().map(without_user).collect::<Vec<_>>());
    let client = timeout(OPEN_MAX, connecting).await.map_err(OpenError::unreachable)?;
    client.map_err(|cause| security.diagnose(&cause).map_or_else(|| OpenError::unreachable(cause), OpenError::Security))
}

fn parse(text: &str) -> Result<ServerAddr, OpenError> {
    let address = || OpenError::Address { address: public_part(text).to_owned() };
    let parsed: ServerAddr = text.parse().map_err(|_| address())?;
    // Encryption of web sockets is another one.
    if parsed.is_websocket() || parsed.host().is_empty() { Err(address()) } else { Ok(parsed) }
}

/// The client logs addresses.
fn without_user(address: ServerAddr) -> ServerAddr {
    let mut url = address.into_inner();
    let is_bare = url.set_username("").and_then(|()| url.set_password(None)).is_ok();
    assert!(is_bare, "it has a host");
    ServerAddr::from_url(url).expect("it is what it was")
}

/// Who the program is to the servers: the user of the addresses, or that of the file of credentials.
fn who(addresses: &[ServerAddr], security: &Security) -> Result<ConnectOptions, SecurityError> {
    let user = user(addresses)?;
    let Some(file) = security.credentials.clone() else {
        return Ok(match user {
            Some(User { name, password: Some(password) }) => ConnectOptions::with_user_and_password(name, password),
            Some(User { name, password: None }) => ConnectOptions::with_token(name),
            None => ConnectOptions::new(),
        });
    };
    let name = match user {
        Some(User { password: Some(_), .. }) => return Err(SecurityError::Users),
        user => user.map(|user| user.name),
    };
    let read = move |nonce: &[u8]| auth(&file, name.as_deref(), nonce);
    read(b"")?;
    Ok(ConnectOptions::with_auth_callback(move |nonce| {
        let read = read(&nonce);
        async { read.map_err(AuthError::new) }
    }))
}

/// The user of an address.
#[derive(PartialEq, Eq)]
struct User {
    name: String,
    password: Option<String>,
}

/// The one user of all addresses, if they have one.
fn user(addresses: &[ServerAddr]) -> Result<Option<User>, SecurityError> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut users = addresses.iter().filter_map(|address| {
        let (name, password) = (address.username().map(decoded), address.password().map(decoded));
        // What has a password has a name, be that empty.
        (name.is_some() || password.is_some()).then(|| User { name: name.unwrap_or_default(), password })
    });
    let Some(user) = users.next() else { return Ok(None) };
    if users.all(|other| other == user) { Ok(Some(user)) } else { Err(SecurityError::Users) }
}

/// What proves the user `name` by the password in the file, or without a name that of a `.creds` file.
fn auth(file: &Path, name: Option<&str>, nonce: &[u8]) -> Result<Auth, SecurityError> {
    let text = security::secret(file)?;
    let mut auth = Auth::new();
    match (name, block(&text, "NATS USER JWT")) {
        (Some(_), Some(_)) => return Err(SecurityError::Users),
        (Some(name), None) => {
            auth.username = Some(name.to_owned());
            auth.password = Some(security::password(file)?.to_string());
        }
        (None, jwt) => {
            let empty = |expected| SecurityError::Empty { path: file.to_owned(), expected };
            let jwt = jwt.ok_or_else(|| empty("NATS USER JWT, as a `.creds` file has; and no address names a user"))?;
            let seed = block(&text, "USER NKEY SEED").ok_or_else(|| empty("USER NKEY SEED, as a `.creds` file has"))?;
            // What went wrong would name the seed.
            let signed = KeyPair::from_seed(seed).and_then(|key| key.sign(nonce));
            let malformed = |_| SecurityError::Malformed { path: file.to_owned(), why: "its seed is none".to_owned() };
            auth.jwt = Some(jwt.to_owned());
            auth.signature = Some(signed.map_err(malformed)?);
        }
    }
    Ok(auth)
}

/// The line behind the head of a block.
fn block<'a>(text: &'a str, head: &str) -> Option<&'a str> {
    let (_, behind) = text.split_once(&format!("-----BEGIN {head}-----"))?;
    behind.trim_start().lines().next().map(str::trim_end).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user_of(addresses: &str) -> Result<Option<(String, Option<String>)>, SecurityError> {
        let parsed: Vec<ServerAddr> = addresses.split(',').map(|text| parse(text).expect("an address")).collect();
        user(&parsed).map(|user| user.map(|User { name, password }| (name, password)))
    }

    #[test]
    fn all_addresses_have_one_user_and_the_client_sees_none() {
        let named = |name: &str, password: Option<&str>| Ok(Some((name.to_owned(), password.map(str::to_owned))));
        for (addresses, user) in [
            ("nats://h1:4222,h2", Ok(None)),
            ("tls://bank:s%40cret@h1", named("bank", Some("s@cret"))),
            ("tls://bank:secret@h1,tls://bank:secret@h2,tls://h3", named("bank", Some("secret"))),
            ("nats://t0ken@h1", named("t0ken", None)),
            ("nats://bank:secret@h1,nats://till:secret@h2", Err(SecurityError::Users)),
            ("nats://bank:secret@h1,nats://bank:other@h2", Err(SecurityError::Users)),
        ] {
            assert_eq!(user_of(addresses), user, "{addresses}");
            for address in addresses.split(',') {
                let bare = without_user(parse(address).expect("an address"));
                assert_eq!((bare.username(), bare.password()), (None, None), "{address}");
            }
        }
    }

    #[test]
    fn what_is_printed_of_servers_has_no_user() {
        let servers = Servers::at("tls://bank:secret@h1:4222, nats://t0ken@h2,nats://h3:1");
        assert_eq!(servers.to_string(), "h1:4222,h2,nats://h3:1");
        let debugged = format!("{servers:?}");
        assert!(!debugged.contains("secret") && !debugged.contains("t0ken") && debugged.contains("h2"), "{debugged}");
    }

    #[test]
    fn what_is_no_address_of_a_server_that_speaks_nats_is_refused() {
        for address in ["ws://h1", "wss://h1", "http://h1", "nats://", "nats://h1:port"] {
            assert!(matches!(parse(address), Err(OpenError::Address { .. })), "{address}");
        }
    }
}
