//! Ping pong.
use std::ops::ControlFlow;

use serde::Deserialize;

use crate::stage::{Behaviour, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct PingPong {
    pings: u64,
}

struct Ping<L: Library> {
    left: u64,
    received: u64,
    pong: L::Ref<Pong>,
    pongs: Report<u64>,
    _presence: Presence,
}

enum ToPing {
    Ping,
    Pong,
}

impl<L: Library> Behaviour<L> for Ping<L> {
    type Message = ToPing;

    fn handle(&mut self, message: ToPing, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToPing::Ping => {
                self.left -= 1;
                L::tell(&self.pong, ToPong::Ping(me()));
            }
            ToPing::Pong => {
                self.received += 1;
                if self.left == 0 {
                    L::tell(&self.pong, ToPong::Exit);
                    self.pongs.give(self.received);
                    return STOP;
                }
                L::tell(&me(), ToPing::Ping);
            }
        }
        NEXT
    }
}

struct Pong {
    received: u64,
    pings: Report<u64>,
    _presence: Presence,
}

enum ToPong<L: Library> {
    Ping(L::Ref<Ping<L>>),
    Exit,
}

impl<L: Library> Behaviour<L> for Pong {
    type Message = ToPong<L>;

    fn handle(&mut self, message: ToPong<L>, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToPong::Ping(sender) => {
                self.received += 1;
                L::tell(&sender, ToPing::Pong);
                NEXT
            }
            ToPong::Exit => {
                self.pings.give(self.received);
                STOP
            }
        }
    }
}

impl Program for PingPong {
    /// Pings and pongs that arrived.
    type Found = (Option<u64>, Option<u64>);

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Self::Found> {
        let ((pings, received_pings), (pongs, received_pongs)) = (reports(), reports());
        let pong = stage.spawn(Pong { received: 0, pings, _presence: stage.presence() });
        let ping = Ping { left: self.pings, received: 0, pong, pongs, _presence: stage.presence() };
        L::tell(&stage.spawn(ping), ToPing::Ping);
        Box::new(move || (received_pings.only(), received_pongs.only()))
    }
}
