//! What each step costs on this machine, for the simulation: CPU time, which others on the machine change little.
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use enact::{Promise, System, actor};
use enact_stm::atomically;
use enact_workloads::vacation::SLOTS;
use serde::Serialize;

use super::VacationError;
use super::agency::Agency;
use super::run::Workplace;
use crate::measure::{cpu_time_of_process, cpu_time_of_thread};

/// How often each step is measured; the best counts, because the others were disturbed.
const REPEATS: usize = 5;
const MESSAGES: usize = 2_000;
/// Tickets that are timed.
const TICKETS: usize = 64;

/// Nanoseconds of each step.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Costs {
    /// The search for one slot.
    pub(super) find_ns: u64,
    /// Some tickets, in order of time: their differences decide which transaction commits first.
    pub(super) tickets_ns: Vec<u64>,
    /// Booking an item, with the commit.
    pub(super) book_ns: u64,
    /// Sending a message and taking it up.
    pub(super) message_ns: u64,
    /// The same for one of four messages of a transaction, with their share of it.
    pub(super) order_ns: u64,
}

impl Costs {
    pub(super) fn measure(workplace: &Workplace) -> Result<Self, VacationError> {
        let customers = workplace.settings.size.customers;
        let agency = Agency::new(workplace.settings, &workplace.initial);
        let find_ns = best_ns(customers, || (0..customers).for_each(|customer| search(&agency, customer)));
        let find_and_book_ns = best_ns(customers, || {
            let agency = Agency::new(workplace.settings, &workplace.initial);
            (0..customers).for_each(|customer| book(&agency, customer));
        });
        // Reading the clock takes as long as a ticket without a hash.
        let at_once = if workplace.settings.cost.is_free() { 100 } else { 1 };
        let ticket = |customer| drop(black_box(agency.ticket(customer, 0, 0)));
        let ticket_ns = |customer| took_ns(|| (0..at_once).for_each(|_| ticket(customer))) / at_once;
        let mut tickets_ns: Vec<_> = (0..TICKETS).map(ticket_ns).collect();
        tickets_ns.sort_unstable();
        let book_ns = find_and_book_ns.saturating_sub(find_ns);
        let [message_ns, order_ns] = messages_ns(workplace.workers)?;
        Ok(Self { find_ns, tickets_ns, book_ns, message_ns, order_ns })
    }

    /// The same with bookings that take as large a part of a ticket as in the paper. With one secondary its best run took
    /// 743 ms for 4,000 bookings, which that one made one after the other; a ticket took 5.5 ms.
    pub(super) fn with_bookings_of_the_paper(&self) -> Self {
        const BOOKING_TO_TICKET: f64 = (743.0 / 4_000.0) / 5.48;
        Self { find_ns: (self.ticket_ns() as f64 * BOOKING_TO_TICKET) as u64, ..self.clone() }
    }

    /// The ticket in the middle.
    pub(super) fn ticket_ns(&self) -> u64 {
        self.tickets_ns[self.tickets_ns.len() / 2]
    }
}

fn took_ns(work: impl FnOnce()) -> u64 {
    let started = cpu_time_of_thread();
    work();
    (cpu_time_of_thread() - started).as_nanos() as u64
}

/// The best of several times for `work`, for each of the `count` things in it.
fn best_ns(count: usize, mut work: impl FnMut()) -> u64 {
    let best = (0..REPEATS).map(|_| took_ns(&mut work)).min();
    best.unwrap_or_default() / count as u64
}

fn search(agency: &Agency, customer: usize) {
    black_box(atomically(|tx| agency.find(tx, customer, 0..1)).run());
}

fn book(agency: &Agency, customer: usize) {
    let booked = atomically(|tx| {
        let finds = agency.find(tx, customer, 0..1)?;
        agency.book(tx, customer, finds, None)
    });
    black_box(booked.run());
}

/// Takes messages up, and does nothing with them.
#[derive(Clone)]
struct Letterbox;

#[actor(speculative)]
impl Letterbox {
    async fn letter(&mut self, _number: usize, _from: Arc<()>) {}
}

/// Sends from a turn, so that everything happens on the system's workers, and tells what all of them used.
struct Sender(LetterboxRef);

#[actor]
impl Sender {
    async fn send(&mut self, letters: usize) -> Duration {
        let (started, token) = (cpu_time_of_process(), Arc::new(()));
        for number in 0..letters {
            self.0.tell().letter(number, Arc::clone(&token));
        }
        let _last = self.0.letter(letters, token).await;
        cpu_time_of_process() - started
    }

    async fn send_in_transactions(&mut self, letters: usize) -> Duration {
        let (started, token) = (cpu_time_of_process(), Arc::new(()));
        for first in (0..letters).step_by(SLOTS.len()) {
            let sent = atomically(|tx| {
                for slot in 0..SLOTS.len() {
                    self.0.tell_within(tx).letter(first + slot, Arc::clone(&token));
                }
                Ok(())
            });
            sent.await;
        }
        let _last = self.0.letter(letters, token).await;
        cpu_time_of_process() - started
    }
}

/// What a message costs by itself, and as a part of a transaction.
fn messages_ns(workers: usize) -> Result<[u64; 2], VacationError> {
    let system = System::builder().workers(workers).build().map_err(VacationError::Threads)?;
    let sender = system.spawn(Sender(system.spawn(Letterbox)));
    let best = |send: &dyn Fn() -> Promise<Duration>| {
        let took = (0..REPEATS).filter_map(|_| send().wait().ok()).min();
        took.unwrap_or_default().as_nanos() as u64 / MESSAGES as u64
    };
    Ok([best(&|| sender.send(MESSAGES)), best(&|| sender.send_in_transactions(MESSAGES))])
}
