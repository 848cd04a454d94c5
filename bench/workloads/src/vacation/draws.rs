//! What a transaction draws at random: a function of the reservation and, if wanted, of the attempt.
use crate::SplitMix64;

const SEED: u64 = 42;

/// Whether a transaction that runs again draws the same again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draws {
    /// It does, so that what was booked depends only on the order of the commits.
    Fixed,
    /// It draws afresh.
    Fresh,
}

impl Draws {
    /// The number that stands for `attempt` in [`draws`].
    pub fn attempt(self, attempt: u32) -> u32 {
        match self {
            Self::Fixed => 0,
            Self::Fresh => attempt,
        }
    }
}

/// What is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The items to look at for a slot.
    Slot(usize),
    /// Ticket number, password and salt.
    Ticket,
    /// The searchers for the slots.
    Workers,
    /// Whether the attempt is made to fail.
    Fault,
}

/// The stream of one attempt for one reservation.
pub fn draws(reservation: usize, purpose: Use, attempt: u32) -> SplitMix64 {
    let purpose = match purpose {
        Use::Slot(slot) => slot as u64,
        Use::Ticket => 4,
        Use::Workers => 5,
        Use::Fault => 6,
    };
    let numbers = [reservation as u64, purpose, u64::from(attempt)];
    let seed = numbers.into_iter().fold(SEED, |seed, number| SplitMix64::new(seed ^ number).next_u64());
    SplitMix64::new(seed)
}
