//! How an engine ends.
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use enact_journal::Journal;
use tokio::time::timeout_at;

use super::error::ShutdownError;
use super::{Engine, moment};
use crate::model::Model;

/// How long an engine that stops waits at most until promises and decisions between engines are settled; what is left is taken up by the
/// next one.
const SETTLING_MAX: Duration = Duration::from_millis(500);

/// How long the journal has at least to close, however long commands took to end.
const CLOSING_MIN: Duration = Duration::from_secs(1);

impl<M: Model, J: Journal> Engine<M, J> {
    /// Refuses new commands and reads, and lets those under way end within `deadline`. What other engines want is still promised and
    /// decided, until [`shutdown`](Self::shutdown). Engines that stop together let each other's commands end this way.
    ///
    /// Returns whether all have ended.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// New commands and reads are refused as soon as the future has been polled, and for good.
    pub async fn drain(&self, deadline: Duration) -> bool {
        let over = moment(deadline);
        self.shared.stopping.store(true, Ordering::SeqCst);
        let all_ended = async {
            loop {
                let ended = self.shared.idle.notified();
                if self.shared.in_flight.load(Ordering::SeqCst) == 0 {
                    return;
                }
                ended.await;
            }
        };
        timeout_at(over, all_ended).await.is_ok()
    }

    /// [Drains](Self::drain) the engine and closes the journal, all of it within `deadline`; but the journal has a second at
    /// least. What is promised and decided between engines that run has half a second to be settled, so that nothing is in doubt
    /// afterwards. Then other engines hear nothing more from this one: what they want, the next one over the journal is asked for.
    ///
    /// What has not ended by then has the same fate as in a crash: nothing that was acknowledged is lost. A journal that
    /// has not closed by then is never dropped, as that would wait for it.
    ///
    /// # Errors
    /// If the journal had failed before, fails now, or does not close in time.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), ShutdownError> {
        let over = moment(deadline);
        if !self.drain(deadline).await {
            tracing::warn!("commands were still under way when the time to stop was over");
        }
        if let Some(elsewhere) = &self.shared.elsewhere {
            if timeout_at(over.min(moment(SETTLING_MAX)), elsewhere.settle()).await.is_err() {
                tracing::info!("promises or decisions are left for the next engine over the journal");
            }
            elsewhere.close();
        }
        let closing = over.max(moment(CLOSING_MIN));
        // What is not kept costs the next start some time.
        let _ = timeout_at(over, self.shared.save_timers(true)).await;
        match timeout_at(closing, self.shared.journal.close()).await {
            Ok(closed) => Ok(closed?),
            Err(_) => {
                mem::forget(Arc::clone(&self.shared.journal));
                let under_way = self.shared.in_flight.load(Ordering::SeqCst);
                Err(ShutdownError::Unclosed { deadline: deadline.max(CLOSING_MIN), under_way })
            }
        }
    }
}
