//! Chameneos: many creatures meet in pairs at one mall, which is the bottleneck, and change their colours.
use enact::{Cx, actor};
use enact_workloads::savina::Colour;
use serde::Deserialize;

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Chameneos.
    Chameneos {
        /// How many creatures there are.
        creatures: usize = 100,
        /// How many meetings of two there are.
        meetings: u64 = 200_000,
    }
}

struct Mall {
    creatures: usize,
    left: u64,
    waiting: Option<CreatureRef>,
    reported: usize,
    met: u64,
    sum: Report<u64>,
    _presence: Presence,
}

#[actor]
impl Mall {
    fn meet(&mut self, colour: Colour, sender: CreatureRef) {
        if self.left == 0 {
            sender.tell().exit();
            return;
        }
        match self.waiting.take() {
            None => self.waiting = Some(sender),
            Some(waiting) => {
                self.left -= 1;
                waiting.tell().meet(colour, sender);
            }
        }
    }

    fn count(&mut self, cx: &Cx<Self>, meetings: u64) {
        self.met += meetings;
        self.reported += 1;
        if self.reported == self.creatures {
            self.sum.give(self.met);
            cx.stop();
        }
    }
}

struct Creature {
    colour: Colour,
    meetings: u64,
    mall: MallRef,
    end: Report<(Colour, u64)>,
    _presence: Presence,
}

#[actor]
impl Creature {
    fn start(&mut self, cx: &Cx<Self>) {
        self.mall.tell().meet(self.colour, cx.handle());
    }

    fn meet(&mut self, cx: &Cx<Self>, colour: Colour, other: CreatureRef) {
        self.colour = self.colour.complement(colour);
        self.meetings += 1;
        other.tell().change(self.colour);
        self.mall.tell().meet(self.colour, cx.handle());
    }

    fn change(&mut self, cx: &Cx<Self>, colour: Colour) {
        self.colour = colour;
        self.meetings += 1;
        self.mall.tell().meet(self.colour, cx.handle());
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.colour = Colour::Faded;
        self.mall.tell().count(self.meetings);
        self.end.give((self.colour, self.meetings));
        cx.stop();
    }
}

#[derive(Deserialize)]
pub(super) struct Found {
    /// What the mall was told in all.
    sum: Option<u64>,
    /// Colour and meetings of each creature at its end.
    ends: Vec<(Colour, u64)>,
}

impl Program for Chameneos {
    const NAME: &'static str = "cham";
    const TITLE: &'static str = "Chameneos";
    const SIZE: Option<&'static str> = Some("meetings");
    type Prepared = ();
    type Found = Found;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn refuse(&self) -> Option<&'static str> {
        (self.creatures < 2 && self.meetings > 0).then_some("a meeting takes two creatures")
    }

    fn prepare(&self, _variant: Variant) {}

    fn start(&self, (): &(), stage: &Stage) -> Findings<Found> {
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
            let colour = Colour::LIVELY[at % 3];
            let (mall, end) = (mall.clone(), end.clone());
            stage.spawn(Creature { colour, meetings: 0, mall, end, _presence: stage.presence() }).tell().start();
        }
        Box::new(move || Found { sum: summed.only(), ends: ended.all() })
    }

    fn verify(&self, (): &(), found: &Found) -> Result<Verified, Wrong> {
        equal("meetings of all creatures", found.sum, Some(2 * self.meetings))?;
        equal("creatures that ended", found.ends.len(), self.creatures)?;
        let lively = found.ends.iter().filter(|(colour, _)| *colour != Colour::Faded).count();
        equal("creatures that have not faded", lively, 0)?;
        equal("meetings by the creatures' own count", found.ends.iter().map(|(_, met)| met).sum(), 2 * self.meetings)?;
        Ok(Verified::after(4 * self.meetings + 3 * self.creatures as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complement_of_equals_stays_and_of_two_is_the_third() {
        use Colour::{Blue, Faded, Red, Yellow};
        for (one, other, expected) in
            [(Red, Red, Red), (Red, Yellow, Blue), (Blue, Red, Yellow), (Yellow, Blue, Red), (Blue, Faded, Faded)]
        {
            assert_eq!((one.complement(other), other.complement(one)), (expected, expected));
        }
    }

    #[test]
    fn a_meeting_that_only_one_of_two_counted_is_refused() {
        let program = Chameneos { creatures: 2, meetings: 5 };
        let found = |sum, last| Found { sum: Some(sum), ends: vec![(Colour::Faded, 5), (last, 5)] };
        assert!(program.verify(&(), &found(10, Colour::Faded)).is_ok());
        assert!(program.verify(&(), &found(9, Colour::Faded)).is_err());
        assert!(program.verify(&(), &found(10, Colour::Red)).is_err());
    }
}
