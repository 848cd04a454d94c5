//! The way to the servers.

use async_nats::Client;
use enact_journal::nats::{self, OpenError, Servers};

use crate::JoinError;

/// Connects to one of `servers`.
pub(crate) async fn connect(servers: &Servers, name: &str) -> Result<Client, JoinError> {
    nats::connect(servers, name).await.map_err(|cause| match cause {
        OpenError::Address { address } => JoinError::Address { address },
        OpenError::Security(cause) => JoinError::Security(cause),
        OpenError::Unreachable { why } => JoinError::Unreachable { why },
        cause => JoinError::unreachable(cause),
    })
}
