//! Figure 9 of the paper: two transactions over two accounts that may be applied in opposite orders.

use std::collections::BTreeSet;

use enact_entities::{Call, Durability, Strategy, TxId};

use crate::support::bank::{Bank, Event, Hand, Step};
use crate::support::chance::{Chance, for_seeds};
use crate::support::key;
use crate::support::world::{Packet, World};

/// A and B with 100 euros; two relays that make a transaction of interest on B first and A second.
fn figure_9(strategy: Strategy) -> World {
    // Only what shares a journal is released early.
    let is_early = strategy == Strategy::LockingEarlyRelease;
    let mut world = World::new(strategy, if is_early { Durability::Shared } else { Durability::TwoPhase });
    world.account("Account/A", 100);
    world.account("Account/B", 100);
    let on = |account| Step::Do(key(account), Hand::interest(10));
    world.done("Relay/1", Event::Learn(vec![on("Account/B"), Step::Do(key("Relay/2"), Event::Fire)]));
    world.done("Relay/2", Event::Learn(vec![on("Account/A")]));
    world
}

/// `T1`: 50 from B to A.
fn start_t1(world: &mut World) -> TxId {
    world.start(vec![
        Call::event(key("Account/A"), Hand::deposit(50)),
        Call::event(key("Account/B"), Hand::withdraw(50)),
    ])
}

/// `T2`: ten percent on both; B is asked first.
fn start_t2(world: &mut World) -> TxId {
    world.event("Relay/1", Event::Fire)
}

fn asks(account: &'static str, tx: TxId) -> impl Fn(&Packet) -> bool {
    move |packet| packet.is_prepare() && packet.tx() == tx && packet.participant() == &key(account)
}

/// The interleaving of the figure: T1 arrives first at A, T2 first at B.
fn meet(strategy: Strategy) -> (World, TxId, TxId) {
    let mut world = figure_9(strategy);
    let (t1, t2) = start_both(&mut world);
    (world, t1, t2)
}

fn start_both(world: &mut World) -> (TxId, TxId) {
    let t1 = start_t1(world);
    world.run_except(asks("Account/B", t1));
    let t2 = start_t2(world);
    let t1_waits_for_b = asks("Account/B", t1);
    let t2_waits_for_a = asks("Account/A", t2);
    world.run_except(|packet| t1_waits_for_b(packet) || t2_waits_for_a(packet));
    world.run();
    (t1, t2)
}

fn balances(world: &World) -> (i128, i128) {
    (world.balance("Account/A"), world.balance("Account/B"))
}

const SERIAL: [(i128, i128); 2] = [(165, 55), (160, 60)];

// Case A4.
#[test]
fn figure_9_under_locking_restarts_one_and_ends_in_a_serial_result() {
    for strategy in [Strategy::Locking, Strategy::LockingEarlyRelease] {
        let (world, t1, t2) = meet(strategy);
        assert!(world.committed(t1) && world.committed(t2));
        assert!(world.marks.contains("asked out of order and restarted"));
        assert_eq!(balances(&world), (165, 55));
        world.check_settled();
    }
}

// Case A5.
#[test]
fn figure_9_under_psac_admits_both_and_is_not_serializable() {
    let (world, t1, t2) = meet(Strategy::Psac);
    assert!(world.committed(t1) && world.committed(t2));
    assert!(!world.marks.contains("asked out of order and restarted"));
    assert_eq!(balances(&world), (165, 60));
    world.check_settled();
}

// Case A6.
#[test]
fn figure_9_under_serializable_ends_in_a_serial_result() {
    let (world, t1, t2) = meet(Strategy::Serializable);
    assert!(world.committed(t1) && world.committed(t2));
    assert!(SERIAL.contains(&balances(&world)), "{:?}", balances(&world));
    world.check_settled();
}

/// The same interleaving with another strategy at A.
fn meet_at(at_a: Strategy, at_b: Strategy) -> World {
    let mut world = figure_9(at_b);
    let a = key("Account/A");
    world.strategies.insert(a.clone(), at_a);
    world.crash(&a);
    world.restart(&a);
    let (t1, t2) = start_both(&mut world);
    assert!(world.committed(t1) && world.committed(t2));
    world.check_settled();
    world
}

/// Every message order that chance finds.
fn results(strategy: Strategy, seeds: u64) -> BTreeSet<(i128, i128)> {
    let mut results = BTreeSet::new();
    for_seeds("figure_9", seeds, |seed| {
        let mut chance = Chance::new(seed);
        let mut world = figure_9(strategy);
        let all = [start_t1(&mut world), start_t2(&mut world)];
        while !(world.net.is_empty() && world.disk.is_empty()) {
            let writable = world.writable();
            if world.net.is_empty() || !writable.is_empty() && chance.percent(40) {
                world.write(*chance.pick(&writable), enact_entities::Written::Durable);
            } else {
                world.deliver(chance.below(world.net.len()));
            }
        }
        assert!(all.iter().all(|&tx| world.committed(tx)));
        results.insert(balances(&world));
    });
    results
}

#[test]
fn figure_9_under_different_strategies_is_serial_in_every_mix_of_serializable_ones() {
    let strong = Strategy::ALL.into_iter().filter(|strategy| strategy.is_serializable());
    for (at_a, at_b) in strong.clone().flat_map(|a| strong.clone().map(move |b| (a, b))) {
        let world = meet_at(at_a, at_b);
        assert!(SERIAL.contains(&balances(&world)), "{at_a} at A, {at_b} at B: {:?}", balances(&world));
    }
}

#[test]
fn figure_9_in_any_message_order_is_serial_unless_psac_is_asked_for() {
    for strategy in [Strategy::Locking, Strategy::LockingEarlyRelease, Strategy::Serializable] {
        let results = results(strategy, 300);
        assert!(results.iter().all(|result| SERIAL.contains(result)), "{strategy:?}: {results:?}");
    }
    assert!(results(Strategy::Psac, 300).contains(&(165, 60)));
}

// Case A7.
#[test]
fn opposed_transfers_agree_in_every_mode_and_order() {
    for strategy in Strategy::ALL {
        for_seeds("a7_", 50, |seed| {
            let mut chance = Chance::new(seed);
            let mut world = World::new(strategy, Durability::TwoPhase);
            world.account("Account/A", 100);
            world.account("Account/B", 100);
            let (a, b) = (key("Account/A"), key("Account/B"));
            let there = world.event("Transfer/T1", Hand::book(&a, &b, 50));
            let back = world.event("Transfer/T2", Hand::book(&b, &a, 30));
            while !(world.net.is_empty() && world.disk.is_empty()) {
                if world.net.is_empty() {
                    world.write(0, enact_entities::Written::Durable);
                } else {
                    world.deliver(chance.below(world.net.len()));
                }
            }
            assert!(world.committed(there) && world.committed(back));
            assert_eq!(balances(&world), (80, 120), "{strategy:?}");
        });
    }
}
