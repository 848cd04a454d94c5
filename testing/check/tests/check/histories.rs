//! Histories made by hand, with the verdicts that the definitions give them.
//!
//! A line of a history is one attempt: its thread, its first and last ticket, `C` for committed or `A` for aborted, and
//! what it did. `rx0` reads token 0 of `x`, `wx1` writes token 1, `wx0>1` writes it over token 0.

use Anomaly::{G0, G1a, G1b, G1c, G2Item, GSingle, Internal, LostUpdate, RealTime, Unwritten};
use Criterion::{Opaque, Serializable, StrictlySerializable};
use enact_check::oracle::is_explained;
use enact_check::{
    Anomaly, CheckError, Criterion, Cycle, Dependency, History, Malformed, Recorder, Token, Variable, Violation,
};

use crate::notation::history;

type Verdict = Option<Anomaly>;

const FINE: Verdict = None;

/// The verdicts of the three criteria, and those of the definition itself.
#[track_caller]
fn check(name: &str, text: &str, verdicts: [Verdict; 3]) {
    let history = history(text);
    for (criterion, expected) in [Serializable, StrictlySerializable, Opaque].into_iter().zip(verdicts) {
        let found = history.check(criterion);
        if let Err(CheckError::Malformed(malformed)) = &found {
            panic!("{name}, {criterion:?}: {malformed}");
        }
        let anomaly = found.as_ref().err().and_then(CheckError::anomaly);
        assert_eq!(anomaly, expected, "{name}, {criterion:?}: {found:?}");
        assert_eq!(is_explained(&history, criterion), expected.is_none(), "{name}, {criterion:?}, by its definition");
    }
}

/// The same verdict for every criterion.
const fn all(anomaly: Anomaly) -> [Verdict; 3] {
    [Some(anomaly); 3]
}

/// Only opacity asks for more.
const fn opaque(anomaly: Anomaly) -> [Verdict; 3] {
    [FINE, FINE, Some(anomaly)]
}

const VALID: [Verdict; 3] = [FINE; 3];
const LATE: [Verdict; 3] = [FINE, Some(RealTime), Some(RealTime)];

#[test]
fn what_a_serial_order_explains_is_fine() {
    let rows = [
        ("nothing", ""),
        ("an attempt that does nothing", "0 1-2 C"),
        ("reads of what nobody writes", "0 1-2 C rx0 ry0"),
        ("a write and a later read", "0 1-2 C wx1; 1 3-4 C rx1"),
        ("a read of the version before a write that runs at the same time", "0 1-4 C wx1; 1 2-3 C rx0"),
        ("a read of a write that runs at the same time", "0 1-4 C wx1; 1 2-3 C rx1"),
        ("increments one after the other", "0 1-2 C rx0 wx1; 1 3-4 C rx1 wx2; 0 5-6 C rx2 wx3"),
        ("increments that name what they replace", "0 1-2 C rx0 wx0>7; 1 3-4 C rx7 wx7>3; 0 5-6 C rx3 wx3>5"),
        ("a read of its own write", "0 1-2 C wx1 rx1 wx2 rx2"),
        ("a read repeated", "0 1-3 C rx0 rx0; 1 2-4 C wx1"),
        ("an attempt that overwrites its own write", "0 1-2 C wx1 wx2; 1 3-4 C rx2"),
        ("the same where writes name what they replace", "0 1-2 C wx0>1 wx1>2; 1 3-4 C rx2 wx2>1000"),
        ("blind writes in the order of the tokens", "0 1-4 C wx1 wy1; 1 2-3 C wx2 wy2"),
        ("writes of different variables", "0 1-4 C rx0 wx1; 1 2-3 C ry0 wy1"),
        ("an aborted write that nobody has seen", "0 1-2 A rx0 wx1; 1 3-4 C rx0 wx2"),
        ("an aborted attempt that has seen one snapshot", "0 1-3 C wx1 wy1; 1 2-5 A rx1 ry1; 0 4-6 C wx2 wy2"),
        ("aborted attempts that see both sides of one write", "0 1-8 C wx1 wy1; 1 2-3 A rx0 ry0; 1 4-5 A rx1 ry1"),
        ("an aborted attempt that reads its own write", "0 1-2 A wx1 rx1; 1 3-4 C rx0"),
        ("a reader that overlaps and is put first", "0 1-4 C wx1; 1 2-6 C rx0; 0 5-7 C rx1 wx2"),
        ("an attempt that has not ended", "0 1-2 C wx1; 1 1-max A rx0; 0 3-4 C rx1"),
    ];
    rows.into_iter().for_each(|(name, text)| check(name, text, VALID));
}

