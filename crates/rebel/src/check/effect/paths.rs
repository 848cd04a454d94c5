//! On no path through an event a place is given two values.

use super::super::Checker;
use super::super::expression::Context;
use super::{Change, Effects, Part, reads_local};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::{EffectOperator, Way};
use crate::source::Span;
use crate::syntax::tree;
use crate::value::Name;

/// What a path does, as far as the text tells: where, and what there.
#[derive(Clone, Copy)]
struct Mark<'e> {
    /// The fields of records on the way, up to the first entry of a map.
    members: &'e [Way],
    kind: Kind,
    span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Becomes,
    /// Something is added or taken away, which sums up.
    Changes,
    /// The rest of the way leads through a key: only run time tells to which place.
    Entry,
}

impl<'e> Mark<'e> {
    fn of(change: &'e Change) -> Self {
        let entry = change.way.iter().position(|way| matches!(way, Way::Entry(_)));
        let kind = match (entry, change.operator) {
            (Some(_), _) => Kind::Entry,
            (None, EffectOperator::Becomes) => Kind::Becomes,
            (None, _) => Kind::Changes,
        };
        Self { members: &change.way[..entry.unwrap_or(change.way.len())], kind, span: change.span }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.members == other.members && self.kind == other.kind
    }

    /// Whether the two, on one path, give one place two values.
    fn collides(&self, other: &Self) -> bool {
        let is_within = self.members.starts_with(other.members) || other.members.starts_with(self.members);
        is_within && (self.kind == Kind::Becomes || other.kind == Kind::Becomes)
    }
}

impl Checker {
    /// Refuses two effects on one path that give one place two values.
    pub(super) fn one_value_for_each_place(&mut self, effects: &Effects) {
        for field in &effects.fields {
            let mut collisions = Vec::new();
            marks(&field.parts, &mut collisions);
            for (first, second) in collisions {
                self.assigned_twice(&field.slot.name, first, second);
            }
        }
    }

    fn assigned_twice(&mut self, field: &Name, first: Span, second: Span) {
        let message = format!("`{field}` is given two values");
        let diagnostic = Diagnostic::new(Code::AssignedTwice, second, message, "the second");
        let help = "join the two effects, or let `if` and `else` choose one of them";
        let diagnostic = diagnostic.and(first, "the first").help(help);
        // Variants have what stands before them in common.
        if !self.report.diagnostics().contains(&diagnostic) {
            self.report.push(diagnostic);
        }
    }

    /// Refuses an effect that gives one place a value for each element of the innermost `for`.
    pub(super) fn refuse_one_place_for_all(&mut self, effect: &tree::Effect, change: &Change, context: &Context<'_>) {
        let Some(&variable) = context.loops.last() else { return };
        let reads = |way: &Way| matches!(way, Way::Entry(key) if reads_local(key, variable));
        if change.operator != EffectOperator::Becomes || change.way.iter().any(reads) {
            return;
        }
        let name = &context.locals[variable].name;
        let message = format!("one place of `{}` is given a value for each `{name}`", effect.field.name);
        let help = format!("`+=` adds up, and a key that depends on `{name}` names one entry for each");
        self.refuse(Code::AssignedTwice, change.span, message, "the same place each time", &help);
    }
}

/// What the parts do on their paths, one of each kind, and what collides on the way.
fn marks<'e>(parts: &'e [Part], collisions: &mut Vec<(Span, Span)>) -> Vec<Mark<'e>> {
    let mut seen: Vec<Mark<'e>> = Vec::new();
    for part in parts {
        let found = match part {
            Part::Do(change) => vec![Mark::of(change)],
            Part::If(_, accepted, otherwise) => {
                let mut found = marks(accepted, collisions);
                found.extend(marks(otherwise, collisions));
                found
            }
            Part::For(_, parts) => marks(parts, collisions),
        };
        let collision = found.iter().find_map(|mark| Some((seen.iter().find(|earlier| earlier.collides(mark))?, mark)));
        if let Some((first, second)) = collision {
            collisions.push((first.span, second.span));
        }
        for mark in found {
            if !seen.iter().any(|known| known.is_like(&mark)) {
                seen.push(mark);
            }
        }
    }
    seen
}
