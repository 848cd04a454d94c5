//! Verifying a journal reads all of it, and names what was changed behind its back.

use enact_journal::postgres::{Options, Postgres};
use enact_journal::{ReadError, Verified};
use enact_journal_kit::contract::block_on;

use crate::records::append_three;
use crate::support::{Admin, Processes, fresh};

fn verified(options: &Options) -> Result<Verified, ReadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { Postgres::look(options.clone()).await.expect("its owner is there").verify().await })
}

#[test]
fn a_row_that_was_changed_or_removed_or_moved_is_named() {
    let Some(options) = fresh() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(options.clone())).expect("it opens");
    block_on(append_three(&journal));
    let sound = Verified { entities: 3, records: 6 };
    assert_eq!(verified(&options), Ok(sound));
    let admin = Admin::of(&options);
    admin.does("CREATE TABLE kept AS SELECT * FROM records");
    let change = |change: &str| {
        admin.does(&format!(
            "ALTER TABLE records DISABLE TRIGGER forever; {change}; ALTER TABLE records ENABLE ALWAYS TRIGGER forever"
        ));
    };
    for (changed, said) in [
        ("UPDATE records SET payload = 'x' WHERE pos = 3", "record 3 of shard 0 in"),
        ("UPDATE records SET kind = 8 WHERE pos = 2", "does not have its checksum"),
        ("UPDATE records SET entity = 'Account/9' WHERE pos = 2", "does not have its checksum"),
        ("UPDATE records SET pos = 10 WHERE pos = 6", "does not have its checksum"),
        ("DELETE FROM records WHERE pos = 4", "position 4 should be here, found 5"),
    ] {
        change(changed);
        match verified(&options) {
            Err(ReadError::Damaged(damage)) => assert!(damage.to_string().contains(said), "{damage}"),
            other => panic!("{changed}: {other:?}"),
        }
        change("DELETE FROM records; INSERT INTO records SELECT * FROM kept");
    }
    assert_eq!(verified(&options), Ok(sound));
}
