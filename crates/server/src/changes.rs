//! `GET /-/changes`: what has changed in all instances, in the order of effects, as a page or as a stream that goes on.
//!
//! A stream is sent as events of the server (`text/event-stream`), each with its cursor as its id: a client that is cut off sends the
//! last one as `Last-Event-ID`, as browsers do, and misses and repeats nothing.
//!
//! # Who may follow
//! A client that names classes must be allowed to read each of them. One that names none is told of those that it may read, and its cursors
//! pass what it is not told of. A stream ends within [`PROOF_CHECK_EVERY`] when its caller may not read its classes any more: its token is
//! revoked or its time over, or it has lost a role.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use axum::Json;
use axum::extract::Query;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use enact_entities::{
    Changes, Cursor, Entities, EntityChange, News, Origin, ReadError, Rebel, Snapshot, Tombstone, Vault,
};
use enact_journal::EntityKey;
use enact_rebel::{EventCall, Instance};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Serialize;
use serde_json::Value as JsonValue;
use thiserror::Error;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::error;
use utoipa::ToSchema;

use crate::api::Api;
use crate::credentials::{Credentials, Identity, Proof};
use crate::history::{Called, calls, invalid, moment_to_json};
use crate::limits::{Peer, Stopping};
use crate::personal::{Erased, Hidden, shown};
use crate::problem::{InvalidParameter, Problem};
use crate::readers::Readers;
use crate::shares::Share;
use crate::{envelope, outcome};

/// Most changes of a page, and how many it has unless it is said.
pub(crate) const PAGE_MAX: usize = 1000;
pub(crate) const PAGE_DEFAULT: usize = 100;

/// How many clients follow at once.
pub(crate) const FOLLOWERS_MAX: usize = 64;

/// How many changes of a stream are read at a time.
const READ_AT_ONCE: usize = 250;
/// How long after a look a stream looks again at the earliest, so that under load it finds many changes at a time.
const PAUSE: Duration = Duration::from_millis(20);
/// After how long without news a stream looks all the same: a remote journal may have had another writer.
const LOOK_AFTER: Duration = Duration::from_millis(500);
/// How often a stream looks that gets no news, as other nodes have changes, too.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// After how long without a change a stream says that it is alive, and how far it is.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// How often a stream looks whether its caller still may follow.
const PROOF_CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long a reading of a stream may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Header with the cursor of the last change that a client has seen of a stream.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A page of changes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Changes)]
pub(crate) struct Page<'a> {
    /// In the order of their effects, those of each shard.
    changes: Vec<Entry<'a>>,
    /// The `after` of the next page, whether there is something on it yet or not.
    next: String,
}

/// What one transaction did to one instance.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Change)]
pub(crate) struct Entry<'a> {
    /// Where to go on behind it. The change itself is named by its instance and its transaction.
    cursor: String,
    class: &'a str,
    id: &'a str,
    /// Its place in the history of the instance. An erasure has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u64>,
    #[schema(value_type = String, format = "uuid")]
    transaction: String,
    /// The time of its events.
    #[schema(value_type = String)]
    at: JsonValue,
    /// The version of the contract under which they happened. An erasure is under none.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    /// In order. What happened to an instance with a tombstone is not known.
    events: Vec<Called<'a>>,
    /// What the instance has ended as, if what happened to it before was discarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    tombstone: Option<Ended>,
    /// That the personal values of the instance were erased, wherever they are: copies of them are to be erased, too. Nothing else
    /// happened to the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    erasure: Option<Erased>,
}

/// An instance in a final state.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Tombstone)]
pub(crate) struct Ended {
    state: String,
    /// The fields that it has under that version.
    #[schema(value_type = Object)]
    fields: BTreeMap<String, JsonValue>,
    #[serde(flatten)]
    hidden: Hidden,
}

impl Ended {
    /// Nothing if the tombstone cannot be read, which is logged.
    async fn of(vault: Option<&Vault>, entity: &EntityKey, tombstone: &Tombstone) -> Option<Self> {
        let snapshot: Result<Snapshot<Instance, EventCall>, _> = tombstone.snapshot();
        let snapshot = snapshot.inspect_err(|cause| error!(%entity, %cause, "a tombstone cannot be read")).ok()?;
        let (fields, hidden) = shown(vault, snapshot.base.fields().iter().collect()).await;
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Some(Self { state: snapshot.base.state().to_string(), fields, hidden })
    }
}

