//! What an event touches: which places of which instances, and in which way.
//!
//! A [`Footprint`] follows from the text of an event and of all events that it calls. It holds of every instance, all
//! arguments and every time.
//!
//! It omits nothing: a place that no [`Touch`] reads decides neither on the verdict, nor on what the event calls, asks, returns or
//! makes of another place; and a place that no touch writes stays as it is. It may name more than happens in one state.
//!
//! # What is left out
//! * The range of numbers, the size of collections and fuel: a sum beyond the range of its type refuses the step, and the place that
//!   is added to is not named as read for that. The same holds of an amount in another currency, and of an entry that is not there.
//! * Due events: they are steps of their own, and come first.
//! * The identity, the time and the caller: nothing changes them.
//!
//! ```
//! use enact_rebel::footprint::{Commutes, Mode};
//! use enact_rebel::{Source, check};
//!
//! let spec = check(vec![Source::new("account.rebel", "
//!     class Account
//!       balance: Money = EUR 0.00
//!       initial none
//!         on Open(): open
//!       open
//!         on Withdraw(amount: Money)
//!           pre: amount > 0, balance - amount >= EUR 0.00
//!           post: this.balance -= amount
//!         on Pay(to: Account, amount: Money)
//!           sync:
//!             this.Withdraw(amount)
//!             to.Deposit(amount)
//!         on Deposit(amount: Money)
//!           pre: amount > 0
//!           post: this.balance += amount
//! ")]).unwrap();
//! let pay = spec.footprint("Account", "Pay").unwrap();
//! let touches: Vec<String> = pay.touches().iter().map(ToString::to_string).collect();
//! assert_eq!(
//!     touches,
//!     [
//!         "this: its state Read",
//!         "this: Withdraw(..) Call",
//!         "this: balance Test",
//!         "this: balance Add",
//!         "to: Deposit(..) Call",
//!         "to: its state Read",
//!         "to: balance Add",
//!     ]
//! );
//! assert_eq!(Mode::Add.commutes(Mode::Add), Commutes::Always);
//! assert_eq!(Mode::Add.commutes(Mode::Test), Commutes::ByThreshold);
//! ```

mod calls;
mod commutes;
mod names;
mod parts;
mod reads;
mod term;
mod updates;
mod walk;

use std::fmt;

use self::calls::Footprints;
pub use self::commutes::Commutes;
pub(super) use self::names::class_of;
pub(super) use self::parts::{Part, Parts, Role};
pub use self::term::Term;
use crate::model::Spec;
use crate::source::Span;
use crate::value::Name;

/// What an event touches, with all that it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    class: Name,
    event: Name,
    touches: Vec<Touch>,
    is_complete: bool,
}

/// One place of one instance, and how it is touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The instance. Two terms may stand for one instance.
    pub instance: Term,
    /// Its class.
    pub class: Name,
    /// The place.
    pub place: Place,
    /// How it is touched.
    pub mode: Mode,
    /// What touches it, in the text of the event or of the invariants and timers of its class: in the order of the source, each
    /// once. What a called or asked event touches has the place of the call or the question.
    pub because: Vec<Span>,
}

/// A place of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// Whether the instance exists.
    Existence,
    /// The state of the life cycle.
    State,
    /// A field as a whole.
    Field(Name),
    /// The entry of a field, which is a map, under a key.
    Entry(Name, Term),
    /// Whether a field, which is a set, has an element.
    Element(Name, Term),
    /// How many elements a field has.
    Size(Name),
    /// What an event touches there, as a whole: what that is in particular follows behind it.
    Event(Name),
}

/// How a place is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Something depends on its value.
    Read,
    /// The step demands that its number lies on one side of a threshold, or of several. Unless the place is read as well, nothing
    /// else depends on it: where all other places are the same, no number between two that are accepted is refused.
    Test,
    /// A number is added, which depends on the place only if that is read as well.
    Add,
    /// The element is put in.
    Insert,
    /// The element or the entry is taken out.
    Delete,
    /// It gets a value, which depends on the old one only if that is read as well.
    Assign,
    /// The event happens there.
    Call,
    /// Another instance is asked, and answers.
    Question,
}

impl Footprint {
    /// The class of the event.
    #[must_use]
    pub fn class(&self) -> &Name {
        &self.class
    }

    /// The event.
    #[must_use]
    pub fn event(&self) -> &Name {
        &self.event
    }

    /// The touches: those of one instance together, of which the instance of the event is the first and the others come in the
    /// order of the text, and those of one place together.
    #[must_use]
    pub fn touches(&self) -> &[Touch] {
        &self.touches
    }

    /// The touches of the instance of the event itself. Other terms may stand for it too.
    pub fn own(&self) -> impl Iterator<Item = &Touch> {
        self.touches.iter().filter(|touch| touch.instance == Term::This)
    }

    /// Whether it has all touches. One of an event whose calls touch more than
    /// [`FOOTPRINT_MAX`](crate::limits::FOOTPRINT_MAX) has those of the event itself, and some of those of its calls.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl Mode {
    /// Whether it may change the place.
    #[must_use]
    pub fn is_write(self) -> bool {
        matches!(self, Mode::Add | Mode::Insert | Mode::Delete | Mode::Assign)
    }
}

impl Spec {
    /// What the event of the class touches; `None` if there is none of these names.
    ///
    /// # Complexity
    /// Linear in the text of the event and in the touches of what it calls, up to [`FOOTPRINT_MAX`](crate::limits::FOOTPRINT_MAX)
    /// for each event. [`Spec::footprints`] shares what the events of a specification have in common.
    #[must_use]
    pub fn footprint(&self, class: &str, event: &str) -> Option<Footprint> {
        let class = self.classes.iter().position(|known| *known.name == *class)?;
        let event = self.classes[class].events.iter().position(|known| *known.name == *event)?;
        Some(Footprints::new(self).of((class, event)))
    }

    /// What each event touches, in the order of the classes and their events.
    pub fn footprints(&self) -> impl Iterator<Item = Footprint> {
        let mut footprints = Footprints::new(self);
        let events = self.classes.iter().enumerate();
        let ids = events.flat_map(|(class, found)| (0..found.events.len()).map(move |event| (class, event)));
        ids.map(move |id| footprints.of(id))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Existence => f.pad("its existence"),
            Place::State => f.pad("its state"),
            Place::Field(name) => f.pad(name),
            Place::Entry(name, key) => f.pad(&format!("{name}[{key}]")),
            Place::Element(name, element) => f.pad(&format!("{element} in {name}")),
            Place::Size(name) => f.pad(&format!("{name}.size")),
            Place::Event(name) => f.pad(&format!("{name}(..)")),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Read => "Read",
            Mode::Test => "Test",
            Mode::Add => "Add",
            Mode::Insert => "Insert",
            Mode::Delete => "Delete",
            Mode::Assign => "Assign",
            Mode::Call => "Call",
            Mode::Question => "Question",
        })
    }
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Touch { place, mode, .. } = self;
        match &self.instance {
            Term::Unknown => write!(f, "some {}: {place} {mode}", self.class),
            instance => write!(f, "{instance}: {place} {mode}"),
        }
    }
}
