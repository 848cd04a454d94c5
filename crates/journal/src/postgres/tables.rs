//! The tables, and whether they are kept as they must be.
//!
//! ```text
//! owners     one row for each shard: who writes, in which reign, and the last position when it began
//! records    one row for each record; rows are never changed or removed, which a trigger sees to
//! snapshots  one row for each entity that has one
//! format     one row: which tables these are
//! ```

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{OpenError, guard};

/// Of these tables.
const FORMAT: &str = "1";

/// Sees to it that the tables are there.
pub(super) async fn make(client: &Client, schema: &str) -> Result<(), OpenError> {
    // A user without the right to make them may still use them.
    let there = format!("SELECT 1 AS there WHERE to_regclass('{schema}.format') IS NOT NULL");
    let answer = client.simple_query(&there).await.map_err(OpenError::of)?;
    if answer.into_iter().find_map(guard::row).is_some() {
        return Ok(());
    }
    client.batch_execute(&definitions(schema)).await.map_err(OpenError::of)
}

fn definitions(schema: &str) -> String {
    // The lock makes of two that are the first one after the other.
    format!(
        r#"
        BEGIN;
        SELECT pg_advisory_xact_lock(hashtext('enact'), hashtext('{schema}'));
        CREATE SCHEMA IF NOT EXISTS {schema};
        CREATE TABLE IF NOT EXISTS owners (
            shard integer PRIMARY KEY, epoch bigint NOT NULL, node text NOT NULL, last bigint NOT NULL
        );
        CREATE TABLE IF NOT EXISTS records (
            shard integer NOT NULL, entity text COLLATE "C" NOT NULL, seq bigint NOT NULL, pos bigint NOT NULL,
            epoch bigint NOT NULL, kind smallint NOT NULL, checksum integer NOT NULL, payload bytea NOT NULL,
            PRIMARY KEY (shard, entity, seq), UNIQUE (shard, pos)
        );
        CREATE TABLE IF NOT EXISTS snapshots (
            shard integer NOT NULL, entity text COLLATE "C" NOT NULL, seq bigint NOT NULL, checksum integer NOT NULL,
            payload bytea NOT NULL, PRIMARY KEY (shard, entity)
        );
        CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'records are never changed or removed'; END $$;
        CREATE OR REPLACE TRIGGER forever BEFORE UPDATE OR DELETE OR TRUNCATE ON records
            FOR EACH STATEMENT EXECUTE FUNCTION refuse();
        ALTER TABLE records ENABLE ALWAYS TRIGGER forever;
        CREATE TABLE IF NOT EXISTS format (version smallint NOT NULL);
        INSERT INTO format SELECT {FORMAT} WHERE NOT EXISTS (SELECT FROM format);
        COMMIT;
        "#
    )
}

/// Checks that the tables are those of this program, are kept over a crash, and do not let records be changed.
pub(super) async fn check(client: &Client, schema: &str) -> Result<(), OpenError> {
    let query = format!(
        "SELECT (SELECT min(relname) FROM pg_class
                 WHERE relnamespace = to_regnamespace('{schema}') AND relkind = 'r' AND relpersistence <> 'p') AS unlogged,
                (SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass('{schema}.records')
                 AND tgname = 'forever' AND tgenabled = 'A' AND tgtype & 56 = 56) AS guards,
                (SELECT min(version) FROM {schema}.format) AS format"
    );
    let missing = || OpenError::Missing { schema: schema.to_owned() };
    let answer = client.simple_query(&query).await.map_err(|cause| match cause.code() {
        Some(&(SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME)) => missing(),
        _ => OpenError::of(cause),
    })?;
    let row = answer.into_iter().find_map(guard::row).ok_or_else(missing)?;
    match row.get("format") {
        None => return Err(missing()),
        Some(FORMAT) => {}
        Some(found) => return Err(OpenError::Format { schema: schema.to_owned(), found: found.to_owned() }),
    }
    let table =
        |table: &str, flaw: &str| OpenError::Table { table: format!("{schema}.{table}"), flaw: flaw.to_owned() };
    if let Some(unlogged) = row.get("unlogged") {
        return Err(table(unlogged, "is emptied by a crash: use `ALTER TABLE .. SET LOGGED`"));
    }
    if row.get("guards") != Some("1") {
        let flaw = "can lose records, as its trigger `forever` is not there for all: use `ALTER TABLE .. ENABLE ALWAYS TRIGGER forever`";
        return Err(table("records", flaw));
    }
    Ok(())
}
