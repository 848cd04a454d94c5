//! `enact-bench cost` short of a served bank, and its floor; the gate runs it against one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::enact_bench;

#[test]
fn benchmarks_of_a_served_bank_refuse_a_program_that_serves_none() {
    for benchmark in ["cost", "deadlines", "hot", "neighbours"] {
        for (program, complaint) in
            [("/nowhere/enact", "starting: /nowhere/enact: No such file"), ("true", "it ended before it listened")]
        {
            let only = ["--clients", "1", "--rounds", "1", "--seconds", "1", "--warm-up", "0"];
            // The floor serves before the program does.
            let few: &[&str] = if benchmark == "cost" { &["--requests", "health", "--accounts", "2"] } else { &[] };
            let ended = enact_bench(&[&[benchmark, "--program", program][..], &only, few].concat());
            let stderr = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(1), "{benchmark}: {stderr}");
            assert!(stderr.contains(complaint), "{benchmark}: {stderr}");
        }
    }
}

/// The floor as a process.
struct Floor {
    process: Child,
    stream: TcpStream,
}

impl Floor {
    fn start(data: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_enact-bench"))
            .args(["cost-floor", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says where");
        let address = line.trim_end().strip_prefix("listening on http://").expect("an address");
        Self { process, stream: TcpStream::connect(address).expect("it listens") }
    }

    /// Status and body of the answer to a request, a `POST` if it has a body.
    fn ask(&mut self, path: &str, body: &str) -> (u16, String) {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: floor\r\ncontent-type: application/json\r\n");
        write!(self.stream, "{head}content-length: {length}\r\n\r\n{body}").expect("it reads");
        let mut answer = BufReader::new(&self.stream);
        let (mut status, mut length) = (String::new(), 0);
        answer.read_line(&mut status).expect("it answers");
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).expect("it answers");
            if let Some(text) = line.trim_end().strip_prefix("content-length: ") {
                length = text.parse().expect("a number");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body).expect("it answers");
        (status[9..12].parse().expect("a status"), String::from_utf8(body).expect("UTF-8"))
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        drop(self.process.kill().and_then(|()| self.process.wait()));
    }
}

#[test]
fn the_floor_books_what_the_example_bank_books_and_logs_it_before_it_answers() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let log = || std::fs::read(directory.path().join("log")).expect("it has a log");
    let holds = |text: &str| log().windows(text.len()).any(|bytes| bytes == text.as_bytes());
    let mut floor = Floor::start(directory.path());

    assert_eq!(floor.ask("/health", "").0, 200);
    for account in ["a", "b"] {
        let (status, body) =
            floor.ask(&format!("/Account/{account}/Open"), r#"{"owner":"Ada","initialDeposit":"EUR 5.00"}"#);
        let done: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((status, &done["id"], &done["state"]), (200, &account.into(), &"opened".into()));
    }
    assert!(!holds("Transfert1"));
    let book = |euros: &str| format!(r#"{{"amount":"EUR {euros}","from":"a","to":"b"}}"#);
    assert_eq!(floor.ask("/Transfer/t1/Book", &book("3.50")).0, 200);
    assert!(holds("Transfert1"), "what is answered is in the log");
    assert_eq!(floor.ask("/Account/b/Deposit", r#"{"amount":"EUR 1.00"}"#).0, 200);

    assert_eq!(floor.ask("/Transfer/t2/Book", &book("1.51")).0, 409, "there are 1.50");
    assert_eq!(floor.ask("/Transfer/t3/Book", &book("0.00")).0, 422);
    assert_eq!(floor.ask("/Account/c/Deposit", r#"{"amount":"EUR 1.00"}"#).0, 404);
    assert!(!holds("Transfert2") && !holds("Transfert3"));
    for (account, balance) in [("a", "EUR 1.50"), ("b", "EUR 9.50")] {
        let (_, body) = floor.ask(&format!("/Account/{account}"), "");
        assert_eq!(body, format!(r#"{{"fields":{{"balance":"{balance}"}}}}"#));
    }
}
