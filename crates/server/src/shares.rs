//! How many requests are answered at once, and for whom.
//!
//! # Problem
//! More requests in flight than the threads work off make every one of them late, and a client that sends most of them
//! makes the others late, too. What cannot be answered soon is better refused at once.
//!
//! # Rule
//! A client may have as many requests answered at once as there are left for others, and one in any case, up to a maximum
//! that is never exceeded. So one client gets at most half of them, a second one half of the rest, and a client that asks
//! one thing at a time is refused only if there are as many such clients as requests at most.
//!
//! How many there are follows from how long connections with work wait for a thread: fewer in proportion when that is more than
//! [`DELAY`], at most by a half and at least by an eighth, and an eighth more when clients ask for more and it is not.
//! Waits that have other causes, such as a disk or transactions of others, do not count: fewer requests would not make
//! them shorter.
//!
//! # Source
//! Choudhury and Hahne, *Dynamic Queue Length Thresholds for Shared-Memory Packet Switches*, 1998, with a factor of 1;
//! Zhou and others, *Overload Control for Scaling `WeChat` Microservices*, 2018, for the average wait.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::places::Client;

/// How long a connection with work should wait for a thread, on average. A command is two polls of its connection.
const DELAY: Duration = Duration::from_micros(3_000);
/// However long connections wait, there are this many: so few requests are no queue.
const LIMIT_MIN: usize = 32;

/// The right to have requests answered, shared by all clients.
#[derive(Debug)]
pub(crate) struct Shares {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    limit: usize,
    /// The most that were taken, and whether a request has found no room, since the limit was last considered.
    peak: usize,
    was_full: bool,
    count: usize,
    by_client: HashMap<Option<Client>, usize>,
}

/// The right to have one request answered; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Shares>,
    client: Option<Client>,
}

impl Shares {
    /// At most `max`.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let taken = Taken { limit: max, peak: 0, was_full: false, count: 0, by_client: HashMap::new() };
        Arc::new(Self { max, taken: Mutex::new(taken) })
    }

    /// A share for `client`, unless it has as many as are left. Requests without a connection are one client. If `delay` is
    /// given, connections have waited for a thread for that long since it last was.
    pub(crate) fn take(self: &Arc<Self>, client: Option<Client>, delay: Option<Duration>) -> Option<Share> {
        let mut taken = self.taken.lock();
        if let Some(delay) = delay {
            taken.adapt(self.max, delay);
        }
        let Taken { limit, peak, was_full, count, by_client } = &mut *taken;
        let own = by_client.entry(client);
        let is_entitled = match &own {
            Entry::Vacant(_) => *count < self.max,
            Entry::Occupied(own) => *own.get() < limit.saturating_sub(*count),
        };
        if !is_entitled {
            *was_full = true;
            return None;
        }
        *count += 1;
        *peak = (*peak).max(*count);
        *own.or_insert(0) += 1;
        Some(Share { of: Arc::clone(self), client })
    }
}

