//! How many requests are answered at once, and for whom.
//!
//! A client may have as many requests answered at once as there are left for others. So one client gets at most half
//! of them, a second one half of the rest, and a newcomer finds room unless a dozen clients use all that they may.
//!
//! # Source
//! Choudhury and Hahne, *Dynamic Queue Length Thresholds for Shared-Memory Packet Switches*, 1998, with a factor of 1.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::places::Client;

/// The right to have requests answered, shared by all clients.
#[derive(Debug)]
pub(crate) struct Shares {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
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
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: Mutex::default() })
    }

    /// A share for `client`, unless it has as many as are left. Requests without a connection are one client.
    pub(crate) fn take(self: &Arc<Self>, client: Option<Client>) -> Option<Share> {
        let mut taken = self.taken.lock();
        let left = self.max - taken.count;
        let own = taken.by_client.get(&client).copied().unwrap_or(0);
        if own >= left {
            return None;
        }
        taken.count += 1;
        taken.by_client.insert(client, own + 1);
        Some(Share { of: Arc::clone(self), client })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock();
        taken.count -= 1;
        let own = taken.by_client.get_mut(&self.client).expect("counted when taken");
        *own -= 1;
        if *own == 0 {
            taken.by_client.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::net::IpAddr;

    use super::*;

    fn client(last: u8) -> Option<Client> {
        Some(Client::at(IpAddr::from([127, 0, 0, last])))
    }

    fn take_all(shares: &Arc<Shares>, client: Option<Client>) -> Vec<Share> {
        iter::from_fn(|| shares.take(client)).collect()
    }

    #[test]
    fn a_client_has_at_most_as_many_as_are_left() {
        let shares = Shares::new(16);
        let taken: Vec<Vec<Share>> = (1..=6).map(|number| take_all(&shares, client(number))).collect();
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [8, 4, 2, 1, 1, 0]);
        drop(taken);
        assert_eq!(take_all(&shares, None).len(), 8);
        assert!(shares.taken.lock().by_client.is_empty());
        assert!(Shares::new(0).take(None).is_none());
        assert_eq!(take_all(&Shares::new(1), None).len(), 1);
    }
}
