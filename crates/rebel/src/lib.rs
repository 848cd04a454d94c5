//! Rebel: a small, total language for objects with a life cycle, guards, effects and atomic synchronisation.
//!
//! A specification is the contract of what must never go wrong, in the words of those who know the business. It is
//! executable as it stands: the same functions check, decide, apply, simulate and audit.
//!
//! ```
//! use enact_rebel::{Source, Timestamp, Value, check};
//!
//! let spec = check(vec![Source::new("account.rebel", r#"
//!     class Account
//!       accountNumber: Iban @identity
//!       balance: Money
//!
//!       initial init
//!         on Open(initialDeposit: Money): opened
//!           pre: initialDeposit ≥ €0
//!           post: this.balance ≡ initialDeposit
//!
//!       opened
//!         on Withdraw(amount: Money): opened
//!           pre: amount > €0, "insufficient funds": balance - amount ≥ €0
//!           post: this.balance -= amount
//!         on Close(): closed
//!
//!       final closed
//! "#)])?;
//! let account = spec.class("Account").unwrap();
//! let (key, now) = (account.key("NL91 ABNA 0417 1643 00")?, Timestamp::from_millis(0));
//! let euro = |text: &str| Value::Money(text.parse().unwrap());
//!
//! let open = account.event("Open").unwrap().call([("initialDeposit", euro("EUR 100.00"))]).unwrap();
//! let opened = account.next(&key, &account.initial(), &open, now).unwrap();
//! let withdraw = account.event("Withdraw").unwrap().call([("amount", euro("EUR 130.00"))]).unwrap();
//! let refused = account.next(&key, &opened, &withdraw, now).unwrap_err();
//! assert_eq!(
//!     refused[0].to_string(),
//!     "insufficient funds: `balance - amount ≥ €0`, where balance = EUR 100.00, amount = EUR 130.00"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The language
//! * A **class** has fields, states and events. `@identity` marks the field, or the fields, by which
//!   instances are addressed; without one, any text addresses them.
//! * Exactly one **state** is `initial`: there an instance does not exist yet. It is left once and never entered. No
//!   event leaves a `final` state. A state that is named several times is one state; `opened, blocked` before events
//!   declares them for both. An event without a target stays in its state.
//! * `pre:` lists **guards**; all must hold. A text before one (`"insufficient funds": ..`) is what a refusal says.
//! * `roles a, b` declares **roles**; an event `by a` demands one of the caller of the step. Events read `caller.id` and
//!   `caller has a`.
//! * `let:` **names values** that guards, effects and calls read.
//! * `post:` lists **effects**: `this.f = e` (or `==`, `≡`), `this.f += e`, `this.f -= e`. `this.f` is the new value, a bare
//!   `f` the old one, in all effects. A field without an effect keeps its value. An event that creates an instance gives
//!   every field a value that has no default. Effects stand under `if c:`, `else:` and `for x in xs:` too; all happen at once.
//! * `sync:` lists **calls** of events of other instances that happen in the same atomic step, or not at all:
//!   `to.Deposit(amount)`, `not x.Close()` (it could not happen), `if c: x.E()`, `for x in set: x.E()`. An `internal`
//!   event only happens that way. Events may not call each other in a circle. Calls happen in the order of the text,
//!   each with all that it calls; each sees what came before, also on the same instance.
//! * An event **asks** other instances: `x is opened`, `x is {opened, blocked}`, `x is initialized`, `finalized x`, the value of
//!   a field `x.f`, `can x.Event(..)`. `x` may be a path `a.b` or `Class[key]`. The event carries the answers, so that it is
//!   decided and replayed on its own instance alone. `initialized x` and `x instate opened` are other spellings.
//! * `name = fresh(C)` in `let:` names a **new instance**, under an identity that follows from the seed of the call.
//! * An event with a **result**, `on E(..) -> T`, has a section `return:` with the value that its client gets.
//! * A **read** event, `read on E(..) -> T`, only answers: to other events, which ask `x.E(..)`, and to clients.
//! * An event with **variants** happens in the first of them whose guards hold; each has a target, guards, effects and calls
//!   of its own.
//! * **Values** may be optional (`T?`, `x ?? d`, `x!`), records, lists, sets and maps; there are numbers with decimals, times and spans
//!   of time, and functions on all of them.
//! * `all any count first last list map max min set sort sum` **aggregate** the elements of a set, a list or a range `a .. b`:
//!   `sum(x in xs where c: e)`.
//! * An **invariant** holds of every instance after every step.
//! * `now` and `today` are the time of the event, as its caller states it.
//! * Parameters of events and functions, and fields of records, may have **defaults**. A call carries those that it leaves out.
//! * `const`, `fn` and `enum` name values, expressions and alternatives. Nothing is recursive: every evaluation ends.
//! * Amounts of different currencies are unequal. To add them, or to ask which is less, is a fault, and the step is
//!   refused. The literal `0` is zero in every currency and can be compared with any amount.
//! * `and`, `or` and `if` evaluate from left to right and stop when they are decided; what is not evaluated cannot fault. An
//!   invariant that faults does not hold.
//! * `Money * Percentage` is exact and then rounded to minor units by the rule that the file declares
//!   (`rounding half-up`; [`Rounding::HalfEven`] without a declaration).
//! * `module name version 2` states the **version** of a contract, and `migrate from 1` what becomes of the instances of an
//!   earlier one.
//!
//! Line breaks and indentation separate, `//` and `/* */` are comments, `///` documents what follows. The reference, with
//! grammar, types, operators and an example of each construct, is `docs/rebel.md` in the repository.
//!
//! # Where to look
//! * [`check`] - from sources to a [`Spec`], or a [`Report`] that says where and what to do.
//! * [`Spec::step`] - one atomic step over many instances: what an event does with all that it calls.
//! * [`Class::questions`], [`Class::act`], [`Class::syncs`], [`Class::broken_invariants`], [`Class::verify`] - its parts on one
//!   instance.
//! * [`Spec::migration`] - from the instances of one version to those of the next.
//! * [`ir`] - the specification as a tree, for programs that draw it, check it or make something else of it.
//! * [`Class::relation`], [`Class::linear`], [`Class::changes`], [`Class::judge`] - what admission may know in advance.
//! * [`footprint`] - which places of which instances an event touches, and which events commute.
//! * [`scaling`] - which events of a class may be in progress at one instance at the same time.
//! * [`Value`], [`Instance`], [`EventCall`] - what is stored and sent; serialised with names and text forms.
//!
//! # What it never does
//! It reads no clock, file or socket, starts no thread, holds no global state, and panics on no input: sources, values,
//! instances and calls may all come from outside. Everything it does is bounded by [`limits`].
//!
//! # Source
//! The surface is that of Listing 2 of *Path-Sensitive Atomic Commit: Local Coordination Avoidance for Distributed
//! Transactions*, made formal; Rebel itself goes back to Stoel, van der Storm, Vinju and Bosman.
#![forbid(unsafe_code)]

