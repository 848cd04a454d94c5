//! Golden messages: what nodes of each release say to each other and keep in the bucket, and what every later one reads.
//!
//! See docs/compatibility.md for what has to be done when this fails.

use std::future::pending;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{
    Awaited, Command, Cursor, Doubt, Engine, EngineOptions, EntityError, EntityKey, EraseError, Erasure, HistoryPart,
    Idempotency, Link, Model, ReadError, ReadMode, Rebel, SubmitError, Timestamp, TxId, WallClock,
};
use enact_journal::Memory;
use enact_journal_kit::golden;
use enact_rebel::{EventCall, Source, Spec, Value, check};
use serde::de::DeserializeOwned;

use crate::fabric::{self, Answer, Order, Question};
use crate::subject_keys::tests::{golden_entries, read_golden};
use crate::view::{Claim, Examined, Lease, Pin as ShardPin, Refused, Settings};

type Said = Answer<<Rebel as Model>::State, EventCall>;
type Asked = Question<EventCall>;

const SPEC: &str = "
class Account
  balance: Money
  holder: Account
  initial unopened
    on Open(by: Account): opened
      post: this.balance = EUR 0.00
            this.holder = by
  opened
    on Deposit(amount: Money) -> Money
      pre:  \"too little\": amount > EUR 0.00
      post: this.balance += amount
      return: balance + amount
";
const LEFT: Duration = Duration::from_millis(1_500);

/// A clock that stands still.
struct Still;

impl WallClock for Still {
    fn time(&self) -> Timestamp {
        Timestamp(1_700_000_000_000)
    }

    fn reached(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(pending())
    }
}

fn key(id: &str) -> EntityKey {
    EntityKey::new("Account", id).expect("a key")
}

fn tx(number: u128) -> TxId {
    TxId::from_u128(number)
}

fn spec() -> Arc<Spec> {
    Arc::new(check(vec![Source::new("bank.rebel", SPEC)]).unwrap_or_else(|report| panic!("{}", report.render(false))))
}

fn command(spec: &Spec, event: &str, argument: (&'static str, Value)) -> Command<EventCall> {
    let class = spec.class("Account").expect("declared");
    let event = class.event(event).expect("declared").call(vec![argument]).expect("it fits");
    let idempotency = Idempotency { key: "k".to_owned(), principal: Some("ada".to_owned()), fingerprint: [7; 32] };
    Command { key: key("a"), event, then: Vec::new(), idempotency: Some(idempotency), deadline: LEFT }
}

fn euros(text: &str) -> Value {
    Value::Money(format!("EUR {text}").parse().expect("an amount"))
}

fn open(spec: &Spec) -> Command<EventCall> {
    let class = spec.class("Account").expect("declared");
    let by = Value::Reference(class.reference(class.key("b").expect("a name")));
    Command { idempotency: None, ..command(spec, "Open", ("by", by)) }
}

/// The name of a question. A new one has none, and needs a golden message.
fn name_of_question(question: &Asked) -> &'static str {
    match question {
        Question::Submit { .. } => "ask-submit",
        Question::Read { .. } => "ask-read",
        Question::History { part: HistoryPart::Page { .. }, .. } => "ask-history-page",
        Question::History { part: HistoryPart::At(_), .. } => "ask-history-at",
        Question::Changes { .. } => "ask-changes",
        Question::Erase { .. } => "ask-erase",
    }
}

fn questions(spec: &Spec) -> Vec<Asked> {
    let page = HistoryPart::Page { after: None, limit: 20 };
    vec![
        Question::Submit { tx: tx(7), command: command(spec, "Deposit", ("amount", euros("5.00"))) },
        Question::Read { key: key("a"), mode: ReadMode::Certain, after: Some(tx(7)), left: LEFT },
        Question::History { key: key("a"), part: page, left: LEFT },
        Question::History { key: key("a"), part: HistoryPart::At(Timestamp(9)), left: LEFT },
        Question::Changes { after: Cursor::START, limit: 10, left: LEFT },
        Question::Erase { subject: key("a"), by: Some("ada".to_owned()) },
    ]
}

