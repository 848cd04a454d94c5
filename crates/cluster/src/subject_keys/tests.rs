//! Nodes over a real server: one key for a subject, no seal with a destroyed one, and no file that has it.

use std::path::Path;

use enact_journal_kit::nats::{Server, program};

use super::*;
use crate::connect::connect;

const SECRET: [u8; 32] = [7; 32];

struct Place {
    server: Server,
    /// Has the files of the server.
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Option<Self> {
        let program = program()?;
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&program, directory.path());
        Some(Self { server, directory })
    }

    async fn client(&self) -> Client {
        connect(&self.server.address().into(), "test").await.expect("connected")
    }

    async fn open(&self) -> SharedKeys {
        SharedKeys::open(&self.client().await, Secret::of(SECRET), 1).await.expect("opens")
    }

    /// Whether a file of the server has these bytes.
    fn has(&self, bytes: &[u8]) -> bool {
        fn has(directory: &Path, bytes: &[u8]) -> bool {
            let entries = std::fs::read_dir(directory).expect("readable").map(|entry| entry.expect("readable").path());
            entries.into_iter().any(|path| {
                if path.is_dir() {
                    return has(&path, bytes);
                }
                // The server replaces some while they are read.
                let content = std::fs::read(path).unwrap_or_default();
                content.windows(bytes.len()).any(|window| window == bytes)
            })
        }
        has(self.directory.path(), bytes)
    }
}

/// The bytes with which the present key of `subject` stands at the server.
async fn stored(keys: &SharedKeys, subject: &str) -> Vec<u8> {
    let last = keys.last_of(&keys.secret.digest(subject), Instant::now() + PATIENCE).await.expect("readable");
    fabric_bytes(&last.expect("it has a key").1)
}

fn fabric_bytes(entry: &Entry) -> Vec<u8> {
    crate::fabric::encode(entry)
}

