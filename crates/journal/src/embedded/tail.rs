//! The end of the log: writes groups, seals full segments, begins new ones.
//!
//! # Steps and what a crash leaves
//! 1. *Group*: one write at the end of the last segment, one sync. A crash in between leaves any part of the group;
//!    recovery cuts it unless all of it is there. No group is written before the sync of the one before it has
//!    succeeded: this is why a valid group proves that everything before it was durable.
//! 2. *Seal* (the group would make the segment too long): write the footer, sync. A crash leaves a part of a footer:
//!    recovery cuts it; or all of it: the segment is sealed and has no successor yet.
//! 3. *List*: enter the sealed segment in the [manifest](super::manifest). A crash leaves a sealed segment that is not
//!    listed; recovery lists it.
//! 4. *Begin*: make the next segment under a temporary name, write its header, sync, rename, sync the directory. A crash
//!    leaves a temporary file, which recovery removes, or the complete segment.
//!
//! # Room
//! To write over bytes that a file has takes the disk as little as half as long as to make it longer. So a group that makes the file longer leaves zeros
//! behind it, in which the next groups stand. They are no group and no part of a torn one: recovery cuts them off. So do a seal and a
//! clean close.
//!
//! # Failures
//! A full disk while writing is undone: the file is cut back and synced; only if that succeeds is the group refused.
//! Any other failure is final for this process. The group is in doubt only if writing it had begun.

use std::io;
use std::sync::Arc;

use super::attestations::Reached;
use super::contents::{Contents, mark_of_group};
use super::draft::{Draft, Previous};
use super::format::{Address, HEADER_LEN, Hash, LogId, Mark, SegmentHeader, segment_name};
use super::manifest::{HighWater, Manifest, Seal};
use super::summary::{Summary, Summing};
use super::workers::Workers;
use crate::disk::{Disk, DiskFile, is_full};
use crate::record::Position;

/// The least and the most room behind a group, in bytes; in between, as much as the file is long.
const ROOM_MIN: u32 = 16 << 10;
const ROOM_MAX: u32 = 1 << 20;
/// The longest group behind which there is room: it takes the disk as long to write what a longer one needs twice.
const ROOMY_GROUP_MAX: usize = 256 << 10;

/// Ends the name of a segment that is not complete yet.
pub(super) const UNFINISHED: &str = ".new";

#[derive(Debug)]
pub(super) struct Tail {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) log: LogId,
    pub(super) segment_bytes: u32,
    /// The last segment, unless it is sealed or there is none.
    pub(super) active: Option<Active>,
    /// The number, first position and previous hash of the segment that follows a sealed one.
    pub(super) next: SegmentHeader,
    pub(super) manifest: Manifest,
    /// Those of all sealed segments.
    pub(super) seals: Vec<Seal>,
    /// The end of the segment that was sealed last, if it is known.
    pub(super) sealed: Option<Reached>,
    /// The segment that was sealed last, unless the manifest lists it.
    pub(super) unlisted: Option<Seal>,
}

/// The segment that groups are written to.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) number: u32,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) end: u32,
    pub(super) first: Position,
    /// The position of the next record.
    pub(super) next: Position,
    /// The newest mark.
    pub(super) mark: Option<Mark>,
    /// Of all groups, or all but the last one.
    pub(super) summing: Summing,
    pub(super) room: Room,
}

/// What a file has behind its last group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Zeros up to this offset, or nothing if that is where the group ends.
    UpTo(u32),
    /// None, since the disk was full when there was to be some.
    NoSpace,
}

/// A durable group.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) addresses: Vec<Address>,
    pub(super) first: Position,
    /// The state of the segment after it.
    pub(super) segment: u32,
    pub(super) segment_first: Position,
    pub(super) segment_end: u32,
    /// The newest mark of the segment.
    pub(super) mark: Option<Mark>,
}

/// Why a group is not durable.
#[derive(Debug)]
pub(super) enum WriteFailure {
    /// The disk is full; nothing of the group is on it, and the log goes on.
    Full(io::Error),
    /// Writing the group had not begun; the log cannot go on.
    Before(io::Error),
    /// Writing the group had begun; the log cannot go on.
    InDoubt(io::Error),
}

impl Tail {
    /// The end of a log without segments.
    pub(super) fn new(disk: Arc<dyn Disk>, log: LogId, segment_bytes: u32, manifest: Manifest) -> Self {
        Self {
            disk,
            log,
            segment_bytes,
            active: None,
            next: SegmentHeader { number: 1, log, first: Position(1), previous_hash: [0; 32] },
            manifest,
            seals: Vec::new(),
            sealed: None,
            unlisted: None,
        }
    }

    /// Makes `group` durable, whose parts have these `previous` records. It has to be [summed up](Self::sum_up) then, before the next one.
    pub(super) fn append(&mut self, group: &mut Draft, previous: &[Previous]) -> Result<Written, WriteFailure> {
        let (log, segment_bytes) = (self.log, self.segment_bytes);
        let active = self.roll_for(group)?;
        let addresses = active.place(log, group, previous);
        active.write_with_room(group.bytes(), segment_bytes)?;
        active.sync_group()?;
        Ok(active.grow(group, addresses))
    }

