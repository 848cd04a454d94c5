//! The schedule on any number of cores, simulated event by event.
//!
//! # What is simulated
//! Actors with FIFO mailboxes take turns on cores; those that are ready wait in one queue for a core. Steps take the time
//! that was measured for them ([`Costs`]), tickets one of several times that were measured. Searches draw the items that the real program draws, and see the seats that
//! are left at that simulated moment. Whether an attempt is lost is not assumed: it is lost if something that it has
//! read was changed by a commit between its read and its own commit.
//!
//! A booking that was ordered by a transaction under way runs at once, waits for that transaction's commit without
//! occupying a core, and runs again if what it has read has changed by then; its reservation always has. Meanwhile its
//! actor takes nothing else.
//!
//! # What is left out
//! The priority of a transaction that has lost often, which changes the losers but not their number; caches, memory bandwidth and the speed
//! of cores that share a socket; the actor that counts what is done; that a message to an actor at rest wakes it. So it
//! is near for tickets with a hash, and too fast for the split version without one, which is all messages.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::convert::Infallible;

use enact_workloads::SplitMix64;
use enact_workloads::vacation::{Find, SLOTS, Size, State, Use, draws, find};

use super::costs::Costs;
use super::run::Team;

/// Of the times that tickets take.
const SEED: u64 = 42;

/// Which changes of others make an attempt fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflicts {
    /// Those of everything that it has read: serializable, as in Enact.
    Reads,
    /// Those of what it writes: snapshot isolation, as in the paper's implementation.
    Writes,
}

/// What a simulated run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    /// From the first message to the last commit.
    pub(super) ns: u64,
    pub(super) aborts: u64,
    pub(super) hashes: u64,
}

/// What is simulated, apart from the team.
pub(super) struct Model<'a> {
    pub(super) size: Size,
    pub(super) costs: &'a Costs,
    pub(super) initial: &'a State,
    pub(super) cores: usize,
    pub(super) conflicts: Conflicts,
}

impl Model<'_> {
    /// Lets `team` serve all customers.
    pub(super) fn run(&self, team: Team) -> Outcome {
        let mut world = World::new(self, team);
        while let Some(Reverse((now, _, actor))) = world.events.pop() {
            world.now = now;
            world.step(actor);
        }
        assert_eq!(world.unfinished, 0, "nobody is left waiting in {team:?}");
        Outcome { ns: world.now, aborts: world.aborts, hashes: world.hashes }
    }
}

/// One message.
#[derive(Debug, Clone, Copy)]
enum Task {
    /// All of a customer, in one transaction.
    Whole(usize),
    /// The ticket of a customer.
    Ticket(usize),
    /// One slot of a customer.
    Slot(usize, usize),
}

/// What an actor is in the middle of; the time of its next event is when that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Finding,
    /// Making the ticket, if there is one to make, and booking.
    Booking,
    /// Finished, waiting without a core for the transaction that ordered it.
    Waiting,
    /// Woken up: checks what it has read.
    Checking,
}

struct Actor {
    mailbox: VecDeque<Task>,
    task: Option<Task>,
    step: Step,
    /// Start of the attempt's reads.
    began: u64,
    finds: Vec<Find>,
    has_ticket: bool,
}

impl Actor {
    fn new() -> Self {
        let (mailbox, finds) = (VecDeque::new(), Vec::new());
        Self { mailbox, task: None, step: Step::Finding, began: 0, finds, has_ticket: false }
    }
}

struct World<'a> {
    model: &'a Model<'a>,
    keeps_ticket: bool,
    /// Of secondaries; they are the last of the actors.
    secondaries: usize,
    now: u64,
    ticket_times: SplitMix64,
    /// Time, number, actor: what happens at the same time happens in the order in which it was decided.
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    decided: u64,
    idle_cores: usize,
    ready: VecDeque<usize>,
    actors: Vec<Actor>,
    state: State,
    /// When each item and each reservation was last changed.
    changed: Vec<u64>,
    reservations_changed: Vec<u64>,
    has_ticket: Vec<bool>,
    /// Actors that wait for the ticket of a customer.
    waiting: Vec<Vec<usize>>,
    unfinished: usize,
    aborts: u64,
    hashes: u64,
}

