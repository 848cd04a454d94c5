//! The interpreter of expressions: total, exact, with bounded steps.
//!
//! An expression is checked before it comes here, but the values it meets may come from a journal that an older
//! specification wrote; a value of another type than declared is [`Fault::NoValue`], not a panic.

mod aggregate;
mod builtin;
mod update;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;

use self::aggregate::Elements;
pub(crate) use self::update::Done;
use crate::instance::{EventCall, Question};
use crate::limits::{COLLECTION_MAX, ELEMENTS_MAX, FUEL};
use crate::model::expr::{Arguments, Asks, Comparison, Expr, ExprKind, Operator, Query, Slot};
use crate::model::{Builtin, Function, Let};
use crate::seed::{Purpose, derived};
use crate::value::{Bindings, Fault, Key, Name, RecordType, RecordValue, Reference, Rounding, Timestamp, Value};

/// What an expression may read.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) class: &'a Name,
    pub(crate) key: Option<&'a Key>,
    pub(crate) fields: &'a Bindings,
    /// The event that happens, if one does.
    pub(crate) call: Option<&'a EventCall>,
    pub(crate) at: Timestamp,
}

/// One evaluation, with the steps it has left.
pub(crate) struct Evaluator<'a> {
    scope: Scope<'a>,
    params: &'a Bindings,
    fuel: u32,
    wanted: Vec<(Reference, Question)>,
    /// The fields after the effects, once they are known.
    after: Option<Bindings>,
    /// The named values that were computed, by number.
    lets: Vec<Option<Result<Value, Fault>>>,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(scope: Scope<'a>) -> Self {
        Self::with_fuel(scope, FUEL)
    }

    pub(crate) fn with_fuel(scope: Scope<'a>, fuel: u32) -> Self {
        let params = scope.call.map_or(Bindings::nothing(), EventCall::arguments);
        Self { scope, params, fuel, wanted: Vec::new(), after: None, lets: Vec::new() }
    }

    /// The fields before the event.
    pub(crate) fn fields(&self) -> &'a Bindings {
        self.scope.fields
    }

    /// The value that the event returns when it leaves these fields.
    pub(crate) fn returned(&mut self, value: &Expr, after: Bindings) -> Result<Value, Fault> {
        self.after = Some(after);
        self.value(value, &[])
    }

    /// Whether a question was met that has no answer.
    pub(crate) fn waits(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// The questions that were met and have no answer, each once, in the order in which they were met.
    pub(crate) fn take_wanted(&mut self) -> Vec<(Reference, Question)> {
        std::mem::take(&mut self.wanted)
    }

    /// The steps that are left.
    pub(crate) fn fuel(&self) -> u32 {
        self.fuel
    }

    /// Uses up `steps` of the fuel.
    pub(crate) fn burn(&mut self, steps: usize) -> Result<(), Fault> {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        let left = self.fuel.checked_sub(steps);
        self.fuel = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Fault::OutOfFuel)
    }

    /// The truth of a condition.
    pub(crate) fn truth(&mut self, expr: &Expr, locals: &[Value]) -> Result<bool, Fault> {
        match self.value(expr, locals)? {
            Value::Boolean(truth) => Ok(truth),
            _ => Err(ill_typed(expr)),
        }
    }

    /// The value of `expr`.
    ///
    /// Nested expressions nest calls of this function and one other, so both keep their frames small.
    pub(crate) fn value(&mut self, expr: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        self.burn(1)?;
        match &expr.kind {
            ExprKind::Arithmetic(operator, _, left, right) => self.arithmetic(*operator, left, right, locals),
            ExprKind::Share(rounding, amount, rate) => self.share(*rounding, amount, rate, locals),
            ExprKind::Negate(_, operand) => self.negate(operand, locals),
            ExprKind::Compare(comparison, _, left, right) => self.compare(*comparison, left, right, locals),
            ExprKind::CompareZero(comparison, operand) => self.compare_zero(*comparison, operand, locals),
            ExprKind::Not(operand) => self.truth(operand, locals).map(|truth| Value::Boolean(!truth)),
            ExprKind::And(left, right) => self.junction(left, right, false, locals),
            ExprKind::Or(left, right) => self.junction(left, right, true, locals),
            ExprKind::If(condition, accepted, otherwise) => self.choice([condition, accepted, otherwise], locals),
            ExprKind::In(element, set) => self.contains(element, set, locals),
            ExprKind::Set(items) => self.collect(items, locals),
            ExprKind::Insert(set, element) => self.changed_set(set, element, true, locals),
            ExprKind::Remove(set, element) => self.changed_set(set, element, false, locals),
            ExprKind::CurrencyOf(money) => self.currency(money, locals),
            ExprKind::SizeOf(set) => self.size(set, locals),
            ExprKind::Call(function, arguments) => self.call(function, arguments, locals),
            ExprKind::Within(_, operands, is_closed) => self.within(operands, *is_closed, locals),
            ExprKind::Range(low, high, is_closed) => self.range(low, high, *is_closed, locals),
            ExprKind::Aggregate(aggregate) => self.aggregate(aggregate, locals),
            ExprKind::KeyOf(instance, index) => self.key_field(instance, *index, locals),
            ExprKind::Refer(class, fields) => self.refer(class, fields, locals),
            ExprKind::Ask(target, query) => self.ask(target, query, locals),
            ExprKind::Let(named) => self.named(named),
            ExprKind::Apply(builtin, operands) => self.apply(builtin, operands, locals),
            ExprKind::Otherwise(optional, other) => self.otherwise(optional, other, locals),
            ExprKind::Present(optional) => self.present(optional, locals),
            ExprKind::Record(record, fields) => self.record(record, fields, locals),
            ExprKind::FieldOf(record, index) => self.field_of(record, *index, locals),
            ExprKind::With(record, fields) => self.with(record, fields, locals),
            ExprKind::List(items) => self.list(items, locals),
            ExprKind::Map(entries) => self.map(entries, locals),
            ExprKind::Updated(of, updates) => self.updated(of, updates, locals),
            _ => self.leaf(expr, locals),
        }
    }

    /// The value of an operand: where it stands, if it does not have to be computed.
    fn operand<'v>(&mut self, expr: &'v Expr, locals: &[Value]) -> Result<Cow<'v, Value>, Fault>
    where
        'a: 'v,
    {
        let stored = match &expr.kind {
            ExprKind::Literal(value) => value,
            ExprKind::Field(slot) => bound(self.scope.fields, slot)?,
            ExprKind::Param(slot) => bound(self.params, slot)?,
            _ => return self.value(expr, locals).map(Cow::Owned),
        };
        self.burn(1)?;
        Ok(Cow::Borrowed(stored))
    }

    /// The values of two operands.
    fn both<'v>(
        &mut self,
        left: &'v Expr,
        right: &'v Expr,
        locals: &[Value],
    ) -> Result<(Cow<'v, Value>, Cow<'v, Value>), Fault>
    where
        'a: 'v,
    {
        match self.operand(left, locals) {
            Ok(left) => Ok((left, self.operand(right, locals)?)),
            Err(fault) => Err(self.left_fault(fault, right, locals)),
        }
    }

    /// The fault of an operand that has `right` beside it, whose questions are met also where this one waits for an answer.
    #[cold]
    fn left_fault(&mut self, fault: Fault, right: &Expr, locals: &[Value]) -> Fault {
        match fault {
            Fault::Unanswered { .. } => {
                self.value(right, locals).err().filter(|other| !other.is_unanswered()).unwrap_or(fault)
            }
            _ => fault,
        }
    }

    fn leaf(&self, expr: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        match &expr.kind {
            ExprKind::Literal(value) => Ok(value.clone()),
            ExprKind::Identity(index) => {
                self.scope.key.and_then(|key| key.field(*index)).ok_or_else(|| ill_typed(expr))
            }
            ExprKind::This => {
                let key = self.scope.key.ok_or_else(|| ill_typed(expr))?.clone();
                Ok(Value::Reference(Reference { class: self.scope.class.clone(), key }))
            }
            ExprKind::Now => Ok(Value::Timestamp(self.scope.at)),
            ExprKind::Today => Ok(Value::Date(self.scope.at.date())),
            ExprKind::Fresh(class, number) => {
                let seed = self.scope.call.and_then(EventCall::seed).ok_or(Fault::NoSeed)?;
                let key = Key::Id(derived(seed, Purpose::Key, *number));
                Ok(Value::Reference(Reference { class: class.clone(), key }))
            }
            ExprKind::CallerId => {
                let caller = self.scope.call.and_then(EventCall::caller);
                caller.map(|caller| Value::String(caller.id().clone())).ok_or_else(|| ill_typed(expr))
            }
            ExprKind::HasRole(role) => {
                let caller = self.scope.call.and_then(EventCall::caller);
                Ok(Value::Boolean(caller.is_some_and(|caller| caller.has(role))))
            }
            ExprKind::Field(slot) => bound(self.scope.fields, slot).cloned(),
            ExprKind::NewField(slot) => bound(self.after.as_ref().unwrap_or(self.scope.fields), slot).cloned(),
            ExprKind::Param(slot) => bound(self.params, slot).cloned(),
            ExprKind::Local(index) => locals.get(*index).cloned().ok_or_else(|| ill_typed(expr)),
            _ => Err(ill_typed(expr)),
        }
    }

    fn arithmetic(&mut self, operator: Operator, left: &Expr, right: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let (a, b) = self.both(left, right, locals)?;
        arithmetic(operator, &a, &b).unwrap_or_else(|| Err(ill_typed(left)))
    }

    fn share(&mut self, rounding: Rounding, amount: &Expr, rate: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let (of, share) = self.both(amount, rate, locals)?;
        match (&*of, &*share) {
            (Value::Money(of), Value::Percentage(share)) => of.share(*share, rounding).map(Value::Money),
            _ => Err(ill_typed(amount)),
        }
    }

    fn negate(&mut self, operand: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        match self.value(operand, locals)? {
            Value::Integer(number) => number.checked_neg().map(Value::Integer).ok_or(Fault::Overflow),
            Value::Money(money) => money.negate().map(Value::Money),
            Value::Percentage(percentage) => percentage.times(-1).map(Value::Percentage),
            _ => Err(ill_typed(operand)),
        }
    }

    fn compare(&mut self, comparison: Comparison, left: &Expr, right: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let (a, b) = self.both(left, right, locals)?;
        self.burn(size(&a).min(size(&b)))?;
        compare(comparison, &a, &b).map(Value::Boolean)
    }

    fn compare_zero(&mut self, comparison: Comparison, operand: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let number = self.operand(operand, locals)?.number().ok_or_else(|| ill_typed(operand))?;
        Ok(Value::Boolean(holds(comparison, number.cmp(&0))))
    }

    /// `and` (which `false` decides) or `or` (which `true` decides). The right side runs only if the left does not decide.
    fn junction(&mut self, left: &Expr, right: &Expr, decides: bool, locals: &[Value]) -> Result<Value, Fault> {
        let decided = self.truth(left, locals)? == decides;
        let truth = if decided { decides } else { self.truth(right, locals)? };
        Ok(Value::Boolean(truth))
    }

    fn choice(&mut self, parts: [&Expr; 3], locals: &[Value]) -> Result<Value, Fault> {
        let [condition, accepted, otherwise] = parts;
        let chosen = if self.truth(condition, locals)? { accepted } else { otherwise };
        self.value(chosen, locals)
    }

    fn contains(&mut self, element: &Expr, set: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let (element, of) = self.both(element, set, locals)?;
        let Value::Set(elements) = &*of else { return Err(ill_typed(set)) };
        Ok(Value::Boolean(elements.contains(&*element)))
    }

    fn collect(&mut self, items: &[Expr], locals: &[Value]) -> Result<Value, Fault> {
        let elements: BTreeSet<Value> = self.values(items, locals)?.into_iter().collect();
        bounded(elements.len())?;
        Ok(Value::Set(Arc::new(elements)))
    }

    fn changed_set(&mut self, set: &Expr, element: &Expr, is_insert: bool, locals: &[Value]) -> Result<Value, Fault> {
        let (old, element) = self.both(set, element, locals)?;
        let (Value::Set(old), element) = (old.into_owned(), element.into_owned()) else { return Err(ill_typed(set)) };
        self.burn(old.len())?;
        let mut elements = Arc::unwrap_or_clone(old);
        if is_insert {
            elements.insert(element);
            bounded(elements.len())?;
        } else {
            elements.remove(&element);
        }
        Ok(Value::Set(Arc::new(elements)))
    }

    fn currency(&mut self, money: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        self.operand(money, locals)?.currency().map(Value::Currency).ok_or_else(|| ill_typed(money))
    }

    fn size(&mut self, set: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let size = match &*self.operand(set, locals)? {
            Value::Set(elements) => elements.len(),
            Value::List(elements) => elements.len(),
            Value::Map(entries) => entries.len(),
            _ => return Err(ill_typed(set)),
        };
        i64::try_from(size).map(Value::Integer).map_err(|_| Fault::Overflow)
    }

    fn call(&mut self, function: &Function, arguments: &[Expr], locals: &[Value]) -> Result<Value, Fault> {
        let arguments = self.values(arguments, locals)?;
        self.value(&function.body, &arguments)
    }

    /// As `x >= low and x <= high`, with `x` evaluated once.
    #[inline(never)]
    fn within(&mut self, [value, low, high]: &[Expr; 3], is_closed: bool, locals: &[Value]) -> Result<Value, Fault> {
        let (value, low) = self.both(value, low, locals)?;
        // The literal zero is one in every currency.
        let compare = |comparison, bound: &Value| match (&*value, bound) {
            (Value::Money(_) | Value::Percentage(_), Value::Integer(_)) => {
                Ok(value.number().is_some_and(|number| holds(comparison, number.cmp(&0))))
            }
            _ => compare(comparison, &value, bound),
        };
        if !compare(Comparison::GreaterOrEqual, &low)? {
            return Ok(Value::Boolean(false));
        }
        let comparison = if is_closed { Comparison::LessOrEqual } else { Comparison::Less };
        compare(comparison, &*self.operand(high, locals)?).map(Value::Boolean)
    }

    #[inline(never)]
    fn range(&mut self, low: &Expr, high: &Expr, is_closed: bool, locals: &[Value]) -> Result<Value, Fault> {
        let ends = self.both(low, high, locals)?;
        let Some((first, last, of)) = builtin::one_by_one(&ends.0, &ends.1) else { return Err(ill_typed(low)) };
        let (first, end) = (i128::from(first), i128::from(last) + i128::from(is_closed));
        let count = usize::try_from((end - first).max(0)).unwrap_or(usize::MAX);
        if count > ELEMENTS_MAX {
            return Err(Fault::TooManyElements);
        }
        self.burn(count)?;
        let element = |number: i128| i64::try_from(number).ok().and_then(of);
        let elements: Option<BTreeSet<Value>> = (first..end).map(element).collect();
        elements.map(|elements| Value::Set(Arc::new(elements))).ok_or(Fault::Overflow)
    }

    /// The instance that `expr` refers to.
    pub(crate) fn reference(&mut self, expr: &Expr, locals: &[Value]) -> Result<Reference, Fault> {
        match self.value(expr, locals)? {
            Value::Reference(reference) => Ok(reference),
            _ => Err(ill_typed(expr)),
        }
    }

    #[inline(never)]
    fn key_field(&mut self, instance: &Expr, index: usize, locals: &[Value]) -> Result<Value, Fault> {
        self.reference(instance, locals)?.key.field(index).ok_or_else(|| ill_typed(instance))
    }

    #[inline(never)]
    fn refer(&mut self, class: &Name, fields: &[Expr], locals: &[Value]) -> Result<Value, Fault> {
        let key = Key::of(self.values(fields, locals)?).ok_or(Fault::NoKey)?;
        Ok(Value::Reference(Reference { class: class.clone(), key }))
    }

    #[inline(never)]
    fn ask(&mut self, target: &Expr, query: &Query, locals: &[Value]) -> Result<Value, Fault> {
        let (of, question) = match &query.asks {
            Asks::Field(name) => (self.reference(target, locals)?, Question::Field(name.clone())),
            Asks::Initialized => (self.reference(target, locals)?, Question::Initialized),
            Asks::InState(states) => (self.reference(target, locals)?, Question::InState(states.clone())),
            Asks::Possible { event, arguments } => {
                let (of, call) = self.event_call(target, event, arguments, locals)?;
                (of, Question::Possible(call))
            }
            Asks::Result { event, arguments } => {
                let (of, call) = self.event_call(target, event, arguments, locals)?;
                (of, Question::Result(call))
            }
        };
        match self.scope.call.and_then(|call| call.answer(&of, &question)) {
            Some(Some(answer)) => Ok(answer.clone()),
            Some(None) if matches!(query.asks, Asks::Result { .. }) => {
                Err(Fault::Refused { question: query.text.clone() })
            }
            Some(None) => Err(Fault::Absent { question: query.text.clone() }),
            None => {
                let wanted = (of, question);
                if !self.wanted.contains(&wanted) {
                    self.wanted.push(wanted);
                }
                Err(Fault::Unanswered { question: query.text.clone() })
            }
        }
    }

    #[inline(never)]
    fn named(&mut self, named: &Let) -> Result<Value, Fault> {
        if let Some(Some(known)) = self.lets.get(named.index) {
            return known.clone();
        }
        let value = self.value(&named.value, &[]);
        if self.lets.len() <= named.index {
            self.lets.resize(named.index + 1, None);
        }
        self.lets[named.index] = Some(value.clone());
        value
    }

    /// The instance and the call of its `event` with the values of `arguments`, by the caller of the event that makes it.
    pub(crate) fn event_call(
        &mut self,
        target: &Expr,
        event: &Name,
        arguments: &Arguments,
        locals: &[Value],
    ) -> Result<(Reference, EventCall), Fault> {
        // What the arguments ask for is met also where the instance waits for an answer.
        let (of, mut waits) = match self.reference(target, locals) {
            Ok(of) => (Some(of), None),
            Err(fault) if fault.is_unanswered() => (None, Some(fault)),
            Err(fault) => return Err(fault),
        };
        let mut values: Arc<[Value]> = iter::repeat_n(Value::None, arguments.names.len()).collect();
        let slots = Arc::get_mut(&mut values).expect("nobody else has it");
        for (slot, argument) in &arguments.values {
            match self.value(argument, locals) {
                Ok(value) => slots[*slot] = value,
                Err(fault) if fault.is_unanswered() => waits = waits.or(Some(fault)),
                Err(fault) => return Err(fault),
            }
        }
        let (Some(of), None) = (of, &waits) else { return Err(waits.unwrap_or_else(|| ill_typed(target))) };
        let caller = self.scope.call.and_then(EventCall::caller).cloned();
        Ok((of, EventCall::new(event.clone(), Bindings::of(&arguments.names, values), caller)))
    }

    /// The values, in their order. What one of them asks for is met also where another waits for an answer.
    fn values<'e>(&mut self, items: impl IntoIterator<Item = &'e Expr>, locals: &[Value]) -> Result<Vec<Value>, Fault> {
        let items = items.into_iter();
        let (mut values, mut waits) = (Vec::with_capacity(items.size_hint().0), None);
        for item in items {
            match self.value(item, locals) {
                Ok(value) => values.push(value),
                Err(fault) if fault.is_unanswered() => waits = waits.or(Some(fault)),
                Err(fault) => return Err(fault),
            }
        }
        waits.map_or(Ok(values), Err)
    }

    #[inline(never)]
    fn apply(&mut self, builtin: &Builtin, operands: &[Expr], locals: &[Value]) -> Result<Value, Fault> {
        let values = self.values(operands, locals)?;
        // Those that only look something up visit nothing.
        let is_lookup = matches!(builtin, Builtin::Get) || matches!(builtin, Builtin::Element);
        if !is_lookup {
            self.burn(values.iter().map(size).sum())?;
        }
        builtin::apply(builtin, &values).unwrap_or_else(|| Err(operands.first().map_or(Fault::Overflow, ill_typed)))
    }

    #[inline(never)]
    fn otherwise(&mut self, optional: &Expr, other: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        match self.value(optional, locals)? {
            Value::None => self.value(other, locals),
            value => Ok(value),
        }
    }

    #[inline(never)]
    fn present(&mut self, optional: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        match self.value(optional, locals)? {
            Value::None => Err(Fault::IsNone),
            value => Ok(value),
        }
    }

    #[inline(never)]
    fn record(&mut self, record: &RecordType, fields: &[Expr], locals: &[Value]) -> Result<Value, Fault> {
        let values = self.values(fields, locals)?;
        let fields = record.fields.iter().map(|(name, _)| name.clone()).zip(values).collect();
        Ok(Value::Record(Arc::new(RecordValue { of: record.name.clone(), fields })))
    }

    #[inline(never)]
    fn field_of(&mut self, record: &Expr, index: usize, locals: &[Value]) -> Result<Value, Fault> {
        match &*self.operand(record, locals)? {
            Value::Record(value) => value.fields.get(index).map(|(_, value)| value.clone()),
            _ => None,
        }
        .ok_or_else(|| ill_typed(record))
    }

    #[inline(never)]
    fn with(&mut self, record: &Expr, fields: &[(usize, Expr)], locals: &[Value]) -> Result<Value, Fault> {
        let operands = iter::once(record).chain(fields.iter().map(|(_, field)| field));
        let mut values = self.values(operands, locals)?.into_iter();
        let Some(Value::Record(mut value)) = values.next() else { return Err(ill_typed(record)) };
        for ((index, _), new) in fields.iter().zip(values) {
            let (_, place) = Arc::make_mut(&mut value).fields.get_mut(*index).ok_or_else(|| ill_typed(record))?;
            *place = new;
        }
        Ok(Value::Record(value))
    }

    #[inline(never)]
    fn list(&mut self, items: &[Expr], locals: &[Value]) -> Result<Value, Fault> {
        bounded(items.len())?;
        self.values(items, locals).map(|values| Value::List(values.into()))
    }

    #[inline(never)]
    fn map(&mut self, entries: &[(Expr, Expr)], locals: &[Value]) -> Result<Value, Fault> {
        let (mut map, mut waits) = (BTreeMap::new(), None);
        for (key, value) in entries {
            if let Some((key, value)) = self.entry(key, value, &mut waits, locals)? {
                enter(&mut map, key, value)?;
            }
        }
        bounded(map.len())?;
        waits.map_or(Ok(Value::Map(Arc::new(map))), Err)
    }

    /// A key with its value; nothing if one of them waits for an answer, which is taken down.
    fn entry(
        &mut self,
        key: &Expr,
        value: &Expr,
        waits: &mut Option<Fault>,
        locals: &[Value],
    ) -> Result<Option<(Value, Value)>, Fault> {
        match self.both(key, value, locals) {
            Ok((key, value)) => Ok(Some((key.into_owned(), value.into_owned()))),
            Err(fault) if fault.is_unanswered() => {
                waits.get_or_insert(fault);
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// The elements of what `expr` yields.
    pub(crate) fn elements(&mut self, expr: &Expr, locals: &[Value]) -> Result<Elements, Fault> {
        Elements::of(self.value(expr, locals)?).ok_or_else(|| ill_typed(expr))
    }
}

/// Whether a collection may have so many elements.
fn bounded(count: usize) -> Result<(), Fault> {
    if count <= COLLECTION_MAX { Ok(()) } else { Err(Fault::TooManyElements) }
}

/// Enters a value under a key that has none, or the same.
fn enter(map: &mut BTreeMap<Value, Value>, key: Value, value: Value) -> Result<(), Fault> {
    match map.get(&key) {
        Some(known) if *known != value => Err(Fault::TwoValues { key: key.to_string() }),
        Some(_) => Ok(()),
        None => {
            map.insert(key, value);
            Ok(())
        }
    }
}

/// How many steps it takes to look at a value as a whole.
fn size(value: &Value) -> usize {
    match value {
        Value::Set(elements) => elements.len(),
        Value::List(elements) => elements.len(),
        Value::Map(entries) => entries.len(),
        Value::String(text) => text.len() / 64,
        _ => 0,
    }
}

fn bound<'a>(bindings: &'a Bindings, slot: &Slot) -> Result<&'a Value, Fault> {
    bindings.get_at(slot.index, &slot.name).ok_or_else(|| Fault::NoValue { name: slot.name.clone() })
}

