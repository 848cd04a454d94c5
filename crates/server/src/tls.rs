//! Encryption: what a server proves itself by, and by which certificates it knows its clients.
//!
//! # Rotation
//! The files are read again now and then ([`Tls::keep_current`]). A connection has what was current when it began. Files that cannot be
//! used, such as a certificate whose key is still to be written, change nothing: what was current stays so, and the log says why.
//!
//! # What is spoken
//! TLS 1.3 and 1.2 with the suites of rustls, by *ring*.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tracing::{error, info};

use crate::reloading::reloading;

/// Greatest size of a file of certificates or of a key, in bytes.
pub const PEM_BYTES_MAX: usize = 1 << 20;

/// The files that encryption needs, all of them PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server, and those between it and its authority.
    pub certificates: PathBuf,
    /// Its private key, which not everybody on the machine may read.
    pub key: PathBuf,
    /// The authorities of clients. With it, a client without a certificate of one of them is not answered.
    pub client_authorities: Option<PathBuf>,
}

/// What a server proves itself by. Clones change together.
#[derive(Clone, Debug)]
pub struct Tls {
    files: Arc<TlsFiles>,
    current: Arc<RwLock<Current>>,
}

#[derive(Clone, Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// Of the files that it was made of.
    digest: [u8; 32],
}

/// Why the files are not taken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason of the operating system.
        source: io::Error,
    },
    /// The key is for everybody on the machine.
    #[error("{} is open to all users (mode {mode:04o}): chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file has more than [`PEM_BYTES_MAX`] bytes.
    #[error("{} has more than {PEM_BYTES_MAX} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file has nothing of what it should have.
    #[error("{} has no {expected} in PEM", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What is missing.
        expected: &'static str,
    },
    /// A file is not PEM, or what is in it is broken.
    #[error("{} is malformed: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, without its content.
        why: String,
    },
    /// The certificate cannot be used with the key.
    #[error("{} and {} do not go together", certificates.display(), key.display())]
    Unfit {
        /// The file of the certificate.
        certificates: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn read(files: TlsFiles) -> Result<Self, TlsError> {
        let current = Current::read(&files)?;
        Ok(Self { files: Arc::new(files), current: Arc::new(RwLock::new(current)) })
    }

    /// Reads the files again. Returns whether they have changed.
    ///
    /// # Errors
    /// [`TlsError`]; what was current stays so.
    ///
    /// # Blocking
    /// Reads small files.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let read = Current::read(&self.files)?;
        let mut current = self.current.write();
        let has_changed = read.digest != current.digest;
        if has_changed {
            *current = read;
        }
        Ok(has_changed)
    }

    /// Reads the files again every [`FILES_CHECK_EVERY`](crate::FILES_CHECK_EVERY), and whenever `asked` is notified, for as long as it is polled. Logs what comes of
    /// it.
    ///
    /// # Cancel safety
    /// Dropping the future ends it.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    pub async fn keep_current(&self, asked: &Notify) {
        reloading(asked, |is_asked| match self.reload() {
            Ok(true) => info!(file = %self.files.certificates.display(), "new connections get another certificate"),
            Ok(false) if is_asked => info!("the certificate is the same"),
            Ok(false) => {}
            Err(error) => error!(error = &error as &dyn std::error::Error, "the certificate stays as it was"),
        })
        .await;
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.current.read().config).into()
    }
}

impl Current {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let TlsFiles { certificates, key, client_authorities } = files;
        let chain = bytes(certificates, |_| Ok(()))?;
        let secret = bytes(key, |mode| {
            let exposed = || TlsError::Exposed { path: key.clone(), mode };
            if mode & 0o007 == 0 { Ok(()) } else { Err(exposed()) }
        })?;
        let authorities = client_authorities.as_deref().map(|path| bytes(path, |_| Ok(()))).transpose()?;
        let mut digest = Sha256::new();
        for part in [Some(&chain), Some(&secret), authorities.as_ref()].into_iter().flatten() {
            digest.update(Sha256::digest(part));
        }

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = versions.expect("the provider has suites for both");
        let builder = match client_authorities.as_deref().zip(authorities.as_deref()) {
            None => builder.with_no_client_auth(),
            Some((path, authorities)) => {
                let roots = Arc::new(roots(path, authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|why| malformed(path, &why))?)
            }
        };
        let unfit = |source| TlsError::Unfit { certificates: certificates.clone(), key: key.clone(), source };
        let mut config =
            builder.with_single_cert(certificates_in(certificates, &chain)?, key_in(key, &secret)?).map_err(unfit)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), digest: digest.finalize().into() })
    }
}

/// What a file has, if its mode is right.
fn bytes(path: &Path, check: impl FnOnce(u32) -> Result<(), TlsError>) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    check(file.metadata().map_err(failed)?.mode() & 0o777)?;
    let mut bytes = Vec::new();
    file.take(PEM_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > PEM_BYTES_MAX { Err(TlsError::TooLarge { path: path.to_owned() }) } else { Ok(bytes) }
}

