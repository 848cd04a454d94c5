//! The real program: run to its end, or serving a specification from a directory of the test.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

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

/// How long a command may take that does not serve.
const RUN_MAX: Duration = Duration::from_secs(60);

/// The client of all tests. It opens a connection for each request, so that none outlives the runtime of a test.
///
/// To make one takes longer than most requests: it reads the certificates of the machine.
pub(crate) fn http() -> &'static reqwest::Client {
    static HTTP: LazyLock<reqwest::Client> = LazyLock::new(|| {
        provide_cryptography();
        reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("a client")
    });
    &HTTP
}

/// Clients of the tests have no provider of their own.
fn provide_cryptography() {
    // Another test may have been the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The program: the one that `ENACT_PROGRAM` names, or the one that was built with the tests.
pub(crate) fn program() -> Command {
    provide_cryptography();
    Command::new(std::env::var_os("ENACT_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_enact").into()))
}

/// Runs the program to its end.
pub(crate) fn enact(arguments: &[&str]) -> Output {
    let mut command = program();
    command.args(arguments);
    run(command)
}

/// Runs `command` to its end.
///
/// # Panics
/// With all that it has said, if it is not over in a minute: it serves, perhaps, where it should refuse to.
pub(crate) fn run(mut command: Command) -> Output {
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn();
    let process = process.as_mut().expect("the program starts");
    let (stdout, stderr) = (all_of(process.stdout.take()), all_of(process.stderr.take()));
    let in_time = stdout.recv_timeout(RUN_MAX);
    let is_late = in_time.is_err();
    if is_late {
        process.kill().expect("it runs");
    }
    let (stdout, stderr) = (in_time.or_else(|_| stdout.recv()).expect("read"), stderr.recv().expect("read"));
    let said = || [&stdout, &stderr].map(|said| String::from_utf8_lossy(said));
    assert!(!is_late, "{command:?} goes on, and has said {:?}", said());
    Output { status: process.wait().expect("it has ended"), stdout, stderr }
}

/// What comes out of `pipe` until its end.
fn all_of(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (mut pipe, (over, all)) = (pipe.expect("piped"), mpsc::channel());
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("readable");
        over.send(bytes).expect("waited for");
    });
    all
}

/// A new token of `id`, and its line for the file.
pub(crate) fn token(id: &str, roles: &[&str]) -> (String, String) {
    let roles: Vec<_> = roles.iter().flat_map(|roles| ["--roles", roles]).collect();
    let made = enact(&[&["token", "--id", id], &*roles].concat());
    assert!(made.status.success(), "{made:?}");
    let out = String::from_utf8(made.stdout).expect("UTF-8");
    let said = String::from_utf8(made.stderr).expect("UTF-8");
    let [token, line] = out.lines().collect::<Vec<_>>()[..] else { panic!("two lines, not {out}") };
    assert!(said.contains("--tokens FILE") && said.contains("chmod 600") && said.contains(id), "{said}");
    assert!(!said.contains(token), "the token is shown once");
    (token.to_owned(), line.to_owned())
}

/// What is the same when a request is repeated: all but its id.
pub(crate) fn of_any_request(mut body: Value) -> Value {
    body.as_object_mut().and_then(|body| body.remove("request_id"));
    body
}

/// A free port of this machine, for this machine.
pub(crate) const FREE_PORT: &str = "127.0.0.1:0";

/// `enact serve SPEC --data DIR --listen ADDRESS`
pub(crate) fn serve(spec: &Path, data: &Path, listen: &str) -> Command {
    let mut command = program();
    command.arg("serve").arg(spec).arg("--data").arg(data).args(["--listen", listen]);
    command
}

/// A running `enact serve`; killed when dropped.
pub(crate) struct Served {
    process: Child,
    scheme: &'static str,
    address: SocketAddr,
    log: Log,
}

/// What the program writes to standard error.
enum Log {
    Unread(ChildStderr),
    Reading(JoinHandle<String>),
    Taken,
}

impl Served {
    /// Starts `command` and waits for the line that says where it listens.
    ///
    /// # Panics
    /// With everything the program wrote, if it ends before that.
    pub(crate) fn start(command: Command) -> Self {
        let mut served = Self::start_unread(command);
        served.read_log();
        served
    }

    /// As [`Served::start`], but nobody reads what the program logs from then on.
    pub(crate) fn start_unread(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let stderr = process.stderr.take().expect("piped");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        let listens = |scheme: &'static str| {
            let address = line.strip_prefix("listening on ")?.strip_prefix(scheme)?.strip_prefix("://")?;
            Some((scheme, address.trim_end().parse().ok()?))
        };
        match listens("http").or_else(|| listens("https")) {
            Some((scheme, address)) => Self { process, scheme, address, log: Log::Unread(stderr) },
            None => {
                let status = process.wait().expect("the program has ended");
                panic!("not serving ({status}), said {line:?} and\n{}", read_all(stderr));
            }
        }
    }

    /// Begins to read what the program logs.
    pub(crate) fn read_log(&mut self) {
        if let Log::Unread(stderr) = std::mem::replace(&mut self.log, Log::Taken) {
            self.log = Log::Reading(thread::spawn(move || read_all(stderr)));
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        let answer = http().get(self.url(path)).send().await.expect("serving");
        (answer.status(), answer.json().await.expect("every answer is JSON"))
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        let answer = http().post(self.url(path)).json(&body).send().await.expect("serving");
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
        let log = match std::mem::replace(&mut self.log, Log::Taken) {
            Log::Unread(stderr) => read_all(stderr),
            Log::Reading(log) => log.join().expect("readable"),
            Log::Taken => unreachable!("taken only here"),
        };
        (status, log)
    }
}

fn read_all(mut stderr: ChildStderr) -> String {
    let mut text = String::new();
    stderr.read_to_string(&mut text).expect("logs are UTF-8");
    text
}

impl Drop for Served {
    fn drop(&mut self) {
        // Ended already, or ended here: a test that fails leaves no server behind.
        if self.process.kill().is_ok() {
            self.process.wait().expect("killed");
        }
    }
}
