//! The cases of the contract; each panics when the implementation breaks the rule that its name and text state.
#![expect(clippy::missing_panics_doc, reason = "to panic is how a case fails")]

use enact_journal::{
    AppendError, EntityKey, Journal, Kind, Limits, Loaded, NewRecord, Position, ReadError, Record, Refusal, Seq,
    Snapshot, SnapshotError,
};

use super::Harness;

pub(super) fn key(id: &str) -> EntityKey {
    EntityKey::new("Account", id).expect("a valid id")
}

pub(super) fn record(id: &str, expected: u64, payload: &[u8]) -> NewRecord {
    NewRecord { entity: key(id), expected: Seq(expected), kind: Kind(7), payload: payload.to_vec() }
}

pub(super) fn snapshot(id: &str, seq: u64, payload: &[u8]) -> Snapshot {
    Snapshot { entity: key(id), seq: Seq(seq), payload: payload.to_vec() }
}

pub(super) fn conflict(id: &str, expected: u64, actual: u64) -> Result<Position, AppendError> {
    Err(Refusal::Conflict { entity: key(id), expected: Seq(expected), actual: Seq(actual) }.into())
}

pub(super) async fn append<J: Journal>(journal: &J, id: &str, expected: u64, payload: &[u8]) -> Position {
    journal.append(vec![record(id, expected, payload)]).await.expect("the append is durable")
}

pub(super) async fn payloads<J: Journal>(journal: &J, id: &str) -> Vec<Vec<u8>> {
    let records = journal.read(&key(id), Seq::NONE).await.expect("records are readable");
    records.into_iter().map(|record| record.payload).collect()
}

pub(super) async fn feed_all<J: Journal>(journal: &J) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let after = records.last().map_or(Position::START, |record| record.position);
        let page = journal.feed(after, usize::MAX).await.expect("the feed is readable");
        if page.is_empty() {
            return records;
        }
        records.extend(page);
    }
}

/// A new journal has no records, no snapshot and no last record, and says so without an error.
pub async fn new_journal_is_empty<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    assert_eq!(journal.last(&key("A")).await, Ok(Seq::NONE));
    assert_eq!(journal.read(&key("A"), Seq::NONE).await, Ok(vec![]));
    assert_eq!(journal.feed(Position::START, 10).await, Ok(vec![]));
    assert_eq!(journal.feed(Position(u64::MAX), 10).await, Ok(vec![]));
    assert_eq!(journal.load_snapshot(&key("A")).await, Ok(None));
}

/// Kind and payload come back byte for byte; reading begins after the given record.
pub async fn records_are_read_back_as_written<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    let all_bytes: Vec<u8> = (0..=255).collect();
    let long = vec![0xA5; 300_000];
    append(&journal, "A", 0, &all_bytes).await;
    append(&journal, "B", 0, b"other").await;
    append(&journal, "A", 1, b"").await;
    append(&journal, "A", 2, &long).await;

    let records = journal.read(&key("A"), Seq::NONE).await.unwrap();
    let expected = [(1, 1, all_bytes), (2, 3, vec![]), (3, 4, long)].map(|(seq, position, payload)| Record {
        entity: key("A"),
        seq: Seq(seq),
        position: Position(position),
        kind: Kind(7),
        payload,
    });
    assert_eq!(records, expected);
    assert_eq!(journal.read(&key("A"), Seq(2)).await.unwrap(), expected[2..]);
    assert_eq!(journal.read(&key("A"), Seq(3)).await.unwrap(), []);
    assert_eq!(journal.read(&key("A"), Seq(u64::MAX)).await.unwrap(), []);
    assert_eq!(journal.last(&key("A")).await, Ok(Seq(3)));
}

