//! `enact audit`: everything in a journal that a specification does not allow.
//!
//! # Passes
//! A journal may be larger than the memory, and has the records of an entity anywhere. So it is read several times:
//! * once for the contracts that are recorded in it, for its end, and for its size;
//! * once for each part of the entities, as many as it takes for the records of one part to fit into [`PART_BYTES`]: their events
//!   are judged ([`enact_entities::audit`]), and what they call is added to an account of each transaction;
//! * once more for the events that began the transactions, which is all that is left of an account that adds up;
//! * and, if some do not, for these once more by parts, to tell what is wrong ([`enact_entities::miscalls`]).
//!
//! # Accounts
//! The account of a transaction is the sum of a hash of each event that has happened, less that of each event that was called. All but
//! the first one are called, so the first one is left. Hashes have a random key, so that nobody can choose events by them.
//! A transaction has no account if not all of it is in this journal, or something of it could not be judged.

mod findings;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::sync::Arc;

use enact_entities::{
    Acted, Action, Audited as Part, Contradiction, Durability, EntityKey, Model, Rebel, Record, Slot, TxId, audit,
    miscalls,
};
use enact_journal::{Kind, Position, Record as Stored};
use enact_rebel::EventCall;

use self::findings::{Audited, Findings, Place};
use super::groups::Groups;
use super::tally::decode;
use crate::contract::{self, ContractError};
use crate::failure::Failure;
use crate::{args, spec};

/// How many bytes of memory the records of one part may take, unless they are those of one entity.
const PART_BYTES: u64 = 256 << 20;
/// How many transactions are looked at closely whose calls do not add up.
const UNBALANCED_MAX: usize = 10_000;
/// The kind of the records in which coordinators name the participants that have records of their own.
const DECISION: Kind = Kind(4);

pub(crate) fn run(args: &args::Audit) -> Result<(), Failure> {
    let sources = spec::read(&args.spec.files)?;
    let spec = Arc::new(spec::check(sources)?);
    let journal = || match &args.backup {
        Some(file) => Groups::of_backup(file),
        None => Groups::of(&args.records),
    };
    let survey = Survey::of(journal()?)?;
    let of_contract = |source: ContractError| Failure::Audit { place: args.place(), source };
    let model = contract::of_audit(&survey.contracts, spec).map_err(of_contract)?;
    let mut audit = Audit::new(&journal, survey, model, Findings::new(io::stdout().lock(), args.json));
    audit.run()?;
    audit.tell()
}

/// What is known of a journal before it is audited.
struct Survey {
    contracts: Vec<Stored>,
    /// Of the records of entities.
    bytes: u64,
    /// The last record: a server may write on.
    end: Position,
    /// Transactions with parts in other journals.
    spread: Vec<TxId>,
}

impl Survey {
    fn of(groups: Groups) -> Result<Self, Failure> {
        let mut survey = Self { contracts: Vec::new(), bytes: 0, end: Position::START, spread: Vec::new() };
        for group in groups {
            for record in group? {
                survey.end = record.position;
                if contract::is_of_contract(&record.entity) {
                    survey.contracts.push(record);
                } else if !contract::is_internal(&record.entity) {
                    survey.bytes += (ENTRY_BYTES + record.payload.len()) as u64;
                } else if record.kind == DECISION
                    && let Record::Decision(decision) = decode(&record)?
                    && !decision.participants.is_empty()
                {
                    survey.spread.push(decision.tx);
                }
            }
        }
        Ok(survey)
    }
}

/// A record of an entity, as it is kept until it is judged.
struct Entry {
    slot: Option<Slot>,
    position: Position,
    payload: Box<[u8]>,
}

/// About how many bytes are kept of a record, beside its payload: it may be the only one of its entity, with a key and a place among
/// all entities.
const ENTRY_BYTES: usize = 2 * size_of::<Entry>() + 100;

/// The events of a transaction with their entities, and the place of each.
type Happened = (Vec<Place>, Vec<(EntityKey, Acted<EventCall>)>);

struct Audit<'a, J, W> {
    journal: &'a J,
    parts: u64,
    end: Position,
    model: Rebel,
    ledger: Ledger,
    findings: Findings<W>,
    entities: u64,
    /// Committed and not judged, because something before them is not decided.
    waiting: HashSet<TxId>,
}

impl<'a, J: Fn() -> Result<Groups, Failure>, W: Write> Audit<'a, J, W> {
    fn new(journal: &'a J, survey: Survey, model: Rebel, findings: Findings<W>) -> Self {
        Self {
            journal,
            parts: survey.bytes.div_ceil(PART_BYTES).max(1),
            end: survey.end,
            model,
            ledger: Ledger::new(survey.spread),
            findings,
            entities: 0,
            waiting: HashSet::new(),
        }
    }

