//! Personal values: sealed before a command comes to the engine, opened for who reads, erased with the key of their subject.
//!
//! # Erasure
//! The record of an erasure is durable before the key is destroyed, and who asked hears of it afterwards. An engine that is given its
//! keys destroys every one of which the journal says that it was erased: so a crash between the two is made up for, and so is a
//! directory of keys from before an erasure that somebody has put back.
//!
//! A value that is sealed while its subject is erased is one from before the erasure.
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use enact_journal::{AppendError, EntityKey, Journal, Kind, Seq, SubjectKeys, SubjectKeysError};
use enact_rebel::{Reference, Sealed, Value};
use enact_sync::Mutex;
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::committer::{Append, CommitError, Tail};
use super::error::EntityError;
use super::progress::Progress;
use super::{Engine, FAR, Shared, Ticket, moment};
use crate::model::Model;
use crate::record::{self, DecodeError, Erasure, Record};
use crate::tx::TxId;

/// The entity that has the erasures of all subjects.
const CLASS: &str = ".erasures";
const ID: &str = "all";

/// Seals and opens personal values.
///
/// Made by [`Engine::keep_personal`]; all clones of an engine share it.
pub struct Vault {
    keys: Arc<SubjectKeys>,
    /// Those of each subject, in order.
    erasures: Mutex<HashMap<EntityKey, Vec<Erasure>>>,
    key: EntityKey,
    tail: Arc<Tail>,
    /// One erasure after the other.
    turn: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").finish_non_exhaustive()
    }
}

/// A value that has been sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What is stored: a [`Value::Sealed`].
    pub value: Value,
    /// The same for equal values of a subject, as long as its key is there, and of no use to find the value without the key: what tells
    /// whether a request is the one that was sent before.
    pub fingerprint: [u8; 32],
}

/// Why a value is neither sealed nor opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// The keys cannot be used.
    #[error(transparent)]
    Keys(#[from] SubjectKeysError),
    /// The journal does not say what was erased.
    #[error("the erasures cannot be read: {0}")]
    Erasures(#[from] EntityError),
    /// The subject is no entity.
    #[error("{subject} is no entity, so it has no key: {why}")]
    Subject {
        /// The subject.
        subject: Reference,
        /// Why.
        why: String,
    },
    /// What was sealed is no value that this program knows.
    #[error("a value of {subject} was opened and cannot be read: {cause}")]
    Value {
        /// The subject.
        subject: Reference,
        /// Why.
        cause: DecodeError,
    },
}

/// Why a subject is not erased.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EraseError {
    /// The engine has no keys of subjects.
    #[error("there are no keys of subjects here, so nothing was sealed with one")]
    NoKeys,
    /// No value of the subject was ever sealed.
    #[error("no personal value of {subject} was ever stored")]
    NothingSealed {
        /// The subject.
        subject: EntityKey,
    },
    /// The engine takes nothing more.
    #[error("the engine has failed or is stopping; nothing was erased, ask again when it is back: {why}")]
    Closed {
        /// Why.
        why: String,
    },
    /// The erasure could not be recorded. Nothing was erased.
    #[error("the erasure could not be recorded, and nothing was erased: {why}; ask again")]
    NotRecorded {
        /// Why.
        why: String,
    },
    /// The erasure is recorded, and its key may still be there.
    #[error(
        "the erasure is recorded, and the key is not destroyed yet: {cause}; ask again, or start anew, which destroys it"
    )]
    NotDestroyed {
        /// Why.
        cause: SubjectKeysError,
    },
}

impl Vault {
    /// Seals a value of `subject`, which gets a key if it has none.
    ///
    /// # Errors
    /// See [`VaultError`].
    ///
    /// # Cancel safety
    /// The subject may have got a key if the future is dropped.
    pub async fn seal(&self, subject: &Reference, value: &Value) -> Result<Kept, VaultError> {
        let text = name(subject)?.to_string();
        let clear = record::encode(value);
        let sealed = loop {
            if let Some(sealed) = self.keys.seal(&text, &clear)? {
                break sealed;
            }
            let (keys, subject) = (Arc::clone(&self.keys), text.clone());
            finished(spawn_blocking(move || keys.create(&subject))).await?;
        };
        let fingerprint = self.keys.fingerprint(&text, &clear)?;
        // Without a key by now, no value is the one that was sent before.
        let fingerprint = fingerprint.unwrap_or_else(|| Sha256::digest(&sealed.bytes).into());
        let sealed = Sealed { subject: subject.clone(), generation: sealed.generation, bytes: sealed.bytes };
        Ok(Kept { value: Value::Sealed(Arc::new(sealed)), fingerprint })
    }

