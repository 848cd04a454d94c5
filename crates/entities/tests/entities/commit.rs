//! Two-phase commit: one decision, whatever is lost, doubled, late or down.

use enact_entities::{
    Answer, Attempt, Begin, Branch, Call, Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, Decide,
    Decision, Durability, Idempotency, Input, Millis, Output, Participant, ParticipantOptions, Prepare, Prepared,
    Record, Reply, Request, Said, Slot, Strategy, Timestamp, ToCoordinator, ToParticipant, TxId, Vote, Why, Work,
    Written,
};

use crate::support::bank::{Bank, Event, Hand};
use crate::support::world::{Packet, World};
use crate::support::{key, tx};

const MODES: [Durability; 2] = [Durability::TwoPhase, Durability::Shared];

/// Accounts A and B with 100 euros each.
fn two_accounts(durability: Durability) -> World {
    let mut world = World::new(Strategy::Serializable, durability);
    world.account("Account/A", 100);
    world.account("Account/B", 100);
    world
}

fn book(euros: i64) -> Event {
    Hand::book(&key("Account/A"), &key("Account/B"), euros)
}

fn idempotency(name: &str, fingerprint: u8) -> Option<Idempotency> {
    Some(Idempotency { key: name.into(), principal: None, fingerprint: [fingerprint; 32] })
}

#[test]
fn d_all_yes_commits_and_everybody_stops() {
    for mode in MODES {
        let mut world = two_accounts(mode);
        let tx = world.event("Transfer/T1", book(30));
        world.run();
        assert!(world.committed(tx));
        assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (70, 130));
        world.check_settled();
    }
}

#[test]
fn d_one_no_aborts_everywhere_and_tells_the_client_once() {
    // Account A votes before account B; either may refuse, or both.
    for (from_a, to_b) in [
        (Hand::withdraw(1000), Hand::deposit(1)),
        (Hand::withdraw(1), Hand::deposit(0)),
        (Hand::withdraw(1000), Hand::deposit(0)),
    ] {
        for mode in MODES {
            let mut world = two_accounts(mode);
            let calls =
                vec![Call::event(key("Account/A"), from_a.clone()), Call::event(key("Account/B"), to_b.clone())];
            let tx = world.start(calls);
            world.run();
            assert!(world.refused(tx), "{:?}", world.reply(tx));
            assert_eq!(world.replies[&tx].len(), 1);
            assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (100, 100));
            world.check_settled();
        }
    }
}

#[test]
fn d_a_no_aborts_before_the_others_are_even_asked() {
    let mut world = two_accounts(Durability::TwoPhase);
    let calls =
        vec![Call::event(key("Account/A"), Hand::withdraw(1000)), Call::event(key("Account/B"), Hand::deposit(1000))];
    let tx = world.start(calls);
    world.run_except(|packet| packet.participant() == &key("Account/B"));
    assert!(world.refused(tx));
    assert!(world.net.is_empty(), "B is never asked");
}

#[test]
fn d_ten_repetitions_get_the_same_answer_and_have_no_second_effect() {
    for mode in MODES {
        for (event, ok) in [(Hand::deposit(5), true), (Hand::withdraw(1000), false)] {
            let mut world = two_accounts(mode);
            let calls = vec![Call::event(key("Account/A"), event)];
            let first = world.start_with(calls.clone(), idempotency("k", 1));
            world.run();
            let Some(Reply::Answered { result, replayed: false, .. }) = world.reply(first).cloned() else {
                panic!("{:?}", world.reply(first));
            };
            assert_eq!(result.is_ok(), ok);
            for round in 0..10 {
                if round == 5 {
                    world.crash_all();
                    world.restart_all();
                    world.run();
                }
                let again = world.start_with(calls.clone(), idempotency("k", 1));
                world.run();
                let expected = Reply::Answered { tx: first, result: result.clone(), replayed: true };
                assert_eq!(world.reply(again), Some(&expected), "round {round}");
            }
            let other = world.start_with(calls.clone(), idempotency("k", 2));
            assert_eq!(world.reply(other), Some(&Reply::KeyReused));
            assert_eq!(world.balance("Account/A"), if ok { 105 } else { 100 });
        }
    }
}

