//! Thread ring.
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::stage::{Behaviour, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct ThreadRing {
    actors: usize,
    hops: u64,
}

struct Member<L: Library> {
    id: usize,
    ring: usize,
    next: Option<L::Ref<Self>>,
    visits: u64,
    last: Report<usize>,
    exits: Report<u64>,
    _presence: Presence,
}

enum ToMember<L: Library> {
    Join(L::Ref<Member<L>>),
    Ping(u64),
    Exit(usize),
}

impl<L: Library> Behaviour<L> for Member<L> {
    type Message = ToMember<L>;

    fn handle(&mut self, message: ToMember<L>, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToMember::Join(next) => self.next = Some(next),
            ToMember::Ping(left) => {
                self.visits += 1;
                let next = self.next.as_ref().expect("joined before the first ping");
                if left > 0 {
                    L::tell(next, ToMember::Ping(left - 1));
                } else {
                    self.last.give(self.id);
                    L::tell(next, ToMember::Exit(self.ring));
                }
            }
            ToMember::Exit(left) => {
                if let Some(next) = self.next.as_ref().filter(|_| left > 0) {
                    L::tell(next, ToMember::Exit(left - 1));
                }
                self.exits.give(self.visits);
                return STOP;
            }
        }
        NEXT
    }
}

#[derive(Serialize)]
pub(super) struct Found {
    /// Where the message was when it had no hop left.
    last: Option<usize>,
    /// How often each actor was visited.
    visits: Vec<u64>,
}

impl Program for ThreadRing {
    type Found = Found;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Found> {
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
        let members: Vec<L::Ref<Member<L>>> = (0..self.actors).map(|id| stage.spawn(member(id))).collect();
        for (at, one) in members.iter().enumerate() {
            L::tell(one, ToMember::Join(members[(at + 1) % self.actors].clone()));
        }
        L::tell(&members[0], ToMember::Ping(self.hops));
        Box::new(move || Found { last: died.only(), visits: exited.all() })
    }
}
