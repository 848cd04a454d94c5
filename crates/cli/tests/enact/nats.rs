//! The program over NATS: entities survive it, another one takes them over, and a plain build says what it lacks.

#[cfg(not(feature = "nats"))]
#[test]
fn a_plain_build_says_how_to_get_the_journal_over_nats() {
    let refused = crate::served::enact(&["serve", "nowhere.rebel", "--journal", "nats://127.0.0.1:4222"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).expect("UTF-8");
    assert!(said.contains("cargo build --release -p enact-cli --features nats"), "{said}");
}

#[cfg(feature = "nats")]
mod served_over_nats {
    use enact_journal_kit::nats::{Server, program};
    use serde_json::Value;
    use tempfile::TempDir;

    use crate::remote::{self, Refusals, Remote};

    /// A server of NATS, and the program over it.
    struct Place {
        nats: Server,
        remote: Remote,
        _directory: TempDir,
    }

    impl Place {
        fn new() -> Option<Self> {
            let (program, directory) = (program()?, tempfile::tempdir().expect("a directory"));
            let nats = Server::start(&program, directory.path());
            Some(Self { remote: Remote::at(nats.address()), nats, _directory: directory })
        }
    }

    #[tokio::test]
    async fn what_was_acknowledged_is_there_after_kills_of_the_program_and_of_the_server_and_after_a_stop() {
        let Some(Place { mut nats, remote, _directory }) = Place::new() else { return };
        remote::what_was_acknowledged_is_there(&remote, || nats.restart()).await;
    }

    #[tokio::test]
    async fn a_second_program_takes_over_and_the_first_one_ends_without_an_effect() {
        let Some(place) = Place::new() else { return };
        remote::a_second_one_takes_over(&place.remote).await;
    }

    #[tokio::test]
    async fn one_that_was_replaced_shows_and_refuses_nothing_if_reads_are_behind_barriers() {
        let Some(place) = Place::new() else { return };
        remote::one_that_was_replaced_is_silent_behind_barriers(&place.remote).await;
    }

    #[tokio::test]
    async fn the_streams_keep_the_specification_that_their_entities_were_written_under() {
        let Some(place) = Place::new() else { return };
        remote::the_specification_is_kept(&place.remote, "there is no stream J0", "(shard 0)").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_erased_stays_erased() {
        let Some(place) = Place::new() else { return };
        remote::what_was_erased_stays_erased(&place.remote).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_backup_beside_the_server_is_restored_to_a_directory() {
        let Some(place) = Place::new() else { return };
        remote::a_backup_is_restored_to_a_directory(&place.remote).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_backup_is_restored_to_streams_whole_or_not_at_all() {
        let Some(place) = Place::new() else { return };
        let refusals = Refusals {
            unread: "stream J1 is being restored from a backup",
            busy: "remove it with `nats stream rm J1`",
            full: "there is a stream J2 already",
            leaves_a_rest: true,
        };
        let client = async_nats::connect(place.nats.address()).await.expect("a connection");
        let is_begun = async || {
            let answer = client.request("$JS.API.STREAM.INFO.J1", "".into()).await.expect("an answer");
            String::from_utf8_lossy(&answer.payload).contains("enact-restore")
        };
        let shard = remote::a_backup_is_restored_to_servers(&place.remote, &refusals, is_begun).await;

        let answer = client.request(format!("$JS.API.STREAM.INFO.J{shard}"), "".into()).await.expect("an answer");
        let mut config = serde_json::from_slice::<Value>(&answer.payload).expect("JSON")["config"].clone();
        config["max_age"] = (3_600_000_000_000_u64).into();
        let changed = client.request(format!("$JS.API.STREAM.UPDATE.J{shard}"), config.to_string().into()).await;
        assert!(!String::from_utf8_lossy(&changed.expect("an answer").payload).contains("error"));
        let verify = ["journal", "verify", "--journal", place.remote.address(), "--shard", &shard.to_string()];
        let said = remote::refused_by(&verify, 4);
        assert!(said.starts_with("stream J2 has max_age = 3600000000000, it must be 0"), "{said}");
        assert!(said.contains("(shard 2) is damaged"), "{said}");
    }

    #[test]
    fn more_replicas_than_there_are_servers_end_the_start_with_the_reason() {
        let Some(place) = Place::new() else { return };
        let mut command = place.remote.serve_bank();
        command.args(["--replicas", "3"]);
        let said = remote::refused(command, 4);
        assert!(said.contains("stream J0 cannot be made: replicas"), "{said}");
    }
}