#[test]
fn d_the_same_transaction_id_runs_once() {
    let mut world = two_accounts(Durability::TwoPhase);
    let tx = world.new_tx();
    let begin = Begin {
        tx,
        calls: vec![Call::event(key("Account/A"), Hand::deposit(5))],
        at: Timestamp(0),
        deadline: Millis(1000),
        idempotency: None,
    };
    for _ in 0..10 {
        world.begin(&key("Coordinator/C"), begin.clone());
        world.run();
        assert!(world.committed(tx));
    }
    assert_eq!(world.balance("Account/A"), 105);
    assert_eq!(world.replies[&tx].len(), 10);
}

#[test]
fn d_a_key_in_use_is_told_so_and_free_again_after_a_timeout() {
    let mut world = two_accounts(Durability::Shared);
    let calls = vec![Call::event(key("Account/A"), Hand::deposit(5))];
    let first = world.start_with(calls.clone(), idempotency("k", 1));
    let second = world.start_with(calls.clone(), idempotency("k", 1));
    assert_eq!(world.reply(second), Some(&Reply::KeyInUse));
    world.net.clear();
    world.down.insert(key("Account/A"));
    world.settle(2_000);
    assert!(matches!(world.reply(first), Some(Reply::TimedOut { .. })), "{:?}", world.reply(first));
    world.restart(&key("Account/A"));
    let third = world.start_with(calls, idempotency("k", 1));
    world.run();
    assert!(world.committed(third));
    assert_eq!(world.balance("Account/A"), 105);
}

#[test]
fn d_a_coordinator_that_dies_before_its_decision_is_durable_has_aborted() {
    let mut world = two_accounts(Durability::TwoPhase);
    let tx = world.event("Transfer/T1", book(30));
    // Everybody has voted; the decision stands before the disk.
    while !world.disk.iter().any(|queued| World::is_coordinator(&queued.owner)) {
        if world.net.is_empty() { world.write(0, Written::Durable) } else { world.deliver(0) }
    }
    world.crash(&key("Coordinator/C"));
    world.run();
    assert_eq!(world.balance("Account/A"), 100);
    assert!(!world.participants[&key("Account/A")].is_idle(), "A keeps its promise");
    world.restart(&key("Coordinator/C"));
    world.settle(10_000);
    assert_eq!(world.reply(tx), None, "the client was never told");
    assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (100, 100));
    world.check_settled();
}

#[test]
fn d_a_coordinator_that_dies_after_its_decision_is_durable_has_committed() {
    for mode in MODES {
        let mut world = two_accounts(mode);
        world.event("Transfer/T1", book(30));
        world.run_except(Packet::is_decision);
        match mode {
            Durability::TwoPhase => {
                world.crash(&key("Coordinator/C"));
                world.net.clear();
                world.restart(&key("Coordinator/C"));
            }
            Durability::Shared => {
                world.crash_all();
                world.restart_all();
            }
        }
        world.settle(10_000);
        assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (70, 130));
        world.check_settled();
    }
}

#[test]
fn d_a_silent_participant_aborts_at_the_deadline_and_the_client_is_told_who() {
    let mut world = two_accounts(Durability::TwoPhase);
    world.down.insert(key("Account/B"));
    let tx = world.event("Transfer/T1", book(30));
    world.settle(2_000);
    let expected = Reply::TimedOut { entity: key("Account/B"), waits_for: vec![] };
    assert_eq!(world.reply(tx), Some(&expected));
    world.restart(&key("Account/B"));
    world.settle(2_000);
    assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (100, 100));
    world.check_settled();
}

#[test]
fn d_a_delay_until_the_deadline_names_what_it_waited_for() {
    let mut world = two_accounts(Durability::TwoPhase);
    let open = world.event("Account/A", Hand::withdraw(60));
    world.run_except(Packet::is_decision);
    let late = world.event("Account/A", Hand::withdraw(60));
    world.run_except(Packet::is_decision);
    assert_eq!(world.reply(late), None);
    while world.reply(late).is_none() {
        world.pass(100);
        world.run_except(Packet::is_decision);
    }
    let Some(Reply::TimedOut { entity, waits_for }) = world.reply(late).cloned() else {
        panic!("{:?}", world.reply(late));
    };
    assert_eq!(entity, key("Account/A"));
    assert_eq!((waits_for[0].tx, waits_for[0].event.as_str()), (open, "Withdraw"));
    assert!(matches!(waits_for[0].why, Why::Verdict { .. }));
    world.settle(10_000);
    assert_eq!(world.balance("Account/A"), 40);
    world.check_settled();
}

