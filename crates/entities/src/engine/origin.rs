//! For which request work is done.
//!
//! The engine makes nothing of it. It goes with the work from task to task, and into the turns that a thread takes for others, so that
//! a line of the log and a span of a trace tell whose request it was. What is done for several requests together, such as a
//! group of records, is done for none of them.
use std::fmt;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tracing::Span;

use crate::EntityKey;
use crate::tx::TxId;

/// The target of the spans of requests, and of all that is done for them.
pub const REQUEST_SPANS: &str = "enact::request";

tokio::task_local! {
    /// That of the running task, or of the turn that it takes for another one.
    static CURRENT: Option<Origin>;
}

/// Makes a span, which nobody has used yet, a part of a trace.
type Join = Arc<dyn Fn(&Span) + Send + Sync>;

/// The request that work is done for, as the log and traces know it.
///
/// It is the same in all tasks that the engine starts for one that has it. A clone is of the same request, and costs no allocation.
#[derive(Clone)]
pub struct Origin {
    request: Arc<str>,
    span: Span,
    join: Option<Join>,
}

impl Origin {
    /// Greatest length of an id, in bytes.
    pub const ID_BYTES_MAX: usize = 128;

    /// Whether a request may have this id: 1 to 128 letters, digits and characters of `._:-`, so that it needs no escape in a line of the log.
    #[must_use]
    pub fn is_id(id: &[u8]) -> bool {
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"._:-".contains(byte);
        (1..=Self::ID_BYTES_MAX).contains(&id.len()) && id.iter().all(is_letter)
    }

    /// The request with this id, whose span is `span`; spans of what is done for it are within that one. Without one there are none.
    #[must_use]
    pub fn new(request: Arc<str>, span: Span) -> Self {
        Self { request, span, join: None }
    }

    /// The request with this id, which has a span elsewhere: `join` makes a span a part of its trace.
    pub fn elsewhere(request: Arc<str>, join: impl Fn(&Span) + Send + Sync + 'static) -> Self {
        Self { request, span: Span::none(), join: Some(Arc::new(join)) }
    }

    /// The same request, for a part of it that has a span of its own.
    #[must_use]
    pub fn within(&self, span: Span) -> Self {
        Self { request: Arc::clone(&self.request), span, join: None }
    }

    /// The id of the request.
    #[must_use]
    pub fn request(&self) -> &str {
        &self.request
    }

    /// The span of the request, or of its part; a disabled one if it has none here.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// That of the running task, if it works for a request.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok().flatten()
    }

    /// Shows that of the running task, if it works for a request.
    pub fn with_current<T>(see: impl FnOnce(&Self) -> T) -> Option<T> {
        CURRENT.try_with(|origin| origin.as_ref().map(see)).ok().flatten()
    }

    /// Does `work` for `origin`, or for no request. The tasks that the engine starts for it are for the same; others are for none.
    ///
    /// # Cancel safety
    /// That of `work`, which is for `origin` while it is dropped, too.
    pub fn scope<T>(origin: Option<Self>, work: impl Future<Output = T>) -> impl Future<Output = T> {
        CURRENT.scope(origin, work)
    }

    /// [`scope`](Self::scope) for what does not wait.
    pub fn sync_scope<T>(origin: Option<Self>, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(origin, work)
    }

    /// The span of a promise of `entity` to a coordinator elsewhere, up to its vote.
    pub(super) fn promise(&self, entity: &EntityKey, tx: TxId) -> Span {
        if self.span.is_disabled() && self.join.is_none() {
            return Span::none();
        }
        let span = tracing::info_span!(
            target: REQUEST_SPANS,
            parent: &self.span,
            "promise",
            otel.kind = "server",
            enact.request_id = &*self.request,
            enact.class = entity.class(),
            enact.transaction = %tx,
        );
        if let Some(join) = &self.join {
            join(&span);
        }
        span
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("request", &self.request).field("span", &self.span).finish_non_exhaustive()
    }
}

/// Starts a task for the request that the running one works for.
pub(super) fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(Origin::scope(Origin::current(), work))
}
