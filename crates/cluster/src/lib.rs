//! Entities on many machines.
//!
//! # Shards and owners
//! The entities are in a fixed number of shards, by [their ids](shard_of). Each shard has one journal, in streams of NATS `JetStream` or in
//! [tables of `PostgreSQL`](Journals), and one node at a time that owns it: it has the shard's engine. Every node answers for every entity, and sends what is not its own to the
//! owner. A transaction over entities of one shard is one record group; one over several shards commits in two phases.
//!
//! # Who owns what
//! Each node has a lease in a bucket of NATS, and renews it. From the leases every node computes alike which shard should be
//! whose, unless an operator has [moved](move_shard) it. The one that should own a shard asks the one that does for it, or takes it when the
//! lease of that one is over.
//!
//! # What holds whatever happens
//! * One node writes: opening the journal of a shard fences all earlier writers off, by the order of the stream, or by a lock of the database, and without any clock.
//!   Nothing that was acknowledged is lost, and nothing that was refused has an effect.
//! * A read, and a refusal, shows no state that was out of date when it was asked for: an owner gives none when its lease is
//!   older than half of its time, at the end as at the beginning. That counts on clocks that run about equally fast, and on nothing else.
//! * A command whose owner does not answer is *in doubt*: under the same idempotency key its answer can be had.
//!
//! # Another contract
//! Nodes that [may adopt](Options::adopt) another contract wait beside those that serve. When the last of these has stopped, the others have all
//! shards examined, and serve them under theirs if all of them allow it; if one does not, nothing has changed.
//!
//! # Personal values
//! Nodes with a common [secret](Options::subject_keys) keep the keys of data subjects in a stream of NATS, hidden with that. What one node has sealed
//! all others open; what was [erased](enact_entities::Entities::erase) no node opens any more as soon as it hears of it.
//!
//! # How long it takes
//! A node that stops gives its shards away within moments. One that is killed is missed when its lease is over; its shards are served
//! again then. Meanwhile commands for them are answered with [`Moved`](enact_entities::SubmitError::Moved).
//!
//! # Idempotency keys
//! A key belongs to the shard of the entity that the command addresses: the same key with an entity of another shard is another key.
#![forbid(unsafe_code)]

mod bucket;
mod cluster;
mod connect;
mod contract;
mod fabric;
#[cfg(test)]
mod golden;
mod hop;
mod hosted;
mod journal;
mod journals;
mod lease;
mod node;
mod options;
mod pin;
mod placement;
mod proposal;
mod restoration;
mod route;
mod settings;
mod shard;
mod standstill;
mod status;
mod subject_keys;
mod transport;
mod verify;
mod view;

pub use enact_journal::nats::Servers;
pub use enact_journal::{Identity, Security, SecurityError};

pub use self::cluster::{Cluster, JoinError};
pub use self::contract::{Adoption, Contract, NotAdopted};
pub use self::hop::Propagation;
pub use self::journal::ShardJournal;
pub use self::journals::{Journals, Keeper, OpenError, ShardJournals};
pub use self::lease::LEASE_MIN;
pub use self::options::Options;
pub use self::pin::{MoveError, move_shard};
pub use self::restoration::Restoration;
pub use self::settings::{Agreed, agreed};
pub use self::shard::{SHARDS_MAX, shard_of};
pub use self::standstill::Standstill;
pub use self::status::{NodeStatus, Problem, Replica, ShardStatus, Status, drain, status};
pub use self::subject_keys::Secret;
pub use self::verify::{Verified, VerifyError};
