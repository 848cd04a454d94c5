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
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use enact_journal_kit::nats::{Server, program};
    use reqwest::StatusCode;
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use crate::served::{BANK, FREE_PORT, Served};

    /// A server of NATS, and a place for specifications.
    struct Place {
        nats: Server,
        directory: TempDir,
    }

    impl Place {
        fn new() -> Option<Self> {
            let (program, directory) = (program()?, tempfile::tempdir().expect("a directory"));
            Some(Self { nats: Server::start(&program, directory.path()), directory })
        }

        fn spec(&self, name: &str, text: &str) -> PathBuf {
            let spec = self.directory.path().join(name);
            std::fs::write(&spec, text).expect("writable");
            spec
        }

        /// `enact serve SPEC --journal ADDRESS`
        fn serve(&self, spec: &Path) -> Command {
            let mut command = crate::served::program();
            command.arg("serve").arg(spec).args(["--journal", &self.nats.address(), "--listen", FREE_PORT]);
            command
        }
    }

    impl Place {
        /// What `enact contract .. --journal ADDRESS` says, with its status.
        fn contract(&self, what: &str, spec: Option<&Path>) -> (Option<i32>, String) {
            let mut command = crate::served::program();
            command.args(["contract", what]).args(spec).args(["--journal", &self.nats.address()]);
            let output = command.output().expect("it ends");
            let said = [output.stdout, output.stderr].concat();
            (output.status.code(), String::from_utf8(said).expect("UTF-8"))
        }
    }

    async fn deposit(served: &Served, key: &str) -> (StatusCode, bool) {
        let answer = reqwest::Client::new()
            .post(served.url("/Account/A1/Deposit"))
            .header("idempotency-key", key)
            .json(&json!({ "amount": "EUR 7.00" }))
            .send()
            .await
            .expect("an answer");
        (answer.status(), answer.headers().contains_key("idempotency-replayed"))
    }

    async fn balance(served: &Served) -> Value {
        let (status, account) = served.get("/Account/A1").await;
        assert_eq!(status, StatusCode::OK, "{account}");
        account["fields"]["balance"].clone()
    }

    #[tokio::test]
    async fn what_was_acknowledged_is_there_after_kills_of_the_program_and_of_the_server() {
        let Some(mut place) = Place::new() else { return };
        let spec = place.spec("bank.rebel", BANK);
        let served = Served::start(place.serve(&spec));
        let (opened, body) = served.post("/Account/A1/Open", json!({ "initialDeposit": "EUR 50.00" })).await;
        assert_eq!(opened, StatusCode::OK, "{body}");
        assert_eq!(deposit(&served, "first").await, (StatusCode::OK, false));
        served.kill();

        let served = Served::start(place.serve(&spec));
        assert_eq!(balance(&served).await, json!("EUR 57.00"));
        assert_eq!(deposit(&served, "first").await, (StatusCode::OK, true), "it happened once");
        place.nats.restart();
        assert_eq!(deposit(&served, "second").await, (StatusCode::OK, false), "it waits for the server");
        served.kill();
        place.nats.restart();
        let served = Served::start(place.serve(&spec));
        assert_eq!(balance(&served).await, json!("EUR 64.00"));
    }

    #[tokio::test]
    async fn a_second_program_takes_over_and_the_first_one_ends_without_an_effect() {
        let Some(place) = Place::new() else { return };
        let spec = place.spec("bank.rebel", BANK);
        let first = Served::start(place.serve(&spec));
        first.post("/Account/A1/Open", json!({ "initialDeposit": "EUR 50.00" })).await;
        let second = Served::start(place.serve(&spec));
        assert_eq!(balance(&second).await, json!("EUR 50.00"));
        let (status, _) = deposit(&first, "late").await;
        assert!(status.is_server_error(), "{status}");
        let (ended, log) = first.ended();
        assert_eq!(ended.code(), Some(6), "{log}");
        assert!(log.contains("the journal was taken over by"), "{log}");
        assert_eq!(balance(&second).await, json!("EUR 50.00"));
        assert_eq!(deposit(&second, "late").await, (StatusCode::OK, false), "it has not happened");
        assert_eq!(balance(&second).await, json!("EUR 57.00"));
    }

    #[tokio::test]
    async fn one_that_was_replaced_shows_and_refuses_nothing_if_reads_are_behind_barriers() {
        let Some(place) = Place::new() else { return };
        let spec = place.spec("bank.rebel", BANK);
        let behind_barriers = || {
            let mut command = place.serve(&spec);
            command.arg("--barrier-reads");
            Served::start(command)
        };
        let payment = json!({ "amount": "EUR 1000.00", "to": "A2" });
        for (key, refused) in [("read", None), ("paid", Some(payment))] {
            let first = behind_barriers();
            first.post("/Account/A1/Open", json!({ "initialDeposit": "EUR 50.00" })).await;
            let before = balance(&first).await;
            let second = behind_barriers();
            assert_eq!(deposit(&second, key).await, (StatusCode::OK, false));
            let (status, body) = match refused {
                None => first.get("/Account/A1").await,
                Some(payment) => first.post("/Account/A1/Pay", payment).await,
            };
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
            assert_ne!(balance(&second).await, before);
            let (ended, log) = first.ended();
            assert_eq!(ended.code(), Some(6), "{log}");
        }
    }

    #[tokio::test]
    async fn the_streams_keep_the_specification_that_their_entities_were_written_under() {
        let Some(place) = Place::new() else { return };
        let first = place.spec("bank.rebel", BANK);
        let stricter = BANK.replace("initialDeposit >= EUR 0.00", "initialDeposit >= EUR 60.00");
        let stricter = place.spec("stricter.rebel", &stricter);
        let unopened = place.contract("check", Some(&first));
        assert!(unopened.0 == Some(4) && unopened.1.contains("there is no stream J0"), "{unopened:?}");
        let served = Served::start(place.serve(&first));
        served.post("/Account/A1/Open", json!({ "initialDeposit": "EUR 50.00" })).await;
        let nothing = "nothing changes: this is the specification of the entities\n".to_owned();
        assert_eq!(place.contract("check", Some(&first)), (Some(0), nothing));
        assert_eq!(place.contract("check", Some(&stricter)).0, Some(5));
        assert_eq!(balance(&served).await, json!("EUR 50.00"), "it was not disturbed");
        served.kill();
        let rollback = place.contract("rollback", None);
        assert!(rollback.0 == Some(5) && rollback.1.contains("there is no version before 1"), "{rollback:?}");
        let refused = place.serve(&stricter).output().expect("it ends");
        let said = String::from_utf8(refused.stderr).expect("UTF-8");
        assert_eq!(refused.status.code(), Some(5), "{said}");
        assert!(said.contains("the specification does not allow what has happened"), "{said}");
        assert!(said.contains("(shard 0)"), "{said}");
    }

    #[test]
    fn more_replicas_than_there_are_servers_end_the_start_with_the_reason() {
        let Some(place) = Place::new() else { return };
        let mut command = place.serve(&place.spec("bank.rebel", BANK));
        let refused = command.args(["--replicas", "3"]).output().expect("it ends");
        let said = String::from_utf8(refused.stderr).expect("UTF-8");
        assert_eq!(refused.status.code(), Some(4), "{said}");
        assert!(said.contains("stream J0 cannot be made: replicas"), "{said}");
    }
}
