//! Clients with thousands of connections, from one address and from many: all requests of another client succeed.
//!
//! `ENACT_PROGRAM` names the program that serves, such as the released one, and `ENACT_ATTACK_REQUESTS` the number of
//! requests that the other client sends before and during each attack. Its latencies are printed: they are figures, and no
//! test depends on them. Nothing else runs beside it: how much of the machine the program gets decides how fast the client is served.

mod raw;
#[expect(dead_code, reason = "the other tests of the program need more of it")]
#[path = "../enact/served.rs"]
mod served;

use std::fmt::{self, Display};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, nice, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::raw::answer_of;
use crate::served::{BANK, FREE_PORT, Served, serve};

const CONNECTIONS: usize = 2_048;
/// The deadline of the client, which is the longest one: a machine that is busy with other things may keep a record from its disk for more than the two
/// seconds that a request has by itself. A server that lets the client wait so long for the sake of others takes the test hours.
const DEADLINE_MS: u64 = 30_000;
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
    /// Reads instances that do not exist, one after the other.
    Reads,
    /// Sends commands to the instance that the client uses.
    Commands,
    /// Sends commands that are refused, each under an idempotency key of its own.
    Refused,
}

const ATTACKS: [Attack; 7] = [
    Attack::Silent,
    Attack::HalfAHead,
    Attack::SlowBody,
    Attack::Unread,
    Attack::Reads,
    Attack::Commands,
    Attack::Refused,
];

impl Attack {
    async fn run(self, mut stream: TcpStream, server: SocketAddr) -> io::Result<()> {
        let own = stream.local_addr()?;
        let unique = |number: u64| format!("{}-{}-{number}", own.ip(), own.port());
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
                stream.write_all(get(server, "/openapi.json").as_bytes()).await?;
            },
            Self::Reads => {
                return flood(stream, |number| get(server, &format!("/Account/{}", unique(number)))).await;
            }
            Self::Commands => {
                let deposit = post(server, "/Account/MINE/Deposit", "", r#"{"amount":"EUR 1.00"}"#);
                return flood(stream, |_| deposit.clone()).await;
            }
            Self::Refused => {
                let pay = r#"{"amount":"EUR 1000000.00","to":"OTHER"}"#;
                let key = |number| format!("Idempotency-Key: {}\r\n", unique(number));
                return flood(stream, |number| post(server, "/Account/POOR/Pay", &key(number), pay)).await;
            }
        }
        while stream.read(&mut [0; 4096]).await? > 0 {}
        Ok(())
    }
}

/// Sends one request after the other and reads the answers.
async fn flood(mut stream: TcpStream, request: impl Fn(u64) -> String) -> io::Result<()> {
    let mut number = 0;
    loop {
        stream.write_all(request(number).as_bytes()).await?;
        answer_of(&mut stream).await?;
        number += 1;
    }
}

fn get(server: SocketAddr, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {server}\r\n\r\n")
}

fn post(server: SocketAddr, path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
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
    /// Attackers that run on `cores`, and only when nothing else there wants to.
    fn new(cores: CpuSet) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .on_thread_start(move || {
                run_on(cores);
                nice(19).expect("less important than before");
            })
            .build();
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

/// Makes this thread, and the threads and processes that it starts, run on `cores`.
fn run_on(cores: CpuSet) {
    sched_setaffinity(None, &cores).expect("cores that this process may use");
}

/// The cores of the server, and those of client and attackers.
#[derive(Clone, Copy)]
struct Cores {
    server: CpuSet,
    others: CpuSet,
}

impl Cores {
    /// The server has half of the cores for itself, as if the others were on another machine.
    fn apart() -> Self {
        let all = sched_getaffinity(None).expect("the cores of this thread");
        let mut cores = Self { server: CpuSet::new(), others: CpuSet::new() };
        for (number, core) in (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).enumerate() {
            if number * 2 < all.count() as usize { &mut cores.server } else { &mut cores.others }.set(core);
        }
        cores
    }

    fn shared() -> Self {
        let all = sched_getaffinity(None).expect("the cores of this thread");
        Self { server: all, others: all }
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
    let answer = request.header("enact-deadline-ms", DEADLINE_MS).send().await.expect("an answer");
    (answer.status(), answer.text().await.expect("a whole answer"))
}

/// The latencies of a client's requests, in ascending order.
struct Latencies(Vec<Duration>);

impl Latencies {
    /// Sends `count` requests, all of which must succeed.
    async fn of(client: &reqwest::Client, server: &Served, count: usize, label: &str) -> Self {
        let mut latencies = Vec::with_capacity(count);
        for number in 0..count {
            let (path, body) = match number % 3 {
                0 => ("/Account/MINE/Deposit", Some(json!({ "amount": "EUR 1.00" }))),
                1 => ("/Account/MINE", None),
                _ => ("/health", None),
            };
            let sent = Instant::now();
            let (status, answer) = ask(client, server.url(path), body).await;
            latencies.push(sent.elapsed());
            assert_eq!(status, StatusCode::OK, "{label}, request {number}: {answer}");
        }
        latencies.sort_unstable();
        Self(latencies)
    }

    fn p99(&self) -> Duration {
        self.0[self.0.len() * 99 / 100]
    }
}

impl Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |latency: Duration| latency.as_secs_f64() * 1_000.0;
        let [p50, worst] = [self.0[self.0.len() / 2], self.0[self.0.len() - 1]].map(millis);
        write!(f, "p50 {p50:.2} ms, p99 {:.2} ms, worst {worst:.2} ms", millis(self.p99()))
    }
}

#[tokio::test]
async fn all_requests_of_a_client_succeed_while_others_hold_all_connections_they_can() {
    let connections = connections();
    let figure = std::env::var("ENACT_ATTACK_REQUESTS").ok().map(|count| count.parse().expect("a number"));
    let requests = figure.unwrap_or(150);
    let cores = if figure.is_some() { Cores::apart() } else { Cores::shared() };
    for (attack, addresses) in ATTACKS.into_iter().flat_map(|attack| [(attack, 1), (attack, MANY)]) {
        let label = format!("{attack:?} from {addresses}");
        let place = tempfile::tempdir().expect("a place for the test");
        let spec = place.path().join("bank.rebel");
        std::fs::write(&spec, BANK).expect("writable");
        run_on(cores.server);
        let server = Served::start(serve(&spec, &place.path().join("data"), FREE_PORT));
        run_on(cores.others);
        let client = reqwest::Client::new();
        for account in ["MINE", "POOR", "OTHER"] {
            let open = json!({ "initialDeposit": "EUR 0.00" });
            let (status, body) = ask(&client, server.url(&format!("/Account/{account}/Open")), Some(open)).await;
            assert_eq!(status, StatusCode::OK, "{body}");
        }
        let undisturbed = Latencies::of(&client, &server, requests, "undisturbed").await;

        let attackers = Attackers::new(cores.others);
        for number in 0..connections {
            let from = Ipv4Addr::new(127, 0, 1, 1 + (number % usize::from(addresses)) as u8);
            attackers.runtime().spawn(attack_from(from, attack, server.address()));
        }
        let attacked = Latencies::of(&client, &server, requests, &label).await;
        server.signal(Signal::TERM);
        let (status, log) = tokio::task::spawn_blocking(|| server.ended()).await.expect("it ends");
        drop(attackers);
        assert!(status.success(), "{label}: {status}\n{log}");
        let ratio = attacked.p99().as_secs_f64() / undisturbed.p99().as_secs_f64();
        println!("{label}: {attacked}; undisturbed: {undisturbed}; p99 {ratio:.1} times");
    }
}
