//! Works out what a delayed transaction waits for.
//!
//! What the cells tell is read off them. What they do not tell is evaluated, as far as the credit of one verdict reaches; beyond
//! that everything open is named, which is true and says less.

use super::Strategy;
use super::cell::Ends;
use super::entity::Branch;
use super::footprint::added;
use super::interval::{Span, holds_over};
use super::judge::{Cause, conflicts};
use super::manners::differ;
use super::progress::{Entry, Progress};
use super::queue::Delayed;
use super::wait::{Prospect, Undecided, Wait, Why};
use crate::model::{Action, Bound, Change, Content, Linear, Location, Model, Place, Question, Term, Threshold};
use crate::tx::TxId;

/// How many kinds of transactions one explanation names at most.
const KINDS_MAX: usize = 16;

/// How many of those in progress a [`culprit`] is looked for among.
const SUSPECTS_MAX: usize = 16;

/// Which event waits for which other one, and why, without a word on values: what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Culprit<'a> {
    /// The first event of the waiting transaction here, if it has one.
    pub(crate) waiting: Option<&'a str>,
    /// The first event of the one that it waits for, if it has one.
    pub(crate) awaited: Option<&'a str>,
    pub(crate) cause: &'static str,
}

impl Cause {
    /// Its name, as it is counted.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Answer => "answer",
            Self::Order => "order",
            Self::Outcomes => "outcomes",
            Self::Bound => "bound",
            Self::Turn(_) => "turn",
        }
    }
}

/// One in progress that `waiting` waits for; found without an evaluation, among the first few.
pub(super) fn culprit<'a, M: Model>(
    progress: &'a Progress<M>,
    waiting: &Delayed<M::Event>,
) -> Option<&'a Branch<M::Event>> {
    let linear = waiting.as_linear();
    let is_one = |entry: &&Entry<M>| match waiting.cause {
        Cause::Verdict => linear.is_some_and(|linear| moves_any(entry, linear)),
        Cause::Order => meeting_place(entry, waiting).is_some(),
        _ => true,
    };
    let suspects = || progress.entries().take(SUSPECTS_MAX).filter(|entry| !entry.committed || entry.answer.in_line);
    suspects().find(is_one).or_else(|| suspects().next()).map(|entry| &entry.branch)
}

/// The transactions in progress that `waiting` waits for; never none of them, as long as one is open.
///
/// # Complexity
/// Linear in what is in progress. Where the cells do not tell, outcomes are evaluated as far as the credit reaches.
pub(super) fn explain<M: Model>(
    progress: &mut Progress<M>,
    strategy: Strategy,
    waiting: &Delayed<M::Event>,
    older: usize,
) -> Vec<Wait> {
    let mut kinds = Kinds::of(progress.entity.work_name(&waiting.branch.work));
    match waiting.cause {
        // What is released stands and falls with all before it.
        _ if strategy == Strategy::LockingEarlyRelease => {}
        Cause::Verdict => kinds.by_verdict(progress, waiting),
        Cause::Order => kinds.by_order(progress, strategy, waiting, older),
        Cause::Answer => kinds.by_answer(progress, &waiting.branch),
        Cause::Outcomes | Cause::Bound | Cause::Turn(_) => {}
    }
    if kinds.found.is_empty() {
        let why = match waiting.cause {
            Cause::Verdict => Why::Verdict {
                undecided: undecided(progress, waiting),
                if_committed: Prospect::Depends,
                if_aborted: Prospect::Depends,
            },
            Cause::Answer => Why::Answer { undecided: Vec::new() },
            // Of the one whose turn it is nothing is left.
            Cause::Order | Cause::Turn(_) => {
                Why::Order { place: None, older, in_part: strategy == Strategy::Serializable && !waiting.sole }
            }
            Cause::Outcomes => Why::Outcomes { outcomes_max: progress.outcomes_max() },
            Cause::Bound => Why::Bound { open: progress.open_count() },
        };
        kinds.everything_open(progress, &why);
    }
    kinds.found
}

