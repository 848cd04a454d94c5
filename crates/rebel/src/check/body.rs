//! Bodies of classes: defaults, invariants and what events do.

use std::collections::HashSet;
use std::sync::Arc;

use super::caller::is_reserved;
use super::effect::Effects;
use super::expression::Context;
use super::{Checker, graph};
use crate::diagnostic::{Code, Diagnostic};
use crate::instance::Instance;
use crate::limits::VARIANTS_MAX;
use crate::model::expr::{Expr, ExprKind, Rule};
use crate::model::{Body, Class, Event, Field, State, StateKind, Transition};
use crate::step::reads;
use crate::syntax::tree::{self, ClassKind, Ident};
use crate::value::{Name, Rounding, Type};

/// An event of a class, by index.
pub(super) type EventId = (usize, usize);

/// The declaration of an event in one group of states.
struct Declaration<'a> {
    event: &'a tree::Event,
    id: EventId,
    exists: bool,
    rounding: Rounding,
}

impl Checker {
    pub(super) fn classes(&mut self, classes: &[tree::Class]) -> Vec<Class> {
        let mut checked: Vec<(usize, Class)> = self
            .in_order_of_copies(classes)
            .into_iter()
            .map(|index| (index, self.class(index, &classes[index])))
            .collect();
        checked.sort_by_key(|(index, _)| *index);
        checked.into_iter().map(|(_, class)| class).collect()
    }

    fn class(&mut self, index: usize, class: &tree::Class) -> Class {
        let initial = self.initial(index, class);
        let invariants = self.invariants(index, class);
        let indexes = self.indexes(index, class);
        let events = self.class_events(index, class);
        let timers = self.timers(index, class);
        if matches!(class.kind, ClassKind::Plain | ClassKind::External) {
            self.unreachable_states(index, &events);
        }
        let module = self.origin_module(index);
        let header = &self.headers[index];
        let documentation = |name: &Name| {
            let field = class.fields.iter().find(|field| field.name.name == *name);
            field.map_or_else(String::new, |field| field.documentation.clone())
        };
        let mut names: Vec<Name> = header.fields.iter().map(|field| field.name.name.clone()).collect();
        names.sort_unstable();
        Class {
            name: header.name.clone(),
            module,
            is_external: class.kind == ClassKind::External,
            indexes,
            documentation: class.documentation.clone(),
            identity: header.identity.iter().map(|identity| identity.name.clone()).collect(),
            key_type: header.key_type.clone(),
            fields: header
                .fields
                .iter()
                .map(|field| Field {
                    name: field.name.name.clone(),
                    documentation: documentation(&field.name.name),
                    ty: field.ty.clone(),
                    slot: field.slot,
                })
                .collect(),
            names: names.into(),
            states: header
                .states
                .iter()
                .map(|(name, kind)| State { name: name.name.clone(), kind: *kind, span: name.span })
                .collect(),
            events,
            invariants,
            timers,
            initial,
            relations: Vec::new(),
            span: class.name.span,
        }
    }

    /// The initial state, with the values of the defaults.
    fn initial(&mut self, index: usize, class: &tree::Class) -> Instance {
        let mut fields = Vec::new();
        for field in class.fields.iter().filter(|field| field.identity.is_none()) {
            let Some(default) = &field.default else { continue };
            let Some(ty) = self.headers[index].field(&field.name.name).map(|field| field.ty.clone()) else { continue };
            let origin = self.origin_of(index, field.name.span);
            let rounding = self.rounding_of(index, origin);
            let value = self.at(index, origin, |checker| checker.default_value(default, &ty, rounding));
            fields.extend(value.flatten().map(|value| (field.name.name.clone(), value)));
        }
        let states = &self.headers[index].states;
        let initial = states.iter().find(|(_, kind)| *kind == StateKind::Initial);
        Instance::new(initial.map_or_else(|| "".into(), |(name, _)| name.name.clone()), fields.into_iter().collect())
    }

