//! Which transaction waits for which, across entities: what a client is told at its deadline.
//!
//! # Problem
//! An entity knows which transactions are waited for there. What those wait for in turn, perhaps at another entity, only their
//! own progress says.
//!
//! # How it is found
//! Every command under way is listed with its progress, by its transaction. From those that a late request waits for, the graph
//! is followed breadth first: the progress says where a transaction is, and if that is an entity, the entity says for whom it
//! waits. This happens after a deadline and never before, within the time that a late answer may take; what an entity has not
//! said by then is left out, and so is what lies beyond [`LINKS_MAX`].
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use enact_journal::Journal;
use enact_sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::error::{Awaited, Doubt, Link, SubmitError};
use super::progress::Progress;
use super::{GRACE, Shared};
use crate::admission::Wait;
use crate::model::Model;
use crate::tx::TxId;

/// How many transactions a graph names at most.
const LINKS_MAX: usize = 16;

const SHARDS: usize = 16;

/// The commands under way, also those whose clients are gone.
#[derive(Debug, Default)]
pub(super) struct UnderWay([Mutex<HashMap<TxId, Arc<Progress>>>; SHARDS]);

impl UnderWay {
    pub(super) fn begin(&self, tx: TxId, progress: &Arc<Progress>) {
        self.shard(tx).lock().insert(tx, Arc::clone(progress));
    }

    pub(super) fn end(&self, tx: TxId) {
        let ended = self.shard(tx).lock().remove(&tx);
        drop(ended);
    }

    fn find(&self, tx: TxId) -> Option<Arc<Progress>> {
        self.shard(tx).lock().get(&tx).map(Arc::clone)
    }

    fn shard(&self, tx: TxId) -> &Mutex<HashMap<TxId, Arc<Progress>>> {
        // The last bits are random, the first ones time.
        &self.0[(tx.as_u128() % SHARDS as u128) as usize]
    }
}

impl<M: Model, J: Journal> Shared<M, J> {
    /// The same error with the graph of what was waited for, as far as that is known by `over`.
    pub(super) async fn explained(&self, error: SubmitError, over: Instant) -> SubmitError {
        match error {
            SubmitError::Timeout { tx, awaited, waits_for, mut graph } => {
                self.trace(&awaited, &waits_for, &mut graph, over).await;
                SubmitError::Timeout { tx, awaited, waits_for, graph }
            }
            SubmitError::InDoubt { tx, doubt: doubt @ Doubt::InLine, mut graph } => {
                self.follow(VecDeque::from([tx]), &mut graph, over).await;
                SubmitError::InDoubt { tx, doubt, graph }
            }
            SubmitError::KeyInUse { tx, mut graph } => {
                self.follow(VecDeque::from([tx]), &mut graph, Instant::now() + GRACE.span()).await;
                SubmitError::KeyInUse { tx, graph }
            }
            error => error,
        }
    }

    /// Adds to `graph` what those wait for that a request waits for.
    pub(super) async fn trace(&self, awaited: &Awaited, waits_for: &[Wait], graph: &mut Vec<Link>, over: Instant) {
        let waited_for = waits_for.iter().map(|wait| wait.tx).chain(self.due_at(awaited));
        self.follow(waited_for.collect(), graph, over).await;
    }

    fn due_at(&self, awaited: &Awaited) -> Option<TxId> {
        match awaited {
            Awaited::Due(entity) => self.firings.transaction(entity),
            _ => None,
        }
    }

    async fn follow(&self, mut to: VecDeque<TxId>, graph: &mut Vec<Link>, over: Instant) {
        let mut known: HashSet<TxId> = graph.iter().map(|link| link.tx).collect();
        while let Some(tx) = to.pop_front() {
            if graph.len() >= LINKS_MAX {
                return;
            }
            let Some(progress) = self.under_way.find(tx).filter(|_| known.insert(tx)) else { continue };
            let awaited = progress.awaited();
            let waits_for = self.waits_at(&awaited, tx, over).await;
            to.extend(waits_for.iter().map(|wait| wait.tx).chain(self.due_at(&awaited)));
            graph.push(Link { tx, addressed: progress.addressed().clone(), awaited, waits_for });
        }
    }

    /// For whom `tx` waits at the entity that it waits for, if it is one.
    async fn waits_at(&self, awaited: &Awaited, tx: TxId, over: Instant) -> Vec<Wait> {
        let (Awaited::Entity(entity) | Awaited::Line(entity)) = awaited else { return Vec::new() };
        let Some(live) = self.directory.find(entity) else { return Vec::new() };
        let said = timeout_at(over, live.turn(move |entity| entity.waits_for(tx))).await;
        self.directory.release(&live);
        said.ok().and_then(Result::ok).flatten().unwrap_or_default()
    }
}
