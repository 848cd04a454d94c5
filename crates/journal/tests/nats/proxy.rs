//! A proxy in front of a server, which holds back what it is told to.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use enact_journal_kit::contract::block_on;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// What becomes of what is sent in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link {
    is_held: bool,
    /// How often the connections that were there have been ended.
    cuts: u64,
}

/// A link between clients and a server.
pub(crate) struct Proxy {
    port: u16,
    to_server: watch::Sender<Link>,
    to_client: watch::Sender<Link>,
    /// Whether an answer to an append is held back.
    held: watch::Sender<bool>,
    questions: Arc<AtomicU64>,
    _runtime: Runtime,
}

impl Proxy {
    /// A proxy for the server at `address`, such as `nats://127.0.0.1:4222`.
    pub(crate) fn before(address: &str) -> Self {
        let server: SocketAddr = address.trim_start_matches("nats://").parse().expect("an address");
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (to_server, to_client) = (watch::Sender::new(Link::default()), watch::Sender::new(Link::default()));
        let (requests, answers) = (to_server.clone(), to_client.clone());
        let held = watch::Sender::new(false);
        let holding = held.clone();
        let questions = Arc::new(AtomicU64::new(0));
        let asked = Arc::clone(&questions);
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let (from_client, into_client) = client.into_split();
                let (from_server, into_server) = server.into_split();
                let (passed, holding) = (count(Arc::clone(&asked)), holding.clone());
                let held = move |bytes: &[u8]| {
                    holding.send_replace(String::from_utf8_lossy(bytes).contains("\"stream\":\"J0\""));
                };
                tokio::spawn(carry(from_client, into_server, requests.subscribe(), passed, |_| ()));
                tokio::spawn(carry(from_server, into_client, answers.subscribe(), |_| (), held));
            }
        });
        Self { port, to_server, to_client, held, questions, _runtime: runtime }
    }

    pub(crate) fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// How many questions to the store of streams clients have sent so far; what they append is none.
    pub(crate) fn questions(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }

    /// Holds back what clients send, or lets it pass.
    pub(crate) fn hold_requests(&self, is_held: bool) {
        self.to_server.send_modify(|link| link.is_held = is_held);
    }

    /// Holds back what the server answers.
    pub(crate) fn hold_answers(&self) {
        self.held.send_replace(false);
        self.to_client.send_modify(|link| link.is_held = true);
    }

    /// Waits until an answer to an append is held back.
    pub(crate) fn wait_for_answer(&self) {
        drop(block_on(self.held.subscribe().wait_for(|is_held| *is_held)));
    }

    /// Drops what was held of answers, with the connections; new ones pass.
    pub(crate) fn cut_answers(&self) {
        self.to_client.send_modify(|link| *link = Link { is_held: false, cuts: link.cuts + 1 });
    }
}

/// Counts the questions in what passes.
fn count(questions: Arc<AtomicU64>) -> impl FnMut(&[u8]) {
    const QUESTION: &[u8] = b"$JS.API.";
    let mut window = Vec::new();
    move |bytes| {
        window.extend_from_slice(bytes);
        let found = window.windows(QUESTION.len()).filter(|found| *found == QUESTION).count();
        questions.fetch_add(found as u64, Ordering::Relaxed);
        window.drain(..window.len().saturating_sub(QUESTION.len() - 1));
    }
}

/// Carries what comes; `passed` sees what passes, and `held` all that is held back.
async fn carry(
    mut from: OwnedReadHalf,
    mut into: OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
    mut passed: impl FnMut(&[u8]),
    held: impl Fn(&[u8]),
) {
    let cuts = link.borrow().cuts;
    let (mut bytes, mut pending) = (vec![0; 64 << 10], Vec::new());
    loop {
        tokio::select! {
            count = from.read(&mut bytes) => match count {
                Ok(count) if count > 0 => pending.extend_from_slice(&bytes[..count]),
                _ => return,
            },
            changed = link.changed() => if changed.is_err() {
                return;
            }
        }
        let Link { is_held, cuts: now } = *link.borrow_and_update();
        if now != cuts {
            return;
        }
        if is_held {
            held(&pending);
            continue;
        }
        passed(&pending);
        if into.write_all(&pending).await.is_err() {
            return;
        }
        pending.clear();
    }
}