    /// What was sealed; nothing if it was erased.
    ///
    /// Reads one key from its file.
    ///
    /// # Errors
    /// See [`VaultError`].
    pub fn open(&self, sealed: &Sealed) -> Result<Option<Value>, VaultError> {
        let subject = &sealed.subject;
        let entity = name(subject)?;
        let erased = self.erasures.lock().get(&entity).and_then(|of| of.last()).map(|last| last.generation);
        if erased.is_some_and(|generation| sealed.generation <= generation) {
            return Ok(None);
        }
        let clear = self.keys.unseal(&entity.to_string(), sealed.generation, &sealed.bytes)?;
        let decode = |clear: Vec<u8>| {
            record::decode(&clear).map_err(|cause| VaultError::Value { subject: subject.clone(), cause })
        };
        clear.map(decode).transpose()
    }

    /// When the personal values of `subject` were erased, in order.
    pub fn erasures(&self, subject: &EntityKey) -> Vec<Erasure> {
        self.erasures.lock().get(subject).cloned().unwrap_or_default()
    }

    fn note(&self, erasure: Erasure) {
        self.erasures.lock().entry(erasure.subject.clone()).or_default().push(erasure);
    }

    async fn destroy(&self, subject: &EntityKey, generation: u32) -> Result<bool, SubjectKeysError> {
        let (keys, subject) = (Arc::clone(&self.keys), subject.to_string());
        finished(spawn_blocking(move || keys.destroy(&subject, generation))).await
    }
}

/// The entity that a subject is.
fn name(subject: &Reference) -> Result<EntityKey, VaultError> {
    let unfit =
        |why: enact_journal::EntityKeyError| VaultError::Subject { subject: subject.clone(), why: why.to_string() };
    EntityKey::new(&subject.class, &subject.key.to_string()).map_err(unfit)
}

