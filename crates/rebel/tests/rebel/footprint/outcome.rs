//! What a step shows: whether it happens or why not, what it does and asks where, and what it leaves and returns.

use enact_rebel::{Action, Answered, Event, EventCall, Fault, Instance, Question, Reference, Spec, Value, Violation};

use crate::support::NOW;
use crate::universe::World;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Accepted {
        /// The instances that were touched.
        after: World,
        tasks: Vec<(usize, Reference, Action)>,
        result: Option<Value>,
    },
    Refused {
        path: Vec<(Reference, String)>,
        at: Reference,
        reasons: Vec<String>,
    },
}

impl Outcome {
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self, Outcome::Accepted { .. })
    }

    /// The instances that the step touches or asks, or that refuse it.
    pub(crate) fn met(&self) -> Vec<&Reference> {
        match self {
            Outcome::Accepted { tasks, .. } => tasks.iter().map(|(_, at, _)| at).collect(),
            Outcome::Refused { path, at, .. } => path.iter().map(|(at, _)| at).chain([at]).collect(),
        }
    }

    /// Whether what refuses is a sum that has no value.
    pub(crate) fn is_without_sum(&self) -> bool {
        let Outcome::Refused { reasons, .. } = self else { return false };
        reasons.iter().any(|reason| ["CurrencyMismatch", "NoElement"].iter().any(|fault| reason.contains(fault)))
    }
}

/// What becomes of a call; nothing if a due event comes first.
pub(crate) fn outcome(spec: &Spec, world: &World, target: &Reference, call: &EventCall) -> Option<Outcome> {
    let class = spec.class(&target.class).unwrap();
    if class.event(call.event()).is_some_and(Event::is_read) {
        return Some(read(spec, world, target, call));
    }
    match spec.step(world, target, call, NOW) {
        Ok(step) => {
            let tasks = step.work.into_iter();
            let tasks = tasks.flat_map(|(at, tasks)| {
                tasks.into_iter().map(move |task| (task.place, at.clone(), unanswered(task.action)))
            });
            let mut tasks: Vec<_> = tasks.collect();
            tasks.sort_by_key(|(place, ..)| *place);
            Some(Outcome::Accepted { after: step.after, tasks, result: step.result })
        }
        Err(refused) if matches!(refused.violations[..], [Violation::Due { .. }]) => None,
        Err(refused) => {
            let path = refused.path.into_iter().map(|(at, event)| (at, event.to_string())).collect();
            Some(Outcome::Refused { path, at: refused.at, reasons: refused.violations.iter().map(kind).collect() })
        }
    }
}

/// A read event asks what it needs, and returns.
fn read(spec: &Spec, world: &World, target: &Reference, call: &EventCall) -> Outcome {
    let get = |reference: &Reference| {
        let class = spec.class(&reference.class).unwrap();
        (class, world.get(reference).cloned().unwrap_or_else(|| class.initial()))
    };
    let (class, instance) = get(target);
    let (mut call, mut tasks) = (call.clone(), Vec::new());
    loop {
        let questions = class.questions(&target.key, &instance, &call, NOW);
        if questions.is_empty() {
            break;
        }
        let mut answers = call.answers().to_vec();
        for (of, question) in questions {
            let (class, instance) = get(&of);
            let answer = class.answer(&of.key, &instance, &question, NOW);
            tasks.push((tasks.len(), of.clone(), Action::Ask(question.clone())));
            answers.push(Answered { of, question, answer });
        }
        call = call.with_answers(answers);
    }
    match class.read(&target.key, &instance, &call, NOW) {
        Ok(value) => Outcome::Accepted { after: World::new(), tasks, result: Some(value) },
        Err(violations) => Outcome::Refused {
            path: vec![(target.clone(), call.event().to_string())],
            at: target.clone(),
            reasons: violations.iter().map(kind).collect(),
        },
    }
}

/// The action without the answers that it carries: they are those of the questions, which are actions themselves.
fn unanswered(action: Action) -> Action {
    let plain = |call: EventCall| call.with_answers(Vec::new());
    match action {
        Action::Do(call) => Action::Do(plain(call)),
        Action::Impossible(call) => Action::Impossible(plain(call)),
        Action::Ask(Question::Possible(call)) => Action::Ask(Question::Possible(plain(call))),
        Action::Ask(Question::Result(call)) => Action::Ask(Question::Result(plain(call))),
        other => other,
    }
}

/// Which reason it is, without the values that a text for people shows.
fn kind(violation: &Violation) -> String {
    let fault = |fault: &Fault| format!("{fault:?}").split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned();
    match violation {
        Violation::Guard { condition, .. } => format!("guard {condition}"),
        Violation::Invariant { condition, .. } => format!("invariant {condition}"),
        Violation::Arithmetic { fault: why, place, .. } => format!("{} in {place}", fault(why)),
        Violation::Condition { text, .. } => format!("condition {text}"),
        Violation::LifeCycle { event, .. } => format!("life cycle {event}"),
        other => format!("{other:?}"),
    }
}

/// The instance after an outcome.
pub(crate) fn after(spec: &Spec, world: &World, outcome: &Outcome, reference: &Reference) -> Instance {
    let changed = match outcome {
        Outcome::Accepted { after, .. } => after.get(reference),
        Outcome::Refused { .. } => None,
    };
    let found = changed.or_else(|| world.get(reference)).cloned();
    found.unwrap_or_else(|| spec.class(&reference.class).unwrap().initial())
}
