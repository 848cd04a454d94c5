//! The sessions in the README and in the tour of the service, run as a newcomer would paste them.

use std::path::Path;

use reqwest::header::{HeaderName, HeaderValue};
use serde_json::Value;

#[cfg(feature = "nats")]
use crate::nodes::Nodes;
use crate::served::{FREE_PORT, Served, serve};

const SESSIONS: [(&str, &str); 2] = [
    ("README.md", include_str!("../../../../README.md")),
    ("docs/guide/service.md", include_str!("../../../../docs/guide/service.md")),
];
const PAGE_HOST: &str = "http://127.0.0.1:8080";

/// One command of a session and what the page says it prints.
struct Step {
    command: Vec<String>,
    printed: String,
}

impl Step {
    /// The one of `hosts` that it asks.
    fn host<'a>(&self, hosts: &[&'a str]) -> Option<&'a str> {
        let is_asked = |host: &&&str| self.command.iter().any(|word| word.starts_with(**host));
        hosts.iter().find(is_asked).copied()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_session_prints_what_its_page_says() {
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bank.rebel");
    for (page, text) in SESSIONS {
        let data = tempfile::tempdir().expect("a directory");
        let bank = Served::start(serve(&spec, &data.path().join("data"), FREE_PORT));
        let session = session(text, &[PAGE_HOST]);
        assert!(session.len() >= 2, "{page} shows a session");
        for Step { command, printed, .. } in session {
            let answer = curl(&bank.url(""), &command, PAGE_HOST).await;
            assert_eq!(without_ids(&answer), without_ids(&printed), "{page}: {command:?}");
        }
    }
}

/// The commands in the `console` blocks of a page that ask one of `hosts`.
fn session(page: &str, hosts: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let (true, Some(command)) = (is_console, line.strip_prefix("$ ")) {
            steps.push(Step { command: words(command), printed: String::new() });
        } else if let (true, Some(step)) = (is_console, steps.last_mut()) {
            step.printed.push_str(line);
        }
    }
    steps.retain(|step| step.host(hosts).is_some());
    steps
}

/// The words of a shell command without escapes: blanks part them, single quotes join them.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (number, part) in command.split('\'').enumerate() {
        let is_quoted = number % 2 == 1;
        for (place, word) in part.split(|c| c == ' ' && !is_quoted).enumerate() {
            if place > 0 {
                words.push(String::new());
            }
            words.last_mut().expect("there is one").push_str(word);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Does what `curl` would, for the options that the README uses.
async fn curl(base: &str, command: &[String], host: &str) -> String {
    let mut words = command.iter().map(String::as_str);
    assert_eq!(words.next(), Some("curl"));
    let (mut url, mut body, mut headers) = (None, None, Vec::new());
    while let Some(word) = words.next() {
        match word {
            "--json" => body = words.next(),
            "--header" => headers.extend(words.next().and_then(|header| header.split_once(": "))),
            other => url = other.strip_prefix(host),
        }
    }
    let url = format!("{base}{}", url.expect("a command of a page names a path on the served host"));
    let client = reqwest::Client::new();
    let mut request = match body {
        Some(body) => client.post(url).header("content-type", "application/json").body(body.to_owned()),
        None => client.get(url),
    };
    for (name, value) in headers {
        let name: HeaderName = name.parse().expect("a header's name");
        request = request.header(name, HeaderValue::from_str(value).expect("a header's value"));
    }
    request.send().await.expect("serving").text().await.expect("every answer is text")
}

/// The answer without the ids of transactions and their times, which differ from run to run.
pub(crate) fn without_ids(answer: &str) -> Value {
    let mut answer: Value = serde_json::from_str(answer).unwrap_or_else(|_| panic!("not JSON: {answer}"));
    forget_ids(&mut answer);
    answer
}

fn forget_ids(answer: &mut Value) {
    match answer {
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    "transaction" => *member = Value::from("a transaction"),
                    "request_id" => *member = Value::from("a request"),
                    "at" => *member = Value::from("a time"),
                    _ => forget_ids(member),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(forget_ids),
        _ => {}
    }
}

/// Three nodes as `cargo xtask cluster` starts them, of the program that was built with the tests.
#[cfg(feature = "nats")]
#[tokio::test(flavor = "multi_thread")]
async fn the_session_over_several_nodes_prints_what_the_readme_says() {
    const HOSTS: [&str; 3] = ["http://127.0.0.1:8081", "http://127.0.0.1:8082", "http://127.0.0.1:8083"];
    if enact_journal_kit::nats::program().is_none() {
        return;
    }
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bank.rebel");
    let enact = crate::served::program().get_program().to_owned();
    let nodes = Nodes::start(Path::new(&enact), &spec, [0; 3]).expect("they serve");
    let urls: Vec<&str> = nodes.urls().collect();
    let session = session(SESSIONS[0].1, &HOSTS);
    let asked: Vec<&str> = session.iter().filter_map(|step| step.host(&HOSTS)).collect();
    assert!(HOSTS.iter().all(|host| asked.contains(host)), "the README asks each node: {asked:?}");
    for step in session {
        let host = step.host(&HOSTS).expect("it asks one of them");
        let url = urls[HOSTS.iter().position(|known| *known == host).expect("one of them")];
        let answer = curl(url, &step.command, host).await;
        assert_eq!(without_ids(&answer), without_ids(&step.printed), "{:?}", step.command);
    }
}
