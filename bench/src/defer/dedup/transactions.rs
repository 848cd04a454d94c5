//! The pipeline with transactions: everything inside them, then more and more deferred.
//!
//! | version | compression | writing |
//! |---|---|---|
//! | [`InTransactions`] | in the transaction | in an irrevocable transaction |
//! | [`DeferredOutput`] | in the transaction | deferred, under the lock of the output |
//! | [`AllDeferred`] | deferred, under the lock of the compressed buffer | deferred, under the locks of both |
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, mem};

use enact_stm::{Abort, Deferrable, Deferred, TCell, TVar, Tx, atomically};
use enact_workloads::dedup::{Fingerprint, Packet, compress};

use super::output::Output;
use super::pipeline::{Admitted, Part, Version};
use super::queue::TxQueue;
use super::table::{bucket_of, buckets};

/// The chunks by fingerprint, one variable a bucket.
struct Table<C: Send + Sync + 'static>(Vec<TVar<Vec<(Fingerprint, C)>>>);

impl<C: Clone + Send + Sync + 'static> Table<C> {
    fn new() -> Self {
        Self(buckets(|| TVar::new(Vec::new())))
    }

    /// Enters what `make` gives, unless the fingerprint is there.
    fn admit(&self, fingerprint: Fingerprint, make: impl Fn() -> C) -> Admitted<C> {
        let bucket = &self.0[bucket_of(&fingerprint)];
        atomically(|tx| {
            let chunks = tx.read(bucket)?;
            if let Some((_, known)) = chunks.iter().find(|(other, _)| *other == fingerprint) {
                return Ok(Admitted::Known(known.clone()));
            }
            let new = make();
            let longer = chunks.iter().cloned().chain([(fingerprint, new.clone())]).collect();
            tx.write(bucket, longer)?;
            Ok(Admitted::New(new))
        })
        .run()
    }
}

/// A chunk whose compressed form is the value of a variable.
pub(super) struct TxChunk {
    fingerprint: Fingerprint,
    original: Part,
    content: TVar<Content>,
}

/// What a chunk's packet is made of.
enum Content {
    Admitted,
    Compressed(Vec<u8>),
    Written,
}

impl TxChunk {
    fn new(fingerprint: Fingerprint, original: Part) -> Arc<Self> {
        Arc::new(Self { fingerprint, original, content: TVar::new(Content::Admitted) })
    }

    fn compress(&self) {
        atomically(|tx| {
            tx.write(&self.content, Content::Compressed(compress(&self.original)))?;
            Ok(())
        })
        .run();
    }

    /// The packet that stands for this chunk now; waits until it is compressed.
    fn next_packet<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Vec<u8>, Abort> {
        let packet = match tx.read(&self.content)? {
            Content::Admitted => return tx.retry(),
            Content::Compressed(data) => Packet::Data(data).to_bytes(),
            Content::Written => return Ok(Packet::Reference(&self.fingerprint).to_bytes()),
        };
        tx.write(&self.content, Content::Written)?;
        Ok(packet)
    }
}

/// Everything in transactions, the output in irrevocable ones.
pub(super) struct InTransactions {
    table: Table<Arc<TxChunk>>,
    output: Mutex<Output>,
}

impl InTransactions {
    pub(super) fn new(output: Output) -> Self {
        Self { table: Table::new(), output: Mutex::new(output) }
    }
}

impl Version for InTransactions {
    type Chunk = Arc<TxChunk>;
    type Queue<T: Clone + Send + Sync + 'static> = TxQueue<T>;

    fn admit(&self, fingerprint: Fingerprint, original: Part) -> Admitted<Self::Chunk> {
        self.table.admit(fingerprint, || TxChunk::new(fingerprint, original.clone()))
    }

    fn compress(&self, chunk: &Self::Chunk) {
        chunk.compress();
    }

    fn write(&self, chunk: &Self::Chunk) -> io::Result<()> {
        atomically(|tx| {
            let packet = chunk.next_packet(tx)?;
            tx.irrevocable()?;
            // The lock is for the compiler only: it must be free, or there are two transactions that are alone.
            Ok(self.output.try_lock().expect("an irrevocable transaction is alone").put(&packet))
        })
        .run()
    }

    fn packets_done(&self) -> u64 {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).done()
    }
}

/// The output as an object that operations are deferred on.
type DeferrableOutput = Arc<Deferrable<(), Output>>;