    fn run(&mut self) -> Result<(), Failure> {
        for part in 0..self.parts {
            for (entity, entries) in self.entries(part)? {
                self.entities += 1;
                self.judge(&entity, entries)?;
            }
        }
        if self.ledger.is_settled() {
            return Ok(());
        }
        self.each_record(|model, ledger, record| {
            if let Record::Committed { tx, events, version, .. } = decode(&record)? {
                let model = model.under(version).unwrap_or(model);
                let may_begin = |event: &&EventCall| !model.is_internal(&record.entity, event);
                events.iter().filter(may_begin).for_each(|event| ledger.settle(tx, &record.entity, event));
            }
            Ok(())
        })?;
        self.look_closely()
    }

    /// Shows each record of an entity, up to where the journal ended.
    fn each_record(
        &mut self,
        mut see: impl FnMut(&Rebel, &mut Ledger, Stored) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for group in (self.journal)()? {
            for record in group? {
                // Of whichever kind: a recovery reads all records of an entity.
                if record.position <= self.end && !contract::is_internal(&record.entity) {
                    see(&self.model, &mut self.ledger, record)?;
                }
            }
        }
        Ok(())
    }

    /// The records of all entities of one part, each in the order of their slots.
    fn entries(&mut self, part: u64) -> Result<BTreeMap<EntityKey, Vec<Entry>>, Failure> {
        let parts = self.parts;
        let mut entries: BTreeMap<EntityKey, Vec<Entry>> = BTreeMap::new();
        self.each_record(|_, _, record| {
            let mut hasher = DefaultHasher::new();
            record.entity.hash(&mut hasher);
            if hasher.finish() % parts == part {
                let slot = decode(&record)?.slot();
                let Stored { entity, position, payload, .. } = record;
                // Most entities of many have one record.
                let of_entity = entries.entry(entity).or_insert_with(|| Vec::with_capacity(1));
                of_entity.push(Entry { slot, position, payload: payload.into_boxed_slice() });
            }
            Ok(())
        })?;
        entries.values_mut().for_each(|entries| entries.sort_by_key(|entry| entry.slot));
        Ok(entries)
    }

    fn judge(&mut self, entity: &EntityKey, entries: Vec<Entry>) -> Result<(), Failure> {
        let Self { model, ledger, findings, .. } = self;
        let waiting = each_audited(model, entity, entries, |audited| match audited {
            Part::Judged(judged) => {
                match judged.durability {
                    Durability::Shared => ledger.enter(judged.tx, entity, &judged.events),
                    Durability::TwoPhase => ledger.spread(judged.tx),
                }
                findings.refused(entity, &judged)
            }
            Part::Unjudged { position, tx, slot, why } => {
                ledger.close(tx);
                findings.unjudged(entity, (position, tx, slot), &why)
            }
            Part::Contradicted { position, tx, slot, why } => {
                let by = if let Contradiction::SlotTaken { by } = why { Some(by) } else { None };
                tx.into_iter().chain(by).for_each(|tx| ledger.close(tx));
                findings.contradicted(entity, (position, tx, slot), why)
            }
        })?;
        waiting.iter().for_each(|&tx| self.ledger.close(tx));
        self.waiting.extend(waiting);
        Ok(())
    }

    /// Tells what is wrong with the transactions whose accounts do not add up.
    fn look_closely(&mut self) -> Result<(), Failure> {
        let unbalanced: HashSet<TxId> = self.ledger.unsettled().take(UNBALANCED_MAX).collect();
        if unbalanced.is_empty() {
            return Ok(());
        }
        let mut transactions: BTreeMap<TxId, Happened> = BTreeMap::new();
        for part in 0..self.parts {
            for (entity, entries) in self.entries(part)? {
                each_audited(&self.model, &entity, entries, |audited| {
                    if let Part::Judged(judged) = audited
                        && unbalanced.contains(&judged.tx)
                    {
                        let (places, events) = transactions.entry(judged.tx).or_default();
                        let place = Place::of(&judged);
                        places.extend(judged.events.iter().map(|_| place));
                        events.extend(judged.events.into_iter().map(|acted| (entity.clone(), acted)));
                    }
                    Ok(())
                })?;
            }
        }
        for (places, events) in transactions.into_values() {
            let version = places.first().map_or(0, |place| place.version);
            let model = self.model.under(version).unwrap_or(&self.model);
            for miscall in miscalls(model, &events) {
                self.findings.miscalled(&places, &events, &miscall)?;
            }
        }
        Ok(())
    }

