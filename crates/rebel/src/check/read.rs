//! Events that only read: what they may not have, and where they are asked.

use super::Checker;
use super::body::EventId;
use super::expression::{Context, Typed};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::Asks;
use crate::source::Span;
use crate::syntax::tree::{self, Ident, Statement};

impl Checker {
    /// Refuses what a read event cannot have.
    pub(super) fn refuse_changes(&mut self, event: &tree::Event) {
        if !event.read {
            return;
        }
        let name = &event.name;
        let sections = &event.sections;
        let change = event.target.as_ref().map(|target| (target.span, "leads to a state"));
        let change =
            change.or(sections.effects.first().and_then(Statement::first).map(|effect| (effect.span, "has effects")));
        let change =
            change.or(sections.syncs.first().and_then(Statement::first).map(|call| (call.span, "calls others")));
        let change = change.or(event.variants.first().map(|variant| (variant.name.span, "has variants")));
        if let Some((span, what)) = change {
            let message = format!("`{}` is a read event and {what}", name.name);
            let diagnostic = Diagnostic::new(Code::ReadEvent, span, message, "changes something");
            self.report.push(diagnostic.help("a read event has `let:`, `pre:` and `return:`, and changes nothing"));
        }
        if event.result.is_none() {
            let message = format!("`{}` is a read event without a result", name.name);
            let diagnostic = Diagnostic::new(Code::Result, name.span, message, "reads for nobody");
            self.report.push(diagnostic.help("write `-> T` behind its parameters, and `return:` as its last section"));
        }
    }

    /// `x.Event(..)` in an expression: what a read event of another instance returns.
    pub(super) fn asked_result(
        &mut self,
        (target, class): (Typed, usize),
        event: &Ident,
        arguments: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        let (callee, name, arguments) = self.called_event(class, event, arguments, span, context)?;
        let header = &self.headers[callee.0].events[callee.1];
        if !header.read {
            let message = format!("`{name}` changes its instance, so it is no question");
            let diagnostic = Diagnostic::new(Code::ReadEvent, span, message, "in an expression");
            let diagnostic = diagnostic.and(header.name.span, "not `read on`");
            self.report.push(diagnostic.help("`can x.Event(..)` asks whether it is possible; `sync:` makes it happen"));
            return None;
        }
        let ty = header.result.clone()?;
        self.possible.push((callee, span));
        self.ask(target, Asks::Result { event: name, arguments }, ty, span, context)
    }

    /// Whether `event` happens, so that it can be called, or be asked whether it is possible; if not, that is reported.
    pub(super) fn happens(&mut self, event: EventId, span: Span) -> bool {
        let header = &self.headers[event.0].events[event.1];
        if header.read {
            let message = format!("`{}` only reads: it does not happen", header.name.name);
            let diagnostic = Diagnostic::new(Code::ReadEvent, span, message, "called here");
            let diagnostic = diagnostic.and(header.name.span, "a read event");
            self.report.push(diagnostic.help("ask it in an expression: `x.Event(..)` is what it returns"));
            return false;
        }
        true
    }
}
