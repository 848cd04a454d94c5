//! The lease of this node: what makes others count on it.
//!
//! It is renewed long before it is over. Whether it holds is judged from the *beginning* of the last renewal that came through, by a clock
//! that is never set: at half of the time it counts as over here, when for all others it goes on.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::JoinError;
use crate::bucket::{Bucket, Wrote};
use crate::view::{Lease, NODE, Revised};

/// The shortest lease. A bucket whose leader has died takes no renewal for about ten seconds.
pub const LEASE_MIN: Duration = Duration::from_secs(13);

/// How much longer than a lease lasts a node tries to get it.
const TAKE_MAX: Duration = Duration::from_secs(45);
/// Renewals are so far apart at least.
const APART: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);

/// How long after a renewal of a lease of this `length` the next one comes.
pub(crate) fn renewed_after(length: Duration) -> Duration {
    length * 2 / 15
}

/// The lease of this node as others see it, and how long it may rely on it.
pub(crate) struct Held {
    bucket: Bucket,
    key: String,
    length: Duration,
    state: Mutex<State>,
}

struct State {
    lease: Lease,
    revision: u64,
    /// When the last renewal began that came through, if one has.
    renewed: Option<Instant>,
    is_lost: bool,
}

impl Held {
    /// Takes the lease of `node`, if nobody has it; waits until that of an earlier run is over.
    pub(crate) async fn take(
        bucket: Bucket,
        node: &str,
        lease: Lease,
        length: Duration,
    ) -> Result<Arc<Self>, JoinError> {
        let key = format!("{NODE}{node}");
        let deadline = Instant::now() + length + TAKE_MAX;
        let mut renewals = Renewals::default();
        loop {
            let why = match bucket.look_at::<Lease>(&key).await {
                Ok(Revised { value: Some(found), revision }) if found.incarnation == lease.incarnation => {
                    return Ok(Self::of(bucket, key, lease, revision, length));
                }
                Ok(Revised { value: Some(found), revision }) => {
                    // An earlier run of this node does not renew its lease any more.
                    if renewals.saw(revision, Instant::now()) {
                        return Err(JoinError::NameInUse { node: node.to_owned(), address: found.address });
                    }
                    "the lease of an earlier run is not over".to_owned()
                }
                // Another node may take it meanwhile, which the revision tells.
                Ok(Revised { value: None, revision }) => match bucket.write(&key, &lease, revision, Some(length)).await
                {
                    Wrote::Yes(revision) => return Ok(Self::of(bucket, key, lease, revision, length)),
                    Wrote::Conflict | Wrote::Unknown => "the lease was not stored".to_owned(),
                },
                Err(why) => why,
            };
            if Instant::now() > deadline {
                return Err(JoinError::unreachable(why));
            }
            sleep(PAUSE).await;
        }
    }

    /// What was just read or written counts from the next renewal on.
    fn of(bucket: Bucket, key: String, lease: Lease, revision: u64, length: Duration) -> Arc<Self> {
        let state = Mutex::new(State { lease, revision, renewed: None, is_lost: false });
        Arc::new(Self { bucket, key, length, state })
    }

    /// Renews the lease until it is lost.
    pub(crate) async fn keep(&self) {
        let pause = renewed_after(self.length);
        loop {
            let begun = Instant::now();
            match self.renew(begun, None).await {
                Ok(true) => sleep(pause).await,
                Ok(false) => sleep(PAUSE).await,
                Err(Lost) => return,
            }
        }
    }

    /// Lets others see that this node hands its shards over.
    pub(crate) async fn leave(&self) {
        for _ in 0..5 {
            match self.renew(Instant::now(), Some(true)).await {
                Ok(true) | Err(Lost) => return,
                Ok(false) => sleep(PAUSE).await,
            }
        }
    }

    /// Gives the lease up. A renewal whose answer nobody waits for any more may have come through meanwhile.
    pub(crate) async fn give_up(&self) {
        let (mut revision, incarnation, is_lost) = {
            let mut state = self.state.lock();
            (state.revision, state.lease.incarnation, std::mem::replace(&mut state.is_lost, true))
        };
        if is_lost {
            return;
        }
        for _ in 0..5 {
            if self.bucket.remove(&self.key, revision).await {
                return;
            }
            match self.bucket.read::<Lease>(&self.key).await {
                Ok(Some(found)) if found.value.incarnation == incarnation => revision = found.revision,
                Ok(_) => return,
                Err(_) => sleep(PAUSE).await,
            }
        }
        tracing::warn!(key = self.key, "the lease was not given up; it is over when its time is");
    }

