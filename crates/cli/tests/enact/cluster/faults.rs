//! Three nodes over three servers that are killed, frozen and stopped at random, while clients go on.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use enact_journal_kit::nats::Server;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::Place;
use super::workload::{Reading, Workload};
use crate::served::Served;

const NODES: [&str; 3] = ["a", "b", "c"];

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
    let workload = Workload::start(&bases, seed, Reading::BehindEachDeposit).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) && !workload.has_failed() {
        sleep(Duration::from_millis(faults.random.random_range(0..2_000))).await;
        if faults.random.random_bool(0.7) { faults.hurt_node().await } else { faults.hurt_servers().await }
    }
    faults.settle().await;
    println!("{:?}", faults.counts);
    workload.end().await;
}
