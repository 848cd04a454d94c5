//! The verdict on one newcomer: from the cheapest evidence that decides it.
//!
//! 1. The bound on open transactions.
//! 2. What is due before it, if what is in progress is described by cells, which change nothing of that; and whether both ask the same
//!    to change it.
//! 3. The static relation of events: refused whatever happens, or not affected by anything in progress.
//! 4. The cells, if what is in progress is described by them: thresholds and contents of a newcomer that is linear, or a
//!    judgement of all states that they allow for one that is not. Whether it may go before what is open is read off them as well.
//! 5. The manners in which places are changed: what meets in one place in different ones has an order.
//! 6. All outcomes.
//!
//! Each says the same as the last one or leaves the question to the next. What outcomes may cost is bounded: where the
//! evaluations that are allowed do not suffice, the newcomer is delayed. With nothing open there is one outcome, so
//! that whatever [`Strategy::Locking`] would settle is settled.

use std::sync::Arc;

use indexmap::IndexSet;

use super::entity::{Answer, Branch, Entity, Shape, Stop, Unanswered};
use super::footprint::{Footprint, differ_by_order};
use super::interval::{Obstacle, Span};
use super::manners::meet_differently;
use super::progress::{Outcomes, Progress};
use super::queue::Delayed;
use super::{Limits, Strategy};
use crate::model::{Call, Forecast, Model, Place, Relation, Work};
use crate::tx::TxId;

pub(super) enum Judgement<M: Model> {
    Admit {
        answer: Answer<M::Event>,
        /// The outcomes with the newcomer, if they were needed.
        outcomes: Option<Outcomes<M::State>>,
    },
    Reject(Stop<M::Event>),
    /// It cannot be judged without these answers.
    Ask(Unanswered<M::Event>),
    Delay(Cause),
}

impl<M: Model> Judgement<M> {
    /// Of what stops in every outcome.
    pub(super) fn of(stop: Stop<M::Event>) -> Self {
        if stop.wants.is_empty() {
            Self::Reject(stop)
        } else {
            Self::Ask(Unanswered { position: stop.before, asked: stop.wants })
        }
    }
}

/// Why a newcomer has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// As many are open as may be.
    Bound,
    /// One that came earlier has been overtaken often enough.
    Turn(TxId),
    /// It is possible in some outcomes only.
    Verdict,
    /// It is possible in all outcomes, but what it calls or the state it leads to differs.
    Answer,
    /// Its place among the open ones matters, or it would falsify what one of them relies on.
    Order,
    /// There are too many outcomes to look at.
    Outcomes,
}

pub(super) fn judge<M: Model>(
    progress: &mut Progress<M>,
    strategy: Strategy,
    limits: &Limits,
    newcomer: &Delayed<M::Event>,
) -> Judgement<M> {
    let branch = &newcomer.branch;
    if !strategy.has_room(progress, limits) {
        return Judgement::Delay(Cause::Bound);
    }
    if strategy == Strategy::LockingEarlyRelease {
        return by_chain(progress, newcomer);
    }
    by_time(progress, branch)
        .or_else(|| by_intent(progress, strategy, branch))
        .or_else(|| by_relation(progress, strategy, branch))
        .or_else(|| by_interval(progress, strategy, newcomer))
        .or_else(|| by_cover(progress, strategy, newcomer))
        .or_else(|| by_manner(progress, strategy, newcomer))
        .unwrap_or_else(|| by_outcomes(progress, strategy, newcomer))
}

/// Under early release, where everything before is released: what changes something is judged as if all of that commits, and
/// what only asks is judged in all outcomes. So is a refusal, which depends on nothing then.
fn by_chain<M: Model>(progress: &mut Progress<M>, newcomer: &Delayed<M::Event>) -> Judgement<M> {
    let branch = &newcomer.branch;
    if !branch.work.has_event() {
        return by_outcomes(progress, Strategy::LockingEarlyRelease, newcomer);
    }
    if newcomer.certain && progress.commit_dependency().is_some() {
        return Judgement::Delay(Cause::Verdict);
    }
    match progress.entity.step(branch, progress.tip()) {
        Ok(step) => {
            let after = Arc::new(IndexSet::from([step.state]));
            Judgement::Admit { answer: step.answer, outcomes: Some(after) }
        }
        Err(stop) if !stop.wants.is_empty() => Judgement::of(stop),
        Err(_) => by_outcomes(progress, Strategy::LockingEarlyRelease, newcomer),
    }
}

