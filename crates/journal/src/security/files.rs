//! Certificates, keys and secrets, as files have them.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use super::{Identity, SecurityError};

/// Greatest size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The authorities in a file, at least one; without a file, those of the system.
pub(super) fn authorities(path: Option<&Path>) -> Result<RootCertStore, SecurityError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = path else {
        // What cannot be read there vouches for nobody.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|why| malformed(path, &why))?;
    }
    Ok(roots)
}

/// A certificate and the key that fits it.
pub(super) fn identity(files: &Identity, provider: &CryptoProvider) -> Result<CertifiedKey, SecurityError> {
    let Identity { certificates: chain, key } = files;
    let read = match PrivateKeyDer::from_pem_slice(&private(key)?) {
        Ok(read) => read,
        Err(pem::Error::NoItemsFound) => {
            return Err(SecurityError::Empty { path: key.clone(), expected: "private key in PEM" });
        }
        Err(why) => return Err(malformed(key, &why)),
    };
    CertifiedKey::from_der(certificates(chain)?, read, provider).map_err(|why| match why {
        rustls::Error::InconsistentKeys(_) => SecurityError::Unfit { certificates: chain.clone(), key: key.clone() },
        rustls::Error::InvalidCertificate(_) => malformed(chain, &why),
        why => malformed(key, &why),
    })
}

/// The password in the first line of a file.
pub(crate) fn password(path: &Path) -> Result<Zeroizing<String>, SecurityError> {
    let text = secret(path)?;
    let line = text.lines().next().unwrap_or_default();
    let empty = || SecurityError::Empty { path: path.to_owned(), expected: "password in its first line" };
    if line.is_empty() { Err(empty()) } else { Ok(line.to_owned().into()) }
}

/// The text of a file that not everybody may read.
pub(crate) fn secret(path: &Path) -> Result<Zeroizing<String>, SecurityError> {
    let text = str::from_utf8(&private(path)?).map(str::to_owned);
    text.map(Zeroizing::new).map_err(|_| malformed(path, &"it is no text"))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(path, |_| Ok(()))?).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(SecurityError::Empty { path: path.to_owned(), expected: "certificate in PEM" })
        }
        read => read.map_err(|why| malformed(path, &why)),
    }
}

fn private(path: &Path) -> Result<Zeroizing<Vec<u8>>, SecurityError> {
    let exposed = |mode| SecurityError::Exposed { path: path.to_owned(), mode };
    bytes(path, |mode| if mode & 0o007 == 0 { Ok(()) } else { Err(exposed(mode)) })
}

/// What a file has, if its mode is right.
fn bytes(
    path: &Path,
    check: impl FnOnce(u32) -> Result<(), SecurityError>,
) -> Result<Zeroizing<Vec<u8>>, SecurityError> {
    let failed = |why: std::io::Error| SecurityError::Unreadable { path: path.to_owned(), why: why.to_string() };
    let file = File::open(path).map_err(failed)?;
    check(file.metadata().map_err(failed)?.mode() & 0o777)?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    let is_too_large = bytes.len() as u64 > FILE_BYTES_MAX;
    if is_too_large { Err(malformed(path, &format!("it has more than {FILE_BYTES_MAX} bytes"))) } else { Ok(bytes) }
}

/// A file that is not what it should be, without its content.
pub(super) fn malformed(path: &Path, why: &impl ToString) -> SecurityError {
    SecurityError::Malformed { path: path.to_owned(), why: why.to_string() }
}
