//! Batches on their way to a server.

use std::path::Path;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value as Json;
use tokio::time::{Instant, sleep};

use super::ImportError;
use super::commands::Command;
use crate::args::ClientTls;
use crate::client::{ClientError, DEADLINE, client, deadline, in_words, retry_after};
use crate::failure::Failure;

/// How long an answer may take beyond the deadline that the server has.
const TRANSIT_MAX: Duration = Duration::from_secs(30);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A server that takes batches.
pub(super) struct Server {
    client: Client,
    url: Url,
    patience: Duration,
}

/// What has become of a batch.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) done: usize,
    /// Of those done, the ones that had been done before.
    pub(super) replayed: usize,
    /// Numbers of lines, with what the server says.
    pub(super) refused: Vec<(u64, Json)>,
    pub(super) unanswered: usize,
    /// Why some are not answered.
    pub(super) said: String,
}

/// The answer to a batch.
#[derive(Deserialize)]
struct Results {
    results: Vec<Json>,
}

/// What a server says of a batch.
enum Told {
    /// The answers to all of its commands.
    Results(Vec<Json>),
    Again(Again),
    /// It cannot be read, so that nothing of it has been looked at.
    Malformed(Json),
}

/// How a part of a batch has ended.
enum Ended {
    Answered,
    Malformed(Json),
    /// Why not.
    Unanswered(String),
}

/// Why a batch is to be sent again, and what the server says about when.
struct Again {
    said: String,
    after: Option<Duration>,
}

impl Server {
    pub(super) fn at(
        url: &str,
        token_file: Option<&Path>,
        tls: &ClientTls,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let client = client(url, token_file, tls, enact_server::DEADLINE_MAX + TRANSIT_MAX)?;
        let url = format!("{}/-/batch", url.trim_end_matches('/'));
        let wrong = |error: reqwest::Error| ClientError::Address { url: url.clone(), why: in_words(&error) };
        let request = client.post(&url).build().map_err(wrong)?;
        Ok(Self { client, url: request.url().clone(), patience })
    }

    /// Sends `commands` until each is answered, or until none has been for as long as there is patience.
    ///
    /// # Errors
    /// If the server does not take batches, or not of this caller.
    pub(super) async fn send(&self, commands: Vec<Command>) -> Result<Sent, ImportError> {
        let mut sent = Sent::default();
        let mut parts = vec![commands];
        while let Some(mut part) = parts.pop() {
            match self.send_part(&mut part, &mut sent).await? {
                Ended::Answered => {}
                // One command may make a batch unreadable: it is looked for by halves.
                Ended::Malformed(problem) if part.len() == 1 => sent.refused.push((part[0].line, problem)),
                Ended::Malformed(_) => {
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([rest, part]);
                }
                Ended::Unanswered(said) => {
                    sent.unanswered = part.len() + parts.iter().map(Vec::len).sum::<usize>();
                    sent.said = said;
                    break;
                }
            }
        }
        Ok(sent)
    }

    /// Sends a part of a batch, and leaves in it what has no answer.
    async fn send_part(&self, commands: &mut Vec<Command>, sent: &mut Sent) -> Result<Ended, ImportError> {
        let (mut last, mut pause) = (Instant::now(), PAUSE_MIN);
        loop {
            let again = match self.once(commands).await? {
                Told::Malformed(problem) => return Ok(Ended::Malformed(problem)),
                Told::Again(again) => Some(again),
                Told::Results(results) => {
                    let before = commands.len();
                    let again = sent.sort(commands, results);
                    if commands.len() < before {
                        (last, pause) = (Instant::now(), PAUSE_MIN);
                    }
                    again
                }
            };
            let Some(Again { said, after }) = again else { return Ok(Ended::Answered) };
            let wait = after.unwrap_or(pause).max(pause);
            if last.elapsed() + wait > self.patience {
                return Ok(Ended::Unanswered(said));
            }
            sleep(wait).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Sends `commands` once.
    async fn once(&self, commands: &[Command]) -> Result<Told, ImportError> {
        let commands_json: Vec<&str> = commands.iter().map(|command| command.json.as_str()).collect();
        let body = format!(r#"{{"commands":[{}]}}"#, commands_json.join(","));
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        let request = request.header(DEADLINE, deadline());
        let response = match request.body(body).send().await {
            Ok(response) => response,
            Err(error) => return Ok(Told::Again(Again { said: in_words(&error), after: None })),
        };
        let (status, after) = (response.status(), retry_after(&response));
        let text = match response.text().await {
            Ok(text) => text,
            Err(error) => return Ok(Told::Again(Again { said: in_words(&error), after })),
        };
        if status == StatusCode::OK {
            let results = serde_json::from_str(&text).map(|Results { results }| results).unwrap_or_default();
            if results.len() == commands.len() {
                return Ok(Told::Results(results));
            }
            let said = format!("{} answers to {} commands", results.len(), commands.len());
            return Err(ImportError::Server { url: self.url.to_string(), said });
        }
        let problem: Json = serde_json::from_str(&text).unwrap_or_default();
        let said = detail(&problem).map_or_else(|| status.to_string(), str::to_owned);
        if status == StatusCode::REQUEST_TIMEOUT || is_for_later(status.as_u16()) {
            return Ok(Told::Again(Again { said, after }));
        }
        if status == StatusCode::UNPROCESSABLE_ENTITY && !problem.is_null() {
            return Ok(Told::Malformed(problem));
        }
        Err(ImportError::Server { url: self.url.to_string(), said })
    }
}

impl Sent {
    /// Takes up the answers, and leaves the commands that are to be sent again; says why, if there are some.
    fn sort(&mut self, commands: &mut Vec<Command>, results: Vec<Json>) -> Option<Again> {
        let mut again = None;
        let mut results = results.into_iter();
        commands.retain(|command| {
            let result = results.next().expect("as many answers as commands");
            let status = result["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or_default();
            if status == StatusCode::OK.as_u16() {
                self.done += 1;
                self.replayed += usize::from(result["replayed"] == true);
                return false;
            }
            let is_running = result["type"] == "urn:enact:problem:key-in-use";
            if is_running || is_for_later(status) {
                again = Some(Again { said: detail(&result).unwrap_or_default().to_owned(), after: None });
                return true;
            }
            self.refused.push((command.line, result));
            false
        });
        again
    }
}

/// Whether the answer may be another one later, and the command has had no effect yet or has an answer that is kept.
fn is_for_later(status: u16) -> bool {
    [429, 503, 504, 507].contains(&status)
}

fn detail(problem: &Json) -> Option<&str> {
    problem["detail"].as_str()
}
