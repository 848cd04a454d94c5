//! Personal values in an engine: what is sealed is opened, and what was erased stays so.

use std::sync::Arc;

use enact_entities::{
    Command, Cursor, Engine, EngineOptions, EntityKey, EraseError, Erasure, HistoryPart, ReadMode, Rebel, VaultError,
    View,
};
use enact_journal::{Embedded, Fault as MemoryFault, Journal, Memory, Options, SubjectKeys, SubjectKeysError};
use enact_journal_kit::sim::{Fault, SimDisk};
use enact_rebel::{EventCall, Reference, Source, Spec, Value, check};

use crate::support::client::LONG;

const SPEC: &str = include_str!("../../../../examples/customers.rebel");

fn spec() -> Arc<Spec> {
    Arc::new(check(vec![Source::new("customers.rebel", SPEC)]).expect("a specification"))
}

fn key(text: &str) -> EntityKey {
    text.parse().expect("a key")
}

fn customer(id: &str) -> Reference {
    let class = spec().class("Customer").expect("there is one").clone();
    class.reference(class.key(id).expect("an id"))
}

fn text(value: &str) -> Value {
    Value::String(value.into())
}

fn call(event: &str, arguments: Vec<(&str, Value)>) -> EventCall {
    let spec = spec();
    let event = spec.class("Customer").and_then(|class| class.event(event)).expect("it has the event");
    event.call(arguments).expect("the arguments fit")
}

async fn submit<J: Journal>(engine: &Engine<Rebel, J>, event: EventCall) {
    let command = Command { key: key("Customer/c1"), event, then: Vec::new(), idempotency: None, deadline: LONG };
    engine.submit(command).await.expect("taken");
}

async fn register<J: Journal>(engine: &Engine<Rebel, J>) {
    let vault = engine.vault().expect("there are keys");
    let name = vault.seal(&customer("c1"), &text("Ada")).await.expect("sealed");
    submit(engine, call("Register", vec![("called", name.value), ("isAdult", Value::Boolean(true))])).await;
}

/// The name of the customer, as far as it can be read.
async fn name<J: Journal>(engine: &Engine<Rebel, J>) -> Option<Value> {
    let view = engine.read(&key("Customer/c1"), ReadMode::Certain, None, LONG).await.expect("readable");
    let View::One { state, .. } = view else { panic!("one state") };
    let Some(Value::Sealed(sealed)) = state.fields().get("name").cloned() else { panic!("it is sealed") };
    engine.vault().expect("there are keys").open(&sealed).await.expect("readable")
}

async fn erasures<J: Journal>(engine: &Engine<Rebel, J>) -> Vec<Erasure> {
    let whole = HistoryPart::Page { after: None, limit: 100 };
    engine.history(&key("Customer/c1"), whole, LONG).await.expect("readable").erasures
}

async fn shop(journal: &SimDisk, keys: &SimDisk) -> Engine<Rebel, Embedded> {
    let journal = Embedded::open_on(journal.mount(), Options::default()).expect("opens");
    let engine = Engine::new(Rebel::new(spec()), journal, EngineOptions::default());
    let keys = SubjectKeys::open_on(keys.mount()).expect("opens");
    engine.keep_personal(keys).await.expect("every erasure is made up for");
    engine
}

async fn in_memory() -> Engine<Rebel, Memory> {
    let engine = Engine::new(Rebel::new(spec()), Memory::new(), EngineOptions::default());
    let keys = SubjectKeys::open_on(SimDisk::new(1).mount()).expect("opens");
    engine.keep_personal(keys).await.expect("nothing was erased");
    engine
}

