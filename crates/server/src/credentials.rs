//! From the `Authorization` of a request, or the certificate of its connection, to the caller that it is.
//!
//! Of a server with tokens, a request whose header is not `Bearer` and a
//! token of the server's ends here, before anything else of it is looked at. A request without the header is of the caller
//! that the certificate stands for, and has no caller if that is unknown. So the header, where there is one, decides: a proxy with a
//! certificate of its own can send the tokens of others on. A server without tokens believes nothing:
//! it ignores the header. No other header says who calls. `/health` and `/health/ready` answer anybody, whatever the
//! header says.

use std::fmt;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use enact_rebel::Caller;

use crate::certificate::ClientCertificate;
use crate::limits::is_health;
use crate::problem::{Problem, ProblemKind};
use crate::tokens::{TokenRefusal, Tokens};

const SCHEME: &str = "Bearer";

/// The caller of the request with this head, over a connection with this certificate, if one of `tokens` or the certificate
/// proves it to be one; takes the proof out of the head.
///
/// # Errors
/// When the head says something about the caller and does not prove it, or the time of the certificate is over.
pub(crate) fn identify(
    tokens: Option<&Tokens>,
    certificate: Option<&ClientCertificate>,
    head: &mut Parts,
) -> Result<Option<Caller>, Problem> {
    let Some(tokens) = tokens.filter(|_| !is_health(head.uri.path())) else { return Ok(None) };
    let caller = proved(tokens, certificate, &head.headers).map_err(Unproved::into_problem)?;
    // Nothing behind this needs the secret.
    head.headers.remove(header::AUTHORIZATION);
    Ok(caller)
}

/// Why a request proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unproved {
    Repeated,
    Malformed,
    Refused(TokenRefusal),
    /// The certificate of the connection.
    Expired,
}

impl fmt::Display for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
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
        let detail = format!(
            "{self}; nothing was done: send one header `Authorization: {SCHEME} TOKEN` with a token that the operator \
             of this server gave out, or none to ask without being anybody"
        );
        let challenge = HeaderValue::from_static(SCHEME);
        Problem::new(ProblemKind::Unauthenticated, detail).with_header(header::WWW_AUTHENTICATE, challenge)
    }
}

fn proved(
    tokens: &Tokens,
    certificate: Option<&ClientCertificate>,
    headers: &HeaderMap,
) -> Result<Option<Caller>, Unproved> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return match certificate.map(|certificate| tokens.caller_with(certificate)) {
            Some(Ok(caller)) => Ok(Some(caller)),
            Some(Err(TokenRefusal::Expired)) => Err(Unproved::Expired),
            Some(Err(TokenRefusal::Unknown)) | None => Ok(None),
        };
    };
    if values.next().is_some() {
        return Err(Unproved::Repeated);
    }
    let token = token(value.as_bytes()).ok_or(Unproved::Malformed)?;
    tokens.caller(token).map(Some).map_err(Unproved::Refused)
}

/// The token in `Bearer TOKEN` (RFC 6750, section 2.1; the scheme is not case-sensitive).
fn token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    let token = rest.trim_ascii_start();
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    let is_bearer = scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) && token.len() < rest.len();
    (is_bearer && !token.is_empty() && token.iter().all(is_token)).then_some(token)
}
