//! Types of expressions.

use std::sync::Arc;

use super::coerce::coerce;
use super::collection::is_open;
use super::fresh::FRESH;
use super::operators::for_optional;
use super::{Checker, Declared, Scope, builtin, operators};
use crate::diagnostic::{Code, Diagnostic};
use crate::limits::DEPTH_MAX;
use crate::model::expr::{Asks, Expr, ExprKind, Slot};
use crate::model::{Let, Param};
use crate::source::Span;
use crate::syntax::tree::{self, ClassKind, Ident};
use crate::value::{Name, Rounding, Type, Value, Variant};

/// A checked expression.
#[derive(Clone)]
pub(super) struct Typed {
    pub(super) expr: Expr,
    /// How deep its evaluation nests, called functions included.
    pub(super) depth: usize,
}

impl Typed {
    pub(super) fn leaf(kind: ExprKind, ty: Type, span: Span) -> Self {
        Self::node(kind, ty, span, 0)
    }

    /// What is computed from operands of which the deepest nests `depth`.
    pub(super) fn node(kind: ExprKind, ty: Type, span: Span, depth: usize) -> Self {
        Self { expr: Expr::new(kind, ty, span), depth: depth + 1 }
    }

    pub(super) fn ty(&self) -> &Type {
        self.expr.ty()
    }
}

/// Where an expression stands, which decides what it may read.
pub(super) struct Context<'a> {
    /// The class whose instance it reads, and whether that instance exists already.
    class: Option<(usize, bool)>,
    /// The parameters of the event.
    params: &'a [Param],
    /// The parameters of the function, or the variables of the `for`s around it.
    pub(super) locals: Vec<Param>,
    /// Which of them are the variables of the `for`s around an effect.
    pub(super) loops: Vec<usize>,
    /// What the event has named, with the depth of each value.
    pub(super) lets: Vec<(Arc<Let>, usize)>,
    named: usize,
    has_time: bool,
    is_default: bool,
    /// Whether `this.field` is the value after the effects.
    pub(super) sees_after: bool,
    pub(super) rounding: Rounding,
    /// The parameters and variables that were read.
    pub(super) used: Vec<Name>,
    /// Names that are reported as unknown.
    unknown: Vec<Name>,
}

impl<'a> Context<'a> {
    /// A constant, which reads nothing.
    pub(super) fn constant(rounding: Rounding) -> Self {
        Self {
            class: None,
            params: &[],
            locals: Vec::new(),
            loops: Vec::new(),
            lets: Vec::new(),
            named: 0,
            has_time: false,
            is_default: false,
            sees_after: false,
            rounding,
            used: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// A default, which reads constants and functions alone.
    pub(super) fn default_of(rounding: Rounding) -> Self {
        Self { is_default: true, ..Self::constant(rounding) }
    }

    /// The body of a function, which reads its parameters.
    pub(super) fn function(params: &[Param], rounding: Rounding) -> Self {
        Self { locals: params.to_vec(), ..Self::constant(rounding) }
    }

    /// An invariant, which reads the fields of an existing instance.
    pub(super) fn invariant(class: usize, rounding: Rounding) -> Self {
        Self { class: Some((class, true)), ..Self::constant(rounding) }
    }

    /// A part of an event, which reads fields, parameters and the time.
    pub(super) fn event(class: usize, exists: bool, params: &'a [Param], rounding: Rounding) -> Self {
        Self { class: Some((class, exists)), params, has_time: true, ..Self::constant(rounding) }
    }
}

impl Context<'_> {
    pub(super) fn class(&self) -> Option<usize> {
        self.class.map(|(class, _)| class)
    }

    /// The parameters and variables that can be read.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        let lets = self.lets.iter().map(|(named, _)| &named.name);
        self.params.iter().chain(&self.locals).map(|param| &param.name).chain(lets)
    }

    /// Names a value for the rest of the event.
    pub(super) fn name(&mut self, name: &Name, value: Typed) -> Arc<Let> {
        let named = Arc::new(Let::new(name.clone(), self.named, value.expr));
        self.named += 1;
        self.lets.push((named.clone(), value.depth));
        named
    }

