//! Taking the body of a command: declared as JSON, bounded in size and in time.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::json::{Members, parse_object};
use crate::problem::{Problem, ProblemKind};

/// Greatest size of the body of a command, in bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest time in which the whole body of a command must arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the body of a command or a batch, of at most `bytes_max`.
///
/// The declared type is checked although a body is always JSON: a browser sends a form of another origin without
/// asking first, but not `application/json`.
pub(crate) async fn read<B>(headers: &HeaderMap, body: B, bytes_max: usize) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>>,
{
    if !is_json(headers) {
        let detail = "send the parameters as a JSON object with `Content-Type: application/json`";
        return Err(Problem::new(ProblemKind::UnsupportedMediaType, detail));
    }
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > bytes_max as u64) {
        return Err(too_large(bytes_max));
    }
    let mut collecting = pin!(collect(Limited::new(body, bytes_max)));
    // Most bodies arrive together with their head: these need no timer.
    let collected = match poll_fn(|cx| Poll::Ready(collecting.as_mut().poll(cx))).await {
        Poll::Ready(collected) => Ok(collected),
        Poll::Pending => timeout(BODY_TIMEOUT, collecting).await,
    };
    match collected {
        Ok(Ok(content)) => Ok(content),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Ok(Err(_)) => Err(Problem::new(ProblemKind::MalformedBody, "the body ended before its declared length")),
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
            Err(Problem::new(ProblemKind::BodyTimeout, detail))
        }
    }
}

/// The content of `body`; that of one frame, which most bodies are, stays where it is.
async fn collect<B: HttpBody<Data = Bytes>>(body: B) -> Result<Bytes, B::Error> {
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if first.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.into() })
}

/// The parameters of the command with the body `content`.
pub(crate) fn members(content: &[u8]) -> Result<Members<'_>, Problem> {
    parse_object(content)
        .map_err(|error| Problem::new(ProblemKind::MalformedBody, format!("not one JSON object: {error}")))
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut declared = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(only), None) = (declared.next(), declared.next()) else { return false };
    let Ok(only) = only.to_str() else { return false };
    let essence = only.split_once(';').map_or(only, |(essence, _)| essence);
    essence.trim().eq_ignore_ascii_case("application/json")
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(ProblemKind::BodyTooLarge, format!("the body has at most {bytes_max} bytes here"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    async fn status(content_type: Option<&'static str>, body: impl Into<Body>) -> u16 {
        let mut headers = HeaderMap::new();
        if let Some(content_type) = content_type {
            headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        }
        match read(&headers, body.into(), BODY_BYTES_MAX).await.and_then(|content| members(&content).map(drop)) {
            Ok(()) => 200,
            Err(problem) => axum::response::IntoResponse::into_response(problem).status().as_u16(),
        }
    }

    fn object_of(bytes: usize) -> String {
        format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - r#"{"a":""}"#.len()))
    }

    #[tokio::test]
    async fn only_declared_json_of_bounded_size_is_read() {
        let json = Some("application/json");
        assert_eq!(status(json, "{}").await, 200);
        assert_eq!(status(Some("Application/JSON; charset=utf-8"), "{}").await, 200);
        assert_eq!(status(json, "").await, 422);
        assert_eq!(status(json, "nonsense").await, 422);
        assert_eq!(status(json, object_of(BODY_BYTES_MAX)).await, 200);
        assert_eq!(status(json, object_of(BODY_BYTES_MAX + 1)).await, 413);
        for other in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonp")] {
            assert_eq!(status(other, "{}").await, 415, "{other:?}");
        }
    }

    #[tokio::test]
    async fn a_body_of_several_frames_is_read_as_one() {
        let frames = ["", r#"{"a""#, "", ":1", "}"].map(Ok::<_, std::io::Error>);
        let body = Body::from_stream(futures_util::stream::iter(frames));
        let headers = [(header::CONTENT_TYPE, "application/json".parse().unwrap())].into_iter().collect();
        assert_eq!(read(&headers, body, 7).await.unwrap(), r#"{"a":1}"#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let endless = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        assert_eq!(status(Some("application/json"), endless).await, 408);
    }
}
