//! The audit of a journal: what has happened by the engine is clean, and each kind of what should not have happened is found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{
    Acted, Answer, Attempt, Audited, Branch, Command, Condition, Contradiction, Decision, Durability, Engine,
    EngineOptions, EntityKey, ManualClock, Miscall, Model, Prepared, Rebel, Record, Slot, Strategies, Strategy,
    Timestamp, TxId, Work, audit, miscalls,
};
use enact_journal::{Journal, Memory, Position};
use enact_rebel::{Answered, Caller, EventCall, Instance, Question, Source, Spec, Value, check};

use crate::support::chance::{Chance, for_seeds};
use crate::support::client::LONG;
use crate::support::{key, tx};

const BANK: &str = r#"
roles officer
class Account
  balance: Money
  limit: Money
  invariant "below the limit": balance + limit >= 0
  initial unopened
    on Open(initialDeposit: Money): opened
      post: this.balance = initialDeposit, this.limit = initialDeposit * 0
  opened
    on Withdraw(amount: Money)
      pre: balance - amount >= 0
      post: this.balance -= amount
    on Deposit(amount: Money)
      pre: amount > 0
      post: this.balance += amount
    on Fine(amount: Money)
      post: this.balance -= amount
    on Freeze() by officer: frozen
  frozen
    on Thaw(): opened
class Transfer
  initial wished
    on Book(from: Account, to: Account, amount: Money): booked
      sync:
        from.Withdraw(amount)
        to.Deposit(amount)
  final booked
class Offer
  until: Timestamp
  initial draft
    on Make(end: Timestamp): open
      post: this.until = end
  open
    on Accept(): accepted
    internal on Expire(): expired
    after until: Expire
  final accepted, expired
"#;

fn model_of(sources: &[&str]) -> Rebel {
    let spec = |text: &&str| {
        Arc::new(check(vec![Source::new("bank.rebel", *text)]).unwrap_or_else(|report| panic!("{report}")))
    };
    let mut specs = sources.iter().map(spec);
    let first = Rebel::new(specs.next().expect("there is one"));
    specs.fold(first, |earlier, spec| {
        let migration = spec.migration(earlier.spec()).unwrap_or_else(|report| panic!("{report}"));
        Rebel::after(earlier, migration, spec)
    })
}

fn bank() -> Rebel {
    model_of(&[BANK])
}

/// A call with its arguments in their text forms.
fn call(spec: &Spec, class: &str, event: &str, arguments: &[(&str, &str)]) -> EventCall {
    let event = spec.class(class).and_then(|class| class.event(event)).expect("the contract has the event");
    let typed = arguments.iter().map(|(name, text)| {
        let param = event.params().iter().find(|param| **param.name() == **name).expect("the event has the parameter");
        (*name, Value::parse(param.ty(), text).expect("the argument has the form of its type"))
    });
    event.call(typed).expect("the arguments fit")
}

fn euros(class_event: &str, amount: &str) -> EventCall {
    let model = bank();
    let name = model.spec().class("Account").and_then(|class| class.event(class_event)).expect("the contract has it");
    let param = name.params()[0].name().to_string();
    call(model.spec(), "Account", class_event, &[(&param, &format!("EUR {amount}.00"))])
}

/// As a program with another contract would have written it.
fn foreign(event: &str) -> EventCall {
    serde_json::from_value(serde_json::json!({ "event": event, "arguments": {} })).expect("a call")
}

fn committed(slot: u64, events: Vec<EventCall>) -> Record<EventCall> {
    Record::Committed { tx: tx(slot.into()), slot: Slot(slot), events, at: Timestamp(0), version: 1, overlap: None }
}

fn prepared(slot: u64, work: Work<EventCall>) -> Record<EventCall> {
    Record::Prepared(Box::new(Prepared {
        branch: Branch { tx: tx(slot.into()), attempt: Attempt::FIRST, work, at: Timestamp(0) },
        slot: Slot(slot),
        coordinator: key("Coordinator/C"),
        answer: Answer { calls: Vec::new(), answers: Vec::new(), state: None, in_line: false },
        version: 1,
        durability: Durability::TwoPhase,
        overlap: None,
    }))
}

fn outcome(slot: u64, decision: Decision) -> Record<EventCall> {
    Record::Outcome { tx: tx(slot.into()), slot: Slot(slot), decision }
}

/// What is wrong with which record.
type Found = Vec<(usize, String)>;

