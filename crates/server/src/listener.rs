//! Accepting connections, bounded in number and in time.
//!
//! HTTP/1.1 only: one request at a time on a connection, so the limits on connections and on a head's size bound the
//! memory of everything that has not passed the door. A head that is too large for the parser, or no HTTP at all, is
//! answered by the protocol layer with a bare status and the connection is closed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::door::HEADERS_MAX;

/// Greatest number of connections open at once; more wait in the backlog of the operating system.
pub const CONNECTIONS_MAX: usize = 1024;
/// Longest time in which the head of a request must arrive; also how long a connection may be idle.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Beyond the limits of the door, so that most oversized heads get an answer in words.
const HEAD_BUFFER_BYTES: usize = 32 * 1024;
/// Pause after a failed accept: it fails because descriptors are short, and only a closing connection helps.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// From where a server may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// From this machine only.
    Loopback,
    /// From anywhere, without encryption and without authentication.
    Insecure,
}

/// Why a server does not listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address can be reached from other machines and nobody asked for that.
    #[error(
        "{address} can be reached from other machines, and neither encryption nor authentication exists yet: \
         listen on a loopback address, or accept the risk with --insecure"
    )]
    NotLoopback {
        /// The refused address.
        address: SocketAddr,
    },
    /// Another process listens on the address.
    #[error("{address} is in use by another process: choose another port, or 0 for any free one")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The operating system refuses the address.
    #[error("cannot listen on {address}")]
    Io {
        /// The address.
        address: SocketAddr,
        /// Its reason.
        source: io::Error,
    },
}

/// A bound socket, ready to serve.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds `address`; port 0 takes a free one, see [`Listener::address`].
    ///
    /// # Errors
    /// [`BindError`]; nothing is left bound.
    ///
    /// # Cancel safety
    /// Dropping the future binds nothing.
    pub async fn bind(address: SocketAddr, exposure: Exposure) -> Result<Self, BindError> {
        if exposure == Exposure::Loopback && !address.ip().is_loopback() {
            return Err(BindError::NotLoopback { address });
        }
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse { address },
            _ => BindError::Io { address, source },
        };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// The address listened on, with the real port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `router` until `stop` is ready, then takes no new connection, lets each running request finish, and
    /// returns the value of `stop` when all have or when `grace` is over.
    ///
    /// # Panics
    /// Never.
    ///
    /// # Cancel safety
    /// Dropping the future closes the socket, and the connections are closed when their running request is answered.
    pub async fn serve<T>(self, router: Router, stop: impl Future<Output = T>, grace: Duration) -> T {
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        let stopped = loop {
            let permit = tokio::select! {
                permit = Arc::clone(&connections).acquire_owned() => permit.expect("the semaphore is never closed"),
                stopped = &mut stop => break stopped,
            };
            let stream = tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
                stopped = &mut stop => break stopped,
            };
            let connection = graceful.watch(connection(stream, router.clone()));
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    debug!(%error, "connection ended");
                }
                drop(permit);
            });
        };
        drop(self.socket);
        if timeout(grace, graceful.shutdown()).await.is_err() {
            warn!("requests still run after {} ms of grace", grace.as_millis());
        }
        stopped
    }
}

type Connection = http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>>;

fn connection(stream: TcpStream, router: Router) -> Connection {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "answers on this connection may be delayed");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(HEADERS_MAX + 1)
        .max_buf_size(HEAD_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}
