//! Signatures of tokens, verified by *ring*, by which connections are encrypted.
//!
//! Asymmetric algorithms only: who can verify a token cannot make one. RSA keys have 2048 bits at least.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};

/// What keys of RSA verify.
pub(super) const OF_RSA: [Algorithm; 6] =
    [Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    // For keys that are made into JWKs.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes this what the process verifies by, unless it has something else already.
pub(super) fn install() {
    PROVIDER.install_default().unwrap_or_default();
}

/// A public key and the algorithm of one token.
struct Ring {
    algorithm: Algorithm,
    key: DecodingKeyKind,
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    Ok(Box::new(Ring { algorithm: *algorithm, key: key.kind().clone() }))
}

fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

impl JwtVerifier for Ring {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Ring {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (&self.key, rsa(self.algorithm), other(self.algorithm)) {
            (DecodingKeyKind::RsaModulusExponent { n, e }, Some(parameters), _) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (DecodingKeyKind::SecretOrDer(key), _, Some(algorithm)) => {
                UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn other(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::ES256 => &signature::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &signature::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &signature::ED25519,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::crypto::verify;

    use super::*;

    /// The examples of RFC 7515 (A.2, A.3) and RFC 8037 (A.4): algorithm, key, what is signed, signature.
    fn examples() -> [(Algorithm, DecodingKey, &'static str, &'static str); 3] {
        const CLAIMS: &str =
            "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        const N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-\
            pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4\
            uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
        const OF_RSA: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF\
            9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-\
            eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
        let [x, y] = ["f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"];
        let of_ec = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
        let of_ed = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
        let ed = DecodingKey::from_ed_components("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").expect("a key");
        let signed = |header: &str| &*format!("{header}.{CLAIMS}").leak();
        [
            (
                Algorithm::RS256,
                DecodingKey::from_rsa_components(N, "AQAB").expect("a key"),
                signed("eyJhbGciOiJSUzI1NiJ9"),
                OF_RSA,
            ),
            (
                Algorithm::ES256,
                DecodingKey::from_ec_components(x, y).expect("a key"),
                signed("eyJhbGciOiJFUzI1NiJ9"),
                of_ec,
            ),
            (Algorithm::EdDSA, ed, "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc", of_ed),
        ]
    }

    #[test]
    fn a_signature_is_right_for_its_key_algorithm_and_message_alone() {
        install();
        let examples = examples();
        let all = OF_RSA.into_iter().chain([Algorithm::ES256, Algorithm::ES384, Algorithm::EdDSA, Algorithm::HS256]);
        for algorithm in all {
            for (right, key, ..) in &examples {
                for (of, _, message, signature) in &examples {
                    let is_right = verify(signature, message.as_bytes(), key, algorithm).unwrap_or(false);
                    assert_eq!(is_right, algorithm == *right && right == of, "{algorithm:?} with {right:?} of {of:?}");
                    let is_right = verify(signature, &message.as_bytes()[1..], key, algorithm).unwrap_or(false);
                    assert!(!is_right, "{algorithm:?} of a part");
                }
            }
        }
    }
}
