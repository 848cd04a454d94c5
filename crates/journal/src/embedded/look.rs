//! Reads a log beside its writer, for backups and exports.
//!
//! # Problem
//! The writer goes on while the log is read: it appends to the last segment, seals it, begins others and moves the
//! high-water mark. What a reader sees at the end of the last file may be half a group, or a whole one that no sync has
//! made durable yet.
//!
//! # Where a look ends
//! That is decided once, when it begins.
//! * *A process has the log open*: at the high-water mark. What stands before it is durable and never changes, so a
//!   reader needs no lock and whatever is not valid there is damage.
//! * *Nobody has*: at the last valid group, as when the log is opened. The bytes of the last segment are read between two
//!   looks at the lock, because a writer that comes meanwhile may cut a torn group off.
//!
//! # Compaction
//! Segments may be [compacted](super::compaction) meanwhile, one before it is read and another one not. Once a class is known of which
//! records were discarded, those that are left of it are passed over: a part of them would be of use to nobody. Where records of an entity
//! were discarded whose tombstone is behind the end, because the look has taken an hour, it ends with an error.
//!
//! # The manifest
//! Its two slots are written in turn, and its list grows. A reader may find both slots half written, or one that counts an
//! entry behind the length that the file had a moment before: it reads the manifest again.

use std::path::Path;
use std::sync::Arc;

use super::OpenError;
use super::format::{Address, HEADER_LEN, LogId};
use super::recover::{count_segments, damage};
use super::scan::Group as Stored;
use super::segment::Whole;
use super::verify::Verifier;
use crate::damage::{Damage, Flaw};
use crate::disk::{Disk, OsDisk};
use crate::record::Group;

/// A manifest that is not valid in so many readings is damaged.
const MANIFEST_READINGS: usize = 8;

/// Begins to read the journal in `directory`, which may be open elsewhere; see [`Look`].
///
/// # Errors
/// When the directory is unsuitable or cannot be read, or when its manifest is damaged or missing.
///
/// ```
/// use enact_journal::{Embedded, EntityKey, Journal, Kind, NewRecord, Options, Seq, look};
/// # fn block_on<F: Future>(future: F) -> F::Output { enact_journal_kit::contract::block_on(future) }
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # block_on(async {
/// let journal = Embedded::open(&path, Options::default())?;
/// let account = EntityKey::new("Account", "NL01")?;
/// let record = NewRecord { entity: account, expected: Seq::NONE, kind: Kind(1), payload: b"open".to_vec() };
/// journal.append(vec![record]).await?;
/// journal.close().await?;
///
/// let groups = look(&path)?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(groups[0].records()[0].payload, b"open");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn look(directory: &Path) -> Result<Look, OpenError> {
    look_on(Arc::new(OsDisk::read_only(directory)?))
}

/// As [`look`], on `disk`.
///
/// # Errors
/// As [`look`].
pub fn look_on(disk: Arc<dyn Disk>) -> Result<Look, OpenError> {
    loop {
        let is_locked = disk.is_locked().map_err(|error| OpenError::io(".", &error))?;
        let verifier = begin(&*disk)?;
        let end = if is_locked { End::Mark } else { last_segment(&*disk, &verifier)? };
        if is_locked || !disk.is_locked().map_err(|error| OpenError::io(".", &error))? {
            return Ok(Look { disk, verifier, end, segment: Segment::default() });
        }
    }
}

/// The groups of a log, in order: each is what one sync has made durable, one batch or several, never a part of one.
///
/// It is a prefix of the log. While a process has the journal open, it ends where the high-water mark was when the look
/// began: what was acknowledged within [`mark_lag`](super::Options::mark_lag) before, 100 ms by default, may be missing.
/// Otherwise it is all that opening the journal would keep.
///
/// Nothing is changed and no lock is held. Every record, chain, footer and hash is checked, and what the manifest
/// promises, segment by segment: the groups of a segment come after all of it was verified. After damage, or an error
/// of the operating system, nothing follows.
///
/// Takes memory for two segments and an entry for each entity.
pub struct Look {
    disk: Arc<dyn Disk>,
    verifier: Verifier,
    end: End,
    segment: Segment,
}

