//! A look at the journal shows what is there and does not disturb the writer.

use enact_journal::nats::{Nats, OpenError};
use enact_journal::{Journal, Position, Refusal, Seq, Snapshot, SnapshotError};

use crate::records::{append_three, key, lengths, record};
use crate::support::Single;

#[tokio::test(flavor = "multi_thread")]
async fn a_look_shows_all_reigns_up_to_now_and_changes_nothing() {
    let Some(single) = Single::start() else { return };
    let earlier = Nats::open(single.options()).await.expect("it opens");
    earlier.append(vec![record(1, 0, b"first"), record(2, 0, b"other")]).await.expect("durable");
    let writer = Nats::open(single.options()).await.expect("it takes over");
    writer.append(vec![record(1, 1, b"second")]).await.expect("durable");

    let look = Nats::look(single.options()).await.expect("it is there");
    let seen = look.feed(Position::START, 10).await.expect("readable");
    let payloads: Vec<_> = seen.iter().map(|record| (record.position.0, &record.payload[..])).collect();
    assert_eq!(payloads, [(1, &b"first"[..]), (2, b"other"), (3, b"second")]);
    assert_eq!(look.read(&key(1), Seq(1)).await.expect("readable").len(), 1);
    assert_eq!(look.last(&key(3)).await, Ok(Seq::NONE));

    assert_eq!(look.append(vec![record(3, 0, b"")]).await, Err(Refusal::Closed.into()));
    let snapshot = Snapshot { entity: key(1), seq: Seq(2), payload: b"state".to_vec() };
    assert_eq!(look.save_snapshot(snapshot).await, Err(SnapshotError::Closed));
    writer.append(vec![record(1, 2, b"third")]).await.expect("it is not fenced off");
    look.close().await.expect("closed");
    assert!(look.feed(Position::START, 10).await.is_err());
    let after = Nats::look(single.options()).await.expect("it is there");
    assert_eq!(after.last(&key(1)).await, Ok(Seq(3)));
    assert_eq!(after.last(&key(3)).await, Ok(Seq::NONE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_nobody_has_opened_is_not_made_by_looking() {
    let Some(single) = Single::start() else { return };
    for _ in 0..2 {
        let missing = Nats::look(single.options()).await.expect_err("there is none");
        assert!(matches!(&missing, OpenError::Missing { stream } if stream == "J0"), "{missing}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_has_the_groups_that_became_durable_together() {
    let Some(single) = Single::start() else { return };
    let writer = Nats::open(single.options()).await.expect("it opens");
    append_three(&writer).await;
    let look = Nats::look(single.options()).await.expect("it is there");
    assert_eq!(lengths(async |after| look.groups(after).await).await, [2, 1, 3]);
    writer.append(vec![record(1, 3, b"g")]).await.expect("it is not fenced off");
}