mod analysis;
mod caller;
mod check;
mod diagnostic;
mod evaluate;
mod format;
mod instance;
pub mod ir;
pub mod limits;
mod migration;
mod model;
mod seed;
mod source;
mod step;
mod syntax;
mod value;
mod violation;

pub use self::analysis::{
    Bound, Change, Content, Delta, Effects, Judgement, Linear, Manner, Outline, Place, Relation, Term, Threshold,
    Verdict,
};
pub use self::analysis::{footprint, scaling};
pub use self::caller::{Caller, CallerError};
pub use self::check::check;
pub use self::diagnostic::{Code, Diagnostic, Edit, Label, Position, Report};
pub use self::format::{Style, essence, format, only_adds_classes, say_the_same};
pub use self::instance::{Action, Answered, ArgumentError, EventCall, Instance, Question, Sync};
pub use self::migration::{Migration, Transformed};
pub use self::model::{Class, Due, Event, Field, Module, Param, Spec, State, StateKind};
pub use self::source::{Source, Span};
pub use self::step::{Accepted, Happened, Refused, Task, Timely, World, in_order};
pub use self::syntax::Heading;
pub use self::value::{
    Bindings, Currency, Date, Decimal, Duration, Enumeration, Fault, Iban, Id, Key, KeyType, Money, Name, Percentage,
    Period, RecordType, RecordValue, Reference, Rounding, Sealed, Time, Timestamp, Type, Value, ValueError, Variant,
};
pub use self::violation::Violation;
