//! What a manifest says of a log, also one that is damaged.

use std::io;

use super::super::OpenError;
use super::super::format::LogId;
use super::super::manifest::{
    ENTRY_LEN, HighWater, MANIFEST, SLOT_LEN, Seal, decode_entry, decode_slot, entry_offset, flawed,
};
use super::super::recover::is_begun;
use crate::damage::{Damage, Flaw};
use crate::disk::{Disk, read_all};

/// What is known of a log without its segments.
#[derive(Default)]
pub(super) struct Promised {
    /// From a slot that is whole.
    pub(super) log: Option<LogId>,
    pub(super) mark: HighWater,
    /// What is listed of segment `n` is at index `n - 1`; nothing where its entry is damaged.
    seals: Vec<Option<Seal>>,
    /// What keeps the journal from opening.
    pub(super) damages: Vec<Damage>,
    /// A slot that is not whole beside one that is.
    pub(super) half: Option<Damage>,
}

impl Promised {
    pub(super) fn read(disk: &dyn Disk) -> Result<Self, OpenError> {
        let failed = |error: io::Error| OpenError::io(MANIFEST, &error);
        match disk.open(MANIFEST) {
            Ok(file) => Ok(Self::decode(&read_all(&*file).map_err(failed)?)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            Err(_) => {
                let damages = if is_begun(disk)? { vec![flawed(0, Flaw::Missing)] } else { Vec::new() };
                Ok(Self { damages, ..Self::default() })
            }
        }
    }

    fn decode(bytes: &[u8]) -> Self {
        let mut promised = Self::default();
        let mut slots = Vec::new();
        let mut damages = Vec::new();
        for at in [0, SLOT_LEN] {
            match decode_slot(bytes.get(at..).unwrap_or_default()) {
                Ok(slot) => slots.push(slot),
                Err(flaw) => damages.push(flawed(at as u64, flaw)),
            }
        }
        let Some(newest) = slots.into_iter().max_by_key(|slot| slot.generation) else {
            damages.truncate(1);
            return Self { damages, ..promised };
        };
        promised.half = damages.pop();
        promised.log = Some(newest.log);
        promised.mark = newest.mark;
        for number in 1..=newest.mark.sealed_count {
            let at = entry_offset(number);
            let entry = bytes.get(at..at + ENTRY_LEN);
            let seal = entry.and_then(|entry| decode_entry(entry, newest.log, number));
            if seal.is_none() {
                promised.damages.push(flawed(at as u64, Flaw::Manifest));
            }
            promised.seals.push(seal);
        }
        promised
    }

    /// What is listed of segment `number`.
    pub(super) fn seal(&self, number: u32) -> Option<Seal> {
        self.seals.get(number as usize - 1).copied().flatten()
    }

    /// How many segments there must be at least.
    pub(super) fn segment_count(&self) -> u32 {
        self.mark.sealed_count + u32::from(self.mark.end > 0)
    }
}
