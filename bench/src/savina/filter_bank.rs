//! Filter bank: a stream is split into channels, filtered in each, and joined again.
//!
//! With the published parameters only zeros arrive at the end; the strict variant is shorter and gets something
//! through.
use std::collections::VecDeque;

use enact::{Cx, actor};
use enact_workloads::savina::Filter;

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

parameters! {
    /// Filter bank.
    FilterBank {
        /// How many coefficients each filter has; in the strict variant, a 64th of it.
        columns: usize = 16_384,
        /// How many values go in; in the strict variant, ten for each coefficient.
        samples: u64 = 34_816,
        /// How many channels there are.
        channels: usize = 8,
    }
}

/// The values that go in repeat.
const PERIOD: u64 = 1_000;

struct Producer {
    left: u64,
    _presence: Presence,
}

#[actor]
impl Producer {
    fn next(&mut self, cx: &Cx<Self>, source: SourceRef) {
        if self.left == 0 {
            source.tell().exit();
            cx.stop();
            return;
        }
        self.left -= 1;
        source.tell().boot();
    }
}

struct Source {
    emitted: u64,
    producer: ProducerRef,
    branches: BranchesRef,
    _presence: Presence,
}

#[actor]
impl Source {
    fn boot(&mut self, cx: &Cx<Self>) {
        self.branches.tell().value((self.emitted % PERIOD) as f64);
        self.emitted += 1;
        self.producer.tell().next(cx.handle());
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.branches.tell().exit();
        cx.stop();
    }
}

struct Branches {
    banks: Vec<FilteringRef>,
    _presence: Presence,
}

#[actor]
impl Branches {
    fn value(&mut self, value: f64) {
        self.banks.iter().for_each(|bank| drop(bank.tell().value(value)));
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.banks.iter().for_each(|bank| drop(bank.tell().exit()));
        cx.stop();
    }
}

/// One filter of a channel.
struct Filtering {
    filter: Filter,
    next: Next,
    _presence: Presence,
}

enum Next {
    Filtering(FilteringRef),
    Tag(TagRef),
}

#[actor]
impl Filtering {
    fn value(&mut self, value: f64) {
        match (self.filter.pass(value), &self.next) {
            (Some(value), Next::Filtering(next)) => drop(next.tell().value(value)),
            (Some(value), Next::Tag(next)) => drop(next.tell().value(value)),
            (None, _) => {}
        }
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        match &self.next {
            Next::Filtering(next) => next.tell().exit(),
            Next::Tag(next) => next.tell().exit(),
        };
        cx.stop();
    }
}

struct Tag {
    channel: usize,
    integrator: IntegratorRef,
    _presence: Presence,
}

#[actor]
impl Tag {
    fn value(&mut self, value: f64) {
        self.integrator.tell().value(self.channel, value);
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.integrator.tell().exit();
        cx.stop();
    }
}

struct Integrator {
    open_channels: usize,
    channels: usize,
    /// Values of the same number in the stream, by channel; the oldest first.
    partial: VecDeque<Vec<Option<f64>>>,
    combine: CombineRef,
    _presence: Presence,
}

#[actor]
impl Integrator {
    fn value(&mut self, channel: usize, value: f64) {
        match self.partial.iter_mut().find(|partial| partial[channel].is_none()) {
            Some(partial) => partial[channel] = Some(value),
            None => {
                let mut partial = vec![None; self.channels];
                partial[channel] = Some(value);
                self.partial.push_back(partial);
            }
        }
        let full = self.partial.front().and_then(|first| first.iter().copied().collect::<Option<Vec<_>>>());
        if let Some(values) = full {
            self.partial.pop_front();
            self.combine.tell().values(values);
        }
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.open_channels -= 1;
        if self.open_channels == 0 {
            self.combine.tell().exit();
            cx.stop();
        }
    }
}

struct Combine {
    sink: SinkRef,
    _presence: Presence,
}

#[actor]
impl Combine {
    fn values(&mut self, values: Vec<f64>) {
        self.sink.tell().value(values.into_iter().sum());
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.sink.tell().exit();
        cx.stop();
    }
}

struct Sink {
    values: Vec<f64>,
    report: Report<Vec<f64>>,
    _presence: Presence,
}

#[actor]
impl Sink {
    fn value(&mut self, value: f64) {
        self.values.push(value);
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.report.give(std::mem::take(&mut self.values));
        cx.stop();
    }
}

pub(super) struct Prepared {
    columns: usize,
    samples: u64,
    /// What arrives at the sink.
    values: Vec<f64>,
}

impl FilterBank {
    fn size(&self, variant: Variant) -> (usize, u64) {
        if variant != Variant::Strict {
            return (self.columns, self.samples);
        }
        let columns = (self.columns / 64).max(1);
        (columns, 10 * columns as u64)
    }

