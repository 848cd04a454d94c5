//! One event on one instance: is it allowed, what does it change, what does it need from others.
//!
//! The same functions decide, apply, simulate and audit. They are total and read no clock: the caller says when
//! the event happens, and says the same for every evaluation of it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::evaluate::{Evaluator, Scope};
use crate::instance::{Action, EventCall, Instance, Question, Sync, Timing};
use crate::model::expr::{Act, Expr, ExprKind, Rule, Statement};
use crate::model::{Class, Event, Transition};
use crate::seed::{Purpose, derived};
use crate::value::{Bindings, Fault, Id, Key, Name, Reference, Timestamp, Value, is_same};
use crate::violation::Violation;

impl Class {
    /// The instance after `call` as a step of its own, or every reason why it is refused: [`Class::act`], and then the
    /// invariants. Conditions on other instances are not decided here: they are among the [`Class::syncs`].
    ///
    /// `at` is the time of the event, which `now` and `today` stand for.
    ///
    /// # Errors
    /// At least one [`Violation`].
    ///
    /// # Complexity
    /// At most [`limits::FUEL`](crate::limits::FUEL) steps, and one copy of the fields.
    ///
    /// ```
    /// use enact_rebel::{Source, Timestamp, Value, check};
    /// let spec = check(vec![Source::new("tank.rebel", "
    ///     class Tank
    ///       litres: Integer = 0
    ///       initial empty
    ///         on Fill(by: Integer): filled
    ///           pre: \"it holds 100 litres\": litres + by <= 100
    ///           post: this.litres += by
    ///       filled
    /// ")]).unwrap();
    /// let tank = spec.class("Tank").unwrap();
    /// let (key, now) = (tank.key("t1").unwrap(), Timestamp::from_millis(0));
    /// let fill = |by| tank.event("Fill").unwrap().call([("by", Value::Integer(by))]).unwrap();
    ///
    /// let filled = tank.next(&key, &tank.initial(), &fill(60), now).unwrap();
    /// assert_eq!(filled.fields().get("litres"), Some(&Value::Integer(60)));
    /// let refused = tank.next(&key, &tank.initial(), &fill(101), now).unwrap_err();
    /// assert_eq!(refused[0].to_string(), "it holds 100 litres: `litres + by <= 100`, where litres = 0, by = 101");
    /// ```
    pub fn next(
        &self,
        key: &Key,
        instance: &Instance,
        call: &EventCall,
        at: Timestamp,
    ) -> Result<Instance, Vec<Violation>> {
        let after = self.act(key, instance, call, at)?;
        let broken = self.broken_by(key, instance, &after, at);
        if broken.is_empty() { Ok(after) } else { Err(broken) }
    }

    /// The instance after `call` as a part of a step, whose invariants are looked at when it ends.
    ///
    /// Refused are, in this order and each with all its reasons: a call that does not fit the class; an event that demands
    /// another caller; an event that the
    /// state does not allow; guards that do not hold; effects or a result without a value. Fields that no effect names keep their
    /// value, and all effects read the values from before the event.
    ///
    /// # Errors
    /// At least one [`Violation`].
    pub fn act(
        &self,
        key: &Key,
        instance: &Instance,
        call: &EventCall,
        at: Timestamp,
    ) -> Result<Instance, Vec<Violation>> {
        self.act_and_return(key, instance, call, at).map(|(after, _)| after)
    }

    /// The value that `call` of a read event returns in `instance`; it carries the answers to its [`Class::questions`].
    ///
    /// # Errors
    /// At least one [`Violation`]; a call of another event is one.
    pub fn read(
        &self,
        key: &Key,
        instance: &Instance,
        call: &EventCall,
        at: Timestamp,
    ) -> Result<Value, Vec<Violation>> {
        let (event, first, call) = self.transition(key, instance, call)?;
        let result = if event.read { self.acted(event, first, key, instance, &call, at)?.1 } else { None };
        result.ok_or_else(|| vec![Violation::UnknownEvent { class: self.name.clone(), event: call.event().clone() }])
    }

