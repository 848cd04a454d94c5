//! What stands in the streams: names, headers and answers, and how each is read.
//!
//! ```text
//! stream J<shard>   j.<shard>.e.<class>.<id>   a record     R: <seq>.<kind>.<crc32c>.<sequence of the record before>
//!                   j.<shard>.o                 an owner     O: <ordinal>.<token>
//! stream S<shard>   s.<shard>.<class>.<id>      a snapshot   R: <seq>.<crc32c>.<seq>.<sequence>
//! ```
//! A full stop in a name is written `=`, which no name has. The first record of a group has `G: <epoch>-<number>`, too. The
//! checksum of a record is over its key, the other numbers and the payload. The last two numbers of a snapshot are a record of its
//! entity that is none after it, and where that stands: what follows is read from there.

use async_nats::HeaderMap;
use serde_json::Value;

use crate::record::{EntityKey, Kind, NewRecord, Seq};
use crate::remote::Place;

pub(super) const RECORD: &str = "R";
pub(super) const GROUP: &str = "G";
pub(super) const OWNER: &str = "O";

/// The names of one shard.
#[derive(Clone, Debug)]
pub(super) struct Names {
    shard: u16,
}

impl Names {
    pub(super) fn of(shard: u16) -> Self {
        Self { shard }
    }

    pub(super) fn stream(&self) -> String {
        format!("J{}", self.shard)
    }

    pub(super) fn snapshots(&self) -> String {
        format!("S{}", self.shard)
    }

    /// All subjects of the stream.
    pub(super) fn all(&self) -> String {
        format!("j.{}.>", self.shard)
    }

    pub(super) fn all_snapshots(&self) -> String {
        format!("s.{}.>", self.shard)
    }

    pub(super) fn owner(&self) -> String {
        format!("j.{}.o", self.shard)
    }

    /// The subjects of all records.
    pub(super) fn entities(&self) -> String {
        format!("j.{}.e.>", self.shard)
    }

    pub(super) fn entity(&self, entity: &EntityKey) -> String {
        format!("j.{}.e.{}.{}", self.shard, escaped(entity.class()), escaped(entity.id()))
    }

    pub(super) fn snapshot(&self, entity: &EntityKey) -> String {
        format!("s.{}.{}.{}", self.shard, escaped(entity.class()), escaped(entity.id()))
    }

    /// The subject of the records of the entity to which a snapshot with this subject belongs.
    pub(super) fn snapshotted(&self, subject: &str) -> Option<String> {
        Some(format!("j.{0}.e.{1}", self.shard, subject.strip_prefix(&format!("s.{}.", self.shard))?))
    }

    /// The entity to which a record with this subject belongs.
    pub(super) fn entity_of(&self, subject: &str) -> Option<EntityKey> {
        let (class, id) = subject.strip_prefix(&format!("j.{}.e.", self.shard))?.split_once('.')?;
        let key = EntityKey::new(&class.replace('=', "."), &id.replace('=', ".")).ok()?;
        (!id.contains('.')).then_some(key)
    }
}

fn escaped(name: &str) -> String {
    name.replace('.', "=")
}

/// A message of a stream.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) sequence: u64,
    pub(super) subject: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Vec<u8>,
}

impl Stored {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(async_nats::HeaderValue::as_str)
    }
}

/// What a record has in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) seq: Seq,
    pub(super) kind: Kind,
    checksum: u32,
    /// The sequence of the entity's record before it.
    pub(super) previous: u64,
}

impl RecordHeader {
    /// That of `record`, whose predecessor has the sequence `previous`.
    pub(super) fn of(record: &NewRecord, previous: u64) -> Self {
        let NewRecord { entity, expected, kind, payload } = record;
        let seq = expected.next();
        Self { seq, kind: *kind, checksum: checksum(entity, seq, *kind, previous, payload), previous }
    }

    pub(super) fn encode(&self) -> String {
        let Self { seq, kind, checksum, previous } = self;
        format!("{seq}.{}.{checksum}.{previous}", kind.0)
    }

