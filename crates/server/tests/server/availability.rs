//! One client cannot starve another: attacks over real sockets, and a client of another address that is served all along.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::get;
use enact_entities::EngineOptions;
use enact_journal::Memory;
use enact_server::{Exposure, Limits, Listener, Options};
use hyper::Request;
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tower::Service;

use crate::bank::Bank;

/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3_600);

/// A server with few places, and patience without end.
fn patient(connections_max: usize) -> Limits {
    Limits { connections_max, head_timeout: NEVER, unread_timeout: NEVER, farewell: NEVER }
}

struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Server {
    fn start<S>(router: S, limits: Limits) -> Self
    where
        S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
    {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Exposure::Loopback).unwrap();
        let address = listener.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            let stop = async move { stopped.await.unwrap() };
            listener.serve(router, limits, stop, NEVER).await;
        });
        Self { address, stop: Some(stop), serving }
    }

    /// A connection from the address 127.0.0.`last`.
    async fn connect(&self, last: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((IpAddr::from([127, 0, 0, last]), 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// The answer to a request on a connection of its own.
    async fn ask(&self, last: u8, request: &str) -> String {
        let mut stream = self.connect(last).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// What a client sends that is never done.
const ATTACKS: [(&str, &str); 4] = [
    ("nothing", ""),
    ("half a head", "GET /health HTTP/1.1\r\nhost: loc"),
    (
        "half a body",
        "POST /Account/A/Open HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 99\r\n\r\n{",
    ),
    ("a whole request, and reads no answer", "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"),
];

#[tokio::test]
async fn silent_clients_of_one_address_or_of_many_keep_nobody_out() {
    for (attack, sent) in ATTACKS {
        for attackers in [&[1][..], &[2], &[2, 3, 4, 5, 6, 7, 8, 9]] {
            let bank = Bank::over(Memory::new(), EngineOptions::default());
            let server = Server::start(bank.router(), patient(16));
            let mut silent = Vec::new();
            for number in 0..64 {
                let mut stream = server.connect(attackers[number % attackers.len()]).await;
                // A connection that was closed for another one takes nothing more.
                let _: std::io::Result<()> = stream.write_all(sent.as_bytes()).await;
                silent.push(stream);
            }
            for number in 0..100 {
                let path = format!("/Account/A{number}/Open");
                let body = r#"{"initialDeposit":"EUR 1.00"}"#;
                let request = format!(
                    "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                     connection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                let answer = server.ask(1, &request).await;
                assert!(answer.starts_with("HTTP/1.1 200"), "{attack} from {attackers:?}: {answer:?}");
            }
            let answer = server.ask(1, HEALTH).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{attack} from {attackers:?}: {answer:?}");
            drop(silent);
            server.serving.abort();
        }
    }
}

#[tokio::test]
async fn a_request_that_is_being_answered_is_not_closed_for_a_newcomer() {
    let (running, mut started) = mpsc::channel(1);
    let (finish, finished) = oneshot::channel::<()>();
    let bank = Bank::open().await;
    bank.journal.hold();
    let slow = Arc::new(tokio::sync::Mutex::new(Some(finished)));
    let router = Router::new().fallback_service(bank.router()).route(
        "/wait",
        get(async move || {
            running.send(()).await.unwrap();
            slow.lock().await.take().unwrap().await.unwrap();
        }),
    );
    let server = Server::start(router, patient(2));
    let body = r#"{"amount":"EUR 60.00"}"#;
    let mut command = server.connect(2).await;
    let before = bank.journal.waiting_count();
    let request = format!(
        "POST /Account/A/Withdraw HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    command.write_all(request.as_bytes()).await.unwrap();
    while bank.journal.waiting_count() == before {
        tokio::task::yield_now().await;
    }
    // What asks no engine has no right to its connection while others need it.
    let mut waiting = server.connect(2).await;
    waiting.write_all(b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    started.recv().await.unwrap();
    assert!(server.ask(3, HEALTH).await.starts_with("HTTP/1.1 200"));
    assert_eq!(waiting.read(&mut [0]).await.unwrap(), 0);
    bank.journal.release();
    let mut answer = String::new();
    command.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(finish);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_given_up_even_if_it_reads_a_little() {
    let large = Router::new().route("/large", get(async || "x".repeat(64 << 20)));
    let server = Server::start(large, Limits { unread_timeout: Duration::from_millis(200), ..patient(8) });
    let mut stream = server.connect(1).await;
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut slowly = tokio::time::interval(Duration::from_millis(20));
    let mut bytes = 0;
    loop {
        slowly.tick().await;
        match stream.read(&mut [0; 1024]).await {
            Ok(read @ 1..) => bytes += read,
            Ok(0) | Err(_) => break,
        }
    }
    assert!(bytes < 64 << 20, "{bytes}");
}

#[tokio::test]
async fn a_body_that_never_ends_takes_no_share_of_the_requests_in_flight() {
    let bank = Bank::with(|options| Options { in_flight_max: 1, ..options });
    let endless = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let client = bank.clone();
    let slow = tokio::spawn(async move { client.post("/Account/A/Open", endless).await });
    tokio::task::yield_now().await;
    let opened = bank.post("/Account/B/Open", r#"{"initialDeposit":"EUR 1.00"}"#).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    assert!(!slow.is_finished());
    slow.abort();
}

#[tokio::test]
async fn a_full_server_turns_requests_away_but_stays_observable() {
    let bank = Bank::with(|options| Options { in_flight_max: 1, ..options });
    bank.journal.hold();
    let client = bank.clone();
    let open = tokio::spawn(async move { client.post("/Account/A/Open", r#"{"initialDeposit":"EUR 1.00"}"#).await });
    while bank.journal.waiting_count() == 0 {
        tokio::task::yield_now().await;
    }
    for away in [bank.get("/Account/B").await, bank.post("/Account/B/Close", "{}").await] {
        assert_eq!((away.status.as_u16(), away.headers["retry-after"].as_bytes()), (503, &b"1"[..]));
        assert_eq!(away.body["type"], "urn:enact:problem:overloaded");
    }
    assert_eq!(bank.get("/health").await.status, 200);
    bank.journal.release();
    assert_eq!(open.await.unwrap().status, 200);
    assert_eq!(bank.get("/Account/B").await.status, 404);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_clients_that_neither_send_nor_read() {
    let limits = Limits { farewell: Duration::from_millis(20), ..patient(8) };
    let router =
        Router::new().fallback_service(Bank::empty().router()).route("/large", get(async || "x".repeat(64 << 20)));
    let mut server = Server::start(router, limits);
    let mut silent = Vec::new();
    for (_, sent) in ATTACKS {
        let mut stream = server.connect(1).await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        silent.push(stream);
    }
    let mut unread = server.connect(1).await;
    unread.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    // Its answer is on its way.
    unread.read_u8().await.unwrap();
    server.stop.take().unwrap().send(()).unwrap();
    server.serving.await.unwrap();
}
