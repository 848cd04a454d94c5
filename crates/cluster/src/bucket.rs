//! The bucket in which nodes keep their leases and claims: a store of keys and values over NATS.
//!
//! A key is written only by who knows what it had before: the revision. What a time-out leaves unknown is found out by reading.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::kv::{Config, Operation, Store, Watch};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Info, LastRawMessageErrorKind, StorageType};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, HeaderMap};
use futures_util::StreamExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::JoinError;
use crate::status::Replica;
use crate::view::{Revised, View};

const NAME: &str = "enact";
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// How long a server may give no answer: a little longer than a leader is elected.
const SERVER_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);
/// What a message has in its header by which a node has taken the key away, or its time has.
const OPERATION: &str = "KV-Operation";
const MARKER: &str = "Nats-Marker-Reason";
/// How long the bucket says that a key is gone.
const MARKERS: Duration = Duration::from_secs(3600);

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct Bucket {
    client: Client,
    context: Context,
    store: Store,
    /// Since when nothing that was asked has had an answer.
    silent: Arc<Mutex<Option<Instant>>>,
}

fn subject(key: &str) -> String {
    format!("$KV.{NAME}.{key}")
}

/// How the journal of a shard is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) last: u64,
    pub(crate) missing: u64,
    /// The leader first; without one, none.
    pub(crate) replicas: Vec<Replica>,
    /// What is wrong with it, as far as that is not said otherwise.
    pub(crate) flaw: Option<String>,
}

