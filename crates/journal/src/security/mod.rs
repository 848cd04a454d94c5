//! How a program and the servers of its journal know each other, and what is said between them without encryption: nothing that
//! leaves the machine.
//!
//! `files` reads certificates, keys and secrets, `handshake` shows them to rustls, anew for each connection, and `error` tells from what
//! rustls says why a connection was not made.
//!
//! # Downgrades
//! Whether a connection is encrypted follows from the addresses and [`Security`] alone, and is known before anything is sent. No answer of
//! a server, and nobody between, makes it plain.

mod error;
mod files;
mod handshake;

use std::net::IpAddr;
use std::path::PathBuf;

use rustls::ClientConfig;

pub use self::error::SecurityError;
pub(crate) use self::files::password;
#[cfg(feature = "nats")]
pub(crate) use self::files::secret;

/// How a program and the servers of its journal know each other.
///
/// By default, a connection to another machine is encrypted by TLS 1.2 or 1.3, and the server proves by a certificate of one of the
/// system's authorities that it has the name, or the address, in the certificate by which it is called. On the machine itself, nothing is
/// encrypted unless an address asks for it.
///
/// # Rotation
/// Each connection that begins reads all files again. Certificates and a key that cannot be used then change nothing: the last ones count,
/// and the log says why. Files are at most 1 MiB.
///
/// ```no_run
/// use enact_journal::nats::{Nats, Options, Servers};
/// use enact_journal::{Identity, Security};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let security = Security {
///     authorities: Some("/etc/bank/ca.pem".into()),
///     identity: Some(Identity { certificates: "/etc/bank/node.pem".into(), key: "/etc/bank/node-key.pem".into() }),
///     ..Security::default()
/// };
/// let servers = Servers { security, ..Servers::at("tls://h1:4222,tls://h2:4222,tls://h3:4222") };
/// let journal = Nats::open(Options::at(servers)).await?;
/// # drop(journal);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// The file of the authorities in PEM, one of which vouches for each server, instead of those of the system. With it, nothing is said
    /// without encryption.
    pub authorities: Option<PathBuf>,
    /// What the program proves itself by. With it, nothing is said without encryption.
    pub identity: Option<Identity>,
    /// The file of the secret of the user, which not everybody on the machine may read: a `.creds` file of NATS, or the password of the user
    /// in the address, in its first line.
    pub credentials: Option<PathBuf>,
    /// Whether servers on other machines are spoken to without encryption where their addresses do not ask for any.
    pub allows_plain: bool,
}

/// What a program proves itself by, in two files of PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate of the program, and those between it and its authority.
    pub certificates: PathBuf,
    /// Its private key, which not everybody on the machine may read.
    pub key: PathBuf,
}

impl Security {
    /// Whether servers at `hosts` are spoken to with encryption, whatever they offer.
    pub(crate) fn encrypts<'a>(&self, hosts: impl IntoIterator<Item = &'a str>) -> bool {
        self.authorities.is_some()
            || self.identity.is_some()
            || !self.allows_plain && !hosts.into_iter().all(is_this_machine)
    }

    /// What encrypted connections are made with. Files that are named must be usable.
    pub(crate) fn config(&self) -> Result<ClientConfig, SecurityError> {
        handshake::config(self)
    }

    /// What `error` says of the security of a connection to a server, if anything.
    pub(crate) fn diagnose(&self, error: &(dyn std::error::Error + 'static)) -> Option<SecurityError> {
        error::found_in(error).map(|found| SecurityError::of(found, self.identity.is_some()))
    }
}

/// Whether a host is this machine, without a question to anybody.
pub(crate) fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_that_is_allowed() {
        let asked = Security { authorities: Some("ca.pem".into()), ..Security::default() };
        let allowed = Security { allows_plain: true, ..Security::default() };
        let identity = Identity { certificates: "a.pem".into(), key: "a-key.pem".into() };
        let both = Security { identity: Some(identity), allows_plain: true, ..Security::default() };
        for (hosts, by_default, with_leave) in [
            (&["127.0.0.1"][..], false, false),
            (&["localhost", "::1", "127.9.9.9", "::ffff:127.0.0.1"], false, false),
            (&["10.0.0.1"], true, false),
            (&["h1"], true, false),
            (&["localhost.example.com"], true, false),
            (&["127.0.0.1", "h1"], true, false),
            (&["0.0.0.0"], true, false),
        ] {
            let encrypts = |security: &Security| security.encrypts(hosts.iter().copied());
            assert_eq!((encrypts(&Security::default()), encrypts(&allowed)), (by_default, with_leave), "{hosts:?}");
            assert!(encrypts(&asked) && encrypts(&both), "{hosts:?}");
        }
    }
}