/// How far a client has come in each shard.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cursors(Vec<Cursor>);

/// What a client wants to know of.
#[derive(Debug)]
struct Asked {
    after: Cursors,
    limit: usize,
    /// Changes of these classes; of all if there is none.
    classes: BTreeSet<String>,
}

pub(crate) async fn changes<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    peer: &Peer,
    identity: Option<&Identity>,
    head: &Parts,
) -> Result<Response, Problem> {
    let is_stream = accepts_a_stream(&head.headers);
    let mut unfit = Vec::new();
    let deadline = envelope::deadline(&head.headers).map_err(|problem| unfit.push(problem)).unwrap_or_default();
    let mut asked = asked(api, head, is_stream, &mut unfit);
    let caller = identity.map(|identity| &identity.caller);
    if asked.classes.is_empty() {
        asked.classes = api.readers.readable(api.entities.model().spec(), caller)?.unwrap_or_default();
    } else {
        asked.classes.iter().try_for_each(|class| api.readers.admit(class, caller))?;
    }
    if !unfit.is_empty() {
        return Err(Problem::invalid(unfit));
    }
    if is_stream {
        let share = api.follow(peer)?;
        let right = Right::of(api, identity, &asked.classes);
        let mut follower = Follower::new(api.entities.clone(), asked, right, share);
        // A cursor that cannot be is told by the status.
        let first = follower.look().await.map_err(|error| outcome::of_changes(&error))?;
        return Ok(Sse::new(follower.told(first, peer.stopping())).into_response());
    }
    let _admitted = api.admit(peer)?;
    let Asked { after, limit, classes } = asked;
    let Read { changes, next, .. } = read(&api.entities, &after, limit, deadline.saturating_sub(peer.held_up()))
        .await
        .map_err(|error| outcome::of_changes(&error))?;
    let wanted = changes.iter().filter(|(change, _)| is_wanted(&classes, change));
    let vault = api.entities.vault();
    let mut entries = Vec::new();
    for (change, cursors) in wanted {
        entries.push(entry(vault, change, cursors).await);
    }
    Ok(Json(Page { changes: entries, next: next.text() }).into_response())
}

type Known = EntityChange<EventCall>;

/// Changes of all shards, each with the cursors behind it, and the cursors behind all.
struct Read {
    changes: Vec<(Known, Cursors)>,
    next: Cursors,
    /// Whether a shard has more.
    has_more: bool,
}

/// Changes of all shards behind `after`.
async fn read<E: Entities<Model = Rebel>>(
    entities: &E,
    after: &Cursors,
    limit: usize,
    deadline: Duration,
) -> Result<Read, ReadError> {
    let of_each = (limit / after.0.len()).max(1);
    let (mut all, mut at, mut has_more) = (Vec::new(), after.clone(), false);
    let begun = Instant::now();
    for (index, shard) in (0..entities.shards()).enumerate() {
        let left = deadline.saturating_sub(begun.elapsed());
        let Changes { changes, next, has_more: more } =
            Box::pin(entities.changes(shard, at.0[index], of_each, left)).await?;
        for change in changes {
            at.0[index] = change.cursor;
            all.push((change, at.clone()));
        }
        at.0[index] = next;
        has_more |= more;
    }
    Ok(Read { changes: all, next: at, has_more })
}

fn is_wanted(classes: &BTreeSet<String>, change: &Known) -> bool {
    classes.is_empty() || classes.contains(change.entity.class())
}

async fn entry<'a>(vault: Option<&Vault>, change: &'a Known, cursors: &Cursors) -> Entry<'a> {
    let EntityChange { entity, slot, tx, at, version, events, tombstone, erasure, .. } = change;
    let tombstone = match tombstone {
        Some(tombstone) => Ended::of(vault, entity, tombstone).await,
        None => None,
    };
    Entry {
        cursor: cursors.text(),
        class: entity.class(),
        id: entity.id(),
        slot: erasure.is_none().then_some(slot.0),
        transaction: tx.to_string(),
        at: moment_to_json(*at),
        version: erasure.is_none().then_some(*version),
        events: calls(vault, events).await,
        tombstone,
        erasure: erasure.as_deref().map(Erased::from),
    }
}

/// By which right a client follows classes that not everybody may read.
struct Right {
    proof: Proof,
    credentials: Credentials,
    readers: Arc<Readers>,
    classes: Vec<String>,
    checked_at: Instant,
}

