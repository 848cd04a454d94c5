//! What can be told of events before they happen.
//!
//! * [`Class::relation`] - of two events, whatever the instance and the arguments: a table made when the
//!   specification is checked.
//! * [`Class::linear`] - of one call, whatever the instance: the thresholds it needs and the amounts it adds.
//! * [`Class::changes`] - of one call, whatever the instance: which places it changes, and how.
//! * [`Class::effects`] - of one call, whatever the instance: what it does to each field, and on which others it depends.
//! * [`Class::judge`] - of one call in all instances that lie within an [`Outline`].
//! * [`footprint`] - of one event, whatever the instance and the arguments: which places it touches, with all that it calls.
//! * [`scaling`] - of two events, whatever the instance and the arguments: what admission will make of them together.
//!
//! All are sound: what they tell is what [`Class::next`] answers. None tells everything.

mod abstraction;
mod change;
mod effect;
mod effects;
pub mod footprint;
mod interval;
mod linear;
mod lints;
mod outline;
mod preservation;
mod relation;
mod sameness;
pub mod scaling;

use std::cell::Cell;

pub use self::change::{Change, Manner};
pub(crate) use self::effect::reads;
pub use self::effects::Effects;
pub use self::linear::{Bound, Content, Delta, Linear, Place, Term, Threshold};
pub use self::outline::{Judgement, Outline, Verdict};
pub(crate) use self::sameness::may_mismatch;
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::limits::{FUEL, RELATED_EVENTS_MAX};
use crate::model::Class;

/// How the verdict on an event depends on another one that was accepted and may still commit or abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Refused either way: in every instance in which the open event can be in progress, and in what it makes of it.
    Never,
    /// The same verdict either way, and the same [`Class::syncs`]: one evaluation in the base decides.
    ///
    /// Up to the range of numbers. Amounts that add up past it are a fault that only one of the two ways meets, and
    /// an evaluation in the base cannot see it: an admission by this relation also asks [`Class::judge`], or bounds
    /// amounts otherwise.
    Invariant,
    /// Neither is shown: the verdict may depend on how the open event ends.
    Dynamic,
}

impl Class {
    /// The relation of `incoming` to `open`, by the names of the events; `None` if the class lacks one of them.
    ///
    /// # Complexity
    /// O(events) to find the names; the answer stands in a table.
    #[must_use]
    pub fn relation(&self, open: &str, incoming: &str) -> Option<Relation> {
        let index = |name: &str| self.events.iter().position(|event| *event.name == *name);
        let cell = index(open)? * self.events.len() + index(incoming)?;
        Some(self.relations.get(cell).copied().unwrap_or(Relation::Dynamic))
    }
}

/// Completes checked classes with their tables, and says what can hardly be meant.
pub(crate) fn analyse(classes: Vec<Class>, report: &mut Report) -> Vec<Class> {
    for class in &classes {
        let fuel = Cell::new(FUEL);
        lints::lints(class, &classes, &fuel).into_iter().for_each(|diagnostic| report.push(diagnostic));
    }
    classes.into_iter().map(|class| with_relations(class, report)).collect()
}

fn with_relations(class: Class, report: &mut Report) -> Class {
    let fuel = Cell::new(relation::FUEL);
    let has_table = class.events.len() <= RELATED_EVENTS_MAX;
    let relations = if has_table { relation::table(&class, &fuel) } else { Vec::new() };
    if !has_table || fuel.get() == 0 {
        let message = format!("which events of `{}` get along takes too long to find out", class.name);
        let missing = if has_table { "a part of its table is missing" } else { "it has no table" };
        let diagnostic = Diagnostic::new(Code::AnalysisLimit, class.span, message, missing);
        let help = "where the table says nothing, an event is compared with every outcome of those that are open; \
                    fewer events, or guards over fewer fields, make the table complete";
        report.push(diagnostic.help(help));
    }
    Class { relations, ..class }
}
