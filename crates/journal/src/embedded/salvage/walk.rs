//! Goes through the bytes of one segment, also past what is not valid.
//!
//! A group is found again behind damage by its header, which has the log's id, its own address and a checksum: as sure a
//! sign as when an end is judged to be torn or not (`scan.rs`).

use sha2::{Digest, Sha256};

use super::super::contents::Contents;
use super::super::format::{Address, Frame, HEADER_LEN, Hash, LogId, find_group};
use super::super::scan::Group;
use crate::damage::Flaw;
use crate::record::Position;

/// What a segment holds, in the order of its bytes.
pub(super) struct Walk<'a> {
    pub(super) parts: Vec<Part<'a>>,
    /// The end of the last valid group.
    pub(super) end: u32,
}

pub(super) enum Part<'a> {
    /// A group with all its checksums verified, and where it begins.
    Group(u32, Group<'a>),
    /// The first flaw of a stretch that is not valid.
    Flaw(u64, Flaw),
}

/// Walks `bytes`, segment `number` up to its footer or its end.
pub(super) fn walk(bytes: &[u8], log: LogId, number: u32) -> Walk<'_> {
    let mut walk = Walk { parts: Vec::new(), end: HEADER_LEN };
    let mut at = HEADER_LEN as usize;
    while at < bytes.len() {
        match Group::decode(&bytes[at..], log, Address::new(number, at as u32)) {
            Ok(group) => {
                let start = at as u32;
                at += group.len;
                walk.end = at as u32;
                walk.parts.push(Part::Group(start, group));
            }
            Err((within, flaw)) => {
                walk.parts.push(Part::Flaw(at as u64 + within, flaw));
                match find_group(bytes, log, number, at + 1) {
                    Some(next) => at = next,
                    None => break,
                }
            }
        }
    }
    walk
}

impl<'a> Walk<'a> {
    pub(super) fn is_whole(&self) -> bool {
        self.groups().count() == self.parts.len()
    }

    fn groups(&self) -> impl Iterator<Item = (u32, &Group<'a>)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Group(start, group) => Some((*start, group)),
            Part::Flaw(..) => None,
        })
    }

    /// Takes the flaw out behind which there is no group.
    pub(super) fn take_last_flaw(&mut self) -> Option<(u64, Flaw)> {
        match self.parts.pop_if(|part| matches!(part, Part::Flaw(..)))? {
            Part::Flaw(offset, flaw) => Some((offset, flaw)),
            Part::Group(..) => None,
        }
    }

    /// What the groups hold, if they have positions from `first` on and keys that can be.
    pub(super) fn contents(&self, first: Position) -> Option<Contents> {
        let mut contents = Contents::new(first);
        for (start, group) in self.groups() {
            if group.count > 0 {
                contents.begin_group(start);
            }
            for (place, frame) in &group.frames {
                if frame.first() != contents.next() {
                    return None;
                }
                match frame {
                    Frame::Record(stored) => contents.add(&stored.key.parse().ok()?, stored.seq, *place, 0),
                    Frame::Gap(gap) => contents.skip(gap.count),
                }
            }
        }
        Some(contents)
    }
}

/// The bytes of a sealed segment before its footer, as the next segment knows them.
pub(super) fn hash_of(groups: &[u8]) -> Hash {
    Sha256::digest(groups).into()
}
