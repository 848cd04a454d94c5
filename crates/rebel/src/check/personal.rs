//! What may happen to personal values: they are stored, handed on and shown, and nothing depends on them. So an event does the same
//! whether they can be read or not, and every replay holds after an erasure.

use std::collections::HashSet;

use super::Checker;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::{Expr, ExprKind};
use crate::model::{Class, Param};
use crate::source::Span;
use crate::syntax::tree;
use crate::value::{Name, Type};

const HELP: &str = "a personal value is given to a personal field or parameter, and nothing else is done with it";

impl Checker {
    /// The type of a field or a parameter, which may be personal; of a parameter also the one that says whose it is.
    pub(super) fn owned_type<'t>(&mut self, ty: &'t tree::Type) -> Option<(Type, Option<&'t tree::Ident>)> {
        match ty {
            tree::Type::Personal(inner, subject, _) => Some((Type::Personal(self.ty(inner)?.into()), subject.as_ref())),
            ty => Some((self.ty(ty)?, None)),
        }
    }

    pub(super) fn refuse_personal(&mut self, span: Span) {
        let help = "fields of classes and parameters of events are personal, as a whole";
        self.refuse(Code::Personal, span, "nothing else than a field or a parameter is personal", "not here", help);
    }

    /// Says of a parameter whose it is, if `subject` is one that refers to an instance.
    pub(super) fn subject(&mut self, subject: &tree::Ident, params: &[Param]) -> Option<Name> {
        let found = params.iter().find(|param| param.name == subject.name);
        if let Some(Param { ty: Type::Reference { .. }, name, .. }) = found {
            return Some(name.clone());
        }
        let message = match found {
            Some(param) => format!("`{}` is of type {}, and a person is an instance of a class", param.name, param.ty),
            None => format!("there is no parameter `{}` before or behind this one", subject.name),
        };
        if !self.broken.contains(&subject.name) {
            let help =
                "name a parameter that refers to the instance whose value this is, or nothing for the object itself";
            self.refuse(Code::Personal, subject.span, message, "whose?", help);
        }
        None
    }

    /// Refuses every expression that makes something of a personal value.
    pub(super) fn personal_values(&mut self, classes: &[Class]) {
        for class in classes {
            let bodies = class.events.iter().flat_map(|event| &event.transitions).map(|transition| &*transition.body);
            for body in bodies {
                let lets = body.lets.iter().map(|named| &named.value);
                body.expressions().chain(lets).for_each(|expr| self.refuse_uses(expr));
            }
            class.invariants.iter().for_each(|invariant| self.refuse_uses(&invariant.expr));
            class.timers.iter().for_each(|timer| self.refuse_uses(&timer.at));
        }
    }

    /// Refuses everything in `expr` that makes something of a personal value.
    pub(super) fn refuse_uses(&mut self, expr: &Expr) {
        let mut found = Vec::new();
        expr.walk(&mut |expr| {
            let hands_on =
                matches!(expr.kind, ExprKind::If(..) | ExprKind::Updated(..) | ExprKind::Let(_) | ExprKind::Ask(..));
            if !hands_on {
                let operands = expr.operands().into_iter();
                found.extend(operands.filter(|operand| matches!(operand.ty(), Type::Personal(_))).map(Expr::span));
            }
        });
        let mut seen = HashSet::new();
        for span in found.into_iter().filter(|span| seen.insert(*span)) {
            let diagnostic =
                Diagnostic::new(Code::Personal, span, "nothing depends on a personal value", "is personal");
            self.report.push(diagnostic.help(HELP));
        }
    }
}
