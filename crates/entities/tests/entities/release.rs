//! Early lock release: the next transaction is admitted when the decision on the one before has its place in the journal. No effect
//! outlives one that it builds on, and nobody hears of what may still vanish.

use enact_entities::{
    Admission, Attempt, Begin, Branch, Call, Condition, Decide, Decision, Durability, EarlyRelease, Idempotency, Input,
    Limits, Millis, Output, Participant, ParticipantOptions, Precommit, Prepare, ReadMode, Request, Said, Slot,
    Strategy, Timestamp, TxId, Verdict, Vote, Work, Written,
};

use crate::support::bank::{Bank, Event, Hand};
use crate::support::world::{Packet, World};
use crate::support::{key, tx};

const EARLY: Strategy = Strategy::LockingEarlyRelease;

/// A and B with 100 euros.
fn bank(durability: Durability) -> World {
    let mut world = World::new(EARLY, durability);
    world.account("Account/A", 100);
    world.account("Account/B", 100);
    world
}

/// Delivers all messages; nothing is written.
fn deliver(world: &mut World) {
    let mut left = 1_000;
    while !world.net.is_empty() {
        assert!(left > 0, "the messages go round in circles: {:?}", world.net);
        left -= 1;
        world.deliver(0);
    }
}

/// Starts an event at A that is admitted, and whose record waits to be written.
fn submit(world: &mut World, event: Event) -> TxId {
    let tx = world.event("Account/A", event);
    deliver(world);
    tx
}

fn is_delayed(world: &World, account: &str, tx: TxId) -> bool {
    world.participants[&key(account)].admission().delayed_attempt(tx).is_some()
}

#[test]
fn the_next_one_is_admitted_when_the_decision_has_its_place_in_the_journal() {
    let mut world = bank(Durability::Shared);
    let all: Vec<TxId> = (0..5).map(|_| submit(&mut world, Hand::withdraw(20))).collect();
    assert_eq!(world.disk.len(), 5, "all are on their way to the disk together");
    assert!(all.iter().all(|&tx| world.reply(tx).is_none()), "none is durable");
    for (written, &tx) in all.iter().enumerate() {
        world.write(0, Written::Durable);
        deliver(&mut world);
        assert!(world.committed(tx));
        assert!(all[written + 1..].iter().all(|&tx| world.reply(tx).is_none()));
    }
    assert_eq!(world.balance("Account/A"), 0);
    world.check_settled();
}

#[test]
fn until_its_decision_has_a_place_a_transaction_holds_the_entity() {
    let mut world = bank(Durability::Shared);
    let deposits = ["Account/A", "Account/B"].map(|account| Call::event(key(account), Hand::deposit(50)));
    let first = world.start(deposits.to_vec());
    let asks_b = |packet: &Packet| packet.is_prepare() && *packet.participant() == key("Account/B");
    world.run_except(asks_b);
    let second = world.event("Account/A", Hand::deposit(1));
    world.run_except(asks_b);
    assert!(is_delayed(&world, "Account/A", second), "it has voted, and may still abort");
    world.run();
    assert!(world.committed(first) && world.committed(second));
    world.check_settled();
}

#[test]
fn with_journals_of_their_own_nothing_is_released_early() {
    let mut world = bank(Durability::TwoPhase);
    let first = world.event("Account/A", Hand::deposit(1));
    world.run_except(Packet::is_decision);
    let second = world.event("Account/A", Hand::deposit(1));
    world.run_except(Packet::is_decision);
    assert!(world.committed(first) && is_delayed(&world, "Account/A", second));
    world.run();
    world.check_settled();
}

#[test]
fn a_refused_record_takes_all_that_depend_on_it_with_it() {
    for refused in 0..4 {
        let mut world = bank(Durability::Shared);
        let all: Vec<TxId> = (0..4).map(|_| submit(&mut world, Hand::deposit(10))).collect();
        for written in 0..4 {
            let result = if written == refused { Written::Refused } else { Written::Durable };
            world.write(0, result);
        }
        world.run();
        let done: Vec<bool> = all.iter().map(|&tx| world.committed(tx)).collect();
        assert_eq!(done, (0..4).map(|number| number < refused).collect::<Vec<_>>(), "the journal refused {refused}");
        assert_eq!(world.balance("Account/A"), 100 + 10 * refused as i128);
        assert_eq!(world.protocol_errors, 0);
        world.done("Account/A", Hand::deposit(1));
        world.check_settled();
    }
}

