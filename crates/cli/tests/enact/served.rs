//! The real program: run to its end, or serving a specification from a directory of the test.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;

use reqwest::StatusCode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Accounts that pay each other. An account pays by an event of its own, so nothing but an idempotency key keeps a
/// repeated request from paying twice.
pub(crate) const BANK: &str = r#"
class Account
  balance: Money
  initial unopened
    on Open(initialDeposit: Money): opened
      pre: initialDeposit >= EUR 0.00
      post: this.balance == initialDeposit
  opened
    on Pay(amount: Money, to: Account): opened
      pre: amount > EUR 0.00,
           "insufficient funds": balance - amount >= EUR 0.00
      post: this.balance -= amount
      sync: to.Receive(amount)
    on Deposit(amount: Money): opened
      pre: amount > EUR 0.00
      post: this.balance += amount
    internal on Receive(amount: Money): opened
      pre: amount > EUR 0.00
      post: this.balance += amount
"#;

/// Runs the program to its end.
pub(crate) fn enact(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_enact")).args(arguments).output().expect("the program starts")
}

/// `enact serve SPEC --data DIR` on a free port.
pub(crate) fn serve(spec: &Path, data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_enact"));
    command.arg("serve").arg(spec).arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]);
    command
}

/// A running `enact serve`; killed when dropped.
pub(crate) struct Served {
    process: Child,
    address: SocketAddr,
    log: Option<JoinHandle<String>>,
}

impl Served {
    /// Starts `command` and waits for the line that says where it listens.
    ///
    /// # Panics
    /// With everything the program wrote, if it ends before that.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut stderr = process.stderr.take().expect("piped");
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).expect("logs are UTF-8");
            text
        });
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        match line.strip_prefix("listening on http://").and_then(|rest| rest.trim_end().parse().ok()) {
            Some(address) => Self { process, address, log: Some(log) },
            None => {
                let status = process.wait().expect("the program has ended");
                panic!("not serving ({status}), said {line:?} and\n{}", log.join().expect("readable"));
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        let answer = reqwest::get(self.url(path)).await.expect("serving");
        (answer.status(), answer.json().await.expect("every answer is JSON"))
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        let answer = reqwest::Client::new().post(self.url(path)).json(&body).send().await.expect("serving");
        (answer.status(), answer.json().await.expect("every answer is JSON"))
    }

    /// `SIGKILL`: what a crash does to the process.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("still ours");
        self.process.wait().expect("killed");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).expect("process ids fit");
        kill_process(Pid::from_raw(id).expect("not zero"), signal).expect("still running");
    }

    /// Waits for the end; the status and what was logged.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = self.process.wait().expect("it ends");
        (status, self.log.take().expect("taken once").join().expect("readable"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Ended already, or ended here: a test that fails leaves no server behind.
        if self.process.kill().is_ok() {
            self.process.wait().expect("killed");
        }
    }
}
