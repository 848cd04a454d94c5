//! Why a command is refused, what it waits for while it runs, and what it waited for at its deadline: over HTTP.

use std::future::Future;
use std::sync::mpsc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use enact_actors::{System, actor};
use enact_entities::{Engine, EngineOptions, ManualClock, Rebel, Timestamp};
use enact_journal::{
    AppendError, CloseError, EntityKey, Fault, Journal, Memory, NewRecord, Position, ReadError, Record, Seq, Snapshot,
    SnapshotError,
};
use enact_rebel::{Source, check};
use enact_server::{Options, router};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower::ServiceExt;

const CONTRACT: &str = r#"
class Account
  balance: Money
  count: Integer = 0
  invariant "at most ten": count <= 10
  initial unopened
    on Open(amount: Money): opened
      post: this.balance = amount
  opened
    on Deposit(amount: Money)
      pre: "more than zero": amount > 0
      post: this.balance += amount
    on Withdraw(amount: Money)
      pre: "insufficient funds": balance - amount >= 0
      post: this.balance -= amount
    on Interest(rate: Percentage)
      post: this.balance += balance * rate
    on Count(by: Integer)
      post: this.count += by
    on Multiply(times: Integer)
      post: this.count = times * 9000000000000000000
    on Close(): closed
  final closed

class Transfer
  initial requested
    on Book(amount: Money, from: Account, to: Account): booked
      sync:
        from.Withdraw(amount)
        to.Deposit(amount)
    on Tally(by: Integer, at: Account): booked
      sync: at.Count(by)
  final booked

class Offer
  initial requested
    on Make(of: Account): made
      pre: "the account must be in use": of is opened
    on Forbid(of: Account, amount: Money): made
      sync: not of.Withdraw(amount)
    on Match(of: Account, amount: Money): made
      pre: "as much must be there": of.balance >= amount
  final made

class Lease
  until: Timestamp
  uses: Integer = 0
  initial free
    on Rent(end: Timestamp): rented
      post: this.until = end
  rented
    on Use()
      post: this.uses += 1
    on End(): ended
    after until: End
  ended
    on Use()
      post: this.uses += 1
"#;

/// A server without sockets.
struct Served<J: Journal> {
    engine: Engine<Rebel, J>,
    clock: std::sync::Arc<ManualClock>,
    router: Router,
}

impl<J: Journal> Clone for Served<J> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), clock: std::sync::Arc::clone(&self.clock), router: self.router.clone() }
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    body: Value,
}

impl Answer {
    #[track_caller]
    fn detail(&self) -> &str {
        self.body["detail"].as_str().expect("a text")
    }
}

impl<J: Journal> Served<J> {
    fn over(journal: J, workers: usize) -> Self {
        let spec = check(vec![Source::new("bank.rebel", CONTRACT)]);
        let spec = spec.unwrap_or_else(|report| panic!("{}", report.render(false)));
        let system = System::builder().workers(workers).build().expect("the system starts");
        let clock = std::sync::Arc::new(ManualClock::new(Timestamp(0)));
        let time = std::sync::Arc::clone(&clock);
        let engine = Engine::with_clock(Rebel::new(spec.into()), journal, system, EngineOptions::default(), time);
        let router = router(engine.clone(), Options::loopback([127, 0, 0, 1].into()));
        Self { engine, clock, router }
    }

    async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let (head, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.expect("a body");
        Answer { status: head.status.as_u16(), body: serde_json::from_slice(&body).expect("JSON") }
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.post_with(path, body, &[]).await
    }

    async fn post_with(&self, path: &str, body: Value, headers: &[(&str, &str)]) -> Answer {
        let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.ask(request.body(Body::from(body.to_string())).expect("valid")).await
    }

