//! What `enact serve` logs, and how a request is found again in it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::served::{BANK, FREE_PORT, Served, enact, http, serve};

const PERSON: &str = r#"
class Person
  name: String @personal
  initial unknown
    on Register(called: String @personal): known
      post: this.name = called
  known
"#;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a place for the test");
    let spec = directory.path().join("bank.rebel");
    fs::write(&spec, BANK).expect("writable");
    (directory, spec)
}

fn start(spec: &Path, more: &[&str]) -> Served {
    let mut command = serve(spec, &spec.with_file_name("data"), FREE_PORT);
    command.args(more);
    Served::start(command)
}

/// What it has logged, line by line, when it has stopped.
fn lines(server: Served) -> Vec<Value> {
    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert!(status.success(), "{status}\n{log}");
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{log}"));
    log.lines().map(line).collect()
}

#[tokio::test]
async fn every_line_is_json_when_asked_for_and_those_of_a_request_have_its_id() {
    let (_directory, spec) = place();
    fs::write(&spec, format!("{BANK}\nconst spare: Integer = 1\n")).expect("writable");
    let server = start(&spec, &["--log-format", "json", "--log", "debug"]);
    let request = http().get(server.url("/Account/nobody")).header("x-request-id", "look-for-me");
    let answer = request.send().await.expect("serving");
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["x-request-id"]),
        (404, &"look-for-me".parse().expect("a value"))
    );
    assert_eq!(answer.json::<Value>().await.expect("JSON")["request_id"], "look-for-me");
    let lines = lines(server);
    for line in &lines {
        assert!(["timestamp", "level", "target"].iter().all(|member| line[member].is_string()), "{line}");
    }
    let answered = lines.iter().find(|line| line["message"] == "answered").expect("logged");
    let of = json!({ "name": "request", "method": "GET", "path": "/Account/nobody" });
    assert_eq!((&answered["span"], &answered["status"]), (&of, &json!(404)));
    assert_eq!(answered["request_id"], "look-for-me");
    assert!(lines.iter().any(|line| line["message"].as_str().is_some_and(|text| text.contains("W002"))), "{lines:#?}");
}

/// The engine reads the records of an object, and erases a subject, in tasks of its own.
#[tokio::test]
async fn what_the_engine_logs_while_it_works_for_a_request_has_its_id() {
    let (directory, spec) = place();
    fs::write(&spec, format!("{BANK}{PERSON}")).expect("writable");
    let keys = directory.path().join("keys");
    let flags = ["--log-format", "json", "--subject-keys", keys.to_str().expect("UTF-8")];
    let server = start(&spec, &flags);
    let (status, _) = server.post("/Account/A/Open", json!({ "initialDeposit": "EUR 77.00" })).await;
    assert_eq!(status.as_u16(), 200);
    lines(server);
    let server = start(&spec, &flags);
    let log = spec.with_file_name("data").join("segment-0000000001.log");
    let mut bytes = fs::read(&log).expect("ours");
    let account = bytes.windows(9).position(|bytes| bytes == b"Account/A").expect("it has a record");
    bytes[account + 8] ^= 1;
    fs::write(&log, bytes).expect("ours");
    let (status, _) = server.post("/Person/ada/Register", json!({ "called": "Ada" })).await;
    assert_eq!(status.as_u16(), 200);
    for (request, id, status) in [
        (http().get(server.url("/Account/A")), "look-for-me", 500),
        (http().post(server.url("/Person/ada/-/erase")).json(&json!({})), "erase-ada", 200),
    ] {
        let answer = request.header("x-request-id", id).send().await.expect("serving");
        assert_eq!(answer.status().as_u16(), status, "{id}");
    }
    let lines = lines(server);
    for (id, expected) in [
        ("look-for-me", &["enact_entities::engine::entity", "enact_server::outcome"][..]),
        ("erase-ada", &["enact_entities::engine::vault"]),
    ] {
        let of_request = lines.iter().filter(|line| line["request_id"] == id);
        let targets: Vec<_> = of_request.map(|line| line["target"].as_str().expect("a text")).collect();
        assert_eq!(targets, expected, "{lines:#?}");
    }
}

#[tokio::test]
async fn a_start_says_what_it_found_and_an_end_says_why_in_the_same_format() {
    let (_directory, spec) = place();
    for round in 0..2_u64 {
        let server = start(&spec, &["--log-format", "json"]);
        for account in ["A", "B", "C"] {
            let path = format!("/Account/{account}/Open");
            let (status, _) = server.post(&path, json!({ "initialDeposit": "EUR 1.00" })).await;
            assert_eq!(status.as_u16(), if round == 0 { 200 } else { 409 });
        }
        let lines = lines(server);
        let started = lines.iter().find(|line| line["message"] == "started").expect("logged");
        assert_eq!(started["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(started["journal"], spec.with_file_name("data").to_str().expect("UTF-8"));
        assert_eq!(started["objects"], 3 * round, "{started}");
        assert!(started["records"].as_u64() >= Some(3 * round) && started["recovered_ms"].is_u64(), "{started}");
    }
    let data = spec.with_file_name("data");
    fs::write(data.join("segment-0000000001.log"), "damaged").expect("ours");
    let [spec, data] = [&spec, &data].map(|path| path.to_str().expect("UTF-8"));
    let ended = enact(&["serve", spec, "--data", data, "--listen", FREE_PORT, "--log-format", "json"]);
    let log = String::from_utf8(ended.stderr).expect("UTF-8");
    let last: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("JSON");
    assert_eq!((ended.status.code(), &last["level"]), (Some(4), &json!("ERROR")), "{log}");
    assert_eq!(log.matches("enact journal repair").count(), 1, "it is said once: {log}");
}

#[tokio::test]
async fn lines_have_no_colours_where_nobody_looks_and_name_their_request() {
    let (_directory, spec) = place();
    let server = start(&spec, &["--log", "debug"]);
    let answer = http().get(server.url("/Account/nobody")).send().await.expect("serving");
    let id = answer.headers()["x-request-id"].to_str().expect("text").to_owned();
    server.signal(Signal::TERM);
    let (_, log) = server.ended();
    assert!(!log.contains('\x1b'), "{log}");
    let of_request: Vec<&str> = log.lines().filter(|line| line.contains("answered")).collect();
    assert!(!of_request.is_empty() && of_request.iter().all(|line| line.contains(&id)), "{log}");
}
