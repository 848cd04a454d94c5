//! Calls of calls, calls that only a vote reveals, conditions, and what contradicts itself.

use enact_entities::{Call, Condition, Durability, Reason, Reply, Strategy, TxId};

use crate::support;
use crate::support::bank::{Bank, Event, Hand, Step};
use crate::support::key;
use crate::support::world::{Packet, World};

const MODES: [Durability; 2] = [Durability::TwoPhase, Durability::Shared];

fn world(mode: Durability, accounts: &[(&str, i64)]) -> World {
    let mut world = World::new(Strategy::Serializable, mode);
    for (account, euros) in accounts {
        world.account(account, *euros);
    }
    world
}

fn step(entity: &str, event: Event) -> Step {
    Step::Do(key(entity), event)
}

fn reasons(world: &World, tx: TxId) -> Vec<Reason> {
    match world.reply(tx) {
        Some(Reply::Answered { result: Err(refusal), .. }) => refusal.reasons.clone(),
        other => panic!("it is refused: {other:?}"),
    }
}

#[test]
fn e_a_transfer_has_three_participants_and_is_refused_with_the_words_of_the_guard() {
    for mode in MODES {
        let mut world = world(mode, &[("Account/A", 100), ("Account/B", 100)]);
        let book = |euros| Hand::book(&key("Account/A"), &key("Account/B"), euros);
        world.done("Transfer/T1", book(30));
        let again = world.event("Transfer/T1", book(30));
        let too_much = world.event("Transfer/T2", book(71));
        world.run();
        assert!(matches!(reasons(&world, again)[..], [Reason::LifeCycle { .. }]));
        let [Reason::Guard { text, values }] = &reasons(&world, too_much)[..] else { panic!("one guard") };
        assert_eq!(text, "balance - amount >= 0");
        assert_eq!(values[0], ("balance".into(), "7000".into()));
        assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (70, 130));
        assert_eq!(
            world.participants[&key("Transfer/T1")].admission().base(),
            &support::bank::State::Transfer { booked: true }
        );
        world.check_settled();
    }
}

#[test]
fn e_a_refusal_names_the_events_that_lead_to_it_whether_known_before_or_revealed_by_votes() {
    let callers = |world: &World, tx| match world.reply(tx) {
        Some(Reply::Answered { result: Err(refusal), .. }) => {
            refusal.callers.iter().map(ToString::to_string).collect::<Vec<_>>()
        }
        other => panic!("it is refused: {other:?}"),
    };
    for mode in MODES {
        let mut world = world(mode, &[("Account/A", 100), ("Account/B", 100)]);
        let both = |last| vec![step("Account/A", Hand::withdraw(60)), last];
        let again = step("Account/A", Hand::withdraw(60));
        let condition = Step::Not(key("Account/B"), Hand::deposit(1));
        for last in [again, condition] {
            world.done("Relay/2", Event::Learn(both(last.clone())));
            let known = Event::Run(vec![step("Relay/2", Event::Run(both(last.clone())))]);
            let known = world.event("Relay/1", known);
            let revealed = world.event("Relay/1", Event::Run(vec![step("Relay/2", Event::Fire)]));
            let alone = world.event("Account/A", Hand::withdraw(101));
            world.run();
            assert_eq!(callers(&world, known), ["Relay/1.Run", "Relay/2.Run"]);
            assert_eq!(callers(&world, revealed), ["Relay/1.Run", "Relay/2.Fire"]);
            assert_eq!(callers(&world, alone), [""; 0]);
        }
    }
}

#[test]
fn e_a_chain_is_flattened_into_one_transaction_whether_known_before_or_revealed_by_votes() {
    for mode in MODES {
        for known in [true, false] {
            let mut world = world(mode, &[("Account/A", 100)]);
            let last = vec![step("Account/A", Hand::deposit(7))];
            let run = if known {
                let middle = vec![step("Relay/2", Event::Run(last))];
                world.event("Relay/1", Event::Run(middle))
            } else {
                world.done("Relay/2", Event::Learn(last));
                world.done("Relay/1", Event::Learn(vec![step("Relay/2", Event::Fire)]));
                world.event("Relay/1", Event::Fire)
            };
            world.run();
            assert!(world.committed(run), "known {known}");
            assert_eq!(world.balance("Account/A"), 107);
            world.check_settled();
        }
    }
}

