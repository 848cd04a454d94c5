//! The program over PostgreSQL: entities survive it, another one takes them over, and a plain build says what it lacks.

#[cfg(not(feature = "postgres"))]
#[test]
fn a_plain_build_says_how_to_get_the_journal_over_postgresql() {
    for address in ["postgres://enact@127.0.0.1/bank", "postgresql://enact@127.0.0.1/bank"] {
        for command in [&["serve", "nowhere.rebel"][..], &["contract", "rollback"], &["journal", "export"]] {
            let refused = crate::served::enact(&[command, &["--journal", address]].concat());
            assert_eq!(refused.status.code(), Some(2));
            let said = String::from_utf8(refused.stderr).expect("UTF-8");
            assert!(said.contains("cargo build --release -p enact-cli --features postgres"), "{said}");
        }
    }
}

#[cfg(feature = "postgres")]
mod served_over_postgresql {
    use enact_journal_kit::postgres::{Server, programs};
    use tempfile::TempDir;
    use tokio_postgres::NoTls;

    use crate::remote::{self, Refusals, Remote};

    /// A server of PostgreSQL, and the program over it.
    struct Place {
        database: Server,
        remote: Remote,
        _directory: TempDir,
    }

    impl Place {
        fn new() -> Option<Self> {
            Self::with(&["--data-checksums"])
        }

        fn with(arguments: &[&str]) -> Option<Self> {
            let (programs, directory) = (programs()?, tempfile::tempdir().expect("a directory"));
            let database = Server::start_with(&programs, directory.path(), arguments, "");
            let remote = Remote::at(format!("{}?schema=bank", database.address()));
            Some(Self { database, remote, _directory: directory })
        }
    }

    #[tokio::test]
    async fn what_was_acknowledged_is_there_after_kills_of_the_program_and_of_the_server_and_after_a_stop() {
        let Some(Place { mut database, remote, _directory }) = Place::new() else { return };
        remote::what_was_acknowledged_is_there(&remote, || database.restart()).await;
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
    async fn the_tables_keep_the_specification_that_their_entities_were_written_under() {
        let Some(place) = Place::new() else { return };
        let unopened = "there is no journal in schema bank";
        remote::the_specification_is_kept(&place.remote, unopened, "(schema bank, shard 0)").await;
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
    async fn a_backup_is_restored_to_tables_whole_or_not_at_all() {
        let Some(place) = Place::new() else { return };
        let refusals = Refusals {
            unread: "there is no journal in schema bank",
            busy: "somebody else is filling or opening the journal 1 in schema bank",
            full: "there is a journal already in schema bank with the number 1",
            leaves_a_rest: false,
        };
        let address = place.database.address();
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await.expect("a connection");
        tokio::spawn(connection);
        let open = "SELECT FROM pg_stat_activity WHERE state = 'idle in transaction' AND backend_xid IS NOT NULL";
        let is_begun = async || client.query_opt(open, &[]).await.expect("an answer").is_some();
        let shard = remote::a_backup_is_restored_to_servers(&place.remote, &refusals, is_begun).await;

        let change = format!(
            "ALTER TABLE bank.records DISABLE TRIGGER forever;
             UPDATE bank.records SET payload = 'x' WHERE shard = {shard} AND pos = 2;
             ALTER TABLE bank.records ENABLE ALWAYS TRIGGER forever"
        );
        client.batch_execute(&change).await.expect("changed");
        let verify = ["journal", "verify", "--journal", place.remote.address(), "--shard", &shard.to_string()];
        let said = remote::refused_by(&verify, 4);
        assert!(said.starts_with("record 2 of shard 1 in bank.records is damaged"), "{said}");
        assert!(said.contains("(schema bank, shard 1) is damaged"), "{said}");
    }

    #[test]
    fn a_server_with_which_something_could_get_lost_ends_the_start_with_the_reason() {
        let Some(place) = Place::with(&[]) else { return };
        let said = remote::refused(place.remote.serve_bank(), 4);
        assert!(said.contains("data_checksums = off") && said.contains("pg_checksums --enable"), "{said}");
        let mut command = place.remote.serve_bank();
        command.args(["--replicas", "3"]);
        let said = remote::refused(command, 2);
        assert!(said.contains("synchronous_standby_names"), "{said}");
    }
}
