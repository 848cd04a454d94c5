//! Values about a person, which only that person's key opens.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Reference;

/// A value of a [personal](super::Type::Personal) place, sealed: the language stores it and hands it on, and never looks at it. Once
/// the key of its subject is destroyed, nobody reads it any more, wherever copies of it lie.
///
/// Two are equal if they come from one act of sealing; equal values that are sealed apart are not. `Display` tells them apart and
/// shows nothing of the value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sealed {
    /// Whose it is.
    pub subject: Reference,
    /// Which one of the subject's keys opens it, from 1: after an erasure the subject gets another one.
    pub generation: u32,
    /// What only the key opens.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sealed({}, {}, ", self.subject, self.generation)?;
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}
