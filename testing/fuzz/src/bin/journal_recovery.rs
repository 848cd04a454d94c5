//! A store whose log and manifest are edited behind valid checksums is opened, read and written to, or refused.
//!
//! The other files belong to a store beside the journal, whose blocks are trusted once their checksums fit.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use arbitrary::Arbitrary;
use enact_journal::{Embedded, EntityKey, Journal, Kind, NewRecord, Options, Position, Seq};
use enact_journal_kit::contract::block_on;
use enact_journal_kit::sim::SimDisk;
use libfuzzer_sys::fuzz_target;

/// Greatest number of bytes that an edit adds.
const ADDED_MAX: usize = 4096;

#[derive(Arbitrary, Debug)]
struct Edit {
    file: u8,
    at: u16,
    what: What,
}

#[derive(Arbitrary, Debug)]
enum What {
    Overwrite(Vec<u8>),
    Insert(Vec<u8>),
    Remove(u8),
    Cut,
    Lose,
    /// Other bytes of the same file.
    CopyFrom {
        from: u16,
        len: u8,
    },
}

fn options() -> Options {
    Options { segment_bytes: 4096, mark_lag: Duration::MAX, ..Options::default() }
}

fn key(id: usize) -> EntityKey {
    EntityKey::new("Account", &format!("NL{id:02}")).expect("a valid id")
}

/// A store of several segments.
static STORE: LazyLock<SimDisk> = LazyLock::new(|| {
    let disk = SimDisk::new(1);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    for n in 0..24 {
        let expected = Seq(n as u64 / 3);
        let record =
            NewRecord { entity: key(n % 3), expected, kind: Kind(n as u8 % 4), payload: vec![n as u8; n * 20] };
        block_on(journal.append(vec![record])).expect("durable");
    }
    block_on(journal.close()).expect("closed");
    disk
});

fn apply(disk: &SimDisk, edit: Edit) {
    let names: Vec<String> = disk.names().into_iter().filter(|name| !name.ends_with(".redb")).collect();
    let Some(name) = names.get(usize::from(edit.file) % names.len().max(1)) else { return };
    let mut bytes = disk.bytes(name).expect("a listed file");
    let at = usize::from(edit.at).min(bytes.len());
    match edit.what {
        What::Overwrite(new) => {
            let len = new.len().min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&new[..len]);
        }
        What::Insert(new) => drop(bytes.splice(at..at, new.into_iter().take(ADDED_MAX))),
        What::Remove(len) => drop(bytes.drain(at..bytes.len().min(at + usize::from(len)))),
        What::Cut => bytes.truncate(at),
        What::Lose => return disk.lose(name),
        What::CopyFrom { from, len } => {
            let from = usize::from(from).min(bytes.len());
            let copied = bytes[from..bytes.len().min(from + usize::from(len))].to_vec();
            let len = copied.len().min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&copied[..len]);
        }
    }
    disk.set_bytes(name, bytes);
}

fuzz_target!(|edits: Vec<Edit>| {
    let disk = STORE.copy(1);
    edits.into_iter().take(8).for_each(|edit| apply(&disk, edit));
    let Ok(journal) = Embedded::open_on(disk.mount(), options()) else { return };
    let feed = block_on(journal.feed(Position::START, 1_000));
    for id in 0..3 {
        let _read = block_on(journal.read(&key(id), Seq::NONE));
        let Ok(last) = block_on(journal.last(&key(id))) else { continue };
        let record = NewRecord { entity: key(id), expected: last, kind: Kind(0), payload: vec![1, 2, 3] };
        if block_on(journal.append(vec![record])).is_ok() && feed.is_ok() {
            assert_eq!(block_on(journal.last(&key(id))), Ok(last.next()), "an acknowledged record is the last one");
        }
    }
    let _closed = block_on(journal.close());
});
