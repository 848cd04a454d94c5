//! Transactions and the turns that their messages cause: each schedule comes to what some serial execution comes to.
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use enact_sync::unmodelled::Arc;

use crate::play::{Marks, play};
use crate::program::Op::{Add, Ask, Await, Become, Copy, Fail, Linger, Part, Read, Spawn, Take, Tell};
use crate::program::Step::{Atomically, Note};
use crate::program::{Kind, Op, Outcome, Program, Step, Turns};
use crate::{explore_one_of, random, serial};

/// More states on the ways to the outcomes of a program are more than a model needs.
const STATES_MAX: usize = 20_000;
/// From how many plays on their marks are judged.
const PLAYED_ENOUGH: usize = 10_000;

/// All kinds of actors.
const KINDS: [Kind; 6] = [
    Kind { is_speculative: false, turns: Turns::Plain },
    Kind { is_speculative: false, turns: Turns::Held },
    Kind { is_speculative: false, turns: Turns::Beside },
    Kind { is_speculative: true, turns: Turns::Plain },
    Kind { is_speculative: true, turns: Turns::Held },
    Kind { is_speculative: true, turns: Turns::Beside },
];

/// Explores `program` with all its actors of each kind.
fn check(program: &Program) {
    check_kinds(program, &KINDS);
}

/// Explores `program` with all its actors of each of these kinds.
///
/// Its schedules have something at stake: where actors may begin before a transaction is decided, every third schedule
/// has such a turn on average, and some turns have never been.
fn check_kinds(program: &Program, kinds: &[Kind]) {
    for &kind in kinds {
        let program = Program { actors: vec![kind; program.actors.len()], ..program.clone() };
        let may_begin_early = kind.is_speculative && program.actors_at_first > 0;
        let allowed = serial::outcomes(&program, STATES_MAX).expect("the program is small");
        let marks = explore_program(program, allowed, kinds.len(), &format!("{kind:?}"));
        let [played, tentative, undone] =
            [&marks.played, &marks.tentative, &marks.undone].map(|mark| mark.load(Ordering::Relaxed));
        if may_begin_early && played >= PLAYED_ENOUGH {
            assert!(3 * tentative > played && undone > 0, "too little was at stake with {kind:?}: {marks:?}");
        }
    }
}

/// Explores a program, which is one of so many variants, and holds it to what is allowed.
fn explore_program(program: Program, allowed: BTreeSet<Outcome>, variants: usize, name: &str) -> Arc<Marks> {
    let (marks, seen) = (Arc::new(Marks::default()), Arc::new(Mutex::new(BTreeSet::new())));
    let (program, marked, sees) = (Arc::new(program), Arc::clone(&marks), Arc::clone(&seen));
    let (named, allowed_count) = (name.to_owned(), allowed.len());
    explore_one_of(variants, move || {
        let outcome = play(&program, &marked, 2);
        assert!(
            allowed.contains(&outcome),
            "{named}: no serial execution of\n    {program:?}\ncomes to\n    {outcome:?}\nbut only to\n    {allowed:#?}"
        );
        sees.lock().expect("nobody panics with it").insert(outcome);
    });
    let seen = seen.lock().expect("nobody panics with it").len();
    println!("{name}: {seen} of {allowed_count} outcomes, {marks:?}");
    marks
}

fn tell(actor: usize, script: usize) -> Step {
    Step::Tell(actor, script)
}

/// A program whose actors all are there from the start.
fn program(
    cells: &[i64],
    actors: usize,
    scripts: impl IntoIterator<Item = Vec<Step>>,
    clients: impl IntoIterator<Item = Vec<Step>>,
) -> Program {
    // `check` chooses the kind.
    let kind = Kind { is_speculative: false, turns: Turns::Plain };
    Program {
        cells: cells.to_vec(),
        actors: vec![kind; actors],
        actors_at_first: actors,
        scripts: scripts.into_iter().collect(),
        clients: clients.into_iter().collect(),
    }
}

fn once(ops: impl Into<Vec<Op>>) -> Step {
    Atomically(ops.into())
}

//   customer 1    customer 2    worker
//   asks within   asks within
//                               reserves tentatively: one seat
//   commits       commits       <- the second finds no seat
#[test]
fn two_customers_get_one_seat_between_them() {
    let [seats, customers, sold] = [0, 1, 2];
    let (worker, reserve) = (0, 0);
    let customer = || vec![once([Add(customers, 1), Ask(worker, reserve), Linger])];
    check(&program(&[1, 0, 0], 1, [vec![once([Take(seats), Add(sold, 1)])]], [customer(), customer()]));
}

//   client 1              client 2   turns
//   x := 1, tells first   x += 10    first: y := x, tells second
//   commits               z := y     second: z += 1
#[test]
fn a_chain_of_turns_over_shared_cells_beside_a_transaction_in_its_way() {
    let [x, y, z] = [0, 1, 2];
    let [first, second] = [0, 1];
    let scripts = [
        vec![once([Read(x), Copy { from: x, to: y }, Tell(second, 1), Linger]), Note(100)],
        vec![once([Read(x), Read(y), Add(z, 1)])],
    ];
    let clients =
        [vec![once([Add(x, 1), Tell(first, 0), Linger])], vec![once([Add(x, 10), Linger, Copy { from: y, to: z }])]];
    check(&program(&[0, 0, 0], 2, scripts, clients));
}