    /// The value that `call` returns if it happens to `instance`; nothing if it is refused, or returns none.
    #[must_use]
    pub fn result(&self, key: &Key, instance: &Instance, call: &EventCall, at: Timestamp) -> Option<Value> {
        let (event, first, call) = self.transition(key, instance, call).ok()?;
        if call.is_note() {
            return None;
        }
        self.acted(event, first, key, instance, &call, at).ok()?.1
    }

    /// What [`Class::act`] says, and what is returned.
    pub(crate) fn act_and_return(
        &self,
        key: &Key,
        instance: &Instance,
        call: &EventCall,
        at: Timestamp,
    ) -> Result<(Instance, Option<Value>), Vec<Violation>> {
        self.refuse_unless_due(key, instance, call)?;
        let (event, first, call) = self.transition(key, instance, call)?;
        if call.is_note() {
            let timing = self.kept_timing(key, instance, (instance.state(), instance.fields()), &call, at)?;
            return Ok((instance.clone().with_timing(timing), None));
        }
        if event.read {
            return Err(vec![Violation::Read { event: event.name.clone() }]);
        }
        self.acted(event, first, key, instance, &call, at)
    }

    /// The same, of an event that happens or is asked.
    fn acted(
        &self,
        event: &Event,
        first: &Transition,
        key: &Key,
        instance: &Instance,
        call: &EventCall,
        at: Timestamp,
    ) -> Result<(Instance, Option<Value>), Vec<Violation>> {
        let scope = self.scope(key, instance.fields(), Some(call), at);
        let mut evaluator = Evaluator::new(scope);
        let mut violations = Vec::new();
        for guard in &first.body.guards[..first.body.common] {
            violations.extend(self.broken(guard, &mut evaluator, scope, Kind::Guard));
        }
        let transition = match violations.is_empty() {
            true => self.chosen(event, first, &mut evaluator, scope)?,
            false => first,
        };
        let mut fields = instance.fields().clone();
        if violations.is_empty() {
            match self.changed(transition, &mut evaluator, scope) {
                Ok(changed) => fields = changed,
                Err(faults) => violations = faults,
            }
        }
        let mut result = None;
        if let (Some(returned), true) = (&transition.body.returned, violations.is_empty()) {
            match evaluator.returned(&returned.value, fields.clone()) {
                Ok(value) => result = Some(value),
                Err(fault) => {
                    let values = values_of(&reads(&returned.value), scope);
                    violations.push(Violation::Arithmetic { fault, place: returned.text.clone(), values });
                }
            }
        }
        if !violations.is_empty() {
            return Err(known(violations));
        }
        let timing = self.kept_timing(key, instance, (&transition.target, &fields), call, at)?;
        Ok((Instance::new(transition.target.clone(), fields).with_timing(timing), result))
    }

    /// The fields of `scope` as the effects of `transition` leave them.
    ///
    /// # Errors
    /// Each effect without a value.
    fn changed(
        &self,
        transition: &Transition,
        evaluator: &mut Evaluator<'_>,
        scope: Scope<'_>,
    ) -> Result<Bindings, Vec<Violation>> {
        let mut violations = Vec::new();
        let mut bound = Vec::with_capacity(transition.body.effects.len());
        for effect in &transition.body.effects {
            match evaluator.value(&effect.value, &[]) {
                Ok(value) => bound.push((effect.field.index, &effect.field.name, value)),
                Err(fault) => {
                    let values = values_of(&reads(&effect.value), scope);
                    violations.push(Violation::Arithmetic { fault, place: effect.text.clone(), values });
                }
            }
        }
        if !violations.is_empty() {
            return Err(violations);
        }
        let mut fields = scope.fields.clone();
        fields.set(&self.names, bound);
        Ok(fields)
    }

