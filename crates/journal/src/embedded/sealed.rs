//! A file whose blocks carry checksums, as redb's storage.
//!
//! # Problem
//! redb trusts what it reads. On damaged bytes it panics, also in destructors that run because of a panic, which ends the
//! process.
//!
//! # Format
//! Blocks of 4,096 bytes, each followed by its seal: the checksum of its number and its bytes, and a mark, so that zeros
//! are no block. A block that was never written has no seal and cannot be read; redb reads only what it has written.
//!
//! # Crashes
//! A block that a power cut has torn cannot be read either. The store of snapshots is then begun anew.

use std::io;
use std::sync::Arc;

use redb::StorageBackend;

use crate::disk::DiskFile;

const BLOCK_LEN: usize = 4096;
const SEAL_LEN: usize = 8;
const SEALED_LEN: usize = BLOCK_LEN + SEAL_LEN;
const MARK: [u8; 4] = *b"seal";

/// The lock of the directory keeps other processes away.
#[derive(Debug)]
pub(super) struct Sealed(pub(super) Arc<dyn DiskFile>);

impl Sealed {
    /// `count` blocks from number `first` on, with their seals, which are checked.
    fn blocks(&self, first: u64, count: usize) -> io::Result<Vec<u8>> {
        let mut blocks = vec![0; count * SEALED_LEN];
        let read = self.0.read_at(first * SEALED_LEN as u64, &mut blocks)?;
        if read < blocks.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (number, block) in (first..).zip(blocks.chunks_exact(SEALED_LEN)) {
            let (bytes, found) = block.split_at(BLOCK_LEN);
            if found != seal(number, bytes) {
                let why = format!("block {number} is damaged or was never written");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
        Ok(blocks)
    }

    /// One block to be written in part; zeros if it was never written.
    fn block_or_zeros(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut block = vec![0; SEALED_LEN];
        self.0.read_at(number * SEALED_LEN as u64, &mut block)?;
        if block.iter().all(|&byte| byte == 0) { Ok(block) } else { self.blocks(number, 1) }
    }
}

/// The offset of the first block in `file` that has neither its seal nor was never written.
pub(super) fn find_damage(file: &dyn DiskFile) -> io::Result<Option<u64>> {
    let mut block = vec![0; SEALED_LEN];
    for number in 0..file.size()? / SEALED_LEN as u64 {
        let at = number * SEALED_LEN as u64;
        file.read_at(at, &mut block)?;
        let (bytes, found) = block.split_at(BLOCK_LEN);
        if found != seal(number, bytes) && block.iter().any(|&byte| byte != 0) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn seal(number: u64, bytes: &[u8]) -> [u8; SEAL_LEN] {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), bytes);
    let mut seal = [0; SEAL_LEN];
    seal[..4].copy_from_slice(&sum.to_le_bytes());
    seal[4..].copy_from_slice(&MARK);
    seal
}

/// The parts of `len` bytes at `offset`, block by block: the block's number, where in the block, and how much.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        let (number, from) = (at / BLOCK_LEN as u64, (at % BLOCK_LEN as u64) as usize);
        let part = (BLOCK_LEN - from).min((end - at) as usize);
        at += part as u64;
        (part > 0).then_some((number, from, part))
    })
}

impl StorageBackend for Sealed {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.size()? / SEALED_LEN as u64 * BLOCK_LEN as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let Some((first, ..)) = parts(offset, out.len()).next() else { return Ok(()) };
        let blocks = self.blocks(first, parts(offset, out.len()).count())?;
        let mut rest = out;
        for (number, from, part) in parts(offset, rest.len()) {
            let begin = (number - first) as usize * SEALED_LEN + from;
            let (filled, unfilled) = rest.split_at_mut(part);
            filled.copy_from_slice(&blocks[begin..begin + part]);
            rest = unfilled;
        }
        Ok(())
    }

    /// The length is a whole number of blocks, as redb's pages are.
    fn set_len(&self, len: u64) -> io::Result<()> {
        if !len.is_multiple_of(BLOCK_LEN as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{len} bytes are not whole blocks")));
        }
        self.0.set_size(len / BLOCK_LEN as u64 * SEALED_LEN as u64)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let Some((first, ..)) = parts(offset, data.len()).next() else { return Ok(()) };
        let mut blocks = Vec::new();
        let mut rest = data;
        for (number, from, part) in parts(offset, data.len()) {
            let mut block = if part == BLOCK_LEN { vec![0; SEALED_LEN] } else { self.block_or_zeros(number)? };
            let (written, unwritten) = rest.split_at(part);
            block[from..from + part].copy_from_slice(written);
            rest = unwritten;
            let (bytes, sealed) = block.split_at_mut(BLOCK_LEN);
            sealed.copy_from_slice(&seal(number, bytes));
            blocks.extend(block);
        }
        self.0.write_at(first * SEALED_LEN as u64, &blocks)
    }
}