impl<'a> World<'a> {
    fn new(model: &'a Model<'a>, team: Team) -> Self {
        let customers = model.initial.reservations.len();
        let (primaries, secondaries) = match team {
            Team::Original { primaries } | Team::Kept { primaries } => (primaries, 0),
            Team::Split { primaries, secondaries } => (primaries, secondaries),
        };
        let mut actors: Vec<_> = (0..primaries + secondaries).map(|_| Actor::new()).collect();
        for customer in 0..customers {
            let task = if secondaries > 0 { Task::Ticket(customer) } else { Task::Whole(customer) };
            actors[customer % primaries].mailbox.push_back(task);
        }
        let mut world = Self {
            model,
            keeps_ticket: matches!(team, Team::Kept { .. }),
            secondaries,
            now: 0,
            ticket_times: SplitMix64::new(SEED),
            events: BinaryHeap::new(),
            decided: 0,
            idle_cores: model.cores,
            ready: (0..primaries.min(customers)).collect(),
            actors,
            state: model.initial.clone(),
            changed: vec![0; model.initial.items.len()],
            reservations_changed: vec![0; customers],
            has_ticket: vec![false; customers],
            waiting: vec![Vec::new(); customers],
            unfinished: customers * if secondaries > 0 { 1 + SLOTS.len() } else { 1 },
            aborts: 0,
            hashes: 0,
        };
        world.fill_cores();
        world
    }

    fn at(&mut self, delay: u64, actor: usize) {
        self.decided += 1;
        self.events.push(Reverse((self.now + delay, self.decided, actor)));
    }

    fn fill_cores(&mut self) {
        while self.idle_cores > 0
            && let Some(actor) = self.ready.pop_front()
        {
            self.idle_cores -= 1;
            match self.actors[actor].step {
                Step::Waiting => {
                    self.actors[actor].step = Step::Checking;
                    self.at(0, actor);
                }
                _ => self.take_up(actor),
            }
        }
    }

    /// The actor, on a core, takes its next message.
    fn take_up(&mut self, actor: usize) {
        let task = self.actors[actor].mailbox.pop_front().expect("an actor is ready because it has a message");
        let Costs { message_ns, order_ns, book_ns, .. } = *self.model.costs;
        self.actors[actor].task = Some(task);
        self.actors[actor].has_ticket = false;
        match task {
            Task::Whole(_) => self.begin(actor, message_ns),
            // Half of an order is sending it.
            Task::Slot(..) => self.begin(actor, order_ns / 2),
            Task::Ticket(customer) => {
                self.order(customer);
                self.actors[actor].step = Step::Booking;
                let ticket_ns = self.ticket_ns();
                self.at(message_ns + SLOTS.len() as u64 * order_ns / 2 + ticket_ns + book_ns, actor);
            }
        }
    }

    fn order(&mut self, customer: usize) {
        let mut choices = draws(customer, Use::Workers, 0);
        let first = self.actors.len() - self.secondaries;
        for slot in 0..SLOTS.len() {
            let secondary = first + choices.below(self.secondaries as u64) as usize;
            let is_idle = self.actors[secondary].task.is_none() && self.actors[secondary].mailbox.is_empty();
            self.actors[secondary].mailbox.push_back(Task::Slot(customer, slot));
            if is_idle {
                self.ready.push_back(secondary);
            }
        }
    }

    /// Starts an attempt of the actor's transaction, after `delay`.
    fn begin(&mut self, actor: usize, delay: u64) {
        let slots = self.slots(actor).len() as u64;
        self.actors[actor].began = self.now + delay;
        self.actors[actor].step = Step::Finding;
        self.at(delay + slots * self.model.costs.find_ns, actor);
    }

