//! One keep-alive HTTP connection of the load generator.
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::http::response::Parts;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::BenchError;

/// A client that waits for each answer before it asks again.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

/// What an event was answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Committed and durable.
    Done,
    /// A precondition failed.
    Refused,
    /// Overload, or the deadline passed while waiting; when to come back, if that was said.
    TurnedAway { retry_after: Option<Duration> },
    /// Nothing that this workload expects.
    Other { status: StatusCode, body: Bytes },
}

impl Answer {
    /// When the client may ask again, if it was turned away.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TurnedAway { retry_after } => *retry_after,
            Self::Done | Self::Refused | Self::Other { .. } => None,
        }
    }

    pub(crate) fn unexpected(self) -> BenchError {
        let (status, body) = match self {
            Self::Done => (200, String::new()),
            Self::Refused => (409, String::new()),
            Self::TurnedAway { .. } => (503, String::new()),
            Self::Other { status, body } => (status.as_u16(), String::from_utf8_lossy(&body).into_owned()),
        };
        BenchError::Unexpected { status, body }
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        let failed = |cause: String| BenchError::Server { doing: "connecting", cause };
        let stream = TcpStream::connect(address).await.map_err(|cause| failed(cause.to_string()))?;
        stream.set_nodelay(true).map_err(|cause| failed(cause.to_string()))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|cause| failed(cause.to_string()))?;
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_string() })
    }

    /// Triggers the event at `path` with `body` as parameters.
    pub(crate) async fn post(&mut self, path: &str, body: String) -> Result<Answer, BenchError> {
        let (Parts { status, headers, .. }, body) = self.ask(Method::POST, path, body.into()).await?;
        let retry_after = || headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs);
        Ok(match status {
            StatusCode::OK => Answer::Done,
            StatusCode::CONFLICT => Answer::Refused,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Answer::TurnedAway { retry_after: retry_after() }
            }
            _ => Answer::Other { status, body },
        })
    }

    /// The whole euros in `field` of the object at `path`, which has no cents.
    pub(crate) async fn euros(&mut self, path: &str, field: &str) -> Result<u64, BenchError> {
        self.money(path, field, |money| money.strip_suffix(".00")?.parse().ok()).await
    }

    /// The euros in `field` of the object at `path`, cents left out.
    pub(crate) async fn euros_at_least(&mut self, path: &str, field: &str) -> Result<u64, BenchError> {
        self.money(path, field, |money| money.split_once('.')?.0.parse().ok()).await
    }

    async fn money(&mut self, path: &str, field: &str, read: fn(&str) -> Option<u64>) -> Result<u64, BenchError> {
        let (Parts { status, .. }, body) = self.ask(Method::GET, path, Bytes::new()).await?;
        let unexpected =
            || BenchError::Unexpected { status: status.as_u16(), body: String::from_utf8_lossy(&body).into_owned() };
        let object: serde_json::Value = serde_json::from_slice(&body).map_err(|_| unexpected())?;
        object["fields"][field].as_str().and_then(|money| read(money.strip_prefix("EUR ")?)).ok_or_else(unexpected)
    }

    async fn ask(&mut self, method: Method, path: &str, body: Bytes) -> Result<(Parts, Bytes), BenchError> {
        let failed = |cause: String| BenchError::Server { doing: "asking", cause };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|cause| failed(cause.to_string()))?;
        self.sender.ready().await.map_err(|cause| failed(cause.to_string()))?;
        let answer = self.sender.send_request(request).await.map_err(|cause| failed(cause.to_string()))?;
        let (parts, body) = answer.into_parts();
        Ok((parts, body.collect().await.map_err(|cause| failed(cause.to_string()))?.to_bytes()))
    }
}
