//! What a server and its streams must be, so that nothing that is acknowledged gets lost; everything else is refused.

use std::time::Duration;

use async_nats::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::wire::Names;
use super::{BuildError, OpenError, Options};
use crate::journal::Limits;

/// Batches that are stored whole or not at all, as they are relied on here, are in servers from this version on.
const VERSION_MIN: (u64, u64, u64) = (2, 15, 2);
const PAYLOAD_MIN: usize = 1 << 20;
/// What headers and the protocol may take of a message.
const HEADERS_MAX: usize = 4 << 10;
/// The most that a server stores as one batch.
const BATCH_RECORDS: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;
/// The name is in use by a stream with another configuration.
const STREAM_EXISTS: u64 = 10058;
/// There is no stream with the name.
const NO_STREAM: u64 = 10059;
/// The servers have not agreed on a leader yet.
const NO_LEADER: u64 = 10008;
/// What a stream says of itself as long as a restore fills it, with the token of that.
const UNFINISHED: &str = "enact-restore";
const ANSWER_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// Checks the server that `client` is connected to; what it takes.
pub(super) fn check_server(client: &Client) -> Result<Limits, OpenError> {
    let server = client.server_info();
    if version(&server.version).is_none_or(|version| version < VERSION_MIN) {
        return Err(OpenError::Version { found: server.version });
    }
    if !server.headers {
        return Err(OpenError::NoHeaders);
    }
    if server.max_payload < PAYLOAD_MIN {
        return Err(OpenError::Payload { found: server.max_payload, required: PAYLOAD_MIN });
    }
    let record_bytes = (server.max_payload - HEADERS_MAX).min(BATCH_BYTES);
    Ok(Limits { batch_bytes: BATCH_BYTES, batch_records: BATCH_RECORDS, record_bytes })
}

fn version(text: &str) -> Option<(u64, u64, u64)> {
    // What stands behind a hyphen is a version before that.
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(version)
}

/// Both streams with the configurations that they must have, that of the records first.
fn required(names: &Names, replicas: usize) -> [(String, Value); 2] {
    let journal = json!({
        "name": names.stream(), "subjects": [names.all()], "num_replicas": replicas,
        "retention": "limits", "storage": "file", "discard": "new",
        "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_msg_size": -1, "max_msgs_per_subject": -1,
        "deny_delete": true, "deny_purge": true, "allow_direct": true, "allow_atomic": true,
    });
    let snapshots = json!({
        "name": names.snapshots(), "subjects": [names.all_snapshots()], "num_replicas": replicas,
        "retention": "limits", "storage": "file", "discard": "old",
        "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_msg_size": -1, "max_msgs_per_subject": 1,
        "allow_direct": true,
    });
    [(names.stream(), journal), (names.snapshots(), snapshots)]
}

/// Sees to it that both streams are there and as they must be.
pub(super) async fn check_streams(
    client: &Client,
    names: &Names,
    options: &Options,
    deadline: Instant,
) -> Result<(), OpenError> {
    for (stream, config) in required(names, options.replicas) {
        let info = create(client, &stream, &config, deadline).await?;
        check_stream(&stream, &config, &info, names)?;
    }
    Ok(())
}

/// Makes the stream of records for a restore, with the mark `token` and as one that no writer opens.
pub(super) async fn begin_restore(
    client: &Client,
    names: &Names,
    replicas: usize,
    token: &str,
    deadline: Instant,
) -> Result<(), BuildError> {
    let [(stream, mut config), (snapshots, _)] = required(names, replicas);
    // Snapshots of other records would be taken for those of these.
    match info(client, &snapshots, deadline).await {
        Err(OpenError::Missing { .. }) => {}
        Ok(info) if info["state"]["last_seq"] == 0 => {}
        Ok(_) => return Err(BuildError::Exists { stream: snapshots }),
        Err(cause) => return Err(cause.into()),
    }
    config["metadata"] = json!({ UNFINISHED: token });
    // A program that does not know the mark refuses these.
    (config["deny_delete"], config["deny_purge"]) = (json!(false), json!(false));
    let info = create(client, &stream, &config, deadline).await?;
    match mark(&info) {
        Some(found) if found == token => Ok(()),
        Some(_) => Err(OpenError::Unfinished { stream }.into()),
        None => Err(BuildError::Exists { stream }),
    }
}

