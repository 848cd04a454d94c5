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
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tower_service::Service;
use tracing::{debug, warn};

use crate::host::{HostName, ListenAddress};
use crate::limits::{HEADERS_MAX, Peer, Stopping};
use crate::places::{Client, Places};
use crate::processor::Processor;
use crate::stream::Stream;
use crate::tls::Tls;
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
    /// From anywhere: what is said is encrypted, and callers can prove who they are.
    Protected,
    /// From anywhere, whatever is missing.
    Insecure,
}

/// Why a server does not listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address can be reached from other machines, and the server is not for that.
    #[error("{address} can be reached from other machines, where others could read what is said, or ask as anybody")]
    NotLoopback {
        /// The refused address.
        address: SocketAddr,
    },
    /// The name has no address.
    #[error("`{name}` cannot be resolved to an address to listen on")]
    Unresolved {
        /// The name.
        name: HostName,
        /// The reason of the operating system.
        source: io::Error,
    },
    /// No address of the name is listened on.
    #[error("cannot listen on `{name}`")]
    Name {
        /// The name.
        name: HostName,
        /// What is wrong with one of its addresses.
        source: Box<BindError>,
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

impl BindError {
    /// Whether the address can be reached from other machines, and the server is not for that.
    #[must_use]
    pub fn is_of_exposure(&self) -> bool {
        match self {
            Self::NotLoopback { .. } => true,
            Self::Name { source, .. } => source.is_of_exposure(),
            _ => false,
        }
    }
}

/// A bound socket, ready to serve.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
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
        allow(address, exposure)?;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse { address },
            _ => BindError::Io { address, source },
        };
        let socket = listen(address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address, tls: None })
    }

    /// Binds the first address of `listen` that this machine has. Of a name, all addresses must be those that `exposure` allows. An
    /// address on which another process listens ends the search: clients would reach either of the two.
    ///
    /// # Errors
    /// [`BindError`]; nothing is left bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Nothing is left bound.
    pub async fn bind_to(listen: &ListenAddress, exposure: Exposure) -> Result<Self, BindError> {
        match listen {
            ListenAddress::Socket(address) => Self::bind(*address, exposure),
            ListenAddress::Name(name, port) => {
                let unresolved = |source| BindError::Unresolved { name: name.clone(), source };
                let addresses = lookup_host((name.0.as_str(), *port)).await.map_err(unresolved)?;
                let bound = Self::bind_first(&addresses.collect::<Vec<_>>(), exposure);
                bound.map_err(|source| BindError::Name { name: name.clone(), source: Box::new(source) })
            }
        }
    }

    /// Binds the first of the addresses of one name that works.
    fn bind_first(addresses: &[SocketAddr], exposure: Exposure) -> Result<Self, BindError> {
        addresses.iter().try_for_each(|&address| allow(address, exposure))?;
        let mut failed = None;
        for &address in addresses {
            match Self::bind(address, exposure) {
                Err(error @ BindError::Io { .. }) => failed = failed.or(Some(error)),
                bound => return bound,
            }
        }
        Err(failed.expect("a name that is resolved has an address"))
    }

    /// Encrypts what is said; whatever is not encrypted is not answered.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
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
            let (graceful, tls, router) = (graceful.watcher(), self.tls.clone(), router.clone());
            let served = async move {
                match encrypted(stream, tls.as_ref(), limits).await {
                    Ok(stream) => {
                        let peer = peer.with_certificate(stream.certificate());
                        if let Err(error) = graceful.watch(connection(stream, router, limits, peer)).await {
                            debug!(%error, "connection ended");
                        }
                    }
                    Err(error) => debug!(%error, "connection ended before it was encrypted"),
                }
            };
            processor.spawn(client, async move {
                tokio::select! {
                    () = served => {}
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

fn allow(address: SocketAddr, exposure: Exposure) -> Result<(), BindError> {
    match exposure {
        Exposure::Loopback if !address.ip().is_loopback() => Err(BindError::NotLoopback { address }),
        Exposure::Loopback | Exposure::Protected | Exposure::Insecure => Ok(()),
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

/// The connection, when its client has agreed on keys if it is to be encrypted.
async fn encrypted(stream: TcpStream, tls: Option<&Tls>, limits: Limits) -> io::Result<Stream> {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "answers on this connection may be delayed");
    }
    let stream = UnreadTimeout::new(stream, limits.unread_timeout);
    match tls {
        None => Ok(Stream::Plain(stream)),
        Some(tls) => {
            let agreed = timeout(limits.head_timeout, tls.acceptor().accept(stream)).await;
            agreed.map_err(io::Error::from)?.map(|stream| Stream::Encrypted(Box::new(stream)))
        }
    }
}

fn connection<S>(
    stream: Stream,
    router: S,
    limits: Limits,
    peer: Peer,
) -> impl GracefulConnection<Error = hyper::Error> + use<S>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    let answers = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        router.clone().call(request)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_headers(HEADERS_MAX + 1)
        .max_buf_size(HEAD_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELSEWHERE: &str = "192.0.2.1:0";

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[tokio::test]
    async fn the_first_address_of_a_name_is_bound_that_this_machine_has() {
        for texts in [&["127.0.0.1:0", ELSEWHERE][..], &[ELSEWHERE, "127.0.0.1:0"]] {
            let listener = Listener::bind_first(&addresses(texts), Exposure::Insecure).expect("one works");
            assert!(listener.address().ip().is_loopback() && listener.address().port() > 0, "{texts:?}");
        }
        let failed = Listener::bind_first(&addresses(&[ELSEWHERE]), Exposure::Insecure);
        assert!(matches!(failed, Err(BindError::Io { .. })), "{failed:?}");
    }

    #[tokio::test]
    async fn all_addresses_of_a_name_are_loopback_unless_asked_for() {
        for texts in [&["127.0.0.1:0", ELSEWHERE][..], &[ELSEWHERE, "127.0.0.1:0"], &["0.0.0.0:0"]] {
            let refused = Listener::bind_first(&addresses(texts), Exposure::Loopback);
            assert!(matches!(refused, Err(BindError::NotLoopback { .. })), "{texts:?}: {refused:?}");
        }
        Listener::bind_first(&addresses(&["127.0.0.1:0", "127.0.0.2:0"]), Exposure::Loopback).expect("both are");
    }

    #[tokio::test]
    async fn a_name_is_not_bound_to_its_second_address_when_another_process_has_the_first() {
        let other = Listener::bind(addresses(&["127.0.0.1:0"])[0], Exposure::Loopback).expect("a free port");
        let taken = other.address();
        let both = [taken, SocketAddr::from(([127, 0, 0, 2], taken.port()))];
        let refused = Listener::bind_first(&both, Exposure::Loopback);
        assert!(matches!(refused, Err(BindError::InUse { address }) if address == taken), "{refused:?}");
    }

    #[tokio::test]
    async fn a_name_is_resolved_and_named_where_it_is_not() {
        let localhost: ListenAddress = "localhost:0".parse().expect("a name");
        let listener = Listener::bind_to(&localhost, Exposure::Loopback).await.expect("every machine has it");
        assert!(listener.address().ip().is_loopback());
        let nobody: ListenAddress = "nobody.invalid:0".parse().expect("a name");
        let refused = Listener::bind_to(&nobody, Exposure::Loopback).await;
        assert!(matches!(refused, Err(BindError::Unresolved { .. })), "{refused:?}");
    }
}