/// What a read of the whole entity waits for.
pub(super) fn explain_value<M: Model>(progress: &Progress<M>) -> Vec<Wait> {
    let mut kinds = Kinds::of(String::new());
    let mut undecided = Vec::new();
    for (field, base) in progress.entity.numbers(progress.base()) {
        if let Some(ends) = progress.interval.field(field, base).filter(|ends| ends.low != ends.high) {
            undecided.push(number(progress, &[Term { field, negative: false }], ends, None));
        }
    }
    for place in progress.interval.changing() {
        undecided.extend(content(progress, place, None));
    }
    kinds.everything_open(progress, &Why::Value { undecided });
    kinds.found
}

/// What one that is committed and in line waits for: what is open before it.
pub(super) fn explain_line<M: Model>(progress: &Progress<M>, tx: TxId) -> Vec<Wait> {
    let waiting = progress.find(tx).map(|entry| progress.entity.work_name(&entry.branch.work)).unwrap_or_default();
    let mut kinds = Kinds::of(waiting);
    let before = progress.entries().take_while(|entry| entry.branch.tx != tx);
    before.filter(|entry| !entry.committed).for_each(|entry| kinds.add(progress, entry, &Why::Line));
    kinds.found
}

/// What was found, one for each kind.
struct Kinds {
    waiting: String,
    found: Vec<Wait>,
}

impl Kinds {
    const fn of(waiting: String) -> Self {
        Self { waiting, found: Vec::new() }
    }

    fn add<M: Model>(&mut self, progress: &Progress<M>, entry: &Entry<M>, why: &Why) {
        let event = progress.entity.name(&entry.branch.work);
        if let Some(known) = self.found.iter_mut().find(|wait| wait.event == event && wait.why == *why) {
            known.others += 1;
        } else if self.found.len() < KINDS_MAX {
            let (waiting, tx, event) = (self.waiting.clone(), entry.branch.tx, event.into_owned());
            self.found.push(Wait { waiting, tx, event, others: 0, why: why.clone() });
        }
    }

    fn everything_open<M: Model>(&mut self, progress: &Progress<M>, why: &Why) {
        progress.open().for_each(|(_, entry)| self.add(progress, entry, why));
    }

    fn by_verdict<M: Model>(&mut self, progress: &mut Progress<M>, waiting: &Delayed<M::Event>) {
        let undecided = undecided(progress, waiting);
        let only_numbers = undecided.iter().all(|fact| matches!(fact, Undecided::Number { .. }));
        let found = match waiting.as_linear() {
            Some(linear) if progress.is_exact() && only_numbers => by_interval(progress, linear),
            _ => by_outcomes(progress, &waiting.branch),
        };
        let mut last: Option<(Prospect, Prospect, Why)> = None;
        for (position, if_committed, if_aborted) in found {
            let is_like = |(committed, aborted, _): &(Prospect, Prospect, Why)| {
                (*committed, *aborted) == (if_committed, if_aborted)
            };
            let why = match last.take().filter(is_like) {
                Some((.., why)) => why,
                None => Why::Verdict { undecided: undecided.clone(), if_committed, if_aborted },
            };
            self.add(progress, entry(progress, position), &why);
            last = Some((if_committed, if_aborted, why));
        }
    }

    fn by_answer<M: Model>(&mut self, progress: &Progress<M>, branch: &Branch<M::Event>) {
        let asked = branch.work.questions().filter_map(|question| match question {
            Question::Field(name) => progress.entity.location(progress.base(), name),
            _ => None,
        });
        let (mut undecided, mut places) = (Vec::new(), Vec::new());
        for location in asked {
            let fact = match &location {
                Location::Number(field) => {
                    let terms = [Term { field: *field, negative: false }];
                    let ends = progress.interval.ends(&terms, progress).filter(|ends| ends.low != ends.high);
                    ends.map(|ends| number(progress, &terms, ends, None))
                }
                Location::Place(place) => content(progress, place, None),
            };
            if let Some(fact) = fact {
                undecided.push(fact);
                places.push(location);
            }
        }
        let why = Why::Answer { undecided };
        for (_, entry) in progress.open() {
            let writes = |location: &Location| {
                entry.taken.as_ref().is_none_or(|taken| taken.footprint.written().any(|written| written == *location))
            };
            if places.iter().any(writes) {
                self.add(progress, entry, &why);
            }
        }
    }