    /// The header in a message of `entity` with `payload`, unless it does not have its checksum.
    pub(super) fn decode(header: &str, entity: &EntityKey, payload: &[u8]) -> Option<Self> {
        let [seq, kind, checksum, previous] = numbers(header)?;
        let (seq, kind, checksum) = (Seq(seq), Kind(kind.try_into().ok()?), u32::try_from(checksum).ok()?);
        let is_sound = checksum == self::checksum(entity, seq, kind, previous, payload);
        is_sound.then_some(Self { seq, kind, checksum, previous })
    }
}

fn checksum(entity: &EntityKey, seq: Seq, kind: Kind, previous: u64, payload: &[u8]) -> u32 {
    let mut head = Vec::with_capacity(entity.as_str().len() + 17);
    head.extend_from_slice(entity.as_str().as_bytes());
    head.extend_from_slice(&seq.0.to_le_bytes());
    head.push(kind.0);
    head.extend_from_slice(&previous.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&head), payload)
}

/// What a snapshot has in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnapshotHeader {
    pub(super) seq: Seq,
    /// A record that the snapshot includes.
    pub(super) base: Place,
}

impl SnapshotHeader {
    pub(super) fn encode(&self, payload: &[u8]) -> String {
        let Self { seq, base } = self;
        format!("{seq}.{}.{}.{}", crc32c::crc32c(payload), base.seq, base.sequence)
    }

    /// The header of a snapshot with `payload`, unless that does not have its checksum.
    pub(super) fn decode(header: &str, payload: &[u8]) -> Option<Self> {
        let [seq, checksum, base, sequence] = numbers(header)?;
        let is_sound = checksum == u64::from(crc32c::crc32c(payload)) && base <= seq;
        is_sound.then_some(Self { seq: Seq(seq), base: Place { seq: Seq(base), sequence } })
    }
}

fn numbers<const N: usize>(header: &str) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> = header.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// An owner record: which one it is of all, by whom, and a token that no other has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) ordinal: u64,
    pub(super) token: String,
    pub(super) node: String,
}

impl Owner {
    pub(super) fn header(&self) -> String {
        format!("{}.{}", self.ordinal, self.token)
    }

    pub(super) fn decode(stored: &Stored) -> Option<Self> {
        let (ordinal, token) = stored.header(OWNER)?.split_once('.')?;
        let node = String::from_utf8_lossy(&stored.payload).into_owned();
        Some(Self { ordinal: ordinal.parse().ok()?, token: token.to_owned(), node })
    }
}

/// What has come back of an attempt to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The message is in the stream; the last one, if there were several.
    Stored { sequence: u64 },
    /// The server has refused it.
    Refused { code: u64, why: String },
    /// Nothing that says what became of it.
    Nothing,
}

