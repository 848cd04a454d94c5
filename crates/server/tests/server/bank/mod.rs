//! A bank served without sockets, over a journal in memory.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use enact_entities::{Engine, EngineOptions, Rebel, SystemClock, WallClock};
use enact_journal::Memory;
use enact_rebel::{Source, check};
use enact_server::{Options, Router, router};
use serde_json::Value;
use tower::ServiceExt;

#[derive(Clone)]
pub(crate) struct Bank {
    pub(crate) journal: Memory,
    pub(crate) engine: Engine<Rebel, Memory>,
    router: Router<Engine<Rebel, Memory>>,
}

/// An answer, already checked to be JSON of the right media type.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Bank {
    /// With the accounts `A` (EUR 100.00) and `B` (EUR 0.00).
    pub(crate) async fn open() -> Self {
        let bank = Self::empty();
        for (account, deposit) in [("A", "EUR 100.00"), ("B", "EUR 0.00")] {
            let opened =
                bank.post(&format!("/Account/{account}/Open"), format!(r#"{{"initialDeposit":"{deposit}"}}"#)).await;
            assert_eq!(opened.status, 200, "{opened:?}");
            // From here on no outcome is left in which the account does not exist.
            let transaction = opened.body["transaction"].as_str().expect("a text");
            assert_eq!(bank.get(&format!("/Account/{account}?after={transaction}")).await.status, 200);
        }
        bank
    }

    pub(crate) fn empty() -> Self {
        Self::over(Memory::new(), EngineOptions::default())
    }

    /// Empty, served with other options.
    pub(crate) fn with(options: impl FnOnce(Options) -> Options) -> Self {
        Self::served(Memory::new(), EngineOptions::default(), options)
    }

    /// Over the entities in `journal`.
    pub(crate) fn over(journal: Memory, options: EngineOptions) -> Self {
        Self::served(journal, options, |options| options)
    }

    /// Over the entities in `journal`, served with other options.
    pub(crate) fn served(journal: Memory, engine: EngineOptions, options: impl FnOnce(Options) -> Options) -> Self {
        Self::of(include_str!("bank.rebel"), journal, engine, options)
    }

    /// The entities of another contract.
    pub(crate) fn of(
        contract: &str,
        journal: Memory,
        engine: EngineOptions,
        options: impl FnOnce(Options) -> Options,
    ) -> Self {
        Self::at(contract, journal, engine, Arc::new(SystemClock), options)
    }

    /// The entities of another contract, by another clock.
    pub(crate) fn at(
        contract: &str,
        journal: Memory,
        engine: EngineOptions,
        clock: Arc<dyn WallClock>,
        options: impl FnOnce(Options) -> Options,
    ) -> Self {
        let spec = check(vec![Source::new("bank.rebel", contract)]).unwrap_or_else(|e| panic!("{e}"));
        let engine = Engine::with_clock(Rebel::new(spec.into()), journal.clone(), engine, clock);
        let router = router(engine.clone(), options(Options::loopback([127, 0, 0, 1].into())));
        Self { journal, engine, router }
    }

    pub(crate) fn router(&self) -> Router<Engine<Rebel, Memory>> {
        self.router.clone()
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.post_with(path, &[], body).await
    }

    pub(crate) async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        let request = headers.iter().fold(Request::post(path), |request, (name, value)| request.header(*name, *value));
        let declared = headers.iter().any(|(name, _)| *name == "content-type");
        let request = if declared { request } else { request.header("content-type", "application/json") };
        self.ask(request.header("host", "localhost").body(body.into()).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Request::get(path).header("host", "localhost").body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        let expected = if head.status.is_success() { "application/json" } else { "application/problem+json" };
        assert_eq!(head.headers["content-type"], expected);
        let body: Value = serde_json::from_slice(&body).unwrap();
        if !head.status.is_success() {
            assert_eq!(body["status"], head.status.as_u16());
        }
        Answer { status: head.status, headers: head.headers, body }
    }
}