    fn slots(&self, actor: usize) -> std::ops::Range<usize> {
        match self.actors[actor].task {
            Some(Task::Whole(_)) => 0..SLOTS.len(),
            Some(Task::Slot(_, slot)) => slot..slot + 1,
            Some(Task::Ticket(_)) | None => 0..0,
        }
    }

    fn customer(&self, actor: usize) -> usize {
        match self.actors[actor].task {
            Some(Task::Whole(customer) | Task::Ticket(customer) | Task::Slot(customer, _)) => customer,
            None => unreachable!("an actor without a task has no event"),
        }
    }

    fn step(&mut self, actor: usize) {
        match self.actors[actor].step {
            Step::Finding => self.found(actor),
            Step::Booking => self.booked(actor),
            Step::Checking => self.commit(actor),
            Step::Waiting => unreachable!("a waiting actor has no event"),
        }
        self.fill_cores();
    }

    fn found(&mut self, actor: usize) {
        let customer = self.customer(actor);
        let people = self.state.reservations[customer].people;
        let mut held = Vec::new();
        let mut finds = Vec::new();
        for slot in self.slots(actor) {
            let look = |item: usize| Ok::<_, Infallible>(self.state.items[item]);
            let Ok(found) = find(&self.model.size, (customer, slot, 0), people, &held, look);
            held.extend(found.item);
            finds.push(found);
        }
        self.actors[actor].finds = finds;
        // A read that finds something new checks all reads before it.
        if self.model.conflicts == Conflicts::Reads && self.has_lost(actor) {
            self.aborts += 1;
            self.begin(actor, 0);
            return;
        }
        let mut delay = self.actors[actor].finds.len() as u64 * self.model.costs.book_ns;
        if matches!(self.actors[actor].task, Some(Task::Whole(_))) && !self.actors[actor].has_ticket {
            self.actors[actor].has_ticket = self.keeps_ticket;
            delay += self.ticket_ns();
        }
        self.actors[actor].step = Step::Booking;
        self.at(delay, actor);
    }

    /// Makes a ticket, and tells how long it takes.
    fn ticket_ns(&mut self) -> u64 {
        self.hashes += 1;
        let tickets_ns = &self.model.costs.tickets_ns;
        tickets_ns[self.ticket_times.below(tickets_ns.len() as u64) as usize]
    }

    fn booked(&mut self, actor: usize) {
        let customer = self.customer(actor);
        if matches!(self.actors[actor].task, Some(Task::Slot(..))) && !self.has_ticket[customer] {
            self.actors[actor].step = Step::Waiting;
            self.waiting[customer].push(actor);
            self.idle_cores += 1;
        } else {
            self.commit(actor);
        }
    }

    fn commit(&mut self, actor: usize) {
        if self.has_lost(actor) {
            self.aborts += 1;
            self.begin(actor, 0);
            return;
        }
        let customer = self.customer(actor);
        let people = self.state.reservations[customer].people;
        for item in self.actors[actor].finds.iter().filter_map(|find| find.item) {
            self.state.items[item] = self.state.items[item].booked(people);
            self.changed[item] = self.now;
        }
        self.reservations_changed[customer] = self.now;
        self.unfinished -= 1;
        if let Some(Task::Ticket(_)) = self.actors[actor].task {
            self.has_ticket[customer] = true;
            self.ready.extend(std::mem::take(&mut self.waiting[customer]));
        }
        self.end_turn(actor);
    }

    fn end_turn(&mut self, actor: usize) {
        let Actor { mailbox, task, step, finds, .. } = &mut self.actors[actor];
        (*task, *step) = (None, Step::Finding);
        finds.clear();
        if !mailbox.is_empty() {
            self.ready.push_back(actor);
        }
        self.idle_cores += 1;
    }

