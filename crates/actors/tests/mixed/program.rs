//! Programs of transactional actors, written down as data: played with real actors here, and step by step in
//! [`serial`](crate::serial).
//!
//! Numbers are all there is. A transaction gives the numbers that it has read, and its runner notes them; a part or a
//! transaction that fails gives [`FAILED`]. What is compared are the cells and everybody's notes when all is quiet.
use std::fmt;

/// What is noted of a transaction, or a part of one, that has failed.
pub(crate) const FAILED: i64 = -1;

/// A step of a client or of a turn.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Note(i64),
    /// Sends a script to an actor, outside transactions.
    Tell(usize, usize),
    /// Has the actor go on, from the next turn, with this number as its only note. Not for clients, nor beside others.
    Become(i64),
    /// Runs a transaction and notes what it gives.
    Atomically(Vec<Op>),
}

/// A step of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Read(usize),
    Add(usize, i64),
    Copy {
        from: usize,
        to: usize,
    },
    /// Takes one off a cell; fails if there is none.
    Take(usize),
    /// Waits until a cell is not 0.
    Await(usize),
    /// Sends a script to an actor.
    Tell(usize, usize),
    /// As `Tell`; a client notes the answer, which is the last note of the turn, when it has done all its steps.
    Ask(usize, usize),
    /// Takes its time: until the receivers of what was sent have begun, if they will, or for a while.
    Linger,
    /// Makes the actor of this number.
    Spawn(usize),
    /// As the step of this name.
    Become(i64),
    /// A part that may fail by itself.
    Part(Vec<Self>),
    Fail,
}

/// How an actor does its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// Plain handlers, whose transactions block the thread.
    Plain,
    /// Handlers that keep the actor while they wait.
    Held,
    /// Handlers beside which the actor takes other messages while they wait.
    Beside,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) is_speculative: bool,
    pub(crate) turns: Turns,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Their first values.
    pub(crate) cells: Vec<i64>,
    /// Those that are there from the start, and behind them those that transactions make.
    pub(crate) actors: Vec<Kind>,
    pub(crate) actors_at_first: usize,
    /// What messages have an actor do. A script sends only later ones.
    pub(crate) scripts: Vec<Vec<Step>>,
    /// What plain threads do, each its own.
    pub(crate) clients: Vec<Vec<Step>>,
}

/// What a program has come to when all is quiet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Outcome {
    pub(crate) cells: Vec<i64>,
    /// What each actor has noted; `None` for one that never was.
    pub(crate) actors: Vec<Option<Vec<i64>>>,
    pub(crate) clients: Vec<Vec<i64>>,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cells {:?}, actors {:?}, clients {:?}", self.cells, self.actors, self.clients)
    }
}

impl Program {
    /// How many messages one behind the other a client can cause.
    pub(crate) fn depth(&self) -> usize {
        let mut depths = vec![0; self.scripts.len()];
        for script in (0..self.scripts.len()).rev() {
            depths[script] = 1 + deepest(&self.scripts[script], &depths);
        }
        self.clients.iter().map(|client| deepest(client, &depths)).max().unwrap_or(0)
    }
}

fn deepest(steps: &[Step], depths: &[usize]) -> usize {
    steps
        .iter()
        .map(|step| match step {
            Step::Note(_) | Step::Become(_) => 0,
            Step::Tell(_, script) => depths[*script],
            Step::Atomically(ops) => deepest_of_transaction(ops, depths),
        })
        .max()
        .unwrap_or(0)
}

fn deepest_of_transaction(ops: &[Op], depths: &[usize]) -> usize {
    ops.iter()
        .map(|op| match op {
            Op::Tell(_, script) | Op::Ask(_, script) => depths[*script],
            Op::Part(ops) => deepest_of_transaction(ops, depths),
            _ => 0,
        })
        .max()
        .unwrap_or(0)
}
