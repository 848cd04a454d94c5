//! What the clients of the hot object ask for.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::served::Request;

/// The key of the hot account and of the hot savings goal.
pub(super) const HOT: &str = "NL91ABNA0417164300";
const OPENING_EUROS: u64 = 1_000_000;

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
    /// `SavingsGoal.Save`, each client from its own account: a number and a set, part of a transaction
    Save,
}

impl Mix {
    /// Every mix.
    pub const ALL: [Self; 9] = [
        Self::Deposits,
        Self::DepositsInterest,
        Self::DepositsRates,
        Self::Interest,
        Self::FewInterest,
        Self::DepositsLimits,
        Self::DepositsHolders,
        Self::DepositsBalances,
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
            Self::Save => "save",
        }
    }

    /// Where the hot object is, which field of it is looked at, and what that holds in the beginning.
    pub(super) const fn holds(self) -> (&'static str, &'static str, u64) {
        match self {
            Self::Save => ("/SavingsGoal", "saved", 0),
            _ => ("/Account", "balance", OPENING_EUROS),
        }
    }

    /// Whether the acknowledged events say what the object holds; interest adds more.
    pub(super) const fn is_exact(self) -> bool {
        !matches!(self, Self::DepositsInterest | Self::DepositsRates | Self::Interest | Self::FewInterest)
    }

    /// What client `number` asks for next.
    pub(super) fn request(self, number: usize, draws: &mut ChaCha8Rng) -> Request {
        let event_of_account = |name: &str, body: &str| event(format!("/Account/{HOT}/{name}"), body);
        let deposit = || Request { adds: 1, ..event_of_account("Deposit", r#"{"amount":"EUR 1.00"}"#) };
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
            Self::Deposits
            | Self::DepositsHolders
            | Self::DepositsBalances
            | Self::DepositsInterest
            | Self::DepositsRates
            | Self::FewInterest
            | Self::DepositsLimits => deposit(),
            Self::Save => {
                let body = format!(r#"{{"amount":"EUR 1.00","from":"{}"}}"#, iban(number));
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

/// What has to happen before the clients come.
pub(super) fn opening(clients: usize) -> Vec<Request> {
    let account = |id: &str| {
        let body = format!(r#"{{"owner":"Ada","initialDeposit":"EUR {OPENING_EUROS}.00"}}"#);
        event(format!("/Account/{id}/Open"), body)
    };
    let goal = format!(r#"{{"goal":"EUR 1.00","until":"2999-01-01","payout":"{HOT}"}}"#);
    let mut opening: Vec<Request> = (0..clients).map(|client| account(&iban(client))).collect();
    opening.push(account(HOT));
    opening.push(event(format!("/SavingsGoal/{HOT}/Start"), goal));
    opening
}

/// A new certificate about the hot account.
fn certificate(name: &str, draws: &mut ChaCha8Rng) -> Request {
    let number: u64 = draws.random();
    event(format!("/Certificate/{number}/{name}"), format!(r#"{{"of":"{HOT}"}}"#))
}

fn event(path: String, body: impl Into<String>) -> Request {
    Request { path, body: body.into(), adds: 0 }
}

/// The account of a client: a number with the check digits of ISO 13616.
fn iban(client: usize) -> String {
    // `ENAC`, ten digits, `NL`, and 00 for the check digits, in figures.
    let figures = format!("14231012{client:010}232100");
    let rest = figures.bytes().fold(0, |rest, digit| (rest * 10 + u32::from(digit - b'0')) % 97);
    format!("NL{:02}ENAC{client:010}", 98 - rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_valid_numbers() {
        let valid = |text: &str| text.parse::<enact_rebel::Iban>().is_ok();
        assert!((0..1_000).all(|client| valid(&iban(client))));
    }
}