/// What is due comes first. Nothing that has cells changes what is due, so that it is the same in all outcomes.
fn by_time<M: Model>(progress: &Progress<M>, branch: &Branch<M::Event>) -> Option<Judgement<M>> {
    progress.entity.due_before(branch, progress.base()).filter(|_| progress.is_exact())?;
    refusal(progress, branch)
}

/// Two that ask the same to change it afterwards could not both do so.
fn by_intent<M: Model>(progress: &Progress<M>, strategy: Strategy, branch: &Branch<M::Event>) -> Option<Judgement<M>> {
    let meets = matches!(strategy, Strategy::Serializable | Strategy::Psac)
        && branch.work.to_change
        && progress.open().any(|(_, entry)| ask_to_change_the_same(&entry.branch.work, &branch.work));
    meets.then_some(Judgement::Delay(Cause::Order))
}

fn ask_to_change_the_same<E: PartialEq>(one: &Work<E>, other: &Work<E>) -> bool {
    let is_shared = || one.questions().any(|question| other.questions().any(|asked| asked == question));
    one.to_change && other.to_change && is_shared()
}

fn by_relation<M: Model>(
    progress: &Progress<M>,
    strategy: Strategy,
    branch: &Branch<M::Event>,
) -> Option<Judgement<M>> {
    if !progress.is_sound() {
        return None;
    }
    let entity = &progress.entity;
    let mut effects = progress.entries().rev().filter(|entry| entry.branch.work.has_event()).peekable();
    // Every outcome is one before or one after the last effect, so its relation alone may say never.
    let last = effects.peek()?;
    if entity.relation(&last.branch, branch) == Relation::Never {
        return refusal(progress, branch);
    }
    let unaffected = effects.all(|entry| entity.relation(&entry.branch, branch) == Relation::Invariant)
        && !progress.open().any(|(_, entry)| entry.branch.work.relies());
    if !unaffected {
        return None;
    }
    match (entity.step(branch, &progress.certain()), strategy) {
        (Err(stop), _) => Some(Judgement::of(stop)),
        (Ok(step), Strategy::Psac) => Some(Judgement::Admit { answer: step.answer, outcomes: None }),
        (Ok(_), Strategy::Serializable | Strategy::Locking | Strategy::LockingEarlyRelease) => None,
    }
}

/// The refusal of what fails in every outcome, with the reasons it has if every open one aborts.
fn refusal<M: Model>(progress: &Progress<M>, branch: &Branch<M::Event>) -> Option<Judgement<M>> {
    progress.entity.step(branch, &progress.certain()).err().map(Judgement::of)
}

fn by_interval<M: Model>(
    progress: &Progress<M>,
    strategy: Strategy,
    newcomer: &Delayed<M::Event>,
) -> Option<Judgement<M>> {
    let branch = &newcomer.branch;
    let Shape { footprint, calls } = newcomer.shape.as_ref().filter(|_| progress.is_exact())?;
    let linear = footprint.as_linear()?;
    let entity = &progress.entity;
    if branch.work.relies() && !progress.interval.is_life_cycle_at_rest() {
        return None;
    }
    let states = progress.interval.contents(&Place::LIFE_CYCLE, progress)?;
    let allows = |name: &String| !branch.work.has_event() || linear.states.contains(name);
    match states.iter().filter(|name| allows(name)).count() {
        0 => return refusal(progress, branch),
        allowing if allowing < states.len() => {
            return match progress.interval.span(footprint, progress) {
                Span::None => refusal(progress, branch),
                Span::All => Some(Judgement::Delay(Cause::Verdict)),
                Span::Mixed | Span::Unknown => None,
            };
        }
        _ if !entity.life_cycle_allows(branch, progress.base()) => return refusal(progress, branch),
        _ => {}
    }
    match progress.interval.span(footprint, progress) {
        Span::None => refusal(progress, branch),
        Span::Mixed => Some(Judgement::Delay(Cause::Verdict)),
        Span::Unknown => None,
        Span::All => {
            let is_free = match strategy {
                Strategy::Locking | Strategy::LockingEarlyRelease | Strategy::Psac => Some(true),
                Strategy::Serializable => progress.interval.tolerates(footprint, progress.has_line(), progress),
            };
            let in_line = match is_free {
                Some(true) => false,
                _ if newcomer.sole => true,
                Some(false) => return Some(Judgement::Delay(Cause::Order)),
                None => return None,
            };
            let [state] = states.as_slice() else { return Some(Judgement::Delay(Cause::Answer)) };
            admit(progress, newcomer, footprint, calls, state, in_line)
        }
    }
}

