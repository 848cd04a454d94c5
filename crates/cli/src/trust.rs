//! By what a command knows a server over TLS, and the server it.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::args::ClientTls;

/// Why TLS is not possible.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error("cannot take {file}: {why}")]
    File { file: String, why: String },
    #[error("the certificate and its key do not go together")]
    Unfit(#[source] rustls::Error),
}

/// Whose certificates are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authorities {
    /// Those of `--tls-ca`; without it, those of the system.
    Given,
    /// Those of the system, and those of `--tls-ca`.
    All,
    /// None: nothing is encrypted.
    None,
}

/// How `https://` is spoken with a server that one of `authorities` vouches for.
pub(crate) fn config(tls: &ClientTls, authorities: Authorities) -> Result<ClientConfig, TrustError> {
    let mut roots = RootCertStore::empty();
    let is_system = match authorities {
        Authorities::Given => tls.tls_ca.is_none(),
        Authorities::All => true,
        Authorities::None => false,
    };
    if is_system {
        // What cannot be read there vouches for nobody.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if let Some(file) = tls.tls_ca.as_deref().filter(|_| authorities != Authorities::None) {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|why| unfit(file, &why))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has suites for both").with_root_certificates(roots);
    match tls.tls_cert.as_deref().zip(tls.tls_key.as_deref()) {
        Some((file, key)) if authorities != Authorities::None => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|why| unfit(key, &why))?;
            builder.with_client_auth_cert(certificates(file)?, key).map_err(TrustError::Unfit)
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

/// The certificates in a file, at least one.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let read: Result<Vec<_>, pem::Error> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    match read {
        Ok(certificates) if certificates.is_empty() => Err(unfit(file, &"it has no certificate in PEM")),
        read => read.map_err(|why| unfit(file, &why)),
    }
}

pub(crate) fn unfit(file: &Path, why: &impl ToString) -> TrustError {
    TrustError::File { file: file.display().to_string(), why: why.to_string() }
}
