//! What can be told of events before they happen.
//!
//! * [`Class::relation`] - of two events, whatever the instance and the arguments: a table made when the
//!   specification is checked.
//! * [`Class::linear`] - of one call, whatever the instance: the thresholds it needs and the amounts it adds.
//! * [`Class::judge`] - of one call in all instances that lie within an [`Outline`].
//!
//! All three are sound: what they tell is what [`Class::next`] answers. None tells everything.

mod abstraction;
mod interval;
mod linear;
mod outline;
mod preservation;
mod relation;
mod sameness;

use std::cell::Cell;

pub use self::linear::{Bound, Delta, Linear, Term, Threshold};
pub use self::outline::{Judgement, Outline, Verdict};
pub(crate) use self::sameness::may_mismatch;
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
        self.relations.get(index(open)? * self.events.len() + index(incoming)?).copied()
    }
}

/// Completes checked classes with their tables.
pub(crate) fn with_relations(classes: Vec<Class>) -> Vec<Class> {
    let fuel = Cell::new(relation::FUEL);
    let table = |class: Class| Class { relations: relation::table(&class, &fuel), ..class };
    classes.into_iter().map(table).collect()
}
