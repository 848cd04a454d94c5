//! The search for the smallest history that no serial order explains.
//!
//! Two accounts with a balance of 100, each on a node of its own, and transactions from a small set, asked for at the same time.
//! Nothing fails. Every order in which messages arrive is played, of all choices of transactions, those with the fewest events
//! first. What a transaction asks of both accounts is asked in the order of their keys, unless the first account is the one that
//! says that there is a second: so two transactions may meet in opposite orders.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use enact_entities::{EntityKey, Limits, Rebel, Slot, Strategy};

use crate::bank::{Act, Bank};
use crate::node::COORDINATOR;
use crate::protocol::{Action, End, Protocol, State};
use crate::scenario::{Faults, Scenario, Transaction};
use crate::serial::execute;

/// What one transaction asks of the accounts.
type Asked = Vec<(Name, Act)>;

/// The name of an account.
type Name = &'static str;

const NAMES: [Name; 2] = ["A", "B"];

/// What the search has found.
#[derive(Clone, Debug)]
pub struct Search {
    /// The strategy of both accounts.
    pub strategy: Strategy,
    /// How many transactions there are at most.
    pub transactions_max: usize,
    /// How many choices of transactions were played.
    pub choices: usize,
    /// How many states they have reached.
    pub states: usize,
    /// The smallest history that no serial order explains, if there is one.
    pub found: Option<Found>,
}

/// A history that no serial order explains.
#[derive(Clone, Debug)]
pub struct Found {
    asked: Vec<Asked>,
    /// The transactions in the order in which each account has applied them.
    orders: BTreeMap<EntityKey, Vec<usize>>,
    /// The balances of A and B at the end.
    balances: Vec<i128>,
    /// Each serial order in which all succeed, with the balances that it ends in.
    serial: Vec<(Vec<usize>, Vec<i128>)>,
}

impl Found {
    /// How many events there are.
    pub fn event_count(&self) -> usize {
        event_count(&self.asked)
    }

    /// How many transactions there are.
    pub fn transaction_count(&self) -> usize {
        self.asked.len()
    }

    /// The balances at the end, of A and of B.
    pub fn balances(&self) -> &[i128] {
        &self.balances
    }
}

/// Plays all choices of up to `transactions_max` transactions, each order of messages of each, until no serial order explains one.
///
/// # Errors
/// What the protocol has broken, which is none of its promises about order.
pub fn search(strategy: Strategy, transactions_max: usize) -> Result<Search, String> {
    let bank = Bank::default();
    let alone = alone();
    let protocol = Protocol::new(scenario(&bank, strategy, &alone, transactions_max));
    let mut search = Search { strategy, transactions_max, choices: 0, states: 0, found: None };
    for choice in choices(&alone, transactions_max) {
        search.choices += 1;
        if let Some(found) = play(&bank, &protocol, &mut search, &choice)? {
            search.found = Some(found);
            break;
        }
    }
    Ok(search)
}

/// Each transaction that there is.
fn alone() -> Vec<Asked> {
    let acts = [Act::Deposit(50), Act::Withdraw(50), Act::Interest(10)];
    let mut alone: Vec<Asked> = NAMES.iter().flat_map(|&name| acts.map(|act| vec![(name, act)])).collect();
    alone.extend(acts.iter().flat_map(|&at_a| acts.map(|at_b| vec![("A", at_a), ("B", at_b)])));
    alone.extend(NAMES.map(|name| vec![(name, Act::Share(10))]));
    alone
}

fn event_count(asked: &[Asked]) -> usize {
    let events = |act: &Act| if matches!(act, Act::Share(_)) { 2 } else { 1 };
    asked.iter().flatten().map(|(_, act)| events(act)).sum()
}

/// All choices of transactions by their places, the same one several times too, those with the fewest events first.
fn choices(alone: &[Asked], transactions_max: usize) -> Vec<Vec<usize>> {
    let mut longest: Vec<Vec<usize>> = vec![Vec::new()];
    let mut found = Vec::new();
    for _ in 0..transactions_max {
        let longer = longest.iter().flat_map(|choice| {
            let first = choice.last().copied().unwrap_or(0);
            (first..alone.len()).map(|next| [choice.as_slice(), &[next]].concat())
        });
        longest = longer.collect();
        found.extend_from_slice(&longest);
    }
    found.sort_by_key(|choice| {
        let asked: Vec<_> = choice.iter().map(|&place| alone[place].clone()).collect();
        (event_count(&asked), asked.len())
    });
    found
}

