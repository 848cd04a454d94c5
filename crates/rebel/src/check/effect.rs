//! What events change: fields, and places inside of them.

use super::coerce::{coerce, widen};
use super::expression::{Context, Typed};
use super::{Checker, Scope, operators};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::Builtin;
use crate::model::expr::{Effect, Entry, ExprKind, Operator, Slot};
use crate::source::Span;
use crate::syntax::tree::{self, ClassKind, EffectOperator, Way};
use crate::value::{Name, Type};

/// An effect with what is left of the way to its place.
type OnWay<'a> = (&'a [Way], &'a tree::Effect);

impl Checker {
    /// The effects of an event, one for each field, none of which is on a field of the `others`.
    pub(super) fn effects(
        &mut self,
        class: usize,
        effects: &[tree::Effect],
        others: &[tree::Effect],
        context: &mut Context<'_>,
    ) -> Vec<Effect> {
        let mut groups: Vec<Vec<&tree::Effect>> = Vec::new();
        for effect in effects {
            let name = &effect.field.name;
            let group = groups.iter_mut().find(|group| group[0].field.name == *name);
            let earlier = others.iter().find(|other| other.field.name == *name);
            let earlier = earlier.or(group.as_ref().map(|group| group[0]).filter(|first| !are_apart(first, effect)));
            match (earlier, group) {
                (Some(earlier), _) => self.assigned_twice(earlier, effect),
                (None, Some(group)) => group.push(effect),
                (None, None) => groups.push(vec![effect]),
            }
        }
        groups.iter().filter_map(|group| self.effect(class, group, context)).collect()
    }

    fn assigned_twice(&mut self, earlier: &tree::Effect, effect: &tree::Effect) {
        let message = format!("`{}` is given two values", effect.field.name);
        let diagnostic = Diagnostic::new(Code::AssignedTwice, effect.span, message, "the second");
        self.report.push(diagnostic.and(earlier.span, "the first").help("join the two effects"));
    }

    /// All effects on one field.
    fn effect(&mut self, class: usize, group: &[&tree::Effect], context: &mut Context<'_>) -> Option<Effect> {
        let first = group.first()?;
        let (name, span) = (&first.field.name, first.field.span);
        let header = &self.headers[class];
        if header.identity.iter().any(|identity| identity.name == *name) {
            let message = format!("`{name}` is the identity and never changes");
            self.refuse(Code::IdentityAssigned, span, message, "the identity", "remove this effect");
            return None;
        }
        let Some(field) = header.field(name) else {
            let is_open = header.is_open && header.kind == ClassKind::Plain;
            if is_open || self.broken.contains(name) || !self.unknown.insert((Scope::Fields(class), name.clone())) {
                return None;
            }
            let message = format!("`{}` has no field `{name}`", header.name);
            let diagnostic = Diagnostic::new(Code::UnknownName, span, message, "no such field");
            let names = header.fields.iter().map(|field| &*field.name.name);
            let diagnostic = diagnostic.did_you_mean(name, names);
            self.report.push(diagnostic);
            return None;
        };
        let (ty, slot) = (field.ty.clone(), Slot { index: field.slot, name: field.name.name.clone() });
        let texts: Vec<Name> = group.iter().map(|effect| self.text(effect.span)).collect();
        let value = match group {
            [only] if only.path.is_empty() && only.operator == EffectOperator::Becomes => {
                self.expect(&only.value, context, &ty)?
            }
            _ => {
                let old = self.variable(name, span, context)?;
                let ways: Vec<OnWay<'_>> = group.iter().map(|effect| (effect.path.as_slice(), *effect)).collect();
                self.changed(old, &ways, context)?
            }
        };
        Some(Effect { field: slot, value: value.expr, text: texts.join(", ").into() })
    }

