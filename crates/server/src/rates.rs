//! How many requests one principal may send: a caller, or the client of a request without one.
//!
//! # Rule
//! A principal may send [`Rate::burst`] requests at once, and [`Rate::per_second`] from then on. A batch counts as its commands, which are known
//! when it has been read: so it is let in as one request would be, and what comes next waits until all of it is paid for. A
//! request that is refused counts nothing.
//!
//! This is the generic cell rate algorithm (ITU-T I.371): of each principal, one number is kept, the time at which it owes nothing any more. A
//! principal that owes nothing is as one that was never seen. No crate of the ecosystem that we know lets a batch be paid for afterwards,
//! or bounds its memory.
//!
//! # Memory
//! [`PRINCIPALS_MAX`] principals owe something at a time; when there are as many, those who come count as one together.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use enact_rebel::{Caller, Name};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::Instant;

use crate::places::Client;

/// Most requests per second, and most at once, that a rate may allow.
pub const RATE_MAX: u32 = 1_000_000;

/// How many principals are told apart.
const PRINCIPALS_MAX: usize = 1 << 16;
/// How often those who owe nothing are looked for at the most.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// How many requests a principal may send. Its text form is `50,200`: 50 per second, 200 at once; or `50` for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

/// A text that is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "expected: requests per second, from 1 to {RATE_MAX}, and behind a comma how many of them at once, if these are others"
)]
pub struct RateError;

impl Rate {
    /// Requests per second.
    #[must_use]
    pub fn per_second(self) -> NonZeroU32 {
        self.per_second
    }

    /// Requests at once, after a time without any.
    #[must_use]
    pub fn burst(self) -> NonZeroU32 {
        self.burst
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let (per_second, burst) = text.split_once(',').unwrap_or((text, text));
        let number = |text: &str| {
            let number: NonZeroU32 = text.parse().map_err(|_| RateError)?;
            if number.get() <= RATE_MAX { Ok(number) } else { Err(RateError) }
        };
        Ok(Self { per_second: number(per_second)?, burst: number(burst)? })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.per_second, self.burst)
    }
}

/// Whom requests are of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Principal {
    Caller(Name),
    Client(Client),
    /// Nothing is known of it, or there are too many to be told apart.
    Other,
}

impl Principal {
    pub(crate) fn of(caller: Option<&Caller>, client: Option<Client>) -> Self {
        match (caller, client) {
            (Some(caller), _) => Self::Caller(caller.id().clone()),
            (None, Some(client)) => Self::Client(client),
            (None, None) => Self::Other,
        }
    }
}

/// What all principals owe.
#[derive(Debug)]
pub(crate) struct Rates {
    rate: Rate,
    /// What one request costs.
    cost: Duration,
    /// How far ahead a principal may be that is let in.
    ahead_max: Duration,
    owed: Mutex<Owed>,
}

#[derive(Debug)]
struct Owed {
    /// When each principal owes nothing any more.
    until: HashMap<Principal, Instant>,
    swept_at: Instant,
}

