//! The way through the text of an event: its guards, effects and calls, with the invariants and timers that they meet.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::calls::{Footprints, called};
use super::names::Names;
use super::term::Binding;
use super::updates::{Inside, updates};
use super::{Mode, Place, Term, Touch};
use crate::analysis::effect::{Elements, Form, form, reads};
use crate::limits::FOOTPRINT_MAX;
use crate::model::expr::{Act, Arguments, Effect, Expr, Rule, Statement};
use crate::model::{Body, Class, Event, Let, Transition};
use crate::source::Span;
use crate::value::Name;

/// An instance with its class, a place of it, and how that is touched.
type What = (Term, Name, Place, Mode);

/// Touches, each once, in the order in which they were met.
#[derive(Default)]
pub(super) struct Touches {
    met: Vec<Touch>,
    positions: HashMap<What, usize>,
}

impl Touches {
    fn has(&self, what: &What) -> bool {
        self.positions.contains_key(what)
    }

    fn add(&mut self, what: What, because: Span) {
        if let Some(position) = self.positions.get(&what) {
            self.met[*position].because.push(because);
            return;
        }
        let (instance, class, place, mode) = what.clone();
        self.positions.insert(what, self.met.len());
        self.met.push(Touch { instance, class, place, mode, because: vec![because] });
    }

    /// The places of the instance of the event that get something that they may have already.
    fn put(&self) -> Vec<Place> {
        let is_put = |touch: &&Touch| {
            touch.instance == Term::This && matches!(touch.mode, Mode::Assign | Mode::Insert | Mode::Delete)
        };
        self.met.iter().filter(is_put).map(|touch| touch.place.clone()).collect()
    }

    /// Whether the place, or the whole field, is read or tested.
    fn has_read(&self, class: &Name, place: &Place) -> bool {
        let whole = place.field().map(|field| Place::Field(field.clone()));
        let has = |place: &Place, mode| self.has(&(Term::This, class.clone(), place.clone(), mode));
        let is_read = |place: &Place| has(place, Mode::Read) || has(place, Mode::Test);
        is_read(place) || whole.as_ref().is_some_and(is_read)
    }

    /// Those of one instance together, and among them those of one place.
    pub(super) fn in_order(self) -> Vec<Touch> {
        let mut touches = self.met;
        let (mut instances, mut places) = (HashMap::new(), HashMap::new());
        let mut ranks = Vec::new();
        for touch in &mut touches {
            touch.because.sort_unstable();
            touch.because.dedup();
            let count = instances.len();
            let instance = *instances.entry((touch.instance.clone(), touch.class.clone())).or_insert(count);
            let count = places.len();
            let place = *places.entry((instance, touch.place.clone())).or_insert(count);
            ranks.push((instance, place, touch.mode));
        }
        let mut ranked: Vec<_> = ranks.into_iter().zip(touches).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, touch)| touch).collect()
    }
}

/// Named values that are looked through in conditions: those that name each other are many on paths and few on the page.
const LETS_MAX: usize = 1_000;

/// A walk through one event.
pub(super) struct Walk<'a, 'f> {
    found: &'f Footprints<'a>,
    pub(super) class: &'a Class,
    pub(super) names: Names<'a>,
    /// Whether what the event calls counts.
    follows_calls: bool,
    /// The effects of the part that is looked at.
    pub(super) effects: &'a [Effect],
    /// Whether what is looked at reads the fields of an instance that the event has just created.
    creates: bool,
    /// The fields that may have got other values by now, of whichever instance.
    written: BTreeSet<Name>,
    pub(super) touches: Touches,
    /// Named values that have been looked at as a whole.
    pub(super) known: HashSet<*const Let>,
    /// How many are still looked through.
    pub(super) lets: usize,
    /// How many touches are those of other events.
    others: usize,
    is_complete: bool,
}

impl<'a, 'f> Walk<'a, 'f> {
    pub(super) fn new(found: &'f Footprints<'a>, class: &'a Class, follows_calls: bool) -> Self {
        Self {
            found,
            class,
            names: Names::new(found.spec, class),
            follows_calls,
            effects: &[],
            creates: false,
            written: BTreeSet::new(),
            touches: Touches::default(),
            known: HashSet::new(),
            lets: LETS_MAX,
            others: 0,
            is_complete: true,
        }
    }

    /// The touches of `event`, and whether these are all.
    pub(super) fn through(mut self, event: &'a Event) -> (Vec<Touch>, bool) {
        self.event(event);
        (self.touches.in_order(), self.is_complete)
    }

