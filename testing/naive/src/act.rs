//! One event on one instance.

use enact_rebel::ir::{Act, Asks, Expr, ExprKind, Fold, Rule, Statement, Transition};
use enact_rebel::{Class, Event, Name, Reference, Timestamp};

use crate::expression::{Answer, Question, Reading, Stop};
use crate::reason::Reason;
use crate::world::{Call, Fields, Thing, fits, is_initial, is_key};
use crate::{order, seed, timer, update};

/// Why an event is taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It is asked what it would do, or it is called.
    Call,
    /// A timer makes it happen, which has this time.
    Timer(Timestamp),
}

/// What becomes of an event.
pub(crate) enum Verdict {
    Refused(Vec<Reason>),
    /// It depends on these answers.
    Asks(Vec<Question>),
    Happens(Box<Deed>),
}

/// What an event does.
pub(crate) struct Deed {
    pub(crate) after: Thing,
    pub(crate) result: Option<enact_rebel::Value>,
    /// What has to hold of others before anything happens.
    pub(crate) conditions: Vec<Condition>,
    /// In the order in which they happen.
    pub(crate) calls: Vec<(Reference, Call)>,
}

pub(crate) struct Condition {
    pub(crate) of: Reference,
    pub(crate) holds: Holds,
    pub(crate) text: Name,
}

pub(crate) enum Holds {
    Exists,
    IsIn(Vec<Name>),
    Cannot(Call),
}

/// The call with the defaults of the parameters that have no argument.
fn with_defaults(class: &Class, call: &Call) -> Call {
    let mut call = call.clone();
    let event = class.events().iter().find(|event| *event.name() == call.event);
    for param in event.into_iter().flat_map(Event::params) {
        if let (Some(default), None) = (param.default(), call.arguments.get(param.name())) {
            call.arguments.insert(param.name().clone(), default.clone());
        }
    }
    call
}

/// What becomes of `call` at the instance `before`, if others have given these answers.
pub(crate) fn judge(
    class: &Class,
    of: &Reference,
    before: &Thing,
    call: &Call,
    cause: Cause,
    at: Timestamp,
    answers: &[Answer],
) -> Verdict {
    let call = &with_defaults(class, call);
    let (event, ways) = match ways(class, of, before, call) {
        Ok(found) => found,
        Err(reasons) => return Verdict::Refused(reasons),
    };
    let first = ways[0];
    let mut reading =
        Reading { of, fields: &before.fields, after: None, call: Some(call), at, answers, wanted: Vec::new() };
    let common = &first.body.guards[..first.body.common];
    let (reasons, waits) = broken(common, &mut reading);
    if !reasons.is_empty() {
        return Verdict::Refused(reasons);
    }
    let way = match chosen(&ways, waits, &mut reading) {
        Ok(way) => way,
        Err(verdict) => return verdict,
    };
    let (after, faults) = effects(way, &mut reading);
    let mut calls = Calls { seed: call.seed, made: Vec::new(), conditions: Vec::new(), fault: None };
    calls.all(&way.body.statements, &mut reading, &[]);
    let returned = match (&way.body.returned, faults.is_empty() && reading.wanted.is_empty()) {
        (Some(returned), true) => {
            reading.after = Some(after.clone());
            Some(reading.value(&returned.value, &[]).map_err(|stop| (stop, returned.text.clone())))
        }
        _ => None,
    };
    if !reading.wanted.is_empty() {
        return Verdict::Asks(reading.wanted);
    }
    if !faults.is_empty() {
        return Verdict::Refused(faults);
    }
    let result = match returned.transpose() {
        Ok(result) => result,
        Err((Stop::Fault(fault), text)) => return Verdict::Refused(vec![Reason::Fault(fault, text)]),
        Err((Stop::Waits, text)) => panic!("`{text}` waits and asks nothing"),
    };
    let after = Thing { state: way.target.clone(), fields: after, spent: Vec::new(), last: None };
    let (after, fault) = timer::kept(class, of, before, after, (event.name(), cause), at);
    if let Some(fault) = fault {
        return Verdict::Refused(vec![fault]);
    }
    if let Some(reason) = calls.fault {
        return Verdict::Refused(vec![reason]);
    }
    Verdict::Happens(Box::new(Deed { after, result, conditions: calls.conditions, calls: calls.made }))
}

