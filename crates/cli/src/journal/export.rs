//! `enact journal export`: the events of a journal as lines of JSON, in the order in which they were committed.

use std::collections::HashMap;
use std::io::{self, BufWriter, ErrorKind, Write};

use enact_entities::{Action, Decision, Erasure, Prepared, Record, Slot, Snapshot, Timestamp, Tombstone, TxId};
use enact_journal::{EntityKey, Group, Position, Record as Stored};
use enact_rebel::{Caller, EventCall, Instance, Name};
use enact_server::to_json;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::groups::Groups;
use super::tally::{decode, shown};
use crate::contract;
use crate::failure::Failure;

/// An event that has happened.
#[derive(Serialize)]
struct Line<'a> {
    /// That of the record that says so; several events of one entity in one transaction have the same.
    position: Position,
    transaction: String,
    at: String,
    class: &'a str,
    id: &'a str,
    /// The place of the transaction in the history of the entity.
    /// An erasure has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<Slot>,
    #[serde(flatten)]
    what: What<'a>,
    /// Of the contract; an erasure is under none.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a Name>,
}

/// What a line says of an instance.
#[derive(Serialize)]
#[serde(untagged)]
enum What<'a> {
    Event {
        event: &'a Name,
        arguments: Map<String, Json>,
    },
    /// It is in this final state, and events before may not be in the journal any more.
    Tombstone {
        tombstone: Ended,
    },
    /// Its personal values were erased, here and wherever else they are.
    Erasure {
        erasure: bool,
    },
}

#[derive(Serialize)]
struct Ended {
    state: String,
    fields: Map<String, Json>,
}