//   sender 1        sender 2
//   tells, x += 1   tells, x += 1
//   commits         runs again: takes its message back, sends it anew
#[test]
fn messages_of_transactions_that_run_again_arrive_exactly_once() {
    let (x, counter) = (0, 0);
    let sender = |script| {
        vec![once([Tell(counter, script), Linger, Add(x, 1), Read(x)]), once([Tell(counter, script), Add(x, 1)])]
    };
    check(&program(&[0], 1, [vec![Note(1)], vec![Note(2)]], [sender(0), sender(1)]));
}

//   client 1   client 2   receiver
//   tells 0               begins 0 tentatively
//   fails      tells 2    <- undoes 0, goes on with 1 and 2
#[test]
fn a_message_of_a_failed_transaction_leaves_nothing_and_what_is_behind_it_goes_on() {
    let [x, y] = [0, 1];
    let receiver = 0;
    let scripts = [
        vec![Note(1), once([Add(y, 1), Read(x)]), Note(2)],
        vec![Note(3), once([Read(y)])],
        vec![Note(4), once([Add(y, 10)])],
    ];
    let clients = [
        vec![once([Add(x, 1), Tell(receiver, 0), Linger, Fail]), tell(receiver, 1)],
        vec![once([Add(x, 1), Linger]), once([Tell(receiver, 2), Linger, Add(x, 1)])],
    ];
    check(&program(&[0, 0], 1, scripts, clients));
}

//   client 1         client 2
//   spawns, x += 1   spawns, x += 1
//   commits          runs again <- its first actor has never been
#[test]
fn an_actor_made_in_a_transaction_that_runs_again_exists_once() {
    let [x, y] = [0, 1];
    let client = |made| vec![once([Spawn(made), Tell(made, 0), Linger, Add(x, 1)])];
    let program = program(&[0, 0], 2, [vec![Note(1), once([Read(x), Add(y, 1)])]], [client(0), client(1)]);
    check(&Program { actors_at_first: 0, ..program });
}

//   turn of 0                 turn of 1
//   tells 1 within, reads y   tells 0 within, reads x
//   commits                   commits             <- neither waits for the other's turn
#[test]
fn actors_that_send_to_each_other_in_transactions_do_not_wait_for_each_other() {
    let [x, y] = [0, 1];
    let scripts = [
        vec![once([Add(x, 1), Tell(1, 2), Linger, Read(y)]), Note(1)],
        vec![once([Add(y, 1), Tell(0, 3), Linger, Read(x)]), Note(2)],
        vec![once([Add(y, 10), Tell(0, 3), Linger]), Note(3)],
        vec![once([Read(x), Read(y)])],
    ];
    check(&program(&[0, 0], 2, scripts, [vec![once([Read(y), Tell(0, 0), Linger, Add(x, 100)])], vec![tell(1, 1)]]));
}

//   client                   receiver
//   tells 0; part: tells 1   begins 0 tentatively
//   the part fails           <- 1 is gone, 0 stays
//   part: tells 2, commits
#[test]
fn messages_of_a_part_that_fails_are_taken_back_and_those_around_it_stay() {
    let x = 0;
    let scripts = [vec![Note(1)], vec![Note(2), once([Read(x)])], vec![Note(3)]];
    let client = || {
        vec![once([Tell(0, 0), Part(vec![Add(x, 10), Tell(0, 1), Linger, Fail]), Part(vec![Add(x, 1), Tell(0, 2)])])]
    };
    check(&program(&[0], 1, scripts, [client(), client()]));
}

//   sender                                  turn
//   tells
//                                           waits until x > 0
//   x := 1, commits <- must wake the turn
#[test]
fn a_transaction_in_a_tentative_turn_may_wait_for_what_its_sender_writes() {
    let [x, y] = [0, 1];
    let scripts = [vec![once([Await(x), Add(y, 1)])]];
    let clients = [
        vec![once([Tell(0, 0), Linger, Add(x, 1)])],
        vec![once([Tell(0, 0), Linger, Add(x, 1), Fail]), once([Add(x, 2)])],
    ];
    check(&program(&[0, 0], 1, scripts, clients));
}

//   client 1   client 2   actor
//   tells 0    tells 1    becomes 10, 11 tentatively
//   commits    fails      <- is what the committed turns made of it
#[test]
fn what_an_actor_becomes_is_decided_with_its_turn() {
    let [x, y] = [0, 1];
    let scripts = [
        vec![Step::Become(10), once([Add(y, 1), Read(x), Become(11)]), Note(1)],
        vec![once([Become(20), Linger, Read(y)]), Note(2)],
        vec![Note(3)],
    ];
    let clients = [
        vec![once([Tell(0, 0), Linger, Add(x, 1)]), tell(0, 2)],
        vec![once([Tell(0, 1), Add(x, 1), Linger, Fail]), tell(0, 2)],
    ];
    check_kinds(&program(&[0, 0], 1, scripts, clients), &[KINDS[0], KINDS[1], KINDS[3], KINDS[4]]);
}

//   client 1    client 2    turns
//   any steps   any steps   any steps
//                           <- one serial order comes to the same
#[test]
fn random_programs_come_to_what_a_serial_execution_comes_to() {
    // A normal build has them in `mixed`.
    const PROGRAMS: u64 = if cfg!(enact_shuttle) { 100 } else { 5 };
    for seed in 0..PROGRAMS {
        let program = random::program(seed);
        if let Some(allowed) = serial::outcomes(&program, STATES_MAX) {
            explore_program(program, allowed, usize::try_from(PROGRAMS).expect("few"), &format!("seed {seed}"));
        }
    }
}
