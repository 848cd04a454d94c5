//! Clients with thousands of connections, from one address and from many: all requests of another client succeed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use reqwest::StatusCode;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::served::{BANK, FREE_PORT, Served, serve};

const CONNECTIONS: usize = 2_048;
const REQUESTS: usize = 1_000;
const MANY: u8 = 64;

/// What one connection of an attacker does, until the server has had enough of it.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Sends nothing.
    Silent,
    /// Begins a request and does not end it.
    HalfAHead,
    /// Announces a body and sends its first byte.
    SlowBody,
    /// Asks and asks and never reads an answer.
    Unread,
}

impl Attack {
    async fn run(self, mut stream: TcpStream, server: SocketAddr) -> io::Result<()> {
        let mut answer = [0; 4096];
        match self {
            Self::Silent => {}
            Self::HalfAHead => stream.write_all(b"GET /Account/MINE HTTP/1.1\r\nHost: ").await?,
            Self::SlowBody => {
                let head = format!(
                    "POST /Account/MINE/Deposit HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\n\
                     Content-Length: 1000\r\n\r\n{{"
                );
                stream.write_all(head.as_bytes()).await?;
            }
            Self::Unread => loop {
                stream.write_all(format!("GET /openapi.json HTTP/1.1\r\nHost: {server}\r\n\r\n").as_bytes()).await?;
            },
        }
        while stream.read(&mut answer).await? > 0 {}
        Ok(())
    }
}

/// Keeps one connection from `from` busy with `attack`; a new one when it is closed.
async fn attack_from(from: Ipv4Addr, attack: Attack, server: SocketAddr) {
    loop {
        let connect = async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(IpAddr::V4(from), 0))?;
            socket.connect(server).await
        };
        if let Ok(stream) = connect.await {
            // Being cut off is what attackers have to expect.
            attack.run(stream, server).await.unwrap_or_default();
        }
        tokio::task::yield_now().await;
    }
}

/// The runtime of the attackers: the client must not have to wait for attackers in this process.
struct Attackers(Option<Runtime>);

impl Attackers {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self(Some(runtime.expect("a runtime")))
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        self.0.take().expect("dropped once").shutdown_background();
    }
}

/// How many connections the attackers hold: their sockets come out of a limit as well.
fn connections() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to the maximum");
    maximum.and_then(|maximum| usize::try_from(maximum / 2).ok()).map_or(CONNECTIONS, |half| half.min(CONNECTIONS))
}

async fn ask(client: &reqwest::Client, url: String, body: Option<Value>) -> (StatusCode, String) {
    let request = match body {
        Some(body) => client.post(url).json(&body),
        None => client.get(url),
    };
    let answer = request.send().await.expect("an answer");
    (answer.status(), answer.text().await.expect("a whole answer"))
}

#[tokio::test]
async fn all_requests_of_a_client_succeed_while_others_hold_all_connections_they_can() {
    let connections = connections();
    let attacks = [Attack::Silent, Attack::HalfAHead, Attack::SlowBody, Attack::Unread];
    for (attack, addresses) in attacks.into_iter().flat_map(|attack| [(attack, 1), (attack, MANY)]) {
        let place = tempfile::tempdir().expect("a place for the test");
        let spec = place.path().join("bank.rebel");
        std::fs::write(&spec, BANK).expect("writable");
        let server = Served::start(serve(&spec, &place.path().join("data"), FREE_PORT));
        let client = reqwest::Client::new();
        let open = json!({ "initialDeposit": "EUR 0.00" });
        let (status, body) = ask(&client, server.url("/Account/MINE/Open"), Some(open)).await;
        assert_eq!(status, StatusCode::OK, "{body}");

        let attackers = Attackers::new();
        for number in 0..connections {
            let from = Ipv4Addr::new(127, 0, 1, 1 + (number % usize::from(addresses)) as u8);
            attackers.runtime().spawn(attack_from(from, attack, server.address()));
        }
        for number in 0..REQUESTS {
            let (path, body) = match number % 3 {
                0 => ("/Account/MINE/Deposit", Some(json!({ "amount": "EUR 1.00" }))),
                1 => ("/Account/MINE", None),
                _ => ("/health", None),
            };
            let (status, answer) = ask(&client, server.url(path), body).await;
            assert_eq!(status, StatusCode::OK, "{attack:?} from {addresses}, request {number}: {answer}");
        }
        server.signal(Signal::TERM);
        let (status, log) = tokio::task::spawn_blocking(|| server.ended()).await.expect("it ends");
        drop(attackers);
        assert!(status.success(), "{attack:?} from {addresses}: {status}\n{log}");
    }
}
