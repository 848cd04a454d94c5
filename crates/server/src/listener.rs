//! Accepting connections, bounded in number and in time.
//!
//! HTTP/1.1 only: one request at a time on a connection, so the limits on connections, on a head's size and on what a
//! client leaves unread bound the memory of everything that has not passed the limits. A head that is too large for the
//! parser, or no HTTP at all, is answered by the protocol layer with a bare status and the connection is closed.
//!
//! Every connection is accepted at once, and a full server closes another one for it (`places.rs`). So neither slow nor
//! silent clients, however many, keep a newcomer waiting.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tower_service::Service;
use tracing::{debug, warn};

use crate::limits::{HEADERS_MAX, Peer, Stopping};
use crate::places::{Client, Places};
use crate::processor::Processor;
use crate::unread::UnreadTimeout;

/// Greatest number of connections open at once, however many descriptors there are.
pub const CONNECTIONS_MAX: usize = 2048;
/// Longest time in which the head of a request must arrive; also how long a connection may be idle.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time in which a client must have read what is sent to it, beyond what the system buffers.
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server that stops waits for clients to send or to read.
pub const FAREWELL: Duration = Duration::from_secs(5);

/// Beyond the limits on a head, so that most oversized heads get an answer in words.
const HEAD_BUFFER_BYTES: usize = 32 * 1024;
/// What the system buffers of answers that a client does not read; it doubles this for its own needs. An answer to a
/// command fits.
const SEND_BUFFER_BYTES: u32 = 64 * 1024;
/// Connections that the system keeps until they are accepted.
const BACKLOG: u32 = 1024;
/// Pause after a failed accept: it fails because descriptors are short, and only a closing connection helps.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections a server holds, and how long it waits for their clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections open at once. A further one takes the place of another: among the clients that hold the most,
    /// of the connection that has waited longest for its client. More than
    /// [`Options::in_flight_max`](crate::Options::in_flight_max), so that there is always one that waits.
    pub connections_max: usize,
    /// See [`HEAD_TIMEOUT`].
    pub head_timeout: Duration,
    /// See [`UNREAD_TIMEOUT`].
    pub unread_timeout: Duration,
    /// See [`FAREWELL`].
    pub farewell: Duration,
}

impl Limits {
    /// The limits of a process that may open `descriptors` files: half of them are for connections, at most
    /// [`CONNECTIONS_MAX`], the others for the journal.
    #[must_use]
    pub fn within(descriptors: usize) -> Self {
        Self {
            connections_max: (descriptors / 2).clamp(1, CONNECTIONS_MAX),
            head_timeout: HEAD_TIMEOUT,
            unread_timeout: UNREAD_TIMEOUT,
            farewell: FAREWELL,
        }
    }
}

/// From where a server may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// From this machine only.
    Loopback,
    /// From anywhere, without encryption.
    Insecure,
}

/// Why a server does not listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address can be reached from other machines and nobody asked for that.
    #[error(
        "{address} can be reached from other machines, and there is no encryption yet, so that others could read \
         what is said, tokens included: listen on a loopback address, or accept the risk with --insecure"
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
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn bind(address: SocketAddr, exposure: Exposure) -> Result<Self, BindError> {
        if exposure == Exposure::Loopback && !address.ip().is_loopback() {
            return Err(BindError::NotLoopback { address });
        }
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse { address },
            _ => BindError::Io { address, source },
        };
        let socket = listen(address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// The address listened on, with the real port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `router`, which is always ready, until `stop` is ready, then takes no new connection, lets each running request finish, and
    /// returns the value of `stop` when all have or when `grace` is over. Clients that neither send nor read are waited
    /// for no longer than [`Limits::farewell`].
    ///
    /// # Panics
    /// Never.
    ///
    /// # Cancel safety
    /// Dropping the future closes the socket, and the connections are closed when their running request is answered.
    pub async fn serve<S, T>(self, router: S, limits: Limits, stop: impl Future<Output = T>, grace: Duration) -> T
    where
        S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
    {
        let places = Places::new(limits.connections_max);
        let processor = Processor::start(Handle::current().metrics().num_workers());
        let graceful = GracefulShutdown::new();
        let running = watch::Sender::new(());
        let mut stop = std::pin::pin!(stop);
        let stopped = loop {
            let (stream, address) = tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        places.make_room();
                        sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
                stopped = &mut stop => break stopped,
            };
            let client = Client::at(address.ip());
            let Some(place) = places.enter(client).await else {
                debug!(%address, "every connection is being answered, none is left for this one");
                continue;
            };
            let peer = Peer::of(Arc::clone(place.connection()), Arc::clone(processor.waits()), Stopping::of(&running));
            let connection = graceful.watch(connection(stream, router.clone(), limits, peer));
            processor.spawn(client, async move {
                tokio::select! {
                    ended = connection => if let Err(error) = ended {
                        debug!(%error, "connection ended");
                    },
                    () = place.is_taken() => debug!("connection closed, its client took longest"),
                }
            });
        };
        drop(self.socket);
        drop(running);
        if timeout(grace, end(graceful, &places, limits.farewell)).await.is_err() {
            warn!("requests still run after {} ms of grace", grace.as_millis());
        }
        stopped
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // Connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Lets the connections end; those that wait for their client until `farewell` do not come to that.
async fn end(graceful: GracefulShutdown, places: &Places, farewell: Duration) {
    let mut ended = std::pin::pin!(graceful.shutdown());
    if timeout(farewell, &mut ended).await.is_err() {
        places.close_waiting();
        ended.await;
    }
}

fn connection<S>(
    stream: TcpStream,
    router: S,
    limits: Limits,
    peer: Peer,
) -> impl GracefulConnection<Error = hyper::Error> + use<S>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "answers on this connection may be delayed");
    }
    let answers = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        router.clone().call(request)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_headers(HEADERS_MAX + 1)
        .max_buf_size(HEAD_BUFFER_BYTES)
        .serve_connection(TokioIo::new(UnreadTimeout::new(stream, limits.unread_timeout)), answers)
}