/// Makes the stream with the mark `token` one that is opened, if it ends at the message `last`.
pub(super) async fn finish_restore(
    client: &Client,
    names: &Names,
    replicas: usize,
    (token, last): (&str, u64),
    deadline: Instant,
) -> Result<(), BuildError> {
    let [(stream, config), (snapshots, of_snapshots)] = required(names, replicas);
    let found = create(client, &snapshots, &of_snapshots, deadline).await?;
    check_stream(&snapshots, &of_snapshots, &found, names)?;
    let found = info(client, &stream, deadline).await?;
    check_messages(&stream, &found["state"])?;
    if mark(&found) != Some(token) || found["state"]["last_seq"] != last {
        return Err(BuildError::Changed { stream });
    }
    let in_doubt = |cause: OpenError| BuildError::InDoubt { why: cause.to_string() };
    let found = ask(client, &stream, ("UPDATE", config.to_string()), deadline).await.map_err(in_doubt)?;
    Ok(check_stream(&stream, &config, &found, names)?)
}

/// Removes the stream, if it has the mark `token`.
pub(super) async fn remove_restore(client: &Client, names: &Names, token: &str, deadline: Instant) {
    let stream = names.stream();
    let is_ours = info(client, &stream, deadline).await.is_ok_and(|info| mark(&info) == Some(token));
    if is_ours && let Err(cause) = ask(client, &stream, ("DELETE", String::new()), deadline).await {
        tracing::warn!(stream, %cause, "what was restored so far could not be removed");
    }
}

/// The token of the restore that fills the stream, if one does.
fn mark(info: &Value) -> Option<&str> {
    info["config"]["metadata"][UNFINISHED].as_str()
}

/// The same of streams that are in use, which are not made again.
pub(super) async fn check_again(
    client: &Client,
    names: &Names,
    replicas: usize,
    deadline: Instant,
) -> Result<(), OpenError> {
    check_server(client)?;
    for (stream, config) in required(names, replicas) {
        let info = info(client, &stream, deadline).await?;
        check_stream(&stream, &config, &info, names)?;
    }
    Ok(())
}

/// What the server says of a stream has to be what is required. Only of snapshots may messages be gone.
fn check_stream(stream: &str, required: &Value, info: &Value, names: &Names) -> Result<(), OpenError> {
    check_finished(stream, info)?;
    check_config(stream, required, &info["config"])?;
    if stream == names.stream() { check_messages(stream, &info["state"]) } else { Ok(()) }
}

/// No restore may be under way, or have been cut off.
fn check_finished(stream: &str, info: &Value) -> Result<(), OpenError> {
    mark(info).map_or(Ok(()), |_| Err(OpenError::Unfinished { stream: stream.to_owned() }))
}

/// The last message of the stream of records, which is there.
pub(super) async fn last_message(client: &Client, names: &Names, deadline: Instant) -> Result<u64, OpenError> {
    let stream = names.stream();
    let info = info(client, &stream, deadline).await?;
    check_finished(&stream, &info)?;
    check_messages(&stream, &info["state"])?;
    Ok(info["state"]["last_seq"].as_u64().unwrap_or(0))
}

/// What the server says of the stream, which is there.
async fn info(client: &Client, stream: &str, deadline: Instant) -> Result<Value, OpenError> {
    ask(client, stream, ("INFO", String::new()), deadline).await.map_err(|error| match error {
        OpenError::Stream { code: NO_STREAM, .. } => OpenError::Missing { stream: stream.to_owned() },
        error => error,
    })
}

/// What the server says of the stream, which it makes if there is none.
async fn create(client: &Client, stream: &str, config: &Value, deadline: Instant) -> Result<Value, OpenError> {
    ask(client, stream, ("CREATE", config.to_string()), deadline).await
}

/// The answer to a question about the stream.
async fn ask(
    client: &Client,
    stream: &str,
    mut question: (&str, String),
    deadline: Instant,
) -> Result<Value, OpenError> {
    loop {
        let subject = format!("$JS.API.STREAM.{}.{stream}", question.0);
        let asked = client.request(subject, question.1.clone().into());
        let why = match timeout(ANSWER_MAX, asked).await {
            Ok(Ok(answer)) => {
                let info: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
                match (info["error"]["err_code"].as_u64(), &info["error"]["description"]) {
                    (None, _) if info["config"].is_object() || info["success"] == true => return Ok(info),
                    (None, _) => "the server's answer cannot be read".to_owned(),
                    (Some(STREAM_EXISTS), _) => {
                        question = ("INFO", String::new());
                        continue;
                    }
                    (Some(NO_LEADER), why) => why.to_string(),
                    (Some(code), why) => {
                        let why = why.as_str().unwrap_or("without a reason").to_owned();
                        return Err(OpenError::Stream { stream: stream.to_owned(), why, code });
                    }
                }
            }
            Ok(Err(cause)) if cause.kind() == async_nats::RequestErrorKind::NoResponders => {
                "no server has JetStream for this account: start one with `jetstream {}` in its configuration"
                    .to_owned()
            }
            Ok(Err(cause)) => cause.to_string(),
            Err(cause) => cause.to_string(),
        };
        if Instant::now() > deadline {
            return Err(OpenError::unreachable(why));
        }
        sleep(PAUSE).await;
    }
}