    /// The instance that `call` would leave if nothing refused it: for what has happened and should not have. Nothing if it does not
    /// fit the class, or one of its effects has no value.
    ///
    /// In a state that does not allow the event it does what it does in the first one that does, in the order of the text; of
    /// variants it is the one whose guards hold, or else the first.
    ///
    /// ```
    /// use enact_rebel::{Source, Timestamp, Value, check};
    /// let spec = check(vec![Source::new("tank.rebel", "
    ///     class Tank
    ///       litres: Integer = 5
    ///       initial full
    ///         on Drain(by: Integer): used
    ///           pre: litres - by >= 0
    ///           post: this.litres -= by
    ///       used
    /// ")]).unwrap();
    /// let tank = spec.class("Tank").unwrap();
    /// let (key, now) = (tank.key("t1").unwrap(), Timestamp::from_millis(0));
    /// let drain = tank.event("Drain").unwrap().call([("by", Value::Integer(8))]).unwrap();
    ///
    /// let drained = tank.projected(&key, &tank.initial(), &drain, now).unwrap();
    /// assert_eq!(drained.fields().get("litres"), Some(&Value::Integer(-3)));
    /// ```
    #[must_use]
    pub fn projected(&self, key: &Key, instance: &Instance, call: &EventCall, at: Timestamp) -> Option<Instance> {
        let event = self.event(call.event()).filter(|event| !event.read && !call.is_note())?;
        let call = event.completed(call);
        if self.wrong_key(key).is_some() || !event.argument_errors(&call).is_empty() {
            return None;
        }
        let first = event.transition(instance.state()).or_else(|| event.transitions.first())?;
        let scope = self.scope(key, instance.fields(), Some(&call), at);
        let mut evaluator = Evaluator::new(scope);
        let transition = self.chosen(event, first, &mut evaluator, scope).unwrap_or(first);
        let fields = self.changed(transition, &mut evaluator, scope).ok()?;
        let timing = self.kept_timing(key, instance, (&transition.target, &fields), &call, at).ok()?;
        Some(Instance::new(transition.target.clone(), fields).with_timing(timing))
    }

    /// Refuses the event of a timer that is not the next one to happen.
    fn refuse_unless_due(&self, key: &Key, instance: &Instance, call: &EventCall) -> Result<(), Vec<Violation>> {
        let Some(at) = call.due() else { return Ok(()) };
        let is_next = self.due(key, instance).is_some_and(|due| due.at == at && due.event == *call.event());
        if is_next { Ok(()) } else { Err(vec![Violation::NotDue { event: call.event().clone(), at }]) }
    }

    fn kept_timing(
        &self,
        key: &Key,
        before: &Instance,
        (state, fields): (&Name, &Bindings),
        call: &EventCall,
        at: Timestamp,
    ) -> Result<Option<Timing>, Vec<Violation>> {
        self.timing(key, before, (state, fields), call, at).map_err(|(timer, fault)| {
            let values = values_of(&reads(&timer.at), self.scope(key, fields, None, at));
            vec![Violation::Arithmetic { fault, place: timer.text.clone(), values }]
        })
    }

    /// The invariants that do not hold of an instance when a step at `at` ends. One that faults does not hold.
    #[must_use]
    pub fn broken_invariants(&self, key: &Key, instance: &Instance, at: Timestamp) -> Vec<Violation> {
        if self.invariants.is_empty() {
            return Vec::new();
        }
        let scope = self.scope(key, instance.fields(), None, at);
        let mut evaluator = Evaluator::new(scope);
        let broken = |rule| self.broken(rule, &mut evaluator, scope, Kind::Invariant);
        self.invariants.iter().filter_map(broken).collect()
    }

    /// The invariants that refuse a step that makes `after` of `before`: those that do not hold of `after` and read a field
    /// that the step changes, or any if the step creates the instance.
    ///
    /// If every invariant holds of `before`, these are all that do not hold of `after`. Only a stricter version of the contract
    /// finds an instance that breaks one; a step then either leaves alone what it reads or makes it hold.
    #[must_use]
    pub fn broken_by(&self, key: &Key, before: &Instance, after: &Instance, at: Timestamp) -> Vec<Violation> {
        let is_created = self.is_initial(before.state());
        let mut broken = Vec::new();
        let scope = self.scope(key, after.fields(), None, at);
        let mut evaluator = Evaluator::new(scope);
        for invariant in &self.invariants {
            if let Some(violation) = self.broken(invariant, &mut evaluator, scope, Kind::Invariant)
                && (is_created || reads_changed(invariant, before, after))
            {
                broken.push(violation);
            }
        }
        broken
    }

