//! What an event says of other instances: references to them, questions to them, and events of theirs.

use std::sync::Arc;

use super::body::EventId;
use super::expression::{Context, Typed};
use super::{Checker, Declared, Scope};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::{Act, Arguments, Asks, ExprKind, Query, Statement};
use crate::model::{Class, StateKind};
use crate::source::Span;
use crate::syntax::tree::{self, Ident};
use crate::value::{Name, Type};

impl Checker {
    /// `Class[key]`, with a value for each field of the identity.
    pub(super) fn referred(
        &mut self,
        class: &Ident,
        fields: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        let Some((Declared::Class(index), _)) = self.declared.get(&class.name).cloned() else {
            self.unknown_class(class);
            return None;
        };
        self.used.insert(class.name.clone());
        self.instance_type(index, class)?;
        let header = &self.headers[index];
        let (name, ty, types) = (header.name.clone(), header.ty(), header.key_type.fields());
        if fields.len() != types.len() {
            let plural = if types.len() == 1 { "" } else { "s" };
            let message = format!("the identity of `{name}` has {} field{plural}, not {}", types.len(), fields.len());
            self.report.push(Diagnostic::new(Code::ArgumentCount, span, message, "this identity"));
            return None;
        }
        let fields: Vec<_> = fields.iter().zip(&types).map(|(field, ty)| self.expect(field, context, ty)).collect();
        let fields: Vec<Typed> = fields.into_iter().collect::<Option<_>>()?;
        let depth = fields.iter().map(|field| field.depth).max().unwrap_or(0);
        let fields = fields.into_iter().map(|field| field.expr).collect();
        Some(Typed::node(ExprKind::Refer(name, fields), ty, span, depth))
    }

    pub(super) fn unknown_class(&mut self, ident: &Ident) {
        if self.unknown.contains(&(Scope::Classes, ident.name.clone())) {
            return;
        }
        let is_class = |declared: &Declared| matches!(declared, Declared::Class(_));
        if self.explain(Code::UnknownName, &ident.name, ident.span, is_class) {
            return;
        }
        let message =
            format!("`{}` is no class, and only instances of classes are found by their identity", ident.name);
        let diagnostic = Diagnostic::new(Code::UnknownName, ident.span, message, "no class");
        let classes = self.headers.iter().map(|header| &*header.name);
        let diagnostic = diagnostic.did_you_mean(&ident.name, classes);
        self.report.push(diagnostic);
    }

