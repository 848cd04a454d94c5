//! Literals of collections and records, what is in them, and what is absent.

use std::sync::Arc;

use super::coerce::{unify, widen};
use super::expression::{Context, Typed};
use super::operators::for_optional;
use super::{Checker, Declared};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::ExprKind;
use crate::model::{Builtin, Param};
use crate::source::Span;
use crate::syntax::tree::{self, Ident};
use crate::value::{Name, RecordType, Type, Value};

/// Whether the type of an expression is only known from where it stands.
pub(super) fn is_open(tree: &tree::Expr) -> bool {
    match &tree.kind {
        tree::ExprKind::Set(items) | tree::ExprKind::List(items) => items.is_empty(),
        tree::ExprKind::None => true,
        _ => false,
    }
}

impl Checker {
    /// `none`, whose type is that which is expected.
    pub(super) fn none(&mut self, span: Span, expected: Option<&Type>) -> Option<Typed> {
        let Some(expected) = expected else {
            let help = "`none` takes the type of the optional value that it is given to or compared with";
            self.refuse(
                Code::Untyped,
                span,
                "nothing tells which value this `none` is the absence of",
                "absent, but what?",
                help,
            );
            return None;
        };
        let ty = match expected {
            Type::Personal(of) if matches!(**of, Type::Optional(_)) => expected.clone(),
            _ => Type::Optional(expected.present().clone().into()),
        };
        Some(Typed::leaf(ExprKind::Literal(Value::None), ty, span))
    }

    /// `{a, b}`, or an empty collection of the type that is expected.
    pub(super) fn set(
        &mut self,
        items: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
        expected: Option<&Type>,
    ) -> Option<Typed> {
        match (items, expected.map(Type::present)) {
            ([], Some(ty @ Type::Set(_))) => Some(Typed::leaf(ExprKind::Set(Vec::new()), ty.clone(), span)),
            ([], Some(ty @ Type::Map(_))) => Some(Typed::leaf(ExprKind::Map(Vec::new()), ty.clone(), span)),
            ([], _) => {
                let help = "`{}` takes the type of the field or parameter that it is given to or compared with";
                self.refuse(
                    Code::Untyped,
                    span,
                    "nothing tells whether this `{}` is a set or a map",
                    "empty, but of what?",
                    help,
                );
                None
            }
            (items, expected) => {
                let expected = match expected {
                    Some(Type::Set(element)) => Some(&**element),
                    _ => None,
                };
                let (items, element, depth) = self.elements(items, context, expected)?;
                Some(Typed::node(ExprKind::Set(items), Type::Set(element.into()), span, depth))
            }
        }
    }

    /// `[a, b]`.
    pub(super) fn list(
        &mut self,
        items: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
        expected: Option<&Type>,
    ) -> Option<Typed> {
        let expected = match expected.map(Type::present) {
            Some(Type::List(element)) => Some(&**element),
            _ => None,
        };
        if items.is_empty() {
            let Some(element) = expected else {
                let help = "`[]` takes the type of the field or parameter that it is given to or compared with";
                self.refuse(Code::Untyped, span, "nothing tells what this `[]` is a list of", "a list of what?", help);
                return None;
            };
            return Some(Typed::leaf(ExprKind::List(Vec::new()), Type::List(element.clone().into()), span));
        }
        let (items, element, depth) = self.elements(items, context, expected)?;
        Some(Typed::node(ExprKind::List(items), Type::List(element.into()), span, depth))
    }

    /// Elements of one type: that which is expected if they are of it, else that of the first.
    fn elements(
        &mut self,
        items: &[tree::Expr],
        context: &mut Context<'_>,
        expected: Option<&Type>,
    ) -> Option<(Vec<crate::model::expr::Expr>, Type, usize)> {
        let (first, rest) = items.split_first()?;
        let first = self.expression(first, context, expected)?;
        let first = match expected {
            Some(expected) => widen(first, expected).unwrap_or_else(|first| first),
            None => first,
        };
        let ty = first.ty().clone();
        let rest: Vec<_> = rest.iter().map(|item| self.expect(item, context, &ty)).collect();
        let rest: Vec<Typed> = rest.into_iter().collect::<Option<_>>()?;
        let depth = rest.iter().map(|item| item.depth).fold(first.depth, usize::max);
        let items = std::iter::once(first.expr).chain(rest.into_iter().map(|item| item.expr)).collect();
        Some((items, ty, depth))
    }

    /// `{k: v}`.
    pub(super) fn map(
        &mut self,
        entries: &[(tree::Expr, tree::Expr)],
        span: Span,
        context: &mut Context<'_>,
        expected: Option<&Type>,
    ) -> Option<Typed> {
        let expected = match expected.map(Type::present) {
            Some(Type::Map(types)) => Some(&**types),
            _ => None,
        };
        let mut types = expected.cloned();
        let (mut checked, mut depth) = (Some(Vec::new()), 0);
        for (key, value) in entries {
            let both = match &types {
                Some((of_key, of_value)) => {
                    let (key, value) = (self.expect(key, context, of_key), self.expect(value, context, of_value));
                    key.zip(value)
                }
                None => {
                    let (key, value) = (self.expression(key, context, None), self.expression(value, context, None));
                    key.zip(value)
                }
            };
            match both {
                Some((key, value)) => {
                    types.get_or_insert_with(|| (key.ty().clone(), value.ty().clone()));
                    depth = depth.max(key.depth).max(value.depth);
                    if let Some(entries) = &mut checked {
                        entries.push((key.expr, value.expr));
                    }
                }
                None => checked = None,
            }
        }
        Some(Typed::node(ExprKind::Map(checked?), Type::Map(types?.into()), span, depth))
    }

