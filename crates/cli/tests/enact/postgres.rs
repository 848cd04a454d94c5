//! The program over PostgreSQL: entities survive it, another one takes them over, and a plain build says what it lacks.

use crate::served::enact;

#[cfg(not(feature = "postgres"))]
#[test]
fn a_plain_build_says_how_to_get_the_journal_over_postgresql() {
    for address in ["postgres://enact@127.0.0.1/bank", "postgresql://enact@127.0.0.1/bank"] {
        for command in [&["serve", "nowhere.rebel"][..], &["contract", "rollback"]] {
            let refused = enact(&[command, &["--journal", address]].concat());
            assert_eq!(refused.status.code(), Some(2));
            let said = String::from_utf8(refused.stderr).expect("UTF-8");
            assert!(said.contains("cargo build --release -p enact-cli --features postgres"), "{said}");
        }
    }
}

#[test]
fn nodes_keep_their_entities_over_nats_and_not_in_a_database() {
    let both = ["--cluster", "nats://127.0.0.1:4222", "--node", "n1", "--journal", "postgres://enact@127.0.0.1/bank"];
    let refused = enact(&[&["serve", "nowhere.rebel"][..], &both].concat());
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).expect("UTF-8");
    assert!(said.contains("cannot be used with") && said.contains("--journal"), "{said}");
}

#[cfg(feature = "postgres")]
mod served_over_postgresql {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use enact_journal_kit::postgres::{Server, programs};
    use reqwest::StatusCode;
    use rustix::process::Signal;
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use crate::served::{BANK, FREE_PORT, Served};

    /// A server of PostgreSQL, and a place for specifications.
    struct Place {
        database: Server,
        directory: TempDir,
    }

    impl Place {
        fn new() -> Option<Self> {
            Self::with(&["--data-checksums"])
        }

        fn with(arguments: &[&str]) -> Option<Self> {
            let (programs, directory) = (programs()?, tempfile::tempdir().expect("a directory"));
            let database = Server::start_with(&programs, directory.path(), arguments, "");
            Some(Self { database, directory })
        }

        fn spec(&self, name: &str, text: &str) -> PathBuf {
            let spec = self.directory.path().join(name);
            std::fs::write(&spec, text).expect("writable");
            spec
        }

        fn address(&self) -> String {
            format!("{}?schema=bank", self.database.address())
        }

        /// `enact serve SPEC --journal ADDRESS`
        fn serve(&self, spec: &Path) -> Command {
            let mut command = crate::served::program();
            command.arg("serve").arg(spec).args(["--journal", &self.address(), "--listen", FREE_PORT]);
            command
        }

        /// What `enact contract .. --journal ADDRESS` says, with its status.
        fn contract(&self, what: &str, spec: Option<&Path>) -> (Option<i32>, String) {
            let mut command = crate::served::program();
            command.args(["contract", what]).args(spec).args(["--journal", &self.address()]);
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
    async fn what_was_acknowledged_is_there_after_kills_of_the_program_and_of_the_server_and_after_a_stop() {
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
        place.database.restart();
        assert_eq!(deposit(&served, "second").await, (StatusCode::OK, false), "it waits for the server");
        served.kill();
        place.database.restart();
        let served = Served::start(place.serve(&spec));
        assert_eq!(balance(&served).await, json!("EUR 64.00"));
        served.signal(Signal::TERM);
        let (ended, log) = served.ended();
        assert_eq!(ended.code(), Some(0), "{log}");
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
    async fn the_tables_keep_the_specification_that_their_entities_were_written_under() {
        let Some(place) = Place::new() else { return };
        let first = place.spec("bank.rebel", BANK);
        let stricter = BANK.replace("initialDeposit >= EUR 0.00", "initialDeposit >= EUR 60.00");
        let stricter = place.spec("stricter.rebel", &stricter);
        let unopened = place.contract("check", Some(&first));
        assert!(unopened.0 == Some(4) && unopened.1.contains("there is no journal in schema bank"), "{unopened:?}");
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
        assert!(said.contains("(schema bank, shard 0)"), "{said}");
    }

    #[test]
    fn a_server_with_which_something_could_get_lost_ends_the_start_with_the_reason() {
        let Some(place) = Place::with(&[]) else { return };
        let spec = place.spec("bank.rebel", BANK);
        let refused = place.serve(&spec).output().expect("it ends");
        let said = String::from_utf8(refused.stderr).expect("UTF-8");
        assert_eq!(refused.status.code(), Some(4), "{said}");
        assert!(said.contains("data_checksums = off") && said.contains("pg_checksums --enable"), "{said}");
        let refused = place.serve(&spec).args(["--replicas", "3"]).output().expect("it ends");
        let said = String::from_utf8(refused.stderr).expect("UTF-8");
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("synchronous_standby_names"), "{said}");
    }
}