    /// What `call` needs from other instances, one level deep: their events may need more.
    ///
    /// First the conditions of its guards (`initialized x`, `x instate s`), then its `sync` block, in the order of
    /// the source. Arguments are those before the event. Whether the event itself is allowed is [`Class::next`]'s answer.
    ///
    /// # Errors
    /// The call does not fit the class, the state does not allow the event, or an argument of a call has no value.
    pub fn syncs(
        &self,
        key: &Key,
        instance: &Instance,
        call: &EventCall,
        at: Timestamp,
    ) -> Result<Vec<Sync>, Vec<Violation>> {
        let (event, first, call) = self.transition(key, instance, call)?;
        if call.is_note() {
            return Ok(Vec::new());
        }
        let scope = self.scope(key, instance.fields(), Some(&call), at);
        let mut evaluator = Evaluator::new(scope);
        let transition = self.chosen(event, first, &mut evaluator, scope)?;
        let mut run = SyncRun { evaluator, seed: call.seed(), calls: 0, syncs: Vec::new() };
        for statement in &transition.body.statements {
            run.statement(statement, &mut Vec::new()).map_err(|(fault, place)| {
                let values = statement.expressions().into_iter().flat_map(reads).collect::<Vec<_>>();
                vec![Violation::Arithmetic { fault, place, values: values_of(&values, scope) }]
            })?;
        }
        Ok(run.syncs)
    }

    /// What `call` must know of other instances before it can be decided on `instance`, and carries no answer to; nothing if it
    /// is refused whatever the answers are. More may be asked once these are answered.
    ///
    /// What `and`, `or` and `if` leave out is not asked for; what effects and calls read is asked for together with what guards
    /// wait for.
    ///
    /// # Complexity
    /// That of an evaluation of the event, if it asks anything; constant otherwise.
    #[must_use]
    pub fn questions(
        &self,
        key: &Key,
        instance: &Instance,
        call: &EventCall,
        at: Timestamp,
    ) -> Vec<(Reference, Question)> {
        let event = self.events.iter().find(|event| is_same(&event.name, call.event()));
        let asks = |event: &Event| match event.transition(instance.state()) {
            Some(first) if first.variant.is_some() => event.asks(),
            only => only.is_some_and(|only| only.body.asks),
        };
        match event.filter(|event| !call.is_note() && asks(event)).map(|_| self.transition(key, instance, call)) {
            Some(Ok((event, first, call))) => {
                let evaluator = Evaluator::new(self.scope(key, instance.fields(), Some(&call), at));
                wanted(&self.names, event, first, evaluator)
            }
            _ => Vec::new(),
        }
    }

    /// The events that `call` calls on other instances, as far as that is known without the answers to its questions.
    ///
    /// # Complexity
    /// That of an evaluation of the event.
    #[must_use]
    pub fn called(&self, key: &Key, instance: &Instance, call: &EventCall, at: Timestamp) -> Vec<(Reference, Name)> {
        let Ok((event, first, call)) = self.transition(key, instance, call) else { return Vec::new() };
        let bodies = event.transitions.iter().filter(|transition| transition.source == first.source);
        let mut run = SyncRun {
            evaluator: Evaluator::new(self.scope(key, instance.fields(), Some(&call), at)),
            seed: None,
            calls: 0,
            syncs: Vec::new(),
        };
        let mut called = Vec::new();
        for transition in bodies {
            run.called(&transition.body.statements, &mut Vec::new(), &mut called);
        }
        called
    }

