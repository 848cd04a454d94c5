//! The open file: reads of keys, and the changes of one round.

use std::io;
use std::sync::Arc;

use ring::rand::SystemRandom;
use zeroize::Zeroizing;

use super::SubjectKeysError;
use super::cipher::random;
use super::format::{
    Header, Identity, KEY_AT, Place, SECRET_LEN, SLOT_LEN, STATE_AT, Slot, Stage, StoreId, encode_mark, mark_offset,
};
use super::key::SubjectKey;
use crate::disk::{DiskFile, is_full};

/// Slots as bytes, and where each is going to be.
type Encoded = (Zeroizing<Vec<u8>>, Vec<(Identity, Place)>);

/// The file of one store.
#[derive(Clone)]
pub(super) struct KeyFile {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) store: StoreId,
}

impl KeyFile {
    /// The key at `place`, which must be that of `identity`; nothing if its end has come meanwhile.
    pub(super) fn key(&self, place: Place, identity: Identity) -> Result<Option<SubjectKey>, SubjectKeysError> {
        let mut bytes = Zeroizing::new([0; SLOT_LEN]);
        let read = self.file.read_at(place.offset(), &mut *bytes).map_err(SubjectKeysError::disk)?;
        let slot = Slot(&*bytes);
        if read == SLOT_LEN && slot.identity(self.store, place) == Some(identity) {
            // While a key is whole its end is not durable, so that it is used, whatever its state says.
            if let Some(key) = slot.key(self.store, place) {
                return Ok(Some(SubjectKey::read(key)));
            }
            if slot.is_ending() {
                return Ok(None);
            }
        }
        Err(SubjectKeysError::damaged(place.offset()))
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), SubjectKeysError> {
        self.file.write_at(offset, bytes).map_err(SubjectKeysError::disk)
    }

    /// Cuts the file behind its last slot.
    pub(super) fn cut(&self, end: Place) -> Result<(), SubjectKeysError> {
        self.file.set_size(end.offset()).map_err(SubjectKeysError::disk)
    }

    pub(super) fn sync(&self) -> Result<(), SubjectKeysError> {
        self.file.sync().map_err(SubjectKeysError::disk)
    }

    pub(super) fn set_stage(
        &self,
        places: impl IntoIterator<Item = Place>,
        stage: Stage,
    ) -> Result<(), SubjectKeysError> {
        places.into_iter().try_for_each(|place| self.write(place.offset() + STATE_AT as u64, &stage.state()))
    }

    /// Overwrites the keys at `places`, whose end is durable.
    pub(super) fn overwrite(&self, places: impl IntoIterator<Item = Place> + Clone) -> Result<(), SubjectKeysError> {
        let zeros = [0; SECRET_LEN];
        places.clone().into_iter().try_for_each(|place| self.write(place.offset() + KEY_AT as u64, &zeros))?;
        self.sync()?;
        self.set_stage(places, Stage::Ended)
    }

    /// Says in mark `which` that all slots before `end` are durable, which they are.
    pub(super) fn set_mark(&self, which: usize, end: Place) -> Result<(), SubjectKeysError> {
        self.write(mark_offset(which), &encode_mark(self.store, end))
    }

    /// Fills a new file.
    pub(super) fn begin(file: &dyn DiskFile, header: &Header) -> io::Result<()> {
        file.write_at(0, &*header.encode())?;
        for which in 0..2 {
            file.write_at(mark_offset(which), &encode_mark(header.store, Place::FIRST))?;
        }
        file.sync()
    }
}

/// The right to change the file, which one thread has at a time.
pub(super) struct Writer {
    pub(super) file: KeyFile,
    /// Behind the last slot.
    pub(super) end: Place,
    /// The mark that says less.
    pub(super) lesser_mark: usize,
}

/// The new slots of a round, or why there are none.
pub(super) type Appended = Result<Vec<(Identity, Place)>, SubjectKeysError>;

impl Writer {
    /// Writes new slots with random keys behind the others.
    ///
    /// # Errors
    /// What fails for want of space or of random bytes leaves nothing, and stands inside; after any other error nothing is known.
    pub(super) fn append(&self, identities: &[Identity], source: &SystemRandom) -> Result<Appended, SubjectKeysError> {
        let (bytes, slots) = match self.encode(identities, source) {
            Ok(encoded) => encoded,
            Err(refused) => return Ok(Err(refused)),
        };
        match self.file.file.write_at(self.end.offset(), &bytes) {
            Ok(()) => Ok(Ok(slots)),
            Err(error) if is_full(&error) => {
                // A part may be there, and must not be taken for slots: the sync of the round makes the cut durable.
                self.file.cut(self.end)?;
                Ok(Err(SubjectKeysError::disk(error)))
            }
            Err(error) => Err(SubjectKeysError::disk(error)),
        }
    }

    fn encode(&self, identities: &[Identity], source: &SystemRandom) -> Result<Encoded, SubjectKeysError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(identities.len() * SLOT_LEN));
        let mut slots = Vec::with_capacity(identities.len());
        for (count, identity) in identities.iter().enumerate() {
            let too_large = || SubjectKeysError::disk(io::ErrorKind::FileTooLarge.into());
            let place = self.end.after(count).ok_or_else(too_large)?;
            place.after(1).ok_or_else(too_large)?;
            Slot::encode(&mut bytes, self.file.store, place, *identity, &random(source)?);
            slots.push((*identity, place));
        }
        Ok((bytes, slots))
    }

    /// Takes note of `slots`, which are durable, and marks them.
    pub(super) fn extend(&mut self, slots: &[(Identity, Place)]) -> Result<(), SubjectKeysError> {
        if let Some(end) = slots.last().and_then(|(_, place)| place.after(1)) {
            self.end = end;
            self.file.set_mark(self.lesser_mark, end)?;
            self.lesser_mark = 1 - self.lesser_mark;
        }
        Ok(())
    }
}
