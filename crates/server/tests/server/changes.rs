//! What has changed in all instances, over HTTP.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, Request, StatusCode};
use enact_entities::{
    ChangesOf, Command, Cursor, DiskState, Engine, EngineOptions, Entities, HistoryOf, HistoryPart, Metrics, Model,
    ReadError, ReadMode, Rebel, Receipt, Strategies, SubmitError, Timestamp, TxId, View,
};
use enact_journal::{EntityKey, Memory};
use enact_server::{Options, Router, router};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

use crate::bank::Bank;

const LAMPS: &str = r"
class Lamp
  times: Integer = 0
  initial new
    on Light(): lit
      post: this.times += 1
  lit
    on Dim(): dim
  dim
    on Light(): lit
      post: this.times += 1
class Room
  initial dark
    on Enter(lamp: Lamp): bright
      sync: lamp.Light()
  bright
";

/// Two lamps; the second was lit by entering a room.
async fn lit() -> Bank {
    let bank = Bank::of(LAMPS, Memory::new(), EngineOptions::default(), |options| options);
    for (path, body) in [("/Lamp/a/Light", "{}"), ("/Lamp/a/Dim", "{}"), ("/Room/r/Enter", r#"{"lamp":"b"}"#)] {
        assert_eq!(bank.post(path, body).await.status, 200);
    }
    bank
}

/// A stream of events, as a client reads it.
struct Stream {
    status: StatusCode,
    headers: HeaderMap,
    body: BodyDataStream,
    read: String,
}

impl Stream {
    async fn of(bank: &Bank, query: &str, last_seen: Option<&str>) -> Self {
        Self::over(bank.router(), query, last_seen).await
    }

    async fn over<E: Entities<Model = Rebel>>(router: Router<E>, query: &str, last_seen: Option<&str>) -> Self {
        let request = Request::get(format!("/-/changes{query}")).header("host", "localhost");
        let request = request.header("accept", "text/event-stream");
        let request = last_seen.into_iter().fold(request, |request, id| request.header("last-event-id", id));
        let response = router.oneshot(request.body(Body::empty()).expect("a request")).await.expect("an answer");
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, body: body.into_data_stream(), read: String::new() }
    }

    /// The id and the content of the next change; nothing at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = event.lines().filter_map(|line| line.split_once(": "));
                    lines.find(|(field, _)| *field == name).map(|(_, value)| value.to_owned())
                };
                let told = (field("id"), field("event"), field("data"));
                self.read = rest.to_owned();
                if let (Some(id), Some(kind), Some(data)) = told {
                    assert_eq!(kind, "change");
                    return Some((id, serde_json::from_str(&data).expect("JSON")));
                }
                continue;
            }
            let some = self.body.next().await?.expect("it does not fail");
            self.read += std::str::from_utf8(&some).expect("it is UTF-8");
        }
    }
}

/// One of several nodes, which announces no changes.
#[derive(Clone)]
struct Node(Engine<Rebel, Memory>);

type Call = <Rebel as Model>::Event;
type State = <Rebel as Model>::State;

impl Entities for Node {
    type Model = Rebel;

    fn model(&self) -> &Rebel {
        self.0.model()
    }

    fn strategies(&self) -> &Strategies {
        self.0.strategies()
    }

    fn submit(&self, command: Command<Call>) -> impl Future<Output = Result<Receipt, SubmitError>> + Send {
        self.0.submit(command)
    }

    fn read(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Duration,
    ) -> impl Future<Output = Result<View<State>, ReadError>> + Send {
        self.0.read(key, mode, after, deadline)
    }

    fn history(
        &self,
        key: &EntityKey,
        part: HistoryPart,
        deadline: Duration,
    ) -> impl Future<Output = Result<HistoryOf<Rebel>, ReadError>> + Send {
        self.0.history(key, part, deadline)
    }

    fn changes(
        &self,
        _shard: u16,
        after: Cursor,
        limit: usize,
        deadline: Duration,
    ) -> impl Future<Output = Result<ChangesOf<Rebel>, ReadError>> + Send {
        self.0.changes(after, limit, deadline)
    }

    fn time(&self) -> Timestamp {
        self.0.time()
    }

    fn metrics(&self) -> Metrics {
        self.0.metrics()
    }

    fn failure(&self) -> Option<String> {
        self.0.failure()
    }

    fn disk(&self) -> DiskState {
        self.0.disk()
    }
}