    /// The answer of `instance` to a question; nothing if it is asked for a field that has no value, or for what an event
    /// returns that is not possible.
    #[must_use]
    pub fn answer(&self, key: &Key, instance: &Instance, question: &Question, at: Timestamp) -> Option<Value> {
        let truth = match question {
            Question::Field(name) => {
                let field = self.fields.iter().find(|field| field.name == *name)?;
                let value = instance.fields().get_at(field.slot, name)?;
                return value.has_type(&field.ty).then(|| value.clone());
            }
            Question::Initialized => !self.is_initial(instance.state()),
            Question::InState(states) => states.contains(instance.state()),
            Question::Possible(call) => self.is_possible(key, instance, call, at),
            Question::Result(call) => return self.result(key, instance, call, at),
        };
        Some(Value::Boolean(truth))
    }

    /// What `call` needs from other instances, if that is the same in every instance; `None` if it depends on the state or
    /// on a field, or if the call does not fit the class.
    #[must_use]
    pub fn syncs_of_call(&self, key: &Key, call: &EventCall, at: Timestamp) -> Option<Vec<Sync>> {
        let event = self.event(call.event())?;
        let mut common: Option<Vec<Sync>> = None;
        for transition in &event.transitions {
            let mut expressions = transition.body.statements.iter().flat_map(Statement::expressions);
            if expressions.any(|expr| reads(expr).iter().any(|(_, read)| matches!(&read.kind, ExprKind::Field(_)))) {
                return None;
            }
            let instance = Instance::new(transition.source.clone(), Bindings::default());
            let found = self.syncs(key, &instance, call, at).ok()?;
            if *common.get_or_insert_with(|| found.clone()) != found {
                return None;
            }
        }
        common
    }

