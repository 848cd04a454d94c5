//! Holds a log against its attestations.

use std::collections::VecDeque;
use std::io;

use sha2::{Digest, Sha256};

use super::statement::{self, LEN, Reached, Statement, Subject};
use super::{ATTESTATIONS, file_hash};
use crate::damage::{Damage, Flaw};
use crate::disk::{Disk, read_all};
use crate::embedded::OpenError;
use crate::embedded::format::{HEADER_LEN, Hash, LogId, segment_name};
use crate::embedded::recover::damage;
use crate::embedded::segment::Whole;
use crate::keys::PublicKey;
use crate::record::Position;

/// What of a log is attested, as far as its attestations and the log are sound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attested {
    /// How many attestations there are.
    pub count: u64,
    /// The last place that is attested.
    pub signed: Option<Signed>,
}

/// A place in a log up to which all of it is attested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The last position.
    pub position: Position,
    /// When it was signed, in milliseconds since 1970.
    pub time_ms: u64,
}

/// An attestation with a valid signature, and where it stands in the file.
struct Placed {
    at: u64,
    statement: Statement,
}

impl Placed {
    /// Its number in the file, from 1.
    fn number(&self) -> u64 {
        self.at / LEN as u64 + 1
    }
}

/// The attestations of a log, and how far they were held against it.
pub(in crate::embedded) struct Check {
    found: Attested,
    /// Those of places in the log that were not come to yet.
    ahead: VecDeque<Placed>,
    compacted: Vec<Statement>,
    /// The last segment of which something is attested.
    last_segment: u32,
    /// The segment that was taken last, and its end.
    end: (u32, u32),
}

