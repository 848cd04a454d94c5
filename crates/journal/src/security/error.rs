//! Why a program and a server do not trust each other.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use rustls::{AlertDescription, CertificateError};

/// Why there is no connection that is [secure](super::Security).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecurityError {
    /// A file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason of the operating system.
        why: String,
    },
    /// A key, or the secret of a user, is for everybody on the machine.
    #[error("{} is open to all users (mode {mode:04o}): chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file has nothing of what it should have.
    #[error("{} has no {expected}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What is missing.
        expected: &'static str,
    },
    /// What is in a file is broken.
    #[error("{} is malformed: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, without its content.
        why: String,
    },
    /// The certificate of the program cannot be used with its key.
    #[error("{} and {} do not go together", certificates.display(), key.display())]
    Unfit {
        /// The file of the certificate.
        certificates: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// All servers are told one user.
    #[error("the addresses name different users, or one besides a `.creds` file: name one user, by one of both")]
    Users,
    /// The address forbids encryption.
    #[error("the address says `sslmode=disable`, and what is said must be encrypted: leave it out")]
    Disabled,
    /// The server does not speak TLS.
    #[error("the server does not encrypt, and what is said must be encrypted: let it speak TLS")]
    Unencrypted,
    /// The certificate of the server is of an authority that is not known.
    #[error("no authority that is known here vouches for the certificate of the server")]
    UnknownAuthority,
    /// The certificate is of another server.
    #[error("the certificate of the server is for {}, not for {expected}", in_words(presented))]
    OtherName {
        /// The host of the address.
        expected: String,
        /// The hosts that the certificate has.
        presented: Vec<String>,
    },
    /// The certificate of the server is over.
    #[error("the certificate of the server has expired: let the server have a new one")]
    Expired,
    /// The time of the certificate has not begun.
    #[error("the certificate of the server is not valid yet: look at the clocks of both machines")]
    NotYetValid,
    /// The certificate of the server is not taken for another reason.
    #[error("the certificate of the server is not taken: {why}")]
    Untrusted {
        /// The reason.
        why: String,
    },
    /// The server wants to know who asks.
    #[error("the server demands a certificate of its clients")]
    IdentityDemanded,
    /// The server does not take the certificate of the program.
    #[error("the server does not take the certificate of this program: {why}")]
    IdentityRefused {
        /// What it says.
        why: String,
    },
    /// Both do not find a common way to encrypt.
    #[error("no encrypted connection comes about: {why}")]
    Handshake {
        /// The reason.
        why: String,
    },
}

impl SecurityError {
    /// Whether a file, an address or another setting is to blame, so that nothing changes when it is tried again.
    pub fn is_of_settings(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::Exposed { .. }
                | Self::Empty { .. }
                | Self::Malformed { .. }
                | Self::Unfit { .. }
                | Self::Users
                | Self::Disabled
        )
    }

    /// What an error of a connection says, to a program that has a certificate or none.
    pub(super) fn of(error: &rustls::Error, has_identity: bool) -> Self {
        match error {
            rustls::Error::InvalidCertificate(why) => Self::of_certificate(why),
            // The server has answered something else.
            rustls::Error::InvalidMessage(_) => Self::Unencrypted,
            rustls::Error::AlertReceived(alert) if is_of_identity(*alert) => match has_identity {
                true => Self::IdentityRefused { why: format!("{alert:?}") },
                false => Self::IdentityDemanded,
            },
            why => Self::Handshake { why: why.to_string() },
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::UnknownIssuer => Self::UnknownAuthority,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            CertificateError::NotValidForNameContext { expected, presented } => {
                let presented = presented.iter().map(|name| bare(name).to_owned()).collect();
                Self::OtherName { expected: expected.to_str().into_owned(), presented }
            }
            why => Self::Untrusted { why: why.to_string() },
        }
    }
}

/// Whether a server ends a connection so because of who asks.
fn is_of_identity(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

/// The host in `DnsName("host")` or `IpAddress(host)`.
fn bare(name: &str) -> &str {
    name.split_once('(').map_or(name, |(_, host)| host.trim_end_matches(')').trim_matches('"'))
}

fn in_words(names: &[String]) -> String {
    if names.is_empty() { "no host".to_owned() } else { names.join(", ") }
}

/// What TLS says in `error`, or in what caused it.
pub(super) fn found_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The source of an input or output error is that of the one in it.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source());
    }
    None
}
