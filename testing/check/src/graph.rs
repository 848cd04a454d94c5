//! The direct serialization graph: which attempt must precede which.
//!
//! Nodes are the attempts and, behind them, *moments* of real time. A moment stands for everything that has ended
//! between two beginnings: those point to it, it points to the next moment and to whatever then begins. So all pairs
//! of which one ends before the other begins are connected, with three edges per attempt.

use crate::history::History;
use crate::violation::Malformed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// ww
    Write = 1,
    /// wr
    Read = 2,
    /// rw
    Anti = 4,
    RealTime = 8,
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const WRITES: Self = Self(Kind::Write as u8);
    pub(crate) const INFORMATION: Self = Self(Self::WRITES.0 | Kind::Read as u8);
    pub(crate) const ANTI: Self = Self(Kind::Anti as u8);
    pub(crate) const DEPENDENCIES: Self = Self(Self::INFORMATION.0 | Self::ANTI.0);
    pub(crate) const REAL_TIME: Self = Self(Kind::RealTime as u8);
    pub(crate) const ALL: Self = Self(Self::DEPENDENCIES.0 | Self::REAL_TIME.0);

    pub(crate) const fn contains(self, kind: Kind) -> bool {
        self.0 & kind as u8 != 0
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) to: u32,
    /// The place of the version that is written, read, or written over what was read; of no meaning in real time.
    pub(crate) version: u32,
    pub(crate) kind: Kind,
}

#[derive(Default)]
pub(crate) struct Edges(Vec<(u32, Edge)>);

impl Edges {
    /// An attempt is no reason to precede itself.
    pub(crate) fn push(&mut self, from: u32, to: u32, kind: Kind, version: u32) {
        if from != to {
            self.0.push((from, Edge { to, version, kind }));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the moments and their edges for the attempts that `is_included`; returns how many nodes there are then.
    pub(crate) fn push_real_time(&mut self, history: &History, is_included: impl Fn(usize) -> bool) -> usize {
        let attempts = history.attempts().enumerate().filter(|&(index, _)| is_included(index));
        // Of equal tickets the beginning stands first: what ends then has not ended before.
        let mut events: Vec<(u64, bool, usize)> =
            attempts.flat_map(|(i, (attempt, _))| [(attempt.begin, false, i), (attempt.end, true, i)]).collect();
        events.sort_unstable();
        let (mut node_count, mut last_moment, mut is_collecting) = (history.len(), None, false);
        for (_, is_end, attempt) in events {
            if is_end && !is_collecting {
                if let Some(last) = last_moment.replace(node_count) {
                    self.push(node(last), node(node_count), Kind::RealTime, u32::MAX);
                }
                node_count += 1;
            }
            is_collecting = is_end;
            if let Some(moment) = last_moment {
                let (from, to) = if is_end { (attempt, moment) } else { (moment, attempt) };
                self.push(node(from), node(to), Kind::RealTime, u32::MAX);
            }
        }
        node_count
    }
}

fn node(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 nodes")
}

/// Whether every attempt ends after it begins.
pub(crate) fn check_tickets(history: &History) -> Result<(), Malformed> {
    match history.attempts().position(|(attempt, _)| attempt.end < attempt.begin) {
        None => Ok(()),
        Some(index) => Err(Malformed::EndsBeforeItBegins { attempt: history.id(index) }),
    }
}

pub(crate) struct Graph {
    /// Where the edges of each node begin, and where the last ones end.
    offsets: Vec<usize>,
    edges: Vec<Edge>,
    attempt_count: usize,
}

impl Graph {
    /// Puts the edges of each node side by side.
    pub(crate) fn new(node_count: usize, attempt_count: usize, Edges(unordered): Edges) -> Self {
        let mut offsets = vec![0; node_count + 1];
        for &(from, _) in &unordered {
            offsets[from as usize + 1] += 1;
        }
        for at in 1..offsets.len() {
            offsets[at] += offsets[at - 1];
        }
        let mut next = offsets.clone();
        let mut edges = vec![Edge { to: 0, version: 0, kind: Kind::Write }; unordered.len()];
        for (from, edge) in unordered {
            let at = &mut next[from as usize];
            edges[*at] = edge;
            *at += 1;
        }
        Self { offsets, edges, attempt_count }
    }

    pub(crate) fn node_count(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(crate) fn is_attempt(&self, node: u32) -> bool {
        (node as usize) < self.attempt_count
    }

    pub(crate) fn edges(&self, node: u32) -> &[Edge] {
        &self.edges[self.offsets[node as usize]..self.offsets[node as usize + 1]]
    }
}
