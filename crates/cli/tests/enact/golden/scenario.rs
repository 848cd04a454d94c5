//! What a golden store holds, and how the program that is tested writes it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{
    Command, Engine, EngineOptions, EntityKey, Network, ReadMode, Rebel, Record, Slot, SystemClock, TxId,
};
use enact_journal::{Journal, Kind, NewRecord, Options, Seq, look};
use enact_rebel::{EventCall, Source, Spec, Value, check};
use reqwest::{Client, StatusCode};
use serde_json::{Value as Json, json};

use super::dump::pack;
use crate::backup::{Place, iban, open};
use crate::retention::closed_accounts;
use crate::served::{FREE_PORT, Served, serve};

/// The first version of the shop; the second one, with which the store ends, has a limit in each account.
const SHOP: &str = "module shop version 1

class Account
  owner: String
  balance: Money

  initial unopened
    on Open(by: String, deposit: Money): opened
      post: this.owner = by, this.balance = deposit

  opened
    on Deposit(amount: Money)
      pre: \"nothing is deposited\": amount > EUR 0.00
      post: this.balance += amount
    on Withdraw(amount: Money)
      pre: \"insufficient funds\": balance - amount >= EUR 0.00
      post: this.balance -= amount

class Transfer
  initial wished
    on Book(amount: Money, from: Account, to: Account): booked
      sync: from.Withdraw(amount), to.Deposit(amount)
  booked

class Lamp
  litUntil: Timestamp
  initial off
    on Light(until: Timestamp): lit
      post: this.litUntil = until
  lit
    internal on Burn(): broken
    after litUntil: Burn
  final broken
";

const COUNTER: &str = "class C
  n: Integer = 0
  initial s
    on E(): t
      post: this.n = 1
  t
    on E()
      post: this.n += 1
";
const CUSTOMERS: &str = include_str!("../../../../../examples/customers.rebel");
/// More than lie between two snapshots.
const COUNTS: usize = 260;
/// Enough for several segments.
pub(super) const CLOSED: usize = 14;
const LONG: Duration = Duration::from_secs(600);

fn second() -> String {
    let with_limit = SHOP.replace("  balance: Money\n", "  balance: Money\n  limit: Money = EUR 5.00\n");
    with_limit.replace("version 1", "version 2") + "\nmigrate from 1\n"
}

/// Writes a golden store to the directory `to`, which is made.
pub(crate) async fn write(to: &Path) {
    let place = Place::new();
    fs::write(place.path("shop.rebel"), SHOP).expect("writable");
    first_version(&place).await;
    between_engines(&place).await;
    fs::write(place.path("shop.rebel"), second()).expect("writable");
    let answers = second_version(&place).await;
    fs::write(place.path("counter.rebel"), COUNTER).expect("writable");
    let counted = counter(&place).await;
    place.done("enact journal backup north.backup --data north");
    place.restore_in_segments("north.backup", "sealed").await;
    let ended = ended(&place).await;
    fs::write(place.path("customers.rebel"), CUSTOMERS).expect("writable");
    let customers = customers(&place).await;

    fs::create_dir_all(to).expect("writable");
    for data in ["north", "south", "counter", "sealed", "ended", "customers", "keys"] {
        if ["north", "south"].contains(&data) {
            // One store of snapshots is enough.
            fs::remove_file(place.path(data).join("snapshots.redb")).expect("there");
        }
        pack(&place.path(data), &to.join(data));
    }
    let backup = fs::read(place.path("north.backup")).expect("there");
    fs::write(to.join("north.backup.hex"), super::dump::text(&backup)).expect("writable");
    for spec in ["shop.rebel", "counter.rebel", "bank.rebel", "customers.rebel"] {
        fs::copy(place.path(spec), to.join(spec)).expect("copied");
    }
    for data in ["north", "south", "ended", "customers"] {
        let exported = place.done(&format!("enact journal export --data {data}"));
        fs::write(to.join(format!("{data}.export")), exported).expect("writable");
    }
    for (spec, data) in [("shop", "south"), ("bank", "ended"), ("customers", "customers")] {
        let audited = place.done(&format!("enact audit {spec}.rebel --data {data}"));
        fs::write(to.join(format!("{data}.audit")), audited).expect("writable");
    }
    let answers = json!({ "shop": answers, "counter": counted, "bank": ended, "customers": customers });
    let answers = serde_json::to_string_pretty(&answers).expect("JSON");
    fs::write(to.join("answers.json"), answers + "\n").expect("writable");
}

