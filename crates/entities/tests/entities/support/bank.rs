//! The bank of the paper as a hand-written model, and what every bank of the tests can do.
//!
//! Amounts are cents. The account is the one whose static table has 13 *never* and 10 *invariant* pairs: opening takes at
//! least 50 euros, interest a rate above zero, closing a balance of zero.

use std::sync::{Arc, OnceLock};

use enact_entities::{
    Bound, Call, Calls, Condition, EntityKey, Field, Linear, Model, Reason, Rebel, Relation, Threshold, Timestamp,
};
use enact_rebel::{EventCall, Source, Spec, Type, Value, check};
use serde::{Deserialize, Serialize};

use super::key;

/// A bank with the accounts and transfers of the tests; `euros` are whole.
pub(crate) trait Bank {
    type Model: Model;

    /// An account of this bank.
    const ACCOUNT: &str = "Account/A";

    fn load() -> Arc<Self::Model>;
    fn open(euros: i64) -> EventOf<Self>;
    fn deposit(euros: i64) -> EventOf<Self>;
    fn withdraw(euros: i64) -> EventOf<Self>;
    fn interest(percent: i64) -> EventOf<Self>;
    fn close() -> EventOf<Self>;
    fn block() -> EventOf<Self>;
    fn unblock() -> EventOf<Self>;
    /// `Transfer.Book`.
    fn book(from: &EntityKey, to: &EntityKey, euros: i64) -> EventOf<Self>;

    /// The seven events of an account, by their names.
    fn account_event(name: &str, amount: i64) -> EventOf<Self> {
        match name {
            "Open" => Self::open(amount),
            "Deposit" => Self::deposit(amount),
            "Withdraw" => Self::withdraw(amount),
            "Interest" => Self::interest(amount),
            "Close" => Self::close(),
            "Block" => Self::block(),
            "Unblock" => Self::unblock(),
            other => panic!("an account has no event {other}"),
        }
    }

    /// An account in one of its states, with this balance.
    fn account(model: &Self::Model, life: &str, euros: i64) -> StateOf<Self> {
        let mut events = vec![Self::open(euros.max(50))];
        if euros < 50 {
            events.push(Self::withdraw(50 - euros));
        }
        match life {
            "init" => events.clear(),
            "opened" => {}
            "blocked" => events.push(Self::block()),
            "closed" => events.push(Self::close()),
            other => panic!("an account has no state {other}"),
        }
        let account = key(Self::ACCOUNT);
        let mut state = model.initial(&account).expect("there are accounts");
        for event in &events {
            state = model.next(&account, &state, event, Timestamp(0)).expect("the events are possible");
        }
        state
    }

    /// The balance in cents.
    fn balance(model: &Self::Model, state: &StateOf<Self>) -> i128 {
        model.numbers(&key(Self::ACCOUNT), state).first().map_or(0, |&(_, value)| value)
    }
}

pub(crate) type EventOf<B> = <<B as Bank>::Model as Model>::Event;
pub(crate) type StateOf<B> = <<B as Bank>::Model as Model>::State;

/// The state of any instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum State {
    Account { life: Life, balance: i128 },
    Transfer { booked: bool },
    Relay { script: Vec<Step> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Life {
    Init,
    Opened,
    Blocked,
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Event {
    Open(i128),
    Deposit(i128),
    /// A deposit that is possible up to a balance.
    DepositUpTo(i128, i128),
    Withdraw(i128),
    Interest(i128),
    Close,
    Block,
    Unblock,
    Book {
        from: EntityKey,
        to: EntityKey,
        amount: i128,
    },
    /// A relay learns what to call.
    Learn(Vec<Step>),
    /// A relay calls what it has learnt: known only with its state.
    Fire,
    /// A relay calls these: known from the arguments.
    Run(Vec<Step>),
}

/// One call of a relay.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Step {
    Do(EntityKey, Event),
    Not(EntityKey, Event),
    Initialized(EntityKey),
    InState(EntityKey, String),
}

impl Step {
    fn call(&self) -> Call<Event> {
        match self {
            Self::Do(key, event) => Call::event(key.clone(), event.clone()),
            Self::Not(key, event) => {
                Call::condition(key.clone(), Condition::impossible(event.clone(), format!("not {}", name(event))))
            }
            Self::Initialized(key) => Call::condition(key.clone(), Condition::initialized("initialized")),
            Self::InState(key, state) => {
                Call::condition(key.clone(), Condition::in_state([state.as_str()], format!("in state {state}")))
            }
        }
    }
}

pub(crate) const BALANCE: Field = Field(0);

/// The hand-written bank. `hints` off hides the static table and the linear form, so that only outcomes decide.
pub(crate) struct Hand {
    pub(crate) hints: bool,
}

impl Hand {
    pub(crate) fn plain() -> Arc<Self> {
        Arc::new(Self { hints: false })
    }
}

fn guard(holds: bool, text: &str, values: &[(&str, i128)]) -> Option<Reason> {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    (!holds).then(|| Reason::Guard { text: text.to_owned(), values })
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Open(_) => "Open",
        Event::Deposit(_) => "Deposit",
        Event::DepositUpTo(..) => "DepositUpTo",
        Event::Withdraw(_) => "Withdraw",
        Event::Interest(_) => "Interest",
        Event::Close => "Close",
        Event::Block => "Block",
        Event::Unblock => "Unblock",
        Event::Book { .. } => "Book",
        Event::Learn(_) => "Learn",
        Event::Fire => "Fire",
        Event::Run(_) => "Run",
    }
}

