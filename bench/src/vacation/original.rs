//! Vacation as it was: one transaction a customer.
use std::sync::Arc;

use enact::{System, actor};
use enact_stm::try_atomically;
use enact_workloads::vacation::SLOTS;

use super::agency::Agency;
use super::master::MasterRef;

/// Serves customers one after the other, each in one transaction with the expensive ticket between reads and writes.
struct Clerk {
    agency: Arc<Agency>,
    master: MasterRef,
    /// Whether a transaction that runs again keeps the ticket that it has made.
    keeps_ticket: bool,
}

#[actor]
impl Clerk {
    async fn serve(&mut self, customer: usize) {
        let agency = &*self.agency;
        for go in 0.. {
            let served = try_atomically(|tx| {
                let finds = agency.find(tx, customer, 0..SLOTS.len())?;
                let destination = agency.reservation(tx, customer)?.destination;
                let attempt = tx.attempt();
                let ticket = if self.keeps_ticket {
                    tx.keep(|| agency.ticket(customer, destination, attempt))?.clone()
                } else {
                    agency.ticket(customer, destination, attempt)
                };
                agency.may_fail(customer, go)?;
                Ok(agency.book(tx, customer, finds, Some(ticket))?)
            });
            if let Ok(commit) = served.await {
                self.master.tell().done(commit);
                return;
            }
        }
    }
}

/// Hires `primaries` clerks; the result sends each customer to theirs.
pub(super) fn hire(
    system: &System,
    agency: &Arc<Agency>,
    master: &MasterRef,
    primaries: usize,
    keeps_ticket: bool,
) -> impl Fn(usize) + use<> {
    let clerk = || Clerk { agency: Arc::clone(agency), master: master.clone(), keeps_ticket };
    let clerks: Vec<_> = (0..primaries).map(|_| system.spawn(clerk())).collect();
    move |customer| {
        clerks[customer % clerks.len()].tell().serve(customer);
    }
}
