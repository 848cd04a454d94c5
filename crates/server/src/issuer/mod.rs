//! An issuer of JSON Web Tokens (OpenID Connect), whose callers a server knows by its signature.
//!
//! # What a token must be
//! Signed by a key of the issuer, by an asymmetric algorithm that fits the key (`signatures.rs`), with `iss` as the issuer is called, `aud`
//! with the name of this server, `sub`, and `exp` that is not over; `nbf`, if it has one, is over. Times may be off by [`TOKEN_LEEWAY`]. Nothing
//! that a token says of keys counts but the name of one (`kid`). A token is not looked at again: what revokes it is its end.
//!
//! # Who it is
//! The caller's id is the issuer, `#` and the subject, such as `https://id.example.com/bank#alice`. The address of an issuer has a `/`, which no
//! id of a file of tokens has, and no `#`: so no two callers of different sources have one id. Roles are those of a
//! claim, as far as a specification could name them.
//!
//! # Keys
//! They are fetched at the start, every [`KEYS_FETCH_EVERY`], and when a token names one that is not known, which waits for them; not more often
//! than every [`KEYS_FETCH_PAUSE`]. Keys that cannot be fetched anew are known for [`KEYS_KEPT`]; tokens that come later are answered with 503.

mod signatures;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use enact_rebel::Caller;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{error, info};

use crate::tokens::{TOKEN_ROLES_MAX, is_role};

/// How often the keys of an issuer are fetched.
pub const KEYS_FETCH_EVERY: Duration = Duration::from_mins(5);
/// How long after a fetch the next one begins at the earliest.
pub const KEYS_FETCH_PAUSE: Duration = Duration::from_secs(10);
/// How long keys are known that cannot be fetched anew.
pub const KEYS_KEPT: Duration = Duration::from_hours(24);
/// How far the clocks of an issuer and of the server may be apart.
pub const TOKEN_LEEWAY: Duration = Duration::from_secs(30);
/// Greatest length of the address of an issuer, and of a subject, in bytes.
pub const SUBJECT_BYTES_MAX: usize = 255;

/// How long a request waits for a fetch.
const FETCH_WAIT: Duration = Duration::from_secs(5);
/// Most keys of an issuer.
const KEYS_MAX: usize = 100;

/// Whose tokens are taken, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerOptions {
    /// What the issuer calls itself (`iss`): an address that begins with `https://`.
    pub url: String,
    /// What the issuer calls this server (`aud`).
    pub audience: String,
    /// The claim that has the roles: a list of texts, or a text with blanks between them. Dots lead into objects, such as
    /// `realm_access.roles`, unless there is a claim of the whole name.
    pub roles_claim: String,
}

/// An issuer and its keys. Clones change together.
#[derive(Clone)]
pub struct Issuer(Arc<Shared>);

struct Shared {
    options: IssuerOptions,
    keys: RwLock<Option<Known>>,
    /// Notified when a token names a key that is not known.
    wanted: Notify,
    /// When the last fetch ended, with keys or without.
    fetched_at: watch::Sender<Option<Instant>>,
}

struct Known {
    keys: Arc<[Key]>,
    at: Instant,
}

/// A public key with all that it may verify.
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
    /// As the issuer has published it.
    published: Json,
}

/// An address that no issuer has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{url}` is no issuer: its address begins with `https://`, has at most {SUBJECT_BYTES_MAX} bytes, and neither `?` nor `#`"
)]
pub struct IssuerUrlError {
    /// The address.
    pub url: String,
}

/// Why the keys of an issuer are not known.
#[derive(Debug, Error)]
enum KeysError {
    #[error("{url} does not answer")]
    Unreachable { url: String, source: Box<dyn Error + Send + Sync> },
    #[error("{url} answers with what is no description of an issuer")]
    Undescribed { url: String, source: serde_json::Error },
    #[error("{url} describes the issuer `{found}`: name exactly that one, if it is meant")]
    Other { url: String, found: String },
    #[error("the keys are at {url}, which is not `https://`")]
    Unencrypted { url: String },
    #[error("{url} answers with what is no list of keys")]
    NoList { url: String, source: serde_json::Error },
    #[error("none of the keys at {url} is one for signatures by RS, PS or ES algorithms, or Ed25519")]
    NoKeys { url: String },
    #[error("there are {count} keys at {url}, at most {KEYS_MAX} are taken")]
    TooMany { url: String, count: usize },
}

/// Why a token of an issuer proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum JwtRefusal {
    #[error("the token is malformed, or lacks one of the claims `iss`, `aud`, `sub` and `exp`")]
    Malformed,
    #[error("the token is signed by an algorithm that is not taken, or that does not fit its key")]
    Algorithm,
    #[error("the token names no key of the issuer")]
    UnknownKey,
    #[error("the signature of the token is wrong")]
    Signature,
    #[error("the token is not valid any more")]
    Expired,
    #[error("the token is not valid yet")]
    Early,
    #[error("the token is of another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the subject of the token is not 1 to {SUBJECT_BYTES_MAX} visible ASCII characters")]
    Subject,
    #[error("the token has more than {TOKEN_ROLES_MAX} roles")]
    TooManyRoles,
    /// Not the client's fault.
    #[error("the keys of the issuer are not known at the moment")]
    NoKeys,
}

