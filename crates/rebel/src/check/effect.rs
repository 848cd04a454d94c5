//! What events change: fields, and places inside of them.
//!
//! Effects stand in the order of the text and under conditions; what an event makes of a field is one value. So the effects of a
//! section are sorted by field first, each with the conditions and loops around it, and a value is built of them at the end, when
//! those of a variant stand beside those that all variants have.

mod paths;
mod value;

use std::sync::Arc;

use super::coerce::{coerce, widen};
use super::expression::{Context, Typed};
use super::{Checker, Scope, operators};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::Param;
use crate::model::expr::{EffectOperator, Expr, ExprKind, Operator, Slot, Way};
use crate::source::Span;
use crate::syntax::tree::{self, ClassKind, Statement};
use crate::value::{Name, Type, Value};

/// The effects of an event, field by field.
#[derive(Clone, Default)]
pub(super) struct Effects {
    fields: Vec<OnField>,
}

/// All effects on one field.
#[derive(Clone)]
struct OnField {
    slot: Slot,
    ty: Type,
    parts: Vec<Part>,
    /// As they are written.
    texts: Vec<Name>,
}

/// An effect on a field, or several that depend on something.
#[derive(Clone)]
enum Part {
    Do(Change),
    If(Governing, Vec<Part>, Vec<Part>),
    For(Governing, Vec<Part>),
}

/// A condition or a collection, which all fields share that it decides about.
#[derive(Clone)]
struct Governing {
    expr: Arc<Expr>,
    depth: usize,
}

impl From<Typed> for Governing {
    fn from(Typed { expr, depth }: Typed) -> Self {
        Self { expr: expr.into(), depth }
    }
}

/// What is done to a place.
#[derive(Clone)]
struct Change {
    way: Vec<Way>,
    /// The type of the place.
    ty: Type,
    operator: EffectOperator,
    /// What it becomes, or what is added or taken away.
    value: Typed,
    /// Whether that is an element or a key, not a collection of them.
    is_element: bool,
    span: Span,
    depth: usize,
}

impl Effects {
    fn add(&mut self, slot: &Slot, ty: &Type, part: Part, text: Name) {
        match self.fields.iter_mut().find(|field| field.slot == *slot) {
            Some(field) => {
                field.parts.push(part);
                field.texts.push(text);
            }
            None => {
                let (slot, ty) = (slot.clone(), ty.clone());
                self.fields.push(OnField { slot, ty, parts: vec![part], texts: vec![text] });
            }
        }
    }
}

impl Checker {
    /// Adds the effects of a section to those that stand before it.
    pub(super) fn effects(
        &mut self,
        class: usize,
        statements: &[Statement<tree::Effect>],
        effects: &mut Effects,
        context: &mut Context<'_>,
    ) {
        self.collect_effects(class, statements, effects, context);
        self.one_value_for_each_place(effects);
    }

    fn collect_effects(
        &mut self,
        class: usize,
        statements: &[Statement<tree::Effect>],
        effects: &mut Effects,
        context: &mut Context<'_>,
    ) {
        for statement in statements {
            match statement {
                Statement::Do(effect) => {
                    let Some((slot, ty, change)) = self.change(class, effect, context) else { continue };
                    effects.add(&slot, &ty, Part::Do(change), self.text(effect.span));
                }
                Statement::If(condition, accepted, otherwise) => {
                    let typed = self.expect(condition, context, &Type::Boolean);
                    let (mut first, mut second) = (Effects::default(), Effects::default());
                    self.collect_effects(class, accepted, &mut first, context);
                    self.collect_effects(class, otherwise, &mut second, context);
                    let Some(governing) = typed.map(Governing::from) else { continue };
                    let written = shortened(&self.text(condition.span));
                    for OnField { slot, ty, parts, texts } in first.fields {
                        let at = second.fields.iter().position(|other| other.slot == slot);
                        let other = at.map(|at| second.fields.remove(at));
                        let mut text = format!("if {written}: {}", texts.join(", "));
                        let otherwise = other.map_or_else(Vec::new, |other| {
                            text += &format!(" else: {}", other.texts.join(", "));
                            other.parts
                        });
                        effects.add(&slot, &ty, Part::If(governing.clone(), parts, otherwise), text.into());
                    }
                    for OnField { slot, ty, parts, texts } in second.fields {
                        let text = format!("if not ({written}): {}", texts.join(", "));
                        effects.add(&slot, &ty, Part::If(governing.clone(), Vec::new(), parts), text.into());
                    }
                }
                Statement::For(name, set, inner) => {
                    let Some((domain, element)) = self.repeated(set, context) else { continue };
                    self.refuse_hidden(name, context);
                    context.loops.push(context.locals.len());
                    context.locals.push(Param::local(name.name.clone(), element));
                    let mut inside = Effects::default();
                    self.collect_effects(class, inner, &mut inside, context);
                    context.locals.pop();
                    context.loops.pop();
                    let (governing, written) = (Governing::from(domain), shortened(&self.text(set.span)));
                    for OnField { slot, ty, parts, texts } in inside.fields {
                        let text = format!("for {} in {written}: {}", name.name, texts.join(", "));
                        effects.add(&slot, &ty, Part::For(governing.clone(), parts), text.into());
                    }
                }
            }
        }
    }

    /// One effect: the field that it is on, and what it does there.
    fn change(
        &mut self,
        class: usize,
        effect: &tree::Effect,
        context: &mut Context<'_>,
    ) -> Option<(Slot, Type, Change)> {
        let (name, span) = (&effect.field.name, effect.field.span);
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
        if !effect.path.is_empty() || effect.operator != EffectOperator::Becomes {
            // What it had before is read.
            self.variable(name, span, context)?;
        }
        let (way, place, depth) = self.way(&ty, effect, context)?;
        let (value, is_element) = self.changed_by(&place, effect, context)?;
        let depth = depth.max(value.depth);
        let change = Change { way, ty: place, operator: effect.operator, value, is_element, span: effect.span, depth };
        self.refuse_one_place_for_all(effect, &change, context);
        Some((slot, ty, change))
    }