fn serve_in(place: &Place, spec: &str, data: &str) -> Served {
    let mut command = serve(&place.path(spec), &place.path(data), FREE_PORT);
    command.arg("--adopt").arg("--subject-keys").arg(place.path("keys"));
    Served::start(command)
}

fn stop(served: Served) {
    served.signal(rustix::process::Signal::TERM);
    assert!(served.ended().0.success());
}

#[track_caller]
fn done((status, answer): (StatusCode, Json)) {
    assert_eq!(status, StatusCode::OK, "{answer}");
}

async fn keyed(served: &Served, path: &str, key: &str, body: Json) -> StatusCode {
    let request = Client::new().post(served.url(path)).header("idempotency-key", key).json(&body);
    request.send().await.expect("serving").status()
}

/// Commits, answers under keys, a refusal under a key, a transfer, and a timer that never rings.
async fn first_version(place: &Place) {
    let south = serve_in(place, "shop.rebel", "south");
    done(south.post("/Account/s1/Open", json!({ "by": "Sue", "deposit": "EUR 50.00" })).await);
    stop(south);
    let north = serve_in(place, "shop.rebel", "north");
    for (account, owner) in [("n1", "Ada"), ("n2", "Bob")] {
        done(north.post(&format!("/Account/{account}/Open"), json!({ "by": owner, "deposit": "EUR 20.00" })).await);
    }
    let amount = |euros: &str| json!({ "amount": euros });
    assert_eq!(keyed(&north, "/Account/n1/Deposit", "k1", amount("EUR 7.00")).await, StatusCode::OK);
    assert_eq!(keyed(&north, "/Account/n1/Withdraw", "k2", amount("EUR 99.00")).await, StatusCode::CONFLICT);
    done(north.post("/Transfer/t1/Book", json!({ "amount": "EUR 2.00", "from": "n1", "to": "n2" })).await);
    done(north.post("/Lamp/l1/Light", json!({ "until": "2999-01-01T00:00:00Z" })).await);
    stop(north);
}

fn spec() -> Arc<Spec> {
    Arc::new(check(vec![Source::new("shop.rebel", SHOP)]).expect("a sound specification"))
}

fn book(spec: &Spec, amount: &str) -> EventCall {
    let event = spec.class("Transfer").and_then(|class| class.event("Book")).expect("the shop has it");
    let arguments = [("amount", amount), ("from", "n1"), ("to", "s1")];
    let typed = arguments.iter().map(|(name, text)| {
        let param = event.params().iter().find(|param| **param.name() == **name).expect("the event has it");
        (*name, Value::parse(param.ty(), text).expect("of its type"))
    });
    event.call(typed).expect("the arguments fit")
}

/// A transfer between two engines, a barrier, and a promise that nobody has decided.
async fn between_engines(place: &Place) {
    let spec = spec();
    let network = Network::new(["north", "south"], |entity| usize::from(entity.id().starts_with('s')), Duration::ZERO);
    let start = |here: usize, data: &str| {
        let journal = open(&place.path(data), Options::default());
        let options = EngineOptions { barrier_reads: true, ..EngineOptions::default() };
        let (model, transport) = (Rebel::new(Arc::clone(&spec)), network.transport(here));
        let engine = Engine::with_transport(model, journal, options, Arc::new(SystemClock), transport).expect("a name");
        network.join(here, &engine);
        engine
    };
    let (north, south) = (start(0, "north"), start(1, "south"));
    let key = |name: &str| -> EntityKey { name.parse().expect("a name") };
    let command = |id: &str, amount: &str| Command {
        key: key(id),
        event: book(&spec, amount),
        then: Vec::new(),
        idempotency: None,
        deadline: LONG,
    };
    north.submit(command("Transfer/t2", "EUR 3.00")).await.expect("there is enough");
    north.read(&key("Account/n1"), ReadMode::Certain, None, LONG).await.expect("readable");
    assert!(north.drain(LONG).await && south.drain(LONG).await, "nothing is under way");
    north.shutdown(LONG).await.expect("closed");
    south.shutdown(LONG).await.expect("closed");

    let (data, account) = (place.path("south"), key("Account/s1"));
    let stored = look(&data).expect("a log").flat_map(|group| group.expect("sound"));
    let promise = stored.filter(|record| record.kind == Kind(1)).last().expect("the transfer was promised");
    let Ok(Record::<EventCall>::Prepared(mut promise)) = Record::decode(&promise.payload) else { panic!("a promise") };
    promise.branch.tx = TxId::from_u128(promise.branch.tx.as_u128() + 1);
    promise.slot = Slot(promise.slot.0 + 1);
    let record = Record::Prepared(promise);
    let journal = open(&data, Options::default());
    let Seq(expected) = journal.last(&account).await.expect("readable");
    let (kind, payload) = (Kind(record.kind()), record.encode());
    let record = NewRecord { entity: account, expected: Seq(expected), kind, payload };
    journal.append(vec![record]).await.expect("durable");
    journal.close().await.expect("closed");
}

