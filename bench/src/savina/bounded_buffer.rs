//! Producers and consumers around a bounded buffer: several message patterns at one coordinator.
//!
//! What does not fit is not stored: the manager does not ask a producer for its next item until there is room.
use std::collections::VecDeque;

use enact::{Cx, actor};
use enact_workloads::savina::ln_walk;

use super::oracle::{Wrong, close, equal, holds};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

parameters! {
    /// Producers and consumers around a bounded buffer.
    BoundedBuffer {
        /// Room for items that were produced and not yet consumed.
        buffer: usize = 50,
        /// How many producers there are.
        producers: usize = 40,
        /// How many consumers there are.
        consumers: usize = 40,
        /// How many items each producer makes.
        items: u64 = 1_000,
        /// How much work an item is to produce.
        produce_cost: u64 = 25,
        /// How much work an item is to consume.
        consume_cost: u64 = 25,
    }
}

struct Manager {
    /// With each producer at work on an item, the buffer is full already.
    room: usize,
    pending: VecDeque<f64>,
    pending_max: usize,
    /// Producers that wait for room.
    held_back: VecDeque<ProducerRef>,
    available: VecDeque<ConsumerRef>,
    consumers: usize,
    producing: usize,
    report: Report<usize>,
    _presence: Presence,
}

#[actor]
impl Manager {
    fn data(&mut self, item: f64, producer: ProducerRef) {
        match self.available.pop_front() {
            Some(consumer) => drop(consumer.tell().consume(item)),
            None => self.pending.push_back(item),
        }
        self.pending_max = self.pending_max.max(self.pending.len());
        if self.pending.len() >= self.room {
            self.held_back.push_back(producer);
        } else {
            producer.tell().produce();
        }
    }

    fn available(&mut self, cx: &Cx<Self>, consumer: ConsumerRef) {
        match self.pending.pop_front() {
            Some(item) => {
                consumer.tell().consume(item);
                if let Some(producer) = self.held_back.pop_front() {
                    producer.tell().produce();
                }
            }
            None => {
                self.available.push_back(consumer);
                self.end_if_done(cx);
            }
        }
    }

    fn producer_exit(&mut self, cx: &Cx<Self>) {
        self.producing -= 1;
        self.end_if_done(cx);
    }
}

impl Manager {
    fn end_if_done(&self, cx: &Cx<Self>) {
        if self.producing == 0 && self.available.len() == self.consumers {
            self.available.iter().for_each(|consumer| drop(consumer.tell().exit()));
            self.report.give(self.pending_max);
            cx.stop();
        }
    }
}

struct Producer {
    left: u64,
    cost: u64,
    item: f64,
    manager: ManagerRef,
    report: Report<f64>,
    _presence: Presence,
}

#[actor]
impl Producer {
    fn produce(&mut self, cx: &Cx<Self>) {
        if self.left == 0 {
            self.report.give(self.item);
            self.manager.tell().producer_exit();
            cx.stop();
            return;
        }
        self.left -= 1;
        self.item = ln_walk(self.item, self.cost);
        self.manager.tell().data(self.item, cx.handle());
    }
}

struct Consumer {
    consumed: u64,
    cost: u64,
    state: f64,
    manager: ManagerRef,
    report: Report<(u64, f64)>,
    _presence: Presence,
}

#[actor]
impl Consumer {
    fn start(&mut self, cx: &Cx<Self>) {
        self.manager.tell().available(cx.handle());
    }

    fn consume(&mut self, cx: &Cx<Self>, item: f64) {
        self.consumed += 1;
        self.state = ln_walk(self.state + item, self.cost);
        self.manager.tell().available(cx.handle());
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.report.give((self.consumed, self.state));
        cx.stop();
    }
}