    fn invariants(&mut self, index: usize, class: &tree::Class) -> Vec<Rule> {
        let mut rules = Vec::new();
        for rule in &class.invariants {
            let origin = self.origin_of(index, rule.condition.span);
            let mut context = Context::invariant(index, self.rounding_of(index, origin));
            let expect = |checker: &mut Self| checker.expect(&rule.condition, &mut context, &Type::Boolean);
            if let Some(typed) = self.at(index, origin, expect) {
                rules.push(self.rule(rule, typed.expr));
            }
        }
        rules
    }

    fn rule(&self, rule: &tree::Rule, expr: Expr) -> Rule {
        let condition = self.text(rule.condition.span);
        let text = rule.text.clone().unwrap_or_else(|| condition.clone());
        Rule { text, condition, reads: reads(&expr), expr }
    }

    fn class_events(&mut self, index: usize, class: &tree::Class) -> Vec<Event> {
        let header = &self.headers[index];
        let mut events: Vec<Event> = header
            .events
            .iter()
            .map(|event| Event {
                name: event.name.name.clone(),
                documentation: String::new(),
                params: event.params.clone(),
                internal: event.internal,
                read: event.read,
                result: event.result.clone(),
                roles: event.roles.clone(),
                reads_caller: false,
                needs_seed: false,
                transitions: Vec::new(),
                span: event.name.span,
            })
            .collect();
        let mut used: HashSet<(Name, Name)> = HashSet::new();
        for group in &class.states {
            for event in &group.events {
                let Some(position) = self.headers[index].event(&event.name.name) else { continue };
                let exists = group.states.iter().all(|state| {
                    self.headers[index].state(&state.name).is_none_or(|(_, kind)| kind != StateKind::Initial)
                });
                let rounding = self.rounding_of(index, event.origin);
                let declaration = Declaration { event, id: (index, position), exists, rounding };
                if self.reuse_is_unmet.contains(&(index, event.origin)) {
                    continue;
                }
                let (bodies, names) = self.at(index, event.origin, |checker| {
                    let errors = checker.report.errors().count();
                    let (bodies, mut names) = checker.event_bodies(&declaration);
                    if checker.report.errors().count() > errors {
                        // What is wrong may be all that uses them.
                        names.extend(event.params.iter().map(|param| param.name.name.clone()));
                    }
                    (bodies, names)
                });
                used.extend(names.into_iter().map(|name| (event.name.name.clone(), name)));
                let mut ways: Vec<(Option<&Ident>, Option<&Ident>)> =
                    event.variants.iter().map(|variant| (Some(&variant.name), variant.target.as_ref())).collect();
                if ways.is_empty() {
                    ways.push((None, event.target.as_ref()));
                }
                for source in group.states.iter().filter(|source| !event.replaced.contains(&source.name)) {
                    if self.is_left_twice(source, event, &events[position]) {
                        continue;
                    }
                    for ((variant, target), body) in ways.iter().zip(&bodies) {
                        let transition = self.at(index, event.origin, |checker| {
                            checker.transition(index, source, event, *variant, *target, body)
                        });
                        events[position].transitions.extend(transition);
                    }
                }
                add_documentation(&mut events[position].documentation, &event.documentation);
            }
        }
        events.iter_mut().for_each(Event::note_caller);
        let mut warned = HashSet::new();
        for event in class.states.iter().flat_map(|group| &group.events) {
            let name = &event.name.name;
            let is_said = class.kind != ClassKind::External && !self.reuse_is_unmet.contains(&(index, event.origin));
            if warned.insert(name) && is_said {
                let names: Vec<Name> =
                    used.iter().filter(|(event, _)| event == name).map(|(_, param)| param.clone()).collect();
                self.at(index, event.origin, |checker| checker.unused_params(&event.params, &names));
            }
        }
        events
    }