#[test]
fn d_lost_votes_decisions_and_acks_are_sent_again_and_at_once_if_the_loss_is_known() {
    for (mode, is_known) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        // Lose the first message of each kind, one kind at a time.
        let kinds: [fn(&Packet) -> bool; 4] = [
            Packet::is_prepare,
            |packet| matches!(packet, Packet::Up(ToCoordinator { said: Said::Vote(_), .. })),
            Packet::is_decision,
            |packet| matches!(packet, Packet::Up(ToCoordinator { said: Said::Ack(_), .. })),
        ];
        for (kind, lost) in kinds.iter().enumerate() {
            let mut world = two_accounts(mode);
            let tx = world.event("Transfer/T1", book(30));
            world.run_except(lost);
            assert!(world.net.iter().any(lost), "message kind {kind} exists");
            world.net.clear();
            if is_known {
                world.coordinator_step(&key("Coordinator/C"), CoordinatorInput::Again);
                world.run();
            } else {
                world.settle(900);
            }
            assert!(world.committed(tx), "message kind {kind}: {:?}", world.reply(tx));
            assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (70, 130));
            world.check_settled();
        }
    }
}

#[test]
fn a_participant_that_knows_that_its_coordinator_has_begun_anew_asks_that_one_at_once() {
    let mut world = two_accounts(Durability::TwoPhase);
    world.event("Transfer/T1", book(30));
    world.run_except(|packet| matches!(packet, Packet::Up(_)));
    world.crash(&key("Coordinator/C"));
    world.restart(&key("Coordinator/C"));
    world.net.clear();
    let again = |coordinator| Input::Again { coordinator: key(coordinator) };
    world.participant_step(&key("Account/A"), again("Coordinator/D"));
    assert!(world.net.is_empty(), "nothing was promised to that one");
    world.participant_step(&key("Account/A"), again("Coordinator/C"));
    world.run();
    assert_eq!(world.balance("Account/A"), 100, "it is told that the transaction is aborted");
    world.check_settled();
}

#[test]
fn d_no_participants_commit_at_once() {
    for mode in MODES {
        let mut world = World::new(Strategy::Serializable, mode);
        let tx = world.start(vec![]);
        world.run();
        assert!(world.committed(tx));
        world.check_settled();
    }
}

#[test]
fn d_a_yes_after_the_abort_is_told_to_abort() {
    let mut world = two_accounts(Durability::TwoPhase);
    let tx = world.event("Account/A", Hand::withdraw(30));
    world.run_except(|packet| matches!(packet, Packet::Up(_)));
    let yes = world.net.clone();
    world.net.clear();
    world.settle(5_000);
    assert!(matches!(world.reply(tx), Some(Reply::Answered { .. } | Reply::TimedOut { .. })));
    let committed = world.committed(tx);
    world.net.extend(yes);
    world.settle(5_000);
    assert_eq!(world.balance("Account/A"), if committed { 70 } else { 100 });
    world.check_settled();
}

#[test]
fn d_a_vote_for_an_unknown_transaction_is_told_to_abort() {
    let mut world = two_accounts(Durability::TwoPhase);
    let answer = Answer { calls: vec![], answers: vec![], state: None, in_line: false };
    for said in [
        Said::Vote(Vote::Yes { slot: Slot(7), answer, durability: Durability::TwoPhase, early: None }),
        Said::Ask(Slot(7)),
    ] {
        let (to, from) = (key("Coordinator/C"), key("Account/A"));
        let tx = tx(999);
        world.net.push(Packet::Up(ToCoordinator { to, from, tx, attempt: Attempt::FIRST, said }));
        world.deliver(0);
        // Another coordinator may have taken the journal over, and may know it.
        assert!(world.net.is_empty());
        world.write(0, Written::Durable);
        let Some(Packet::Down(_, ToParticipant::Decide(decide))) = world.net.pop() else { panic!("it is told") };
        assert_eq!((decide.slot, decide.decision), (Some(Slot(7)), Decision::Abort));
    }
}

