//! Recovery over several versions of a contract.

use std::sync::Arc;
use std::time::Duration;

use enact_entities::{
    Admission, Answer, Attempt, Branch, Durability, Engine, EngineOptions, EntityKey, HistoryPart, Millis, Model,
    Participant, ParticipantOptions, Prepared, Rebel, Record, RecoveryError, Slot, Snapshot, Strategy, Timestamp, TxId,
    Work,
};
use enact_journal::{Journal, Kind, Memory, NewRecord, Seq};
use enact_rebel::{EventCall, Instance, Source, Spec, Value, check};

use crate::support::chance::{Chance, for_seeds};

/// The versions of a tank: the second measures in another unit, the third forgets how often it was filled and has the
/// event do something else.
const TANK: [&str; 3] = [
    "class Tank
  litres: Integer = 0
  fills: Integer = 0
  initial built
    on Fill(by: Integer): used
      post: this.litres += by, this.fills += 1
  used
    on Fill(by: Integer): used
      post: this.litres += by, this.fills += 1
    on Drain(): empty
      post: this.litres = 0
  empty
    on Fill(by: Integer): used
      post: this.litres += by, this.fills += 1
",
    "module tank version 2
class Tank
  decilitres: Integer
  fills: Integer = 0
  initial built
    on Fill(by: Integer): used
      post: this.decilitres = by, this.fills += 1
  used
    on Fill(by: Integer): used
      post: this.decilitres += by, this.fills += 1
    on Drain(): drained
      post: this.decilitres = 0
  drained
    on Fill(by: Integer): used
      post: this.decilitres += by, this.fills += 1
migrate from 1
  drop Tank.litres
  Tank.decilitres = litres * 10
  state Tank.empty -> drained
",
    "module tank version 3
class Tank
  decilitres: Integer
  initial built
    on Fill(by: Integer): used
      post: this.decilitres = by * 2
  used, drained
    on Fill(by: Integer): used
      post: this.decilitres += by * 2
    on Drain(): drained
      post: this.decilitres = 0
migrate from 2
  drop Tank.fills
",
];

fn spec(version: usize) -> Arc<Spec> {
    let sources = vec![Source::new("tank.rebel", TANK[version - 1])];
    Arc::new(check(sources).unwrap_or_else(|report| panic!("{report}")))
}

/// The model of a version, which knows those before it.
fn model(version: usize) -> Rebel {
    if version == 1 {
        return Rebel::new(spec(1));
    }
    let (earlier, spec) = (model(version - 1), spec(version));
    let migration = spec.migration(earlier.spec()).unwrap_or_else(|report| panic!("{report}"));
    Rebel::after(earlier, migration, spec)
}

fn tank() -> EntityKey {
    EntityKey::new("Tank", "t").expect("a key")
}

fn event(version: usize, name: &str, by: Option<i64>) -> EventCall {
    let spec = spec(version);
    let event = spec.class("Tank").expect("the class").event(name).expect("the event");
    event.call(by.map(|by| ("by", Value::Integer(by)))).expect("they fit")
}

fn committed(slot: u64, event: EventCall, version: u32) -> Record<EventCall> {
    Record::Committed {
        tx: TxId::from_u128(slot.into()),
        slot: Slot(slot),
        events: vec![event],
        at: Timestamp(0),
        version,
        overlap: None,
    }
}

type Recovered = Result<Snapshot<Instance, EventCall>, RecoveryError>;

fn recover(
    version: usize,
    snapshot: Option<Snapshot<Instance, EventCall>>,
    records: Vec<Record<EventCall>>,
) -> Recovered {
    let options = ParticipantOptions::new(Strategy::Serializable);
    let recovered = Participant::recover(Arc::new(model(version)), tank(), options, snapshot, records, Millis(0));
    recovered.map(|(participant, _)| participant.snapshot())
}

fn shown(recovered: &Recovered) -> String {
    let Snapshot { base, version, .. } = recovered.as_ref().expect("it recovers");
    format!("{} under {version}", in_words(base))
}

fn in_words(tank: &Instance) -> String {
    let fields: Vec<String> = tank.fields().iter().map(|(name, value)| format!("{name} {value}")).collect();
    format!("{} {}", tank.state(), fields.join(" "))
}

