//! The bucket in which nodes keep their leases and claims: a store of keys and values over NATS.
//!
//! A key is written only by who knows what it had before: the revision. What a time-out leaves unknown is found out by reading.

use std::time::Duration;

use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::kv::{Config, Operation, Store, Watch};
use async_nats::jetstream::stream::StorageType;
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, HeaderMap};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::JoinError;
use crate::view::{Revised, View};

const NAME: &str = "enact";
const ANSWER_MAX: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);
/// How long the bucket says that a key is gone.
const MARKERS: Duration = Duration::from_secs(3600);

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct Bucket {
    context: Context,
    store: Store,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// The key has the value, with this revision.
    Yes(u64),
    /// The key had another revision.
    Conflict,
    /// Nothing is known.
    Unknown,
}

impl Bucket {
    /// Opens the bucket, and makes it if there is none.
    pub(crate) async fn open(client: &Client, replicas: usize) -> Result<Self, JoinError> {
        let context = jetstream::new(client.clone());
        let config = Config {
            bucket: NAME.to_owned(),
            description: "Leases of nodes and claims to shards of Enact".to_owned(),
            history: 1,
            storage: StorageType::File,
            num_replicas: replicas,
            limit_markers: Some(MARKERS),
            ..Config::default()
        };
        if let Ok(store) = context.get_key_value(NAME).await {
            let found = store.stream.cached_info().config.num_replicas;
            if found < replicas {
                return Err(JoinError::Replicas { found, required: replicas });
            }
            return Ok(Self { context, store });
        }
        let store = context.create_key_value(config).await.map_err(JoinError::unreachable)?;
        Ok(Self { context, store })
    }

    /// What the key has.
    pub(crate) async fn read<T: for<'a> Deserialize<'a>>(&self, key: &str) -> Result<Option<Revised<T>>, String> {
        let entry = timeout(ANSWER_MAX, self.store.entry(key)).await.map_err(|late| late.to_string())?;
        let Some(entry) = entry.map_err(|cause| cause.to_string())? else { return Ok(None) };
        if entry.operation != Operation::Put {
            return Ok(None);
        }
        let value = serde_json::from_slice(&entry.value).map_err(|cause| format!("{key} cannot be read: {cause}"))?;
        Ok(Some(Revised { value, revision: entry.revision }))
    }

    /// The revision of the key, also if it is gone; 0 if it never was there, or so long ago that this is forgotten.
    pub(crate) async fn revision(&self, key: &str) -> Result<u64, String> {
        let entry = timeout(ANSWER_MAX, self.store.entry(key)).await.map_err(|late| late.to_string())?;
        Ok(entry.map_err(|cause| cause.to_string())?.map_or(0, |entry| entry.revision))
    }

    /// Gives `key` a value if it has the revision `expected`; one that lasts for `lease`, if that is given.
    pub(crate) async fn write<T: Serialize>(
        &self,
        key: &str,
        value: &T,
        expected: u64,
        lease: Option<Duration>,
    ) -> Wrote {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        if let Some(lease) = lease {
            headers.insert("Nats-TTL", format!("{}s", lease.as_secs()));
        }
        let value = serde_json::to_vec(value).expect("values of the bucket have a text form");
        let stored = async {
            let subject = format!("$KV.{NAME}.{key}");
            let sent = self.context.publish_with_headers(subject, headers, value.into()).await;
            sent.map_err(|cause| cause.kind())?.await.map_err(|cause| cause.kind())
        };
        match timeout(ANSWER_MAX, stored).await {
            Ok(Ok(ack)) => Wrote::Yes(ack.sequence),
            Ok(Err(jetstream::context::PublishErrorKind::WrongLastSequence)) => Wrote::Conflict,
            Ok(Err(_)) | Err(_) => Wrote::Unknown,
        }
    }

    /// Takes `key` away if it has the revision `expected`.
    pub(crate) async fn remove(&self, key: &str, expected: u64) {
        let removed = timeout(ANSWER_MAX, self.store.delete_expect_revision(key, Some(expected))).await;
        if !matches!(removed, Ok(Ok(()))) {
            tracing::warn!(key, "a key of the bucket was not removed; it is when its lease is over");
        }
    }

    /// Whether the shard has a journal.
    pub(crate) async fn has_journal(&self, shard: u16) -> Result<bool, String> {
        let asked = timeout(ANSWER_MAX, self.context.get_stream(format!("J{shard}"))).await;
        match asked.map_err(|late| late.to_string())? {
            Ok(_) => Ok(true),
            Err(cause) => match cause.kind() {
                GetStreamErrorKind::JetStream(cause) if cause.error_code() == ErrorCode::STREAM_NOT_FOUND => Ok(false),
                _ => Err(cause.to_string()),
            },
        }
    }

    /// Keeps `views` up to date until nobody looks at them any more.
    pub(crate) async fn watch(self, views: watch::Sender<View>) {
        loop {
            match timeout(ANSWER_MAX * 5, self.store.watch_with_history(">")).await {
                Ok(Ok(watch)) => follow(watch, &views).await,
                Ok(Err(cause)) => tracing::warn!(%cause, "leases and claims cannot be watched; trying again"),
                Err(late) => tracing::warn!(%late, "leases and claims cannot be watched; trying again"),
            }
            tokio::select! {
                () = views.closed() => return,
                () = sleep(PAUSE) => {}
            }
        }
    }
}

/// Shows what `watch` tells, as soon as that is all there was at its beginning.
async fn follow(mut watch: Watch, views: &watch::Sender<View>) {
    let mut view = View::default();
    let mut is_whole = false;
    loop {
        let entry = tokio::select! {
            () = views.closed() => return,
            entry = watch.next() => entry,
        };
        let Some(Ok(entry)) = entry else { return };
        let value = (entry.operation == Operation::Put).then_some(&*entry.value);
        view.apply(&entry.key, value, entry.revision);
        is_whole |= entry.seen_current;
        if is_whole {
            views.send_if_modified(|shown| {
                let is_other = *shown != view;
                if is_other {
                    shown.clone_from(&view);
                }
                is_other
            });
        }
    }
}