impl Taken {
    fn adapt(&mut self, max: usize, delay: Duration) {
        // Of a limit that one client alone has not reached, half was never used.
        let used = self.limit.min(2 * self.peak);
        if delay > DELAY && used > LIMIT_MIN {
            let fewer = used * DELAY.as_micros() as usize / delay.as_micros() as usize;
            self.limit = fewer.clamp(used / 2, used - used.div_ceil(8)).max(LIMIT_MIN);
        } else if delay <= DELAY && self.was_full {
            self.limit = (self.limit + self.limit.div_ceil(8)).min(max);
        }
        self.peak = self.count;
        self.was_full = false;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock();
        taken.count -= 1;
        let Entry::Occupied(mut own) = taken.by_client.entry(self.client) else { panic!("counted when taken") };
        *own.get_mut() -= 1;
        if *own.get() == 0 {
            own.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::net::IpAddr;

    use super::*;

    const LATE: Option<Duration> = Some(Duration::from_nanos(DELAY.as_nanos() as u64 + 1));
    const SOON: Option<Duration> = Some(DELAY);

    fn client(last: u8) -> Option<Client> {
        Some(Client::at(IpAddr::from([127, 0, 0, last])))
    }

    fn take_all(shares: &Arc<Shares>, client: Option<Client>) -> Vec<Share> {
        iter::from_fn(|| shares.take(client, None)).collect()
    }

    fn limit(shares: &Shares) -> usize {
        shares.taken.lock().limit
    }

    #[test]
    fn a_client_has_at_most_as_many_as_are_left_and_one_while_there_are_any() {
        let shares = Shares::new(16);
        let taken: Vec<Vec<Share>> = (1..=6).map(|number| take_all(&shares, client(number))).collect();
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [8, 4, 2, 1, 1, 0]);
        drop(taken);
        assert_eq!(take_all(&shares, None).len(), 8);
        assert!(shares.taken.lock().by_client.is_empty());
        assert!(Shares::new(0).take(None, None).is_none());
        assert_eq!(take_all(&Shares::new(1), None).len(), 1);
    }

    #[test]
    fn there_are_fewer_while_messages_wait_for_a_thread_and_more_again_when_they_do_not() {
        let shares = Shares::new(1024);
        drop(take_all(&shares, client(1)));
        let mut limits = Vec::new();
        for delay in [[LATE; 40], [SOON; 40]].concat() {
            let share = shares.take(client(1), delay);
            let taken = take_all(&shares, client(1)).len() + usize::from(share.is_some());
            assert_eq!(taken, limit(&shares).div_ceil(2));
            limits.push(limit(&shares));
        }
        let (down, up) = limits.split_at(40);
        assert_eq!((down[0], down[1], down[39]), (896, 784, LIMIT_MIN));
        assert_eq!((up[0], up[1], up[39]), (36, 41, 1024));
        assert!(down.is_sorted_by(|a, b| a >= b) && up.is_sorted(), "{limits:?}");
    }

    #[test]
    fn the_longer_messages_wait_the_fewer_there_are_down_to_half_of_what_was_used() {
        for (used, delay, expected) in [
            (512, DELAY + Duration::from_micros(1), 896),
            (512, DELAY * 5 / 4, 819),
            (512, DELAY * 2, 512),
            (512, DELAY * 100, 512),
            (100, DELAY * 5 / 4, 160),
            (100, DELAY * 100, 100),
            (LIMIT_MIN / 2 + 1, DELAY * 100, LIMIT_MIN),
            (LIMIT_MIN / 2, DELAY * 100, 1024),
        ] {
            let shares = Shares::new(1024);
            let taken: Vec<_> = (0..used).map(|_| shares.take(client(1), None).expect("there are more")).collect();
            drop(shares.take(client(2), Some(delay)));
            assert_eq!(limit(&shares), expected, "{used} used, {delay:?}");
            drop(taken);
        }
    }

    #[test]
    fn a_limit_that_nobody_reaches_does_not_grow() {
        let shares = Shares::new(1024);
        drop((0..512).map(|_| shares.take(client(1), None)).collect::<Vec<_>>());
        drop(shares.take(client(1), LATE));
        (0..10).for_each(|_| drop(shares.take(client(1), SOON)));
        assert_eq!(limit(&shares), 896);
    }

    #[test]
    fn a_client_that_asks_one_thing_at_a_time_has_its_share_however_many_others_have_theirs() {
        let shares = Shares::new(1024);
        for _ in 0..100 {
            drop(take_all(&shares, client(1)));
            drop(shares.take(client(1), LATE));
        }
        let floods: Vec<Vec<Share>> = (1..=64).map(|number| take_all(&shares, client(number))).collect();
        assert_eq!(floods.iter().map(Vec::len).max(), Some(LIMIT_MIN / 2));
        assert!(shares.take(client(200), LATE).is_some());
    }
}