/// Each kind of entry of the stream, by its name.
pub(crate) fn golden_entries() -> [(&'static str, Vec<u8>); 2] {
    let entries = [Entry::Live { generation: 2, key: vec![1, 2, 255] }, Entry::Destroyed { generation: 2 }];
    entries.map(|entry| match entry {
        Entry::Live { .. } => ("subject-key-live", fabric_bytes(&entry)),
        Entry::Destroyed { .. } => ("subject-key-destroyed", fabric_bytes(&entry)),
    })
}

/// Whether an entry of some version can be read.
pub(crate) fn read_golden(bytes: &[u8]) -> Result<(), String> {
    crate::fabric::decode::<Entry>(bytes).map(drop).map_err(|cause| cause.to_string())
}

#[tokio::test]
async fn nodes_that_seal_at_once_for_a_new_subject_use_one_key_and_open_what_the_other_one_has_sealed() {
    let Some(place) = Place::new() else { return };
    let (a, b) = (place.open().await, place.open().await);
    for subject in (0..20).map(|number| format!("Customer/c{number}")) {
        let (by_a, by_b) = tokio::join!(a.seal(&subject, b"Ada"), b.seal(&subject, b"Ada"));
        let (by_a, by_b) = (by_a.expect("sealed"), by_b.expect("sealed"));
        assert_eq!((by_a.generation, by_a.fingerprint), (1, by_b.fingerprint), "{subject}");
        for (node, sealed) in [(&a, &by_b), (&b, &by_a)] {
            assert_eq!(node.unseal(&subject, 1, &sealed.bytes).await.expect("known").as_deref(), Some(&b"Ada"[..]));
        }
    }
}

#[tokio::test]
async fn a_node_knows_at_once_a_key_that_another_one_has_made_and_none_that_nobody_has() {
    let Some(place) = Place::new() else { return };
    let (a, b) = (place.open().await, place.open().await);
    for subject in (0..50).map(|number| format!("Customer/c{number}")) {
        let sealed = a.seal(&subject, b"Ada").await.expect("sealed");
        assert_eq!(b.unseal(&subject, 1, &sealed.bytes).await.expect("known").as_deref(), Some(&b"Ada"[..]));
        assert!(matches!(
            b.unseal(&subject, 2, &sealed.bytes).await,
            Err(SubjectKeysError::Unknown { generation: 2, .. })
        ));
        let mut changed = sealed.bytes;
        changed[20] ^= 1;
        assert!(matches!(b.unseal(&subject, 1, &changed).await, Err(SubjectKeysError::Tampered { .. })));
    }
}

#[tokio::test]
async fn nothing_is_sealed_with_a_key_that_another_node_has_destroyed() {
    let Some(place) = Place::new() else { return };
    let (a, b) = (place.open().await, place.open().await);
    // It hears of nothing that it does not ask for.
    b.following.abort();
    for round in 1..=20 {
        let before = b.seal("Customer/c1", b"a street").await.expect("sealed");
        assert_eq!(before.generation, round);
        assert_eq!(a.generation("Customer/c1").await.expect("readable"), Some(round));
        assert!(a.destroy("Customer/c1", round).await.expect("destroyed"));
        assert!(!a.destroy("Customer/c1", round).await.expect("destroyed before"));
        let after = b.seal("Customer/c1", b"a square").await.expect("sealed");
        assert_eq!(after.generation, round + 1);
        assert!(!b.destroy("Customer/c1", round).await.expect("destroyed before"));
        for node in [&a, &b] {
            assert_eq!(node.unseal("Customer/c1", round, &before.bytes).await.expect("known"), None);
            let opened = node.unseal("Customer/c1", round + 1, &after.bytes).await.expect("known");
            assert_eq!(opened.as_deref(), Some(&b"a square"[..]));
        }
    }
    assert_eq!(a.generation("Customer/c2").await.expect("readable"), None);
    assert!(!a.destroy("Customer/c2", 1).await.expect("there was none"));
}

#[tokio::test]
async fn a_destroyed_key_is_in_no_file_of_the_server_and_the_others_are() {
    let Some(place) = Place::new() else { return };
    let keys = place.open().await;
    for subject in ["Customer/c1", "Customer/c2"] {
        keys.seal(subject, b"Ada").await.expect("sealed");
    }
    let (one, other) = (stored(&keys, "Customer/c1").await, stored(&keys, "Customer/c2").await);
    assert!(place.has(&one) && place.has(&other));
    assert!(keys.destroy("Customer/c1", 1).await.expect("destroyed"));
    assert!(!place.has(&one), "it is overwritten");
    assert!(place.has(&other));
}

#[tokio::test]
async fn what_a_node_has_left_half_destroyed_the_next_one_to_open_the_keys_destroys() {
    let Some(place) = Place::new() else { return };
    let keys = place.open().await;
    keys.seal("Customer/c1", b"Ada").await.expect("sealed");
    let stored = stored(&keys, "Customer/c1").await;
    assert!(keys.end("Customer/c1", 1).await.expect("its end is written"));
    assert!(place.has(&stored), "and it is not overwritten");
    // A node that has heard of its end, and takes the shard over.
    let other = place.open().await;
    assert!(!place.has(&stored));
    assert!(!other.destroy("Customer/c1", 1).await.expect("destroyed before"));
}

#[tokio::test]
async fn a_node_that_followed_the_keys_finishes_what_another_one_has_left() {
    let Some(place) = Place::new() else { return };
    let (a, b) = (place.open().await, place.open().await);
    a.seal("Customer/c1", b"Ada").await.expect("sealed");
    let stored = stored(&a, "Customer/c1").await;
    assert!(a.end("Customer/c1", 1).await.expect("its end is written"));
    drop(a);
    b.catch_up().await.expect("the server answers");
    assert!(place.has(&stored));
    assert!(!b.destroy("Customer/c1", 1).await.expect("destroyed before"));
    assert!(!place.has(&stored));
}

#[tokio::test]
async fn a_node_with_another_secret_and_a_stream_that_loses_keys_are_refused() {
    let Some(place) = Place::new() else { return };
    let client = place.client().await;
    place.open().await.seal("Customer/c1", b"Ada").await.expect("sealed");
    let other = SharedKeys::open(&client, Secret::of([8; 32]), 1).await;
    assert!(matches!(other, Err(JoinError::OtherSecret)));
    let more = SharedKeys::open(&client, Secret::of(SECRET), 3).await;
    assert!(matches!(more, Err(JoinError::KeySetting { setting }) if setting == "num_replicas"));
    let context = async_nats::jetstream::new(client.clone());
    let stream = context.get_stream("enact-subject-keys").await.expect("there is one");
    let mut config = stream.cached_info().config.clone();
    config.max_age = std::time::Duration::from_secs(3_600);
    context.update_stream(&config).await.expect("changed");
    let losing = SharedKeys::open(&client, Secret::of(SECRET), 1).await;
    assert!(matches!(losing, Err(JoinError::KeySetting { setting }) if setting == "max_age"));
}

#[tokio::test]
async fn without_servers_nothing_is_sealed_and_what_is_known_is_opened() {
    let Some(mut place) = Place::new() else { return };
    let keys = place.open().await;
    let sealed = keys.seal("Customer/c1", b"Ada").await.expect("sealed");
    keys.catch_up().await.expect("the server answers");
    place.server.kill();
    assert_eq!(keys.unseal("Customer/c1", 1, &sealed.bytes).await.expect("known").as_deref(), Some(&b"Ada"[..]));
    let (seals, destroys) = tokio::join!(keys.seal("Customer/c1", b"Ada"), keys.destroy("Customer/c1", 1));
    assert!(matches!(seals, Err(SubjectKeysError::Unavailable { .. })), "{seals:?}");
    assert!(matches!(destroys, Err(SubjectKeysError::Unavailable { .. })), "{destroys:?}");
    place.server.restart();
    assert!(keys.destroy("Customer/c1", 1).await.expect("destroyed"));
    assert_eq!(keys.seal("Customer/c1", b"Ada").await.expect("sealed").generation, 2);
}
