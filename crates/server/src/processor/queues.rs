//! Whose connection is polled next: start-time fair queueing.
//!
//! # Rule
//! The next poll goes to the client that has used the least. A client's next poll *starts* at the end of its last one or now,
//! whichever is later, in a virtual time. Virtual time advances to the start of each poll, and by a client's part of the time
//! that was used. All clients with runnable connections therefore get equal time, however many connections each has. A client
//! that was quiet goes first, but saves nothing up. New clients, however many, keep no other one waiting for ever: the start
//! of a client that waits is fixed, and those of all others pass it.
//!
//! # Source
//! Goyal, Vin and Cheng, *Start-Time Fair Queueing*, 1997. The cost of a poll is known only when it has ended; until then it
//! is taken to be that of the client's last one.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::places::Client;

/// Settled accounts are looked for when there are twice as many accounts as the last look has left, and this many.
const ACCOUNTS_MIN: usize = 64;

/// Runnable connections `T` of clients.
#[derive(Debug)]
pub(super) struct Queues<T> {
    /// The virtual time in nanoseconds.
    now: u64,
    accounts: HashMap<Client, Account<T>>,
    accounts_max: usize,
    /// The clients with runnable connections, by the start of their next poll and by when they were listed.
    next: BTreeMap<(u64, u64), Client>,
    listings: u64,
}

/// The use that a client makes of the threads.
#[derive(Debug)]
struct Account<T> {
    /// The virtual time at which the last of its polls has ended.
    until: u64,
    /// How many of its connections are being polled.
    polled: u64,
    /// What its last poll took, in nanoseconds.
    last_cost: u64,
    runnable: VecDeque<T>,
    /// Its key in [`Queues::next`].
    listed: Option<(u64, u64)>,
}

impl<T> Queues<T> {
    pub(super) fn new() -> Self {
        Self { now: 0, accounts: HashMap::new(), accounts_max: ACCOUNTS_MIN, next: BTreeMap::new(), listings: 0 }
    }

    /// Adds a runnable connection of `client`.
    pub(super) fn push(&mut self, client: Client, connection: T) {
        let account = self.accounts.entry(client).or_default();
        if account.polled == 0 && account.runnable.is_empty() {
            // It was quiet, and saves nothing up.
            account.until = account.until.max(self.now);
        }
        account.runnable.push_back(connection);
        if account.listed.is_none() {
            self.list(client);
        }
    }

    /// Begins the poll of the connection that is next. [`Queues::end`] ends it.
    pub(super) fn begin(&mut self) -> Option<(Client, T)> {
        let (_, client) = self.next.pop_first()?;
        let account = self.accounts.get_mut(&client).expect("a listed account is kept");
        account.listed = None;
        let connection = account.runnable.pop_front().expect("a listed client has a runnable connection");
        self.now = self.now.max(account.start());
        account.polled += 1;
        if !account.runnable.is_empty() {
            self.list(client);
        }
        Some((client, connection))
    }

    /// Ends a poll of `client` that took `cost` nanoseconds.
    pub(super) fn end(&mut self, client: Client, cost: u64) {
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
    }