/// What an audit finds wrong, each with the position of the record, counted from 1; the last state; and what waits.
fn audited<M: Model>(
    model: &M,
    entity: &str,
    log: impl IntoIterator<Item = Record<M::Event>>,
) -> (Found, Option<M::State>, Vec<TxId>) {
    let mut records: Vec<(usize, Record<M::Event>)> = (1..).zip(log).collect();
    records.sort_by_key(|(_, record)| record.slot());
    let (mut found, mut last) = (Vec::new(), None);
    let waiting = audit(model, &key(entity), records, |audited| match audited {
        Audited::Judged(judged) => {
            found.extend(judged.refusals.iter().map(|refusal| (judged.position, refusal.to_string())));
            last = Some(judged.after.clone());
        }
        Audited::Unjudged { position, why, .. } => found.push((position, why.to_string())),
        Audited::Contradicted { position, why, .. } => found.push((position, why.to_string())),
    });
    (found, last, waiting)
}

fn balance(state: Option<&Instance>) -> String {
    state.and_then(|state| state.fields().get("balance")).map_or_else(String::new, ToString::to_string)
}

#[track_caller]
fn check_log(entity: &str, log: Vec<Record<EventCall>>, expected: &[(usize, &str)]) -> Option<Instance> {
    let (found, last, _) = audited(&bank(), entity, log);
    let found: Vec<(usize, &str)> = found.iter().map(|(position, text)| (*position, text.as_str())).collect();
    assert_eq!(found, expected);
    last
}

#[test]
fn h_what_the_contract_allows_is_clean() {
    let log = ["Open 100", "Withdraw 50", "Withdraw 50"].map(|step| step.split_once(' ').expect("two words"));
    let log = (1..).zip(log).map(|(slot, (event, amount))| committed(slot, vec![euros(event, amount)]));
    let last = check_log("Account/A", log.collect(), &[]);
    assert_eq!(balance(last.as_ref()), "EUR 0.00");
}

#[test]
fn h_a_guard_that_does_not_hold_is_one_finding_and_the_effect_is_projected() {
    let log = vec![
        committed(1, vec![euros("Open", "100")]),
        committed(2, vec![euros("Withdraw", "50")]),
        committed(3, vec![euros("Withdraw", "80")]),
    ];
    let last = check_log(
        "Account/A",
        log,
        &[(3, "Account/A refuses Withdraw: balance - amount >= 0 with balance = EUR 50.00, amount = EUR 80.00")],
    );
    assert_eq!(balance(last.as_ref()), "EUR -30.00");
}

/// An entity, what was written of it, and what is wrong with that.
type Row = (&'static str, Vec<Record<EventCall>>, Vec<(usize, &'static str)>);

#[test]
fn every_kind_of_what_the_contract_refuses_is_found_with_its_place() {
    let open = || committed(1, vec![euros("Open", "100")]);
    let offer = |event: &str, arguments: &[(&str, &str)]| call(bank().spec(), "Offer", event, arguments);
    let at = |slot: u64, at: i64, event: EventCall| Record::Committed {
        tx: tx(slot.into()),
        slot: Slot(slot),
        events: vec![event],
        at: Timestamp(at),
        version: 1,
        overlap: None,
    };
    let officer = Caller::new("o1", ["officer"]).expect("a caller");
    let freeze = || call(bank().spec(), "Account", "Freeze", &[]);
    let unknown = Record::Committed {
        tx: tx(2),
        slot: Slot(2),
        events: vec![euros("Deposit", "1")],
        at: Timestamp(0),
        version: 7,
        overlap: None,
    };
    let rows: Vec<Row> = vec![
        (
            "Account/A",
            vec![committed(1, vec![euros("Deposit", "1")])],
            vec![(1, "Account/A refuses Deposit: Deposit is not possible in state unopened, only in opened")],
        ),
        (
            "Account/A",
            vec![open(), committed(2, vec![foreign("Steal")])],
            vec![(2, "Account/A refuses Steal: Account has no event `Steal`")],
        ),
        (
            "Account/A",
            vec![open(), committed(2, vec![foreign("Withdraw")])],
            vec![(2, "Account/A refuses Withdraw: `Withdraw` needs the parameter `amount` of type Money")],
        ),
        (
            "Account/A",
            vec![open(), committed(2, vec![euros("Fine", "101")])],
            vec![(
                2,
                "Account/A refuses Fine: invariant broken: below the limit with balance = EUR -1.00, limit = EUR 0.00",
            )],
        ),
        (
            "Account/A",
            vec![open(), committed(2, vec![freeze()])],
            vec![(2, "Account/A refuses Freeze: Freeze needs the role officer, which the caller does not have")],
        ),
        ("Account/A", vec![open(), committed(2, vec![freeze().with_caller(officer)])], vec![]),
        (
            "Safe/S",
            vec![committed(1, vec![foreign("Open")])],
            vec![(
                1,
                "Safe/S is in the journal, but there can be no such entity; start with the contract it was written under",
            )],
        ),
        (
            "Account/A",
            vec![open(), unknown, committed(3, vec![euros("Withdraw", "100")])],
            vec![(2, "Account/A has events of version 7 of the contract, which is not known here")],
        ),
        (
            "Offer/o",
            vec![at(1, 0, offer("Make", &[("end", "1970-01-01T00:00:05Z")])), at(2, 6_000, offer("Accept", &[]))],
            vec![(2, "Offer/o refuses Accept: Expire is due and comes first")],
        ),
        (
            "Offer/o",
            vec![at(1, 0, offer("Make", &[("end", "1970-01-01T00:00:05Z")])), at(2, 4_000, offer("Accept", &[]))],
            vec![],
        ),
    ];
    for (entity, log, expected) in rows {
        check_log(entity, log, &expected);
    }
}

