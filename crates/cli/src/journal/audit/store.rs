//! What an audit reads: one journal, or those of all shards of several nodes.
//!
//! # Moments
//! Nodes write on while their shards are read, and each journal is read up to a moment of its own. A transaction over shards leaves promises,
//! then the decision, then the outcomes, each of them durable before the next. So the ends of all journals are taken twice: whatever stands
//! before the first end of its journal, all that had to be durable before it stands before the second end of another one. Journals are read
//! up to the second, and what is demanded of others is demanded by records up to the first.

use enact_entities::EntityKey;
use enact_journal::{Position, Record as Stored};
use serde::{Deserialize, Serialize};

use crate::args;
use crate::failure::Failure;
use crate::journal::groups::Groups;

/// A place in the journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::journal) struct At {
    pub(in crate::journal) shard: u16,
    pub(in crate::journal) position: Position,
}

type Read<'a> = Box<dyn Fn() -> Result<Groups, Failure> + 'a>;
type Home<'a> = Box<dyn Fn(&EntityKey) -> u16 + 'a>;

/// One journal, or several that have all parts of each transaction.
pub(super) struct Store<'a> {
    shards: Vec<Shard<'a>>,
    /// Which shard an entity is in; nothing if parts of transactions may be in journals that are not here.
    home: Option<Home<'a>>,
}

struct Shard<'a> {
    number: u16,
    settled: Position,
    /// How far it is read, once that is known.
    end: Position,
    read: Read<'a>,
}

impl<'a> Store<'a> {
    pub(super) fn of(args: &'a args::Audit) -> Result<Self, Failure> {
        #[cfg(feature = "nats")]
        if let Some(nodes) = args.of_nodes() {
            return Self::of_nodes(nodes?);
        }
        #[cfg(not(feature = "nats"))]
        if args.cluster.is_some() {
            return Err(Failure::WithoutNats);
        }
        let read: Read<'_> = match &args.backup {
            Some(file) => Box::new(|| Groups::of_backup(file)),
            None => Box::new(|| Groups::of(&args.records)),
        };
        Ok(Self::of_one(args.records.shard, read))
    }

    pub(super) fn of_one(number: u16, read: Read<'a>) -> Self {
        Self { shards: vec![Shard::new(number, Position(u64::MAX), read)], home: None }
    }

    #[cfg(feature = "nats")]
    fn of_nodes(nodes: args::Nodes) -> Result<Self, Failure> {
        use std::sync::Arc;

        use crate::journal::groups::Shards;

        let nodes = Arc::new(Shards::of_nodes(nodes, 2)?);
        let count = u16::try_from(nodes.ends(0).len()).expect("as many as a number of 16 bits says");
        let shard = |number: u16| {
            let (settled, nodes) = (nodes.ends(0)[usize::from(number)], Arc::clone(&nodes));
            Shard::new(number, settled, Box::new(move || Ok(nodes.groups(number, Position::START))))
        };
        let home: Home<'_> = Box::new(move |entity| enact_cluster::shard_of(entity, count));
        Ok(Self { shards: (0..count).map(shard).collect(), home: Some(home) })
    }

    /// How many shards there are, if these are all.
    pub(super) fn all(&self) -> Option<usize> {
        self.home.as_ref().map(|_| self.shards.len())
    }

    /// The shard that `entity` should be in, if it is not `shard`.
    pub(super) fn other_home(&self, entity: &EntityKey, shard: u16) -> Option<u16> {
        self.home.as_ref().map(|home| home(entity)).filter(|home| *home != shard)
    }

    /// Whether all that must have been durable before the record at `at` is read.
    pub(super) fn is_settled(&self, at: At) -> bool {
        self.shards.iter().any(|shard| shard.number == at.shard && at.position <= shard.settled)
    }

    /// Shows each record that there is, with whether others of its group were discarded, and remembers where that was, for
    /// [`each_record`](Self::each_record).
    pub(super) fn survey(
        &mut self,
        mut see: impl FnMut(u16, Stored, bool) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for shard in &mut self.shards {
            for group in (shard.read)()? {
                let group = group?;
                let lacks_some = group.last().0 - group.first().0 >= group.records().len() as u64;
                for record in group {
                    shard.end = record.position;
                    see(shard.number, record, lacks_some)?;
                }
            }
        }
        Ok(())
    }

    /// Shows each record that there was.
    pub(super) fn each_record(&self, mut see: impl FnMut(u16, Stored) -> Result<(), Failure>) -> Result<(), Failure> {
        for shard in &self.shards {
            for group in (shard.read)()? {
                for record in group? {
                    if record.position <= shard.end {
                        see(shard.number, record)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl<'a> Shard<'a> {
    fn new(number: u16, settled: Position, read: Read<'a>) -> Self {
        Self { number, settled, end: Position::START, read }
    }
}

#[cfg(test)]
impl<'a> Store<'a> {
    /// Shards with these records, which ended there when the audit began.
    pub(super) fn of_memory(shards: Vec<Vec<Stored>>, settled: &[u64], home: impl Fn(&EntityKey) -> u16 + 'a) -> Self {
        let shard = |(number, (records, settled)): (u16, (Vec<Stored>, &u64))| {
            Shard::new(number, Position(*settled), Box::new(move || Ok(Groups::of_memory(records.clone()))))
        };
        let shards = (0..).zip(shards.into_iter().zip(settled)).map(shard).collect();
        Self { shards, home: Some(Box::new(home)) }
    }
}