    /// `value[index]`.
    pub(super) fn element(
        &mut self,
        of: Typed,
        index: &tree::Expr,
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        let (wanted, element) = match of.ty() {
            Type::List(element) => (Type::Integer, Type::clone(element)),
            Type::Map(types) => types.as_ref().clone(),
            ty => {
                let message = format!("{ty} has no elements to be found by a position or a key");
                let diagnostic = Diagnostic::new(Code::Operands, span, message, "not defined");
                self.report.push(match for_optional(ty) {
                    Some(help) => diagnostic.help(help),
                    None => diagnostic,
                });
                return None;
            }
        };
        let index = self.expect(index, context, &wanted)?;
        let depth = of.depth.max(index.depth);
        Some(Typed::node(ExprKind::Apply(Builtin::Element, vec![of.expr, index.expr]), element, span, depth))
    }

    /// `value!`.
    pub(super) fn present(&mut self, of: &tree::Expr, span: Span, context: &mut Context<'_>) -> Option<Typed> {
        let of = self.expression(of, context, None)?;
        let Type::Optional(inner) = of.ty() else {
            let message = format!("a value of type {} is always there", of.ty());
            self.refuse(Code::Operands, span, message, "`!` is not needed", "leave `!` out");
            return None;
        };
        let ty = Type::clone(inner);
        Some(Typed::node(ExprKind::Present(of.expr.into()), ty, span, of.depth))
    }

    /// The record that is called so.
    pub(super) fn record_type(&mut self, name: &Name) -> Option<Option<Arc<RecordType>>> {
        let Some((Declared::Record(record), _)) = self.declared.get(name) else { return None };
        let record = record.clone();
        self.used.insert(name.clone());
        Some(record)
    }

    /// `Record(field: value, ..)`: every field has a value, by its name, by its place or by default.
    pub(super) fn constructed(
        &mut self,
        record: Arc<RecordType>,
        arguments: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        let fields: Vec<Param> = record
            .fields
            .iter()
            .enumerate()
            .map(|(index, (name, ty))| Param {
                default: record.default(index).cloned(),
                ..Param::local(name.clone(), ty.clone())
            })
            .collect();
        let values = self.typed_arguments(&record.name, arguments, &fields, span, context)?;
        let depth = values.iter().map(|value| value.depth).max().unwrap_or(0);
        let fields = values.into_iter().map(|value| value.expr).collect();
        Some(Typed::node(ExprKind::Record(record.clone(), fields), Type::Record(record), span, depth))
    }

    /// `record with (field: value, ..)`.
    pub(super) fn with(
        &mut self,
        of: &tree::Expr,
        fields: &[(Ident, tree::Expr)],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        let of = self.expression(of, context, None)?;
        let Type::Record(record) = of.ty() else {
            let message = format!("only a record has fields that are replaced, this is of type {}", of.ty());
            let help = for_optional(of.ty()).unwrap_or_else(|| "`with` stands behind a value of a record".to_owned());
            self.refuse(Code::TypeMismatch, span, message, "no record", &help);
            return None;
        };
        let record = record.clone();
        let (mut changed, mut depth) = (Vec::new(), of.depth);
        for (name, value) in fields {
            let (index, ty) = self.record_field(&record, name)?;
            if changed.iter().any(|(known, _)| *known == index) {
                let message = format!("`{}` is given two values", name.name);
                self.refuse(Code::AssignedTwice, name.span, message, "the second", "leave one of them out");
                return None;
            }
            let value = self.expect(value, context, &ty)?;
            depth = depth.max(value.depth);
            changed.push((index, value.expr));
        }
        Some(Typed::node(ExprKind::With(of.expr.into(), changed), Type::Record(record), span, depth))
    }

    /// The number and the type of a field of a record.
    pub(super) fn record_field(&mut self, record: &RecordType, name: &Ident) -> Option<(usize, Type)> {
        if let Some(index) = record.fields.iter().position(|(known, _)| *known == name.name) {
            return Some((index, record.fields[index].1.clone()));
        }
        let message = format!("`{}` has no field `{}`", record.name, name.name);
        let diagnostic = Diagnostic::new(Code::UnknownMember, name.span, message, "no such field");
        let names = record.fields.iter().map(|(name, _)| &**name);
        self.report.push(diagnostic.did_you_mean(&name.name, names));
        None
    }

    /// The branches of a choice, as values of one type.
    pub(super) fn branches(
        &mut self,
        [accepted, otherwise]: [&tree::Expr; 2],
        context: &mut Context<'_>,
        expected: Option<&Type>,
    ) -> Option<(Typed, Typed)> {
        let span = otherwise.span;
        let (first, second) = if is_open(accepted) && expected.is_none() {
            let second = self.expression(otherwise, context, None)?;
            (self.expression(accepted, context, Some(second.ty()))?, second)
        } else {
            let first = self.expression(accepted, context, expected)?;
            let ty = first.ty().clone();
            (first, self.expression(otherwise, context, Some(expected.unwrap_or(&ty)))?)
        };
        match unify(first, second) {
            Ok(both) => Some(both),
            Err(both) => {
                let (first, second) = *both;
                self.mismatch(span, first.ty(), second.ty());
                None
            }
        }
    }
}