/// A newcomer that is not linear: it is judged in all states that the cells allow behind everything. Where it does not go before what
/// is open, it stands in line if it is alone.
fn by_cover<M: Model>(
    progress: &Progress<M>,
    strategy: Strategy,
    newcomer: &Delayed<M::Event>,
) -> Option<Judgement<M>> {
    let branch = &newcomer.branch;
    let Shape { footprint, calls } = newcomer.shape.as_ref().filter(|_| progress.is_exact())?;
    let event = branch.work.only_event().filter(|_| footprint.as_linear().is_none())?;
    let has_place = match strategy {
        Strategy::Locking | Strategy::LockingEarlyRelease => false,
        Strategy::Psac => !progress.open().any(|(_, entry)| entry.branch.work.relies()),
        Strategy::Serializable => true,
    };
    if !has_place || progress.is_empty() || !footprint.is_told_in(progress) {
        return None;
    }
    let obstacle = match strategy {
        Strategy::Serializable if footprint.moves_life_cycle() => Obstacle::Unknown,
        Strategy::Serializable => progress.interval.obstacle(footprint, progress.has_line(), progress),
        _ => Obstacle::Nothing,
    };
    let meets_other = matches!(obstacle, Obstacle::Class(..)) && !newcomer.sole;
    // What waits for its place was possible when it came, so that nothing has to be evaluated again.
    if meets_other && newcomer.cause == Cause::Order {
        return Some(Judgement::Delay(Cause::Order));
    }
    // What has no room waits for it before anything is evaluated.
    if !meets_other && progress.interval.crowded(footprint).is_some() {
        return Some(Judgement::Delay(Cause::Bound));
    }
    let cover = progress.interval.cover(progress);
    match (progress.entity.forecast(event, branch.at, progress.base(), &cover), obstacle) {
        (Forecast::Refused, _) => refusal(progress, branch),
        (Forecast::Happens { .. }, _) if meets_other => Some(Judgement::Delay(Cause::Order)),
        (Forecast::Happens { state }, obstacle) if newcomer.sole || obstacle == Obstacle::Nothing => {
            admit(progress, newcomer, footprint, calls, &state, obstacle != Obstacle::Nothing)
        }
        (Forecast::Happens { .. } | Forecast::Unsure, _) => None,
    }
}

fn admit<M: Model>(
    progress: &Progress<M>,
    newcomer: &Delayed<M::Event>,
    footprint: &Footprint,
    calls: &[Vec<Call<M::Event>>],
    state: &str,
    in_line: bool,
) -> Option<Judgement<M>> {
    if progress.interval.crowded(footprint).is_some() {
        return Some(Judgement::Delay(Cause::Bound));
    }
    let work = &newcomer.branch.work;
    let answers = match work.questions().next() {
        None => Vec::new(),
        Some(_) => progress.entity.settled_answers(&newcomer.branch, &progress.certain()),
    };
    let state = work.has_event().then(|| state.to_owned());
    Some(Judgement::Admit { answer: Answer { calls: calls.to_vec(), answers, state, in_line }, outcomes: None })
}

