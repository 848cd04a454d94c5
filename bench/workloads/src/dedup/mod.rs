//! Deduplicating compression: the kernels of a pipeline like PARSEC's dedup.
//!
//! # Stages
//! 1. *Fragment* cuts the input into [`pieces`] of about 2 MiB.
//! 2. *Refine* cuts a piece into [`chunks`] of about 5 KiB, at places that depend only on the content.
//! 3. *Deduplicate* takes the [`Fingerprint`] of a chunk and decides whether it has been met before.
//! 4. *Compress* runs the [`compress`] of a new chunk: much longer than the hash, the reason for the pipeline.
//! 5. *Output* writes one [`Packet`] a chunk in the order of the input: the compressed data of the first chunk with a
//!    fingerprint *in that order*, the fingerprint alone for every later one.
//!
//! The order makes the file a function of the input: every version of the pipeline, sequential or concurrent, must
//! write the bytes of [`packets`], and [`unpack`] gives the input back.
//!
//! # Sources
//! PARSEC's dedup; the stages and what is deferred of them: Zhou, Luchangco and Spear, *Extending transactional memory
//! with atomic deferral*, 2017, section 6.2. Unlike PARSEC's, the window of our rolling hash forgets, so that a chunk's
//! end depends on the last 32 bytes only, and chunks have a least and a greatest length.
mod chunking;
mod codec;
mod input;
mod packet;

pub use chunking::{Cut, chunks, pieces};
pub use codec::{CodecError, compress, decompress};
pub use input::generate;
pub use packet::{Fingerprint, Packet, UnpackError, Unpacked, packets, unpack};
