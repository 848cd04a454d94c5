//! One keep-alive HTTP connection of the load generator, which shares the machine with the server: a request is one write, an
//! answer mostly one read, and of its head only what is needed is looked at.
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::BenchError;
use super::head::Head;

/// What is read at once.
const READ_BYTES: usize = 4 * 1024;

/// A client that waits for each answer before it asks again.
pub(crate) struct Client {
    stream: TcpStream,
    /// What stands behind the path in the head of each request, up to the length of its body.
    common: String,
    request: Vec<u8>,
    /// The last answer.
    answer: Vec<u8>,
}

/// What an event was answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Committed and durable.
    Done,
    /// A precondition failed.
    Refused,
    /// Overload, or the deadline passed while waiting; when to come back, if that was said.
    TurnedAway { status: u16, retry_after: Option<Duration> },
    /// Nothing that this workload expects.
    Other { status: u16, body: String },
}

impl Answer {
    pub(crate) fn of(status: u16, retry_after: Option<Duration>, body: &str) -> Self {
        match status {
            200 => Self::Done,
            409 => Self::Refused,
            503 | 504 => Self::TurnedAway { status, retry_after },
            _ => Self::Other { status, body: body.to_owned() },
        }
    }

    /// When the client may ask again, if it was turned away.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TurnedAway { retry_after, .. } => *retry_after,
            Self::Done | Self::Refused | Self::Other { .. } => None,
        }
    }

    pub(crate) fn unexpected(self) -> BenchError {
        let (status, body) = match self {
            Self::Done => (200, String::new()),
            Self::Refused => (409, String::new()),
            Self::TurnedAway { status, .. } => (status, String::new()),
            Self::Other { status, body } => (status, body),
        };
        BenchError::Unexpected { status, body }
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        Self::connect_with(address, None).await
    }

    /// A client whose commands have this deadline.
    pub(crate) async fn connect_with(address: SocketAddr, deadline: Option<Duration>) -> Result<Self, BenchError> {
        let failed = |cause: std::io::Error| BenchError::Server { doing: "connecting", cause: cause.to_string() };
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let deadline = deadline.map(|span| format!("enact-deadline-ms: {}\r\n", span.as_millis())).unwrap_or_default();
        let common =
            format!(" HTTP/1.1\r\nhost: {address}\r\n{deadline}content-type: application/json\r\ncontent-length: ");
        Ok(Self { stream, common, request: Vec::new(), answer: Vec::with_capacity(READ_BYTES) })
    }

    /// Triggers the event at `path` with `body` as parameters, or reads what is there if there is no body.
    pub(crate) async fn send(&mut self, path: &str, body: Option<&str>) -> Result<Answer, BenchError> {
        let head = self.ask(path, body).await?;
        Ok(Answer::of(head.status, head.retry_after, self.body(&head)))
    }

    /// Triggers the event at `path`, again for as long as the server turns it away; its outcome must be known.
    pub(crate) async fn insist(&mut self, path: &str, body: &str) -> Result<(), BenchError> {
        loop {
            match self.send(path, Some(body)).await? {
                Answer::Done => return Ok(()),
                Answer::TurnedAway { status: 503, retry_after } => {
                    tokio::time::sleep(retry_after.unwrap_or(Duration::from_millis(100))).await;
                }
                other => return Err(other.unexpected()),
            }
        }
    }

    /// The whole euros in `field` of the object at `path`, which has no cents.
    pub(crate) async fn euros(&mut self, path: &str, field: &str) -> Result<i64, BenchError> {
        self.money(path, field, |money| money.strip_suffix(".00")?.parse().ok()).await
    }

    /// The euros in `field` of the object at `path`, cents left out.
    pub(crate) async fn euros_at_least(&mut self, path: &str, field: &str) -> Result<i64, BenchError> {
        self.money(path, field, |money| money.split_once('.')?.0.parse().ok()).await
    }

    /// The number in `field` of the object at `path`.
    pub(crate) async fn number(&mut self, path: &str, field: &str) -> Result<i64, BenchError> {
        self.read(path, field, serde_json::Value::as_i64).await
    }

    /// Whether the object at `path` is in `state`.
    pub(crate) async fn is_in(&mut self, path: &str, state: &str) -> Result<bool, BenchError> {
        let (status, body) = self.ask(path, None).await.map(|head| (head.status, self.body(&head)))?;
        let unexpected = || BenchError::Unexpected { status, body: body.to_owned() };
        let object: serde_json::Value = serde_json::from_str(body).map_err(|_| unexpected())?;
        Ok(object["state"] == state)
    }

    async fn money(&mut self, path: &str, field: &str, read: fn(&str) -> Option<i64>) -> Result<i64, BenchError> {
        self.read(path, field, |value| read(value.as_str()?.strip_prefix("EUR ")?)).await
    }

    async fn read(
        &mut self,
        path: &str,
        field: &str,
        read: impl FnOnce(&serde_json::Value) -> Option<i64>,
    ) -> Result<i64, BenchError> {
        let (status, body) = self.ask(path, None).await.map(|head| (head.status, self.body(&head)))?;
        let unexpected = || BenchError::Unexpected { status, body: body.to_owned() };
        let object: serde_json::Value = serde_json::from_str(body).map_err(|_| unexpected())?;
        read(&object["fields"][field]).ok_or_else(unexpected)
    }

    /// What is at `path`.
    pub(crate) async fn text(&mut self, path: &str) -> Result<String, BenchError> {
        let head = self.ask(path, None).await?;
        match (head.status, self.body(&head).to_owned()) {
            (200, body) => Ok(body),
            (status, body) => Err(BenchError::Unexpected { status, body }),
        }
    }

    /// The same as JSON, asked for again as long as the server turns it away.
    pub(crate) async fn json<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, BenchError> {
        loop {
            let head = self.ask(path, None).await?;
            let body = self.body(&head);
            match head.status {
                200 => {
                    return serde_json::from_str(body)
                        .map_err(|_| BenchError::Unexpected { status: 200, body: body.to_owned() });
                }
                503 | 504 => tokio::time::sleep(head.retry_after.unwrap_or(Duration::from_millis(100))).await,
                status => return Err(BenchError::Unexpected { status, body: body.to_owned() }),
            }
        }
    }

    /// Triggers the event at `path`. Returns the status, when to come back if that is said, and the body.
    pub(crate) async fn exchange(
        &mut self,
        path: &str,
        body: &str,
    ) -> Result<(u16, Option<Duration>, &str), BenchError> {
        let head = self.ask(path, Some(body)).await?;
        Ok((head.status, head.retry_after, self.body(&head)))
    }

    /// The body of the last answer, whose head is `head`.
    fn body(&self, head: &Head) -> &str {
        std::str::from_utf8(&self.answer[head.length..]).unwrap_or("not UTF-8")
    }

    /// Sends a request, a `POST` if it has a body, and reads the whole answer.
    async fn ask(&mut self, path: &str, body: Option<&str>) -> Result<Head, BenchError> {
        let failed = |cause: String| BenchError::Server { doing: "asking", cause };
        let (method, content) = body.map_or(("GET ", ""), |body| ("POST ", body));
        self.request.clear();
        for part in [method, path, &self.common] {
            self.request.extend_from_slice(part.as_bytes());
        }
        write!(self.request, "{}\r\n\r\n{content}", content.len()).expect("memory takes it");
        self.stream.write_all(&self.request).await.map_err(|cause| failed(cause.to_string()))?;
        self.answer.clear();
        loop {
            self.answer.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.answer).await.map_err(|cause| failed(cause.to_string()))?;
            if read == 0 {
                return Err(failed("it has closed the connection".to_owned()));
            }
            let head = Head::parse(&self.answer).map_err(|wrong| failed(wrong.to_string()))?;
            if let Some(head) = head.filter(|head| self.answer.len() >= head.length + head.body_length) {
                return Ok(head);
            }
        }
    }
}