pub(super) struct Expected {
    /// What every producer makes last.
    last: f64,
    /// What all consumers have in the end, together.
    states: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Found {
    pending_max: Option<usize>,
    last_items: Vec<f64>,
    /// Items consumed and state of each consumer.
    consumed: Vec<(u64, f64)>,
}

impl Program for BoundedBuffer {
    const NAME: &'static str = "pcbb";
    const TITLE: &'static str = "Producer-Consumer with Bounded Buffer";
    const SIZE: Option<&'static str> = Some("items");
    type Prepared = Expected;
    type Found = Found;

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.buffer > self.producers && self.producers > 0 && self.consumers > 0;
        (!possible).then_some(
            "there are producers and consumers, and the buffer has room for more than one item of each producer",
        )
    }

    fn prepare(&self, _variant: Variant) -> Expected {
        let (mut last, mut sum) = (0.0, 0.0);
        for _ in 0..self.items {
            last = ln_walk(last, self.produce_cost);
            sum += last;
        }
        let items = self.producers as f64 * self.items as f64;
        Expected { last, states: self.producers as f64 * sum + items * ln_walk(0.0, self.consume_cost) }
    }

    fn start(&self, _expected: &Expected, stage: &Stage) -> Findings<Found> {
        let ((fill, filled), (last, lasts), (consumed, consumptions)) = (reports(), reports(), reports());
        let manager = stage.spawn(Manager {
            room: self.buffer - self.producers,
            pending: VecDeque::new(),
            pending_max: 0,
            held_back: VecDeque::new(),
            available: VecDeque::new(),
            consumers: self.consumers,
            producing: self.producers,
            report: fill,
            _presence: stage.presence(),
        });
        for _ in 0..self.consumers {
            let consumer = Consumer {
                consumed: 0,
                cost: self.consume_cost,
                state: 0.0,
                manager: manager.clone(),
                report: consumed.clone(),
                _presence: stage.presence(),
            };
            stage.spawn(consumer).tell().start();
        }
        for _ in 0..self.producers {
            let producer = Producer {
                left: self.items,
                cost: self.produce_cost,
                item: 0.0,
                manager: manager.clone(),
                report: last.clone(),
                _presence: stage.presence(),
            };
            stage.spawn(producer).tell().produce();
        }
        Box::new(move || Found { pending_max: filled.only(), last_items: lasts.all(), consumed: consumptions.all() })
    }

    fn verify(&self, expected: &Expected, found: &Found) -> Result<Verified, Wrong> {
        let (producers, items) = (self.producers as u64, self.producers as u64 * self.items);
        equal("items consumed", found.consumed.iter().map(|(count, _)| count).sum(), items)?;
        equal("consumers that ended", found.consumed.len(), self.consumers)?;
        let fits = found.pending_max.is_some_and(|most| most <= self.buffer);
        holds("no more items were pending than the buffer has room for", fits)?;
        equal("last items", &found.last_items, &vec![expected.last; self.producers])?;
        close("states of all consumers", found.consumed.iter().map(|(_, state)| state).sum(), expected.states, 1e-9)?;
        Ok(Verified::after(4 * items + 2 * producers + 2 * self.consumers as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let expected = BoundedBuffer::default().prepare(Variant::Port);
        assert!(close("last", expected.last, -11_482_378.824_356_2, 1e-9).is_ok());
        assert!(close("states", expected.states, -230_336_519_216.724, 1e-9).is_ok());
    }

    #[test]
    fn an_item_consumed_twice_or_a_buffer_overrun_is_refused() {
        let program = BoundedBuffer { producers: 1, consumers: 1, items: 1, ..BoundedBuffer::default() };
        let expected = program.prepare(Variant::Port);
        let right =
            Found { pending_max: Some(0), last_items: vec![expected.last], consumed: vec![(1, expected.states)] };
        assert!(program.verify(&expected, &right).is_ok());
        let twice = Found { consumed: vec![(2, 2.0 * expected.states)], ..right.clone() };
        assert!(program.verify(&expected, &twice).is_err());
        let other = Found { consumed: vec![(1, expected.states * 1.001)], ..right.clone() };
        assert!(program.verify(&expected, &other).is_err());
        let overrun = Found { pending_max: Some(51), ..right };
        assert!(program.verify(&expected, &overrun).is_err());
    }
}