    /// The way from a field of type `ty` to the place that changes, its type, and how deep its keys nest.
    fn way(&mut self, ty: &Type, effect: &tree::Effect, context: &mut Context<'_>) -> Option<(Vec<Way>, Type, usize)> {
        let (mut way, mut place, mut depth) = (Vec::new(), ty.clone(), 0);
        for step in &effect.path {
            match step {
                tree::Way::Entry(key) => {
                    let Type::Map(types) = place else {
                        self.refuse_entry(&place, effect.span);
                        return None;
                    };
                    let key = self.expect(key, context, &types.0)?;
                    depth = depth.max(key.depth);
                    way.push(Way::Entry(key.expr));
                    place = types.1.clone();
                }
                tree::Way::Member(name) => {
                    let Type::Record(record) = place else {
                        let message = format!("only a record has fields, this is of type {place}");
                        let help = operators::for_optional(&place);
                        let diagnostic = Diagnostic::new(Code::Operands, effect.span, message, "no record");
                        self.report.push(Diagnostic { help, ..diagnostic });
                        return None;
                    };
                    let (index, ty) = self.record_field(&record, name)?;
                    way.push(Way::Member(index));
                    place = ty;
                }
            }
        }
        Some((way, place, depth))
    }

    fn refuse_entry(&mut self, ty: &Type, span: Span) {
        let message = format!("only the entries of a map are given values, this is of type {ty}");
        let diagnostic = Diagnostic::new(Code::Operands, span, message, "no map");
        self.report.push(match ty {
            Type::List(_) => diagnostic.help("a list is made anew, as in `list(x in xs: ..)`"),
            _ => diagnostic,
        });
    }

    /// What a place of type `ty` becomes, or what is added or taken away, and whether that is one element.
    fn changed_by(&mut self, ty: &Type, effect: &tree::Effect, context: &mut Context<'_>) -> Option<(Typed, bool)> {
        let operator = match effect.operator {
            EffectOperator::Becomes => return Some((self.expect(&effect.value, context, ty)?, false)),
            EffectOperator::Increases => Operator::Add,
            EffectOperator::Decreases => Operator::Subtract,
        };
        let expected = match (ty, &effect.value.kind) {
            (Type::Set(_), tree::ExprKind::Set(_)) | (Type::List(_), tree::ExprKind::List(_)) => Some(ty.clone()),
            (Type::Set(element), _) => Some(Type::clone(element)),
            (Type::List(element), _) => Some(Type::clone(element)),
            (Type::Map(types), _) => Some(types.0.clone()),
            _ => None,
        };
        let by = self.expression(&effect.value, context, expected.as_ref())?;
        let by_ty = by.ty().clone();
        let element = match (operator, ty) {
            (_, Type::Set(element)) => Some(&**element),
            (Operator::Add, Type::List(element)) => Some(&**element),
            (Operator::Subtract, Type::Map(types)) => Some(&types.0),
            _ => None,
        };
        let found = match element.map_or_else(|| Err(by.clone()), |element| widen(by.clone(), element)) {
            Ok(element) => Some((element, true)),
            Err(_) if matches!(ty, Type::Map(_)) || operator == Operator::Subtract && matches!(ty, Type::List(_)) => {
                None
            }
            Err(by) => is_defined(operator, ty, &by).then(|| (widen(by, ty).unwrap_or_else(|by| by), false)),
        };
        if found.is_none() {
            self.refuse_operator(operator, ty, &by_ty, effect.span);
        }
        found
    }

    fn refuse_operator(&mut self, operator: Operator, ty: &Type, by: &Type, span: Span) {
        let symbol = if operator == Operator::Add { "+=" } else { "-=" };
        let message = format!("`{symbol}` is not defined for {ty} and {by}");
        let diagnostic = Diagnostic::new(Code::Operands, span, message, "not defined");
        let help = match (ty, by) {
            (Type::Decimal(decimals), Type::Decimal(_)) => {
                Some(format!("the sum has more decimals than the field: `round(.., {decimals})` says how"))
            }
            (Type::Map(_), _) if operator == Operator::Add => {
                Some("an entry gets its value by its key, as in `this.entries[key] = value`".to_owned())
            }
            _ => operators::for_optional(ty).or_else(|| operators::for_optional(by)),
        };
        self.report.push(Diagnostic { help, ..diagnostic });
    }
}

/// The beginning of what governs effects, enough to find it: it is a part of the text of each of them.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ..", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether `by` can be added to a value of type `ty`, or taken away, so that a value of that type is left.
fn is_defined(operator: Operator, ty: &Type, by: &Typed) -> bool {
    let old = Typed::leaf(ExprKind::Literal(Value::None), ty.clone(), by.expr.span());
    sum(operator, old, by.clone(), ty).is_some()
}

/// The sum or the difference, as a value of type `ty`.
fn sum(operator: Operator, old: Typed, by: Typed, ty: &Type) -> Option<Typed> {
    let (span, depth) = (by.expr.span(), old.depth.max(by.depth));
    let (kind, result) = operators::sum(operator, old, by)?;
    coerce(Typed::node(kind, result, span, depth), ty).ok()
}

/// Whether `expr` reads the variable of this number.
fn reads_local(expr: &Expr, number: usize) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| found |= matches!(&expr.kind, ExprKind::Local(index) if *index == number));
    found
}
