//! What commands have in common that ask a server.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, redirect};

use crate::failure::Failure;

/// Why no server can be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("{url} is no address of a server: {why}")]
    Address { url: String, why: String },
    #[error("the first line of {file} is no token")]
    Token { file: String },
    #[error("no client of HTTP can be made")]
    Unmade(#[source] reqwest::Error),
}

/// A client that sends the token in the first line of a file, and follows no redirection, which could be to somebody else.
pub(crate) fn client(token_file: Option<&Path>, answer_max: Duration) -> Result<Client, Failure> {
    let mut headers = HeaderMap::new();
    if let Some(file) = token_file {
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", token_in(file)?)).expect("visible letters");
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    let builder = Client::builder().default_headers(headers).redirect(redirect::Policy::none()).timeout(answer_max);
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