impl Rates {
    pub(crate) fn new(rate: Rate) -> Self {
        let cost = Duration::from_secs(1) / rate.per_second.get();
        let owed = Mutex::new(Owed { until: HashMap::new(), swept_at: Instant::now() });
        Self { rate, cost, ahead_max: cost * (rate.burst.get() - 1), owed }
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Lets `principal` send one request.
    ///
    /// # Errors
    /// After how long it may.
    pub(crate) fn take(&self, principal: Principal) -> Result<(), Duration> {
        let now = Instant::now();
        let mut owed = self.owed.lock();
        let until = owed.until(principal, now);
        let ahead = until.saturating_duration_since(now);
        if ahead > self.ahead_max {
            return Err(ahead - self.ahead_max);
        }
        *until += self.cost;
        Ok(())
    }

    /// Makes `principal`, which has been let in, owe `more` requests.
    pub(crate) fn charge(&self, principal: Principal, more: u32) {
        *self.owed.lock().until(principal, Instant::now()) += self.cost * more;
    }
}

impl Owed {
    /// When `principal` owes nothing any more, now at the earliest.
    fn until(&mut self, principal: Principal, now: Instant) -> &mut Instant {
        if self.until.len() >= PRINCIPALS_MAX && now.duration_since(self.swept_at) >= SWEEP_PAUSE {
            self.swept_at = now;
            self.until.retain(|_, until| *until > now);
        }
        let is_told_apart = self.until.len() < PRINCIPALS_MAX || self.until.contains_key(&principal);
        let until = self.until.entry(if is_told_apart { principal } else { Principal::Other }).or_insert(now);
        *until = (*until).max(now);
        until
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::time::advance;

    use super::*;

    fn client(number: u32) -> Principal {
        Principal::Client(Client::at(Ipv4Addr::from_bits(number).into()))
    }

    fn rates(text: &str) -> Rates {
        Rates::new(text.parse().expect("a rate"))
    }

    /// How many requests are let in at once.
    fn taken(rates: &Rates, principal: &Principal) -> usize {
        (0..1_000).take_while(|_| rates.take(principal.clone()).is_ok()).count()
    }

    #[test]
    fn a_rate_is_read_as_it_is_written() {
        for (text, expected) in [
            ("50", Some("50,50")),
            ("50,200", Some("50,200")),
            ("1000000,1", Some("1000000,1")),
            ("1000001", None),
            ("50,1000001", None),
            ("0", None),
            ("50,0", None),
            ("50,", None),
            ("50,200,1", None),
            ("0.5", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Rate>().ok().map(|rate| rate.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_principal_may_send_a_burst_and_then_as_many_as_time_goes_on() {
        let rates = rates("10,20");
        let alice = Principal::Caller("alice".into());
        assert_eq!(taken(&rates, &alice), 20);
        assert_eq!(rates.take(alice.clone()), Err(Duration::from_millis(100)));
        advance(Duration::from_millis(99)).await;
        assert_eq!(rates.take(alice.clone()), Err(Duration::from_millis(1)), "a refused request costs nothing");
        advance(Duration::from_millis(1)).await;
        assert_eq!(taken(&rates, &alice), 1);
        advance(Duration::from_secs(1)).await;
        assert_eq!(taken(&rates, &alice), 10);
        advance(Duration::from_secs(1_000)).await;
        assert_eq!(taken(&rates, &alice), 20, "what is not used is not saved");
        assert_eq!((taken(&rates, &Principal::Caller("bob".into())), taken(&rates, &client(1))), (20, 20));
        assert_eq!(taken(&rates, &alice), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_paid_for_afterwards() {
        let rates = rates("10,20");
        assert_eq!(rates.take(client(1)), Ok(()));
        rates.charge(client(1), 999);
        assert_eq!(rates.take(client(1)), Err(Duration::from_millis(98_100)), "1000 requests, but for the burst");
        advance(Duration::from_millis(98_100)).await;
        assert_eq!(taken(&rates, &client(1)), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_principals_are_told_apart_and_others_count_as_one() {
        let rates = rates("1,2");
        let max = u32::try_from(PRINCIPALS_MAX).expect("small");
        assert!((0..max).all(|number| rates.take(client(number)).is_ok()));
        assert_eq!((taken(&rates, &client(0)), taken(&rates, &client(max))), (1, 2));
        assert_eq!(taken(&rates, &client(max + 1)), 0, "it is one with the one before");
        assert_eq!(rates.owed.lock().until.len(), PRINCIPALS_MAX + 1);
        advance(Duration::from_secs(1)).await;
        assert_eq!(taken(&rates, &client(max + 1)), 2, "those who owe nothing have made room");
        assert_eq!(rates.owed.lock().until.len(), 3, "the first, the others, and the last");
    }
}