    /// Whether a stored instance is one of this class: as [`Class::verify_types`] says, and every invariant holds.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn verify(&self, key: &Key, instance: &Instance) -> Result<(), Vec<Violation>> {
        self.verify_types(key, instance)?;
        if self.is_initial(instance.state()) {
            return Ok(());
        }
        let broken = self.broken_invariants(key, instance, Timestamp::from_millis(0));
        if broken.is_empty() { Ok(()) } else { Err(broken) }
    }

    /// Whether a stored instance has the form of this class: a known state, every field with a value of its type (in the
    /// initial state, some), and no other field.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn verify_types(&self, key: &Key, instance: &Instance) -> Result<(), Vec<Violation>> {
        let mut violations: Vec<Violation> = self.wrong_key(key).into_iter().collect();
        let (class, state) = (&self.name, instance.state());
        if !self.states.iter().any(|known| known.name == *state) {
            violations.push(Violation::UnknownState { class: class.clone(), state: state.clone() });
        }
        for field in &self.fields {
            let value = instance.fields().get(&field.name);
            let is_fine = value.map_or(self.is_initial(state), |value| value.has_type(&field.ty));
            if !is_fine {
                let (field, expected, value) = (field.name.clone(), field.ty.to_string(), value.cloned());
                violations.push(Violation::Field { class: class.clone(), field, expected, value });
            }
        }
        for (name, _) in instance.fields().iter() {
            if !self.fields.iter().any(|field| field.name == *name) {
                violations.push(Violation::UnknownField { class: class.clone(), field: name.clone() });
            }
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }

    pub(crate) fn scope<'a>(
        &'a self,
        key: &'a Key,
        fields: &'a Bindings,
        call: Option<&'a EventCall>,
        at: Timestamp,
    ) -> Scope<'a> {
        Scope { class: &self.name, key: Some(key), fields, call, at }
    }

    /// The variant that happens: the first whose guards hold, or the only one.
    ///
    /// # Errors
    /// The guard that faults first, or all guards that do not hold, of all variants.
    fn chosen<'c>(
        &self,
        event: &'c Event,
        first: &'c Transition,
        evaluator: &mut Evaluator<'_>,
        scope: Scope<'_>,
    ) -> Result<&'c Transition, Vec<Violation>> {
        if first.variant.is_none() {
            return Ok(first);
        }
        let mut violations = Vec::new();
        for variant in event.variants(&first.source) {
            let (before, mut waits) = (violations.len(), None);
            for guard in &variant.body.guards[variant.body.common..] {
                match self.broken(guard, evaluator, scope, Kind::Guard) {
                    Some(fault) if fault.is_unanswered() => waits = waits.or(Some(fault)),
                    Some(fault @ Violation::Arithmetic { .. }) => return Err(vec![fault]),
                    broken => violations.extend(broken),
                }
            }
            if let Some(waits) = waits {
                return Err(vec![waits]);
            }
            if violations.len() == before {
                return Ok(variant);
            }
        }
        Err(violations)
    }

    /// The event, its transition from the state of `instance`, the first one if it has variants, and the call with all arguments,
    /// if it fits the class.
    fn transition<'c>(
        &'c self,
        key: &Key,
        instance: &Instance,
        call: &'c EventCall,
    ) -> Result<Taken<'c>, Vec<Violation>> {
        if let Some(violation) = self.wrong_key(key) {
            return Err(vec![violation]);
        }
        let Some(event) = self.events.iter().find(|event| is_same(&event.name, call.event())) else {
            return Err(vec![Violation::UnknownEvent { class: self.name.clone(), event: call.event().clone() }]);
        };
        let call = event.completed(call);
        let errors = event.argument_errors(&call);
        if !errors.is_empty() {
            return Err(errors.into_iter().map(Violation::Argument).collect());
        }
        if let Some(violation) = event.role_violation(&call) {
            return Err(vec![violation]);
        }
        let transition = event.transition(instance.state());
        transition.map(|transition| (event, transition, call)).ok_or_else(|| {
            // Variants have one transition each from a state.
            let mut allowed: Vec<_> = event.transitions.iter().map(|transition| transition.source.clone()).collect();
            allowed.dedup();
            let (event, state) = (event.name.clone(), instance.state().clone());
            vec![Violation::LifeCycle { event, state, allowed }]
        })
    }

    fn wrong_key(&self, key: &Key) -> Option<Violation> {
        (!key.has_type(&self.key_type)).then(|| Violation::Key {
            class: self.name.clone(),
            expected: self.key_type.to_string(),
            found: match key {
                Key::String(text) => format!("\"{text}\""),
                other => other.to_string(),
            },
        })
    }

    fn broken(&self, rule: &Rule, evaluator: &mut Evaluator<'_>, scope: Scope<'_>, kind: Kind) -> Option<Violation> {
        let fault = match evaluator.truth(&rule.expr, &[]) {
            Ok(true) => return None,
            Ok(false) => None,
            Err(fault) => Some(fault),
        };
        let values = values_of(&rule.reads, scope);
        let (text, condition) = (rule.text.clone(), rule.condition.clone());
        Some(match (fault, kind) {
            (Some(fault), _) => Violation::Arithmetic { fault, place: condition, values },
            (None, Kind::Guard) => Violation::Guard { text, condition, values },
            (None, Kind::Invariant) => Violation::Invariant { text, condition, values },
        })
    }
}

/// An event that is taken up.
type Taken<'c> = (&'c Event, &'c Transition, Cow<'c, EventCall>);

impl Event {
    /// Whether it may change what is asked: the field, or the state of the life cycle. Of questions about events nothing is said.
    #[must_use]
    pub fn may_change(&self, question: &Question) -> bool {
        match question {
            Question::Field(name) => {
                let mut effects = self.transitions.iter().flat_map(|transition| &transition.body.effects);
                effects.any(|effect| effect.field.name == *name)
            }
            Question::Initialized | Question::InState(_) => {
                self.transitions.iter().any(|transition| transition.source != transition.target)
            }
            Question::Possible(_) | Question::Result(_) => false,
        }
    }
}

/// Whether a field that `rule` reads is not the same in both.
fn reads_changed(rule: &Rule, before: &Instance, after: &Instance) -> bool {
    rule.reads.iter().any(|(name, read)| match &read.kind {
        ExprKind::Field(slot) => before.fields().get_at(slot.index, name) != after.fields().get_at(slot.index, name),
        _ => false,
    })
}