fn life_name(life: Life) -> &'static str {
    match life {
        Life::Init => "init",
        Life::Opened => "opened",
        Life::Blocked => "blocked",
        Life::Closed => "closed",
    }
}

/// So many percent of an amount, to the nearest cent and from halfway to the even one: what holds of a contract that does
/// not declare its rounding. Another rule makes other interests commute.
fn share(amount: i128, percent: i128) -> Option<i128> {
    let hundredths = amount.checked_mul(percent)?;
    let (cents, rest) = (hundredths.div_euclid(100), hundredths.rem_euclid(100));
    Some(cents + i128::from(rest > 50 || rest == 50 && cents % 2 != 0))
}

fn account(life: Life, balance: i128, event: &Event) -> Result<State, Vec<Reason>> {
    let (from, to) = match event {
        Event::Open(_) => (Life::Init, Life::Opened),
        Event::Close => (Life::Opened, Life::Closed),
        Event::Block => (Life::Opened, Life::Blocked),
        Event::Unblock => (Life::Blocked, Life::Opened),
        _ => (Life::Opened, Life::Opened),
    };
    if life != from {
        return Err(vec![Reason::LifeCycle {
            event: name(event).to_owned(),
            state: life_name(life).to_owned(),
            allowed: vec![life_name(from).to_owned()],
        }]);
    }
    let positive = |amount: i128| guard(amount > 0, "amount > 0", &[("amount", amount)]);
    let (next, reasons) = match *event {
        Event::Open(amount) => (Some(amount), vec![guard(amount >= 5000, "initialDeposit >= 50", &[])]),
        Event::Deposit(amount) => (balance.checked_add(amount), vec![positive(amount)]),
        Event::DepositUpTo(amount, limit) => {
            (balance.checked_add(amount), vec![positive(amount), guard(balance <= limit, "balance <= limit", &[])])
        }
        Event::Withdraw(amount) => {
            let values = [("balance", balance), ("amount", amount)];
            let enough = guard(balance >= amount, "balance - amount >= 0", &values);
            (balance.checked_sub(amount), vec![positive(amount), enough])
        }
        Event::Interest(rate) => {
            let earned = share(balance, rate);
            (earned.and_then(|earned| balance.checked_add(earned)), vec![guard(rate > 0, "rate > 0", &[])])
        }
        Event::Close => (Some(balance), vec![guard(balance == 0, "balance == 0", &[("balance", balance)])]),
        _ => (Some(balance), vec![]),
    };
    let reasons: Vec<Reason> = reasons.into_iter().flatten().collect();
    match next {
        _ if !reasons.is_empty() => Err(reasons),
        Some(balance) => Ok(State::Account { life: to, balance }),
        None => Err(vec![Reason::Arithmetic { what: "the balance overflows".into() }]),
    }
}

const NEVER: [(&str, &str); 13] = [
    ("Open", "Close"),
    ("Open", "Unblock"),
    ("Withdraw", "Open"),
    ("Withdraw", "Unblock"),
    ("Deposit", "Open"),
    ("Deposit", "Unblock"),
    ("Interest", "Open"),
    ("Interest", "Unblock"),
    ("Close", "Open"),
    ("Close", "Withdraw"),
    ("Close", "Unblock"),
    ("Block", "Open"),
    ("Unblock", "Open"),
];

const INVARIANT: [(&str, &str); 10] = [
    ("Withdraw", "Deposit"),
    ("Withdraw", "Interest"),
    ("Withdraw", "Block"),
    ("Deposit", "Deposit"),
    ("Deposit", "Interest"),
    ("Deposit", "Block"),
    ("Interest", "Deposit"),
    ("Interest", "Interest"),
    ("Interest", "Block"),
    ("Interest", "Close"),
];

impl Model for Hand {
    type State = State;
    type Event = Event;