    pub(super) fn touch(&mut self, place: Place, mode: Mode, because: Span) {
        self.touches.add((Term::This, self.class.name.clone(), place, mode), because);
    }

    /// A touch that reads a field as it is before the event, or after it. Where an effect has put a new value, the old one
    /// says nothing but what the effect has read.
    pub(super) fn touch_value(&mut self, is_after: bool, place: Place, mode: Mode, because: Span) {
        let is_replaced = |effect: &Effect| {
            place.field() == Some(&effect.field.name)
                && matches!(form(&effect.field.name, &effect.value), Form::Becomes(_))
        };
        if !((is_after || self.creates) && self.effects.iter().any(is_replaced)) {
            self.touch(place, mode, because);
        }
    }

    /// A touch of another event, as long as there are not too many.
    fn touch_of_other(&mut self, what: What, because: Span) {
        if !self.touches.has(&what) {
            self.others += 1;
        }
        if self.others > FOOTPRINT_MAX {
            self.is_complete = false;
        } else {
            self.touches.add(what, because);
        }
    }

    fn event(&mut self, event: &'a Event) {
        let mut seen = HashSet::new();
        for way in &event.transitions {
            self.touch(Place::State, Mode::Read, event.span);
            let is_creation = self.class.is_initial(&way.source) && !event.read;
            if way.source != way.target {
                self.touch(Place::State, Mode::Assign, event.span);
            }
            if is_creation {
                self.touch(Place::Existence, Mode::Assign, event.span);
            }
            let is_new = seen.insert((Arc::as_ptr(&way.body), is_creation));
            if is_new {
                self.body(&way.body);
            }
            self.effects = &way.body.effects;
            self.creates = is_creation;
            if is_new {
                self.invariants(is_creation);
            }
            self.timers(way);
            self.creates = false;
        }
    }

    fn body(&mut self, body: &'a Body) {
        self.effects = &body.effects;
        self.written = body.effects.iter().map(|effect| effect.field.name.clone()).collect();
        let (common, own) = body.guards.split_at(body.common);
        common.iter().for_each(|guard| self.condition(&guard.expr));
        // The guards of a variant decide what happens, not only whether.
        own.iter().for_each(|guard| self.read(&guard.expr));
        body.effects.iter().for_each(|effect| self.effect(effect));
        body.statements.iter().for_each(|statement| self.statement(statement));
        if let Some(returned) = &body.returned {
            self.read(&returned.value);
        }
    }

    /// What an effect does to its field, and what it reads.
    pub(super) fn effect(&mut self, effect: &'a Effect) {
        let (field, span) = (&effect.field.name, effect.value.span());
        match form(field, &effect.value) {
            Form::Adds(others) => {
                self.touch(Place::Field(field.clone()), Mode::Add, span);
                others.iter().for_each(|other| self.read(other.value));
            }
            Form::Moves { is_in, elements } => {
                let mode = if is_in { Mode::Insert } else { Mode::Delete };
                for part in elements {
                    self.read(part.expr());
                    let element = match part {
                        Elements::One(element) => self.names.term(element),
                        Elements::Each(set) => self.names.each(set),
                    };
                    self.touch(Place::Element(field.clone(), element), mode, span);
                }
            }
            Form::Updates(all) => {
                updates(self, all, &Inside { field, ty: effect.value.ty(), span, is_certain: true, reads_own: false });
            }
            Form::Drops(key) => {
                self.read(key);
                let place = Place::Entry(field.clone(), self.names.term(key));
                self.touch(place, Mode::Delete, span);
            }
            Form::Becomes(value) => {
                self.touch(Place::Field(field.clone()), Mode::Assign, span);
                self.read(value);
            }
        }
    }

    /// The invariants that an event may break: those that read what it changes, or all if it creates the instance.
    fn invariants(&mut self, is_creation: bool) {
        let (class, effects) = (self.class, self.effects);
        let reads_changed = |rule: &&Rule| is_creation || changes(effects, &rule.expr);
        for rule in class.invariants.iter().filter(reads_changed) {
            self.condition(&rule.expr);
            if !is_creation {
                self.kept(rule);
            }
        }
    }

    /// What a rule reads and an event gives a value that it may have already: where nothing changes, an instance of an earlier
    /// version of the contract need not keep the rule.
    fn kept(&mut self, rule: &Rule) {
        let is_meant = |place: &Place| place.field().is_some_and(|field| reads(&rule.expr, |name| name == field));
        for place in self.touches.put() {
            if is_meant(&place) && !self.touches.has_read(&self.class.name, &place) {
                self.touch(place, Mode::Read, rule.expr.span());
            }
        }
    }