#[test]
fn e_a_nested_guard_that_fails_changes_nothing_anywhere() {
    for mode in MODES {
        let mut world = world(mode, &[("Account/A", 100), ("Account/B", 100)]);
        let script = vec![step("Account/A", Hand::deposit(7)), step("Relay/2", Event::Fire)];
        world.done("Relay/2", Event::Learn(vec![step("Account/B", Hand::withdraw(101))]));
        let tx = world.event("Relay/1", Event::Run(script));
        world.run();
        assert!(world.refused(tx));
        assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (100, 100));
        world.check_settled();
    }
}

#[test]
fn e_two_equal_calls_are_two_calls_on_whatever_paths() {
    for mode in MODES {
        let mut world = world(mode, &[("Account/A", 100)]);
        let bottom = || Event::Run(vec![step("Account/A", Hand::deposit(7))]);
        world.done("Relay/1", Event::Run(vec![step("Relay/2", bottom()), step("Relay/3", bottom())]));
        assert_eq!(world.balance("Account/A"), 114);
        let twice = vec![step("Account/A", Hand::withdraw(57)), step("Account/A", Hand::withdraw(57))];
        world.done("Relay/1", Event::Run(twice.clone()));
        assert_eq!(world.balance("Account/A"), 0);
        let again = world.event("Relay/1", Event::Run(twice));
        world.run();
        assert!(matches!(reasons(&world, again)[..], [Reason::Guard { .. }]));
        world.check_settled();
    }
}

#[test]
fn e_calls_on_one_entity_compose_in_order_and_each_guard_sees_what_came_before() {
    for mode in MODES {
        for known in [true, false] {
            let mut world = world(mode, &[("Account/A", 0), ("Account/B", 100)]);
            let mut run = |script: Vec<Step>| {
                if known {
                    return world_run(&mut world, "Relay/1", Event::Run(script));
                }
                world.done("Relay/1", Event::Learn(script));
                world_run(&mut world, "Relay/1", Event::Fire)
            };
            let (put, take) = (|| step("Account/A", Hand::deposit(5)), || step("Account/A", Hand::withdraw(5)));
            assert_eq!(run(vec![put(), take()]), Ok(()));
            assert!(matches!(run(vec![take(), put()]), Err(Reason::Guard { .. })));
            assert_eq!(run(vec![put(), take(), step("Account/A", Event::Close)]), Ok(()));
            assert!(matches!(run(vec![put(), take()]), Err(Reason::LifeCycle { .. })), "it is closed");
            world.check_settled();
        }
    }
}

fn world_run(world: &mut World, entity: &str, event: Event) -> Result<(), Reason> {
    let tx = world.event(entity, event);
    world.run();
    if world.committed(tx) { Ok(()) } else { Err(reasons(world, tx)[0].clone()) }
}

#[test]
fn e_a_transfer_to_oneself_takes_and_gives_what_must_be_there() {
    for mode in MODES {
        let mut world = world(mode, &[("Account/A", 100)]);
        let book = |euros| Hand::book(&key("Account/A"), &key("Account/A"), euros);
        world.done("Transfer/T1", book(100));
        assert_eq!(world.balance("Account/A"), 100);
        let too_much = world.event("Transfer/T2", book(101));
        world.run();
        assert!(matches!(reasons(&world, too_much)[..], [Reason::Guard { .. }]));
    }
}

#[test]
fn e_a_refusal_waits_for_calls_that_may_come_before_what_is_refused() {
    for mode in MODES {
        let mut world = world(mode, &[("Account/A", 0)]);
        // The account is asked first, for the withdrawal alone, and only the vote of the relay tells of the deposit.
        world.done("Relay/2", Event::Learn(vec![step("Account/A", Hand::deposit(10))]));
        let withdraw = |euros| Event::Run(vec![step("Relay/2", Event::Fire), step("Account/A", Hand::withdraw(euros))]);
        world.done("Relay/1", withdraw(10));
        assert_eq!(world.balance("Account/A"), 0);
        let too_much = world.event("Relay/1", withdraw(11));
        world.run();
        assert!(matches!(reasons(&world, too_much)[..], [Reason::Guard { .. }]));
        // Calls that come after it cannot help.
        let late = vec![step("Account/A", Hand::withdraw(10)), step("Relay/2", Event::Fire)];
        let late = world.event("Relay/1", Event::Run(late));
        world.run();
        assert!(world.refused(late));
        world.check_settled();
    }
}

