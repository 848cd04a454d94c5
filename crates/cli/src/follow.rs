//! `enact follow`: what changes in all objects of a server that runs, handed on as it happens, to standard output or to a web hook.
//!
//! # At least once, in order
//! Changes are taken in pages, and the cursor behind a page is kept when all of it has been written, or the hook has taken it. So what is
//! killed in between is repeated, and nothing is left out: a receiver that must not take a change twice knows it by its object and
//! its transaction, or keeps the cursor that comes with it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use crate::args;
use crate::client::{ClientError, DEADLINE, client, deadline, hook, in_problem, in_words, retry_after};
use crate::failure::Failure;

/// How many changes are taken at a time.
const AT_A_TIME: usize = 250;
/// How long nothing new is waited for before the next look.
const PAUSE: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Why changes are not handed on any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    #[error("{url} does not answer: {said}; what was handed on is kept, so begin again")]
    Unanswered { url: String, said: String },
    #[error("{url} does not tell changes: {said}")]
    Refused { url: String, said: String },
}

/// A page of changes, which are handed on as they are.
#[derive(Deserialize)]
struct Page {
    changes: Vec<Box<RawValue>>,
    next: String,
}

pub(crate) fn run(args: &args::Follow) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(Following::of(args)?.go_on())
}

/// Where changes are sent.
struct Hook {
    client: Client,
    url: Url,
}

struct Following<'a> {
    args: &'a args::Follow,
    client: Client,
    changes: Url,
    hook: Option<Hook>,
    cursor: Option<String>,
}

impl<'a> Following<'a> {
    fn of(args: &'a args::Follow) -> Result<Self, Failure> {
        let client = client(&args.url, args.token_file.as_deref(), &args.tls, ANSWER_MAX)?;
        let mut changes = address(&format!("{}/-/changes", args.url.trim_end_matches('/')))?;
        changes.query_pairs_mut().append_pair("limit", &AT_A_TIME.to_string());
        for class in &args.class {
            changes.query_pairs_mut().append_pair("class", class);
        }
        let hook = |url: &str| Ok::<_, Failure>(Hook { client: hook(url, &args.tls, ANSWER_MAX)?, url: address(url)? });
        let hook = args.post.as_deref().map(hook).transpose()?;
        let cursor = args.cursor.as_deref().map(kept).transpose()?.flatten();
        Ok(Self { args, client, changes, hook, cursor })
    }

    async fn go_on(mut self) -> Result<(), Failure> {
        loop {
            let page = self.page().await?;
            if !page.changes.is_empty() {
                self.hand_on(&page).await?;
            }
            let is_news = self.cursor.as_ref() != Some(&page.next);
            if is_news && let Some(file) = &self.args.cursor {
                keep(file, &page.next).map_err(|source| Failure::Unwritable { path: file.clone(), source })?;
            }
            let is_done = page.changes.is_empty() && !is_news;
            self.cursor = Some(page.next);
            if is_done && self.args.once {
                return Ok(());
            }
            if is_done {
                sleep(PAUSE).await;
            }
        }
    }

    /// The next page, whether there is anything on it or not.
    async fn page(&self) -> Result<Page, Failure> {
        let mut url = self.changes.clone();
        if let Some(cursor) = &self.cursor {
            url.query_pairs_mut().append_pair("after", cursor);
        }
        let get = || self.client.get(url.clone()).header(ACCEPT, "application/json").header(DEADLINE, deadline());
        let body = self.answered(&self.client, &[401, 403, 404, 422], get).await?;
        let refused = |said: String| FollowError::Refused { url: self.changes.to_string(), said };
        Ok(serde_json::from_str(&body).map_err(|error| refused(error.to_string()))?)
    }

    async fn hand_on(&self, page: &Page) -> Result<(), Failure> {
        let changes = || page.changes.iter().map(|change| change.get());
        let Some(hook) = &self.hook else {
            let mut out = io::stdout().lock();
            changes()
                .try_for_each(|change| writeln!(out, "{change}"))
                .and_then(|()| out.flush())
                .map_err(Failure::Output)?;
            return Ok(());
        };
        let body = format!(r#"{{"changes":[{}],"next":"{}"}}"#, changes().collect::<Vec<_>>().join(","), page.next);
        let post = || hook.client.post(hook.url.clone()).header(CONTENT_TYPE, "application/json").body(body.clone());
        self.answered(&hook.client, &[], post).await?;
        Ok(())
    }

    /// The body of the answer, when it is one of success: until then `request` is made again, as long as there is patience, and the
    /// status is none of `finals`.
    async fn answered(
        &self,
        client: &Client,
        finals: &[u16],
        request: impl Fn() -> RequestBuilder,
    ) -> Result<String, FollowError> {
        let (begun, mut pause) = (Instant::now(), PAUSE);
        loop {
            let sent = request().build();
            let url = sent.as_ref().map(|request| request.url().to_string()).unwrap_or_default();
            let answer = match sent {
                Ok(request) => client.execute(request).await,
                Err(error) => Err(error),
            };
            let (said, after) = match answer {
                Err(error) => (in_words(&error), None),
                Ok(response) => {
                    let (status, after) = (response.status(), retry_after(&response));
                    match response.text().await {
                        Ok(body) if status.is_success() => return Ok(body),
                        // Such as a cursor or a class that there is not.
                        Ok(body) if finals.contains(&status.as_u16()) => {
                            return Err(FollowError::Refused { url, said: in_problem(&body) });
                        }
                        Ok(body) => (format!("{status} {}", in_problem(&body)), after),
                        Err(error) => (in_words(&error), after),
                    }
                }
            };
            let wait = after.unwrap_or(pause).max(pause);
            if begun.elapsed() + wait > self.args.patience {
                return Err(FollowError::Unanswered { url, said });
            }
            sleep(wait).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }
}

fn address(url: &str) -> Result<Url, ClientError> {
    url.parse().map_err(|error| ClientError::Address { url: url.to_owned(), why: format!("{error}") })
}

/// The cursor in `file`, if it is there.
fn kept(file: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|cursor| !cursor.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Failure::Unreadable { path: file.to_owned(), source }),
    }
}

/// Keeps the cursor in `file`, whole or not at all.
fn keep(file: &Path, cursor: &str) -> io::Result<()> {
    let new = file.with_added_extension("new");
    let mut written = File::create(&new)?;
    writeln!(written, "{cursor}")?;
    written.sync_data()?;
    std::fs::rename(new, file)
}
