//! One atomic step.

use std::collections::{BTreeMap, BTreeSet};

use enact_rebel::{Class, Event, Id, Name, Reference, Spec, Timestamp, Value};

use crate::act::{Cause, Condition, Holds, Verdict, broken_invariants, judge};
use crate::coverage;
use crate::expression::{Answer, Question, What};
use crate::reason::{Reason, Refused};
use crate::timer::first_due;
use crate::world::{Call, Thing, World, is_initial, thing};

/// How many events and questions one step has at most.
const ACTS: usize = 10_000;

/// How many instances one step touches or asks at most.
const INSTANCES: usize = 1_000;

/// A step that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The instances to which an event has happened, as the step leaves them.
    pub after: BTreeMap<Reference, Thing>,
    /// What the first event returns.
    pub result: Option<Value>,
    /// What the step does, in order.
    pub tasks: Vec<Task>,
}

/// One thing that a step does at an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The instance.
    pub of: Reference,
    /// What it does there.
    pub work: Work,
}

/// What a step does at an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// The event happens.
    Do(Name),
    /// The instance is asked something.
    Ask,
    /// A condition is looked at.
    Demand,
}

/// Why a step has not happened.
pub(crate) enum Ends {
    Refused(Refused),
    /// An event of this instance is due, and comes first.
    IsEarly(Reference),
}

/// The step that begins with `call` on `target`, if nothing that is due comes first.
pub(crate) fn once(
    spec: &Spec,
    world: &World,
    target: &Reference,
    call: &Call,
    cause: Cause,
    at: Timestamp,
) -> Result<Accepted, Ends> {
    let mut step = Step::new(spec, world, cause, at);
    let is_internal = |class: &Class| class.event(&call.event).is_some_and(Event::is_internal);
    if cause == Cause::Call && spec.class(&target.class).is_some_and(|class| is_internal(class)) {
        return Err(step.refused(&[], target, vec![Reason::Internal]));
    }
    let result = step.happen(target, call, cause, &[])?;
    for of in &step.touched {
        let class = step.class(of);
        let broken = broken_invariants(class, of, &thing(world, class, of), &step.met[of]);
        if !broken.is_empty() {
            return Err(step.refused(&[], of, broken));
        }
    }
    let after = step.touched.iter().map(|of| (of.clone(), step.met[of].clone())).collect();
    Ok(Accepted { after, result, tasks: step.tasks })
}

/// What a read event returns that is asked from outside.
///
/// # Errors
/// Why it returns nothing.
///
/// # Panics
/// If something is due at an instance that it meets, and at a construct that is not known.
pub fn read(spec: &Spec, world: &World, target: &Reference, call: &Call, at: Timestamp) -> Result<Value, Refused> {
    match Step::new(spec, world, Cause::Call, at).judged(target, call, Cause::Call, &[]) {
        Ok(deed) => Ok(deed.result.expect("a read event returns something")),
        Err(Ends::Refused(refused)) => Err(refused),
        Err(Ends::IsEarly(of)) => panic!("something is due at {of}"),
    }
}

struct Step<'a> {
    spec: &'a Spec,
    world: &'a World,
    /// Of the first event.
    cause: Cause,
    at: Timestamp,
    /// The instances met so far, as the step leaves them.
    met: World,
    touched: BTreeSet<Reference>,
    tasks: Vec<Task>,
    acts: usize,
}

type Path<'a> = &'a [(Reference, Name)];

impl<'a> Step<'a> {
    fn new(spec: &'a Spec, world: &'a World, cause: Cause, at: Timestamp) -> Self {
        let (met, touched) = (World::new(), BTreeSet::new());
        Self { spec, world, cause, at, met, touched, tasks: Vec::new(), acts: 0 }
    }

    /// One event and all that it calls.
    fn happen(&mut self, of: &Reference, call: &Call, cause: Cause, path: Path<'_>) -> Result<Option<Value>, Ends> {
        let path = &[path, &[(of.clone(), call.event.clone())]].concat()[..];
        self.count(of, path, "events")?;
        let class = self.class(of);
        if class.event(&call.event).is_some_and(Event::is_read) {
            self.meet(of, path)?;
            // What refuses it otherwise is said first.
            let verdict = judge(class, of, &self.met[of], call, cause, self.at, &[]);
            let reasons = match verdict {
                Verdict::Refused(reasons) if reasons.iter().all(comes_before_reading) => reasons,
                _ => vec![Reason::Read],
            };
            return Err(self.refused(path, of, reasons));
        }
        let deed = self.judged(of, call, cause, path)?;
        self.demand(&deed.conditions, path)?;
        self.tasks.push(Task { of: of.clone(), work: Work::Do(call.event.clone()) });
        self.touched.insert(of.clone());
        self.met.insert(of.clone(), deed.after);
        for (of, call) in deed.calls {
            self.happen(&of, &call, Cause::Call, path)?;
        }
        Ok(deed.result)
    }