#[test]
fn e_an_entity_that_is_called_back_is_refused_for_good_when_all_have_said_what_they_call() {
    for mode in MODES {
        let mut world = world(mode, &[("Account/A", 0)]);
        // Each relay calls the next and the account; all is known from votes only.
        let script = |next: &str, event| vec![step(next, Event::Fire), step("Account/A", event)];
        world.done("Relay/3", Event::Learn(vec![step("Account/A", Hand::deposit(10))]));
        world.done("Relay/2", Event::Learn(script("Relay/3", Hand::withdraw(4))));
        world.done("Relay/1", Event::Learn(script("Relay/2", Hand::withdraw(6))));
        world.done("Relay/1", Event::Fire);
        assert_eq!(world.balance("Account/A"), 0);
        world.done("Relay/2", Event::Learn(script("Relay/3", Hand::withdraw(5))));
        let refused = world.event("Relay/1", Event::Fire);
        world.run();
        assert!(matches!(reasons(&world, refused)[..], [Reason::Guard { .. }]));
        world.check_settled();
    }
}

#[test]
fn e_several_events_of_one_transaction_survive_a_crash_of_their_entity() {
    let mut world = world(Durability::TwoPhase, &[("Account/A", 0)]);
    let script = vec![step("Account/A", Hand::deposit(9)), step("Account/A", Hand::withdraw(4))];
    let tx = world.event("Relay/1", Event::Run(script));
    world.run_except(Packet::is_decision);
    world.crash(&key("Account/A"));
    world.restart(&key("Account/A"));
    world.settle(10_000);
    assert!(world.committed(tx));
    assert_eq!(world.balance("Account/A"), 5);
    world.crash(&key("Account/A"));
    world.restart(&key("Account/A"));
    assert_eq!(world.balance("Account/A"), 5);
    world.check_settled();
}

#[test]
fn e_a_cycle_of_events_is_nested_too_deeply() {
    for mode in MODES {
        let mut world = world(mode, &[]);
        world.done("Relay/2", Event::Learn(vec![step("Relay/1", Event::Fire)]));
        world.done("Relay/1", Event::Learn(vec![step("Relay/2", Event::Fire)]));
        let endless = world.event("Relay/1", Event::Fire);
        world.run();
        assert_eq!(reasons(&world, endless), [Reason::TooDeep { limit: 64 }]);
        world.check_settled();
    }
}

#[test]
fn e_ten_thousand_events_commit_and_one_more_is_refused() {
    let mut world = world(Durability::Shared, &[("Account/A", 0)]);
    let deposits = |n| Event::Run(vec![step("Account/A", Hand::deposit(1)); n]);
    // The relay's own event is one of them.
    world.done("Relay/1", deposits(9_999));
    assert_eq!(world.balance("Account/A"), 9_999);
    let tx = world.event("Relay/1", deposits(10_000));
    assert_eq!(reasons(&world, tx), [Reason::TooManyEvents { limit: 10_000 }]);
}

#[test]
fn e_an_unknown_class_is_refused_before_anybody_is_asked() {
    let mut world = world(Durability::TwoPhase, &[]);
    let tx = world.event("Nonsense/1", Event::Fire);
    assert_eq!(reasons(&world, tx), [Reason::NoSuchEntity]);
    assert!(world.net.is_empty());
}

#[test]
fn e_nesting_is_possible_to_the_limit_and_refused_beyond_it() {
    let nested = |depth: usize| {
        (0..depth - 1).fold(Event::Run(vec![]), |inner, n| Event::Run(vec![step(&format!("Relay/{n}"), inner)]))
    };
    let mut world = world(Durability::Shared, &[]);
    world.done("Relay/top", nested(64));
    let tx = world.event("Relay/top", nested(65));
    assert_eq!(reasons(&world, tx), [Reason::TooDeep { limit: 64 }]);
}

#[test]
fn e_a_thousand_participants_commit_and_one_more_than_the_limit_is_refused() {
    for mode in MODES {
        let mut world = world(mode, &[]);
        let opens = |n: usize| (0..n).map(|n| step(&format!("Account/{n:04}"), Hand::open(50))).collect();
        // The relay itself is one of them.
        world.done("Relay/1", Event::Run(opens(999)));
        assert!((0..999).all(|n| world.balance(&format!("Account/{n:04}")) == 50));
        world.check_settled();
        let tx = world.event("Relay/1", Event::Run(opens(1_000)));
        assert_eq!(reasons(&world, tx), [Reason::TooManyParticipants { limit: 1_000 }]);
        let tx = world.event("Relay/1", Event::Run(opens(999)));
        world.run();
        assert!(matches!(reasons(&world, tx)[..], [Reason::LifeCycle { .. }]), "the limit is not the reason");
    }
}