enum End {
    Mark,
    /// The number and the bytes of the last segment; none if there is none.
    Segment(u32, Option<Whole>),
    /// It was reached.
    Reached,
}

/// The segment that was verified last, with what of it is still to be yielded.
#[derive(Default)]
struct Segment {
    bytes: Vec<u8>,
    at: u32,
    end: u32,
}

/// What the manifest promises.
fn begin(disk: &dyn Disk) -> Result<Verifier, OpenError> {
    let mut verifier = Verifier::begin(disk)?;
    for _ in 1..MANIFEST_READINGS {
        if verifier.found.is_sound() {
            break;
        }
        verifier = Verifier::begin(disk)?;
    }
    sound(&verifier).map(|()| verifier)
}

fn last_segment(disk: &dyn Disk, verifier: &Verifier) -> Result<End, OpenError> {
    let count = count_segments(disk)?;
    verifier.mark.check_count(count)?;
    let last = if count > 0 { Some(Whole::read(disk, count)?) } else { None };
    Ok(End::Segment(count, last))
}

/// The first damage that was found is the error.
fn sound(verifier: &Verifier) -> Result<(), OpenError> {
    verifier.found.damages.first().map_or(Ok(()), |damage| Err(damage.clone().into()))
}

impl Look {
    /// The number that tells the log from others; zero if it has not begun.
    pub fn log(&self) -> u64 {
        self.verifier.log.map_or(0, |log| log.0)
    }

    fn next_group(&mut self) -> Result<Option<Group>, OpenError> {
        loop {
            while self.segment.at < self.segment.end {
                if let Some(group) = self.decode_group()? {
                    return Ok(Some(group));
                }
            }
            if !self.read_segment()? {
                // Discarded while it was read, and the tombstone stands behind its end.
                let incomplete = self.verifier.discarded.incomplete();
                let flaw = incomplete.map(|entity| Flaw::Discarded { entity: entity.clone() });
                return match flaw {
                    Some(flaw) => Err(damage(self.verifier.found.segment_count, 0, flaw).into()),
                    None => Ok(None),
                };
            }
        }
    }

    fn decode_group(&mut self) -> Result<Option<Group>, Damage> {
        let Segment { bytes, at, .. } = &mut self.segment;
        let number = self.verifier.found.segment_count;
        let log = self.verifier.log.unwrap_or(LogId(0));
        let stored = Stored::decode(&bytes[*at as usize..], log, Address::new(number, *at))
            .map_err(|(within, flaw)| damage(number, u64::from(*at) + within, flaw))?;
        *at += stored.len as u32;
        let group = stored.to_group(|class| self.verifier.is_discarded(class));
        group.map_err(|offset| damage(number, offset.into(), Flaw::Malformed))
    }

    /// Reads and verifies the next segment; `false` if there is none.
    fn read_segment(&mut self) -> Result<bool, OpenError> {
        let number = self.verifier.found.segment_count + 1;
        let (segment, is_last) = match &mut self.end {
            End::Mark => {
                let mark = self.verifier.mark;
                if number > mark.sealed_count + u32::from(mark.end > 0) {
                    return Ok(false);
                }
                let mut segment = Whole::read(&*self.disk, number)?;
                let is_last = number > mark.sealed_count;
                if is_last {
                    segment.bytes.truncate(mark.end as usize);
                }
                (segment, is_last)
            }
            End::Segment(last, _) if number > *last => return Ok(false),
            End::Segment(last, whole) if number == *last => match whole.take() {
                Some(segment) => (segment, true),
                None => return Ok(false),
            },
            End::Segment(..) => (Whole::read(&*self.disk, number)?, false),
            End::Reached => return Ok(false),
        };
        let end = self.verifier.take(&segment, number, is_last);
        sound(&self.verifier)?;
        self.segment = Segment { bytes: segment.bytes, at: HEADER_LEN, end: end.unwrap_or_default() };
        Ok(true)
    }
}

impl Iterator for Look {
    type Item = Result<Group, OpenError>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.next_group().transpose();
        if !matches!(group, Some(Ok(_))) {
            self.end = End::Reached;
            self.segment = Segment::default();
        }
        group
    }
}
