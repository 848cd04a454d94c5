//! Following the changes.
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{Changes, Cursor, Entities, Rebel};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::error::ProjectionError;
use crate::mark::Mark;
use crate::query::Query;
use crate::tables::{Page, Tables};

/// How many changes are taken up at a time.
const AT_A_TIME: usize = 1_000;
/// How long a reading of them may take.
const READING_MAX: Duration = Duration::from_secs(30);

/// What the changes of all entities have made of them.
///
/// Cheap to clone; all clones are one.
pub struct Projection<E: Entities<Model = Rebel>> {
    entities: E,
    directory: Option<PathBuf>,
    /// Nothing before the first question, and after a failure.
    built: Arc<Mutex<Option<Built>>>,
}

struct Built {
    tables: Arc<Tables>,
    /// How far the changes of each shard are taken up.
    cursors: Vec<Cursor>,
}

impl<E: Entities<Model = Rebel>> Clone for Projection<E> {
    fn clone(&self) -> Self {
        Self { entities: self.entities.clone(), directory: self.directory.clone(), built: Arc::clone(&self.built) }
    }
}

impl<E: Entities<Model = Rebel>> Projection<E> {
    /// One of `entities`, whose file lies in `directory`, or where the system keeps such files.
    pub fn new(entities: E, directory: Option<PathBuf>) -> Self {
        Self { entities, directory, built: Arc::default() }
    }

    /// A page of the objects that fulfil `query`, behind the mark `after` of the page before; at most `limit`, and one at least.
    ///
    /// # Errors
    /// See [`ProjectionError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect but that changes go on to be taken up.
    pub async fn find(
        &self,
        query: &Query,
        after: Option<Mark>,
        limit: usize,
        deadline: Duration,
    ) -> Result<Page, ProjectionError> {
        let over = Instant::now() + deadline;
        // In a task of its own: what has been begun is not begun again by the next question.
        let catching_up = tokio::spawn(self.clone().catch_up());
        let caught_up = timeout_at(over, catching_up).await.map_err(|_| ProjectionError::Late)?;
        let tables = caught_up.map_err(ProjectionError::tables)??;
        let (entities, query) = (self.entities.clone(), query.clone());
        let finding = spawn_blocking(move || tables.find(entities.model(), &query, after.as_ref(), limit.max(1)));
        let found = finding.await.map_err(ProjectionError::tables).flatten();
        if matches!(found, Err(ProjectionError::Tables { .. })) {
            *self.built.lock().await = None;
        }
        found
    }

    /// Takes up all changes that there are. What cannot be read is read again by the next question; what cannot be applied makes it begin
    /// anew.
    async fn catch_up(self) -> Result<Arc<Tables>, ProjectionError> {
        let mut place = self.built.lock().await;
        let mut built = match place.take() {
            Some(built) => built,
            None => self.begin().await?,
        };
        let caught_up = self.take_up(&mut built).await;
        let tables = Arc::clone(&built.tables);
        if matches!(caught_up, Ok(()) | Err(ProjectionError::Unread(_))) {
            *place = Some(built);
        }
        caught_up.map(|()| tables)
    }

    async fn take_up(&self, built: &mut Built) -> Result<(), ProjectionError> {
        for (shard, cursor) in (0..).zip(&mut built.cursors) {
            loop {
                let some = self.entities.changes(shard, *cursor, AT_A_TIME, READING_MAX).await?;
                let Changes { changes, next, has_more } = some;
                if !changes.is_empty() {
                    let (tables, entities) = (Arc::clone(&built.tables), self.entities.clone());
                    let applying = spawn_blocking(move || tables.apply(entities.model(), changes));
                    applying.await.map_err(ProjectionError::tables)??;
                }
                *cursor = next;
                if !has_more {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn begin(&self) -> Result<Built, ProjectionError> {
        let directory = self.directory.clone();
        let tables =
            spawn_blocking(move || Tables::new(directory.as_deref())).await.map_err(ProjectionError::tables)??;
        let cursors = vec![Cursor::START; usize::from(self.entities.shards())];
        Ok(Built { tables: Arc::new(tables), cursors })
    }
}