/// When a server has answered.
#[derive(Deserialize)]
struct Answered {
    #[serde(with = "time::serde::rfc3339")]
    ts: OffsetDateTime,
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
            return Ok(Self::of(client, context, store));
        }
        let store = context.create_key_value(config).await.map_err(JoinError::unreachable)?;
        Ok(Self::of(client, context, store))
    }

    fn of(client: &Client, context: Context, store: Store) -> Self {
        Self { client: client.clone(), context, store, silent: Arc::default() }
    }

    /// Takes down whether what was `asked` has been answered. A server that gives no answers for long is left: it may be cut off
    /// from the others, which do without it.
    async fn heard(&self, asked: Instant, is_answered: bool) {
        let is_due = {
            let mut silent = self.silent.lock();
            let since = *silent.get_or_insert(asked);
            let is_due = !is_answered && since.elapsed() > SERVER_MAX;
            if is_answered || is_due {
                *silent = None;
            }
            is_due
        };
        if is_due {
            tracing::warn!("the server does not answer for leases and claims: going to another one");
            // A connection that is closed for good answers nothing.
            drop(self.client.force_reconnect().await);
        }
    }

    /// The bucket that nodes have made.
    pub(crate) async fn existing(client: &Client) -> Result<Self, JoinError> {
        let context = jetstream::new(client.clone());
        let opened = timeout(ANSWER_MAX * 5, context.get_key_value(NAME)).await.map_err(JoinError::unreachable)?;
        let store = opened.map_err(|cause| JoinError::unreachable(format!("no node has joined there: {cause}")))?;
        Ok(Self::of(client, context, store))
    }

    /// What the key has, as the leader of the servers knows it.
    pub(crate) async fn read<T: for<'a> Deserialize<'a>>(&self, key: &str) -> Result<Option<Revised<T>>, String> {
        let Revised { value, revision } = self.look_at(key).await?;
        Ok(value.map(|value| Revised { value, revision }))
    }

    /// What the key has, if it has something, and its revision all the same; 0 if it never was there, or so long ago that this is
    /// forgotten.
    pub(crate) async fn look_at<T: for<'a> Deserialize<'a>>(&self, key: &str) -> Result<Revised<Option<T>>, String> {
        let Some(message) = self.last(key).await? else { return Ok(Revised { value: None, revision: 0 }) };
        let is_gone = [OPERATION, MARKER].iter().any(|gone| message.headers.get(*gone).is_some());
        let value = (!is_gone).then(|| serde_json::from_slice(&message.payload)).transpose();
        let value = value.map_err(|cause| format!("{key} cannot be read: {cause}"))?;
        Ok(Revised { value, revision: message.sequence })
    }

    /// The revision of the key, also if it is gone; 0 as with [`look_at`](Self::look_at).
    pub(crate) async fn revision(&self, key: &str) -> Result<u64, String> {
        Ok(self.last(key).await?.map_or(0, |message| message.sequence))
    }

    async fn last(&self, key: &str) -> Result<Option<StreamMessage>, String> {
        let subject = subject(key);
        let begun = Instant::now();
        let asked = timeout(ANSWER_MAX, self.store.stream.get_last_raw_message_by_subject(&subject)).await;
        let last = match asked {
            Ok(Ok(message)) => Ok(Some(message)),
            Ok(Err(cause)) if cause.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Ok(Err(cause)) => Err(cause.to_string()),
            Err(late) => Err(late.to_string()),
        };
        self.heard(begun, last.is_ok()).await;
        last
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
            let sent = self.context.publish_with_headers(subject(key), headers, value.into()).await;
            sent.map_err(|cause| cause.kind())?.await.map_err(|cause| cause.kind())
        };
        let begun = Instant::now();
        let wrote = match timeout(ANSWER_MAX, stored).await {
            Ok(Ok(ack)) => Wrote::Yes(ack.sequence),
            Ok(Err(jetstream::context::PublishErrorKind::WrongLastSequence)) => Wrote::Conflict,
            Ok(Err(_)) | Err(_) => Wrote::Unknown,
        };
        self.heard(begun, wrote != Wrote::Unknown).await;
        wrote
    }

    /// Takes `key` away if it has the revision `expected`. Returns whether that has come through for certain.
    pub(crate) async fn remove(&self, key: &str, expected: u64) -> bool {
        let removed = timeout(ANSWER_MAX, self.store.delete_expect_revision(key, Some(expected))).await;
        matches!(removed, Ok(Ok(())))
    }

    /// Whether the shard has a journal.
    pub(crate) async fn has_journal(&self, shard: u16) -> Result<bool, String> {
        let asked = timeout(ANSWER_MAX, self.context.get_stream(format!("J{shard}"))).await;
        match asked.map_err(|late| late.to_string())? {
            Ok(_) => Ok(true),
            Err(cause) if is_missing(&cause.kind()) => Ok(false),
            Err(cause) => Err(cause.to_string()),
        }
    }

    /// How `stream` is kept: by nobody if no server knows; nothing if there is none.
    pub(crate) async fn kept(&self, stream: &str) -> Option<Kept> {
        let stream = match timeout(ANSWER_MAX * 2, self.context.get_stream(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(cause)) if is_missing(&cause.kind()) => return None,
            Ok(Err(_)) | Err(_) => return Some(Kept::default()),
        };
        let Info { state, cluster, .. } = stream.cached_info();
        let cluster = cluster.clone().unwrap_or_default();
        let leader = cluster.leader.map(|server| Replica { server, is_current: true, lag: 0 });
        let others = cluster.replicas.into_iter().map(|peer| Replica {
            server: peer.name,
            is_current: peer.current && !peer.offline,
            lag: peer.lag.unwrap_or(0),
        });
        let missing = state.last_sequence - state.messages.min(state.last_sequence);
        let replicas = leader.into_iter().chain(others).collect();
        Some(Kept { last: state.last_sequence, missing, replicas, flaw: None })
    }

    /// How far the clock of the servers is from the one here, in milliseconds; less than the way there and back does not count.
    pub(crate) async fn clock_difference(&self) -> Result<u64, String> {
        let asked: Result<Answered, _> =
            timeout(ANSWER_MAX * 2, self.context.request(format!("STREAM.INFO.KV_{NAME}"), &()))
                .await
                .map_err(|late| late.to_string())?
                .map_err(|cause| cause.to_string());
        let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(|cause| cause.to_string())?;
        let there = asked?.ts.unix_timestamp_nanos() / 1_000_000;
        let here = i128::try_from(here.as_millis()).map_err(|cause| cause.to_string())?;
        u64::try_from((here - there).abs()).map_err(|cause| cause.to_string())
    }

    /// All leases and claims, once.
    pub(crate) async fn look(&self) -> Result<View, String> {
        let (views, mut seen) = watch::channel(View::default());
        let watching = timeout(ANSWER_MAX * 5, self.store.watch_with_history(">")).await;
        let watching = watching.map_err(|late| late.to_string())?.map_err(|cause| cause.to_string())?;
        let looked = async {
            tokio::select! {
                () = follow(watching, &views, ANSWER_MAX) => {}
                _ = seen.changed() => {}
            }
        };
        timeout(ANSWER_MAX * 5, looked).await.map_err(|late| late.to_string())?;
        Ok(seen.borrow().clone())
    }

    /// Keeps `views` up to date until nobody looks at them any more. Nodes renew their leases, so that a watch that is `silent` for
    /// so long has lost its server, and another one begins.
    pub(crate) async fn watch(self, views: watch::Sender<View>, silent: Duration) {
        loop {
            match timeout(ANSWER_MAX * 5, self.store.watch_with_history(">")).await {
                Ok(Ok(watch)) => follow(watch, &views, silent).await,
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

/// Whether a stream cannot be got because there is none.
pub(crate) fn is_missing(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(cause) if cause.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Shows what `watch` tells, as soon as that is all there was at its beginning, until it says nothing for a time.
async fn follow(mut watch: Watch, views: &watch::Sender<View>, silent: Duration) {
    let mut view = View::default();
    let mut is_whole = false;
    loop {
        let entry = tokio::select! {
            () = views.closed() => return,
            entry = timeout(silent, watch.next()) => entry,
        };
        let Ok(Some(Ok(entry))) = entry else { return };
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

#[cfg(test)]
mod tests {
    use enact_journal_kit::nats::{Server, program};

    use super::*;
    use crate::connect::connect;

    #[tokio::test]
    async fn a_key_is_written_only_with_the_revision_that_it_has() {
        let Some(program) = program() else { return };
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&program, directory.path());
        let client = connect(&server.address().into(), "test").await.expect("connected");
        let bucket = Bucket::open(&client, 1).await.expect("opened");
        let Wrote::Yes(first) = bucket.write("k", &1, 0, None).await else { panic!("it was not there") };
        assert_eq!(bucket.write("k", &2, 0, None).await, Wrote::Conflict);
        assert_eq!(bucket.write("k", &2, first + 7, None).await, Wrote::Conflict);
        let Wrote::Yes(second) = bucket.write("k", &3, first, None).await else { panic!("it has that revision") };
        assert_eq!(bucket.write("k", &4, first, None).await, Wrote::Conflict);
        assert_eq!(bucket.read("k").await, Ok(Some(Revised { value: 3, revision: second })));
        assert!(!bucket.remove("k", first).await);
        assert!(bucket.read::<u8>("k").await.expect("readable").is_some(), "another revision is not taken away");
        assert!(bucket.remove("k", second).await);
        assert_eq!(bucket.read::<u8>("k").await, Ok(None));
        let gone = bucket.look_at::<u8>("k").await.expect("known");
        assert_eq!((gone.value, Ok(gone.revision)), (None, bucket.revision("k").await));
        assert!(matches!(bucket.write("k", &5, gone.revision, None).await, Wrote::Yes(_)), "it is there again");
        assert_eq!(bucket.look_at::<u8>("new").await, Ok(Revised { value: None, revision: 0 }));
    }
}
