//! Which events of a class may be in progress at one instance at the same time, as admission will decide it.
//!
//! # Question
//! An event `open` was admitted and may yet commit or abort. What becomes of `incoming`, whatever the instance and the
//! arguments? Admission decides that with the arguments and the instance at hand; this is what the text says of all of them.
//!
//! # Method
//! * The relation of events says *never*, and where a verdict is the same before and after another event.
//! * The parts of both events touch places, as footprints tell. A place that one changes and the other touches is a reason, unless
//!   what is demanded of it survives every change (`analysis/preservation.rs`).
//! * What both change is compared by [`Manner`](crate::Manner), as admission does it: a map or a list is one place.
//! * The life cycle is played through, state by state.
//! * How well admission knows an event ([`Precision`]) says where it is stricter: beside an event that is more than thresholds and
//!   constants, what is one waits for all that this event reads.
//!
//! The weakest of the reasons is what the pair is.
//!
//! # What it assumes
//! Both events are the only ones that their transactions have at the instance, which keeps its invariants. Left out are the range of
//! numbers, amounts of another currency than the one that is there, and what is due first.

mod changes;
mod life_cycle;
mod pair;
mod precision;

use std::cell::Cell;
use std::collections::HashMap;

use self::pair::Side;
pub use self::precision::{Because, Precision};
use super::Relation;
use super::footprint::{Parts, Place, class_of};
use super::relation;
use crate::model::expr::{Act, Asks, ExprKind, Statement};
use crate::model::{Class, Spec};
use crate::source::Span;
use crate::value::Name;

/// How an event that arrives at an instance gets along with one that is in progress there.
///
/// The order is that of how much it waits; *never* stands apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Concurrency {
    /// It is refused, however the other one ends.
    Never,
    /// It is admitted beside the other one wherever it is possible.
    Together,
    /// So it is as long as they are about different elements or entries.
    UnlessSame,
    /// So it is as long as no number is so near a threshold that one of them moves it past.
    WhileFar,
    /// It does not wait if its transaction does nothing else: it is admitted behind the other one and applied after it. Part of a
    /// larger transaction, it waits.
    InLine,
    /// It may have to wait in any case: how the other one ends may decide its verdict, what it calls or what it returns.
    Turns,
}

/// What one of two events does with the place that they meet in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Does {
    /// It demands that the number is on one side of a threshold.
    Compares,
    /// Whether it is possible depends on what is there.
    Needs,
    /// What it calls, or demands of others, depends on what is there.
    Calls,
    /// What it returns depends on what is there.
    Returns,
    /// When another event is due depends on what is there.
    Times,
    /// It makes the value of another field of it.
    Uses,
    /// It adds a number.
    Adds,
    /// It puts an element in.
    Inserts,
    /// It takes an element out.
    Removes,
    /// It gives it a value that is the same in each call.
    Assigns,
    /// It gives it a value that follows from the arguments, the time or what others answer.
    AssignsArguments,
    /// It makes a value of the one that is there.
    Computes,
    /// It makes a value that depends on other fields.
    ComputesOfOthers,
    /// It changes a part of a collection or a record, which admission takes as a whole.
    Alters,
    /// It leads to another state.
    Moves,
    /// It is possible in some states only, and stays in its state.
    Stays,
}

/// Why two events do not simply get along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What would be left of the pair if there were no other reason.
    pub concurrency: Concurrency,
    /// Where they meet. Of elements and entries it is that of the event that arrives.
    pub place: Place,
    /// What the open event does there.
    pub open: Does,
    /// Where that stands.
    pub open_span: Span,
    /// What the event does there that arrives.
    pub incoming: Does,
    /// Where that stands.
    pub incoming_span: Span,
    /// Whether equal arguments are no reason to wait.
    pub equal_together: bool,
    /// Whether they could get along if admission knew one of the events as [`Precision::Exact`].
    pub by_precision: bool,
}

/// An event that arrives while another one is in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The position of the event in progress among [`Scaling::events`].
    pub open: usize,
    /// That of the event that arrives.
    pub incoming: usize,
    /// How they get along.
    pub concurrency: Concurrency,
    /// Why, the weightiest first; one for each place and what both do there.
    pub reasons: Vec<Reason>,
}

/// What is said of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The event.
    pub event: Name,
    /// Where its name stands.
    pub span: Span,
    /// How well admission knows it.
    pub precision: Precision,
    /// A comparison of a sum of which it changes several fields. Ends of the fields may leave that undecided; then outcomes decide.
    pub sum: Option<Span>,
    /// Whether it always leads to another state, so that it happens once before others do.
    pub moves: bool,
    /// Whether others ask if it is possible, or demand that it is not: where they do. Such a question is judged by all outcomes.
    pub asked: Vec<Span>,
}

/// How the events of a class get along at one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaling {
    class: Name,
    span: Span,
    events: Vec<Profile>,
    pairs: Vec<Pair>,
    timer: Option<Span>,
}

