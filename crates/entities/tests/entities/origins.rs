//! What is logged says for which request, wherever the engine works for it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{Engine, EngineOptions, EntityKey, Network, Origin, SubmitError, SystemClock};
use enact_journal::{Fault, Memory};
use enact_sync::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event as Line, Metadata, Span, Subscriber};

use crate::support::bank::{Event, Hand};
use crate::support::client::{bank, book, command, open, until};

/// A message, and the request that it was logged for.
type Told = (String, Option<String>);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Told>>>);

impl Log {
    /// All that this thread logs from now on.
    fn of_this_thread() -> (Self, DefaultGuard) {
        let log = Self::default();
        (log.clone(), tracing::subscriber::set_default(log))
    }

    /// For which request this was logged, once.
    fn request_of(&self, message: &str) -> Option<String> {
        let lines = self.0.lock();
        let [(_, request)] = &lines.iter().filter(|(line, _)| line == message).collect::<Vec<_>>()[..] else {
            panic!("{message} is not logged once: {lines:?}")
        };
        request.clone()
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, line: &Line<'_>) {
        let mut message = Message::default();
        line.record(&mut message);
        self.0.lock().push((message.0, Origin::with_current(|origin| origin.request().to_owned())));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

fn request(id: &str) -> Option<Origin> {
    Some(Origin::new(id.into(), Span::none()))
}

#[tokio::test]
async fn what_goes_on_for_a_client_that_has_gone_away_is_for_its_request() {
    let (log, _guard) = Log::of_this_thread();
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    open(&bank, "Account/A", 10_000).await;
    journal.hold();
    let deposit = Origin::scope(request("gone"), bank.submit(command("Account/A", Event::Deposit(1))));
    let mut deposit = Box::pin(deposit);
    tokio::select! {
        told = &mut deposit => panic!("it is not durable: {told:?}"),
        () = until(|| journal.waiting_count() > 0) => {}
    }
    drop(deposit);
    journal.fail_next(Fault::InDoubt { is_performed: true });
    journal.sync(1);
    until(|| bank.failure().is_some()).await;
    let failed = log.request_of("the engine has failed and takes nothing more until it is opened again");
    assert_eq!(failed.as_deref(), Some("gone"));
}

#[tokio::test]
async fn what_another_engine_writes_for_a_transaction_is_for_its_request() {
    let (log, _guard) = Log::of_this_thread();
    let place = |entity: &EntityKey| usize::from(entity.id().starts_with('S'));
    let network = Network::new(["north", "south"], place, Duration::from_millis(1));
    let journals = [Memory::new(), Memory::new()];
    let engines = [0, 1].map(|here| {
        let (options, transport) = (EngineOptions::default(), network.transport(here));
        let journal = journals[here].clone();
        let engine = Engine::with_transport(Hand { hints: true }, journal, options, Arc::new(SystemClock), transport);
        let engine = engine.expect("a name");
        network.join(here, &engine);
        engine
    });
    open(&engines[0], "Account/N", 10_000).await;
    open(&engines[1], "Account/S", 10_000).await;
    journals[1].fail_next(Fault::Refused);
    let transfer = engines[0].submit(book(1, "Account/N", "Account/S", 3_000));
    let refused = Origin::scope(request("far"), transfer).await;
    assert!(matches!(refused, Err(SubmitError::StorageFull { .. })), "{refused:?}");
    assert_eq!(log.request_of("a promise or its outcome is not recorded").as_deref(), Some("far"));
}
