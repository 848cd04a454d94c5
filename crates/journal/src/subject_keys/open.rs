//! Opening: checks every byte of the file and settles what a crash has left.

use std::io;

use ring::rand::SystemRandom;
use zeroize::Zeroizing;

use super::cipher::{Digester, random};
use super::file::{KeyFile, Writer};
use super::format::{HEADER_LEN, Header, HeaderFlaw, MARK_LEN, Place, SLOT_LEN, Slot, Stage, decode_mark, mark_offset};
use super::index::Index;
use super::{FILE, SubjectKeysError};
use crate::disk::{Disk, DiskFile};

/// A new file until it is whole.
const UNFINISHED: &str = "subject-keys.new";

/// How much is read at a time.
const PART_LEN: usize = 1 << 20;

/// A file that is whole and durable.
pub(super) struct Opened {
    pub(super) writer: Writer,
    pub(super) index: Index,
    pub(super) digester: Digester,
}

/// Opens the file on `disk`, or begins it. The directory is locked.
pub(super) fn open(disk: &dyn Disk, source: &SystemRandom) -> Result<Opened, SubjectKeysError> {
    let file = match disk.open(FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            begin(disk, source)?;
            disk.open(FILE)
        }
        file => file,
    };
    let file = file.map_err(SubjectKeysError::disk)?;
    // The name may be that of a process that died before it was durable.
    disk.sync().map_err(|error| SubjectKeysError::of(".", error))?;

    let header = header(&*file)?;
    let file = KeyFile { file, store: header.store };
    let (mark, durable) = mark(&file)?;
    let scanned = scan(&file, durable)?;
    settle(&file, durable, &scanned)?;
    // Over the mark that says most: the other one says less and has been durable for longer.
    file.set_mark(mark, scanned.end)?;
    file.sync()?;
    let writer = Writer { file, end: scanned.end, lesser_mark: 1 - mark };
    Ok(Opened { writer, index: scanned.index, digester: Digester::new(&header.secret) })
}

fn begin(disk: &dyn Disk, source: &SystemRandom) -> Result<(), SubjectKeysError> {
    let header = Header { store: *random(source)?, secret: random(source)? };
    let begun = || {
        if disk.names()?.iter().any(|name| name == UNFINISHED) {
            disk.remove(UNFINISHED)?;
        }
        KeyFile::begin(&*disk.create(UNFINISHED)?, &header)?;
        disk.rename(UNFINISHED, FILE)
    };
    begun().map_err(|error| SubjectKeysError::of(UNFINISHED, error))
}

fn header(file: &dyn DiskFile) -> Result<Header, SubjectKeysError> {
    let mut bytes = Zeroizing::new([0; HEADER_LEN]);
    file.read_at(0, &mut *bytes).map_err(SubjectKeysError::disk)?;
    Header::decode(&bytes).map_err(|flaw| match flaw {
        HeaderFlaw::Damaged => SubjectKeysError::damaged(0),
        HeaderFlaw::Version(found) => SubjectKeysError::Version { file: FILE.to_owned(), found },
    })
}

/// The mark that says most, and what it says.
fn mark(file: &KeyFile) -> Result<(usize, Place), SubjectKeysError> {
    let mut marks = Vec::new();
    for which in 0..2 {
        let mut bytes = [0; MARK_LEN];
        file.file.read_at(mark_offset(which), &mut bytes).map_err(SubjectKeysError::disk)?;
        marks.extend(decode_mark(file.store, &bytes).map(|end| (which, end)));
    }
    let most = marks.into_iter().max_by_key(|(_, end)| *end);
    most.ok_or_else(|| SubjectKeysError::damaged(mark_offset(0)))
}

/// What the slots of a file are.
struct Scanned {
    index: Index,
    /// Behind the last slot that counts.
    end: Place,
    /// The length of the file.
    size: u64,
    /// Slots whose keys have to be overwritten.
    ending: Vec<Place>,
}

fn scan(file: &KeyFile, durable: Place) -> Result<Scanned, SubjectKeysError> {
    let size = file.file.size().map_err(SubjectKeysError::disk)?;
    let count = (size.saturating_sub(Place::FIRST.offset()) / SLOT_LEN as u64) as usize;
    let index = Index::with_capacity(count);
    let mut scanned = Scanned { index, end: Place::FIRST, size, ending: Vec::new() };
    let mut part = Zeroizing::new(vec![0; PART_LEN.min(count * SLOT_LEN)]);
    while scanned.end.offset() < size {
        let read = file.file.read_at(scanned.end.offset(), &mut part).map_err(SubjectKeysError::disk)?;
        for slot in part[..read].chunks_exact(SLOT_LEN) {
            if !scanned.add(file, &Slot(slot), durable)? {
                return Ok(scanned);
            }
        }
        if read < SLOT_LEN {
            break;
        }
    }
    if scanned.end < durable { Err(SubjectKeysError::damaged(scanned.end.offset())) } else { Ok(scanned) }
}

impl Scanned {
    /// Adds the next slot; returns whether it counts, as do all that are durable.
    fn add(&mut self, file: &KeyFile, slot: &Slot<'_>, durable: Place) -> Result<bool, SubjectKeysError> {
        let place = self.end;
        let damaged = || SubjectKeysError::damaged(place.offset());
        let Some((identity, stage)) = slot.check(file.store, place) else {
            return if place < durable { Err(damaged()) } else { Ok(false) };
        };
        if stage == Stage::Ending {
            self.ending.push(place);
        }
        let live = (stage == Stage::Live).then_some(place);
        if !self.index.add(identity, live) {
            return Err(damaged());
        }
        self.end = place.after(1).ok_or_else(damaged)?;
        Ok(true)
    }
}

/// Makes what was found durable, and finishes what was begun.
fn settle(file: &KeyFile, durable: Place, scanned: &Scanned) -> Result<(), SubjectKeysError> {
    let Scanned { end, size, ending, .. } = scanned;
    let cut_bytes = size.saturating_sub(end.offset());
    if durable == *end && cut_bytes == 0 && ending.is_empty() {
        return Ok(());
    }
    // Visible and perhaps not durable, also after a sync that has failed: it has to be written again.
    let mut tail = Zeroizing::new(vec![0; (end.offset() - durable.offset()) as usize]);
    file.file.read_at(durable.offset(), &mut tail).map_err(SubjectKeysError::disk)?;
    if !tail.is_empty() {
        file.write(durable.offset(), &tail)?;
    }
    if cut_bytes > 0 {
        file.cut(*end)?;
    }
    file.set_stage(ending.iter().copied(), Stage::Ending)?;
    file.sync()?;
    if !ending.is_empty() {
        file.overwrite(ending.iter().copied())?;
    }
    let overwritten = ending.len();
    tracing::warn!(cut_bytes, overwritten, "the subject keys have been settled after a crash");
    Ok(())
}