/// An event under the second version; what is answered then, by paths.
async fn second_version(place: &Place) -> Json {
    let north = serve_in(place, "shop.rebel", "north");
    done(north.post("/Account/n2/Deposit", json!({ "amount": "EUR 1.00" })).await);
    let (_, changes) = north.get("/-/changes").await;
    let cursors: Vec<String> = changes["changes"]
        .as_array()
        .expect("changes")
        .iter()
        .map(|change| change["cursor"].as_str().expect("a cursor").to_owned())
        .collect();
    let query = "/Account?balance.ge=EUR%201.00&limit=1";
    let (_, page) = north.get(query).await;
    let mark = page["next"].as_str().expect("there is another account");
    let mut paths: Vec<String> = ["Account/n1", "Account/n2", "Transfer/t1", "Transfer/t2", "Lamp/l1"]
        .iter()
        .flat_map(|entity| [format!("/{entity}"), format!("/{entity}/-/history")])
        .collect();
    paths.extend([
        "/-/changes".to_owned(),
        format!("/-/changes?after={}", cursors[cursors.len() / 2]),
        query.to_owned(),
        format!("{query}&after={mark}"),
    ]);
    let answers = answers(&north, paths).await;
    stop(north);
    answers
}

async fn answers(served: &Served, paths: Vec<String>) -> Json {
    let mut answers = serde_json::Map::new();
    for path in paths {
        let (status, answer) = served.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        answers.insert(path, answer);
    }
    Json::Object(answers)
}

/// An object with so many events that it has a snapshot.
async fn counter(place: &Place) -> Json {
    let counter = serve_in(place, "counter.rebel", "counter");
    for _ in 0..COUNTS {
        done(counter.post("/C/c/E", json!({})).await);
    }
    let answers = answers(&counter, vec!["/C/c".to_owned()]).await;
    stop(counter);
    answers
}

/// Accounts that were closed so long ago that their histories are discarded, and one that is open.
async fn ended(place: &Place) -> Json {
    stop(serve_in(place, "bank.rebel", "ended"));
    closed_accounts(&place.path("ended"), CLOSED).await;
    let bank = serve_in(place, "bank.rebel", "ended");
    let (closed, open) = (format!("/Account/{}", iban(0)), format!("/Account/{}", iban(CLOSED)));
    let paths = [&closed, &open].map(|account| [account.clone(), format!("{account}/-/history")]).concat();
    let others = ["/Account?state=closed&limit=100", "/-/changes?limit=1000"].map(str::to_owned);
    let answers = answers(&bank, [&paths[..], &others].concat()).await;
    stop(bank);
    answers
}

/// Customers of whom one was erased, and was told more of afterwards.
async fn customers(place: &Place) -> Json {
    let shop = serve_in(place, "customers.rebel", "customers");
    for (id, name) in [("c1", "Ada"), ("c2", "Bob")] {
        let register = json!({ "called": name, "isAdult": true });
        done(shop.post(&format!("/Customer/{id}/Register"), register).await);
    }
    done(shop.post("/Parcel/1/Send", json!({ "to": "c1", "written": "A." })).await);
    done(shop.post("/Customer/c1/-/erase", json!({})).await);
    done(shop.post("/Customer/c1/Move", json!({ "to": "a street" })).await);
    let mut paths: Vec<String> = vec!["/-/changes?limit=1000".to_owned(), "/Customer?state=known".to_owned()];
    for object in ["Customer/c1", "Customer/c2", "Parcel/1"] {
        paths.extend([format!("/{object}"), format!("/{object}/-/history")]);
    }
    let answers = answers(&shop, paths).await;
    stop(shop);
    answers
}
