//! Items, reservations, and how both are changed by a booking.
use std::fmt;
use std::sync::Arc;

use crate::SplitMix64;

const SEED: u64 = 42;

/// How much there is of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Reservations to be processed.
    pub customers: usize,
    /// Items in each table.
    pub items: usize,
    /// Items that a search looks at.
    pub queries: usize,
}

/// What kind of item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Flights.
    Flights,
    /// Hotel rooms.
    Rooms,
    /// Cars.
    Cars,
}

/// What each customer books, in this order.
pub const SLOTS: [Table; 4] = [Table::Flights, Table::Flights, Table::Rooms, Table::Cars];

impl Size {
    /// The numbers of the items of `table`, among those of all tables.
    pub fn numbers_of(&self, table: Table) -> std::ops::Range<usize> {
        let first = table as usize * self.items;
        first..first + self.items
    }
}

/// A flight, room or car.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Seats or beds left; negative only after a mistake.
    pub seats: i32,
    /// Of one booking, however many people it is for.
    pub price: u32,
    /// Bookings so far, which makes it the version of the item.
    pub bookings: u32,
}

impl Item {
    /// The item after a booking for `people`.
    #[must_use]
    pub fn booked(&self, people: u32) -> Self {
        Self { seats: self.seats - people.cast_signed(), bookings: self.bookings + 1, ..*self }
    }
}

/// How far a reservation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Nobody has begun.
    Requested,
    /// It has its ticket; its bookings follow.
    InProcess,
    /// It has its ticket and its bookings.
    Processed,
}

/// What became of one of the [`SLOTS`] of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    /// How often it was processed; more than once only after a mistake.
    pub times: u32,
    /// The item, unless nothing was found.
    pub item: Option<usize>,
}

/// What a customer wants and gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// How many travel.
    pub people: u32,
    /// Where to.
    pub destination: u32,
    /// Prices of what is booked.
    pub total: u32,
    /// How far it is.
    pub status: Status,
    /// Ticket number.
    pub pnr: Option<Arc<str>>,
    /// What became of each slot.
    pub slots: [Slot; SLOTS.len()],
    /// Committed changes so far, which makes it the version of the reservation.
    pub changes: u32,
}

impl Reservation {
    fn new(people: u32, destination: u32) -> Self {
        let (slots, status) = (Default::default(), Status::Requested);
        Self { people, destination, total: 0, status, pnr: None, slots, changes: 0 }
    }

    /// Notes the search for `slot`, with number and price of the item that was booked.
    pub fn book(&mut self, slot: usize, found: Option<(usize, u32)>) {
        self.slots[slot].times += 1;
        self.slots[slot].item = found.map(|(item, _)| item);
        self.total += found.map_or(0, |(_, price)| price);
    }
}

/// All items, and all reservations.
#[derive(Clone, PartialEq, Eq)]
pub struct State {
    /// By number: the flights, then the rooms, then the cars.
    pub items: Vec<Item>,
    /// By number.
    pub reservations: Vec<Reservation>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State of {} items and {} reservations", self.items.len(), self.reservations.len())
    }
}

/// The state before anybody has booked; the same for the same size.
pub fn generate(size: &Size) -> State {
    let mut draws = SplitMix64::new(SEED);
    let mut below = |bound: u64| draws.below(bound) as u32;
    let reservations = (0..size.customers).map(|_| {
        let people = below(5) + 1;
        Reservation::new(people, below(100))
    });
    let reservations = reservations.collect();
    let items = (0..3 * size.items).map(|_| {
        let seats = (below(5).cast_signed() + 1) * 100;
        Item { seats, price: below(5) * 10 + 50, bookings: 0 }
    });
    State { items: items.collect(), reservations }
}