#[test]
fn a_condition_that_did_not_hold_is_found_where_its_promise_says_that_it_was_asked() {
    let asked =
        |text: &str| Work::of([enact_entities::Action::Condition(Condition::in_state(["opened"], text.to_owned()))]);
    check_log(
        "Account/A",
        vec![
            prepared(1, asked("it is open")),
            outcome(1, Decision::Commit),
            committed(2, vec![euros("Open", "1")]),
            prepared(3, asked("it is open")),
            outcome(3, Decision::Commit),
        ],
        &[(2, "Account/A refuses it is open: it is open, and it is in state unopened")],
    );
}

#[test]
fn effects_are_judged_in_the_order_of_slots_whatever_the_order_of_records() {
    let open = || committed(1, vec![euros("Open", "100")]);
    let withdraw = |slot| Work::event(euros("Withdraw", if slot == 2 { "100" } else { "1" }));
    let found = (4, "Account/A refuses Withdraw: balance - amount >= 0 with balance = EUR 0.00, amount = EUR 1.00");
    // The second slot is decided last, and is the first to be judged.
    check_log(
        "Account/A",
        vec![
            open(),
            prepared(2, withdraw(2)),
            prepared(3, withdraw(3)),
            outcome(3, Decision::Commit),
            outcome(2, Decision::Commit),
        ],
        &[found],
    );
    check_log(
        "Account/A",
        vec![open(), prepared(2, withdraw(2)), prepared(3, withdraw(3)), outcome(3, Decision::Commit)],
        &[],
    );
    check_log(
        "Account/A",
        vec![
            open(),
            prepared(2, withdraw(2)),
            prepared(3, withdraw(3)),
            outcome(3, Decision::Commit),
            outcome(2, Decision::Abort),
        ],
        &[],
    );
}

#[test]
fn what_waits_for_something_undecided_is_counted_and_not_judged() {
    let log = vec![
        committed(1, vec![euros("Open", "100")]),
        prepared(2, Work::event(euros("Withdraw", "1"))),
        committed(3, vec![euros("Withdraw", "500")]),
    ];
    let (found, _, waiting) = audited(&bank(), "Account/A", log);
    assert_eq!((found, waiting), (Vec::new(), vec![tx(3)]));
}

#[test]
fn a_record_that_cannot_follow_on_those_before_it_is_found() {
    let open = || committed(1, vec![euros("Open", "100")]);
    let deposit = |tx_number: u128, slot: u64| Record::Committed {
        tx: tx(tx_number),
        slot: Slot(slot),
        events: vec![euros("Deposit", "1")],
        at: Timestamp(0),
        version: 1,
        overlap: None,
    };
    let text = |why: Contradiction| why.to_string();
    for (log, position, why) in [
        (vec![open(), deposit(2, 2), deposit(3, 2)], 3, Contradiction::SlotTaken { by: tx(2) }),
        (vec![open(), deposit(2, 2), deposit(2, 2)], 3, Contradiction::SlotTaken { by: tx(2) }),
        (vec![open(), deposit(2, 2), deposit(2, 3)], 3, Contradiction::Repeated),
        (vec![open(), outcome(2, Decision::Commit)], 2, Contradiction::Unpromised),
        (vec![open(), deposit(2, 2), outcome(2, Decision::Abort)], 3, Contradiction::TakenBack),
        (vec![open(), deposit(2, 0)], 2, Contradiction::Misplaced),
        (vec![open(), Record::End { tx: tx(1) }], 2, Contradiction::Misplaced),
    ] {
        check_log("Account/A", log, &[(position, &text(why))]);
    }
}

