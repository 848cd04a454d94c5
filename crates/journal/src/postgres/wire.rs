//! What stands in the rows, and how each is read.
//!
//! The checksum of a record is over its key, its number, position, epoch and kind, and the payload: a row that was changed, or put in
//! another place, does not have it. That of a snapshot is over its key, its number and the payload.

use tokio_postgres::Row;

use crate::record::{EntityKey, Kind, NewRecord, Position, Record, Seq, Snapshot};

/// Numbers of rows are signed; no journal comes to the end of either.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of a row, unless it is damaged.
pub(super) fn unsigned(number: i64) -> Option<u64> {
    number.try_into().ok()
}

/// The checksum of a row, as it stands there.
fn stored(checksum: u32) -> i32 {
    checksum.cast_signed()
}

/// That of `record` at `position`, written in the reign `epoch`.
pub(super) fn checksum(record: &NewRecord, position: u64, epoch: u64) -> i32 {
    let NewRecord { entity, expected, kind, payload } = record;
    stored(of_record(entity, expected.next(), position, epoch, *kind, payload))
}

fn of_record(entity: &EntityKey, seq: Seq, position: u64, epoch: u64, kind: Kind, payload: &[u8]) -> u32 {
    let mut head = Vec::with_capacity(entity.as_str().len() + 25);
    head.extend_from_slice(entity.as_str().as_bytes());
    head.extend([seq.0, position, epoch].into_iter().flat_map(u64::to_le_bytes));
    head.push(kind.0);
    crc32c::crc32c_append(crc32c::crc32c(&head), payload)
}

/// That of a snapshot.
pub(super) fn snapshot_checksum(Snapshot { entity, seq, payload }: &Snapshot) -> i32 {
    let head = [entity.as_str().as_bytes(), &seq.0.to_le_bytes()].concat();
    stored(crc32c::crc32c_append(crc32c::crc32c(&head), payload))
}

/// The record of `entity` in a row with `seq`, `pos`, `epoch`, `kind`, `checksum` and `payload`, unless that does not have its checksum.
pub(super) fn record(entity: &EntityKey, row: &Row) -> Option<Record> {
    let (seq, position) = (Seq(unsigned(row.get("seq"))?), unsigned(row.get("pos"))?);
    let (epoch, kind) = (unsigned(row.get("epoch"))?, Kind(row.get::<_, i16>("kind").try_into().ok()?));
    let payload: Vec<u8> = row.get("payload");
    let is_sound = stored(of_record(entity, seq, position, epoch, kind, &payload)) == row.get::<_, i32>("checksum");
    is_sound.then(|| Record { entity: entity.clone(), seq, position: Position(position), kind, payload })
}

/// The snapshot of `entity` in a row with `seq`, `checksum` and `payload`, unless that does not have its checksum.
pub(super) fn snapshot(entity: &EntityKey, row: &Row) -> Option<Snapshot> {
    let seq = Seq(unsigned(row.get("seq"))?);
    let snapshot = Snapshot { entity: entity.clone(), seq, payload: row.get("payload") };
    (snapshot_checksum(&snapshot) == row.get::<_, i32>("checksum")).then_some(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_a_record_is_over_all_that_it_says() {
        let key = |id| EntityKey::new("A", id).expect("a valid id");
        let sound = of_record(&key("1"), Seq(2), 3, 4, Kind(5), b"payload");
        let record = NewRecord { entity: key("1"), expected: Seq(1), kind: Kind(5), payload: b"payload".to_vec() };
        assert_eq!(checksum(&record, 3, 4), stored(sound));
        for other in [
            of_record(&key("2"), Seq(2), 3, 4, Kind(5), b"payload"),
            of_record(&key("1"), Seq(3), 3, 4, Kind(5), b"payload"),
            of_record(&key("1"), Seq(2), 4, 4, Kind(5), b"payload"),
            of_record(&key("1"), Seq(2), 3, 5, Kind(5), b"payload"),
            of_record(&key("1"), Seq(2), 3, 4, Kind(6), b"payload"),
            of_record(&key("1"), Seq(2), 3, 4, Kind(5), b"payloae"),
        ] {
            assert_ne!(other, sound);
        }
    }
}
