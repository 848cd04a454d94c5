//! `enact follow` against the real server: its page, what it hands on again, and what it never leaves out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::backup::steps;
use crate::follower::check_order;
use crate::pages::without_ids;
use crate::served::{BANK, FREE_PORT, Served, http, program, serve};

const PAGE: &str = include_str!("../../../../docs/operations/follow.md");

fn follow(directory: &Path, url: &str, arguments: &[&str]) -> Command {
    let mut command = program();
    command.current_dir(directory).arg("follow").args(arguments).args(["--url", url]);
    command
}

/// The changes that it prints.
fn printed(directory: &Path, url: &str, arguments: &[&str]) -> Vec<Value> {
    let output = follow(directory, url, arguments).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).expect("text");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn post(bank: &Served, path: &str, body: Value) {
    let sent = http().post(bank.url(path)).json(&body).send().await.expect("serving");
    assert_eq!(sent.status(), StatusCode::OK, "{path}");
}

async fn deposits(bank: &Served, numbers: std::ops::Range<usize>) {
    for number in numbers {
        post(bank, "/Account/A/Deposit", json!({ "amount": format!("EUR {}.00", number + 1) })).await;
    }
}

fn bank(directory: &Path, spec: &str) -> Served {
    let file = directory.join("bank.rebel");
    std::fs::write(&file, spec).expect("written");
    Served::start(serve(&file, &directory.join("data"), FREE_PORT))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_is_handed_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let bank = bank(directory.path(), include_str!("../../../../examples/bank.rebel"));
    post(&bank, "/Account/NL91ABNA0417164300/Open", json!({ "owner": "Ada", "initialDeposit": "EUR 100.00" })).await;
    let mut looks = 0;
    for step in steps(PAGE) {
        let words: Vec<&str> = step.command.split(' ').collect();
        let ["enact", "follow", arguments @ ..] = &words[..] else { panic!("{words:?}") };
        let found = printed(directory.path(), &bank.url(""), arguments);
        let said: Vec<Value> = step.printed.lines().map(without_ids).collect();
        assert_eq!(found.iter().map(|change| without_ids(&change.to_string())).collect::<Vec<_>>(), said);
        if looks == 0 {
            post(&bank, "/Account/NL91ABNA0417164300/Deposit", json!({ "amount": "EUR 5.00" })).await;
        }
        looks += 1;
    }
    assert_eq!(looks, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_handed_on_is_not_handed_on_again_by_one_that_keeps_its_cursor() {
    let directory = tempfile::tempdir().expect("a directory");
    let bank = bank(directory.path(), BANK);
    post(&bank, "/Account/A/Open", json!({ "initialDeposit": "EUR 1.00" })).await;
    deposits(&bank, 0..10).await;
    let again = |arguments: &[&str]| printed(directory.path(), &bank.url(""), arguments);
    let first = again(&["--once", "--cursor", "kept"]);
    assert_eq!(first.len(), 11);
    assert_eq!(again(&["--once", "--cursor", "kept"]), Vec::<Value>::new());
    deposits(&bank, 10..13).await;
    let rest = again(&["--once", "--cursor", "kept"]);
    assert_eq!(rest.len(), 3);
    assert_eq!(again(&["--once"]), [first, rest].concat());
    let unknown = follow(directory.path(), &bank.url(""), &["--once", "--class", "Stock"]).output().expect("it starts");
    assert_eq!(unknown.status.code(), Some(7), "{unknown:?}");
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(said.ends_with("not as declared: `class`; `class`: there is no class `Stock`\n"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_behind_the_end_of_the_journal_ends_it_with_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let bank = bank(directory.path(), BANK);
    post(&bank, "/Account/A/Open", json!({ "initialDeposit": "EUR 1.00" })).await;
    std::fs::write(directory.path().join("kept"), "40.41.1\n").expect("written");
    let ended = follow(directory.path(), &bank.url(""), &["--cursor", "kept"]).output().expect("the program starts");
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(7), &b""[..]), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("the journal ends before the cursor 40.41.1") && said.contains("begin anew"), "{said}");
    assert_eq!(std::fs::read_to_string(directory.path().join("kept")).expect("there"), "40.41.1\n");
}

/// A receiver that takes every second request; what it has taken.
fn hook() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/changes", listener.local_addr().expect("bound"));
    let (tell, taken) = mpsc::channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            // The sender may have been killed.
            let Some(body) = stream.ok().and_then(|stream| receive(stream, number % 2 == 1)) else { continue };
            if number % 2 == 1 && tell.send(body).is_err() {
                break;
            }
        }
    });
    (url, taken)
}

/// Reads one request and answers it.
fn receive(stream: TcpStream, takes: bool) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).ok()? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let status = if takes { "204 No Content" } else { "500 Internal Server Error" };
    write!(reader.get_mut(), "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()?;
    serde_json::from_slice(&body).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_gets_every_change_in_order_whatever_it_refuses_and_whatever_is_killed() {
    const DEPOSITS: usize = 60;
    let directory = tempfile::tempdir().expect("a directory");
    let mut bank = bank(directory.path(), BANK);
    let (url, taken) = hook();
    post(&bank, "/Account/A/Open", json!({ "initialDeposit": "EUR 1.00" })).await;
    let arguments = ["--cursor", "kept", "--post", &url];
    let start = |bank: &Served| {
        let mut command = follow(directory.path(), &bank.url(""), &arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
    };
    let mut changes: Vec<Value> = Vec::new();
    for round in 0..3 {
        let mut following = start(&bank);
        deposits(&bank, round * DEPOSITS / 3..(round + 1) * DEPOSITS / 3).await;
        let amount = format!("EUR {}.00", (round + 1) * DEPOSITS / 3);
        let is_last = |change: &Value| change["events"][0]["arguments"]["amount"] == amount;
        while !changes.iter().any(is_last) {
            let body = taken.recv().expect("it goes on");
            let some = body["changes"].as_array().expect("a list").clone();
            // What was taken and not kept comes again, from its beginning.
            let is_known = |change: &Value| changes.contains(change);
            let new: Vec<Value> = some.iter().filter(|change| !is_known(change)).cloned().collect();
            assert!(some.ends_with(&new), "nothing new comes before what is known");
            changes.extend(new);
        }
        following.kill().expect("it runs");
        following.wait().expect("it has ended");
        bank.kill();
        bank = Served::start(serve(&directory.path().join("bank.rebel"), &directory.path().join("data"), FREE_PORT));
    }
    check_order(&changes);
    assert_eq!(changes.len(), DEPOSITS + 1);
    assert_eq!(printed(directory.path(), &bank.url(""), &["--once"]), changes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_hook_has_not_said_that_it_has_is_sent_again_after_a_kill() {
    let directory = tempfile::tempdir().expect("a directory");
    let bank = bank(directory.path(), BANK);
    post(&bank, "/Account/A/Open", json!({ "initialDeposit": "EUR 1.00" })).await;
    // Connections stand in its backlog, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/changes", silent.local_addr().expect("bound"));
    let arguments = ["--cursor", "kept", "--post", &url];
    let mut following = follow(directory.path(), &bank.url(""), &arguments).spawn().expect("the program starts");
    let (mut sent, _) = silent.accept().expect("it sends");
    let mut some = [0];
    sent.read_exact(&mut some).expect("a request");
    following.kill().expect("it runs");
    following.wait().expect("it has ended");
    assert_eq!(printed(directory.path(), &bank.url(""), &["--once", "--cursor", "kept"]).len(), 1);
}
