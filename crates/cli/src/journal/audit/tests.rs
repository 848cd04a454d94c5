//! What an audit finds, in whatever parts it is done, and over shards.

use enact_entities::{Answer, AnswerRecord, Attempt, Branch, Calls, DecisionRecord, Done, Prepared, Timestamp, Work};
use enact_journal::{Embedded, Journal, NewRecord, Options, Position, Seq};
use enact_journal_kit::contract::block_on;
use enact_rebel::{Source, Value, check};

use super::super::groups::Groups;
use super::*;

const PURSE: &str = "
    class Purse
      coins: Integer = 0
      initial new
        on Fill(by: Integer): filled
          post: this.coins = by
      filled
        on Give(to: Purse, by: Integer)
          pre: coins >= by
          post: this.coins -= by
          sync: to.Get(by)
        internal on Get(by: Integer)
          post: this.coins += by
";

fn model() -> Rebel {
    Rebel::new(check(vec![Source::new("purse.rebel", PURSE)]).expect("a sound specification").into())
}

fn purse(number: usize) -> EntityKey {
    EntityKey::new("Purse", &format!("p{number}")).expect("a name")
}

fn call(event: &str, arguments: Vec<(&'static str, Value)>) -> EventCall {
    let model = model();
    let class = model.spec().class("Purse").expect("the class");
    class.event(event).expect("the event").call(arguments).expect("they fit")
}

fn fill(by: i64) -> EventCall {
    call("Fill", vec![("by", Value::Integer(by))])
}

/// A gift, with what it calls.
fn give(to: usize, by: i64) -> (EventCall, EventCall) {
    let model = model();
    let class = model.spec().class("Purse").expect("the class");
    let to = Value::Reference(class.reference(class.key(purse(to).id()).expect("a key")));
    let give = call("Give", vec![("to", to), ("by", Value::Integer(by))]);
    let Calls::Known(calls) = model.calls(&purse(0), None, &give, Timestamp(0)) else { panic!("it is fixed") };
    let Some(Action::Event(get)) = calls.into_iter().next().map(|call| call.action) else { panic!("it calls") };
    (give, get)
}

/// Writes transactions of which each has these events, under the next slots of their entities.
fn write(data: &std::path::Path, transactions: Vec<Vec<(usize, EventCall)>>) {
    let journal = Embedded::open(data, Options::default()).expect("a new journal");
    let mut slots: HashMap<usize, u64> = HashMap::new();
    for (tx, events) in (1..).zip(transactions) {
        let records = events.into_iter().map(|(number, event)| {
            let slot = slots.entry(number).and_modify(|slot| *slot += 1).or_insert(1);
            let (slot, seq) = (Slot(*slot), Seq(*slot - 1));
            let (tx, events) = (TxId::from_u128(tx), vec![event]);
            let record = Record::Committed { tx, slot, events, at: Timestamp(0), version: 1, overlap: None };
            NewRecord { entity: purse(number), expected: seq, kind: Kind(record.kind()), payload: record.encode() }
        });
        block_on(journal.append(records.collect())).expect("durable");
    }
    block_on(journal.close()).expect("closed");
}

/// What an audit in so many parts prints, line by line in some order.
fn printed(data: &std::path::Path, parts: u64) -> Vec<String> {
    let read =
        || Groups::of(&args::Records { data: data.to_owned(), journal: None, shard: 0, security: Default::default() });
    let lines = found(Store::of_one(0, Box::new(read)), Some(parts)).0;
    assert!(lines.iter().all(|line| !line.starts_with("shard")), "{lines:?}");
    lines
}

/// What an audit prints, line by line in some order, and how many transactions are in doubt.
fn found(mut store: Store<'_>, parts: Option<u64>) -> (Vec<String>, u64) {
    let survey = Survey::of(&mut store).expect("readable");
    let mut audit = Audit::new(&store, survey, model(), Findings::new(Vec::new(), false, store.all()));
    audit.parts = parts.unwrap_or(audit.parts);
    audit.run().expect("readable");
    let mut lines: Vec<String> = audit.findings.text().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    (lines, audit.audited.in_doubt)
}

#[test]
fn an_audit_in_parts_finds_what_one_in_a_whole_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut transactions: Vec<_> = (0..20).map(|number| vec![(number, fill(100))]).collect();
    for number in 0..20 {
        let other = (number + 1) % 20;
        let (give, get) = give(other, 5);
        transactions.push(match number {
            3 => vec![(number, give)],
            7 => vec![(number, give), (other, get), (12, call("Get", vec![("by", Value::Integer(1))]))],
            _ => vec![(number, give), (other, get)],
        });
    }
    let (theft, got) = give(1, 500);
    transactions.push(vec![(0, theft), (1, got)]);
    write(&data, transactions);
    let whole = printed(&data, 1);
    let found = ["Purse/p0 refuses Give", "Purse/p3.Give calls", "nobody calls Purse/p12.Get"];
    assert_eq!(whole.len(), found.len(), "{whole:?}");
    assert!(found.iter().all(|found| whole.iter().any(|line| line.contains(found))), "{whole:?}");
    for parts in [2, 3, 50] {
        assert_eq!(printed(&data, parts), whole, "in {parts} parts");
    }
}

