//! What is done with keys: digests of subjects, sealing and unsealing.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use super::SubjectKeysError;
use super::format::{Digest, Key};

/// Random bytes that are fit for secrets.
pub(super) fn random<const LEN: usize>(random: &SystemRandom) -> Result<Zeroizing<[u8; LEN]>, SubjectKeysError> {
    let mut bytes = Zeroizing::new([0; LEN]);
    random.fill(&mut *bytes).map_err(|_| SubjectKeysError::Random)?;
    Ok(bytes)
}

/// Makes digests of subjects: HMAC-SHA-256 under a secret of the store, cut to 16 bytes.
pub(super) struct Digester(hmac::Key);

impl Digester {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    pub(super) fn digest(&self, subject: &str) -> Digest {
        let tag = hmac::sign(&self.0, subject.as_bytes());
        std::array::from_fn(|at| tag.as_ref()[at])
    }
}

/// `clear` under AES-256-GCM: the nonce, the ciphertext and the tag, which covers subject and generation, too.
pub(super) fn seal(key: &Key, nonce: [u8; NONCE_LEN], subject: &str, generation: u32, clear: &[u8]) -> Vec<u8> {
    // With room for all, so that the clear text is not left behind in a shorter buffer.
    let mut bytes = Vec::with_capacity(NONCE_LEN + clear.len() + AES_256_GCM.tag_len());
    bytes.extend(nonce);
    bytes.extend(clear);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = cipher(key)
        .seal_in_place_separate_tag(nonce, associated(subject, generation), &mut bytes[NONCE_LEN..])
        .expect("a clear text that AES-GCM has counters for");
    bytes.extend(tag.as_ref());
    bytes
}

/// What was sealed; nothing if `sealed` is not what [`seal`] made of it with the same key, subject and generation.
pub(super) fn unseal(key: &Key, subject: &str, generation: u32, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut bytes = rest.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let len = cipher(key).open_in_place(nonce, associated(subject, generation), &mut bytes).ok()?.len();
    bytes.truncate(len);
    Some(bytes)
}

/// HMAC-SHA-256 of `clear`, under a key for that alone which follows from `key`.
pub(super) fn fingerprint(key: &Key, clear: &[u8]) -> [u8; 32] {
    let own = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &**key), b"enact fingerprint");
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()), clear);
    std::array::from_fn(|at| tag.as_ref()[at])
}

fn cipher(key: &Key) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &**key).expect("the length of a key"))
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
        let key = Zeroizing::new([0x42; 32]);
        let sealed = seal(&key, [9; NONCE_LEN], "Customer/c17", 3, b"Ada Lovelace");
        assert_eq!(sealed, hex("0909090909090909090909097cadc84a1df6312c93e613e88d34ff194392b87e93f12d95a8e51a63"));
        assert_eq!(unseal(&key, "Customer/c17", 3, &sealed).unwrap(), b"Ada Lovelace");
    }

    /// RFC 4231, test case 1 has a key of 20 bytes; this is HMAC-SHA-256 as Python's `hmac` computes it.
    #[test]
    fn digest_is_the_start_of_an_hmac() {
        assert_eq!(Digester::new(&[0x0b; 32]).digest("Hi There").to_vec(), hex("198a607eb44bfbc69903a0f1cf2bbdc5"));
    }
}
