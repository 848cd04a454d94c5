//! Whether an event returns what it says, on every path.

use super::Checker;
use super::body::EventId;
use super::expression::{Context, Typed};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::{ExprKind, Returned, Slot};
use crate::source::Span;
use crate::syntax::tree::{self, Ident};

impl Checker {
    /// The value behind `return:` of an event or of one of its variants.
    pub(super) fn returned(
        &mut self,
        value: &tree::Expr,
        event: EventId,
        context: &mut Context<'_>,
    ) -> Option<Returned> {
        let header = &self.headers[event.0].events[event.1];
        let (ty, name, is_broken) = (header.result.clone(), header.name.name.clone(), header.is_broken);
        context.sees_after = true;
        let typed = match &ty {
            Some(ty) => self.expect(value, context, ty),
            None => self.expression(value, context, None),
        };
        context.sees_after = false;
        let typed = typed?;
        if ty.is_none() && !is_broken {
            let message = format!("`{name}` has no type for what it returns");
            let help = format!("write `-> {}` behind its parameters", typed.ty());
            self.report.push(Diagnostic::new(Code::Result, value.span, message, "returned here").help(help));
            return None;
        }
        Some(Returned { value: typed.expr, text: self.text(value.span) })
    }

    /// `this.field`, as the effects of the event leave it.
    pub(super) fn field_after(&mut self, class: usize, field: &Ident, span: Span) -> Option<Typed> {
        let header = &self.headers[class];
        if let Some((index, ty)) = header.identity_field(&field.name) {
            return Some(Typed::leaf(ExprKind::Identity(index), ty, span));
        }
        if let Some(known) = header.field(&field.name) {
            let slot = Slot { index: known.slot, name: known.name.name.clone() };
            return Some(Typed::leaf(ExprKind::NewField(slot), known.ty.clone(), span));
        }
        self.unknown_field(class, field, Code::UnknownName);
        None
    }

    /// Reports a path of an event with a result on which nothing is returned.
    pub(super) fn refuse_missing_result(&mut self, class: usize, event: &tree::Event, variant: Option<&Ident>) {
        // What external events return is said where their instances are kept.
        if event.result.is_none() || self.headers[class].kind == tree::ClassKind::External {
            return;
        }
        let (name, path) = (&event.name.name, variant.unwrap_or(&event.name));
        let message = match variant {
            None => format!("`{name}` has a result and returns nothing"),
            Some(variant) => format!("the variant `{}` of `{name}` returns nothing", variant.name),
        };
        let diagnostic = Diagnostic::new(Code::Result, path.span, message, "nothing is returned");
        self.report.push(diagnostic.help("add `return: value` as its last section"));
    }

    /// Reports a variant that returns a value beside the one that its event returns.
    pub(super) fn refuse_second_result(&mut self, first: Span, second: Span) {
        let diagnostic = Diagnostic::new(Code::Duplicate, second, "two values are returned", "the second");
        self.report.push(diagnostic.and(first, "the first").help("the event returns a value, or each variant does"));
    }

    /// Reports a result that nobody gets.
    pub(super) fn refuse_unheard_result(&mut self, event: &tree::Event) {
        if let (Some(_), true) = (&event.result, event.internal) {
            let message = format!("`{}` is internal, so nobody gets its result", event.name.name);
            let diagnostic = Diagnostic::new(Code::Result, event.name.span, message, "internal");
            self.report.push(diagnostic.help("a result goes to the client of the first event of a step; remove it"));
        }
    }
}
