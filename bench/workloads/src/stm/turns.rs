//! `pingpong`: two players hand a turn to each other, each waits until it has the turn.
//!
//! The turn is the number of moves made so far; the players move alternately. Its complement ends the game.

use std::sync::Arc;
use std::thread;

use super::locks::{Lock, Locks};
use super::window::{Clock, Start, Window};
use super::{AsyncStm, Figures, Refusal, Run, Stm, Verified};

const PLAYERS: usize = 2;

/// Whose turn it is.
pub(super) trait Turns: Send + Sync {
    /// Nobody has moved.
    fn new() -> Self;
    /// Waits for `player`'s turn and hands it to the other; false once the game is over.
    fn hand_over(&self, player: usize) -> bool;
    /// Ends the game; returns the number of moves.
    fn end(&self) -> i64;
}

/// One variable, and `retry`.
pub(super) struct InStm<S: Stm>(S::Cell);

/// The block of one move: waits for `player`'s turn and hands it to the other; false once the game is over.
///
/// # Errors
/// What the memory's operations say.
pub fn hand_over<'t, 'env: 't, S: Stm>(
    tx: &mut S::Tx<'t, 'env>,
    turn: &'t S::Cell,
    player: usize,
) -> Result<bool, S::Abort> {
    let now = S::load(tx, turn)?;
    match now {
        ..0 => Ok(false),
        _ if is_turn_of(player, now) => S::store(tx, turn, now + 1).map(|()| true),
        _ => S::retry(tx),
    }
}

fn is_turn_of(player: usize, turn: i64) -> bool {
    turn % 2 == player.cast_signed() as i64
}

/// Ends the game by the complement of the number of moves.
fn end<S: Stm>(turn: &S::Cell) -> i64 {
    S::atomically(|tx| {
        let moves = S::load(tx, turn)?;
        S::store(tx, turn, !moves)?;
        Ok(moves)
    })
}

impl<S: Stm> Turns for InStm<S> {
    fn new() -> Self {
        Self(S::cell(0))
    }

    #[inline]
    fn hand_over(&self, player: usize) -> bool {
        S::atomically(|tx| hand_over::<S>(tx, &self.0, player))
    }

    fn end(&self) -> i64 {
        end::<S>(&self.0)
    }
}

/// A number under a lock, with a condition variable.
pub(super) struct Locked<L: Locks> {
    turn: L::Lock<i64>,
    changed: L::Condition,
}

impl<L: Locks> Turns for Locked<L> {
    fn new() -> Self {
        Self { turn: Lock::new(0), changed: L::Condition::default() }
    }

    #[inline]
    fn hand_over(&self, player: usize) -> bool {
        let mut goes_on = true;
        let may_go = |turn: &i64| *turn < 0 || is_turn_of(player, *turn);
        L::change_when(&self.turn, &self.changed, may_go, |turn| match *turn {
            ..0 => goes_on = false,
            _ => *turn += 1,
        });
        goes_on
    }

    fn end(&self) -> i64 {
        let mut moves = 0;
        L::change_when(
            &self.turn,
            &self.changed,
            |_| true,
            |turn| {
                moves = *turn;
                *turn = !moves;
            },
        );
        moves
    }
}

/// Each player is a thread.
pub(super) fn between_threads<T: Turns>(run: Run) -> Result<Figures, Refusal> {
    let turns = T::new();
    let play = |player, _: &Clock<'_>| {
        let mut moves = 0;
        while turns.hand_over(player) {
            moves += 1;
        }
        (moves, ())
    };
    let mut made = 0;
    let window = Window::run(PLAYERS, run.length, play, || made = turns.end());
    verify(made, [window.works[0].operations, window.works[1].operations])?;
    Ok(window.figures(PLAYERS))
}

/// `pingpong_tasks`: each player is a task of one scheduler on this thread.
///
/// # Errors
/// [`Refusal::Wrong`] if the players did not take turns.
///
/// # Panics
/// If the operating system refuses a scheduler.
pub fn between_tasks<S: AsyncStm>(run: Run) -> Result<Figures, Refusal> {
    let scheduler = tokio::runtime::Builder::new_current_thread().build().expect("a scheduler without I/O");
    let tasks = tokio::task::LocalSet::new();
    let turn = Arc::new(S::cell(0));
    let started = Start::now();
    let players = [0, 1].map(|player| {
        let turn = Arc::clone(&turn);
        tasks.spawn_local(async move {
            let turn = &*turn;
            let mut moves = 0_u64;
            while S::hand_over(turn, player).await {
                moves += 1;
            }
            moves
        })
    });
    let (moves, (made, lap)) = thread::scope(|scope| {
        let referee = scope.spawn(|| {
            thread::sleep(run.length);
            let lap = started.lap();
            (end::<S>(&turn), lap)
        });
        let moves = scheduler.block_on(tasks.run_until(async {
            let [first, second] = players;
            [first.await.expect("a player does not panic"), second.await.expect("a player does not panic")]
        }));
        (moves, referee.join().expect("the referee does not panic"))
    });
    verify(made, moves)?;
    Ok(lap.figures(moves.iter().sum()))
}

/// Every move is in the number of moves, and the players took turns.
fn verify(made: i64, [first, second]: [u64; PLAYERS]) -> Result<(), Refusal> {
    Verified::Turns.expect((first + second).cast_signed(), made)?;
    Verified::Lead.expect(made % 2, first.cast_signed() - second.cast_signed())
}