async fn finished<T>(task: tokio::task::JoinHandle<T>) -> T {
    match task.await {
        Ok(output) => output,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

impl<M: Model, J: Journal> Engine<M, J> {
    /// Keeps personal values with these keys, from before the first command on. Every key is destroyed of which the journal says that
    /// its subject was erased.
    ///
    /// ```
    /// use std::time::Duration;
    /// use enact_entities::{Command, Engine, EngineOptions, EntityKey, Rebel};
    /// use enact_journal::{Memory, SubjectKeys};
    /// use enact_rebel::{Source, Value, check};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("keys");
    /// let spec = check(vec![Source::new("person.rebel", "
    ///     class Person
    ///       name: String @personal
    ///       initial unknown
    ///         on Register(called: String @personal): known
    ///           post: this.name = called
    ///       known
    /// ")])?;
    /// let person = spec.class("Person").ok_or("it is declared")?.clone();
    /// let engine = Engine::new(Rebel::new(spec.into()), Memory::new(), EngineOptions::default());
    /// engine.keep_personal(SubjectKeys::open(&path)?).await?;
    /// let vault = engine.vault().ok_or("there are keys")?;
    ///
    /// let (key, ada): (EntityKey, _) = ("Person/p1".parse()?, person.reference(person.key("p1")?));
    /// let name = vault.seal(&ada, &Value::String("Ada".into())).await?.value;
    /// let register = person.event("Register").ok_or("it is declared")?;
    /// let event = register.call([("called", name.clone())]).expect("sealed, as it has to be");
    /// let deadline = Duration::from_secs(2);
    /// engine.submit(Command { key: key.clone(), event, then: Vec::new(), idempotency: None, deadline }).await?;
    ///
    /// let Value::Sealed(name) = name else { unreachable!("what was sealed") };
    /// assert_eq!(vault.open(&name)?, Some(Value::String("Ada".into())));
    /// engine.erase(&key, None).await?;
    /// assert_eq!(vault.open(&name)?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the erasures cannot be read or a key not destroyed; the engine must not be used then.
    ///
    /// # Panics
    /// Outside of a tokio runtime, and when called twice.
    pub async fn keep_personal(&self, keys: SubjectKeys) -> Result<(), VaultError> {
        let key = EntityKey::new(CLASS, ID).expect("a valid name");
        let vault = Vault {
            keys: Arc::new(keys),
            erasures: Mutex::default(),
            tail: Arc::new(Tail::default()),
            turn: tokio::sync::Mutex::default(),
            key,
        };
        let (keys, recorded) = (Arc::clone(&vault.keys), self.shared.recorded_erasures(&vault).await?);
        let destroying = spawn_blocking(move || {
            let destroy = |erasure: &Erasure| keys.destroy(&erasure.subject.to_string(), erasure.generation).map(drop);
            recorded.iter().try_for_each(destroy).map(|()| recorded)
        });
        finished(destroying).await?.into_iter().for_each(|erasure| vault.note(erasure));
        self.shared.vault.set(vault).expect("the first keys");
        Ok(())
    }

    /// What seals and opens personal values, if there are keys for them.
    pub fn vault(&self) -> Option<&Vault> {
        self.shared.vault.get()
    }

    /// Erases all personal values of `subject` that are stored so far, wherever they are: its key is destroyed when this returns, and
    /// the journal says who wanted it, and when. Values that are stored later have another key.
    ///
    /// A subject whose values have all been erased before is not erased again: the answer is that of the last time.
    ///
    /// # Errors
    /// See [`EraseError`] on what each one says about the effect.
    ///
    /// # Cancel safety
    /// It takes its course even if the future is dropped.
    pub async fn erase(&self, subject: &EntityKey, by: Option<&str>) -> Result<Erasure, EraseError> {
        let ticket = Ticket::take(&self.shared).map_err(|error| EraseError::Closed { why: error.to_string() })?;
        let (subject, by) = (subject.clone(), by.map(str::to_owned));
        let erasing = async move { ticket.engine().erase(subject, by).await };
        finished(tokio::spawn(erasing)).await
    }
}

impl<M: Model, J: Journal> Shared<M, J> {
    async fn recorded_erasures(&self, vault: &Vault) -> Result<Vec<Erasure>, EntityError> {
        let records = self.journal.read(&vault.key, Seq::NONE).await.map_err(EntityError::from)?;
        let erasure = |stored: enact_journal::Record| match Record::<M::Event>::decode(&stored.payload) {
            Ok(Record::Erased(erasure)) => Ok(*erasure),
            Ok(_) => Err(EntityError::Misplaced { entity: stored.entity, seq: stored.seq }),
            Err(cause) => Err(EntityError::undecodable(&stored.entity, stored.seq, cause)),
        };
        records.into_iter().map(erasure).collect()
    }

    async fn erase(&self, subject: EntityKey, by: Option<String>) -> Result<Erasure, EraseError> {
        let vault = self.vault.get().ok_or(EraseError::NoKeys)?;
        let _turn = vault.turn.lock().await;
        let Some(generation) = vault.keys.generation(&subject.to_string()) else {
            let last = vault.erasures(&subject).pop();
            return last.ok_or(EraseError::NothingSealed { subject });
        };
        let at = self.clock.certain_time(self.time.time());
        let erasure = Erasure { tx: TxId::fresh(), subject, generation, at, by };
        self.record_erasure(vault, &erasure).await?;
        let destroyed = vault.destroy(&erasure.subject, generation).await;
        destroyed.map_err(|cause| EraseError::NotDestroyed { cause })?;
        vault.note(erasure.clone());
        tracing::info!(subject = %erasure.subject, generation, "erased the personal values of a subject");
        Ok(erasure)
    }

    async fn record_erasure(&self, vault: &Vault, erasure: &Erasure) -> Result<(), EraseError> {
        let record = Record::<M::Event>::Erased(Box::new(erasure.clone()));
        let (kind, payload, tail) = (Kind(record.kind()), record.encode(), Arc::clone(&vault.tail));
        let append = Append { key: vault.key.clone(), tail, kind, payload, depends_on: None };
        let progress = Progress::new(erasure.tx, vault.key.clone(), moment(FAR));
        match self.committer.append(vec![append], None, &progress, || ()).await {
            Ok(_) => {
                self.announcer.announce();
                Ok(())
            }
            Err(CommitError::Append(AppendError::InDoubt { why })) => {
                self.fail(format!("the journal cannot say whether an erasure is durable: {why}"));
                Err(EraseError::Closed { why })
            }
            Err(cause) => Err(EraseError::NotRecorded { why: cause.to_string() }),
        }
    }
}
