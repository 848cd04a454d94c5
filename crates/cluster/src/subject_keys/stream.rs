//! The stream that has the keys.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, ReplayPolicy, push};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, RawMessageErrorKind, RetentionPolicy, StorageType, Stream as Opened,
};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, HeaderMap};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::entry::{Entry, Secret};
use super::known::Known;
use crate::bucket::is_missing;
use crate::{JoinError, fabric};

pub(crate) const NAME: &str = "enact-subject-keys";
const SUBJECT: &str = "enact.subject-key";
/// Where the stream says which secret hides its keys.
const SECRET: &str = "enact-secret";
/// How long a call asks.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(1);
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// How long after it was cut off the stream is followed again.
const FOLLOW_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// What came of a write.
pub(super) enum Put {
    /// The entry is stored, with this sequence.
    Yes(u64),
    /// The subject had another last entry.
    Conflict,
    /// Nothing is known.
    Unknown(String),
}

#[derive(Clone)]
pub(super) struct Stream {
    client: Client,
    context: Context,
    opened: Opened,
}

fn required(secret: &Secret, replicas: usize) -> Config {
    Config {
        name: NAME.to_owned(),
        description: Some("Keys of data subjects of Enact, each hidden".to_owned()),
        subjects: vec![format!("{SUBJECT}.*")],
        storage: StorageType::File,
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        num_replicas: replicas,
        max_messages: -1,
        max_bytes: -1,
        max_messages_per_subject: -1,
        deny_purge: true,
        metadata: [(SECRET.to_owned(), secret.mark())].into(),
        ..Config::default()
    }
}

/// Fails if keys that are kept like `found` could get lost, or be read by nobody here.
fn check(found: &Config, required: &Config) -> Result<(), JoinError> {
    if found.metadata.get(SECRET) != required.metadata.get(SECRET) {
        return Err(JoinError::OtherSecret);
    }
    let limits = [found.max_messages, found.max_bytes, found.max_messages_per_subject];
    let settings = [
        ("storage", found.storage == required.storage),
        ("retention", found.retention == required.retention),
        ("discard", found.discard == required.discard),
        ("num_replicas", found.num_replicas >= required.num_replicas),
        ("max_msgs, max_bytes or max_msgs_per_subject", limits.iter().all(|most| *most <= 0)),
        ("max_age", found.max_age.is_zero()),
        ("deny_delete", !found.deny_delete),
        ("sealed", !found.sealed),
        ("no_ack", !found.no_ack),
        ("mirror or sources", found.mirror.is_none() && found.sources.as_ref().is_none_or(Vec::is_empty)),
    ];
    match settings.iter().find(|(_, is_right)| !is_right) {
        Some((setting, _)) => Err(JoinError::KeySetting { setting: (*setting).to_owned() }),
        None => Ok(()),
    }
}

impl Stream {
    /// Opens the stream, and makes it if there is none.
    pub(super) async fn open(client: &Client, secret: &Secret, replicas: usize) -> Result<Self, JoinError> {
        let context = jetstream::new(client.clone());
        let required = required(secret, replicas);
        let opening = async {
            match context.get_stream(NAME).await {
                Err(cause) if is_missing(&cause.kind()) => match context.create_stream(required.clone()).await {
                    Ok(created) => Ok(created),
                    // Another node may have made it, with another secret.
                    Err(_) => context.get_stream(NAME).await,
                },
                opened => opened,
            }
        };
        let opened =
            timeout(PATIENCE, opening).await.map_err(JoinError::unreachable)?.map_err(JoinError::unreachable)?;
        check(&opened.cached_info().config, &required)?;
        Ok(Self { client: client.clone(), context, opened })
    }

    /// The sequence of the last message.
    pub(super) async fn last(&self) -> Result<u64, String> {
        let info = timeout(PATIENCE, self.opened.get_info()).await.map_err(|late| late.to_string())?;
        Ok(info.map_err(|cause| cause.to_string())?.state.last_sequence)
    }

