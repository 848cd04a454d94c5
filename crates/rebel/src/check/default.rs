//! Defaults: of fields, of parameters, and of the fields of records. They are values that are known when a contract is checked, so
//! that a call which leaves an argument out carries it all the same.

use super::Checker;
use super::body::EventId;
use super::expression::Context;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::Param;
use crate::source::Span;
use crate::syntax::tree::{self, Class, Record};
use crate::value::{Name, RecordType, Rounding, Type, Value};

/// What stands for a default that is wrong, or not known in this text, so that what leaves it out is not wrong too.
const UNKNOWN: Value = Value::None;

impl Checker {
    /// The value of a default: `None` if it is wrong, which is reported, and no value if it depends on a constant without one.
    pub(super) fn default_value(&mut self, tree: &tree::Expr, ty: &Type, rounding: Rounding) -> Option<Option<Value>> {
        self.reuse.is_open = false;
        let typed = self.expect(tree, &mut Context::default_of(rounding), ty)?;
        if std::mem::take(&mut self.reuse.is_open) {
            return Some(None);
        }
        self.constant_value(&typed.expr, tree.span).map(Some)
    }

    /// Gives the fields of a record their defaults.
    pub(super) fn defaults_of_record(&mut self, record: &Record, ty: &RecordType, rounding: Rounding) {
        let mut defaults = vec![None; ty.fields.len()];
        for (default, (name, ty)) in defaults.iter_mut().zip(&ty.fields) {
            let declared = record.fields.iter().find(|field| field.name.name == *name);
            let Some(tree) = declared.and_then(|field| field.default.as_ref()) else { continue };
            *default = Some(self.default_value(tree, ty, rounding).flatten().unwrap_or(UNKNOWN));
        }
        ty.set_defaults(defaults);
    }

    /// Gives the fields of a record defaults of which nothing is known.
    pub(super) fn unknown_defaults_of_record(record: &Record, ty: &RecordType) {
        let has_default = |(name, _): &(Name, Type)| {
            record.fields.iter().any(|field| field.name.name == *name && field.default.is_some())
        };
        ty.set_defaults(ty.fields.iter().map(|field| has_default(field).then_some(UNKNOWN)).collect());
    }

    /// Gives parameters their defaults.
    pub(super) fn defaults_of_params(&mut self, params: &mut [Param], trees: &[tree::Param], rounding: Rounding) {
        for param in params {
            let declared = trees.iter().find(|tree| tree.name.name == param.name);
            let Some(tree) = declared.and_then(|tree| tree.default.as_ref()) else { continue };
            param.default = Some(self.default_value(tree, &param.ty, rounding).flatten().unwrap_or(UNKNOWN));
        }
    }

    /// Gives the parameters of all events their defaults, which are the same wherever an event is declared.
    pub(super) fn defaults_of_events(&mut self, classes: &[Class]) {
        let mut declared: Vec<(EventId, Span)> = Vec::new();
        for class in self.in_order_of_copies(classes) {
            for event in classes[class].states.iter().flat_map(|group| &group.events) {
                let Some(position) = self.headers[class].event(&event.name.name) else { continue };
                let header = &self.headers[class].events[position];
                if header.is_broken || self.reuse_is_unmet.contains(&(class, event.origin)) {
                    continue;
                }
                let mut params = header.params.clone();
                params.iter_mut().for_each(|param| param.default = None);
                self.fuel = self.fuel.saturating_add(u32::try_from(params.len()).unwrap_or(u32::MAX));
                let rounding = self.rounding_of(class, event.origin);
                self.at(class, event.origin, |checker| {
                    checker.defaults_of_params(&mut params, &event.params, rounding);
                });
                let id = (class, position);
                let header = &mut self.headers[class].events[position];
                match declared.iter().find(|(known, _)| *known == id) {
                    None => {
                        header.params = params;
                        declared.push((id, event.name.span));
                    }
                    Some((_, earlier)) => {
                        let is_same = params.iter().zip(&header.params).all(|(new, old)| new.default == old.default);
                        let earlier = *earlier;
                        if !is_same {
                            self.refuse_other_signature(event, earlier);
                        }
                    }
                }
            }
        }
    }

    /// Reports a declaration of an event that differs from the one at `earlier`.
    pub(super) fn refuse_other_signature(&mut self, event: &tree::Event, earlier: Span) {
        let message = format!("the declarations of `{}` differ", event.name.name);
        let diagnostic = Diagnostic::new(Code::EventSignature, event.name.span, message, "differs");
        let help = "an event has the same parameters, defaults, result and roles in every state, and is `internal` or `read` in all or none";
        self.report.push(diagnostic.and(earlier, "from this").help(help));
    }
}