/// What an issuer says of itself.
#[derive(Deserialize)]
struct Description {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct KeyList {
    keys: Vec<Json>,
}

/// Whether a bearer token is a JSON Web Token by its form.
pub(crate) fn is_jwt(token: &[u8]) -> bool {
    let mut parts = token.split(|&byte| byte == b'.');
    let is_part = |part: Option<&[u8]>| part.is_some_and(|part| !part.is_empty());
    (0..3).all(|_| is_part(parts.next())) && parts.next().is_none()
}

impl Issuer {
    /// The issuer, whose keys are not known until [`Issuer::keep_current`] has fetched them.
    ///
    /// # Errors
    /// The address can be none of an issuer.
    pub fn new(options: IssuerOptions) -> Result<Self, IssuerUrlError> {
        let url = &options.url;
        let rest = url.strip_prefix("https://").unwrap_or_default();
        let is_address = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
        // Every id has a `/` for certain, by the scheme.
        if !is_address || url.len() > SUBJECT_BYTES_MAX {
            return Err(IssuerUrlError { url: url.clone() });
        }
        signatures::install();
        let shared =
            Shared { options, keys: RwLock::default(), wanted: Notify::new(), fetched_at: watch::Sender::new(None) };
        Ok(Self(Arc::new(shared)))
    }

    /// Fetches the keys by `fetch`, which answers with what is at an `https://` address, and again as long as it is polled; at once when
    /// `asked` is notified. Logs what comes of it.
    ///
    /// # Cancel safety
    /// Dropping the future ends it.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    pub async fn keep_current<F, E>(&self, asked: &Notify, fetch: impl Fn(String) -> F)
    where
        F: Future<Output = Result<Vec<u8>, E>>,
        E: Error + Send + Sync + 'static,
    {
        let url = &self.0.options.url;
        loop {
            let pause = match self.fetch(&fetch).await {
                Ok(true) => {
                    info!(issuer = url, "the keys of the issuer are known");
                    KEYS_FETCH_EVERY
                }
                Ok(false) => KEYS_FETCH_EVERY,
                Err(error) => {
                    let known = self.keys().is_some();
                    let error = &error as &dyn Error;
                    error!(
                        issuer = url,
                        known,
                        error,
                        "the keys of the issuer cannot be fetched, and are tried again: look at --oidc-issuer, --oidc-ca and the network; \
                         keys that are known stay so for a day, without them tokens of the issuer are answered with 503"
                    );
                    KEYS_FETCH_PAUSE
                }
            };
            self.0.fetched_at.send_replace(Some(Instant::now()));
            sleep(KEYS_FETCH_PAUSE).await;
            tokio::select! {
                () = sleep(pause.saturating_sub(KEYS_FETCH_PAUSE)) => {}
                () = self.0.wanted.notified() => {}
                () = asked.notified() => {}
            }
        }
    }

    /// Fetches the keys. Returns whether they are other ones.
    async fn fetch<F, E>(&self, fetch: &impl Fn(String) -> F) -> Result<bool, KeysError>
    where
        F: Future<Output = Result<Vec<u8>, E>>,
        E: Error + Send + Sync + 'static,
    {
        let get = async |url: &str| {
            let unreachable = |source: E| KeysError::Unreachable { url: url.to_owned(), source: source.into() };
            fetch(url.to_owned()).await.map_err(unreachable)
        };
        let issuer = &self.0.options.url;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let undescribed = |source| KeysError::Undescribed { url: url.clone(), source };
        let Description { issuer: found, jwks_uri } = serde_json::from_slice(&get(&url).await?).map_err(undescribed)?;
        if found != *issuer {
            return Err(KeysError::Other { url, found });
        }
        if !jwks_uri.starts_with("https://") {
            return Err(KeysError::Unencrypted { url: jwks_uri });
        }
        let keys = keys_in(&get(&jwks_uri).await?, jwks_uri)?;
        let known = Known { keys: keys.into(), at: Instant::now() };
        let published = |known: &Known| known.keys.iter().map(|key| key.published.clone()).collect::<Vec<_>>();
        let now = published(&known);
        let before = self.0.keys.write().replace(known);
        Ok(before.is_none_or(|before| published(&before) != now))
    }

    fn keys(&self) -> Option<Arc<[Key]>> {
        let keys = self.0.keys.read();
        keys.as_ref().filter(|known| known.at.elapsed() <= KEYS_KEPT).map(|known| Arc::clone(&known.keys))
    }

