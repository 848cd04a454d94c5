//! A stream that gives up a client which does not read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// A connection whose writes fail if the client leaves what is to be sent unread for too long.
///
/// The time begins when the system takes no more, and ends only when it has taken all: a client cannot prolong it by
/// reading a little now and then. A connection that is dropped meanwhile is reset, so that the system does not go on to
/// offer what nobody reads.
#[derive(Debug)]
pub(crate) struct UnreadTimeout {
    stream: TcpStream,
    timeout: Duration,
    unread: Option<Pin<Box<Sleep>>>,
}

impl UnreadTimeout {
    pub(crate) fn new(stream: TcpStream, timeout: Duration) -> Self {
        Self { stream, timeout, unread: None }
    }

    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
        offered: usize,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written
            && bytes == offered
        {
            self.unread = None;
        }
        if written.is_ready() {
            return written;
        }
        let timeout = self.timeout;
        let unread = self.unread.get_or_insert_with(|| Box::pin(sleep(timeout)));
        unread.as_mut().poll(cx).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl AsyncRead for UnreadTimeout {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for UnreadTimeout {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(cx, written, buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(cx, written, bufs.iter().map(|buf| buf.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Drop for UnreadTimeout {
    fn drop(&mut self) {
        if self.unread.is_some()
            && let Err(error) = self.stream.set_zero_linger()
        {
            tracing::debug!(%error, "a connection that is given up stays open for a while");
        }
    }
}
