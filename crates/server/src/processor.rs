//! The time that workers spend on connections, shared fairly among clients.
//!
//! # Problem
//! A runtime polls its tasks in turn, so a client would have as many turns as connections: one request would wait for a
//! poll of each of two thousand connections that flood the server.
//!
//! # Rule
//! At most as many connections are polled at once as there are workers. When all of these places are taken, connections
//! queue, and the next place goes to the client that has used the least: start-time fair queueing, in which a client's
//! next poll *starts* at the end of its last one or now, whichever is later, in a virtual time. Virtual time advances to the
//! start of each poll, and by a client's part of the time that was used. So all clients that have work for the workers get
//! equal time, however many connections each has; a client that has been quiet goes first, but saves nothing up; and new
//! clients, however many, keep no other one waiting for ever.
//!
//! # Nothing waits for ever
//! A place is given back when its poll has ended, or its connection is dropped, and is handed on at once if a connection
//! waits. A poll never waits for another one. The start of a client that waits is fixed, and those of all others pass it.
//!
//! # Source
//! Goyal, Vin and Cheng, *Start-Time Fair Queueing*, 1997. The cost of a poll is known only when it has ended; until then it
//! is taken to be that of the client's last one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use parking_lot::Mutex;

use crate::places::Client;

/// Settled accounts are looked for when there are twice as many accounts as the last look has left, and this many.
const ACCOUNTS_MIN: usize = 64;

/// The workers that poll connections.
#[derive(Debug)]
pub(crate) struct Processor {
    queues: Mutex<Queues>,
}

/// A connection that is polled when it is its client's turn.
pub(crate) struct Shared<F> {
    turn: Turn,
    connection: Pin<Box<F>>,
}

/// The turns of one connection.
struct Turn {
    of: Arc<Processor>,
    client: Client,
    connection: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Until it has a place.
    Queued,
    Polled,
}

#[derive(Debug)]
struct Queues {
    places: usize,
    taken: usize,
    /// The virtual time in nanoseconds.
    now: u64,
    accounts: HashMap<Client, Account>,
    accounts_max: usize,
    /// The clients with queued connections, by the start of their next poll and by when they were listed.
    next: BTreeMap<(u64, u64), Client>,
    listings: u64,
    /// The wakers of queued connections. A queued connection without one here has a place.
    wakers: HashMap<u64, Waker>,
    connections: u64,
}

/// The use that a client makes of the workers.
#[derive(Debug, Default)]
struct Account {
    /// The virtual time at which the last of its polls has ended.
    until: u64,
    /// How many of its connections are being polled.
    polled: u64,
    /// What its last poll took, in nanoseconds.
    last_cost: u64,
    /// Its connections that wait for a place, and some that are gone.
    queue: VecDeque<u64>,
    /// Its key in [`Queues::next`].
    listed: Option<(u64, u64)>,
}

impl Processor {
    /// Workers that poll `places` connections at once.
    pub(crate) fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { queues: Mutex::new(Queues::new(places)) })
    }

    /// Lets `connection` of `client` share the workers with all others.
    pub(crate) fn share<F>(self: &Arc<Self>, client: Client, connection: F) -> Shared<F> {
        let number = self.queues.lock().enter();
        let turn = Turn { of: Arc::clone(self), client, connection: number, phase: Phase::Idle };
        Shared { turn, connection: Box::pin(connection) }
    }
}

impl<F: Future> Future for Shared<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if !self.turn.begin(cx.waker()) {
            return Poll::Pending;
        }
        let begin = Instant::now();
        let polled = self.connection.as_mut().poll(cx);
        self.turn.end(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
        polled
    }
}

impl Turn {
    /// Whether the connection has a place; if not, `waker` is woken when it has.
    fn begin(&mut self, waker: &Waker) -> bool {
        let mut queues = self.of.queues.lock();
        let has_place = match self.phase {
            Phase::Queued => queues.has_place(self.connection, waker),
            Phase::Idle | Phase::Polled => queues.take_or_queue(self.client, self.connection, waker),
        };
        self.phase = if has_place { Phase::Polled } else { Phase::Queued };
        has_place
    }

    /// Gives the place back after a poll that took `cost` nanoseconds.
    fn end(&mut self, cost: u64) {
        self.phase = Phase::Idle;
        let next = self.of.queues.lock().give_back(self.client, cost);
        next.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let has_place = match self.phase {
            Phase::Idle => false,
            Phase::Queued => self.of.queues.lock().leave(self.connection),
            // Its poll has panicked.
            Phase::Polled => true,
        };
        if has_place {
            self.end(0);
        }
    }
}

impl Queues {
    fn new(places: usize) -> Self {
        Self {
            places,
            taken: 0,
            now: 0,
            accounts: HashMap::new(),
            accounts_max: ACCOUNTS_MIN,
            next: BTreeMap::new(),
            listings: 0,
            wakers: HashMap::new(),
            connections: 0,
        }
    }

    fn enter(&mut self) -> u64 {
        self.connections += 1;
        self.connections
    }

