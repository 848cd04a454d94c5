//! What rustls is shown when a connection begins: the files as they are then.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use enact_sync::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::{self, CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::{Identity, Security, SecurityError, files};

/// What connections are made with. Files that are named must be usable; those of the system are not looked at yet.
pub(super) fn config(security: &Security) -> Result<ClientConfig, SecurityError> {
    let provider = Arc::new(ring::default_provider());
    let authorities = security.authorities.clone();
    let judge = Judge { authorities, provider: Arc::clone(&provider), latest: Latest::default() };
    if judge.authorities.is_some() {
        judge.current()?;
    }
    let proof = security.identity.clone().map(|files| {
        let proof = Proof { files, provider: Arc::clone(&provider), latest: Latest::default() };
        proof.current().map(|_| proof)
    });
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has suites for both").dangerous();
    let builder = builder.with_custom_certificate_verifier(Arc::new(judge));
    let mut config = match proof.transpose()? {
        Some(proof) => builder.with_client_cert_resolver(Arc::new(proof)),
        None => builder.with_no_client_auth(),
    };
    // When a session is resumed, no certificate is judged.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// What was made of files when they could be used last.
struct Latest<T>(Mutex<Option<T>>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Latest<T> {
    /// What was `read`, or what was read before it if that cannot be used.
    fn or_before(&self, read: Result<T, SecurityError>) -> Result<T, SecurityError> {
        let mut latest = self.0.lock();
        match (read, &*latest) {
            (Ok(read), _) => {
                *latest = Some(read.clone());
                Ok(read)
            }
            (Err(why), Some(before)) => {
                tracing::error!(%why, "certificates for the servers of the journal stay as they were");
                Ok(before.clone())
            }
            (Err(why), None) => Err(why),
        }
    }
}

/// Judges the certificates of servers as rustls does, by the authorities that there are when it is asked.
struct Judge {
    authorities: Option<PathBuf>,
    provider: Arc<CryptoProvider>,
    latest: Latest<Option<Arc<WebPkiServerVerifier>>>,
}

impl Judge {
    /// Nothing if there are no authorities.
    fn current(&self) -> Result<Option<Arc<WebPkiServerVerifier>>, SecurityError> {
        let roots = files::authorities(self.authorities.as_deref());
        self.latest.or_before(roots.map(|roots| {
            let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider));
            // Without a list of what is revoked, nothing but authorities can be missing.
            builder.build().ok()
        }))
    }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let current = self.current().map_err(|why| Error::General(why.to_string()))?;
        let current = current.ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        current.verify_server_cert(certificate, intermediates, name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").field("authorities", &self.authorities).finish_non_exhaustive()
    }
}

/// Proves who the program is, to a server that asks for it.
struct Proof {
    files: Identity,
    provider: Arc<CryptoProvider>,
    latest: Latest<Arc<CertifiedKey>>,
}

impl Proof {
    fn current(&self) -> Result<Arc<CertifiedKey>, SecurityError> {
        self.latest.or_before(files::identity(&self.files, &self.provider).map(Arc::new))
    }
}

impl ResolvesClientCert for Proof {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // It was read once at least.
        self.current().ok()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Leaves the key out.
impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proof").field("files", &self.files).finish_non_exhaustive()
    }
}
