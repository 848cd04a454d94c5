//! Cutting by content: a rolling hash over the last 32 bytes, a cut where its low 12 bits are zero.
//!
//! The hash is Rabin's: the window's bytes as a polynomial over GF(2), modulo P = x^32 + `0x45c2b6a1`. A byte comes in at
//! the low end; what leaves the 32 bits at the high end is reduced by `REDUCED`, and the byte that leaves the window,
//! by now multiplied by x^256, is taken out by `FORGOTTEN`.
use std::iter;

const POLYNOMIAL: u32 = 0x45c2_b6a1;
const WINDOW: usize = 32;
const BOUNDARY_MASK: u32 = 0xfff;
/// Distance from a piece's start at which the search for its end begins.
const PIECE_MIN: usize = 2 << 20;

const REDUCED: [u32; 256] = multiplied_by_x_to(32);
const FORGOTTEN: [u32; 256] = multiplied_by_x_to(256);

/// Every byte times x^`power`, modulo P.
const fn multiplied_by_x_to(power: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut product = byte as u32;
        let mut done = 0;
        while done < power {
            let carry = product >> 31;
            product = (product << 1) ^ (carry * POLYNOMIAL);
            done += 1;
        }
        table[byte] = product;
        byte += 1;
    }
    table
}

/// Where a chunk may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// No cut by content before this many bytes; at least 1.
    pub min: usize,
    /// A cut after this many bytes, whatever the content.
    pub max: usize,
}

impl Cut {
    /// Chunks of the pipeline.
    pub const CHUNK: Self = Self { min: 1_024, max: 65_536 };
    /// By content alone, once the window is full.
    pub const BY_CONTENT: Self = Self { min: WINDOW, max: usize::MAX };

    /// The length of the first chunk of `bytes`: all of them if no cut comes.
    ///
    /// The hash starts at the chunk's start, so that equal chunks are found wherever they lie.
    pub fn first(self, bytes: &[u8]) -> usize {
        let mut hash = 0_u32;
        for (place, &byte) in bytes.iter().enumerate() {
            let reduced = REDUCED[(hash >> 24) as usize];
            hash = ((hash << 8) | u32::from(byte)) ^ reduced;
            if place >= WINDOW {
                hash ^= FORGOTTEN[usize::from(bytes[place - WINDOW])];
            }
            let length = place + 1;
            if (length >= self.min && hash & BOUNDARY_MASK == 0) || length == self.max {
                return length;
            }
        }
        bytes.len()
    }
}

/// Cuts all of `bytes`; the chunks in order are the input.
pub fn chunks(bytes: &[u8], cut: Cut) -> impl Iterator<Item = &[u8]> {
    split_by(bytes, move |rest| cut.first(rest))
}

/// Cuts all of `bytes` into coarse pieces, which can be cut into chunks independently of each other.
///
/// A piece ends at the first cut by content from 2 MiB after its start; the last one has what remains.
pub fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    split_by(bytes, |rest| match rest.get(PIECE_MIN..) {
        Some(tail) => PIECE_MIN + Cut::BY_CONTENT.first(tail),
        None => rest.len(),
    })
}

fn split_by(bytes: &[u8], mut length_of_first: impl FnMut(&[u8]) -> usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    iter::from_fn(move || {
        let (first, others) = rest.split_at(length_of_first(rest));
        rest = others;
        (!first.is_empty()).then_some(first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut draws = SplitMix64::new(seed);
        (0..length).map(|_| draws.next_u64().to_le_bytes()[0]).collect()
    }

    /// The definition, bit by bit: the window's bytes as one polynomial, divided by P.
    fn hash_of_window(window: &[u8]) -> u32 {
        let mut remainder = 0_u32;
        for byte in window {
            for bit in (0..8).rev() {
                let carry = remainder >> 31;
                remainder = (remainder << 1) | u32::from(byte >> bit & 1);
                remainder ^= carry * POLYNOMIAL;
            }
        }
        remainder
    }

    #[test]
    fn cuts_lie_where_the_hash_of_the_last_32_bytes_of_the_chunk_ends_in_zeros() {
        let bytes = noise(200_000, 5);
        let mut start = 0;
        for chunk in chunks(&bytes, Cut::BY_CONTENT) {
            let expected = (WINDOW..=bytes.len() - start)
                .find(|&length| hash_of_window(&bytes[start + length - WINDOW..start + length]) & BOUNDARY_MASK == 0);
            assert_eq!(chunk.len(), expected.unwrap_or(bytes.len() - start), "chunk at {start}");
            start += chunk.len();
        }
        assert!(start == bytes.len());
    }

    #[test]
    fn chunks_keep_their_bounds_and_add_up_to_the_input() {
        let mut bytes = noise(300_000, 6);
        bytes.extend_from_slice(&[7; 200_000]);
        let cut: Vec<_> = chunks(&bytes, Cut::CHUNK).collect();
        assert_eq!(cut.concat(), bytes);
        let (last, others) = cut.split_last().expect("there are chunks");
        assert!(others.iter().all(|chunk| (Cut::CHUNK.min..=Cut::CHUNK.max).contains(&chunk.len())));
        assert!(others.iter().any(|chunk| chunk.len() == Cut::CHUNK.max), "a run of one byte has no boundary");
        assert!(last.len() <= Cut::CHUNK.max);
    }

    #[test]
    fn a_chunk_met_again_elsewhere_is_cut_alike() {
        let repeated = noise(100_000, 8);
        let one: Vec<_> = chunks(&repeated, Cut::CHUNK).map(<[u8]>::len).collect();
        let elsewhere = [noise(30_011, 9), repeated].concat();
        let two: Vec<_> = chunks(&elsewhere, Cut::CHUNK).map(<[u8]>::len).collect();
        assert!(two.ends_with(&one[one.len() - 10..]), "{one:?} {two:?}");
    }

    #[test]
    fn nothing_has_no_chunks_and_no_pieces() {
        assert_eq!(chunks(&[], Cut::CHUNK).count(), 0);
        assert_eq!(pieces(&[]).count(), 0);
    }

    #[test]
    fn exactly_two_mebibytes_are_one_piece() {
        let bytes = noise(PIECE_MIN + 1, 3);
        assert_eq!(pieces(&bytes[..PIECE_MIN]).map(<[u8]>::len).collect::<Vec<_>>(), [PIECE_MIN]);
        assert_eq!(pieces(&bytes).map(<[u8]>::len).collect::<Vec<_>>(), [PIECE_MIN + 1]);
    }
}