    fn by_order<M: Model>(
        &mut self,
        progress: &mut Progress<M>,
        strategy: Strategy,
        waiting: &Delayed<M::Event>,
        older: usize,
    ) {
        let in_part = strategy == Strategy::Serializable && !waiting.sole;
        let turn = |place: Option<String>| Why::Order { place, older, in_part };
        let mut last: Option<(Place, Why)> = None;
        for position in 0..progress.entries().count() {
            let other = entry(progress, position);
            let why = if other.committed {
                (other.answer.in_line && in_part).then_some(Why::Unapplied)
            } else if let Some(place) = meeting_place(other, waiting) {
                let why = match last.take().filter(|(known, _)| known == place) {
                    Some((_, why)) => why,
                    None => turn(Some(progress.entity.place_name(place))),
                };
                self.add(progress, other, &why);
                last = Some((place.clone(), why));
                continue;
            } else if let Some((change, on)) = needs_broken(progress, other, waiting) {
                Some(Why::Reliance { change, on })
            } else if is_told_apart(other, waiting) {
                None
            } else {
                (conflicts(progress, strategy, position, &waiting.branch) == Some(true)).then(|| {
                    let broken = word_broken(progress, entry(progress, position), &waiting.branch);
                    broken.map_or_else(|| turn(None), |(change, on)| Why::Reliance { change, on })
                })
            };
            if let Some(why) = why {
                self.add(progress, entry(progress, position), &why);
            }
        }
    }
}

fn entry<M: Model>(progress: &Progress<M>, position: usize) -> &Entry<M> {
    progress.entries().nth(position).expect("the position is valid")
}

/// The first place that both change, each in another manner.
fn meeting_place<'a, M: Model>(other: &Entry<M>, waiting: &'a Delayed<M::Event>) -> Option<&'a Place> {
    let (one, two) = (waiting.changes.as_ref()?, other.changes.as_ref()?);
    let meets =
        |change: &&Change| two.iter().any(|other| other.place == change.place && differ(other.manner, change.manner));
    one.iter().find(meets).map(|change| &change.place)
}

/// Whether the footprints of both say all, so that nothing has to be evaluated.
fn is_told_apart<M: Model>(other: &Entry<M>, waiting: &Delayed<M::Event>) -> bool {
    waiting.as_linear().is_some() && other.taken.as_ref().is_some_and(|taken| taken.footprint.as_linear().is_some())
}

/// What `waiting` would do, and what `other` relies on, if that cannot be at once.
fn needs_broken<M: Model>(
    progress: &Progress<M>,
    other: &Entry<M>,
    waiting: &Delayed<M::Event>,
) -> Option<(String, String)> {
    let mine = &waiting.shape.as_ref()?.footprint;
    let theirs = &other.taken.as_ref()?.footprint;
    let broken = |threshold: &&Threshold| {
        let ends = progress.interval.ends(&threshold.terms, progress)?;
        let (down, up) = progress.interval.moved(mine, &threshold.terms, progress)?;
        let own = added(&theirs.linear, &threshold.terms);
        // Both ends count the one that relies on them; what it relies on it finds before it.
        let found = match threshold.bound {
            Bound::AtLeast(_) => ends.low.checked_sub(own.min(0))?.checked_add(down)?,
            Bound::AtMost(_) => ends.high.checked_sub(own.max(0))?.checked_add(up)?,
        };
        (down < 0 || up > 0).then_some(())?;
        (holds_over(threshold.bound, found, found) == Span::None).then_some(found)
    };
    if let Some((threshold, found)) = theirs.linear.thresholds.iter().find_map(|t| Some((t, broken(&t)?))) {
        let name = sum_name(progress, &threshold.terms);
        let found = amount(progress, &threshold.terms, found);
        return Some((format!("take {name} to {found}"), needed(progress, threshold)));
    }
    let replaced =
        |put: &&Content| theirs.linear.holds.iter().any(|hold| hold.place == put.place && hold.value != put.value);
    if let Some(put) = mine.linear.puts.iter().find(replaced) {
        let name = progress.entity.place_name(&put.place);
        let held = theirs.linear.holds.iter().find(|hold| hold.place == put.place)?;
        return Some((format!("make {name} {}", put.value), held.value.clone()));
    }
    let changed = mine.written().find(|written| theirs.reads().any(|read| read == written))?;
    let name = location_name(progress, &changed);
    Some((format!("change {name}"), name))
}

