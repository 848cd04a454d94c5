//! `fresh(C)`: a new instance, named by a `let:`; and which steps need a seed for it.

use super::expression::Typed;
use super::{Checker, Declared};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::ExprKind;
use crate::model::{Class, Event};
use crate::source::Span;
use crate::syntax::tree::{self, Ident};
use crate::value::KeyType;

/// The word, which is no name of a function.
pub(super) const FRESH: &str = "fresh";

impl Checker {
    /// The value of a `let:` that is `fresh(C)` and nothing else; the number is that of the name.
    pub(super) fn fresh(&mut self, value: &tree::Expr, number: usize) -> Option<Option<Typed>> {
        let tree::ExprKind::Call(word, arguments) = &value.kind else { return None };
        (&*word.name == FRESH).then(|| self.fresh_instance(arguments, number, value.span))
    }

    fn fresh_instance(&mut self, arguments: &[tree::Expr], number: usize, span: Span) -> Option<Typed> {
        let [tree::Expr { kind: tree::ExprKind::Name(name), span: at, .. }] = arguments else {
            let help = "write `fresh(Class)`";
            self.refuse(Code::ArgumentCount, span, "`fresh` takes the name of a class", "this call", help);
            return None;
        };
        let Some((Declared::Class(class), _)) = self.declared.get(name).cloned() else {
            self.unknown_class(&Ident { name: name.clone(), span: *at });
            return None;
        };
        let header = &self.headers[class];
        if header.key_type != KeyType::Id {
            let message = format!("the identity of `{name}` is of type {}, and a fresh one is an Id", header.key_type);
            let diagnostic = Diagnostic::new(Code::Identity, *at, message, "no Id");
            let help = "declare `id: Id @identity` in the class, or let the request choose the identity";
            let declared = header.identity.first().map(|identity| identity.span);
            self.report.push(match declared {
                Some(declared) => diagnostic.and(declared, "its identity").help(help),
                None => diagnostic.help(help),
            });
            return None;
        }
        Some(Typed::leaf(ExprKind::Fresh(header.name.clone(), number), header.ty(), span))
    }

    /// Reports `fresh(C)` where it is not the value of a `let:`.
    pub(super) fn refuse_fresh(&mut self, span: Span) {
        let help = "name it first, as in `let: order = fresh(Order)`: each name is one new instance";
        self.refuse(Code::OutOfPlace, span, "`fresh` stands alone behind a name in `let:`", "out of place", help);
    }

    /// Finds the events that need a seed: those that name a fresh instance, or may call one that does.
    pub(super) fn note_seeds(&self, classes: &mut [Class]) {
        let mut needs: Vec<Vec<bool>> =
            classes.iter().map(|class| class.events.iter().map(Event::uses_fresh).collect()).collect();
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for (caller, callee, _) in &self.calls {
                if needs[callee.0][callee.1] && !needs[caller.0][caller.1] {
                    needs[caller.0][caller.1] = true;
                    goes_on = true;
                }
            }
        }
        for (class, needs) in classes.iter_mut().zip(needs) {
            for (event, needs) in class.events.iter_mut().zip(needs) {
                event.needs_seed = needs;
            }
        }
    }
}