#[test]
fn e_initialized_is_not_falsified_while_it_is_relied_on() {
    for strategy in [Strategy::Psac, Strategy::Serializable] {
        let mut world = World::new(strategy, Durability::TwoPhase);
        world.account("Account/A", 0);
        world.account("Account/B", 0);
        let opened = Condition::in_state(["opened"], "it must be open");
        let relies = world.start(vec![Call::condition(key("Account/A"), opened)]);
        world.run_except(Packet::is_decision);
        let close = [("Account/A", Hand::close()), ("Account/B", Hand::deposit(1))];
        let close = world.start(close.map(|(account, event)| Call::event(key(account), event)).to_vec());
        world.run_except(Packet::is_decision);
        assert_eq!(world.reply(close), None, "{strategy:?}: it would falsify what is relied on");
        let deposit = world.event("Account/A", Hand::deposit(1));
        world.run_except(Packet::is_decision);
        assert!(world.committed(deposit), "it does not");
        world.run();
        assert!(world.committed(relies));
        assert!(world.refused(close), "the deposit came in between");
        world.check_settled();
    }
}

#[test]
fn e_a_condition_alone_changes_nothing_and_outlives_a_crash_of_its_entity() {
    let mut world = world(Durability::TwoPhase, &[("Account/A", 0)]);
    let relies =
        world.start(vec![Call::condition(key("Account/A"), Condition::in_state(["opened"], "it must be open"))]);
    world.run_except(Packet::is_decision);
    world.crash(&key("Account/A"));
    world.restart(&key("Account/A"));
    let close = world.event("Account/A", Hand::close());
    world.run_except(Packet::is_decision);
    assert_eq!(world.reply(close), None);
    world.settle(10_000);
    assert!(world.committed(relies) && world.committed(close));
    world.check_settled();
}

#[test]
fn e_initialized_needs_an_instance_and_a_closed_one_is_one() {
    let mut world = world(Durability::Shared, &[("Account/A", 0)]);
    let initialized = |world: &mut World, account| {
        let tx = world.start(vec![Call::condition(key(account), Condition::initialized("it must exist"))]);
        world.run();
        tx
    };
    let missing = initialized(&mut world, "Account/Z");
    assert_eq!(reasons(&world, missing), [Reason::Condition { text: "it must exist".into(), state: "init".into() }]);
    world.done("Account/A", Hand::close());
    let closed = initialized(&mut world, "Account/A");
    assert!(world.committed(closed));
}

#[test]
fn e_not_an_event_holds_if_the_event_is_impossible_in_every_outcome() {
    let not_withdraw =
        || vec![Call::condition(key("Account/A"), Condition::impossible(Hand::withdraw(5), "it must be poor"))];
    // Balance 3, nothing open: it is impossible. Balance 100: it is possible.
    for (balance, holds) in [(3, true), (100, false)] {
        let mut world = world(Durability::Shared, &[("Account/A", balance)]);
        let tx = world.start(not_withdraw());
        world.run();
        assert_eq!(world.committed(tx), holds);
        if !holds {
            assert_eq!(
                reasons(&world, tx),
                [Reason::Condition { text: "it must be poor".into(), state: "opened".into() }]
            );
        }
    }
    // Balance 3, deposit 10 open: it depends on the deposit.
    let mut world = world(Durability::Shared, &[("Account/A", 3)]);
    world.event("Account/A", Hand::deposit(10));
    world.run_except(Packet::is_decision);
    let tx = world.start(not_withdraw());
    world.run_except(Packet::is_decision);
    assert_eq!(world.reply(tx), None);
    world.run();
    assert!(world.refused(tx));
}

#[test]
fn e_not_an_event_is_not_falsified_while_it_is_relied_on() {
    let mut world = world(Durability::Shared, &[("Account/A", 3)]);
    let relies = world
        .start(vec![Call::condition(key("Account/A"), Condition::impossible(Hand::withdraw(5), "it must be poor"))]);
    world.run_except(Packet::is_decision);
    let small = world.event("Account/A", Hand::deposit(1));
    let large = world.event("Account/A", Hand::deposit(10));
    world.run_except(Packet::is_decision);
    assert!(world.committed(small));
    assert_eq!(world.reply(large), None, "with it a withdrawal of 5 would be possible");
    world.run();
    assert!(world.committed(relies) && world.committed(large));
}