    /// The timers whose time an event may change, or which begin with it: a fault in one refuses the step.
    fn timers(&mut self, way: &'a Transition) {
        let begins = way.source != way.target;
        let (class, effects) = (self.class, self.effects);
        let timers = class.timers.iter().filter(|timer| timer.states.contains(&way.target));
        timers.filter(|timer| begins || changes(effects, &timer.at)).for_each(|timer| self.read(&timer.at));
    }

    pub(super) fn statement(&mut self, statement: &'a Statement) {
        match statement {
            Statement::Act { target, class, act, span, .. } => self.act(target, class, act, *span),
            Statement::If(condition, inner, _) => {
                self.read(condition);
                inner.iter().for_each(|statement| self.statement(statement));
            }
            Statement::For(domain, inner, _) => {
                self.read(domain);
                // Each of them comes after those for earlier elements.
                let mut calls = Vec::new();
                inner.iter().for_each(|statement| called(statement, &mut calls));
                calls.into_iter().for_each(|(class, event)| self.note_writes(class, event));
                self.within(domain, |walk| inner.iter().for_each(|statement| walk.statement(statement)));
            }
        }
    }

    fn act(&mut self, target: &Expr, class: &Name, act: &Act, span: Span) {
        self.read(target);
        let instance = self.names.term(target);
        match act {
            Act::Do { event, arguments } => {
                let arguments = self.arguments(arguments);
                if self.follows_calls {
                    self.call(&instance, class, event, &arguments, span);
                    self.note_writes(class, event);
                }
            }
            Act::Impossible { event, arguments } => self.possible(&instance, class, event, arguments, span),
            Act::Initialized => self.question(instance, class, Place::Existence, span),
            Act::InState(_) => self.question(instance, class, Place::State, span),
        }
    }

    /// All that a called event touches.
    fn call(&mut self, this: &Term, class: &Name, event: &Name, arguments: &[(Name, Term)], span: Span) {
        self.touches.add((this.clone(), class.clone(), Place::Event(event.clone()), Mode::Call), span);
        let Some(called) = self.found.called(class, event) else { return };
        self.is_complete &= called.is_complete;
        let written = std::mem::take(&mut self.written);
        let binding = Binding { this, arguments, written: &written };
        for touch in &called.touches {
            let place = bound(&binding, &touch.place);
            self.touch_of_other((binding.of(&touch.instance), touch.class.clone(), place, touch.mode), span);
        }
        self.written = written;
    }

    /// Notes that an event may have happened to some instance of the class.
    fn note_writes(&mut self, class: &Name, event: &Name) {
        let Some(called) = self.found.called(class, event) else { return };
        let written = called.touches.iter().filter(|touch| touch.mode.is_write());
        self.written.extend(written.filter_map(|touch| touch.place.field().cloned()));
    }

    /// The question whether an event is possible, or what it returns.
    pub(super) fn possible(&mut self, this: &Term, class: &Name, event: &Name, arguments: &Arguments, span: Span) {
        let arguments = self.arguments(arguments);
        self.question(this.clone(), class, Place::Event(event.clone()), span);
        if !self.follows_calls {
            return;
        }
        let Some(asked) = self.found.asked(class, event) else { return };
        let binding = Binding { this, arguments: &arguments, written: &BTreeSet::new() };
        for touch in &*asked {
            let place = bound(&binding, &touch.place);
            self.touch_of_other((this.clone(), touch.class.clone(), place, Mode::Question), span);
        }
    }

    pub(super) fn question(&mut self, of: Term, class: &Name, place: Place, span: Span) {
        if self.follows_calls {
            self.touches.add((of, class.clone(), place, Mode::Question), span);
        }
    }

    /// The arguments of a call, by the names of the parameters.
    fn arguments(&mut self, arguments: &Arguments) -> Vec<(Name, Term)> {
        let mut terms = Vec::new();
        for (name, argument) in &arguments.values {
            self.read(argument);
            terms.push((arguments.names[*name].clone(), self.names.term(argument)));
        }
        terms
    }
}

/// Whether one of the effects is on a field that `expr` reads.
fn changes(effects: &[Effect], expr: &Expr) -> bool {
    reads(expr, |name| effects.iter().any(|effect| effect.field.name == *name))
}

/// A place of another event, in the terms of this one.
fn bound(binding: &Binding<'_>, place: &Place) -> Place {
    match place {
        Place::Entry(field, key) => Place::Entry(field.clone(), binding.of(key)),
        Place::Element(field, element) => Place::Element(field.clone(), binding.of(element)),
        place => place.clone(),
    }
}
