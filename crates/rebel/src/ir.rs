//! The checked specification as a tree to read: every name resolved, every expression with its type and its place.
//!
//! Begins at [`Spec::classes`](crate::Spec::classes): [`Event::ways`](crate::Event::ways) has what an event does, and
//! [`Class::invariants`](crate::Class::invariants) what always holds. It is what charts, generators of code and checkers are made
//! from; the interpreter runs on the same tree. Nothing of it can be built or changed from outside.
//!
//! ```
//! use enact_rebel::ir::{Comparison, ExprKind};
//! use enact_rebel::{Source, Type, check};
//!
//! let text = "
//!     class Tank
//!       litres: Integer = 0
//!       initial empty
//!         on Fill(by: Integer): filled
//!           let: level = litres + by
//!           pre: level <= 100
//!           post: this.litres = level
//!       filled
//! ";
//! let spec = check(vec![Source::new("tank.rebel", text)]).unwrap();
//! let fill = &spec.class("Tank").unwrap().event("Fill").unwrap().ways()[0];
//!
//! let ExprKind::Compare(Comparison::LessOrEqual, _, level, _) = fill.body.guards[0].expr.kind() else { panic!() };
//! let ExprKind::Let(level) = level.kind() else { panic!() };
//! let place = level.value.span();
//! assert_eq!((&*level.name, level.value.ty()), ("level", &Type::Integer));
//! assert_eq!(&text[place.start..place.end], "litres + by");
//! ```

pub use crate::model::expr::{
    Act, Aggregate, Arguments, Asks, Comparison, Effect, EffectOperator, Expr, ExprKind, Fold, Let, NumberKind,
    Operator, Query, Returned, Rule, Slot, Statement, Update, Way,
};
pub use crate::model::{Body, Builtin, Function, Timer, Transition};
