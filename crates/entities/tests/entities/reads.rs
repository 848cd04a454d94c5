//! What a read sees while transactions are open, and the order of effects it relies on.

use enact_entities::{Durability, FieldRange, Range, ReadMode, Strategy, TxId, Values, View, Why};

use crate::support;
use crate::support::bank::{Bank, Hand};
use crate::support::key;
use crate::support::world::{Packet, World};

fn account(strategy: Strategy, euros: i64) -> World {
    let mut world = World::new(strategy, Durability::TwoPhase);
    world.account("Account/A", euros);
    world
}

fn decision_of(tx: TxId) -> impl Fn(&Packet) -> bool {
    move |packet| packet.is_decision() && packet.tx() == tx
}

fn decision_of_any<const N: usize>(open: [TxId; N]) -> impl Fn(&Packet) -> bool {
    move |packet| packet.is_decision() && open.contains(&packet.tx())
}

fn range(world: &mut World) -> Range {
    let id = world.read("Account/A", ReadMode::Range, None);
    match world.reads.get(&id) {
        Some(View::Range(range)) => range.clone(),
        other => panic!("a range is told at once: {other:?}"),
    }
}

fn balances(low: &str, high: &str) -> Range {
    let values = Values::Between { low: low.into(), high: high.into() };
    let field = FieldRange { name: "balance".into(), values };
    Range { exists: true, states: vec!["opened".into()], fields: vec![field] }
}

#[test]
fn c_a_later_commit_succeeds_at_once_and_reads_after_it_wait_for_the_earlier_one() {
    let mut world = account(Strategy::Psac, 100);
    let slow = world.event("Account/A", Hand::deposit(1));
    world.run_except(decision_of(slow));
    let interest = world.event("Account/A", Hand::interest(3));
    world.run_except(decision_of(slow));
    assert!(world.committed(interest), "success at once");
    let read = world.read("Account/A", ReadMode::Applied, Some(interest));
    assert_eq!(world.seen(read), None, "its effect has to wait for the deposit before it");
    world.run();
    assert!(world.committed(slow));
    assert_eq!(world.seen(read), Some(10_403));
}

#[test]
fn c_ten_deposits_succeed_at_once_behind_a_slow_one() {
    for strategy in [Strategy::Psac, Strategy::Serializable] {
        let mut world = account(strategy, 100);
        let slow = world.event("Account/A", Hand::deposit(1));
        world.run_except(decision_of(slow));
        for _ in 0..10 {
            let tx = world.event("Account/A", Hand::deposit(2));
            world.run_except(decision_of(slow));
            assert!(world.committed(tx));
        }
        assert_eq!(world.balance("Account/A"), 100);
        world.run();
        assert_eq!(world.balance("Account/A"), 121);
        world.check_settled();
    }
}

#[test]
fn c_a_dependent_withdrawal_waits_and_gets_the_verdict_of_the_decision_before_it() {
    for commits in [true, false] {
        let mut world = account(Strategy::Serializable, 100);
        // The deposit is part of a transaction whose other half is slow, and passes or fails.
        let other = if commits { Hand::open(50) } else { Hand::open(1) };
        let slow = world.start(vec![
            enact_entities::Call::event(key("Account/A"), Hand::deposit(1)),
            enact_entities::Call::event(key("Account/B"), other),
        ]);
        let held = |packet: &Packet| packet.is_prepare() && packet.participant() == &key("Account/B");
        world.run_except(held);
        let withdraw = world.event("Account/A", Hand::withdraw(101));
        world.run_except(held);
        world.pass(200);
        world.run_except(held);
        assert_eq!(world.reply(withdraw), None, "no answer as long as it depends");
        world.run();
        assert_eq!((world.committed(slow), world.committed(withdraw)), (commits, commits));
        assert_eq!(world.balance("Account/A"), if commits { 0 } else { 100 });
        assert!(world.refused(withdraw) != commits);
        world.check_settled();
    }
}

#[test]
fn c_what_fails_in_every_outcome_fails_at_once() {
    let mut world = account(Strategy::Serializable, 100);
    let slow = world.event("Account/A", Hand::deposit(1));
    world.run_except(decision_of(slow));
    let bad = world.event("Account/A", Hand::deposit(-5));
    world.run_except(decision_of(slow));
    assert!(world.refused(bad));
}

