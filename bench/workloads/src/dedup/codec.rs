//! A lossless codec of our own with one fixed setting: references back into the last 64 KiB, found by hash chains.
//!
//! It is meant to be slow in the way that a good compressor is: each place is compared with up to [`CHAIN_MAX`] earlier
//! ones, and a match is put off if the next byte begins a longer one.
//!
//! # Format
//! The length of the original, then alternately: the number of literal bytes and these bytes; the length of a match
//! less [`MATCH_MIN`] and, in two bytes, its distance. It ends when the original is complete. Numbers without a stated
//! width are in base 128, lowest first, the high bit of a byte announcing another one; the rest is little-endian.
use thiserror::Error;

const MATCH_MIN: usize = 4;
const DISTANCE_MAX: usize = u16::MAX as usize;
/// Earlier places that a place is compared with.
const CHAIN_MAX: usize = 128;
/// A match of this length is taken without a look at the next byte.
const LENGTH_GOOD: usize = 64;
/// An entry of the tables that leads nowhere.
const NOWHERE: u32 = u32::MAX;

/// Why bytes are not what [`compress`] made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CodecError {
    /// They end too early.
    #[error("the compressed data ends before the original is complete")]
    Truncated,
    /// They go on after the end.
    #[error("{bytes} bytes follow the end of the compressed data")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// A number has more than 64 bits, or more bytes are promised than the original has.
    #[error("a length in the compressed data is too large")]
    TooLong,
    /// A match refers to before the start.
    #[error("a match refers {distance} bytes back, with {produced} bytes before it")]
    TooFar {
        /// How far back.
        distance: usize,
        /// What there was.
        produced: usize,
    },
}

/// The shorter form of `original`; at worst a few bytes longer.
///
/// # Complexity
/// O(n), with up to 128 comparisons a byte; allocates five bytes for each of `original`.
///
/// # Panics
/// For 4 GiB and more.
pub fn compress(original: &[u8]) -> Vec<u8> {
    assert!(u32::try_from(original.len()).is_ok_and(|length| length < NOWHERE), "places are kept in 32 bits");
    let mut out = Vec::with_capacity(original.len() / 2);
    write_number(&mut out, original.len());
    let mut chains = Chains::new(original);
    let (mut place, mut literals_from) = (0, 0);
    while place < original.len() {
        let Some(found) = chains.longest_match_at(place).filter(|found| !chains.is_better_put_off(place, found)) else {
            place += 1;
            continue;
        };
        write_literals(&mut out, &original[literals_from..place]);
        write_number(&mut out, found.length - MATCH_MIN);
        out.extend_from_slice(&u16::try_from(found.distance).expect("within the window").to_le_bytes());
        place += found.length;
        literals_from = place;
    }
    if literals_from < original.len() {
        write_literals(&mut out, &original[literals_from..]);
    }
    out
}

fn write_literals(out: &mut Vec<u8>, literals: &[u8]) {
    write_number(out, literals.len());
    out.extend_from_slice(literals);
}

fn write_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    out.push(number as u8);
}

#[derive(Debug, Clone, Copy)]
struct Match {
    length: usize,
    distance: usize,
}

/// For every hash of four bytes, the places where they stand, the latest first.
struct Chains<'a> {
    original: &'a [u8],
    latest: Vec<u32>,
    before: Vec<u32>,
    hash_shift: u32,
    /// Places below this one are in the chains.
    entered: usize,
}

impl<'a> Chains<'a> {
    fn new(original: &'a [u8]) -> Self {
        let bits = original.len().next_power_of_two().trailing_zeros().clamp(8, 15);
        Self {
            original,
            latest: vec![NOWHERE; 1 << bits],
            before: vec![NOWHERE; original.len()],
            hash_shift: 32 - bits,
            entered: 0,
        }
    }

    fn longest_match_at(&mut self, place: usize) -> Option<Match> {
        let bucket = self.bucket(place)?;
        self.enter_up_to(place);
        let mut candidate = self.latest[bucket];
        let mut longest: Option<Match> = None;
        for _ in 0..CHAIN_MAX {
            let earlier = candidate as usize;
            if candidate == NOWHERE || place - earlier > DISTANCE_MAX {
                break;
            }
            let length = self.common_length(earlier, place);
            if length >= MATCH_MIN && longest.is_none_or(|known| length > known.length) {
                longest = Some(Match { length, distance: place - earlier });
            }
            candidate = self.before[earlier];
        }
        longest
    }

    /// Whether a longer match begins one byte later, so that this byte is better left a literal.
    fn is_better_put_off(&mut self, place: usize, found: &Match) -> bool {
        found.length < LENGTH_GOOD
            && self.longest_match_at(place + 1).is_some_and(|next| next.length > found.length + 1)
    }

    fn enter_up_to(&mut self, place: usize) {
        for entering in self.entered..place {
            let Some(bucket) = self.bucket(entering) else { break };
            self.before[entering] = self.latest[bucket];
            self.latest[bucket] = u32::try_from(entering).expect("the length was checked");
        }
        self.entered = self.entered.max(place);
    }

    fn bucket(&self, place: usize) -> Option<usize> {
        let four = self.original.get(place..)?.first_chunk::<MATCH_MIN>()?;
        Some((u32::from_le_bytes(*four).wrapping_mul(0x9E37_79B1) >> self.hash_shift) as usize)
    }

    fn common_length(&self, earlier: usize, place: usize) -> usize {
        let pairs = self.original[earlier..].iter().zip(&self.original[place..]);
        pairs.take_while(|(one, other)| one == other).count()
    }
}

