//! Transactions one after the other, in every order that is allowed.

use std::collections::BTreeMap;

use enact_entities::{Action, Call, Calls, Demand, EntityKey, Model, Timestamp};

/// The state of each entity that has been touched.
pub type States<M> = BTreeMap<EntityKey, <M as Model>::State>;

/// A transaction that committed.
pub struct Committed<'a, E> {
    /// What its client called.
    pub calls: &'a [Call<E>],
    /// The transactions, by their place in the list, whose clients had been told of the commit when it began.
    pub behind: Vec<usize>,
}

/// The first order in which `transactions`, run one after the other from `before`, all succeed and end in `after`, and in
/// which each comes behind those that were answered before it began.
pub fn explanation<M: Model>(
    model: &M,
    before: &States<M>,
    transactions: &[Committed<'_, M::Event>],
    after: &States<M>,
) -> Option<Vec<usize>> {
    fn search<M: Model>(
        model: &M,
        states: &States<M>,
        transactions: &[Committed<'_, M::Event>],
        after: &States<M>,
        order: &mut Vec<usize>,
    ) -> bool {
        if order.len() == transactions.len() {
            return is_same(model, states, after);
        }
        for (next, transaction) in transactions.iter().enumerate() {
            if order.contains(&next) || !transaction.behind.iter().all(|earlier| order.contains(earlier)) {
                continue;
            }
            if let Some(states) = execute(model, states, transaction.calls) {
                order.push(next);
                if search(model, &states, transactions, after, order) {
                    return true;
                }
                order.pop();
            }
        }
        false
    }
    let mut order = Vec::new();
    search(model, before, transactions, after, &mut order).then_some(order)
}

/// An entity that was only asked is as good as one that was never heard of.
fn is_same<M: Model>(model: &M, left: &States<M>, right: &States<M>) -> bool {
    let state = |states: &States<M>, key: &EntityKey| states.get(key).cloned().or_else(|| model.initial(key));
    left.keys().chain(right.keys()).all(|key| state(left, key) == state(right, key))
}

/// All calls of one transaction as one step: in order, each with all that it calls, each on what those before it left.
pub fn execute<M: Model>(model: &M, before: &States<M>, calls: &[Call<M::Event>]) -> Option<States<M>> {
    let mut states = before.clone();
    calls.iter().try_for_each(|call| happen(model, &mut states, call))?;
    Some(states)
}

fn happen<M: Model>(model: &M, states: &mut States<M>, call: &Call<M::Event>) -> Option<()> {
    let (key, at) = (&call.key, Timestamp(0));
    let now = states.get(key).cloned().or_else(|| model.initial(key))?;
    let next = |event: &M::Event| model.next(key, &now, event, at).ok();
    match &call.action {
        Action::Condition(condition) => {
            let holds = match &condition.demand {
                Demand::Impossible(event) => next(event).is_none(),
                Demand::Initialized => model.exists(key, &now),
                Demand::InState(states) => states.iter().any(|name| name == model.state_name(key, &now)),
            };
            holds.then_some(())
        }
        Action::Ask(_) => unreachable!("nothing here asks"),
        Action::Event(event) => {
            let after = next(event)?;
            let Calls::Known(calls) = model.calls(key, Some(&now), event, at) else { return None };
            let is_event = |call: &&Call<M::Event>| matches!(call.action, Action::Event(_));
            let (events, conditions): (Vec<_>, Vec<_>) = calls.iter().partition(is_event);
            conditions.into_iter().try_for_each(|condition| happen(model, states, condition))?;
            states.insert(key.clone(), after);
            events.into_iter().try_for_each(|call| happen(model, states, call))
        }
    }
}