impl Answer {
    pub(super) fn decode(payload: &[u8]) -> Self {
        let Ok(answer) = serde_json::from_slice::<Value>(payload) else { return Self::Nothing };
        // A refusal has a sequence as well, so it is looked for first.
        if let Some(error) = answer.get("error") {
            let why = error["description"].as_str().unwrap_or("without a reason").to_owned();
            return Self::Refused { code: error["err_code"].as_u64().unwrap_or(0), why };
        }
        answer["seq"].as_u64().map_or(Self::Nothing, |sequence| Self::Stored { sequence })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use enact_journal_kit::golden;

    use super::*;

    fn key() -> EntityKey {
        EntityKey::new("bank.Account", "NL01.a:b-c_d").unwrap()
    }

    #[test]
    fn subject_of_an_entity_names_it_and_no_other() {
        let names = Names::of(3);
        assert_eq!(names.entity(&key()), "j.3.e.bank=Account.NL01=a:b-c_d");
        assert_eq!(names.entity_of(&names.entity(&key())), Some(key()));
        assert_eq!(names.snapshotted(&names.snapshot(&key())), Some(names.entity(&key())));
        assert_eq!(names.snapshotted("s.4.A.1"), None, "of another shard");
        for subject in ["j.4.e.A.1", "j.3.o", "j.3.e.A", "j.3.e.A.1.2", "s.3.A.1", ""] {
            assert_eq!(names.entity_of(subject), None, "{subject}");
        }
    }

    #[test]
    fn record_header_is_read_with_its_record_alone() {
        let record = NewRecord { entity: key(), expected: Seq(6), kind: Kind(9), payload: b"payload".to_vec() };
        let header = RecordHeader::of(&record, 41);
        let text = header.encode();
        assert_eq!(RecordHeader::decode(&text, &key(), b"payload"), Some(header));
        let other = EntityKey::new("A", "1").unwrap();
        assert_eq!(RecordHeader::decode(&text, &other, b"payload"), None, "another entity");
        assert_eq!(RecordHeader::decode(&text, &key(), b"payloae"), None, "another payload");
        let moved = text.replace(".41", ".42");
        for damaged in [&*moved, &text[1..], &text.replace("7.9", "8.9"), &text.replace("7.9", "7.8"), "1.2", ""] {
            assert_eq!(RecordHeader::decode(damaged, &key(), b"payload"), None, "{damaged}");
        }
    }

    #[test]
    fn snapshot_header_is_read_with_its_payload_alone() {
        let header = SnapshotHeader { seq: Seq(9), base: Place { seq: Seq(8), sequence: 77 } };
        let text = header.encode(b"payload");
        assert_eq!(SnapshotHeader::decode(&text, b"payload"), Some(header));
        assert_eq!(SnapshotHeader::decode(&text, b"other"), None);
        let ahead = SnapshotHeader { seq: Seq(7), ..header };
        assert_eq!(SnapshotHeader::decode(&ahead.encode(b"payload"), b"payload"), None, "it does not include its base");
    }

    /// See docs/compatibility.md for what has to be done when this fails.
    #[test]
    fn golden_messages_of_every_release_are_read() {
        let (names, payload) = (Names::of(3), b"payload");
        let record = NewRecord { entity: key(), expected: Seq(6), kind: Kind(9), payload: payload.to_vec() };
        let header = RecordHeader::of(&record, 41);
        let snapshot = SnapshotHeader { seq: Seq(9), base: Place { seq: Seq(8), sequence: 77 } };
        let owner = Owner { ordinal: 2, token: "token".to_owned(), node: "n1".to_owned() };
        let owned = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(OWNER, text);
            Owner::decode(&Stored { sequence: 5, subject: names.owner(), headers, payload: b"n1".to_vec() })
        };
        let messages = [
            ("record-subject", names.entity(&key())),
            ("record-header", header.encode()),
            ("snapshot-subject", names.snapshot(&key())),
            ("snapshot-header", snapshot.encode(payload)),
            ("owner-subject", names.owner()),
            ("owner-header", owner.header()),
            ("streams", format!("{} {}", names.stream(), names.snapshots())),
        ];
        let messages = messages.map(|(name, text)| (name, text.into_bytes()));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        golden::check(&folder, env!("CARGO_PKG_VERSION"), &messages, |name, bytes| {
            let text = str::from_utf8(bytes).map_err(|cause| cause.to_string())?;
            let is_read = match name {
                "record-subject" => names.entity_of(text) == Some(key()),
                "record-header" => RecordHeader::decode(text, &key(), payload) == Some(header),
                "snapshot-subject" => names.snapshotted(text) == Some(names.entity(&key())),
                "snapshot-header" => SnapshotHeader::decode(text, payload) == Some(snapshot),
                "owner-header" => owned(text).as_ref() == Some(&owner),
                _ => messages.iter().any(|(other, now)| *other == name && now == bytes),
            };
            if is_read { Ok(()) } else { Err("it is read as something else".to_owned()) }
        });
    }

    #[test]
    fn refusal_is_no_success_although_it_has_a_sequence() {
        let refusal =
            br#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"},"stream":"J0","seq":8}"#;
        let why = "wrong last sequence: 7".to_owned();
        assert_eq!(Answer::decode(refusal), Answer::Refused { code: 10071, why });
        assert_eq!(Answer::decode(br#"{"stream":"J0","seq":8}"#), Answer::Stored { sequence: 8 });
        for nothing in [&b""[..], b"{}", b"+OK", br#"{"seq":"8"}"#] {
            assert_eq!(Answer::decode(nothing), Answer::Nothing);
        }
    }
}