fn deferrable(output: Output) -> DeferrableOutput {
    Arc::new(Deferrable::new((), output))
}

fn packets_done(output: &DeferrableOutput) -> u64 {
    done(&atomically(|tx| tx.defer((output,), |(output,)| output.done())).run())
}

/// What a deferred operation gave.
fn done<R>(deferred: &Deferred<R>) -> R {
    deferred.take().expect("an operation has run when its transaction's call returns")
}

/// Only the output is deferred: one line of difference to [`InTransactions`].
pub(super) struct DeferredOutput {
    table: Table<Arc<TxChunk>>,
    output: DeferrableOutput,
}

impl DeferredOutput {
    pub(super) fn new(output: Output) -> Self {
        Self { table: Table::new(), output: deferrable(output) }
    }
}

impl Version for DeferredOutput {
    type Chunk = Arc<TxChunk>;
    type Queue<T: Clone + Send + Sync + 'static> = TxQueue<T>;

    fn admit(&self, fingerprint: Fingerprint, original: Part) -> Admitted<Self::Chunk> {
        self.table.admit(fingerprint, || TxChunk::new(fingerprint, original.clone()))
    }

    fn compress(&self, chunk: &Self::Chunk) {
        chunk.compress();
    }

    fn write(&self, chunk: &Self::Chunk) -> io::Result<()> {
        let written = atomically(|tx| {
            let packet = chunk.next_packet(tx)?;
            tx.defer((&self.output,), move |(output,)| output.put(&packet))
        });
        done(&written.run())
    }

    fn packets_done(&self) -> u64 {
        packets_done(&self.output)
    }
}

/// A chunk whose compressed form is the private part of an object: a thread that needs it waits for the operation on it.
pub(super) struct DeferredChunk {
    fingerprint: Fingerprint,
    original: Part,
    buffer: Arc<Deferrable<Progress, Vec<u8>>>,
}

/// How far the chunk of a buffer is, as transactions see it that have opened the buffer.
struct Progress {
    /// The compressed form is in the buffer.
    is_compressed: TCell<bool>,
    is_written: TCell<bool>,
}

/// Output and compression are deferred.
pub(super) struct AllDeferred {
    table: Table<Arc<DeferredChunk>>,
    output: DeferrableOutput,
}

impl AllDeferred {
    pub(super) fn new(output: Output) -> Self {
        Self { table: Table::new(), output: deferrable(output) }
    }
}

impl Version for AllDeferred {
    type Chunk = Arc<DeferredChunk>;
    type Queue<T: Clone + Send + Sync + 'static> = TxQueue<T>;

    fn admit(&self, fingerprint: Fingerprint, original: Part) -> Admitted<Self::Chunk> {
        self.table.admit(fingerprint, || {
            let progress = Progress { is_compressed: TCell::new(false), is_written: TCell::new(false) };
            let buffer = Arc::new(Deferrable::new(progress, Vec::new()));
            Arc::new(DeferredChunk { fingerprint, original: original.clone(), buffer })
        })
    }

    fn compress(&self, chunk: &Self::Chunk) {
        let compressed = atomically(|tx| {
            let progress = tx.open(&chunk.buffer)?;
            // True from the commit on, although the operation comes after: nobody can open the buffer in between.
            tx.write(&progress.is_compressed, true)?;
            let original = chunk.original.clone();
            tx.defer((&chunk.buffer,), move |(buffer,)| **buffer = compress(&original))
        });
        done(&compressed.run());
    }

    fn write(&self, chunk: &Self::Chunk) -> io::Result<()> {
        let written = atomically(|tx| {
            let progress = tx.open(&chunk.buffer)?;
            if tx.read(&progress.is_written)? {
                let fingerprint = chunk.fingerprint;
                return tx
                    .defer((&self.output,), move |(output,)| output.put(&Packet::Reference(&fingerprint).to_bytes()));
            }
            if !tx.read(&progress.is_compressed)? {
                return tx.retry();
            }
            tx.write(&progress.is_written, true)?;
            tx.defer((&self.output, &chunk.buffer), move |(output, buffer)| {
                let data = mem::take(&mut **buffer);
                output.put(&Packet::Data(&data).to_bytes())
            })
        });
        done(&written.run())
    }

    fn packets_done(&self) -> u64 {
        packets_done(&self.output)
    }
}