    /// The last entry of a data subject with its sequence, as the leader of the servers knows it.
    pub(super) async fn last_of(&self, digest: &str) -> Result<Option<(u64, Entry)>, String> {
        let message = match self.opened.get_last_raw_message_by_subject(&format!("{SUBJECT}.{digest}")).await {
            Ok(message) => message,
            Err(cause) if cause.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(None),
            Err(cause) => return Err(cause.to_string()),
        };
        let entry = fabric::decode(&message.payload).map_err(|cause| unreadable(message.sequence, &cause))?;
        Ok(Some((message.sequence, entry)))
    }

    /// Writes an entry if `expected` is the sequence of the last one of the data subject, 0 if there must be none.
    pub(super) async fn put(&self, digest: &str, entry: &Entry, expected: u64) -> Put {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        let (subject, payload) = (format!("{SUBJECT}.{digest}"), fabric::encode(entry));
        let stored = async {
            let sent = self.context.publish_with_headers(subject, headers, payload.into()).await?;
            sent.await
        };
        match timeout(ANSWER_MAX, stored).await {
            Ok(Ok(ack)) => Put::Yes(ack.sequence),
            Ok(Err(cause)) if cause.kind() == PublishErrorKind::WrongLastSequence => Put::Conflict,
            Ok(Err(cause)) => Put::Unknown(cause.to_string()),
            Err(late) => Put::Unknown(late.to_string()),
        }
    }

    /// Has the servers overwrite a message with random bytes, if it is still there.
    pub(super) async fn overwrite(&self, sequence: u64) -> Result<(), String> {
        let deleted =
            timeout(ANSWER_MAX, self.opened.delete_message(sequence)).await.map_err(|late| late.to_string())?;
        let why = match deleted {
            Ok(true) => return Ok(()),
            Ok(false) => "the server has not done it".to_owned(),
            Err(cause) => cause.to_string(),
        };
        match timeout(ANSWER_MAX, self.opened.get_raw_message(sequence)).await {
            Ok(Err(cause)) if cause.kind() == RawMessageErrorKind::NoMessageFound => Ok(()),
            _ => Err(why),
        }
    }

    /// Keeps `known` up to date until it is aborted.
    pub(super) async fn follow(self, known: Arc<Mutex<Known>>, followed: watch::Sender<u64>) {
        loop {
            let why = match self.follow_once(&known, &followed).await {
                Ok(()) => "the server has ended it".to_owned(),
                Err(why) => why,
            };
            tracing::warn!(why, "the subject keys cannot be followed; trying again");
            sleep(FOLLOW_AGAIN_AFTER).await;
        }
    }

    async fn follow_once(&self, known: &Mutex<Known>, followed: &watch::Sender<u64>) -> Result<(), String> {
        let start_sequence = *followed.borrow() + 1;
        let config = push::OrderedConfig {
            deliver_subject: self.client.new_inbox(),
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence },
            replay_policy: ReplayPolicy::Instant,
            ..push::OrderedConfig::default()
        };
        let consumer = timeout(PATIENCE, self.opened.create_consumer(config)).await.map_err(|late| late.to_string())?;
        let mut messages =
            consumer.map_err(|cause| cause.to_string())?.messages().await.map_err(|cause| cause.to_string())?;
        while let Some(message) = messages.next().await {
            let message = message.map_err(|cause| cause.to_string())?;
            let sequence = message.info().map_err(|cause| cause.to_string())?.stream_sequence;
            let digest = message.subject.rsplit('.').next().unwrap_or_default();
            match fabric::decode(&message.payload) {
                Ok(entry) => known.lock().apply(digest, sequence, &entry),
                Err(cause) => tracing::error!(why = unreadable(sequence, &cause), "a subject key is not known"),
            }
            followed.send_replace(sequence);
        }
        Ok(())
    }
}

fn unreadable(sequence: u64, cause: &fabric::Undecoded) -> String {
    format!("message {sequence} of the stream {NAME} cannot be read: {cause}")
}
