//! What is explored.

use enact_entities::{EntityKey, Limits, Rebel, Strategy};
use enact_models::{Act, Bank, COORDINATOR, Faults, Scenario, Transaction};

pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) scenario: fn() -> Scenario<Rebel>,
    /// Whether the gate has no time for it.
    pub(crate) is_deep: bool,
    /// How many states it has.
    pub(crate) states: Option<usize>,
}

const NONE: Faults =
    Faults { crashes: 0, take_overs: 0, doubles: 0, ticks: 0, lates: 0, refusals: 0, doubts: 0, repeats: 0 };

fn coordinator(name: &str) -> EntityKey {
    EntityKey::new(COORDINATOR, name).expect("the name of a coordinator")
}

/// Accounts A and B, each on a node of its own, and transactions `C` coordinates, on a third one.
fn scenario(strategy: Strategy, transactions: &[Calls], faults: Faults) -> Scenario<Rebel> {
    let bank = Bank::default();
    let [a, b] = ["A", "B"].map(Bank::account);
    let call = |&(name, act): &(&str, Act)| {
        let (at, other) = if name == "A" { (&a, &b) } else { (&b, &a) };
        bank.call(at, act, other)
    };
    let transaction =
        |calls: &Calls| Transaction { coordinator: coordinator("C"), calls: calls.iter().map(call).collect() };
    Scenario {
        model: bank.model(),
        states: bank.opened(&[a.clone(), b.clone()]),
        strategy,
        limits: Limits { open_max: 3, ..Limits::default() },
        nodes: vec![vec![a.clone()], vec![b.clone()], vec![coordinator("C")]],
        transactions: transactions.iter().map(transaction).collect(),
        begun: transactions.len() - 1,
        is_side_by_side: false,
        is_prompt: true,
        shares_journals: false,
        faults,
    }
}

/// Accounts A and B in a shard each, where the account that a transaction addresses first has its coordinator.
fn shards(transactions: &[Calls], faults: Faults) -> Scenario<Rebel> {
    let plain = scenario(SERIALIZABLE, transactions, faults);
    let addressed = transactions.iter().map(|calls| coordinator(calls[0].0));
    Scenario {
        nodes: ["A", "B"].map(|name| vec![Bank::account(name), coordinator(name)]).into(),
        transactions: addressed
            .zip(&plain.transactions)
            .map(|(coordinator, transaction)| Transaction { coordinator, ..transaction.clone() })
            .collect(),
        shares_journals: true,
        ..plain
    }
}

type Calls = &'static [(&'static str, Act)];

/// Two that commute, and one that needs what the first takes.
const TRANSFERS: &[Calls] = &[
    &[("A", Act::Withdraw(60)), ("B", Act::Deposit(60))],
    &[("A", Act::Deposit(30)), ("B", Act::Withdraw(30))],
    &[("A", Act::Withdraw(60)), ("B", Act::Deposit(60))],
];

/// What does not commute, asked for in opposite orders: the second learns from B that it concerns A.
const CROSSING: &[Calls] =
    &[&[("A", Act::Deposit(50)), ("B", Act::Withdraw(50))], &[("B", Act::Share(10))], &[("A", Act::Interest(10))]];

/// Each demands that what the other closes is open; and a condition on what both may change.
const CONDITIONS: &[Calls] = &[
    &[("A", Act::Close), ("B", Act::Opened)],
    &[("A", Act::Opened), ("B", Act::Close)],
    &[("A", Act::Poor(150)), ("B", Act::Withdraw(10))],
];

/// Two from A, and one from B that what both take leaves less for.
const ACROSS: &[Calls] = &[
    &[("A", Act::Withdraw(60)), ("B", Act::Deposit(60))],
    &[("B", Act::Withdraw(30)), ("A", Act::Deposit(30))],
    &[("A", Act::Withdraw(60)), ("B", Act::Deposit(60))],
];

const fn crashes(crashes: u8) -> Faults {
    Faults { crashes, ..NONE }
}

const fn take_overs(take_overs: u8) -> Faults {
    Faults { take_overs, ..NONE }
}

const SERIALIZABLE: Strategy = Strategy::Serializable;

/// Appends are durable at any time, and not at once.
fn slowly(scenario: Scenario<Rebel>) -> Scenario<Rebel> {
    Scenario { is_prompt: false, ..scenario }
}

/// Both accounts are asked at once.
fn at_once(scenario: Scenario<Rebel>) -> Scenario<Rebel> {
    Scenario { is_side_by_side: true, ..scenario }
}

const fn gate(name: &'static str, states: Option<usize>, scenario: fn() -> Scenario<Rebel>) -> Named {
    Named { name, scenario, is_deep: false, states }
}

const fn deep(name: &'static str, states: Option<usize>, scenario: fn() -> Scenario<Rebel>) -> Named {
    Named { name, scenario, is_deep: true, states }
}

