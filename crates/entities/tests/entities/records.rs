//! Records and snapshots come back from their bytes, and nothing else does.

use enact_entities::{
    Action, Answer, AnswerRecord, Attempt, Branch, Call, Caller, Condition, Decision, DecisionRecord, DecodeError,
    Done, Durability, Idempotency, Input, Millis, Participant, ParticipantOptions, Pending, Prepare, Prepared,
    Question, Reason, Record, RecoveryError, Refusal, Request, Slot, Snapshot, Strategy, Timestamp, Work,
};
use enact_rebel::Value;

use crate::support::bank::{Bank, Event, Hand, State};
use crate::support::{key, tx};

fn prepared() -> Prepared<Event> {
    let actions = vec![
        Action::Condition(Condition::initialized("it must exist")),
        Action::Event(Hand::deposit(5)),
        Action::Condition(Condition::in_state(["opened"], "it must be open")),
        Action::Ask(Question::Field("balance".into())),
        Action::Ask(Question::Possible(Hand::withdraw(5))),
        Action::Ask(Question::Field("nothing".into())),
        Action::Event(Hand::deposit(5)),
        Action::Condition(Condition::impossible(Hand::withdraw(5), "it must be poor")),
    ];
    Prepared {
        branch: Branch {
            tx: tx(7),
            attempt: Attempt::FIRST.next().next_round(),
            work: Work::of(actions),
            at: Timestamp(-1),
        },
        durability: Durability::TwoPhase,
        slot: Slot(3),
        coordinator: key("Coordinator/C"),
        answer: Answer {
            calls: vec![vec![Call::event(key("Account/B"), Event::Close)], vec![]],
            answers: vec![Some(Value::Integer(5)), Some(Value::Boolean(true)), None],
            state: Some("opened".into()),
            in_line: false,
        },
        version: 2,
        overlap: Some(2),
    }
}

fn all_records() -> Vec<Record<Event>> {
    let refusal = Refusal {
        entity: key("Account/A"),
        event: "Withdraw".into(),
        reasons: vec![
            Reason::Guard { text: "enough".into(), values: vec![("balance".into(), "EUR 1.00".into())] },
            Reason::Role { event: "Withdraw".into(), roles: vec!["teller".into()] },
            Reason::Condition { text: "it must exist".into(), state: "init".into() },
        ],
        callers: vec![Caller { entity: key("Transfer/T"), event: "Book".into() }],
    };
    let idempotency = Some(Idempotency { key: "k".into(), principal: Some("p".into()), fingerprint: [9; 32] });
    let answer = |result| AnswerRecord { tx: tx(1), at: Timestamp(5), idempotency: idempotency.clone(), result };
    vec![
        Record::Prepared(prepared().into()),
        Record::Outcome { tx: tx(7), slot: Slot(3), decision: Decision::Abort },
        Record::Committed {
            tx: tx(7),
            slot: Slot(u64::MAX),
            events: vec![Hand::deposit(5); 2],
            at: Timestamp(i64::MIN),
            version: u32::MAX,
            overlap: Some(u64::MAX),
        },
        Record::Decision(Box::new(DecisionRecord {
            tx: tx(u128::MAX),
            attempt: Attempt::FIRST,
            participants: vec![(key("Account/A"), Slot(4))],
            answer: answer(Ok(Done { state: Some("booked".into()), result: Some(Value::Integer(7).into()) })),
        })),
        Record::Answer(answer(Err(refusal)).into()),
        Record::End { tx: tx(7) },
    ]
}

#[test]
fn every_record_comes_back_from_its_bytes_and_has_its_own_kind() {
    let records = all_records();
    for record in &records {
        assert_eq!(Record::decode(&record.encode()).as_ref(), Ok(record));
    }
    let kinds: Vec<u8> = records.iter().map(Record::kind).collect();
    assert_eq!(kinds, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_snapshot_comes_back_from_its_bytes() {
    let snapshot = Snapshot {
        base: Hand::account(&Hand::load(), "opened", 100),
        next_slot: Slot(9),
        pending: vec![Pending { prepared: prepared(), committed: true }],
        version: 3,
    };
    assert_eq!(Snapshot::<State, Event>::decode(&snapshot.encode()), Ok(snapshot));
}

#[test]
fn names_of_the_contract_are_in_the_bytes_and_those_of_the_program_are_not() {
    let bytes = Record::Prepared(prepared().into()).encode();
    let has = |name: &str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
    for name in ["balance", "opened", "Coordinator/C"] {
        assert!(has(name), "{name}");
    }
    for name in ["coordinator", "attempt", "slot", "actions"] {
        assert!(!has(name), "{name}");
    }
}

#[test]
fn an_unknown_version_is_refused_with_its_number() {
    let mut bytes = all_records()[0].encode();
    for (version, advice) in [(2, "use the program"), (5, "use a newer program")] {
        bytes[0] = version;
        let refused = Record::<Event>::decode(&bytes).unwrap_err();
        assert_eq!(refused, DecodeError::Version { version });
        assert!(refused.to_string().contains(advice), "{refused}");
    }
}

#[test]
fn damaged_bytes_are_refused_without_a_panic() {
    assert!(matches!(Record::<Event>::decode(&[]), Err(DecodeError::Malformed { .. })));
    for record in all_records() {
        let bytes = record.encode();
        for cut in 1..bytes.len() {
            assert!(matches!(Record::<Event>::decode(&bytes[..cut]), Err(DecodeError::Malformed { .. })));
        }
        for i in 1..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[i] ^= 1 << bit;
                // The journal has a checksum; here it is enough that nothing panics.
                drop(Record::<Event>::decode(&damaged));
            }
        }
    }
}

