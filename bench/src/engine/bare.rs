//! Appends without an engine, of batches like those of the commands before them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use enact_entities::EntityKey;
use enact_journal::{Journal, Kind, NewRecord, Position, Seq};

use super::clients::{Window, Work};
use super::store::Store;
use super::{EngineError, bank};
use crate::served::Over;

/// The records of which a batch is made out.
const PAGE: u64 = 1_000;

/// What a command appends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    records: usize,
    /// How many of them are the first of their entity.
    created: usize,
    bytes: usize,
}

impl Batch {
    /// What the last commands of `kind` have appended on average, in the journal of `options`, which no engine has open.
    pub(super) async fn of(options: Over, kind: bank::Kind) -> Result<Self, EngineError> {
        let failed = |cause: String| EngineError::Journal(cause);
        let journal = Store::over(options).await?;
        let Position(end) = journal.append(vec![]).await.map_err(|cause| failed(cause.to_string()))?;
        let page = journal.feed(Position(end.saturating_sub(PAGE)), PAGE as usize).await;
        let page = page.map_err(|cause| failed(cause.to_string()))?;
        journal.close().await.map_err(|cause| failed(cause.to_string()))?;
        let created = usize::from(kind != bank::Kind::Deposit);
        let commands = match kind {
            bank::Kind::Deposit => page.len(),
            bank::Kind::Transfer | bank::Kind::TransferHot => {
                page.iter().filter(|record| record.entity.class() == "Transfer").count()
            }
            bank::Kind::Open => page.iter().filter(|record| record.seq == Seq(1)).count(),
        };
        let (of_all, records) = (page.iter().map(|record| record.payload.len()).sum::<usize>(), page.len());
        if commands == 0 {
            return Err(failed("no command has appended anything".to_owned()));
        }
        Ok(Self { records: (records + commands / 2) / commands, created, bytes: of_all / records })
    }
}

/// Has so many clients append one batch after the other.
pub(super) async fn append(options: Over, batch: Batch, clients: u32, length: Duration) -> Result<Window, EngineError> {
    let journal = Arc::new(Store::over(options).await?);
    let client = |client, over| run_client(Arc::clone(&journal), batch, client, over);
    let window = Window::run(clients, length, client).await?;
    let Position(end) = journal.append(vec![]).await.map_err(|cause| EngineError::Journal(cause.to_string()))?;
    let expected = window.work.done() * batch.records as u64;
    if end != expected {
        return Err(EngineError::Wrong(format!("{end} records are there, {expected} were acknowledged")));
    }
    journal.close().await.map_err(|cause| EngineError::Journal(cause.to_string()))?;
    Ok(window)
}

async fn run_client(journal: Arc<Store>, batch: Batch, client: u32, over: Instant) -> Result<Work, EngineError> {
    let key = |id: String| EntityKey::new("Appended", &id).expect("a name");
    let mut work = Work::default();
    for turn in 0.. {
        if Instant::now() >= over {
            break;
        }
        work.begin_turn();
        let record = |number: usize| {
            let (entity, expected) = match number < batch.created {
                true => (key(format!("c{client}-{turn}-{number}")), Seq::NONE),
                false => (key(format!("c{client}-{number}")), Seq(turn)),
            };
            NewRecord { entity, expected, kind: Kind(1), payload: vec![0; batch.bytes] }
        };
        let begun = Instant::now();
        let appended = journal.append((0..batch.records).map(record).collect()).await;
        appended.map_err(|cause| EngineError::Journal(cause.to_string()))?;
        work.note(begun);
    }
    Ok(work)
}
