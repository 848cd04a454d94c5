//! Vacation split over transactional actors: the ticket in one transaction, each booking in one of its own.
//!
//! The transaction that issues the ticket begins by ordering the bookings. If it is aborted, its orders must vanish: who
//! runs again orders again, and nobody books twice.
use std::sync::Arc;

use enact::{System, actor};
use enact_stm::{Tx, atomically, hooks, try_atomically};
use enact_workloads::vacation::{SLOTS, Use, draws};

use super::agency::Agency;
use super::master::MasterRef;

/// When a message that is sent in a transaction is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Messages {
    /// At once, depending on the transaction: what is done about it happens if and only if the transaction does
    Dependency,
    /// When the transaction commits
    Delay,
    /// At once and for good, also if the transaction is aborted: wrong, as the oracle shows
    Naive,
}

/// Issues tickets.
struct Primary {
    agency: Arc<Agency>,
    master: MasterRef,
    secondaries: Arc<[SecondaryRef]>,
    messages: Messages,
}

#[actor]
impl Primary {
    async fn serve(&mut self, customer: usize) {
        let agency = &*self.agency;
        for go in 0.. {
            let served = try_atomically(|tx| {
                self.order(tx, customer);
                let destination = agency.reservation(tx, customer)?.destination;
                let ticket = agency.ticket(customer, destination, tx.attempt());
                agency.may_fail(customer, go)?;
                Ok(agency.book(tx, customer, Vec::new(), Some(ticket))?)
            });
            if let Ok(commit) = served.await {
                self.master.tell().done(commit);
                return;
            }
        }
    }
}

impl Primary {
    /// Has each slot searched by some secondary.
    fn order(&self, tx: &mut Tx<'_, '_>, customer: usize) {
        let attempt = self.agency.settings.draws.attempt(tx.attempt());
        let mut choices = draws(customer, Use::Workers, attempt);
        for slot in 0..SLOTS.len() {
            let secondary = &self.secondaries[choices.below(self.secondaries.len() as u64) as usize];
            match self.messages {
                Messages::Dependency => {
                    secondary.tell_within(tx).search(customer, slot);
                }
                Messages::Delay => {
                    let secondary = secondary.clone();
                    hooks::on_commit(tx, move || {
                        secondary.tell().search(customer, slot);
                    });
                }
                Messages::Naive => {
                    secondary.tell().search(customer, slot);
                }
            }
        }
    }
}

/// Finds and books an item at a time; of a customer whose ticket is still being made, too.
#[derive(Clone)]
struct Secondary {
    agency: Arc<Agency>,
    master: MasterRef,
}

#[actor(speculative)]
impl Secondary {
    async fn search(&mut self, customer: usize, slot: usize) {
        let agency = &*self.agency;
        let booked = atomically(|tx| {
            let finds = agency.find(tx, customer, slot..slot + 1)?;
            agency.book(tx, customer, finds, None)
        });
        let commit = booked.await;
        self.master.tell().done(commit);
    }
}

/// Hires primaries and secondaries; the result sends each customer to their primary.
pub(super) fn hire(
    system: &System,
    agency: &Arc<Agency>,
    master: &MasterRef,
    (primaries, secondaries): (usize, usize),
    messages: Messages,
) -> impl Fn(usize) + use<> {
    let secondary = || Secondary { agency: Arc::clone(agency), master: master.clone() };
    let secondaries: Arc<[_]> = (0..secondaries).map(|_| system.spawn(secondary())).collect();
    let primary = || {
        let (agency, master) = (Arc::clone(agency), master.clone());
        Primary { agency, master, secondaries: Arc::clone(&secondaries), messages }
    };
    let primaries: Vec<_> = (0..primaries).map(|_| system.spawn(primary())).collect();
    move |customer| {
        primaries[customer % primaries.len()].tell().serve(customer);
    }
}
