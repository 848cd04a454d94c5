//! The page on audits with the real program: a journal that a server has written, and the same with records that nobody would have
//! admitted.

use std::fs;
use std::path::Path;
use std::process::Output;

use enact_entities::{EntityKey, Record, Slot, Timestamp, TxId};
use enact_journal::{Embedded, Journal, Kind, NewRecord, Options};
use enact_journal_kit::contract::block_on;
use enact_rebel::{EventCall, Source, Value, check};
use reqwest::StatusCode;
use serde_json::{Value as Json, json};

use crate::backup::{Place, Step, iban, shape, steps};
use crate::served::{FREE_PORT, Served};

const PAGE: &str = include_str!("../../../../docs/operations/audit.md");
const SPEC: &str = include_str!("../../../../examples/bank.rebel");

/// Two accounts, of which the first has EUR 50.00, and a transfer; the server was stopped.
async fn bank(place: &Place) {
    let bank = place.serve("bank-data");
    for (path, body) in [
        (format!("/Account/{}/Open", iban(1)), json!({ "owner": "Ada", "initialDeposit": "EUR 100.00" })),
        (format!("/Account/{}/Open", iban(2)), json!({ "owner": "Bob", "initialDeposit": "EUR 1.00" })),
        ("/Transfer/t/Book".to_owned(), json!({ "amount": "EUR 50.00", "from": iban(1), "to": iban(2) })),
        (format!("/Account/{}/Deposit", iban(2)), json!({ "amount": "EUR 3.00" })),
    ] {
        let (status, answer) = bank.post(&path, body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    bank.signal(rustix::process::Signal::TERM);
    assert!(bank.ended().0.success());
}

fn event(class: &str, name: &str, arguments: &[(&str, &str)]) -> EventCall {
    let spec = check(vec![Source::new("bank.rebel", SPEC)]).expect("a sound specification");
    let event = spec.class(class).and_then(|class| class.event(name)).expect("the bank has it");
    let typed = arguments.iter().map(|(name, text)| {
        let param = event.params().iter().find(|param| **param.name() == **name).expect("the event has it");
        (*name, Value::parse(param.ty(), text).expect("of its type"))
    });
    event.call(typed).expect("the arguments fit")
}

/// What is written to the journal of an entity, at a slot.
type Forged = (&'static str, String, u64, EventCall);

/// A name, what is forged, and what is found: kinds and how their texts begin.
type Row = (&'static str, Vec<Forged>, Vec<(&'static str, String)>);

/// Writes all of these as one transaction.
fn forge(data: &Path, tx: u128, forged: Vec<Forged>) {
    forge_as(None, data, tx, forged);
}

/// The same, filed under another kind of records.
fn forge_as(kind: Option<Kind>, data: &Path, tx: u128, forged: Vec<Forged>) {
    let journal = Embedded::open(data, Options::default()).expect("no server has it open");
    let records = forged.into_iter().map(|(class, id, slot, event)| {
        let entity = EntityKey::new(class, &id).expect("a name");
        let record = Record::Committed {
            tx: TxId::from_u128(tx),
            slot: Slot(slot),
            events: vec![event],
            at: Timestamp(2_000_000_000_000),
            version: 1,
            overlap: None,
        };
        let expected = block_on(journal.last(&entity)).expect("readable");
        let kind = kind.unwrap_or(Kind(record.kind()));
        NewRecord { entity, expected, kind, payload: record.encode() }
    });
    block_on(journal.append(records.collect())).expect("durable");
    block_on(journal.close()).expect("closed");
}

fn copy(place: &Place, name: &str) {
    place.done(&format!("cp -a bank-data {name}"));
}

/// What `command` prints, which finds something.
#[track_caller]
fn found(place: &Place, command: &str) -> String {
    let Output { status, stdout, stderr } = place.run(command);
    let (stdout, stderr) = (String::from_utf8(stdout).expect("text"), String::from_utf8(stderr).expect("text"));
    assert_eq!(status.code(), Some(4), "{stdout}{stderr}");
    assert!(stderr.starts_with("error: the specification does not allow what has happened: "), "{stderr}");
    stdout
}

/// The lines of JSON that an audit of `data` prints, as their kinds and texts.
#[track_caller]
fn findings(place: &Place, data: &str) -> Vec<(String, String)> {
    let printed = found(place, &format!("enact audit bank.rebel --json --data {data}"));
    let finding = |line: &str| {
        let line: Json = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| line[name].as_str().expect("a text").to_owned();
        (text("kind"), text("text"))
    };
    printed.lines().map(finding).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_an_audit_prints() {
    let place = Place::new();
    bank(&place).await;
    copy(&place, "bank-forged");
    let withdraw = event("Account", "Withdraw", &[("amount", "EUR 80.00")]);
    forge(&place.path("bank-forged"), 7, vec![("Account", iban(1), 3, withdraw)]);
    let [clean, forged] = &steps(PAGE)[..] else { panic!("two commands") };
    assert_eq!(place.done(&clean.command), clean.printed);
    let printed = found(&place, &forged.command);
    let shape_of =
        |printed: &str| shape(printed).join("\n").replace(['a', 'b', 'c', 'd', 'e', 'f'], "0").replace("00", "0");
    let in_page = |Step { printed, .. }: &Step| printed.replace("NL91ABNA0417164300", &iban(1));
    assert_eq!(masked(&shape_of(&printed)), masked(&shape_of(&in_page(forged))), "{printed}");
    place.done("enact journal backup bank.backup --data bank-forged");
    assert_eq!(found(&place, "enact audit bank.rebel --backup bank.backup"), printed);
}

/// Without what differs from one transaction to another.
fn masked(text: &str) -> String {
    text.split(' ')
        .map(|word| if word.contains('-') && !word.contains("EUR") { "id" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_of_which_a_part_is_missing_or_other_than_called_is_found() {
    let place = Place::new();
    bank(&place).await;
    let book = |amount: &str| event("Transfer", "Book", &[("amount", amount), ("from", &iban(1)), ("to", &iban(2))]);
    let [withdraw, deposit] =
        ["Withdraw", "Deposit"].map(|name| move |amount: &str| event("Account", name, &[("amount", amount)]));
    let (one, other) = (iban(1), iban(2));
    let rows: Vec<Row> = vec![
        (
            "missing",
            vec![("Transfer", "f".into(), 1, book("EUR 5.00")), ("Account", one.clone(), 3, withdraw("EUR 5.00"))],
            vec![(
                "missing",
                format!("Transfer/f.Book calls Account/{other}.Deposit(amount: EUR 5.00), which has not happened"),
            )],
        ),
        (
            "different",
            vec![
                ("Transfer", "f".into(), 1, book("EUR 5.00")),
                ("Account", one.clone(), 3, withdraw("EUR 5.00")),
                ("Account", other.clone(), 4, deposit("EUR 6.00")),
            ],
            vec![(
                "different",
                format!(
                    "Transfer/f.Book calls Account/{other}.Deposit(amount: EUR 5.00), and Deposit(amount: EUR 6.00) has happened"
                ),
            )],
        ),
        (
            "uncalled",
            vec![("Account", one.clone(), 3, event("Account", "CollectFee", &[("charge", "EUR 1.00")]))],
            vec![("uncalled", format!("nobody calls Account/{one}.CollectFee(charge: EUR 1.00)"))],
        ),
        (
            "slot",
            vec![("Account", one.clone(), 2, deposit("EUR 1.00"))],
            vec![("contradicted", format!("Account/{one}: the record takes the slot of "))],
        ),
        (
            "class",
            vec![("Safe", "s".into(), 1, deposit("EUR 1.00"))],
            vec![("unjudged", "there can be no Safe/s".into())],
        ),
    ];
    for (name, forged, expected) in rows {
        copy(&place, name);
        forge(&place.path(name), 7, forged);
        let found = findings(&place, name);
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
        for ((kind, text), (expected_kind, begin)) in found.iter().zip(&expected) {
            assert!(kind == expected_kind && text.starts_with(begin.as_str()), "{name}: {kind}: {text}");
        }
    }
}

/// A server replays it like any other.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_filed_as_something_else_is_found() {
    let place = Place::new();
    bank(&place).await;
    let fee = event("Account", "CollectFee", &[("charge", "EUR 80.00")]);
    forge_as(Some(Kind(64)), &place.path("bank-data"), 7, vec![("Account", iban(1), 3, fee)]);
    let served = place.serve("bank-data");
    let (_, account) = served.get(&format!("/Account/{}", iban(1))).await;
    assert_eq!(account["fields"]["balance"], "EUR 130.00");
    served.signal(rustix::process::Signal::TERM);
    assert!(served.ended().0.success());
    let found = findings(&place, "bank-data");
    assert!(matches!(&found[..], [(kind, _)] if kind == "uncalled"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stricter_specification_of_the_same_version_finds_what_it_would_not_have_allowed() {
    let place = Place::new();
    bank(&place).await;
    let strict = SPEC.replace("amount > 0", "amount > EUR 10.00");
    assert_ne!(strict, SPEC);
    fs::write(place.path("bank.rebel"), strict).expect("written");
    let found = findings(&place, "bank-data");
    let expected = format!(
        "Account/{} refuses Deposit: the deposit must be more than zero with amount = EUR 3.00; it leaves balance = EUR 54.00",
        iban(2)
    );
    assert_eq!(found, [("refused".to_owned(), expected)]);
}

/// A lamp that is lit, and is dimmed under its third version. The second version was never recorded.
const LAMP: [&str; 3] = [
    "module lamp version 1\nclass Lamp\n  hours: Integer = 0\n  initial off\n    on Light(): lit\n  lit\n",
    "module lamp version 2\nclass Lamp\n  initial off\n    on Light(): lit\n  lit\nmigrate from 1\n  drop Lamp.hours\n",
    "module lamp version 3\nclass Lamp\n  hours: Integer = 0\n  initial off\n    on Light(): lit\n  lit\n    on Dim()\nmigrate from 1\n",
];

#[tokio::test(flavor = "multi_thread")]
async fn each_version_can_be_audited_by_a_specification_of_its_own() {
    let place = Place::new();
    for (number, text) in (1..).zip(LAMP) {
        fs::write(place.path(&format!("lamp{number}.rebel")), text).expect("written");
    }
    for (number, event) in [(1, "Light"), (3, "Dim")] {
        let mut command =
            crate::served::serve(&place.path(&format!("lamp{number}.rebel")), &place.path("data"), FREE_PORT);
        command.arg("--adopt");
        let lamp = Served::start(command);
        let (status, answer) = lamp.post(&format!("/Lamp/l/{event}"), json!({})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        lamp.signal(rustix::process::Signal::TERM);
        assert!(lamp.ended().0.success());
    }
    let clean = "clean: entities 1, transactions 2\n";
    for number in [1, 3] {
        assert_eq!(place.done(&format!("enact audit lamp{number}.rebel --data data")), clean);
    }
    let said = place.refused("enact audit lamp2.rebel --data data", 5);
    assert!(said.contains("the specification is of version 2, and the entities are of version 3"), "{said}");
    for (number, from, to, refused) in [(1, "on Light()", "on Shine()", "Light"), (3, "on Dim()", "on Fade()", "Dim")] {
        let text = LAMP[number - 1].replace(from, to);
        fs::write(place.path("other.rebel"), text).expect("written");
        let printed = found(&place, "enact audit other.rebel --data data");
        assert!(printed.contains(&format!("Lamp/l refuses {refused}: Lamp has no event `{refused}`")), "{printed}");
    }
    let later = LAMP[2].replace("version 3", "version 4").replace("from 1", "from 3");
    fs::write(place.path("later.rebel"), &later).expect("written");
    assert_eq!(place.done("enact audit later.rebel --data data"), clean, "nothing has happened under it");
    fs::write(place.path("later.rebel"), later.replace("hours", "days")).expect("written");
    let said = place.refused("enact audit later.rebel --data data", 5);
    assert!(said.contains("does not say what becomes of the entities"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_journal_or_no_specification_is_refused() {
    let place = Place::new();
    bank(&place).await;
    place.refused("enact audit bank.rebel --data none", 4);
    place.refused("enact audit none.rebel --data bank-data", 2);
    fs::write(place.path("wrong.rebel"), "class Lamp initial off on Light(): lost").expect("written");
    place.refused("enact audit wrong.rebel --data bank-data", 1);
}