#[test]
fn a_dependent_that_is_submitted_after_the_refusal_is_refused_too() {
    let mut world = bank(Durability::Shared);
    let first = submit(&mut world, Hand::deposit(10));
    let second = world.event("Account/A", Hand::deposit(20));
    let votes = |packet: &Packet| matches!(packet, Packet::Up(_));
    while let Some(i) = world.net.iter().position(|packet| !votes(packet)) {
        world.deliver(i);
    }
    world.write(0, Written::Refused);
    world.run();
    assert!(!world.committed(first) && !world.committed(second));
    assert_eq!(world.balance("Account/A"), 100);
    world.check_settled();
}

#[test]
fn what_depends_on_an_aborted_one_holds_the_entity_until_it_hears_of_its_abort() {
    let mut world = bank(Durability::Shared);
    submit(&mut world, Hand::deposit(10));
    submit(&mut world, Hand::deposit(20));
    world.write(0, Written::Refused);
    deliver(&mut world);
    let third = world.event("Account/A", Hand::withdraw(100));
    deliver(&mut world);
    assert!(is_delayed(&world, "Account/A", third));
    world.run();
    assert!(world.committed(third), "it is judged on what is there without the two");
    assert_eq!(world.balance("Account/A"), 0);
    world.check_settled();
}

#[test]
fn a_crash_keeps_nothing_without_what_it_depends_on() {
    for (written, balance) in [100, 150, 0, 50].into_iter().enumerate() {
        for snapshot in [false, true] {
            let mut world = bank(Durability::Shared);
            // The withdrawal needs the deposit before it.
            for event in [Hand::deposit(50), Hand::withdraw(150), Hand::deposit(50)] {
                submit(&mut world, event);
            }
            assert_eq!(world.disk.len(), 3);
            for _ in 0..written {
                world.write(0, Written::Durable);
            }
            if snapshot {
                world.take_snapshot(&key("Account/A"));
            }
            world.crash_all();
            world.restart_all();
            world.run();
            assert_eq!(world.balance("Account/A"), balance, "{written} were written, snapshot: {snapshot}");
            world.check_replies();
            world.check_settled();
        }
    }
}

#[test]
fn a_refusal_is_told_when_what_it_follows_from_is_durable() {
    for result in [Written::Durable, Written::Refused] {
        let mut world = bank(Durability::Shared);
        submit(&mut world, Hand::withdraw(80));
        let second = submit(&mut world, Hand::withdraw(50));
        assert_eq!(world.reply(second), None, "only what may still vanish speaks against it");
        world.write(0, result);
        world.run();
        assert_eq!(
            (world.refused(second), world.committed(second)),
            (result == Written::Durable, result != Written::Durable)
        );
        world.check_settled();
    }
}

#[test]
fn what_is_refused_in_all_outcomes_is_told_at_once() {
    let mut world = bank(Durability::Shared);
    submit(&mut world, Hand::withdraw(80));
    let second = submit(&mut world, Hand::withdraw(101));
    assert!(world.refused(second));
    world.run();
    world.check_settled();
}

/// A vote for a deposit depends on what is not durable, and then another account refuses.
#[test]
fn one_that_is_refused_elsewhere_tells_nothing_of_what_it_has_relied_on() {
    for key_of_request in [None, Some("k")] {
        for result in [Written::Durable, Written::Refused] {
            let mut world = bank(Durability::Shared);
            submit(&mut world, Hand::withdraw(80));
            let calls = vec![
                Call::event(key("Account/A"), Hand::deposit(1)),
                Call::event(key("Account/B"), Hand::withdraw(1_000)),
            ];
            let idempotency =
                key_of_request.map(|key| Idempotency { key: key.to_owned(), principal: None, fingerprint: [0; 32] });
            let second = world.start_with(calls, idempotency);
            deliver(&mut world);
            assert_eq!((world.reply(second), world.disk.len()), (None, 1));
            assert!(is_delayed(&world, "Account/A", second), "it begins again, and waits for what is not durable");
            world.write(0, result);
            world.run();
            assert!(world.refused(second));
            world.check_settled();
        }
    }
}