/// What `waiting` does, and what it takes away: conditions on the state or answers that `other` was given.
fn word_broken<M: Model>(
    progress: &Progress<M>,
    other: &Entry<M>,
    waiting: &Branch<M::Event>,
) -> Option<(String, String)> {
    let entity = &progress.entity;
    if !other.branch.work.relies() {
        return None;
    }
    let after = entity.step(waiting, &progress.certain()).ok()?.state;
    if entity.keeps_word(&other.branch, &other.answer, &after) {
        return None;
    }
    let mut given = other.answer.answers.iter();
    let mut words = Vec::new();
    for action in &other.branch.work.actions {
        match action {
            Action::Condition(condition) => words.push(format!("\"{}\"", condition.text)),
            Action::Ask(question) => match (question, given.next()) {
                (Question::Field(name), Some(Some(value))) => words.push(format!("{name} = {value}")),
                (_, Some(Some(value))) => words.push(format!("the answer {value}")),
                _ => {}
            },
            Action::Event(_) => {}
        }
    }
    let change = match entity.state_name(&after) {
        state if state == entity.state_name(progress.base()) => "change that".to_owned(),
        state => format!("make it {state}"),
    };
    (!words.is_empty()).then(|| (change, words.join(", ")))
}

/// What `waiting` needs and is not decided.
fn undecided<M: Model>(progress: &mut Progress<M>, waiting: &Delayed<M::Event>) -> Vec<Undecided> {
    let found = match waiting.as_linear() {
        Some(linear) if progress.is_exact() => undecided_cells(progress, linear),
        _ => Vec::new(),
    };
    if !found.is_empty() {
        return found;
    }
    let Some(outcomes) = progress.outcomes() else { return Vec::new() };
    if progress.spend(outcomes.len()).is_none() {
        return Vec::new();
    }
    let stops = outcomes.iter().filter_map(|state| progress.entity.step(&waiting.branch, state).err());
    let reason = stops.filter_map(|stop| stop.reasons.first().map(ToString::to_string)).next();
    reason.into_iter().map(|reason| Undecided::Rule { reason }).collect()
}

fn undecided_cells<M: Model>(progress: &Progress<M>, linear: &Linear) -> Vec<Undecided> {
    let mut found = Vec::new();
    if let Some(states) = progress.interval.contents(&Place::LIFE_CYCLE, progress)
        && states.len() > 1
        && !states.iter().all(|state| linear.states.contains(state))
    {
        found.push(Undecided::Content {
            name: "it".to_owned(),
            contents: states,
            needed: Some(linear.states.join(" or ")),
        });
    }
    for hold in &linear.holds {
        found.extend(content(progress, &hold.place, Some(&hold.value)));
    }
    for threshold in &linear.thresholds {
        let Some(ends) = progress.interval.ends(&threshold.terms, progress) else { continue };
        if holds_over(threshold.bound, ends.low, ends.high) != Span::All {
            found.push(number(progress, &threshold.terms, ends, Some(threshold)));
        }
    }
    found
}

fn number<M: Model>(progress: &Progress<M>, terms: &[Term], ends: Ends, needs: Option<&Threshold>) -> Undecided {
    Undecided::Number {
        name: sum_name(progress, terms),
        low: amount(progress, terms, ends.low),
        high: amount(progress, terms, ends.high),
        needed: needs.map(|threshold| needed(progress, threshold)),
    }
}

