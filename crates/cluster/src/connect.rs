//! The way to the servers.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, ServerAddr};
use tokio::time::timeout;

use crate::JoinError;

const CONNECT_MAX: Duration = Duration::from_secs(20);
/// A server that is frozen is left after two of these.
const PING: Duration = Duration::from_secs(1);

/// Connects to one of the servers at `addresses`, which are separated by commas.
pub(crate) async fn connect(addresses: &str, name: &str) -> Result<Client, JoinError> {
    let addresses: Result<Vec<ServerAddr>, JoinError> = addresses.split(',').map(address).collect();
    let options = ConnectOptions::new().name(name).ping_interval(PING).request_timeout(None);
    let connected = timeout(CONNECT_MAX, options.connect(addresses?)).await.map_err(JoinError::unreachable)?;
    connected.map_err(JoinError::unreachable)
}

fn address(text: &str) -> Result<ServerAddr, JoinError> {
    let public = text.rsplit_once('@').map_or(text, |(_, public)| public).trim();
    text.trim().parse().map_err(|_| JoinError::Address { address: public.to_owned() })
}
