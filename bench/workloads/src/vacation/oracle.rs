//! Whether what is left after a run is what some serial order of its commits leaves.
use std::convert::Infallible;

use thiserror::Error;

use super::order::serial_order;
use super::{Commit, Cost, Find, Item, Reservation, SLOTS, Size, State, Status, Ticket, find};

/// Tickets whose password is checked: each check takes as long as making the ticket.
const PASSWORDS_CHECKED: usize = 4;

/// How the result of a run is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WrongVacation {
    /// A search that was done twice, or not at all.
    #[error("slot {slot} of reservation {reservation} was processed {times} times")]
    Slot {
        /// The reservation.
        reservation: usize,
        /// The slot.
        slot: usize,
        /// How often.
        times: u32,
    },
    /// No ticket, no single one, or not that of the reservation.
    #[error("reservation {reservation} does not have its ticket: `{found}`")]
    Ticket {
        /// The reservation.
        reservation: usize,
        /// What it has.
        found: String,
    },
    /// Seats that do not add up.
    #[error("item {item} has {seats} seats and {bookings} bookings left, but its customers took {taken} in {booked}")]
    Seats {
        /// The item.
        item: usize,
        /// Its seats.
        seats: i32,
        /// Its count of bookings.
        bookings: u32,
        /// Seats that reservations have of it.
        taken: u32,
        /// Bookings that reservations have of it.
        booked: u32,
    },
    /// A bill that is not the sum of its prices.
    #[error("reservation {reservation} costs {total} instead of {expected}")]
    Total {
        /// The reservation.
        reservation: usize,
        /// What it says.
        total: u32,
        /// Sum of the prices of its items.
        expected: u32,
    },
    /// Two commits that made the same version of an object, or a version that nobody made.
    #[error("version {version} of object {object} was made by two commits, or by none")]
    Version {
        /// The object: an item, or after the items a reservation.
        object: usize,
        /// The version.
        version: usize,
    },
    /// A change without a look.
    #[error("a commit for reservation {reservation} changed object {object} without having seen it")]
    Blind {
        /// The reservation.
        reservation: usize,
        /// The object.
        object: usize,
    },
    /// Commits that no serial order has.
    #[error("{commits} commits have no place in any serial order")]
    Circle {
        /// How many.
        commits: usize,
    },
    /// A search that committed before the transaction that ordered it.
    #[error("slot {slot} of reservation {reservation} was committed before the reservation had its ticket")]
    Early {
        /// The reservation.
        reservation: usize,
        /// The slot.
        slot: usize,
    },
    /// A search that finds something else when it is replayed.
    #[error("slot {slot} of reservation {reservation} found {found:?}, and {replayed:?} in the serial replay")]
    Replay {
        /// The reservation.
        reservation: usize,
        /// The slot.
        slot: usize,
        /// Item that it found in the run.
        found: Option<usize>,
        /// Item that it finds in the replay.
        replayed: Option<usize>,
    },
    /// Another state than the replay's.
    #[error("{what} {number} is not as the serial replay leaves it")]
    State {
        /// Item or reservation.
        what: &'static str,
        /// Which.
        number: usize,
    },
}

/// Checks the state that a run has `ended` in, by itself and against the serial replay of its `commits` from `initial`.
///
/// # Errors
/// What is wrong.
pub fn verify(
    size: &Size,
    cost: Cost,
    initial: &State,
    ended: &State,
    commits: &[Commit],
) -> Result<(), WrongVacation> {
    verify_slots(ended)?;
    verify_tickets(cost, ended, commits)?;
    verify_items(initial, ended)?;
    verify_totals(ended)?;
    let mut replayed = initial.clone();
    for place in serial_order(size, commits)? {
        replay(size, &mut replayed, &commits[place])?;
    }
    compare(&replayed, ended)
}

fn verify_slots(ended: &State) -> Result<(), WrongVacation> {
    for (number, reservation) in ended.reservations.iter().enumerate() {
        for (slot, &super::Slot { times, .. }) in reservation.slots.iter().enumerate() {
            if times != 1 {
                return Err(WrongVacation::Slot { reservation: number, slot, times });
            }
        }
    }
    Ok(())
}

