//! Three nodes over three servers that are killed, frozen and stopped at random, while clients go on.
//!
//! Each client sends a command until it has its definitive answer, always with the same idempotency key and each time to another node. It pays between
//! accounts that all share, and deposits to an account of its own, which it reads behind each deposit, at any node: what it reads must be what
//! it was told, no less. At the end every balance must be what the acknowledged commands, each counted once, make of it, and each of them
//! must get the same answer again.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use enact_journal_kit::nats::Server;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::Place;
use crate::served::Served;

const SHARED: usize = 8;
const CLIENTS: usize = 8;
const NODES: [&str; 3] = ["a", "b", "c"];

/// A command, by what it is sent to and with.
#[derive(Clone, Debug)]
struct Sent {
    path: String,
    body: Value,
    key: String,
}

/// A client's memory.
#[derive(Default)]
struct Told {
    /// What each command of it was answered.
    answers: Vec<(Sent, StatusCode, Value)>,
    /// What the shared accounts have got by it, in euros.
    shared: BTreeMap<usize, i64>,
    /// What it has deposited to its own account, in euros.
    own: i64,
    /// The longest time between two answers.
    longest: Duration,
}

struct Client {
    number: usize,
    bases: Vec<String>,
    http: reqwest::Client,
    random: StdRng,
}

impl Client {
    fn new(number: usize, bases: &[String], seed: u64) -> Self {
        // A node that is frozen says nothing; the command is sent to another one then.
        let http = reqwest::Client::builder().timeout(Duration::from_secs(4)).build().expect("a client");
        Self { number, bases: bases.to_vec(), http, random: StdRng::seed_from_u64(seed + number as u64) }
    }

    fn base(&mut self) -> &str {
        self.bases.choose(&mut self.random).expect("a node")
    }

    /// Sends the command until it is answered for good.
    async fn insist(&mut self, sent: &Sent) -> (StatusCode, Value) {
        loop {
            let url = format!("{}{}", self.base(), sent.path);
            let request = self.http.post(url).header("idempotency-key", &sent.key).header("enact-deadline-ms", "2000");
            let Ok(answer) = request.json(&sent.body).send().await else { continue };
            let status = answer.status();
            let Ok(body) = answer.json::<Value>().await else { continue };
            match status {
                StatusCode::OK => return (status, body),
                StatusCode::CONFLICT if body["type"] == "urn:enact:problem:refused" => return (status, body),
                StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {}
                _ => panic!("{sent:?}: {status} {body}"),
            }
        }
    }

    /// The balance of an account, in whole euros.
    async fn balance(&mut self, account: &str) -> i64 {
        loop {
            let url = format!("{}/Account/{account}", self.base());
            let Ok(answer) = self.http.get(url).header("enact-deadline-ms", "2000").send().await else { continue };
            let status = answer.status();
            let Ok(body) = answer.json::<Value>().await else { continue };
            match status {
                StatusCode::OK => return euros(&body["fields"]["balance"]),
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {}
                _ => panic!("{account}: {status} {body}"),
            }
        }
    }

    async fn run(mut self, is_over: Arc<AtomicBool>) -> Told {
        let mut told = Told::default();
        let own = format!("C{}", self.number);
        for n in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let begun = Instant::now();
            let key = format!("{}.{n}", self.number);
            let amount = self.random.random_range(1..=9);
            let sent = if n % 2 == 0 {
                Sent { path: format!("/Account/{own}/Deposit"), body: json!({ "amount": money(amount) }), key }
            } else {
                let pair: Vec<usize> = (0..SHARED).sample(&mut self.random, 2);
                let body = json!({ "amount": money(amount), "to": format!("S{}", pair[1]) });
                Sent { path: format!("/Account/S{}/Pay", pair[0]), body, key }
            };
            let (status, body) = self.insist(&sent).await;
            if n % 2 == 0 {
                assert_eq!(status, StatusCode::OK, "{body}");
                told.own += amount;
                assert_eq!(self.balance(&own).await, told.own, "{own} behind its deposit {n}");
            } else if status == StatusCode::OK {
                let account = |text: &str| text.trim_start_matches('S').parse::<usize>().expect("a number");
                let from = account(sent.path.split('/').nth(2).expect("an account"));
                let to = account(sent.body["to"].as_str().expect("an account"));
                *told.shared.entry(from).or_default() -= amount;
                *told.shared.entry(to).or_default() += amount;
            }
            told.answers.push((sent, status, body));
            told.longest = told.longest.max(begun.elapsed());
        }
        told
    }
}

fn money(euros: i64) -> String {
    format!("EUR {euros}.00")
}

fn euros(money: &Value) -> i64 {
    let text = money.as_str().expect("money").trim_start_matches("EUR ").trim_end_matches(".00");
    text.parse().expect("whole euros")
}

/// A node that runs, or is frozen, or is on its way back.
enum Node {
    Running(Served),
    Frozen(Served),
    Starting(JoinHandle<Served>),
}

/// What is done to nodes and servers.
struct Faults {
    place: Place,
    ports: Vec<u16>,
    nodes: Vec<Option<Node>>,
    counts: BTreeMap<&'static str, usize>,
    random: StdRng,
}

impl Faults {
    fn start(&self, number: usize) -> JoinHandle<Served> {
        let command = self.place.command_at(NODES[number], &format!("127.0.0.1:{}", self.ports[number]));
        spawn_blocking(|| Served::start(command))
    }

