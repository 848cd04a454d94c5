//! `GET /metrics`: what the engine and its interface count and what the process takes, in the text format of Prometheus.
//!
//! Labels have values that the specification or this crate declares, so that nothing a client sends adds a series. Counters stand there
//! from the start, at zero, so that their first increase is seen.

mod process;
mod requests;

use std::fmt::{self, Write};

use axum::http::header;
use axum::response::{IntoResponse, Response};
use enact_entities::{DurationCounts, Durations, Membership, Metrics, Standing, Volume};

pub(crate) use self::requests::{Endpoint, Requests};

/// The media type of the format.
pub(crate) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The answer with `metrics` and `requests` of a server that is ready, or not.
pub(crate) fn answer(
    metrics: &Metrics,
    requests: &Requests,
    is_ready: bool,
    membership: Option<&Membership>,
) -> Response {
    let mut text = String::new();
    write_all(&mut text, metrics, requests, is_ready, membership).expect("a string takes all that is written to it");
    ([(header::CONTENT_TYPE, TEXT)], text).into_response()
}

fn write_all(
    text: &mut String,
    metrics: &Metrics,
    requests: &Requests,
    is_ready: bool,
    membership: Option<&Membership>,
) -> fmt::Result {
    write(text, metrics, is_ready)?;
    write_journal(text, metrics)?;
    if let Some(membership) = membership {
        write_node(text, membership)?;
    }
    requests.write(text)?;
    process::write(text)
}

/// Names of classes and events are identifiers, so no label needs an escape.
fn write(text: &mut String, metrics: &Metrics, is_ready: bool) -> fmt::Result {
    let mut events = |name: &str, help: &str, count: fn(&enact_entities::EventCount) -> u64| {
        head(text, name, "counter", help)?;
        metrics.events.iter().try_for_each(|event| {
            writeln!(text, "{name}{{class=\"{}\",event=\"{}\"}} {}", event.class, event.event, count(event))
        })
    };
    events("enact_admitted_total", "Events that an instance admitted.", |event| event.admitted)?;
    events("enact_in_line_total", "Admitted events that stood in line.", |event| event.in_line)?;
    events("enact_refused_total", "Events that an instance refused.", |event| event.refused)?;
    let name = "enact_delayed_total";
    head(text, name, "counter", "Events that waited for another one at their instance, and why.")?;
    for delay in &metrics.delays {
        writeln!(
            text,
            "{name}{{class=\"{}\",event=\"{}\",waits_for=\"{}\",cause=\"{}\"}} {}",
            delay.class, delay.event, delay.waits_for, delay.cause, delay.count
        )?;
    }
    let name = "enact_timeouts_total";
    head(text, name, "counter", "Commands and reads whose deadline passed, by what they waited for.")?;
    for (phase, count) in &metrics.timeouts {
        writeln!(text, "{name}{{phase=\"{phase}\"}} {count}")?;
    }
    let name = "enact_transactions_total";
    head(text, name, "counter", "Transactions that have committed, by how many shards they are of; 8 for more.")?;
    for (span, count) in (1..).zip(&metrics.spans) {
        writeln!(text, "{name}{{shards=\"{span}\"}} {count}")?;
    }
    for (name, help, value) in [
        ("enact_ready", "Whether /health/ready is 200.", usize::from(is_ready)),
        ("enact_commands", "Commands under way.", metrics.commands),
        ("enact_instance_bytes", "About how many bytes of memory instances take.", metrics.entity_bytes),
        ("enact_timers", "Instances with a timer that has not fired.", metrics.timers),
    ] {
        head(text, name, "gauge", help)?;
        writeln!(text, "{name} {value}")?;
    }
    Ok(())
}

fn write_journal(text: &mut String, Metrics { appends, volume, .. }: &Metrics) -> fmt::Result {
    let name = "enact_append_seconds";
    head(text, name, "histogram", "How long a record took to become durable, from being given to the journal.")?;
    histogram(text, name, "", appends)?;
    let Volume { last, bytes, free_bytes } = volume;
    for (name, help, value) in [
        (
            "enact_journal_records",
            "Records that the journal has ever had: the position of the last one.",
            last.map(|last| last.0),
        ),
        ("enact_journal_bytes", "Bytes that the files of the journal take.", *bytes),
        ("enact_disk_free_bytes", "Bytes that the file system of the journal has left.", *free_bytes),
    ] {
        if let Some(value) = value {
            head(text, name, "gauge", help)?;
            writeln!(text, "{name} {value}")?;
        }
    }
    Ok(())
}

fn write_node(text: &mut String, membership: &Membership) -> fmt::Result {
    let Membership { standing, shards, counts, .. } = membership;
    for (name, help, value) in [
        (
            "enact_node_joined",
            "Whether the node holds its lease, under the specification of all.",
            usize::from(*standing == Standing::Joined),
        ),
        ("enact_shards", "Shards that the node serves.", shards.len()),
    ] {
        head(text, name, "gauge", help)?;
        writeln!(text, "{name} {value}")?;
    }
    for (name, help, value) in [
        ("enact_forwarded_total", "Commands and reads that were sent to another node.", counts.forwarded),
        ("enact_shards_opened_total", "Shards that the node has begun to serve.", counts.opened),
        ("enact_shards_given_up_total", "Shards that another writer took, or whose journal failed.", counts.given_up),
        ("enact_leases_lost_total", "Leases that the node has lost.", counts.leases_lost),
    ] {
        head(text, name, "counter", help)?;
        writeln!(text, "{name} {value}")?;
    }
    Ok(())
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// The series of one histogram, with `labels` that end in a comma if there are any.
fn histogram(text: &mut String, name: &str, labels: &str, counts: &DurationCounts) -> fmt::Result {
    let mut count = 0;
    let bounds = Durations::BOUNDS.iter().map(|bound| bound.as_secs_f64().to_string());
    for (bound, bucket) in bounds.chain(["+Inf".to_owned()]).zip(counts.buckets) {
        count += bucket;
        writeln!(text, "{name}_bucket{{{labels}le=\"{bound}\"}} {count}")?;
    }
    let labels = labels.strip_suffix(',').map_or(String::new(), |labels| format!("{{{labels}}}"));
    writeln!(text, "{name}_sum{labels} {}\n{name}_count{labels} {count}", counts.total.as_secs_f64())
}
