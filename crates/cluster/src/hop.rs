//! For which request a message is that goes from node to node.
//!
//! Headers of the message say it: the id of the request, and its place in a trace. The message is the same without them, and a node of a
//! version that does not know them passes over them.

use std::sync::Arc;

use async_nats::HeaderMap;
use enact_entities::{Origin, REQUEST_SPANS};
use tracing::{Span, info_span};

/// The header with the id of the request.
const REQUEST: &str = "X-Request-Id";
/// What names of a trace and their values may have together, in bytes; more is not sent.
const TRACE_BYTES_MAX: usize = 1 << 10;

/// The place of a span in its trace, as names and values.
type Place = Vec<(String, String)>;

/// How the place of a span in its trace is told to another node, such as W3C Trace Context.
#[derive(Clone, Copy, Debug)]
pub struct Propagation {
    /// The place as names and values: letters, digits and `-`, and visible characters. None for a span without one.
    pub tell: fn(&Span) -> Place,
    /// Gives a span, which nobody has used yet, the place below the one that names and values tell.
    pub join: fn(&Span, &[(String, String)]),
}

/// The headers of what the running task sends, if it works for a request.
pub(crate) fn headers(propagation: Option<Propagation>) -> Option<HeaderMap> {
    Origin::with_current(|origin| {
        let place = propagation.filter(|_| !origin.span().is_disabled()).map(|traces| (traces.tell)(origin.span()));
        headers_of(origin.request(), place.unwrap_or_default())
    })
}

fn headers_of(request: &str, place: Place) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(REQUEST, request);
    let mut left = TRACE_BYTES_MAX;
    for (name, value) in place {
        let Some(rest) = left.checked_sub(name.len() + value.len()) else { continue };
        left = rest;
        headers.insert(name, value);
    }
    headers
}

/// The request that a question with these headers is asked for; its span has the name of what is asked for.
pub(crate) fn asked(propagation: Option<Propagation>, headers: Option<&HeaderMap>, what: &str) -> Option<Origin> {
    let (request, trace) = told(headers?)?;
    let Some(traces) = propagation.filter(|_| !trace.is_empty()) else {
        return Some(Origin::new(request, Span::none()));
    };
    let span = info_span!(
        target: REQUEST_SPANS,
        parent: None,
        "forwarded",
        otel.name = format_args!("forwarded {what}"),
        otel.kind = "server",
        enact.request_id = &*request,
    );
    (traces.join)(&span, &trace);
    Some(Origin::new(request, span))
}

/// The request that a message of an engine with these headers is sent for.
pub(crate) fn sent(propagation: Option<Propagation>, headers: Option<&HeaderMap>) -> Option<Origin> {
    let (request, trace) = told(headers?)?;
    let traces = propagation.filter(|_| !trace.is_empty());
    Some(match traces {
        Some(traces) => Origin::elsewhere(request, move |span| (traces.join)(span, &trace)),
        None => Origin::new(request, Span::none()),
    })
}

/// The id of the request, and its place in a trace, which may be empty.
fn told(headers: &HeaderMap) -> Option<(Arc<str>, Place)> {
    let request = headers.get(REQUEST)?.as_str();
    let others = headers.iter().filter(|(name, _)| name.to_string() != REQUEST);
    let trace = others.filter_map(|(name, values)| Some((name.to_string(), values.first()?.to_string())));
    Origin::is_id(request.as_bytes()).then(|| (request.into(), trace.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_they_were_told_as_far_as_there_is_room_and_the_id_is_one() {
        let named = |name: &str, bytes: usize| (name.to_owned(), "x".repeat(bytes));
        let (parent, longest) = (named("parent", 55), named("state", TRACE_BYTES_MAX - 61 - 5));
        let too_long = named("state", TRACE_BYTES_MAX - 61 - 4);
        for (request, place, expected) in [
            ("a-1", vec![], Some(vec![])),
            ("a-1", vec![parent.clone(), longest.clone()], Some(vec![parent.clone(), longest])),
            ("a-1", vec![parent.clone(), too_long], Some(vec![parent.clone()])),
            ("a \"1\"", vec![parent], None),
            ("", vec![], None),
        ] {
            let told = told(&headers_of(request, place)).map(|(id, mut place)| {
                place.sort_unstable();
                assert_eq!(&*id, request);
                place
            });
            assert_eq!(told, expected, "{request}");
        }
        assert!(told(&HeaderMap::new()).is_none());
    }
}
