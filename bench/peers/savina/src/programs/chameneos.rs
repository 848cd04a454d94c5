//! Chameneos.
use std::ops::ControlFlow;

use enact_workloads::savina::Colour;
use serde::{Deserialize, Serialize};

use crate::stage::{Behaviour, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct Chameneos {
    creatures: usize,
    meetings: u64,
}

struct Mall<L: Library> {
    creatures: usize,
    left: u64,
    waiting: Option<L::Ref<Creature<L>>>,
    reported: usize,
    met: u64,
    sum: Report<u64>,
    _presence: Presence,
}

enum ToMall<L: Library> {
    Meet(Colour, L::Ref<Creature<L>>),
    Count(u64),
}

impl<L: Library> Behaviour<L> for Mall<L> {
    type Message = ToMall<L>;

    fn handle(&mut self, message: ToMall<L>, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToMall::Meet(_, sender) if self.left == 0 => L::tell(&sender, ToCreature::Exit),
            ToMall::Meet(colour, sender) => match self.waiting.take() {
                None => self.waiting = Some(sender),
                Some(waiting) => {
                    self.left -= 1;
                    L::tell(&waiting, ToCreature::Meet(colour, sender));
                }
            },
            ToMall::Count(meetings) => {
                self.met += meetings;
                self.reported += 1;
                if self.reported == self.creatures {
                    self.sum.give(self.met);
                    return STOP;
                }
            }
        }
        NEXT
    }
}

struct Creature<L: Library> {
    colour: Colour,
    meetings: u64,
    mall: L::Ref<Mall<L>>,
    end: Report<(Colour, u64)>,
    _presence: Presence,
}

enum ToCreature<L: Library> {
    Start,
    Meet(Colour, L::Ref<Creature<L>>),
    Change(Colour),
    Exit,
}

impl<L: Library> Behaviour<L> for Creature<L> {
    type Message = ToCreature<L>;

    fn handle(&mut self, message: ToCreature<L>, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToCreature::Start => {}
            ToCreature::Meet(colour, other) => {
                self.colour = self.colour.complement(colour);
                self.meetings += 1;
                L::tell(&other, ToCreature::Change(self.colour));
            }
            ToCreature::Change(colour) => {
                self.colour = colour;
                self.meetings += 1;
            }
            ToCreature::Exit => {
                self.colour = Colour::Faded;
                L::tell(&self.mall, ToMall::Count(self.meetings));
                self.end.give((self.colour, self.meetings));
                return STOP;
            }
        }
        L::tell(&self.mall, ToMall::Meet(self.colour, me()));
        NEXT
    }
}

#[derive(Serialize)]
pub(super) struct Found {
    /// What the mall was told in all.
    sum: Option<u64>,
    /// Colour and meetings of each creature at its end.
    ends: Vec<(Colour, u64)>,
}

impl Program for Chameneos {
    type Found = Found;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Found> {
        let ((sum, summed), (end, ended)) = (reports(), reports());
        let mall = stage.spawn(Mall {
            creatures: self.creatures,
            left: self.meetings,
            waiting: None,
            reported: 0,
            met: 0,
            sum,
            _presence: stage.presence(),
        });
        for at in 0..self.creatures {
            let (colour, mall, end) = (Colour::LIVELY[at % 3], mall.clone(), end.clone());
            let creature = Creature { colour, meetings: 0, mall, end, _presence: stage.presence() };
            L::tell(&stage.spawn(creature), ToCreature::Start);
        }
        Box::new(move || Found { sum: summed.only(), ends: ended.all() })
    }
}
