//! The definition itself: all serial orders, one after the other. For histories of a few attempts, and for the tests
//! of the checker.

use std::collections::HashMap;

use crate::check::Criterion;
use crate::history::{Attempt, History, Op, Token, Variable};

/// More attempts have too many orders.
pub const ATTEMPTS_MAX: usize = 8;

/// Whether some serial order explains the history.
///
/// In that order every attempt reads what stands there, each committed write takes the place of what it replaced or of
/// a smaller token, and what had ended before another began precedes it if the criterion asks for it.
///
/// # Panics
/// If the history has more than [`ATTEMPTS_MAX`] attempts that the criterion asks something of.
#[must_use]
pub fn is_explained(history: &History, criterion: Criterion) -> bool {
    let included = history.attempts().filter(|(attempt, _)| criterion.includes(attempt.is_committed));
    let mut left: Vec<_> = included.collect();
    assert!(left.len() <= ATTEMPTS_MAX, "{} attempts have too many orders", left.len());
    extends(&mut left, &HashMap::new(), criterion)
}

/// Whether the attempts that are left can follow in some order on a state.
fn extends(left: &mut Vec<(&Attempt, &[Op])>, state: &HashMap<Variable, Token>, criterion: Criterion) -> bool {
    if left.is_empty() {
        return true;
    }
    (0..left.len()).any(|at| {
        let next = left.swap_remove(at);
        let is_in_time =
            criterion == Criterion::Serializable || left.iter().all(|(other, _)| other.end >= next.0.begin);
        let is_possible = is_in_time && perform(next, state).is_some_and(|state| extends(left, &state, criterion));
        left.push(next);
        let last = left.len() - 1;
        left.swap(at, last);
        is_possible
    })
}

/// The state after an attempt, if all that it has read and replaced stands there.
fn perform((attempt, ops): (&Attempt, &[Op]), before: &HashMap<Variable, Token>) -> Option<HashMap<Variable, Token>> {
    let held = |state: &HashMap<_, _>, variable| state.get(&variable).copied().unwrap_or(Token::INITIAL);
    let mut after = before.clone();
    let mut replacements: HashMap<Variable, Option<Token>> = HashMap::new();
    for &op in ops {
        match op {
            Op::Read(variable, token) if token != held(&after, variable) => return None,
            Op::Read(..) => {}
            Op::Write(variable, token, replaced) => {
                replacements.entry(variable).or_insert(replaced);
                after.insert(variable, token);
            }
        }
    }
    if !attempt.is_committed {
        return Some(before.clone());
    }
    let is_next = |(&variable, replaced): (&Variable, &Option<Token>)| match *replaced {
        Some(replaced) => replaced == held(before, variable),
        None => after[&variable] > held(before, variable),
    };
    replacements.iter().all(is_next).then_some(after)
}
