//! The colours of chameneos.
use serde::{Deserialize, Serialize};

/// The colour of a creature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Colour {
    /// One of the three lively colours.
    Red,
    /// One of the three lively colours.
    Yellow,
    /// One of the three lively colours.
    Blue,
    /// That of a creature whose life is over.
    Faded,
}

impl Colour {
    /// What creatures have to begin with, one after the other.
    pub const LIVELY: [Self; 3] = [Self::Red, Self::Yellow, Self::Blue];

    /// What a creature of this colour becomes when it meets one of `other`: it stays as it is if both are the same, and
    /// takes the third lively colour otherwise.
    #[must_use]
    pub fn complement(self, other: Self) -> Self {
        match (self, other) {
            (Self::Red, Self::Yellow) | (Self::Yellow, Self::Red) => Self::Blue,
            (Self::Red, Self::Blue) | (Self::Blue, Self::Red) => Self::Yellow,
            (Self::Yellow, Self::Blue) | (Self::Blue, Self::Yellow) => Self::Red,
            (Self::Faded, _) | (_, Self::Faded) => Self::Faded,
            (Self::Red, Self::Red) | (Self::Yellow, Self::Yellow) | (Self::Blue, Self::Blue) => self,
        }
    }
}