    /// The number of the value that is named next.
    pub(super) fn named(&self) -> usize {
        self.named
    }

    /// Forgets what was named behind the first `count`.
    pub(super) fn forget_lets(&mut self, count: usize) {
        self.lets.truncate(count);
    }

    /// Whether it is a part of an event, which happens at a time and may ask other instances.
    pub(super) fn is_event(&self) -> bool {
        self.has_time
    }
}

impl Checker {
    /// Checks that `tree` is of type `ty`.
    pub(super) fn expect(&mut self, tree: &tree::Expr, context: &mut Context<'_>, ty: &Type) -> Option<Typed> {
        match coerce(self.expression(tree, context, Some(ty))?, ty) {
            Ok(typed) => Some(typed),
            Err(typed) => {
                self.mismatch(tree.span, ty, typed.ty());
                None
            }
        }
    }

    pub(super) fn mismatch(&mut self, span: Span, expected: &Type, found: &Type) {
        let message = format!("expected {expected}, found {found}");
        let diagnostic = Diagnostic::new(Code::TypeMismatch, span, message, format!("of type {found}"));
        self.report.push(match (expected, found) {
            (Type::Money | Type::MoneyOf(_), Type::Integer | Type::Decimal(_)) => {
                diagnostic.help("write an amount with its currency, as in `EUR 5.00`")
            }
            (Type::Percentage, Type::Integer) => diagnostic.help("write a percentage with its sign, as in `5%`"),
            (Type::Percentage, Type::Decimal(_)) => diagnostic.help("a share is a percentage: `0.5` is `50%`"),
            (expected, Type::Optional(inner)) if **inner == *expected => match for_optional(found) {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            },
            (Type::Set(element), found) if **element == *found => diagnostic.help("write a set, as in `{x}`"),
            _ => diagnostic,
        });
    }

    /// Checks `tree`; `expected` only tells the type of what has none of its own.
    pub(super) fn expression(
        &mut self,
        tree: &tree::Expr,
        context: &mut Context<'_>,
        expected: Option<&Type>,
    ) -> Option<Typed> {
        let typed = match &tree.kind {
            tree::ExprKind::Literal(value) => Some(Self::literal(value, tree.span)),
            tree::ExprKind::Name(name) => self.variable(name, tree.span, context),
            tree::ExprKind::This | tree::ExprKind::Now | tree::ExprKind::Today => self.ambient(tree, context),
            tree::ExprKind::Caller => self.bare_caller(tree.span, context),
            tree::ExprKind::HasRole(role) => self.has_role(role, tree.span, context),
            tree::ExprKind::Member(inner, member) => self.member(inner, member, context),
            tree::ExprKind::Call(name, arguments) => self.call_of(name, arguments, tree.span, context),
            tree::ExprKind::Negate(operand) => self.negate(operand, tree.span, context),
            tree::ExprKind::Not(operand) => self.not(operand, tree.span, context),
            tree::ExprKind::Binary(operator, left, right) => self.binary(*operator, left, right, tree.span, context),
            tree::ExprKind::If(condition, accepted, otherwise) => {
                self.choice([condition, accepted, otherwise], tree.span, context, expected)
            }
            tree::ExprKind::Set(_) | tree::ExprKind::List(_) | tree::ExprKind::Map(_) | tree::ExprKind::None => {
                self.collected(tree, context, expected)
            }
            tree::ExprKind::Initialized(_)
            | tree::ExprKind::Finalized(_)
            | tree::ExprKind::InState(..)
            | tree::ExprKind::Can(..) => self.question(tree, context),
            _ => self.taken_apart(tree, context),
        }?;
        self.within_depth(typed, tree.span)
    }