/// The records of two shards: purses with even numbers are in the first one, the others in the second.
#[derive(Default)]
struct Two {
    shards: [Vec<Stored>; 2],
}

/// The gift of five coins of the first purse to the second one, in the places that the audit should name.
const GIFT: TxId = TxId::from_u128(100);

impl Two {
    /// Both purses are filled.
    fn new() -> Self {
        let mut two = Self::default();
        two.happen(0, 0, 1, TxId::from_u128(1), fill(100));
        two.happen(1, 1, 1, TxId::from_u128(2), fill(100));
        two
    }

    fn push(&mut self, shard: usize, entity: EntityKey, record: &Record<EventCall>) {
        let records = &mut self.shards[shard];
        let position = Position(records.len() as u64 + 1);
        let (kind, payload) = (Kind(record.kind()), record.encode());
        records.push(Stored { entity, seq: Seq(position.0), position, kind, payload });
    }

    fn happen(&mut self, shard: usize, number: usize, slot: u64, tx: TxId, event: EventCall) {
        let (slot, events) = (Slot(slot), vec![event]);
        let record = Record::Committed { tx, slot, events, at: Timestamp(0), version: 1, overlap: None };
        self.push(shard, purse(number), &record);
    }

    fn promise(&mut self, number: usize, slot: u64, event: EventCall) {
        let work = Work::of_events(vec![event]);
        let record = Record::Prepared(Box::new(Prepared {
            branch: Branch { tx: GIFT, attempt: Attempt::FIRST, work, at: Timestamp(0) },
            slot: Slot(slot),
            coordinator: EntityKey::new(".coordinator", "0").expect("a name"),
            answer: Answer { calls: Vec::new(), answers: Vec::new(), state: None, in_line: false },
            version: 1,
            durability: Durability::TwoPhase,
            overlap: None,
        }));
        self.push(number % 2, purse(number), &record);
    }

    fn learn(&mut self, number: usize, slot: u64, decision: Decision) {
        self.push(number % 2, purse(number), &Record::Outcome { tx: GIFT, slot: Slot(slot), decision });
    }

    /// The first purse gives, and its coordinator decides that this one gets, at that slot.
    fn decide(&mut self, number: usize, slot: u64) {
        self.happen(0, 0, 2, GIFT, give(1, 5).0);
        self.name(number, slot);
    }

    fn name(&mut self, number: usize, slot: u64) {
        let result = Ok(Done::default());
        let answer = AnswerRecord { tx: GIFT, at: Timestamp(0), idempotency: None, result };
        let participants = vec![(purse(number), Slot(slot))];
        let record = DecisionRecord { tx: GIFT, attempt: Attempt::FIRST, participants, answer };
        self.push(0, EntityKey::new(DECISIONS, "all").expect("a name"), &Record::Decision(Box::new(record)));
    }

    fn end(&mut self) {
        self.push(0, EntityKey::new(DECISIONS, "all").expect("a name"), &Record::End { tx: GIFT });
    }

    /// What an audit finds that has begun when the shards ended there.
    fn found(self, settled: [u64; 2]) -> (Vec<String>, u64) {
        found(
            Store::of_memory(self.shards.into(), &settled, |entity| {
                u16::from(entity.id().ends_with(['1', '3', '5', '7', '9']))
            }),
            None,
        )
    }
}

const ALL: [u64; 2] = [u64::MAX; 2];
/// Where both shards ended when their purses were filled.
const FILLED: [u64; 2] = [1, 1];

