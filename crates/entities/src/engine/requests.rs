//! Requests that may be repeated: the same key and fingerprint get the same answer, without a second effect.
//!
//! The answer is one record of its own, written in the same atomic step as the effects it tells of. There is exactly
//! one for each key in all eternity, which the journal itself enforces; so nothing has to be rebuilt after a restart,
//! and nothing is forgotten. Only requests that are running are kept in memory.
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use enact_journal::{EntityKey, Journal, Seq};
use enact_sync::Mutex;
use sha2::{Digest, Sha256};

use super::error::{EntityError, SubmitError};
use super::{Receipt, Shared};
use crate::model::Model;
use crate::record::{AnswerRecord, Idempotency, Record};

/// The requests that are running, by key, with their fingerprints.
#[derive(Debug, Default)]
pub(super) struct Running(Mutex<HashMap<String, [u8; 32]>>);

/// A request that holds its key until it is dropped.
pub(super) struct Repeatable<'a> {
    running: &'a Running,
    key: String,
}

impl Repeatable<'_> {
    /// Where its answer is kept.
    pub(super) fn record_key(&self) -> EntityKey {
        record_key(&self.key)
    }
}

impl Drop for Repeatable<'_> {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.key);
    }
}

/// Lets a request in that is not repeatable or is new; otherwise says what it is told instead.
pub(super) async fn admit<'a, M: Model, J: Journal>(
    engine: &'a Arc<Shared<M, J>>,
    request: Option<&Idempotency>,
) -> Result<Option<Repeatable<'a>>, Result<Receipt, SubmitError>> {
    let Some(request) = request else { return Ok(None) };
    let repeatable = hold(&engine.running, request).map_err(Err)?;
    match earlier_answer::<M, J>(&*engine.journal, &request.key).await {
        Ok(None) => Ok(Some(repeatable)),
        Ok(Some(answer)) => Err(replay(answer, request)),
        Err(cause) => Err(Err(cause.into())),
    }
}

fn hold<'a>(running: &'a Running, request: &Idempotency) -> Result<Repeatable<'a>, SubmitError> {
    let mut requests = running.0.lock();
    match requests.get(&request.key) {
        Some(fingerprint) if *fingerprint == request.fingerprint => Err(SubmitError::KeyInUse),
        Some(_) => Err(SubmitError::KeyReused),
        None => {
            requests.insert(request.key.clone(), request.fingerprint);
            Ok(Repeatable { running, key: request.key.clone() })
        }
    }
}

async fn earlier_answer<M: Model, J: Journal>(journal: &J, key: &str) -> Result<Option<AnswerRecord>, EntityError> {
    let entity = record_key(key);
    let Some(record) = journal.read(&entity, Seq::NONE).await?.pop() else { return Ok(None) };
    match Record::<M::Event>::decode(&record.payload) {
        Ok(Record::Decision(decision)) => Ok(Some(decision.answer)),
        Ok(Record::Answer(answer)) => Ok(Some(answer)),
        Ok(_) => Err(EntityError::Misplaced { entity, seq: record.seq }),
        Err(cause) => Err(EntityError::undecodable(&entity, record.seq, cause)),
    }
}

fn replay(answer: AnswerRecord, request: &Idempotency) -> Result<Receipt, SubmitError> {
    if answer.idempotency.as_ref() != Some(request) {
        return Err(SubmitError::KeyReused);
    }
    match answer.result {
        Ok(done) => Ok(Receipt { tx: answer.tx, state: done.state, replayed: true }),
        Err(refusal) => Err(SubmitError::Refused { refusal, replayed: true }),
    }
}

/// A key may hold bytes that a name may not, and more of them.
fn record_key(key: &str) -> EntityKey {
    let digest = Sha256::digest(key.as_bytes());
    let id = digest.iter().fold(String::with_capacity(64), |mut id, byte| {
        write!(id, "{byte:02x}").expect("a string takes all that is written to it");
        id
    });
    EntityKey::new(".request", &id).expect("hexadecimal digits are a valid name")
}