#[cfg(test)]
mod tests {
    use enact_sync::Mutex;
    use proptest::prelude::*;

    use super::*;

    const BLOCKS: usize = 5;

    /// A file in memory.
    #[derive(Debug, Default)]
    struct Bytes(Mutex<Vec<u8>>);

    impl DiskFile for Bytes {
        fn size(&self) -> io::Result<u64> {
            Ok(self.0.lock().len() as u64)
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.lock();
            let there = bytes.get(offset as usize..).unwrap_or_default();
            let read = there.len().min(buf.len());
            buf[..read].copy_from_slice(&there[..read]);
            Ok(read)
        }

        fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.lock()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn set_size(&self, size: u64) -> io::Result<()> {
            self.0.lock().resize(size as usize, 0);
            Ok(())
        }

        fn is_linked(&self) -> io::Result<bool> {
            Ok(true)
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn file() -> (Arc<Bytes>, Sealed) {
        let file = Arc::new(Bytes::default());
        let sealed = Sealed(Arc::clone(&file) as Arc<dyn DiskFile>);
        sealed.set_len((BLOCKS * BLOCK_LEN) as u64).expect("whole blocks");
        (file, sealed)
    }

    /// A file of blocks that differ.
    fn full() -> (Arc<Bytes>, Sealed) {
        let (file, sealed) = file();
        for number in 0..BLOCKS {
            let block = vec![number as u8; BLOCK_LEN];
            sealed.write((number * BLOCK_LEN) as u64, &block).expect("written");
        }
        (file, sealed)
    }

    fn read_block(sealed: &Sealed, number: usize) -> io::Result<Vec<u8>> {
        let mut block = vec![0xff; BLOCK_LEN];
        sealed.read((number * BLOCK_LEN) as u64, &mut block).map(|()| block)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            writes in prop::collection::vec((0..BLOCKS * BLOCK_LEN, 0..3 * BLOCK_LEN, any::<u8>()), 1..20),
        ) {
            let (_file, sealed) = file();
            let mut expected = vec![None; BLOCKS * BLOCK_LEN];
            for (offset, len, byte) in writes {
                let len = len.min(expected.len() - offset);
                sealed.write(offset as u64, &vec![byte; len]).expect("written");
                expected[offset..offset + len].fill(Some(byte));
            }
            for (number, block) in expected.chunks_exact(BLOCK_LEN).enumerate() {
                if block.iter().all(Option::is_none) {
                    prop_assert!(read_block(&sealed, number).is_err(), "never written");
                } else {
                    let block: Vec<u8> = block.iter().map(|byte| byte.unwrap_or(0)).collect();
                    prop_assert_eq!(read_block(&sealed, number).expect("written"), block);
                }
            }
        }

        #[test]
        fn any_range_is_read_over_the_borders_of_blocks(offset in 0..BLOCKS * BLOCK_LEN, len in 0..3 * BLOCK_LEN) {
            let (_file, sealed) = full();
            let len = len.min(BLOCKS * BLOCK_LEN - offset);
            let mut found = vec![0xff; len];
            sealed.read(offset as u64, &mut found).expect("written");
            prop_assert!(found.iter().zip(offset..).all(|(&byte, at)| usize::from(byte) == at / BLOCK_LEN));
        }
    }

    #[test]
    fn every_flipped_byte_is_found() {
        let (file, sealed) = full();
        let whole = file.0.lock().clone();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            *file.0.lock() = bytes;
            let damaged = at / SEALED_LEN;
            assert!(read_block(&sealed, damaged).is_err(), "byte {at}");
            assert!(sealed.write((damaged * BLOCK_LEN) as u64 + 1, b"x").is_err(), "byte {at}");
        }
    }

    #[test]
    fn zeroed_swapped_and_cut_blocks_are_found() {
        let (file, sealed) = full();
        let whole = file.0.lock().clone();
        let mut zeroed = whole.clone();
        zeroed[SEALED_LEN..2 * SEALED_LEN].fill(0);
        let mut swapped = whole.clone();
        swapped[SEALED_LEN..3 * SEALED_LEN].rotate_left(SEALED_LEN);
        let cut = whole[..2 * SEALED_LEN - 1].to_vec();
        for (bytes, what) in [(zeroed, "zeroed"), (swapped, "swapped"), (cut, "cut")] {
            *file.0.lock() = bytes;
            assert!(read_block(&sealed, 1).is_err(), "{what}");
            assert_eq!(read_block(&sealed, 0).expect("whole"), vec![0; BLOCK_LEN], "{what}");
        }
    }
}
