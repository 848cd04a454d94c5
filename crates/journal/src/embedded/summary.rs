//! What has to be known of a segment when it is sealed or attested: its hash, its checksum and its [`Contents`].
//!
//! To take a group up into them takes longer than to write it. So it is done behind the answer, and for a long group on another
//! thread, while the next one is written; that thread also answers it, for the writer has to wake somebody anyway, and one is less
//! than a thousand.
//!
//! # Nothing is missed
//! One group at most is behind. The summary goes to the other thread with the group, and the writer waits until it is back for what needs it:
//! the next group, the footer, an attestation. Nothing that is on the disk depends on it before that. So a crash loses only what
//! recovery makes anew of the bytes of the segment, and groups are summed up, and answered, in the order in which they were written.

use std::mem;
use std::sync::mpsc::{Receiver, sync_channel};

use sha2::{Digest, Sha256};

use super::PANICKED;
use super::contents::Contents;
use super::format::{Hash, SegmentHeader};
use super::workers::Workers;

/// Bytes from which on another thread sums a group up. It takes longer to wake that thread than to sum up fewer.
const LONG_GROUP: usize = 16 << 10;

/// What is known of the bytes of a segment up to the end of a group.
#[derive(Debug)]
pub(super) struct Summary {
    hasher: Sha256,
    checksum: u32,
    end: u32,
    contents: Contents,
}

/// The summary of the segment that is written to.
#[derive(Debug)]
pub(super) struct Summing {
    state: State,
    /// Those of the group that was summed up last by another thread, for their space.
    spare: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Here(Box<Summary>),
    /// Another thread sums up the last group, and has the bytes of that.
    Away(Receiver<(Box<Summary>, Vec<u8>)>),
}

impl Summary {
    /// Of a segment that has a header and no group.
    pub(super) fn of_new(header: &SegmentHeader) -> Self {
        let bytes = header.encode();
        let contents = Contents::new(header.first);
        Self::new(Sha256::new_with_prefix(&bytes), crc32c::crc32c(&bytes), bytes.len() as u32, contents)
    }

    /// Of the bytes up to `end`, which `hasher` has seen and `checksum` is that of.
    pub(super) fn new(hasher: Sha256, checksum: u32, end: u32, contents: Contents) -> Self {
        Self { hasher, checksum, end, contents }
    }

    /// Takes up the group of these `bytes` at the end; first what it `adds` to the contents.
    pub(super) fn add(&mut self, bytes: &[u8], adds: impl FnOnce(&mut Contents)) {
        self.contents.begin_group(self.end);
        adds(&mut self.contents);
        self.hasher.update(bytes);
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        self.end += bytes.len() as u32;
    }

    pub(super) fn end(&self) -> u32 {
        self.end
    }

    pub(super) fn hash(&self) -> Hash {
        self.hasher.clone().finalize().into()
    }

    /// CRC32C of what it sums up, and `bytes` behind.
    pub(super) fn checksum_with(&self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.checksum, bytes)
    }

    pub(super) fn contents(&self) -> &Contents {
        &self.contents
    }
}

impl Summing {
    pub(super) fn new(summary: Summary) -> Self {
        Self { state: State::Here(Box::new(summary)), spare: Vec::new() }
    }

    /// The summary of all groups that were taken up; waits for that of the last one.
    ///
    /// # Panics
    /// When the other thread has panicked: what the segment holds is not known.
    pub(super) fn settled(&mut self) -> &mut Summary {
        if let State::Away(away) = &self.state {
            let (summary, bytes) = away.recv().expect(PANICKED);
            (self.state, self.spare) = (State::Here(summary), bytes);
        }
        match &mut self.state {
            State::Here(summary) => summary,
            State::Away(_) => unreachable!("it is back"),
        }
    }

    /// Takes up the group of these `bytes`, as [`Summary::add`] does; `worker` does if they are many. Returns space that is not needed any more.
    pub(super) fn add(
        &mut self,
        bytes: Vec<u8>,
        adds: impl FnOnce(&mut Contents) + Send + 'static,
        worker: &Workers,
    ) -> Vec<u8> {
        let summary = self.settled();
        if bytes.len() < LONG_GROUP {
            summary.add(&bytes, adds);
            return bytes;
        }
        let (done, away) = sync_channel(1);
        if let State::Here(mut summary) = mem::replace(&mut self.state, State::Away(away)) {
            worker.run(move || {
                summary.add(&bytes, adds);
                // Nobody wants it any more if the writer has panicked.
                done.send((summary, bytes)).unwrap_or_default();
            });
        }
        mem::take(&mut self.spare)
    }
}
