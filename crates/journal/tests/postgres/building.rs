//! Tables that are filled with the groups of another log show it when it is whole, and nothing before.

use enact_journal::postgres::{BuildError, OpenError, Options, Postgres, TableBuilder};
use enact_journal::{Journal, RemoteBuilder, Verified};

use crate::records::{groups_of, key, lengths, record};
use crate::support::{Processes, fresh};

/// More records than one statement inserts.
const LENS: [u64; 4] = [2, 1, 10_500, 3];

async fn begun(options: &Options) -> TableBuilder {
    TableBuilder::begin(options.clone()).await.expect("there is no row")
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_stay_groups_and_nobody_sees_them_before_all_are_there() {
    let Some(options) = fresh() else { return };
    let mut builder = begun(&options).await;
    for group in groups_of(&LENS) {
        builder.push(group).await.expect("it follows");
    }
    let missing = Postgres::look(options.clone()).await.expect_err("nothing is committed");
    assert!(matches!(&missing, OpenError::Missing { .. }), "{missing}");
    let second = TableBuilder::begin(options.clone()).await.expect_err("the first one runs");
    assert!(matches!(&second, BuildError::UnderWay { shard: 0, .. }), "{second}");

    let count = LENS.iter().sum();
    assert_eq!(builder.finish().await.expect("committed").0, count);
    let look = Postgres::look(options.clone()).await.expect("it is whole");
    assert_eq!(look.verify().await, Ok(Verified { entities: 3, records: count }));
    look.check().await.expect("kept as it must be");
    assert_eq!(lengths(async |after| look.groups(after).await).await, LENS.map(|len| len as usize));
    let journal = Postgres::open(options.clone()).await.expect("it is whole");
    let last = journal.last(&key(1)).await.expect("readable");
    journal.append(vec![record(1, last.0, b"more")]).await.expect("it goes on");
    let full = TableBuilder::begin(options).await.expect_err("there is one");
    assert!(matches!(&full, BuildError::Exists { shard: 0, .. }), "{full}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cut_off_leaves_nothing_and_a_journal_that_was_opened_once_is_not_filled() {
    let Some(options) = fresh() else { return };
    let mut cut_off = begun(&options).await;
    cut_off.push(groups_of(&[5]).remove(0)).await.expect("it follows");
    drop(cut_off);
    begun(&options).await.finish().await.expect("nothing is a log, too");

    let other = Options { shard: 1, ..options };
    Processes::default().open(other.clone()).await.expect("it opens");
    let refused = TableBuilder::begin(other).await.expect_err("somebody may have it open");
    assert!(matches!(&refused, BuildError::Exists { shard: 1, .. }), "{refused}");
}
