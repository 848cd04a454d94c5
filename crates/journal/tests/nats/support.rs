//! Servers, and processes that have the journal open.

use std::collections::HashMap;

use enact_journal::nats::{Nats, OpenError, Options};
use enact_journal_kit::contract::{Harness, TakeOver};
use enact_journal_kit::nats::{Server, program};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// A server of its own.
pub(crate) struct Single {
    pub(crate) server: Server,
    _directory: TempDir,
}

impl Single {
    /// A server, unless there is no program.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("", "")
    }

    pub(crate) fn start_with(jetstream: &str, settings: &str) -> Option<Self> {
        let (program, directory) = (program()?, tempfile::tempdir().expect("a directory"));
        let server = Server::start_with(&program, directory.path(), jetstream, settings);
        Some(Self { server, _directory: directory })
    }

    pub(crate) fn options(&self) -> Options {
        Options::at(self.server.address())
    }
}

/// Processes with the journal: each has a runtime, which ends with all that it does when the process is killed.
#[derive(Default)]
pub(crate) struct Processes {
    runtimes: HashMap<u64, Runtime>,
}

impl Processes {
    /// A process opens the journal.
    pub(crate) async fn open(&mut self, options: Options) -> Result<Nats, OpenError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let journal = runtime.spawn(Nats::open(options)).await.expect("no panic")?;
        self.runtimes.insert(journal.epoch(), runtime);
        Ok(journal)
    }

    /// Kills the process that has `journal` open.
    pub(crate) fn kill(&mut self, journal: Nats) {
        self.runtimes.remove(&journal.epoch()).expect("it runs").shutdown_background();
        drop(journal);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.runtimes.drain().for_each(|(_, runtime)| runtime.shutdown_background());
    }
}

/// The contract over the servers of `options`.
pub(crate) struct OverNats<S> {
    pub(crate) options: Options,
    pub(crate) processes: Processes,
    /// They run as long as they are kept.
    pub(crate) _servers: S,
}

impl OverNats<Single> {
    pub(crate) fn single() -> Option<Self> {
        let single = Single::start()?;
        Some(Self { options: single.options(), processes: Processes::default(), _servers: single })
    }
}

impl<S> Harness for OverNats<S> {
    type Journal = Nats;

    async fn open(&mut self) -> Nats {
        self.processes.open(self.options.clone()).await.expect("the journal opens")
    }

    async fn crash(&mut self, journal: Nats) {
        self.processes.kill(journal);
    }
}

impl<S> TakeOver for OverNats<S> {
    async fn take_over(&mut self, _: &Nats) -> Nats {
        self.open().await
    }
}

/// A client of the servers that is no journal.
/// A message of a stream: its subject, its headers and its payload.
pub(crate) type Message = (String, async_nats::HeaderMap, Vec<u8>);

pub(crate) struct Raw {
    runtime: Runtime,
    client: async_nats::Client,
}

impl Raw {
    pub(crate) fn at(address: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let client = runtime.block_on(async_nats::connect(address)).expect("a connection");
        Self { runtime, client }
    }

    /// What the server answers to a question of its interface.
    pub(crate) fn ask(&self, subject: &str, question: &Value) -> Value {
        let asked = self.client.request(format!("$JS.API.{subject}"), question.to_string().into());
        let answer = self.runtime.block_on(asked).expect("an answer");
        serde_json::from_slice(&answer.payload).expect("JSON")
    }

    pub(crate) fn publish(&self, subject: &str, payload: &'static str) {
        let answer = self.runtime.block_on(self.client.request(subject.to_owned(), payload.into())).expect("an answer");
        assert!(!String::from_utf8_lossy(&answer.payload).contains("error"), "it is stored");
    }

    /// Makes `stream` anew of its messages with these sequences, in this order, one of them with another payload; all that it had.
    pub(crate) fn rebuild(&self, stream: &str, order: &[u64], changed: Option<u64>) -> Vec<Message> {
        let last =
            self.ask(&format!("STREAM.INFO.{stream}"), &json!({}))["state"]["last_seq"].as_u64().expect("a number");
        let all: Vec<Message> = (1..=last).map(|sequence| self.message(stream, sequence)).collect();
        let chosen = order.iter().map(|&sequence| {
            let mut message = all[sequence as usize - 1].clone();
            if changed == Some(sequence) {
                message.2 = b"another".to_vec();
            }
            message
        });
        self.restore(stream, chosen.collect());
        all
    }

    /// Makes `stream` anew of `messages`.
    pub(crate) fn restore(&self, stream: &str, messages: Vec<Message>) {
        let config = self.ask(&format!("STREAM.INFO.{stream}"), &json!({}))["config"].clone();
        assert_eq!(self.ask(&format!("STREAM.DELETE.{stream}"), &json!({}))["success"], true);
        let made = self.ask(&format!("STREAM.CREATE.{stream}"), &config);
        assert!(made["error"].is_null(), "{made}");
        for (subject, headers, payload) in messages {
            let sent = self.client.request_with_headers(subject, headers, payload.into());
            let answer = self.runtime.block_on(sent).expect("an answer");
            assert!(!String::from_utf8_lossy(&answer.payload).contains("error"), "it is stored");
        }
    }

    /// The message `sequence` of `stream`, with the headers that it was written with.
    fn message(&self, stream: &str, sequence: u64) -> Message {
        let question = json!({ "seq": sequence }).to_string();
        let asked = self.client.request(format!("$JS.API.DIRECT.GET.{stream}"), question.into());
        let message = self.runtime.block_on(asked).expect("an answer");
        let headers = message.headers.expect("a message of the stream");
        let mut written = async_nats::HeaderMap::new();
        for name in ["R", "G", "O"] {
            if let Some(value) = headers.get(name) {
                written.insert(name, value.clone());
            }
        }
        (headers.get("Nats-Subject").expect("its subject").to_string(), written, message.payload.to_vec())
    }

    /// Publishes the message `sequence` of `stream` once more.
    pub(crate) fn publish_again(&self, stream: &str, sequence: u64) {
        let question = json!({ "seq": sequence }).to_string();
        let asked = self.client.request(format!("$JS.API.DIRECT.GET.{stream}"), question.into());
        let message = self.runtime.block_on(asked).expect("an answer");
        let headers = message.headers.expect("a message of the stream");
        let subject = headers.get("Nats-Subject").expect("its subject").to_string();
        let mut copied = async_nats::HeaderMap::new();
        copied.insert("R", headers.get("R").expect("a record").clone());
        let sent = self.client.request_with_headers(subject, copied, message.payload);
        let answer = self.runtime.block_on(sent).expect("an answer");
        assert!(!String::from_utf8_lossy(&answer.payload).contains("error"), "it is stored");
    }
}
