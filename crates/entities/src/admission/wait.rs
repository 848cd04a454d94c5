//! What a delayed transaction waits for, in words.

use std::fmt;

use super::Strategy;
use super::cell::Ends;
use super::entity::Branch;
use super::footprint::{Footprint, added};
use super::interval::{Span, holds_over};
use super::judge::{Cause, conflicts};
use super::progress::Progress;
use crate::model::{Linear, Model, Threshold};
use crate::tx::TxId;

/// One transaction that another one waits for, and what depends on it.
///
/// Displayed as `Deposit of 0192…: passes if it commits, fails if it aborts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The transaction waited for.
    pub tx: TxId,
    /// What that transaction does at this entity: the name of its event, or its conditions.
    pub event: String,
    /// What depends on it.
    pub why: Why,
}

/// What depends on a transaction that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// Whether the waiting event is possible.
    Verdict {
        /// What becomes of the waiting event if the other commits.
        if_committed: Prospect,
        /// What becomes of the waiting event if the other aborts.
        if_aborted: Prospect,
    },
    /// What the waiting event calls, or the state it leads to.
    Answer,
    /// The order of the two matters, or the waiting event would falsify what the other relies on.
    Order,
    /// There are too many outcomes to look at until it is decided.
    Outcomes,
    /// As many are open as may be.
    Bound,
    /// It came earlier and has been overtaken often enough.
    Turn,
    /// The value that a read asks for.
    Value,
}

/// What becomes of a waiting event once one other is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// It is possible.
    Passes,
    /// It is refused.
    Fails,
    /// It still depends on others.
    Depends,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: {}", self.event, self.tx, self.why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verdict { if_committed, if_aborted } => {
                write!(f, "{if_committed} if it commits, {if_aborted} if it aborts")
            }
            Self::Answer => f.write_str("what happens next depends on it"),
            Self::Order => f.write_str("it must be decided first"),
            Self::Outcomes => f.write_str("too much is undecided"),
            Self::Bound => f.write_str("too many are open"),
            Self::Turn => f.write_str("it has its turn first"),
            Self::Value => f.write_str("the value depends on it"),
        }
    }
}

impl fmt::Display for Prospect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passes => "passes",
            Self::Fails => "fails",
            Self::Depends => "depends on others",
        })
    }
}

/// The open transactions that `branch` waits for because of `cause`; never none of them, as long as one is open.
///
/// # Complexity
/// Under [`Cause::Verdict`] and [`Cause::Order`] all outcomes are looked at once per open transaction.
pub(super) fn explain<M: Model>(
    progress: &mut Progress<M>,
    strategy: Strategy,
    branch: &Branch<M::Event>,
    footprint: Option<&Footprint>,
    cause: Cause,
) -> Vec<Wait> {
    let found = match cause {
        // What is released stands and falls with all before it.
        _ if strategy == Strategy::LockingEarlyRelease => Vec::new(),
        Cause::Verdict => match footprint.and_then(Footprint::as_linear) {
            Some(linear) if progress.is_exact() => by_interval(progress, linear),
            _ => by_outcomes(progress, branch),
        },
        Cause::Order => in_the_way(progress, strategy, branch),
        _ => Vec::new(),
    };
    if found.is_empty() { everything_open(progress, cause) } else { found }
}

fn everything_open<M: Model>(progress: &Progress<M>, cause: Cause) -> Vec<Wait> {
    let why = match cause {
        Cause::Verdict => Why::Verdict { if_committed: Prospect::Depends, if_aborted: Prospect::Depends },
        Cause::Answer => Why::Answer,
        Cause::Order => Why::Order,
        Cause::Outcomes => Why::Outcomes,
        Cause::Bound => Why::Bound,
        Cause::Turn(_) => Why::Turn,
    };
    (0..).zip(progress.entries()).filter(|(_, entry)| !entry.committed).map(|(i, _)| wait(progress, i, why)).collect()
}

