//! Files that are read again while a server runs.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

/// How often files are read again that may change while a server runs.
pub const FILES_CHECK_EVERY: Duration = Duration::from_secs(60);

/// Has them read every [`FILES_CHECK_EVERY`], and whenever `asked` is notified, which `read` is told; for as long as it is polled.
pub(crate) async fn reloading(asked: &Notify, mut read: impl FnMut(bool)) {
    loop {
        let is_asked = tokio::select! {
            () = asked.notified() => true,
            () = sleep(FILES_CHECK_EVERY) => false,
        };
        read(is_asked);
    }
}