impl Check {
    /// Reads the attestations of `log` in `disk`, up to the first that is not signed with one of `keys` or does not follow the one before,
    /// which is damage. A torn one at the end is none.
    ///
    /// # Errors
    /// As the operating system reports.
    pub(in crate::embedded) fn read(
        disk: &dyn Disk,
        log: Option<LogId>,
        keys: &[PublicKey],
    ) -> Result<(Self, Option<Damage>), OpenError> {
        let mut check = Self {
            found: Attested::default(),
            ahead: VecDeque::new(),
            compacted: Vec::new(),
            last_segment: 0,
            end: (0, 0),
        };
        let flawed = |offset, flaw| Some(Damage { file: ATTESTATIONS.to_owned(), offset, flaw });
        let bytes = match disk.open(ATTESTATIONS).and_then(|file| read_all(&*file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((check, flawed(0, Flaw::Missing))),
            bytes => bytes.map_err(|error| OpenError::io(ATTESTATIONS, &error))?,
        };
        let mut before: (Hash, u64, Position) = Default::default();
        let (entries, _torn) = bytes.as_chunks::<LEN>();
        for (index, entry) in entries.iter().enumerate() {
            if index + 1 == entries.len() && !statement::is_whole(entry) {
                break;
            }
            let at = (index * LEN) as u64;
            let checked = Statement::decode(entry).and_then(|statement| {
                check_statement(&statement, entry, log, keys)?;
                check_follows(&statement, &before).map(|()| statement)
            });
            match checked {
                Ok(statement) => {
                    before.0 = statement::hash(entry);
                    before.1 = statement.time;
                    check.found.count += 1;
                    match statement.subject {
                        Subject::Log => {
                            before.2 = statement.reached.last;
                            check.last_segment = check.last_segment.max(statement.reached.segment);
                            check.ahead.push_back(Placed { at, statement });
                        }
                        Subject::Compacted(_) => check.compacted.push(statement),
                    }
                }
                Err(flaw) => return Ok((check, flawed(at, flaw))),
            }
        }
        Ok((check, None))
    }

    /// Holds segment `number` against what is attested of it, as long as all before was found sound: its groups end at
    /// `end`, and if it is `sealed`, it had this hash when it was written.
    ///
    /// # Errors
    /// As the operating system reports.
    pub(in crate::embedded) fn take(
        &mut self,
        disk: &dyn Disk,
        number: u32,
        segment: &Whole,
        end: u32,
        sealed: Option<Hash>,
    ) -> Result<Option<Damage>, OpenError> {
        self.end = (number, end);
        match sealed.filter(|_| segment.discarded.is_some()) {
            Some(hash) => self.take_compacted(disk, number, end, hash),
            None => Ok(self.take_whole(number, segment, end, sealed.is_none())),
        }
    }

    /// The next attestation of segment `number`.
    fn next(&mut self, number: u32) -> Option<Placed> {
        self.ahead.pop_front_if(|next| next.statement.reached.segment <= number)
    }

    fn confirm(&mut self, Statement { reached, time, .. }: &Statement) {
        self.found.signed = Some(Signed { position: reached.last, time_ms: *time });
    }

    fn take_whole(&mut self, number: u32, segment: &Whole, end: u32, is_last: bool) -> Option<Damage> {
        let (mut hasher, mut hashed) = (Sha256::new(), 0);
        while let Some(next) = self.next(number) {
            let Reached { end: attested, hash, last, .. } = next.statement.reached;
            if is_last && attested > end {
                return Some(damage(number, end.into(), Flaw::AttestedEnd { last, attestation: next.number() }));
            }
            let part = segment.bytes.get(hashed as usize..attested as usize);
            hasher.update(part.unwrap_or_default());
            let found: Hash = hasher.clone().finalize().into();
            if part.is_none() || next.statement.reached.segment != number || found != hash {
                let from = if hashed == 0 { HEADER_LEN } else { hashed };
                return Some(damage(number, from.into(), Flaw::Attested { attestation: next.number() }));
            }
            hashed = attested;
            self.confirm(&next.statement);
        }
        None
    }

    fn take_compacted(
        &mut self,
        disk: &dyn Disk,
        number: u32,
        end: u32,
        hash: Hash,
    ) -> Result<Option<Damage>, OpenError> {
        if number <= self.last_segment {
            let name = segment_name(number);
            let file = file_hash(disk, &name).map_err(|error| OpenError::io(&name, &error))?;
            let is_this = |statement: &Statement| {
                let Reached { segment, hash: attested, .. } = statement.reached;
                (segment, attested, statement.subject) == (number, hash, Subject::Compacted(file))
            };
            if !self.compacted.iter().any(is_this) {
                return Ok(Some(damage(number, 0, Flaw::Unattested)));
            }
        }
        while let Some(next) = self.next(number) {
            let Reached { segment, end: attested, hash: expected, .. } = next.statement.reached;
            // What was attested in the middle of it is not there any more; the end of it is attested with the file.
            if segment != number || attested > end || attested == end && expected != hash {
                return Ok(Some(damage(number, 0, Flaw::Attested { attestation: next.number() })));
            }
            self.confirm(&next.statement);
        }
        Ok(None)
    }

    /// What is attested, and that the log ends before all that is, if it does.
    pub(in crate::embedded) fn end(mut self) -> (Attested, Option<Damage>) {
        let (number, end) = self.end;
        let missing = self.ahead.pop_front().map(|next| {
            let flaw = Flaw::AttestedEnd { last: next.statement.reached.last, attestation: next.number() };
            damage(number.max(1), end.into(), flaw)
        });
        (self.found, missing)
    }
}

fn check_statement(statement: &Statement, bytes: &[u8], log: Option<LogId>, keys: &[PublicKey]) -> Result<(), Flaw> {
    let Some(key) = keys.iter().find(|key| key.id() == statement.key) else {
        return Err(Flaw::AttestationKey { key: statement.key });
    };
    if !statement::is_signed_by(bytes, key) {
        return Err(Flaw::Signature);
    }
    if log.is_some_and(|log| log != statement.log) { Err(Flaw::AttestationForeign) } else { Ok(()) }
}

/// Checks that `statement` follows one with this hash, time and position.
fn check_follows(statement: &Statement, (hash, time, last): &(Hash, u64, Position)) -> Result<(), Flaw> {
    let goes_back = statement.time < *time || statement.subject == Subject::Log && statement.reached.last < *last;
    if statement.previous != *hash || goes_back { Err(Flaw::AttestationOrder) } else { Ok(()) }
}
