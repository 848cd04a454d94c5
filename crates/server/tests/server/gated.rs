//! A bank without sockets, over a journal that does not answer until it is told to.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use enact_entities::{Engine, EngineOptions, ManualClock, Rebel, Timestamp};
use enact_journal::{
    AppendError, CloseError, EntityKey, Journal, Limits, Memory, NewRecord, Position, ReadError, Record, Seq, Snapshot,
    SnapshotError,
};
use enact_rebel::{Source, check};
use enact_server::{Options, Router, router};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower::ServiceExt;

pub(crate) const CONTRACT: &str = r#"
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
pub(crate) struct Served<J: Journal> {
    pub(crate) engine: Engine<Rebel, J>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) router: Router<Engine<Rebel, J>>,
}

impl<J: Journal> Clone for Served<J> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), clock: Arc::clone(&self.clock), router: self.router.clone() }
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn detail(&self) -> &str {
        self.body["detail"].as_str().expect("a text")
    }
}

impl<J: Journal> Served<J> {
    pub(crate) fn over(journal: J) -> Self {
        let spec = check(vec![Source::new("bank.rebel", CONTRACT)]);
        let spec = spec.unwrap_or_else(|report| panic!("{}", report.render(false)));
        let clock = Arc::new(ManualClock::new(Timestamp(0)));
        let time = Arc::clone(&clock);
        let engine = Engine::with_clock(Rebel::new(spec.into()), journal, EngineOptions::default(), time);
        let router = router(engine.clone(), Options::loopback([127, 0, 0, 1].into()));
        Self { engine, clock, router }
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let (head, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.expect("a body");
        Answer { status: head.status.as_u16(), body: serde_json::from_slice(&body).expect("JSON") }
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.post_with(path, body, &[]).await
    }

    pub(crate) async fn post_with(&self, path: &str, body: Value, headers: &[(&str, &str)]) -> Answer {
        let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.ask(request.body(Body::from(body.to_string())).expect("valid")).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = Request::get(path).header("host", "localhost");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.ask(request.body(Body::empty()).expect("valid")).await
    }

    /// Accounts with these ids and EUR 100.00 each.
    pub(crate) async fn opened(self, accounts: &[&str]) -> Self {
        for account in accounts {
            let opened = self.post(&format!("/Account/{account}/Open"), json!({ "amount": "EUR 100.00" })).await;
            assert_eq!(opened.status, 200, "{opened:#?}");
        }
        self
    }

    /// Sends a command that is not answered before the test lets it.
    pub(crate) fn sends(&self, path: &'static str, body: Value, key: &'static str) -> JoinHandle<Answer> {
        let served = self.clone();
        let headers = [("idempotency-key", key), ("enact-deadline-ms", "30000")];
        tokio::spawn(async move { served.post_with(path, body, &headers).await })
    }

    /// Waits until the command under `key` is in `phase`; what a client that asks for it is told then.
    pub(crate) async fn comes_to(&self, phase: &str, path: &'static str, body: &Value, key: &'static str) -> Answer {
        loop {
            let headers = [("idempotency-key", key), ("enact-deadline-ms", "30000")];
            let told = self.post_with(path, body.clone(), &headers).await;
            assert_eq!((told.status, &told.body["title"]), (409, &json!("The idempotency key is in use")), "{told:#?}");
            let is_there = told.body["phase"] == phase && (!says_whom(phase) || told.body.get("waits_for").is_some());
            if is_there {
                return told;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The command, begun and in `phase`; it is asked for by its key, so that it must be the first with it.
    pub(crate) async fn begins(
        &self,
        phase: &str,
        path: &'static str,
        body: Value,
        key: &'static str,
    ) -> JoinHandle<Answer> {
        let sent = self.sends(path, body.clone(), key);
        // It is polled once, and the one thread of the engine takes it up before what comes later.
        tokio::task::yield_now().await;
        self.comes_to(phase, path, &body, key).await;
        sent
    }
}

/// Whether an entity is asked for whom a request in `phase` waits, which it may not get to say in time.
fn says_whom(phase: &str) -> bool {
    phase == "entity" || phase == "line"
}

/// Asks with longer and longer deadlines until the answer is a 504 of `phase`.
pub(crate) async fn late(phase: &str, ask: impl AsyncFn(&str) -> Answer) -> Answer {
    let mut deadline = 1_u64;
    loop {
        let answer = ask(&deadline.to_string()).await;
        let is_told = !says_whom(phase) || answer.body.get("waits_for").is_some();
        if answer.body["phase"] == phase && is_told {
            assert_eq!(answer.status, 504, "{answer:#?}");
            return answer;
        }
        deadline = (deadline * 2).min(8_000);
    }
}

/// What a [`Gated`] journal does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Whether an idempotency key was used.
    Keys,
    /// The records of this instance.
    Loads(&'static str),
    /// Where the records of instances end.
    Tails,
}

/// A journal that is asked in vain, until it is opened.
pub(crate) struct Gated {
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

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<> {
        self.inner.close()
    }
}

/// A bank over a gated journal, which holds the accounts A and B already.
pub(crate) async fn gated(accounts: &[&str]) -> (Served<Gated>, watch::Sender<Gate>, Memory) {
    let earlier = Memory::new();
    let bank = Served::over(earlier.clone()).opened(accounts).await;
    bank.engine.shutdown(Duration::from_secs(600)).await.expect("it closes");
    let inner = earlier.crash();
    let gate = watch::Sender::new(Gate::Open);
    (Served::over(Gated { inner: inner.clone(), gate: gate.clone() }), gate, inner)
}