    fn transition(
        &mut self,
        class: usize,
        source: &Ident,
        event: &tree::Event,
        variant: Option<&Ident>,
        target: Option<&Ident>,
        body: &Arc<Body>,
    ) -> Option<Transition> {
        let header = &self.headers[class];
        let leads_to = target.unwrap_or(source);
        let Some((to, kind)) = header.state(&leads_to.name) else {
            self.unknown_state(class, leads_to);
            return None;
        };
        if kind == StateKind::Initial && !event.read {
            let name = variant.unwrap_or(&event.name);
            let message = format!("`{}` leads into the initial state", name.name);
            let span = target.map_or(name.span, |target| target.span);
            let help = match target {
                Some(_) => "an instance leaves the initial state once; let the event lead to another state",
                None => "an instance leaves the initial state once; write `: state` after the parameters",
            };
            self.refuse(Code::EntersInitial, span, message, "enters it", help);
            return None;
        }
        let (from, left) = header.state(&source.name)?;
        if left == StateKind::Final && !event.read {
            let message = format!("`{}` leaves the final state `{}`", event.name.name, source.name);
            let diagnostic = Diagnostic::new(Code::LeavesFinal, event.name.span, message, "leaves it");
            self.report.push(diagnostic.and(source.span, "final").help("a state with events is not final"));
            return None;
        }
        let (source, target, variant) = (from.clone(), to.clone(), variant.map(|variant| variant.name.clone()));
        Some(Transition { source, target, variant, body: body.clone() })
    }

    /// Whether the event is declared for this state before, which is reported.
    fn is_left_twice(&mut self, source: &Ident, event: &tree::Event, so_far: &Event) -> bool {
        let is_twice = so_far.transition(&source.name).is_some();
        if is_twice {
            let message = format!("`{}` is declared twice for the state `{}`", event.name.name, source.name);
            let diagnostic = Diagnostic::new(Code::RepeatedTransition, event.name.span, message, "again here");
            self.report.push(diagnostic.help("join the two declarations"));
        }
        is_twice
    }

    /// What the event does, in each of its variants if it has any, and the parameters that it uses.
    fn event_bodies(&mut self, declaration: &Declaration<'_>) -> (Vec<Arc<Body>>, Vec<Name>) {
        let Declaration { event, id, exists, rounding } = *declaration;
        let params = self.headers[id.0].events[id.1].params.clone();
        self.refuse_hiding(id.0, &event.params);
        let mut context = Context::event(id.0, exists, &params, rounding);
        let mut common = Body::default();
        self.lets(&event.sections.lets, id.0, &mut common, &mut context);
        for guard in &event.sections.guards {
            match &guard.condition.kind {
                tree::ExprKind::Initialized(_) | tree::ExprKind::Finalized(_) | tree::ExprKind::InState(..)
                    if !event.read =>
                {
                    common.statements.extend(self.condition(guard, &mut context));
                }
                _ => common.guards.extend(self.guard(guard, &mut context)),
            }
        }
        common.common = common.guards.len();
        let mut effects = Effects::default();
        self.effects(id.0, &event.sections.effects, &mut effects, &mut context);
        self.calls_of(&mut common, id, &event.sections.syncs, &mut context);
        if let Some(value) = &event.sections.returned {
            common.returned = self.returned(value, id, &mut context).map(Arc::new);
        } else if event.variants.is_empty() {
            self.refuse_missing_result(id.0, event, None);
        }
        if event.variants.is_empty() {
            if !exists && !event.read {
                self.fields_without_value(id.0, &event.name, &event.sections.effects, &[]);
            }
            common.effects = self.effects_of(effects);
            self.unused_lets(&event.sections.lets, &context.used);
            return (vec![with_questions(common)], context.used);
        }
        if let Some(one_too_many) = event.variants.get(VARIANTS_MAX) {
            let message = format!("an event has at most {VARIANTS_MAX} variants");
            let help = "the guards of a call, or events of their own, decide between so many";
            self.refuse(Code::Limit, one_too_many.name.span, message, "one too many", help);
        }
        let mut names: Vec<&Ident> = Vec::new();
        let mut bodies = Vec::new();
        for variant in event.variants.iter().take(VARIANTS_MAX) {
            if let Some(earlier) = names.iter().find(|earlier| earlier.name == variant.name.name) {
                let message = format!("`{}` is a variant twice", variant.name.name);
                let diagnostic = Diagnostic::new(Code::Duplicate, variant.name.span, message, "again here");
                self.report.push(diagnostic.and(earlier.span, "declared here"));
            }
            names.push(&variant.name);
            let mut body = common.clone();
            let outer = context.lets.len();
            self.lets(&variant.sections.lets, id.0, &mut body, &mut context);
            // What decides between variants is answered before one is taken.
            let guards =
                variant.sections.guards.iter().filter_map(|guard| self.guard(guard, &mut context)).collect::<Vec<_>>();
            body.guards.extend(guards);
            let mut effects = effects.clone();
            self.effects(id.0, &variant.sections.effects, &mut effects, &mut context);
            body.effects = self.effects_of(effects);
            self.calls_of(&mut body, id, &variant.sections.syncs, &mut context);
            match (&event.sections.returned, &variant.sections.returned) {
                (Some(first), Some(second)) => self.refuse_second_result(first.span, second.span),
                (None, Some(value)) => body.returned = self.returned(value, id, &mut context).map(Arc::new),
                (None, None) => self.refuse_missing_result(id.0, event, Some(&variant.name)),
                (Some(_), None) => {}
            }
            if !exists {
                self.fields_without_value(id.0, &variant.name, &variant.sections.effects, &event.sections.effects);
            }
            self.unused_lets(&variant.sections.lets, &context.used);
            context.forget_lets(outer);
            bodies.push(with_questions(body));
        }
        self.unused_lets(&event.sections.lets, &context.used);
        (bodies, context.used)
    }

