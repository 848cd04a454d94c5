//! The files with which operators deploy nodes: what they start does start, and serves.

use std::path::{Path, PathBuf};
use std::process::Command;

use enact_journal_kit::nats::{Server, program};
use reqwest::StatusCode;
use serde_json::json;

use super::{Place, serves};
use crate::served::{FREE_PORT, Served};

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The program with these words, where names and paths of the files stand for those of this test.
fn started(place: &Place, words: &[String], variables: &[(&str, &str)]) -> Served {
    let addresses: Vec<String> = place.nats.iter().map(Server::address).collect();
    let here = |word: &str| match word {
        "/etc/enact/bank.rebel" => place.spec.display().to_string(),
        "nats://h1:4222,nats://h2:4222,nats://h3:4222" | "tls://h1:4222,tls://h2:4222,tls://h3:4222" => {
            addresses.join(",")
        }
        "127.0.0.1:8080" | "0.0.0.0:8080" => FREE_PORT.to_owned(),
        word => word.to_owned(),
    };
    let mut command = crate::served::program();
    command.args(words.iter().map(|word| here(word))).envs(variables.iter().map(|(name, value)| (name, here(value))));
    Served::start(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_the_compose_file_serve_together() {
    let Some(place) = Place::over_three() else { return };
    let compose = file("compose.yaml");
    let commands = compose.lines().filter_map(|line| line.trim().strip_prefix("command: "));
    let commands = commands.map(|words| serde_json::from_str::<Vec<String>>(words).expect("a list of words"));
    let nodes: Vec<Vec<String>> = commands.filter(|words| words[0] == "serve").collect();
    assert_eq!(nodes.len(), 3);
    let nodes: Vec<Served> = nodes.iter().map(|words| started(&place, words, &[])).collect();
    for node in &nodes {
        serves(node, 4).await;
    }
    let (status, body) = nodes[0].post("/Account/A1/Open", json!({ "initialDeposit": "EUR 5.00" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    for node in &nodes {
        assert_eq!(node.get("/Account/A1").await.0, StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_unit_of_a_node_starts_one() {
    let Some(place) = Place::over_three() else { return };
    let unit = file("enact.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/enact ")).expect("a command");
    let variables = unit.lines().filter_map(|line| line.strip_prefix("# ")?.split_once('='));
    let variables: Vec<_> = variables.filter(|(name, _)| ["ENACT_CLUSTER", "ENACT_NODE"].contains(name)).collect();
    assert_eq!(variables.len(), 2, "{variables:?}");
    let words: Vec<String> = start.split(' ').map(str::to_owned).collect();
    serves(&started(&place, &words, &variables), 12).await;
}

#[test]
fn the_configuration_of_a_server_is_one_and_syncs_each_write() {
    let Some(program) = program() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("store");
    let text = file("nats.conf").replace("/var/lib/nats", store.to_str().expect("UTF-8"));
    assert!(text.contains("sync_interval: always"));
    let config: PathBuf = directory.path().join("nats.conf");
    std::fs::write(&config, text).expect("writable");
    let checked = Command::new(program).env("SERVER_NAME", "h1").arg("-t").arg("--config").arg(&config).output();
    let checked = checked.expect("it ends");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
