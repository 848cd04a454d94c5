//! Serving entities under another specification than they were written under.

use std::fs;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::served::{BANK, FREE_PORT, Served, enact, serve};

/// A change of the specification, and what becomes of the bank: its account `A`, or the message that refuses it.
struct Row {
    change: &'static str,
    replace: (&'static str, &'static str),
    expected: Result<Value, &'static [&'static str]>,
}

const LAMP: &str = "class Lamp\n  initial off\n    on Light(): lit\n  lit\n";

fn rows() -> Vec<Row> {
    let same = || Ok(json!({ "balance": "EUR 40.00" }));
    vec![
        Row { change: "nothing", replace: ("", ""), expected: same() },
        Row { change: "a comment", replace: ("\nclass Account", "\n// Money.\nclass Account"), expected: same() },
        Row {
            change: "a new class",
            replace: ("\nclass Account", "\nclass Torch\n  initial off\n    on Light(): lit\n  lit\nclass Account"),
            expected: same(),
        },
        Row { change: "a new event", replace: ("  opened\n", "  opened\n    on Knock(): opened\n"), expected: same() },
        Row {
            change: "a new field with a default",
            replace: ("  balance: Money\n", "  balance: Money\n  visits: Integer = 7\n"),
            expected: Ok(json!({ "balance": "EUR 40.00", "visits": 7 })),
        },
        Row {
            change: "a new field that an event sets",
            replace: ("  balance: Money\n", "  balance: Money\n  opening: Money = EUR 0.00\n"),
            expected: Ok(json!({ "balance": "EUR 40.00", "opening": "EUR 0.00" })),
        },
        Row {
            change: "a new parameter with a default",
            replace: (
                "on Pay(amount: Money, to: Account): opened\n      pre: amount > EUR 0.00,",
                "on Pay(amount: Money, to: Account, fee: Money = EUR 0.00): opened\n      pre: amount > fee,",
            ),
            expected: same(),
        },
        Row {
            change: "a new parameter without a default",
            replace: ("on Pay(amount: Money, to: Account)", "on Pay(amount: Money, to: Account, _fee: Money)"),
            expected: Err(&["does not allow what has happened", "Account/A", "`Pay` needs the parameter `_fee`"]),
        },
        Row {
            change: "a default that rewrites what has happened",
            replace: (
                "on Deposit(amount: Money): opened\n      pre: amount > EUR 0.00\n      post: this.balance += amount",
                "on Deposit(amount: Money, times: Integer = 2): opened\n      pre: amount > EUR 0.00\n      post: this.balance += amount * times",
            ),
            expected: Err(&["would change Account/B", "balance is EUR 161.00, and would be EUR 162.00"]),
        },
        Row {
            change: "a weaker guard",
            replace: ("balance - amount >= EUR 0.00", "balance - amount >= EUR -10.00"),
            expected: same(),
        },
        Row {
            change: "a guard that forbids what has happened",
            replace: ("pre: initialDeposit >= EUR 0.00", "pre: \"too little\": initialDeposit >= EUR 500.00"),
            expected: Err(&["does not allow what has happened", "Account/A", "too little"]),
        },
        Row {
            change: "an effect that rewrites what has happened",
            replace: ("post: this.balance -= amount", "post: this.balance -= amount * 2"),
            expected: Err(&["would change Account/A", "balance is EUR 40.00, and would be EUR -20.00"]),
        },
        Row {
            change: "a lost event",
            replace: ("on Deposit(", "on PayIn("),
            expected: Err(&["does not allow what has happened", "Account/B", "Deposit"]),
        },
        Row {
            change: "a renamed state",
            replace: ("opened", "open"),
            expected: Err(&["would change Account/A", "in state opened", "open"]),
        },
        Row {
            change: "a lost class with entities",
            replace: ("Account", "Konto"),
            expected: Err(&["does not allow what has happened", "no class Account"]),
        },
    ]
}