    /// Adds values that an event names, each of which may read those before it.
    fn lets(&mut self, lets: &[tree::Let], class: usize, body: &mut Body, context: &mut Context<'_>) {
        for named in lets {
            self.refuse_library_name(&named.name, "name");
            self.refuse_field_name(class, &named.name, "name");
            if context.names().any(|name| *name == named.name.name) {
                let message = format!("`{}` already names something else here", named.name.name);
                self.refuse(Code::Duplicate, named.name.span, message, "again here", "choose another name");
            }
            let fresh = self.fresh(&named.value, context.named());
            match fresh.unwrap_or_else(|| self.expression(&named.value, context, None)) {
                Some(value) => body.lets.push(context.name(&named.name.name, value)),
                None => _ = self.broken.insert(named.name.name.clone()),
            }
        }
    }

    fn unused_lets(&mut self, lets: &[tree::Let], used: &[Name]) {
        let is_unused =
            |named: &&tree::Let| !used.contains(&named.name.name) && !self.broken.contains(&named.name.name);
        for named in lets.iter().filter(is_unused) {
            let message = format!("`{}` names a value that nothing uses", named.name.name);
            let diagnostic = Diagnostic::new(Code::Unused, named.name.span, message, "unused");
            self.report.push(diagnostic.help("remove it"));
        }
    }

    fn guard(&mut self, guard: &tree::Rule, context: &mut Context<'_>) -> Option<Rule> {
        let typed = self.expect(&guard.condition, context, &Type::Boolean)?;
        Some(self.rule(guard, typed.expr))
    }

    fn refuse_hiding(&mut self, class: usize, params: &[tree::Param]) {
        for param in params {
            self.refuse_library_name(&param.name, "parameter");
            self.refuse_field_name(class, &param.name, "parameter");
        }
    }

    pub(super) fn refuse_field_name(&mut self, class: usize, ident: &Ident, noun: &str) {
        let header = &self.headers[class];
        let field = header.field(&ident.name).map(|field| &field.name).filter(|field| !is_reserved(&field.name));
        if let Some(field) = field.or(header.identity.iter().find(|identity| identity.name == ident.name)) {
            let message = format!("the {noun} `{}` hides a field", ident.name);
            let diagnostic = Diagnostic::new(Code::Duplicate, ident.span, message, "hides it");
            let diagnostic = diagnostic.and(field.span, "the field").help("choose another name");
            self.report.push(diagnostic);
        }
    }