#[derive(Clone, Copy)]
enum Kind {
    Guard,
    Invariant,
}

/// The fields and parameters that `expr` reads, and what it asks of others, each once, in the order of reading.
pub(crate) fn reads(expr: &Expr) -> Vec<(Name, Expr)> {
    let mut reads: Vec<(Name, Expr)> = Vec::new();
    expr.walk(&mut |expr| {
        let name = match &expr.kind {
            ExprKind::Field(slot) | ExprKind::Param(slot) => &slot.name,
            ExprKind::Let(named) => &named.name,
            ExprKind::Ask(_, query) => &query.text,
            ExprKind::CallerId => &"caller.id".into(),
            ExprKind::HasRole(role) => &format!("caller has {role}").into(),
            _ => return,
        };
        if !reads.iter().any(|(known, _)| known == name) {
            reads.push((name.clone(), expr.clone()));
        }
    });
    reads
}

/// The questions of an event that wait for an answer; none if its guards refuse it without.
fn wanted(
    declared: &Arc<[Name]>,
    event: &Event,
    first: &Transition,
    mut evaluator: Evaluator<'_>,
) -> Vec<(Reference, Question)> {
    let Some(holds) = verdict(&first.body.guards[..first.body.common], &mut evaluator) else { return Vec::new() };
    if !holds {
        return Vec::new();
    }
    let body = if first.variant.is_none() {
        &*first.body
    } else {
        let mut found = None;
        for variant in event.variants(&first.source) {
            if evaluator.waits() || found.is_some() {
                break;
            }
            let guards = &variant.body.guards[variant.body.common..];
            let Some(holds) = verdict(guards, &mut evaluator) else { return Vec::new() };
            found = holds.then_some(&*variant.body);
        }
        match found {
            Some(body) if !evaluator.waits() => body,
            _ => return evaluator.take_wanted(),
        }
    };
    // A fault is told when the guards are known to hold, beside all others of its kind.
    let (mut bound, mut is_known) = (Vec::new(), true);
    for effect in &body.effects {
        match evaluator.value(&effect.value, &[]) {
            Ok(value) => bound.push((effect.field.index, &effect.field.name, value)),
            Err(_) => is_known = false,
        }
    }
    let mut after = evaluator.fields().clone();
    after.set(declared, bound);
    let mut run = SyncRun { evaluator, seed: None, calls: 0, syncs: Vec::new() };
    run.statements(&body.statements, &mut Vec::new()).unwrap_or_default();
    // What is returned may read what is not known yet.
    if let (Some(returned), true) = (&body.returned, is_known) {
        run.evaluator.returned(&returned.value, after).map(drop).unwrap_or_default();
    }
    run.evaluator.take_wanted()
}

/// Whether all of these guards hold, those left out that wait for an answer; nothing if one faults.
fn verdict(guards: &[Rule], evaluator: &mut Evaluator<'_>) -> Option<bool> {
    let mut all = true;
    for guard in guards {
        match evaluator.truth(&guard.expr, &[]) {
            Ok(truth) => all &= truth,
            Err(fault) if fault.is_unanswered() => {}
            Err(_) => return None,
        }
    }
    Some(all)
}

/// The reasons that need no answer, if there are such.
fn known(mut violations: Vec<Violation>) -> Vec<Violation> {
    if !violations.iter().all(Violation::is_unanswered) {
        violations.retain(|violation| !violation.is_unanswered());
    }
    violations
}

/// What `expr` reads, with the values.
pub(crate) fn values_read(expr: &Expr, scope: Scope<'_>) -> Vec<(Name, Value)> {
    values_of(&reads(expr), scope)
}

fn values_of(reads: &[(Name, Expr)], scope: Scope<'_>) -> Vec<(Name, Value)> {
    let mut evaluator = Evaluator::new(scope);
    let values = reads.iter().filter_map(|(name, read)| Some((name.clone(), evaluator.value(read, &[]).ok()?)));
    values.collect()
}

