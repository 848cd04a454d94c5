//! Which database it is: a row that is made once and goes wherever the records go, to standbys and out of backups.
//!
//! Several nodes keep their journals in one database, and each finds it by an address of its own, behind which another database may be one
//! day, such as an empty one. So every connection of a node looks whether it is the one that all have agreed on. Tables that have an
//! identity are those of nodes: a server without others does not take them over.

use tokio_postgres::Client;

use super::session::{Connection, Server};
use super::{OpenError, guard};

/// The identity of the tables, if they have one.
pub(super) async fn find(client: &Client, schema: &str) -> Result<Option<String>, OpenError> {
    let there = format!("SELECT 1 AS there WHERE to_regclass('{schema}.identity') IS NOT NULL");
    if client.simple_query(&there).await.map_err(OpenError::of)?.into_iter().find_map(guard::row).is_none() {
        return Ok(None);
    }
    let answer = client.simple_query(&format!("SELECT min(id) AS id FROM {schema}.identity")).await;
    let row = answer.map_err(OpenError::of)?.into_iter().find_map(guard::row);
    Ok(row.and_then(|row| row.get("id").map(str::to_owned)))
}

/// Gives tables without an identity one; the one that they have.
pub(super) async fn make(connection: &Connection, schema: &str) -> Result<String, OpenError> {
    let client = &connection.client;
    if let Some(found) = find(client, schema).await? {
        return Ok(found);
    }
    connection.begin();
    // The lock makes of two that are the first one after the other.
    let definition = format!(
        "BEGIN;
         SELECT pg_advisory_xact_lock(hashtext('enact'), hashtext('{schema}'));
         CREATE TABLE IF NOT EXISTS {schema}.identity (id text NOT NULL);
         INSERT INTO {schema}.identity SELECT gen_random_uuid()::text WHERE NOT EXISTS (SELECT FROM {schema}.identity);
         COMMIT"
    );
    client.batch_execute(&definition).await.map_err(OpenError::of)?;
    if connection.has_warned() {
        return Err(OpenError::unreachable("the identity is not known to be on the standbys"));
    }
    find(client, schema).await?.ok_or_else(|| OpenError::unreachable("the tables have no identity yet"))
}

/// Fails if the tables are not those that `server` is to find there, if that is said.
pub(super) async fn check(client: &Client, server: &Server) -> Result<(), OpenError> {
    let Some(expected) = &server.identity else { return Ok(()) };
    let found = find(client, &server.schema).await?;
    if found.as_ref() == Some(expected) {
        return Ok(());
    }
    Err(OpenError::OtherDatabase { schema: server.schema.clone(), expected: expected.clone(), found })
}

/// Fails if the tables are those of nodes, and `server` is none of them.
pub(super) async fn check_writer(client: &Client, server: &Server) -> Result<(), OpenError> {
    if server.identity.is_none() && find(client, &server.schema).await?.is_some() {
        return Err(OpenError::OfNodes { schema: server.schema.clone() });
    }
    Ok(())
}