    /// Expressions nest calls of [`Checker::expression`], whose frame is kept small by the functions for what is rarer.
    fn collected(&mut self, tree: &tree::Expr, context: &mut Context<'_>, expected: Option<&Type>) -> Option<Typed> {
        match &tree.kind {
            tree::ExprKind::Set(items) => self.set(items, tree.span, context, expected),
            tree::ExprKind::List(items) => self.list(items, tree.span, context, expected),
            tree::ExprKind::Map(entries) => self.map(entries, tree.span, context, expected),
            _ => self.none(tree.span, expected),
        }
    }

    /// What is in a value, or made of what is in it.
    fn taken_apart(&mut self, tree: &tree::Expr, context: &mut Context<'_>) -> Option<Typed> {
        match &tree.kind {
            tree::ExprKind::Element(of, index) => {
                let of = self.expression(of, context, None)?;
                self.element(of, index, tree.span, context)
            }
            tree::ExprKind::Present(of) => self.present(of, tree.span, context),
            tree::ExprKind::With(of, fields) => self.with(of, fields, tree.span, context),
            tree::ExprKind::Method(of, name, _) if self.is_behind_module(of, name, context) => None,
            tree::ExprKind::Method(of, name, arguments) => self.called(of, name, arguments, tree.span, context),
            tree::ExprKind::Range { low, high, is_closed } => self.range(low, high, *is_closed, tree.span, context),
            tree::ExprKind::Aggregate(aggregate) => self.aggregate(aggregate, tree.span, context),
            tree::ExprKind::Index(name, keys) => match (self.declared.get(&name.name), keys.as_slice()) {
                (Some((Declared::Class(_), _)), _) => self.referred(name, keys, tree.span, context),
                (_, [key]) if self.is_variable(&name.name, context) => {
                    let of = self.variable(&name.name, name.span, context)?;
                    self.element(of, key, tree.span, context)
                }
                _ => self.referred(name, keys, tree.span, context),
            },
            tree::ExprKind::Named(name, _) => {
                let help = "arguments of events, functions and records may have names";
                self.refuse(Code::OutOfPlace, name.span, "this argument takes no name", "not here", help);
                None
            }
            _ => None,
        }
    }

    fn question(&mut self, tree: &tree::Expr, context: &mut Context<'_>) -> Option<Typed> {
        match &tree.kind {
            tree::ExprKind::Initialized(of) => self.truth_of(of, tree.span, context, |_, _, _| Some(Asks::Initialized)),
            tree::ExprKind::Finalized(of) => self
                .truth_of(of, tree.span, context, |checker, class, _| Some(Asks::InState(checker.final_states(class)))),
            tree::ExprKind::InState(of, states) => self.truth_of(of, tree.span, context, |checker, class, _| {
                Some(Asks::InState(checker.named_states(class, states)))
            }),
            tree::ExprKind::Can(of, event, arguments) => {
                self.truth_of(of, tree.span, context, |checker, class, context| {
                    checker.possible_event(class, event, arguments, tree.span, context)
                })
            }
            _ => None,
        }
    }

    pub(super) fn within_depth(&mut self, typed: Typed, span: Span) -> Option<Typed> {
        if typed.depth > DEPTH_MAX {
            let message = format!("the evaluation nests deeper than {DEPTH_MAX} levels");
            let help = "the bodies of called functions count";
            self.refuse(Code::Limit, span, message, "too deep", help);
            return None;
        }
        Some(typed)
    }

    fn negate(&mut self, operand: &tree::Expr, span: Span, context: &mut Context<'_>) -> Option<Typed> {
        let operand = self.expression(operand, context, None)?;
        self.or_refuse(operators::negate(operand, span), span)
    }

    fn not(&mut self, operand: &tree::Expr, span: Span, context: &mut Context<'_>) -> Option<Typed> {
        let operand = self.expect(operand, context, &Type::Boolean)?;
        Some(Typed::node(ExprKind::Not(operand.expr.into()), Type::Boolean, span, operand.depth))
    }

