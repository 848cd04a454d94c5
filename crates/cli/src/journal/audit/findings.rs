//! What an audit finds, as lines.

use std::io::Write;

use enact_entities::{
    Acted, Action, Contradiction, Disagreement, DisagreementKind, EntityKey, Judged, Miscall, RecoveryError, Slot,
    Timestamp, TxId,
};
use enact_journal::Position;
use enact_rebel::{EventCall, Instance};
use serde::Serialize;

use super::store::At;
use crate::failure::Failure;
use crate::journal::tally::shown;

/// Where something has happened at an entity.
#[derive(Clone, Copy)]
pub(super) struct Place {
    position: At,
    tx: TxId,
    slot: Slot,
    at: Timestamp,
    pub(super) version: u32,
}

impl Place {
    pub(super) fn of<S, E>(judged: &Judged<'_, S, E, At>) -> Self {
        let Judged { position, tx, slot, at, version, .. } = *judged;
        Self { position, tx, slot, at, version }
    }
}

/// A finding.
#[derive(Serialize)]
struct Line<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<u16>,
    /// Of the record.
    position: Position,
    class: &'a str,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<Slot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    text: String,
}

/// Prints findings and counts them.
pub(super) struct Findings<W> {
    out: W,
    json: bool,
    /// How many shards there are, if these are all.
    shards: Option<usize>,
    count: u64,
}

impl<W: Write> Findings<W> {
    pub(super) fn new(out: W, json: bool, shards: Option<usize>) -> Self {
        Self { out, json, shards, count: 0 }
    }

    /// What the specification refuses of a transaction.
    pub(super) fn refused(
        &mut self,
        entity: &EntityKey,
        judged: &Judged<'_, Instance, EventCall, At>,
    ) -> Result<(), Failure> {
        let place = Place::of(judged);
        for (number, refusal) in (1..).zip(&judged.refusals) {
            let mut text = refusal.to_string();
            if number == judged.refusals.len() {
                text += &format!("; it leaves {}", left(judged.before, judged.after));
            }
            self.at("refused", entity, place, text)?;
        }
        Ok(())
    }

    /// A transaction that cannot be judged.
    pub(super) fn unjudged(
        &mut self,
        entity: &EntityKey,
        (position, tx, slot): (At, TxId, Slot),
        why: &RecoveryError,
    ) -> Result<(), Failure> {
        let text = match why {
            RecoveryError::NoSuchEntity { entity } => format!("there can be no {entity}"),
            RecoveryError::NoSuchVersion { entity, version } => {
                format!("{entity} is not of version {version} of the specification, or that is not known")
            }
            RecoveryError::NotMigrated { entity, from, reasons } => {
                let reasons: Vec<_> = reasons.iter().map(ToString::to_string).collect();
                format!(
                    "{entity} cannot be taken over from version {from}, and is not judged any more: {}",
                    reasons.join("; ")
                )
            }
            other => other.to_string(),
        };
        self.say(Line::of("unjudged", entity, position, Some(slot), Some(tx), text))
    }

    /// A record that cannot follow on those before it.
    pub(super) fn contradicted(
        &mut self,
        entity: &EntityKey,
        (position, tx, slot): (At, Option<TxId>, Option<Slot>),
        why: Contradiction,
    ) -> Result<(), Failure> {
        self.say(Line::of("contradicted", entity, position, slot, tx, format!("{entity}: the record {why}")))
    }

    /// An entity that lies in another shard than `home`, with the first record of it there.
    pub(super) fn misplaced(
        &mut self,
        entity: &EntityKey,
        first: At,
        slot: Option<Slot>,
        home: u16,
    ) -> Result<(), Failure> {
        self.say(Line::of("misplaced", entity, first, slot, None, format!("{entity} belongs to shard {home}")))
    }

    /// What a participant in another shard holds of a transaction, and its decision does not say.
    pub(super) fn disagrees(&mut self, tx: TxId, found: &Disagreement<At>) -> Result<(), Failure> {
        let Disagreement { position, entity, slot, kind } = found;
        let name = match kind {
            DisagreementKind::Lost | DisagreementKind::Aborted | DisagreementKind::Unapplied => "lost",
            _ => "undecided",
        };
        self.say(Line::of(name, entity, *position, Some(*slot), Some(tx), format!("{entity} {kind}")))
    }

