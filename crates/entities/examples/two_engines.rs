//! Two engines, each with its accounts and a journal of its own: a transfer between them happens in both, or in neither, also when one of them
//! crashes in the middle.
//!
//! Here both are in one process, and the network between them is in memory. A transport of your own carries the same messages
//! between machines.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{
    Command, Engine, EngineOptions, EntityKey, Network, ReadMode, Rebel, SubmitError, SystemClock, View,
};
use enact_journal::Memory;
use enact_rebel::{EventCall, Source, Spec, Value, check};

const SPEC: &str = r#"
class Account
  balance: Money = EUR 0.00
  initial init
    on Open(deposit: Money): opened
      pre:  "nobody opens an account with a debt": deposit >= EUR 0.00
      post: this.balance = deposit
  opened
    on Deposit(amount: Money)
      pre:  amount > EUR 0.00
      post: this.balance += amount
    on Withdraw(amount: Money)
      pre:  "not enough money": balance - amount >= EUR 0.00
      post: this.balance -= amount

class Transfer
  initial init
    on Book(amount: Money, from: Account, to: Account): booked
      sync: from.Withdraw(amount)
            to.Deposit(amount)
  final booked
"#;

const ENGINES: [&str; 2] = ["north", "south"];
const DEADLINE: Duration = Duration::from_secs(5);

type Bank = Engine<Rebel, Memory>;

/// Entities with names like `south-ada` are of the engine `south`, all others of `north`.
fn place(entity: &EntityKey) -> usize {
    usize::from(entity.id().starts_with("south"))
}

/// Starts the engine number `here` over `journal`.
fn start(
    network: &Arc<Network<Rebel, Memory>>,
    here: usize,
    spec: &Arc<Spec>,
    journal: &Memory,
) -> Result<Bank, Box<dyn Error>> {
    let (model, transport) = (Rebel::new(Arc::clone(spec)), network.transport(here));
    let options = EngineOptions::default();
    let bank = Engine::with_transport(model, journal.clone(), options, Arc::new(SystemClock), transport)?;
    network.join(here, &bank);
    // It takes up what an earlier run has left between the engines.
    let maintained = bank.clone();
    tokio::spawn(async move { maintained.maintain().await });
    Ok(bank)
}

fn command(spec: &Spec, entity: &str, event: &str, arguments: &[(&'static str, Value)]) -> Command<EventCall> {
    let key: EntityKey = entity.parse().expect("a key");
    let class = spec.class(key.class()).expect("a class");
    let event = class.event(event).expect("an event").call(arguments.to_vec()).expect("its arguments");
    Command { key, event, then: Vec::new(), idempotency: None, deadline: DEADLINE }
}

async fn balance(bank: &Bank, account: &str) -> Result<String, Box<dyn Error>> {
    match bank.read(&account.parse()?, ReadMode::Certain, None, DEADLINE).await? {
        View::One { state, .. } => Ok(state.fields().get("balance").map(Value::to_string).unwrap_or_default()),
        View::Range { .. } => unreachable!("a certain read sees one state"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let spec = Arc::new(check(vec![Source::new("bank.rebel", SPEC)]).expect("the specification is Rebel"));
    let network = Network::new(ENGINES, place, Duration::from_millis(1));
    let journals = [Memory::new(), Memory::new()];
    let north = start(&network, 0, &spec, &journals[0])?;
    let south = start(&network, 1, &spec, &journals[1])?;

    let euros = |amount: &str| Value::Money(amount.parse().expect("an amount of money"));
    let account = |id| {
        let class = spec.class("Account").expect("a class");
        Value::Reference(class.reference(class.key(id).expect("a name")))
    };
    let transfer = |id: &str, amount, from, to| {
        let arguments = [("amount", euros(amount)), ("from", account(from)), ("to", account(to))];
        command(&spec, &format!("Transfer/{id}"), "Book", &arguments)
    };
    north.submit(command(&spec, "Account/north-ada", "Open", &[("deposit", euros("EUR 100.00"))])).await?;
    south.submit(command(&spec, "Account/south-bob", "Open", &[("deposit", euros("EUR 100.00"))])).await?;

    north.submit(transfer("t1", "EUR 30.00", "north-ada", "south-bob")).await?;
    println!("Ada in the north has {}", balance(&north, "Account/north-ada").await?);
    println!("Bob in the south has {}", balance(&south, "Account/south-bob").await?);

    let refused = north.submit(transfer("t2", "EUR 500.00", "south-bob", "north-ada")).await;
    if let Err(SubmitError::Refused { refusal, .. }) = refused {
        println!("Refused: {refusal}");
    }

    // The decision is durable in the north, and the south crashes before it has written the outcome.
    journals[1].hold();
    let submitted = tokio::spawn({
        let (north, command) = (north.clone(), transfer("t3", "EUR 130.00", "south-bob", "north-ada"));
        async move { north.submit(command).await }
    });
    while journals[1].waiting_count() == 0 {
        tokio::task::yield_now().await;
    }
    journals[1].sync(1);
    submitted.await??;
    let south = start(&network, 1, &spec, &journals[1].crash())?;
    println!("After a crash in the south Bob has {}", balance(&south, "Account/south-bob").await?);
    println!("Ada has {}", balance(&north, "Account/north-ada").await?);
    Ok(())
}
