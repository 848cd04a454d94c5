//! The items and reservations in transactional variables, one each, and the steps that versions are made of.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use enact_stm::{Abort, TVar, Tx, snapshot};
use enact_workloads::vacation::{
    Commit, Cost, Draws, Find, Item, Reservation, SLOTS, Size, State, Status, Ticket, Use, draws, find,
};
use thiserror::Error;

/// What every version of a run has in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) size: Size,
    pub(super) cost: Cost,
    pub(super) draws: Draws,
    /// One in so many transactions that issue a ticket is made to fail; 0 for none.
    pub(super) faults: u32,
}

/// A transaction was made to fail.
#[derive(Debug, Error)]
#[error("made to fail")]
pub(super) struct Fault;

/// A ticket number, and the attempt whose draws it was made with.
#[derive(Clone)]
pub(super) struct Issued {
    pnr: Arc<str>,
    attempt: u32,
}

/// What the workers of a run share.
pub(super) struct Agency {
    pub(super) settings: Settings,
    items: Vec<TVar<Item>>,
    reservations: Vec<TVar<Reservation>>,
    hashes: AtomicU64,
}

impl Agency {
    pub(super) fn new(settings: Settings, initial: &State) -> Self {
        let items = initial.items.iter().map(|&item| TVar::new(item)).collect();
        let reservations = initial.reservations.iter().cloned().map(TVar::new).collect();
        Self { settings, items, reservations, hashes: AtomicU64::new(0) }
    }

    /// Tickets that were made, those of attempts that failed included.
    pub(super) fn hashes(&self) -> u64 {
        self.hashes.load(Ordering::Relaxed)
    }

    /// Everything, as it is now.
    pub(super) fn state(&self) -> State {
        snapshot(|tx| {
            let items = self.items.iter().map(|item| tx.read(item).copied()).collect::<Result<_, _>>()?;
            let reservations = self.reservations.iter().map(|reservation| tx.read(reservation).cloned());
            Ok(State { items, reservations: reservations.collect::<Result<_, _>>()? })
        })
    }

    /// Makes the transaction fail in its `go`th start for `customer`, if that is drawn.
    pub(super) fn may_fail(&self, customer: usize, go: u32) -> Result<(), Fault> {
        let Settings { faults, .. } = self.settings;
        let is_due = faults > 0 && draws(customer, Use::Fault, go).below(faults.into()) == 0;
        if is_due { Err(Fault) } else { Ok(()) }
    }

    pub(super) fn reservation<'t>(&'t self, tx: &mut Tx<'t, '_>, customer: usize) -> Result<&'t Reservation, Abort> {
        tx.read(&self.reservations[customer])
    }

    /// Looks for an item for each of `slots`, no seat for two of them.
    pub(super) fn find<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        customer: usize,
        slots: std::ops::Range<usize>,
    ) -> Result<Vec<Find>, Abort> {
        let people = self.reservation(tx, customer)?.people;
        let Settings { size, draws, .. } = &self.settings;
        let attempt = draws.attempt(tx.attempt());
        let (mut finds, mut held) = (Vec::with_capacity(slots.len()), Vec::with_capacity(slots.len()));
        for slot in slots {
            let look = |number: usize| tx.read(&self.items[number]).copied();
            let found = find(size, (customer, slot, attempt), people, &held, look)?;
            held.extend(found.item);
            finds.push(found);
        }
        Ok(finds)
    }

    /// Makes the ticket, as expensive as the settings say.
    pub(super) fn ticket(&self, customer: usize, destination: u32, attempt: u32) -> Issued {
        self.hashes.fetch_add(1, Ordering::Relaxed);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let attempt = self.settings.draws.attempt(attempt);
        let pnr = Ticket::draw(customer, attempt).issue(destination, at.as_millis(), self.settings.cost);
        Issued { pnr: Arc::from(pnr), attempt }
    }

    /// Books what was found, notes the ticket if there is one, and tells what it has done.
    pub(super) fn book<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        customer: usize,
        finds: Vec<Find>,
        ticket: Option<Issued>,
    ) -> Result<Commit, Abort> {
        let mut reservation = self.reservation(tx, customer)?.clone();
        let seen = reservation.changes;
        for found in &finds {
            let Some(number) = found.item else {
                reservation.book(found.slot, None);
                continue;
            };
            let item = tx.update(&self.items[number], |item| item.booked(reservation.people))?;
            reservation.book(found.slot, Some((number, item.price)));
        }
        if let Some(Issued { pnr, .. }) = &ticket {
            reservation.pnr = Some(Arc::clone(pnr));
            let is_whole = finds.len() == SLOTS.len();
            reservation.status = if is_whole { Status::Processed } else { Status::InProcess };
        }
        reservation.changes += 1;
        tx.write(&self.reservations[customer], reservation)?;
        Ok(Commit { reservation: customer, seen, ticket: ticket.map(|issued| issued.attempt), finds })
    }
}
