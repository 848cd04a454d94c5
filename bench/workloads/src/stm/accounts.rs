//! `transfer` and `sum1000`: two of many variables written, and a long reader of all of them beside the writers.

use super::locks::{Lock, Locks};
use super::window::{Attempts, Clock, Window, alike};
use super::{Figures, Refusal, Run, Stm, Verified};
use crate::SplitMix64;

const ACCOUNTS: usize = 1_000;
const OPENING: i64 = 1_000;

/// A bank.
pub(super) trait Accounts: Send + Sync {
    /// All accounts with the same balance.
    fn open() -> Self;
    /// Moves money; balances may become negative.
    fn transfer(&self, from: usize, to: usize, amount: i64, attempts: &Attempts);
    /// The money in all accounts.
    fn sum(&self, attempts: &Attempts) -> i64;
    /// The balance of one account.
    fn balance(&self, account: usize) -> i64;
}

/// One variable an account.
pub(super) struct InStm<S: Stm>(Vec<S::Cell>);

impl<S: Stm> Accounts for InStm<S> {
    fn open() -> Self {
        Self((0..ACCOUNTS).map(|_| S::cell(OPENING)).collect())
    }

    #[inline]
    fn transfer(&self, from: usize, to: usize, amount: i64, attempts: &Attempts) {
        let (from, to) = (&self.0[from], &self.0[to]);
        S::atomically(|tx| {
            attempts.count();
            let paid = S::load(tx, from)? - amount;
            let received = S::load(tx, to)? + amount;
            S::store(tx, from, paid)?;
            S::store(tx, to, received)
        });
    }

    #[inline]
    fn sum(&self, attempts: &Attempts) -> i64 {
        S::read_only(|tx| {
            attempts.count();
            let mut sum = 0;
            for account in &self.0 {
                sum += S::load(tx, account)?;
            }
            Ok(sum)
        })
    }

    fn balance(&self, account: usize) -> i64 {
        S::read_only(|tx| S::load(tx, &self.0[account]))
    }
}

/// All balances under one lock.
pub(super) struct Locked<L: Locks>(L::Lock<Vec<i64>>);

impl<L: Locks> Accounts for Locked<L> {
    fn open() -> Self {
        Self(Lock::new(vec![OPENING; ACCOUNTS]))
    }

    #[inline]
    fn transfer(&self, from: usize, to: usize, amount: i64, _: &Attempts) {
        self.0.with(|balances| {
            balances[from] -= amount;
            balances[to] += amount;
        });
    }

    #[inline]
    fn sum(&self, _: &Attempts) -> i64 {
        self.0.with(|balances| balances.iter().sum())
    }

    fn balance(&self, account: usize) -> i64 {
        self.0.with(|balances| balances[account])
    }
}

/// Transfers on all threads.
pub(super) fn transfer<A: Accounts>(run: Run) -> Result<Figures, Refusal> {
    let bank = A::open();
    let window = alike(run, |number, clock| transfer_for_ever(&bank, number, clock));
    verify(&bank, window.works.iter().map(|work| work.kept).sum())?;
    Ok(window.figures(run.threads))
}

/// Sums on the first thread, transfers on `writers` others.
pub(super) fn sum<A: Accounts>(run: Run, writers: usize) -> Result<Figures, Refusal> {
    let bank = A::open();
    let expected = OPENING * ACCOUNTS.cast_signed() as i64;
    let window = Window::run(
        1 + writers,
        run.length,
        |number, clock| {
            if number > 0 {
                let (transfers, placed) = transfer_for_ever(&bank, number, clock);
                return (transfers, (placed, None));
            }
            let mut wrong = None;
            let sums = clock.repeat(|attempts| {
                let sum = bank.sum(attempts);
                if sum != expected {
                    wrong = Some(sum);
                }
            });
            (sums, (0, wrong))
        },
        || (),
    );
    if let Some(sum) = window.works[0].kept.1 {
        Verified::SumSeen.expect(expected, sum)?;
    }
    verify(&bank, window.works.iter().map(|work| work.kept.0).sum())?;
    Ok(window.figures(1))
}

/// Transfers until the time is over; keeps by how much the money weighted by account has grown.
fn transfer_for_ever<A: Accounts>(bank: &A, number: usize, clock: &Clock<'_>) -> (u64, i64) {
    let mut draws = SplitMix64::new(7 + number as u64);
    let mut placed = 0;
    let transfers = clock.repeat(|attempts| {
        let from = draw(&mut draws, ACCOUNTS);
        let to = (from + 1 + draw(&mut draws, ACCOUNTS - 1)) % ACCOUNTS;
        let amount = 1 + draw(&mut draws, 9).cast_signed() as i64;
        bank.transfer(from, to, amount, attempts);
        placed += amount * (to.cast_signed() as i64 - from.cast_signed() as i64);
    });
    (transfers, placed)
}

fn draw(draws: &mut SplitMix64, below: usize) -> usize {
    draws.below(below as u64) as usize
}

/// Nothing got lost, and everything is where the transfers have put it.
fn verify<A: Accounts>(bank: &A, placed: i64) -> Result<(), Refusal> {
    let balances: Vec<i64> = (0..ACCOUNTS).map(|account| bank.balance(account)).collect();
    let weigh = |balance: fn(i64) -> i64| -> i64 { (0_i64..).zip(&balances).map(|(i, &b)| i * balance(b)).sum() };
    Verified::Money.expect(OPENING * ACCOUNTS.cast_signed() as i64, balances.iter().sum())?;
    Verified::PlacedMoney.expect(weigh(|_| OPENING) + placed, weigh(|balance| balance))
}
