//! The issuer whose tokens a server takes, and how its keys are fetched: over TLS, without redirections, and bounded.

use std::time::Duration;

use enact_server::{Issuer, IssuerOptions};
use reqwest::{Client, StatusCode};
use thiserror::Error;

use crate::failure::Failure;
use crate::{args, client};

/// How long an answer of the issuer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Greatest size of an answer, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// Why nothing is fetched.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error("the answer has status {0}")]
    Status(StatusCode),
    #[error("the answer has more than {BYTES_MAX} bytes")]
    TooLarge,
}

/// The issuer, and a client that asks it.
pub(super) fn of(args: &args::Oidc) -> Result<Option<(Issuer, Client)>, Failure> {
    let Some((url, audience)) = args.oidc_issuer.clone().zip(args.oidc_audience.clone()) else { return Ok(None) };
    let client = client::of_issuer(&url, args.oidc_ca.clone(), ANSWER_MAX)?;
    let options = IssuerOptions { url, audience, roles_claim: args.oidc_roles.clone() };
    Ok(Some((Issuer::new(options)?, client)))
}

/// What is at `url`.
pub(super) async fn fetch(client: Client, url: String) -> Result<Vec<u8>, FetchError> {
    let mut answer = client.get(url).send().await?;
    if answer.status() != StatusCode::OK {
        return Err(FetchError::Status(answer.status()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if bytes.len() + chunk.len() > BYTES_MAX {
            return Err(FetchError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
