//! Digests of subjects, and random bytes.

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use super::SubjectKeysError;
use super::format::Digest;

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

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    /// RFC 4231, test case 1 has a key of 20 bytes; this is HMAC-SHA-256 as Python's `hmac` computes it.
    #[test]
    fn digest_is_the_start_of_an_hmac() {
        assert_eq!(Digester::new(&[0x0b; 32]).digest("Hi There").to_vec(), hex("198a607eb44bfbc69903a0f1cf2bbdc5"));
    }
}
