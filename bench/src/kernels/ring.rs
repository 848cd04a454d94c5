//! A message that hops round a ring of actors; all calls are tail calls, and all of them go to another actor.
//!
//! # What *sync* is here
//! A synchronous caller keeps its actor, and the way is longer than the ring: in its second lap, a chain of synchronous
//! calls comes to an actor that waits for its end, which is a deadlock and refused as one. In the paper a synchronous
//! call of another actor is a message and a wait for its promise, as slow as *await* in its table; since that ring
//! does come to an end, an actor that waits there lets others go on.
//!
//! Here *sync* makes real synchronous calls, as many as can be nested: when the next hop would lead to the leader, the
//! whole lap returns, and the leader, which is free then, takes that hop itself. 20 laps of up to 503 nested calls take
//! the place of 10,001 nested ones, which run inside one another.
use std::hint::black_box;
use std::marker::PhantomData;

use enact::{ActorError, Cx, Forward, System, actor};
use enact_workloads::kernels::{WrongKernel, hop, verify_number};

use super::Variant;
use super::probe::Probe;
use super::program::{Program, Stage, Version};

struct Member<P: Probe> {
    place: u64,
    next: Option<MemberRef<P>>,
    /// Whether the next one is the leader.
    is_last: bool,
    _probe: PhantomData<P>,
}

/// The end of a lap.
struct Lap {
    place: u64,
    hops_left: u64,
}

#[actor]
impl<P: Probe> Member<P> {
    fn join(&mut self, next: MemberRef<P>) {
        self.next = Some(next);
    }

    async fn awaiting(cx: Cx<Self>, hops: u64) -> Result<u64, ActorError> {
        P::called();
        if hops == 0 {
            return Ok(cx.with(|member| member.place));
        }
        P::promised();
        cx.with(|member| member.next().awaiting(hops - 1)).await?
    }

    fn forwarding(&mut self, cx: &Cx<Self>, hops: u64) -> Forward<u64> {
        P::called();
        if hops == 0 { cx.reply(self.place) } else { self.next().forward(cx).forwarding(hops - 1) }
    }

    fn synchronous(&mut self, cx: &Cx<Self>, hops: u64) -> Result<u64, ActorError> {
        let mut end = self.lap(cx, hops)?;
        while end.hops_left > 0 {
            end = self.lap(cx, end.hops_left - 1)?;
        }
        Ok(end.place)
    }

    fn lap(&mut self, cx: &Cx<Self>, hops: u64) -> Result<Lap, ActorError> {
        P::called();
        if hops == 0 || self.is_last {
            return Ok(Lap { place: self.place, hops_left: hops });
        }
        self.next().call(cx).lap(hops - 1)?
    }
}

impl<P: Probe> Member<P> {
    fn new(place: u64, is_last: bool) -> Self {
        Self { place, next: None, is_last, _probe: PhantomData }
    }

    fn next(&self) -> &MemberRef<P> {
        self.next.as_ref().expect("joined before the first hop")
    }
}

pub(super) struct Ring {
    pub(super) actors: u64,
    pub(super) hops: u64,
}

impl Default for Ring {
    fn default() -> Self {
        Self { actors: 503, hops: 10_000 }
    }
}

/// Makes each member known to the one before it and gives the first one. They live as long as their system.
fn close<P: Probe>(system: &System, members: impl Iterator<Item = Member<P>>) -> MemberRef<P> {
    let members: Vec<_> = members.map(|member| system.spawn(member)).collect();
    let successors = members.iter().cycle().skip(1);
    members.iter().zip(successors).for_each(|(member, next)| drop(member.tell().join(next.clone())));
    members[0].clone()
}

impl Program for Ring {
    type Found = u64;

    fn calls(&self) -> Option<u64> {
        Some(self.hops + 1)
    }

    fn versions<'a, P: Probe>(&'a self, stage: &'a Stage) -> Vec<Version<'a, u64>> {
        let Self { actors, hops } = *self;
        let members = (0..actors).map(|place| Member::<P>::new(place, place + 1 == actors));
        let leader = close(&stage.system, members);
        let asked = |ask: fn(&MemberRef<P>, u64) -> Result<u64, ActorError>| {
            let leader = leader.clone();
            move || {
                P::promised();
                ask(&leader, hops)
            }
        };
        let next: Vec<_> = (1..actors as usize).chain([0]).collect();
        vec![
            Version::new(Variant::Await, 5, asked(|leader, hops| leader.awaiting(hops).wait().flatten())),
            Version::new(Variant::Forward, 30, asked(|leader, hops| leader.forwarding(hops).wait())),
            Version::new(Variant::Sync, 10, asked(|leader, hops| leader.synchronous(hops).wait().flatten())),
            Version::new(Variant::Native, 5_000, move || Ok(hop(black_box(&next), 0, black_box(hops)) as u64)),
        ]
    }

    fn verify(&self, found: &u64) -> Result<(), WrongKernel> {
        verify_number(*found, self.hops % self.actors)
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::Unwatched;
    use super::*;

    /// Why a lap ends before the leader: nobody is the last of these rings.
    #[test]
    fn synchronous_calls_into_a_second_lap_are_a_deadlock() {
        for actors in [2, 100] {
            let system = System::builder().workers(2).build().expect("threads");
            let members = (0..actors).map(|place| Member::<Unwatched>::new(place, false));
            let leader = close(&system, members);
            assert_eq!(leader.synchronous(actors - 1).wait(), Ok(Ok(actors - 1)));
            let ended = leader.synchronous(actors).wait();
            assert!(matches!(ended, Ok(Err(ActorError::Deadlock { .. }))), "{actors}: {ended:?}");
        }
    }
}