/// Each step of either disk fails once, in each way, while somebody is erased; then the power goes.
#[tokio::test]
async fn what_was_erased_stays_erased_whatever_fails() {
    let mut told = [0; 3];
    let faults =
        [Fault::Refused, Fault::Torn, Fault::AfterDone, Fault::SyncLost, Fault::Full, Fault::FullAfterDone].into_iter();
    for (is_of_keys, fault) in faults.flat_map(|fault| [(false, fault), (true, fault)]) {
        for step in 1.. {
            let (journal, keys) = (SimDisk::new(step), SimDisk::new(step + 1));
            let engine = shop(&journal, &keys).await;
            register(&engine).await;
            let failing = if is_of_keys { &keys } else { &journal };
            failing.record();
            failing.fail_in(step, fault);
            let erased = engine.erase(&key("Customer/c1"), Some("auditor")).await;
            let steps = failing.steps().len() as u64;
            drop(engine);
            journal.power_cut();
            keys.power_cut();
            let engine = shop(&journal, &keys).await;
            let name = name(&engine).await;
            let case = format!(
                "{fault:?} in step {step} of {}: {erased:?}",
                if is_of_keys { "the keys" } else { "the journal" }
            );
            match &erased {
                Ok(_) => {
                    told[0] += 1;
                    assert_eq!(name, None, "{case}");
                }
                // Its record may be durable or not.
                Err(EraseError::Closed { .. }) => told[1] += 1,
                Err(EraseError::NotDestroyed { .. }) => {
                    told[2] += 1;
                    assert_eq!(name, None, "the journal says that it was erased: {case}");
                }
                Err(other) => panic!("{case}: {other}"),
            }
            let recorded = erasures(&engine).await;
            assert_eq!(recorded.is_empty(), name.is_some(), "{case}");
            if steps < step {
                break;
            }
        }
    }
    assert!(told.iter().all(|&count| count > 0), "{told:?}");
}

#[tokio::test]
async fn a_value_that_was_sealed_before_an_erasure_is_erased_with_it_and_a_later_one_is_not() {
    let engine = in_memory().await;
    register(&engine).await;
    let vault = engine.vault().expect("there are keys");
    let before = vault.seal(&customer("c1"), &text("a street")).await.expect("sealed");
    let erasure = engine.erase(&key("Customer/c1"), None).await.expect("erased");
    submit(&engine, call("Move", vec![("to", before.value.clone())])).await;
    let Value::Sealed(sealed) = before.value else { panic!("it is sealed") };
    assert_eq!((vault.open(&sealed).await.expect("readable"), name(&engine).await), (None, None));
    // Nothing new to erase.
    assert_eq!(engine.erase(&key("Customer/c1"), Some("somebody")).await.expect("erased before"), erasure);
    let later = vault.seal(&customer("c1"), &text("a square")).await.expect("sealed");
    let Value::Sealed(sealed) = later.value else { panic!("it is sealed") };
    assert_eq!((sealed.generation, vault.open(&sealed).await.expect("readable")), (2, Some(text("a square"))));
    let again = engine.erase(&key("Customer/c1"), Some("somebody")).await.expect("erased");
    assert_eq!(
        (again.generation, again.by.as_deref(), vault.open(&sealed).await.expect("readable")),
        (2, Some("somebody"), None)
    );
    assert_eq!(erasures(&engine).await, [erasure, again]);
}

#[tokio::test]
async fn equal_values_of_a_subject_have_one_fingerprint_and_those_of_others_another() {
    let engine = in_memory().await;
    let vault = engine.vault().expect("there are keys");
    let seal = async |id: &str, value: &str| vault.seal(&customer(id), &text(value)).await.expect("sealed");
    let (one, same) = (seal("c1", "Ada").await, seal("c1", "Ada").await);
    assert_eq!(one.fingerprint, same.fingerprint);
    assert_ne!(one.value, same.value);
    for other in [seal("c2", "Ada").await, seal("c1", "Bob").await] {
        assert_ne!(one.fingerprint, other.fingerprint);
    }
    engine.erase(&key("Customer/c1"), None).await.expect("erased");
    assert_ne!(one.fingerprint, seal("c1", "Ada").await.fingerprint, "nobody knows any more what it was");
}

