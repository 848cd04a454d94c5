//! From the `Authorization` of a request, or the certificate of its connection, to the caller that it is.
//!
//! Of a server with tokens or an issuer, a request whose header is not `Bearer` and a
//! token of the server's or of the issuer's ends here, before anything else of it is looked at. A request without the header is of the caller
//! that the certificate stands for, and has no caller if that is unknown. So the header, where there is one, decides: a proxy with a
//! certificate of its own can send the tokens of others on. A token that has the form of a JSON
//! Web Token is the issuer's, where there is one. A server with neither believes nothing:
//! it ignores the header. No other header says who calls. `/health` and `/health/ready` answer anybody, whatever the
//! header says.

use std::fmt;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use enact_rebel::Caller;

use crate::certificate::ClientCertificate;
use crate::issuer::{Issuer, JwtRefusal, KEYS_FETCH_PAUSE, is_jwt};
use crate::limits::is_health;
use crate::problem::{Problem, ProblemKind};
use crate::tokens::{TokenRefusal, Tokens};

const SCHEME: &str = "Bearer";

/// By what callers are known.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    tokens: Option<Tokens>,
    issuer: Option<Issuer>,
}

/// What a request has to prove its caller by.
#[derive(Clone)]
pub(crate) enum Proof {
    /// The header.
    Bearer(HeaderValue),
    Certificate(Arc<ClientCertificate>),
}

/// The caller of a request, and what proves it.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) caller: Caller,
    pub(crate) proof: Proof,
}

impl Credentials {
    pub(crate) fn new(tokens: Option<Tokens>, issuer: Option<Issuer>) -> Self {
        Self { tokens, issuer }
    }

    /// Whether a request can have a caller.
    pub(crate) fn are_known(&self) -> bool {
        self.tokens.is_some() || self.issuer.is_some()
    }

    /// Who the request with this head is, over a connection with this certificate, if its header or the certificate
    /// proves it; takes the header out of the head.
    ///
    /// # Errors
    /// When the head says something about the caller and does not prove it, or the time of the certificate is over.
    pub(crate) async fn identify(
        &self,
        certificate: Option<&Arc<ClientCertificate>>,
        head: &mut Parts,
    ) -> Result<Option<Identity>, Problem> {
        if !self.are_known() || is_health(head.uri.path()) {
            return Ok(None);
        }
        if head.headers.get_all(header::AUTHORIZATION).iter().nth(1).is_some() {
            return Err(Unproved::Repeated.into_problem());
        }
        // Nothing else needs the secret.
        let proof = match head.headers.remove(header::AUTHORIZATION) {
            Some(header) => Some(Proof::Bearer(header)),
            None => certificate.map(|certificate| Proof::Certificate(Arc::clone(certificate))),
        };
        let Some(proof) = proof else { return Ok(None) };
        let caller = match (self.caller(&proof), &self.issuer) {
            (Err(Unproved::Jwt(JwtRefusal::UnknownKey | JwtRefusal::NoKeys)), Some(issuer)) => {
                issuer.ask_for_keys().await;
                self.caller(&proof)
            }
            (caller, _) => caller,
        };
        let caller = caller.map_err(Unproved::into_problem)?;
        Ok(caller.map(|caller| Identity { caller, proof }))
    }

    /// The caller that `proof` proves at this time; none if it is a certificate that stands for nobody.
    pub(crate) fn caller(&self, proof: &Proof) -> Result<Option<Caller>, Unproved> {
        let unknown = Err(TokenRefusal::Unknown);
        let tokens = self.tokens.as_ref();
        match proof {
            Proof::Bearer(header) => {
                let token = token(header.as_bytes()).ok_or(Unproved::Malformed)?;
                match self.issuer.as_ref().filter(|_| is_jwt(token)) {
                    Some(issuer) => issuer.caller(token).map_err(Unproved::Jwt),
                    None => tokens.map_or(unknown, |tokens| tokens.caller(token)).map_err(Unproved::Refused),
                }
                .map(Some)
            }
            Proof::Certificate(certificate) => match tokens.map_or(unknown, |tokens| tokens.caller_with(certificate)) {
                Ok(caller) => Ok(Some(caller)),
                Err(TokenRefusal::Expired) => Err(Unproved::Expired),
                Err(TokenRefusal::Unknown) => Ok(None),
            },
        }
    }
}

/// Why a request proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unproved {
    Repeated,
    Malformed,
    Refused(TokenRefusal),
    /// The certificate of the connection.
    Expired,
    /// The token is of the form that an issuer gives out.
    Jwt(JwtRefusal),
}

impl fmt::Display for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jwt(refusal) => return refusal.fmt(f),
            Self::Repeated => "the request has more than one Authorization header",
            Self::Malformed => "the Authorization header is not `Bearer` and a token",
            Self::Refused(TokenRefusal::Unknown) => "the token of the Authorization header is none of this server",
            Self::Refused(TokenRefusal::Expired) => "the token of the Authorization header is not valid any more",
            Self::Expired => "the certificate of the connection does not stand for its caller any more",
        })
    }
}

impl Unproved {
    fn into_problem(self) -> Problem {
        if self == Self::Jwt(JwtRefusal::NoKeys) {
            let detail = format!("{self}; nothing was done, try again");
            return Problem::new(ProblemKind::NotReady, detail).retry_after(KEYS_FETCH_PAUSE);
        }
        let detail = format!(
            "{self}; nothing was done: send one header `Authorization: {SCHEME} TOKEN` with a token that the operator \
             of this server gave out, or none to ask without being anybody"
        );
        let challenge = HeaderValue::from_static(SCHEME);
        Problem::new(ProblemKind::Unauthenticated, detail).with_header(header::WWW_AUTHENTICATE, challenge)
    }
}

/// The token in `Bearer TOKEN` (RFC 6750, section 2.1; the scheme is not case-sensitive).
fn token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    let token = rest.trim_ascii_start();
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    let is_bearer = scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) && token.len() < rest.len();
    (is_bearer && !token.is_empty() && token.iter().all(is_token)).then_some(token)
}