impl Right {
    /// The right of `identity` to follow `classes`, all of them if there is none; nothing where everybody may.
    fn of<E: Entities<Model = Rebel>>(
        api: &Api<E>,
        identity: Option<&Identity>,
        classes: &BTreeSet<String>,
    ) -> Option<Self> {
        let all = api.entities.model().spec().classes().map(|class| class.name().to_string());
        let classes = all.filter(|class| classes.is_empty() || classes.contains(class));
        let classes: Vec<String> = classes.filter(|class| api.readers.demand(class).is_some()).collect();
        let proof = identity.filter(|_| !classes.is_empty())?.proof.clone();
        let (credentials, readers) = (api.credentials.clone(), Arc::clone(&api.readers));
        Some(Self { proof, credentials, readers, classes, checked_at: Instant::now() })
    }

    /// Whether the client still has it, as far as it was looked lately.
    fn is_held(&mut self) -> bool {
        if self.checked_at.elapsed() < PROOF_CHECK_EVERY {
            return true;
        }
        self.checked_at = Instant::now();
        let caller = self.credentials.caller(&self.proof).ok().flatten();
        self.classes.iter().all(|class| self.readers.allow(class, caller.as_ref()))
    }
}

/// Why a stream ends.
#[derive(Debug, Error)]
enum CutOff {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the caller may not read these classes any more")]
    Right,
}

/// A client that follows the changes.
struct Follower<E> {
    entities: E,
    asked: Asked,
    right: Option<Right>,
    news: Option<News>,
    looked_at: Instant,
    /// Whether the last reading has left something.
    has_more: bool,
    last_told: Instant,
    /// The request, which has been answered when something goes wrong.
    origin: Option<Origin>,
    _share: Share,
}

impl<E: Entities<Model = Rebel>> Follower<E> {
    fn new(entities: E, asked: Asked, right: Option<Right>, share: Share) -> Self {
        // Before the first look, so that nothing is missed behind it.
        let (news, now) = (entities.news(), Instant::now());
        Self {
            entities,
            asked,
            right,
            news,
            looked_at: now,
            has_more: false,
            last_told: now,
            origin: Origin::current(),
            _share: share,
        }
    }

    /// What the client is told, `first` and what comes after it, until the server stops or cannot read.
    fn told(self, first: Vec<Event>, stopping: Stopping) -> impl Stream<Item = Result<Event, Infallible>> + Send {
        let batches = stream::unfold(self, |follower| Origin::scope(follower.origin.clone(), follower.more()));
        stream::iter(first).chain(batches.flatten()).map(Ok).take_until(Box::pin(stopping.wait()))
    }

    /// What the client is told next, if it is not cut off.
    async fn more(mut self) -> Option<(stream::Iter<vec::IntoIter<Event>>, Self)> {
        match self.next().await {
            Ok(events) => Some((stream::iter(events), self)),
            Err(error) => {
                tracing::warn!(%error, "a client that follows the changes is cut off");
                None
            }
        }
    }

    /// The next changes, as soon as there are any.
    async fn next(&mut self) -> Result<Vec<Event>, CutOff> {
        loop {
            if !self.has_more {
                self.pause().await;
            }
            if self.right.as_mut().is_some_and(|right| !right.is_held()) {
                return Err(CutOff::Right);
            }
            let mut events = self.look().await?;
            if events.is_empty() && self.last_told.elapsed() >= QUIET_MAX {
                // No event for the client, which takes up the id.
                events.push(Event::default().id(self.asked.after.text()).comment("nothing new"));
            }
            if !events.is_empty() {
                self.last_told = Instant::now();
                return Ok(events);
            }
        }
    }

    /// Waits until there may be something new.
    async fn pause(&mut self) {
        sleep_until(self.looked_at + PAUSE).await;
        match &mut self.news {
            Some(news) => drop(timeout_at(self.looked_at + LOOK_AFTER, news.wait()).await),
            None => sleep_until(self.looked_at + LOOK_EVERY).await,
        }
    }

    /// The next changes, if there are any.
    async fn look(&mut self) -> Result<Vec<Event>, ReadError> {
        self.looked_at = Instant::now();
        let Read { changes, next, has_more } = read(&self.entities, &self.asked.after, READ_AT_ONCE, DEADLINE).await?;
        let wanted = changes.iter().filter(|(change, _)| is_wanted(&self.asked.classes, change));
        let vault = self.entities.vault();
        let mut events = Vec::new();
        for (change, cursors) in wanted {
            events.push(event(vault, change, cursors).await);
        }
        (self.asked.after, self.has_more) = (next, has_more);
        Ok(events)
    }
}