    fn initial(&self, key: &EntityKey) -> Option<State> {
        match key.class() {
            "Account" => Some(State::Account { life: Life::Init, balance: 0 }),
            "Transfer" => Some(State::Transfer { booked: false }),
            "Relay" => Some(State::Relay { script: Vec::new() }),
            _ => None,
        }
    }

    fn state_name<'a>(&'a self, _: &EntityKey, state: &'a State) -> &'a str {
        match state {
            State::Account { life, .. } => life_name(*life),
            State::Transfer { booked: true } => "booked",
            State::Transfer { booked: false } => "init",
            State::Relay { .. } => "ready",
        }
    }

    fn exists(&self, _: &EntityKey, state: &State) -> bool {
        match state {
            State::Account { life, .. } => *life != Life::Init,
            State::Transfer { booked } => *booked,
            State::Relay { .. } => true,
        }
    }

    fn event_name<'a>(&'a self, event: &'a Event) -> &'a str {
        name(event)
    }

    fn next(&self, _: &EntityKey, state: &State, event: &Event, _: Timestamp) -> Result<State, Vec<Reason>> {
        match (state, event) {
            (State::Account { life, balance }, _) => account(*life, *balance, event),
            (State::Transfer { booked: false }, Event::Book { .. }) => Ok(State::Transfer { booked: true }),
            (State::Relay { .. }, Event::Learn(script)) => Ok(State::Relay { script: script.clone() }),
            (State::Relay { .. }, Event::Fire | Event::Run(_)) => Ok(state.clone()),
            (_, event) => Err(vec![Reason::LifeCycle {
                event: name(event).to_owned(),
                state: self.state_name(&key("Transfer/T"), state).to_owned(),
                allowed: vec![],
            }]),
        }
    }

    fn calls(&self, _: &EntityKey, state: Option<&State>, event: &Event, _: Timestamp) -> Calls<Event> {
        match (event, state) {
            (Event::Book { from, to, amount }, _) => Calls::Known(vec![
                Call::event(from.clone(), Event::Withdraw(*amount)),
                Call::event(to.clone(), Event::Deposit(*amount)),
            ]),
            (Event::Run(script), _) | (Event::Fire, Some(State::Relay { script })) => {
                Calls::Known(script.iter().map(Step::call).collect())
            }
            (Event::Fire, None) => Calls::DependsOnState,
            _ => Calls::Known(vec![]),
        }
    }

    fn relation(&self, _: &EntityKey, open: &Event, incoming: &Event) -> Relation {
        let pair = (name(open), name(incoming));
        match self.hints {
            true if NEVER.contains(&pair) => Relation::Never,
            true if INVARIANT.contains(&pair) => Relation::Invariant,
            _ => Relation::Dynamic,
        }
    }

    fn linear(&self, _: &EntityKey, events: &[Event], _: Timestamp) -> Option<Linear> {
        let [event] = events else { return None };
        let (bound, delta) = match *event {
            Event::Deposit(amount) if amount > 0 => (Bound::AtMost(i128::MAX - amount), amount),
            Event::DepositUpTo(amount, limit) if amount > 0 => (Bound::AtMost(limit), amount),
            Event::Withdraw(amount) if amount > 0 => (Bound::AtLeast(amount), -amount),
            _ => return None,
        };
        self.hints.then(|| Linear {
            states: vec!["opened".into()],
            thresholds: vec![Threshold::of(BALANCE, bound)],
            deltas: vec![(BALANCE, delta)],
            ..Linear::default()
        })
    }

    fn numbers(&self, _: &EntityKey, state: &State) -> Vec<(Field, i128)> {
        match state {
            State::Account { balance, .. } => vec![(BALANCE, *balance)],
            _ => vec![],
        }
    }

    fn show(&self, _: &EntityKey, _: Field, value: i128) -> (String, String) {
        ("balance".into(), format!("EUR {}.{:02}", value / 100, value % 100))
    }
}

impl Bank for Hand {
    type Model = Self;

    fn load() -> Arc<Self> {
        Arc::new(Self { hints: true })
    }

    fn open(euros: i64) -> Event {
        Event::Open(i128::from(euros) * 100)
    }

    fn deposit(euros: i64) -> Event {
        Event::Deposit(i128::from(euros) * 100)
    }

    fn withdraw(euros: i64) -> Event {
        Event::Withdraw(i128::from(euros) * 100)
    }

    fn interest(percent: i64) -> Event {
        Event::Interest(percent.into())
    }

    fn close() -> Event {
        Event::Close
    }

    fn block() -> Event {
        Event::Block
    }

    fn unblock() -> Event {
        Event::Unblock
    }