    /// Takes a free place for a poll of `connection`, or queues it.
    fn take_or_queue(&mut self, client: Client, connection: u64, waker: &Waker) -> bool {
        let account = self.accounts.entry(client).or_default();
        if account.polled == 0 && account.queue.is_empty() {
            // It has been quiet, and saves nothing up.
            account.until = account.until.max(self.now);
        }
        // A place is handed on as long as a connection waits, so a free one is nobody else's.
        if self.taken < self.places {
            self.taken += 1;
            self.begin(client);
            return true;
        }
        account.queue.push_back(connection);
        self.wakers.insert(connection, waker.clone());
        self.list(client);
        false
    }

    /// Whether the queued `connection` has been given a place; if not, it will wake `waker`.
    fn has_place(&mut self, connection: u64, waker: &Waker) -> bool {
        match self.wakers.get_mut(&connection) {
            None => true,
            Some(queued) => {
                queued.clone_from(waker);
                false
            }
        }
    }

    /// Takes the queued `connection` out. Returns whether it has been given a place.
    fn leave(&mut self, connection: u64) -> bool {
        self.wakers.remove(&connection).is_none()
    }

    /// Ends a poll of `client`; the waker of the connection that has its place now.
    fn give_back(&mut self, client: Client, cost: u64) -> Option<Waker> {
        self.taken -= 1;
        let account = self.accounts.get_mut(&client).expect("an account with a poll is kept");
        account.polled -= 1;
        account.until = account.until.saturating_add(cost);
        account.last_cost = cost;
        let is_listed = account.listed.is_some();
        self.now = self.now.saturating_add(cost / (self.next.len() as u64 + 1));
        if is_listed {
            self.list(client);
        }
        self.forget_settled();
        self.hand_on()
    }

    fn hand_on(&mut self) -> Option<Waker> {
        while let Some((_, client)) = self.next.pop_first() {
            let account = self.accounts.get_mut(&client).expect("a listed account is kept");
            account.listed = None;
            let waker = loop {
                match account.queue.pop_front() {
                    None => break None,
                    Some(connection) => match self.wakers.remove(&connection) {
                        // It is gone.
                        None => continue,
                        waker => break waker,
                    },
                }
            };
            let has_more = !account.queue.is_empty();
            if waker.is_some() {
                self.taken += 1;
                self.begin(client);
            }
            if has_more {
                self.list(client);
            }
            if waker.is_some() {
                return waker;
            }
        }
        None
    }

    fn begin(&mut self, client: Client) {
        let account = self.accounts.get_mut(&client).expect("a client with a connection to poll");
        self.now = self.now.max(account.start());
        account.polled += 1;
    }

    /// Puts `client` where it belongs among those with queued connections.
    fn list(&mut self, client: Client) {
        let account = self.accounts.get_mut(&client).expect("a client with queued connections");
        self.listings += 1;
        let place = (account.start(), self.listings);
        if let Some(before) = account.listed.replace(place) {
            self.next.remove(&before);
        }
        self.next.insert(place, client);
    }

    /// Forgets the accounts that say no more than none.
    fn forget_settled(&mut self) {
        if self.accounts.len() < self.accounts_max {
            return;
        }
        let now = self.now;
        self.accounts.retain(|_, account| account.polled > 0 || account.listed.is_some() || account.until > now);
        self.accounts_max = ACCOUNTS_MIN.max(2 * self.accounts.len());
    }
}

