//! Which constructs have been evaluated, so that a test can demand all of them.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::mem::{Discriminant, discriminant};

use enact_rebel::ir::{Builtin, EffectOperator, ExprKind, Fold, Update};

/// What was met: operators, functions, aggregates and updates by their names in [`enact_rebel::ir`], faults, and reasons of refusals.
pub type Coverage = BTreeSet<String>;

#[derive(Default)]
struct Met {
    kinds: HashSet<Discriminant<ExprKind>>,
    builtins: HashSet<Discriminant<Builtin>>,
    folds: HashSet<Discriminant<Fold>>,
    updates: HashSet<Discriminant<Update>>,
    operators: HashSet<Discriminant<EffectOperator>>,
    named: Coverage,
}

thread_local! {
    static MET: RefCell<Met> = RefCell::default();
}

/// What this thread has met.
#[must_use]
pub fn coverage() -> Coverage {
    MET.with_borrow(|met| met.named.clone())
}

pub(crate) fn kind(kind: &ExprKind) {
    MET.with_borrow_mut(|met| {
        if met.kinds.insert(discriminant(kind)) {
            met.named.insert(name(kind));
        }
    });
}

pub(crate) fn builtin(builtin: &Builtin) {
    MET.with_borrow_mut(|met| {
        if met.builtins.insert(discriminant(builtin)) {
            met.named.insert(format!("Apply {}", name(builtin)));
        }
    });
}

pub(crate) fn fold(fold: &Fold) {
    MET.with_borrow_mut(|met| {
        if met.folds.insert(discriminant(fold)) {
            met.named.insert(format!("Aggregate {}", name(fold)));
        }
    });
}

pub(crate) fn update(update: &Update) {
    MET.with_borrow_mut(|met| {
        if met.updates.insert(discriminant(update)) {
            met.named.insert(format!("Update {}", name(update)));
        }
        if let Update::At { operator, .. } = update
            && met.operators.insert(discriminant(operator))
        {
            met.named.insert(format!("Update {}", name(operator)));
        }
    });
}

/// Takes down a reason or a fault.
pub(crate) fn mark(what: &str, of: &impl Debug) {
    MET.with_borrow_mut(|met| met.named.insert(format!("{what} {}", name(of))));
}

/// The name of a variant, without what is in it.
fn name(of: &impl Debug) -> String {
    let text = format!("{of:?}");
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len());
    text[..end].to_owned()
}
