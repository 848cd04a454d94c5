//! What a section does line by line: calls of events, and which fields creation gives a value.

use std::collections::HashSet;

use super::Checker;
use super::body::EventId;
use super::expression::{Context, Typed};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::{Act, Expr, ExprKind, Statement};
use crate::model::{Body, Param};
use crate::syntax::tree::{self, ClassKind, Ident};
use crate::value::{Name, Type};

impl Checker {
    /// Adds the calls of a section.
    pub(super) fn calls_of(
        &mut self,
        body: &mut Body,
        caller: EventId,
        statements: &[tree::Statement<tree::Call>],
        context: &mut Context<'_>,
    ) {
        for statement in statements {
            body.statements.extend(self.statement(statement, caller, context).into_iter().flatten());
        }
    }

    /// A statement: two of them if one happens where the other does not.
    fn statement(
        &mut self,
        statement: &tree::Statement<tree::Call>,
        caller: EventId,
        context: &mut Context<'_>,
    ) -> Option<Vec<Statement>> {
        match statement {
            tree::Statement::Do(call) => self.call_of_event(call, caller, context).map(|call| vec![call]),
            tree::Statement::If(condition, accepted, otherwise) => {
                let typed = self.expect(condition, context, &Type::Boolean);
                let accepted = self.statements(accepted, caller, context);
                let otherwise = self.statements(otherwise, caller, context);
                let (condition, text) = (typed?.expr, self.text(condition.span));
                let (accepted, otherwise) = accepted.zip(otherwise)?;
                let mut both = vec![Statement::If(condition.clone(), accepted, text.clone())];
                if !otherwise.is_empty() {
                    let span = condition.span();
                    let opposite = Expr::new(ExprKind::Not(condition.into()), Type::Boolean, span);
                    both.push(Statement::If(opposite, otherwise, text));
                }
                Some(both)
            }
            tree::Statement::For(name, set, statements) => {
                let (domain, element) = self.repeated(set, context)?;
                self.refuse_hidden(name, context);
                context.locals.push(Param::local(name.name.clone(), element));
                let inner = self.statements(statements, caller, context);
                context.locals.pop();
                Some(vec![Statement::For(domain.expr, inner?, self.text(set.span))])
            }
        }
    }

    /// All of them are looked at, also if one is wrong.
    fn statements(
        &mut self,
        statements: &[tree::Statement<tree::Call>],
        caller: EventId,
        context: &mut Context<'_>,
    ) -> Option<Vec<Statement>> {
        let checked: Vec<_> = statements.iter().map(|statement| self.statement(statement, caller, context)).collect();
        checked.into_iter().collect::<Option<Vec<_>>>().map(|checked| checked.into_iter().flatten().collect())
    }

    fn call_of_event(&mut self, call: &tree::Call, caller: EventId, context: &mut Context<'_>) -> Option<Statement> {
        let tree::Call { negated, target, event, arguments, span } = call;
        let own = matches!(target.kind, tree::ExprKind::This) && !negated;
        let (target, class) =
            if own { (self.expression(target, context, None)?, caller.0) } else { self.instance(target, context)? };
        let (callee, event, arguments) = self.called_event(class, event, arguments, *span, context)?;
        if !self.happens(callee, *span) {
            return None;
        }
        self.calls.push((caller, callee, *span));
        if *negated {
            self.possible.push((callee, *span));
        }
        let act = if *negated { Act::Impossible { event, arguments } } else { Act::Do { event, arguments } };
        let class = self.headers[class].name.clone();
        Some(Statement::Act { target: target.expr, class, act, text: self.text(*span), span: *span })
    }

    /// What a `for` goes through, and the type of its elements.
    pub(super) fn repeated(&mut self, set: &tree::Expr, context: &mut Context<'_>) -> Option<(Typed, Type)> {
        let typed = self.expression(set, context, None)?;
        let element = match typed.ty() {
            Type::Set(element) => Type::clone(element),
            Type::List(element) => Type::clone(element),
            ty => {
                let message = format!("`for` needs a set, a list or a range, this is of type {ty}");
                let diagnostic = Diagnostic::new(Code::TypeMismatch, set.span, message, "no elements");
                self.report.push(match ty {
                    Type::Map(_) => diagnostic.help("a map has `keys` and `values`"),
                    _ => diagnostic,
                });
                return None;
            }
        };
        Some((typed, element))
    }

    /// Reports fields without a default that an event which creates an instance gives no value, on one of its paths or on all.
    pub(super) fn fields_without_value(
        &mut self,
        class: usize,
        event: &Ident,
        effects: &[tree::Statement<tree::Effect>],
        others: &[tree::Statement<tree::Effect>],
    ) {
        if self.headers[class].kind != ClassKind::Plain {
            return; // What is missing is what another class adds, or somebody else decides.
        }
        let (mut always, mut sometimes) = (HashSet::new(), HashSet::new());
        given(effects.iter().chain(others), &mut always, &mut sometimes);
        let header = &self.headers[class];
        let is_field = |name: &Name| header.fields.iter().any(|field| field.name.name == *name);
        if !sometimes.iter().all(|name| is_field(name)) {
            return; // What was meant is not known.
        }
        let missing: Vec<&Ident> = header
            .fields
            .iter()
            .filter(|field| !field.has_default && !always.contains(&field.name.name))
            .map(|field| &field.name)
            .collect();
        let Some(first) = missing.first() else { return };
        let names = missing.iter().map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", ");
        let is_partly = sometimes.contains(&first.name);
        let extent = if is_partly { " on one of its paths" } else { "" };
        let message = format!("`{}` creates an instance and leaves {names} without a value{extent}", event.name);
        let help = match is_partly {
            true => {
                "give it a value before `if` and `for`, or under `else:` too, or give the field a default".to_owned()
            }
            false => format!("add `this.{} = ..` to `post:`, or give the field a default", first.name),
        };
        let diagnostic = Diagnostic::new(Code::FieldWithoutValue, event.span, message, "creates an instance");
        let diagnostic = diagnostic.and(first.span, "without a default").help(help);
        self.report.push(diagnostic);
    }
}

/// The fields that effects are on: on all paths, and on some.
fn given<'e>(
    statements: impl Iterator<Item = &'e tree::Statement<tree::Effect>>,
    always: &mut HashSet<&'e Name>,
    sometimes: &mut HashSet<&'e Name>,
) {
    for statement in statements {
        match statement {
            tree::Statement::Do(effect) => {
                always.insert(&effect.field.name);
                sometimes.insert(&effect.field.name);
            }
            tree::Statement::If(_, accepted, otherwise) => {
                let (mut first, mut second) = (HashSet::new(), HashSet::new());
                given(accepted.iter(), &mut first, sometimes);
                given(otherwise.iter(), &mut second, sometimes);
                always.extend(first.intersection(&second));
            }
            // There may be no element.
            tree::Statement::For(_, _, inner) => given(inner.iter(), &mut HashSet::new(), sometimes),
        }
    }
}
