//! Vacation: its input against values of an independent program, and its oracle against each kind of mistake.

use std::convert::Infallible;
use std::sync::Arc;

use enact_workloads::vacation::{
    Commit, Cost, Item, SLOTS, Size, State, Status, Table, Ticket, WrongVacation, find, generate, verify,
};

const PAPER: Size = Size { customers: 1_000, items: 50, queries: 10 };
/// So few items and seats that customers meet, and flights sell out.
const SMALL: Size = Size { customers: 200, items: 3, queries: 2 };

#[test]
fn input_has_the_expected_sums() {
    let state = generate(&PAPER);
    assert_eq!(state.reservations.iter().map(|reservation| reservation.people).sum::<u32>(), 2_953);
    let sums = |table| {
        let items = &state.items[PAPER.numbers_of(table)];
        (items.iter().map(|item| item.seats).sum::<i32>(), items.iter().map(|item| item.price).sum::<u32>())
    };
    assert_eq!(sums(Table::Flights), (14_900, 3_490));
    assert_eq!(sums(Table::Rooms), (15_100, 3_500));
    assert_eq!(sums(Table::Cars), (16_500, 3_520));
}

/// A run: where it began, where it ended, and what committed.
struct Run {
    size: Size,
    initial: State,
    ended: State,
    commits: Vec<Commit>,
}

impl Run {
    /// One customer after the other; with `is_split` a commit for the ticket and one for each slot, otherwise one.
    fn sequential(size: Size, is_split: bool) -> Self {
        let initial = generate(&size);
        let mut run = Self { size, ended: initial.clone(), initial, commits: Vec::new() };
        for customer in 0..size.customers {
            if is_split {
                run.commit(customer, true, &[]);
                (0..SLOTS.len()).for_each(|slot| run.commit(customer, false, &[slot]));
            } else {
                run.commit(customer, true, &[0, 1, 2, 3]);
            }
        }
        run
    }

    fn commit(&mut self, customer: usize, has_ticket: bool, slots: &[usize]) {
        let (items, reservation) = (&mut self.ended.items, &mut self.ended.reservations[customer]);
        let seen = reservation.changes;
        let mut finds = Vec::new();
        let mut held = Vec::new();
        for &slot in slots {
            let look = |number: usize| Ok::<_, Infallible>(items[number]);
            let Ok(found) = find(&self.size, (customer, slot, 0), reservation.people, &held, look);
            held.extend(found.item);
            finds.push(found);
        }
        for found in &finds {
            reservation.book(found.slot, found.item.map(|number| (number, items[number].price)));
            if let Some(number) = found.item {
                items[number] = items[number].booked(reservation.people);
            }
        }
        if has_ticket {
            let pnr = Ticket::draw(customer, 0).issue(reservation.destination, 1, Cost::FREE);
            reservation.pnr = Some(Arc::from(pnr));
            reservation.status = if slots.is_empty() { Status::InProcess } else { Status::Processed };
        }
        reservation.changes += 1;
        self.commits.push(Commit { reservation: customer, seen, ticket: has_ticket.then_some(0), finds });
    }

    fn verify(&self) -> Result<(), WrongVacation> {
        verify(&self.size, Cost::FREE, &self.initial, &self.ended, &self.commits)
    }

    /// Item that `customer` has booked for a slot.
    fn booked(&self, customer: usize, slot: usize) -> usize {
        self.ended.reservations[customer].slots[slot].item.expect("something was found")
    }
}

#[test]
fn with_the_papers_size_everybody_gets_everything() {
    let run = Run::sequential(PAPER, false);
    assert_eq!(run.verify(), Ok(()));
    let taken = |table| {
        let numbers = PAPER.numbers_of(table);
        numbers.map(|item| run.initial.items[item].seats - run.ended.items[item].seats).sum::<i32>()
    };
    assert_eq!([Table::Flights, Table::Rooms, Table::Cars].map(taken), [5_906, 2_953, 2_953]);
}

#[test]
fn sequential_runs_are_right_in_any_order_of_their_commits() {
    for is_split in [false, true] {
        let mut run = Run::sequential(SMALL, is_split);
        assert_eq!(run.verify(), Ok(()));
        let sold_out = run.ended.items.iter().filter(|item| item.seats < 5).count();
        assert!(sold_out > 0, "no item was sold out");
        run.commits.reverse();
        assert_eq!(run.verify(), Ok(()), "split: {is_split}");
    }
}

