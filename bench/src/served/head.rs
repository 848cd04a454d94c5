//! The head of an answer, as far as a load generator needs it.

use std::time::Duration;

/// Bytes of a head that is taken for none if it has not ended by then.
const HEAD_MAX: usize = 64 * 1024;

/// Status, length and advice of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Bytes before the body.
    pub(super) length: usize,
    /// Bytes of the body.
    pub(super) body_length: usize,
    /// When to come back, if that is said.
    pub(super) retry_after: Option<Duration>,
}

/// What stands there is no answer of HTTP/1.1 with a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not one of HTTP/1.1 with a length")]
pub(super) struct NoAnswer;

impl Head {
    /// Reads the head of an answer of which `received` is the beginning; nothing if there is too little of it yet.
    ///
    /// # Errors
    /// [`NoAnswer`] if more cannot make it one.
    pub(super) fn parse(received: &[u8]) -> Result<Option<Self>, NoAnswer> {
        let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            return if received.len() < HEAD_MAX { Ok(None) } else { Err(NoAnswer) };
        };
        let text = std::str::from_utf8(&received[..end]).map_err(|_| NoAnswer)?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).ok_or(NoAnswer)?;
        let status = status.get(..3).and_then(|digits| digits.parse().ok()).ok_or(NoAnswer)?;
        let (mut body_length, mut retry_after) = (None, None);
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(NoAnswer)?;
            if name.eq_ignore_ascii_case("content-length") {
                body_length = Some(value.trim().parse().map_err(|_| NoAnswer)?);
            } else if name.eq_ignore_ascii_case("retry-after") {
                retry_after = value.trim().parse().ok().map(Duration::from_secs);
            }
        }
        let body_length = body_length.ok_or(NoAnswer)?;
        Ok(Some(Self { status, length: end + 4, body_length, retry_after }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\nretry-after: 7\r\nx: a:b\r\n\r\n{}";

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let expected =
            Head { status: 503, length: ANSWER.len() - 2, body_length: 2, retry_after: Some(Duration::from_secs(7)) };
        for received in 0..=ANSWER.len() {
            let whole = (received >= ANSWER.len() - 2).then_some(expected);
            assert_eq!(Head::parse(&ANSWER[..received]), Ok(whole), "{received} bytes");
        }
    }

    #[test]
    fn what_is_no_answer_with_a_length_is_refused() {
        for wrong in [
            "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 2\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length\r\n\r\n",
        ] {
            assert_eq!(Head::parse(wrong.as_bytes()), Err(NoAnswer), "{wrong}");
        }
        assert_eq!(Head::parse(&vec![b'x'; HEAD_MAX]), Err(NoAnswer));
    }
}