    fn tell(mut self) -> Result<(), Failure> {
        let audited = Audited {
            entities: self.entities,
            transactions: self.ledger.len(),
            waiting: self.waiting.len(),
            elsewhere: self.ledger.elsewhere(),
            overlooked: self.ledger.unsettled().count().saturating_sub(UNBALANCED_MAX),
        };
        self.findings.sum_up(&audited)
    }
}

/// Audits an entity, up to the first failure of `see`; returns what waits there.
fn each_audited(
    model: &Rebel,
    entity: &EntityKey,
    entries: Vec<Entry>,
    mut see: impl FnMut(enact_entities::AuditedOf<'_, Rebel, Position>) -> Result<(), Failure>,
) -> Result<Vec<TxId>, Failure> {
    let mut done = Ok(());
    let records = entries.into_iter().map(|Entry { position, payload, .. }| {
        (position, Record::decode(&payload).expect("it was decoded before, for its slot"))
    });
    let waiting = audit(model, entity, records, |audited| {
        if done.is_ok() {
            done = see(audited);
        }
    });
    done.map(|()| waiting)
}

/// The accounts of all transactions.
struct Ledger {
    accounts: HashMap<TxId, Account>,
    key: RandomState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Account {
    /// What has happened, less what was called.
    Sum(u64),
    /// It adds up, or cannot be told.
    Closed,
    /// The transaction has parts in other journals.
    Elsewhere,
}

impl Ledger {
    /// One in which these transactions have parts in other journals.
    fn new(elsewhere: Vec<TxId>) -> Self {
        let accounts = elsewhere.into_iter().map(|tx| (tx, Account::Elsewhere)).collect();
        Self { accounts, key: RandomState::new() }
    }

    fn hash(&self, entity: &EntityKey, event: &EventCall) -> u64 {
        // A call has no answers: the coordinator adds them.
        self.key.hash_one((entity, event.clone().with_answers(Vec::new())))
    }

    /// Adds what has happened at one entity.
    fn enter(&mut self, tx: TxId, entity: &EntityKey, events: &[Acted<EventCall>]) {
        let mut sum = 0_u64;
        for Acted { event, calls } in events {
            let Some(calls) = calls else { return self.close(tx) };
            sum = sum.wrapping_add(self.hash(entity, event));
            for call in calls {
                if let Action::Event(event) = &call.action {
                    sum = sum.wrapping_sub(self.hash(&call.key, event));
                }
            }
        }
        if let Account::Sum(account) = self.accounts.entry(tx).or_insert(Account::Sum(0)) {
            *account = account.wrapping_add(sum);
        }
    }

    fn close(&mut self, tx: TxId) {
        self.accounts.insert(tx, Account::Closed);
    }

    /// Notes that `tx` has parts in other journals.
    fn spread(&mut self, tx: TxId) {
        self.accounts.insert(tx, Account::Elsewhere);
    }

    /// Closes the account of `tx` if `event` is what is left of it.
    fn settle(&mut self, tx: TxId, entity: &EntityKey, event: &EventCall) {
        if self.accounts.get(&tx) == Some(&Account::Sum(self.hash(entity, event))) {
            self.close(tx);
        }
    }

    fn is_settled(&self) -> bool {
        self.unsettled().next().is_none()
    }

    fn unsettled(&self) -> impl Iterator<Item = TxId> {
        self.accounts.iter().filter(|(_, account)| matches!(account, Account::Sum(_))).map(|(&tx, _)| tx)
    }

    /// How many transactions have parts in other journals.
    fn elsewhere(&self) -> usize {
        self.accounts.values().filter(|account| **account == Account::Elsewhere).count()
    }

    fn len(&self) -> usize {
        self.accounts.len()
    }
}

#[cfg(test)]
mod tests {
    use enact_entities::{Calls, Timestamp};
    use enact_journal::{Embedded, Journal, NewRecord, Options, Seq};
    use enact_journal_kit::contract::block_on;
    use enact_rebel::{Source, Value, check};

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
        let records = args::Records { data: data.to_owned(), journal: None, shard: 0 };
        let journal = || Groups::of(&records);
        let survey = Survey::of(journal().expect("readable")).expect("readable");
        let mut audit = Audit::new(&journal, survey, model(), Findings::new(Vec::new(), false));
        audit.parts = parts;
        audit.run().expect("readable");
        let mut lines: Vec<String> = audit.findings.text().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
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
}