/// Changes a right run, and says what the oracle finds.
fn spoiled(spoil: impl FnOnce(&mut Run)) -> WrongVacation {
    let mut run = Run::sequential(SMALL, true);
    spoil(&mut run);
    run.verify().expect_err("the oracle finds the mistake")
}

#[test]
fn a_slot_processed_twice_or_never_is_found() {
    let twice = spoiled(|run| run.commit(7, false, &[2]));
    assert_eq!(twice, WrongVacation::Slot { reservation: 7, slot: 2, times: 2 });
    let never = spoiled(|run| run.ended.reservations[0].slots[3].times = 0);
    assert_eq!(never, WrongVacation::Slot { reservation: 0, slot: 3, times: 0 });
}

#[test]
fn a_missing_or_wrong_ticket_is_found() {
    let is_of = |wrong: &WrongVacation, customer| matches!(wrong, WrongVacation::Ticket { reservation, .. } if *reservation == customer);
    let missing = spoiled(|run| run.ended.reservations[5].pnr = None);
    let others = spoiled(|run| run.ended.reservations[5].pnr = run.ended.reservations[6].pnr.clone());
    let without_status = spoiled(|run| run.ended.reservations[5].status = Status::Requested);
    let issued_twice = spoiled(|run| run.commits[5 * 5 + 1].ticket = Some(0));
    for wrong in [missing, others, without_status, issued_twice] {
        assert!(is_of(&wrong, 5), "{wrong}");
    }
}

#[test]
fn seats_that_do_not_add_up_are_found() {
    let check = |change: fn(&mut Item)| {
        let wrong = spoiled(|run| {
            let item = run.booked(3, 2);
            change(&mut run.ended.items[item]);
        });
        assert!(matches!(wrong, WrongVacation::Seats { .. }), "{wrong}");
    };
    check(|item| item.seats += 1);
    check(|item| item.bookings += 1);
    let oversold = spoiled(|run| {
        let item = run.booked(3, 2);
        let seats = run.ended.items[item].seats + 1;
        run.initial.items[item].seats -= seats;
        run.ended.items[item].seats -= seats;
    });
    assert!(matches!(oversold, WrongVacation::Seats { seats: -1, .. }), "{oversold}");
}

#[test]
fn a_bill_that_is_not_the_sum_of_its_prices_is_found() {
    let wrong = spoiled(|run| run.ended.reservations[9].total += 10);
    assert!(matches!(wrong, WrongVacation::Total { reservation: 9, .. }), "{wrong}");
}

#[test]
fn a_stale_search_is_found() {
    let stale = spoiled(|run| {
        let late = run.commits.iter_mut().rev().find(|commit| !commit.finds.is_empty()).expect("a search");
        late.finds[0].seen.fill(0);
    });
    assert!(matches!(stale, WrongVacation::Version { .. } | WrongVacation::Circle { .. }), "{stale}");
}

#[test]
fn a_search_before_the_ticket_is_found() {
    let early = spoiled(|run| {
        // The ticket is made last: version 4 instead of version 0 of the reservation.
        run.commits[0].seen = 4;
        (1..5).for_each(|slot| run.commits[slot].seen -= 1);
    });
    assert_eq!(early, WrongVacation::Early { reservation: 0, slot: 0 });
}

#[test]
fn another_choice_than_the_cheapest_is_found() {
    let wrong = spoiled(|run| {
        let last = run.size.customers - 1;
        let (people, taken) = (run.ended.reservations[last].people, run.booked(last, 3));
        let candidates = run.commits.last().expect("commits").finds[0].looked_at(&run.size, last).collect::<Vec<_>>();
        let commit = run.commits.last_mut().expect("commits");
        // As if nothing had been found.
        commit.finds[0].item = None;
        assert!(candidates.contains(&taken));
        let item = &mut run.ended.items[taken];
        *item = Item { seats: item.seats + people.cast_signed(), bookings: item.bookings - 1, ..*item };
        let reservation = &mut run.ended.reservations[last];
        reservation.total -= item.price;
        reservation.slots[3].item = None;
    });
    assert!(matches!(wrong, WrongVacation::Replay { slot: 3, found: None, replayed: Some(_), .. }), "{wrong}");
}

#[test]
fn a_state_that_no_commit_made_is_found() {
    let price = spoiled(|run| {
        let unsold = run.ended.items.iter().position(|item| item.bookings == 0);
        // With every item sold, a changed count of changes shows the same.
        match unsold {
            Some(item) => run.ended.items[item].price += 10,
            None => run.ended.reservations[0].changes += 1,
        }
    });
    assert!(matches!(price, WrongVacation::State { .. }), "{price}");
}