#[test]
fn d_a_doubled_request_reserves_nothing_twice_not_even_after_the_commit() {
    for mode in MODES {
        let mut world = two_accounts(mode);
        world.event("Account/A", Hand::withdraw(60));
        let prepare = world.net[0].clone();
        world.net.push(prepare.clone());
        world.run_except(Packet::is_decision);
        let open = world.participants[&key("Account/A")].admission().in_progress().count();
        assert_eq!(open, 1, "the doubled request found the first");
        world.run();
        assert_eq!(world.balance("Account/A"), 40);
        // It arrives once more when nobody remembers the transaction at the account.
        for _ in 0..3 {
            world.net.push(prepare.clone());
            world.settle(10_000);
        }
        assert_eq!(world.balance("Account/A"), 40);
        world.done("Account/A", Hand::withdraw(40));
        world.check_settled();
    }
}

#[test]
fn d_a_doubled_request_that_would_now_be_admitted_again_is_given_up() {
    for mode in MODES {
        let mut world = two_accounts(mode);
        world.event("Account/A", Hand::withdraw(10));
        let prepare = world.net[0].clone();
        world.run_except(Packet::is_decision);
        // The decision is on the way twice; the request arrives again between the two.
        let decision = world.net[0].clone();
        world.deliver(0);
        world.net.push(prepare);
        world.run();
        world.net.push(decision);
        world.settle(10_000);
        assert_eq!(world.balance("Account/A"), 90);
        world.check_settled();
    }
}

#[test]
fn d_a_commit_of_what_was_never_promised_is_a_protocol_error_without_effect() {
    let mut world = two_accounts(Durability::TwoPhase);
    let decide = |slot| {
        Input::Decide(Decide {
            tx: tx(999),
            attempt: Attempt::FIRST,
            coordinator: key("Coordinator/C"),
            slot,
            decision: Decision::Commit,
            durability: Durability::TwoPhase,
        })
    };
    for slot in [None, Some(Slot(1000))] {
        world.participant_step(&key("Account/A"), decide(slot));
    }
    assert_eq!(world.protocol_errors, 2);
    assert_eq!(world.balance("Account/A"), 100);
    world.check_always();
}

#[test]
fn d_an_abort_after_the_commit_is_a_protocol_error_without_effect() {
    let mut world = two_accounts(Durability::Shared);
    let head = world.event("Account/A", Hand::withdraw(10));
    let to_head = move |packet: &Packet| packet.is_decision() && packet.tx() == head;
    world.run_except(to_head);
    let tx = world.event("Account/A", Hand::withdraw(20));
    world.run_except(to_head);
    assert!(world.committed(tx), "committed, and deferred behind the head");
    let decide = Decide {
        tx,
        attempt: Attempt::FIRST,
        coordinator: key("Coordinator/C"),
        slot: None,
        decision: Decision::Abort,
        durability: Durability::Shared,
    };
    world.participant_step(&key("Account/A"), Input::Decide(decide));
    assert_eq!(world.protocol_errors, 1);
    world.run();
    assert_eq!(world.balance("Account/A"), 70);
}

#[test]
fn d_a_question_that_finds_its_commit_forgotten_has_no_effect_and_is_no_error() {
    let mut world = two_accounts(Durability::TwoPhase);
    let head = world.event("Account/A", Hand::deposit(10));
    let to_head = move |packet: &Packet| packet.is_decision() && packet.tx() == head;
    world.run_except(to_head);
    let tx = world.event("Account/A", Hand::deposit(20));
    world.run_except(Packet::is_decision);
    world.crash(&key("Account/A"));
    world.restart(&key("Account/A"));
    // Recovery asks for both; the questions are on the way for so long that the commit has ended when they arrive.
    let is_question = |packet: &Packet| matches!(packet, Packet::Up(ToCoordinator { said: Said::Ask(_), .. }));
    world.run_except(|packet| to_head(packet) || is_question(packet));
    assert!(world.committed(tx), "committed, acknowledged, and deferred behind the head");
    world.run_except(to_head);
    assert_eq!(world.protocol_errors, 0);
    world.run();
    assert_eq!(world.balance("Account/A"), 130);
    world.check_settled();
}

