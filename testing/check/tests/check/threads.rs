//! Recorders on threads, around stores that are right and stores that are not.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use enact_check::{Anomaly, CheckError, Criterion, History, Recorder, Tickets, Token, Variable};

const VARIABLES: usize = 8;

/// A token that no other attempt writes.
fn token(thread: u32, number: u64) -> u64 {
    u64::from(thread + 1) << 32 | number
}

#[test]
fn threads_that_take_turns_on_one_lock_are_opaque() {
    let (tickets, store) = (Tickets::default(), Mutex::new([0_u64; VARIABLES]));
    let thread = |id: u32| {
        let mut recorder = Recorder::new(id);
        for number in 0..500 {
            recorder.begin(tickets.next());
            let mut held = store.lock().expect("no panic");
            let mut copy = *held;
            for step in 0..3 {
                let at = (number as usize * (step + 3) + id as usize) % VARIABLES;
                recorder.read(Variable(at as u64), Token(copy[at]));
                let new = token(id, number * 3 + step as u64);
                recorder.replace(Variable(at as u64), Token(copy[at]), Token(new));
                copy[at] = new;
            }
            let is_committed = number % 5 != 0;
            if is_committed {
                *held = copy;
            }
            drop(held);
            if is_committed { recorder.commit(tickets.next()) } else { recorder.abort(tickets.next()) }
        }
        recorder
    };
    let recorders = std::thread::scope(|scope| {
        let threads = [0, 1, 2].map(|id| scope.spawn(move || thread(id)));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    let coverage = History::merge(recorders).check(Criterion::Opaque).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((coverage.committed_count, coverage.aborted_count), (1200, 300));
    assert!(coverage.read_count >= 1500 && coverage.dependency_count > 3000, "{coverage:?}");
}

/// A store that locks every variable by itself: another thread can write between two reads.
#[test]
fn a_reader_between_whose_reads_another_commits_is_found_although_it_aborts() {
    let (tickets, store) = (Tickets::default(), [0, 0].map(Mutex::new));
    let (read_once, has_read_once) = channel();
    let (written, is_written) = channel();
    let history = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut recorder = Recorder::new(0);
            let has_read_once = has_read_once;
            has_read_once.recv().expect("the reader runs");
            recorder.begin(tickets.next());
            for (variable, cell) in (0..).zip(&store) {
                let old = std::mem::replace(&mut *cell.lock().expect("no panic"), 7);
                recorder.replace(Variable(variable), Token(old), Token(7));
            }
            recorder.commit(tickets.next());
            written.send(()).expect("the reader runs");
            recorder
        });
        let mut recorder = Recorder::new(1);
        recorder.begin(tickets.next());
        for (variable, cell) in (0..).zip(&store) {
            recorder.read(Variable(variable), Token(*cell.lock().expect("no panic")));
            if variable == 0 {
                read_once.send(()).expect("the writer runs");
                is_written.recv().expect("the writer runs");
            }
        }
        recorder.abort(tickets.next());
        History::merge([writer.join().expect("no panic"), recorder])
    });
    assert!(history.check(Criterion::StrictlySerializable).is_ok());
    let error = history.check(Criterion::Opaque).expect_err("the reader has seen no snapshot");
    assert_eq!(error.anomaly(), Some(Anomaly::GSingle), "{error}");
}

#[test]
fn a_counter_that_is_not_locked_between_reading_and_writing_loses_an_update() {
    let (tickets, counter) = (Arc::new(Tickets::default()), Arc::new(Mutex::new(0)));
    let both_have_read = Arc::new(std::sync::Barrier::new(2));
    let threads = [0, 1].map(|id| {
        let (tickets, counter, both_have_read) = (tickets.clone(), counter.clone(), both_have_read.clone());
        std::thread::spawn(move || {
            let mut recorder = Recorder::new(id);
            recorder.begin(tickets.next());
            let old = *counter.lock().expect("no panic");
            recorder.read(Variable(0), Token(old));
            both_have_read.wait();
            *counter.lock().expect("no panic") = token(id, 0);
            recorder.replace(Variable(0), Token(old), Token(token(id, 0)));
            recorder.commit(tickets.next());
            recorder
        })
    });
    let history = History::merge(threads.map(|thread| thread.join().expect("no panic")));
    let error = history.check(Criterion::Serializable).expect_err("one of them is lost");
    assert_eq!(error.anomaly(), Some(Anomaly::LostUpdate), "{error}");
}

#[test]
fn an_empty_history_is_fine_and_says_that_nothing_was_checked() {
    let history = History::merge([Recorder::new(0)]);
    assert!(history.is_empty());
    assert_eq!(history.check(Criterion::Opaque), Ok::<_, CheckError>(enact_check::Coverage::default()));
}

#[test]
#[should_panic(expected = "attempt 1 of thread 3 has not ended")]
fn a_second_beginning_is_an_error_of_the_test() {
    let mut recorder = Recorder::new(3);
    recorder.begin(0);
    recorder.begin(1);
}

#[test]
#[should_panic(expected = "thread 3 is between two attempts")]
fn an_operation_between_attempts_is_an_error_of_the_test() {
    let mut recorder = Recorder::new(3);
    recorder.begin(0);
    recorder.commit(1);
    recorder.read(Variable(0), Token::INITIAL);
}
