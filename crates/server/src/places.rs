//! Which connections a full server keeps.
//!
//! # Problem
//! A connection costs a descriptor and memory, and its client need neither send nor read. Timeouts alone do not help: a
//! client that connects faster than its connections time out keeps all others out.
//!
//! # Rule
//! A newcomer to a full server takes the place of another connection: among the clients that hold the most, of the
//! connection that has waited longest for its client. A connection waits for its client from its begin, or its last
//! answer, until a request has arrived whole; also while it sends what the client does not read. So places are shared
//! max-min fair: one client has all of them only as long as nobody else asks, and a client that sends and reads promptly
//! keeps its place.
//!
//! # A newcomer always finds a place
//! A connection whose request is being answered is never closed. Fewer requests are answered at once than there are
//! places ([`Limits`](crate::Limits)), so that at least one connection waits for its client.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// What counts as one client: an IPv4 address, or the 64-bit network of an IPv6 address, all of which one host may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client(IpAddr);

impl Client {
    pub(crate) fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self(IpAddr::V6((address.to_bits() >> 64 << 64).into())),
            address @ IpAddr::V4(_) => Self(address),
        }
    }
}

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    held: Mutex<HashMap<Client, Vec<Arc<Connection>>>>,
    /// How many connections there have been.
    count: AtomicU32,
}

/// One connection, as its request sees it.
#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    number: u32,
    phase: Mutex<Phase>,
    /// When its client was last told to come back.
    comes_back_at: Mutex<Option<Instant>>,
    closing: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// For the client to send or to read.
    Waiting {
        since: Instant,
    },
    Answering,
    /// Its place belongs to another connection.
    Closing,
}

/// A connection in its place; leaves it when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    connection: Arc<Connection>,
    _free: OwnedSemaphorePermit,
}

/// A connection whose request is being answered, until this is dropped.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Connection>);

impl Places {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { free: Arc::new(Semaphore::new(max)), held: Mutex::default(), count: AtomicU32::new(0) })
    }

    /// The place of a new connection of `client`, if need be at the expense of another one, which has then left; none if
    /// every connection is being answered.
    pub(crate) async fn enter(self: &Arc<Self>, client: Client) -> Option<Place> {
        let free = Arc::clone(&self.free);
        let free = match Arc::clone(&free).try_acquire_owned() {
            Ok(free) => free,
            Err(_) => {
                close_one(&mut self.held.lock())?;
                free.acquire_owned().await.expect("never closed")
            }
        };
        let connection = Arc::new(Connection {
            client,
            number: self.count.fetch_add(1, Ordering::Relaxed),
            phase: Mutex::new(Phase::Waiting { since: Instant::now() }),
            comes_back_at: Mutex::default(),
            closing: Notify::new(),
        });
        self.held.lock().entry(client).or_default().push(Arc::clone(&connection));
        Some(Place { places: Arc::clone(self), connection, _free: free })
    }

    /// Closes one connection by the same rule as a newcomer would.
    pub(crate) fn make_room(&self) {
        close_one(&mut self.held.lock());
    }

    /// Closes every connection that waits for its client.
    pub(crate) fn close_waiting(&self) {
        while close_one(&mut self.held.lock()).is_some() {}
    }
}

fn close_one(held: &mut HashMap<Client, Vec<Arc<Connection>>>) -> Option<()> {
    loop {
        let (_, _, client, index) = held
            .iter()
            .filter_map(|(&client, connections)| {
                let (since, index) = longest_waiting(connections)?;
                Some((Reverse(connections.len()), since, client, index))
            })
            .min_by_key(|&(holds, since, ..)| (holds, since))?;
        let connection = remove(held, client, index);
        if connection.close() {
            return Some(());
        }
        // Its request has arrived just now.
        held.entry(client).or_default().push(connection);
    }
}

fn longest_waiting(connections: &[Arc<Connection>]) -> Option<(Instant, usize)> {
    let waiting = |(index, connection): (usize, &Arc<Connection>)| match *connection.phase.lock() {
        Phase::Waiting { since } => Some((since, index)),
        Phase::Answering | Phase::Closing => None,
    };
    connections.iter().enumerate().filter_map(waiting).min()
}

fn remove(held: &mut HashMap<Client, Vec<Arc<Connection>>>, client: Client, index: usize) -> Arc<Connection> {
    let connections = held.get_mut(&client).expect("a client with connections");
    let connection = connections.swap_remove(index);
    if connections.is_empty() {
        held.remove(&client);
    }
    connection
}

impl Connection {
    pub(crate) fn client(&self) -> Client {
        self.client
    }

    /// Keeps the connection while its request is answered; none if its place belongs to another one already.
    pub(crate) fn answer(self: &Arc<Self>) -> Option<Answering> {
        let mut phase = self.phase.lock();
        if *phase == Phase::Closing {
            return None;
        }
        *phase = Phase::Answering;
        Some(Answering(Arc::clone(self)))
    }

    /// When the client was last told to come back, if that is still to come.
    pub(crate) fn comes_back_at(&self) -> Option<Instant> {
        self.comes_back_at.lock().filter(|&at| at > Instant::now())
    }