/// What is possible if every open one aborts is not refused, so that only its place in the order is left to be looked at. That is
/// asked once: one that waits for its place already is not evaluated again before it can have it.
fn by_manner<M: Model>(
    progress: &Progress<M>,
    strategy: Strategy,
    newcomer: &Delayed<M::Event>,
) -> Option<Judgement<M>> {
    let waits = strategy == Strategy::Serializable
        && !newcomer.sole
        && progress.manners.first_different(newcomer.changes.as_deref()?).is_some()
        && (newcomer.cause == Cause::Order || progress.entity.step(&newcomer.branch, &progress.certain()).is_ok());
    waits.then_some(Judgement::Delay(Cause::Order))
}

fn by_outcomes<M: Model>(progress: &mut Progress<M>, strategy: Strategy, newcomer: &Delayed<M::Event>) -> Judgement<M> {
    let branch = &newcomer.branch;
    let Some(outcomes) = progress.outcomes() else { return Judgement::Delay(Cause::Outcomes) };
    if progress.spend(outcomes.len()).is_none() {
        return Judgement::Delay(Cause::Outcomes);
    }
    let (mut answer, mut stopped, mut same_answer) = (None, None, true);
    for state in outcomes.iter() {
        match progress.entity.step(branch, state) {
            Err(stop) if !stop.wants.is_empty() => return Judgement::of(stop),
            Ok(step) => same_answer &= *answer.get_or_insert_with(|| step.answer.clone()) == step.answer,
            Err(stop) => match stopped.take() {
                None => stopped = Some(stop),
                Some(other) => match further(other, stop) {
                    Some(stop) => stopped = Some(stop),
                    None => return Judgement::Delay(Cause::Answer),
                },
            },
        }
        if answer.is_some() && stopped.is_some() {
            return Judgement::Delay(Cause::Verdict);
        }
    }
    let Some(mut answer) = answer else {
        return Judgement::Reject(stopped.expect("there is at least one outcome"));
    };
    if !same_answer {
        return Judgement::Delay(Cause::Answer);
    }
    let may_stand_in_line = strategy == Strategy::Serializable && newcomer.sole;
    match obstacle(progress, strategy, branch) {
        None => {}
        Some(_) if may_stand_in_line => answer.in_line = true,
        Some(cause) => return Judgement::Delay(cause),
    }
    match progress.extend(&outcomes, branch, false) {
        None if outcomes.len() > 1 => Judgement::Delay(Cause::Outcomes),
        // What depends on nothing is admitted, however many outcomes come of it.
        outcomes => Judgement::Admit { answer, outcomes },
    }
}

/// Why `branch`, possible in all outcomes, cannot go before everything that is in progress; nothing if it can.
fn obstacle<M: Model>(progress: &mut Progress<M>, strategy: Strategy, branch: &Branch<M::Event>) -> Option<Cause> {
    if strategy == Strategy::Serializable && progress.has_line() {
        return Some(Cause::Order);
    }
    for position in sensitive(progress, strategy) {
        match conflicts(progress, strategy, position, branch) {
            Some(false) => {}
            Some(true) => return Some(Cause::Order),
            None => return Some(Cause::Outcomes),
        }
    }
    None
}

/// The one of two refusals that comes later among the actions, or else the first; nothing if the events before them do not call the same, so
/// that the transaction might ask for something else in one of the outcomes.
fn further<E: Eq>(one: Stop<E>, other: Stop<E>) -> Option<Stop<E>> {
    // Where something is due, what would be refused otherwise may be possible behind it.
    if one.is_early() != other.is_early() {
        return None;
    }
    let (near, far) = if one.before < other.before { (one, other) } else { (other, one) };
    far.calls.starts_with(&near.calls).then_some(far)
}

/// The positions of the open entries that a newcomer could disturb; of those that do the same, the last.
fn sensitive<M: Model>(progress: &Progress<M>, strategy: Strategy) -> Vec<usize> {
    let mut found: Vec<(usize, &Branch<M::Event>)> = Vec::new();
    for (position, entry) in progress.open().collect::<Vec<_>>().into_iter().rev() {
        let branch = &entry.branch;
        let may_mind = match strategy {
            Strategy::Serializable => true,
            Strategy::Psac => branch.work.relies(),
            Strategy::Locking | Strategy::LockingEarlyRelease => false,
        };
        if may_mind && !found.iter().any(|(_, other)| progress.entity.do_the_same(branch, other)) {
            found.push((position, branch));
        }
    }
    found.into_iter().map(|(position, _)| position).collect()
}