    pub(super) fn binary(
        &mut self,
        operator: tree::Binary,
        left: &tree::Expr,
        right: &tree::Expr,
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        if let (tree::Binary::In, tree::ExprKind::Range { low, high, is_closed }) = (operator, &right.kind) {
            return self.in_range(left, [low, high], *is_closed, span, context);
        }
        let (left, right) = self.operands(operator, left, right, context)?;
        self.or_refuse(operators::binary(operator, left, right, span, context.rounding), span)
    }

    pub(super) fn or_refuse(&mut self, typed: Result<Typed, operators::Undefined>, span: Span) -> Option<Typed> {
        typed
            .map_err(|undefined| {
                let diagnostic = Diagnostic::new(Code::Operands, span, undefined.message, "not defined");
                self.report.push(Diagnostic { help: undefined.help, ..diagnostic });
            })
            .ok()
    }

    fn literal(value: &Value, span: Span) -> Typed {
        let ty = match value {
            Value::Boolean(_) => Type::Boolean,
            Value::Money(_) => Type::Money,
            Value::Percentage(_) => Type::Percentage,
            Value::Date(_) => Type::Date,
            Value::String(_) => Type::String,
            Value::Decimal(number) => Type::Decimal(number.decimals()),
            Value::Duration(_) => Type::Duration,
            Value::Period(_) => Type::Period,
            Value::Time(_) => Type::Time,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Iban(_) => Type::Iban,
            Value::Id(_) => Type::Id,
            Value::Currency(_) => Type::Currency,
            _ => Type::Integer,
        };
        Typed::leaf(ExprKind::Literal(value.clone()), ty, span)
    }

    /// A variable, parameter, field or constant, whichever has the name; it is only one of them.
    pub(super) fn variable(&mut self, name: &Name, span: Span, context: &mut Context<'_>) -> Option<Typed> {
        if let Some(index) = context.locals.iter().rposition(|local| local.name == *name) {
            context.used.push(name.clone());
            return Some(Typed::leaf(ExprKind::Local(index), context.locals[index].ty.clone(), span));
        }
        if let Some(param) = context.params.iter().find(|param| param.name == *name) {
            context.used.push(name.clone());
            let slot = Slot { index: param.slot, name: param.name.clone() };
            return Some(Typed::leaf(ExprKind::Param(slot), param.ty.clone(), span));
        }
        if let Some((named, depth)) = context.lets.iter().find(|(named, _)| named.name == *name) {
            context.used.push(name.clone());
            return Some(Typed::node(ExprKind::Let(named.clone()), named.value.ty().clone(), span, *depth));
        }
        let fields: Vec<Name> = match context.class {
            Some((class, _)) if name.contains('.') => self.headers[class].names().cloned().collect(),
            _ => Vec::new(),
        };
        if self.refuse_two_readings(name, span, context.names().chain(&fields)) {
            return None;
        }
        if let Some((ty, value)) = self.config_value(name) {
            let value = value.unwrap_or(Value::Boolean(false));
            return Some(Typed::leaf(ExprKind::Literal(value), ty, span));
        }
        if let Some((ty, value)) = self.constants.get(name) {
            self.used.insert(name.clone());
            return Some(Typed::leaf(ExprKind::Literal(value.clone()), ty.clone(), span));
        }
        if let Some((Declared::Constant, _)) = self.declared.get(name) {
            // Its own error is reported.
            self.used.insert(name.clone());
            return None;
        }
        if let Some((class, exists)) = context.class {
            let header = &self.headers[class];
            if let Some((index, ty)) = header.identity_field(name) {
                return Some(Typed::leaf(ExprKind::Identity(index), ty, span));
            }
            if let Some(field) = header.field(name) {
                if exists || field.has_default {
                    let slot = Slot { index: field.slot, name: field.name.name.clone() };
                    return Some(Typed::leaf(ExprKind::Field(slot), field.ty.clone(), span));
                }
                let diagnostic = Diagnostic::new(
                    Code::ReadBeforeValue,
                    span,
                    format!("`{name}` has no value before the first event"),
                    "read here",
                );
                let declared = field.name.span;
                let help = "give the field a default, or take the value from a parameter";
                self.report.push(diagnostic.and(declared, "declared without a default").help(help));
                return None;
            }
        }
        if let Ok(currency) = name.parse() {
            return Some(Self::literal(&Value::Currency(currency), span));
        }
        self.unknown_variable(name, span, context);
        None
    }

