//! Why a command is refused, what it waits for while it runs, and what it waited for at its deadline: over HTTP.

use enact_entities::Timestamp;
use enact_journal::{Fault, Memory};
use serde_json::{Value, json};

use crate::gated::{Gate, Served, gated, late};

#[tokio::test]
async fn every_kind_of_refusal_names_the_instance_the_rule_and_the_values_that_it_read() {
    let bank = Served::over(Memory::new()).opened(&["A", "B"]).await;
    assert_eq!(bank.post("/Account/B/Close", json!({})).await.status, 200);
    for (path, body, instance, event, text, values, called_by) in [
        (
            "/Account/A/Withdraw",
            json!({ "amount": "EUR 100.01" }),
            "Account/A",
            "Withdraw",
            "insufficient funds",
            json!({ "balance": "EUR 100.00", "amount": "EUR 100.01" }),
            Value::Null,
        ),
        (
            "/Account/A/Count",
            json!({ "by": 11 }),
            "Account/A",
            "Count",
            "at most ten",
            json!({ "count": "11" }),
            Value::Null,
        ),
        (
            "/Account/B/Withdraw",
            json!({ "amount": "EUR 1.00" }),
            "Account/B",
            "Withdraw",
            "Withdraw is not possible in state closed, only in opened",
            Value::Null,
            Value::Null,
        ),
        (
            "/Account/A/Multiply",
            json!({ "times": 9_000_000_000_000_000_000_i64 }),
            "Account/A",
            "Multiply",
            "the result is out of range, in `this.count = times * 9000000000000000000`, where times = 9000000000000000000",
            Value::Null,
            Value::Null,
        ),
        (
            "/Transfer/t1/Book",
            json!({ "amount": "EUR 100.01", "from": "A", "to": "B" }),
            "Account/A",
            "Withdraw",
            "insufficient funds",
            json!({ "balance": "EUR 100.00", "amount": "EUR 100.01" }),
            json!(["Transfer/t1.Book"]),
        ),
        (
            "/Transfer/t1/Tally",
            json!({ "by": 11, "at": "A" }),
            "Account/A",
            "Count",
            "at most ten",
            json!({ "count": "11" }),
            Value::Null,
        ),
        (
            "/Offer/o1/Make",
            json!({ "of": "B" }),
            "Account/B",
            "the account must be in use",
            "the account must be in use, and it is in state closed",
            Value::Null,
            json!(["Offer/o1.Make"]),
        ),
        (
            "/Offer/o1/Forbid",
            json!({ "of": "A", "amount": "EUR 1.00" }),
            "Account/A",
            "not of.Withdraw(amount)",
            "not of.Withdraw(amount), and it is in state opened",
            Value::Null,
            json!(["Offer/o1.Forbid"]),
        ),
        (
            "/Offer/o1/Match",
            json!({ "of": "A", "amount": "EUR 200.00" }),
            "Offer/o1",
            "Match",
            "as much must be there",
            json!({ "of": "A", "of.balance": "EUR 100.00", "amount": "EUR 200.00" }),
            Value::Null,
        ),
    ] {
        let refused = bank.post(path, body).await;
        assert_eq!(refused.status, 409, "{path}: {refused:#?}");
        let reason = &refused.body["reasons"][0];
        let told = json!([reason["entity"], reason["event"], reason["text"], reason["values"], reason["called_by"]]);
        assert_eq!(told, json!([instance, event, text, values, called_by]), "{path}");
        assert!(refused.detail().starts_with(instance) && refused.detail().contains(text), "{path}: {refused:#?}");
    }
    let unmet = bank.post("/Offer/o1/Make", json!({ "of": "B" })).await;
    let said =
        "Account/B does not meet what Offer/o1.Make demands: the account must be in use, and it is in state closed";
    assert_eq!(unmet.detail(), said);
}

