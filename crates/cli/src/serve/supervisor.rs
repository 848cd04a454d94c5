//! What a supervisor that understands systemd's notifications is told of a server: that it listens, and that it stops.
//!
//! Without `NOTIFY_SOCKET` in the environment nobody is told, which costs nothing. A supervisor that cannot be told is no reason to end.

use sd_notify::NotifyState;
use tracing::warn;

/// The server answers from now on; `status` is for people.
pub(super) fn tell_ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The server takes no more connections.
pub(super) fn tell_stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("finishing what is admitted")]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "the supervisor was not told at its socket");
    }
}
