//! What is done to the streams of a node that serves them.

use std::time::Duration;

use async_nats::Client;
use enact_cluster::Options;
use enact_entities::{DiskState, EngineOptions, Entities};
use serde_json::{Value, json};

use crate::bank::{Bank, Node, balance, settled};

/// Changes a setting of a stream, as `nats stream edit` does.
async fn edit(client: &Client, stream: &str, setting: &str, value: Value) {
    let asked = client.request(format!("$JS.API.STREAM.INFO.{stream}"), "".into()).await.expect("an answer");
    let mut config = serde_json::from_slice::<Value>(&asked.payload).expect("JSON")["config"].take();
    config[setting] = value;
    let asked = client.request(format!("$JS.API.STREAM.UPDATE.{stream}"), config.to_string().into()).await;
    let answer: Value = serde_json::from_slice(&asked.expect("an answer").payload).expect("JSON");
    assert_eq!(answer["error"], Value::Null, "{answer}");
}

pub(crate) async fn is_safe(node: &Node) {
    while node.disk() != DiskState::Ready {
        tokio::task::yield_now().await;
    }
}

/// Waits until the node says of a journal that it is not safe, and why.
pub(crate) async fn is_unsafe(node: &Node, stream: &str) {
    loop {
        if let DiskState::Unsafe { why } = node.disk() {
            return assert!(why.contains(stream), "{why}");
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_not_ready_while_a_stream_is_kept_otherwise_than_it_must_be_and_goes_on_to_serve() {
    let Some(bank) = Bank::over_three() else { return };
    let engine = EngineOptions { check_every: Duration::from_millis(50), ..EngineOptions::default() };
    let options = Options { engine, ..bank.options("a") };
    let node = bank.try_join(options).await.expect("it joins");
    settled(std::slice::from_ref(&node)).await;
    bank.open_all(&node).await;
    let client = async_nats::connect(bank.servers[0].address()).await.expect("connected");
    for (stream, setting, wrong, right) in
        [("J3", "num_replicas", json!(1), json!(3)), ("S3", "discard", json!("new"), json!("old"))]
    {
        is_safe(&node).await;
        edit(&client, stream, setting, wrong).await;
        is_unsafe(&node, stream).await;
        assert_eq!(balance(&node, 3).await, 100);
        edit(&client, stream, setting, right).await;
    }
    is_safe(&node).await;
}
