//! The journal of Enact: durable records of entities, appended atomically and by compare-and-append.
//!
//! * [`Journal`] is the contract; every append is durable, refused or in doubt, and the types say so.
//! * [`Embedded`] is the store for one machine: a segment log in a directory that refuses damage with its place, and
//!   cuts only what nobody was told to be durable. [`verify`] checks all of a log, and [`look`] reads it beside its writer.
//! * [`Attester`] signs what an embedded journal writes, and [`verify_attested`] finds what somebody without its key has changed.
//! * [`BackupWriter`] keeps the records of a log in one file, [`BackupReader`] checks it, and [`LogBuilder`] makes a log of
//!   them again.
//! * [`Salvage`] reads what is whole of a damaged log, and says what is not.
//! * `nats::Nats`, with the feature `nats`, is the same over `JetStream` of NATS: records survive the machine, and another one
//!   goes on with them.
//! * `postgres::Postgres`, with the feature `postgres`, is the same over tables of `PostgreSQL`.
//! * `Security` says how these two know their servers and are known to them, over TLS.
//! * `RemoteBuilder` fills one of these two with the groups of a backup, whole or not at all.
//! * [`SubjectKeys`] seals what is personal, and destroys the key of a person, so that no log and no backup has it any more.
//! * [`Memory`] is the journal for tests and simulations, and fails on command.
//!
//! The journal reads no time of day, interprets no payload and never repairs by guessing.
#![forbid(unsafe_code)]

mod backup;
mod damage;
mod discarded;
pub mod disk;
mod embedded;
mod journal;
mod keys;
mod memory;
#[cfg(feature = "nats")]
pub mod nats;
mod numbers;
#[cfg(feature = "postgres")]
pub mod postgres;
mod record;
#[cfg(any(feature = "nats", feature = "postgres"))]
mod remote;
mod reply;
#[cfg(any(feature = "nats", feature = "postgres"))]
mod security;
mod subject_keys;

pub use backup::{BackupError, BackupReader, BackupTotals, BackupWriter};
pub use damage::{Damage, Flaw};
pub use embedded::{
    Attested, Attester, BuildError, Diagnosis, Embedded, Finding, Harmless, LogBuilder, Look, OpenError, Options,
    Salvage, Signed, Verification, adopt, adopt_on, look, look_on, verify, verify_attested, verify_attested_on,
    verify_on,
};
pub use journal::{
    AppendError, CheckError, CloseError, Journal, Limits, Loaded, ReadError, Refusal, SnapshotError, Volume,
};
pub use keys::{KeyError, KeyId, PublicKey, SigningKey};
pub use memory::{Fault, Memory};
pub use record::{EntityKey, EntityKeyError, Group, Kind, NAME_BYTES_MAX, NewRecord, Position, Record, Seq, Snapshot};
#[cfg(any(feature = "nats", feature = "postgres"))]
pub use remote::{GroupError, RemoteBuilder, Verified};
#[cfg(any(feature = "nats", feature = "postgres"))]
pub use security::{Identity, Security, SecurityError};
pub use subject_keys::{Sealed, SubjectKey, SubjectKeys, SubjectKeysError};
