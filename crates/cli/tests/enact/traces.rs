//! Spans of requests, as a collector gets them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Of;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::served::{BANK, FREE_PORT, Served, http, serve};

/// A trace, and the span of it that a client asks within.
pub(crate) const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(crate) const PARENT: &str = "00f067aa0ba902b7";

/// What takes spans over HTTP, and keeps what it was sent.
pub(crate) struct Collector {
    pub(crate) url: String,
    taken: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind(FREE_PORT).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let taken = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&taken);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                while let Some(request) = answer(connection.as_ref().expect("a connection")) {
                    kept.lock().expect("nobody panics").push(request);
                }
            }
        });
        Self { url, taken }
    }

    /// All spans, and the attributes of who has sent them.
    pub(crate) fn spans(&self) -> (Vec<Span>, BTreeMap<String, Value>) {
        let (mut spans, mut of_service) = (Vec::new(), BTreeMap::new());
        for request in self.taken.lock().expect("nobody panics").drain(..) {
            for of_resource in request.resource_spans {
                of_service = attributes(&of_resource.resource.expect("it is named").attributes);
                spans.extend(of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans));
            }
        }
        (spans, of_service)
    }
}

/// Answers one request of an exporter; nothing at the end of the connection.
fn answer(mut connection: &TcpStream) -> Option<ExportTraceServiceRequest> {
    let mut reader = BufReader::new(connection);
    let (mut length, mut line) = (0, String::new());
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    assert_eq!(line, "POST /v1/traces HTTP/1.1\r\n");
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().expect("a length");
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    Some(ExportTraceServiceRequest::decode(&body[..]).expect("what OTLP says"))
}

pub(crate) fn attributes(of: &[KeyValue]) -> BTreeMap<String, Value> {
    let value = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Of::StringValue(text)) => json!(text),
        Some(Of::IntValue(number)) => json!(number),
        other => panic!("neither a text nor a number: {other:?}"),
    };
    let all: Vec<_> = of.iter().map(|of| (of.key.clone(), value(&of.value))).collect();
    let count = all.len();
    let by_name: BTreeMap<_, _> = all.into_iter().collect();
    assert_eq!(by_name.len(), count, "each is there once: {by_name:?}");
    by_name
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Bank {
    served: Served,
    _directory: TempDir,
}

impl Bank {
    fn traced_by(url: &str, more: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a place for the test");
        let spec = directory.path().join("bank.rebel");
        fs::write(&spec, BANK).expect("writable");
        let mut command = serve(&spec, &directory.path().join("data"), FREE_PORT);
        command.args(["--traces", url]).envs(more.iter().copied());
        Self { served: Served::start(command), _directory: directory }
    }

    async fn post(&self, path: &str, body: Value, id: &str, traceparent: &str) -> (StatusCode, Value) {
        let request = http().post(self.served.url(path)).json(&body).header("x-request-id", id);
        let answer = request.header("traceparent", traceparent).send().await.expect("serving");
        (answer.status(), answer.json().await.expect("JSON"))
    }