fn malformed(path: &Path, why: &impl ToString) -> TlsError {
    TlsError::Malformed { path: path.to_owned(), why: why.to_string() }
}

fn certificates_in(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|why| malformed(path, &why))?;
    let empty = || TlsError::Empty { path: path.to_owned(), expected: "certificate" };
    if certificates.is_empty() { Err(empty()) } else { Ok(certificates) }
}

fn key_in(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    match PrivateKeyDer::from_pem_slice(pem) {
        Ok(key) => Ok(key),
        Err(rustls::pki_types::pem::Error::NoItemsFound) => {
            Err(TlsError::Empty { path: path.to_owned(), expected: "private key" })
        }
        Err(why) => Err(malformed(path, &why)),
    }
}

/// The authorities in a file.
fn roots(path: &Path, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_in(path, pem)? {
        roots.add(certificate).map_err(|why| malformed(path, &why))?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use tempfile::TempDir;

    use super::*;
    use crate::FILES_CHECK_EVERY;

    /// A folder with a certificate and its key.
    struct Place(TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().expect("a place for the test"));
            place.renew();
            place
        }

        fn renew(&self) {
            let CertifiedKey { cert, signing_key } =
                generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
            self.write("cert.pem", &cert.pem(), 0o644);
            self.write("key.pem", &signing_key.serialize_pem(), 0o600);
        }

        fn write(&self, name: &str, text: &str, mode: u32) {
            fs::write(self.0.path().join(name), text).expect("writable");
            fs::set_permissions(self.0.path().join(name), fs::Permissions::from_mode(mode)).expect("ours");
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.0.path().join(name)).expect("readable")
        }

        fn files(&self) -> TlsFiles {
            let path = |name: &str| self.0.path().join(name);
            TlsFiles { certificates: path("cert.pem"), key: path("key.pem"), client_authorities: None }
        }

        fn refused(&self, files: TlsFiles) -> String {
            let refused = Tls::read(files).expect_err("not to be used").to_string();
            refused.replace(self.0.path().to_str().expect("UTF-8"), "DIR")
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_refused_by_name_and_without_their_content() {
        let place = Place::new();
        let (cert, key) = (place.text("cert.pem"), place.text("key.pem"));
        place.write("key.pem", &key, 0o644);
        assert_eq!(place.refused(place.files()), "DIR/key.pem is open to all users (mode 0644): chmod 600 DIR/key.pem");
        place.write("key.pem", &cert, 0o600);
        assert_eq!(place.refused(place.files()), "DIR/key.pem has no private key in PEM");
        place.write("key.pem", &key, 0o640);
        for (text, said) in [
            (key.as_str(), "DIR/cert.pem has no certificate in PEM"),
            ("", "DIR/cert.pem has no certificate in PEM"),
            ("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n", "DIR/cert.pem is malformed: "),
            (&" ".repeat(PEM_BYTES_MAX + 1), "DIR/cert.pem has more than 1048576 bytes"),
            (&Place::new().text("cert.pem"), "DIR/cert.pem and DIR/key.pem do not go together"),
        ] {
            place.write("cert.pem", text, 0o644);
            let refused = place.refused(place.files());
            assert!(refused.starts_with(said), "{said}: {refused}");
        }
        place.write("cert.pem", &cert, 0o644);
        let missing = |name: &str| place.0.path().join(name);
        assert_eq!(place.refused(TlsFiles { key: missing("none"), ..place.files() }), "cannot read DIR/none");
        let authorities = TlsFiles { client_authorities: Some(missing("key.pem")), ..place.files() };
        assert_eq!(place.refused(authorities), "DIR/key.pem has no certificate in PEM");
        Tls::read(place.files()).expect("as it was");
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_current_within_a_minute_and_unfit_ones_never() {
        let place = Place::new();
        let tls = Tls::read(place.files()).expect("a pair");
        let of = |tls: &Tls| Arc::as_ptr(&tls.current.read().config);
        let first = of(&tls);
        let kept = tls.clone();
        let keeping = tokio::spawn(async move { kept.keep_current(&Notify::new()).await });
        let minute = async || tokio::time::sleep(FILES_CHECK_EVERY + Duration::from_millis(1)).await;
        minute().await;
        assert_eq!(of(&tls), first, "nothing has changed");
        // The certificate is there before its key.
        let next = Place::new();
        place.write("cert.pem", &next.text("cert.pem"), 0o644);
        minute().await;
        assert_eq!(of(&tls), first, "they do not go together");
        place.write("key.pem", &next.text("key.pem"), 0o600);
        minute().await;
        assert_ne!(of(&tls), first);
        assert!(!tls.reload().expect("the same"));
        keeping.abort();
    }
}
