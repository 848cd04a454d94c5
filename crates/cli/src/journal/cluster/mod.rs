//! `enact cluster backup` and `restore`, and `verify` of what they write and read: all shards of several nodes in one directory.
//!
//! # What a directory has
//! A [backup](enact_journal::BackupWriter) of each shard, and a [manifest] that names all of them. The manifest is
//! written last: a directory without one is no backup.
//!
//! # What belongs together
//! Nodes write on while their shards are read, so each shard is [cut](enact_entities::Cuts) before its end: every transaction over shards is
//! in all of its shards or in none. What was cut is compared once more, as an audit does, when it is written and whenever it is read:
//! each decision has its promises, each commit its decision, and each end its commits.

mod agreement;
mod backup;
mod check;
mod manifest;
mod restore;
mod until;

pub(crate) use self::backup::write as back_up;
pub(crate) use self::check::verify as verify_backup;
pub(crate) use self::manifest::DirectoryError;
pub(crate) use self::restore::run as restore;