/// The name of an answer.
fn name_of_answer(answer: &Said) -> &'static str {
    match answer {
        Answer::Submitted(Ok(_)) => "done",
        Answer::Submitted(Err(cause)) => name_of_failure(cause),
        Answer::Read(Ok(_)) => "read",
        Answer::Read(Err(_)) => "not-read",
        Answer::History(_) => "history",
        Answer::Changes(_) => "changes",
        Answer::Erased(Ok(_)) => "erased",
        Answer::Erased(Err(_)) => "not-erased",
        Answer::Moved => "moved",
        Answer::TooLarge => "too-large",
    }
}

fn name_of_failure(cause: &SubmitError) -> &'static str {
    match cause {
        SubmitError::Refused { .. } => "refused",
        SubmitError::Timeout { .. } => "timeout",
        SubmitError::Overloaded { .. } => "overloaded",
        SubmitError::StorageFull { .. } => "storage-full",
        SubmitError::InDoubt { .. } => "in-doubt",
        SubmitError::KeyReused => "key-reused",
        SubmitError::KeyInUse { .. } => "key-in-use",
        SubmitError::Stopping => "stopping",
        SubmitError::Failed { .. } => "failed",
        SubmitError::Elsewhere { .. } => "elsewhere",
        SubmitError::Moved { .. } => "moved-entity",
        SubmitError::Entity(_) => "entity",
        // Of a crate that may get more; each needs a golden message.
        _ => "unknown",
    }
}

/// What an engine answers, and what it says when something is wrong.
async fn answers(spec: &Arc<Spec>) -> Vec<Said> {
    let model = Rebel::new(Arc::clone(spec));
    let engine = Engine::with_clock(model, Memory::new(), EngineOptions::default(), Arc::new(Still));
    engine.submit_as(tx(1), open(spec)).await.expect("opened");
    let deposit = command(spec, "Deposit", ("amount", euros("5.00")));
    let refused = Command { idempotency: None, ..command(spec, "Deposit", ("amount", euros("0.00"))) };
    let page = HistoryPart::Page { after: None, limit: 20 };
    let mut answers = vec![
        Answer::Submitted(engine.submit_as(tx(2), deposit).await),
        Answer::Submitted(engine.submit_as(tx(3), refused).await),
        Answer::Read(engine.read(&key("a"), ReadMode::Certain, None, LEFT).await),
        Answer::Read(Err(ReadError::Moved { entity: key("a") })),
        Answer::History(engine.history(&key("a"), page, LEFT).await),
        Answer::Changes(engine.changes(Cursor::START, 10, LEFT).await),
        Answer::Erased(Ok(Erasure {
            tx: tx(4),
            subject: key("a"),
            generation: 1,
            at: Timestamp(9),
            by: Some("ada".to_owned()),
        })),
        Answer::Erased(Err(EraseError::NothingSealed { subject: key("a") })),
        Answer::Moved,
        Answer::TooLarge,
    ];
    let why = || "the disk".to_owned();
    let awaited = Awaited::Entity(key("b"));
    let graph = vec![Link { tx: tx(5), addressed: key("a"), awaited: awaited.clone(), waits_for: Vec::new() }];
    let failures = [
        SubmitError::Timeout { tx: tx(6), awaited, waits_for: Vec::new(), graph: graph.clone() },
        SubmitError::Overloaded { retry_after: LEFT },
        SubmitError::StorageFull { why: why() },
        SubmitError::InDoubt { tx: tx(6), doubt: Doubt::Recording, graph: graph.clone() },
        SubmitError::KeyReused,
        SubmitError::KeyInUse { tx: tx(6), graph },
        SubmitError::Stopping,
        SubmitError::Failed { why: why() },
        SubmitError::Elsewhere { entity: key("a"), engine: "3".to_owned() },
        SubmitError::Moved { entity: key("a") },
        SubmitError::Entity(EntityError::Told { why: why(), is_transient: true }),
    ];
    answers.extend(failures.map(|failure| Answer::Submitted(Err(failure))));
    answers
}

