//! Requests with any path, headers and body: each gets a JSON answer, and none that blames the server.
#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use enact_entities::{Engine, EngineOptions, Rebel};
use enact_journal::Memory;
use enact_rebel::{Source, check};
use enact_server::{Options, Router, router};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

const BANK: &str = include_str!("../../../../crates/server/tests/server/bank/bank.rebel");
const EVENTS: [&str; 8] = ["Open", "Withdraw", "Deposit", "Allow", "Describe", "Close", "Book", "Ping"];
const CLASSES: [&str; 4] = ["Account", "Transfer", "Deposit", "Ticket"];

#[derive(Arbitrary, Debug)]
struct Sent<'a> {
    is_read: bool,
    path: Path<'a>,
    headers: Vec<(Header, &'a [u8])>,
    body: Sending<'a>,
}

#[derive(Arbitrary, Debug)]
enum Sending<'a> {
    Any(&'a [u8]),
    /// Members that events have, with values that some of them take.
    Members(Vec<(u8, u8)>),
}

impl Sending<'_> {
    fn bytes(&self) -> Vec<u8> {
        const NAMES: [&str; 8] = ["initialDeposit", "amount", "to", "from", "hue", "count", "day", "text"];
        const VALUES: [&str; 8] = ["EUR 1.00", "EUR 0.00", "USD 5.00", "A", "B", "red", "2026-11-25", "7"];
        match self {
            Self::Any(bytes) => bytes.to_vec(),
            Self::Members(members) => {
                let text = |texts: [&'static str; 8], index: u8| texts[usize::from(index) % 8];
                let member =
                    |&(name, value): &(u8, u8)| (text(NAMES, name).to_owned(), Value::from(text(VALUES, value)));
                Value::from_iter(members.iter().map(member)).to_string().into_bytes()
            }
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Path<'a> {
    Any(&'a str),
    Command { class: u8, id: &'a str, event: u8 },
    Creation { class: u8, event: u8 },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Header {
    ContentType,
    Deadline,
    IdempotencyKey,
    Host,
    Origin,
    IfNoneMatch,
}

impl Header {
    fn name(self) -> &'static str {
        match self {
            Self::ContentType => "content-type",
            Self::Deadline => "enact-deadline-ms",
            Self::IdempotencyKey => "idempotency-key",
            Self::Host => "host",
            Self::Origin => "origin",
            Self::IfNoneMatch => "if-none-match",
        }
    }
}

impl Path<'_> {
    fn text(&self) -> String {
        let class = |class: &u8| CLASSES[usize::from(*class) % CLASSES.len()];
        let event = |event: &u8| EVENTS[usize::from(*event) % EVENTS.len()];
        match self {
            Self::Any(path) => format!("/{path}"),
            Self::Command { class: c, id, event: e } => format!("/{}/{id}/{}", class(c), event(e)),
            Self::Creation { class: c, event: e } => format!("/{}/{}", class(c), event(e)),
        }
    }
}

struct Server {
    runtime: Runtime,
    router: Router<Engine<Rebel, Memory>>,
}

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let spec = check(vec![Source::new("bank.rebel", BANK)]).unwrap_or_else(|error| panic!("{error}"));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = EngineOptions { live_bytes_max: 64 << 20, ..EngineOptions::default() };
    let engine = Engine::new(Rebel::new(spec.into()), Memory::new(), options);
    Server { runtime, router: router(engine, Options::loopback([127, 0, 0, 1].into())) }
});

fuzz_target!(|sent: Sent<'_>| {
    let path = sent.path.text();
    let request = if sent.is_read { Request::get(path) } else { Request::post(path) };
    let names_host = sent.headers.iter().any(|(header, _)| matches!(header, Header::Host));
    let request = if names_host { request } else { request.header("host", "localhost") };
    let names_type = sent.headers.iter().any(|(header, _)| matches!(header, Header::ContentType));
    let request = if names_type { request } else { request.header("content-type", "application/json") };
    let request = sent.headers.iter().fold(request, |request, (header, value)| request.header(header.name(), *value));
    let Ok(request) = request.body(Body::from(sent.body.bytes())) else { return };
    let router = SERVER.router.clone();
    let (status, body) = SERVER.runtime.block_on(async {
        let answer = router.oneshot(request).await.expect("the router does not fail");
        let status = answer.status();
        (status, to_bytes(answer.into_body(), 1 << 20).await.expect("a whole answer"))
    });
    assert!(!matches!(status.as_u16(), 500 | 502), "{status}: {}", String::from_utf8_lossy(&body));
    assert!(serde_json::from_slice::<Value>(&body).is_ok(), "{status}: {}", String::from_utf8_lossy(&body));
});