/// Two deposits and a withdrawal whose records are being written, on one account.
#[tokio::test]
async fn a_delay_names_the_values_those_it_depends_on_and_what_they_wait_for() {
    let journal = Memory::new();
    let bank = Served::over(journal.clone()).opened(&["A"]).await;
    journal.hold();
    let withdrawn = bank.begins("record", "/Account/A/Withdraw", json!({ "amount": "EUR 30.00" }), "w").await;
    let first = bank.begins("record", "/Account/A/Deposit", json!({ "amount": "EUR 20.00" }), "d1").await;
    let second = bank.begins("record", "/Account/A/Deposit", json!({ "amount": "EUR 20.00" }), "d2").await;
    let withdrawal = json!({ "amount": "EUR 130.00" });
    let delayed = late("entity", async |deadline| {
        bank.post_with("/Account/A/Withdraw", withdrawal.clone(), &[("enact-deadline-ms", deadline)]).await
    })
    .await;
    let waits = &delayed.body["waits_for"];
    assert_eq!(
        (&waits[0]["event"], &waits[1]["event"], &waits[1]["others"]),
        (&json!("Withdraw"), &json!("Deposit"), &json!(1))
    );
    let (first_tx, second_tx) = (waits[0]["transaction"].as_str().unwrap(), waits[1]["transaction"].as_str().unwrap());
    let expected = format!(
        "the deadline passed while the command waited at Account/A: balance is between EUR 70.00 and EUR 140.00 and must be at \
         least EUR 130.00: it depends on Withdraw of {first_tx} (fails if it commits, depends on others if it aborts) and on 2 \
         Deposit (the first of {second_tx}; each: depends on others if it commits, fails if it aborts); {first_tx} on \
         Account/A waits for the disk to have written its record; {second_tx} on Account/A waits for the disk to have \
         written its record; the command had no effect, send it again, with the same Idempotency-Key if it has one"
    );
    assert_eq!(delayed.detail(), expected);
    let link = |transaction: &str| json!({ "transaction": transaction, "addressed": "Account/A", "phase": "record" });
    assert_eq!(delayed.body["wait_graph"], json!([link(first_tx), link(second_tx)]));

    // The same while it runs, for a client that asks by its key.
    let running = bank.begins("entity", "/Account/A/Withdraw", withdrawal.clone(), "later").await;
    let told = bank.comes_to("entity", "/Account/A/Withdraw", &withdrawal, "later").await;
    assert_eq!(told.body["waits_for"][0]["transaction"], waits[0]["transaction"]);
    assert!(told.detail().contains("still running and waits at Account/A: balance is between"), "{told:#?}");

    journal.release();
    for sent in [withdrawn, first, second] {
        assert_eq!(sent.await.expect("no panic").status, 200);
    }
    assert_eq!(running.await.expect("no panic").status, 409, "only EUR 110.00 are left");
}

const DEPOSIT: &str = "/Account/A/Deposit";

fn one_euro() -> Value {
    json!({ "amount": "EUR 1.00" })
}

#[tokio::test]
async fn a_timeout_before_the_command_was_judged_says_what_it_was_waiting_for() {
    let (bank, gate, journal) = gated(&["A", "B"]).await;
    let deposit = async |deadline: &str, key: &str| {
        bank.post_with(DEPOSIT, one_euro(), &[("enact-deadline-ms", deadline), ("idempotency-key", key)]).await
    };
    gate.send_replace(Gate::Keys);
    let key = late("key", async |deadline| deposit(deadline, "k").await).await;
    assert!(key.detail().contains("waited for the look-up of its idempotency key in the journal"), "{key:#?}");
    gate.send_replace(Gate::Loads("Account/A"));
    let anonymous =
        async |deadline: &str| bank.post_with(DEPOSIT, one_euro(), &[("enact-deadline-ms", deadline)]).await;
    let load = late("load", anonymous).await;
    assert!(load.detail().contains("waited for Account/A to be read from the journal"), "{load:#?}");
    assert_eq!(load.body["entity"], "Account/A");
    let read =
        late("load", async |deadline| bank.get_with("/Account/A", &[("enact-deadline-ms", deadline)]).await).await;
    assert!(read.detail().contains("waited for Account/A to be read from the journal; try again"), "{read:#?}");
    gate.send_replace(Gate::Tails);
    // Where its records end is asked anew after a refusal.
    journal.fail_next(Fault::Refused);
    assert_eq!(anonymous("30000").await.status, 507);
    let tail = late("journal", anonymous).await;
    assert!(tail.detail().contains("waited for the journal to be ready for its record"), "{tail:#?}");
    gate.send_replace(Gate::Open);
    journal.hold();
    let record = late("record", anonymous).await;
    assert!(record.detail().contains("while the record of the command was written to disk"), "{record:#?}");
    journal.release();
    for answer in [&key, &load, &tail] {
        assert!(answer.body["transaction"].is_string() && answer.detail().contains("no effect"), "{answer:#?}");
    }
}

