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

/// All calls of one transaction as one step: depth first, in the order in which they are written, each seeing the effects of
/// those before it. Conditions are about the states before the transaction.
pub fn execute(model: &Hand, before: &States, calls: &[Call<Event>]) -> Option<States> {
    let mut after = before.clone();
    calls.iter().try_for_each(|call| call_once(model, before, &mut after, call))?;
    Some(after)
}

fn call_once(model: &Hand, before: &States, after: &mut States, call: &Call<Event>) -> Option<()> {
    let at = Timestamp(0);
    let in_states = |states: &States| states.get(&call.key).cloned().or_else(|| model.initial(&call.key));
    match &call.action {
        Action::Condition(condition) => {
            let now = in_states(before)?;
            let holds = match &condition.demand {
                Demand::Impossible(event) => model.next(&call.key, &now, event, at).is_err(),
                Demand::Initialized => model.exists(&call.key, &now),
                Demand::InState(states) => states.iter().any(|name| name == model.state_name(&call.key, &now)),
            };
            holds.then_some(())
        }
        Action::Event(event) => {
            let now = in_states(after)?;
            let next = model.next(&call.key, &now, event, at).ok()?;
            let Calls::Known(calls) = model.calls(&call.key, Some(&now), event, at) else { return None };
            after.insert(call.key.clone(), next);
            calls.iter().try_for_each(|call| call_once(model, before, after, call))
        }
    }
}
