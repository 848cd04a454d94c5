//! Input with repetitions far apart, text that compresses and bytes that do not.
use crate::SplitMix64;

const WORDS: u64 = 256;
const SEGMENT_MIN: usize = 4_096;
const SEGMENT_SPREAD: u64 = 61_440;

/// `bytes` bytes drawn from `seed`: 45 % of the segments repeat an earlier one, 40 % are text, 15 % are random.
///
/// An input is not a prefix of the longer one: its last segment is cut.
pub fn generate(bytes: usize, seed: u64) -> Vec<u8> {
    let mut draws = SplitMix64::new(seed);
    let words: Vec<_> = (0..WORDS).map(|_| word(&mut draws)).collect();
    let mut input = Vec::with_capacity(bytes);
    let mut segments: Vec<(usize, usize)> = Vec::new();
    while input.len() < bytes {
        let kind = draws.below(100);
        if kind < 45 && !segments.is_empty() {
            let (start, length) = segments[below(&mut draws, segments.len() as u64)];
            input.extend_from_within(start..start + length.min(bytes - input.len()));
            continue;
        }
        let length = SEGMENT_MIN + below(&mut draws, SEGMENT_SPREAD);
        let end = bytes.min(input.len() + length);
        let is_text = kind < 85 || segments.is_empty();
        segments.push((input.len(), end - input.len()));
        if is_text {
            write_text(&mut input, end, &words, &mut draws);
        } else {
            write_noise(&mut input, end, &mut draws);
        }
    }
    input
}

fn word(draws: &mut SplitMix64) -> Vec<u8> {
    let length = 2 + draws.below(9);
    (0..length).map(|_| b'a' + draws.below(26) as u8).collect()
}

fn write_text(input: &mut Vec<u8>, end: usize, words: &[Vec<u8>], draws: &mut SplitMix64) {
    while input.len() < end {
        // A product of two draws: few words are frequent, as in a language.
        let choice = (draws.below(WORDS) * draws.below(WORDS)) >> 8;
        let word = &words[choice as usize];
        input.extend_from_slice(&word[..word.len().min(end - input.len())]);
        if input.len() < end {
            input.push(if draws.below(12) == 0 { b'\n' } else { b' ' });
        }
    }
}

fn write_noise(input: &mut Vec<u8>, end: usize, draws: &mut SplitMix64) {
    while input.len() < end {
        let value = draws.next_u64().to_le_bytes();
        input.extend_from_slice(&value[..value.len().min(end - input.len())]);
    }
}

fn below(draws: &mut SplitMix64, bound: u64) -> usize {
    draws.below(bound) as usize
}