/// Positions count 1, 2, 3 over all entities; a batch has the position of its last record.
pub async fn positions_are_dense_and_the_feed_follows_the_calls<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    assert_eq!(append(&journal, "B", 0, b"1").await, Position(1));
    assert_eq!(journal.append(vec![record("A", 0, b"2"), record("C", 0, b"3")]).await, Ok(Position(3)));
    assert_eq!(append(&journal, "A", 1, b"4").await, Position(4));
    assert_eq!(journal.volume().last, Some(Position(4)));
    let feed = feed_all(&journal).await;
    let order: Vec<_> = feed.iter().map(|record| (record.position.0, record.entity.id(), record.seq.0)).collect();
    assert_eq!(order, [(1, "B", 1), (2, "A", 1), (3, "C", 1), (4, "A", 2)]);
}

/// Pages of any size join without a gap or a repetition; no page is longer than its limit.
pub async fn feed_is_read_in_pages<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    for n in 0..20 {
        let pair = vec![record("A", n, &[n as u8]), record("B", n, &[n as u8, 1])];
        journal.append(pair).await.unwrap();
    }
    let all = feed_all(&journal).await;
    assert_eq!(all.len(), 40);
    assert_eq!(journal.feed(Position::START, 0).await, Ok(vec![]));
    for limit in [1, 3, 39, 40, 41] {
        let mut paged: Vec<Record> = Vec::new();
        loop {
            let after = paged.last().map_or(Position::START, |record| record.position);
            let page = journal.feed(after, limit).await.unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, all, "pages of {limit}");
    }
}

/// One conflict in a batch refuses all of it, wherever it stands.
pub async fn batch_is_refused_as_a_whole<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    append(&journal, "A", 0, b"first").await;
    let late = vec![record("B", 0, b"x"), record("C", 0, b"x"), record("A", 0, b"x")];
    assert_eq!(journal.append(late).await, conflict("A", 0, 1));
    let early = vec![record("A", 5, b"x"), record("B", 0, b"x")];
    assert_eq!(journal.append(early).await, conflict("A", 5, 1));
    assert_eq!(feed_all(&journal).await.len(), 1);
    assert_eq!(journal.last(&key("B")).await, Ok(Seq::NONE));
    append(&journal, "B", 0, b"free").await;
}

/// Records of one entity in one batch count on; a repeated expectation conflicts with the batch's own record.
pub async fn records_of_one_entity_in_a_batch_follow_each_other<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    let chain = vec![record("A", 0, b"1"), record("B", 0, b"x"), record("A", 1, b"2"), record("A", 2, b"3")];
    assert_eq!(journal.append(chain).await, Ok(Position(4)));
    assert_eq!(payloads(&journal, "A").await, [b"1", b"2", b"3"]);
    let twice = vec![record("A", 3, b"4"), record("A", 3, b"4")];
    assert_eq!(journal.append(twice).await, conflict("A", 3, 4));
    let gap = vec![record("A", 3, b"4"), record("A", 5, b"6")];
    assert_eq!(journal.append(gap).await, conflict("A", 5, 4));
    append(&journal, "A", 3, b"4").await;
}

/// Whatever a journal does with what it stands for, a tombstone is the last record of its entity.
pub async fn a_tombstone_is_read_and_perhaps_what_it_stands_for<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    append(&journal, "A", 0, b"1").await;
    append(&journal, "B", 0, b"2").await;
    append(&journal, "A", 1, b"3").await;
    let tombstone = NewRecord { kind: Kind::TOMBSTONE, ..record("A", 2, b"4") };
    assert_eq!(journal.append(vec![tombstone]).await, Ok(Position(4)));
    for after in [Seq::NONE, Seq(1), Seq(2)] {
        let read = journal.read(&key("A"), after).await.unwrap();
        let seqs: Vec<u64> = read.iter().map(|record| record.seq.0).collect();
        assert!(seqs == [3] || seqs == (after.0 + 1..=3).collect::<Vec<_>>(), "after {after}: {seqs:?}");
        assert_eq!(read.last().map(|record| (record.kind, &*record.payload)), Some((Kind::TOMBSTONE, &b"4"[..])));
    }
    assert_eq!(journal.read(&key("A"), Seq(3)).await, Ok(Vec::new()));
    assert_eq!(journal.last(&key("A")).await, Ok(Seq(3)));
    let feed = feed_all(&journal).await;
    let last: Vec<u64> = feed.iter().map(|record| record.position.0).collect();
    assert!(last == [2, 4] || last == [1, 2, 3, 4], "{last:?}");
}

