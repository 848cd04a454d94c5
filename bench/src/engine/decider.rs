//! What decides which transactions may be open together at one entity.

use std::fmt;
use std::sync::Arc;

use enact_entities::{EngineOptions, Limits, Strategy};
use enact_rebel::Spec;

use super::contract::Contract;

/// A strategy of admission, or static independence alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decider {
    /// A strategy that the product has.
    Strategy(Strategy),
    /// Static independence, then locking: events are open together if the class says, whatever their arguments and the state are,
    /// that neither decides anything about the other one. Everything else takes turns.
    Static,
}

impl Decider {
    /// The strategies of the product.
    pub const STRATEGIES: [Self; 4] = [
        Self::Strategy(Strategy::Locking),
        Self::Strategy(Strategy::LockingEarlyRelease),
        Self::Strategy(Strategy::Psac),
        Self::Strategy(Strategy::Serializable),
    ];

    /// All there are.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::STRATEGIES.into_iter().chain([Self::Static])
    }

    /// The one with this name.
    ///
    /// # Errors
    /// The names that there are.
    pub fn parse(name: &str) -> Result<Self, String> {
        let names = || Self::all().map(|decider| decider.to_string()).collect::<Vec<_>>().join(", ");
        Self::all().find(|decider| decider.to_string() == name).ok_or_else(|| format!("there are {}", names()))
    }

    /// How engines of it are set up.
    pub(super) fn options(self) -> EngineOptions {
        match self {
            Self::Strategy(strategy) => EngineOptions { strategies: strategy.into(), ..EngineOptions::default() },
            Self::Static => EngineOptions {
                strategies: Strategy::Psac.into(),
                limits: Limits { outcomes_max: 1, ..Limits::default() },
                ..EngineOptions::default()
            },
        }
    }

    /// What admission is told of the contract.
    pub(super) fn model(self, spec: Arc<Spec>) -> Contract {
        match self {
            Self::Strategy(_) => Contract::whole(spec),
            Self::Static => Contract::of_relations(spec),
        }
    }
}

