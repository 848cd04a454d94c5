//! Personal values: sealed before a command comes to the engine, opened for who reads, erased with the key of their subject.
//!
//! # Erasure
//! The record of an erasure is durable before the key is destroyed, and who asked hears of it afterwards. An engine that is given its
//! keys destroys every one of which the journal says that it was erased: so a crash between the two is made up for, and so is a
//! directory of keys from before an erasure that somebody has put back.
//!
//! A value that is sealed while its subject is erased is one from before the erasure.
mod store;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use enact_journal::{AppendError, EntityKey, Journal, Kind, Seq, SubjectKeys, SubjectKeysError};
use enact_rebel::{Reference, Sealed, Value};
use enact_sync::Mutex;
use serde::{Deserialize, Serialize};

pub use self::store::{Keeping, KeyStore};
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
/// Cheap to clone; all clones are one. Engines that share one, which have a part of the entities each, open what any of them has sealed.
#[derive(Clone)]
pub struct Vault {
    keys: Arc<dyn KeyStore>,
    /// The last generation of each subject that was erased, as far as it was recorded here.
    erased: Arc<Mutex<HashMap<EntityKey, u32>>>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").finish_non_exhaustive()
    }
}

impl From<SubjectKeys> for Vault {
    fn from(keys: SubjectKeys) -> Self {
        Self::new(Arc::new(keys))
    }
}

/// What an engine needs to erase.
pub(super) struct Erasing {
    vault: Vault,
    /// The erasures of each subject, in order.
    erasures: Mutex<HashMap<EntityKey, Vec<Erasure>>>,
    key: EntityKey,
    tail: Arc<Tail>,
    /// One erasure after the other.
    turn: tokio::sync::Mutex<()>,
}

impl Erasing {
    fn note(&self, erasure: Erasure) {
        let mut erased = self.vault.erased.lock();
        let generation = erased.entry(erasure.subject.clone()).or_default();
        *generation = erasure.generation.max(*generation);
        drop(erased);
        self.erasures.lock().entry(erasure.subject.clone()).or_default().push(erasure);
    }

    /// When the personal values of `subject` were erased, in order.
    pub(super) fn of(&self, subject: &EntityKey) -> Vec<Erasure> {
        self.erasures.lock().get(subject).cloned().unwrap_or_default()
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
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
        "the erasure is recorded, and the key is not destroyed yet: {why}; ask again, or start anew, which destroys it"
    )]
    NotDestroyed {
        /// Why.
        why: String,
    },
    /// The keys do not say whether there is one. Nothing was erased.
    #[error("the keys cannot be used, and nothing was erased: {why}")]
    Keys {
        /// Why.
        why: String,
    },
    /// No node serves the shard of the subject at this moment. Nothing was erased.
    #[error("no node serves {subject} at this moment, and nothing was erased: ask again")]
    Moved {
        /// The subject.
        subject: EntityKey,
    },
    /// The node that has the subject was asked, and has not answered.
    #[error(
        "the node that has {subject} does not answer: its personal values may be erased by now or later; ask again"
    )]
    Unanswered {
        /// The subject.
        subject: EntityKey,
    },
}