/// All changes, in pages of `limit`.
async fn pages(bank: &Bank, limit: usize) -> Vec<Value> {
    let (mut changes, mut after) = (Vec::new(), "0.0.0".to_owned());
    loop {
        let answer = bank.get(&format!("/-/changes?limit={limit}&after={after}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let some = answer.body["changes"].as_array().expect("a list");
        changes.extend(some.iter().cloned());
        after = answer.body["next"].as_str().expect("a text").to_owned();
        if some.is_empty() {
            return changes;
        }
    }
}

/// What is said of a change beside its transaction, its time and its cursor.
fn happened(change: &Value) -> Value {
    let mut change = change.clone();
    for name in ["transaction", "at", "cursor"] {
        change.as_object_mut().expect("an object").remove(name).expect("each has one");
    }
    change
}

#[tokio::test]
async fn changes_say_what_happened_to_which_instance_in_pages() {
    let bank = lit().await;
    let changes = pages(&bank, 1).await;
    let change = |class: &str, id: &str, slot: i64, event: &str, arguments: Value| {
        let events = [json!({ "event": event, "arguments": arguments })];
        json!({ "class": class, "id": id, "slot": slot, "version": 1, "events": events })
    };
    let light = |id: &str| change("Lamp", id, 1, "Light", json!({}));
    let (dim, enter) =
        (change("Lamp", "a", 2, "Dim", json!({})), change("Room", "r", 1, "Enter", json!({ "lamp": "b" })));
    assert_eq!(changes.iter().map(happened).collect::<Vec<_>>(), [light("a"), dim, light("b"), enter]);
    assert_eq!(changes[2]["transaction"], changes[3]["transaction"], "they are one transaction");
    assert_eq!(pages(&bank, 1_000).await, changes);
}

#[tokio::test]
async fn changes_of_some_classes_can_be_asked_for() {
    let bank = lit().await;
    for (query, expected) in [
        ("?class=Room", vec!["Room"]),
        ("?class=Room&class=Lamp", vec!["Lamp", "Lamp", "Lamp", "Room"]),
        ("?class=Lamp&limit=2", vec!["Lamp", "Lamp"]),
    ] {
        let page = bank.get(&format!("/-/changes{query}")).await.body;
        let classes: Vec<_> =
            page["changes"].as_array().expect("a list").iter().map(|change| &change["class"]).collect();
        assert_eq!(classes, expected, "{query}");
    }
}

#[tokio::test]
async fn a_stream_has_the_changes_of_the_pages_and_goes_on_where_a_client_was_cut_off() {
    let bank = lit().await;
    for round in 0..4 {
        let changes = pages(&bank, 1_000).await;
        for seen in 0..=changes.len() {
            let last_seen = seen.checked_sub(1).map(|last| changes[last]["cursor"].as_str().expect("a text"));
            let mut stream = Stream::of(&bank, "", last_seen).await;
            assert_eq!(stream.status, StatusCode::OK);
            assert_eq!(stream.headers["content-type"], "text/event-stream");
            for change in &changes[seen..] {
                let (id, told) = stream.next().await.expect("it goes on");
                assert_eq!((&json!(id), &told), (&change["cursor"], change));
            }
            if seen == changes.len() {
                let event = ["Dim", "Light"][round % 2];
                assert_eq!(bank.post(&format!("/Lamp/b/{event}"), "{}").await.status, 200);
                let (_, told) = stream.next().await.expect("it goes on");
                assert_eq!(told["events"][0]["event"], event, "it has what came later");
            }
        }
    }
}

#[tokio::test]
async fn a_stream_tells_of_some_classes_and_keeps_up_behind_the_others() {
    let bank = lit().await;
    let mut stream = Stream::of(&bank, "?class=Room", None).await;
    let (id, told) = stream.next().await.expect("it goes on");
    assert_eq!(told["class"], "Room");
    assert_eq!(pages(&bank, 1_000).await.last().expect("there are some")["cursor"], json!(id));
}

/// The time moves on only when everybody waits for it.
#[tokio::test(start_paused = true)]
async fn a_stream_is_woken_by_a_change_and_looks_now_and_then_for_those_of_others() {
    let bank = lit().await;
    let mut stream = Stream::of(&bank, "", None).await;
    for _ in 0..4 {
        stream.next().await.expect("it goes on");
    }
    let other = Bank::of(LAMPS, bank.journal.clone(), EngineOptions::default(), |options| options);
    for (number, is_woken) in [true, false, true, true, false].into_iter().enumerate() {
        assert!(stream.next().now_or_never().is_none(), "it waits");
        let (writer, changed) = (if is_woken { &bank } else { &other }, Instant::now());
        assert_eq!(writer.post(&format!("/Lamp/n{number}/Light"), "{}").await.status, 200);
        let (_, told) = stream.next().await.expect("it goes on");
        assert_eq!(told["id"], format!("n{number}"));
        assert_eq!(changed.elapsed() < Duration::from_millis(50), is_woken, "n{number}: {:?}", changed.elapsed());
    }
}

/// The time moves on only when everybody waits for it.
#[tokio::test(start_paused = true)]
async fn a_stream_of_one_of_several_nodes_looks_time_and_again() {
    let bank = lit().await;
    let node = router(Node(bank.engine.clone()), Options::loopback([127, 0, 0, 1].into()));
    let mut stream = Stream::over(node, "", None).await;
    for _ in 0..4 {
        stream.next().await.expect("it goes on");
    }
    for number in 0..3 {
        assert!(stream.next().now_or_never().is_none(), "it waits");
        let changed = Instant::now();
        assert_eq!(bank.post(&format!("/Lamp/n{number}/Light"), "{}").await.status, 200);
        let (_, told) = stream.next().await.expect("it goes on");
        assert_eq!(told["id"], format!("n{number}"));
        assert!(changed.elapsed() < Duration::from_millis(60), "n{number}: {:?}", changed.elapsed());
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_engine() {
    let bank = lit().await;
    let mut stream = Stream::of(&bank, "", None).await;
    for _ in 0..4 {
        stream.next().await.expect("it goes on");
    }
    bank.engine.shutdown(Duration::from_secs(60)).await.expect("the journal closes");
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn one_client_does_not_take_all_streams() {
    let bank = lit().await;
    let mut streams = Vec::new();
    loop {
        let stream = Stream::of(&bank, "", None).await;
        if stream.status != StatusCode::OK {
            assert_eq!((stream.status, &stream.headers["retry-after"]), (StatusCode::SERVICE_UNAVAILABLE, &1.into()));
            break;
        }
        streams.push(stream);
    }
    assert_eq!(streams.len(), 32);
    streams.pop();
    assert_eq!(Stream::of(&bank, "", None).await.status, StatusCode::OK, "there is room again");
    assert_eq!(bank.get("/-/changes").await.status, 200, "pages need none");
}

#[tokio::test]
async fn a_cursor_behind_the_end_of_the_journal_is_refused_as_a_page_and_as_a_stream() {
    let bank = lit().await;
    let end = pages(&bank, 1_000).await.pop().expect("there are some")["cursor"].clone();
    assert_eq!(bank.get(&format!("/-/changes?after={}", end.as_str().expect("a text"))).await.status, 200);
    let answer = bank.get("/-/changes?after=40.41.1").await;
    assert_eq!((answer.status.as_u16(), &answer.body["type"]), (422, &json!("urn:enact:problem:cursor-ahead")));
    assert!(answer.body["detail"].as_str().expect("a text").contains("before the cursor 40.41.1"), "{answer:?}");
    for (query, last_seen) in [("?after=40.41.1", None), ("", Some("40.41.1"))] {
        let stream = Stream::of(&bank, query, last_seen).await;
        assert_eq!(stream.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(stream.headers["content-type"], "application/problem+json");
    }
}

#[tokio::test]
async fn a_question_about_changes_that_makes_no_sense_is_told_which_part_does_not() {
    let bank = lit().await;
    for (query, parameter) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=1&limit=1", "limit"),
        ("after=1", "after"),
        ("after=2.1.0", "after"),
        ("after=0.0.0,0.0.0", "after"),
        ("after=0.2000000.0", "after"),
        ("class=Window", "class"),
        ("since=0.0.0", "since"),
    ] {
        let answer = bank.get(&format!("/-/changes?{query}")).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["parameters"][0]["name"]),
            (422, &json!(parameter)),
            "{query}"
        );
    }
    assert_eq!(Stream::of(&bank, "", Some("x")).await.status, StatusCode::UNPROCESSABLE_ENTITY);
    let posted = bank.post("/-/changes", "{}").await;
    assert_eq!((posted.status.as_u16(), &posted.headers["allow"]), (405, &"GET, HEAD".parse().expect("a value")));
    bank.journal.fail_reads(true);
    assert_eq!(bank.get("/-/changes").await.status, 503);
}