    /// Takes the last group, of these `bytes`, into the summary of the segment, and what it `adds` to the contents before that; on `worker`
    /// if it is long. Returns space that is not needed any more.
    pub(super) fn sum_up(
        &mut self,
        bytes: Vec<u8>,
        adds: impl FnOnce(&mut Contents) + Send + 'static,
        worker: &Workers,
    ) -> Vec<u8> {
        let active = self.active.as_mut().expect("the group stands in it");
        active.summing.add(bytes, adds, worker)
    }

    /// Writes `group`, which is durable when the next segment is begun, or after [`settle_mark`](Self::settle_mark), and takes what it
    /// `adds` into the summary of the segment.
    pub(super) fn append_unsynced(
        &mut self,
        group: &mut Draft,
        previous: &[Previous],
        adds: impl FnOnce(&mut Contents, &[Address]),
    ) -> Result<Vec<Address>, WriteFailure> {
        let log = self.log;
        let active = self.roll_for(group)?;
        let addresses = active.place(log, group, previous);
        active.write(group.bytes())?;
        let written = active.grow(group, addresses);
        active.summing.settled().add(group.bytes(), |contents| adds(contents, &written.addresses));
        Ok(written.addresses)
    }

    /// The segment that `group` is to be written to: seals the last one if the group would make it too long, and begins one if there is none.
    fn roll_for(&mut self, group: &Draft) -> Result<&mut Active, WriteFailure> {
        let is_at_end = |active: &mut Active| {
            active.first < active.next && active.end as usize + group.len() > self.segment_bytes as usize
        };
        if let Some(mut full) = self.active.take_if(is_at_end) {
            let sealed = full.seal(self.log);
            match sealed {
                Ok((hash, seal)) => {
                    self.sealed = Some(full.reached());
                    self.next = full.successor(self.log, hash);
                    self.seals.push(seal);
                    self.unlisted = Some(seal);
                }
                Err(failure) => {
                    self.active = Some(full);
                    return Err(failure);
                }
            }
        }
        self.list().map_err(|error| {
            // What was written halfway is written again with the next group.
            if is_full(&error) { WriteFailure::Full(error) } else { WriteFailure::Before(error) }
        })?;
        match &mut self.active {
            Some(active) => Ok(active),
            none => Ok(none.insert(Active::begin(&*self.disk, &self.next)?)),
        }
    }

    /// Lists the segment that was sealed last in the manifest.
    pub(super) fn list(&mut self) -> io::Result<()> {
        if let Some(seal) = self.unlisted {
            self.manifest.list(seal, Position(self.next.first.0 - 1))?;
            self.unlisted = None;
        }
        Ok(())
    }

    /// Moves the high-water mark to the end of the log.
    pub(super) fn advance_mark(&mut self) -> io::Result<()> {
        self.list()?;
        self.manifest.advance(self.reached())
    }

    /// As [`advance_mark`](Self::advance_mark), for a clean close.
    pub(super) fn settle_mark(&mut self) -> io::Result<()> {
        self.list()?;
        self.active.as_mut().map_or(Ok(()), Active::give_room_up)?;
        self.manifest.settle(self.reached())
    }

    /// The end of the log and what is before it, if that is known.
    pub(super) fn attestable(&mut self) -> Option<Reached> {
        self.active.as_mut().map(Active::reached).or(self.sealed)
    }

    fn reached(&self) -> HighWater {
        let (number, end, next) = match &self.active {
            Some(active) => (active.number, active.end, active.next),
            None => (self.next.number, 0, self.next.first),
        };
        HighWater { sealed_count: number - 1, end, last: Position(next.0 - 1) }
    }
}

impl Active {
    /// Completes `group`, which is to stand at the end; the address of each part.
    fn place(&self, log: LogId, group: &mut Draft, previous: &[Previous]) -> Vec<Address> {
        group.place(log, Address::new(self.number, self.end), self.next, previous)
    }

    /// As [`write`](Self::write). Makes room behind the bytes if the file gets longer by them, but not beyond `segment_bytes`.
    fn write_with_room(&mut self, bytes: &mut Vec<u8>, segment_bytes: u32) -> Result<(), WriteFailure> {
        let len = bytes.len();
        let end = self.end + len as u32;
        match self.room {
            Room::UpTo(room_end) if room_end < end && len <= ROOMY_GROUP_MAX => {}
            _ => return self.write(bytes),
        }
        let room = end.clamp(ROOM_MIN, ROOM_MAX).min(segment_bytes.saturating_sub(end));
        bytes.resize(len + room as usize, 0);
        let written = self.file.write_at(self.end.into(), bytes);
        bytes.truncate(len);
        match written {
            Ok(()) => self.room = Room::UpTo(end + room),
            Err(error) if is_full(&error) => {
                self.file.set_size(self.end.into()).map_err(WriteFailure::InDoubt)?;
                self.room = Room::NoSpace;
                self.write(bytes)?;
            }
            Err(error) => return Err(WriteFailure::InDoubt(error)),
        }
        Ok(())
    }