#[test]
fn a_read_that_is_wrong_by_itself_is_named() {
    let rows = [
        ("a read that does not see its own write", "0 1-2 C wx1 rx0", all(Internal)),
        ("a read that changes", "0 1-4 C rx0 rx1; 1 2-3 C wx1", all(Internal)),
        ("a read that changes back", "0 1-2 C wx1; 1 3-6 C rx1 rx2 rx1; 0 4-5 C wx2", all(Internal)),
        ("a read of what it will write", "0 1-2 C rx1 wx1", all(Internal)),
        ("a read of what it will overwrite", "0 1-2 C rx1 wx1 wx2", all(Internal)),
        ("a read that changes in an aborted attempt", "0 1-4 A rx0 rx1; 1 2-3 C wx1", opaque(Internal)),
        ("a read out of nowhere", "0 1-2 C rx5", all(Unwritten)),
        ("the same in an aborted attempt", "0 1-2 A rx5", opaque(Unwritten)),
        ("a token of another variable", "0 1-2 C wy5; 1 3-4 C rx5", all(Unwritten)),
        ("a read of an aborted write", "0 1-4 A wx1; 1 2-3 C rx1", all(G1a)),
        ("a read of a write before it aborts, aborted as well", "0 1-4 A wx1; 1 2-3 A rx1", opaque(G1a)),
        ("a read of a write of an attempt that has not ended", "0 1-max A wx1; 1 2-3 C rx1", all(G1a)),
        ("a read of an aborted write that was overwritten", "0 1-4 A wx1 wx2; 1 2-3 C rx1", all(G1a)),
        ("a read of a write that was overwritten by its writer", "0 1-4 C wx1 wx2; 1 2-3 C rx1", all(G1b)),
        ("the same in an aborted attempt", "0 1-4 C wx1 wx2; 1 2-3 A rx1", opaque(G1b)),
    ];
    rows.into_iter().for_each(|(name, text, verdicts)| check(name, text, verdicts));
}

#[test]
fn a_cycle_gets_the_name_that_its_dependencies_give_it() {
    let rows = [
        ("two writes in two orders", "0 1-4 C wx1 wy2; 1 2-3 C wx2 wy1", all(G0)),
        ("three writers in a circle", "0 1-6 C wx1 wz2; 1 2-5 C wx2 wy1; 2 3-4 C wy2 wz1", all(G0)),
        ("each has read what the other wrote", "0 1-4 C wx1 ry1; 1 2-3 C wy1 rx1", all(G1c)),
        ("a write overwritten by what it had read", "0 1-4 C wx1 ry1; 1 2-3 C wx2 wy1", all(G1c)),
        ("a later write read by an earlier one", "0 1-4 C wx1 ry1; 1 2-3 C rx1 wy1", all(G1c)),
        ("three in a circle of reads", "0 1-6 C wx1 rz1; 1 2-5 C wy1 rx1; 2 3-4 C wz1 ry1", all(G1c)),
        ("two increments of one version", "0 1-3 C rx0 wx1; 1 2-4 C rx0 wx2", all(LostUpdate)),
        ("two increments that name what they replace", "0 1-3 C rx0 wx0>1; 1 2-4 C rx0 wx0>2", all(LostUpdate)),
        ("three increments of which the last has missed one", THREE_INCREMENTS, all(LostUpdate)),
        ("an increment over a blind write", "0 1-4 C rx0 wx2; 1 2-3 C wx1", all(LostUpdate)),
        ("a read before and a read after one write", "0 1-4 C rx0 ry1; 1 2-3 C wx1 wy1", all(GSingle)),
        ("the same in an aborted attempt", "0 1-4 A rx0 ry1; 1 2-3 C wx1 wy1", opaque(GSingle)),
        ("a read that misses what another had read", "0 1-6 C rx0 ry1; 1 2-3 C wx1; 2 4-5 C rx1 wy1", all(GSingle)),
        ("write skew", "0 1-4 C rx0 ry0 wx1; 1 2-3 C rx0 ry0 wy1", all(G2Item)),
        ("write skew of three", "0 1-6 C rx0 wy1; 1 2-5 C ry0 wz1; 2 3-4 C rz0 wx1", all(G2Item)),
        ("the read-only anomaly of snapshots", READ_ONLY_ANOMALY, all(G2Item)),
        ("a long fork", LONG_FORK, all(G2Item)),
        ("a long fork that one reader aborts", LONG_FORK_ABORTED, opaque(G2Item)),
        ("a zombie between two commits", ZOMBIE, opaque(GSingle)),
    ];
    rows.into_iter().for_each(|(name, text, verdicts)| check(name, text, verdicts));
}

