//! Running transactions one after the other, in every order that is allowed.

use std::collections::{BTreeMap, BTreeSet};

use enact_entities::{Action, Call, Calls, Demand, EntityKey, Model, Timestamp, TxId};

use super::bank::{Event, Hand, State};

pub(crate) type States = BTreeMap<EntityKey, State>;

/// A transaction that committed.
#[derive(Clone)]
pub(crate) struct Committed {
    pub(crate) tx: TxId,
    pub(crate) calls: Vec<Call<Event>>,
    /// Those whose clients had been told of the commit when it began.
    pub(crate) behind: BTreeSet<TxId>,
}

/// Whether the transactions, run one after the other in some order from `before`, all succeed and end in `after`. What had been
/// answered when another began comes before that one.
pub(crate) fn some_order_explains(model: &Hand, before: &States, transactions: &[Committed], after: &States) -> bool {
    if transactions.is_empty() {
        return same(model, before, after);
    }
    (0..transactions.len()).any(|first| {
        let mut rest = transactions.to_vec();
        let Committed { calls, behind, .. } = rest.remove(first);
        if rest.iter().any(|other| behind.contains(&other.tx)) {
            return false;
        }
        let next = execute(model, before, &calls);
        next.is_some_and(|next| some_order_explains(model, &next, &rest, after))
    })
}

/// An entity that was only asked is as good as one that was never heard of.
fn same(model: &Hand, left: &States, right: &States) -> bool {
    let state = |states: &States, key: &EntityKey| states.get(key).cloned().or_else(|| model.initial(key));
    left.keys().chain(right.keys()).all(|key| state(left, key) == state(right, key))
}

/// All calls of one transaction as one step: in order, each with all that it calls, each on what those before it left.
pub(crate) fn execute(model: &Hand, before: &States, calls: &[Call<Event>]) -> Option<States> {
    let mut states = before.clone();
    calls.iter().try_for_each(|call| happen(model, &mut states, call))?;
    Some(states)
}

fn happen(model: &Hand, states: &mut States, call: &Call<Event>) -> Option<()> {
    let now = states.get(&call.key).cloned().or_else(|| model.initial(&call.key))?;
    let next = |event: &Event| model.next(&call.key, &now, event, Timestamp(0)).ok();
    match &call.action {
        Action::Condition(condition) => {
            let holds = match &condition.demand {
                Demand::Impossible(event) => next(event).is_none(),
                Demand::Initialized => model.exists(&call.key, &now),
                Demand::InState(states) => states.iter().any(|name| name == model.state_name(&call.key, &now)),
            };
            holds.then_some(())
        }
        Action::Ask(_) => unreachable!("nothing here asks"),
        Action::Event(event) => {
            let after = next(event)?;
            let Calls::Known(calls) = model.calls(&call.key, Some(&now), event, Timestamp(0)) else { return None };
            let is_event = |call: &&Call<Event>| matches!(call.action, Action::Event(_));
            let (events, conditions): (Vec<_>, Vec<_>) = calls.iter().partition(is_event);
            conditions.into_iter().try_for_each(|condition| happen(model, states, condition))?;
            states.insert(call.key.clone(), after);
            events.into_iter().try_for_each(|call| happen(model, states, call))
        }
    }
}