/// The history of `choice` that no serial order explains, if there is one. The scenario has each transaction once for every turn
/// in which it may be chosen.
fn play(
    bank: &Bank,
    protocol: &Protocol<Rebel>,
    search: &mut Search,
    choice: &[usize],
) -> Result<Option<Found>, String> {
    let turns = protocol.scenario().transactions.len() / search.transactions_max;
    let numbers: Vec<_> = choice.iter().enumerate().map(|(turn, place)| turn * turns + place).collect();
    let mut reached: HashSet<State> = HashSet::new();
    let mut left = vec![protocol.start_with(numbers.iter().copied())];
    let mut actions = Vec::new();
    let mut found = None;
    while let Some(state) = left.pop() {
        if !reached.insert(state.clone()) {
            continue;
        }
        if let Some(breach) = protocol.breach(&state) {
            return Err(breach);
        }
        protocol.actions(&state, &mut actions);
        actions.retain(|action| !matches!(action, Action::Begin(_)));
        if actions.is_empty() && found.is_none() {
            let end = protocol.outcome(&state)?;
            found = end.serial.is_none().then(|| describe(bank, protocol, &numbers, &end));
        }
        left.extend(actions.drain(..).map(|action| protocol.next(&state, action)));
    }
    search.states += reached.len();
    Ok(found)
}

fn scenario(bank: &Bank, strategy: Strategy, alone: &[Asked], turns: usize) -> Scenario<Rebel> {
    let accounts = NAMES.map(Bank::account);
    let coordinator = EntityKey::new(COORDINATOR, "C").expect("a key");
    let call = |&(name, act): &(Name, Act)| {
        let [at, other] = if name == NAMES[0] { [0, 1] } else { [1, 0] };
        bank.call(&accounts[at], act, &accounts[other])
    };
    let transaction =
        |asked: &Asked| Transaction { coordinator: coordinator.clone(), calls: asked.iter().map(call).collect() };
    Scenario {
        model: bank.model(),
        strategy,
        limits: Limits::default(),
        states: bank.opened(&accounts),
        nodes: vec![vec![accounts[0].clone()], vec![accounts[1].clone()], vec![coordinator.clone()]],
        transactions: (0..turns).flat_map(|_| alone.iter().map(transaction)).collect(),
        begun: 0,
        is_side_by_side: false,
        is_prompt: true,
        shares_journals: false,
        faults: Faults::default(),
    }
}

fn describe(bank: &Bank, protocol: &Protocol<Rebel>, numbers: &[usize], end: &End<AccountState>) -> Found {
    let alone = alone();
    let place = |number: &usize| numbers.iter().position(|other| other == number).expect("it was begun");
    let mut orders: BTreeMap<EntityKey, BTreeMap<Slot, usize>> = BTreeMap::new();
    for (&number, slots) in &end.committed {
        for (at, &slot) in slots {
            orders.entry(at.clone()).or_default().insert(slot, place(&number));
        }
    }
    let orders = orders.into_iter().map(|(at, order)| (at, order.into_values().collect())).collect();
    let balances =
        |states: &BTreeMap<EntityKey, AccountState>| states.values().map(|state| bank.balance(state)).collect();
    let Scenario { model, states, transactions, .. } = protocol.scenario();
    let mut serial = Vec::new();
    for order in permutations(&end.committed.keys().copied().collect()) {
        let run = |states, &number: &usize| execute(&**model, &states, &transactions[number].calls);
        if let Some(states) = order.iter().try_fold(states.clone(), run) {
            serial.push((order.iter().map(place).collect(), balances(&states)));
        }
    }
    let asked = numbers.iter().map(|number| alone[number % alone.len()].clone()).collect();
    Found { asked, orders, balances: balances(&end.states), serial }
}

/// The state of one account.
type AccountState = <Rebel as enact_entities::Model>::State;

fn permutations(numbers: &BTreeSet<usize>) -> Vec<Vec<usize>> {
    if numbers.is_empty() {
        return vec![Vec::new()];
    }
    let begin_with = |&first: &usize| {
        let mut rest = numbers.clone();
        rest.remove(&first);
        permutations(&rest).into_iter().map(move |order| [&[first], order.as_slice()].concat())
    };
    numbers.iter().flat_map(begin_with).collect()
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { strategy, transactions_max, choices, states, found } = self;
        writeln!(
            f,
            "{strategy}: {choices} choices of up to {transactions_max} transactions in every order of messages, {states} states"
        )?;
        match found {
            None => writeln!(f, "  a serial order explains each history"),
            Some(found) => found.fmt(f),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |order: &[usize]| order.iter().map(|n| format!("T{}", n + 1)).collect::<Vec<_>>().join(", ");
        let amounts = |balances: &[i128]| {
            let amounts = NAMES.iter().zip(balances).map(|(name, balance)| format!("{name} = {balance}"));
            amounts.collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "  no serial order explains this one; A = 100 and B = 100 before it")?;
        for (number, asked) in (1..).zip(&self.asked) {
            let acts: Vec<_> = asked.iter().map(|(name, act)| format!("{name}: {act}")).collect();
            writeln!(f, "  T{number}  {}", acts.join("; "))?;
        }
        for (at, order) in &self.orders {
            writeln!(f, "  {} applies {}", at.id(), names(order))?;
        }
        writeln!(f, "  it ends in {}", amounts(&self.balances))?;
        for (order, balances) in &self.serial {
            writeln!(f, "  {} would end in {}", names(order), amounts(balances))?;
        }
        Ok(())
    }
}
