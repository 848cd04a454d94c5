//! Running transactions one after the other, in every order.

use std::collections::BTreeMap;

use enact_entities::{Action, Call, Calls, Demand, EntityKey, Model, Timestamp};

use super::bank::{Event, Hand, State};

pub type States = BTreeMap<EntityKey, State>;

/// Whether the transactions, run one after the other in some order from `before`, all succeed and end in `after`.
pub fn some_order_explains(model: &Hand, before: &States, transactions: &[Vec<Call<Event>>], after: &States) -> bool {
    if transactions.is_empty() {
        return same(model, before, after);
    }
    (0..transactions.len()).any(|first| {
        let Some(next) = execute(model, before, &transactions[first]) else { return false };
        let mut rest = transactions.to_vec();
        rest.remove(first);
        some_order_explains(model, &next, &rest, after)
    })
}

/// An entity that was only asked is as good as one that was never heard of.
fn same(model: &Hand, left: &States, right: &States) -> bool {
    let state = |states: &States, key: &EntityKey| states.get(key).cloned().or_else(|| model.initial(key));
    left.keys().chain(right.keys()).all(|key| state(left, key) == state(right, key))
}

/// All calls of one transaction as one step: every guard and condition sees the states before it.
pub fn execute(model: &Hand, before: &States, calls: &[Call<Event>]) -> Option<States> {
    let state = |key: &EntityKey| before.get(key).cloned().or_else(|| model.initial(key));
    let mut events: BTreeMap<EntityKey, Event> = BTreeMap::new();
    let mut queue = calls.to_vec();
    while let Some(call) = queue.pop() {
        let now = state(&call.key)?;
        let possible = |event: &Event| model.next(&call.key, &now, event, Timestamp(0)).is_ok();
        match call.action {
            Action::Condition(condition) => {
                let holds = match condition.demand {
                    Demand::Impossible(event) => !possible(&event),
                    Demand::Initialized => model.exists(&call.key, &now),
                    Demand::InState(states) => states.iter().any(|name| name == model.state_name(&call.key, &now)),
                };
                if !holds {
                    return None;
                }
            }
            Action::Event(event) => match events.get(&call.key) {
                Some(first) if *first != event => return None,
                Some(_) => {}
                None => {
                    let Calls::Known(calls) = model.calls(&call.key, Some(&now), &event, Timestamp(0)) else {
                        return None;
                    };
                    queue.extend(calls);
                    events.insert(call.key, event);
                }
            },
        }
    }
    let mut after = before.clone();
    for (key, event) in events {
        let next = model.next(&key, &state(&key)?, &event, Timestamp(0)).ok()?;
        after.insert(key, next);
    }
    Some(after)
}