#[test]
fn d_in_doubt_decision_never_becomes_an_abort() {
    for (performed, mode) in [
        (true, Durability::TwoPhase),
        (false, Durability::TwoPhase),
        (true, Durability::Shared),
        (false, Durability::Shared),
    ] {
        let mut world = two_accounts(mode);
        let tx = world.event("Transfer/T1", book(30));
        while !world.disk.iter().any(|queued| World::is_coordinator(&queued.owner)) {
            if world.net.is_empty() { world.write(0, Written::Durable) } else { world.deliver(0) }
        }
        let i = world.disk.iter().position(|queued| World::is_coordinator(&queued.owner)).expect("it decides");
        if performed {
            for (entity, record) in world.disk[i].records.clone() {
                world.logs.entry(entity).or_default().push(record);
            }
        }
        world.write(i, Written::InDoubt);
        assert_eq!(world.reply(tx), Some(&Reply::InDoubt));
        assert!(world.halted.contains(&key("Coordinator/C")));
        assert!(world.net.is_empty(), "nobody is told anything");
        world.crash_all();
        world.restart_all();
        world.settle(10_000);
        let expected = if performed { (70, 130) } else { (100, 100) };
        assert_eq!((world.balance("Account/A"), world.balance("Account/B")), expected, "{mode:?}");
        world.check_settled();
    }
}

#[test]
fn d_in_doubt_promise_stops_the_participant_until_its_journal_tells() {
    let mut world = two_accounts(Durability::TwoPhase);
    let tx = world.event("Account/A", Hand::withdraw(30));
    world.deliver(0);
    world.write(0, Written::InDoubt);
    assert!(world.halted.contains(&key("Account/A")) && world.net.is_empty());
    world.settle(3_000);
    assert!(matches!(world.reply(tx), Some(Reply::TimedOut { .. })));
    world.crash(&key("Account/A"));
    world.restart(&key("Account/A"));
    world.settle(10_000);
    assert_eq!(world.balance("Account/A"), 100);
    world.check_settled();
}

#[test]
fn d_a_refused_promise_or_decision_aborts_and_says_that_nothing_happened() {
    for (mode, owner) in [
        (Durability::TwoPhase, "Account/A"),
        (Durability::TwoPhase, "Coordinator/C"),
        (Durability::Shared, "Coordinator/C"),
    ] {
        let mut world = two_accounts(mode);
        let tx = world.event("Transfer/T1", book(30));
        loop {
            if let Some(i) = world.disk.iter().position(|queued| queued.owner == key(owner)) {
                world.write(i, Written::Refused);
                break;
            }
            if world.net.is_empty() { world.write(0, Written::Durable) } else { world.deliver(0) }
        }
        world.settle(10_000);
        assert_eq!(world.reply(tx), Some(&Reply::NotRecorded), "{mode:?} {owner}");
        assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (100, 100));
        world.check_settled();
    }
}

#[test]
fn d_a_commit_whose_record_was_refused_is_not_acknowledged_until_it_is_written() {
    let mut world = two_accounts(Durability::TwoPhase);
    world.event("Account/A", Hand::withdraw(30));
    world.run_except(Packet::is_decision);
    world.deliver(0);
    assert_eq!(world.balance("Account/A"), 70);
    world.write(0, Written::Refused);
    assert!(world.net.is_empty(), "no ack");
    world.settle(10_000);
    world.check_settled();
    world.crash_all();
    world.restart_all();
    assert_eq!(world.balance("Account/A"), 70);
}

#[test]
fn d_a_refused_answer_is_not_given() {
    let mut world = two_accounts(Durability::TwoPhase);
    let calls = vec![Call::event(key("Account/A"), Hand::withdraw(1000))];
    let tx = world.start_with(calls, idempotency("k", 1));
    while world.disk.is_empty() {
        world.deliver(0);
    }
    world.write(0, Written::Refused);
    assert_eq!(world.reply(tx), Some(&Reply::NotRecorded));
    world.settle(10_000);
    world.check_settled();
}

#[test]
fn d_after_the_decision_nothing_times_out() {
    for mode in MODES {
        let mut world = two_accounts(mode);
        let tx = world.event("Transfer/T1", book(30));
        world.run_except(Packet::is_decision);
        world.net.clear();
        world.down.insert(key("Account/B"));
        world.settle(100_000);
        assert!(world.committed(tx));
        world.restart(&key("Account/B"));
        world.settle(100_000);
        assert_eq!((world.balance("Account/A"), world.balance("Account/B")), (70, 130));
        world.check_settled();
    }
}

