//! The stages, with the queues between them; what is done under which protection is up to the [`Version`].
//!
//! Threads: one cuts the input into pieces, three pools cut pieces into chunks, look chunks up and compress the new
//! ones, one puts them into the order of the input and writes them.
//!
//! # No deadlock
//! Queues have no bound but the input, which is in memory anyway: with a bound, the last stage could wait for a chunk to
//! be compressed while the threads that compress wait for room before the last stage.
use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use enact_workloads::dedup::{Cut, Fingerprint, chunks, pieces};

use super::queue::Queue;
use crate::measure::{Lap, in_parallel};

/// A part of the input.
#[derive(Debug, Clone)]
pub(super) struct Part {
    input: Arc<[u8]>,
    range: Range<usize>,
}

impl Part {
    pub(super) fn whole(input: &Arc<[u8]>) -> Self {
        Self { input: Arc::clone(input), range: 0..input.len() }
    }

    /// The parts of this one that `lengths` add up to.
    fn split(&self, lengths: impl Iterator<Item = usize>) -> impl Iterator<Item = Self> {
        let mut start = self.range.start;
        lengths.map(move |length| {
            let range = start..start + length;
            start = range.end;
            Self { input: Arc::clone(&self.input), range }
        })
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.input[self.range.clone()]
    }
}

/// Ends one producer of a queue, even by a panic: consumers must not wait for it.
struct Producer<'a, T, Q: Queue<T>>(&'a Q, std::marker::PhantomData<T>);

impl<'a, T, Q: Queue<T>> Producer<'a, T, Q> {
    fn of(queue: &'a Q) -> Self {
        Self(queue, std::marker::PhantomData)
    }

    fn push(&self, item: T) {
        self.0.push(item);
    }
}

impl<T, Q: Queue<T>> Drop for Producer<'_, T, Q> {
    fn drop(&mut self) {
        self.0.end_producer();
    }
}

/// Whether the table had a chunk already.
pub(super) enum Admitted<C> {
    New(C),
    Known(C),
}

/// How the stages share chunks, queues and the output.
pub(super) trait Version: Sync {
    /// What the table keeps of a chunk; its clones are the same one.
    type Chunk: Clone + Send + Sync + 'static;
    type Queue<T: Clone + Send + Sync + 'static>: Queue<T>;

    /// Enters `chunk` into the table, unless an equal one is there.
    fn admit(&self, fingerprint: Fingerprint, chunk: Part) -> Admitted<Self::Chunk>;

    /// Compresses a new chunk; called once for each.
    fn compress(&self, chunk: &Self::Chunk);

    /// Writes the compressed chunk, once it is compressed, or a reference if the chunk has been written before.
    fn write(&self, chunk: &Self::Chunk) -> io::Result<()>;

    /// Packets that are written, and synced if that was asked for.
    fn packets_done(&self) -> u64;
}

/// Where a chunk belongs: number of its piece, number within it, and whether it is the last there.
#[derive(Debug, Clone, Copy)]
struct Place {
    piece: u64,
    chunk: u64,
    is_last: bool,
}

#[derive(Clone)]
struct Placed<C> {
    place: Place,
    chunk: C,
}

/// Runs `input` through the stages of `version` with `pool` threads in each of the three middle stages.
///
/// An error of the output ends the writing, not the stages before it.
pub(super) fn run<V: Version>(version: &V, input: &Arc<[u8]>, pool: usize) -> (io::Result<()>, Lap) {
    let stages = Stages {
        version,
        to_refine: V::Queue::filled_by(1),
        to_deduplicate: V::Queue::filled_by(pool),
        to_compress: V::Queue::filled_by(pool),
        to_output: V::Queue::filled_by(2 * pool),
    };
    let (ended, lap) = in_parallel(2 + 3 * pool, |number| stages.run(number, input));
    (ended.into_iter().collect(), lap)
}

struct Stages<'a, V: Version> {
    version: &'a V,
    to_refine: V::Queue<(u64, Part)>,
    to_deduplicate: V::Queue<Placed<Part>>,
    to_compress: V::Queue<Placed<V::Chunk>>,
    to_output: V::Queue<Placed<V::Chunk>>,
}

impl<V: Version> Stages<'_, V> {
    /// The work of thread `number`: one for each end, the others shared out among the pools.
    fn run(&self, number: usize, input: &Arc<[u8]>) -> io::Result<()> {
        match number {
            0 => self.fragment(input),
            1 => return self.output(),
            worker if worker % 3 == 0 => self.refine(),
            worker if worker % 3 == 1 => self.deduplicate(),
            _ => self.compress(),
        }
        Ok(())
    }

    fn fragment(&self, input: &Arc<[u8]>) {
        let refine = Producer::of(&self.to_refine);
        let whole = Part::whole(input);
        whole.split(pieces(input).map(<[u8]>::len)).zip(0..).for_each(|(piece, number)| refine.push((number, piece)));
    }

    fn refine(&self) {
        let deduplicate = Producer::of(&self.to_deduplicate);
        while let Some((piece, part)) = self.to_refine.pop() {
            let end = part.range.end;
            for (chunk, number) in part.split(chunks(&part, Cut::CHUNK).map(<[u8]>::len)).zip(0..) {
                let place = Place { piece, chunk: number, is_last: chunk.range.end == end };
                deduplicate.push(Placed { place, chunk });
            }
        }
    }

    fn deduplicate(&self) {
        let (compress, output) = (Producer::of(&self.to_compress), Producer::of(&self.to_output));
        while let Some(Placed { place, chunk }) = self.to_deduplicate.pop() {
            match self.version.admit(Fingerprint::of(&chunk), chunk) {
                Admitted::New(chunk) => compress.push(Placed { place, chunk }),
                Admitted::Known(chunk) => output.push(Placed { place, chunk }),
            }
        }
    }

    fn compress(&self) {
        let output = Producer::of(&self.to_output);
        while let Some(placed) = self.to_compress.pop() {
            self.version.compress(&placed.chunk);
            output.push(placed);
        }
    }

    fn output(&self) -> io::Result<()> {
        let mut early = BTreeMap::new();
        let mut next = (0, 0);
        while let Some(Placed { place, chunk }) = self.to_output.pop() {
            early.insert((place.piece, place.chunk), (place, chunk));
            while let Some((place, chunk)) = early.remove(&next) {
                self.version.write(&chunk)?;
                next = if place.is_last { (place.piece + 1, 0) } else { (place.piece, place.chunk + 1) };
            }
        }
        Ok(())
    }
}