/// Whether `branch` disturbs the open entry at `position` in any outcome of the others; nothing if there are too many.
pub(super) fn conflicts<M: Model>(
    progress: &mut Progress<M>,
    strategy: Strategy,
    position: usize,
    branch: &Branch<M::Event>,
) -> Option<bool> {
    let outcomes = progress.outcomes_without(position)?;
    progress.spend(DISTURBS * outcomes.len())?;
    let open = progress.entries().nth(position).expect("the position is valid");
    let open = (&open.branch, &open.answer);
    Some(outcomes.iter().any(|state| disturbs(&progress.entity, strategy, open, branch, state)))
}

/// The most evaluations that one call of [`disturbs`] takes.
const DISTURBS: usize = 4;

/// Whether `newcomer`, possible in `state`, takes away what `open` relies on there: its conditions and the answers it was
/// given, and under [`Strategy::Serializable`] its verdict, its whole answer and its place.
fn disturbs<M: Model>(
    entity: &Entity<M>,
    strategy: Strategy,
    (open, given): (&Branch<M::Event>, &Answer<M::Event>),
    newcomer: &Branch<M::Event>,
    state: &M::State,
) -> bool {
    let Ok(new) = entity.step(newcomer, state) else { return false };
    if strategy != Strategy::Serializable {
        return !entity.keeps_word(open, given, &new.state);
    }
    if cfg!(planted = "overlook_reliance") {
        return false;
    }
    let Ok(old) = entity.step(open, state) else { return false };
    match (entity.step(open, &new.state), entity.step(newcomer, &old.state)) {
        (Ok(old_second), Ok(new_second)) => {
            old_second.answer != old.answer || new_second.answer != new.answer || old_second.state != new_second.state
        }
        _ => true,
    }
}

/// Whether admitting `newcomer` could make `waiting` wait for it: it changes the verdict or the answer of `waiting` in some
/// outcome, or `waiting` would disturb it.
///
/// Errs towards yes where there are too many outcomes to look at.
pub(super) fn hinders<M: Model>(
    progress: &mut Progress<M>,
    strategy: Strategy,
    newcomer: &Delayed<M::Event>,
    waiting: &Delayed<M::Event>,
) -> bool {
    // Whatever waits under a lock waits for everybody that gets it.
    if strategy == Strategy::LockingEarlyRelease {
        return true;
    }
    if strategy != Strategy::Locking && ask_to_change_the_same(&newcomer.branch.work, &waiting.branch.work) {
        return true;
    }
    let footprints = newcomer.footprint().zip(waiting.footprint());
    let at_rest = |(a, b): &(&Footprint, &Footprint)| !a.moves_life_cycle() && !b.moves_life_cycle();
    if let Some((a, b)) = footprints.filter(at_rest).filter(|_| progress.is_exact()) {
        let crosses = |a, b| progress.interval.crosses(a, b, progress);
        let shows = || differ_by_order(a, b) || crosses(b, a);
        return strategy == Strategy::Serializable && shows() || crosses(a, b);
    }
    if let (Some(a), Some(b), Strategy::Serializable) = (&newcomer.changes, &waiting.changes, strategy)
        && meet_differently(a, b)
    {
        return true;
    }
    let (first, waiting) = (&newcomer.branch, &waiting.branch);
    let Some(outcomes) = progress.outcomes() else { return true };
    if progress.spend((3 + DISTURBS) * outcomes.len()).is_none() {
        return true;
    }
    let entity = &progress.entity;
    outcomes.iter().any(|state| {
        let Ok(after) = entity.step(first, state) else { return false };
        match (entity.step(waiting, state), entity.step(waiting, &after.state)) {
            (Ok(without), Ok(with)) => {
                without.answer != with.answer || disturbs(entity, strategy, (first, &after.answer), waiting, state)
            }
            (Err(_), Err(_)) => false,
            _ => true,
        }
    })
}
