//! One entity that transactions come to, are decided at, and are judged at by both.

use std::sync::Arc;

use enact_entities::{
    Admission, Attempt, Branch, Decision, Limits, Millis, Model, Request, Slot, Strategy, Timestamp, TxId, Work,
};
use enact_models::{Chance, Decider, Judgement};
use enact_rebel::EventCall;

use crate::mixes::Mix;

/// How many things happen at most.
const STEPS_MAX: usize = 25;

/// How many are open at once: the decider looks at each subset of them.
const OPEN_MAX: usize = 6;

/// How a transaction was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) mix: &'static str,
    pub(crate) judgement: Judgement,
    /// Whether it was delayed, and the decider would not delay it.
    pub(crate) is_needless: bool,
}

pub(crate) struct Scenario<'a> {
    mix: &'a Mix,
    chance: Chance,
    strategy: Strategy,
    entity: Admission<enact_entities::Rebel>,
    open: Vec<TxId>,
    begun: u128,
}

impl<'a> Scenario<'a> {
    /// Plays the scenario of `seed`, and says how each of its transactions was judged.
    ///
    /// # Panics
    /// If admission says something else than the decider, but that a transaction has to wait; or promises what cannot be applied.
    pub(crate) fn play(mix: &'a Mix, seed: u64) -> Vec<(Seen, u64)> {
        let mut chance = Chance::new(seed);
        let strategy = if chance.percent(30) { Strategy::Psac } else { Strategy::Serializable };
        let limits = Limits { overtakes_max: usize::MAX, ..Limits::default() };
        let base = mix.base(&mut chance).clone();
        let entity = Admission::new(Arc::clone(&mix.model), mix.key.clone(), base, Slot::FIRST, strategy, limits);
        let mut scenario = Self { mix, chance, strategy, entity, open: Vec::new(), begun: 0 };
        let steps = 1 + scenario.chance.below(STEPS_MAX);
        let seen = (0..steps).filter_map(|_| scenario.step()).map(|seen| (seen, 1)).collect();
        scenario.end();
        seen
    }

    fn step(&mut self) -> Option<Seen> {
        if self.chance.percent(22) || self.open.len() == OPEN_MAX {
            self.decide();
            return None;
        }
        let (work, at) =
            self.due().unwrap_or_else(|| (self.mix.work(&mut self.chance), self.mix.time(&mut self.chance)));
        Some(self.ask(work, at))
    }

    /// What happens next by itself, now and then.
    fn due(&mut self) -> Option<(Work<EventCall>, Timestamp)> {
        let due = self.mix.model.due(&self.mix.key, self.entity.base()).filter(|_| self.chance.percent(6))?;
        Some((Work { timed: true, ..Work::event(due.event) }, due.time))
    }

    fn ask(&mut self, work: Work<EventCall>, at: Timestamp) -> Seen {
        self.begun += 1;
        let tx = TxId::from_u128(self.begun);
        let branch = Branch { tx, attempt: Attempt::FIRST, work, at };
        let sole = self.strategy == Strategy::Serializable && self.chance.percent(50);
        let entries = self.entity.in_progress().map(Into::into).collect();
        let decider = Decider { model: &self.mix.model, key: &self.mix.key, base: self.entity.base(), entries };
        let expected = decider.judge(&branch, sole || self.strategy == Strategy::Psac);
        let found = format!("{:?} behind {:#?}", decider.base, decider.entries);
        let deadline = Millis(1_000);
        let (work, certain) = (branch.work.clone(), false);
        let request = Request { branch, deadline, ordered: false, sole, certain, calls_known: false };
        let judgement = Judgement::from(&self.entity.request(request));
        assert!(
            judgement == expected || judgement == Judgement::Delay,
            "{}, {}: {judgement:?}, not {expected:?}, {work:#?} at {at:?}, sole: {sole}, in {found}",
            self.mix.name,
            self.strategy,
        );
        if judgement == Judgement::Admit {
            self.open.push(tx);
        }
        Seen { mix: self.mix.name, judgement, is_needless: judgement != expected }
    }

    fn decide(&mut self) {
        if !self.open.is_empty() {
            let tx = self.open.remove(self.chance.below(self.open.len()));
            let decision = if self.chance.percent(50) { Decision::Commit } else { Decision::Abort };
            self.entity.decide(tx, decision);
        }
    }

    /// Commits all that is open, in any order: what was promised and cannot be applied panics.
    fn end(mut self) {
        while !self.open.is_empty() {
            let tx = self.open.remove(self.chance.below(self.open.len()));
            self.entity.decide(tx, Decision::Commit);
        }
        assert_eq!(self.entity.in_progress().count(), 0, "all that is decided is applied");
    }
}