fn verify_tickets(cost: Cost, ended: &State, commits: &[Commit]) -> Result<(), WrongVacation> {
    let mut issued = vec![Vec::new(); ended.reservations.len()];
    for commit in commits {
        issued[commit.reservation].extend(commit.ticket);
    }
    let stride = ended.reservations.len().div_ceil(PASSWORDS_CHECKED);
    for (number, (reservation, attempts)) in ended.reservations.iter().zip(&issued).enumerate() {
        let Reservation { pnr, destination, status, .. } = reservation;
        let is_checked = number % stride == 0;
        let is_right = match (attempts.as_slice(), pnr) {
            (&[attempt], Some(pnr)) => Ticket::draw(number, attempt).is(pnr, *destination, cost, is_checked),
            _ => false,
        };
        if !is_right || *status == Status::Requested {
            let found = pnr.as_deref().unwrap_or_default().to_owned();
            return Err(WrongVacation::Ticket { reservation: number, found });
        }
    }
    Ok(())
}

/// The items that a reservation has booked.
fn booked(reservation: &Reservation) -> impl Iterator<Item = usize> {
    reservation.slots.iter().filter_map(|slot| slot.item)
}

fn verify_items(initial: &State, ended: &State) -> Result<(), WrongVacation> {
    let mut taken = vec![(0, 0); ended.items.len()];
    for reservation in &ended.reservations {
        for item in booked(reservation) {
            let (seats, bookings) = &mut taken[item];
            *seats += reservation.people;
            *bookings += 1;
        }
    }
    for (number, (item, &(seats_taken, booked))) in ended.items.iter().zip(&taken).enumerate() {
        let Item { seats, bookings, .. } = *item;
        let left = initial.items[number].seats - seats_taken.cast_signed();
        if seats < 0 || seats != left || bookings != booked {
            return Err(WrongVacation::Seats { item: number, seats, bookings, taken: seats_taken, booked });
        }
    }
    Ok(())
}

/// With [`verify_items`], the sum of all bills is the sum over the items of bookings times price.
fn verify_totals(ended: &State) -> Result<(), WrongVacation> {
    for (number, reservation) in ended.reservations.iter().enumerate() {
        let expected = booked(reservation).map(|item| ended.items[item].price).sum();
        if reservation.total != expected {
            return Err(WrongVacation::Total { reservation: number, total: reservation.total, expected });
        }
    }
    Ok(())
}

/// Does again what `commit` has done.
fn replay(size: &Size, state: &mut State, commit: &Commit) -> Result<(), WrongVacation> {
    let number = commit.reservation;
    let reservation = &mut state.reservations[number];
    if commit.ticket.is_some() {
        let is_whole = commit.finds.len() == SLOTS.len();
        reservation.status = if is_whole { Status::Processed } else { Status::InProcess };
    } else if reservation.status == Status::Requested {
        let slot = commit.finds.first().map_or(0, |find| find.slot);
        return Err(WrongVacation::Early { reservation: number, slot });
    }
    let mut held = Vec::new();
    for &Find { slot, attempt, item: found, .. } in &commit.finds {
        let look = |item: usize| Ok::<_, Infallible>(state.items[item]);
        let Ok(again) = find(size, (number, slot, attempt), reservation.people, &held, look);
        if again.item != found {
            return Err(WrongVacation::Replay { reservation: number, slot, found, replayed: again.item });
        }
        held.extend(found);
    }
    for &Find { slot, item, .. } in &commit.finds {
        reservation.book(slot, item.map(|item| (item, state.items[item].price)));
        if let Some(item) = item {
            state.items[item] = state.items[item].booked(reservation.people);
        }
    }
    reservation.changes += 1;
    Ok(())
}

fn compare(replayed: &State, ended: &State) -> Result<(), WrongVacation> {
    let mut items = replayed.items.iter().zip(&ended.items);
    if let Some(number) = items.position(|(replayed, ended)| replayed != ended) {
        return Err(WrongVacation::State { what: "item", number });
    }
    let mut reservations = replayed.reservations.iter().zip(&ended.reservations);
    let is_same = |replayed: &Reservation, ended: &Reservation| {
        // The ticket has the time at which it was issued.
        *ended == Reservation { pnr: ended.pnr.clone(), ..replayed.clone() }
    };
    if let Some(number) = reservations.position(|(replayed, ended)| !is_same(replayed, ended)) {
        return Err(WrongVacation::State { what: "reservation", number });
    }
    Ok(())
}