#[test]
fn a_promise_that_was_given_again_or_told_twice_is_clean() {
    let withdraw = || Work::event(euros("Withdraw", "100"));
    let again = |slot: u64, number: u32| match prepared(2, withdraw()) {
        Record::Prepared(mut prepared) => {
            prepared.slot = Slot(slot);
            prepared.branch.attempt = Attempt { number, round: 1 };
            Record::Prepared(prepared)
        }
        _ => unreachable!("it is a promise"),
    };
    let commit = |slot: u64| Record::Outcome { tx: tx(2), slot: Slot(slot), decision: Decision::Commit };
    for log in [
        // That the first was given up is not written.
        vec![again(2, 1), again(4, 2), commit(4)],
        // An earlier attempt comes late.
        vec![again(2, 2), again(4, 1), commit(2), committed(5, vec![euros("Deposit", "1")])],
        vec![again(2, 1), commit(2), commit(2)],
    ] {
        let log = std::iter::once(committed(1, vec![euros("Open", "100")])).chain(log);
        let (found, last, waiting) = audited(&bank(), "Account/A", log);
        assert_eq!((found, waiting), (Vec::new(), Vec::new()));
        assert!(["EUR 0.00", "EUR 1.00"].contains(&&*balance(last.as_ref())));
    }
}

#[test]
#[should_panic(expected = "slot 1 comes behind slot 2")]
fn records_that_are_not_in_the_order_of_slots_are_refused() {
    let log = [2, 1].map(|slot| (slot, committed(slot, vec![euros("Open", "100")])));
    audit(&bank(), &key("Account/A"), log, |_| {});
}

/// In the second version, a tank counts in another unit and holds less.
const TANK: [&str; 2] = [
    "class Tank
  litres: Integer = 0
  initial built
    on Fill(by: Integer): used
      pre: litres + by <= 100
      post: this.litres += by
  used
    on Fill(by: Integer): used
      pre: litres + by <= 100
      post: this.litres += by
",
    "module tank version 2
class Tank
  decilitres: Integer
  initial built
    on Fill(by: Integer): used
      pre: by <= 900
      post: this.decilitres = by
  used
    on Fill(by: Integer): used
      pre: decilitres + by <= 900
      post: this.decilitres += by
migrate from 1
  drop Tank.litres
  Tank.decilitres = litres * 10
",
];

#[test]
fn each_event_is_judged_under_the_version_that_its_record_names() {
    let model = model_of(&TANK);
    let fill = |slot: u64, by: i64, version: u32| Record::Committed {
        tx: tx(slot.into()),
        slot: Slot(slot),
        events: vec![call(model.spec(), "Tank", "Fill", &[("by", &by.to_string())])],
        at: Timestamp(0),
        version,
        overlap: None,
    };
    let found = |log: Vec<Record<EventCall>>| audited(&model, "Tank/t", log).0;
    assert_eq!(found(vec![fill(1, 50, 1), fill(2, 35, 1), fill(3, 50, 2)]), []);
    assert_eq!(
        found(vec![fill(1, 100, 1), fill(2, 1, 1), fill(3, 50, 2)]),
        [
            (2, "Tank/t refuses Fill: litres + by <= 100 with litres = 100, by = 1".to_owned()),
            (3, "Tank/t refuses Fill: decilitres + by <= 900 with decilitres = 1010, by = 50".to_owned())
        ]
    );
    assert_eq!(
        found(vec![fill(1, 50, 2), fill(2, 1, 1), fill(3, 860, 2)]),
        [
            (2, "Tank/t has events of version 2 of the contract, which is not known here".to_owned()),
            (3, "Tank/t refuses Fill: decilitres + by <= 900 with decilitres = 50, by = 860".to_owned())
        ]
    );
}