#[test]
fn what_is_wrong_between_shards_is_found_where_it_is() {
    type Row = (&'static str, fn(&mut Two), &'static [&'static str]);
    let (_, get) = give(1, 5);
    assert_eq!(get, call("Get", vec![("by", Value::Integer(5))]), "what the rows say");
    fn got(by: i64) -> EventCall {
        call("Get", vec![("by", Value::Integer(by))])
    }
    let rows: [Row; 15] = [
        (
            "whole",
            |two| {
                two.promise(1, 2, got(5));
                two.decide(1, 2);
                two.learn(1, 2, Decision::Commit);
                two.end();
            },
            &[],
        ),
        (
            "promised again",
            |two| {
                two.promise(1, 2, got(5));
                two.promise(1, 3, got(5));
                two.decide(1, 3);
                two.learn(1, 3, Decision::Commit);
            },
            &[],
        ),
        (
            "on its way",
            |two| {
                two.promise(1, 2, got(5));
                two.decide(1, 2);
            },
            &[],
        ),
        (
            "not decided",
            |two| {
                two.promise(1, 2, got(5));
                two.learn(1, 2, Decision::Commit);
            },
            &[
                "shard 1, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 3: Purse/p1 commits what no coordinator has decided to commit",
            ],
        ),
        (
            "not promised",
            |two| two.decide(1, 2),
            &[
                "shard 0, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 3: Purse/p1 has neither an effect nor a promise of what is decided to commit there",
            ],
        ),
        (
            "aborted",
            |two| {
                two.promise(1, 2, got(5));
                two.decide(1, 2);
                two.learn(1, 2, Decision::Abort);
            },
            &[
                "shard 1, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 3: Purse/p1 aborts what is decided to commit",
            ],
        ),
        (
            "acknowledged and open",
            |two| {
                two.promise(1, 2, got(5));
                two.decide(1, 2);
                two.end();
            },
            &[
                "shard 0, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 4: Purse/p1 has not committed what it has acknowledged to its coordinator",
            ],
        ),
        (
            "another slot",
            |two| {
                two.promise(1, 2, got(5));
                two.decide(1, 7);
                two.learn(1, 2, Decision::Commit);
            },
            &[
                "shard 1, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 3: Purse/p1 commits under another slot than the decision, which names 7",
            ],
        ),
        (
            "another participant",
            |two| {
                two.promise(1, 2, got(5));
                two.promise(3, 1, got(5));
                two.decide(3, 1);
                two.learn(1, 2, Decision::Commit);
            },
            &[
                "shard 1, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 4: Purse/p1 commits, and the decision does not name it",
                "shard 1, slot 1, transaction 00000000-0000-0000-0000-000000000064, record 3: Purse/p3 refuses Get",
            ],
        ),
        (
            "decided twice",
            |two| {
                two.promise(1, 2, got(5));
                two.decide(1, 2);
                two.name(1, 2);
                two.learn(1, 2, Decision::Commit);
            },
            &[
                "shard 0, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 4: Purse/p1 is named by a second decision on the transaction",
            ],
        ),
        (
            "another amount",
            |two| {
                two.promise(1, 2, got(6));
                two.decide(1, 2);
                two.learn(1, 2, Decision::Commit);
            },
            &[
                "shard 1, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 3: Purse/p0.Give calls Purse/p1.Get(by: 5), and Get(by: 6) has happened",
            ],
        ),
        (
            "only given",
            |two| two.happen(0, 0, 2, GIFT, give(1, 5).0),
            &[
                "shard 0, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 2: Purse/p0.Give calls Purse/p1.Get(by: 5), which has not happened",
            ],
        ),
        (
            "only got",
            |two| {
                two.promise(1, 2, got(5));
                two.name(1, 2);
                two.learn(1, 2, Decision::Commit);
            },
            &[
                "shard 1, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 3: nobody calls Purse/p1.Get(by: 5)",
            ],
        ),
        (
            "misplaced",
            |two| two.happen(1, 4, 1, GIFT, fill(7)),
            &["shard 1, slot 1, record 2: Purse/p4 belongs to shard 0"],
        ),
        (
            "refused",
            |two| two.happen(1, 1, 2, GIFT, give(3, 500).0),
            &[
                "shard 1, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 2: Purse/p1 refuses Give",
                "shard 1, slot 2, transaction 00000000-0000-0000-0000-000000000064, record 2: Purse/p1.Give calls Purse/p3.Get(by: 500), which has not happened",
            ],
        ),
    ];
    for (name, go_wrong, expected) in rows {
        let mut two = Two::new();
        go_wrong(&mut two);
        let (lines, in_doubt) = two.found(ALL);
        assert_eq!((lines.len(), in_doubt), (expected.len(), 0), "{name}: {lines:#?}");
        for expected in expected {
            assert!(lines.iter().any(|line| line.starts_with(expected)), "{name}: {lines:#?}");
        }
    }
}

#[test]
fn what_is_promised_and_not_decided_is_in_doubt() {
    let mut two = Two::new();
    two.promise(1, 2, give(1, 5).1);
    assert_eq!(two.found(ALL), (Vec::new(), 1));
    let mut two = Two::new();
    two.promise(1, 2, give(1, 5).1);
    two.learn(1, 2, Decision::Abort);
    assert_eq!(two.found(ALL), (Vec::new(), 0));
}

/// The promise, the decision or the outcomes of other shards may stand behind where these are read.
#[test]
fn what_was_written_when_the_audit_had_begun_demands_nothing_of_other_shards() {
    type GoWrong = fn(&mut Two);
    let rows: [(&str, GoWrong); 3] = [
        ("decided", |two| two.decide(1, 2)),
        ("committed", |two| {
            two.promise(1, 2, give(1, 5).1);
            two.learn(1, 2, Decision::Commit);
        }),
        ("ended", |two| {
            two.promise(1, 2, give(1, 5).1);
            two.decide(1, 2);
            two.end();
        }),
    ];
    for (name, go_wrong) in rows {
        let (mut before, mut after) = (Two::new(), Two::new());
        go_wrong(&mut before);
        go_wrong(&mut after);
        assert_eq!(after.found(FILLED).0, Vec::<String>::new(), "{name}");
        assert_eq!(before.found(ALL).0.len(), 1, "{name}");
    }
}