    /// What is wrong with the calls of a transaction with these `events`, each in its place.
    pub(super) fn miscalled(
        &mut self,
        places: &[Place],
        events: &[(EntityKey, Acted<EventCall>)],
        miscall: &Miscall<EventCall>,
    ) -> Result<(), Failure> {
        let called = |action: &Action<EventCall>| match action {
            Action::Event(event) => event.to_string(),
            Action::Condition(_) | Action::Ask(_) => String::new(),
        };
        let name = |of: usize| format!("{}.{}", events[of].0, events[of].1.event.event());
        let (kind, of, text) = match miscall {
            Miscall::Missing { caller, call } => {
                let text =
                    format!("{} calls {}.{}, which has not happened", name(*caller), call.key, called(&call.action));
                ("missing", *caller, text)
            }
            Miscall::Different { caller, call, happened } => {
                let has = &events[*happened].1.event;
                let called = called(&call.action);
                let text = format!("{} calls {}.{called}, and {has} has happened", name(*caller), call.key);
                ("different", *happened, text)
            }
            Miscall::Uncalled { event } => {
                let (entity, acted) = &events[*event];
                ("uncalled", *event, format!("nobody calls {entity}.{}", acted.event))
            }
            _ => return Ok(()),
        };
        self.at(kind, &events[of].0, places[of], text)
    }

    fn at(&mut self, kind: &'static str, entity: &EntityKey, place: Place, text: String) -> Result<(), Failure> {
        let Place { position, tx, slot, at, version } = place;
        let line = Line::of(kind, entity, position, Some(slot), Some(tx), text);
        self.say(Line { at: Some(shown(at).to_string()), version: Some(version), ..line })
    }

    fn say(&mut self, line: Line<'_>) -> Result<(), Failure> {
        self.count += 1;
        let shard = line.shard.filter(|_| self.shards.is_some());
        let line = Line { shard, ..line };
        let text = if self.json {
            serde_json::to_string(&line).expect("numbers and texts serialise")
        } else {
            let shard = line.shard.map_or_else(String::new, |shard| format!("shard {shard}, "));
            let slot = line.slot.map_or_else(String::new, |slot| format!("slot {slot}, "));
            let tx = line.transaction.map_or_else(String::new, |tx| format!("transaction {tx}, "));
            format!("{shard}{slot}{tx}record {}: {}", line.position, line.text)
        };
        self.print(&text)
    }

    fn print(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(Failure::Output)
    }

    /// Prints how much was audited, and fails if something was found.
    pub(super) fn sum_up(&mut self, audited: &Audited) -> Result<(), Failure> {
        let Audited { entities, transactions, waiting, elsewhere, begun, discarded, in_doubt, overlooked } = audited;
        if !self.json {
            let state = if self.count == 0 { "clean" } else { "audited" };
            let shards = self.shards.map_or_else(String::new, |count| format!("shards {count}, "));
            self.print(&format!("{state}: {shards}entities {entities}, transactions {transactions}"))?;
            for (count, text) in [
                (waiting, "not judged: transactions that wait for others that are not decided:"),
                (elsewhere, "calls not compared: transactions with parts in other journals:"),
                (begun, "calls not compared: transactions that were decided when the audit had begun:"),
                (discarded, "calls not compared: transactions of which something was discarded:"),
                (in_doubt, "in doubt: transactions that are promised and not decided:"),
                (overlooked, "not looked at: more transactions whose calls do not add up:"),
            ] {
                if *count > 0 {
                    self.print(&format!("{text} {count}"))?;
                }
            }
        }
        match self.count + overlooked {
            0 => Ok(()),
            findings => Err(Failure::NotAllowed { findings }),
        }
    }
}

/// How much was audited.
#[derive(Default)]
pub(super) struct Audited {
    pub(super) entities: u64,
    pub(super) transactions: u64,
    /// Committed, and not judged because of something undecided.
    pub(super) waiting: u64,
    /// Of which parts are in other journals.
    pub(super) elsewhere: u64,
    /// Of which not all may have been read, as they were decided meanwhile.
    pub(super) begun: u64,
    /// Of which something may have been discarded.
    pub(super) discarded: u64,
    /// Promised, and not decided.
    pub(super) in_doubt: u64,
    /// Whose calls do not add up, and that were too many to be looked at.
    pub(super) overlooked: u64,
}

impl<'a> Line<'a> {
    fn of(
        kind: &'static str,
        entity: &'a EntityKey,
        At { shard, position }: At,
        slot: Option<Slot>,
        tx: Option<TxId>,
        text: String,
    ) -> Self {
        let transaction = tx.map(|tx| tx.to_string());
        Self {
            kind,
            shard: Some(shard),
            position,
            class: entity.class(),
            id: entity.id(),
            slot,
            transaction,
            at: None,
            version: None,
            text,
        }
    }
}

/// What has changed, by name.
fn left(before: &Instance, after: &Instance) -> String {
    let state = (before.state() != after.state()).then(|| format!("state {}", after.state()));
    let changed = after.fields().iter().filter(|(name, value)| before.fields().get(name) != Some(value));
    let changed = changed.map(|(name, value)| format!("{name} = {value}"));
    let all: Vec<String> = state.into_iter().chain(changed).collect();
    if all.is_empty() { "it as it is".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
impl Findings<Vec<u8>> {
    /// What was printed.
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("lines of text")
    }
}