    /// Cuts the room off.
    fn give_room_up(&mut self) -> io::Result<()> {
        match self.room {
            Room::UpTo(end) if end > self.end => {
                self.file.set_size(self.end.into())?;
                self.room = Room::UpTo(self.end);
            }
            _ => {}
        }
        Ok(())
    }

    /// Its end, and the hash of what is before it.
    fn reached(&mut self) -> Reached {
        let (last, hash) = (Position(self.next.0 - 1), self.summary().hash());
        Reached { segment: self.number, end: self.end, last, hash }
    }

    /// The summary of all groups.
    fn summary(&mut self) -> &Summary {
        let summary = self.summing.settled();
        let contents = summary.contents();
        let summed_up = (summary.end(), contents.next(), contents.marks.last());
        assert_eq!(summed_up, (self.end, self.next, self.mark.as_ref()), "all that was written is summed up");
        summary
    }

    fn sync_group(&self) -> Result<(), WriteFailure> {
        self.file.sync().map_err(WriteFailure::InDoubt)?;
        if !self.file.is_linked().map_err(WriteFailure::InDoubt)? {
            return Err(WriteFailure::InDoubt(io::Error::other(format!("{} is gone", segment_name(self.number)))));
        }
        Ok(())
    }

    /// Takes up `group` but for the summary.
    fn grow(&mut self, group: &Draft, addresses: Vec<Address>) -> Written {
        let first = self.next;
        self.mark = mark_of_group(self.mark.as_ref(), first, self.end).or(self.mark);
        self.end += group.len() as u32;
        self.next.0 += u64::from(group.count());
        let (segment, segment_first, segment_end) = (self.number, self.first, self.end);
        Written { addresses, first, segment, segment_first, segment_end, mark: self.mark }
    }

    /// Writes at the end; a full disk is undone.
    fn write(&self, bytes: &[u8]) -> Result<(), WriteFailure> {
        let Err(error) = self.file.write_at(self.end.into(), bytes) else { return Ok(()) };
        if !is_full(&error) {
            return Err(WriteFailure::InDoubt(error));
        }
        // Without the sync, a power cut could bring the bytes back.
        match self.file.set_size(self.end.into()).and_then(|()| self.file.sync()) {
            Ok(()) => Err(WriteFailure::Full(error)),
            Err(error) => Err(WriteFailure::InDoubt(error)),
        }
    }

    fn seal(&mut self, log: LogId) -> Result<(Hash, Seal), WriteFailure> {
        // The group that makes the segment too long has not been touched: what fails here does not put it in doubt.
        let before = |failure| match failure {
            WriteFailure::InDoubt(error) => WriteFailure::Before(error),
            other => other,
        };
        let address = Address::new(self.number, self.end);
        let summary = self.summary();
        let hash = summary.hash();
        let footer = summary.contents().footer(hash).encode(log, address);
        let checksum = summary.checksum_with(&footer);
        self.give_room_up()
            .map_err(|error| if is_full(&error) { WriteFailure::Full(error) } else { WriteFailure::Before(error) })?;
        self.write(&footer).map_err(before)?;
        self.file.sync().map_err(WriteFailure::Before)?;
        Ok((hash, Seal { len: self.end + footer.len() as u32, checksum }))
    }

    fn successor(&self, log: LogId, hash: Hash) -> SegmentHeader {
        SegmentHeader { number: self.number + 1, log, first: self.next, previous_hash: hash }
    }

    fn begin(disk: &dyn Disk, header: &SegmentHeader) -> Result<Self, WriteFailure> {
        let name = segment_name(header.number);
        let unfinished = format!("{name}{UNFINISHED}");
        let bytes = header.encode();
        let complete = || {
            let file = disk.create(&unfinished)?;
            file.write_at(0, &bytes)?;
            file.sync()?;
            Ok(file)
        };
        let file = complete().map_err(|error| match disk.remove(&unfinished) {
            // Without the temporary file, the next group tries again.
            Ok(()) if is_full(&error) => WriteFailure::Full(error),
            Err(removal) if is_full(&error) && removal.kind() == io::ErrorKind::NotFound => WriteFailure::Full(error),
            _ => WriteFailure::Before(error),
        })?;
        disk.rename(&unfinished, &name).and_then(|()| disk.sync()).map_err(WriteFailure::Before)?;
        Ok(Self {
            number: header.number,
            file,
            end: HEADER_LEN,
            first: header.first,
            next: header.first,
            mark: None,
            summing: Summing::new(Summary::of_new(header)),
            room: Room::UpTo(HEADER_LEN),
        })
    }
}