    /// Asks for the keys anew, and waits for them if they may be fetched soon.
    ///
    /// # Cancel safety
    /// They are asked for.
    pub(crate) async fn ask_for_keys(&self) {
        let mut fetched_at = self.0.fetched_at.subscribe();
        let is_soon = fetched_at.borrow_and_update().is_none_or(|at| at.elapsed() >= KEYS_FETCH_PAUSE);
        self.0.wanted.notify_one();
        if is_soon {
            // Whether they were fetched, their keys say.
            drop(timeout(FETCH_WAIT, fetched_at.changed()).await);
        }
    }

    /// The caller that `token` proves at this time of the machine's clock.
    pub(crate) fn caller(&self, token: &[u8]) -> Result<Caller, JwtRefusal> {
        let keys = self.keys().ok_or(JwtRefusal::NoKeys)?;
        let header = decode_header(token).map_err(|error| refusal(error.kind()))?;
        let key = match &header.kid {
            Some(id) => keys.iter().find(|key| key.id.as_ref() == Some(id)),
            // Which one is meant is clear only where there is one.
            None => Some(&keys[0]).filter(|_| keys.len() == 1),
        };
        let key = key.ok_or(JwtRefusal::UnknownKey)?;
        if !key.algorithms.contains(&header.alg) {
            return Err(JwtRefusal::Algorithm);
        }
        let IssuerOptions { url, audience, roles_claim } = &self.0.options;
        let mut validation = Validation::new(header.alg);
        validation.set_required_spec_claims(&["iss", "aud", "sub", "exp"]);
        validation.set_issuer(&[url]);
        validation.set_audience(&[audience]);
        validation.validate_nbf = true;
        validation.leeway = TOKEN_LEEWAY.as_secs();
        let claims: Map<String, Json> =
            decode(token, &key.key, &validation).map_err(|error| refusal(error.kind()))?.claims;
        let subject = claims.get("sub").and_then(Json::as_str).ok_or(JwtRefusal::Malformed)?;
        let is_subject =
            (1..=SUBJECT_BYTES_MAX).contains(&subject.len()) && subject.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_subject {
            return Err(JwtRefusal::Subject);
        }
        let roles = roles(&claims, roles_claim);
        if roles.len() > TOKEN_ROLES_MAX {
            return Err(JwtRefusal::TooManyRoles);
        }
        // Neither the id nor a role is that of timed events.
        Caller::new(&format!("{url}#{subject}"), roles).map_err(|_| JwtRefusal::Malformed)
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Issuer").field(&self.0.options).finish()
    }
}

impl PartialEq for Issuer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Issuer {}

fn refusal(error: &ErrorKind) -> JwtRefusal {
    match error {
        ErrorKind::InvalidSignature => JwtRefusal::Signature,
        ErrorKind::ExpiredSignature => JwtRefusal::Expired,
        ErrorKind::ImmatureSignature => JwtRefusal::Early,
        ErrorKind::InvalidIssuer => JwtRefusal::Issuer,
        ErrorKind::InvalidAudience => JwtRefusal::Audience,
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm | ErrorKind::InvalidAlgorithmName => {
            JwtRefusal::Algorithm
        }
        _ => JwtRefusal::Malformed,
    }
}

/// The roles in a claim, as far as a specification could name them, and each once.
fn roles<'a>(claims: &'a Map<String, Json>, claim: &str) -> Vec<&'a str> {
    let mut path = claim.split('.');
    let nested = || {
        let first = claims.get(path.next()?)?;
        path.try_fold(first, |object, name| object.get(name))
    };
    let mut roles: Vec<&str> = match claims.get(claim).or_else(nested) {
        Some(Json::Array(roles)) => roles.iter().filter_map(Json::as_str).collect(),
        Some(Json::String(roles)) => roles.split(' ').collect(),
        _ => Vec::new(),
    };
    roles.retain(|role| is_role(role) && Caller::new("", [*role]).is_ok());
    roles.sort_unstable();
    roles.dedup();
    roles
}

/// The keys in a list that are for signatures of tokens; others are left out.
fn keys_in(list: &[u8], url: String) -> Result<Vec<Key>, KeysError> {
    let KeyList { keys } = match serde_json::from_slice(list) {
        Ok(list) => list,
        Err(source) => return Err(KeysError::NoList { url, source }),
    };
    if keys.len() > KEYS_MAX {
        return Err(KeysError::TooMany { url, count: keys.len() });
    }
    let keys: Vec<Key> = keys.into_iter().filter_map(key).collect();
    if keys.is_empty() { Err(KeysError::NoKeys { url }) } else { Ok(keys) }
}

fn key(published: Json) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(published.clone()).ok()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|of| *of != PublicKeyUse::Signature) {
        return None;
    }
    let fitting: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &signatures::OF_RSA,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Algorithm::ES256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Algorithm::ES384],
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
        _ => return None,
    };
    let declared = published.get("alg").and_then(Json::as_str);
    let is_declared = |algorithm: &Algorithm| declared.is_none_or(|name| name.parse() == Ok(*algorithm));
    let algorithms: Vec<Algorithm> = fitting.iter().copied().filter(is_declared).collect();
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| !algorithms.is_empty())?;
    Some(Key { id: jwk.common.key_id, algorithms, key, published })
}