    /// Takes all runnable connections out.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.begin().map(|(client, connection)| (self.end(client, 0), connection).1)).collect()
    }

    /// Puts `client` where it belongs among those with runnable connections.
    fn list(&mut self, client: Client) {
        let account = self.accounts.get_mut(&client).expect("a client with runnable connections");
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

impl<T> Account<T> {
    /// When its next poll starts.
    fn start(&self) -> u64 {
        self.until.saturating_add(self.polled.saturating_mul(self.last_cost))
    }
}

impl<T> Default for Account<T> {
    fn default() -> Self {
        Self { until: 0, polled: 0, last_cost: 0, runnable: VecDeque::new(), listed: None }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn client(number: u32) -> Client {
        Client::at(IpAddr::V4((0x0a00_0000 + number).into()))
    }

    /// Connections that are polled on some threads. Each is the time that its polls take, and always has work, unless that is
    /// zero.
    struct Busy {
        queues: Queues<u64>,
        threads: usize,
        /// The polls that go on, in the order in which they end.
        polled: VecDeque<(Client, u64)>,
    }

    impl Busy {
        fn new(threads: usize, connections: &[(u32, u64)]) -> Self {
            let mut queues = Queues::new();
            connections.iter().for_each(|&(number, cost)| queues.push(client(number), cost));
            Self { queues, threads, polled: VecDeque::new() }
        }

        /// Begins polls on all threads and ends the oldest. Returns its client and its cost.
        fn step(&mut self) -> (Client, u64) {
            while self.polled.len() < self.threads
                && let Some(begun) = self.queues.begin()
            {
                self.polled.push_back(begun);
            }
            let (client, cost) = self.polled.pop_front().expect("a poll");
            self.queues.end(client, cost);
            if cost > 0 {
                self.queues.push(client, cost);
            }
            (client, cost)
        }
    }

    #[test]
    fn clients_get_equal_time_however_many_connections_they_have_and_however_long_their_polls_take() {
        for threads in [1, 2, 4] {
            let many = (0..200).map(|_| (1, 10));
            let connections: Vec<_> = many.chain([(2, 30); 4]).chain([(3, 7); 4]).collect();
            let mut busy = Busy::new(threads, &connections);
            let mut time: HashMap<Client, u64> = HashMap::new();
            for _ in 0..20_000 {
                let (client, cost) = busy.step();
                *time.entry(client).or_default() += cost;
            }
            let (least, most) = (time.values().min().expect("some"), time.values().max().expect("some"));
            assert!(most - least <= 30 * (threads as u64 + 1), "{threads} threads: {time:?}");
        }
    }

    #[test]
    fn a_client_that_was_quiet_is_next_however_many_connections_others_have() {
        let floods: Vec<_> = (0..640).map(|number| (number % 64, 10)).collect();
        let mut busy = Busy::new(2, &floods);
        (0..1_000).for_each(|_| _ = busy.step());
        let quiet = client(200);
        for round in 0..100 {
            busy.queues.push(quiet, 0);
            let polls = (0..).find(|_| busy.step().0 == quiet).expect("it is polled");
            // Clients that have used no more than a newcomer go in the order in which they were listed.
            assert!(polls <= 66, "round {round}: {polls}");
            (0..640).for_each(|_| _ = busy.step());
        }
    }

    #[test]
    fn one_flood_keeps_a_quiet_client_waiting_for_the_polls_under_way_and_one_more() {
        for threads in [1, 2, 4] {
            let mut busy = Busy::new(threads, &[(1, 10); 2_000]);
            (0..1_000).for_each(|_| _ = busy.step());
            let quiet = client(200);
            busy.queues.push(quiet, 0);
            let polls = (0..).find(|_| busy.step().0 == quiet).expect("it is polled");
            assert!(polls <= threads, "{threads} threads: {polls}");
        }
    }

    #[test]
    fn new_clients_keep_no_other_one_waiting_for_ever() {
        let mut queues = Queues::new();
        let waiting = client(0);
        queues.push(waiting, ());
        let begun = queues.begin();
        (1..=10).for_each(|number| queues.push(client(number), ()));
        queues.end(begun.expect("it waits").0, 1_000);
        queues.push(waiting, ());
        let polls = (11..).find(|&newcomer| {
            queues.push(client(newcomer), ());
            let (polled, ()) = queues.begin().expect("a connection");
            queues.end(polled, 100);
            polled == waiting
        });
        assert!(polls.expect("it is polled") <= 200, "{polls:?}");
    }

    #[test]
    fn quiet_clients_save_nothing_up() {
        let mut busy = Busy::new(1, &[(1, 10), (1, 10)]);
        (0..1_000).for_each(|_| _ = busy.step());
        (0..2).for_each(|_| busy.queues.push(client(2), 10));
        let of_second = (0..100).filter(|_| busy.step().0 == client(2)).count();
        assert!((49..=51).contains(&of_second), "{of_second}");
    }

    #[test]
    fn accounts_of_clients_that_have_left_are_forgotten() {
        let mut queues = Queues::new();
        for number in 0..100_000 {
            queues.push(client(number), ());
            let (polled, ()) = queues.begin().expect("a connection");
            queues.end(polled, 10);
        }
        assert!(queues.accounts.len() <= 2 * ACCOUNTS_MIN);
    }
}
