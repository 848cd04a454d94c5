//! One transfer, and the steps that it takes.

/// A step of a transfer. `usize` is the place of an account among its two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The client's node takes the request.
    Request,
    /// The node of the transfer's own shard coordinates.
    Coordinate,
    /// The account is asked.
    Vote(usize),
    /// The coordinator has its vote.
    Voted(usize),
    Decide,
    /// The client's node answers.
    Answer,
    /// The account hears of the commit.
    Apply(usize),
    /// The account hears of the abort.
    Abort(usize),
}

/// How far an account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Unasked,
    /// On its way, not judged.
    Asked,
    /// Open or delayed.
    Held,
    Gone,
}

/// More transfers than this are never under way.
const PLACES_MAX: u64 = 1 << 24;

#[derive(Debug, Clone)]
pub(super) struct Transfer {
    /// No two transfers have the same.
    pub(super) number: u64,
    pub(super) user: usize,
    pub(super) began: u64,
    /// The shard of the transfer.
    pub(super) shard: usize,
    /// In the order in which they are asked.
    pub(super) accounts: [usize; 2],
    /// What each of them gets.
    pub(super) amounts: [i64; 2],
    pub(super) parts: [Part; 2],
    pub(super) is_decided: bool,
    pub(super) has_given_up: bool,
    pub(super) is_answered: bool,
    /// Nothing will happen to it any more.
    pub(super) is_over: bool,
    /// Steps that are under way or wait for a server.
    pub(super) steps: usize,
}

impl Transfer {
    /// What accounts know it by, if it is at this place. An account may know it for longer than it keeps the place.
    pub(super) fn id(&self, place: usize) -> u64 {
        self.number * PLACES_MAX + place as u64
    }

    /// The place of `account` among the two.
    pub(super) fn place_of(&self, account: usize) -> usize {
        usize::from(self.accounts[0] != account)
    }
}

/// The place of the transfer with this id.
pub(super) fn place_of(id: u64) -> usize {
    (id % PLACES_MAX) as usize
}

/// The transfers that are not over, by place; places are used again.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    places: Vec<Transfer>,
    free: Vec<usize>,
}

impl Transfers {
    /// Returns the place of a new one.
    pub(super) fn begin(&mut self, transfer: Transfer) -> usize {
        if let Some(place) = self.free.pop() {
            self.places[place] = transfer;
            return place;
        }
        self.places.push(transfer);
        self.places.len() - 1
    }

    pub(super) fn at(&self, place: usize) -> &Transfer {
        &self.places[place]
    }

    pub(super) fn at_mut(&mut self, place: usize) -> &mut Transfer {
        &mut self.places[place]
    }

    /// Frees the place if its transfer is over.
    pub(super) fn end_if_over(&mut self, place: usize) {
        let transfer = &mut self.places[place];
        if !transfer.is_over && transfer.is_answered && transfer.steps == 0 && transfer.parts == [Part::Gone; 2] {
            transfer.is_over = true;
            self.free.push(place);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
