//! Which touches commute: neither decides what the other does, and their order does not show.

use super::{Mode, Place, Term, Touch};

/// Whether two touches of one instance commute, without a look at the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Commutes {
    /// In every state.
    Always,
    /// As long as the number is so far from the threshold that the change does not reach it.
    ByThreshold,
    /// If they are of different entries or elements, which the arguments tell.
    IfApart,
    /// Not in every state.
    No,
}

/// Whether two places have something in common.
enum Overlap {
    Never,
    /// If two terms stand for the same.
    Maybe,
    Always,
}

impl Mode {
    /// Whether a touch in this mode and one in `other` of the same place commute.
    ///
    /// They do if nothing changes, if both add, if both insert, or if both delete. What is added moves a number towards a threshold
    /// or away from it, so whether a test and an addition commute depends on the number. A call does not touch the place itself.
    #[must_use]
    pub fn commutes(self, other: Self) -> Commutes {
        match (self, other) {
            (Mode::Call, _) | (_, Mode::Call) => Commutes::Always,
            (a, b) if !a.is_write() && !b.is_write() => Commutes::Always,
            (a, b) if a == b && a != Mode::Assign => Commutes::Always,
            (Mode::Test, Mode::Add) | (Mode::Add, Mode::Test) => Commutes::ByThreshold,
            _ => Commutes::No,
        }
    }
}

impl Touch {
    /// Whether this touch and `other`, by events of two steps, commute if they are of one instance. Those of different instances
    /// always do.
    #[must_use]
    pub fn commutes(&self, other: &Self) -> Commutes {
        let of_size = |size: &Self, element: &Self| match (size.mode, element.mode) {
            // One element more or less, or none.
            (Mode::Test, mode) if mode.is_write() && element.place.is_part() => Commutes::ByThreshold,
            (a, b) => a.commutes(b),
        };
        let together = match (&self.place, &other.place) {
            (Place::Size(_), _) => of_size(self, other),
            (_, Place::Size(_)) => of_size(other, self),
            _ => self.mode.commutes(other.mode),
        };
        match self.overlap(other) {
            Overlap::Never => Commutes::Always,
            Overlap::Maybe if together == Commutes::No => Commutes::IfApart,
            _ => together,
        }
    }

    fn overlap(&self, other: &Self) -> Overlap {
        let (a, b) = (&self.place, &other.place);
        match (a, b) {
            (Place::Existence, Place::Existence) | (Place::State, Place::State) => Overlap::Always,
            _ if a.field().is_none() || a.field() != b.field() => Overlap::Never,
            (Place::Entry(_, a), Place::Entry(_, b)) | (Place::Element(_, a), Place::Element(_, b)) => same(a, b),
            // What is added to an entry that is there adds none.
            (Place::Size(_), Place::Entry(..)) if other.mode == Mode::Add => Overlap::Never,
            (Place::Entry(..), Place::Size(_)) if self.mode == Mode::Add => Overlap::Never,
            _ => Overlap::Always,
        }
    }
}

impl Place {
    /// The field that it is, or is a part of.
    #[must_use]
    pub fn field(&self) -> Option<&crate::value::Name> {
        match self {
            Place::Field(name) | Place::Entry(name, _) | Place::Element(name, _) | Place::Size(name) => Some(name),
            Place::Existence | Place::State | Place::Event(_) => None,
        }
    }

    fn is_part(&self) -> bool {
        matches!(self, Place::Entry(..) | Place::Element(..))
    }
}

/// Whether two terms of two events stand for the same: only what is written out is known to.
fn same(a: &Term, b: &Term) -> Overlap {
    match (a, b) {
        (Term::Literal(a), Term::Literal(b)) if a == b => Overlap::Always,
        (Term::Literal(_), Term::Literal(_)) => Overlap::Never,
        _ => Overlap::Maybe,
    }
}
