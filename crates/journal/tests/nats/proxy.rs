//! A proxy in front of a server, which holds back what it is told to.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// What becomes of what is sent in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link {
    is_held: bool,
    /// How often the connections that were there have been ended.
    cuts: u64,
}

/// A link between clients and a server.
pub(crate) struct Proxy {
    port: u16,
    to_server: watch::Sender<Link>,
    to_client: watch::Sender<Link>,
    _runtime: Runtime,
}

impl Proxy {
    /// A proxy for the server at `address`, such as `nats://127.0.0.1:4222`.
    pub(crate) fn before(address: &str) -> Self {
        let server: SocketAddr = address.trim_start_matches("nats://").parse().expect("an address");
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (to_server, to_client) = (watch::Sender::new(Link::default()), watch::Sender::new(Link::default()));
        let (requests, answers) = (to_server.clone(), to_client.clone());
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let (from_client, into_client) = client.into_split();
                let (from_server, into_server) = server.into_split();
                tokio::spawn(carry(from_client, into_server, requests.subscribe()));
                tokio::spawn(carry(from_server, into_client, answers.subscribe()));
            }
        });
        Self { port, to_server, to_client, _runtime: runtime }
    }

    pub(crate) fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Holds back what clients send, or lets it pass.
    pub(crate) fn hold_requests(&self, is_held: bool) {
        self.to_server.send_modify(|link| link.is_held = is_held);
    }

    /// Holds back what the server answers.
    pub(crate) fn hold_answers(&self) {
        self.to_client.send_modify(|link| link.is_held = true);
    }

    /// Drops what was held of answers, with the connections; new ones pass.
    pub(crate) fn cut_answers(&self) {
        self.to_client.send_modify(|link| *link = Link { is_held: false, cuts: link.cuts + 1 });
    }
}

async fn carry(mut from: OwnedReadHalf, mut into: OwnedWriteHalf, mut link: watch::Receiver<Link>) {
    let mut bytes = vec![0; 64 << 10];
    let cuts = link.borrow().cuts;
    loop {
        let count = tokio::select! {
            count = from.read(&mut bytes) => match count {
                Ok(count) if count > 0 => count,
                _ => return,
            },
            cut = link.wait_for(|link| link.cuts != cuts) => {
                drop(cut);
                return;
            }
        };
        let passing = link.wait_for(|link| !link.is_held || link.cuts != cuts).await.map(|link| *link);
        if passing.is_ok_and(|link| link.cuts != cuts) || into.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
