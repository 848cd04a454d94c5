//! Servers and tables with which what is acknowledged could get lost are refused, by name.

use enact_journal::postgres::{OpenError, Options, Postgres};
use enact_journal::{CheckError, Journal};
use enact_journal_kit::contract::block_on;
use enact_journal_kit::postgres::shared;

use crate::records::{key, record};
use crate::support::{Admin, Processes, Single, fresh};

fn refusal(options: Options) -> OpenError {
    block_on(Processes::default().open(options)).expect_err("it does not open")
}

fn check(journal: &Postgres) -> Result<(), CheckError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(journal.check())
}

#[test]
fn an_address_of_no_database_is_named_without_its_password() {
    for server in ["postgres://user:secret@host:port/db", "postgres://user:secret@/db", "secret"] {
        let refusal = refusal(Options::at(server));
        assert!(matches!(&refusal, OpenError::Address { .. }), "{refusal}");
        assert!(!refusal.to_string().contains("secret") && !refusal.is_unsafe(), "{refusal}");
    }
}

#[test]
fn what_cannot_be_a_schema_is_refused_at_once() {
    for schema in ["", "Bank", "1st", "a b", "a\"", "pg_bank", &"x".repeat(64)] {
        let refusal = refusal(Options { schema: schema.to_owned(), ..Options::at("postgres://nowhere/db") });
        assert!(matches!(&refusal, OpenError::Schema { .. }), "{schema}: {refusal}");
    }
}

#[test]
fn what_the_server_refuses_ends_the_opening_at_once_with_its_reason() {
    let Some(server) = shared() else { return };
    for (address, said) in [
        (server.address().replace("/postgres", "/nowhere"), "database \"nowhere\" does not exist"),
        (server.address().replace("enact@", "nobody@"), "role \"nobody\" does not exist"),
    ] {
        let refusal = refusal(Options::at(&address));
        assert!(matches!(&refusal, OpenError::Refused { why, .. } if why == said), "{refusal}");
    }
}

#[test]
fn a_setting_that_could_lose_something_is_refused_by_name_and_seen_while_the_journal_is_open() {
    let Some(single) = Single::start() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    let admin = Admin::of(&single.options());
    let with = |settings: &str, setting: &str, value: &str| {
        single.server.configure(settings);
        single.server.reload();
        admin.waits_for(&format!("SELECT 1 WHERE current_setting('{setting}') = '{value}'"));
    };
    for (setting, value, sound) in [
        ("fsync", "off", "on"),
        ("full_page_writes", "off", "on"),
        ("synchronous_commit", "off", "on"),
        ("synchronous_commit", "local", "on"),
        ("zero_damaged_pages", "on", "off"),
        ("ignore_checksum_failure", "on", "off"),
    ] {
        with(&format!("{setting} = {value}"), setting, value);
        let refused = refusal(single.options());
        let is_named =
            matches!(&refused, OpenError::Setting { setting: named, found, .. } if named == setting && found == value);
        assert!(is_named && refused.is_unsafe(), "{refused}");
        assert_eq!(check(&journal), Err(CheckError::Unsafe { why: refused.to_string() }));
        with("", setting, sound);
        check(&journal).expect("it is sound again");
    }
    with("synchronous_commit = remote_apply", "synchronous_commit", "remote_apply");
    check(&journal).expect("that is more than is needed");
    block_on(journal.append(vec![record(1, 0, b"x")])).expect("nothing was taken over");
}

#[test]
fn a_server_that_comes_back_with_an_unsafe_setting_gets_nothing_until_it_is_safe() {
    let Some(single) = Single::start() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(single.options())).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"x")])).expect("durable");
    let admin = Admin::of(&single.options());
    let with = |settings: &str, value: &str| {
        single.server.configure(settings);
        single.server.reload();
        admin.waits_for(&format!("SELECT 1 WHERE current_setting('fsync') = '{value}'"));
    };
    with("fsync = off", "off");
    let sessions = "FROM pg_stat_activity WHERE application_name LIKE 'enact%'";
    admin.asks(&format!("SELECT pg_terminate_backend(pid) {sessions}"));
    admin.waits_for(&format!("SELECT 1 WHERE NOT EXISTS (SELECT {sessions})"));
    let waiting = journal.append(vec![record(1, 1, b"y")]);
    for _ in 0..20 {
        admin.waits_for(&format!("SELECT 1 {sessions}"));
        assert_eq!(admin.asks("SELECT count(*) FROM records"), ["1"]);
    }
    with("", "on");
    assert_eq!(block_on(waiting).expect("durable").0, 2);
}