fn wait<M: Model>(progress: &Progress<M>, position: usize, why: Why) -> Wait {
    let branch = &progress.entries().nth(position).expect("the position is valid").branch;
    Wait { tx: branch.tx, event: progress.entity.work_name(&branch.work), why }
}

fn open_positions<M: Model>(progress: &Progress<M>) -> Vec<usize> {
    progress.open().map(|(position, _)| position).collect()
}

fn in_the_way<M: Model>(progress: &mut Progress<M>, strategy: Strategy, branch: &Branch<M::Event>) -> Vec<Wait> {
    let mut waits = Vec::new();
    for position in open_positions(progress) {
        if conflicts(progress, strategy, position, branch) == Some(true) {
            waits.push(wait(progress, position, Why::Order));
        }
    }
    waits
}

fn by_outcomes<M: Model>(progress: &mut Progress<M>, branch: &Branch<M::Event>) -> Vec<Wait> {
    let mut waits = Vec::new();
    for position in open_positions(progress) {
        let Some(pairs) = progress.outcomes_with_and_without(position) else { continue };
        let verdicts: Vec<(bool, bool)> = pairs
            .iter()
            .map(|(with, without)| {
                (progress.entity.step(branch, with).is_ok(), progress.entity.step(branch, without).is_ok())
            })
            .collect();
        if verdicts.iter().any(|(with, without)| with != without) {
            let if_committed = prospect(verdicts.iter().map(|verdict| verdict.0));
            let if_aborted = prospect(verdicts.iter().map(|verdict| verdict.1));
            waits.push(wait(progress, position, Why::Verdict { if_committed, if_aborted }));
        }
    }
    waits
}

fn prospect(verdicts: impl Iterator<Item = bool>) -> Prospect {
    let (mut passes, mut fails) = (false, false);
    for verdict in verdicts {
        passes |= verdict;
        fails |= !verdict;
    }
    match (passes, fails) {
        (true, false) => Prospect::Passes,
        (false, true) => Prospect::Fails,
        _ => Prospect::Depends,
    }
}

fn by_interval<M: Model>(progress: &Progress<M>, linear: &Linear) -> Vec<Wait> {
    let undecided: Vec<(&Threshold, Ends)> = linear
        .thresholds
        .iter()
        .filter_map(|threshold| {
            let ends = progress.interval.ends(&threshold.terms, progress)?;
            (holds_over(threshold.bound, ends.low, ends.high) != Span::All).then_some((threshold, ends))
        })
        .collect();
    let mut waits = Vec::new();
    for position in open_positions(progress) {
        let entry = progress.entries().nth(position).expect("the position is valid");
        let Some(open) = entry.taken.as_ref().map(|taken| &taken.footprint.linear) else { continue };
        if undecided.iter().all(|(threshold, _)| added(open, &threshold.terms) == 0) {
            continue;
        }
        // Deciding an open event moves one end of the range: its delta is certain, or gone.
        let prospect = |committed: bool| {
            let spans = undecided.iter().map(|(threshold, ends)| {
                let delta = added(open, &threshold.terms);
                let (low, high) = if committed {
                    (ends.low.saturating_add(delta.max(0)), ends.high.saturating_add(delta.min(0)))
                } else {
                    (ends.low.saturating_sub(delta.min(0)), ends.high.saturating_sub(delta.max(0)))
                };
                holds_over(threshold.bound, low, high)
            });
            spans.fold(Prospect::Passes, |prospect, span| match (prospect, span) {
                (Prospect::Fails, _) | (_, Span::None) => Prospect::Fails,
                (prospect, Span::All) => prospect,
                _ => Prospect::Depends,
            })
        };
        let (if_committed, if_aborted) = (prospect(true), prospect(false));
        waits.push(wait(progress, position, Why::Verdict { if_committed, if_aborted }));
    }
    // One that settles the matter says more than all those that do not.
    let undecided = Why::Verdict { if_committed: Prospect::Depends, if_aborted: Prospect::Depends };
    if waits.iter().any(|wait| wait.why != undecided) {
        waits.retain(|wait| wait.why != undecided);
    }
    waits
}