/// What [`compress`] was given.
///
/// # Errors
/// [`CodecError`] when `compressed` is not the result of [`compress`]; never a panic, never more memory than 64 KiB
/// beyond what the input can justify.
pub fn decompress(compressed: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut rest = compressed;
    let length = read_number(&mut rest)?;
    let mut original = Vec::with_capacity(length.min(1 << 16));
    while original.len() < length {
        let literals = read_number(&mut rest)?;
        check_room(literals, length - original.len())?;
        original.extend_from_slice(rest.split_off(..literals).ok_or(CodecError::Truncated)?);
        if original.len() == length {
            break;
        }
        let matched = read_number(&mut rest)?.checked_add(MATCH_MIN).ok_or(CodecError::TooLong)?;
        check_room(matched, length - original.len())?;
        let distance = rest.split_off(..2).ok_or(CodecError::Truncated)?;
        repeat(&mut original, usize::from(u16::from_le_bytes([distance[0], distance[1]])), matched)?;
    }
    if rest.is_empty() { Ok(original) } else { Err(CodecError::Trailing { bytes: rest.len() }) }
}

fn check_room(wanted: usize, room: usize) -> Result<(), CodecError> {
    if wanted <= room { Ok(()) } else { Err(CodecError::TooLong) }
}

/// Appends `length` bytes from `distance` back; the two may overlap, which repeats a pattern.
fn repeat(original: &mut Vec<u8>, distance: usize, length: usize) -> Result<(), CodecError> {
    let produced = original.len();
    if distance == 0 || distance > produced {
        return Err(CodecError::TooFar { distance, produced });
    }
    for place in produced - distance..produced - distance + length {
        original.push(original[place]);
    }
    Ok(())
}

fn read_number(rest: &mut &[u8]) -> Result<usize, CodecError> {
    let mut number = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let &byte = rest.split_off_first().ok_or(CodecError::Truncated)?;
        let part = usize::from(byte & 0x7f);
        if part << shift >> shift != part {
            return Err(CodecError::TooLong);
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(CodecError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    #[track_caller]
    fn round_trip(original: &[u8]) -> usize {
        let compressed = compress(original);
        assert_eq!(decompress(&compressed).as_deref(), Ok(original));
        compressed.len()
    }

    #[test]
    fn every_kind_of_input_comes_back() {
        let noise: Vec<u8> = {
            let mut draws = SplitMix64::new(1);
            (0..70_000).map(|_| draws.below(256) as u8).collect()
        };
        let few_letters: Vec<u8> = noise.iter().map(|byte| byte % 3).collect();
        for length in (0..20).chain([127, 128, 4_095, 65_535, 65_536, 70_000]) {
            round_trip(&noise[..length]);
            round_trip(&few_letters[..length]);
            round_trip(&vec![7; length]);
        }
    }

    #[test]
    fn repetition_is_found_up_to_the_greatest_distance_and_no_further() {
        let mut draws = SplitMix64::new(2);
        let noise: Vec<u8> = (0..DISTANCE_MAX + 1).map(|_| draws.below(256) as u8).collect();
        let repeated_after = |distance: usize| [&noise[..distance], &noise[..64]].concat();
        assert!(round_trip(&repeated_after(DISTANCE_MAX)) < DISTANCE_MAX + 20);
        assert!(round_trip(&repeated_after(DISTANCE_MAX + 1)) > DISTANCE_MAX + 64);
    }

    #[test]
    fn a_run_takes_a_few_bytes_and_noise_hardly_more_than_itself() {
        assert!(round_trip(&[9; 60_000]) < 12);
        let mut draws = SplitMix64::new(3);
        let noise: Vec<u8> = (0..60_000).map(|_| draws.below(256) as u8).collect();
        assert!(round_trip(&noise) < 60_000 + 60);
    }

    #[test]
    fn damage_is_an_error() {
        // Ten bytes: "ab" as literals, then eight bytes from two back.
        let good = [10, 2, b'a', b'b', 4, 2, 0];
        assert_eq!(decompress(&good).as_deref(), Ok(b"ababababab".as_slice()));
        for end in 0..good.len() {
            assert_eq!(decompress(&good[..end]), Err(CodecError::Truncated), "cut after {end} bytes");
        }
        assert_eq!(decompress(&[good.as_slice(), &[0]].concat()), Err(CodecError::Trailing { bytes: 1 }));
        assert_eq!(decompress(&[10, 2, b'a', b'b', 4, 3, 0]), Err(CodecError::TooFar { distance: 3, produced: 2 }));
        assert_eq!(decompress(&[10, 2, b'a', b'b', 4, 0, 0]), Err(CodecError::TooFar { distance: 0, produced: 2 }));
        assert_eq!(decompress(&[10, 2, b'a', b'b', 5, 2, 0]), Err(CodecError::TooLong));
        assert_eq!(decompress(&[2, 3, b'a', b'b', b'c']), Err(CodecError::TooLong));
        assert_eq!(decompress(&[0xff; 11]), Err(CodecError::TooLong));
    }

    #[test]
    fn flipped_bits_give_an_error_or_as_many_bytes_as_promised() {
        let mut draws = SplitMix64::new(4);
        let text: Vec<u8> = (0..2_000).map(|_| b"ab cd"[draws.below(5) as usize]).collect();
        let compressed = compress(&text);
        for place in 0..compressed.len() {
            for bit in 0..8 {
                let mut damaged = compressed.clone();
                damaged[place] ^= 1 << bit;
                let promised = read_number(&mut damaged.as_slice());
                if let Ok(original) = decompress(&damaged) {
                    assert_eq!(Ok(original.len()), promised, "bit {bit} of byte {place}");
                }
            }
        }
    }
}
