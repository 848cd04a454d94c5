//! What nodes say to each other: questions to the owner of a shard, messages between its engine and others, and requests to hand a
//! shard over.
//!
//! A subject names the shard and the reign of its owner, so that what is meant for an earlier owner reaches nobody. A question whose
//! subject nobody listens at is answered by the server at once.
//!
//! # Other versions
//! The first byte of a message is the number of its encoding. What a node cannot read has no effect there, and the node says why: the answer is
//! [`UNREAD`] with a text, which every version reads.

use std::time::Duration;

use async_nats::{Client, HeaderMap, Request, RequestErrorKind, Subject};
use enact_entities::{
    Changes, Command, Cursor, EntityKey, EraseError, Erasure, History, HistoryPart, ReadError, ReadMode, Receipt,
    SubmitError, TxId, View,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The first byte of all messages; another encoding has another one.
const ENCODING: u8 = 1;
/// The first byte of an answer to what could not be read; a text follows that says why.
const UNREAD: u8 = 0;
/// How much of that text is read, in bytes.
const WHY_MAX: usize = 1 << 10;
/// What headers and the protocol may take of a message.
const HEADERS_MAX: usize = 4 << 10;

/// What the owner of an entity is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question<E> {
    /// The deadline of the command is the time that is left.
    Submit {
        tx: TxId,
        command: Command<E>,
    },
    /// Within the time that is left.
    Read {
        key: EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        left: Duration,
    },
    /// Within the time that is left.
    History {
        key: EntityKey,
        part: HistoryPart,
        left: Duration,
    },
    /// Within the time that is left.
    Changes {
        after: Cursor,
        limit: usize,
        left: Duration,
    },
    Erase {
        subject: EntityKey,
        by: Option<String>,
    },
}

impl<E> Question<E> {
    /// What it asks for, in a word.
    pub(crate) const fn what(&self) -> &'static str {
        match self {
            Self::Submit { .. } => "command",
            Self::Read { .. } => "read",
            Self::History { .. } => "history",
            Self::Changes { .. } => "changes",
            Self::Erase { .. } => "erasure",
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer<S, E> {
    Submitted(Result<Receipt, SubmitError>),
    Read(Result<View<S>, ReadError>),
    History(Result<History<S, E>, ReadError>),
    Changes(Result<Changes<E>, ReadError>),
    Erased(Result<Erasure, EraseError>),
    /// The node does not serve the shard, or cannot tell whether it still does. Nothing was done.
    Moved,
    /// The answer is more than a message may be.
    TooLarge,
}

/// What a node is asked to do; it answers whether it has, or will.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// To hand a shard over to a node in one of its incarnations.
    HandOver { shard: u16, to: String, incarnation: u64 },
    /// To give all its shards away.
    Drain,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// Nobody was reached.
    Nobody,
    /// Somebody may have been reached.
    Unknown,
    /// The question is more than a message may be.
    TooLarge,
    /// The node that was reached cannot read it, and has done nothing.
    Unread(Unread),
}

/// Another node cannot read what this one has sent, and has done nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another node cannot read a message of this one, and has done nothing: {why}")]
pub(crate) struct Unread {
    /// What the other one says.
    why: String,
}

/// Why a message cannot be read. It has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Undecoded {
    #[error(
        "it has encoding {found}, and this program reads {ENCODING}; let all nodes run versions of the program that follow each other"
    )]
    Encoding { found: u8 },
    #[error("it is empty")]
    Empty,
    #[error("it is none that this program knows: {why}")]
    Malformed { why: String },
}

pub(crate) fn shard_subject(shard: u16, epoch: u64, what: &str) -> String {
    format!("enact.shard.{shard}.{epoch}.{what}")
}

pub(crate) fn node_subject(node: &str) -> String {
    format!("enact.node.{node}")
}

/// The last part of the subject of questions.
pub(crate) const ASK: &str = "ask";
/// The last part of the subject of messages between engines.
pub(crate) const ENGINE: &str = "engine";

/// Asks one question, with these headers if there are any, and waits for its answer no longer than `patience`.
pub(crate) async fn ask<Q: Serialize, A: DeserializeOwned>(
    client: &Client,
    subject: String,
    question: &Q,
    headers: Option<HeaderMap>,
    patience: Duration,
) -> Result<A, Unasked> {
    let payload = encode(question);
    if payload.len() + HEADERS_MAX > client.server_info().max_payload {
        return Err(Unasked::TooLarge);
    }
    let mut request = Request::new().payload(payload.into()).timeout(Some(patience));
    request.headers = headers;
    let answer = client.send_request(subject, request).await.map_err(|error| match error.kind() {
        RequestErrorKind::NoResponders => Unasked::Nobody,
        _ => Unasked::Unknown,
    })?;
    if let Some(unread) = unread(&answer.payload) {
        return Err(Unasked::Unread(unread));
    }
    decode(&answer.payload).map_err(|cause| {
        tracing::error!(%cause, "the answer of another node cannot be read");
        Unasked::Unknown
    })
}

/// What tells a sender that its message could not be read, and why.
pub(crate) fn refusal(cause: &impl std::error::Error) -> Vec<u8> {
    let mut bytes = vec![UNREAD];
    bytes.extend_from_slice(cause.to_string().as_bytes());
    bytes
}

/// What `answer` says if what it answers could not be read.
pub(crate) fn unread(answer: &[u8]) -> Option<Unread> {
    let (&UNREAD, why) = answer.split_first()? else { return None };
    let why = String::from_utf8_lossy(&why[..why.len().min(WHY_MAX)]).into_owned();
    Some(Unread { why })
}

/// Sends `answer` to where it is waited for.
pub(crate) async fn reply<S: Serialize, E: Serialize>(client: &Client, to: Subject, answer: &Answer<S, E>) {
    let mut payload = encode(answer);
    if payload.len() + HEADERS_MAX > client.server_info().max_payload {
        payload = encode(&Answer::<S, E>::TooLarge);
    }
    if let Err(cause) = client.publish(to, payload.into()).await {
        tracing::debug!(%cause, "an answer was not sent");
    }
}

pub(crate) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = vec![ENCODING];
    let mut serializer = rmp_serde::Serializer::new(&mut bytes).with_struct_map().with_human_readable();
    message.serialize(&mut serializer).expect("messages have an encoding");
    bytes
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Undecoded> {
    let (encoding, body) = bytes.split_first().ok_or(Undecoded::Empty)?;
    if *encoding != ENCODING {
        return Err(Undecoded::Encoding { found: *encoding });
    }
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(body).with_human_readable();
    T::deserialize(&mut deserializer).map_err(|why| Undecoded::Malformed { why: why.to_string() })
}