/// Keys of the bucket, which is JSON.
fn keys() -> Vec<golden::Named> {
    let bytes = |value: serde_json::Result<Vec<u8>>| value.expect("JSON");
    let (address, version, contract) = ("h1:8080".to_owned(), "0.1.0".to_owned(), "c1".to_owned());
    let (incarnation, is_leaving, is_cut_off) = (u64::MAX, true, false);
    let lease = Lease { incarnation, address, version, contract: contract.clone(), is_leaving, is_cut_off };
    let claim = Claim { node: "n1".to_owned(), incarnation: u64::MAX, epoch: Some(7) };
    let settings =
        Settings { shards: 12, contract, proposed: None, refused: None, database: None, is_restoring: false };
    let in_database = Settings { database: Some("d1".to_owned()), ..settings.clone() };
    let refused = Refused { contract: "c3".to_owned(), why: "shard 3: an account has too much".to_owned() };
    let changing = Settings { proposed: Some("c2".to_owned()), refused: Some(refused), ..settings.clone() };
    vec![
        ("lease", bytes(serde_json::to_vec(&lease))),
        ("lease-cut-off", bytes(serde_json::to_vec(&Lease { is_cut_off: true, ..lease }))),
        ("claim", bytes(serde_json::to_vec(&claim))),
        ("claim-begun", bytes(serde_json::to_vec(&Claim { epoch: None, ..claim }))),
        ("settings", bytes(serde_json::to_vec(&settings))),
        ("settings-changing", bytes(serde_json::to_vec(&changing))),
        ("settings-in-database", bytes(serde_json::to_vec(&in_database))),
        ("settings-restoring", bytes(serde_json::to_vec(&Settings { is_restoring: true, ..settings }))),
        ("examined", bytes(serde_json::to_vec(&Examined { proposal: 4 }))),
        ("pin", bytes(serde_json::to_vec(&ShardPin { node: "n1".to_owned() }))),
    ]
}

fn orders() -> [(&'static str, Order); 2] {
    let hand_over = Order::HandOver { shard: 3, to: "n1".to_owned(), incarnation: u64::MAX };
    [("order-hand-over", hand_over), ("order-drain", Order::Drain)]
}

fn said<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    fabric::decode(bytes).map_err(|cause| cause.to_string())
}

fn kept<T: DeserializeOwned>(bytes: &[u8]) -> Result<(), String> {
    serde_json::from_slice::<T>(bytes).map(drop).map_err(|cause| cause.to_string())
}

fn read(name: &str, bytes: &[u8]) -> Result<(), String> {
    let named = |found: &str| if found == name { Ok(()) } else { Err(format!("it is read as {found}")) };
    match name.split('-').next().unwrap_or_default() {
        "ask" => named(name_of_question(&said(bytes)?)),
        "order" => said::<Order>(bytes).map(drop),
        "ordered" => said::<bool>(bytes).map(drop),
        "unread" => fabric::unread(bytes).map(drop).ok_or_else(|| "it is not what it says".to_owned()),
        "subject" => read_golden(bytes),
        "lease" => kept::<Lease>(bytes),
        "claim" => kept::<Claim>(bytes),
        "settings" => kept::<Settings>(bytes),
        "examined" => kept::<Examined>(bytes),
        "pin" => kept::<ShardPin>(bytes),
        _ => named(name_of_answer(&said(bytes)?)),
    }
}

#[tokio::test]
async fn golden_messages_of_every_release_are_read() {
    let spec = spec();
    let mut messages: Vec<golden::Named> =
        questions(&spec).iter().map(|question| (name_of_question(question), fabric::encode(question))).collect();
    messages.extend(answers(&spec).await.iter().map(|answer| (name_of_answer(answer), fabric::encode(answer))));
    messages.extend(orders().map(|(name, order)| (name, fabric::encode(&order))));
    messages.push(("ordered", fabric::encode(&true)));
    messages.push(("unread", fabric::refusal(&std::fmt::Error)));
    messages.extend(golden_entries());
    messages.extend(keys());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden::check(&folder, env!("CARGO_PKG_VERSION"), &messages, read);
}