/// A transfer is open at A and cannot come to B; interest on A stands in line behind it.
#[tokio::test]
async fn a_command_in_line_names_those_before_it_and_what_they_wait_for() {
    let (bank, gate, _journal) = gated(&["A", "B"]).await;
    assert_eq!(bank.get_with("/Account/A", &[]).await.status, 200);
    gate.send_replace(Gate::Loads("Account/B"));
    let transfer = json!({ "amount": "EUR 10.00", "from": "A", "to": "B" });
    let transfer = bank.begins("load", "/Transfer/t1/Book", transfer, "t").await;
    let interest = json!({ "rate": "3%" });
    let in_line = bank.begins("line", "/Account/A/Interest", interest.clone(), "i").await;
    let told = bank.comes_to("line", "/Account/A/Interest", &interest, "i").await;
    assert_eq!((&told.body["entity"], &told.body["waits_for"][0]["event"]), (&json!("Account/A"), &json!("Withdraw")));
    assert_eq!(told.body["wait_graph"][0]["addressed"], "Transfer/t1");
    assert_eq!(told.body["wait_graph"][0]["phase"], "load");
    let late = late("line", async |deadline| {
        let headers = [("enact-deadline-ms", deadline)];
        bank.post_with("/Account/A/Interest", json!({ "rate": "4%" }), &headers).await
    })
    .await;
    assert_eq!(late.body["type"], "urn:enact:problem:in-doubt");
    let said =
        "which is recorded, waited in line at Account/A: Interest is decided and stands in line behind Withdraw of ";
    assert!(late.detail().contains(said), "{late:#?}");
    assert!(late.detail().contains(" on Transfer/t1 waits for Account/B to be read from the journal; "), "{late:#?}");
    gate.send_replace(Gate::Open);
    for sent in [transfer, in_line] {
        assert_eq!(sent.await.expect("no panic").status, 200);
    }
}

/// A lease is over, and the record of its end is being written.
#[tokio::test]
async fn a_request_behind_a_due_event_names_it_and_what_that_waits_for() {
    let journal = Memory::new();
    let bank = Served::over(journal.clone());
    let end = json!({ "end": "1970-01-01T00:00:01Z" });
    assert_eq!(bank.post("/Lease/l/Rent", end).await.status, 200);
    bank.clock.set(Timestamp(2_000));
    journal.hold();
    let behind = late("due", async |deadline| {
        bank.post_with("/Lease/l/Use", json!({}), &[("enact-deadline-ms", deadline)]).await
    })
    .await;
    assert_eq!(behind.body["entity"], "Lease/l");
    assert!(behind.detail().contains("waited for what is due at Lease/l and comes first"), "{behind:#?}");
    let mode = |mode: &'static str| {
        let bank = bank.clone();
        async move |deadline: &str| bank.get_with(mode, &[("enact-deadline-ms", deadline)]).await
    };
    for (path, phase) in [("/Lease/l", "entity"), ("/Lease/l?mode=applied", "due"), ("/Lease/l?mode=range", "due")] {
        let read = late(phase, mode(path)).await;
        assert!(phase == "due" || read.body["waits_for"][0]["event"] == "End", "{path}: {read:#?}");
        let [link] = &read.body["wait_graph"].as_array().expect("a list")[..] else { panic!("{path}: {read:#?}") };
        assert_eq!((&link["addressed"], &link["phase"]), (&json!("Lease/l"), &json!("record")), "{path}: {read:#?}");
    }
    journal.release();
}

#[tokio::test]
async fn a_read_behind_a_due_event_that_the_full_disk_does_not_take_is_507() {
    let journal = Memory::new();
    let bank = Served::over(journal.clone());
    let end = json!({ "end": "1970-01-01T00:00:01Z" });
    assert_eq!(bank.post("/Lease/l/Rent", end).await.status, 200);
    bank.clock.set(Timestamp(2_000));
    for path in ["/Lease/l", "/Lease/l?mode=applied", "/Lease/l?mode=range"] {
        journal.fail_next(Fault::Refused);
        let full = bank.get_with(path, &[]).await;
        assert_eq!(
            (full.status, &full.body["type"]),
            (507, &json!("urn:enact:problem:storage-full")),
            "{path}: {full:#?}"
        );
    }
    // As soon as there is space it happens.
    let read = bank.get_with("/Lease/l", &[]).await;
    assert_eq!((read.status, &read.body["state"]), (200, &json!("ended")));
}
