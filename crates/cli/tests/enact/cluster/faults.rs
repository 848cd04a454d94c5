//! Three nodes over three servers that are killed, frozen, stopped and cut off from each other at random, and whose shards are moved, while
//! clients go on.
//!
//! `ENACT_FAULTS_SECONDS` says for how long (30 unless told otherwise; `cargo xtask faults` takes 20 minutes), `ENACT_FAULTS_SEED` which faults.
//!
//! # Oracle
//! All money is where the answers say, each answer is given again, and one order explains what was read and replaced. In the end each
//! record of each shard is there, and an audit finds that each event is one that the specification allows.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use enact_journal_kit::link::{Flow, Link};
use enact_journal_kit::nats::{Routes, Server};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::Place;
use super::registers::{self, Registers};
use super::workload::{Reading, Total, Workload};
use crate::served::{BANK, Served};

const NODES: [&str; 3] = ["a", "b", "c"];
const SHARDS: u16 = 12;

/// A node that runs, or is frozen, or is on its way back.
enum Node {
    Running(Served),
    Frozen(Served),
    Starting(JoinHandle<Served>),
}

/// What is done to nodes, servers and what is between them.
struct Faults {
    place: Place,
    /// Between servers.
    routes: Routes,
    /// From each node to each server.
    links: Vec<Vec<Link>>,
    ports: Vec<u16>,
    nodes: Vec<Option<Node>>,
    /// An operator who waits until a shard has moved.
    moving: Option<Child>,
    counts: BTreeMap<&'static str, usize>,
    random: StdRng,
}

impl Faults {
    fn start(&self, number: usize) -> JoinHandle<Served> {
        let servers: Vec<_> =
            self.links[number].iter().map(|link| format!("nats://127.0.0.1:{}", link.port())).collect();
        let listen = format!("127.0.0.1:{}", self.ports[number]);
        let command = self.place.command_over(&servers.join(","), NODES[number], &listen, "13s");
        spawn_blocking(|| Served::start(command))
    }

    async fn settle(&mut self) {
        self.stop_moving();
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

    /// Cuts a node off from the servers, or a server from the others, one way or both, and heals it.
    async fn hurt_links(&mut self) {
        let number = self.random.random_range(0..3);
        let pause = Duration::from_millis(self.random.random_range(100..6_000));
        let (there, back) = match self.random.random_range(0..4) {
            0 => (Flow::Lost, Flow::Passes),
            1 => (Flow::Passes, Flow::Lost),
            2 => (Flow::Lost, Flow::Lost),
            _ => (Flow::Held, Flow::Passes),
        };
        let is_node = self.random.random_bool(0.5);
        let set = |there, back| {
            if is_node {
                self.links[number].iter().for_each(|link| link.set(there, back));
            } else {
                self.routes.set(number, there, back);
            }
        };
        set(there, back);
        sleep(pause).await;
        set(Flow::Passes, Flow::Passes);
        self.count(if is_node { "node cut off" } else { "server cut off" });
    }

    /// Lets an operator move a shard, which may take until the present owner is back.
    fn move_shard(&mut self) {
        self.stop_moving();
        let (shard, node) = (self.random.random_range(0..SHARDS), NODES[self.random.random_range(0..NODES.len())]);
        let mut command = crate::served::program();
        command.args(["cluster", "move", &shard.to_string(), node, "--cluster", &self.place.servers()]);
        self.moving = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
    }

    /// Lets the operator wait no longer.
    fn stop_moving(&mut self) {
        let Some(mut moving) = self.moving.take() else { return };
        match moving.try_wait().expect("it was started") {
            Some(status) if status.success() => self.count("shard moved"),
            Some(_) => {}
            None => {
                moving.kill().expect("it runs");
                moving.wait().expect("it ends");
            }
        }
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
    let Some((place, routes)) = Place::over_three_linked() else { return };
    std::fs::write(&place.spec, format!("{BANK}{}", registers::SPEC)).expect("writable");
    let links_of = |_| place.nats.iter().map(|server| Link::to(server.port())).collect();
    let links = NODES.iter().map(links_of).collect();
    let mut faults = Faults {
        place,
        routes,
        links,
        ports: free_ports(),
        nodes: Vec::new(),
        moving: None,
        counts: BTreeMap::new(),
        random: StdRng::seed_from_u64(seed),
    };
    for number in 0..NODES.len() {
        let node = faults.start(number).await.expect("it serves");
        faults.nodes.push(Some(Node::Running(node)));
    }
    let bases: Vec<String> = faults.ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
    let workload = Workload::start(&bases, seed, Reading::BehindEachDeposit).await;
    let registers = Registers::start(&bases, seed).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) && !workload.has_failed() && !registers.has_failed() {
        sleep(Duration::from_millis(faults.random.random_range(0..2_000))).await;
        match faults.random.random_range(0..12) {
            0..6 => faults.hurt_node().await,
            6..8 => faults.hurt_servers().await,
            8..10 => faults.hurt_links().await,
            _ => faults.move_shard(),
        }
    }
    faults.settle().await;
    println!("{:?}", faults.counts);
    let (paid, swapped) = (workload.end().await, registers.end().await);
    faults.place.check_records();
    faults.place.check_audit();
    let Total { done, refused, in_doubt } = paid;
    // Each of the others would have ended this before.
    println!(
        "acknowledged {}, refused {refused}, in doubt on the way {}: lost 0, doubled 0, broken chains 0, without a serial order 0",
        done + swapped.done,
        in_doubt + swapped.in_doubt
    );
}