#[test]
fn a_condition_is_admitted_when_it_holds_in_all_outcomes_and_waits_otherwise() {
    let mut world = bank(Durability::Shared);
    submit(&mut world, Hand::withdraw(80));
    let poor = |euros| Call::condition(key("Account/A"), Condition::impossible(Hand::withdraw(euros), "poor"));
    let give = |condition| vec![condition, Call::event(key("Account/B"), Hand::deposit(1))];
    let certain = world.start(give(poor(101)));
    deliver(&mut world);
    assert_eq!(world.disk.len(), 2, "100 or 20 euros: poor it is");
    let unsure = world.start(give(poor(50)));
    deliver(&mut world);
    assert!(is_delayed(&world, "Account/A", unsure));
    world.write(0, Written::Refused);
    world.run();
    assert!(world.committed(certain) && world.refused(unsure), "100 euros are there");
    world.check_settled();
}

/// The condition holds the account like an event, and lets go of it when its own decision has a place.
#[test]
fn what_would_falsify_a_condition_waits_until_the_one_that_relies_on_it_has_its_place() {
    let mut world = bank(Durability::Shared);
    let poor = Call::condition(key("Account/A"), Condition::impossible(Hand::withdraw(101), "poor"));
    let relies = world.start(vec![poor, Call::event(key("Account/B"), Hand::deposit(1))]);
    let asks_b = |packet: &Packet| packet.is_prepare() && *packet.participant() == key("Account/B");
    world.run_except(asks_b);
    let falsifies = world.event("Account/A", Hand::deposit(1));
    world.run_except(asks_b);
    assert!(is_delayed(&world, "Account/A", falsifies));
    deliver(&mut world);
    assert_eq!(world.disk.len(), 2);
    // It changes nothing at A, so nothing there depends on it.
    world.write(0, Written::Refused);
    world.run();
    assert!(!world.committed(relies) && world.committed(falsifies));
    world.check_settled();
}

#[test]
fn a_read_sees_nothing_that_may_still_vanish() {
    for mode in [ReadMode::Certain, ReadMode::Applied] {
        let mut world = bank(Durability::Shared);
        submit(&mut world, Hand::deposit(10));
        submit(&mut world, Hand::deposit(10));
        let read = world.read("Account/A", mode, None);
        if mode == ReadMode::Applied {
            assert_eq!(world.seen(read), Some(10_000));
        } else {
            assert!(!world.reads.contains_key(&read));
            world.run();
            assert_eq!(world.seen(read), Some(12_000));
        }
        world.run();
        world.check_settled();
    }
}

#[test]
fn a_decision_that_is_told_before_that_of_its_predecessor_is_applied_behind_it() {
    let mut world = bank(Durability::Shared);
    let first = submit(&mut world, Hand::deposit(50));
    let second = submit(&mut world, Hand::withdraw(150));
    world.write(0, Written::Durable);
    world.write(0, Written::Durable);
    assert!(world.committed(first) && world.committed(second), "both are durable");
    let told_first = |packet: &Packet| packet.is_decision() && packet.tx() == first;
    let (held, others): (Vec<_>, Vec<_>) = std::mem::take(&mut world.net).into_iter().partition(told_first);
    world.net = others;
    deliver(&mut world);
    let read = world.read("Account/A", ReadMode::Certain, None);
    assert_eq!(world.seen(read), Some(0), "the second says that the first is durable");
    assert_eq!(world.balance("Account/A"), 100);
    world.net = held;
    world.run();
    assert_eq!(world.balance("Account/A"), 0);
    world.check_settled();
}

fn request(n: u128, event: Event) -> Request<Event> {
    let branch = Branch { tx: tx(n), attempt: Attempt::FIRST, work: Work::event(event), at: Timestamp(0) };
    Request { branch, deadline: Millis(1_000), ordered: true, sole: false, certain: false, calls_known: false }
}

/// The yes may have been lost, so that the one that is asked for again has to say the same.
#[test]
fn a_repeated_vote_names_the_same_dependency_also_when_that_has_aborted() {
    let model = Hand::load();
    let options = ParticipantOptions::new(EARLY);
    let mut account = Participant::new(model, key("Account/A"), options).expect("the class exists");
    let coordinator = || key("Coordinator/C");
    let prepare = |n, event| {
        Input::Prepare(Prepare {
            coordinator: coordinator(),
            durability: Durability::Shared,
            request: request(n, event),
        })
    };
    let decide = |n, slot, decision| {
        Input::Decide(Decide {
            tx: tx(n),
            attempt: Attempt::FIRST,
            coordinator: coordinator(),
            slot: Some(slot),
            decision,
            durability: Durability::Shared,
        })
    };
    let mut slots = Vec::new();
    let mut depends_on = |outputs: Vec<Output<_, _>>| match outputs.into_iter().next() {
        Some(Output::Send(up)) => match up.said {
            Said::Vote(Vote::Yes { slot, early: Some(EarlyRelease { depends_on }), .. }) => {
                slots.push(slot);
                depends_on
            }
            other => panic!("{other:?} is no early yes"),
        },
        other => panic!("{other:?} is no vote"),
    };
    let now = Millis(0);
    assert_eq!(depends_on(account.step(prepare(1, Event::Open(10_000)), now)), None);
    account.step(Input::Precommit(Precommit { tx: tx(1), slot: Slot::FIRST }), now);
    let second = || prepare(2, Hand::deposit(1));
    assert_eq!(depends_on(account.step(second(), now)), Some(tx(1)));
    account.step(decide(1, Slot::FIRST, Decision::Abort), now);
    assert_eq!(depends_on(account.step(second(), now)), Some(tx(1)));
    let slot = slots[1];
    let outputs = account.step(decide(2, slot, Decision::Commit), now);
    assert!(matches!(outputs[..], [Output::ProtocolError { .. }]), "{outputs:?}");
    account.step(decide(2, slot, Decision::Abort), now);
    assert!(account.is_idle());
}

