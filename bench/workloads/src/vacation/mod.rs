//! Vacation: customers that book two flights, a room and a car each, and get a password whose hash is expensive.
//!
//! # What one customer's transaction does
//! 1. *Find* two flights, a room and a car ([`SLOTS`]): for each the cheapest of some items drawn at random that has
//!    enough seats ([`find`]).
//! 2. Make the ticket number with the hash of a random password ([`Ticket`]).
//! 3. *Book* what was found: [`Item::booked`], [`Reservation::book`].
//!
//! The hash lies between the reads and the writes, so that a transaction is long and others change what it has read.
//! Versions differ in how the steps are spread over transactions, threads or actors.
//!
//! # How a run is verified
//! Each item counts its bookings and each reservation its changes. A transaction that commits leaves a [`Commit`]: which
//! counts it has seen. That is enough for [`verify`] to derive the order in which the commits must have happened, and to
//! replay them one after the other.
//!
//! # Sources
//! Swalens, De Koster and De Meuter, *Transactional actors: communication in transactions*, 2017, section 7, after
//! STAMP's vacation. The sizes and five values for seats and prices are those of the paper's program.
mod draws;
mod find;
mod input;
mod oracle;
mod order;
mod ticket;

pub use draws::{Draws, Use, draws};
pub use find::{Find, find};
pub use input::{Item, Reservation, SLOTS, Size, Slot, State, Status, Table, generate};
pub use oracle::{WrongVacation, verify};
pub use order::Commit;
pub use ticket::{Cost, CostError, Ticket};