impl Default for Decider {
    /// That of the product.
    fn default() -> Self {
        Self::Strategy(Strategy::default())
    }
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strategy(strategy) => strategy.fmt(f),
            Self::Static => f.write_str("static"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use enact_entities::{
        Admission, Attempt, Branch, Decision, EntityKey, Millis, Model, Request, Slot, Timestamp, TxId, Verdict, Work,
    };
    use enact_rebel::{Source, Value, check};

    use super::super::{Bank, Kind, Records, Setup, Windows, Workload};
    use super::*;
    use crate::cost::iban;

    /// An account of the example bank that holds a hundred euros.
    struct Account {
        spec: Arc<Spec>,
        admission: Admission<Contract>,
    }

    impl Account {
        fn new(decider: Decider) -> Self {
            let spec = Arc::new(check(vec![Source::new("bank.rebel", Bank::CONTRACT)]).expect("Rebel"));
            let model = Arc::new(decider.model(Arc::clone(&spec)));
            let key = EntityKey::new("Account", &iban(1)).expect("a name");
            let base = model.initial(&key).expect("a class");
            let EngineOptions { limits, .. } = decider.options();
            let strategy = match decider {
                Decider::Strategy(strategy) => strategy,
                Decider::Static => Strategy::Psac,
            };
            let admission = Admission::new(model, key, base, Slot::FIRST, strategy, limits);
            let mut account = Self { spec, admission };
            let opening = [("owner", "Ada"), ("initialDeposit", "EUR 100.00")];
            assert!(account.is_admitted(1, "Open", &opening));
            account.admission.decide(TxId::from_u128(1), Decision::Commit);
            account
        }

        fn is_admitted(&mut self, tx: u128, event: &str, arguments: &[(&str, &str)]) -> bool {
            let event = self.spec.class("Account").expect("declared").event(event).expect("declared");
            let value = |name: &str, text: &str| {
                let parameter = event.params().iter().find(|parameter| **parameter.name() == *name).expect("declared");
                Value::parse(parameter.ty(), text).expect("well typed")
            };
            let arguments: Vec<_> = arguments.iter().map(|&(name, text)| (name, value(name, text))).collect();
            let work = Work::event(event.call(arguments).expect("well typed"));
            let verdict = self.admission.request(Request {
                branch: Branch { tx: TxId::from_u128(tx), attempt: Attempt::FIRST, work, at: Timestamp(0) },
                deadline: Millis(1_000),
                ordered: true,
                sole: false,
                certain: false,
                calls_known: false,
            });
            assert!(matches!(verdict, Verdict::Admitted(..) | Verdict::Delayed), "{verdict:?}");
            matches!(verdict, Verdict::Admitted(..))
        }
    }

    const EURO: [(&str, &str); 1] = [("amount", "EUR 1.00")];

    /// Of events that are asked for one after the other while nothing is decided, which are open in the end.
    fn open_together(decider: Decider, events: &[&str]) -> Vec<bool> {
        let mut account = Account::new(decider);
        (2..).zip(events).map(|(tx, event)| account.is_admitted(tx, event, &EURO)).collect()
    }

    #[test]
    fn under_static_independence_deposits_pass_each_other_and_withdrawals_take_turns() {
        assert_eq!(open_together(Decider::Static, &["Deposit"; 20]), [true; 20]);
        // That there is enough for both is not looked at.
        assert_eq!(open_together(Decider::Static, &["Withdraw", "Withdraw"]), [true, false]);
        assert_eq!(open_together(Decider::Static, &["Deposit", "Withdraw"]), [true, false]);
        // A deposit would pass, but decides something about the withdrawal.
        assert_eq!(open_together(Decider::Static, &["Withdraw", "Deposit"]), [true, false]);
        for (strategy, open) in [(Strategy::Locking, [true, false]), (Strategy::Psac, [true, true])] {
            assert_eq!(open_together(Decider::Strategy(strategy), &["Withdraw", "Withdraw"]), open, "{strategy}");
        }
    }

    #[test]
    fn under_static_independence_those_that_wait_come_in_when_nothing_is_open() {
        let mut account = Account::new(Decider::Static);
        for (tx, event, is_open) in [(2, "Withdraw", true), (3, "Withdraw", false), (4, "Withdraw", false)] {
            assert_eq!(account.is_admitted(tx, event, &EURO), is_open);
        }
        for (decided, next) in [(2, 3), (3, 4)] {
            let settled = account.admission.decide(TxId::from_u128(decided), Decision::Commit).settled;
            assert!(matches!(settled[..], [(tx, Verdict::Admitted(..))] if tx == TxId::from_u128(next)), "{settled:?}");
        }
        account.admission.decide(TxId::from_u128(4), Decision::Commit);
        let balance = account.admission.base().fields().get("balance").map(ToString::to_string);
        assert_eq!(balance.as_deref(), Some("EUR 97.00"));
    }

    #[test]
    fn under_static_independence_the_money_is_right_in_one_engine_and_in_two() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
        for (kind, engines) in [(Kind::Deposit, 1), (Kind::TransferHot, 1), (Kind::Transfer, 2)] {
            let directory = tempfile::tempdir().expect("a place for the test");
            let setup = Setup {
                engines,
                delay: Duration::ZERO,
                sync_min: None,
                decider: Decider::Static,
                records: Records::Directories,
            };
            let length = Duration::from_millis(200);
            let windows = Windows { directory: directory.path(), setup, clients: &[16], length };
            let windows = runtime.block_on(windows.run(Bank::new(kind, 4))).expect("money is conserved");
            assert!(windows[0].work.done() > 0, "{kind:?}");
        }
    }

    #[test]
    fn every_decider_is_found_by_its_name_and_nothing_else_is() {
        for decider in Decider::all() {
            assert_eq!(Decider::parse(&decider.to_string()), Ok(decider));
        }
        assert!(Decider::parse("two-phase").expect_err("there is none").contains("serializable, static"));
    }
}
