//! Transactions, their attempts, and the two kinds of time.

use std::fmt;
use std::ops::Add;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Names one run of one transaction, for ever.
///
/// Made outside from a UUID of version 7, so that `Ord` is age: the smaller id is the older transaction. An id is never
/// used for a second run, not even after the first was aborted.
///
/// ```
/// use enact_entities::TxId;
///
/// let tx: TxId = "0192a1b2-0000-7000-8000-000000000001".parse()?;
/// assert_eq!(tx, TxId::from_u128(0x0192a1b2_0000_7000_8000_000000000001));
/// assert_eq!(tx.to_string(), "0192a1b2-0000-7000-8000-000000000001");
/// # Ok::<(), enact_entities::ParseTxIdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TxId(Uuid);

impl TxId {
    /// The id with these 128 bits, most significant first.
    pub const fn from_u128(bits: u128) -> Self {
        Self(Uuid::from_u128(bits))
    }

    /// A new id, which no other call has given or will give, here or elsewhere.
    pub fn fresh() -> Self {
        Self(Uuid::now_v7())
    }

    /// The bits of the id, most significant first.
    pub const fn as_u128(self) -> u128 {
        self.0.as_u128()
    }
}

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for TxId {
    type Err = ParseTxIdError;

    fn from_str(text: &str) -> Result<Self, ParseTxIdError> {
        Uuid::try_parse(text).map(Self).map_err(|_| ParseTxIdError)
    }
}

/// The text is not a [`TxId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a transaction id is a UUID such as 0192a1b2-0000-7000-8000-000000000001")]
pub struct ParseTxIdError;

/// Counts the attempts of one transaction, and in each of them the rounds of questions.
///
/// A coordinator that has to begin again in another order counts a new attempt: whatever still travels under a lower one is
/// void. Within an attempt it may ask a participant again, and then for something else: that is a new round. What a
/// participant promised in an earlier round of the attempt stands, unless it is itself asked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// Which attempt, from 1.
    pub number: u32,
    /// Which round of it, from 1.
    pub round: u32,
}

impl Attempt {
    /// The first round of the first attempt of every transaction.
    pub const FIRST: Self = Self { number: 1, round: 1 };

    /// The first round of the attempt after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self { number: self.number + 1, round: 1 }
    }

    /// The next round of this attempt.
    #[must_use]
    pub const fn next_round(self) -> Self {
        Self { number: self.number, round: self.round + 1 }
    }
}

/// The place of an admitted transaction in the order in which its entity applies effects.
///
/// Counted per entity from 1, and never given twice to transactions that could both commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u64);

impl Slot {
    /// The first slot of every entity.
    pub const FIRST: Self = Self(1);

    /// The slot after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// When an event happened, in milliseconds since the Unix epoch: what a guard sees as `now`.
///
/// It travels with the event, so that every evaluation of it, everywhere and in every replay, sees the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// A moment of the monotonic clock of this process, or a span of it, in milliseconds: what deadlines are made of.
///
/// It has no meaning in another process and is never journaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The span as the standard library has it.
    pub(crate) const fn span(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl Add for Millis {
    type Output = Self;

    fn add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}
