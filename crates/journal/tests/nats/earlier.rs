//! Nothing is asked for an entity that is new, and no entity that is there is taken for one.

use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use enact_journal::nats::{Nats, Options};
use enact_journal::{AppendError, Journal, Loaded, ReadError, Refusal, Seq, Snapshot};
use enact_journal_kit::contract::block_on;
use serde_json::json;

use crate::cluster::Three;
use crate::proxy::Proxy;
use crate::records::{key, read_all, record};
use crate::support::{Processes, Raw, Single};

/// A number that no entity of these tests has.
const NEW: u64 = 1_000_000;

/// Questions that were asked through `proxies` so far.
fn questions(proxies: &[Proxy]) -> u64 {
    proxies.iter().map(Proxy::questions).sum()
}

/// Waits until nothing is asked for a new entity.
fn wait_until_known(journal: &Nats, proxies: &[Proxy]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    for id in 2 * NEW.. {
        let before = questions(proxies);
        assert_eq!(block_on(journal.last(&key(id))), Ok(Seq::NONE));
        if questions(proxies) == before {
            return;
        }
        assert!(Instant::now() < deadline, "a new entity is still asked for");
    }
}

/// Nothing is asked for each of some new entities, before and after its first record.
fn assert_new_ones_are_free(journal: &Nats, proxies: &[Proxy]) {
    let before = questions(proxies);
    for id in NEW..NEW + 100 {
        assert_eq!(block_on(journal.load(&key(id))), Ok(Loaded::default()));
        assert_eq!(block_on(journal.read(&key(id), Seq::NONE)), Ok(Vec::new()));
        assert_eq!(block_on(journal.last(&key(id))), Ok(Seq::NONE));
        assert_eq!(block_on(journal.load_snapshot(&key(id))), Ok(None));
        assert!(block_on(journal.append(vec![record(id, 1, b"x")])).is_err(), "it has no first record");
        block_on(journal.append(vec![record(id, 0, b"x")])).expect("durable");
        assert_eq!(block_on(journal.last(&key(id))), Ok(Seq(1)));
    }
    assert_eq!(questions(proxies), before);
    assert_eq!(block_on(journal.load(&key(NEW))).expect("readable").last(), Seq(1));
}

#[test]
fn a_new_entity_is_loaded_and_appended_to_without_a_question_and_one_that_is_there_with_one_round_trip() {
    let Some(single) = Single::start() else { return };
    let proxies = [Proxy::before(&single.server.address())];
    let mut processes = Processes::default();
    let earlier = block_on(processes.open(single.options())).expect("it opens");
    for id in 0..10 {
        block_on(earlier.append(vec![record(id, 0, b"0"), record(id, 1, b"1")])).expect("durable");
    }
    block_on(earlier.save_snapshot(Snapshot { entity: key(9), seq: Seq(1), payload: b"0".to_vec() })).expect("kept");

    let journal = block_on(processes.open(Options::at(proxies[0].address()))).expect("it opens");
    wait_until_known(&journal, &proxies);
    assert_new_ones_are_free(&journal, &proxies);
    for id in 0..10 {
        let before = questions(&proxies);
        let loaded = block_on(journal.load(&key(id))).expect("readable");
        assert_eq!((loaded.last(), loaded.snapshot.is_some()), (Seq(2), id == 9));
        assert_eq!(questions(&proxies) - before, 3, "for its end, its snapshot and its records, at once");
    }
}

/// Creates entities from `first` on, a few at once, until it is fenced off; how many are durable. Says when some are.
fn create_until_fenced(journal: &Nats, first: u64, some: &Sender<()>) -> u64 {
    let mut under_way = VecDeque::new();
    let mut created = first..;
    for durable in 0.. {
        while under_way.len() < 4 {
            under_way.extend(created.next().map(|id| journal.append(vec![record(id, 0, b"x")])));
        }
        match block_on(under_way.pop_front().expect("four")) {
            Ok(_) if durable == 50 => some.send(()).expect("somebody waits"),
            Ok(_) => {}
            Err(AppendError::Refused(Refusal::Fenced { .. })) => return durable,
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!("it is fenced off")
}

#[test]
fn what_an_earlier_writer_creates_to_the_last_is_not_taken_for_new() {
    let Some(single) = Single::start() else { return };
    let proxies = [Proxy::before(&single.server.address())];
    let mut processes = Processes::default();
    let mut earlier = block_on(processes.open(single.options())).expect("it opens");
    for round in 0..5_u64 {
        let first = NEW / 10 * round;
        let (some, are_there) = channel();
        let creating = thread::spawn(move || create_until_fenced(&earlier, first, &some));
        are_there.recv().expect("it creates some");
        let journal = block_on(processes.open(Options::at(proxies[0].address()))).expect("it opens");
        let durable = creating.join().expect("no panic");
        wait_until_known(&journal, &proxies);
        for n in 0..durable + 4 {
            let last = block_on(journal.load(&key(first + n))).expect("readable").last();
            assert_eq!(last, Seq(u64::from(n < durable)), "{n} of {durable} that are durable in round {round}");
        }
        earlier = journal;
    }
}

#[test]
fn a_take_over_after_the_leader_of_the_stream_was_killed_knows_all_entities() {
    let Some(mut three) = Three::start() else { return };
    let proxies = [0, 1, 2].map(|n| Proxy::before(&three.servers[n].address()));
    let addresses: Vec<String> = proxies.iter().map(Proxy::address).collect();
    let options = Options { replicas: 3, ..Options::at(addresses.join(",")) };
    let mut processes = Processes::default();
    for round in 0..3_u64 {
        let journal = block_on(processes.open(options.clone())).expect("it opens");
        let under_way: Vec<_> = (0..300).map(|n| journal.append(vec![record(1000 * round + n, 0, b"x")])).collect();
        let leader = three.leader("J0");
        three.servers[leader].kill();
        for append in under_way {
            block_on(append).expect("durable");
        }
        drop(journal);
        let journal = block_on(processes.open(options.clone())).expect("it opens");
        wait_until_known(&journal, &proxies);
        for id in (0..=round).flat_map(|round| 1000 * round..1000 * round + 300) {
            assert_eq!(block_on(journal.last(&key(id))), Ok(Seq(1)), "{id}");
        }
        assert_eq!(read_all(&journal).len() as u64, 300 * (round + 1));
        three.servers[leader].restart();
    }
}

/// The stream of records is gone and made anew, the one of snapshots is there.
#[test]
fn a_snapshot_without_records_is_damage_and_no_new_entity() {
    let Some(single) = Single::start() else { return };
    let proxies = [Proxy::before(&single.server.address())];
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"0")])).expect("durable");
    block_on(journal.save_snapshot(Snapshot { entity: key(1), seq: Seq(1), payload: b"0".to_vec() })).expect("kept");
    drop(journal);
    let deleted = Raw::at(&single.server.address()).ask("STREAM.DELETE.J0", &json!({}));
    assert_eq!(deleted["success"], true, "{deleted}");

    let journal = block_on(processes.open(Options::at(proxies[0].address()))).expect("it opens");
    wait_until_known(&journal, &proxies);
    assert!(matches!(block_on(journal.load(&key(1))), Err(ReadError::Damaged(_))));
    assert!(matches!(block_on(journal.load_snapshot(&key(1))), Err(ReadError::Damaged(_))));
    assert_eq!(block_on(journal.load(&key(2))), Ok(Loaded::default()));
}
