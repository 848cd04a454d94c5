//! `enact erase`: erases the personal values of an object of a server that runs, by destroying the key of its subject.

use std::time::Duration;

use reqwest::{StatusCode, Url};
use serde_json::{Value as Json, json};

use crate::args;
use crate::client::{ClientError, DEADLINE, client, deadline, in_problem, in_words};
use crate::failure::Failure;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Why nothing is known to be erased.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EraseError {
    #[error("{url} does not answer: {said}; ask again, as an erasure may have been done")]
    Unanswered { url: String, said: String },
    #[error("{url} does not erase {object}: {said}")]
    Refused { url: String, object: String, said: String },
}

pub(crate) fn run(args: &args::Erase) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    let told = runtime.block_on(erase(args))?;
    let by = told["caller"].as_str().map(|caller| format!(", for {caller}")).unwrap_or_default();
    let at = told["at"].as_str().unwrap_or_default();
    println!("erased the personal values of {}/{} at {at}{by}", args.class, args.id);
    Ok(())
}

async fn erase(args: &args::Erase) -> Result<Json, Failure> {
    let url = address(args)?;
    let client = client(&args.url, args.token_file.as_deref(), &args.tls, ANSWER_MAX)?;
    let unanswered = |error: &reqwest::Error| EraseError::Unanswered { url: args.url.clone(), said: in_words(error) };
    let answer = client
        .post(url)
        .header(DEADLINE, deadline())
        .json(&json!({}))
        .send()
        .await
        .map_err(|error| unanswered(&error))?;
    let (status, body) = (answer.status(), answer.text().await.map_err(|error| unanswered(&error))?);
    if status != StatusCode::OK {
        let object = format!("{}/{}", args.class, args.id);
        return Err(EraseError::Refused { url: args.url.clone(), object, said: in_problem(&body) }.into());
    }
    let unreadable =
        |error: serde_json::Error| EraseError::Unanswered { url: args.url.clone(), said: error.to_string() };
    Ok(serde_json::from_str(&body).map_err(unreadable)?)
}

fn address(args: &args::Erase) -> Result<Url, Failure> {
    let unfit = |why: String| Failure::from(ClientError::Address { url: args.url.clone(), why });
    let mut url = Url::parse(&args.url).map_err(|error| unfit(error.to_string()))?;
    let cannot = || unfit("it has no path".to_owned());
    url.path_segments_mut().map_err(|()| cannot())?.pop_if_empty().extend([&args.class, &args.id, "-", "erase"]);
    Ok(url)
}