/// What has become of a statement.
type Done = Result<(), (Fault, Name)>;

/// Takes down that a statement waits for an answer, so that what those behind it ask for is met in the same round.
fn keep(waits: &mut Option<(Fault, Name)>, done: Done) -> Done {
    match done {
        Err(waiting) if waiting.0.is_unanswered() => {
            waits.get_or_insert(waiting);
            Ok(())
        }
        done => done,
    }
}

/// Collects what the statements of an event need.
struct SyncRun<'a> {
    evaluator: Evaluator<'a>,
    /// Of the event, and how many calls it has made.
    seed: Option<Id>,
    calls: usize,
    syncs: Vec<Sync>,
}

impl SyncRun<'_> {
    fn statement(&mut self, statement: &Statement, locals: &mut Vec<Value>) -> Done {
        match statement {
            Statement::Act { target, act, text, .. } => {
                let sync = self.act(target, act, text, locals).map_err(|fault| (fault, text.clone()))?;
                self.syncs.push(sync);
            }
            Statement::If(condition, statements, text) => {
                if self.evaluator.truth(condition, locals).map_err(|fault| (fault, text.clone()))? {
                    self.statements(statements, locals)?;
                }
            }
            Statement::For(set, statements, text) => {
                let elements = self.evaluator.elements(set, locals).map_err(|fault| (fault, text.clone()))?;
                let mut waits = None;
                for element in elements.iter() {
                    self.evaluator.burn(1).map_err(|fault| (fault, text.clone()))?;
                    locals.push(element.clone());
                    let result = self.statements(statements, locals);
                    locals.pop();
                    keep(&mut waits, result)?;
                }
                waits.map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    fn statements(&mut self, statements: &[Statement], locals: &mut Vec<Value>) -> Done {
        let mut waits = None;
        for statement in statements {
            keep(&mut waits, self.statement(statement, locals))?;
        }
        waits.map_or(Ok(()), Err)
    }

    /// The events that are called, where their instance is known; a branch whose condition is not counts as taken.
    fn called(&mut self, statements: &[Statement], locals: &mut Vec<Value>, called: &mut Vec<(Reference, Name)>) {
        for statement in statements {
            match statement {
                Statement::Act { target, act: Act::Do { event, .. }, .. } => {
                    let target = self.evaluator.reference(target, locals);
                    called.extend(target.map(|target| (target, event.clone())));
                }
                Statement::Act { .. } => {}
                Statement::If(condition, statements, _) => {
                    if self.evaluator.truth(condition, locals).unwrap_or(true) {
                        self.called(statements, locals, called);
                    }
                }
                Statement::For(set, statements, _) => {
                    let elements = self.evaluator.elements(set, locals);
                    for element in elements.iter().flat_map(|elements| elements.iter()) {
                        if self.evaluator.burn(1).is_err() {
                            return;
                        }
                        locals.push(element.clone());
                        self.called(statements, locals, called);
                        locals.pop();
                    }
                }
            }
        }
    }

    fn act(&mut self, target: &Expr, act: &Act, text: &Name, locals: &[Value]) -> Result<Sync, Fault> {
        let (target, action) = match act {
            Act::Do { event, arguments } => {
                let (target, call) = self.evaluator.event_call(target, event, arguments, locals)?;
                let seed = self.seed.map(|seed| derived(seed, Purpose::Call, self.calls));
                self.calls += 1;
                (target, Action::Do(call.with_seed(seed)))
            }
            Act::Impossible { event, arguments } => {
                let (target, call) = self.evaluator.event_call(target, event, arguments, locals)?;
                (target, Action::Impossible(call))
            }
            Act::Initialized => (self.evaluator.reference(target, locals)?, Action::Initialized),
            Act::InState(states) => (self.evaluator.reference(target, locals)?, Action::InState(states.clone())),
        };
        Ok(Sync { target, action, text: text.clone() })
    }
}