/// An empty batch is durable when everything before it is, and has the position reached then.
pub async fn empty_batch_is_a_barrier<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    assert_eq!(journal.append(vec![]).await, Ok(Position::START));
    drop(journal.append(vec![record("A", 0, b"1")]));
    drop(journal.append(vec![record("A", 1, b"2")]));
    assert_eq!(journal.append(vec![]).await, Ok(Position(2)));
    assert_eq!(journal.last(&key("A")).await, Ok(Seq(2)));
}

/// Of two owners of an entity only one can append; the other learns where the entity is.
pub async fn stale_owner_is_fenced_off<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    append(&journal, "A", 0, b"old owner").await;
    append(&journal, "A", 1, b"new owner").await;
    assert_eq!(journal.append(vec![record("A", 1, b"old owner")]).await, conflict("A", 1, 2));
    assert_eq!(journal.append(vec![record("A", 3, b"from the future")]).await, conflict("A", 3, 2));
    let (one, other) = (journal.append(vec![record("A", 2, b"one")]), journal.append(vec![record("A", 2, b"other")]));
    assert_eq!((one.await, other.await), (Ok(Position(3)), conflict("A", 2, 3)));
}

/// Several appends to one entity may be under way; each is checked against those before it.
pub async fn appends_take_effect_in_the_order_of_the_calls<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    let under_way: Vec<_> = (0..100).map(|n| journal.append(vec![record("A", n, &[n as u8])])).collect();
    for (n, append) in under_way.into_iter().enumerate().rev() {
        assert_eq!(append.await, Ok(Position(n as u64 + 1)));
    }
    let written: Vec<Vec<u8>> = (0..100).map(|n| vec![n]).collect();
    assert_eq!(payloads(&journal, "A").await, written);
}

/// A future that is never polled has appended all the same.
pub async fn append_is_submitted_by_the_call<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    drop(journal.append(vec![record("A", 0, b"unpolled")]));
    append(&journal, "B", 0, b"after it").await;
    assert_eq!(payloads(&journal, "A").await, [b"unpolled"]);
}

/// A conflict among appends under way leaves those behind it alone.
pub async fn refused_append_does_not_disturb_those_behind<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    let first = journal.append(vec![record("A", 0, b"1")]);
    let refused = journal.append(vec![record("B", 0, b"x"), record("A", 0, b"x")]);
    let behind = journal.append(vec![record("B", 0, b"2"), record("A", 1, b"3")]);
    assert_eq!((first.await, refused.await, behind.await), (Ok(Position(1)), conflict("A", 0, 1), Ok(Position(3))));
}

/// Records of one entity, which have `bytes` together and are as large as they may be but for the last.
fn records_of(bytes: usize, record_bytes: usize) -> Vec<NewRecord> {
    let key_bytes = key("A").as_str().len();
    let full = vec![record_bytes; bytes / record_bytes];
    let rest = Some(bytes % record_bytes).filter(|&rest| rest > 0);
    (0..)
        .zip(full.into_iter().chain(rest))
        .map(|(n, bytes)| record("A", n, &vec![n as u8; bytes - key_bytes]))
        .collect()
}

/// A batch of the largest size is taken, one byte more is refused without effect.
pub async fn batch_size_limit_is_inclusive<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    let Limits { batch_bytes: limit, record_bytes, .. } = journal.limits();
    let mut above = records_of(limit, record_bytes);
    above[0].payload.push(1);
    assert_eq!(journal.append(above).await, Err(Refusal::TooLarge { bytes: limit + 1, limit }.into()));
    let largest = records_of(limit, record_bytes);
    let written: Vec<Vec<u8>> = largest.iter().map(|record| record.payload.clone()).collect();
    journal.append(largest).await.expect("as large as it may be");
    assert!(payloads(&journal, "A").await == written, "it is read back as written");
}