fn content<M: Model>(progress: &Progress<M>, place: &Place, needed: Option<&str>) -> Option<Undecided> {
    let contents = progress.interval.contents(place, progress).filter(|contents| contents.len() > 1)?;
    let name = progress.entity.place_name(place);
    Some(Undecided::Content { name, contents, needed: needed.map(str::to_owned) })
}

fn needed<M: Model>(progress: &Progress<M>, threshold: &Threshold) -> String {
    match threshold.bound {
        Bound::AtLeast(bound) => format!("at least {}", amount(progress, &threshold.terms, bound)),
        Bound::AtMost(bound) => format!("at most {}", amount(progress, &threshold.terms, bound)),
    }
}

/// `balance + overdraftLimit`
fn sum_name<M: Model>(progress: &Progress<M>, terms: &[Term]) -> String {
    let mut name = String::new();
    for (i, term) in terms.iter().enumerate() {
        name.push_str(match (i, term.negative) {
            (0, false) => "",
            (0, true) => "-",
            (_, false) => " + ",
            (_, true) => " - ",
        });
        name.push_str(&progress.entity.show(term.field, 0).0);
    }
    name
}

/// A value of a sum, in the unit of its fields.
fn amount<M: Model>(progress: &Progress<M>, terms: &[Term], value: i128) -> String {
    terms.first().map_or_else(|| value.to_string(), |term| progress.entity.show(term.field, value).1)
}

fn location_name<M: Model>(progress: &Progress<M>, location: &Location) -> String {
    match location {
        Location::Number(field) => progress.entity.show(*field, 0).0,
        Location::Place(place) => progress.entity.place_name(place),
    }
}

/// The open entries that change the verdict in some outcome of the others, with what becomes of `branch` then.
fn by_outcomes<M: Model>(progress: &mut Progress<M>, branch: &Branch<M::Event>) -> Vec<(usize, Prospect, Prospect)> {
    let mut found = Vec::new();
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
            found.push((position, if_committed, if_aborted));
        }
    }
    found
}

fn open_positions<M: Model>(progress: &Progress<M>) -> Vec<usize> {
    progress.open().map(|(position, _)| position).collect()
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

fn moves_any<M: Model>(entry: &Entry<M>, linear: &Linear) -> bool {
    let Some(footprint) = entry.taken.as_ref().map(|taken| &taken.footprint) else { return true };
    let open = &footprint.linear;
    linear.thresholds.iter().any(|threshold| footprint.moves(&threshold.terms))
        || linear.holds.iter().any(|hold| open.puts.iter().any(|put| put.place == hold.place))
        || open.puts.iter().any(|put| put.place == Place::LIFE_CYCLE)
}

fn by_interval<M: Model>(progress: &Progress<M>, linear: &Linear) -> Vec<(usize, Prospect, Prospect)> {
    let undecided: Vec<(&Threshold, Ends)> = linear
        .thresholds
        .iter()
        .filter_map(|threshold| {
            let ends = progress.interval.ends(&threshold.terms, progress)?;
            (holds_over(threshold.bound, ends.low, ends.high) != Span::All).then_some((threshold, ends))
        })
        .collect();
    let mut found = Vec::new();
    for (position, entry) in progress.open() {
        let Some(footprint) = entry.taken.as_ref().map(|taken| &taken.footprint) else { continue };
        let open = &footprint.linear;
        let is_term = |field| undecided.iter().any(|(needs, _)| needs.terms.iter().any(|term| term.field == field));
        let made = footprint.made().map(|made| made.field);
        if open.assigned.iter().map(|&(field, _)| field).chain(made).any(is_term) {
            found.push((position, Prospect::Depends, Prospect::Depends));
            continue;
        }
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
        found.push((position, prospect(true), prospect(false)));
    }
    // One that settles the matter says more than all those that do not.
    let settles = |&(_, committed, aborted): &(usize, Prospect, Prospect)| {
        committed != Prospect::Depends || aborted != Prospect::Depends
    };
    if found.iter().any(settles) {
        found.retain(settles);
    }
    found
}