async fn event(vault: Option<&Vault>, change: &Known, cursors: &Cursors) -> Event {
    let data = Event::default().id(cursors.text()).event("change").json_data(entry(vault, change, cursors).await);
    data.expect("texts, numbers and what JSON made of values")
}

fn accepts_a_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut media = accepted.flat_map(|value| value.split(',')).filter_map(|media| media.split(';').next());
    media.any(|media| media.trim().eq_ignore_ascii_case("text/event-stream"))
}

fn asked<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    head: &Parts,
    is_stream: bool,
    unfit: &mut Vec<InvalidParameter>,
) -> Asked {
    let shards = usize::from(api.entities.shards());
    let mut asked = Asked { after: Cursors::start(shards), limit: PAGE_DEFAULT, classes: BTreeSet::new() };
    let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(&head.uri) else {
        unfit.push(invalid("query", "cannot be decoded".to_owned()));
        return asked;
    };
    let mut given = BTreeMap::new();
    for (name, text) in pairs {
        let spec = api.entities.model().spec();
        match name.as_str() {
            "class" if spec.class(&text).is_some() => drop(asked.classes.insert(text)),
            "class" => unfit.push(invalid("class", format!("there is no class `{text}`"))),
            "after" | "limit" => {
                if given.insert(name.clone(), text).is_some() {
                    unfit.push(invalid(&name, "given more than once".to_owned()));
                }
            }
            _ => unfit.push(invalid(&name, "changes take `after`, `limit` and `class`".to_owned())),
        }
    }
    let last_seen = head.headers.get(LAST_EVENT_ID).filter(|_| is_stream);
    let after = match last_seen {
        Some(value) => Some(("last-event-id", value.to_str().unwrap_or_default())),
        None => given.get("after").map(|text| ("after", text.as_str())),
    };
    if let Some((name, text)) = after {
        match Cursors::of(text, shards) {
            Ok(cursors) => asked.after = cursors,
            Err(problem) => unfit.push(invalid(name, problem)),
        }
    }
    match given.get("limit").map_or(Ok(PAGE_DEFAULT), |text| text.parse()) {
        Ok(limit @ 1..=PAGE_MAX) => asked.limit = limit,
        _ => unfit.push(invalid("limit", format!("a whole number from 1 to {PAGE_MAX}"))),
    }
    asked
}

impl Cursors {
    fn start(shards: usize) -> Self {
        Self(vec![Cursor::START; shards])
    }

    /// Those that are written as `17.20.1,0.0.0`, one for each shard.
    fn of(text: &str, shards: usize) -> Result<Self, String> {
        let cursors: Result<Vec<Cursor>, _> = text.split(',').map(str::parse).collect();
        match cursors {
            Ok(cursors) if cursors.len() == shards => Ok(Self(cursors)),
            Ok(cursors) => Err(format!("it is of {} shards, there are {shards}", cursors.len())),
            Err(error) => Err(error.to_string()),
        }
    }

    fn text(&self) -> String {
        self.0.iter().map(Cursor::to_string).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn cursors_have_one_part_for_each_shard() {
        assert_eq!(Cursors::of("0.0.0", 1), Ok(Cursors::start(1)));
        let several = Cursors::of("17.20.1,0.0.0,3.3.7", 3).expect("three");
        assert_eq!(several.text(), "17.20.1,0.0.0,3.3.7");
        for (text, shards) in [("", 1), ("0.0.0", 2), ("0.0.0,0.0.0", 1), ("0.0.0,", 2), ("0.0.0 , 0.0.0", 2)] {
            assert!(Cursors::of(text, shards).is_err(), "{text} of {shards}");
        }
    }

    #[test]
    fn a_stream_is_for_those_that_accept_one() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream;q=0.5", true),
            ("application/json", false),
            ("*/*", false),
            ("text/event-streams", false),
        ] {
            let headers = [(header::ACCEPT, HeaderValue::from_static(accept))].into_iter().collect();
            assert_eq!(accepts_a_stream(&headers), expected, "{accept}");
        }
        assert!(!accepts_a_stream(&HeaderMap::new()));
    }
}
