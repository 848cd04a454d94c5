//! Which entities have something from before this reign, so that nothing is asked for one that is new.
//!
//! One statement lists them all after the reign has begun, when no earlier one adds any. Entities with a snapshot are on the list as
//! well, also those without a record: they have lost theirs, which is damage. The list takes eight bytes an entity. Until it is there
//! each entity is asked for, so opening does not wait for it.

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::time::sleep;
use tokio_postgres::types::ToSql;

use super::OpenError;
use super::reign::Reign;
use super::session::Server;
use crate::remote::Fingerprints;

/// The most entities that are listed.
const LISTED_MAX: usize = 4_000_000;
/// How long after a list that has failed the next is asked for; doubled each time.
const PAUSE: Duration = Duration::from_millis(50);
const LIST: &str = "
    SELECT entity FROM records WHERE shard = $1 AND seq = 1
    UNION ALL SELECT entity FROM snapshots WHERE shard = $1 LIMIT $2";

/// Lists the entities for `reign`, however often it takes.
pub(super) async fn find_out(server: Arc<Server>, reign: Arc<Reign>) {
    let mut pause = PAUSE;
    loop {
        match list(&server, reign.shard).await {
            Ok(Some(earlier)) => {
                tracing::debug!(entities = earlier.len(), "nothing is asked for new entities from now on");
                return reign.know(earlier);
            }
            Ok(None) => return tracing::info!("there are too many entities to list them; each is asked for"),
            Err(cause) => tracing::debug!(%cause, "it is not known which entities there are; asking again"),
        }
        sleep(pause).await;
        pause *= 2;
    }
}

/// The list, unless there are too many entities.
async fn list(server: &Server, shard: u16) -> Result<Option<Fingerprints>, OpenError> {
    let connection = server.connect().await?;
    let (shard, limit) = (i32::from(shard), LISTED_MAX as i64 + 1);
    let parameters: [&(dyn ToSql + Sync); 2] = [&shard, &limit];
    let rows = connection.client.query_raw(LIST, parameters).await.map_err(OpenError::of)?;
    let mut rows = pin!(rows);
    let hashing = RandomState::new();
    let mut fingerprints = Vec::new();
    while let Some(row) = rows.try_next().await.map_err(OpenError::of)? {
        fingerprints.push(hashing.hash_one(row.get::<_, &str>("entity")));
    }
    Ok((fingerprints.len() <= LISTED_MAX).then(|| Fingerprints::of(hashing, fingerprints)))
}