    /// Whether a name stands for a value here.
    fn is_variable(&self, name: &Name, context: &Context<'_>) -> bool {
        let is_field = |class: usize| {
            let header = &self.headers[class];
            header.field(name).is_some() || header.identity_field(name).is_some()
        };
        context.names().any(|known| known == name)
            || self.constants.contains_key(name)
            || self.broken.contains(name)
            || context.class().is_some_and(is_field)
    }

    /// `value.name(..)`.
    fn called(
        &mut self,
        of: &tree::Expr,
        name: &Ident,
        arguments: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        if let tree::ExprKind::This = of.kind {
            return self.instance(of, context).map(|(own, _)| own);
        }
        let inner = self.expression(of, context, None)?;
        match self.class_of(inner.ty()) {
            Some(class) => self.asked_result((inner, class), name, arguments, span, context),
            None => self.method(inner, name, arguments, span, context),
        }
    }

    /// Reports a name that stands for nothing, once for each place that names are looked up in.
    fn unknown_variable(&mut self, name: &Name, span: Span, context: &mut Context<'_>) {
        if context.unknown.contains(name) || self.broken.contains(name) {
            return;
        }
        context.unknown.push(name.clone());
        if context
            .class
            .is_some_and(|(class, _)| self.headers[class].is_open && self.headers[class].kind == ClassKind::Plain)
        {
            return;
        }
        let is_value = |declared: &Declared| matches!(declared, Declared::Constant | Declared::Enum(_));
        if !self.declared.contains_key(name) && self.explain(Code::UnknownName, name, span, is_value) {
            return;
        }
        let message = match self.declared.get(name) {
            Some((declared, _)) => format!("`{name}` is {}, not a value", declared.noun()),
            None => format!("nothing is called `{name}` here"),
        };
        let mut names: Vec<&str> = context.names().map(|name| &**name).collect();
        if let Some((class, _)) = context.class {
            let header = &self.headers[class];
            names.extend(header.fields.iter().map(|field| &*field.name.name));
            names.extend(header.identity.iter().map(|identity| &*identity.name));
        }
        let config = self.config_names();
        names.extend(config.iter().map(|name| &**name));
        names.extend(self.constants.keys().map(|name| &**name));
        let diagnostic = Diagnostic::new(Code::UnknownName, span, message, "unknown");
        if context.class.is_some_and(|(class, _)| self.headers[class].kind == ClassKind::Shared) {
            let help = "a shared event reads its parameters and the fields that stand behind `needs`";
            return self.report.push(diagnostic.help(help));
        }
        if let Some(module) = self.module_that_begins_with(name) {
            let help = format!("write `import {module}` to use what that module declares behind its name");
            return self.report.push(diagnostic.help(help));
        }
        let mut enums = self.enums.iter().filter(|enumeration| enumeration.variants.contains(name));
        self.report.push(match (enums.next(), enums.next()) {
            (Some(only), None) => {
                let full = format!("{}.{name}", only.name);
                diagnostic.help(format!("a variant stands behind its enum: `{full}`")).edit(span, full)
            }
            _ => {
                let hinted = diagnostic.clone().did_you_mean(name, names);
                match context.is_default && hinted.help.is_none() {
                    true => diagnostic.help("a default reads constants and functions, and the constants of its class"),
                    false => hinted,
                }
            }
        });
    }

