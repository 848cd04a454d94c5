//! Servers that are killed, sessions that freeze, links that lose what they carry, disks that are full or damaged, and tables that
//! somebody has changed.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use enact_journal::postgres::{OpenError, Options, Postgres};
use enact_journal::{AppendError, CheckError, Damage, Flaw, Journal, Position, ReadError, Refusal, Seq, Snapshot};
use enact_journal_kit::contract::block_on;
use enact_journal_kit::link::{Flow, Link};
use enact_journal_kit::postgres::{Server, shared, signal};

use crate::records::{key, read_all, record};
use crate::support::{Admin, Processes, Single, fresh};

/// Appends to eight entities, 64 at once, until `count` are durable, and calls `at` with how many are.
fn append_under_way(journal: &Postgres, from: u64, count: u64, mut at: impl FnMut(u64)) {
    let mut under_way = VecDeque::new();
    let mut submitted = from;
    for durable in from..from + count {
        while submitted < from + count && under_way.len() < 64 {
            let append = record(submitted % 8, submitted / 8, &submitted.to_be_bytes());
            under_way.push_back(journal.append(vec![append]));
            submitted += 1;
        }
        let answer = block_on(under_way.pop_front().expect("one at least"));
        assert_eq!(answer, Ok(Position(durable + 1)), "each has its place, whatever happens to servers");
        at(durable + 1);
    }
}

/// Whether all records of [`append_under_way`] are there, each once, in their order.
fn assert_whole(journal: &Postgres, count: u64) {
    let payloads: Vec<Vec<u8>> = read_all(journal).into_iter().map(|record| record.payload).collect();
    let written: Vec<Vec<u8>> = (0..count).map(|n| n.to_be_bytes().to_vec()).collect();
    assert!(payloads == written, "{} are there, {count} are durable", payloads.len());
    for entity in 0..8 {
        let of_entity = block_on(journal.load(&key(entity))).expect("readable").records;
        assert_eq!(of_entity.len() as u64, (0..count).filter(|n| n % 8 == entity).count() as u64);
    }
}

/// The session in which the writer `node` inserts records.
fn inserting(admin: &Admin, node: &str) -> String {
    let pids = admin.asks(&format!(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'enact {node}' AND query LIKE '%INSERT INTO records%'"
    ));
    let [pid] = <[String; 1]>::try_from(pids).expect("one session");
    pid
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_when_the_server_is_killed_under_load() {
    let Some(mut single) = Single::start() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    append_under_way(&journal, 0, 3000, |durable| {
        if durable % 1000 == 500 {
            single.server.restart();
        }
    });
    assert_whole(&journal, 3000);
    processes.kill(journal);
    single.server.restart();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    assert_whole(&journal, 3000);
    append_under_way(&journal, 3000, 100, |_| {});
    assert_whole(&journal, 3100);
}

/// The server commits a group and the answer gets lost, with the connection.
#[test]
fn an_append_whose_answer_is_lost_is_durable_once() {
    let (Some(options), Some(server)) = (fresh(), shared()) else { return };
    let link = Link::to(server.port());
    let mut processes = Processes::default();
    let linked = Options { server: Server::address_at(link.port()), ..options.clone() };
    let journal = block_on(processes.open(linked)).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"0")])).expect("durable");
    let admin = Admin::of(&options);
    for round in 1..=3 {
        link.set(Flow::Passes, Flow::Held);
        let alone = journal.append(vec![record(1, 3 * round - 2, b"alone")]);
        let together = journal.append(vec![record(1, 3 * round - 1, b"1"), record(1, 3 * round, b"2")]);
        admin.waits_for(&format!("SELECT 1 FROM records WHERE pos = {}", 3 * round - 1));
        link.cut();
        link.set(Flow::Passes, Flow::Passes);
        assert_eq!(block_on(alone), Ok(Position(3 * round - 1)));
        assert_eq!(block_on(together), Ok(Position(3 * round + 1)));
    }
    let kept: Vec<u64> = read_all(&journal).iter().map(|record| record.seq.0).collect();
    assert_eq!(kept, (1..=10).collect::<Vec<_>>());
}

/// The session has got the group and has not begun with it when the journal gives it up and sends the group over another one.
#[test]
fn a_group_of_a_frozen_session_is_there_once_when_it_goes_on() {
    let Some(options) = fresh() else { return };
    let mut processes = Processes::default();
    let options = Options { node: options.schema.clone(), ..options };
    let journal = block_on(processes.open(options.clone())).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"0")])).expect("durable");
    let admin = Admin::of(&options);
    let frozen = inserting(&admin, &options.node);
    signal("STOP", &frozen);
    let given_up = journal.append(vec![record(1, 1, b"1"), record(2, 0, b"2")]);
    assert_eq!(block_on(given_up), Ok(Position(3)));
    signal("CONT", &frozen);
    admin.waits_for(&format!("SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {frozen})"));
    assert_eq!(read_all(&journal).len(), 3);
    assert_eq!(block_on(journal.append(vec![record(2, 1, b"3")])), Ok(Position(4)));
}

