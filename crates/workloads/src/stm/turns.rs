//! `pingpong`: two players hand a turn to each other, each waits until it has the turn.
//!
//! The turn is the number of the player who may move; a third value ends the game.

use std::sync::Arc;
use std::thread;

use super::locks::{Lock, Locks};
use super::window::{Clock, Start, Window};
use super::{AsyncStm, Figures, Refusal, Run, Stm, Verified};

const PLAYERS: usize = 2;
const OVER: i64 = -1;

/// Whose turn it is.
pub(super) trait Turns: Send + Sync {
    /// The first player's.
    fn new() -> Self;
    /// Waits for `player`'s turn and hands it to the other; false once the game is over.
    fn hand_over(&self, player: usize) -> bool;
    /// Ends the game.
    fn end(&self);
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
    let (mine, others) = (player.cast_signed() as i64, (1 - player).cast_signed() as i64);
    match S::load(tx, turn)? {
        OVER => Ok(false),
        now if now == mine => S::store(tx, turn, others).map(|()| true),
        _ => S::retry(tx),
    }
}

impl<S: Stm> Turns for InStm<S> {
    fn new() -> Self {
        Self(S::cell(0))
    }

    #[inline]
    fn hand_over(&self, player: usize) -> bool {
        S::atomically(|tx| hand_over::<S>(tx, &self.0, player))
    }

    fn end(&self) {
        S::atomically(|tx| S::store(tx, &self.0, OVER));
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
        let mine = player.cast_signed() as i64;
        let mut goes_on = true;
        let may_go = |turn: &i64| *turn == mine || *turn == OVER;
        L::change_when(&self.turn, &self.changed, may_go, |turn| match *turn {
            OVER => goes_on = false,
            _ => *turn = 1 - mine,
        });
        goes_on
    }

    fn end(&self) {
        L::change_when(&self.turn, &self.changed, |_| true, |turn| *turn = OVER);
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
    let window = Window::run(PLAYERS, run.length, play, || turns.end());
    verify([window.works[0].operations, window.works[1].operations])?;
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
    let (moves, lap) = thread::scope(|scope| {
        let referee = scope.spawn(|| {
            thread::sleep(run.length);
            let lap = started.lap();
            S::atomically(|tx| S::store(tx, &*turn, OVER));
            lap
        });
        let moves = scheduler.block_on(tasks.run_until(async {
            let [first, second] = players;
            [first.await.expect("a player does not panic"), second.await.expect("a player does not panic")]
        }));
        (moves, referee.join().expect("the referee does not panic"))
    });
    verify(moves)?;
    Ok(lap.figures(moves.iter().sum()))
}

/// The first player begins, so it has moved as often as the second or once more.
fn verify([first, second]: [u64; PLAYERS]) -> Result<(), Refusal> {
    let lead = first.cast_signed() - second.cast_signed();
    Verified::Turns.expect(lead.clamp(0, 1), lead)
}