    /// A part of `span`, another one for each connection, and all of them evenly spread.
    pub(crate) fn part_of(&self, span: Duration) -> Duration {
        // Multiples of the golden ratio: each lies in the largest gap that those before it have left.
        span.mul_f64(f64::from(self.number.wrapping_mul(0x9e37_79b9)) / f64::from(u32::MAX))
    }

    /// Says that the connection has an answer for its client, which may tell it when to come back.
    pub(crate) fn answered(&self, comes_back_at: Option<Instant>) {
        if comes_back_at.is_some() {
            *self.comes_back_at.lock() = comes_back_at;
        }
        self.wait_for_client();
    }

    fn wait_for_client(&self) {
        let mut phase = self.phase.lock();
        if *phase != Phase::Closing {
            *phase = Phase::Waiting { since: Instant::now() };
        }
    }

    fn close(&self) -> bool {
        let mut phase = self.phase.lock();
        let waits = matches!(*phase, Phase::Waiting { .. });
        if waits {
            *phase = Phase::Closing;
            self.closing.notify_one();
        }
        waits
    }
}

impl Place {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Waits until the place belongs to another connection.
    pub(crate) async fn is_taken(&self) {
        self.connection.closing.notified().await;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.wait_for_client();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.held.lock();
        let client = self.connection.client;
        let connections = held.get(&client).map_or(&[][..], Vec::as_slice);
        if let Some(index) = connections.iter().position(|other| Arc::ptr_eq(other, &self.connection)) {
            remove(&mut held, client, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn client(last: u8) -> Client {
        Client::at(IpAddr::from([127, 0, 0, last]))
    }

    fn is_closed(place: &Place) -> bool {
        *place.connection.phase.lock() == Phase::Closing
    }

    /// One place for each number, of the client with that number.
    fn enter(places: &Arc<Places>, clients: &[u8]) -> Vec<Place> {
        let enter = |&number| places.enter(client(number)).now_or_never().flatten().expect("a place");
        clients.iter().map(enter).collect()
    }

    /// The index of the one that is closed for a newcomer, which comes as soon as that one has left; none if there is no
    /// place for the newcomer.
    fn closed_for(places: &Arc<Places>, newcomer: u8, held: &mut Vec<Place>) -> Option<usize> {
        let mut entering = std::pin::pin!(places.enter(client(newcomer)));
        if let Some(place) = entering.as_mut().now_or_never() {
            assert!(place.is_none(), "nobody had to leave");
            return None;
        }
        let closed: Vec<usize> = (0..held.len()).filter(|&index| is_closed(&held[index])).collect();
        assert_eq!(closed.len(), 1);
        held.remove(closed[0]);
        held.push(entering.now_or_never().flatten().expect("its place"));
        Some(closed[0])
    }

    #[test]
    fn a_newcomer_takes_the_longest_waiting_place_of_the_client_that_holds_the_most() {
        for (there, newcomer, expected) in [
            ([1, 1, 1, 1], 2, 0),
            ([2, 1, 1, 1], 1, 1),
            ([2, 1, 1, 1], 2, 1),
            ([2, 2, 1, 1], 3, 0),
            ([1, 2, 3, 4], 5, 0),
        ] {
            let places = Places::new(4);
            let mut held = enter(&places, &there);
            assert_eq!(closed_for(&places, newcomer, &mut held), Some(expected), "{there:?}, then {newcomer}");
        }
    }

    #[test]
    fn a_connection_that_is_being_answered_keeps_its_place() {
        let places = Places::new(2);
        let mut held = enter(&places, &[1, 1]);
        let first = held[0].connection().answer().expect("its place");
        assert_eq!(closed_for(&places, 2, &mut held), Some(1));
        let second = held[1].connection().answer().expect("its place");
        assert_eq!(closed_for(&places, 3, &mut held), None);
        drop(first);
        assert_eq!(closed_for(&places, 3, &mut held), Some(0));
        drop(second);
    }

    #[test]
    fn a_closed_connection_is_not_answered_any_more() {
        let places = Places::new(1);
        let held = enter(&places, &[1]).pop().expect("one");
        assert!(held.is_taken().now_or_never().is_none());
        places.make_room();
        assert!(held.is_taken().now_or_never().is_some());
        assert!(held.connection().answer().is_none());
    }

    #[test]
    fn an_answer_counts_as_a_new_begin() {
        let places = Places::new(2);
        let mut held = enter(&places, &[1, 1]);
        held[0].connection().answered(None);
        assert_eq!(closed_for(&places, 2, &mut held), Some(1));
    }

    #[test]
    fn a_dropped_connection_leaves_its_place() {
        let places = Places::new(1);
        drop(enter(&places, &[1]));
        assert!(places.held.lock().is_empty());
        enter(&places, &[2]);
    }

    #[test]
    fn one_host_is_one_client() {
        for (one, other, are_same) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("::ffff:127.0.0.1", "127.0.0.1", true),
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8:0:1::1", "2001:db8::1", false),
        ] {
            let [one, other] = [one, other].map(|address| Client::at(address.parse().expect("an address")));
            assert_eq!(one == other, are_same, "{one:?} and {other:?}");
        }
    }
}