/// It is committed and answered with a warning, and no standby has it.
#[test]
fn a_commit_that_no_longer_waits_for_its_standby_is_not_acknowledged() {
    let Some(single) = Single::start() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"0")])).expect("durable");
    let admin = Admin::of(&single.options());
    let standbys = |names: &str| {
        single.server.configure(&format!("synchronous_standby_names = '{names}'"));
        single.server.reload();
        admin.waits_for(&format!("SELECT 1 WHERE current_setting('synchronous_standby_names') = '{names}'"));
    };
    standbys("ANY 1 (elsewhere)");
    let waiting = |statement: &str| {
        format!("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%{statement}%'")
    };
    let cancel = |statement: &str| {
        admin.waits_for(&waiting(statement));
        admin.asks(&format!("SELECT pg_cancel_backend(pid) FROM ({}) AS waiting", waiting(statement)));
    };
    // Commits begin to wait a moment after the setting is there.
    let mut durable = 1;
    let append = loop {
        let append = journal.append(vec![record(1, durable, b"x")]);
        let does_wait = loop {
            if !admin.asks(&waiting("INSERT INTO records")).is_empty() {
                break true;
            }
            if block_on(journal.last(&key(1))) == Ok(Seq(durable + 1)) {
                break false;
            }
        };
        if does_wait {
            break append;
        }
        durable += 1;
    };
    cancel("INSERT INTO records");
    // It is there for all to see, and the journal waits until it is on a standby, whatever is cancelled.
    for _ in 0..3 {
        cancel("FOR UPDATE");
    }
    assert_eq!(admin.asks("SELECT count(*) FROM records"), [(durable + 1).to_string()]);
    assert_eq!(block_on(journal.last(&key(1))), Ok(Seq(durable)), "nobody is told of it");
    standbys("");
    assert_eq!(block_on(append), Ok(Position(durable + 1)));
    assert_eq!(read_all(&journal).len() as u64, durable + 1);
}

#[test]
fn what_is_under_way_is_in_doubt_when_the_journal_is_closed_without_a_server() {
    let Some(mut single) = Single::start() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"0")])).expect("durable");
    single.server.kill();
    let (sent, queued) = (journal.append(vec![record(1, 1, b"1")]), journal.append(vec![]));
    let closed = journal.close();
    assert!(matches!(block_on(sent), Err(AppendError::InDoubt { .. })));
    assert!(block_on(queued).is_err());
    assert!(block_on(closed).is_err());
    assert_eq!(block_on(journal.append(vec![])), Err(Refusal::Closed.into()));
    single.server.restart();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    assert!((1..=2).contains(&block_on(journal.last(&key(1))).expect("readable").0));
}

/// A trigger says what the server says when its disk is full.
#[test]
fn a_full_disk_refuses_appends_and_the_journal_goes_on() {
    let Some(options) = fresh() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(options.clone())).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"0")])).expect("durable");
    let admin = Admin::of(&options);
    admin.does(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$;
         CREATE TRIGGER full_disk BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION full_disk()",
    );
    let refused = block_on(journal.append(vec![record(1, 1, b"1")])).expect_err("the disk is full");
    assert!(matches!(refused, AppendError::Refused(Refusal::StorageFull { .. })), "{refused}");
    assert_eq!(block_on(journal.append(vec![])), Ok(Position(1)), "it has not failed");
    admin.does("DROP TRIGGER full_disk ON records");
    assert_eq!(block_on(journal.append(vec![record(1, 1, b"1")])), Ok(Position(2)));
}

fn damage<T: std::fmt::Debug>(read: Result<T, ReadError>) -> (String, Flaw) {
    match read {
        Err(ReadError::Damaged(Damage { file, flaw, .. })) => (file, flaw),
        other => panic!("it is read: {other:?}"),
    }
}

