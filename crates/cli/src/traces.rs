//! Spans of requests for a collector of OpenTelemetry: sent by OTLP over HTTP, beside the requests.
//!
//! A thread of its own takes finished spans from a queue and sends some at a time. Where the collector is away or slow, the queue fills, and
//! further spans are dropped: no request waits, and none fails. The log says once that spans are not taken, and once when they are again.
//! What the library would log each time is left out.

#[cfg(feature = "nats")]
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(feature = "nats")]
use enact_cluster::Propagation;
use enact_entities::REQUEST_SPANS;
use enact_server::JoinTrace;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::EnvResourceDetector;
use opentelemetry_sdk::trace::{self, SdkTracerProvider, SpanData};
use reqwest::blocking::Client;
use reqwest::{Url, redirect};
use thiserror::Error;
use tracing::level_filters::LevelFilter;
use tracing::{Subscriber, info, warn};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use crate::args::{self, ClientTls};
use crate::trust::{self, Authorities, TrustError};

/// The name of the service and of what makes the spans.
const NAME: &str = "enact";
/// Where a collector takes spans, if its address does not say.
const PATH: &str = "/v1/traces";
/// How long the collector may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long the end of a server waits for the last spans to be taken.
const LAST_SPANS_MAX: Duration = Duration::from_secs(2);

/// Why spans cannot be sent.
#[derive(Debug, Error)]
pub(crate) enum TracesError {
    #[error("{url} is no address of a collector: give one such as http://127.0.0.1:4318")]
    Address { url: String },
    #[error("the collector cannot be known over TLS")]
    Trust(#[source] TrustError),
    #[error("no client of HTTP can be made")]
    Unmade(#[source] reqwest::Error),
    #[error("spans cannot be exported as the variables of OpenTelemetry say")]
    Exporter(#[source] ExporterBuildError),
}

/// The way of spans to a collector.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Those of a server with these settings, if it has a collector.
    pub(crate) fn of(args: &args::Serve) -> Result<Option<Self>, TracesError> {
        let Some(url) = &args.traces else { return Ok(None) };
        let endpoint = endpoint(url).ok_or_else(|| TracesError::Address { url: url.clone() })?;
        let authorities = if endpoint.scheme() == "https" { Authorities::All } else { Authorities::None };
        let no_files = ClientTls { tls_ca: None, tls_cert: None, tls_key: None };
        let config = trust::config(&no_files, authorities).map_err(TracesError::Trust)?;
        let client = Client::builder().tls_backend_preconfigured(config).redirect(redirect::Policy::none());
        let client = client.timeout(ANSWER_MAX).build().map_err(TracesError::Unmade)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(String::from(endpoint))
            .with_protocol(Protocol::HttpBinary)
            .build()
            .map_err(TracesError::Exporter)?;
        let exporter = Telling { exporter, url: url.clone(), is_away: AtomicBool::new(false) };
        let provider = SdkTracerProvider::builder().with_resource(resource(args)).with_batch_exporter(exporter);
        Ok(Some(Self { provider: provider.build() }))
    }

    /// What takes up spans of requests, and nothing else.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer(NAME));
        // What follows from our text is the same for all.
        let layer = layer.with_location(false).with_threads(false).with_target(false).with_tracked_inactivity(false);
        layer.with_filter(Targets::new().with_target(REQUEST_SPANS, LevelFilter::INFO))
    }
}

impl Drop for Traces {
    /// Sends the last spans, but does not wait for long.
    fn drop(&mut self) {
        if let Err(cause) = self.provider.shutdown_with_timeout(LAST_SPANS_MAX) {
            warn!(%cause, "the last spans may not have reached the collector");
        }
    }
}

/// Makes a span a part of the trace that the headers name by W3C Trace Context.
pub(crate) const JOIN: JoinTrace = |span, headers| {
    let named = TraceContextPropagator::new().extract_with_context(&Context::new(), &HeaderExtractor(headers));
    // A span that nobody takes up has no trace.
    let _ = span.set_parent(named);
};

/// How other nodes of a cluster are told the place of a span, by the same names.
#[cfg(feature = "nats")]
pub(crate) const PROPAGATION: Propagation = Propagation {
    tell: |span| {
        let mut told = HashMap::new();
        TraceContextPropagator::new().inject_context(&span.context(), &mut told);
        told.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    },
    join: |span, told| {
        let told: HashMap<String, String> = told.iter().cloned().collect();
        let named = TraceContextPropagator::new().extract_with_context(&Context::new(), &told);
        // As above.
        let _ = span.set_parent(named);
    },
};

fn endpoint(url: &str) -> Option<Url> {
    let mut url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    if url.path() == "/" {
        url.set_path(PATH);
    }
    Some(url)
}

/// What all spans have in common; the variables `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` precede.
fn resource(args: &args::Serve) -> Resource {
    let node = args.node.iter().map(|node| KeyValue::new("service.instance.id", node.clone()));
    let of_program = [KeyValue::new("service.name", NAME), KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
    let name = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
    Resource::builder_empty()
        .with_attributes(of_program.into_iter().chain(node))
        .with_detector(Box::new(EnvResourceDetector::new()))
        .with_attributes(name.map(|name| KeyValue::new("service.name", name)))
        .build()
}

/// An exporter that says once that the collector is away, and once that it is back.
#[derive(Debug)]
struct Telling {
    exporter: SpanExporter,
    url: String,
    is_away: AtomicBool,
}

impl trace::SpanExporter for Telling {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.exporter.export(batch).await;
        match &sent {
            Ok(()) if self.is_away.swap(false, Ordering::Relaxed) => {
                info!(collector = self.url, "spans are taken again");
            }
            Err(cause) if !self.is_away.swap(true, Ordering::Relaxed) => {
                warn!(%cause, collector = self.url, "spans are not taken and are dropped; requests go on");
            }
            Ok(()) | Err(_) => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