    /// `this`, `now` and `today`.
    fn ambient(&mut self, tree: &tree::Expr, context: &Context<'_>) -> Option<Typed> {
        let typed = match (&tree.kind, context.class) {
            // What the class is that it is an instance of, only classes with instances know.
            (tree::ExprKind::This, Some((class, _)))
                if matches!(self.headers[class].kind, ClassKind::Abstract | ClassKind::Shared) =>
            {
                return None;
            }
            (tree::ExprKind::This, Some((class, _))) => {
                Some(Typed::leaf(ExprKind::This, self.headers[class].ty(), tree.span))
            }
            (tree::ExprKind::Now, _) if context.has_time => {
                Some(Typed::leaf(ExprKind::Now, Type::Timestamp, tree.span))
            }
            (tree::ExprKind::Today, _) if context.has_time => Some(Typed::leaf(ExprKind::Today, Type::Date, tree.span)),
            _ => None,
        };
        if typed.is_none() {
            let (message, help) = match tree.kind {
                tree::ExprKind::This => ("there is no instance here", "pass what is needed as a parameter"),
                _ => (
                    "there is no time here",
                    "only events happen at a time; pass it as a parameter or keep it in a field",
                ),
            };
            self.refuse(Code::OutOfPlace, tree.span, message, "out of place", help);
        }
        typed
    }

    fn member(&mut self, inner: &tree::Expr, member: &Ident, context: &mut Context<'_>) -> Option<Typed> {
        if let tree::ExprKind::Caller = inner.kind {
            return self.caller_member(member, inner.span.to(member.span), context);
        }
        if let (tree::ExprKind::This, true, Some((class, _))) = (&inner.kind, context.sees_after, context.class) {
            return self.field_after(class, member, inner.span.to(member.span));
        }
        if let tree::ExprKind::This = inner.kind {
            let message = format!("`this.{}` is the new value, which only an effect names", member.name);
            let help = format!("write `{}`", member.name);
            let span = inner.span.to(member.span);
            let diagnostic = Diagnostic::new(Code::NewValueRead, span, message, "read here");
            self.report.push(diagnostic.help(help).edit(span, &*member.name));
            return None;
        }
        if let tree::ExprKind::Name(name) = &inner.kind
            && let Some((Declared::Enum(enumeration), _)) = self.declared.get(name)
        {
            let (enumeration, span) = (enumeration.clone(), inner.span.to(member.span));
            self.used.insert(name.clone());
            if enumeration.variants.contains(&member.name) {
                let variant = Value::Variant(Variant { of: enumeration.name.clone(), name: member.name.clone() });
                return Some(Typed::leaf(ExprKind::Literal(variant), Type::Enum(enumeration), span));
            }
            let message = format!("`{name}` has no variant `{}`", member.name);
            let diagnostic = Diagnostic::new(Code::UnknownMember, member.span, message, "no such variant");
            self.report.push(diagnostic.did_you_mean(&member.name, enumeration.variants.iter().map(|name| &**name)));
            return None;
        }
        let span = inner.span.to(member.span);
        if self.is_behind_module(inner, member, context) {
            return None;
        }
        let inner = self.expression(inner, context, None)?;
        if let Some(class) = self.class_of(inner.ty()) {
            return self.field_of_other(inner, class, member, span, context);
        }
        self.property(inner, member, span)
    }

    fn call_of(
        &mut self,
        name: &Ident,
        arguments: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        if builtin::is_function(&name.name) {
            return self.function(name, arguments, span, context);
        }
        match self.record_type(&name.name) {
            Some(record) => self.constructed(record?, arguments, span, context),
            None => self.call(name, arguments, span, context),
        }
    }

    /// Whether a module stands before a name that it does not declare, or that is not imported, which is reported.
    fn is_behind_module(&mut self, inner: &tree::Expr, member: &Ident, context: &Context<'_>) -> bool {
        let Some(path) = dotted(inner) else { return false };
        let first = path.split('.').next().unwrap_or_default();
        let is_something = context.names().any(|name| **name == *first)
            || context.class.is_some_and(|(class, _)| self.headers[class].names().any(|name| **name == *first))
            || self.declared.contains_key(first);
        if is_something || !self.is_module(&path) {
            return false;
        }
        let full: Name = format!("{path}.{}", member.name).into();
        if self.unknown.insert((Scope::Functions, full.clone())) {
            let span = inner.span.to(member.span);
            let is_shared = |declared: &Declared| matches!(declared, Declared::Event(_));
            self.explain(Code::UnknownName, &full, span, |declared| !is_shared(declared));
        }
        true
    }