#[test]
fn c_applied_reads_lag_range_reads_span_and_certain_reads_wait() {
    let mut world = account(Strategy::Serializable, 100);
    let first = world.event("Account/A", Hand::withdraw(30));
    world.run_except(decision_of(first));
    assert_eq!(range(&mut world), balances("EUR 70.00", "EUR 100.00"));
    let second = world.event("Account/A", Hand::withdraw(50));
    world.run_except(decision_of_any([first, second]));
    let applied = world.read("Account/A", ReadMode::Applied, None);
    let certain = world.read("Account/A", ReadMode::Certain, None);
    assert_eq!((world.seen(applied), world.seen(certain)), (Some(10_000), None));
    assert_eq!(range(&mut world), balances("EUR 20.00", "EUR 100.00"));
    world.run_except(decision_of(first));
    let applied = world.read("Account/A", ReadMode::Applied, None);
    assert_eq!((world.seen(applied), world.seen(certain)), (Some(10_000), None));
    assert_eq!(range(&mut world), balances("EUR 20.00", "EUR 50.00"));
    world.run();
    assert_eq!(world.seen(certain), Some(2_000));
}

#[test]
fn a_range_is_the_same_from_sums_and_from_outcomes() {
    let mut world = account(Strategy::Psac, 100);
    let first = world.event("Account/A", Hand::withdraw(30));
    world.run_except(decision_of(first));
    // Blocking is not linear: from here on the outcomes are looked at, and they have two states.
    let block = world.event("Account/A", Hand::block());
    world.run_except(decision_of_any([first, block]));
    let expected = Range { states: vec!["opened".into(), "blocked".into()], ..balances("EUR 70.00", "EUR 100.00") };
    assert_eq!(range(&mut world), expected);
}

#[test]
fn a_certain_read_is_answered_at_once_when_nothing_open_changes_the_value() {
    let mut world = account(Strategy::Serializable, 100);
    let condition = enact_entities::Condition::initialized("the account must exist");
    let tx = world.start(vec![enact_entities::Call::condition(key("Account/A"), condition)]);
    world.run_except(decision_of(tx));
    let read = world.read("Account/A", ReadMode::Certain, None);
    assert_eq!(world.seen(read), Some(10_000));
}

#[test]
fn a_certain_read_ends_although_newcomers_never_stop() {
    let mut world = account(Strategy::Serializable, 100);
    let mut open = world.event("Account/A", Hand::deposit(1));
    world.run_except(decision_of(open));
    let read = world.read("Account/A", ReadMode::Certain, None);
    assert_eq!(world.seen(read), None);
    for _ in 0..3 {
        let next = world.event("Account/A", Hand::deposit(1));
        world.run_except(decision_of_any([open, next]));
        world.run_except(decision_of(next));
        open = next;
    }
    assert!(world.participants[&key("Account/A")].admission().in_progress().next().is_some(), "never quiet");
    assert_eq!(world.seen(read), Some(10_100), "as of all that was there when it came");
}

#[test]
fn a_read_after_a_delayed_transaction_waits_until_it_has_its_verdict() {
    let mut world = account(Strategy::Serializable, 100);
    let slow = world.event("Account/A", Hand::deposit(10));
    world.run_except(decision_of(slow));
    let delayed = world.event("Account/A", Hand::withdraw(105));
    world.run_except(decision_of(slow));
    let read = world.read("Account/A", ReadMode::Applied, Some(delayed));
    assert_eq!(world.seen(read), None);
    world.run();
    assert_eq!(world.seen(read), Some(500));
}

#[test]
fn a_read_after_a_transaction_that_is_not_here_does_not_wait() {
    let mut world = account(Strategy::Serializable, 100);
    let read = world.read("Account/A", ReadMode::Certain, Some(support::tx(12345)));
    assert_eq!(world.seen(read), Some(10_000));
}

#[test]
fn a_read_of_what_was_never_created_says_so() {
    let mut world = account(Strategy::Serializable, 100);
    let never = world.read("Account/Z", ReadMode::Certain, None);
    assert!(matches!(world.reads[&never], View::One { exists: false, .. }));
    let created = world.read("Account/A", ReadMode::Applied, None);
    assert!(matches!(world.reads[&created], View::One { exists: true, .. }));
}

#[test]
fn a_read_that_need_not_wait_is_answered_however_late_it_comes() {
    let mut world = account(Strategy::Serializable, 100);
    for mode in [ReadMode::Applied, ReadMode::Certain] {
        let read = world.late_read("Account/A", mode);
        assert_eq!(world.seen(read), Some(10_000));
    }
}

#[test]
fn a_read_that_waits_until_its_deadline_names_what_it_waited_for() {
    let mut world = account(Strategy::Serializable, 100);
    let slow = world.event("Account/A", Hand::deposit(1));
    world.run_except(decision_of(slow));
    let read = world.read("Account/A", ReadMode::Certain, None);
    world.pass(10_0000);
    let waits = &world.reads_expired[&read];
    let [wait] = &waits[..] else { panic!("{waits:?}") };
    assert!(matches!(&wait.why, Why::Value { .. }) && wait.tx == slow);
    let said = format!("balance is between EUR 100.00 and EUR 101.00: it depends on Deposit of {slow}");
    assert_eq!(wait.to_string(), said);
}