/// What must not be in a configuration: it would remove messages, change them or bring others in.
const MUST_BE_ABSENT: [&str; 9] = [
    "allow_msg_ttl",
    "allow_rollup_hdrs",
    "discard_new_per_subject",
    "mirror",
    "no_ack",
    "sealed",
    "sources",
    "subject_delete_marker_ttl",
    "subject_transform",
];

fn check_config(stream: &str, required: &Value, found: &Value) -> Result<(), OpenError> {
    let refused = |setting: &str, required: String| OpenError::Setting {
        stream: stream.to_owned(),
        setting: setting.to_owned(),
        found: found[setting].to_string(),
        required,
    };
    for (setting, value) in required.as_object().into_iter().flatten() {
        let is_as_required = match setting.as_str() {
            "num_replicas" => found[setting].as_u64() >= value.as_u64(),
            _ => found[setting] == *value,
        };
        if !is_as_required {
            return Err(refused(setting, value.to_string()));
        }
    }
    if let Some(setting) = MUST_BE_ABSENT.into_iter().find(|setting| !is_absent(&found[*setting])) {
        return Err(refused(setting, "absent".to_owned()));
    }
    // It answers before it has written.
    if found["persist_mode"] == "async" {
        return Err(refused("persist_mode", "\"default\"".to_owned()));
    }
    Ok(())
}

fn is_absent(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false)) || *value == 0 || value.as_array().is_some_and(Vec::is_empty)
}

/// No message may be missing.
fn check_messages(stream: &str, state: &Value) -> Result<(), OpenError> {
    let number = |name: &str| state[name].as_u64().unwrap_or(0);
    let (messages, last) = (number("messages"), number("last_seq"));
    if messages == last && number("num_deleted") == 0 {
        return Ok(());
    }
    Err(OpenError::Holes { stream: stream.to_owned(), messages, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers_and_what_comes_before_one_is_none() {
        assert_eq!(version("2.15.2"), Some((2, 15, 2)));
        assert!(version("2.9.30") < Some(VERSION_MIN) && version("3.0.0") > Some(VERSION_MIN));
        for unknown in ["2.15.2-RC.1", "2.15", "", "2.15.2.1", "v2"] {
            assert_eq!(version(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_setting_that_is_unsafe_is_named() {
        let required = json!({ "storage": "file", "num_replicas": 3, "deny_purge": true });
        let sound = json!({ "storage": "file", "num_replicas": 3, "deny_purge": true, "sealed": false, "sources": [] });
        let named = |setting: &str, value: Value| {
            let mut found = sound.clone();
            found[setting] = value;
            match check_config("J0", &required, &found) {
                Ok(()) => None,
                Err(OpenError::Setting { setting, .. }) => Some(setting),
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(named("num_replicas", json!(5)), None);
        for (setting, value) in [
            ("storage", json!("memory")),
            ("num_replicas", json!(1)),
            ("deny_purge", Value::Null),
            ("persist_mode", json!("async")),
            ("mirror", json!({ "name": "J1" })),
            ("sources", json!([{ "name": "J1" }])),
            ("allow_rollup_hdrs", json!(true)),
            ("subject_delete_marker_ttl", json!(1)),
        ] {
            assert_eq!(named(setting, value).as_deref(), Some(setting));
        }
    }

    #[test]
    fn a_stream_without_one_of_its_messages_is_refused() {
        let state = |messages: u64, last: u64, deleted: u64| json!({ "messages": messages, "last_seq": last, "num_deleted": deleted });
        assert!(check_messages("J0", &state(0, 0, 0)).is_ok());
        assert!(check_messages("J0", &state(7, 7, 0)).is_ok());
        assert!(check_messages("J0", &state(6, 7, 0)).is_err());
        assert!(check_messages("J0", &state(7, 7, 1)).is_err());
    }
}