#[test]
fn e_a_missing_target_satisfies_not_and_refuses_an_event() {
    let mut world = world(Durability::Shared, &[]);
    let not = world
        .start(vec![Call::condition(key("Account/Z"), Condition::impossible(Hand::withdraw(5), "it must be poor"))]);
    let withdraw = world.event("Account/Z", Hand::withdraw(5));
    world.run();
    assert!(world.committed(not));
    assert!(matches!(reasons(&world, withdraw)[..], [Reason::LifeCycle { .. }]));
}

#[test]
fn e_an_instance_is_created_inside_a_transaction_by_its_initial_event_only() {
    for mode in MODES {
        let mut world = world(mode, &[("Account/A", 100)]);
        let create = |event| Event::Run(vec![step("Account/A", Hand::withdraw(50)), step("Account/N", event)]);
        let deposit = world.event("Relay/1", create(Hand::deposit(50)));
        world.run();
        assert!(world.refused(deposit));
        world.done("Relay/1", create(Hand::open(50)));
        assert_eq!((world.balance("Account/A"), world.balance("Account/N")), (50, 50));
    }
}

#[test]
fn e_a_condition_is_read_when_the_event_that_has_it_is_taken_up() {
    let mut world = world(Durability::Shared, &[("Account/A", 100)]);
    let script = |more| vec![step("Account/A", Hand::withdraw(100)), more];
    let blocked = Step::InState(key("Account/A"), "blocked".into());
    let tx = world.event("Relay/1", Event::Run(script(blocked)));
    world.run();
    assert!(matches!(reasons(&world, tx)[..], [Reason::Condition { .. }]));
    // It holds before the withdrawal, which the same event calls: what it calls changes nothing of what it reads.
    let rich = Step::Not(key("Account/A"), Hand::withdraw(101));
    world.done("Relay/1", Event::Run(script(rich)));
    // An event that is called later sees what came before: only 0 are left.
    world.done("Account/A", Hand::deposit(100));
    let poor = Event::Run(vec![Step::Not(key("Account/A"), Hand::withdraw(1))]);
    world.done("Relay/1", Event::Run(script(step("Relay/2", poor.clone()))));
    world.done("Account/A", Hand::deposit(100));
    let tx = world.event("Relay/1", Event::Run(vec![step("Relay/2", poor), step("Account/A", Hand::withdraw(100))]));
    world.run();
    assert!(matches!(reasons(&world, tx)[..], [Reason::Condition { .. }]));
}

#[test]
fn e_an_entity_revealed_too_late_is_asked_out_of_order_and_if_it_must_wait_everything_restarts() {
    for mode in MODES {
        let mut world = world(mode, &[("Account/A", 100), ("Account/B", 100)]);
        // The relay comes after the accounts in the order of keys, and only its vote says which one it calls.
        world.done("Relay/1", Event::Learn(vec![step("Account/A", Hand::withdraw(60))]));
        let quick = world.event("Relay/1", Event::Fire);
        world.run();
        assert!(world.committed(quick), "out of order, but nothing to wait for");
        assert!(!world.marks.contains("asked out of order and restarted"));
        world.done("Account/A", Hand::deposit(60));
        let slow = world.event("Account/A", Hand::withdraw(60));
        let held = move |packet: &Packet| packet.is_decision() && packet.tx() == slow;
        world.run_except(held);
        let fire = world.event("Relay/1", Event::Fire);
        world.run_except(held);
        assert!(world.marks.contains("asked out of order and restarted"));
        assert_eq!(world.reply(fire), None, "it waits in order now");
        assert!(world.participants[&key("Relay/1")].admission().in_progress().next().is_none(), "and holds nothing");
        world.run();
        assert!(world.refused(fire), "only 40 are left");
        world.check_settled();
    }
}

#[test]
fn e_a_guess_from_an_earlier_attempt_is_given_up_when_the_state_says_otherwise() {
    let mut world = world(Durability::TwoPhase, &[("Account/A", 100), ("Account/B", 100)]);
    world.done("Relay/1", Event::Learn(vec![step("Account/A", Hand::withdraw(60))]));
    let slow = world.event("Account/A", Hand::withdraw(60));
    let held = move |packet: &Packet| packet.is_decision() && packet.tx() == slow;
    world.run_except(held);
    let fire = world.event("Relay/1", Event::Fire);
    world.run_except(held);
    // It waits at A, because the relay said so. Meanwhile the relay learns to call B.
    let learn = world.event("Relay/1", Event::Learn(vec![step("Account/B", Hand::withdraw(1))]));
    world.run_except(held);
    assert!(world.committed(learn));
    world.done("Account/A", Hand::deposit(100));
    world.run();
    assert!(world.committed(fire));
    assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (140, 99));
    world.check_settled();
}