/// A record of the largest size is taken, one byte more is refused without effect, whatever else is in the batch.
pub async fn record_size_limit_is_inclusive<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    let Limits { batch_bytes, record_bytes: limit, .. } = journal.limits();
    let bytes = limit + 1;
    let above = vec![record("B", 0, b"x"), records_of(limit, limit).remove(0)].into_iter().map(|mut above| {
        above.payload.extend((above.entity == key("A")).then_some(1));
        above
    });
    let refusal = if bytes + key("B").as_str().len() + 1 > batch_bytes {
        Refusal::TooLarge { bytes: bytes + key("B").as_str().len() + 1, limit: batch_bytes }
    } else {
        Refusal::RecordTooLarge { entity: key("A"), bytes, limit }
    };
    assert_eq!(journal.append(above.collect()).await, Err(refusal.into()));
    assert_eq!(journal.append(records_of(limit, limit)).await, Ok(Position(1)));
    assert_eq!(journal.last(&key("B")).await, Ok(Seq::NONE));
}

/// A batch of as many records as it may have is taken, one more is refused without effect.
pub async fn batch_record_limit_is_inclusive<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    // Where there is no limit, many are taken all the same.
    let limit = journal.limits().batch_records.min(20_000);
    let batch = |count: usize| (0..count as u64).map(|n| record("A", n, b"")).collect::<Vec<_>>();
    if limit == journal.limits().batch_records {
        let refusal = Refusal::TooMany { records: limit + 1, limit };
        assert_eq!(journal.append(batch(limit + 1)).await, Err(refusal.into()));
    }
    assert_eq!(journal.append(batch(limit)).await, Ok(Position(limit as u64)));
    assert_eq!(payloads(&journal, "A").await.len(), limit);
}

/// What is loaded of an entity is its newest snapshot and the records after it, and says where they end.
pub async fn an_entity_is_loaded_from_its_newest_snapshot_on<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    let nothing = journal.load(&key("A")).await.unwrap();
    assert_eq!((&nothing, nothing.last()), (&Loaded::default(), Seq::NONE));
    for n in 0..300 {
        append(&journal, "A", n, &n.to_be_bytes()).await;
        append(&journal, "B", n, b"other").await;
    }
    let all = journal.read(&key("A"), Seq::NONE).await.unwrap();
    assert_eq!(journal.load(&key("A")).await, Ok(Loaded { snapshot: None, records: all.clone() }));
    for seq in [1, 100, 299, 300] {
        let taken = snapshot("A", seq, b"taken");
        journal.save_snapshot(taken.clone()).await.unwrap();
        let loaded = journal.load(&key("A")).await.unwrap();
        assert_eq!(loaded.last(), Seq(300));
        assert_eq!(loaded, Loaded { snapshot: Some(taken), records: all[seq as usize..].to_vec() });
    }
    append(&journal, "A", 300, b"behind the snapshot").await;
    harness.crash(journal).await;
    let journal = harness.open().await;
    let loaded = journal.load(&key("A")).await.unwrap();
    assert_eq!(loaded.last(), Seq(301));
    // A crash may lose a snapshot.
    let covered = loaded.snapshot.map_or(Seq::NONE, |snapshot| snapshot.seq);
    assert_eq!(loaded.records, journal.read(&key("A"), covered).await.unwrap());
    append(&journal, "A", 301, b"it goes on").await;
}

/// What is loaded while records and snapshots are added is what was there at some time in between, whole.
pub async fn a_load_beside_appends_and_snapshots_is_whole<H: Harness>(mut harness: H) {
    let (journal, entity) = (harness.open().await, key("A"));
    for n in 0..100 {
        let before: Vec<_> = (0..8).map(|_| journal.load(&entity)).collect();
        let appended = journal.append(vec![record("A", n, &n.to_be_bytes())]);
        let during: Vec<_> = (0..8).map(|_| journal.load(&entity)).collect();
        appended.await.expect("durable");
        journal.save_snapshot(snapshot("A", n + 1, b"taken")).await.expect("kept");
        for load in before.into_iter().chain(during) {
            let loaded = load.await.expect("readable");
            let covered = loaded.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq.0);
            let seqs: Vec<u64> = loaded.records.iter().map(|record| record.seq.0).collect();
            assert!((n..=n + 1).contains(&loaded.last().0), "{} of {n}", loaded.last());
            assert_eq!(seqs, (covered + 1..=loaded.last().0).collect::<Vec<_>>());
        }
    }
}