    /// Whether the lease was renewed.
    async fn renew(&self, begun: Instant, is_leaving: Option<bool>) -> Result<bool, Lost> {
        let (lease, revision) = {
            let mut state = self.state.lock();
            if state.is_lost {
                return Err(Lost);
            }
            state.lease.is_leaving |= is_leaving.unwrap_or(false);
            (state.lease.clone(), state.revision)
        };
        match self.bucket.write(&self.key, &lease, revision, Some(self.length)).await {
            Wrote::Yes(revision) => {
                let mut state = self.state.lock();
                state.revision = revision;
                state.renewed = state.renewed.max(Some(begun));
                Ok(true)
            }
            Wrote::Unknown => Ok(false),
            Wrote::Conflict => match self.bucket.read::<Lease>(&self.key).await {
                // An earlier renewal came through whose answer did not.
                Ok(Some(found)) if found.value.incarnation == lease.incarnation => {
                    let mut state = self.state.lock();
                    state.revision = state.revision.max(found.revision);
                    Ok(false)
                }
                Ok(_) => {
                    self.state.lock().is_lost = true;
                    Err(Lost)
                }
                Err(_) => Ok(false),
            },
        }
    }

    /// Lets others see, with the next renewal, whether this node reaches the journals of the shards. Returns whether that has changed.
    pub(crate) fn set_cut_off(&self, is_cut_off: bool) -> bool {
        std::mem::replace(&mut self.state.lock().lease.is_cut_off, is_cut_off) != is_cut_off
    }

    /// Whether the lease holds for certain, so that nobody else serves what this node does.
    pub(crate) fn holds(&self) -> bool {
        let state = self.state.lock();
        !state.is_lost && state.renewed.is_some_and(|renewed| renewed.elapsed() < self.length / 2)
    }

    /// Which incarnation of the node has it.
    pub(crate) fn incarnation(&self) -> u64 {
        self.state.lock().lease.incarnation
    }
}

/// Tells whether a lease is renewed. A server that has just begun to lead may show revisions of the past, one after the other.
#[derive(Default)]
struct Renewals {
    last: Option<(u64, Instant)>,
    count: u32,
}

impl Renewals {
    /// Whether somebody renews the lease for certain, now that it has this `revision`.
    fn saw(&mut self, revision: u64, now: Instant) -> bool {
        match self.last {
            Some((last, _)) if last == revision => {}
            Some((_, seen)) if now - seen < APART => self.last = Some((revision, now)),
            Some(_) => {
                self.last = Some((revision, now));
                self.count += 1;
            }
            None => self.last = Some((revision, now)),
        }
        self.count >= 2
    }
}

/// The lease is over, or another run of the node has it.
struct Lost;

#[cfg(test)]
mod tests {
    use enact_journal_kit::nats::{Server, program};
    use futures_util::future::join_all;
    use tokio::time::timeout;

    use super::*;
    use crate::connect::connect;

    /// Those who do not get it wait for the lease to end, which is not waited for here.
    #[tokio::test(flavor = "multi_thread")]
    async fn of_many_who_take_a_name_at_once_one_has_it() {
        const NAMES: usize = 40;
        let Some(program) = program() else { return };
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&program, directory.path());
        let mut buckets = Vec::new();
        for _ in 0..8 {
            let client = connect(&server.address().into(), "test").await.expect("connected");
            buckets.push(Bucket::open(&client, 1).await.expect("opened"));
        }
        let takes = (0..NAMES).map(|name| {
            let takes = buckets.iter().zip(1..).map(move |(bucket, incarnation)| {
                let [address, version, contract] = [const { String::new() }; 3];
                let lease = Lease { incarnation, address, version, contract, is_leaving: false, is_cut_off: false };
                let (bucket, node) = (bucket.clone(), format!("n{name}"));
                let take = async move { Held::take(bucket, &node, lease, LEASE_MIN).await };
                tokio::spawn(timeout(Duration::from_secs(2), take))
            });
            join_all(takes)
        });
        let mut taken = 0;
        for takes in join_all(takes).await {
            let held = takes.into_iter().filter(|take| matches!(take, Ok(Ok(Ok(_))))).count();
            assert!(held <= 1, "{held} have it");
            taken += held;
        }
        assert!(taken > 0, "nobody has any");
    }

    #[test]
    fn a_lease_is_renewed_if_it_has_new_revisions_again_and_again_and_not_all_at_once() {
        let begun = Instant::now();
        let sees = |looks: &[(u64, u64)]| {
            let mut renewals = Renewals::default();
            let mut saw =
                |&(millis, revision): &(u64, u64)| renewals.saw(revision, begun + Duration::from_millis(millis));
            looks.iter().map(&mut saw).collect::<Vec<_>>()
        };
        assert_eq!(sees(&[(0, 5), (1_000, 5), (9_000, 5)]), [false; 3], "nobody");
        assert_eq!(sees(&[(0, 3), (200, 4), (400, 5), (600, 7)]), [false; 4], "a server that catches up");
        assert_eq!(sees(&[(0, 3), (1_200, 7), (1_400, 7), (9_000, 7)]), [false; 4], "one that was behind");
        assert_eq!(sees(&[(0, 5), (1_800, 6), (3_600, 7)]), [false, false, true], "somebody");
    }
}
