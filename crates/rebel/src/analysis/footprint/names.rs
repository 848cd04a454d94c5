//! Which terms expressions of an event are.

use std::collections::HashMap;

use super::Term;
use crate::model::expr::{Asks, Expr, ExprKind, Fold};
use crate::model::{Builtin, Class, Let, Spec};
use crate::value::{Name, Type};

/// Characters of an expression that is a term as it is written, at most.
const WRITTEN_MAX: usize = 60;

/// A variable of a `for` or an aggregate.
#[derive(Clone)]
pub(super) struct Local {
    /// What it stands for.
    pub(super) term: Term,
    /// Whether it reads no place.
    pub(super) is_fixed: bool,
}

/// Names what expressions of one event stand for.
pub(super) struct Names<'a> {
    spec: &'a Spec,
    class: &'a Class,
    /// Of the `for`s and aggregates around, the outermost first.
    pub(super) locals: Vec<Local>,
    /// Named values by their addresses: what they stand for, and what each of their elements does.
    lets: HashMap<(*const Let, bool), Term>,
}

impl<'a> Names<'a> {
    pub(super) fn new(spec: &'a Spec, class: &'a Class) -> Self {
        Self { spec, class, locals: Vec::new(), lets: HashMap::new() }
    }

    /// The term of `expr`.
    pub(super) fn term(&mut self, expr: &Expr) -> Term {
        match &expr.kind {
            ExprKind::This => Term::This,
            ExprKind::Literal(value) => Term::Literal(value.clone()),
            ExprKind::CallerId => Term::Caller,
            ExprKind::Fresh(class, _) => Term::Fresh(class.clone()),
            ExprKind::Identity(index) => self.identity(Term::This, self.class, *index),
            ExprKind::Field(slot) => Term::member(Term::This, &slot.name),
            ExprKind::Param(slot) => Term::Param(slot.name.clone()),
            ExprKind::Local(index) => self.locals.get(*index).map_or(Term::Unknown, |local| local.term.clone()),
            ExprKind::Let(named) => self.named(named, false),
            ExprKind::If(_, accepted, otherwise) => Term::one_of(vec![self.term(accepted), self.term(otherwise)]),
            ExprKind::Otherwise(optional, other) => Term::one_of(vec![self.term(optional), self.term(other)]),
            ExprKind::Present(optional) => self.term(optional),
            ExprKind::Refer(class, keys) => {
                let keys = keys.iter().map(|key| self.term(key)).collect();
                Term::Identified(class.clone(), keys).bounded()
            }
            ExprKind::KeyOf(of, index) => {
                let class = class_of(of.ty()).and_then(|class| self.spec.class(class));
                let of = self.term(of);
                class.map_or(Term::Unknown, |class| self.identity(of, class, *index))
            }
            ExprKind::Ask(of, query) => match &query.asks {
                Asks::Field(name) => Term::member(self.term(of), name),
                _ => self.written(expr),
            },
            ExprKind::FieldOf(of, index) => match (&of.kind, of.ty()) {
                (ExprKind::Record(_, fields), _) => fields.get(*index).map_or(Term::Unknown, |field| self.term(field)),
                (_, Type::Record(record)) => match record.fields.get(*index) {
                    Some((name, _)) => Term::member(self.term(of), name),
                    None => Term::Unknown,
                },
                _ => Term::Unknown,
            },
            ExprKind::Apply(builtin, operands) => match (builtin, operands.as_slice()) {
                (Builtin::Element | Builtin::Get, [of, key]) => {
                    Term::Entry(self.term(of).into(), self.term(key).into()).bounded()
                }
                (Builtin::Keys, [of]) => Term::member(self.term(of), &"keys".into()),
                (Builtin::Values, [of]) => Term::member(self.term(of), &"values".into()),
                (Builtin::Widen(_) | Builtin::InCurrency(_), [operand]) => self.term(operand),
                _ => self.written(expr),
            },
            ExprKind::Aggregate(aggregate) => match aggregate.fold {
                Fold::First | Fold::Last | Fold::Least | Fold::Greatest => {
                    self.within(&aggregate.domain, &aggregate.body)
                }
                _ => self.written(expr),
            },
            _ => self.written(expr),
        }
    }