    async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = Request::get(path).header("host", "localhost");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.ask(request.body(Body::empty()).expect("valid")).await
    }

    /// Accounts with these ids and EUR 100.00 each.
    async fn opened(self, accounts: &[&str]) -> Self {
        for account in accounts {
            let opened = self.post(&format!("/Account/{account}/Open"), json!({ "amount": "EUR 100.00" })).await;
            assert_eq!(opened.status, 200, "{opened:#?}");
        }
        self
    }

    /// Sends a command that is not answered before the test lets it.
    fn sends(&self, path: &'static str, body: Value, key: &'static str) -> JoinHandle<Answer> {
        let served = self.clone();
        let headers = [("idempotency-key", key), ("enact-deadline-ms", "30000")];
        tokio::spawn(async move { served.post_with(path, body, &headers).await })
    }

    /// Waits until the command under `key` is in `phase`; what a client that asks for it is told then.
    async fn comes_to(&self, phase: &str, path: &'static str, body: &Value, key: &'static str) -> Answer {
        loop {
            let headers = [("idempotency-key", key), ("enact-deadline-ms", "30000")];
            let told = self.post_with(path, body.clone(), &headers).await;
            assert_eq!((told.status, &told.body["title"]), (409, &json!("The idempotency key is in use")), "{told:#?}");
            let is_there = told.body["phase"] == phase && (phase != "entity" || told.body.get("waits_for").is_some());
            if is_there {
                return told;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The command, begun and in `phase`; it is asked for by its key, so that it must be the first with it.
    async fn begins(&self, phase: &str, path: &'static str, body: Value, key: &'static str) -> JoinHandle<Answer> {
        let sent = self.sends(path, body.clone(), key);
        // It is polled once, and the one thread of the engine takes it up before what comes later.
        tokio::task::yield_now().await;
        self.comes_to(phase, path, &body, key).await;
        sent
    }
}

/// Asks with longer and longer deadlines until the answer is a 504 of `phase`.
async fn late(phase: &str, ask: impl AsyncFn(&str) -> Answer) -> Answer {
    let mut deadline = 1_u64;
    loop {
        let answer = ask(&deadline.to_string()).await;
        let is_told = phase != "entity" || answer.body.get("waits_for").is_some();
        if answer.body["phase"] == phase && is_told {
            assert_eq!(answer.status, 504, "{answer:#?}");
            return answer;
        }
        deadline = (deadline * 2).min(8_000);
    }
}

#[tokio::test]
async fn every_kind_of_refusal_names_the_instance_the_rule_and_the_values_that_it_read() {
    let bank = Served::over(Memory::new(), 2).opened(&["A", "B"]).await;
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
    let bank = Served::over(journal.clone(), 1).opened(&["A"]).await;
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

/// One worker that somebody else has.
struct Busy;

#[actor]
impl Busy {
    fn until(&mut self, over: mpsc::Receiver<()>) {
        over.recv().expect("the test goes on");
    }
}

/// What a [`Gated`] journal does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// Whether an idempotency key was used.
    Keys,
    /// The records of this instance.
    Loads(&'static str),
    /// Where the records of instances end.
    Tails,
}

/// A journal that is asked in vain, until it is opened.
struct Gated {
    inner: Memory,
    gate: watch::Sender<Gate>,
}

impl Gated {
    fn wait<S: Fn(Gate) -> bool + Send + Sync + 'static>(
        &self,
        is_shut: S,
    ) -> impl Future<Output = ()> + Send + use<S> {
        let mut gate = self.gate.subscribe();
        async move {
            // A journal that is gone is open.
            drop(gate.wait_for(|gate| !is_shut(*gate)).await.map(|_| ()));
        }
    }
}

impl Journal for Gated {
    fn last(&self, key: &EntityKey) -> impl Future<Output = Result<Seq, ReadError>> + Send + use<> {
        let is_own = key.class().starts_with('.');
        let shut = self.wait(move |gate| gate == if is_own { Gate::Keys } else { Gate::Tails });
        let last = self.inner.last(key);
        async move {
            shut.await;
            last.await
        }
    }

    fn append(
        &self,
        batch: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Position, AppendError>> + Send + 'static + use<> {
        self.inner.append(batch)
    }

    fn read(
        &self,
        entity: &EntityKey,
        after: Seq,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        let key = entity.to_string();
        let shut = self.wait(move |gate| matches!(gate, Gate::Loads(shut) if *shut == *key));
        let read = self.inner.read(entity, after);
        async move {
            shut.await;
            read.await
        }
    }

    fn feed(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        self.inner.feed(after, limit)
    }

    fn save_snapshot(
        &self,
        snapshot: Snapshot,
    ) -> impl Future<Output = Result<(), SnapshotError>> + Send + 'static + use<> {
        self.inner.save_snapshot(snapshot)
    }

    fn load_snapshot(
        &self,
        entity: &EntityKey,
    ) -> impl Future<Output = Result<Option<Snapshot>, ReadError>> + Send + use<> {
        self.inner.load_snapshot(entity)
    }

    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<> {
        self.inner.close()
    }
}

/// A bank over a gated journal, which holds the accounts A and B already.
async fn gated(accounts: &[&str]) -> (Served<Gated>, watch::Sender<Gate>, Memory) {
    let earlier = Memory::new();
    let bank = Served::over(earlier.clone(), 1).opened(accounts).await;
    bank.engine.shutdown(Duration::from_secs(600)).await.expect("it closes");
    let inner = earlier.crash();
    let gate = watch::Sender::new(Gate::Open);
    (Served::over(Gated { inner: inner.clone(), gate: gate.clone() }, 1), gate, inner)
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

#[tokio::test]
async fn a_timeout_without_a_free_thread_says_so() {
    let spec = check(vec![Source::new("bank.rebel", CONTRACT)]).expect("a contract");
    let system = System::builder().workers(1).build().expect("the system starts");
    let engine = Engine::new(Rebel::new(spec.into()), Memory::new(), system.clone(), EngineOptions::default());
    let clock = std::sync::Arc::new(ManualClock::new(Timestamp(0)));
    let bank = Served { router: router(engine.clone(), Options::loopback([127, 0, 0, 1].into())), engine, clock };
    let (over, waits) = mpsc::channel();
    let busy = system.spawn(Busy);
    let kept = busy.until(waits);
    let queued = bank.post_with(DEPOSIT, one_euro(), &[("enact-deadline-ms", "1")]).await;
    assert_eq!((queued.status, &queued.body["phase"]), (504, &json!("queue")), "{queued:#?}");
    assert!(queued.detail().contains("waited for its turn to begin"), "{queued:#?}");
    over.send(()).expect("the worker waits");
    kept.await.expect("no panic");
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
    let bank = Served::over(journal.clone(), 2);
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
    let bank = Served::over(journal.clone(), 2);
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
