//! The crowds.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::account::{Account, Doing};

/// What the transactions at one account do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowd {
    /// Overdraft limits, each another one, which take turns
    Constants,
    /// Withdrawals of all that there is wait for the last of the open deposits, and all but one are refused then
    Thresholds,
    /// Deposits and interest by turns
    Classes,
    /// Withdrawals that all abort, and as many that wait for one of them to abort
    Aborts,
    /// A first one that is decided last, commits in line behind it, and as many that wait for these
    SlowFirst,
    /// Deposits that may not pass the interest that waits
    Turn,
}

impl Crowd {
    /// Every crowd.
    pub const ALL: [Self; 6] =
        [Self::Constants, Self::Thresholds, Self::Classes, Self::Aborts, Self::SlowFirst, Self::Turn];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constants => "constants",
            Self::Thresholds => "thresholds",
            Self::Classes => "classes",
            Self::Aborts => "aborts",
            Self::SlowFirst => "slow-first",
            Self::Turn => "turn",
        }
    }

    /// Euros that the account has in the beginning.
    pub(super) const fn opening(self) -> i64 {
        match self {
            Self::Thresholds => 1,
            Self::Aborts => 1_000,
            _ => 1_000_000,
        }
    }

    /// Lets `size` transactions be open and as many be delayed, and ends them all.
    pub(super) fn pass(self, account: &mut Account, size: usize) {
        match self {
            Self::Constants => constants(account, size),
            Self::Thresholds => thresholds(account, size),
            Self::Classes => classes(account, size),
            Self::Aborts => aborts(account, size),
            Self::SlowFirst => slow_first(account, size),
            Self::Turn => turn(account, size),
        }
        while account.commit() {}
    }
}

impl ValueEnum for Crowd {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

fn ask_times(account: &mut Account, doing: &Doing, times: usize) {
    (0..times).for_each(|_| account.ask(doing));
}

fn constants(account: &mut Account, size: usize) {
    for euros in 0..3 * size as i64 {
        if account.delayed_count() == size {
            account.commit();
        }
        let limit = account.limit(euros);
        account.ask(&limit);
    }
}

fn thresholds(account: &mut Account, size: usize) {
    let (deposit, all) = (account.deposit(1), size as i64);
    // One deposit more where the last round has left nothing.
    for (level, deposits) in [(all + 1, size), (all, size)] {
        ask_times(account, &deposit, deposits);
        let withdraw = account.withdraw(level);
        ask_times(account, &withdraw, size);
        while account.commit() {}
    }
}

fn classes(account: &mut Account, size: usize) {
    let by_turns = [account.interest(), account.deposit(1)];
    ask_times(account, &by_turns[1], size);
    for doing in by_turns.iter().cycle().take(3 * size) {
        while account.delayed_count() == size {
            account.commit();
        }
        account.ask(doing);
    }
}

fn aborts(account: &mut Account, size: usize) {
    let withdraw = account.withdraw(1_000 / size as i64);
    ask_times(account, &withdraw, 2 * size);
    for _ in 0..4 * size {
        account.abort();
        account.ask(&withdraw);
    }
}

fn slow_first(account: &mut Account, size: usize) {
    let (interest, deposit) = (account.interest(), account.deposit(1));
    account.ask(&interest);
    (0..size).for_each(|_| account.ask_alone(&deposit));
    ask_times(account, &interest, size);
    account.postpone();
    (0..size).for_each(|_| _ = account.commit());
}

fn turn(account: &mut Account, size: usize) {
    let (interest, deposit) = (account.interest(), account.deposit(1));
    ask_times(account, &deposit, size);
    for _ in 0..2 {
        account.ask(&interest);
        // What has not passed it by then waits for its turn.
        while account.delayed_count() < size {
            account.ask(&deposit);
        }
        while account.delayed_count() > 0 {
            account.commit();
        }
    }
}
