//! Clients that insist on an answer to each command, and remember what they were told.
//!
//! Each client sends a command until it has its definitive answer, always with the same idempotency key and each time to another node. It pays between
//! accounts that all share, and deposits to an account of its own, which it reads behind each deposit, at any node: what it reads must be what
//! it was told, no less. At the end every balance must be what the acknowledged commands, each counted once, make of it, and each of them
//! must get the same answer again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt;
use rand::seq::IteratorRandom;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::insistent::{Insistent, Sent};

const SHARED: usize = 8;
const CLIENTS: usize = 8;
/// Everything that is waited for comes much earlier.
const HANGS_AFTER: Duration = Duration::from_secs(180);

/// When clients read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Behind each deposit, too: nothing may be out of date at any node.
    BehindEachDeposit,
    /// At the end, at the first node.
    AtTheEnd,
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
    in_doubt: usize,
}

/// What clients were told in all. None of it was lost, and none of it has happened twice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) done: usize,
    pub(super) refused: usize,
    /// How often one of these had to be sent again without knowing whether it has happened.
    pub(super) in_doubt: usize,
}

struct Client {
    number: usize,
    asks: Insistent,
    reading: Reading,
}

impl Client {
    fn new(number: usize, bases: &[String], seed: u64, reading: Reading) -> Self {
        Self { number, asks: Insistent::new(bases, seed + number as u64), reading }
    }

    /// The balance of an account, in whole euros.
    async fn balance(&mut self, account: &str) -> i64 {
        euros(&self.asks.read(&format!("/Account/{account}")).await["fields"]["balance"])
    }

    async fn run(mut self, is_over: Arc<AtomicBool>, answered: Arc<[AtomicUsize]>) -> Told {
        let mut told = Told::default();
        let own = format!("C{}", self.number);
        for n in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let begun = Instant::now();
            let key = format!("{}.{n}", self.number);
            let amount = self.asks.random.random_range(1..=9);
            let sent = if n % 2 == 0 {
                Sent { path: format!("/Account/{own}/Deposit"), body: json!({ "amount": money(amount) }), key }
            } else {
                let pair: Vec<usize> = (0..SHARED).sample(&mut self.asks.random, 2);
                let body = json!({ "amount": money(amount), "to": format!("S{}", pair[1]) });
                Sent { path: format!("/Account/S{}/Pay", pair[0]), body, key }
            };
            let (status, body) = self.asks.insist(&sent).await;
            if n % 2 == 0 {
                assert_eq!(status, StatusCode::OK, "{body}");
                told.own += amount;
                if self.reading == Reading::BehindEachDeposit {
                    assert_eq!(self.balance(&own).await, told.own, "{own} behind its deposit {n}");
                }
            } else if status == StatusCode::OK {
                let account = |text: &str| text.trim_start_matches('S').parse::<usize>().expect("a number");
                let from = account(sent.path.split('/').nth(2).expect("an account"));
                let to = account(sent.body["to"].as_str().expect("an account"));
                *told.shared.entry(from).or_default() -= amount;
                *told.shared.entry(to).or_default() += amount;
            }
            told.answers.push((sent, status, body));
            told.longest = told.longest.max(begun.elapsed());
            told.in_doubt = self.asks.in_doubt;
            answered[self.number].fetch_add(1, Ordering::Relaxed);
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

/// Clients at their accounts, until the end.
pub(super) struct Workload {
    teller: Client,
    running: Vec<JoinHandle<Told>>,
    is_over: Arc<AtomicBool>,
    /// How many answers each client has.
    answered: Arc<[AtomicUsize]>,
}

impl Workload {
    /// Opens the accounts at the nodes that listen at `bases`, and lets the clients begin.
    pub(super) async fn start(bases: &[String], seed: u64, reading: Reading) -> Self {
        println!("seed {seed}");
        let readable = if reading == Reading::AtTheEnd { &bases[..1] } else { bases };
        let mut teller = Client::new(CLIENTS, readable, seed, reading);
        let shared = (0..SHARED).map(|account| (format!("S{account}"), 100));
        for (account, deposit) in shared.chain((0..CLIENTS).map(|client| (format!("C{client}"), 0))) {
            let body = json!({ "initialDeposit": money(deposit) });
            let sent = Sent { path: format!("/Account/{account}/Open"), body, key: account.clone() };
            assert_eq!(teller.asks.insist(&sent).await.0, StatusCode::OK);
        }
        let (is_over, answered) =
            (Arc::new(AtomicBool::new(false)), (0..CLIENTS).map(|_| AtomicUsize::new(0)).collect());
        let client =
            |n| tokio::spawn(Client::new(n, bases, seed, reading).run(Arc::clone(&is_over), Arc::clone(&answered)));
        let running = (0..CLIENTS).map(client).collect();
        Self { teller, running, is_over: Arc::clone(&is_over), answered: Arc::clone(&answered) }
    }

    /// Waits until each client has two more answers.
    ///
    /// # Panics
    /// If one of them was told what cannot be, or has none for so long that there will be none.
    pub(super) async fn goes_on(&self) {
        let begun = Instant::now();
        let goals: Vec<usize> = self.answered.iter().map(|answers| answers.load(Ordering::Relaxed) + 2).collect();
        while self.answered.iter().zip(&goals).any(|(answers, goal)| answers.load(Ordering::Relaxed) < *goal) {
            assert!(!self.has_failed(), "what a client was told does not hold");
            assert!(begun.elapsed() < HANGS_AFTER, "clients hang: {:?} answers, {goals:?} expected", self.answered);
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether one of them was told what cannot be.
    pub(super) fn has_failed(&self) -> bool {
        self.running.iter().any(JoinHandle::is_finished)
    }

    /// Lets each of them end with the answer to its last command, and compares all that they were told with what is there.
    pub(super) async fn end(mut self) -> Total {
        self.is_over.store(true, Ordering::Relaxed);
        let (mut expected, mut answers, mut total) = ([100; SHARED], Vec::new(), Total::default());
        for (number, client) in self.running.into_iter().enumerate() {
            let told = client.await.expect("what it was told holds");
            assert_eq!(
                self.teller.balance(&format!("C{number}")).await,
                told.own,
                "what client {number} has deposited"
            );
            told.shared.iter().for_each(|(account, amount)| expected[*account] += amount);
            println!("client {number}: {} answers, {:?} without one at most", told.answers.len(), told.longest);
            total.in_doubt += told.in_doubt;
            answers.extend(told.answers);
        }
        total.done = answers.iter().filter(|(_, status, _)| *status == StatusCode::OK).count();
        total.refused = answers.len() - total.done;
        for (account, expected) in expected.into_iter().enumerate() {
            assert_eq!(self.teller.balance(&format!("S{account}")).await, expected, "S{account}");
        }
        for (sent, status, body) in answers.iter().sample(&mut self.teller.asks.random, 200) {
            assert_eq!(self.teller.asks.insist(sent).await, (*status, body.clone()), "{sent:?} again");
        }
        total
    }
}
