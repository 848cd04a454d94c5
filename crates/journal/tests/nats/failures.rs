//! Servers that are killed, links that lose what they carry, and writers that wake up too late.

use std::collections::VecDeque;

use enact_journal::nats::{Nats, Options};
use enact_journal::{AppendError, Damage, Flaw, Journal, Position, ReadError, Refusal, Seq};
use enact_journal_kit::contract::block_on;

use crate::proxy::Proxy;
use crate::records::{key, read_all, record};
use crate::support::{Processes, Raw, Single};

/// Appends to eight entities, 64 at once, until `count` are durable, and calls `at` with how many are.
pub(crate) fn append_under_way(journal: &Nats, from: u64, count: u64, mut at: impl FnMut(u64)) {
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
pub(crate) fn assert_whole(journal: &Nats, count: u64) {
    let payloads: Vec<Vec<u8>> = read_all(journal).into_iter().map(|record| record.payload).collect();
    let written: Vec<Vec<u8>> = (0..count).map(|n| n.to_be_bytes().to_vec()).collect();
    assert!(payloads == written, "{} are there, {count} are durable", payloads.len());
    for entity in 0..8 {
        let of_entity = block_on(journal.load(&key(entity))).expect("readable").records;
        assert_eq!(of_entity.len() as u64, (0..count).filter(|n| n % 8 == entity).count() as u64);
    }
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_when_the_server_is_killed_under_load() {
    let Some(mut single) = Single::start() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    append_under_way(&journal, 0, 3000, |durable| {
        if durable % 500 == 0 {
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

/// What an earlier writer has sent arrives after another one has taken over.
#[test]
fn a_writer_that_wakes_up_after_a_take_over_is_fenced_and_has_no_effect() {
    let Some(single) = Single::start() else { return };
    let proxy = Proxy::before(&single.server.address());
    let mut processes = Processes::default();
    let earlier = block_on(processes.open(Options::at(proxy.address()))).expect("it opens");
    block_on(earlier.append(vec![record(1, 0, b"durable")])).expect("durable");

    proxy.hold_requests(true);
    let late =
        [earlier.append(vec![record(1, 1, b"late"), record(2, 0, b"late")]), earlier.append(vec![record(3, 0, b"")])];
    let options = Options { node: "the next one".to_owned(), ..single.options() };
    let journal = block_on(processes.open(options)).expect("it opens");
    assert_eq!(block_on(journal.last(&key(1))), Ok(Seq(1)));
    block_on(journal.append(vec![record(1, 1, b"new")])).expect("durable");
    proxy.hold_requests(false);

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
    let Some(single) = Single::start() else { return };
    let opening = (0..8).map(|n: u64| {
        let options = Options { node: n.to_string(), ..single.options() };
        std::thread::spawn(move || {
            let mut processes = Processes::default();
            let journal = block_on(processes.open(options)).expect("it opens");
            (journal, processes)
        })
    });
    let opening: Vec<_> = opening.collect();
    let mut reigns: Vec<_> = opening.into_iter().map(|opening| opening.join().expect("no panic")).collect();
    reigns.sort_by_key(|(journal, _)| journal.epoch());
    let epochs: Vec<u64> = reigns.iter().map(|(journal, _)| journal.epoch()).collect();
    assert_eq!(epochs, (1..=8).collect::<Vec<_>>());
    let (last, _kept) = reigns.pop().expect("eight");
    assert_eq!(block_on(last.append(vec![record(1, 0, b"last")])), Ok(Position(1)));
    for (earlier, _) in &reigns {
        let refused = block_on(earlier.append(vec![record(1, 0, b"earlier")]));
        assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
    }
    assert_eq!(read_all(&last).len(), 1);
}

/// The server stores a group and the answer gets lost, with the connection.
#[test]
fn an_append_whose_answer_is_lost_is_durable_once() {
    let Some(single) = Single::start() else { return };
    let proxy = Proxy::before(&single.server.address());
    let mut processes = Processes::default();
    let journal = block_on(processes.open(Options::at(proxy.address()))).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"0")])).expect("durable");
    for round in 1..=3 {
        proxy.hold_answers();
        let alone = journal.append(vec![record(1, 3 * round - 2, b"alone")]);
        let together = journal.append(vec![record(1, 3 * round - 1, b"1"), record(1, 3 * round, b"2")]);
        proxy.wait_for_answer();
        proxy.cut_answers();
        assert_eq!(block_on(alone), Ok(Position(3 * round - 1)));
        assert_eq!(block_on(together), Ok(Position(3 * round + 1)));
    }
    let kept: Vec<u64> = read_all(&journal).iter().map(|record| record.seq.0).collect();
    assert_eq!(kept, (1..=10).collect::<Vec<_>>());
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

#[test]
fn a_full_disk_refuses_appends_and_the_journal_goes_on() {
    let Some(single) = Single::start_with(", max_file: 4MB", "") else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    let payload = vec![0; 256 << 10];
    let mut durable = 0;
    let refused = loop {
        match block_on(journal.append(vec![record(1, durable, &payload)])) {
            Ok(_) => durable += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, AppendError::Refused(Refusal::StorageFull { .. })), "{refused}");
    assert!(durable >= 4, "{durable} were taken");
    assert_eq!(block_on(journal.last(&key(1))), Ok(Seq(durable)));
    assert_eq!(block_on(journal.append(vec![])), Ok(Position(durable)), "it has not failed");
    assert_eq!(read_all(&journal).len() as u64, durable);
}

#[test]
fn what_the_writer_has_not_written_ends_its_reign_and_is_damage_of_its_entity() {
    let Some(single) = Single::start() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    for n in 0..3 {
        block_on(journal.append(vec![record(1, n, b"x"), record(2, n, b"x"), record(3, n, b"x")])).expect("durable");
    }
    let raw = Raw::at(&single.server.address());
    // The first record of 1 once more, and something else for 2, at 11 and 12.
    raw.publish_again("J0", 2);
    raw.publish("j.0.e.Account.2", "x");
    let refused = block_on(journal.append(vec![record(3, 3, b"x")]));
    assert_eq!(refused, Err(Refusal::Fenced { epoch: 11, by: "an unknown writer".to_owned() }.into()));

    let journal = block_on(processes.open(single.options())).expect("it opens");
    let damage = |entity| match block_on(journal.load(&key(entity))) {
        Err(ReadError::Damaged(Damage { file, flaw, .. })) => (file, flaw),
        other => panic!("it is read: {other:?}"),
    };
    let (file, flaw) = damage(1);
    assert!(file.ends_with("of stream J0") && matches!(flaw, Flaw::Chain { .. }), "{file}: {flaw}");
    assert_eq!(damage(2), ("message 12 of stream J0".to_owned(), Flaw::Record));
    assert_eq!(block_on(journal.load(&key(3))).expect("not concerned").last(), Seq(3));
    block_on(journal.append(vec![record(3, 3, b"x")])).expect("not concerned");
    assert!(matches!(block_on(journal.append(vec![record(2, 3, b"x")])), Err(AppendError::Refused(_))));
}
