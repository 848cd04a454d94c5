//! The example bank in process, in one engine or in several.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use enact_entities::{
    Command, Engine, EngineOptions, EntityKey, Network, ReadMode, Rebel, Strategy, SubmitError, SystemClock, View,
};
use enact_journal::disk::{Disk, OsDisk, SlowDisk};
use enact_journal::{Embedded, Options as JournalOptions};
use enact_rebel::{EventCall, Source, Spec, Value, check};
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::EngineError;
use crate::cost::iban;

const SPEC: &str = include_str!("../../../examples/bank.rebel");
const OPENING_CENTS: i64 = 100_000_000;
const DEADLINE: Duration = Duration::from_secs(60);
/// How many accounts are opened at once.
const OPENED_AT_ONCE: usize = 2_000;
/// The number of the first account that a client opens; the numbers of the others follow, apart by client and run.
const FIRST_CREATED: u32 = 1_000_000;
const CLIENTS_MAX: u32 = 1_024;
const RUNS_MAX: u32 = 16;

/// What the clients submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A deposit on an account drawn uniformly
    Deposit,
    /// A transfer between two accounts drawn uniformly
    Transfer,
    /// Transfers from accounts drawn uniformly to one
    TransferHot,
    /// A new account
    Open,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Deposit, Self::Transfer, Self::TransferHot, Self::Open];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deposit => "deposit",
            Self::Transfer => "transfer",
            Self::TransferHot => "transfer-hot",
            Self::Open => "open",
        }
    }

    pub(crate) const fn adds_cents(self) -> i64 {
        match self {
            Self::Deposit => 100,
            Self::Transfer | Self::TransferHot | Self::Open => 0,
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

/// How a bank is set up.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// How many accounts there are.
    pub(crate) accounts: u32,
    /// How many engines share them, each with a journal of its own.
    pub(crate) engines: usize,
    /// How long a message travels from one engine to another.
    pub(crate) delay: Duration,
    /// How long a sync takes at least; nothing where the disk decides.
    pub(crate) sync_min: Option<Duration>,
    /// The strategy of admission.
    pub(crate) strategy: Strategy,
}

/// What one client has done.
pub(crate) struct Work {
    /// What each command took until it was acknowledged, in microseconds.
    pub(crate) latency_us: Histogram<u64>,
    /// How often one was turned away, and was submitted again.
    pub(crate) turned_away: u64,
}

impl Default for Work {
    fn default() -> Self {
        Self { latency_us: Histogram::new(3).expect("three digits"), turned_away: 0 }
    }
}

impl Work {
    /// How many commands were acknowledged.
    pub(crate) fn done(&self) -> u64 {
        self.latency_us.len()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.latency_us.add(&other.latency_us).expect("alike");
        self.turned_away += other.turned_away;
    }
}

#[derive(Clone)]
pub(crate) struct Bank {
    spec: Arc<Spec>,
    engines: Arc<[Engine<Rebel, Embedded>]>,
    accounts: Arc<[EntityKey]>,
    /// What brings messages from one engine to another, as long as there is the bank.
    _network: Arc<Network<Rebel, Embedded>>,
}

/// The engine that has `entity`, of so many.
fn place(entity: &EntityKey, engines: usize) -> usize {
    let hash = entity
        .id()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // The last bits of this hash are those of the last byte.
    usize::try_from(hash >> 33).expect("31 bits") % engines
}

impl Bank {
    /// A bank whose journals are in new directories in `directory`.
    pub(crate) fn begin(directory: &Path, setup: &Setup) -> Result<Self, EngineError> {
        let spec = Arc::new(check(vec![Source::new("bank.rebel", SPEC)]).expect("the example is Rebel"));
        let count = setup.engines;
        let names = (0..count).map(|number| format!("engine-{number}"));
        let network = Network::new(names, move |entity| place(entity, count), setup.delay);
        let start = |number: usize| {
            let failed = |source: &dyn Error| EngineError::Journal(source.to_string());
            let disk: Arc<dyn Disk> =
                Arc::new(OsDisk::at(&directory.join(number.to_string())).map_err(|source| failed(&source))?);
            let disk = match setup.sync_min {
                Some(sync) => Arc::new(SlowDisk::new(disk, sync)),
                None => disk,
            };
            let journal = Embedded::open_on(disk, JournalOptions::default()).map_err(|source| failed(&source))?;
            let options = EngineOptions { strategies: setup.strategy.into(), ..EngineOptions::default() };
            let model = Rebel::new(Arc::clone(&spec));
            if count == 1 {
                return Ok(Engine::new(model, journal, options));
            }
            let transport = network.transport(number);
            let engine = Engine::with_transport(model, journal, options, Arc::new(SystemClock), transport);
            let engine = engine.map_err(|source| failed(&source))?;
            network.join(number, &engine);
            Ok(engine)
        };
        let engines = (0..count).map(start).collect::<Result<Vec<_>, EngineError>>()?.into();
        let account = |number| EntityKey::new("Account", &iban(number)).expect("an IBAN is a name");
        Ok(Self { spec, engines, accounts: (0..setup.accounts).map(account).collect(), _network: network })
    }

    /// Has each engine take up what is between it and the others, as long as the runtime lasts.
    fn maintain(&self) {
        for engine in &*self.engines {
            let engine = engine.clone();
            tokio::spawn(async move { engine.maintain().await });
        }
    }

    fn engine_of(&self, entity: &EntityKey) -> &Engine<Rebel, Embedded> {
        &self.engines[place(entity, self.engines.len())]
    }

    /// What all accounts hold when they are opened.
    pub(crate) fn opening_cents(&self) -> i64 {
        OPENING_CENTS * i64::try_from(self.accounts.len()).expect("few")
    }

    pub(crate) async fn open_accounts(&self) -> Result<(), SubmitError> {
        self.maintain();
        let opening = format!("EUR {}.00", OPENING_CENTS / 100);
        let event = self.event("Account", "Open", &[("owner", "Ada"), ("initialDeposit", &opening)]);
        for accounts in self.accounts.chunks(OPENED_AT_ONCE) {
            let opened = accounts.iter().map(|account| self.submit(account.clone(), event.clone()));
            futures_util::future::try_join_all(opened).await?;
        }
        Ok(())
    }

    /// Submits one command after the other until the time is over. `run` sets the names of what is created apart from those of
    /// other runs on the bank.
    pub(crate) async fn client(
        self,
        kind: Kind,
        (run, number): (usize, u32),
        over: Instant,
    ) -> Result<Work, SubmitError> {
        let mut draws = ChaCha8Rng::seed_from_u64(u64::from(number));
        let deposit = self.event("Account", "Deposit", &[("amount", "EUR 1.00")]);
        let count = self.accounts.len();
        let mut work = Work::default();
        while Instant::now() < over {
            let begun = Instant::now();
            let from = draws.random_range(1..count);
            let to = match kind {
                Kind::TransferHot => 0,
                Kind::Deposit | Kind::Transfer | Kind::Open => (from + draws.random_range(1..count)) % count,
            };
            if kind == Kind::Deposit {
                work.turned_away += self.insist(self.accounts[to].clone(), deposit.clone()).await?;
            } else if kind == Kind::Open {
                let created = u32::try_from(work.done()).expect("few").wrapping_mul(CLIENTS_MAX).wrapping_add(number);
                let account = FIRST_CREATED.wrapping_add(created.wrapping_mul(RUNS_MAX)).wrapping_add(run as u32);
                let event = self.event("Account", "Open", &[("owner", "Bob"), ("initialDeposit", "EUR 50.00")]);
                let key = EntityKey::new("Account", &iban(account)).expect("an IBAN is a name");
                work.turned_away += self.insist(key, event).await?;
            } else {
                let (from, to) = (self.accounts[from].id(), self.accounts[to].id());
                let transfer = self.event("Transfer", "Book", &[("amount", "EUR 1.00"), ("from", from), ("to", to)]);
                let key = EntityKey::new("Transfer", &format!("r{run}-c{number}-{}", work.done())).expect("a name");
                work.turned_away += self.insist(key, transfer).await?;
            }
            let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            work.latency_us.record(micros).expect("it grows");
        }
        Ok(work)
    }

    /// Adds up what the accounts hold.
    pub(crate) async fn verify(&self, expected: i64) -> Result<(), EngineError> {
        let mut found = 0;
        for account in &*self.accounts {
            let view = self.engine_of(account).read(account, ReadMode::Certain, None, DEADLINE).await;
            let view = view.map_err(|cause| EngineError::Journal(cause.to_string()))?;
            let View::One { state, .. } = view else { unreachable!("a certain read shows one state") };
            let balance = state.fields().get("balance").map(ToString::to_string).unwrap_or_default();
            let cents: String = balance.chars().filter(char::is_ascii_digit).collect();
            found += cents.parse::<i64>().map_err(|_| EngineError::Journal(format!("a balance is {balance}")))?;
        }
        for engine in &*self.engines {
            engine.shutdown(DEADLINE).await.map_err(|cause| EngineError::Journal(cause.to_string()))?;
        }
        if found == expected { Ok(()) } else { Err(EngineError::NotConserved { expected, found }) }
    }

    /// Submits a command again and again until it is taken; how often it was turned away. Early lock release does that to what relied on
    /// a commit that was not recorded.
    async fn insist(&self, key: EntityKey, event: EventCall) -> Result<u64, SubmitError> {
        let mut turned_away = 0;
        loop {
            match self.submit(key.clone(), event.clone()).await {
                Err(SubmitError::Overloaded { .. }) => {
                    turned_away += 1;
                    tokio::task::yield_now().await;
                }
                result => return result.map(|()| turned_away),
            }
        }
    }

    async fn submit(&self, key: EntityKey, event: EventCall) -> Result<(), SubmitError> {
        let engine = self.engine_of(&key);
        let command = Command { key, event, idempotency: None, deadline: DEADLINE };
        engine.submit(command).await.map(drop)
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
