//! Verifying a journal reads all of it, and names what was changed behind its back.

use enact_journal::nats::Nats;
use enact_journal::{Journal, ReadError, Verified};
use enact_journal_kit::contract::block_on;

use crate::records::{append_three, record};
use crate::support::{Processes, Raw, Single};

/// Two reigns: an owner record, records of entities 1, 2, 1, 3, 3, 1, an owner record, a record of entity 2.
fn written(single: &Single) {
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    block_on(append_three(&journal));
    let journal = block_on(processes.open(single.options())).expect("it takes over");
    block_on(journal.append(vec![record(2, 1, b"g")])).expect("durable");
}

fn verified(single: &Single) -> Result<Verified, ReadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { Nats::look(single.options()).await.expect("its owners are there").verify().await })
}

#[test]
fn a_message_that_was_changed_or_removed_or_moved_is_named() {
    let Some(single) = Single::start() else { return };
    written(&single);
    let sound = Verified { entities: 3, records: 7 };
    assert_eq!(verified(&single), Ok(sound));
    let raw = Raw::at(&single.server.address());
    for (order, changed, said) in [
        (
            &[1, 2, 3, 4, 5, 6, 7, 8, 9][..],
            Some(4),
            "message 4 of stream J0 is damaged at byte 0: the record does not have its checksum",
        ),
        (&[1, 2, 4, 5, 6, 7, 8, 9], None, "message 5 of stream J0 is damaged at byte 0: the record is malformed"),
        // The last one of its entity: those behind it have moved.
        (&[1, 2, 3, 4, 5, 6, 8, 9], None, "message 8 of stream J0 is damaged at byte 0: the record is malformed"),
        (&[1, 3, 2, 4, 5, 6, 7, 8, 9], None, "message 4 of stream J0 is damaged at byte 0: the record is malformed"),
        (&[1, 2, 3, 4, 5, 6, 7, 8, 9], None, ""),
    ] {
        let before = raw.rebuild("J0", order, changed);
        match verified(&single) {
            Ok(found) => assert_eq!((found, said), (sound, "")),
            Err(ReadError::Damaged(damage)) => {
                assert!(damage.to_string().contains(said) && !said.is_empty(), "{damage}");
            }
            Err(other) => panic!("{other}"),
        }
        raw.restore("J0", before);
    }
}
