//! dedup against values computed by an independent program, and the file against its input.

use std::collections::HashSet;

use enact_workloads::dedup::{
    Cut, Fingerprint, Packet, UnpackError, chunks, compress, generate, packets, pieces, unpack,
};

const SEED: u64 = 1_234_567;

/// Chunks, chunks that differ, and the bytes of these.
type Counts = (usize, usize, usize);

fn count<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Counts {
    let (mut all, mut bytes, mut met) = (0, 0, HashSet::new());
    for chunk in chunks {
        all += 1;
        if met.insert(Fingerprint::of(chunk)) {
            bytes += chunk.len();
        }
    }
    (all, met.len(), bytes)
}

#[track_caller]
fn check(mib: usize, sha_256: &str, one_pass: Counts, two_step: (usize, Counts), by_content: Counts) {
    let input = generate(mib << 20, SEED);
    assert_eq!(Fingerprint::of(&input).to_string(), sha_256);
    assert_eq!(count(chunks(&input, Cut::CHUNK)), one_pass, "one pass");
    assert_eq!(pieces(&input).count(), two_step.0, "pieces");
    assert_eq!(count(pieces(&input).flat_map(|piece| chunks(piece, Cut::CHUNK))), two_step.1, "two steps");
    assert_eq!(count(chunks(&input, Cut::BY_CONTENT)), by_content, "by content");
}

#[test]
fn one_mebibyte_has_the_expected_chunks() {
    check(
        1,
        "c264616cb652cc3ac5aa67d93acedc891609660200cba6825747c3dac3c21dcc",
        (227, 199, 916_722),
        (1, (227, 199, 916_722)),
        (279, 242, 916_722),
    );
}

#[test]
fn sixteen_mebibytes_have_the_expected_chunks() {
    check(
        16,
        "459f70af17544983c100fccdf7bd08c403aa486fec3dbdc397bc6bed8610150b",
        (3_384, 2_015, 10_771_141),
        (8, (3_385, 2_016, 10_771_141)),
        (4_089, 2_392, 10_701_951),
    );
}

#[test]
fn file_unpacks_to_its_input_with_a_reference_for_each_repeated_chunk() {
    let input = generate(4 << 20, SEED);
    let (all, differing, bytes) = count(pieces(&input).flat_map(|piece| chunks(piece, Cut::CHUNK)));
    let file: Vec<u8> = packets(&input).flatten().collect();
    let unpacked = unpack(&file).expect("the file is whole");
    assert_eq!(Fingerprint::of(&unpacked.input), Fingerprint::of(&input));
    assert_eq!((unpacked.data, unpacked.references), (differing, all - differing));
    assert!(file.len() < bytes * 4 / 5, "{} bytes hold {bytes}", file.len());
}

#[test]
fn packets_out_of_order_are_found() {
    let (one, other) = (b"one chunk".as_slice(), b"another chunk".as_slice());
    let data = |chunk: &[u8]| Packet::Data(&compress(chunk)).to_bytes();
    let reference = |chunk: &[u8]| Packet::Reference(&Fingerprint::of(chunk)).to_bytes();
    let good = [data(one), data(other), reference(one)].concat();
    assert_eq!(unpack(&good).expect("well formed").input, [one, other, one].concat());

    let early = [data(other), reference(one), data(one)].concat();
    let at = data(other).len();
    assert_eq!(unpack(&early), Err(UnpackError::Dangling { at, fingerprint: Fingerprint::of(one) }));
    let twice = [data(one), data(one)].concat();
    let at = data(one).len();
    assert_eq!(unpack(&twice), Err(UnpackError::Repeated { at, fingerprint: Fingerprint::of(one) }));
}

#[test]
fn damaged_files_are_found() {
    let good = Packet::Data(&compress(b"a chunk")).to_bytes();
    for end in 1..good.len() {
        assert_eq!(unpack(&good[..end]), Err(UnpackError::Truncated { at: 0 }), "cut after {end} bytes");
    }
    let mut unknown = good.clone();
    unknown[0] = 2;
    assert_eq!(unpack(&unknown), Err(UnpackError::Kind { at: 0, kind: 2 }));
    let mut short_reference = Packet::Reference(&Fingerprint::of(b"")).to_bytes();
    short_reference.pop();
    short_reference[1] = 31;
    assert_eq!(unpack(&short_reference), Err(UnpackError::Kind { at: 0, kind: 1 }));
    let mut damaged = good;
    let content_end = damaged.len() - 1;
    damaged.truncate(content_end);
    damaged[1] -= 1;
    assert!(matches!(unpack(&damaged), Err(UnpackError::Data { at: 0, .. })));
}