/// The event, and what it may do in the state of the instance: one way, or its variants.
fn ways<'a>(
    class: &'a Class,
    of: &Reference,
    before: &Thing,
    call: &Call,
) -> Result<(&'a Event, Vec<&'a Transition>), Vec<Reason>> {
    if !is_key(&of.key, class.key_type()) {
        return Err(vec![Reason::Key]);
    }
    let event = class.events().iter().find(|event| *event.name() == call.event);
    let event = event.ok_or_else(|| vec![Reason::UnknownEvent])?;
    let is_given = |name: &Name, ty| call.arguments.get(name).is_some_and(|value| fits(value, ty));
    let unfit = event.params().iter().filter(|param| !is_given(param.name(), param.ty())).map(enact_rebel::Param::name);
    let is_known = |name: &Name| event.params().iter().any(|param| param.name() == name);
    let unknown = call.arguments.keys().filter(|name| !is_known(name));
    let arguments: Vec<Reason> = unfit.chain(unknown).cloned().map(Reason::Argument).collect();
    if !arguments.is_empty() {
        return Err(arguments);
    }
    let is_welcome = match &call.caller {
        Some(caller) => event.roles().is_empty() || event.roles().iter().any(|role| caller.roles().contains(role)),
        None => event.roles().is_empty() && !reads_caller(event),
    };
    if !is_welcome {
        return Err(vec![Reason::Role]);
    }
    let ways: Vec<&Transition> = event.ways().iter().filter(|way| way.source == before.state).collect();
    if ways.is_empty() { Err(vec![Reason::LifeCycle]) } else { Ok((event, ways)) }
}

/// The reasons of those rules that do not hold, and whether one waits for an answer.
fn broken(rules: &[Rule], reading: &mut Reading<'_>) -> (Vec<Reason>, bool) {
    let (mut reasons, mut waits) = (Vec::new(), false);
    for rule in rules {
        match reading.truth(&rule.expr, &[]) {
            Ok(true) => {}
            Ok(false) => reasons.push(Reason::Guard(rule.text.clone())),
            Err(Stop::Fault(fault)) => reasons.push(Reason::Fault(fault, rule.condition.clone())),
            Err(Stop::Waits) => waits = true,
        }
    }
    (reasons, waits)
}

/// The only way, or the first variant whose guards hold.
fn chosen<'a>(ways: &[&'a Transition], waits: bool, reading: &mut Reading<'_>) -> Result<&'a Transition, Verdict> {
    if ways[0].variant.is_none() {
        assert_eq!(ways.len(), 1, "an event has one body in a state");
        return Ok(ways[0]);
    }
    let asks = |reading: &mut Reading<'_>| Err(Verdict::Asks(std::mem::take(&mut reading.wanted)));
    if waits {
        return asks(reading);
    }
    let mut all = Vec::new();
    for way in ways {
        let (reasons, waits) = broken(&way.body.guards[way.body.common..], reading);
        if let Some(fault) = reasons.iter().find(|reason| matches!(reason, Reason::Fault(..))) {
            return Err(Verdict::Refused(vec![fault.clone()]));
        }
        if waits {
            return asks(reading);
        }
        if reasons.is_empty() {
            return Ok(way);
        }
        all.extend(reasons);
    }
    Err(Verdict::Refused(all))
}

/// The fields after the effects, all of which read those before; and the faults.
fn effects(way: &Transition, reading: &mut Reading<'_>) -> (Fields, Vec<Reason>) {
    let (mut after, mut faults) = (reading.fields.clone(), Vec::new());
    for effect in &way.body.effects {
        match reading.value(&effect.value, &[]) {
            Ok(value) => _ = after.insert(effect.field.name.clone(), value),
            Err(Stop::Fault(fault)) => faults.push(Reason::Fault(fault, effect.text.clone())),
            Err(Stop::Waits) => {}
        }
    }
    (after, faults)
}

/// The lines of `sync:`, one after the other.
struct Calls {
    seed: Option<enact_rebel::Id>,
    made: Vec<(Reference, Call)>,
    conditions: Vec<Condition>,
    /// The first one.
    fault: Option<Reason>,
}

impl Calls {
    fn all(&mut self, statements: &[Statement], reading: &mut Reading<'_>, locals: &[enact_rebel::Value]) {
        for statement in statements {
            if self.fault.is_none() {
                self.one(statement, reading, locals);
            }
        }
    }

    fn one(&mut self, statement: &Statement, reading: &mut Reading<'_>, locals: &[enact_rebel::Value]) {
        let done = match statement {
            Statement::If(condition, statements, text) => match reading.truth(condition, locals) {
                Ok(true) => return self.all(statements, reading, locals),
                Ok(false) => return,
                Err(stop) => Err((stop, text)),
            },
            Statement::For(domain, statements, text) => match reading.value(domain, locals) {
                Ok(domain) => {
                    for element in order::elements(&domain) {
                        self.all(statements, reading, &[locals, &[element]].concat());
                    }
                    return;
                }
                Err(stop) => Err((stop, text)),
            },
            Statement::Act { target, act, text, .. } => {
                self.act(target, act, text, reading, locals).map_err(|stop| (stop, text))
            }
            unknown => panic!("a statement that is not known: {unknown:?}"),
        };
        if let Err((Stop::Fault(fault), text)) = done {
            self.fault = Some(Reason::Fault(fault, text.clone()));
        }
    }

