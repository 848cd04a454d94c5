//! Ping pong: what one message in flight between two actors costs.
//!
//! Ping sends itself a message between the answer to one ping and the next; that hop is part of the benchmark.
use enact::{Cx, actor};

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Ping pong.
    PingPong {
        /// How often ping pings.
        pings: u64 = 40_000,
    }
}

struct Ping {
    left: u64,
    received: u64,
    pong: PongRef,
    pongs: Report<u64>,
    _presence: Presence,
}

#[actor]
impl Ping {
    fn ping(&mut self, cx: &Cx<Self>) {
        self.left -= 1;
        self.pong.tell().ping(cx.handle());
    }

    fn pong(&mut self, cx: &Cx<Self>) {
        self.received += 1;
        if self.left > 0 {
            cx.handle().tell().ping();
            return;
        }
        self.pong.tell().exit();
        self.pongs.give(self.received);
        cx.stop();
    }
}

struct Pong {
    received: u64,
    pings: Report<u64>,
    _presence: Presence,
}

#[actor]
impl Pong {
    fn ping(&mut self, sender: PingRef) {
        self.received += 1;
        sender.tell().pong();
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.pings.give(self.received);
        cx.stop();
    }
}

impl Program for PingPong {
    const NAME: &'static str = "pp";
    const TITLE: &'static str = "Ping Pong";
    const SIZE: Option<&'static str> = Some("pings");
    type Prepared = ();
    /// Pings and pongs that arrived.
    type Found = (Option<u64>, Option<u64>);
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn refuse(&self) -> Option<&'static str> {
        (self.pings == 0).then_some("there is at least one ping")
    }

    fn prepare(&self, _variant: Variant) {}

    fn start(&self, (): &(), stage: &Stage) -> Findings<Self::Found> {
        let ((pings, received_pings), (pongs, received_pongs)) = (reports(), reports());
        let pong = stage.spawn(Pong { received: 0, pings, _presence: stage.presence() });
        let ping = Ping { left: self.pings, received: 0, pong, pongs, _presence: stage.presence() };
        stage.spawn(ping).tell().ping();
        Box::new(move || (received_pings.only(), received_pongs.only()))
    }

    fn verify(&self, (): &(), &(pings, pongs): &Self::Found) -> Result<Verified, Wrong> {
        equal("pings received", pings, Some(self.pings))?;
        equal("pongs received", pongs, Some(self.pings))?;
        Ok(Verified::after(3 * self.pings + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_pong_is_refused() {
        let program = PingPong { pings: 10 };
        assert!(program.verify(&(), &(Some(10), Some(10))).is_ok());
        assert!(program.verify(&(), &(Some(10), Some(9))).is_err());
        assert!(program.verify(&(), &(None, Some(10))).is_err());
    }
}
