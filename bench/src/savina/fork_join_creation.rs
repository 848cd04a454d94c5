//! Fork-join, creation: a thread that is no actor makes actors that live for one message.
use enact::{Cx, actor};
use enact_workloads::savina::sine;

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Fork-join, creation.
    ForkJoinCreation {
        /// How many actors are made.
        actors: usize = 40_000,
    }
}

struct Worker {
    done: Report<()>,
    _presence: Presence,
}

#[actor]
impl Worker {
    fn work(&mut self, cx: &Cx<Self>) {
        assert!(sine() > 0.0, "a square is not negative, and this one not zero");
        self.done.give(());
        cx.stop();
    }
}

impl Program for ForkJoinCreation {
    const NAME: &'static str = "fjc";
    const TITLE: &'static str = "Fork Join (actor creation)";
    const SIZE: Option<&'static str> = Some("actors");
    type Prepared = ();
    /// How many actors have done their work and ended.
    type Found = usize;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn prepare(&self, _variant: Variant) {}

    fn start(&self, (): &(), stage: &Stage) -> Findings<usize> {
        let (done, ended) = reports();
        for _ in 0..self.actors {
            stage.spawn(Worker { done: done.clone(), _presence: stage.presence() }).tell().work();
        }
        Box::new(move || ended.all().len())
    }

    fn verify(&self, (): &(), &ended: &usize) -> Result<Verified, Wrong> {
        equal("actors ended", ended, self.actors)?;
        Ok(Verified::after(self.actors as u64))
    }
}