    /// What effects make of a value.
    fn changed(&mut self, old: Typed, effects: &[OnWay<'_>], context: &mut Context<'_>) -> Option<Typed> {
        let (way, effect) = effects.first()?;
        match way.first() {
            None => self.new_value(old, effect, context),
            Some(Way::Entry(_)) => self.entries(old, effects, context),
            Some(Way::Member(_)) => self.members(old, effects, context),
        }
    }

    fn new_value(&mut self, old: Typed, effect: &tree::Effect, context: &mut Context<'_>) -> Option<Typed> {
        let operator = match effect.operator {
            EffectOperator::Becomes => return self.expect(&effect.value, context, &old.ty().clone()),
            EffectOperator::Increases => Operator::Add,
            EffectOperator::Decreases => Operator::Subtract,
        };
        let ty = old.ty().clone();
        let expected = match (&ty, &effect.value.kind) {
            (Type::Set(_), tree::ExprKind::Set(_)) | (Type::List(_), tree::ExprKind::List(_)) => Some(ty.clone()),
            (Type::Set(element), _) => Some(Type::clone(element)),
            (Type::List(element), _) => Some(Type::clone(element)),
            (Type::Map(types), _) => Some(types.0.clone()),
            _ => None,
        };
        let by = self.expression(&effect.value, context, expected.as_ref())?;
        let (by_ty, span) = (by.ty().clone(), effect.span);
        let depth = old.depth.max(by.depth);
        let apply = |builtin, old: Typed, by: Typed| {
            Typed::node(ExprKind::Apply(builtin, vec![old.expr, by.expr]), ty.clone(), span, depth)
        };
        let changed = match (operator, &ty) {
            (Operator::Subtract, Type::Map(types)) => {
                widen(by, &types.0).ok().map(|key| apply(Builtin::Without, old, key))
            }
            (Operator::Add, Type::List(element)) => match widen(by, element) {
                Ok(element) => Some(apply(Builtin::Append, old, element)),
                Err(by) => widen(by, &ty).ok().map(|list| apply(Builtin::Add, old, list)),
            },
            (_, Type::List(_) | Type::Map(_)) => None,
            _ => operators::sum(operator, old, by)
                .and_then(|(kind, result)| coerce(Typed::node(kind, result, span, depth), &ty).ok()),
        };
        if changed.is_none() {
            let symbol = if operator == Operator::Add { "+=" } else { "-=" };
            let message = format!("`{symbol}` is not defined for {ty} and {by_ty}");
            let diagnostic = Diagnostic::new(Code::Operands, effect.span, message, "not defined");
            let help = match (&ty, &by_ty) {
                (Type::Decimal(decimals), Type::Decimal(_)) => {
                    Some(format!("the sum has more decimals than the field: `round(.., {decimals})` says how"))
                }
                (Type::Map(_), _) if operator == Operator::Add => {
                    Some("an entry gets its value by its key, as in `this.entries[key] = value`".to_owned())
                }
                _ => operators::for_optional(&ty).or_else(|| operators::for_optional(&by_ty)),
            };
            self.report.push(Diagnostic { help, ..diagnostic });
        }
        changed
    }

    /// Entries of a map.
    fn entries(&mut self, old: Typed, effects: &[OnWay<'_>], context: &mut Context<'_>) -> Option<Typed> {
        let Type::Map(types) = old.ty().clone() else {
            let (_, effect) = effects.first()?;
            let message = format!("only the entries of a map are given values, this is of type {}", old.ty());
            let diagnostic = Diagnostic::new(Code::Operands, effect.span, message, "no map");
            self.report.push(match old.ty() {
                Type::List(_) => diagnostic.help("a list is made anew, as in `list(x in xs: ..)`"),
                _ => diagnostic,
            });
            return None;
        };
        let (ty, span, mut depth) = (old.ty().clone(), old.expr.span(), old.depth);
        let mut entries = Vec::new();
        for (way, effect) in effects {
            let (Way::Entry(key), rest) = way.split_first()? else { return None };
            let key = self.expect(key, context, &types.0)?;
            let is_change = !rest.is_empty() || effect.operator != EffectOperator::Becomes;
            let value = if is_change {
                let operands = vec![old.expr.clone(), key.expr.clone()];
                let element = Typed::node(ExprKind::Apply(Builtin::Element, operands), types.1.clone(), span, depth);
                self.changed(element, &[(rest, effect)], context)?
            } else {
                self.expect(&effect.value, context, &types.1)?
            };
            depth = depth.max(key.depth).max(value.depth);
            entries.push(Entry { key: key.expr, value: value.expr, is_change });
        }
        Some(Typed::node(ExprKind::Put(old.expr.into(), entries), ty, all(effects), depth))
    }

    /// Fields of a record.
    fn members(&mut self, old: Typed, effects: &[OnWay<'_>], context: &mut Context<'_>) -> Option<Typed> {
        let (_, effect) = effects.first()?;
        let Type::Record(record) = old.ty().clone() else {
            let message = format!("only a record has fields, this is of type {}", old.ty());
            let help = operators::for_optional(old.ty());
            let diagnostic = Diagnostic::new(Code::Operands, effect.span, message, "no record");
            self.report.push(Diagnostic { help, ..diagnostic });
            return None;
        };
        let (span, mut depth) = (old.expr.span(), old.depth);
        let mut fields = Vec::new();
        for (way, effect) in effects {
            let (Way::Member(name), rest) = way.split_first()? else { return None };
            let (index, ty) = self.record_field(&record, name)?;
            let is_plain = rest.is_empty() && effect.operator == EffectOperator::Becomes;
            let value = if is_plain {
                self.expect(&effect.value, context, &ty)?
            } else {
                let part = Typed::node(ExprKind::FieldOf(old.expr.clone().into(), index), ty, span, old.depth);
                self.changed(part, &[(rest, effect)], context)?
            };
            depth = depth.max(value.depth);
            fields.push((index, value.expr));
        }
        let ty = old.ty().clone();
        Some(Typed::node(ExprKind::With(old.expr.into(), fields), ty, all(effects), depth))
    }
}

/// Whether two effects on one field are on places that differ, or that only the values of their keys can tell apart.
fn are_apart(a: &tree::Effect, b: &tree::Effect) -> bool {
    match (a.path.first(), b.path.first()) {
        (Some(Way::Entry(_)), Some(Way::Entry(_))) => true,
        (Some(Way::Member(a)), Some(Way::Member(b))) => a.name != b.name,
        _ => false,
    }
}

/// Where effects stand.
fn all(effects: &[OnWay<'_>]) -> Span {
    let (first, last) = (effects[0].1.span, effects[effects.len() - 1].1.span);
    first.to(last)
}