const THREE_INCREMENTS: &str = "0 1-2 C rx0 wx1; 1 3-6 C rx1 wx3; 0 4-5 C rx1 wx2";
/// A balance and savings, both 0: a deposit is seen by a report that does not see the withdrawal before it.
const READ_ONLY_ANOMALY: &str = "0 1-8 C rx0 ry0 wx1; 1 2-3 C ry0 wy1; 2 4-5 C rx0 ry1";
const LONG_FORK: &str = "0 1-8 C wx1; 1 2-7 C wy1; 2 3-6 C rx1 ry0; 3 4-5 C rx0 ry1";
const LONG_FORK_ABORTED: &str = "0 1-8 C wx1; 1 2-7 C wy1; 2 3-6 C rx1 ry0; 3 4-5 A rx0 ry1";
const ZOMBIE: &str = "0 1-2 C wx1 wy1; 1 3-8 A rx1 ry2; 0 4-5 C rx1 wx2 ry1 wy2; 2 6-7 C rx2 ry2";

#[test]
fn what_only_real_time_forbids_is_serializable() {
    let rows = [
        ("a read of an old version", "0 1-2 C wx1; 1 3-4 C rx0", LATE),
        ("a read of a version that is written later", "0 1-2 C rx1; 1 3-4 C wx1", LATE),
        ("versions against time", "0 1-2 C wx2; 1 3-4 C wx1", LATE),
        ("an old version in an aborted attempt", "0 1-2 C wx1; 1 3-4 A rx0", opaque(RealTime)),
        ("a version of the future in an aborted attempt", "0 1-2 A rx1; 1 3-4 C wx1", opaque(RealTime)),
        (
            "two readers in one thread that go back",
            "0 1-6 C wx1; 1 2-3 C rx1; 1 4-5 C rx0",
            [FINE, Some(RealTime), Some(RealTime)],
        ),
        ("an aborted reader that goes back", "0 1-6 C wx1; 1 2-3 A rx1; 1 4-5 A rx0", opaque(RealTime)),
        ("a reader of old versions over two moments", "0 1-2 C wx1; 1 3-4 C ry0; 2 5-6 C rx0", LATE),
    ];
    rows.into_iter().for_each(|(name, text, verdicts)| check(name, text, verdicts));
    // Equal tickets are no order.
    check("an end at the ticket of a beginning", "0 1-3 C wx1; 1 3-4 C rx0", VALID);
}

/// The cycle of a history that has one.
fn cycle(text: &str, criterion: Criterion) -> Cycle {
    match history(text).check(criterion) {
        Err(CheckError::Violation(Violation::Cycle(cycle))) => cycle,
        other => panic!("it has a cycle: {other:?}"),
    }
}

#[test]
fn a_violation_is_told_by_its_shortest_cycle() {
    // The long way round goes over thread 2.
    let text = "0 1-9 C rx0 ry1 wv1; 1 2-8 C wx1 wy1; 2 3-7 C rv1 wu1; 3 4-6 C ru1 rx0 ry0";
    let found = cycle(text, Serializable);
    assert_eq!(found.anomaly, GSingle);
    assert_eq!(found.steps.len(), 2);
    assert_eq!(
        found.to_string(),
        "G-single (read skew): each of these precedes the next one\n  \
         t0/0, which read 0 of x0, where t1/0 then wrote 1\n  \
         t1/0, which wrote 1 to x1, where t0/0 read it"
    );
    let steps = found.steps.iter();
    assert!(steps.clone().zip(steps.cycle().skip(1)).all(|(step, next)| step.to == next.from));
}

#[test]
fn real_time_is_one_step_however_many_moments_pass() {
    let found = cycle("0 1-2 C wx1; 1 3-4 C; 1 5-6 C; 1 7-8 C; 2 9-10 A rx0", Opaque);
    assert_eq!(
        found.to_string(),
        "real-time violation: each of these precedes the next one\n  \
         t0/0, which ended before t2/0 began\n  \
         t2/0 (aborted), which read 0 of x0, where t0/0 then wrote 1"
    );
}

#[test]
fn a_lost_update_names_the_write_that_was_missed() {
    let found = cycle("0 1-4 C rx0 wx9; 1 2-3 C wx3; 2 2-3 C wx5", Serializable);
    assert_eq!(
        found.to_string(),
        "lost update: each of these precedes the next one\n  \
         t0/0, which read 0 of x0, where t1/0 then wrote 3\n  \
         t1/0, which wrote 3 to x0 before t0/0 wrote 9"
    );
    assert!(matches!(found.steps[1].dependency, Dependency::Write { .. }));
}