#[test]
fn d_a_participant_never_gives_up_its_promise_alone() {
    let mut world = two_accounts(Durability::TwoPhase);
    world.event("Account/A", Hand::withdraw(30));
    world.run_except(Packet::is_decision);
    world.crash(&key("Coordinator/C"));
    world.net.clear();
    world.settle(1_000_000);
    let open: Vec<_> = world.participants[&key("Account/A")].admission().in_progress().collect();
    assert!(matches!(&open[..], [entry] if !entry.committed));
    world.restart(&key("Coordinator/C"));
    world.settle(100_000);
    assert_eq!(world.balance("Account/A"), 70);
    world.check_settled();
}

/// An account with 100 euros, as its journal knows it.
fn recovered(log: Vec<Record<Event>>) -> Participant<Hand> {
    let open = Record::Committed {
        tx: tx(1),
        slot: Slot(1),
        events: vec![Hand::open(100)],
        at: Timestamp(0),
        version: 1,
        overlap: None,
    };
    let options = ParticipantOptions::new(Strategy::Serializable);
    let records = [vec![open], log].concat();
    Participant::recover(Hand::plain(), key("Account/A"), options, None, records, Millis(0)).expect("it is sound").0
}

fn told(tx: TxId, slot: Slot, decision: Decision) -> Input<Event> {
    let (coordinator, durability) = (key("Coordinator/C"), Durability::TwoPhase);
    Input::Decide(Decide { tx, attempt: Attempt::FIRST, coordinator, slot: Some(slot), decision, durability })
}

#[test]
fn while_a_commit_is_not_recorded_nothing_more_is_promised_to_its_transaction() {
    let mut account = recovered(vec![]);
    let branch = Branch { tx: tx(7), attempt: Attempt::FIRST, work: Work::event(Hand::deposit(5)), at: Timestamp(0) };
    let (deadline, coordinator) = (Millis(1_000), key("Coordinator/C"));
    let request = Request { branch, deadline, ordered: true, sole: false, certain: false, calls_known: false };
    let prepare = || {
        let (coordinator, request) = (coordinator.clone(), request.clone());
        Input::Prepare(Prepare { coordinator, durability: Durability::TwoPhase, request })
    };
    let written = |outputs: &[Output<_, _>], result| match outputs.first() {
        Some(Output::Append { write, .. }) => Input::Written { write: *write, result },
        other => panic!("a record is written first: {other:?}"),
    };
    let outputs = account.step(prepare(), Millis(0));
    account.step(written(&outputs, Written::Durable), Millis(0));
    let outputs = account.step(told(tx(7), Slot(2), Decision::Commit), Millis(0));
    account.step(written(&outputs, Written::Refused), Millis(0));
    // The request arrives once more. A second promise would be recovered in the place of the commit.
    assert_eq!(account.step(prepare(), Millis(0)), []);
    let outputs = account.step(told(tx(7), Slot(2), Decision::Commit), Millis(0));
    let outputs = account.step(written(&outputs, Written::Durable), Millis(0));
    assert!(matches!(&outputs[..], [Output::Send(ToCoordinator { said: Said::Ack(Slot(2)), .. })]), "{outputs:?}");
}

#[test]
fn an_old_answer_to_a_question_does_not_touch_what_is_committed_in_line() {
    let prepared = |n: u64, in_line| {
        let work = Work::event(Hand::withdraw(5));
        let branch = Branch { tx: tx(n.into()), attempt: Attempt::FIRST, work, at: Timestamp(0) };
        let answer = Answer { calls: vec![vec![]], answers: vec![], state: Some("opened".into()), in_line };
        let (slot, coordinator, durability) = (Slot(n), key("Coordinator/C"), Durability::TwoPhase);
        Record::Prepared(Box::new(Prepared {
            branch,
            slot,
            coordinator,
            answer,
            version: 1,
            durability,
            overlap: None,
        }))
    };
    let committed = Record::Outcome { tx: tx(3), slot: Slot(3), decision: Decision::Commit };
    let mut account = recovered(vec![prepared(2, false), prepared(3, true), committed]);
    // It was applied and acknowledged before a crash, which has lost that the one before it was aborted.
    assert_eq!(account.step(told(tx(3), Slot(3), Decision::Commit), Millis(0)), []);
    assert_eq!(account.step(told(tx(3), Slot(3), Decision::Abort), Millis(0)), []);
    let outputs = account.step(told(tx(2), Slot(2), Decision::Abort), Millis(0));
    let applied = outputs.iter().filter(|output| matches!(output, Output::Applied(applied) if applied.tx == tx(3)));
    assert_eq!(applied.count(), 1, "{outputs:?}");
}

