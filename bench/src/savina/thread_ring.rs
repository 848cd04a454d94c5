//! Thread ring: one message hops from actor to actor.
use enact::{Cx, actor};
use serde::Deserialize;

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Thread ring.
    ThreadRing {
        /// How many actors form the ring.
        actors: usize = 100,
        /// How often the message hops.
        hops: u64 = 100_000,
    }
}

struct Member {
    id: usize,
    ring: usize,
    next: Option<MemberRef>,
    visits: u64,
    last: Report<usize>,
    exits: Report<u64>,
    _presence: Presence,
}

#[actor]
impl Member {
    fn join(&mut self, next: MemberRef) {
        self.next = Some(next);
    }

    fn ping(&mut self, left: u64) {
        self.visits += 1;
        let next = self.next.as_ref().expect("joined before the first ping");
        if left > 0 {
            next.tell().ping(left - 1);
        } else {
            self.last.give(self.id);
            next.tell().exit(self.ring);
        }
    }

    fn exit(&mut self, cx: &Cx<Self>, left: usize) {
        if let Some(next) = self.next.as_ref().filter(|_| left > 0) {
            next.tell().exit(left - 1);
        }
        self.exits.give(self.visits);
        cx.stop();
    }
}

#[derive(Deserialize)]
pub(super) struct Found {
    /// Where the message was when it had no hop left.
    last: Option<usize>,
    /// How often each actor was visited.
    visits: Vec<u64>,
}

impl Program for ThreadRing {
    const NAME: &'static str = "thr";
    const TITLE: &'static str = "Thread Ring";
    const SIZE: Option<&'static str> = Some("hops");
    type Prepared = ();
    type Found = Found;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn refuse(&self) -> Option<&'static str> {
        (self.actors == 0).then_some("the ring has at least one actor")
    }

    fn prepare(&self, _variant: Variant) {}

    fn start(&self, (): &(), stage: &Stage) -> Findings<Found> {
        let ((last, died), (exits, exited)) = (reports(), reports());
        let member = |id| Member {
            id,
            ring: self.actors,
            next: None,
            visits: 0,
            last: last.clone(),
            exits: exits.clone(),
            _presence: stage.presence(),
        };
        let members: Vec<_> = (0..self.actors).map(|id| stage.spawn(member(id))).collect();
        for (at, one) in members.iter().enumerate() {
            one.tell().join(members[(at + 1) % self.actors].clone());
        }
        members[0].tell().ping(self.hops);
        Box::new(move || Found { last: died.only(), visits: exited.all() })
    }

    fn verify(&self, (): &(), found: &Found) -> Result<Verified, Wrong> {
        let ring = self.actors as u64;
        equal("where the message ended", found.last, Some((self.hops % ring) as usize))?;
        equal("actors that ended in order", found.visits.len(), self.actors)?;
        equal("visits", found.visits.iter().sum(), self.hops + 1)?;
        let most = found.visits.iter().max().copied();
        equal("visits of the actor with most", most, Some(self.hops / ring + 1))?;
        Ok(Verified::after(self.hops + 1 + 2 * ring))
    }
}