impl Account {
    /// When its next poll starts.
    fn start(&self) -> u64 {
        self.until.saturating_add(self.polled.saturating_mul(self.last_cost))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Connection {
        turn: Turn,
        woken: Arc<Woken>,
    }

    impl Connection {
        fn of(processor: &Arc<Processor>, client: u8) -> Self {
            let client = Client::at(IpAddr::from([10, 0, 0, client]));
            Self { turn: processor.share(client, ()).turn, woken: Arc::default() }
        }

        fn begin(&mut self) -> bool {
            self.turn.begin(&Arc::clone(&self.woken).into())
        }

        fn is_woken(&self) -> bool {
            self.woken.0.swap(0, Ordering::Relaxed) > 0
        }
    }

    /// Connections that always have work, of clients by number, of which each poll takes the given time. Who was polled,
    /// poll by poll.
    struct Busy {
        connections: Vec<(u8, u64, Connection)>,
        /// The polls that go on, in the order in which they end.
        polled: VecDeque<usize>,
    }

    impl Busy {
        fn new(processor: &Arc<Processor>, clients: &[(u8, u64)]) -> Self {
            let connection = |&(client, cost): &(u8, u64)| (client, cost, Connection::of(processor, client));
            Self { connections: clients.iter().map(connection).collect(), polled: VecDeque::new() }
        }

        fn begin(&mut self, index: usize) {
            if self.connections[index].2.begin() {
                self.polled.push_back(index);
            }
        }

        /// Ends the oldest poll, whose connection has work again at once; the client and the cost of the poll.
        fn step(&mut self) -> (u8, u64) {
            let ends = self.polled.pop_front().expect("a poll");
            let (client, cost, connection) = &mut self.connections[ends];
            connection.turn.end(*cost);
            let ended = (*client, *cost);
            for index in 0..self.connections.len() {
                if self.connections[index].2.is_woken() {
                    self.begin(index);
                }
            }
            self.begin(ends);
            ended
        }
    }

    #[test]
    fn clients_get_equal_time_however_many_connections_they_have_and_however_long_their_polls_take() {
        for places in [1, 2, 4] {
            let processor = Processor::new(places);
            let many = (0..200).map(|_| (1, 10));
            let clients: Vec<_> =
                many.chain([(2, 30), (2, 30), (2, 30), (2, 30), (3, 7), (3, 7), (3, 7), (3, 7)]).collect();
            let mut busy = Busy::new(&processor, &clients);
            (0..clients.len()).for_each(|index| busy.begin(index));
            let mut time: HashMap<u8, u64> = HashMap::new();
            for _ in 0..20_000 {
                let (client, cost) = busy.step();
                *time.entry(client).or_default() += cost;
            }
            let (least, most) = (time.values().min().expect("some"), time.values().max().expect("some"));
            assert!(most - least <= 30 * (places as u64 + 1), "{places} places: {time:?}");
        }
    }

    #[test]
    fn a_client_that_was_quiet_is_next() {
        let processor = Processor::new(2);
        let floods: Vec<_> = (0..640_u32).map(|number| (1 + (number % 64) as u8, 10)).collect();
        let mut busy = Busy::new(&processor, &floods);
        (0..floods.len()).for_each(|index| busy.begin(index));
        for _ in 0..1_000 {
            busy.step();
        }
        let mut quiet = Connection::of(&processor, 200);
        for round in 0..100 {
            assert!(!quiet.begin(), "both places are taken");
            let polls = (1..).find(|_| {
                busy.step();
                quiet.is_woken()
            });
            // Those who have used as little as a newcomer go in the order of their numbers.
            assert!(polls.expect("some") <= 64, "round {round}: {polls:?}");
            assert!(quiet.begin());
            quiet.turn.end(1);
            for _ in 0..640 {
                busy.step();
            }
        }
    }

    #[test]
    fn new_clients_keep_no_other_one_waiting_for_ever() {
        let processor = Processor::new(1);
        let mut waiting = Connection::of(&processor, 1);
        assert!(waiting.begin());
        let mut newcomers = VecDeque::new();
        let come = |newcomers: &mut VecDeque<Connection>| {
            let client = Client::at(IpAddr::V4((0x0b00_0000 + newcomers.len() as u32).into()));
            let turn = processor.share(client, ()).turn;
            newcomers.push_back(Connection { turn, woken: Arc::default() });
            assert!(!newcomers.back_mut().expect("one").begin());
        };
        (0..10).for_each(|_| come(&mut newcomers));
        waiting.turn.end(1_000);
        assert!(!waiting.begin());
        let polls = (0..).find(|_| {
            let polled = newcomers.iter().position(Connection::is_woken).expect("one has the place");
            come(&mut newcomers);
            assert!(newcomers[polled].begin());
            newcomers[polled].turn.end(100);
            waiting.is_woken()
        });
        assert!(polls.expect("some") <= 200, "{polls:?}");
    }

    #[test]
    fn quiet_clients_save_nothing_up() {
        let processor = Processor::new(1);
        let mut busy = Busy::new(&processor, &[(1, 10), (1, 10), (2, 10), (2, 10)]);
        busy.begin(0);
        busy.begin(1);
        for _ in 0..1_000 {
            assert_eq!(busy.step().0, 1);
        }
        busy.begin(2);
        busy.begin(3);
        let polls: Vec<u8> = (0..100).map(|_| busy.step().0).collect();
        let of_second = polls.iter().filter(|&&client| client == 2).count();
        assert!((49..=51).contains(&of_second), "{polls:?}");
    }

    #[test]
    fn a_connection_that_is_dropped_gives_its_place_on() {
        let processor = Processor::new(1);
        let mut connections: Vec<Connection> = (1..=4).map(|client| Connection::of(&processor, client)).collect();
        let begun: Vec<bool> = connections.iter_mut().map(Connection::begin).collect();
        assert_eq!(begun, [true, false, false, false]);
        // One that waits, one whose poll has panicked, and one that has a place and does not know yet.
        for (dropped, next) in [(1, None), (0, Some(0)), (0, Some(0))] {
            connections.remove(dropped);
            let woken = connections.iter().position(Connection::is_woken);
            assert_eq!(woken, next);
        }
        assert!(connections[0].begin());
        connections.clear();
        let queues = processor.queues.lock();
        assert_eq!((queues.taken, queues.wakers.len(), queues.next.len()), (0, 0, 0));
    }

    #[test]
    fn accounts_of_clients_that_have_left_are_forgotten() {
        let processor = Processor::new(1);
        for number in 0..100_000_u32 {
            let client = Client::at(IpAddr::V4(number.into()));
            let mut turn = processor.share(client, ()).turn;
            assert!(turn.begin(&Arc::new(Woken::default()).into()));
            turn.end(10);
        }
        assert!(processor.queues.lock().accounts.len() <= 2 * ACCOUNTS_MIN);
    }
}