#[test]
fn rows_that_were_changed_or_removed_are_damage_of_their_entity_and_of_the_feed() {
    let Some(options) = fresh() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(options.clone())).expect("it opens");
    for n in 0..3 {
        let batch = (1..=6).map(|entity| record(entity, n, b"x")).collect();
        block_on(journal.append(batch)).expect("durable");
    }
    for entity in [3, 4, 6] {
        let taken = Snapshot { entity: key(entity), seq: Seq(3), payload: b"x".to_vec() };
        block_on(journal.save_snapshot(taken)).expect("kept");
    }
    let admin = Admin::of(&options);
    admin.does(
        "ALTER TABLE records DISABLE TRIGGER forever;
         UPDATE records SET payload = 'y' WHERE entity = 'Account/1' AND seq = 2;
         DELETE FROM records WHERE entity = 'Account/2' AND seq = 2;
         DELETE FROM records WHERE entity = 'Account/3' AND seq = 3;
         UPDATE snapshots SET payload = 'y' WHERE entity = 'Account/4';
         ALTER TABLE records ENABLE ALWAYS TRIGGER forever",
    );
    for again in [false, true] {
        let journal = if again { &block_on(processes.open(options.clone())).expect("it opens") } else { &journal };
        let (row, flaw) = damage(block_on(journal.load(&key(1))));
        assert_eq!((row, flaw), (format!("record 7 of shard 0 in {}.records", options.schema), Flaw::Record));
        let missing = Flaw::Chain { entity: key(2), expected: Seq(2), found: Seq(3) };
        assert_eq!(damage(block_on(journal.load(&key(2)))).1, missing);
        assert_eq!(damage(block_on(journal.read(&key(2), Seq(1)))).1, missing);
        let ends_early = Flaw::Chain { entity: key(3), expected: Seq(3), found: Seq(2) };
        assert_eq!(damage(block_on(journal.load(&key(3)))).1, ends_early);
        if again {
            assert_eq!(damage(block_on(journal.load_snapshot(&key(3)))).1, ends_early);
        }
        let sound = block_on(journal.load(&key(4))).expect("it is rebuilt from its records");
        assert_eq!((sound.snapshot, sound.records.len()), (None, 3));
        assert_eq!(block_on(journal.load_snapshot(&key(4))), Ok(None));
        assert_eq!(block_on(journal.load(&key(5))).expect("not concerned").last(), Seq(3));
        assert_eq!(block_on(journal.load(&key(6))).expect("not concerned").records, []);
        assert_eq!(damage(block_on(journal.feed(Position(6), 99))).1, Flaw::Record);
        let order = Flaw::Order { expected: Position(8), found: Position(9) };
        assert_eq!(damage(block_on(journal.feed(Position(7), 99))).1, order);
    }
}

#[test]
fn an_end_that_was_removed_is_seen_by_its_writer_and_by_the_next() {
    let Some(options) = fresh() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(options.clone())).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"0"), record(1, 1, b"1")])).expect("durable");
    let journal = {
        drop(journal);
        block_on(processes.open(options.clone())).expect("it opens")
    };
    block_on(journal.append(vec![record(1, 2, b"2")])).expect("durable");
    let admin = Admin::of(&options);
    let remove = |pos: u64| {
        admin.does(&format!(
            "ALTER TABLE records DISABLE TRIGGER forever; DELETE FROM records WHERE pos >= {pos};
             ALTER TABLE records ENABLE ALWAYS TRIGGER forever"
        ));
    };
    remove(3);
    let flaw = Flaw::Chain { entity: key(1), expected: Seq(3), found: Seq(2) };
    assert_eq!(damage(block_on(journal.load(&key(1)))).1, flaw);
    assert_eq!(damage(block_on(journal.read(&key(1), Seq(1)))).1, flaw);
    assert_eq!(damage(block_on(journal.feed(Position(2), 9))).1, Flaw::Shortened { last: Position(3) });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let shortened = OpenError::Shortened { last: 3, found: 2 };
    assert_eq!(runtime.block_on(journal.check()), Err(CheckError::Unsafe { why: shortened.to_string() }));

    remove(2);
    let shortened = block_on(processes.open(options)).expect_err("a record of an earlier reign is missing");
    assert!(matches!(shortened, OpenError::Shortened { last: 2, found: 1 }), "{shortened}");
    let refused = block_on(journal.append(vec![record(2, 0, b"x")]));
    assert_eq!(refused, Ok(Position(4)), "it was not taken over");
}

/// Another program has inserted a row where this one would.
#[test]
fn rows_of_nobody_knows_whom_end_the_reign_in_doubt() {
    let Some(options) = fresh() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(options.clone())).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"0")])).expect("durable");
    Admin::of(&options).does("INSERT INTO records VALUES (0, 'Account/1', 2, 2, 0, 7, 0, '')");
    assert!(matches!(block_on(journal.append(vec![record(1, 1, b"1")])), Err(AppendError::InDoubt { .. })));
    assert!(block_on(journal.failed()).is_some());
    let journal = block_on(processes.open(options)).expect("it opens");
    assert_eq!(damage(block_on(journal.load(&key(1)))).1, Flaw::Record);
}

#[test]
fn a_page_that_the_disk_has_damaged_is_refused() {
    let Some(mut single) = Single::start() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    // Four of them fill a page.
    for n in 0..12 {
        block_on(journal.append(vec![record(n, 0, &[0xA5; 1900])])).expect("durable");
    }
    drop(journal);
    let mut harm = |page: u64| {
        let admin = Admin::of(&single.options());
        // What is in the log since then is written once more when the server starts.
        admin.does("CHECKPOINT");
        let table = single.server.data().join(admin.asks("SELECT pg_relation_filepath('records')").remove(0));
        single.server.kill();
        let file = OpenOptions::new().write(true).open(&table).expect("the table");
        file.write_all_at(&[0x5A], page * 8192 + 4096).expect("written");
        single.server.restart();
        single.options()
    };
    let journal = block_on(processes.open(harm(0))).expect("it opens");
    assert_eq!(damage(block_on(journal.load(&key(0)))).1, Flaw::Record);
    assert_eq!(block_on(journal.load(&key(11))).expect("not concerned").last(), Seq(1));
    let refused = block_on(processes.open(harm(2))).expect_err("the last page is damaged");
    assert!(matches!(&refused, OpenError::Damaged { .. }) && refused.is_unsafe(), "{refused}");
}
