//! Writers that take over, wake up too late, and know what is new.

use std::thread;

use enact_journal::postgres::{Options, Postgres};
use enact_journal::{AppendError, Journal, Loaded, Position, Refusal, Seq};
use enact_journal_kit::contract::block_on;
use enact_journal_kit::link::{Flow, Link};
use enact_journal_kit::postgres::{Server, shared};

use crate::records::{key, read_all, record};
use crate::support::{Admin, Processes, Single, fresh};

/// What an earlier writer has sent arrives after another one has taken over.
#[test]
fn a_writer_that_wakes_up_after_a_take_over_is_fenced_and_has_no_effect() {
    let (Some(options), Some(server)) = (fresh(), shared()) else { return };
    let link = Link::to(server.port());
    let mut processes = Processes::default();
    let linked = Options { server: Server::address_at(link.port()), ..options.clone() };
    let earlier = block_on(processes.open(linked)).expect("it opens");
    block_on(earlier.append(vec![record(1, 0, b"durable")])).expect("durable");

    link.set(Flow::Held, Flow::Passes);
    let late =
        [earlier.append(vec![record(1, 1, b"late"), record(2, 0, b"late")]), earlier.append(vec![record(3, 0, b"")])];
    let options = Options { node: "the next one".to_owned(), ..options };
    let journal = block_on(processes.open(options)).expect("it opens");
    assert_eq!(block_on(journal.last(&key(1))), Ok(Seq(1)));
    block_on(journal.append(vec![record(1, 1, b"new")])).expect("durable");
    link.set(Flow::Passes, Flow::Passes);

    let fenced = Refusal::Fenced { epoch: journal.epoch(), by: "the next one".to_owned() };
    for late in late {
        assert_eq!(block_on(late), Err(fenced.clone().into()));
    }
    assert_eq!(block_on(earlier.failed()), Some(fenced.to_string()));
    block_on(journal.append(vec![record(1, 2, b"newer")])).expect("the new writer is not disturbed");
    let payloads: Vec<_> = read_all(&journal).into_iter().map(|record| record.payload).collect();
    assert_eq!(payloads, [&b"durable"[..], b"new", b"newer"]);
}

/// Each is told which one took over from it, and only the last one writes.
#[test]
fn writers_that_take_over_at_once_have_a_reign_each() {
    let Some(options) = fresh() else { return };
    let opening = (0..8).map(|n: u64| {
        let options = Options { node: n.to_string(), ..options.clone() };
        thread::spawn(move || {
            let mut processes = Processes::default();
            let journal = block_on(processes.open(options)).expect("it opens");
            (journal, processes)
        })
    });
    let opening: Vec<_> = opening.collect();
    let mut reigns: Vec<_> = opening.into_iter().map(|opening| opening.join().expect("no panic")).collect();
    reigns.sort_by_key(|(journal, _)| journal.epoch());
    let epochs: Vec<u64> = reigns.iter().map(|(journal, _)| journal.epoch()).collect();
    assert!(epochs.is_sorted_by(|earlier, later| earlier < later), "{epochs:?}");
    let (last, _kept) = reigns.pop().expect("eight");
    assert_eq!(block_on(last.append(vec![record(1, 0, b"last")])), Ok(Position(1)));
    for (earlier, _) in &reigns {
        let refused = block_on(earlier.append(vec![record(1, 0, b"earlier")]));
        assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
    }
    assert_eq!(read_all(&last).len(), 1);
}

/// A trigger holds an insert up that has locked the row of the owner.
#[test]
fn a_take_over_waits_for_what_is_being_inserted() {
    let Some(options) = fresh() else { return };
    let mut processes = Processes::default();
    let earlier = block_on(processes.open(options.clone())).expect("it opens");
    let admin = Admin::of(&options);
    let lock = format!("hashtext('{}')", options.schema);
    admin.does(&format!(
        "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_advisory_xact_lock({lock}); RETURN NEW; END $$;
         CREATE TRIGGER hold BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION hold();
         SELECT pg_advisory_lock({lock})"
    ));
    let under_way = earlier.append(vec![record(1, 0, b"under way")]);
    admin.waits_for("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory'");
    let node = options.schema.clone();
    let opening = thread::spawn({
        let options = Options { node: node.clone(), ..options.clone() };
        move || {
            let mut processes = Processes::default();
            let journal = block_on(processes.open(options)).expect("it opens");
            (journal, processes)
        }
    });
    admin.waits_for(&format!(
        "SELECT 1 FROM pg_stat_activity WHERE application_name = 'enact {node}' AND wait_event_type = 'Lock'"
    ));
    admin.does(&format!("SELECT pg_advisory_unlock({lock})"));
    let (journal, _processes) = opening.join().expect("no panic");
    assert_eq!(block_on(under_way), Ok(Position(1)));
    assert_eq!(block_on(journal.last(&key(1))), Ok(Seq(1)));
    assert_eq!(block_on(journal.append(vec![record(1, 1, b"new")])), Ok(Position(2)));
}

/// Waits until nothing is asked for a new entity.
fn wait_until_known(journal: &Postgres, admin: &Admin) {
    let last_question =
        || admin.asks("SELECT max(query_start)::text FROM pg_stat_activity WHERE application_name LIKE 'enact%'");
    for id in 1_000_000.. {
        let before = last_question();
        assert_eq!(block_on(journal.last(&key(id))), Ok(Seq::NONE));
        if last_question() == before {
            return;
        }
    }
}

#[test]
fn a_new_entity_is_loaded_without_a_question_and_none_that_is_there_is_taken_for_one() {
    let Some(mut single) = Single::start() else { return };
    let mut processes = Processes::default();
    let earlier = block_on(processes.open(single.options())).expect("it opens");
    for id in 0..100 {
        block_on(earlier.append(vec![record(id, 0, b"x")])).expect("durable");
    }
    let journal = block_on(processes.open(single.options())).expect("it opens");
    for id in 0..100 {
        assert_eq!(block_on(journal.load(&key(id))).expect("readable").last(), Seq(1), "{id}");
    }
    let admin = Admin::of(&single.options());
    wait_until_known(&journal, &admin);
    drop(admin);
    single.server.kill();
    for id in 100..200 {
        assert_eq!(block_on(journal.load(&key(id))), Ok(Loaded::default()));
        assert_eq!(block_on(journal.read(&key(id), Seq::NONE)), Ok(Vec::new()));
        assert_eq!(block_on(journal.last(&key(id))), Ok(Seq::NONE));
        assert_eq!(block_on(journal.load_snapshot(&key(id))), Ok(None));
        assert!(block_on(journal.append(vec![record(id, 1, b"x")])).is_err(), "it has no first record");
    }
    single.server.restart();
    assert_eq!(block_on(journal.append(vec![record(100, 0, b"x")])), Ok(Position(101)));
}
