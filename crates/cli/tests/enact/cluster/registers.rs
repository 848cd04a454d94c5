//! Clients that swap and read tokens, whose history has to be that of one object after the other, in the order of real time.
//!
//! Each token is written once. A command tells which ones it has found and replaced, so that its answer says where among all others it
//! has happened. It is sent to one node after the other, with one key, until it has its answer: a command that happened twice, an answer
//! of another command, a state that is out of date and a transaction of which half is seen all contradict the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use enact_check::{Coverage, Criterion, History, Recorder, Tickets, Token, Variable};
use rand::RngExt;
use rand::seq::IteratorRandom;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::insistent::{Insistent, Sent};
use super::workload::Total;

pub(super) const SPEC: &str = "
record Found
  own: Integer
  other: Integer
  third: Integer

class Register
  token: Integer = 0
  initial blank
    on Create(): kept
  kept
    on Put(next: Integer)
      post: this.token = next
    on Set(next: Integer, other: Register, third: Register) -> Found
      post: this.token = next
      return: Found(token, other.token, third.token)
    on Swap(next: Integer, other: Register, third: Register) -> Found
      post: this.token = next
      sync: other.Put(next)
      return: Found(token, other.token, third.token)
    on Look(other: Register, third: Register) -> Found
      return: Found(token, other.token, third.token)
";

/// Fewer are in each other's way more often.
const REGISTERS: usize = 9;
const CLIENTS: u32 = 6;

/// The clients, until the end.
pub(super) struct Registers {
    running: Vec<JoinHandle<(Recorder, usize)>>,
    is_over: Arc<AtomicBool>,
}

fn variable(register: usize) -> Variable {
    Variable(register as u64)
}

fn token(value: &Value) -> Token {
    Token(value.as_u64().expect("a token"))
}

impl Registers {
    /// Creates the registers at the nodes that listen at `bases`, and lets the clients begin.
    pub(super) async fn start(bases: &[String], seed: u64) -> Self {
        let mut creator = Insistent::new(bases, seed);
        for register in 0..REGISTERS {
            let path = format!("/Register/R{register}/Create");
            let sent = Sent { path, body: json!({}), key: format!("R{register}") };
            assert_eq!(creator.insist(&sent).await.0, StatusCode::OK);
        }
        let (is_over, tickets) = (Arc::new(AtomicBool::new(false)), Arc::new(Tickets::default()));
        let running = (0..CLIENTS).map(|number| {
            let asks = Insistent::new(bases, seed + 100 + u64::from(number));
            tokio::spawn(run(number, asks, Arc::clone(&tickets), Arc::clone(&is_over)))
        });
        Self { running: running.collect(), is_over: Arc::clone(&is_over) }
    }

    /// Whether one of them was told what cannot be.
    pub(super) fn has_failed(&self) -> bool {
        self.running.iter().any(JoinHandle::is_finished)
    }

    /// Lets each of them end with the answer to its last command, and looks for an order that explains all answers.
    pub(super) async fn end(self) -> Total {
        self.is_over.store(true, Ordering::Relaxed);
        let (mut recorders, mut total) = (Vec::new(), Total::default());
        for client in self.running {
            let (recorder, in_doubt) = client.await.expect("what it was told can be");
            recorders.push(recorder);
            total.in_doubt += in_doubt;
        }
        let history = History::merge(recorders);
        match history.check(Criterion::StrictlySerializable) {
            Ok(Coverage { committed_count, read_count, .. }) => {
                println!("{committed_count} commands with {read_count} reads have one order");
                assert!(committed_count > CLIENTS as usize, "clients got hardly anything done");
                Total { done: committed_count, ..total }
            }
            Err(cause) => panic!("no order explains what clients were told: {cause}"),
        }
    }
}

async fn run(number: u32, mut asks: Insistent, tickets: Arc<Tickets>, is_over: Arc<AtomicBool>) -> (Recorder, usize) {
    let mut recorder = Recorder::new(number);
    for n in 1.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let registers: Vec<usize> = (0..REGISTERS).sample(&mut asks.random, 3);
        let [own, other, third] = registers[..] else { unreachable!("three of them") };
        let written = Token(u64::from(number) << 32 | n);
        let event = ["Swap", "Set", "Look", ""][asks.random.random_range(0..4)];
        recorder.begin(tickets.next());
        if event.is_empty() {
            let read = asks.read(&format!("/Register/R{own}")).await;
            recorder.read(variable(own), token(&read["fields"]["token"]));
        } else {
            let mut body = json!({ "other": format!("R{other}"), "third": format!("R{third}") });
            if event != "Look" {
                body["next"] = json!(written.0);
            }
            let path = format!("/Register/R{own}/{event}");
            let sent = Sent { path, body, key: format!("{number}.{n}") };
            let (status, answer) = asks.insist(&sent).await;
            assert_eq!(status, StatusCode::OK, "{sent:?}: {answer}");
            let found = &answer["result"];
            let [of_own, of_other, of_third] = ["own", "other", "third"].map(|field| token(&found[field]));
            for (register, found) in [(own, of_own), (other, of_other), (third, of_third)] {
                recorder.read(variable(register), found);
            }
            if event != "Look" {
                recorder.replace(variable(own), of_own, written);
            }
            if event == "Swap" {
                recorder.replace(variable(other), of_other, written);
            }
        }
        recorder.commit(tickets.next());
    }
    (recorder, asks.in_doubt)
}
