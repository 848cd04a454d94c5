//! Reads: what an undecided entity can say about its value.
//!
//! A read never blocks a transaction and holds nothing. It waits at most for what was in progress when it came.

use serde::{Deserialize, Serialize};

use crate::admission::{Admission, Range, Wait};
use crate::model::Model;
use crate::tx::{Millis, Slot, TxId};

/// Names a read in its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

/// How a read treats what is undecided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReadMode {
    /// The applied state: it lags behind commits that wait for an earlier slot, and never waits.
    Applied,
    /// The state if it is the same in all outcomes; otherwise the applied state as soon as everything that was in progress
    /// when the read came has been applied or aborted.
    #[default]
    Certain,
    /// All outcomes from end to end. Waits, like `Certain`, only while there are too many of them to look at.
    Range,
}

/// A read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Names it in the answer.
    pub id: ReadId,
    /// How it treats what is undecided.
    pub mode: ReadMode,
    /// Wait first until this transaction is no more delayed, open or unapplied here: a client reads its own write.
    pub after: Option<TxId>,
    /// How long it may wait.
    pub deadline: Millis,
}

/// What a read sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum View<S> {
    /// One state.
    One {
        /// The state.
        state: S,
        /// Whether the instance has been created.
        exists: bool,
    },
    /// All outcomes from end to end.
    Range(Range),
}

#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    read: Read,
    /// Every smaller slot had been given when the read came.
    horizon: Slot,
}

pub(super) struct LateRead {
    pub(super) id: ReadId,
    pub(super) waits_for: Vec<Wait>,
}

impl Reads {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Millis> {
        self.waiting.iter().map(|waiting| waiting.read.deadline).min()
    }

    pub(super) fn arrive(&mut self, read: Read, horizon: Slot) {
        self.waiting.push(Waiting { read, horizon });
    }

    /// Takes every read that can be answered.
    pub(super) fn answer<M: Model>(
        &mut self,
        admission: &mut Admission<M>,
        model: &M,
    ) -> Vec<(ReadId, View<M::State>)> {
        let mut answers = Vec::new();
        self.waiting.retain(|waiting| match waiting.view(admission, model) {
            Some(view) => {
                answers.push((waiting.read.id, view));
                false
            }
            None => true,
        });
        answers
    }

    /// Takes every read whose deadline has come and that still waits.
    pub(super) fn expire<M: Model>(&mut self, admission: &Admission<M>, now: Millis) -> Vec<LateRead> {
        let late = self.waiting.extract_if(.., |waiting| waiting.read.deadline <= now);
        late.map(|Waiting { read, .. }| LateRead { id: read.id, waits_for: waits_of(&read, admission) }).collect()
    }
}

impl Waiting {
    fn view<M: Model>(&self, admission: &mut Admission<M>, model: &M) -> Option<View<M::State>> {
        if self.read.after.is_some_and(|tx| is_here(admission, tx)) {
            return None;
        }
        let one = |state: &M::State, admission: &Admission<M>| View::One {
            state: state.clone(),
            exists: model.exists(admission.key(), state),
        };
        let past = admission.first_unapplied() >= self.horizon;
        match self.read.mode {
            ReadMode::Applied => Some(one(admission.base(), admission)),
            ReadMode::Certain if past => Some(one(admission.base(), admission)),
            ReadMode::Certain => admission.certain().map(|state| one(&state, admission)),
            ReadMode::Range => match admission.range() {
                Some(range) => Some(View::Range(range)),
                None => past.then(|| one(admission.base(), admission)),
            },
        }
    }
}

fn is_here<M: Model>(admission: &Admission<M>, tx: TxId) -> bool {
    admission.find(tx).is_some() || admission.delayed_attempt(tx).is_some()
}

fn waits_of<M: Model>(read: &Read, admission: &Admission<M>) -> Vec<Wait> {
    admission.waits_of_read(read.after.filter(|&tx| is_here(admission, tx)))
}