/// So many attempts in a circle, each of which has read what the next one wrote; `reader` has also read what `writer`
/// wrote.
fn circle(count: u64, (reader, writer): (u64, u64)) -> Cycle {
    let recorders = (0..count).map(|at| {
        let mut recorder = Recorder::new(u32::try_from(at).expect("small"));
        recorder.begin(at);
        recorder.write(Variable(at), Token(1));
        recorder.read(Variable((at + 1) % count), Token(1));
        if at == reader {
            recorder.read(Variable(writer), Token(1));
        }
        recorder.commit(count + at);
        recorder
    });
    match History::merge(recorders).check(Opaque) {
        Err(CheckError::Violation(Violation::Cycle(cycle))) => cycle,
        other => panic!("it has a cycle: {other:?}"),
    }
}

#[test]
fn a_shortcut_through_a_circle_is_taken() {
    let rows = [(8, (0, 1), 8), (8, (0, 3), 6), (8, (6, 0), 7), (8, (0, 7), 2), (40, (0, 20), 21), (40, (38, 0), 39)];
    for (count, shortcut, length) in rows {
        let found = circle(count, shortcut);
        assert_eq!((found.anomaly, found.steps.len()), (G1c, length), "{count}, {shortcut:?}: {found}");
    }
}

#[test]
fn of_a_long_cycle_twenty_steps_are_shown() {
    assert_eq!(circle(20, (0, 1)).to_string().lines().count(), 21);
    let told = circle(21, (0, 1)).to_string();
    assert_eq!((told.lines().count(), told.lines().last()), (22, Some("  and 1 more")));
}

#[test]
fn single_reads_are_told_with_what_they_read() {
    let rows = [
        ("0 1-2 C wx1 rx0", "internal contradiction: t0/0 read 0 of x0 after it had read or written 1"),
        ("0 1-2 C rx1 wx1", "internal contradiction: t0/0 read 1 of x0 before it wrote it"),
        ("0 1-2 C ry5", "unwritten read: t0/0 read 5 of x1"),
        ("0 1-4 A wx1; 1 2-3 C rx1", "G1a (aborted read): t1/0 read 1 of x0, and t0/0 aborted"),
        (
            "0 1-2 C; 0 3-6 C wx1 wx2; 1 4-5 C rx1",
            "G1b (intermediate read): t1/0 read 1 of x0, which t0/1 overwrote itself",
        ),
    ];
    for (text, told) in rows {
        assert_eq!(history(text).check(Opaque).map_err(|error| error.to_string()), Err(told.to_owned()));
    }
}

#[test]
fn a_recording_that_contradicts_itself_is_no_verdict() {
    type Expected = fn(&Malformed) -> bool;
    let rows: [(&str, Expected); 8] = [
        ("0 1-2 C wx1; 1 3-4 C wx1", |it| matches!(it, Malformed::TokenReused { .. })),
        ("0 1-2 A wx1; 1 3-4 C wx1", |it| matches!(it, Malformed::TokenReused { .. })),
        ("0 1-2 C wx1 wx1", |it| matches!(it, Malformed::TokenReused { first, second, .. } if first == second)),
        ("0 1-2 C wx0", |it| matches!(it, Malformed::InitialWritten { .. })),
        ("0 1-2 C wx1; 1 3-4 C wx1>2", |it| matches!(it, Malformed::OrdersMixed { .. })),
        ("0 1-2 C wx0>1; 1 3-4 C wx0>2", |it| matches!(it, Malformed::ReplacedTwice { .. })),
        ("0 1-2 A wx0>1; 1 3-4 C wx1>2", |it| matches!(it, Malformed::ReplacedNothing { .. })),
        ("0 2-1 C", |it| matches!(it, Malformed::EndsBeforeItBegins { .. })),
    ];
    for (text, expected) in rows {
        match history(text).check(Opaque) {
            Err(CheckError::Malformed(malformed)) => assert!(expected(&malformed), "{text}: {malformed}"),
            other => panic!("{text} is malformed: {other:?}"),
        }
    }
}

#[test]
fn what_was_checked_is_counted() {
    let coverage = history("0 1-2 C rx0 wx1; 1 3-4 C rx1 rx1; 0 5-6 A ry0").check(Opaque).expect("it is fine");
    assert_eq!((coverage.committed_count, coverage.aborted_count, coverage.read_count), (2, 1, 3));
    // One read of a write; each end and each beginning but the first with its moment, and two steps between moments.
    assert_eq!(coverage.dependency_count, 1 + 5 + 2);
    let history = history("0 1-2 C wx1; 1 3-4 C rx1");
    assert_eq!(history.check(Serializable).expect("it is fine").dependency_count, 1);
}