    /// What arrives at the sink, channel after channel.
    fn expected(&self, columns: usize, samples: u64) -> Vec<f64> {
        let channel = |channel| {
            let mut filters = Filter::of_channel(channel, self.channels, columns);
            let through =
                |number| filters.iter_mut().try_fold((number % PERIOD) as f64, |value, filter| filter.pass(value));
            (0..samples).filter_map(through).collect::<Vec<_>>()
        };
        let channels: Vec<_> = (0..self.channels).map(channel).collect();
        (0..channels[0].len()).map(|at| channels.iter().map(|values| values[at]).sum()).collect()
    }
}

impl Program for FilterBank {
    const NAME: &'static str = "fbank";
    const TITLE: &'static str = "Filter Bank";
    const SIZE: Option<&'static str> = Some("samples");
    const VARIANTS: &'static [Variant] = &[Variant::Port, Variant::Strict];
    type Prepared = Prepared;
    type Found = Option<Vec<f64>>;

    fn refuse(&self) -> Option<&'static str> {
        (self.columns == 0 || self.channels == 0).then_some("there is a coefficient and a channel")
    }

    fn prepare(&self, variant: Variant) -> Prepared {
        let (columns, samples) = self.size(variant);
        Prepared { columns, samples, values: self.expected(columns, samples) }
    }

    fn start(&self, prepared: &Prepared, stage: &Stage) -> Findings<Option<Vec<f64>>> {
        let (report, reported) = reports();
        let sink = stage.spawn(Sink { values: Vec::new(), report, _presence: stage.presence() });
        let combine = stage.spawn(Combine { sink, _presence: stage.presence() });
        let integrator = stage.spawn(Integrator {
            open_channels: self.channels,
            channels: self.channels,
            partial: VecDeque::new(),
            combine,
            _presence: stage.presence(),
        });
        let bank = |channel| {
            let tag = Tag { channel, integrator: integrator.clone(), _presence: stage.presence() };
            let last = Next::Tag(stage.spawn(tag));
            let filters = Filter::of_channel(channel, self.channels, prepared.columns);
            let first = filters.into_iter().rev().fold(last, |next, filter| {
                Next::Filtering(stage.spawn(Filtering { filter, next, _presence: stage.presence() }))
            });
            stage.spawn(Filtering { filter: Filter::Pass, next: first, _presence: stage.presence() })
        };
        let banks = (0..self.channels).map(bank).collect();
        let branches = stage.spawn(Branches { banks, _presence: stage.presence() });
        let producer = stage.spawn(Producer { left: prepared.samples, _presence: stage.presence() });
        let source = Source { emitted: 0, producer: producer.clone(), branches, _presence: stage.presence() };
        producer.tell().next(stage.spawn(source));
        Box::new(move || reported.only())
    }

    fn verify(&self, prepared: &Prepared, found: &Option<Vec<f64>>) -> Result<Verified, Wrong> {
        let values = &prepared.values;
        equal("values at the sink", found.as_ref().map(Vec::len), Some(values.len()))?;
        let differing = found.iter().flatten().zip(values).position(|(found, expected)| found != expected);
        equal("the first value that differs", differing, None)?;
        let (channels, samples) = (self.channels as u64, prepared.samples);
        let after_first = (samples + 1).saturating_sub(prepared.columns as u64);
        let out = values.len() as u64;
        // Hand-shake and stream; bank, both delays and filters of each channel; tag and join; sum; exits.
        let messages = 3 * samples + channels * (3 * samples + 3 * after_first + 2 * out) + 2 * out;
        Ok(Verified::after(messages + 5 + 7 * channels + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let program = FilterBank::default();
        assert_eq!(program.size(Variant::Strict), (256, 2_560));
        let values = program.prepare(Variant::Strict).values;
        assert_eq!((values.len(), values.iter().filter(|&&value| value != 0.0).count()), (2_050, 1_794));
        assert_eq!((values[0], values[2_049]), (0.0, 1_187_845_607_424.0));
        assert_eq!(values.iter().sum::<f64>(), 1_074_555_578_621_952.0);
        assert_eq!(values.iter().fold(0.0, |most: f64, &value| most.max(value)), 1_192_013_421_312.0);
        let values = program.expected(2_048, 6_144);
        assert_eq!((values.len(), values.iter().filter(|&&value| value != 0.0).count()), (2_050, 2));
        assert_eq!((values[2_049], values.iter().sum::<f64>()), (303_210_133_906_176.0, 606_420_267_812_352.0));
    }

    #[test]
    fn a_value_joined_from_another_place_of_the_stream_is_refused() {
        let program = FilterBank { columns: 256, channels: 2, ..FilterBank::default() };
        let prepared = program.prepare(Variant::Strict);
        assert!(program.verify(&prepared, &Some(prepared.values.clone())).is_ok());
        let mut shifted = prepared.values.clone();
        shifted.rotate_left(1);
        assert!(program.verify(&prepared, &Some(shifted)).is_err());
        let mut short = prepared.values.clone();
        short.pop();
        assert!(program.verify(&prepared, &Some(short)).is_err());
    }
}