/// Accounts A to D, of which B is near, in a coordinator that asks the others side by side.
struct SideBySide {
    coordinator: Coordinator<Hand>,
    tx: TxId,
}

impl SideBySide {
    fn new() -> Self {
        let options = CoordinatorOptions::new(Durability::TwoPhase);
        let coordinator = Coordinator::new(Hand::plain(), key("Coordinator/C"), options);
        Self { coordinator: coordinator.asking_side_by_side(|entity| entity.id() != "B"), tx: tx(1) }
    }

    /// What follows from `input`: who is asked, in which attempt, and whether that may be delayed there; and who is told to abort.
    fn step(&mut self, input: CoordinatorInput<Event>) -> (Vec<(String, u32, bool)>, Vec<String>) {
        let (mut asked, mut aborted) = (Vec::new(), Vec::new());
        for output in self.coordinator.step(input, Millis(0)) {
            match output {
                CoordinatorOutput::Send { to, message: ToParticipant::Prepare(prepare) } => {
                    let Request { branch, ordered, .. } = prepare.request;
                    asked.push((to.id().to_owned(), branch.attempt.number, ordered));
                }
                CoordinatorOutput::Send { to, message: ToParticipant::Decide(decide) } => {
                    assert_eq!(decide.decision, Decision::Abort);
                    aborted.push(to.id().to_owned());
                }
                _ => {}
            }
        }
        (asked, aborted)
    }

    fn begin(&mut self) -> Vec<(String, u32, bool)> {
        let deposit = |id| Call::event(key(&format!("Account/{id}")), Hand::deposit(1));
        let calls = ["A", "B", "C", "D"].map(deposit).into();
        let begin = Begin { tx: self.tx, calls, at: Timestamp(0), deadline: Millis(1_000), idempotency: None };
        self.step(CoordinatorInput::Begin(begin)).0
    }

    fn hear(&mut self, from: &str, vote: Vote<Event>) -> (Vec<(String, u32, bool)>, Vec<String>) {
        let (to, from) = (key("Coordinator/C"), key(&format!("Account/{from}")));
        let said = Said::Vote(vote);
        self.step(CoordinatorInput::Heard(ToCoordinator { to, from, tx: self.tx, attempt: Attempt::FIRST, said }))
    }
}

fn yes() -> Vote<Event> {
    let answer = Answer { calls: vec![vec![]], answers: vec![], state: None, in_line: false };
    Vote::Yes { slot: Slot::FIRST, answer, durability: Durability::TwoPhase, early: None }
}

fn asks(expected: &[(&str, u32, bool)]) -> Vec<(String, u32, bool)> {
    expected.iter().map(|&(id, attempt, ordered)| (id.to_owned(), attempt, ordered)).collect()
}

#[test]
fn those_that_are_far_are_asked_side_by_side_and_only_the_last_of_them_may_be_delayed() {
    let mut asking = SideBySide::new();
    assert_eq!(asking.begin(), asks(&[("A", 1, false), ("C", 1, false), ("D", 1, true)]));
    for from in ["D", "A"] {
        assert_eq!(asking.hear(from, yes()).0, [], "one is awaited");
    }
    // What is greater is held by then.
    assert_eq!(asking.hear("C", yes()).0, asks(&[("B", 1, false)]));
}

#[test]
fn where_one_of_them_would_have_to_wait_the_next_attempt_asks_one_by_one() {
    let mut asking = SideBySide::new();
    asking.begin();
    assert_eq!(asking.hear("C", yes()), (vec![], vec![]));
    let (asked, aborted) = asking.hear("A", Vote::OutOfOrder);
    assert_eq!(asked, asks(&[("A", 2, true)]));
    assert_eq!(aborted, ["C", "D"], "what has said yes, and what is still asked");
}
