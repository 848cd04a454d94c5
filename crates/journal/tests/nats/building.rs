//! A stream that is filled with the groups of another log is opened when it is whole, and not before.

use enact_journal::nats::{BuildError, Nats, OpenError, Options, StreamBuilder};
use enact_journal::{AppendError, Journal, Refusal, RemoteBuilder, Verified};
use serde_json::json;
use tokio::runtime::Builder;

use crate::records::{groups_of, key, lengths, record};
use crate::support::{Raw, Single};

/// More records than a batch of the server has, in one group and in several.
const LENS: [u64; 5] = [2, 1, 2500, 3, 700];

async fn begun(options: Options) -> StreamBuilder {
    StreamBuilder::begin(options).await.expect("there is no stream")
}

fn is_unfinished(refusal: &OpenError) -> bool {
    matches!(refusal, OpenError::Unfinished { stream } if stream == "J0")
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_stay_groups_and_nobody_uses_them_before_all_are_there() {
    let Some(single) = Single::start() else { return };
    let mut builder = begun(single.options()).await;
    for group in groups_of(&LENS) {
        builder.push(group).await.expect("it follows");
    }
    let refusals = [
        Nats::open(single.options()).await.expect_err("it is not whole"),
        Nats::look(single.options()).await.expect_err("it is not whole"),
    ];
    assert!(refusals.iter().all(is_unfinished), "{refusals:?}");
    let second = StreamBuilder::begin(single.options()).await.expect_err("the first one runs");
    assert!(matches!(&second, BuildError::Open(refusal) if is_unfinished(refusal)), "{second}");

    let count = LENS.iter().sum();
    assert_eq!(builder.finish().await.expect("finished").0, count);
    let look = Nats::look(single.options()).await.expect("it is whole");
    assert_eq!(look.verify().await, Ok(Verified { entities: 3, records: count }));
    look.check().await.expect("kept as it must be");
    assert_eq!(lengths(async |after| look.groups(after).await).await, LENS.map(|len| len as usize));
    let journal = Nats::open(single.options()).await.expect("it is whole");
    let last = journal.last(&key(1)).await.expect("readable");
    journal.append(vec![record(1, last.0, b"more")]).await.expect("it goes on");
    let full = StreamBuilder::begin(single.options()).await.expect_err("there is one");
    assert!(matches!(&full, BuildError::Exists { stream } if stream == "J0"), "{full}");
}

#[test]
fn what_was_abandoned_leaves_nothing_and_what_was_cut_off_is_removed_by_hand() {
    let Some(single) = Single::start() else { return };
    let (runtime, raw) =
        (Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime"), raw(&single));
    runtime.block_on(async {
        let mut builder = begun(single.options()).await;
        builder.push(groups_of(&[1500]).remove(0)).await.expect("it follows");
        builder.abandon().await;
        let missing = Nats::look(single.options()).await.expect_err("there is none");
        assert!(matches!(&missing, OpenError::Missing { .. }), "{missing}");
        drop(begun(single.options()).await);
        let refusal =
            StreamBuilder::begin(single.options()).await.expect_err("nobody knows whether the first one runs");
        assert!(refusal.to_string().contains("remove it with `nats stream rm J0`"), "{refusal}");
    });
    assert_eq!(raw.ask("STREAM.DELETE.J0", &json!({}))["success"], true);
    let finished = runtime.block_on(async { begun(single.options()).await.finish().await });
    finished.expect("nothing is a log, too");
}

#[test]
fn a_stream_that_somebody_else_has_written_to_is_not_finished() {
    let Some(single) = Single::start() else { return };
    let (runtime, raw) =
        (Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime"), raw(&single));
    let mut builder = runtime.block_on(begun(single.options()));
    raw.publish("j.0.e.Account.1", "stray");
    runtime.block_on(async {
        builder.push(groups_of(&[3]).remove(0)).await.expect("it waits for a batch");
        let refused = builder.finish().await.expect_err("the stream goes on elsewhere");
        assert!(matches!(&refused, BuildError::Append(AppendError::Refused(Refusal::Fenced { .. }))), "{refused}");
        builder.abandon().await;
    });
    let mut builder = runtime.block_on(begun(single.options()));
    raw.publish("j.0.e.Account.1", "stray");
    let refused = runtime.block_on(builder.finish()).expect_err("there is a message that is not ours");
    assert!(matches!(&refused, BuildError::Changed { stream } if stream == "J0"), "{refused}");
}

fn raw(single: &Single) -> Raw {
    Raw::at(&single.server.address())
}
