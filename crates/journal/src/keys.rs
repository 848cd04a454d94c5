//! Keys of Ed25519, by which attestations are signed and checked.

use std::fmt;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};

/// What stands before the 32 bytes of a key in its PKCS#8 (RFC 8410, section 7) and in its `SubjectPublicKeyInfo` (section 4).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

pub(crate) const SIGNATURE_LEN: usize = 64;

/// The private key that attestations are signed with.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// The key that attestations are checked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// Tells one public key from another: the start of its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId(pub(crate) [u8; 8]);

/// Why bytes are not taken for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// They are no private key of Ed25519.
    #[error("it is no private key of Ed25519 in PKCS#8")]
    Private,
    /// They are no public key of Ed25519.
    #[error("it is no public key of Ed25519")]
    Public,
}

impl SigningKey {
    /// The PKCS#8 form of the key that is `random`, which must come from a random source that is fit for secrets.
    #[must_use]
    pub fn pkcs8_of(random: [u8; 32]) -> Vec<u8> {
        [&PKCS8_PREFIX[..], &random].concat()
    }

    /// The key of these bytes, which are PKCS#8.
    ///
    /// # Errors
    /// [`KeyError::Private`].
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|_| KeyError::Private)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| KeyError::Private)?;
        Ok(Self { pair, public: PublicKey(public) })
    }

    /// The key that its signatures are checked with.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.pair.sign(bytes).as_ref().try_into().expect("the length of a signature")
    }
}

/// Shows the public key alone.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl PublicKey {
    /// The key of these bytes, which are a `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// [`KeyError::Public`].
    pub fn from_spki(der: &[u8]) -> Result<Self, KeyError> {
        let key = der.strip_prefix(&SPKI_PREFIX).and_then(|key| key.try_into().ok());
        key.map(Self).ok_or(KeyError::Public)
    }

    /// The key as a `SubjectPublicKeyInfo`.
    #[must_use]
    pub fn to_spki(&self) -> Vec<u8> {
        [&SPKI_PREFIX[..], &self.0].concat()
    }

    /// What tells it from others.
    pub fn id(&self) -> KeyId {
        let hash: [u8; 32] = Sha256::digest(self.0).into();
        KeyId(std::array::from_fn(|at| hash[at]))
    }

    /// Whether `signature` is that of `bytes` by the private key of this one.
    pub(crate) fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(bytes, signature).is_ok()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8410, section 10.3, and RFC 8032, section 7.1, test 1.
    #[test]
    fn keys_and_signatures_are_those_of_the_standards() {
        let seed: [u8; 32] = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
            0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let public: [u8; 32] = [
            0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1,
            0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
        ];
        let key = SigningKey::from_pkcs8(&SigningKey::pkcs8_of(seed)).expect("a key");
        assert_eq!(key.public(), PublicKey(public));
        let signature = key.sign(b"");
        assert_eq!((signature[0], signature[63]), (0xe5, 0x0b));
        assert!(key.public().has_signed(b"", &signature) && !key.public().has_signed(b"x", &signature));
        assert_eq!(PublicKey::from_spki(&key.public().to_spki()), Ok(key.public()));
        assert_eq!(PublicKey::from_spki(&public), Err(KeyError::Public));
        assert_eq!(SigningKey::from_pkcs8(&seed).unwrap_err(), KeyError::Private);
    }
}
