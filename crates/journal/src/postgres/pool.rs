//! Connections that the reads of all journals of one database share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::session::{Server, Session, Slot, Statements};
use super::{in_words, is_damage};
use crate::damage::{Damage, Flaw};
use crate::journal::ReadError;

const SLOTS: usize = 4;
/// How long a read goes on to ask.
const PATIENCE: Duration = Duration::from_secs(15);
const ANSWER_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

pub(super) struct Pool {
    slots: [Slot; SLOTS],
    /// Questions asked so far.
    asked: AtomicUsize,
}

impl Pool {
    pub(super) fn new(server: &Arc<Server>) -> Self {
        let slots = [(); SLOTS].map(|()| Slot::new(Arc::clone(server)));
        Self { slots, asked: AtomicUsize::new(0) }
    }

    /// Asks until there is an answer, or patience ends; damage ends it at once.
    pub(super) async fn ask(
        &self,
        statement: fn(&Statements) -> &Statement,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, ReadError> {
        let begun = Instant::now();
        loop {
            let slot = &self.slots[self.asked.fetch_add(1, Ordering::Relaxed) % SLOTS];
            let why = match slot.get().await {
                Ok(session) => match ask_once(&session, statement, parameters).await {
                    Err(ReadError::Unavailable { why }) => why,
                    answer => return answer,
                },
                Err(cause) => cause.to_string(),
            };
            if begun.elapsed() > PATIENCE {
                return Err(ReadError::Unavailable { why });
            }
            sleep(PAUSE).await;
        }
    }
}

async fn ask_once(
    session: &Session,
    statement: fn(&Statements) -> &Statement,
    parameters: Parameters<'_>,
) -> Result<Vec<Row>, ReadError> {
    let Session { connection, statements, .. } = session;
    let asked = connection.client.query(statement(statements), parameters);
    let why = match timeout(ANSWER_MAX, asked).await {
        Ok(Ok(rows)) => return Ok(rows),
        Ok(Err(cause)) => {
            let why = in_words(&cause);
            if is_damage(&cause) {
                return Err(Damage { file: why, offset: 0, flaw: Flaw::Record }.into());
            }
            why
        }
        Err(_) => format!("the server has not answered within {} s", ANSWER_MAX.as_secs()),
    };
    connection.abandon();
    Err(ReadError::Unavailable { why })
}