#[tokio::test]
async fn a_changed_specification_is_adopted_only_if_every_entity_stays_what_it_is() {
    for Row { change, replace: (old, new), expected } in rows() {
        let directory = tempfile::tempdir().expect("a place for the test");
        let (spec, data) = (directory.path().join("bank.rebel"), directory.path().join("data"));
        // The lamp has no entity: it may go at any time.
        fs::write(&spec, format!("{BANK}{LAMP}")).expect("writable");
        let server = Served::start(serve(&spec, &data, FREE_PORT));
        for (path, body) in [
            ("/Account/A/Open", json!({ "initialDeposit": "EUR 100.00" })),
            ("/Account/B/Open", json!({ "initialDeposit": "EUR 100.00" })),
            ("/Account/A/Pay", json!({ "amount": "EUR 60.00", "to": "B" })),
            ("/Account/B/Deposit", json!({ "amount": "EUR 1.00" })),
        ] {
            let (status, body) = server.post(path, body).await;
            assert_eq!(status, StatusCode::OK, "{body}");
        }
        server.kill();

        let changed = if old.is_empty() { format!("{BANK}{LAMP}") } else { BANK.replace(old, new) };
        fs::write(&spec, changed).expect("writable");
        match expected {
            Ok(fields) => {
                // Twice: the second time it is the contract.
                for _ in 0..2 {
                    let server = Served::start(serve(&spec, &data, FREE_PORT));
                    let (status, body) = server.get("/Account/A").await;
                    assert_eq!((status, &body["fields"]), (StatusCode::OK, &fields), "{change}");
                    server.kill();
                }
            }
            Err(parts) => {
                let (spec_path, data_path) = (spec.to_str().expect("UTF-8"), data.to_str().expect("UTF-8"));
                let ended = enact(&["serve", spec_path, "--data", data_path, "--listen", FREE_PORT]);
                let stderr = String::from_utf8_lossy(&ended.stderr);
                assert_eq!(ended.status.code(), Some(5), "{change}: {stderr}");
                assert!(parts.iter().all(|part| stderr.contains(part)), "{change}: {parts:?} in {stderr}");
                // Nothing was touched: the earlier specification still serves.
                fs::write(&spec, format!("{BANK}{LAMP}")).expect("writable");
                let (status, body) = Served::start(serve(&spec, &data, FREE_PORT)).get("/Account/A").await;
                assert_eq!((status, &body["fields"]["balance"]), (StatusCode::OK, &json!("EUR 40.00")), "{change}");
            }
        }
    }
}

#[tokio::test]
async fn an_entity_with_a_snapshot_gains_a_field_too() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let (spec, data) = (directory.path().join("bank.rebel"), directory.path().join("data"));
    fs::write(&spec, BANK).expect("writable");
    let server = Served::start(serve(&spec, &data, FREE_PORT));
    let (status, _) = server.post("/Account/A/Open", json!({ "initialDeposit": "EUR 0.00" })).await;
    assert_eq!(status, StatusCode::OK);
    // More effects than lie between two snapshots.
    for _ in 0..300 {
        let (status, _) = server.post("/Account/A/Deposit", json!({ "amount": "EUR 1.00" })).await;
        assert_eq!(status, StatusCode::OK);
    }
    server.signal(rustix::process::Signal::TERM);
    assert!(server.ended().0.success());

    let counting = BANK
        .replace("  balance: Money\n", "  balance: Money\n  visits: Integer = 0\n")
        .replace("post: this.balance += amount", "post: this.balance += amount, this.visits += 1");
    fs::write(&spec, counting).expect("writable");
    let server = Served::start(serve(&spec, &data, FREE_PORT));
    let (status, _) = server.post("/Account/A/Deposit", json!({ "amount": "EUR 1.00" })).await;
    assert_eq!(status, StatusCode::OK);
    let (_, body) = server.get("/Account/A").await;
    assert_eq!(body["fields"], json!({ "balance": "EUR 301.00", "visits": 301 }));
}

#[tokio::test]
async fn a_refused_specification_gives_no_entity_the_fields_that_it_adds() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let (spec, data) = (directory.path().join("bank.rebel"), directory.path().join("data"));
    let both = format!("{BANK}{LAMP}");
    fs::write(&spec, &both).expect("writable");
    let server = Served::start(serve(&spec, &data, FREE_PORT));
    for (path, body) in [("/Account/A/Open", json!({ "initialDeposit": "EUR 5.00" })), ("/Lamp/L/Light", json!({}))] {
        assert_eq!(server.post(path, body).await.0, StatusCode::OK, "{path}");
    }
    server.signal(rustix::process::Signal::TERM);
    assert!(server.ended().0.success());

    // The account is compared before the lamp, whose event is lost.
    let refused =
        both.replace("  balance: Money\n", "  balance: Money\n  visits: Integer = 7\n").replace("Light", "Glow");
    fs::write(&spec, refused).expect("writable");
    let (spec_path, data_path) = (spec.to_str().expect("UTF-8"), data.to_str().expect("UTF-8"));
    let ended = enact(&["serve", spec_path, "--data", data_path, "--listen", FREE_PORT]);
    assert!(!ended.status.success() && String::from_utf8_lossy(&ended.stderr).contains("Lamp/L"), "{ended:?}");

    fs::write(&spec, both).expect("writable");
    let (_, body) = Served::start(serve(&spec, &data, FREE_PORT)).get("/Account/A").await;
    assert_eq!(body["fields"], json!({ "balance": "EUR 5.00" }));
}