    fn unreachable_states(&mut self, class: usize, events: &[Event]) {
        let header = &self.headers[class];
        let mut reached: Vec<&Name> =
            header.states.iter().filter(|(_, kind)| *kind == StateKind::Initial).map(|(name, _)| &name.name).collect();
        let mut next = 0;
        while let Some(&state) = reached.get(next) {
            next += 1;
            let transitions = events.iter().flat_map(|event| &event.transitions);
            for transition in transitions.filter(|transition| transition.source == *state) {
                if !reached.contains(&&transition.target) {
                    reached.push(&transition.target);
                }
            }
        }
        let unreached = header.states.iter().filter(|(name, _)| !reached.contains(&&name.name));
        let diagnostics: Vec<Diagnostic> = unreached
            .map(|(name, _)| {
                let message = format!("no event leads to the state `{}`", name.name);
                Diagnostic::new(Code::UnreachableState, name.span, message, "never reached")
                    .help("remove it, or let an event lead to it")
            })
            .collect();
        diagnostics.into_iter().for_each(|diagnostic| self.report.push(diagnostic));
    }

    /// Refuses events that synchronise in a circle, and warns of internal events that none synchronises with.
    pub(super) fn sync_circles(&mut self) {
        let mut first_of = Vec::new();
        let mut count = 0;
        for header in &self.headers {
            first_of.push(count);
            count += header.events.len();
        }
        let number = |(class, event): EventId| first_of[class] + event;
        let mut needs = vec![Vec::new(); count];
        for (caller, callee, _) in &self.calls {
            needs[number(*caller)].push(number(*callee));
        }
        let called: HashSet<usize> = needs.iter().flatten().copied().collect();
        if let Err(circle) = graph::order(&needs) {
            self.refuse_circle(&circle, number);
        }
        let mut diagnostics = Vec::new();
        let known = self.headers.iter().enumerate();
        let has_instances = |kind: ClassKind| matches!(kind, ClassKind::Plain | ClassKind::External);
        for (class, header) in known.filter(|(_, header)| has_instances(header.kind)) {
            for (index, event) in header.events.iter().enumerate() {
                let is_timed = self.timed.contains(&(class, index));
                if event.internal && !is_timed && !called.contains(&number((class, index))) {
                    let message = format!("`{}` is internal and no `sync` calls it", event.name.name);
                    let diagnostic = Diagnostic::new(Code::NeverSynced, event.name.span, message, "never happens");
                    let help = "call it in a `sync:`, let a timer make it happen, or remove `internal`";
                    diagnostics.push(diagnostic.help(help));
                }
            }
        }
        diagnostics.into_iter().for_each(|diagnostic| self.report.push(diagnostic));
    }

    fn refuse_circle(&mut self, circle: &[usize], number: impl Fn(EventId) -> usize) {
        let mut names = Vec::new();
        let mut labels = Vec::new();
        for (position, &node) in circle.iter().enumerate() {
            let next = circle[(position + 1) % circle.len()];
            let call = self.calls.iter().find(|(from, to, _)| number(*from) == node && number(*to) == next);
            let Some((caller, _, span)) = call else { return };
            let header = &self.headers[caller.0];
            names.push(format!("{}.{}", header.name, header.events[caller.1].name.name));
            labels.push(*span);
        }
        names.push(names[0].clone());
        let message = format!("these events synchronise in a circle: {}", names.join(" -> "));
        let mut diagnostic = Diagnostic::new(Code::SyncCycle, labels[0], message, "calls the next");
        for span in &labels[1..] {
            diagnostic = diagnostic.and(*span, "calls the next");
        }
        self.report.push(diagnostic.help("one of them must not call the other; split it into two events"));
    }
}

fn with_questions(body: Body) -> Arc<Body> {
    let mut asks = false;
    body.expressions().for_each(|expr| expr.walk(&mut |expr| asks |= matches!(&expr.kind, ExprKind::Ask(..))));
    Arc::new(Body { asks, ..body })
}

fn add_documentation(text: &mut String, more: &str) {
    if !more.is_empty() && !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}