#[test]
fn each_event_happens_again_under_the_version_that_it_was_written_under() {
    let fill = |slot, by, version: u32| committed(slot, event(version as usize, "Fill", Some(by)), version);
    let log = vec![fill(1, 3, 1), fill(2, 5, 2), fill(3, 7, 3)];
    let shared = |version, log: &[Record<EventCall>]| shown(&recover(version, None, log.to_vec()));
    assert_eq!(shared(1, &log[..1]), "used fills 1 litres 3 under 1");
    assert_eq!(shared(2, &log[..1]), "used decilitres 30 fills 1 under 2");
    assert_eq!(shared(2, &log[..2]), "used decilitres 35 fills 2 under 2");
    assert_eq!(shared(3, &log[..2]), "used decilitres 35 under 3");
    assert_eq!(shared(3, &log), "used decilitres 49 under 3");
    // Records may stand in another order than their slots.
    let mixed = [log[2].clone(), log[0].clone(), log[1].clone()];
    assert_eq!(shared(3, &mixed), "used decilitres 49 under 3");
    // One that was created under a later version has never been under an earlier one.
    assert_eq!(shared(3, &[fill(1, 4, 2)]), "used decilitres 4 under 3");
    assert_eq!(shared(3, &[]), "built  under 3");
}

#[test]
fn a_state_may_have_another_name_in_each_version() {
    let log = vec![committed(1, event(1, "Fill", Some(3)), 1), committed(2, event(1, "Drain", None), 1)];
    assert_eq!(shown(&recover(3, None, log)), "drained decilitres 0 under 3");
}

#[test]
fn a_snapshot_has_the_version_that_it_was_taken_under() {
    let log = vec![committed(1, event(1, "Fill", Some(3)), 1)];
    let first = recover(1, None, log.clone()).expect("it recovers");
    let second = recover(2, Some(first.clone()), log).expect("it recovers");
    assert_eq!((first.version, second.version), (1, 2));
    let later = vec![committed(2, event(2, "Fill", Some(5)), 2)];
    for snapshot in [first, second] {
        let decoded = Snapshot::decode(&snapshot.encode()).expect("what was written");
        assert_eq!(decoded, snapshot);
        let recovered = recover(3, Some(decoded), later.clone());
        assert_eq!(shown(&recovered), "used decilitres 35 under 3");
    }
}

#[test]
fn what_was_written_under_a_version_that_is_not_known_is_refused() {
    let unknown = RecoveryError::NoSuchVersion { entity: tank(), version: 3 };
    let log = vec![committed(1, event(3, "Fill", Some(3)), 3)];
    assert_eq!(recover(2, None, log.clone()), Err(unknown.clone()));
    let snapshot = recover(3, None, log).expect("it recovers");
    assert_eq!(recover(2, Some(snapshot.clone()), Vec::new()), Err(unknown.clone()));
    // Nor does anything go back to an earlier one.
    let back = vec![committed(2, event(2, "Fill", Some(3)), 2)];
    assert_eq!(recover(3, Some(snapshot), back), Err(unknown));
}

#[test]
fn what_is_in_doubt_under_an_earlier_version_is_decided_there_first() {
    let prepared = |version, durability| {
        let branch = Branch {
            tx: TxId::from_u128(9),
            attempt: Attempt::FIRST,
            work: Work::event(event(1, "Fill", Some(1))),
            at: Timestamp(0),
        };
        let answer = Answer { calls: vec![vec![]], answers: vec![], state: Some("used".into()), in_line: false };
        let coordinator = EntityKey::new("Coordinator", "c").expect("a key");
        let slot = Slot(2);
        Record::Prepared(Box::new(Prepared { branch, slot, coordinator, answer, version, durability, overlap: None }))
    };
    let log = |version| vec![committed(1, event(1, "Fill", Some(3)), 1), prepared(version, Durability::TwoPhase)];
    let expected = RecoveryError::InDoubtUnderEarlier { entity: tank(), tx: TxId::from_u128(9), version: 1 };
    assert_eq!(recover(2, None, log(1)), Err(expected));
    assert!(recover(1, None, log(1)).is_ok());
    assert!(recover(2, None, log(2)).is_ok());
    // Without a decision nothing is left of what its coordinator would have written.
    let first = recover(1, None, log(1)).expect("it recovers");
    let mut open = first.clone();
    open.pending[0].prepared.durability = Durability::Shared;
    assert_eq!(first.pending.len(), 1);
    assert_eq!(recover(1, Some(open.clone()), Vec::new()).expect("it recovers").pending, []);
    assert_eq!(shown(&recover(2, Some(open), Vec::new())), "used decilitres 30 fills 1 under 2");
}

