//! Counting.
use std::ops::ControlFlow;

use serde::Deserialize;

use crate::stage::{Behaviour, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct Counting {
    messages: u64,
}

struct Producer<L: Library> {
    messages: u64,
    counter: L::Ref<Counter>,
    count: Report<u64>,
    _presence: Presence,
}

enum ToProducer {
    Produce,
    Result(u64),
}

impl<L: Library> Behaviour<L> for Producer<L> {
    type Message = ToProducer;

    fn handle(&mut self, message: ToProducer, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToProducer::Produce => {
                for _ in 0..self.messages {
                    L::tell(&self.counter, ToCounter::Increment);
                }
                L::tell(&self.counter, ToCounter::Retrieve(me()));
                NEXT
            }
            ToProducer::Result(count) => {
                self.count.give(count);
                STOP
            }
        }
    }
}

struct Counter {
    count: u64,
    _presence: Presence,
}

enum ToCounter<L: Library> {
    Increment,
    Retrieve(L::Ref<Producer<L>>),
}

impl<L: Library> Behaviour<L> for Counter {
    type Message = ToCounter<L>;

    fn handle(&mut self, message: ToCounter<L>, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToCounter::Increment => {
                self.count += 1;
                NEXT
            }
            ToCounter::Retrieve(sender) => {
                L::tell(&sender, ToProducer::Result(self.count));
                STOP
            }
        }
    }
}

impl Program for Counting {
    type Found = Option<u64>;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Self::Found> {
        let (count, counted) = reports();
        let counter = stage.spawn(Counter { count: 0, _presence: stage.presence() });
        let producer = Producer { messages: self.messages, counter, count, _presence: stage.presence() };
        L::tell(&stage.spawn(producer), ToProducer::Produce);
        Box::new(move || counted.only())
    }
}