    /// What an event does, with the answers that others give at the moment.
    fn judged(&mut self, of: &Reference, call: &Call, cause: Cause, path: Path<'_>) -> Result<crate::act::Deed, Ends> {
        let class = self.class(of);
        self.meet(of, path)?;
        let mut answers: Vec<Answer> = Vec::new();
        loop {
            match judge(class, of, &self.met[of], call, cause, self.at, &answers) {
                Verdict::Happens(deed) => return Ok(*deed),
                Verdict::Refused(reasons) => return Err(self.refused(path, of, reasons)),
                Verdict::Asks(questions) => {
                    assert!(!questions.is_empty(), "it waits for something");
                    for question in questions {
                        let answer = self.answer(&question, path)?;
                        answers.push((question, answer));
                    }
                }
            }
        }
    }

    fn answer(&mut self, question: &Question, path: Path<'_>) -> Result<Option<Value>, Ends> {
        let of = &question.of;
        self.count(of, path, "events and questions")?;
        self.meet(of, path)?;
        self.tasks.push(Task { of: of.clone(), work: Work::Ask });
        let (class, asked) = (self.class(of), self.met[of].clone());
        Ok(match &question.what {
            What::Field(name) => asked.fields.get(name).cloned(),
            What::Exists => Some(Value::Boolean(!is_initial(class, &asked.state))),
            What::IsIn(states) => Some(Value::Boolean(states.contains(&asked.state))),
            What::Can(call) => Some(Value::Boolean(self.is_possible(of, call))),
            What::Result(call) => match judge(class, of, &asked, call, Cause::Call, self.at, &[]) {
                Verdict::Happens(deed) => deed.result,
                Verdict::Refused(_) => None,
                Verdict::Asks(_) => panic!("what is asked asks nothing itself"),
            },
        })
    }

    /// Whether an event could happen at an instance, which is asked alone: others have no part in it.
    fn is_possible(&self, of: &Reference, call: &Call) -> bool {
        let (class, before) = (self.class(of), &self.met[of]);
        // Any identity that is new would do.
        let call = Call { seed: Some(Id::from_u128(0)), ..call.clone() };
        match judge(class, of, before, &call, Cause::Call, self.at, &[]) {
            Verdict::Happens(deed) => broken_invariants(class, of, before, &deed.after).is_empty(),
            Verdict::Refused(_) => false,
            Verdict::Asks(_) => panic!("what is asked asks nothing itself"),
        }
    }

    /// Looks at all conditions of an event.
    fn demand(&mut self, conditions: &[Condition], path: Path<'_>) -> Result<(), Ends> {
        let mut broken: Vec<(&Reference, Reason)> = Vec::new();
        for Condition { of, holds, text } in conditions {
            self.meet(of, path)?;
            self.tasks.push(Task { of: of.clone(), work: Work::Demand });
            let (class, state) = (self.class(of), &self.met[of].state);
            let is_fine = match holds {
                Holds::Exists => !is_initial(class, state),
                Holds::IsIn(states) => states.contains(state),
                Holds::Cannot(call) => !self.is_possible(of, call),
            };
            if !is_fine {
                broken.push((of, Reason::Condition(text.clone())));
            }
        }
        match broken.first() {
            None => Ok(()),
            Some((of, _)) => Err(self.refused(path, of, broken.iter().map(|(_, reason)| reason.clone()).collect())),
        }
    }

    fn count(&mut self, of: &Reference, path: Path<'_>, what: &'static str) -> Result<(), Ends> {
        self.acts += 1;
        if self.acts > ACTS { Err(self.refused(path, of, vec![Reason::Limit(what)])) } else { Ok(()) }
    }

    /// Takes up an instance, unless something is due there.
    fn meet(&mut self, of: &Reference, path: Path<'_>) -> Result<(), Ends> {
        if self.met.contains_key(of) {
            return Ok(());
        }
        if self.met.len() == INSTANCES {
            return Err(self.refused(path, of, vec![Reason::Limit("instances")]));
        }
        let class = self.class(of);
        let thing: Thing = thing(self.world, class, of);
        if first_due(class, of, &thing, self.cause, self.at).is_some() {
            return Err(Ends::IsEarly(of.clone()));
        }
        self.met.insert(of.clone(), thing);
        Ok(())
    }

    fn class(&self, of: &Reference) -> &'a Class {
        self.spec.class(&of.class).unwrap_or_else(|| panic!("there is no class {}", of.class))
    }

    fn refused(&self, path: Path<'_>, at: &Reference, reasons: Vec<Reason>) -> Ends {
        for reason in &reasons {
            coverage::mark("Refused", reason);
            if let Reason::Fault(fault, _) = reason {
                coverage::mark("Fault", fault);
            }
        }
        Ends::Refused(Refused { path: path.to_vec(), at: at.clone(), reasons })
    }
}

/// Whether a reason refuses a read event as the first of a step before it is said that it only reads.
fn comes_before_reading(reason: &Reason) -> bool {
    matches!(reason, Reason::Key | Reason::UnknownEvent | Reason::Argument(_) | Reason::Role | Reason::LifeCycle)
}
