//! Counting: one-way throughput of one sender to one receiver, all messages sent in one turn.
use enact::{Cx, actor};

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Counting.
    Counting {
        /// How many messages are counted.
        messages: u64 = 1_000_000,
    }
}

struct Producer {
    messages: u64,
    counter: CounterRef,
    count: Report<u64>,
    _presence: Presence,
}

#[actor]
impl Producer {
    fn produce(&mut self, cx: &Cx<Self>) {
        for _ in 0..self.messages {
            self.counter.tell().increment();
        }
        self.counter.tell().retrieve(cx.handle());
    }

    fn result(&mut self, cx: &Cx<Self>, count: u64) {
        self.count.give(count);
        cx.stop();
    }
}

struct Counter {
    count: u64,
    _presence: Presence,
}

#[actor]
impl Counter {
    fn increment(&mut self) {
        self.count += 1;
    }

    fn retrieve(&mut self, cx: &Cx<Self>, sender: ProducerRef) {
        sender.tell().result(self.count);
        cx.stop();
    }
}

impl Program for Counting {
    const NAME: &'static str = "count";
    const TITLE: &'static str = "Counting Actor";
    const SIZE: Option<&'static str> = Some("messages");
    type Prepared = ();
    type Found = Option<u64>;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn prepare(&self, _variant: Variant) {}

    fn start(&self, (): &(), stage: &Stage) -> Findings<Option<u64>> {
        let (count, counted) = reports();
        let counter = stage.spawn(Counter { count: 0, _presence: stage.presence() });
        let producer = Producer { messages: self.messages, counter, count, _presence: stage.presence() };
        stage.spawn(producer).tell().produce();
        Box::new(move || counted.only())
    }

    fn verify(&self, (): &(), &count: &Option<u64>) -> Result<Verified, Wrong> {
        equal("count", count, Some(self.messages))?;
        Ok(Verified::after(self.messages + 3))
    }
}
