//! The keys of data subjects that all nodes have in common.
//!
//! # Where they are
//! A stream of NATS has a message for each key: the key, sealed with the [`Secret`] of the nodes, which no server has. Its subject is a
//! digest of the data subject under that secret, so that the servers do not know whose it is.
//!
//! # Steps
//! A key is made, and its end is written, only behind the entry of the subject that was looked at: two nodes that seal at once for a new subject
//! use one key. Its end comes in two steps: an entry that says so, and then the server overwrites the message that has the key. A node that
//! opens the keys does the second step for those that have only the first.
//!
//! # What a node knows
//! Each node follows the stream, so that opening a value asks no server; a key that is not known yet is waited for. Sealing asks for
//! the last entry of the subject, so that nothing is sealed with a key whose end another node has written before.
//!
//! # What servers keep
//! The message is overwritten on every server that runs. The log in which replicas agree has a copy of it until the servers compact that, which
//! they do within three minutes (measured with 2.15.2). A server that is killed before that, or was away, removes the message without overwriting it
//! when it is back: its disk has the key, hidden, until the file is written anew.

mod entry;
mod known;
mod stream;

use std::sync::Arc;

use async_nats::Client;
use enact_entities::{Keeping, KeyStore};
use enact_journal::{Sealed, SubjectKey, SubjectKeysError};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use self::entry::Entry;
pub use self::entry::Secret;
use self::known::Known;
pub(crate) use self::stream::NAME;
use self::stream::{PATIENCE, PAUSE, Put, Stream};
use crate::JoinError;

/// The keys as a node of the cluster has them.
pub(crate) struct SharedKeys {
    secret: Secret,
    stream: Stream,
    known: Arc<Mutex<Known>>,
    /// Up to which message the stream was followed.
    followed: watch::Receiver<u64>,
    following: JoinHandle<()>,
}

impl SharedKeys {
    /// Opens the keys that are kept under `secret`, and begins with none if there are none. What another node has left half destroyed is
    /// destroyed.
    pub(crate) async fn open(client: &Client, secret: Secret, replicas: usize) -> Result<Self, JoinError> {
        let stream = Stream::open(client, &secret, replicas).await?;
        let (known, (following, followed)) = (Arc::<Mutex<Known>>::default(), watch::channel(0));
        let following = tokio::spawn(stream.clone().follow(Arc::clone(&known), following));
        let keys = Self { secret, stream, known, followed, following };
        keys.catch_up().await.map_err(JoinError::unreachable)?;
        let unfinished = keys.known.lock().all_unfinished();
        for (digest, sequence) in unfinished {
            keys.overwrite(&digest, sequence).await.map_err(JoinError::unreachable)?;
        }
        Ok(keys)
    }

    /// Waits until all is known that was written before this began.
    async fn catch_up(&self) -> Result<(), SubjectKeysError> {
        let last = self.stream.last().await.map_err(unavailable)?;
        let mut followed = self.followed.clone();
        let caught_up = timeout(PATIENCE, followed.wait_for(|followed| *followed >= last)).await;
        drop(caught_up.map_err(unavailable)?.map_err(unavailable)?);
        Ok(())
    }

    /// The last entry of the data subject whose digest this is, as the servers know it, with its sequence.
    async fn last_of(&self, digest: &str, deadline: Instant) -> Result<Option<(u64, Entry)>, SubjectKeysError> {
        let last =
            timeout_at(deadline, self.stream.last_of(digest)).await.map_err(unavailable)?.map_err(unavailable)?;
        if let Some((sequence, entry)) = &last {
            self.known.lock().apply(digest, *sequence, entry);
        }
        Ok(last)
    }

