//! Which segment holds which positions.

use super::format::{Address, HEADER_LEN, Mark};
use super::tail::Written;
use crate::record::Position;

/// The durable part of every segment, in order; segment `n` is at index `n - 1`.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    extents: Vec<Extent>,
}

/// The durable part of one segment.
#[derive(Debug)]
pub(super) struct Extent {
    pub(super) first: Position,
    /// The end of its groups.
    pub(super) end: u32,
    pub(super) marks: Vec<Mark>,
}

/// A place to read groups from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) end: u32,
}

impl Catalog {
    /// Where the last durable group ends; the default address if there is none.
    pub(super) fn end(&self) -> Address {
        self.extents.last().map_or_else(Address::default, |last| Address::new(self.extents.len() as u32, last.end))
    }

    pub(super) fn segment_count(&self) -> u32 {
        self.extents.len() as u32
    }

    pub(super) fn push(&mut self, extent: Extent) {
        self.extents.push(extent);
    }

    /// Takes a durable group up.
    pub(super) fn grow(&mut self, written: &Written) {
        if self.extents.len() < written.segment as usize {
            self.push(Extent { first: written.segment_first, end: 0, marks: Vec::new() });
        }
        let extent = self.extents.last_mut().expect("the segment that was written to");
        extent.end = written.segment_end;
        if extent.marks.last() != written.mark.as_ref() {
            extent.marks.extend(written.mark);
        }
    }

    /// Where the group that holds `position` can be found by reading on; `position` must be durable.
    pub(super) fn locate(&self, position: Position) -> Start {
        let index = self.extents.partition_point(|extent| extent.first <= position);
        let extent = &self.extents[index - 1];
        let mark = extent.marks.partition_point(|mark| mark.position <= position).checked_sub(1);
        let offset = mark.map_or(HEADER_LEN, |mark| extent.marks[mark].offset);
        Start { segment: index as u32, offset, end: extent.end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_located_by_segment_and_by_mark() {
        let mark = |position, offset| Mark { position: Position(position), offset };
        let mut catalog = Catalog::default();
        catalog.push(Extent { first: Position(1), end: 900, marks: vec![mark(1, 72), mark(5, 400)] });
        catalog.push(Extent { first: Position(9), end: 200, marks: vec![mark(9, 72)] });
        for (position, segment, offset, end) in
            [(1, 1, 72, 900), (4, 1, 72, 900), (5, 1, 400, 900), (8, 1, 400, 900), (9, 2, 72, 200), (10, 2, 72, 200)]
        {
            assert_eq!(catalog.locate(Position(position)), Start { segment, offset, end }, "position {position}");
        }
    }
}
