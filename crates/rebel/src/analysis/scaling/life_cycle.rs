//! Two events and the states of the life cycle.

use std::collections::BTreeSet;

use super::Concurrency;
use crate::model::Event;
use crate::value::Name;

/// How two events get along as far as states decide: the worst of all states in which `open` may have been admitted.
pub(super) fn meet(open: &Event, incoming: &Event) -> Concurrency {
    let sources: BTreeSet<&Name> = open.transitions.iter().map(|way| &way.source).collect();
    let mut worst = if leads_elsewhere(open, incoming) { Concurrency::InLine } else { Concurrency::Together };
    for before in sources {
        for after in targets(open, before) {
            worst = worst.max(meet_in(open, incoming, before, after));
        }
    }
    worst
}

/// Whether both move, and not to one and the same state: admission tells their order apart by that.
fn leads_elsewhere(open: &Event, incoming: &Event) -> bool {
    let moves_to = |event: &Event| -> BTreeSet<Name> {
        event.transitions.iter().filter(|way| way.source != way.target).map(|way| way.target.clone()).collect()
    };
    let (one, other) = (moves_to(open), moves_to(incoming));
    !one.is_empty() && !other.is_empty() && (one != other || one.len() > 1)
}

/// `open` was admitted in `before` and leads to `after`.
fn meet_in(open: &Event, incoming: &Event, before: &Name, after: &Name) -> Concurrency {
    let (without, with) = (targets(incoming, before), targets(incoming, after));
    if without.is_empty() && with.is_empty() {
        return Concurrency::Together;
    }
    // Whether it is possible, or which state it leads to, depends on how the other one ends.
    if without != with {
        return Concurrency::Turns;
    }
    // Either order ends in one state, and the open one leads to it from where the other one leads, too.
    let is_one_end = with.iter().all(|end| *end == after);
    let keeps_open = |end: &&Name| *end == before || targets(open, end).iter().all(|then| *then == after);
    let is_possible = |end: &&Name| !targets(open, end).is_empty();
    if is_one_end && without.iter().all(|end| keeps_open(end) && is_possible(end)) {
        Concurrency::Together
    } else {
        Concurrency::InLine
    }
}

fn targets<'a>(event: &'a Event, state: &Name) -> BTreeSet<&'a Name> {
    event.transitions.iter().filter(|way| way.source == *state).map(|way| &way.target).collect()
}
