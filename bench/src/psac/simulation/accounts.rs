//! Accounts under the admission of the product, and nothing else of it.

use std::fmt;
use std::sync::Arc;

use clap::ValueEnum;
use enact_entities::{
    Admission, Attempt, Bound, Branch, Calls, Decision, EntityKey, Field, Limits, Linear, Millis, Model, Reason,
    Request, Slot, Strategy, Threshold, Timestamp, TxId, Verdict, Work,
};
use serde::Serialize;

/// So much that no account is ever short of it: withdrawals and deposits always commute.
const OPENING: i64 = 1 << 40;
const BALANCE: Field = Field(0);
const OPENED: &str = "opened";

/// Which transfers may be open at one account together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// One: strict two-phase locking
    Locking,
    /// Up to eight, as configured in the paper
    Psac,
    /// As many as their intervals allow, up to the product's limit of 1,024
    Intervals,
}

impl Rule {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Locking, Self::Psac, Self::Intervals];

    const fn strategy(self) -> Strategy {
        match self {
            Self::Locking => Strategy::Locking,
            Self::Psac | Self::Intervals => Strategy::Psac,
        }
    }

    /// Nobody is turned away.
    fn limits(self) -> Limits {
        let product = Limits::default();
        let open_max = if self == Self::Psac { 8 } else { product.open_max };
        Limits { open_max, delayed_max: usize::MAX, ..product }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locking => "locking",
            Self::Psac => "psac",
            Self::Intervals => "intervals",
        })
    }
}

/// Balances that never become negative; an event is what is added.
struct Balances;

impl Model for Balances {
    type State = i64;
    type Event = i64;

    fn initial(&self, _: &EntityKey) -> Option<i64> {
        Some(OPENING)
    }

    fn state_name(&self, _: &EntityKey, _: &i64) -> &str {
        OPENED
    }

    fn exists(&self, _: &EntityKey, _: &i64) -> bool {
        true
    }

    fn event_name(&self, _: &i64) -> &str {
        "Add"
    }

    fn next(&self, _: &EntityKey, balance: &i64, amount: &i64, _: Timestamp) -> Result<i64, Vec<Reason>> {
        match balance + amount {
            sum @ 0.. => Ok(sum),
            _ => Err(vec![Reason::Guard { text: "the balance stays positive".to_owned(), values: Vec::new() }]),
        }
    }

    fn calls(&self, _: &EntityKey, _: Option<&i64>, _: &i64, _: Timestamp) -> Calls<i64> {
        Calls::Known(Vec::new())
    }

    fn linear(&self, _: &EntityKey, events: &[i64], _: Timestamp) -> Option<Linear> {
        let &[amount] = events else { return None };
        let threshold = Threshold::of(BALANCE, Bound::AtLeast(-i128::from(amount)));
        Some(Linear {
            states: vec![OPENED.to_owned()],
            thresholds: vec![threshold],
            deltas: vec![(BALANCE, amount.into())],
            ..Linear::default()
        })
    }

    fn numbers(&self, _: &EntityKey, balance: &i64) -> Vec<(Field, i128)> {
        vec![(BALANCE, (*balance).into())]
    }
}

/// The accounts, by number.
pub(super) struct Accounts(Vec<Admission<Balances>>);

impl Accounts {
    /// # Panics
    /// If a number is no name.
    pub(super) fn new(count: usize, rule: Rule) -> Self {
        let model = Arc::new(Balances);
        let account = |number: usize| {
            let key = EntityKey::new("Account", &number.to_string()).expect("a name");
            Admission::new(Arc::clone(&model), key, OPENING, Slot::FIRST, rule.strategy(), rule.limits())
        };
        Self((0..count).map(account).collect())
    }

    /// Asks for `amount` to be added within `tx`. Says whether that is open now; otherwise it is delayed.
    pub(super) fn ask(&mut self, account: usize, tx: u64, amount: i64) -> bool {
        let work = Work::event(amount);
        let branch = Branch { tx: TxId::from_u128(tx.into()), attempt: Attempt::FIRST, work, at: Timestamp(0) };
        let deadline = Millis(u64::MAX);
        let request = Request { branch, deadline, ordered: true, sole: false, certain: false, calls_known: true };
        match self.0[account].request(request) {
            Verdict::Admitted(..) => true,
            Verdict::Delayed => false,
            verdict => unreachable!("there is money and room for everybody: {verdict:?}"),
        }
    }

    /// Ends what `tx` does here, and returns which delayed ones are open from now on.
    pub(super) fn decide(&mut self, account: usize, tx: u64, decision: Decision) -> Vec<u64> {
        let settled = self.0[account].decide(TxId::from_u128(tx.into()), decision).settled;
        let admitted = |(tx, verdict)| match verdict {
            Verdict::Admitted(..) => u64::try_from(TxId::as_u128(tx)).expect("made of one"),
            verdict => unreachable!("there is money for everybody: {verdict:?}"),
        };
        settled.into_iter().map(admitted).collect()
    }

    /// # Panics
    /// If money came or went, or something is left open or delayed.
    pub(super) fn verify(&self) {
        let sum: i64 = self.0.iter().map(|account| *account.base()).sum();
        assert_eq!(sum, OPENING * self.0.len() as i64, "money is conserved");
        let left: usize = self.0.iter().map(|account| account.in_progress().count() + account.delayed_count()).sum();
        assert_eq!(left, 0, "nothing is left open or delayed");
    }
}
