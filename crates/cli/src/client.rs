//! What commands have in common that ask a server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, redirect};
use serde_json::Value as Json;

use crate::args::ClientTls;
use crate::failure::Failure;
use crate::trust::{self, Authorities, TrustError};

/// How long the server may take for an answer.
pub(crate) const DEADLINE: HeaderName = HeaderName::from_static("enact-deadline-ms");

/// Why no server can be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("{url} is no address of a server: {why}")]
    Address { url: String, why: String },
    #[error("the first line of {file} is no token")]
    Token { file: String },
    #[error("no server can be known over TLS")]
    Trust(#[source] TrustError),
    #[error("no client of HTTP can be made")]
    Unmade(#[source] reqwest::Error),
}

/// A client of the server at `url` that sends the token in the first line of a file.
pub(crate) fn client(
    url: &str,
    token_file: Option<&Path>,
    tls: &ClientTls,
    answer_max: Duration,
) -> Result<Client, Failure> {
    let mut headers = HeaderMap::new();
    if let Some(file) = token_file {
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", token_in(file)?)).expect("visible letters");
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    made(url, headers, tls, Authorities::Given, answer_max)
}

/// A client of a web hook at `url`, which is told no token.
pub(crate) fn hook(url: &str, tls: &ClientTls, answer_max: Duration) -> Result<Client, Failure> {
    made(url, HeaderMap::new(), tls, Authorities::All, answer_max)
}

/// A client of the issuer of tokens at `url`, which the authorities in a file vouch for, or those of the system.
pub(crate) fn of_issuer(url: &str, authorities: Option<PathBuf>, answer_max: Duration) -> Result<Client, Failure> {
    let tls = ClientTls { tls_ca: authorities, tls_cert: None, tls_key: None };
    made(url, HeaderMap::new(), &tls, Authorities::Given, answer_max)
}

/// A client that follows no redirection, which could be to somebody else.
fn made(
    url: &str,
    headers: HeaderMap,
    tls: &ClientTls,
    authorities: Authorities,
    answer_max: Duration,
) -> Result<Client, Failure> {
    // Authorities of the system are many: they are read for those that need them.
    let is_encrypted = url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
    let authorities = if is_encrypted { authorities } else { Authorities::None };
    let config = trust::config(tls, authorities).map_err(ClientError::Trust)?;
    let builder = Client::builder().tls_backend_preconfigured(config).default_headers(headers);
    let builder = builder.redirect(redirect::Policy::none()).timeout(answer_max);
    Ok(builder.build().map_err(ClientError::Unmade)?)
}

fn token_in(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| Failure::Unreadable { path: path.to_owned(), source })?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ClientError::Token { file: path.display().to_string() }.into());
    }
    Ok(token.to_owned())
}

/// As long as a server takes.
pub(crate) fn deadline() -> String {
    enact_server::DEADLINE_MAX.as_millis().to_string()
}

/// When the server advises to come back.
pub(crate) fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The error with what caused it.
pub(crate) fn in_words(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

/// What a problem says, with what is wrong with each parameter; the text itself if it is none.
pub(crate) fn in_problem(body: &str) -> String {
    let problem: Json = serde_json::from_str(body).unwrap_or_default();
    let Some(detail) = problem["detail"].as_str() else { return body.trim().to_owned() };
    let parameters = problem["parameters"].as_array().into_iter().flatten();
    let told = parameters.filter_map(|parameter| Some((parameter["name"].as_str()?, parameter["problem"].as_str()?)));
    told.fold(detail.to_owned(), |words, (name, told)| format!("{words}; `{name}`: {told}"))
}
