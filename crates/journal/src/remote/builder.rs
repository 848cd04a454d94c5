//! What fills a new journal on servers with the groups of another log.

use std::error::Error;
use std::future::Future;

use crate::record::{EntityKey, Group, Position, Record, Seq};

/// A journal on servers that is being filled with the groups of another log: whole or not at all.
///
/// Groups stay groups. Positions and numbers have no gaps: where the other log has some, records get other ones. Nobody can open the
/// journal before it is [finished](Self::finish).
pub trait RemoteBuilder: Send {
    /// Why it was not filled.
    type Error: Error + Send + Sync + 'static;

    /// Takes the next group.
    ///
    /// # Errors
    /// When a record is not the next of its entity but for discarded ones, or is too long, or when the servers do not take it. The builder
    /// takes no further group then.
    ///
    /// # Cancel safety
    /// The builder takes no further group.
    fn push(&mut self, group: Group) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Takes a group of this record behind the last one, at a position of its own: a [tombstone](crate::Kind::TOMBSTONE) that stands for
    /// records that are left out, or one with the [next number](Self::next_of) of its entity.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    ///
    /// # Cancel safety
    /// As [`push`](Self::push).
    fn add(&mut self, record: Record) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The number that follows the last one of `entity` in the other log.
    fn next_of(&self, entity: &EntityKey) -> Seq;

    /// Whether records are left out of which nobody knows of which entity they were.
    fn has_gaps(&self) -> bool;

    /// Whether the other log has discarded anything, so that records have other positions than there.
    fn has_discarded(&self) -> bool;

    /// Makes the journal one that can be opened; the last position.
    ///
    /// # Errors
    /// When an entity [lacks records](super::GroupError::Incomplete), when the servers do not take what is left, or when they do not say
    /// whether it is finished.
    ///
    /// # Cancel safety
    /// It may be finished or not.
    fn finish(&mut self) -> impl Future<Output = Result<Position, Self::Error>> + Send;

    /// Removes what was filled, unless it may have been [finished](Self::finish).
    ///
    /// # Cancel safety
    /// It may be removed or not; nobody can open what is left.
    fn abandon(self) -> impl Future<Output = ()> + Send;
}