#[tokio::test]
async fn every_reader_of_changes_finds_an_erasure_once_at_its_place() {
    let engine = in_memory().await;
    register(&engine).await;
    let erasure = engine.erase(&key("Customer/c1"), Some("auditor")).await.expect("erased");
    let vault = engine.vault().expect("there are keys");
    let street = vault.seal(&customer("c1"), &text("a street")).await.expect("sealed");
    submit(&engine, call("Move", vec![("to", street.value)])).await;
    let whole = engine.changes(Cursor::START, 100, LONG).await.expect("readable").changes;
    let told = |change: &enact_entities::EntityChange<EventCall>| {
        let event = change.events.first().map(|event| event.event().to_string());
        (change.entity.to_string(), change.tx, event, change.erasure.as_deref().cloned())
    };
    let of_erasure = (erasure.subject.to_string(), erasure.tx, None::<String>, Some::<Erasure>(erasure));
    assert_eq!(whole.iter().map(told).nth(1), Some(of_erasure));
    let events: Vec<_> = whole.iter().map(|change| told(change).2).collect();
    assert_eq!(events, [Some("Register".to_owned()), None, Some("Move".to_owned())]);
    let (mut cursor, mut one_by_one) = (Cursor::START, Vec::new());
    while let [change] = &engine.changes(cursor, 1, LONG).await.expect("readable").changes[..] {
        cursor = change.cursor;
        one_by_one.push(told(change));
    }
    assert_eq!(one_by_one, whole.iter().map(told).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_cannot_be_erased_is_said() {
    let engine = Engine::new(Rebel::new(spec()), Memory::new(), EngineOptions::default());
    assert!(matches!(engine.erase(&key("Customer/c1"), None).await, Err(EraseError::NoKeys)));
    let engine = in_memory().await;
    let nothing = engine.erase(&key("Customer/c1"), None).await;
    assert!(matches!(nothing, Err(EraseError::NothingSealed { subject }) if subject == key("Customer/c1")));
    register(&engine).await;
    engine.journal().fail_next(MemoryFault::Refused);
    assert!(matches!(engine.erase(&key("Customer/c1"), None).await, Err(EraseError::NotRecorded { .. })));
    assert_eq!(name(&engine).await, Some(text("Ada")));
    engine.journal().fail_next(MemoryFault::InDoubt { is_performed: true });
    assert!(matches!(engine.erase(&key("Customer/c1"), None).await, Err(EraseError::Closed { .. })));
    assert!(engine.failure().is_some(), "nobody knows what the journal says");
    assert!(matches!(engine.erase(&key("Customer/c1"), None).await, Err(EraseError::Closed { .. })));
}

#[tokio::test]
async fn a_value_that_was_changed_or_is_somebody_elses_is_not_opened() {
    let engine = in_memory().await;
    let vault = engine.vault().expect("there are keys");
    let kept = vault.seal(&customer("c1"), &text("Ada")).await.expect("sealed");
    vault.seal(&customer("c2"), &text("Bob")).await.expect("sealed");
    let Value::Sealed(sealed) = kept.value else { panic!("it is sealed") };
    let mut changed = (*sealed).clone();
    changed.bytes[20] ^= 1;
    assert!(matches!(vault.open(&changed).await, Err(VaultError::Keys(SubjectKeysError::Tampered { .. }))));
    let of_another = enact_rebel::Sealed { subject: customer("c2"), ..(*sealed).clone() };
    assert!(matches!(vault.open(&of_another).await, Err(VaultError::Keys(SubjectKeysError::Tampered { .. }))));
    let unknown = enact_rebel::Sealed { generation: 7, ..(*sealed).clone() };
    assert!(matches!(vault.open(&unknown).await, Err(VaultError::Keys(SubjectKeysError::Unknown { .. }))));
}