    fn act(
        &mut self,
        target: &Expr,
        act: &Act,
        text: &Name,
        reading: &mut Reading<'_>,
        locals: &[enact_rebel::Value],
    ) -> Result<(), Stop> {
        let (of, holds) = match act {
            Act::Do { event, arguments } => {
                let (of, call) = reading.call_of(target, event, arguments, locals)?;
                let seed = self.seed.map(|seed| seed::of_call(seed, self.made.len()));
                self.made.push((of, Call { seed, ..call }));
                return Ok(());
            }
            Act::Impossible { event, arguments } => {
                let (of, call) = reading.call_of(target, event, arguments, locals)?;
                (of, Holds::Cannot(call))
            }
            Act::Initialized => (reading.reference(target, locals)?, Holds::Exists),
            Act::InState(states) => (reading.reference(target, locals)?, Holds::IsIn(states.to_vec())),
            unknown => panic!("a need that is not known: {unknown:?}"),
        };
        self.conditions.push(Condition { of, holds, text: text.clone() });
        Ok(())
    }
}

/// The invariants that an instance breaks when a step ends that has found it as `before`: those that do not hold and read a field that
/// has changed, or any if the step has created it.
pub(crate) fn broken_invariants(class: &Class, of: &Reference, before: &Thing, after: &Thing) -> Vec<Reason> {
    let is_created = is_initial(class, &before.state);
    let mut broken = Vec::new();
    for rule in class.invariants() {
        let mut has_changed = false;
        visit(&rule.expr, &mut |expr| {
            if let ExprKind::Field(slot) = expr.kind() {
                has_changed |= before.fields.get(&slot.name) != after.fields.get(&slot.name);
            }
        });
        if !is_created && !has_changed {
            continue;
        }
        match Reading::of_fields(of, &after.fields).truth(&rule.expr, &[]) {
            Ok(true) => {}
            Ok(false) => broken.push(Reason::Invariant(rule.text.clone())),
            Err(Stop::Fault(fault)) => broken.push(Reason::Fault(fault, rule.condition.clone())),
            Err(Stop::Waits) => panic!("an invariant asks nothing"),
        }
    }
    broken
}

/// Whether an event reads the id of its caller, in any state.
fn reads_caller(event: &Event) -> bool {
    let mut found = false;
    let mut look = |expr: &Expr| visit(expr, &mut |expr| found |= matches!(expr.kind(), ExprKind::CallerId));
    for way in event.ways() {
        way.body.expressions().for_each(&mut look);
    }
    found
}

/// Visits an expression and all that is in it, named values too. Functions read nothing but what they are given.
pub(crate) fn visit(expr: &Expr, see: &mut dyn FnMut(&Expr)) {
    see(expr);
    let mut each = |expr: &Expr| visit(expr, see);
    match expr.kind() {
        ExprKind::Let(named) => each(&named.value),
        ExprKind::Arithmetic(_, _, a, b)
        | ExprKind::Share(_, a, b)
        | ExprKind::Compare(_, _, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b)
        | ExprKind::In(a, b)
        | ExprKind::Insert(a, b)
        | ExprKind::Remove(a, b)
        | ExprKind::Otherwise(a, b)
        | ExprKind::Range(a, b, _) => [a, b].into_iter().for_each(|expr| each(expr)),
        ExprKind::Negate(_, a)
        | ExprKind::CompareZero(_, a)
        | ExprKind::Not(a)
        | ExprKind::CurrencyOf(a)
        | ExprKind::SizeOf(a)
        | ExprKind::Present(a)
        | ExprKind::FieldOf(a, _)
        | ExprKind::KeyOf(a, _) => each(a),
        ExprKind::If(a, b, c) => [&**a, &**b, &**c].into_iter().for_each(each),
        ExprKind::Within(_, operands, _) => operands.iter().for_each(each),
        ExprKind::Set(items)
        | ExprKind::Call(_, items)
        | ExprKind::Refer(_, items)
        | ExprKind::Record(_, items)
        | ExprKind::List(items)
        | ExprKind::Apply(_, items) => items.iter().for_each(each),
        ExprKind::With(a, changes) => {
            each(a);
            changes.iter().for_each(|(_, value)| each(value));
        }
        ExprKind::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).for_each(each),
        ExprKind::Updated(a, updates) => {
            each(a);
            update::expressions(updates).into_iter().for_each(each);
        }
        ExprKind::Aggregate(aggregate) => {
            let start = if let Fold::Sum(_, start) = &aggregate.fold { Some(start) } else { None };
            let parts = [&aggregate.domain, &aggregate.body].into_iter().chain(&aggregate.filter);
            parts.chain(&aggregate.value).chain(start).for_each(each);
        }
        ExprKind::Ask(target, query) => {
            each(target);
            if let Asks::Possible { arguments, .. } | Asks::Result { arguments, .. } = &query.asks {
                arguments.values.iter().for_each(|(_, argument)| each(argument));
            }
        }
        ExprKind::Literal(_)
        | ExprKind::Identity(_)
        | ExprKind::This
        | ExprKind::Now
        | ExprKind::Today
        | ExprKind::Fresh(..)
        | ExprKind::CallerId
        | ExprKind::HasRole(_)
        | ExprKind::Field(_)
        | ExprKind::NewField(_)
        | ExprKind::Param(_)
        | ExprKind::Local(_) => {}
        unknown => panic!("an expression that is not known: {unknown:?}"),
    }
}
