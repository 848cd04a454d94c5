//! Whether both interpreters say the same.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use enact_rebel as rebel;
use enact_rebel::{Action, ArgumentError, Class, Instance, Name, Reference, Spec, Timely, Violation};

use crate::reason::{Fault, Reason, Refused};
use crate::step::{Task, Work};
use crate::timer::{Due, Happened, Outcome, due};
use crate::world::Thing;

/// In what the two interpreters differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    what: String,
    /// As the interpreter says.
    real: String,
    /// As this crate says.
    naive: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:\n  interpreter: {}\n  naive:       {}", self.what, self.real, self.naive)
    }
}

impl std::error::Error for Disagreement {}

/// Compares a step: what was due and how it ended, whether the step happens, what refuses it and why, what it does in which order, what it
/// returns, and each instance that has changed, with what is due there next.
///
/// # Errors
/// The first difference.
pub fn compare(spec: &Spec, real: &Timely, naive: &Outcome) -> Result<(), Disagreement> {
    equal("what was due", &real.due.iter().map(happened).collect::<Vec<_>>(), &naive.due)?;
    match (&real.result, &naive.result) {
        (Ok(real), Ok(naive)) => {
            equal("the result", &real.result, &naive.result)?;
            equal("what the step does", &tasks(&real.work), &naive.tasks)?;
            same_instances(spec, &real.after, &naive.after)?;
        }
        (Err(real), Err(naive)) => equal("the refusal", &refused(real), naive)?,
        (real, naive) => {
            let (real, naive) = (real.as_ref().map_err(ToString::to_string), naive.as_ref());
            return Err(differ("the verdict", &real, &naive));
        }
    }
    same_instances(spec, &real.after, &naive.after)
}

/// Compares an instance: state, fields, and the timed event that is next.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// If there is no class of the instance.
pub fn same_instance(spec: &Spec, of: &Reference, real: &Instance, naive: &Thing) -> Result<(), Disagreement> {
    let class: &Class = spec.class(&of.class).expect("a class");
    equal(&format!("the state of {of}"), real.state(), &naive.state)?;
    equal(&format!("the fields of {of}"), &Thing::new(real).fields, &naive.fields)?;
    let next = class.due(&of.key, real).as_ref().map(converted);
    equal(&format!("what is due at {of} next"), &next, &due(class, of, naive))
}

fn same_instances(
    spec: &Spec,
    real: &BTreeMap<Reference, Instance>,
    naive: &BTreeMap<Reference, Thing>,
) -> Result<(), Disagreement> {
    let addresses = |of: &mut dyn Iterator<Item = &Reference>| of.cloned().collect::<Vec<_>>();
    equal("the instances that change", &addresses(&mut real.keys()), &addresses(&mut naive.keys()))?;
    real.iter().try_for_each(|(of, real)| same_instance(spec, of, real, &naive[of]))
}

fn equal<T: Debug + PartialEq>(what: &str, real: &T, naive: &T) -> Result<(), Disagreement> {
    if real == naive { Ok(()) } else { Err(differ(what, real, naive)) }
}

fn differ(what: &str, real: &dyn Debug, naive: &dyn Debug) -> Disagreement {
    Disagreement { what: what.to_owned(), real: format!("{real:?}"), naive: format!("{naive:?}") }
}

fn happened(real: &rebel::Happened) -> Happened {
    Happened { target: real.target.clone(), due: converted(&real.due), refused: real.refused.as_ref().map(refused) }
}

fn converted(due: &rebel::Due) -> Due {
    Due { at: due.at, time: due.time, event: due.event.clone() }
}

fn refused(real: &rebel::Refused) -> Refused {
    let reasons = real.violations.iter().map(reason).collect();
    Refused { path: real.path.clone(), at: real.at.clone(), reasons }
}

/// The tasks at all instances, in their order.
fn tasks(work: &BTreeMap<Reference, Vec<rebel::Task>>) -> Vec<Task> {
    let mut tasks: Vec<(usize, Task)> = Vec::new();
    for (of, at) in work {
        tasks.extend(at.iter().map(|task| {
            let work = match &task.action {
                Action::Do(call) => Work::Do(call.event().clone()),
                Action::Ask(_) => Work::Ask,
                _ => Work::Demand,
            };
            (task.place, Task { of: of.clone(), work })
        }));
    }
    tasks.sort_by_key(|(place, _)| *place);
    tasks.into_iter().map(|(_, task)| task).collect()
}

fn reason(violation: &Violation) -> Reason {
    match violation {
        Violation::Key { .. } => Reason::Key,
        Violation::UnknownEvent { .. } => Reason::UnknownEvent,
        Violation::Argument(error) => Reason::Argument(argument(error).clone()),
        Violation::Role { .. } => Reason::Role,
        Violation::Internal { .. } => Reason::Internal,
        Violation::Read { .. } => Reason::Read,
        Violation::LifeCycle { .. } => Reason::LifeCycle,
        Violation::Guard { text, .. } => Reason::Guard(text.clone()),
        Violation::Invariant { text, .. } => Reason::Invariant(text.clone()),
        Violation::Condition { text, .. } => Reason::Condition(text.clone()),
        Violation::Arithmetic { fault: of, place, .. } => Reason::Fault(fault(of), place.clone()),
        Violation::Limit { what, .. } => {
            let known = ["events", "events and questions", "instances", "due events before it"];
            let known = known.into_iter().find(|known| **known == **what);
            Reason::Limit(known.unwrap_or_else(|| panic!("a limit that is not known: {what}")))
        }
        other => panic!("a reason that is not known: {other}"),
    }
}

/// The parameter that an argument is wrong for.
///
/// # Panics
/// At an error that is not known.
#[must_use]
pub fn argument(error: &ArgumentError) -> &Name {
    match error {
        ArgumentError::Missing { name, .. }
        | ArgumentError::Unknown { name, .. }
        | ArgumentError::Repeated { name, .. }
        | ArgumentError::Type { name, .. } => name,
        other => panic!("an error that is not known: {other}"),
    }
}

fn fault(real: &rebel::Fault) -> Fault {
    match real {
        rebel::Fault::Overflow => Fault::Overflow,
        rebel::Fault::CurrencyMismatch { .. } => Fault::CurrencyMismatch,
        rebel::Fault::Absent { .. } => Fault::Absent,
        rebel::Fault::Refused { .. } => Fault::Refused,
        rebel::Fault::NoSeed => Fault::NoSeed,
        rebel::Fault::TooManyElements => Fault::TooManyElements,
        rebel::Fault::NoKey => Fault::NoKey,
        rebel::Fault::DivisionByZero => Fault::DivisionByZero,
        rebel::Fault::Inexact => Fault::Inexact,
        rebel::Fault::NoElement { .. } => Fault::NoElement,
        rebel::Fault::IsNone => Fault::IsNone,
        rebel::Fault::TwoValues { .. } => Fault::TwoValues,
        rebel::Fault::OutOfRange => Fault::OutOfRange,
        rebel::Fault::TooLong => Fault::TooLong,
        other => panic!("a fault that is not known: {other}"),
    }
}