    /// What each element of the collection `expr` stands for.
    pub(super) fn each(&mut self, expr: &Expr) -> Term {
        match &expr.kind {
            ExprKind::Set(items) | ExprKind::List(items) => {
                let items = items.iter().map(|item| self.term(item)).collect();
                Term::one_of(items)
            }
            ExprKind::Let(named) => self.named(named, true),
            ExprKind::If(_, accepted, otherwise) => Term::one_of(vec![self.each(accepted), self.each(otherwise)]),
            ExprKind::Otherwise(optional, other) => Term::one_of(vec![self.each(optional), self.each(other)]),
            ExprKind::Present(optional) => self.each(optional),
            ExprKind::Insert(set, element) => Term::one_of(vec![self.each(set), self.term(element)]),
            ExprKind::Remove(set, _) => self.each(set),
            ExprKind::Apply(builtin, operands) => match (builtin, operands.as_slice()) {
                (Builtin::Add, [left, right]) => Term::one_of(vec![self.each(left), self.each(right)]),
                (Builtin::Append, [list, element]) => Term::one_of(vec![self.each(list), self.term(element)]),
                (Builtin::Subtract, [left, _]) => self.each(left),
                _ => self.each_of(expr),
            },
            ExprKind::Aggregate(aggregate) => match aggregate.fold {
                Fold::Set | Fold::List => self.within(&aggregate.domain, &aggregate.body),
                Fold::Sort => self.each(&aggregate.domain),
                _ => self.each_of(expr),
            },
            _ => self.each_of(expr),
        }
    }

    fn each_of(&mut self, expr: &Expr) -> Term {
        match self.term(expr) {
            Term::Unknown => Term::Unknown,
            of => Term::Each(of.into()).bounded(),
        }
    }

    /// Whether `expr` reads no place: it follows from the arguments, the identity, the time and the caller.
    pub(super) fn is_fixed(&self, expr: &Expr) -> bool {
        let mut is_fixed = true;
        expr.walk(&mut |expr| {
            is_fixed &= match &expr.kind {
                ExprKind::Field(_) | ExprKind::NewField(_) | ExprKind::Ask(..) => false,
                // One that is not around stands in `expr`, whose domain is looked at too.
                ExprKind::Local(index) => self.locals.get(*index).is_none_or(|local| local.is_fixed),
                _ => true,
            };
        });
        is_fixed
    }

    /// Takes up the variable that goes through `domain`, as the innermost one.
    pub(super) fn enter(&mut self, domain: &Expr) {
        let local = Local { term: self.each(domain), is_fixed: self.is_fixed(domain) };
        self.locals.push(local);
    }

    /// Drops the innermost variable.
    pub(super) fn leave(&mut self) {
        self.locals.pop();
    }

    /// What `body` stands for where the innermost variable goes through `domain`.
    fn within(&mut self, domain: &Expr, body: &Expr) -> Term {
        self.enter(domain);
        let term = self.term(body);
        self.leave();
        term
    }

    /// A value that the event has named, or what is each of its elements. It stands in no `for` and in no aggregate.
    fn named(&mut self, named: &Let, is_each: bool) -> Term {
        let key = (std::ptr::from_ref(named), is_each);
        if let Some(known) = self.lets.get(&key) {
            return known.clone();
        }
        let locals = std::mem::take(&mut self.locals);
        let name = || Term::Written(named.name.clone());
        let term = match if is_each { self.each(&named.value) } else { self.term(&named.value) } {
            Term::Written(_) => name(),
            Term::Each(of) if matches!(*of, Term::Written(_)) => Term::Each(name().into()),
            term => term,
        };
        self.locals = locals;
        self.lets.insert(key, term.clone());
        term
    }

    fn identity(&self, of: Term, class: &Class, index: usize) -> Term {
        class.identity.get(index).map_or(Term::Unknown, |name| Term::member(of, name))
    }

    /// An expression as it stands in the source, on one line.
    fn written(&self, expr: &Expr) -> Term {
        let span = expr.span();
        let text =
            self.spec.warnings.sources().get(span.source).and_then(|source| source.text.get(span.start..span.end));
        let words: Vec<&str> = text.unwrap_or_default().split_whitespace().collect();
        // A source cannot write to the terminal.
        let text = words.join(" ").replace(char::is_control, "?");
        let is_short = !text.is_empty() && text.chars().count() <= WRITTEN_MAX && !text.contains("//");
        if is_short { Term::Written(text.into()) } else { Term::Unknown }
    }
}

/// The class of the instances that a type refers to.
pub(in crate::analysis) fn class_of(ty: &Type) -> Option<&Name> {
    match ty.present() {
        Type::Reference { class, .. } => Some(class),
        _ => None,
    }
}