/// An append of which nobody has seen the answer is there once or not at all, and its repetition finds out.
pub async fn an_append_whose_answer_is_lost_is_there_once<H: Harness>(mut harness: H) {
    for round in 0..5 {
        let journal = harness.open().await;
        let payload = [round as u8];
        drop(journal.append(vec![record("A", round, &payload)]));
        harness.crash(journal).await;
        let journal = harness.open().await;
        match journal.append(vec![record("A", round, &payload)]).await {
            Ok(position) => assert_eq!(position, Position(round + 1)),
            repeated => assert_eq!(repeated, conflict("A", round, round + 1)),
        }
        let written: Vec<Vec<u8>> = (0..=round).map(|round| vec![round as u8]).collect();
        assert_eq!(payloads(&journal, "A").await, written);
        assert_eq!(feed_all(&journal).await.len(), written.len());
        harness.crash(journal).await;
    }
}

/// While pairs are being appended, no read shows one half of a pair.
pub async fn reads_show_whole_batches_only<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    let pairs = (0..200).map(|n| journal.append(vec![record("A", n, b"left"), record("B", n, b"right")]));
    let under_way: Vec<_> = pairs.collect();
    for append in under_way {
        let seen = feed_all(&journal).await;
        assert_eq!(seen.len() % 2, 0);
        let left = journal.last(&key("A")).await.unwrap();
        let right = journal.last(&key("B")).await.unwrap();
        assert!(left <= right, "the left half was read first");
        append.await.unwrap();
    }
    assert_eq!(feed_all(&journal).await.len(), 400);
}

/// A snapshot replaces an older one and never a newer one; entities do not share snapshots.
pub async fn newest_snapshot_is_kept<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    for n in 0..3 {
        append(&journal, "A", n, b"x").await;
    }
    for (saved, kept) in [(snapshot("A", 1, b"one"), 1), (snapshot("A", 3, b"three"), 3), (snapshot("A", 2, b"two"), 3)]
    {
        journal.save_snapshot(saved).await.unwrap();
        assert_eq!(journal.load_snapshot(&key("A")).await.unwrap().unwrap().seq, Seq(kept));
    }
    journal.save_snapshot(snapshot("A", 3, b"three again")).await.unwrap();
    assert_eq!(journal.load_snapshot(&key("A")).await, Ok(Some(snapshot("A", 3, b"three again"))));
    assert_eq!(journal.load_snapshot(&key("B")).await, Ok(None));
}

/// A snapshot of what is not durable, or too large, is refused and the old one stays.
pub async fn snapshot_ahead_of_the_records_is_refused<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    append(&journal, "A", 0, b"x").await;
    journal.save_snapshot(snapshot("A", 1, b"one")).await.unwrap();
    assert_eq!(
        journal.save_snapshot(snapshot("A", 2, b"two")).await,
        Err(SnapshotError::Ahead { entity: key("A"), seq: Seq(2), last: Seq(1) })
    );
    let limit = journal.limits().record_bytes;
    let bytes = limit + 1;
    assert_eq!(
        journal.save_snapshot(snapshot("A", 1, &vec![0; bytes])).await,
        Err(SnapshotError::TooLarge { bytes, limit })
    );
    assert_eq!(journal.load_snapshot(&key("A")).await, Ok(Some(snapshot("A", 1, b"one"))));
}