/// A transfer, with what else has happened in its transaction.
fn transfer(others: &[(&str, EventCall)]) -> Vec<(EntityKey, Acted<EventCall>)> {
    let model = bank();
    let book = call(model.spec(), "Transfer", "Book", &[("from", "A"), ("to", "B"), ("amount", "EUR 5.00")]);
    let all = [("Transfer/t", book)].into_iter().chain(others.iter().cloned());
    all.map(|(entity, event)| {
        let enact_entities::Calls::Known(calls) = model.calls(&key(entity), None, &event, Timestamp(0)) else {
            panic!("no event of the bank asks for a state")
        };
        (key(entity), Acted { event, calls: Some(calls) })
    })
    .collect()
}

#[test]
fn each_kind_of_wrong_call_is_found() {
    let [withdraw, deposit] = ["Withdraw", "Deposit"].map(|event| euros(event, "5"));
    let model = bank();
    let found = |others: &[(&str, EventCall)]| miscalls(&model, &transfer(others));
    let whole = [("Account/A", withdraw.clone()), ("Account/B", deposit.clone())];
    assert_eq!(found(&whole), []);
    // What a called event has asked goes with it, and not with the call.
    let class = model.spec().class("Account").expect("the class");
    let of = class.reference(class.key("A").expect("a key"));
    let asked = Answered { of, question: Question::Initialized, answer: Some(Value::Boolean(true)) };
    assert_eq!(found(&[whole[0].clone(), ("Account/B", deposit.clone().with_answers(vec![asked]))]), []);
    let Some((_, Acted { calls: Some(calls), .. })) = transfer(&whole).into_iter().next() else { panic!("it calls") };
    let to_b = calls[1].clone();
    assert_eq!(found(&whole[..1]), [Miscall::Missing { caller: 0, call: to_b.clone() }]);
    let more = [whole[0].clone(), ("Account/B", euros("Deposit", "6"))];
    assert_eq!(found(&more), [Miscall::Different { caller: 0, call: to_b.clone(), happened: 2 }]);
    let elsewhere = [whole[0].clone(), ("Account/C", deposit.clone())];
    assert_eq!(found(&elsewhere), [Miscall::Missing { caller: 0, call: to_b }, Miscall::Uncalled { event: 2 }]);
    let twice = [whole[0].clone(), whole[1].clone(), whole[1].clone()];
    assert_eq!(found(&twice), [Miscall::Uncalled { event: 3 }]);
}

#[test]
fn a_transaction_begins_with_no_internal_event_unless_a_timer_calls_it() {
    let model = bank();
    let expire = call(model.spec(), "Offer", "Expire", &[]);
    let acted = |event| [(key("Offer/o"), Acted { event, calls: Some(Vec::new()) })];
    assert_eq!(miscalls(&model, &acted(expire)), [Miscall::Uncalled { event: 0 }]);
    let timed: EventCall = serde_json::from_value(serde_json::json!({
        "event": "Expire", "arguments": {}, "timer": { "due": "1970-01-01T00:00:05.000Z" }
    }))
    .expect("a call");
    assert_eq!(miscalls(&model, &acted(timed)), []);
}

#[test]
fn nothing_is_said_of_the_calls_of_an_event_that_is_refused_and_does_not_tell_them() {
    let acted = Acted { event: foreign("Steal"), calls: None };
    assert_eq!(miscalls(&bank(), &[(key("Account/A"), acted.clone()), (key("Account/B"), acted)]), []);
}

const RICH: &str = include_str!("../../../../examples/bank.rebel");

