//! A key of a data subject, and what is done with it.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::SystemRandom;

use super::SubjectKeysError;
use super::cipher::random;
use super::format::{KEY_LEN, Key};

/// A key of 32 bytes, which are overwritten in memory when it is dropped: what [`SubjectKeys`](super::SubjectKeys) has one of for each
/// subject, for stores that keep such keys elsewhere.
#[derive(Clone)]
pub struct SubjectKey(Key);

/// A clear text that was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The generation of the key.
    pub generation: u32,
    /// A nonce of 12 bytes, as many bytes as the clear text has, and a tag of 16.
    pub bytes: Vec<u8>,
    /// A digest of the clear text under the key. Equal for equal texts as long as the key is there, and of no use for trying texts without
    /// it.
    pub fingerprint: [u8; 32],
}

impl SubjectKey {
    /// A new key.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn random() -> Result<Self, SubjectKeysError> {
        random(&SystemRandom::new()).map(Self)
    }

    /// The key with these bytes.
    pub fn of(bytes: [u8; KEY_LEN]) -> Self {
        Self(Key::new(bytes))
    }

    pub(super) fn read(key: Key) -> Self {
        Self(key)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// Seals `clear` for a subject whose key of `generation` this is.
    ///
    /// The cipher is AES-256-GCM with a random nonce, and the tag covers the subject and the generation: nothing that is
    /// changed, or put in the place of another subject's, is unsealed. One key should seal no more than 2^32 texts.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    ///
    /// # Panics
    /// When `clear` has 64 GiB or more, which is more than the cipher can count.
    pub fn seal(&self, subject: &str, generation: u32, clear: &[u8]) -> Result<Sealed, SubjectKeysError> {
        let nonce = random(&SystemRandom::new())?;
        let bytes = self.seal_with(*nonce, subject, generation, clear);
        Ok(Sealed { generation, bytes, fingerprint: self.fingerprint(clear) })
    }

    fn seal_with(&self, nonce: [u8; NONCE_LEN], subject: &str, generation: u32, clear: &[u8]) -> Vec<u8> {
        // With room for all, so that the clear text is not left behind in a shorter buffer.
        let mut bytes = Vec::with_capacity(NONCE_LEN + clear.len() + AES_256_GCM.tag_len());
        bytes.extend(nonce);
        bytes.extend(clear);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .cipher()
            .seal_in_place_separate_tag(nonce, associated(subject, generation), &mut bytes[NONCE_LEN..])
            .expect("a clear text that AES-GCM has counters for");
        bytes.extend(tag.as_ref());
        bytes
    }

    /// What was sealed; nothing if `sealed` is not what [`seal`](Self::seal) made of it with the same key, subject and generation.
    pub fn unseal(&self, subject: &str, generation: u32, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let len = self.cipher().open_in_place(nonce, associated(subject, generation), &mut bytes).ok()?.len();
        bytes.truncate(len);
        Some(bytes)
    }

    /// HMAC-SHA-256 of `clear`, under a key for that alone which follows from this one.
    pub fn fingerprint(&self, clear: &[u8]) -> [u8; 32] {
        let own = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, self.bytes()), b"enact fingerprint");
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()), clear);
        std::array::from_fn(|at| tag.as_ref()[at])
    }

    fn cipher(&self) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, self.bytes()).expect("the length of a key"))
    }
}

impl fmt::Debug for SubjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubjectKey")
    }
}

/// The generation has a fixed length, so no other pair of both gives the same bytes.
fn associated(subject: &str, generation: u32) -> Aad<Vec<u8>> {
    Aad::from([&generation.to_le_bytes(), subject.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    /// The tag of AES-256-GCM without any text but the associated data, computed with Python's `cryptography`: the layout is what
    /// it is said to be.
    #[test]
    fn sealed_bytes_are_nonce_ciphertext_and_tag() {
        let key = SubjectKey::of([0x42; 32]);
        let sealed = key.seal_with([9; NONCE_LEN], "Customer/c17", 3, b"Ada Lovelace");
        assert_eq!(sealed, hex("0909090909090909090909097cadc84a1df6312c93e613e88d34ff194392b87e93f12d95a8e51a63"));
        assert_eq!(key.unseal("Customer/c17", 3, &sealed).unwrap(), b"Ada Lovelace");
    }
}
