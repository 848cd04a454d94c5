//! The cases for journals that several may have open, of whom the last one writes.
#![expect(clippy::missing_panics_doc, reason = "to panic is how a case fails")]

use enact_journal::{AppendError, Journal, Position, Refusal, Seq};

use super::TakeOver;
use super::cases::{append, conflict, feed_all, key, payloads, record, snapshot};

/// The epoch and the name of the writer by which an append was fenced off.
fn fenced_by(result: Result<Position, AppendError>) -> (u64, String) {
    match result {
        Err(AppendError::Refused(Refusal::Fenced { epoch, by })) => (epoch, by),
        other => panic!("it is not fenced off: {other:?}"),
    }
}

/// From a take-over on an earlier writer is refused everything, whatever it knows of it; later reigns have larger epochs.
pub async fn an_earlier_writer_is_refused_everything<H: TakeOver>(mut harness: H) {
    let mut reigns = vec![harness.open().await];
    let mut epochs = Vec::new();
    for n in 0..4 {
        let journal = reigns.last().expect("one at least");
        append(journal, "A", n, &[n as u8]).await;
        let next = harness.take_over(journal).await;
        epochs.push(fenced_by(journal.append(vec![record("A", n + 1, b"late")]).await).0);
        assert_eq!(next.last(&key("A")).await, Ok(Seq(n + 1)), "before the new writer has appended anything");
        reigns.push(next);
    }
    assert!(epochs.is_sorted_by(|earlier, later| earlier < later), "{epochs:?}");
    let journal = reigns.pop().expect("the last one");
    for earlier in &reigns {
        for batch in [vec![record("A", 4, b"late")], vec![record("B", 0, b"other")], vec![]] {
            fenced_by(earlier.append(batch).await);
        }
        assert!(earlier.failed().await.is_some(), "it has failed");
    }
    append(&journal, "A", 4, &[4]).await;
    assert_eq!(payloads(&journal, "A").await, [[0], [1], [2], [3], [4]]);
    assert_eq!(feed_all(&journal).await.len(), 5);
}

/// Of appends that a take-over overtakes each is there and answered so, or fenced off and not there; what is there is a
/// prefix of them, and comes before all that the new writer appends.
pub async fn a_take_over_succeeds_under_load<H: TakeOver>(mut harness: H) {
    let earlier = harness.open().await;
    let mut under_way: Vec<_> = (0..500)
        .map(|n: u64| earlier.append(vec![record("A", n, &n.to_be_bytes()), record("B", n, &n.to_be_bytes())]))
        .collect();
    let rest = under_way.split_off(20);
    for (n, append) in (1..).zip(under_way) {
        assert_eq!(append.await, Ok(Position(2 * n)));
    }
    let journal = harness.take_over(&earlier).await;
    let found = journal.last(&key("A")).await.expect("readable");
    append(&journal, "A", found.0, b"new").await;
    let mut durable = 20;
    for append in rest {
        match append.await {
            Ok(position) => {
                durable += 1;
                assert_eq!(position, Position(2 * durable));
            }
            refused => drop(fenced_by(refused)),
        }
    }
    fenced_by(earlier.append(vec![record("C", 0, b"late")]).await);
    assert_eq!(found, Seq(durable), "what is there was answered so");
    let written: Vec<Vec<u8>> = (0..durable).map(|n| n.to_be_bytes().to_vec()).collect();
    assert_eq!(payloads(&journal, "B").await, written);
    assert_eq!(payloads(&journal, "A").await, [written, vec![b"new".to_vec()]].concat());
    assert_eq!(feed_all(&journal).await.len() as u64, 2 * durable + 1);
}

/// A new writer finds records, positions and snapshots of all reigns before its own, as they were.
pub async fn a_new_writer_sees_all_of_the_reigns_before<H: TakeOver>(mut harness: H) {
    let mut journal = harness.open().await;
    let mut feed = Vec::new();
    for reign in 0..4 {
        assert_eq!(feed_all(&journal).await, feed, "nothing but what was there");
        append(&journal, "A", 2 * reign, b"1").await;
        append(&journal, &format!("of-{reign}"), 0, b"2").await;
        let position = append(&journal, "A", 2 * reign + 1, b"3").await;
        assert_eq!(position, Position(3 * reign + 3), "a take-over has no position");
        journal.save_snapshot(snapshot("A", 2 * reign + 1, b"taken")).await.expect("kept");
        feed = feed_all(&journal).await;
        journal = harness.take_over(&journal).await;
        assert_eq!(journal.last(&key("A")).await, Ok(Seq(2 * reign + 2)));
        let loaded = journal.load(&key("A")).await.expect("readable");
        assert_eq!((loaded.snapshot, loaded.records.len()), (Some(snapshot("A", 2 * reign + 1, b"taken")), 1));
        let early = vec![record("A", 2 * reign + 1, b"x")];
        assert_eq!(journal.append(early).await, conflict("A", 2 * reign + 1, 2 * reign + 2));
    }
    assert_eq!(feed_all(&journal).await, feed);
    let positions: Vec<u64> = feed.iter().map(|record| record.position.0).collect();
    assert_eq!(positions, (1..=12).collect::<Vec<_>>());
}