#[test]
fn a_late_or_doubled_precommit_releases_nothing_else() {
    let model = Hand::load();
    let base = Hand::account(&model, "opened", 100);
    let mut account = Admission::new(model, key("Account/A"), base, Slot::FIRST, EARLY, Limits::default());
    let Verdict::Admitted(slot, _) = account.request(request(1, Hand::deposit(1))) else { panic!("nothing is open") };
    assert_eq!(account.request(request(2, Hand::deposit(1))), Verdict::Delayed);
    assert!(account.precommit(tx(1), slot.next()).settled.is_empty(), "this is not its slot");
    assert!(account.precommit(tx(9), slot).settled.is_empty(), "nobody knows it");
    assert_eq!(account.precommit(tx(1), slot).settled.len(), 1);
    assert_eq!(account.request(request(3, Hand::deposit(1))), Verdict::Delayed);
    assert!(account.precommit(tx(1), slot).settled.is_empty(), "the second holds the account");
    account.decide(tx(1), Decision::Commit);
    assert!(account.precommit(tx(1), slot).settled.is_empty());
    assert_eq!(account.delayed_count(), 1);
}

/// What only asks, or is refused by what may vanish, waits for the end of the chain, which newcomers would prolong for ever.
#[test]
fn one_that_waits_for_the_chain_is_overtaken_a_bounded_number_of_times() {
    let model = Hand::load();
    let base = Hand::account(&model, "opened", 100);
    let mut account = Admission::new(model, key("Account/A"), base, Slot::FIRST, EARLY, Limits::default());
    let mut chain = std::collections::VecDeque::new();
    let admit = |account: &mut Admission<Hand>, n, event| match account.request(request(n, event)) {
        Verdict::Admitted(slot, _) => {
            account.precommit(tx(n), slot);
            true
        }
        _ => false,
    };
    assert!(admit(&mut account, 1, Hand::withdraw(100)));
    chain.push_back(1);
    assert!(!admit(&mut account, 2, Hand::withdraw(1)));
    let mut settled = None;
    for n in 3..100 {
        if admit(&mut account, n, Event::DepositUpTo(1, 1_000)) {
            chain.push_back(n);
        }
        let Some(oldest) = chain.pop_front() else { break };
        let after = account.decide(tx(oldest), Decision::Commit).settled;
        for (settled_tx, verdict) in after {
            if let Verdict::Admitted(slot, _) = verdict {
                account.precommit(settled_tx, slot);
                chain.push_back(settled_tx.as_u128());
            }
            if settled_tx == tx(2) {
                settled = Some(n);
            }
        }
        if settled.is_some() {
            break;
        }
    }
    assert!(settled.is_some_and(|n| n <= 3 + 20), "settled after newcomer {settled:?}");
}

#[test]
fn a_transaction_that_gives_up_lets_go_of_the_entity() {
    let mut world = bank(Durability::Shared);
    submit(&mut world, Hand::withdraw(80));
    let begun = world.new_tx();
    let begin = Begin {
        tx: begun,
        calls: vec![Call::event(key("Account/A"), Hand::withdraw(50))],
        at: Timestamp(0),
        deadline: world.now + Millis(10),
        idempotency: None,
    };
    world.begin(&key("Coordinator/D"), begin);
    deliver(&mut world);
    world.pass(20);
    deliver(&mut world);
    assert!(!world.committed(begun) && !world.refused(begun) && world.reply(begun).is_some());
    world.run();
    world.check_settled();
}