#[test]
fn a_server_without_checksums_and_a_standby_are_refused_and_of_several_hosts_the_one_that_takes_writes_is_used() {
    let Some(mut single) = Single::start_with(&[], "") else { return };
    let refused = refusal(single.options());
    assert!(matches!(&refused, OpenError::Setting { setting, .. } if setting == "data_checksums"), "{refused}");
    assert!(refused.to_string().contains("pg_checksums --enable"), "{refused}");
    std::fs::write(single.server.data().join("standby.signal"), "").expect("written");
    single.server.restart();
    let refused = refusal(single.options());
    assert!(matches!(&refused, OpenError::Standby) && refused.is_unsafe(), "{refused}");

    let (Some(server), Some(options)) = (shared(), fresh()) else { return };
    let hosts = format!("postgres://enact@127.0.0.1:{},127.0.0.1:{}/postgres", single.server.port(), server.port());
    let options = Options { server: hosts, ..options };
    let journal = block_on(Processes::default().open(options)).expect("it opens");
    assert_eq!(journal.epoch(), 1);
}

#[test]
fn a_setting_of_the_user_counts_and_a_user_without_the_right_to_make_tables_uses_those_that_are_there() {
    let Some(options) = fresh() else { return };
    let mut processes = Processes::default();
    drop(block_on(processes.open(options.clone())).expect("it opens"));
    let admin = Admin::of(&options);
    let (schema, clerk) = (&options.schema, format!("clerk_{}", options.schema));
    admin.does(&format!(
        "CREATE ROLE {clerk} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {clerk};
         GRANT SELECT, INSERT ON records, format TO {clerk}; GRANT SELECT, INSERT, UPDATE ON owners, snapshots TO {clerk}"
    ));
    let of_clerk = Options { server: options.server.replace("enact@", &format!("{clerk}@")), ..options };
    let journal = block_on(processes.open(of_clerk.clone())).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"x")])).expect("durable");
    block_on(journal.close()).expect("closed");
    let elsewhere = refusal(Options { schema: "elsewhere".to_owned(), ..of_clerk.clone() });
    assert!(matches!(&elsewhere, OpenError::Refused { code, .. } if code == "42501"), "{elsewhere}");
    admin.does(&format!("ALTER ROLE {clerk} SET synchronous_commit TO off"));
    let refused = refusal(of_clerk);
    assert!(matches!(&refused, OpenError::Setting { setting, .. } if setting == "synchronous_commit"), "{refused}");
}

#[test]
fn tables_that_a_crash_would_empty_or_that_let_records_be_changed_are_refused() {
    let Some(options) = fresh() else { return };
    let mut processes = Processes::default();
    let journal = block_on(processes.open(options.clone())).expect("it opens");
    block_on(journal.append(vec![record(1, 0, b"x")])).expect("durable");
    let admin = Admin::of(&options);
    for (harm, mend, table) in [
        ("ALTER TABLE records SET UNLOGGED", "ALTER TABLE records SET LOGGED", "records"),
        ("ALTER TABLE owners SET UNLOGGED", "ALTER TABLE owners SET LOGGED", "owners"),
        ("ALTER TABLE records DISABLE TRIGGER forever", "ALTER TABLE records ENABLE ALWAYS TRIGGER forever", "records"),
    ] {
        admin.does(harm);
        let refused = refusal(options.clone());
        let named = format!("{}.{table}", options.schema);
        assert!(matches!(&refused, OpenError::Table { table, .. } if *table == named), "{harm}: {refused}");
        assert!(refused.is_unsafe());
        assert_eq!(check(&journal), Err(CheckError::Unsafe { why: refused.to_string() }));
        admin.does(mend);
        check(&journal).expect("it is sound again");
    }
    admin.does("UPDATE format SET version = 2");
    let refused = refusal(options);
    assert!(matches!(&refused, OpenError::Format { found, .. } if found == "2"), "{refused}");
    assert_eq!(block_on(journal.last(&key(1))).expect("readable").0, 1, "nothing was taken over");
}

#[test]
fn no_statement_changes_or_removes_a_record() {
    let Some(options) = fresh() else { return };
    let journal = block_on(Processes::default().open(options.clone())).expect("it opens");
    drop(journal);
    let admin = Admin::of(&options);
    for statement in ["UPDATE records SET seq = 1", "DELETE FROM records", "TRUNCATE records"] {
        admin.does(&format!(
            "DO $$ BEGIN {statement}; ASSERT false, 'it has happened';
             EXCEPTION WHEN raise_exception THEN NULL; END $$"
        ));
    }
}