impl Scaling {
    /// The class.
    #[must_use]
    pub fn class(&self) -> &Name {
        &self.class
    }

    /// Where its name stands.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span
    }

    /// The events in the order of the source, read events left out.
    #[must_use]
    pub fn events(&self) -> &[Profile] {
        &self.events
    }

    /// All ordered pairs, row by row: the open event first.
    #[must_use]
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// The pair of two events by their names; `None` if the class lacks one of them.
    #[must_use]
    pub fn pair(&self, open: &str, incoming: &str) -> Option<&Pair> {
        let index = |name: &str| self.events.iter().position(|profile| *profile.event == *name);
        self.pairs.get(index(open)? * self.events.len() + index(incoming)?)
    }

    /// How many pairs are decided whatever the values are: never, or together.
    #[must_use]
    pub fn decided(&self) -> usize {
        let is_decided = |pair: &&Pair| matches!(pair.concurrency, Concurrency::Never | Concurrency::Together);
        self.pairs.iter().filter(is_decided).count()
    }

    /// The positions of the events that do not scale: those that wait for one another even where they are about different elements
    /// and far from all thresholds.
    pub fn serial(&self) -> impl Iterator<Item = usize> {
        let own = self.pairs.iter().filter(|pair| pair.open == pair.incoming);
        own.filter(|pair| pair.concurrency >= Concurrency::InLine).map(|pair| pair.open)
    }

    /// A timer of the class, if it has one: then admission judges every event that may change what is due by all outcomes, and every
    /// other one as long as such an event is in progress.
    #[must_use]
    pub fn timer(&self) -> Option<Span> {
        self.timer
    }
}

impl Spec {
    /// How the events of each class get along, in the order of the source. External classes are left out.
    ///
    /// # Complexity
    /// The pairs of each class times what its events touch.
    pub fn scaling(&self) -> impl Iterator<Item = Scaling> {
        let (parts, asked) = (Parts::new(self), self.asked());
        let classes = self.classes.iter().filter(|class| !class.is_external);
        classes.map(move |class| scaling(class, &parts, &asked))
    }
    /// Where it is asked whether an event is possible.
    fn asked(&self) -> Asked<'_> {
        let mut found = Asked::new();
        let bodies = self.classes.iter().flat_map(|class| &class.events).flat_map(|event| &event.transitions);
        for body in bodies.map(|transition| &transition.body) {
            body.statements.iter().for_each(|statement| asks_in(statement, &mut found));
            for expr in body.expressions() {
                expr.walk(&mut |expr| {
                    if let ExprKind::Ask(of, query) = &expr.kind
                        && let Asks::Possible { event, .. } = &query.asks
                        && let Some(class) = class_of(of.ty())
                    {
                        found.entry((class, event)).or_default().push(expr.span());
                    }
                });
            }
        }
        for spans in found.values_mut() {
            spans.sort_unstable();
            spans.dedup();
        }
        found
    }
}

/// By class and event.
type Asked<'a> = HashMap<(&'a Name, &'a Name), Vec<Span>>;

/// How the events of `class` get along.
fn scaling(class: &Class, parts: &Parts<'_>, asked: &Asked<'_>) -> Scaling {
    let fuel = Cell::new(relation::FUEL);
    let events = class.events.iter().filter(|event| !event.read);
    let sides: Vec<Side<'_>> = events.map(|event| Side::new(parts, class, event)).collect();
    let mut pairs = Vec::with_capacity(sides.len() * sides.len());
    for (open, first) in sides.iter().enumerate() {
        for (incoming, second) in sides.iter().enumerate() {
            let reasons = match class.relation(&first.event.name, &second.event.name) {
                Some(Relation::Never) => None,
                _ => Some(pair::reasons(class, first, second, &fuel)),
            };
            let concurrency = match &reasons {
                None => Concurrency::Never,
                Some(reasons) => reasons.first().map_or(Concurrency::Together, |reason| reason.concurrency),
            };
            pairs.push(Pair { open, incoming, concurrency, reasons: reasons.unwrap_or_default() });
        }
    }
    let profile = |side: &Side<'_>| Profile {
        event: side.event.name.clone(),
        span: side.event.span,
        precision: side.precision,
        sum: side.sum(),
        moves: side.event.transitions.iter().all(|way| way.source != way.target),
        asked: asked.get(&(&class.name, &side.event.name)).cloned().unwrap_or_default(),
    };
    let timer = class.timers.first().map(|timer| timer.span);
    Scaling { class: class.name.clone(), span: class.span, events: sides.iter().map(profile).collect(), pairs, timer }
}

fn asks_in<'a>(statement: &'a Statement, found: &mut Asked<'a>) {
    match statement {
        Statement::Act { class, act: Act::Impossible { event, .. }, span, .. } => {
            found.entry((class, event)).or_default().push(*span);
        }
        Statement::Act { .. } => {}
        Statement::If(_, inner, _) | Statement::For(_, inner, _) => {
            inner.iter().for_each(|statement| asks_in(statement, found));
        }
    }
}
