//! What one node is asked and others do is one trace, and has one id.

use enact_cluster::shard_of;
use enact_journal::EntityKey;
use opentelemetry_proto::tonic::trace::v1::Span;
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{ACCOUNTS, Place, open_all, serves};
use crate::served::{Served, http};
use crate::traces::{Collector, PARENT, TRACE, attributes, hex};

/// An account of a shard that `node` serves.
async fn account_of(node: &Served) -> String {
    let (_, ready) = node.get("/health/ready").await;
    let shards = ready["shards"].as_array().expect("shards").clone();
    let is_there = |id: &String| shards.contains(&json!(shard_of(&EntityKey::new("Account", id).expect("a key"), 12)));
    let mut accounts = (0..ACCOUNTS).map(|account| format!("A{account}"));
    accounts.find(is_there).expect("a node has one of each twelve")
}

/// Stops a node: the spans that it has sent, which all have its name.
fn spans(node: Served, name: &str, collector: &Collector) -> Vec<Span> {
    node.signal(Signal::TERM);
    let (ended, log) = node.ended();
    assert!(ended.success(), "{log}");
    let (spans, of_service) = collector.spans();
    assert_eq!(of_service["service.instance.id"], json!(name));
    spans
}

/// The span of this name within `parent`, which is of the same request and the same trace.
fn within<'a>(spans: &'a [Span], name: &str, parent: &str, request: &str) -> &'a Span {
    let is_it = |span: &&Span| span.name == name && hex(&span.parent_span_id) == parent;
    let span = spans.iter().find(is_it).unwrap_or_else(|| panic!("no {name} within {parent}: {spans:#?}"));
    assert_eq!(hex(&span.trace_id), TRACE, "{name}");
    assert_eq!(attributes(&span.attributes)["enact.request_id"], json!(request), "{name}");
    span
}

/// The payer is at `b`, which coordinates, and the one who is paid at `a`, which is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_one_trace_and_has_one_id_on_all_nodes_that_work_for_it() {
    let Some(place) = Place::over_one() else { return };
    let collectors = [Collector::start(), Collector::start()];
    let node = |name: &str, collector: &Collector| {
        let mut command = place.command(name);
        command.args(["--traces", &collector.url]);
        Served::start(command)
    };
    let (a, b) = (node("a", &collectors[0]), node("b", &collectors[1]));
    open_all(&a).await;
    serves(&b, 6).await;
    serves(&a, 6).await;
    let (payer, paid) = (account_of(&b).await, account_of(&a).await);
    let asked = |request: reqwest::RequestBuilder, id: &'static str| {
        request.header("x-request-id", id).header("traceparent", format!("00-{TRACE}-{PARENT}-01"))
    };
    let pay = http().post(a.url(&format!("/Account/{payer}/Pay"))).json(&json!({ "amount": "EUR 1.00", "to": paid }));
    let answer = asked(pay, "pay").send().await.expect("serving");
    assert_eq!(answer.status(), StatusCode::OK);
    let transaction = answer.json::<Value>().await.expect("JSON")["transaction"].clone();
    let read = asked(http().get(b.url(&format!("/Account/{paid}"))), "read").send().await.expect("serving");
    assert_eq!(read.status(), StatusCode::OK);

    let [of_a, of_b] = [spans(a, "a", &collectors[0]), spans(b, "b", &collectors[1])];
    let root = within(&of_a, "Account.Pay", PARENT, "pay");
    let found = attributes(&root.attributes);
    assert_eq!((&found["http.response.status_code"], &found["enact.transaction"]), (&json!(200), &transaction));
    let forwarded = within(&of_b, "forwarded command", &hex(&root.span_id), "pay");
    let promise = within(&of_a, "promise", &hex(&forwarded.span_id), "pay");
    let found = attributes(&promise.attributes);
    assert_eq!((&found["enact.class"], &found["enact.transaction"]), (&json!("Account"), &transaction));
    let root = within(&of_b, "read", PARENT, "read");
    within(&of_a, "forwarded read", &hex(&root.span_id), "read");
}
