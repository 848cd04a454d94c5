//! Authorities and certificates of tests, and their files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// Files of certificates, keys and secrets in a folder, which nobody else may read.
#[derive(Clone, Debug)]
pub struct Files(PathBuf);

impl Files {
    /// Those in `folder`, which is there.
    pub fn within(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The place of the file `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file.
    ///
    /// # Panics
    /// If that is not possible.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("writable");
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).expect("ours");
    }

    /// Writes a certificate as `name.pem`, and its key as `name-key.pem`.
    ///
    /// # Panics
    /// As [`write`](Self::write).
    pub fn keep(&self, name: &str, (certificate, key): (String, String)) -> [PathBuf; 2] {
        self.write(&format!("{name}.pem"), &certificate);
        self.write(&format!("{name}-key.pem"), &key);
        self.kept(name)
    }

    /// The files of the certificate and of the key that were written as `name`.
    pub fn kept(&self, name: &str) -> [PathBuf; 2] {
        [self.path(&format!("{name}.pem")), self.path(&format!("{name}-key.pem"))]
    }
}

/// An authority that makes certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

impl Authority {
    /// A new one with this name.
    ///
    /// # Panics
    /// If there are no random bytes.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for this machine, and its key.
    ///
    /// # Panics
    /// If there are no random bytes.
    pub fn certificate(&self) -> (String, String) {
        self.certificate_for(&["localhost", "127.0.0.1"])
    }

    /// A certificate for these names or addresses, and its key.
    ///
    /// # Panics
    /// If one of them is none.
    pub fn certificate_for(&self, names: &[&str]) -> (String, String) {
        self.sign(&params(names))
    }

    /// The same, for a time that is over.
    ///
    /// # Panics
    /// As [`certificate_for`](Self::certificate_for).
    pub fn expired_certificate_for(&self, names: &[&str]) -> (String, String) {
        let mut params = params(names);
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("a certificate").pem(), key.serialize_pem())
    }
}

fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().copied().map(str::to_owned).collect::<Vec<_>>()).expect("names")
}
