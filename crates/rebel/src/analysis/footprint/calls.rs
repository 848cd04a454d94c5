//! The footprints of the events of one specification, each of which contains those of the events that it calls.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::walk::Walk;
use super::{Footprint, Mode, Term, Touch};
use crate::model::Spec;
use crate::model::expr::{Act, Statement};
use crate::value::Name;

/// A class by its position, and an event by that in the class.
type EventId = (usize, usize);

/// What events touch, by one look at each that others call.
pub(super) struct Footprints<'a> {
    pub(super) spec: &'a Spec,
    ids: HashMap<(&'a Name, &'a Name), EventId>,
    called: HashMap<EventId, Footprint>,
    /// What decides whether an event is possible, or what it returns, on its own instance.
    asked: RefCell<HashMap<EventId, Rc<[Touch]>>>,
}

impl<'a> Footprints<'a> {
    pub(super) fn new(spec: &'a Spec) -> Self {
        let mut ids = HashMap::new();
        for (class, found) in spec.classes.iter().enumerate() {
            ids.extend(
                found.events.iter().enumerate().map(|(event, known)| ((&found.name, &known.name), (class, event))),
            );
        }
        Self { spec, ids, called: HashMap::new(), asked: RefCell::default() }
    }

    /// What the event touches.
    pub(super) fn of(&mut self, id: EventId) -> Footprint {
        if let Some(known) = self.called.get(&id) {
            return known.clone();
        }
        // Calls are many in a row on some pages, and never in a circle.
        let mut open = self.missing(id);
        while let Some(&next) = open.last() {
            let missing = if self.called.contains_key(&next) { Vec::new() } else { self.missing(next) };
            if missing.is_empty() {
                open.pop();
                if !self.called.contains_key(&next) {
                    let footprint = self.look(next);
                    self.called.insert(next, footprint);
                }
            }
            open.extend(missing);
        }
        self.look(id)
    }

    /// The events that an event calls and that were not looked at yet.
    fn missing(&self, (class, event): EventId) -> Vec<EventId> {
        let mut calls = Vec::new();
        let bodies = self.spec.classes[class].events[event].transitions.iter().map(|way| &way.body);
        bodies.for_each(|body| body.statements.iter().for_each(|statement| called(statement, &mut calls)));
        let ids = calls.into_iter().filter_map(|(class, event)| self.ids.get(&(class, event)).copied());
        ids.filter(|id| !self.called.contains_key(id)).collect()
    }

    fn look(&self, (class, event): EventId) -> Footprint {
        let class = &self.spec.classes[class];
        let event = &class.events[event];
        let (touches, is_complete) = Walk::new(self, class, true).through(event);
        Footprint { class: class.name.clone(), event: event.name.clone(), touches, is_complete }
    }

    /// What an event touches that the one in hand calls.
    pub(super) fn called(&self, class: &Name, event: &Name) -> Option<&Footprint> {
        self.ids.get(&(class, event)).and_then(|id| self.called.get(id))
    }

    /// The touches of its own instance that decide whether an event is possible and what it returns.
    pub(super) fn asked(&self, class: &Name, event: &Name) -> Option<Rc<[Touch]>> {
        let &id = self.ids.get(&(class, event))?;
        if let Some(known) = self.asked.borrow().get(&id) {
            return Some(known.clone());
        }
        let class = &self.spec.classes[id.0];
        let (touches, _) = Walk::new(self, class, false).through(&class.events[id.1]);
        let decides = |touch: &Touch| {
            // What is added to must be there, and in the same currency.
            touch.instance == Term::This && matches!(touch.mode, Mode::Read | Mode::Test | Mode::Add)
        };
        let touches: Rc<[Touch]> = touches.into_iter().filter(decides).collect();
        self.asked.borrow_mut().insert(id, touches.clone());
        Some(touches)
    }
}

/// The classes and events that a statement calls.
pub(super) fn called<'a>(statement: &'a Statement, calls: &mut Vec<(&'a Name, &'a Name)>) {
    match statement {
        Statement::Act { class, act: Act::Do { event, .. }, .. } => calls.push((class, event)),
        Statement::Act { .. } => {}
        Statement::If(_, inner, _) | Statement::For(_, inner, _) => {
            inner.iter().for_each(|statement| called(statement, calls));
        }
    }
}
