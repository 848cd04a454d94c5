//! Certificates of clients: the names by which a file of callers knows them.

use std::fmt;
use std::str::FromStr;

use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use webpki::EndEntityCert;

use crate::digest::{digest_from, hexadecimal};

/// Greatest length of a name of a certificate, in bytes.
pub const CERTIFICATE_NAME_BYTES_MAX: usize = 2048;

/// What names a certificate in a file of callers. Its text form is `uri:URI`, `dns:NAME` or `sha256:DIGEST`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CertificateName {
    /// A URI of its subject alternative names, such as `spiffe://bank/teller`.
    Uri(String),
    /// A DNS name of its subject alternative names, in small letters.
    Dns(String),
    /// The SHA-256 digest of the whole certificate.
    Sha256([u8; 32]),
}

/// A text that names no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a certificate is named by `uri:` and a URI, `dns:` and a name, or `sha256:` and 64 hexadecimal digits")]
pub struct CertificateNameError;

/// The certificate of a client, by its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    names: Vec<CertificateName>,
}

impl ClientCertificate {
    /// The certificate in `der`; nothing if that is none.
    #[must_use]
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let certificate = CertificateDer::from(der);
        let certificate = EndEntityCert::try_from(&certificate).ok()?;
        let uris = certificate.valid_uri_names().map(|uri| CertificateName::Uri(uri.to_owned()));
        let dns = certificate.valid_dns_names().map(|name| CertificateName::Dns(name.to_ascii_lowercase()));
        let fingerprint = CertificateName::Sha256(Sha256::digest(der).into());
        Some(Self { names: uris.chain(dns).chain([fingerprint]).collect() })
    }

    /// Its names: URIs, DNS names, and the digest, which is always there.
    #[must_use]
    pub fn names(&self) -> &[CertificateName] {
        &self.names
    }
}

impl CertificateName {
    /// The first parts of all text forms.
    pub(crate) const KINDS: [&str; 3] = ["uri:", "dns:", "sha256:"];
}

impl FromStr for CertificateName {
    type Err = CertificateNameError;

    fn from_str(text: &str) -> Result<Self, CertificateNameError> {
        let (kind, name) = text.split_once(':').ok_or(CertificateNameError)?;
        let is_name =
            |is_in: fn(u8) -> bool| (1..=CERTIFICATE_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_in);
        match kind {
            "uri" if is_name(|byte| byte.is_ascii_graphic()) && name.contains(':') => Ok(Self::Uri(name.to_owned())),
            "dns" if is_name(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) => {
                Ok(Self::Dns(name.to_ascii_lowercase()))
            }
            // As `openssl x509 -fingerprint` writes it, too.
            "sha256" => digest_from(name.replace(':', "").as_bytes()).map(Self::Sha256).ok_or(CertificateNameError),
            _ => Err(CertificateNameError),
        }
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(uri) => write!(f, "uri:{uri}"),
            Self::Dns(name) => write!(f, "dns:{name}"),
            Self::Sha256(digest) => write!(f, "sha256:{}", hexadecimal(digest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::string::Ia5String;
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    #[test]
    fn a_certificate_has_its_uris_its_dns_names_and_its_digest() {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["Till.Bank.example".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.subject_alt_names.push(SanType::URI(Ia5String::try_from("spiffe://bank/till").expect("ASCII")));
        let der = params.self_signed(&key).expect("a certificate").der().to_vec();
        let digest: [u8; 32] = Sha256::digest(&der).into();
        let expected = [
            CertificateName::Uri("spiffe://bank/till".to_owned()),
            CertificateName::Dns("till.bank.example".to_owned()),
            CertificateName::Sha256(digest),
        ];
        assert_eq!(ClientCertificate::from_der(&der).expect("one").names(), expected);
        assert_eq!(ClientCertificate::from_der(&der[1..]), None);
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let digits = "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92";
        let pairs: Vec<String> =
            digits.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).to_uppercase()).collect();
        for (text, expected) in [
            ("uri:spiffe://bank/till", Some("uri:spiffe://bank/till")),
            ("uri:urn:uuid:1", Some("uri:urn:uuid:1")),
            ("dns:Till.bank.example", Some("dns:till.bank.example")),
            (&format!("sha256:{digits}"), Some(&*format!("sha256:{digits}"))),
            (&format!("sha256:{}", pairs.join(":")), Some(&*format!("sha256:{digits}"))),
            ("uri:till", None),
            ("uri:", None),
            ("dns:", None),
            ("dns:*.bank.example", None),
            ("dns:a b", None),
            (&format!("sha256:{}", &digits[1..]), None),
            ("ip:127.0.0.1", None),
            ("till", None),
            (
                &format!("uri:a:{}", "x".repeat(CERTIFICATE_NAME_BYTES_MAX - 2)),
                Some(&*format!("uri:a:{}", "x".repeat(CERTIFICATE_NAME_BYTES_MAX - 2))),
            ),
            (&format!("uri:a:{}", "x".repeat(CERTIFICATE_NAME_BYTES_MAX - 1)), None),
        ] {
            assert_eq!(
                text.parse::<CertificateName>().ok().map(|name| name.to_string()).as_deref(),
                expected,
                "{text}"
            );
        }
    }
}
