//! Fork-join, creation.
use std::ops::ControlFlow;

use enact_workloads::savina::sine;
use serde::Deserialize;

use crate::stage::{Behaviour, Findings, Library, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct ForkJoinCreation {
    actors: usize,
}

struct Worker {
    done: Report<()>,
    _presence: Presence,
}

struct Work;

impl<L: Library> Behaviour<L> for Worker {
    type Message = Work;

    fn handle(&mut self, Work: Work, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        assert!(sine() > 0.0, "a square is not negative, and this one not zero");
        self.done.give(());
        STOP
    }
}

impl Program for ForkJoinCreation {
    /// How many actors have done their work and ended.
    type Found = usize;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Self::Found> {
        let (done, ended) = reports();
        for _ in 0..self.actors {
            L::tell(&stage.spawn(Worker { done: done.clone(), _presence: stage.presence() }), Work);
        }
        Box::new(move || ended.all().len())
    }
}