/// Closing makes durable what was submitted, then everything is refused; another opening finds all of it.
pub async fn close_flushes_then_refuses<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    let under_way: Vec<_> = (0..10).map(|n| journal.append(vec![record("A", n, b"x")])).collect();
    let closed = journal.close();
    let refused = journal.append(vec![record("A", 10, b"late")]);
    assert_eq!(closed.await, Ok(()));
    assert_eq!(refused.await, Err(Refusal::Closed.into()));
    for append in under_way {
        assert!(append.await.is_ok());
    }
    assert_eq!(journal.append(vec![]).await, Err(Refusal::Closed.into()));
    assert_eq!(journal.read(&key("A"), Seq::NONE).await, Err(ReadError::Closed));
    assert_eq!(journal.last(&key("A")).await, Err(ReadError::Closed));
    assert_eq!(journal.feed(Position::START, 1).await, Err(ReadError::Closed));
    assert_eq!(journal.load_snapshot(&key("A")).await, Err(ReadError::Closed));
    assert_eq!(journal.load(&key("A")).await, Err(ReadError::Closed));
    assert_eq!(journal.save_snapshot(snapshot("A", 1, b"x")).await, Err(SnapshotError::Closed));
    assert_eq!(journal.close().await, Ok(()));

    let journal = harness.open().await;
    assert_eq!(journal.last(&key("A")).await, Ok(Seq(10)));
}

/// What was durable before a crash is there after it, and appends go on behind it; also after several crashes.
pub async fn durable_appends_survive_a_crash<H: Harness>(mut harness: H) {
    for round in 0..4 {
        let journal = harness.open().await;
        assert_eq!(feed_all(&journal).await.len() as u64, 3 * round);
        assert_eq!(journal.volume().last, Some(Position(3 * round)));
        assert_eq!(journal.append(vec![record("A", round + 1, b"x")]).await, conflict("A", round + 1, round));
        append(&journal, "A", round, &[round as u8]).await;
        let pair = vec![record("B", 2 * round, b"1"), record("B", 2 * round + 1, b"2")];
        assert_eq!(journal.append(pair).await, Ok(Position(3 * round + 3)));
        harness.crash(journal).await;
    }
    let journal = harness.open().await;
    assert_eq!(payloads(&journal, "A").await, [[0], [1], [2], [3]]);
}

/// Of appends that a crash has overtaken, a prefix is there: whole batches, each once, in the order of the calls.
pub async fn crash_keeps_a_prefix_of_whole_batches<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    let mut under_way: Vec<_> =
        (0..30).map(|n| journal.append(vec![record("A", n, &[n as u8]), record("B", n, &[n as u8])])).collect();
    let unanswered = under_way.split_off(10);
    for append in under_way {
        append.await.unwrap();
    }
    harness.crash(journal).await;
    drop(unanswered);

    let journal = harness.open().await;
    let (left, right) = (payloads(&journal, "A").await, payloads(&journal, "B").await);
    assert_eq!(left, right);
    assert!((10..=30).contains(&left.len()), "10 were answered, 30 submitted, found {}", left.len());
    assert!((0..).zip(&left).all(|(n, payload)| payload[..] == [n]));
    assert_eq!(feed_all(&journal).await.len(), left.len() * 2);
}

/// A crash may lose a snapshot and never leaves a wrong one.
pub async fn snapshot_after_a_crash_is_whole_or_gone<H: Harness>(mut harness: H) {
    let journal = harness.open().await;
    for n in 0..2 {
        append(&journal, "A", n, b"x").await;
    }
    journal.save_snapshot(snapshot("A", 1, b"one")).await.unwrap();
    drop(journal.save_snapshot(snapshot("A", 2, b"two")));
    harness.crash(journal).await;
    let journal = harness.open().await;
    if let Some(found) = journal.load_snapshot(&key("A")).await.unwrap() {
        assert!([snapshot("A", 1, b"one"), snapshot("A", 2, b"two")].contains(&found), "found {found:?}");
    }
    journal.save_snapshot(snapshot("A", 2, b"again")).await.unwrap();
    assert_eq!(journal.load_snapshot(&key("A")).await, Ok(Some(snapshot("A", 2, b"again"))));
}
