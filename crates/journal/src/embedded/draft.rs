//! A group before its place in the log is known.
//!
//! Callers write what they append into it, each on a thread of its own. What depends on the place is left out until the group is about to be
//! written: checksums, positions, and where the record of an entity stands that is before another one.

use super::format::{Address, GAP_LEN, GROUP_HEADER_LEN, Gap, GroupHeader, LogId, RECORD_HEADER_LEN, checksum};
use crate::numbers::u32_at;
use crate::record::{Kind, NewRecord, Position};

/// Where the record before another one of the same entity stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Previous {
    At(Address),
    /// In the same group, by its index there.
    InGroup(u32),
}

/// The parts of a group: records, and gaps for those that are left out.
#[derive(Debug)]
pub(super) struct Draft {
    /// Space for the header of the group, and the parts.
    bytes: Vec<u8>,
    /// Where each part begins.
    starts: Vec<u32>,
    /// How many positions the parts take.
    count: u32,
}

impl Draft {
    /// One without parts, in the space of `spare`.
    pub(super) fn in_space_of(spare: Vec<u8>) -> Self {
        let mut bytes = spare;
        bytes.clear();
        bytes.resize(GROUP_HEADER_LEN, 0);
        Self { bytes, starts: Vec::new(), count: 0 }
    }

    /// One of these records.
    pub(super) fn of(records: &[NewRecord]) -> Self {
        let mut draft = Self::in_space_of(Vec::new());
        records.iter().for_each(|record| draft.add(record));
        draft
    }

    /// Adds `record`.
    pub(super) fn add(&mut self, record: &NewRecord) {
        self.begin_part(1);
        let key = record.entity.as_str();
        let mut header = [0; RECORD_HEADER_LEN];
        header[4..8].copy_from_slice(&(record.payload.len() as u32).to_le_bytes());
        header[16..24].copy_from_slice(&record.expected.next().0.to_le_bytes());
        header[32..34].copy_from_slice(&(key.len() as u16).to_le_bytes());
        header[34] = record.kind.0;
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(&record.payload);
    }

    /// Adds a gap of so many positions.
    pub(super) fn skip(&mut self, count: u32) {
        self.begin_part(count);
        let nowhere = Gap { first: Position::START, len: GAP_LEN as u32, count };
        self.bytes.extend(nowhere.encode(LogId(0), Address::default()));
    }

    fn begin_part(&mut self, count: u32) {
        self.starts.push(self.bytes.len() as u32);
        self.count += count;
    }

    /// The length of the group; until it is [placed](Self::place), without the zeros that fill it up.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// How many positions it takes.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Completes it as the group at `address`, whose first part stands at the position `first`. Each part has an entry in `previous`, which
    /// is not looked at for a gap. Returns the address of each part, marked if it is a tombstone.
    pub(super) fn place(
        &mut self,
        log: LogId,
        address: Address,
        first: Position,
        previous: &[Previous],
    ) -> Vec<Address> {
        let mut addresses: Vec<Address> = Vec::with_capacity(self.starts.len());
        let mut position = first;
        let mut rest = &mut self.bytes[GROUP_HEADER_LEN..];
        let ends = self.starts.iter().skip(1).copied().chain([rest.len() as u32 + GROUP_HEADER_LEN as u32]);
        for ((start, end), previous) in self.starts.iter().zip(ends).zip(previous) {
            let (part, behind) = rest.split_at_mut((end - start) as usize);
            let at = address.plus(*start as usize);
            part[8..16].copy_from_slice(&position.0.to_le_bytes());
            if Gap::is_at_start_of(part) {
                position.0 += u64::from(u32_at(part, 20));
                addresses.push(at);
            } else {
                let previous = match *previous {
                    Previous::At(previous) => previous,
                    Previous::InGroup(index) => addresses[index as usize],
                };
                part[24..32].copy_from_slice(&previous.to_bits().to_le_bytes());
                position = position.next();
                addresses.push(at.of(Kind(part[34])));
            }
            let sum = checksum(log, at, &part[4..]);
            part[..4].copy_from_slice(&sum.to_le_bytes());
            rest = behind;
        }
        let header = GroupHeader { first, body_len: (self.bytes.len() - GROUP_HEADER_LEN) as u32, count: self.count };
        self.bytes.resize(header.len(), 0);
        header.write(&mut self.bytes, log, address);
        addresses
    }

    /// The bytes of the group, complete once it is [placed](Self::place).
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::format::Frame;
    use crate::record::{EntityKey, Seq};

    #[test]
    fn a_placed_group_has_its_parts_one_after_the_other() {
        let entity = EntityKey::new("Account", "A").unwrap();
        let record = |seq, kind| NewRecord { entity: entity.clone(), expected: Seq(seq), kind, payload: vec![1, 2, 3] };
        let (log, at, before) = (LogId(7), Address::new(3, 800), Address::new(2, 72));
        // What stood in the space before is gone.
        let mut draft = Draft::in_space_of(vec![0xff; 500]);
        draft.add(&record(4, Kind(1)));
        draft.skip(5);
        draft.add(&record(5, Kind::TOMBSTONE));
        let previous = [Previous::At(before), Previous::At(Address::default()), Previous::InGroup(0)];
        let addresses = draft.place(log, at, Position(10), &previous);

        let header = GroupHeader::decode(draft.bytes(), log, at).unwrap();
        assert_eq!((header.first, header.count, header.len()), (Position(10), 7, draft.len()));
        let mut next = at.plus(GROUP_HEADER_LEN);
        let mut frames = Vec::new();
        for address in &addresses {
            assert_eq!((address.segment(), address.offset()), (next.segment(), next.offset()));
            let bytes = &draft.bytes()[(next.offset() - at.offset()) as usize..];
            let frame = Frame::decode(bytes, log, next).unwrap();
            frames.push(match frame {
                Frame::Record(stored) => {
                    (stored.key.to_owned(), stored.position, stored.seq, stored.previous, stored.kind)
                }
                Frame::Gap(gap) => (String::new(), gap.first, Seq(gap.count.into()), Address::default(), Kind(0)),
            });
            next = next.plus(frame.len());
        }
        let key = entity.as_str().to_owned();
        assert_eq!(
            frames,
            [
                (key.clone(), Position(10), Seq(5), before, Kind(1)),
                (String::new(), Position(11), Seq(5), Address::default(), Kind(0)),
                (key, Position(16), Seq(6), addresses[0], Kind::TOMBSTONE),
            ]
        );
        assert_eq!(addresses.iter().map(|address| address.is_of_tombstone()).collect::<Vec<_>>(), [false, false, true]);
    }
}