    /// What it has logged when it has stopped.
    fn end(self) -> String {
        self.served.signal(Signal::TERM);
        let (status, log) = self.served.ended();
        assert!(status.success(), "{log}");
        log
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_a_span_of_the_trace_that_its_client_names() {
    let collector = Collector::start();
    let bank = Bank::traced_by(&collector.url, &[("OTEL_SERVICE_NAME", "bank")]);
    let within = format!("00-{TRACE}-{PARENT}-01");
    let opened = bank.post("/Account/A/Open", json!({ "initialDeposit": "EUR 1.00" }), "open", &within).await;
    let pay = json!({ "amount": "EUR 9.00", "to": "B" });
    let refused = bank.post("/Account/A/Pay", pay, "pay", &within).await;
    let commands = json!({ "commands": [
        { "class": "Account", "id": "B", "event": "Open", "arguments": { "initialDeposit": "EUR 1.00" } },
        { "class": "Account", "id": "A", "event": "Open", "arguments": { "initialDeposit": "EUR 1.00" } },
    ] });
    let (_, batch) = bank.post("/-/batch", commands, "batch", "nothing of a trace").await;
    let deposit = |amount: &str| json!({ "amount": amount });
    bank.post("/Account/A/Deposit", deposit("EUR 1.00"), "unsampled", &format!("00-{TRACE}-{PARENT}-00")).await;
    bank.post("/Account/A/Deposit", deposit("much"), "unfit", &within).await;
    assert_eq!((opened.0, refused.0), (StatusCode::OK, StatusCode::CONFLICT));
    let read = http().get(bank.served.url("/Account/A?mode=certain")).send().await.expect("serving");
    assert_eq!(read.status(), StatusCode::OK);
    let log = bank.end();
    assert!(!log.contains("enact.request_id"), "spans are not for the log: {log}");

    let (spans, of_service) = collector.spans();
    assert_eq!(
        (&of_service["service.name"], &of_service["service.version"]),
        (&json!("bank"), &json!(env!("CARGO_PKG_VERSION")))
    );
    let with = |name: &str, value: &Value| {
        let mut found = spans.iter().filter(|span| attributes(&span.attributes).get(name) == Some(value));
        let span = found.next().unwrap_or_else(|| panic!("no span with {name} {value}: {spans:#?}"));
        assert!(found.next().is_none(), "two spans with {name} {value}");
        span
    };
    assert_eq!(spans.len(), 7, "one for each request that is sampled, and each command of the batch: {spans:#?}");
    let rows = [
        (
            "open",
            "Account.Open",
            200,
            true,
            json!({ "enact.class": "Account", "enact.event": "Open", "enact.endpoint": "command",
            "enact.transaction": opened.1["transaction"], "http.request.method": "POST", "url.path": "/Account/A/Open" }),
        ),
        (
            "pay",
            "Account.Pay",
            409,
            true,
            json!({ "enact.class": "Account", "enact.event": "Pay", "enact.problem": "refused",
            "enact.endpoint": "command" }),
        ),
        ("unfit", "Account.Deposit", 422, true, json!({ "enact.problem": "invalid-parameters" })),
        ("batch", "batch", 200, false, json!({ "enact.endpoint": "batch", "url.path": "/-/batch" })),
    ];
    for (id, name, status, is_within, expected) in rows {
        let span = with("enact.request_id", &json!(id));
        let found = attributes(&span.attributes);
        assert_eq!((&*span.name, &found["http.response.status_code"]), (name, &json!(status)), "{id}");
        assert_eq!((hex(&span.trace_id) == TRACE, hex(&span.parent_span_id) == PARENT), (is_within, is_within), "{id}");
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{id}");
        for (name, value) in expected.as_object().expect("an object") {
            assert_eq!(found.get(name), Some(value), "{id}: {found:?}");
        }
    }
    let read = with("enact.endpoint", &json!("read"));
    assert_eq!(attributes(&read.attributes)["url.path"], "/Account/A", "what a query says is not for others");
    let of_batch = &with("enact.request_id", &json!("batch")).span_id;
    let mut commands: Vec<_> = spans.iter().filter(|span| span.parent_span_id == *of_batch).collect();
    commands.sort_by_key(|span| attributes(&span.attributes)["http.response.status_code"].as_i64());
    let found: Vec<_> = commands.iter().map(|span| attributes(&span.attributes)).collect();
    assert!(commands.iter().all(|span| span.name == "Account.Open"), "{commands:#?}");
    assert_eq!(found[0]["enact.transaction"], batch["results"][0]["transaction"]);
    assert_eq!((&found[1]["http.response.status_code"], &found[1]["enact.problem"]), (&json!(409), &json!("refused")));
}

/// Nobody listens at the one address; at the other one, connections are taken and never answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_or_slow_is_said_once_and_no_request_waits_for_it() {
    let nobody = TcpListener::bind(FREE_PORT).and_then(|listener| listener.local_addr()).expect("a free port");
    let silent = TcpListener::bind(FREE_PORT).expect("a free port");
    let rows = [
        (nobody, "spans are not taken and are dropped"),
        (silent.local_addr().expect("bound"), "the last spans may not have reached the collector"),
    ];
    for (collector, said) in rows {
        // The queue is full at once, and is sent all the time.
        let small = [
            ("OTEL_BSP_SCHEDULE_DELAY", "1"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
        ];
        let bank = Bank::traced_by(&format!("http://{collector}"), &small);
        for number in 0..20 {
            let open = json!({ "initialDeposit": "EUR 1.00" });
            let (status, answer) = bank.post(&format!("/Account/A{number}/Open"), open, "open", "").await;
            assert_eq!(status, StatusCode::OK, "{answer}");
        }
        let log = bank.end();
        assert_eq!(log.matches(said).count(), 1, "{collector}: {log}");
        assert!(!log.contains("opentelemetry"), "{log}");
    }
}

#[test]
fn what_is_no_address_of_a_collector_ends_the_start() {
    for url in ["collector", "ftp://collector", "collector:4318", "http://"] {
        let ended = crate::served::enact(&["serve", "nowhere.rebel", "--traces", url]);
        let said = String::from_utf8(ended.stderr).expect("UTF-8");
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{url} is no address of a collector: give one such as http://")), "{said}");
    }
}
