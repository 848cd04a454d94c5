//! A transaction with one part stands in line behind what it does not commute with, and its client hears when it is applied.

use enact_entities::{Call, Condition, Durability, ReadMode, Strategy, TxId};

use crate::support::bank::{Bank, Hand};
use crate::support::key;
use crate::support::world::{Packet, World};

const DURABILITIES: [Durability; 2] = [Durability::TwoPhase, Durability::Shared];

/// A and B with 100 euros, and a transaction that is open at A for 50 euros more: B is not asked yet.
fn open_deposit(durability: Durability) -> (World, TxId) {
    let mut world = World::new(Strategy::Serializable, durability);
    world.account("Account/A", 100);
    world.account("Account/B", 100);
    let deposits = ["Account/A", "Account/B"].map(|account| Call::event(key(account), Hand::deposit(50)));
    let open = world.start(deposits.to_vec());
    world.run_except(|packet| asks_b(packet, open));
    (world, open)
}

fn asks_b(packet: &Packet, tx: TxId) -> bool {
    packet.is_prepare() && packet.tx() == tx && *packet.participant() == key("Account/B")
}

fn in_line(world: &World, tx: TxId) -> bool {
    let entry = world.participants[&key("Account/A")].admission().find(tx);
    entry.is_some_and(|entry| entry.answer.in_line)
}

#[test]
fn interest_alone_is_decided_behind_an_open_deposit_and_answered_when_it_is_applied() {
    for durability in DURABILITIES {
        let (mut world, open) = open_deposit(durability);
        let interest = world.event("Account/A", Hand::interest(10));
        world.run_except(|packet| asks_b(packet, open));
        assert!(in_line(&world, interest) && world.decided().contains(&interest), "{durability:?}");
        assert_eq!((world.reply(interest), world.balance("Account/A")), (None, 100), "{durability:?}");
        world.run();
        assert!(world.committed(interest) && world.committed(open));
        assert_eq!(world.balance("Account/A"), 165, "{durability:?}: ten percent of 150");
        world.check_settled();
    }
}

#[test]
fn what_commutes_with_all_that_is_open_does_not_stand_in_line() {
    let (mut world, open) = open_deposit(Durability::Shared);
    let deposit = world.event("Account/A", Hand::deposit(1));
    world.run_except(|packet| asks_b(packet, open));
    assert!(!in_line(&world, deposit) && world.committed(deposit));
    world.run();
    world.check_settled();
}

/// The first must precede the interest at A and would come behind the third at B.
#[test]
fn what_has_several_parts_waits_until_one_in_line_is_applied() {
    for durability in DURABILITIES {
        let (mut world, open) = open_deposit(durability);
        let interest = world.event("Account/A", Hand::interest(10));
        world.run_except(|packet| asks_b(packet, open));
        assert!(world.decided().contains(&interest));
        let third = world.start(vec![
            Call::event(key("Account/A"), Hand::deposit(10)),
            Call::event(key("Account/B"), Hand::interest(10)),
        ]);
        world.run_except(|packet| asks_b(packet, open));
        assert!(world.participants[&key("Account/A")].admission().delayed_attempt(third).is_some(), "{durability:?}");
        world.run();
        assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (175, 165), "{durability:?}");
        world.check_settled();
    }
}

#[test]
fn one_in_line_is_not_applied_before_what_only_asked_is_decided() {
    for durability in DURABILITIES {
        let mut world = World::new(Strategy::Serializable, durability);
        world.account("Account/A", 0);
        let opened = Condition::in_state(["opened"], "it must be open");
        let relies =
            world.start(vec![Call::condition(key("Account/A"), opened), Call::event(key("Account/B"), Hand::open(50))]);
        world.run_except(|packet| asks_b(packet, relies));
        let close = world.event("Account/A", Hand::close());
        world.run_except(|packet| asks_b(packet, relies));
        assert!(in_line(&world, close) && world.decided().contains(&close), "{durability:?}");
        assert_eq!(world.reply(close), None, "{durability:?}");
        world.run();
        assert!(world.committed(relies) && world.committed(close));
        world.check_settled();
    }
}

#[test]
fn one_in_line_is_taken_up_again_in_its_place_after_a_crash() {
    let (mut world, open) = open_deposit(Durability::TwoPhase);
    let interest = world.event("Account/A", Hand::interest(10));
    world.run_except(|packet| asks_b(packet, open));
    world.take_snapshot(&key("Account/A"));
    for _ in 0..2 {
        world.crash(&key("Account/A"));
        world.restart(&key("Account/A"));
        world.run_except(|packet| asks_b(packet, open));
        world.check_always();
        assert!(in_line(&world, interest) && world.reply(interest).is_none());
        world.snapshots.clear();
    }
    world.settle(10_000);
    assert!(world.committed(interest) && world.committed(open));
    assert_eq!(world.balance("Account/A"), 165);
    world.check_settled();
}

#[test]
fn one_in_line_stays_possible_if_what_stands_before_it_aborts() {
    let (mut world, open) = open_deposit(Durability::Shared);
    let interest = world.event("Account/A", Hand::interest(10));
    world.run_except(|packet| asks_b(packet, open));
    // Its deadline passes while B is silent.
    world.pass(100_000);
    world.run_except(|packet| asks_b(packet, open));
    assert!(world.committed(interest) && !world.committed(open));
    assert_eq!(world.balance("Account/A"), 110);
    world.run();
    world.check_settled();
}

#[test]
fn a_read_behind_the_answer_sees_what_stood_in_line() {
    let (mut world, open) = open_deposit(Durability::Shared);
    let interest = world.event("Account/A", Hand::interest(10));
    world.run_except(|packet| asks_b(packet, open));
    let read = world.read("Account/A", ReadMode::Applied, Some(interest));
    assert_eq!(world.seen(read), None);
    world.run();
    assert_eq!(world.seen(read), Some(16_500));
    world.check_settled();
}
