//! The example bank in process.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use enact_entities::{Command, Engine, EngineOptions, EntityKey, ReadMode, Rebel, SubmitError, View};
use enact_journal::{Embedded, Options as JournalOptions};
use enact_rebel::{EventCall, Source, Spec, Value, check};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::EngineError;
use crate::cost::iban;

const SPEC: &str = include_str!("../../../examples/bank.rebel");
const OPENING_CENTS: i64 = 100_000_000;
const DEADLINE: Duration = Duration::from_secs(30);

/// What the clients submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A deposit on an account drawn uniformly
    Deposit,
    /// A transfer between two accounts drawn uniformly
    Transfer,
    /// Transfers from accounts drawn uniformly to one
    TransferHot,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Deposit, Self::Transfer, Self::TransferHot];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deposit => "deposit",
            Self::Transfer => "transfer",
            Self::TransferHot => "transfer-hot",
        }
    }

    pub(super) const fn adds_cents(self) -> i64 {
        match self {
            Self::Deposit => 100,
            Self::Transfer | Self::TransferHot => 0,
        }
    }
}

impl ValueEnum for Kind {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

#[derive(Clone)]
pub(super) struct Bank {
    spec: Arc<Spec>,
    engine: Engine<Rebel, Embedded>,
    accounts: Arc<[EntityKey]>,
}

impl Bank {
    /// A bank whose journal is in a new directory.
    pub(super) fn begin(directory: &Path, accounts: u32) -> Result<Self, EngineError> {
        let spec = Arc::new(check(vec![Source::new("bank.rebel", SPEC)]).expect("the example is Rebel"));
        let journal = Embedded::open(directory, JournalOptions::default())
            .map_err(|source| EngineError::Journal(source.to_string()))?;
        let engine = Engine::new(Rebel::new(Arc::clone(&spec)), journal, EngineOptions::default());
        let account = |number| EntityKey::new("Account", &iban(number)).expect("an IBAN is a name");
        Ok(Self { spec, engine, accounts: (0..accounts).map(account).collect() })
    }

    /// What all accounts hold when they are opened.
    pub(super) fn opening_cents(&self) -> i64 {
        OPENING_CENTS * i64::try_from(self.accounts.len()).expect("few")
    }

    pub(super) async fn open_accounts(&self) -> Result<(), SubmitError> {
        let opening = format!("EUR {}.00", OPENING_CENTS / 100);
        let event = self.event("Account", "Open", &[("owner", "Ada"), ("initialDeposit", &opening)]);
        let opened = self.accounts.iter().map(|account| self.submit(account.clone(), event.clone()));
        futures_util::future::try_join_all(opened).await.map(drop)
    }

    /// Submits one command after the other until the time is over; how many.
    pub(super) async fn client(self, kind: Kind, number: u32, over: Instant) -> Result<u64, SubmitError> {
        let mut draws = ChaCha8Rng::seed_from_u64(u64::from(number));
        let deposit = self.event("Account", "Deposit", &[("amount", "EUR 1.00")]);
        let count = self.accounts.len();
        let mut done = 0;
        while Instant::now() < over {
            let from = draws.random_range(1..count);
            let to = match kind {
                Kind::TransferHot => 0,
                Kind::Deposit | Kind::Transfer => (from + draws.random_range(1..count)) % count,
            };
            if kind == Kind::Deposit {
                self.submit(self.accounts[to].clone(), deposit.clone()).await?;
            } else {
                let (from, to) = (self.accounts[from].id(), self.accounts[to].id());
                let transfer = self.event("Transfer", "Book", &[("amount", "EUR 1.00"), ("from", from), ("to", to)]);
                let key = EntityKey::new("Transfer", &format!("c{number}-{done}")).expect("a name");
                self.submit(key, transfer).await?;
            }
            done += 1;
        }
        Ok(done)
    }

    /// Adds up what the accounts hold.
    pub(super) async fn verify(&self, expected: i64) -> Result<(), EngineError> {
        let mut found = 0;
        for account in &*self.accounts {
            let view = self.engine.read(account, ReadMode::Certain, None, DEADLINE).await;
            let view = view.map_err(|cause| EngineError::Journal(cause.to_string()))?;
            let View::One { state, .. } = view else { unreachable!("a certain read shows one state") };
            let balance = state.fields().get("balance").map(ToString::to_string).unwrap_or_default();
            let cents: String = balance.chars().filter(char::is_ascii_digit).collect();
            found += cents.parse::<i64>().map_err(|_| EngineError::Journal(format!("a balance is {balance}")))?;
        }
        let closed = self.engine.shutdown(DEADLINE).await;
        closed.map_err(|cause| EngineError::Journal(cause.to_string()))?;
        if found == expected { Ok(()) } else { Err(EngineError::NotConserved { expected, found }) }
    }

    async fn submit(&self, key: EntityKey, event: EventCall) -> Result<(), SubmitError> {
        let command = Command { key, event, idempotency: None, deadline: DEADLINE };
        self.engine.submit(command).await.map(drop)
    }

    fn event(&self, class: &str, event: &str, arguments: &[(&str, &str)]) -> EventCall {
        let event = self.spec.class(class).expect("declared").event(event).expect("declared");
        let value = |name: &str, text: &str| {
            let parameter = event.params().iter().find(|parameter| **parameter.name() == *name).expect("declared");
            Value::parse(parameter.ty(), text).expect("well typed")
        };
        let arguments: Vec<_> = arguments.iter().map(|&(name, text)| (name, value(name, text))).collect();
        event.call(arguments).expect("well typed")
    }
}
