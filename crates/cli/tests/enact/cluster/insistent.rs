//! A client that asks one node after the other until it has an answer that is one.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use serde_json::Value;

use crate::served::of_any_request;

const IN_DOUBT: &str = "urn:enact:problem:in-doubt";

/// A command, by what it is sent to and with.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) path: String,
    pub(super) body: Value,
    pub(super) key: String,
}

pub(super) struct Insistent {
    bases: Vec<String>,
    http: reqwest::Client,
    pub(super) random: StdRng,
    /// How often a command had to be sent again without knowing whether it has happened.
    pub(super) in_doubt: usize,
}

impl Insistent {
    /// Asks the nodes that listen at `bases`.
    pub(super) fn new(bases: &[String], seed: u64) -> Self {
        // A node that is frozen says nothing; the command is sent to another one then.
        let http = reqwest::Client::builder().timeout(Duration::from_secs(4)).build().expect("a client");
        Self { bases: bases.to_vec(), http, random: StdRng::seed_from_u64(seed), in_doubt: 0 }
    }

    /// All nodes again and again, from any of them on.
    fn nodes(&mut self) -> impl Iterator<Item = String> + use<> {
        let first = self.random.random_range(0..self.bases.len());
        self.bases.clone().into_iter().cycle().skip(first)
    }

    /// Sends the command, always with its key, until it has happened or was refused.
    pub(super) async fn insist(&mut self, sent: &Sent) -> (StatusCode, Value) {
        for base in self.nodes() {
            let url = format!("{base}{}", sent.path);
            let request = self.http.post(url).header("idempotency-key", &sent.key).header("enact-deadline-ms", "2000");
            let answer = match request.json(&sent.body).send().await {
                Ok(answer) => {
                    let status = answer.status();
                    answer.json().await.map(|body| (status, of_any_request(body)))
                }
                Err(cause) => Err(cause),
            };
            let (status, body) = match answer {
                Ok(answer) => answer,
                Err(cause) => {
                    self.in_doubt += usize::from(!cause.is_connect());
                    continue;
                }
            };
            match status {
                StatusCode::OK => return (status, body),
                StatusCode::CONFLICT if body["type"] == "urn:enact:problem:refused" => return (status, body),
                StatusCode::GATEWAY_TIMEOUT if body["type"] == IN_DOUBT => self.in_doubt += 1,
                StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {}
                _ => panic!("{sent:?}: {status} {body}"),
            }
        }
        unreachable!("there is always a next node")
    }

    /// What is read at `path`.
    pub(super) async fn read(&mut self, path: &str) -> Value {
        for base in self.nodes() {
            let url = format!("{base}{path}");
            let Ok(answer) = self.http.get(url).header("enact-deadline-ms", "2000").send().await else { continue };
            let status = answer.status();
            let Ok(body) = answer.json().await.map(of_any_request) else { continue };
            match status {
                StatusCode::OK => return body,
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {}
                _ => panic!("{path}: {status} {body}"),
            }
        }
        unreachable!("there is always a next node")
    }
}