impl Vault {
    /// One that seals and opens with these keys.
    pub fn new(keys: impl KeyStore) -> Self {
        Self { keys: Arc::new(keys), erased: Arc::default() }
    }

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
        let enact_journal::Sealed { generation, bytes, fingerprint } = self.keys.seal(&text, &clear).await?;
        let sealed = Sealed { subject: subject.clone(), generation, bytes };
        Ok(Kept { value: Value::Sealed(Arc::new(sealed)), fingerprint })
    }

    /// What was sealed; nothing if it was erased.
    ///
    /// # Errors
    /// See [`VaultError`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn open(&self, sealed: &Sealed) -> Result<Option<Value>, VaultError> {
        let subject = &sealed.subject;
        let entity = name(subject)?;
        let erased = self.erased.lock().get(&entity).copied();
        if erased.is_some_and(|generation| sealed.generation <= generation) {
            return Ok(None);
        }
        let clear = self.keys.unseal(&entity.to_string(), sealed.generation, &sealed.bytes).await?;
        let decode = |clear: Vec<u8>| {
            record::decode(&clear).map_err(|cause| VaultError::Value { subject: subject.clone(), cause })
        };
        clear.map(decode).transpose()
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
    /// Keeps personal values in this vault, or one over these keys, from before the first command on. Every key is destroyed of which the
    /// journal says that its subject was erased.
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
    /// assert_eq!(vault.open(&name).await?, Some(Value::String("Ada".into())));
    /// engine.erase(&key, None).await?;
    /// assert_eq!(vault.open(&name).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the erasures cannot be read or a key not destroyed; the engine must not be used then.
    ///
    /// # Panics
    /// Outside of a tokio runtime, and when called twice.
    pub async fn keep_personal(&self, vault: impl Into<Vault>) -> Result<(), VaultError> {
        let erasing = Erasing {
            vault: vault.into(),
            erasures: Mutex::default(),
            tail: Arc::new(Tail::default()),
            turn: tokio::sync::Mutex::default(),
            key: EntityKey::new(CLASS, ID).expect("a valid name"),
        };
        for erasure in self.shared.recorded_erasures(&erasing).await? {
            erasing.vault.keys.destroy(&erasure.subject.to_string(), erasure.generation).await?;
            erasing.note(erasure);
        }
        assert!(self.shared.erasing.set(erasing).is_ok(), "the first keys");
        Ok(())
    }

    /// What seals and opens personal values, if there are keys for them.
    pub fn vault(&self) -> Option<&Vault> {
        self.shared.erasing.get().map(|erasing| &erasing.vault)
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
        finished(super::origin::spawn(erasing)).await
    }
}

impl<M: Model, J: Journal> Shared<M, J> {
    async fn recorded_erasures(&self, erasing: &Erasing) -> Result<Vec<Erasure>, EntityError> {
        let records = self.journal.read(&erasing.key, Seq::NONE).await.map_err(EntityError::from)?;
        let erasure = |stored: enact_journal::Record| match Record::<M::Event>::decode(&stored.payload) {
            Ok(Record::Erased(erasure)) => Ok(*erasure),
            Ok(_) => Err(EntityError::Misplaced { entity: stored.entity, seq: stored.seq }),
            Err(cause) => Err(EntityError::undecodable(&stored.entity, stored.seq, cause)),
        };
        records.into_iter().map(erasure).collect()
    }

    async fn erase(&self, subject: EntityKey, by: Option<String>) -> Result<Erasure, EraseError> {
        let erasing = self.erasing.get().ok_or(EraseError::NoKeys)?;
        let (keys, name) = (&erasing.vault.keys, subject.to_string());
        let _turn = erasing.turn.lock().await;
        let generation = keys.generation(&name).await;
        let Some(generation) = generation.map_err(|cause| EraseError::Keys { why: cause.to_string() })? else {
            let last = erasing.of(&subject).pop();
            return last.ok_or(EraseError::NothingSealed { subject });
        };
        let at = self.clock.certain_time(self.time.time());
        let erasure = Erasure { tx: TxId::fresh(), subject, generation, at, by };
        self.record_erasure(erasing, &erasure).await?;
        let destroyed = keys.destroy(&name, generation).await;
        destroyed.map_err(|cause| EraseError::NotDestroyed { why: cause.to_string() })?;
        erasing.note(erasure.clone());
        tracing::info!(subject = %erasure.subject, generation, "erased the personal values of a subject");
        Ok(erasure)
    }

    async fn record_erasure(&self, erasing: &Erasing, erasure: &Erasure) -> Result<(), EraseError> {
        let record = Record::<M::Event>::Erased(Box::new(erasure.clone()));
        let (kind, payload, tail) = (Kind(record.kind()), record.encode(), Arc::clone(&erasing.tail));
        let append = Append { key: erasing.key.clone(), tail, kind, payload, depends_on: None };
        let progress = Progress::new(erasure.tx, erasing.key.clone(), moment(FAR));
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