    fn book(from: &EntityKey, to: &EntityKey, euros: i64) -> Event {
        Event::Book { from: from.clone(), to: to.clone(), amount: i128::from(euros) * 100 }
    }
}

/// The same bank in Rebel.
pub(crate) struct InRebel;

fn spec(name: &str, text: &str) -> Spec {
    check(vec![Source::new(name, text)]).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

fn call(spec: &Spec, class: &str, event: &str, arguments: &[(&str, Value)]) -> EventCall {
    let event = spec.class(class).and_then(|class| class.event(event)).expect("the contract has the event");
    event.call(arguments.iter().map(|(name, value)| (*name, value.clone()))).expect("the arguments fit")
}

fn euros(amount: i64) -> Value {
    Value::parse(&Type::Money, &format!("EUR {amount}.00")).expect("it is an amount")
}

fn account_of(spec: &Spec, account: &EntityKey) -> Value {
    let class = spec.class("Account").expect("there are accounts");
    Value::Reference(class.reference(class.key(account.id()).expect("it is an id")))
}

/// Both specs name their events and parameters alike.
fn rebel_event(spec: &Spec, event: &str, arguments: &[(&str, Value)]) -> EventCall {
    call(spec, "Account", event, arguments)
}

fn in_rebel() -> &'static Arc<Spec> {
    static SPEC: OnceLock<Arc<Spec>> = OnceLock::new();
    SPEC.get_or_init(|| Arc::new(spec("bank.rebel", include_str!("bank.rebel"))))
}

fn listing_2() -> &'static Arc<Spec> {
    static SPEC: OnceLock<Arc<Spec>> = OnceLock::new();
    SPEC.get_or_init(|| Arc::new(spec("listing2.rebel", include_str!("../../../../../examples/listing2.rebel"))))
}

impl Bank for InRebel {
    type Model = Rebel;

    fn load() -> Arc<Rebel> {
        Arc::new(Rebel::new(Arc::clone(in_rebel())))
    }

    fn open(amount: i64) -> EventCall {
        rebel_event(in_rebel(), "Open", &[("initialDeposit", euros(amount))])
    }

    fn deposit(amount: i64) -> EventCall {
        rebel_event(in_rebel(), "Deposit", &[("amount", euros(amount))])
    }

    fn withdraw(amount: i64) -> EventCall {
        rebel_event(in_rebel(), "Withdraw", &[("amount", euros(amount))])
    }

    fn interest(percent: i64) -> EventCall {
        let rate = Value::parse(&Type::Percentage, &format!("{percent}%")).expect("it is a rate");
        rebel_event(in_rebel(), "Interest", &[("rate", rate)])
    }

    fn close() -> EventCall {
        rebel_event(in_rebel(), "Close", &[])
    }

    fn block() -> EventCall {
        rebel_event(in_rebel(), "Block", &[])
    }

    fn unblock() -> EventCall {
        rebel_event(in_rebel(), "Unblock", &[])
    }

    fn book(from: &EntityKey, to: &EntityKey, amount: i64) -> EventCall {
        let [from, to] = [("from", account_of(in_rebel(), from)), ("to", account_of(in_rebel(), to))];
        call(in_rebel(), "Transfer", "Book", &[from, to, ("amount", euros(amount))])
    }
}

/// Listing 2 of the paper, as it is printed: it has neither interest nor blocking.
pub(crate) struct Listing2;

impl Bank for Listing2 {
    type Model = Rebel;

    const ACCOUNT: &str = "Account/NL91ABNA0417164300";

    fn load() -> Arc<Rebel> {
        Arc::new(Rebel::new(Arc::clone(listing_2())))
    }

    fn open(amount: i64) -> EventCall {
        rebel_event(listing_2(), "Open", &[("initialDeposit", euros(amount))])
    }

    fn deposit(amount: i64) -> EventCall {
        rebel_event(listing_2(), "Deposit", &[("amount", euros(amount))])
    }

    fn withdraw(amount: i64) -> EventCall {
        rebel_event(listing_2(), "Withdraw", &[("amount", euros(amount))])
    }

    fn interest(_: i64) -> EventCall {
        panic!("listing 2 has no interest")
    }

    fn close() -> EventCall {
        rebel_event(listing_2(), "Close", &[])
    }

    fn block() -> EventCall {
        panic!("listing 2 has no blocking")
    }

    fn unblock() -> EventCall {
        panic!("listing 2 has no blocking")
    }

    fn book(from: &EntityKey, to: &EntityKey, amount: i64) -> EventCall {
        let [from, to] = [("from", account_of(listing_2(), from)), ("to", account_of(listing_2(), to))];
        call(listing_2(), "MoneyTransfer", "Book", &[("amount", euros(amount)), to, from])
    }
}