/// Prints the events of `groups`.
pub(super) fn run(mut groups: Groups) -> Result<(), Failure> {
    let out = BufWriter::new(io::stdout().lock());
    let mut export = Export { out, promised: HashMap::new() };
    let done = groups.try_for_each(|group| export.group(&group?));
    match done.and_then(|()| export.out.flush().map_err(Failure::Output)) {
        // The reader of the lines has seen enough.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

struct Export<W> {
    out: W,
    /// What entities have promised to do if a coordinator elsewhere commits it.
    promised: HashMap<(EntityKey, Slot), Prepared<EventCall>>,
}

/// What the events of a record have in common.
#[derive(Clone, Copy)]
struct Commit {
    position: Position,
    tx: TxId,
    slot: Slot,
    at: Timestamp,
    version: u32,
}

impl<W: Write> Export<W> {
    fn group(&mut self, group: &Group) -> Result<(), Failure> {
        group.records().iter().filter(|record| record.kind != contract::KIND).try_for_each(|record| self.record(record))
    }

    fn record(&mut self, record: &Stored) -> Result<(), Failure> {
        let Stored { entity, position, .. } = record;
        match decode(record)? {
            Record::Committed { tx, slot, events, at, version, .. } => {
                self.promised.remove(&(entity.clone(), slot));
                self.events(entity, Commit { position: *position, tx, slot, at, version }, &events)
            }
            Record::Prepared(prepared) => {
                self.promised.insert((entity.clone(), prepared.slot), *prepared);
                Ok(())
            }
            Record::Outcome { tx, slot, decision } => match self.promised.remove(&(entity.clone(), slot)) {
                Some(Prepared { branch, version, .. }) if decision == Decision::Commit => {
                    let events = branch.work.actions.into_iter().filter_map(|action| match action {
                        Action::Event(call) => Some(call),
                        Action::Condition(_) | Action::Ask(_) => None,
                    });
                    let commit = Commit { position: *position, tx, slot, at: branch.at, version };
                    self.events(entity, commit, &events.collect::<Vec<_>>())
                }
                _ => Ok(()),
            },
            Record::Tombstone(tombstone) => {
                let snapshot: Snapshot<Instance, EventCall> = tombstone
                    .snapshot()
                    .map_err(|source| Failure::Record { position: *position, entity: entity.clone(), source })?;
                let state = snapshot.base.state().to_string();
                let fields = snapshot.base.fields().iter();
                let fields = fields.map(|(name, value)| (name.to_string(), to_json(value))).collect();
                let Tombstone { tx, slot, at, version, .. } = *tombstone;
                let commit = Commit { position: *position, tx, slot, at, version };
                self.line(entity, commit, What::Tombstone { tombstone: Ended { state, fields } }, None)
            }
            Record::Erased(erasure) => {
                let Erasure { tx, subject, at, by, .. } = *erasure;
                let commit = Commit { position: *position, tx, slot: Slot(record.seq.0), at, version: 0 };
                let by = by.map(Name::from);
                self.line(&subject, commit, What::Erasure { erasure: true }, by.as_ref())
            }
            Record::Decision(_)
            | Record::Answer(_)
            | Record::End { .. }
            | Record::Timer { .. }
            | Record::Barrier
            | Record::Swept { .. } => Ok(()),
        }
    }

    fn events(&mut self, entity: &EntityKey, commit: Commit, events: &[EventCall]) -> Result<(), Failure> {
        // A note says that a timed event was refused: nothing has happened.
        for event in events.iter().filter(|event| !event.is_note()) {
            let arguments = event.arguments().iter().map(|(name, value)| (name.to_string(), to_json(value))).collect();
            let what = What::Event { event: event.event(), arguments };
            self.line(entity, commit, what, event.caller().map(Caller::id))?;
        }
        Ok(())
    }

    fn line(
        &mut self,
        entity: &EntityKey,
        commit: Commit,
        what: What<'_>,
        caller: Option<&Name>,
    ) -> Result<(), Failure> {
        let Commit { position, tx, slot, at, version } = commit;
        let is_erasure = matches!(what, What::Erasure { .. });
        let (slot, version) = ((!is_erasure).then_some(slot), (!is_erasure).then_some(version));
        let line = Line {
            position,
            transaction: tx.to_string(),
            at: shown(at).to_string(),
            class: entity.class(),
            id: entity.id(),
            slot,
            what,
            version,
            caller,
        };
        serde_json::to_writer(&mut self.out, &line).map_err(|error| Failure::Output(error.into()))?;
        self.out.write_all(b"\n").map_err(Failure::Output)
    }
}

#[cfg(test)]
mod tests {
    use enact_entities::{Answer, Attempt, Branch, Durability, Work};
    use enact_journal::{Kind, Seq};
    use serde_json::json;

    use super::*;

    fn call(event: &str, timer: Json) -> EventCall {
        let mut call = json!({ "event": event, "arguments": {} });
        if !timer.is_null() {
            call["timer"] = timer;
        }
        serde_json::from_value(call).expect("a call")
    }

    fn export(records: &[Record<EventCall>]) -> Vec<(u64, String)> {
        let entity = EntityKey::new("Lamp", "l1").expect("a name");
        let stored = (1..).zip(records).map(|(n, record)| Stored {
            entity: entity.clone(),
            seq: Seq(n),
            position: Position(n),
            kind: Kind(record.kind()),
            payload: record.encode(),
        });
        let mut export = Export { out: Vec::new(), promised: HashMap::new() };
        export.group(&Group::of(stored.collect())).expect("readable");
        let text = String::from_utf8(export.out).expect("text");
        let lines = text.lines().map(|line| {
            let line: Json = serde_json::from_str(line).expect("JSON");
            (line["position"].as_u64().expect("a number"), line["event"].as_str().expect("a name").to_owned())
        });
        lines.collect()
    }

    fn prepared(slot: u64, event: &str) -> Record<EventCall> {
        let work = Work::of([Action::Event(call(event, Json::Null))]);
        let branch = Branch { tx: TxId::from_u128(slot.into()), attempt: Attempt::FIRST, work, at: Timestamp(7) };
        Record::Prepared(Box::new(Prepared {
            branch,
            slot: Slot(slot),
            coordinator: EntityKey::new("Coordinator", "c").expect("a name"),
            answer: Answer { calls: Vec::new(), answers: Vec::new(), state: None, in_line: false },
            version: 1,
            durability: Durability::TwoPhase,
            overlap: None,
        }))
    }

    fn outcome(slot: u64, decision: Decision) -> Record<EventCall> {
        Record::Outcome { tx: TxId::from_u128(slot.into()), slot: Slot(slot), decision }
    }

    #[test]
    fn a_promise_is_exported_where_its_commit_is_known_and_an_aborted_one_is_not() {
        let exported = export(&[
            prepared(1, "Light"),
            prepared(2, "Dim"),
            prepared(3, "Break"),
            outcome(2, Decision::Commit),
            outcome(3, Decision::Abort),
            outcome(1, Decision::Commit),
        ]);
        assert_eq!(exported, [(4, "Dim".to_owned()), (6, "Light".to_owned())]);
    }

    #[test]
    fn a_timed_event_that_was_refused_is_not_exported() {
        let timer = |refused: bool| json!({ "due": "2026-11-21T09:30:00.000Z", "refused": refused });
        let committed = |n: u64, call| Record::Committed {
            tx: TxId::from_u128(n.into()),
            slot: Slot(n),
            events: vec![call],
            at: Timestamp(7),
            version: 1,
            overlap: None,
        };
        let exported = export(&[committed(1, call("Expire", timer(true))), committed(2, call("Expire", timer(false)))]);
        assert_eq!(exported, [(2, "Expire".to_owned())]);
    }
}