fn recover(entity: &str, log: Vec<Record<Event>>) -> Result<i128, RecoveryError> {
    let model = Hand::load();
    let options = ParticipantOptions::new(Strategy::Serializable);
    let (participant, _) = Participant::recover(model.clone(), key(entity), options, None, log, Millis(0))?;
    Ok(Hand::balance(&model, participant.admission().base()) / 100)
}

fn committed(n: u64, event: Event) -> Record<Event> {
    Record::Committed {
        tx: tx(n.into()),
        slot: Slot(n),
        events: vec![event],
        at: Timestamp(0),
        version: 1,
        overlap: None,
    }
}

#[test]
fn several_events_of_one_transaction_are_recovered_in_their_order() {
    let events = vec![Hand::deposit(100), Hand::interest(10), Hand::withdraw(20)];
    let several = Record::Committed { tx: tx(2), slot: Slot(2), events, at: Timestamp(0), version: 1, overlap: None };
    assert_eq!(recover("Account/A", vec![committed(1, Hand::open(100)), several]), Ok(200));
}

#[test]
fn effects_are_recovered_in_slot_order_whatever_the_order_of_their_records() {
    let ten_percent = committed(2, Hand::interest(10));
    let in_order = vec![committed(1, Hand::open(100)), ten_percent.clone(), committed(3, Hand::deposit(50))];
    let as_decided = vec![committed(3, Hand::deposit(50)), committed(1, Hand::open(100)), ten_percent];
    assert_eq!(recover("Account/A", in_order), Ok(160));
    assert_eq!(recover("Account/A", as_decided), Ok(160));
}

#[test]
fn a_later_promise_to_a_transaction_voids_the_earlier_one_whose_abort_was_not_written() {
    let prepared = |attempt, slot, euros| {
        let answer = Answer { calls: vec![vec![]], answers: vec![], state: Some("opened".into()), in_line: false };
        let (tx, work) = (tx(7), Work::event(Hand::deposit(euros)));
        let coordinator = key("Coordinator/C");
        let branch = Branch { tx, attempt, work, at: Timestamp(0) };
        let durability = Durability::TwoPhase;
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
    let outcome = |slot, decision| Record::Outcome { tx: tx(7), slot, decision };
    let first = prepared(Attempt::FIRST, Slot(2), 5);
    // Of the same attempt, which a doubled message has asked for again, or of the next one.
    for attempt in [Attempt::FIRST, Attempt::FIRST.next()] {
        let second = prepared(attempt, Slot(3), 7);
        for order in [[first.clone(), second.clone()], [second, first.clone()]] {
            let log = |decision| {
                [vec![committed(1, Hand::open(100))], order.to_vec(), vec![outcome(Slot(3), decision)]].concat()
            };
            assert_eq!(recover("Account/A", log(Decision::Commit)), Ok(107));
            // Nothing is open any more that would keep a later effect from being applied.
            let later = [log(Decision::Abort), vec![committed(4, Hand::deposit(1))]].concat();
            assert_eq!(recover("Account/A", later), Ok(101));
        }
    }
}

/// A snapshot is taken while a second attempt is open here; the third one commits.
#[test]
fn a_commit_is_recovered_behind_a_snapshot_that_knows_an_earlier_attempt_of_its_transaction() {
    let options = ParticipantOptions::new(Strategy::Serializable);
    let model = Hand::load();
    let recover = |snapshot, log| {
        let recovered =
            Participant::recover(model.clone(), key("Account/A"), options.clone(), snapshot, log, Millis(0));
        recovered.expect("a sound journal").0
    };
    let mut account = recover(None, vec![committed(1, Hand::open(100))]);
    let branch =
        Branch { tx: tx(7), attempt: Attempt::FIRST.next(), work: Work::event(Hand::deposit(5)), at: Timestamp(0) };
    let request =
        Request { branch, deadline: Millis(1_000), ordered: true, sole: false, certain: false, calls_known: false };
    let (coordinator, durability) = (key("Coordinator/C"), Durability::Shared);
    account.step(Input::Prepare(Prepare { coordinator, durability, request }), Millis(0));
    let snapshot = account.snapshot();
    assert_eq!(snapshot.pending.len(), 1, "it is open");
    let events = vec![Hand::deposit(5)];
    let third = Record::Committed { tx: tx(7), slot: Slot(3), events, at: Timestamp(0), version: 1, overlap: None };
    let account = recover(Some(snapshot), vec![third]);
    assert_eq!(Hand::balance(&model, account.admission().base()), 10_500);
}

#[test]
fn a_slot_that_was_never_committed_leaves_a_gap_that_does_no_harm() {
    assert_eq!(recover("Account/A", vec![committed(4, Hand::open(100)), committed(9, Hand::deposit(1))]), Ok(101));
}

#[test]
fn a_journal_that_the_contract_does_not_allow_is_refused_with_its_place() {
    let found = recover("Account/A", vec![committed(1, Hand::open(100)), committed(2, Hand::withdraw(101))]);
    assert!(matches!(found, Err(RecoveryError::NotPossible { slot: Slot(2), .. })), "{found:?}");
    let found = recover("Nonsense/A", vec![]);
    assert_eq!(found, Err(RecoveryError::NoSuchEntity { entity: key("Nonsense/A") }));
    let outcome = Record::Outcome { tx: tx(1), slot: Slot(1), decision: Decision::Commit };
    for (index, misplaced) in [(0, vec![outcome]), (1, vec![committed(1, Hand::open(100)), Record::End { tx: tx(1) }])]
    {
        let found = recover("Account/A", misplaced);
        assert_eq!(found, Err(RecoveryError::Misplaced { entity: key("Account/A"), index }));
    }
}
