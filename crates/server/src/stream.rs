//! A connection, encrypted or not.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::certificate::ClientCertificate;
use crate::unread::UnreadTimeout;

/// What requests are read from and answers written to.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(UnreadTimeout),
    Encrypted(Box<TlsStream<UnreadTimeout>>),
}

impl Stream {
    /// The certificate that the client has proved to be its own, where the server demands one.
    pub(crate) fn certificate(&self) -> Option<ClientCertificate> {
        let Self::Encrypted(stream) = self else { return None };
        let (_, session) = stream.get_ref();
        ClientCertificate::from_der(session.peer_certificates()?.first()?)
    }
}

/// Does the same on either stream.
macro_rules! on_either {
    ($stream:ident, $pinned:ident => $done:expr) => {
        match $stream.get_mut() {
            Stream::Plain(stream) => {
                let $pinned = Pin::new(stream);
                $done
            }
            Stream::Encrypted(stream) => {
                let $pinned = Pin::new(stream.as_mut());
                $done
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_either!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        on_either!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_either!(self, stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Encrypted(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self, stream => stream.poll_shutdown(cx))
    }
}
