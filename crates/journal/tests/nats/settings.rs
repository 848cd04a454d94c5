//! Servers and streams with which what is acknowledged could get lost are refused, by name.

use enact_journal::nats::{OpenError, Options};
use enact_journal_kit::contract::block_on;
use serde_json::json;

use crate::support::{Processes, Raw, Single};

fn refusal(options: Options) -> OpenError {
    block_on(Processes::default().open(options)).expect_err("it does not open")
}

#[test]
fn an_address_of_no_server_is_named_without_its_password() {
    let refusal = refusal(Options::at("nats://user:secret@host:port"));
    assert!(matches!(&refusal, OpenError::Address { address } if address == "host:port"), "{refusal}");
    assert!(!refusal.to_string().contains("secret"));
}

#[test]
fn a_server_that_takes_small_messages_only_is_refused() {
    let Some(single) = Single::start_with("", "max_payload: 65536") else { return };
    let refusal = refusal(single.options());
    assert!(matches!(refusal, OpenError::Payload { found: 65536, .. }), "{refusal}");
}

#[test]
fn more_replicas_than_there_are_servers_are_refused() {
    let Some(single) = Single::start() else { return };
    let refusal = refusal(Options { replicas: 3, ..single.options() });
    assert!(matches!(&refusal, OpenError::Stream { stream, .. } if stream == "J0"), "{refusal}");
}

#[test]
fn a_stream_with_an_unsafe_setting_is_refused_and_another_shard_opens() {
    let Some(single) = Single::start() else { return };
    let raw = Raw::at(&single.server.address());
    let sound = json!({
        "subjects": ["j.0.>"], "retention": "limits", "storage": "file", "discard": "new", "num_replicas": 1,
        "deny_delete": true, "deny_purge": true, "allow_direct": true, "allow_atomic": true,
    });
    for (shard, setting, value) in [
        (0, "storage", json!("memory")),
        (1, "deny_purge", json!(false)),
        (2, "allow_atomic", json!(false)),
        (3, "max_age", json!(60_000_000_000_u64)),
        (4, "max_bytes", json!(1 << 20)),
        (5, "allow_msg_ttl", json!(true)),
        (6, "allow_direct", json!(false)),
    ] {
        let mut config = sound.clone();
        let name = format!("J{shard}");
        (config["name"], config["subjects"]) = (json!(name), json!([format!("j.{shard}.>")]));
        config[setting] = value;
        let made = raw.ask(&format!("STREAM.CREATE.{name}"), &config);
        assert!(made["error"].is_null(), "{made}");
        let refusal = refusal(Options { shard, ..single.options() });
        assert!(matches!(&refusal, OpenError::Setting { setting: named, .. } if named == setting), "{refusal}");
    }
    block_on(Processes::default().open(Options { shard: 7, ..single.options() })).expect("it opens");
}