    fn call(&mut self, name: &Ident, arguments: &[tree::Expr], span: Span, context: &mut Context<'_>) -> Option<Typed> {
        if &*name.name == FRESH {
            self.refuse_fresh(span);
            return None;
        }
        let Some(header) = self.functions.get(&name.name) else {
            if let Some((Declared::Function, _)) = self.declared.get(&name.name) {
                // Its own error is reported.
                self.used.insert(name.name.clone());
                return None;
            }
            if !self.unknown.insert((Scope::Functions, name.name.clone())) {
                return None;
            }
            let is_function = |declared: &Declared| matches!(declared, Declared::Function | Declared::Record(_));
            if self.explain(Code::UnknownName, &name.name, name.span, is_function) {
                return None;
            }
            let message = format!("there is no function `{}`", name.name);
            let diagnostic = Diagnostic::new(Code::UnknownName, name.span, message, "no such function");
            let mut names: Vec<&str> = builtin::functions().collect();
            names.extend(self.functions.keys().map(|name| &**name));
            let diagnostic = diagnostic.did_you_mean(&name.name, names);
            self.report.push(diagnostic);
            return None;
        };
        let (params, result) = (header.params.clone(), header.result.clone());
        let (function, mut depth) = (header.function.clone(), header.depth);
        self.used.insert(name.name.clone());
        let arguments = self.typed_arguments(&name.name, arguments, &params, span, context)?;
        depth = arguments.iter().map(|argument| argument.depth).fold(depth, usize::max);
        let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
        Some(Typed::node(ExprKind::Call(function, arguments), result, span, depth))
    }

    /// The operands of a binary operator. An empty set takes its type from the other side.
    fn operands(
        &mut self,
        operator: tree::Binary,
        left: &tree::Expr,
        right: &tree::Expr,
        context: &mut Context<'_>,
    ) -> Option<(Typed, Typed)> {
        if let tree::Binary::And | tree::Binary::Or = operator {
            let left = self.expect(left, context, &Type::Boolean);
            let right = self.expect(right, context, &Type::Boolean);
            return left.zip(right);
        }
        if is_open(left) && !is_open(right) {
            let right = self.expression(right, context, None)?;
            let left = self.expression(left, context, Some(right.ty()))?;
            return Some((left, right));
        }
        let left = self.expression(left, context, None);
        let expected = left.as_ref().map(|left| match (operator, &right.kind) {
            (tree::Binary::In, tree::ExprKind::List(_)) => Type::List(left.ty().clone().into()),
            (tree::Binary::In, _) => Type::Set(Box::new(left.ty().clone())),
            _ => left.ty().clone(),
        });
        if left.is_none() && is_open(right) {
            return None;
        }
        let right = self.expression(right, context, expected.as_ref());
        left.zip(right)
    }

    fn choice(
        &mut self,
        parts: [&tree::Expr; 3],
        span: Span,
        context: &mut Context<'_>,
        expected: Option<&Type>,
    ) -> Option<Typed> {
        let [condition, accepted, otherwise] = parts;
        let condition = self.expect(condition, context, &Type::Boolean);
        let (accepted, otherwise) = self.branches([accepted, otherwise], context, expected)?;
        let condition = condition?;
        let depth = condition.depth.max(accepted.depth).max(otherwise.depth);
        let ty = accepted.ty().clone();
        let kind = ExprKind::If(condition.expr.into(), accepted.expr.into(), otherwise.expr.into());
        Some(Typed::node(kind, ty, span, depth))
    }
}

/// Names with dots between them, as they are written.
fn dotted(tree: &tree::Expr) -> Option<String> {
    match &tree.kind {
        tree::ExprKind::Name(name) => Some(name.to_string()),
        tree::ExprKind::Member(inner, member) => Some(format!("{}.{}", dotted(inner)?, member.name)),
        _ => None,
    }
}