/// A random command of the bank, most of which are possible.
fn random_command(chance: &mut Chance, spec: &Spec, number: usize) -> Command<EventCall> {
    const ACCOUNTS: [&str; 3] = ["NL91ABNA0417164300", "NL20INGB0001234567", "NL58ABNA0000000001"];
    let amount = format!("EUR {}.{:02}", chance.below(60), chance.below(100));
    let (one, other, third) = (*chance.pick(&ACCOUNTS), *chance.pick(&ACCOUNTS), *chance.pick(&ACCOUNTS));
    let goal = format!("G{}", chance.below(2));
    let (class, id, event, arguments): (_, String, _, Vec<(&str, &str)>) = match chance.below(12) {
        0 | 1 => ("Account", one.into(), "Open", vec![("owner", "Ada"), ("initialDeposit", "EUR 500.00")]),
        2 => ("Account", one.into(), "Deposit", vec![("amount", &amount)]),
        3 => ("Account", one.into(), "Withdraw", vec![("amount", &amount)]),
        4 => ("Account", one.into(), "Interest", vec![("rate", "3%")]),
        5 => ("Account", one.into(), "Block", vec![]),
        6 => ("Account", one.into(), "Unblock", vec![]),
        7 => ("SavingsGoal", goal, "Start", vec![("goal", "EUR 50.00"), ("until", "2100-01-01"), ("payout", other)]),
        8 => ("SavingsGoal", goal, "Save", vec![("amount", &amount), ("from", one)]),
        9 => ("SavingsGoal", goal, "Reward", vec![("bonus", "EUR 1.00"), ("sponsor", third)]),
        10 => ("Certificate", number.to_string(), "CertifyBalance", vec![("of", one)]),
        _ => {
            let urgently = vec![("amount", &*amount), ("from", one), ("to", other), ("house", third)];
            let book = vec![("amount", &*amount), ("from", one), ("to", other)];
            match chance.below(2) {
                0 => ("Transfer", number.to_string(), "BookUrgently", urgently),
                _ => ("Transfer", number.to_string(), "Book", book),
            }
        }
    };
    let event = call(spec, class, event, &arguments);
    Command {
        key: EntityKey::new(class, &id).expect("a name"),
        event,
        then: Vec::new(),
        idempotency: None,
        deadline: LONG,
    }
}

/// All records of entities, by entity.
async fn records(journal: &Memory) -> BTreeMap<EntityKey, Vec<Record<EventCall>>> {
    let mut records: BTreeMap<EntityKey, Vec<_>> = BTreeMap::new();
    for record in journal.feed(Position::START, usize::MAX).await.expect("readable") {
        if !record.entity.class().starts_with('.') {
            let decoded = Record::decode(&record.payload).expect("the engine has written it");
            records.entry(record.entity).or_default().push(decoded);
        }
    }
    records
}

#[test]
fn random_histories_that_the_engine_makes_are_clean() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    let (mut transactions, mut called) = (0, 0);
    for_seeds("random_histories", 20, |seed| {
        runtime.block_on(async {
            let mut chance = Chance::new(seed);
            let spec = Arc::new(check(vec![Source::new("bank.rebel", RICH)]).expect("a sound specification"));
            let journal = Memory::new();
            let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000)));
            let strategy = *chance.pick(&Strategy::ALL);
            let options =
                EngineOptions { strategies: Strategies::default().with_others(strategy), ..Default::default() };
            let bank = Engine::with_clock(Rebel::new(Arc::clone(&spec)), journal.clone(), options, clock);
            let commands: Vec<_> = (0..120).map(|number| random_command(&mut chance, &spec, number)).collect();
            for some in commands.chunks(12) {
                let submitted: Vec<_> = some
                    .iter()
                    .map(|command| {
                        let (bank, command) = (bank.clone(), command.clone());
                        tokio::spawn(async move { bank.submit(command).await.is_ok() })
                    })
                    .collect();
                for submitted in submitted {
                    submitted.await.expect("no panic");
                }
            }
            let model = Rebel::new(spec);
            let mut parts: BTreeMap<TxId, Vec<(EntityKey, Acted<EventCall>)>> = BTreeMap::new();
            for (entity, mut log) in records(&journal).await {
                log.sort_by_key(Record::slot);
                let waiting = audit(&model, &entity, (0..).zip(log), |audited| match audited {
                    Audited::Judged(judged) => {
                        assert_eq!(judged.refusals, [], "{strategy:?} position {}", judged.position);
                        let acted = judged.events.into_iter().map(|acted| (entity.clone(), acted));
                        parts.entry(judged.tx).or_default().extend(acted);
                    }
                    other => panic!("{strategy:?} {entity}: {other:?}"),
                });
                assert_eq!(waiting, []);
            }
            bank.shutdown(Duration::from_secs(60)).await.expect("the journal closes");
            for (tx, events) in &parts {
                assert_eq!(miscalls(&model, events), [], "{strategy:?} {tx}: {events:?}");
                transactions += 1;
                called += events.len() - 1;
            }
        });
    });
    assert!(
        std::env::var("ENACT_SEED").is_ok() || transactions > 500 && called > 100,
        "{transactions} with {called} called events are enough to mean something"
    );
}
