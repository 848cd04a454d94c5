//! What the clients do beyond the experiments of the paper: known benchmarks of transactions, written in Rebel.
//!
//! A file each, with the contract beside it. What benchmarks do in dialogue with a database, read and then write, is one event here,
//! which asks and calls: a step has no dialogue.
mod aborts;
mod closed_economy;
mod new_order;
mod small_bank;
mod tax;
mod zipf;

pub(super) use aborts::Aborts;
pub(super) use closed_economy::ClosedEconomy;
pub(super) use new_order::NewOrder;
pub(super) use small_bank::SmallBank;
pub(super) use tax::Tax;

#[cfg(test)]
mod tests;
