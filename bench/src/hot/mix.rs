//! What the clients of the hot object ask for.

use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::cost::iban;
use crate::served::Request;

/// The key of the hot account and of the hot savings goal.
pub(super) const HOT: &str = "NL91ABNA0417164300";
const OPENING_EUROS: i64 = 1_000_000;
/// What is on an account near zero in the beginning, which is about what withdrawals leave there.
const NEAR_ZERO_EUROS: i64 = 5;
/// The part of withdrawals near zero: deposits bring back the others but a tenth of all, which find nothing and are refused.
const WITHDRAWALS: f64 = 0.55;

/// A mix of events on one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// `Account.Deposit`
    Deposits,
    /// `Account.Deposit` and `Account.Interest` at one rate, half and half
    DepositsInterest,
    /// `Account.Deposit` and `Account.Interest` at twenty rates, half and half: what takes turns
    DepositsRates,
    /// `Account.Interest` at one rate
    Interest,
    /// `Account.Deposit`, and `Account.Interest` once in a hundred
    FewInterest,
    /// `Account.Deposit` and `Account.LimitOverdraft`, half and half
    DepositsLimits,
    /// `Account.Deposit`, and every other time a certificate that asks for the holder, whom no deposit changes
    DepositsHolders,
    /// `Account.Deposit`, and every other time a certificate that asks for the balance, which all deposits change
    DepositsBalances,
    /// `Account.Withdraw` and `Account.Deposit` of one euro near zero: a tenth is refused
    WithdrawalsNearZero,
    /// `Account.LimitOverdraft`, each to another of a thousand limits
    ConstantsDifferent,
    /// `SavingsGoal.Save`, each client from its own account: a number and a set, part of a transaction
    Save,
}