    /// The present key of `subject` with its generation; it gets one if it has none.
    async fn present(&self, subject: &str) -> Result<(u32, SubjectKey), SubjectKeysError> {
        let digest = self.secret.digest(subject);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (expected, generation) = match self.last_of(&digest, deadline).await? {
                Some((_, Entry::Live { generation, key })) => {
                    return Ok((generation, self.revealed(subject, generation, &key)?));
                }
                Some((sequence, Entry::Destroyed { generation })) => (sequence, generation + 1),
                None => (0, 1),
            };
            let key = SubjectKey::random()?;
            let entry = Entry::Live { generation, key: self.secret.hide(&digest, generation, &key)? };
            if let Put::Yes(sequence) = self.put(&digest, &entry, expected, deadline).await? {
                self.known.lock().apply(&digest, sequence, &entry);
                return Ok((generation, key));
            }
        }
    }

    /// Writes an entry behind the one with the sequence `expected`.
    async fn put(
        &self,
        digest: &str,
        entry: &Entry,
        expected: u64,
        deadline: Instant,
    ) -> Result<Put, SubjectKeysError> {
        let put = timeout_at(deadline, self.stream.put(digest, entry, expected)).await.map_err(unavailable)?;
        if let Put::Unknown(why) = &put {
            tracing::debug!(why, "nobody knows whether an entry of the subject keys was stored");
            sleep(PAUSE).await;
        }
        Ok(put)
    }

    fn revealed(&self, subject: &str, generation: u32, hidden: &[u8]) -> Result<SubjectKey, SubjectKeysError> {
        let key = self.secret.reveal(&self.secret.digest(subject), generation, hidden);
        key.ok_or_else(|| SubjectKeysError::Tampered { subject: subject.to_owned(), generation })
    }

    /// Has the servers overwrite a message whose key has its end.
    async fn overwrite(&self, digest: &str, sequence: u64) -> Result<(), SubjectKeysError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let why = match timeout_at(deadline, self.stream.overwrite(sequence)).await.map_err(unavailable)? {
                Ok(()) => break,
                Err(why) => why,
            };
            if Instant::now() + PAUSE > deadline {
                return Err(unavailable(why));
            }
            sleep(PAUSE).await;
        }
        self.known.lock().overwritten(digest, sequence);
        Ok(())
    }

    /// Sees to it that the keys of `subject` up to `generation` have their end.
    async fn end(&self, subject: &str, generation: u32) -> Result<bool, SubjectKeysError> {
        let digest = self.secret.digest(subject);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (sequence, last) = match self.last_of(&digest, deadline).await? {
                Some((sequence, Entry::Live { generation: last, .. })) if last <= generation => (sequence, last),
                _ => return Ok(false),
            };
            let entry = Entry::Destroyed { generation: last };
            if let Put::Yes(end) = self.put(&digest, &entry, sequence, deadline).await? {
                self.known.lock().apply(&digest, end, &entry);
                return Ok(true);
            }
        }
    }
}

impl KeyStore for SharedKeys {
    fn seal<'a>(&'a self, subject: &'a str, clear: &'a [u8]) -> Keeping<'a, Sealed> {
        Box::pin(async move {
            let (generation, key) = self.present(subject).await?;
            key.seal(subject, generation, clear)
        })
    }

    fn unseal<'a>(&'a self, subject: &'a str, generation: u32, sealed: &'a [u8]) -> Keeping<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let digest = self.secret.digest(subject);
            let unknown = || SubjectKeysError::Unknown { subject: subject.to_owned(), generation };
            let mut found = self.known.lock().key(&digest, generation);
            if found.is_none() {
                self.catch_up().await?;
                found = self.known.lock().key(&digest, generation);
            }
            let Some(hidden) = found.ok_or_else(unknown)? else { return Ok(None) };
            let clear = self.revealed(subject, generation, &hidden)?.unseal(subject, generation, sealed);
            clear.map(Some).ok_or_else(|| SubjectKeysError::Tampered { subject: subject.to_owned(), generation })
        })
    }

    fn generation<'a>(&'a self, subject: &'a str) -> Keeping<'a, Option<u32>> {
        Box::pin(async move {
            let last = self.last_of(&self.secret.digest(subject), Instant::now() + PATIENCE).await?;
            Ok(last.and_then(|(_, entry)| match entry {
                Entry::Live { generation, .. } => Some(generation),
                Entry::Destroyed { .. } => None,
            }))
        })
    }

    fn destroy<'a>(&'a self, subject: &'a str, generation: u32) -> Keeping<'a, bool> {
        Box::pin(async move {
            let digest = self.secret.digest(subject);
            let has_ended = self.known.lock().has_ended(&digest, generation);
            let was_there = !has_ended && self.end(subject, generation).await?;
            let unfinished = self.known.lock().unfinished(&digest);
            for sequence in unfinished {
                self.overwrite(&digest, sequence).await?;
            }
            Ok(was_there)
        })
    }
}

impl Drop for SharedKeys {
    fn drop(&mut self) {
        self.following.abort();
    }
}

#[expect(clippy::needless_pass_by_value, reason = "errors come like this")]
fn unavailable(why: impl ToString) -> SubjectKeysError {
    SubjectKeysError::Unavailable { why: why.to_string() }
}

#[cfg(test)]
pub(crate) mod tests;