pub(crate) const SCENARIOS: &[Named] = &[
    gate("shards-3-crashes-2", Some(677_803), || shards(ACROSS, crashes(2))),
    gate("shards-3-take-overs-1-crashes-1", Some(6_261_117), || shards(ACROSS, Faults { take_overs: 1, ..crashes(1) })),
    gate("shards-conditions-3-take-overs-1-crashes-1", Some(91_699), || {
        shards(CONDITIONS, Faults { take_overs: 1, ..crashes(1) })
    }),
    deep("shards-2-take-overs-2-crashes-1", Some(752_749), || {
        shards(&ACROSS[..2], Faults { take_overs: 2, ..crashes(1) })
    }),
    deep("doubts-2", None, || {
        slowly(scenario(SERIALIZABLE, &TRANSFERS[1..], Faults { doubts: 1, refusals: 1, repeats: 1, ..NONE }))
    }),
    deep("doubles-2", None, || scenario(SERIALIZABLE, &TRANSFERS[1..], Faults { doubles: 2, repeats: 1, ..NONE })),
    gate("conditions-2-crashes-1", Some(2507), || scenario(SERIALIZABLE, &CONDITIONS[..2], crashes(1))),
    gate("crossing-2-crashes-1", Some(31_797), || scenario(SERIALIZABLE, &CROSSING[..2], crashes(1))),
    gate("crossing-psac-crashes-1", Some(32_524), || scenario(Strategy::Psac, &CROSSING[..2], crashes(1))),
    gate("conditions-2-at-once-crashes-1", Some(40_643), || {
        at_once(scenario(SERIALIZABLE, &CONDITIONS[..2], crashes(1)))
    }),
    gate("locking-2-at-once", Some(4355), || at_once(scenario(Strategy::Locking, &TRANSFERS[1..], NONE))),
    deep("transfers-2-at-once-crashes-1", Some(62_287), || {
        at_once(scenario(SERIALIZABLE, &TRANSFERS[1..], crashes(1)))
    }),
    gate("crossing-2-at-once-crashes-1", Some(105_762), || at_once(scenario(SERIALIZABLE, &CROSSING[..2], crashes(1)))),
    gate("slow-2", Some(2371), || slowly(scenario(SERIALIZABLE, &TRANSFERS[1..], NONE))),
    deep("transfers-2-crashes-2", Some(530_298), || scenario(SERIALIZABLE, &TRANSFERS[1..], crashes(2))),
    deep("late-2", None, || scenario(SERIALIZABLE, &TRANSFERS[1..], Faults { lates: 1, ticks: 1, crashes: 1, ..NONE })),
    gate("transfers-3", Some(31_758), || scenario(SERIALIZABLE, TRANSFERS, NONE)),
    gate("conditions-2-take-overs-1", Some(4673), || scenario(SERIALIZABLE, &CONDITIONS[..2], take_overs(1))),
    gate("crossing-2-take-overs-1", Some(106_657), || scenario(SERIALIZABLE, &CROSSING[..2], take_overs(1))),
    deep("crossing-2-at-once-take-overs-1", Some(381_733), || {
        at_once(scenario(SERIALIZABLE, &CROSSING[..2], take_overs(1)))
    }),
    gate("conditions-2-take-overs-1-ticks-1", Some(200_481), || {
        scenario(SERIALIZABLE, &CONDITIONS[..2], Faults { take_overs: 1, ticks: 1, ..NONE })
    }),
    deep("crossing-2-ticks-1", Some(93_135), || scenario(SERIALIZABLE, &CROSSING[..2], Faults { ticks: 1, ..NONE })),
    deep("crossing-2-ticks-1-crashes-1", Some(3_930_789), || {
        scenario(SERIALIZABLE, &CROSSING[..2], Faults { ticks: 1, ..crashes(1) })
    }),
    deep("crossing-2-take-overs-1-ticks-1", None, || {
        scenario(SERIALIZABLE, &CROSSING[..2], Faults { take_overs: 1, ticks: 1, ..NONE })
    }),
    deep("transfers-2-take-overs-1-crashes-1", Some(4_543_043), || {
        scenario(SERIALIZABLE, &TRANSFERS[1..], Faults { take_overs: 1, ..crashes(1) })
    }),
    deep("transfers-2-take-overs-2", None, || scenario(SERIALIZABLE, &TRANSFERS[1..], take_overs(2))),
    gate("crossing-3", Some(13_807), || scenario(SERIALIZABLE, CROSSING, NONE)),
    deep("slow-2-crashes-1", None, || slowly(scenario(SERIALIZABLE, &TRANSFERS[1..], crashes(1)))),
    deep("transfers-3-crashes-1", None, || scenario(SERIALIZABLE, TRANSFERS, crashes(1))),
    deep("locking-3-crashes-1", None, || scenario(Strategy::Locking, TRANSFERS, crashes(1))),
    gate("conditions-3-crashes-1", Some(328_290), || scenario(SERIALIZABLE, CONDITIONS, crashes(1))),
    deep("crossing-3-crashes-1", None, || scenario(SERIALIZABLE, CROSSING, crashes(1))),
    deep("conditions-3-crashes-2", Some(5_464_712), || scenario(SERIALIZABLE, CONDITIONS, crashes(2))),
    deep("transfers-3-at-once", None, || at_once(scenario(SERIALIZABLE, TRANSFERS, NONE))),
    deep("transfers-3-crashes-2", None, || scenario(SERIALIZABLE, TRANSFERS, crashes(2))),
];