impl Mix {
    /// Every mix.
    pub const ALL: [Self; 11] = [
        Self::Deposits,
        Self::DepositsInterest,
        Self::DepositsRates,
        Self::Interest,
        Self::FewInterest,
        Self::DepositsLimits,
        Self::DepositsHolders,
        Self::DepositsBalances,
        Self::WithdrawalsNearZero,
        Self::ConstantsDifferent,
        Self::Save,
    ];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deposits => "deposits",
            Self::DepositsInterest => "deposits-interest",
            Self::DepositsRates => "deposits-rates",
            Self::Interest => "interest",
            Self::FewInterest => "few-interest",
            Self::DepositsLimits => "deposits-limits",
            Self::DepositsHolders => "deposits-holders",
            Self::DepositsBalances => "deposits-balances",
            Self::WithdrawalsNearZero => "withdrawals-near-zero",
            Self::ConstantsDifferent => "constants-different",
            Self::Save => "save",
        }
    }

    /// What is looked at in the end.
    pub(super) const fn holds(self) -> Holds {
        match self {
            Self::Save => Holds { path: "/SavingsGoal", field: "saved", opening: 0 },
            Self::WithdrawalsNearZero => Holds { path: "/Account", field: "balance", opening: NEAR_ZERO_EUROS },
            _ => Holds { path: "/Account", field: "balance", opening: OPENING_EUROS },
        }
    }

    /// Whether any two of its events commute.
    const fn commutes(self) -> bool {
        matches!(self, Self::Deposits | Self::Interest | Self::DepositsLimits | Self::DepositsHolders | Self::Save)
    }

    /// How many times the rate of locking is aimed at: a group of what commutes shares a sync of a millisecond, and nothing is
    /// slower than with locking.
    pub(super) fn aim_of_locking(self, clients: usize, sync_min: Option<Duration>) -> f64 {
        let shares = self.commutes() && clients >= 48 && sync_min == Some(Duration::from_millis(1));
        match self {
            Self::Deposits if shares && clients == 64 => 30.0,
            _ if shares => 15.0,
            _ => 0.95,
        }
    }

    /// Whether the acknowledged events say what the object holds; interest adds more.
    pub(super) const fn is_exact(self) -> bool {
        !matches!(self, Self::DepositsInterest | Self::DepositsRates | Self::Interest | Self::FewInterest)
    }

    /// What client `number` asks for next.
    pub(super) fn request(self, number: usize, draws: &mut ChaCha8Rng) -> Request {
        let event_of_account = |name: &str, body: &str| event(format!("/Account/{HOT}/{name}"), body);
        let euro = |name: &str, adds: i64| Request { adds, ..event_of_account(name, r#"{"amount":"EUR 1.00"}"#) };
        let deposit = || euro("Deposit", 1);
        let interest = |rate: u32| event_of_account("Interest", &format!(r#"{{"rate":"0.{rate:04}%"}}"#));
        match self {
            Self::Interest => interest(1),
            Self::DepositsInterest if draws.random_bool(0.5) => interest(1),
            Self::FewInterest if draws.random_bool(0.01) => interest(1),
            Self::DepositsRates if draws.random_bool(0.5) => interest(draws.random_range(1..=20)),
            Self::DepositsLimits if draws.random_bool(0.5) => {
                event_of_account("LimitOverdraft", r#"{"limit":"EUR 100.00"}"#)
            }
            Self::DepositsHolders if draws.random_bool(0.5) => certificate("NameHolder", draws),
            Self::DepositsBalances if draws.random_bool(0.5) => certificate("CertifyBalance", draws),
            Self::WithdrawalsNearZero if draws.random_bool(WITHDRAWALS) => euro("Withdraw", -1),
            Self::ConstantsDifferent => {
                let limit = draws.random_range(0..1_000);
                event_of_account("LimitOverdraft", &format!(r#"{{"limit":"EUR {limit}.00"}}"#))
            }
            Self::Deposits
            | Self::WithdrawalsNearZero
            | Self::DepositsHolders
            | Self::DepositsBalances
            | Self::DepositsInterest
            | Self::DepositsRates
            | Self::FewInterest
            | Self::DepositsLimits => deposit(),
            Self::Save => {
                let body = format!(r#"{{"amount":"EUR 1.00","from":"{}"}}"#, saver(number));
                Request { adds: 1, ..event(format!("/SavingsGoal/{HOT}/Save"), body) }
            }
        }
    }
}

impl ValueEnum for Mix {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// Where the hot object is, which field of it is looked at, and what that holds in the beginning.
pub(super) struct Holds {
    pub(super) path: &'static str,
    pub(super) field: &'static str,
    pub(super) opening: i64,
}

/// What has to happen before the clients of `mix` come.
pub(super) fn opening(mix: Mix, clients: usize) -> Vec<Request> {
    let account = |id: &str, euros: i64| {
        event(format!("/Account/{id}/Open"), format!(r#"{{"owner":"Ada","initialDeposit":"EUR {euros}.00"}}"#))
    };
    let hot = if mix == Mix::WithdrawalsNearZero { NEAR_ZERO_EUROS } else { OPENING_EUROS };
    let goal = format!(r#"{{"goal":"EUR 1.00","until":"2999-01-01","payout":"{HOT}"}}"#);
    let savers = if mix == Mix::Save { clients } else { 0 };
    let mut opening: Vec<Request> = (0..savers).map(|client| account(&saver(client), OPENING_EUROS)).collect();
    opening.push(account(HOT, hot));
    opening.push(event(format!("/SavingsGoal/{HOT}/Start"), goal));
    opening
}

/// The account of a client.
fn saver(client: usize) -> String {
    iban(u32::try_from(client).expect("there are fewer clients"))
}

/// A new certificate about the hot account.
fn certificate(name: &str, draws: &mut ChaCha8Rng) -> Request {
    let number: u64 = draws.random();
    event(format!("/Certificate/{number}/{name}"), format!(r#"{{"of":"{HOT}"}}"#))
}

fn event(path: String, body: impl Into<String>) -> Request {
    Request { path, body: Some(body.into()), adds: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_that_commutes_has_an_aim_beyond_locking_where_syncs_can_be_shared() {
        let slow = Some(Duration::from_millis(1));
        for (mix, clients, sync, aim) in [
            (Mix::Deposits, 64, slow, 30.0),
            (Mix::Deposits, 256, slow, 15.0),
            (Mix::Save, 48, slow, 15.0),
            (Mix::Save, 47, slow, 0.95),
            (Mix::Save, 64, None, 0.95),
            (Mix::DepositsInterest, 64, slow, 0.95),
            (Mix::WithdrawalsNearZero, 1_024, slow, 0.95),
        ] {
            assert_eq!(mix.aim_of_locking(clients, sync), aim, "{mix:?} with {clients}");
        }
    }
}