    async fn settle(&mut self) {
        for number in 0..NODES.len() {
            let node = match self.nodes[number].take().expect("always there") {
                Node::Running(served) => served,
                Node::Frozen(served) => {
                    served.signal(Signal::CONT);
                    served
                }
                Node::Starting(starting) => starting.await.expect("it serves again"),
            };
            self.nodes[number] = Some(Node::Running(node));
        }
    }

    /// Does something to a node, or heals what was done to it before.
    async fn hurt_node(&mut self) {
        let number = self.random.random_range(0..NODES.len());
        let fault = self.random.random_range(0..3);
        let (name, node) = match (self.nodes[number].take().expect("always there"), fault) {
            (Node::Running(served), 0) => {
                served.kill();
                ("node killed", Node::Starting(self.start(number)))
            }
            (Node::Running(served), 1) => {
                served.signal(Signal::STOP);
                ("node frozen", Node::Frozen(served))
            }
            (Node::Running(served), _) => {
                served.signal(Signal::TERM);
                let (ended, log) = spawn_blocking(|| served.ended()).await.expect("it ends");
                assert!(ended.success(), "{log}");
                ("node stopped", Node::Starting(self.start(number)))
            }
            (Node::Frozen(served), _) => {
                served.signal(Signal::CONT);
                ("node resumed", Node::Running(served))
            }
            (Node::Starting(starting), _) if starting.is_finished() => {
                ("node back", Node::Running(starting.await.expect("it serves again")))
            }
            (starting, _) => ("", starting),
        };
        self.count(name);
        self.nodes[number] = Some(node);
    }

    /// Does something to a server, or to all, and heals it.
    async fn hurt_servers(&mut self) {
        let number = self.random.random_range(0..3);
        let pause = Duration::from_millis(self.random.random_range(100..3_000));
        let name = match self.random.random_range(0..5) {
            0 | 1 => {
                self.place.nats[number].kill();
                sleep(pause).await;
                self.place.nats[number].restart();
                "server killed"
            }
            2 | 3 => {
                self.place.nats[number].signal("STOP");
                sleep(pause).await;
                self.place.nats[number].signal("CONT");
                "server frozen"
            }
            _ => {
                self.place.nats.iter_mut().for_each(Server::kill);
                sleep(pause / 4).await;
                self.place.nats.iter_mut().for_each(Server::restart);
                "all servers killed"
            }
        };
        self.count(name);
    }

    fn count(&mut self, name: &'static str) {
        if !name.is_empty() {
            *self.counts.entry(name).or_insert(0) += 1;
        }
    }
}

fn free_ports() -> Vec<u16> {
    let listeners = NODES.map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    listeners.iter().map(|listener| listener.local_addr().expect("its address").port()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn random_faults_lose_nothing_double_nothing_and_show_nothing_out_of_date() {
    let seed = std::env::var("ENACT_FAULTS_SEED").map_or(20_160_923, |seed| seed.parse().expect("a number"));
    let seconds = std::env::var("ENACT_FAULTS_SECONDS").map_or(30, |seconds| seconds.parse().expect("a number"));
    println!("ENACT_FAULTS_SEED={seed} ENACT_FAULTS_SECONDS={seconds}");
    let Some(place) = Place::over_three() else { return };
    let mut faults = Faults {
        place,
        ports: free_ports(),
        nodes: Vec::new(),
        counts: BTreeMap::new(),
        random: StdRng::seed_from_u64(seed),
    };
    for number in 0..NODES.len() {
        let node = faults.start(number).await.expect("it serves");
        faults.nodes.push(Some(Node::Running(node)));
    }
    let bases: Vec<String> = faults.ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
    let mut teller = Client::new(CLIENTS, &bases, seed);
    let shared = (0..SHARED).map(|account| (format!("S{account}"), 100));
    for (account, deposit) in shared.chain((0..CLIENTS).map(|client| (format!("C{client}"), 0))) {
        let body = json!({ "initialDeposit": money(deposit) });
        let sent = Sent { path: format!("/Account/{account}/Open"), body, key: account.clone() };
        assert_eq!(teller.insist(&sent).await.0, StatusCode::OK);
    }

    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> =
        (0..CLIENTS).map(|n| tokio::spawn(Client::new(n, &bases, seed).run(Arc::clone(&is_over)))).collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) && clients.iter().all(|client| !client.is_finished()) {
        sleep(Duration::from_millis(faults.random.random_range(0..2_000))).await;
        if faults.random.random_bool(0.7) { faults.hurt_node().await } else { faults.hurt_servers().await }
    }
    is_over.store(true, Ordering::Relaxed);
    faults.settle().await;

    let (mut expected, mut answers) = ([100; SHARED], Vec::new());
    for (number, client) in clients.into_iter().enumerate() {
        let told = client.await.expect("what it was told holds");
        assert_eq!(teller.balance(&format!("C{number}")).await, told.own, "what client {number} has deposited");
        told.shared.iter().for_each(|(account, amount)| expected[*account] += amount);
        println!("client {number}: {} answers, {:?} without one at most", told.answers.len(), told.longest);
        answers.extend(told.answers);
    }
    println!("{:?}", faults.counts);
    for (account, expected) in expected.into_iter().enumerate() {
        assert_eq!(teller.balance(&format!("S{account}")).await, expected, "S{account}");
    }
    for (sent, status, body) in answers.iter().sample(&mut faults.random, 200) {
        assert_eq!(teller.insist(sent).await, (*status, body.clone()), "{sent:?} again");
    }
}
