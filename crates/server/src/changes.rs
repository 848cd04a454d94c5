//! `GET /-/changes`: what has changed in all instances, in the order of effects, as a page or as a stream that goes on.
//!
//! A stream is sent as events of the server (`text/event-stream`), each with its cursor as its id: a client that is cut off sends the
//! last one as `Last-Event-ID`, as browsers do, and misses and repeats nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::Query;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use enact_entities::{Changes, Cursor, Entities, EntityChange, News, ReadError, Rebel, Snapshot, Tombstone};
use enact_journal::EntityKey;
use enact_rebel::{EventCall, Instance};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Serialize;
use serde_json::Value as JsonValue;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::error;
use utoipa::ToSchema;

use crate::api::Api;
use crate::history::{Called, called, invalid, moment_to_json};
use crate::limits::{Peer, Stopping};
use crate::problem::{InvalidParameter, Problem};
use crate::request_id::current_request;
use crate::shares::Share;
use crate::{envelope, outcome, value};

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
    /// Its place in the history of the instance.
    slot: u64,
    #[schema(value_type = String, format = "uuid")]
    transaction: String,
    /// The time of its events.
    #[schema(value_type = String)]
    at: JsonValue,
    /// The version of the contract under which they happened.
    version: u32,
    /// In order. What happened to an instance with a tombstone is not known.
    events: Vec<Called<'a>>,
    /// What the instance has ended as, if what happened to it before was discarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    tombstone: Option<Ended>,
}

/// An instance in a final state.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Tombstone)]
pub(crate) struct Ended {
    state: String,
    /// The fields that it has under that version.
    #[schema(value_type = Object)]
    fields: BTreeMap<String, JsonValue>,
}

impl Ended {
    /// Nothing if the tombstone cannot be read, which is logged.
    fn of(entity: &EntityKey, tombstone: &Tombstone) -> Option<Self> {
        let snapshot: Result<Snapshot<Instance, EventCall>, _> = tombstone.snapshot();
        let snapshot = snapshot.inspect_err(|cause| error!(%entity, %cause, "a tombstone cannot be read")).ok()?;
        let fields = snapshot.base.fields().iter().map(|(name, value)| (name.to_string(), value::to_json(value)));
        Some(Self { state: snapshot.base.state().to_string(), fields: fields.collect() })
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
    head: &Parts,
) -> Result<Response, Problem> {
    let is_stream = accepts_a_stream(&head.headers);
    let mut unfit = Vec::new();
    let deadline = envelope::deadline(&head.headers).map_err(|problem| unfit.push(problem)).unwrap_or_default();
    let asked = asked(api, head, is_stream, &mut unfit);
    if !unfit.is_empty() {
        return Err(Problem::invalid(unfit));
    }
    if is_stream {
        let share = api.follow(peer)?;
        let mut follower = Follower::new(api.entities.clone(), asked, share);
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
    let changes = wanted.map(|(change, cursors)| entry(change, cursors)).collect();
    Ok(Json(Page { changes, next: next.text() }).into_response())
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

fn entry<'a>(change: &'a Known, cursors: &Cursors) -> Entry<'a> {
    let EntityChange { entity, slot, tx, at, version, events, tombstone, .. } = change;
    Entry {
        cursor: cursors.text(),
        class: entity.class(),
        id: entity.id(),
        slot: slot.0,
        transaction: tx.to_string(),
        at: moment_to_json(*at),
        version: *version,
        events: events.iter().map(called).collect(),
        tombstone: tombstone.as_deref().and_then(|tombstone| Ended::of(entity, tombstone)),
    }
}

/// A client that follows the changes.
struct Follower<E> {
    entities: E,
    asked: Asked,
    news: Option<News>,
    looked_at: Instant,
    /// Whether the last reading has left something.
    has_more: bool,
    last_told: Instant,
    /// That of the request, which has been answered when something goes wrong.
    request_id: String,
    _share: Share,
}

impl<E: Entities<Model = Rebel>> Follower<E> {
    fn new(entities: E, asked: Asked, share: Share) -> Self {
        // Before the first look, so that nothing is missed behind it.
        let (news, now) = (entities.news(), Instant::now());
        let request_id = current_request().unwrap_or_default();
        Self { entities, asked, news, looked_at: now, has_more: false, last_told: now, request_id, _share: share }
    }

    /// What the client is told, `first` and what comes after it, until the server stops or cannot read.
    fn told(self, first: Vec<Event>, stopping: Stopping) -> impl Stream<Item = Result<Event, Infallible>> + Send {
        let batches = stream::unfold(self, async |mut follower| match follower.next().await {
            Ok(events) => Some((stream::iter(events), follower)),
            Err(error) => {
                tracing::warn!(%error, request_id = follower.request_id, "a client that follows the changes is cut off");
                None
            }
        });
        stream::iter(first).chain(batches.flatten()).map(Ok).take_until(Box::pin(stopping.wait()))
    }

    /// The next changes, as soon as there are any.
    async fn next(&mut self) -> Result<Vec<Event>, ReadError> {
        loop {
            if !self.has_more {
                self.pause().await;
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
        let events = wanted.map(|(change, cursors)| event(change, cursors)).collect();
        (self.asked.after, self.has_more) = (next, has_more);
        Ok(events)
    }
}

fn event(change: &Known, cursors: &Cursors) -> Event {
    let data = Event::default().id(cursors.text()).event("change").json_data(entry(change, cursors));
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