#[test]
fn replay_after_an_adoption_is_the_state_before_it_migrated() {
    let models = [model(1), model(2), model(3)];
    let mut changed = 0;
    for_seeds("replay_after_an_adoption_is_the_state_before_it_migrated", 500, |seed| {
        let mut chance = Chance::new(seed);
        let (mut log, mut state) = (Vec::new(), None::<Instance>);
        let mut version = 1;
        for slot in 1..=chance.below(12) as u64 {
            let later = (version + chance.below(5) / 3).min(3);
            if later > version {
                let migrated = state.map(|state| {
                    let from = u32::try_from(version).expect("small");
                    models[later - 1].migrated(&tank(), state, from).expect("it has a counterpart")
                });
                changed += usize::from(migrated.is_some());
                (state, version) = (migrated, later);
            }
            let name = *chance.pick(&["Fill", "Fill", "Drain"]);
            let event = event(version, name, (name == "Fill").then(|| chance.below(9) as i64));
            let before = state.clone().or_else(|| models[version - 1].initial(&tank())).expect("the class");
            if let Ok(next) = models[version - 1].next(&tank(), &before, &event, Timestamp(0)) {
                log.push(committed(slot, event, u32::try_from(version).expect("small")));
                state = Some(next);
            }
        }
        let recovered = recover(version, None, log).expect("it recovers");
        let state = state.or_else(|| models[version - 1].initial(&tank()));
        assert_eq!(Some(recovered.base), state, "seed {seed}");
    });
    assert!(changed > 100, "{changed}");
}

#[test]
fn a_migrated_instance_takes_events_at_once() {
    let log = vec![committed(1, event(1, "Fill", Some(3)), 1)];
    let snapshot = recover(2, None, log).expect("it recovers");
    let model = Arc::new(model(2));
    let account = Admission::new(
        Arc::clone(&model),
        tank(),
        snapshot.base,
        snapshot.next_slot,
        Strategy::Serializable,
        enact_entities::Limits::default(),
    );
    assert_eq!(account.next_slot(), Slot(2));
    assert!(model.next(&tank(), account.base(), &event(2, "Fill", Some(1)), Timestamp(0)).is_ok());
}

#[tokio::test]
async fn a_history_shows_each_transaction_under_the_version_that_it_happened_under() {
    let journal = Memory::new();
    let log = [(1, "Fill", Some(3), 1), (2, "Fill", Some(4), 2), (3, "Fill", Some(5), 3)];
    for (slot, name, by, version) in log {
        let record = committed(slot, event(version as usize, name, by), version);
        let (kind, payload) = (Kind(record.kind()), record.encode());
        let record = NewRecord { entity: tank(), expected: Seq(slot - 1), kind, payload };
        journal.append(vec![record]).await.expect("nothing refuses it");
    }
    let engine = Engine::new(model(3), journal, EngineOptions::default());
    let whole = HistoryPart::Page { after: None, limit: 10 };
    let history = engine.history(&tank(), whole, Duration::from_secs(60)).await.expect("it can be read");
    let found: Vec<_> = history.transactions.iter().map(|past| (past.version, in_words(&past.state))).collect();
    let under_its_own = |&(slot, _, _, version): &(u64, &str, Option<i64>, u32)| {
        let before = log.iter().take(slot as usize);
        let records =
            before.map(|&(slot, name, by, version)| committed(slot, event(version as usize, name, by), version));
        (version, in_words(&recover(version as usize, None, records.collect()).expect("it recovers").base))
    };
    assert_eq!(found, log.iter().map(under_its_own).collect::<Vec<_>>());
}