/// The fault of a value that has not its declared type: it names the first field or parameter that is read.
fn ill_typed(expr: &Expr) -> Fault {
    let mut name = None;
    expr.walk(&mut |expr| {
        if let ExprKind::Field(slot) | ExprKind::Param(slot) = &expr.kind {
            name.get_or_insert_with(|| slot.name.clone());
        }
    });
    Fault::NoValue { name: name.unwrap_or_else(|| "this".into()) }
}

/// `None` if the operator is not defined for the values.
fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Option<Result<Value, Fault>> {
    let integer = |number: Option<i64>| number.map(Value::Integer).ok_or(Fault::Overflow);
    Some(match (operator, left, right) {
        (Operator::Add, Value::Integer(a), Value::Integer(b)) => integer(a.checked_add(*b)),
        (Operator::Subtract, Value::Integer(a), Value::Integer(b)) => integer(a.checked_sub(*b)),
        (Operator::Multiply, Value::Integer(a), Value::Integer(b)) => integer(a.checked_mul(*b)),
        (Operator::Add, Value::Money(a), Value::Money(b)) => a.add(*b).map(Value::Money),
        (Operator::Subtract, Value::Money(a), Value::Money(b)) => a.subtract(*b).map(Value::Money),
        (Operator::Multiply, Value::Money(a), Value::Integer(b)) => a.times(*b).map(Value::Money),
        (Operator::Add, Value::Percentage(a), Value::Percentage(b)) => a.add(*b).map(Value::Percentage),
        (Operator::Subtract, Value::Percentage(a), Value::Percentage(b)) => a.subtract(*b).map(Value::Percentage),
        (Operator::Multiply, Value::Percentage(a), Value::Integer(b)) => a.times(*b).map(Value::Percentage),
        (Operator::Add, Value::Date(a), Value::Integer(b)) => a.plus(*b).map(Value::Date),
        (Operator::Subtract, Value::Date(a), Value::Integer(b)) => a.minus(*b).map(Value::Date),
        (Operator::Subtract, Value::Date(a), Value::Date(b)) => integer(a.days().checked_sub(b.days())),
        _ => return None,
    })
}

/// Amounts of different currencies are unequal, and none of them is less.
fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool, Fault> {
    match (left, right) {
        (Value::Money(a), Value::Money(b)) if comparison.is_ordered() => {
            a.with_same_currency(*b)?;
            Ok(holds(comparison, a.minor().cmp(&b.minor())))
        }
        _ => Ok(holds(comparison, left.cmp(right))),
    }
}

/// Whether operands in this order satisfy the comparison.
pub(crate) fn holds(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::Unequal => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}