    /// A question that is answered by `true` or `false`.
    pub(super) fn truth_of(
        &mut self,
        of: &tree::Expr,
        span: Span,
        context: &mut Context<'_>,
        asks: impl FnOnce(&mut Self, usize, &mut Context<'_>) -> Option<Asks>,
    ) -> Option<Typed> {
        let (target, class) = self.instance(of, context)?;
        let asks = asks(self, class, context)?;
        self.ask(target, asks, Type::Boolean, span, context)
    }

    pub(super) fn ask(
        &mut self,
        target: Typed,
        asks: Asks,
        ty: Type,
        span: Span,
        context: &Context<'_>,
    ) -> Option<Typed> {
        if !context.is_event() {
            let help = "only events ask other instances; pass what is needed as a parameter, or keep it in a field";
            self.refuse(Code::OutOfPlace, span, "no other instance can be asked here", "out of place", help);
            return None;
        }
        let text = self.text(span);
        Some(Typed::node(ExprKind::Ask(target.expr.into(), Query { asks, text }.into()), ty, span, target.depth))
    }

    /// An expression that refers to another instance, with its class.
    pub(super) fn instance(&mut self, tree: &tree::Expr, context: &mut Context<'_>) -> Option<(Typed, usize)> {
        if let tree::ExprKind::This = tree.kind {
            let help = "an event knows the state it is declared for, and reads its own fields by their names";
            self.refuse(Code::NotAReference, tree.span, "an event does not ask its own instance", "`this`", help);
            return None;
        }
        let typed = self.expression(tree, context, None)?;
        if let Some(class) = self.class_of(typed.ty()) {
            return Some((typed, class));
        }
        let written = self.text(tree.span);
        let message = format!("`{written}` is of type {}, not an instance of a class", typed.ty());
        let help = match typed.ty() {
            Type::Set(_) => "write `for x in the_set: x.Event(..)`",
            _ => "give it the type of a class",
        };
        self.refuse(Code::NotAReference, tree.span, message, "no instance", help);
        None
    }

    /// The final states of a class.
    pub(super) fn final_states(&self, class: usize) -> Arc<[Name]> {
        let states = self.headers[class].states.iter();
        states.filter(|(_, kind)| *kind == StateKind::Final).map(|(name, _)| name.name.clone()).collect()
    }

    /// The names of states of a class; one that it does not have is reported.
    pub(super) fn named_states(&mut self, class: usize, states: &[Ident]) -> Arc<[Name]> {
        let unknown: Vec<&Ident> =
            states.iter().filter(|state| self.headers[class].state(&state.name).is_none()).collect();
        unknown.iter().for_each(|state| self.unknown_state(class, state));
        states.iter().map(|state| state.name.clone()).collect()
    }

    /// A field of another instance, which is a question to it, or its identity, which is known.
    pub(super) fn field_of_other(
        &mut self,
        inner: Typed,
        class: usize,
        member: &Ident,
        span: Span,
        context: &Context<'_>,
    ) -> Option<Typed> {
        let header = &self.headers[class];
        if let Some((index, ty)) = header.identity_field(&member.name) {
            return Some(Typed::node(ExprKind::KeyOf(inner.expr.into(), index), ty, span, inner.depth));
        }
        if let Some(field) = header.field(&member.name) {
            let (name, ty) = (field.name.name.clone(), field.ty.clone());
            return self.ask(inner, Asks::Field(name), ty, span, context);
        }
        self.unknown_field(class, member, Code::UnknownMember);
        None
    }

    /// Reports a field that a class does not have, once.
    pub(super) fn unknown_field(&mut self, class: usize, field: &Ident, code: Code) {
        let is_known = self.headers[class].is_open || self.broken.contains(&field.name);
        if is_known || !self.unknown.insert((Scope::Fields(class), field.name.clone())) {
            return;
        }
        let header = &self.headers[class];
        let message = format!("`{}` has no field `{}`", header.name, field.name);
        let diagnostic = Diagnostic::new(code, field.span, message, "no such field");
        let names = header.fields.iter().map(|field| &*field.name.name);
        let diagnostic = diagnostic.did_you_mean(&field.name, names);
        self.report.push(diagnostic);
    }

    /// Whether an event could happen, as what is asked.
    pub(super) fn possible_event(
        &mut self,
        class: usize,
        event: &Ident,
        arguments: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Asks> {
        let (callee, event, arguments) = self.called_event(class, event, arguments, span, context)?;
        if !self.happens(callee, span) {
            return None;
        }
        self.possible.push((callee, span));
        Some(Asks::Possible { event, arguments })
    }

    /// Refuses to ask about an event that asks questions itself: its instance alone cannot tell.
    pub(super) fn nested_questions(&mut self, classes: &[Class]) {
        for ((class, event), span) in std::mem::take(&mut self.possible) {
            let event = &classes[class].events[event];
            if event.transitions.iter().any(|transition| transition.body.asks) {
                let what = if event.read { "what it returns" } else { "whether it is possible" };
                let message = format!("`{}` asks other instances, so its own cannot tell {what}", event.name);
                let diagnostic = Diagnostic::new(Code::NestedQuestion, span, message, "asked here");
                let diagnostic = diagnostic.and(event.span, "asks questions");
                self.report.push(diagnostic.help("ask what it asks instead"));
            }
        }
    }

    /// A guard on another instance.
    pub(super) fn condition(&mut self, guard: &tree::Rule, context: &mut Context<'_>) -> Option<Statement> {
        let text = guard.text.clone().unwrap_or_else(|| self.text(guard.condition.span));
        let (tree::ExprKind::Initialized(instance)
        | tree::ExprKind::Finalized(instance)
        | tree::ExprKind::InState(instance, _)) = &guard.condition.kind
        else {
            return None;
        };
        let (target, class) = self.instance(instance, context)?;
        let act = match &guard.condition.kind {
            tree::ExprKind::InState(_, states) => Act::InState(self.named_states(class, states)),
            tree::ExprKind::Finalized(_) => Act::InState(self.final_states(class)),
            _ => Act::Initialized,
        };
        let class = self.headers[class].name.clone();
        Some(Statement::Act { target: target.expr, class, act, text, span: guard.condition.span })
    }

    /// An event of another instance, and its arguments by name.
    pub(super) fn called_event(
        &mut self,
        class: usize,
        event: &Ident,
        arguments: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<(EventId, Name, Arguments)> {
        let header = &self.headers[class];
        let Some(callee) = header.event(&event.name) else {
            if header.is_open || !self.unknown.insert((Scope::Events(class), event.name.clone())) {
                return None;
            }
            let message = format!("`{}` has no event `{}`", header.name, event.name);
            let diagnostic = Diagnostic::new(Code::UnknownEvent, event.span, message, "no such event");
            let diagnostic = diagnostic.did_you_mean(&event.name, header.event_names());
            self.report.push(diagnostic);
            return None;
        };
        let header = &header.events[callee];
        if header.is_broken {
            return None;
        }
        let name = header.name.name.clone();
        let params = header.params.clone();
        let arguments: Vec<Typed> = self.typed_arguments(&name, arguments, &params, span, context)?;
        let names = params.into_iter().map(|param| param.name).collect();
        let values = arguments.into_iter().map(|argument| argument.expr);
        Some(((class, callee), name, Arguments::new(names, values)))
    }
}