    /// Whether something that the attempt has read, or writes, was changed since.
    fn has_lost(&self, actor: usize) -> bool {
        let Actor { task, began, finds, .. } = &self.actors[actor];
        let customer = self.customer(actor);
        let is_slot = matches!(task, Some(Task::Slot(..)));
        if is_slot && self.reservations_changed[customer] > *began {
            return true;
        }
        if self.model.conflicts == Conflicts::Writes {
            return finds.iter().filter_map(|find| find.item).any(|item| self.changed[item] > *began);
        }
        let (size, find_ns) = (&self.model.size, self.model.costs.find_ns);
        let per_read = find_ns as f64 / size.queries.max(1) as f64;
        let items = finds.iter().flat_map(|find| find.looked_at(size, customer)).enumerate();
        items.into_iter().any(|(place, item)| self.changed[item] > began + (place as f64 * per_read) as u64)
    }
}

#[cfg(test)]
mod tests {
    use enact_workloads::vacation::generate;

    use super::*;

    const SIZE: Size = Size { customers: 200, items: 50, queries: 10 };

    fn run(cores: usize, conflicts: Conflicts, team: Team) -> Outcome {
        let initial = generate(&SIZE);
        let costs =
            Costs { find_ns: 1_000, tickets_ns: vec![2_000_000], book_ns: 1_000, message_ns: 200, order_ns: 400 };
        Model { size: SIZE, costs: &costs, initial: &initial, cores, conflicts }.run(team)
    }

    fn split(primaries: usize, secondaries: usize) -> Team {
        Team::Split { primaries, secondaries }
    }

    #[test]
    fn one_clerk_takes_the_sum_of_all_steps_and_loses_nothing() {
        let outcome = run(64, Conflicts::Reads, Team::Original { primaries: 1 });
        let a_customer = 200 + 4 * 1_000 + 2_000_000 + 4 * 1_000;
        assert_eq!(outcome, Outcome { ns: 200 * a_customer, aborts: 0, hashes: 200 });
    }

    #[test]
    fn a_core_is_shared_by_all_clerks() {
        let outcome = run(1, Conflicts::Reads, Team::Original { primaries: 8 });
        assert_eq!(outcome, run(1, Conflicts::Reads, Team::Original { primaries: 1 }));
    }

    #[test]
    fn the_original_hashes_once_an_attempt_and_keeping_once_a_customer() {
        let original = run(64, Conflicts::Reads, Team::Original { primaries: 16 });
        // Only attempts that are lost in their reads are lost before the hash.
        assert!((400..=200 + original.aborts).contains(&original.hashes), "{original:?}");
        let kept = run(64, Conflicts::Reads, Team::Kept { primaries: 16 });
        assert_eq!(kept.hashes, 200);
        assert!(kept.ns < original.ns / 4, "{kept:?}, {original:?}");
    }

    #[test]
    fn fewer_attempts_are_lost_if_only_writes_conflict() {
        let team = Team::Original { primaries: 16 };
        let (reads, writes) = (run(64, Conflicts::Reads, team), run(64, Conflicts::Writes, team));
        assert!(0 < writes.aborts && writes.aborts < reads.aborts, "{writes:?}, {reads:?}");
    }

    #[test]
    fn the_split_version_never_hashes_again_and_scales_with_primaries() {
        let small = run(64, Conflicts::Reads, split(1, 1));
        let large = run(64, Conflicts::Reads, split(20, 4));
        assert_eq!((small.hashes, large.hashes), (200, 200));
        assert!(large.ns * 15 < small.ns, "{large:?}, {small:?}");
    }

    #[test]
    fn a_booking_that_waited_for_its_ticket_runs_again_once() {
        // One secondary: the first booking of each customer waits, the other three come after the ticket.
        assert_eq!(run(64, Conflicts::Reads, split(1, 1)).aborts, 200);
        // On one core, nothing runs beside the ticket.
        assert_eq!(run(1, Conflicts::Reads, split(1, 1)).aborts, 0);
    }
}
