//! HTTP/1.1 on a bare socket, for tests whose clients must cost next to nothing.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The next answer on `stream`, head and body; clients that do not pipeline read nothing beyond it.
///
/// # Errors
/// Those of the socket; `UnexpectedEof` if the connection ends before the answer does, `InvalidData` if it has no length.
pub(crate) async fn answer_of(stream: &mut TcpStream) -> io::Result<String> {
    let mut answer = Vec::with_capacity(1024);
    let whole = loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(head) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break head + 4 + content_length(&answer[..head])?;
        }
    };
    while answer.len() < whole {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    String::from_utf8(answer).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn content_length(head: &[u8]) -> io::Result<usize> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    length.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
