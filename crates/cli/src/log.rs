//! Log lines on standard error, which hold nothing up.
//!
//! A pipe that nobody reads fills, and a write to it then waits for ever. So a thread of its own writes, and lines beyond
//! what the queue takes are dropped, counted, and their number is written as soon as somebody reads again. Panics are
//! logged in the same way, as the message that they print by themselves would wait as well.
//!
//! The writers known to us do not fit: the end of `tracing-appender`'s guard prints to standard output if the queue is
//! full, and panics if nobody reads that either; and its queue is bounded in lines, not in bytes.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;
use std::{mem, panic, thread};

use enact_entities::{Origin, REQUEST_SPANS};
use enact_rebel::Report;
use parking_lot::{Condvar, Mutex};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::args::LogFormat;
use crate::failure::Failure;
use crate::spec;
use crate::traces::Traces;

/// Most bytes that wait to be written.
const BYTES_MAX: usize = 1 << 20;
/// How long the end of the program waits for the last lines to be written.
const LAST_LINES_MAX: Duration = Duration::from_secs(1);

/// Logs what passes `filter`, and gives spans of requests to `traces`; what is returned waits, when dropped, for the last lines.
pub(crate) fn to_stderr(filter: &str, format: LogFormat, traces: Option<&Traces>) -> Result<Log, Failure> {
    let unfit = |error: ParseError| Failure::LogFilter { filter: filter.to_owned(), why: error.to_string() };
    let filter: Targets = filter.parse().map_err(unfit)?;
    let filter = filter.with_target(REQUEST_SPANS, LevelFilter::OFF);
    let lines = Arc::new(Lines::default());
    let writer = Arc::clone(&lines);
    thread::Builder::new()
        .name("enact-log".to_owned())
        .spawn(move || writer.write_to(io::stderr()))
        .map_err(Failure::Runtime)?;
    let queue = Arc::clone(&lines);
    let log = fmt::layer().with_ansi(is_coloured()).with_writer(Queue(queue));
    let log = match format {
        LogFormat::Text => {
            let line = fmt::format().with_ansi(is_coloured());
            log.event_format(WithRequest { line, format }).boxed()
        }
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_span_list(false);
            log.map_event_format(|line| WithRequest { line, format }).boxed()
        }
    };
    registry().with(traces.map(Traces::layer)).with(log.with_filter(filter)).init();
    panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(Log { lines, format })
}

/// Whether colours are seen on standard error, and wanted (<https://no-color.org>).
pub(crate) fn is_coloured() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Lines that end with the id of the request that the running task is answering, if it is.
struct WithRequest<F> {
    line: F,
    format: LogFormat,
}

impl<S, N, F> FormatEvent<S, N> for WithRequest<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let Some(id) = Origin::with_current(|origin| origin.request().to_owned()) else {
            return self.line.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.line.format_event(context, Writer::new(&mut line), event)?;
        // It needs no escapes.
        match (self.format, line.trim_end().strip_suffix('}')) {
            (LogFormat::Json, Some(members)) => writeln!(writer, r#"{members},"request_id":"{id}"}}"#),
            _ => writeln!(writer, "{} request_id={id}", line.trim_end()),
        }
    }
}

/// The log of this process. When dropped it waits until all of it is written, but not for a reader that is away.
pub(crate) struct Log {
    lines: Arc<Lines>,
    format: LogFormat,
}

impl Log {
    /// Says what is wrong with a specification.
    pub(crate) fn say(&self, report: &Report) {
        match self.format {
            LogFormat::Text => spec::print(report),
            LogFormat::Json if report.errors().next().is_some() => tracing::error!("{}", report.render(false)),
            LogFormat::Json if report.diagnostics().is_empty() => {}
            LogFormat::Json => tracing::warn!("{}", report.render(false)),
        }
    }

    /// Says why the program ends, where everything on standard error is to be of one format.
    pub(crate) fn end(self, done: Result<(), Failure>) -> Result<(), Failure> {
        match done {
            Err(failure) if self.format == LogFormat::Json => {
                tracing::error!("{}", failure.in_words());
                Err(Failure::Logged { status: failure.exit_code() })
            }
            done => done,
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut state = self.lines.state.lock();
        state.is_ending = true;
        self.lines.change.notify_all();
        let unwritten = |state: &mut State| state.is_writing || !state.lines.is_empty();
        // What is not written by then is lost: nobody reads it.
        self.lines.change.wait_while_for(&mut state, unwritten, LAST_LINES_MAX);
    }
}

#[derive(Default)]
struct Lines {
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: usize,
    is_writing: bool,
    is_ending: bool,
}

impl Lines {
    fn push(&self, line: &[u8]) {
        let mut state = self.state.lock();
        if state.bytes + line.len() > BYTES_MAX {
            state.dropped += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_vec());
        self.change.notify_all();
    }

    /// Writes what comes, until the end.
    fn write_to(&self, mut out: impl Write) {
        loop {
            let (lines, dropped) = {
                let mut state = self.state.lock();
                state.is_writing = false;
                self.change.notify_all();
                self.change.wait_while(&mut state, |state| state.lines.is_empty() && !state.is_ending);
                if state.lines.is_empty() {
                    return;
                }
                state.is_writing = true;
                state.bytes = 0;
                (mem::take(&mut state.lines), mem::take(&mut state.dropped))
            };
            let written = lines.iter().try_for_each(|line| out.write_all(line));
            let said = match dropped {
                0 => Ok(()),
                count => writeln!(out, "{count} log lines were dropped here: standard error was not read in time"),
            };
            // A full disk, or a reader that has gone: to be said when lines can be written again.
            if written.and(said).is_err() {
                self.state.lock().dropped += lines.len() + dropped;
            }
        }
    }
}

/// Takes one line at a time.
struct Queue(Arc<Lines>);

impl<'a> MakeWriter<'a> for Queue {
    type Writer = QueueWriter<'a>;

    fn make_writer(&'a self) -> QueueWriter<'a> {
        QueueWriter(&self.0)
    }
}

struct QueueWriter<'a>(&'a Lines);

impl Write for QueueWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_queue_does_not_take_is_counted_and_said_where_it_is_missing() {
        let lines = Lines::default();
        let half = vec![b'x'; BYTES_MAX / 2];
        for line in [&half[..], &half, b"dropped", b"dropped too"] {
            lines.push(line);
        }
        lines.state.lock().is_ending = true;
        let mut out = Vec::new();
        lines.write_to(&mut out);
        let (kept, said) = out.split_at(2 * half.len());
        assert!(kept.iter().all(|&byte| byte == b'x'));
        assert!(said.starts_with(b"2 log lines were dropped here: "));
        assert_eq!(lines.state.lock().bytes, 0);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_later_ones_are_tried() {
        let lines = Lines::default();
        lines.push(b"lost");
        lines.state.lock().is_ending = true;
        // A slice takes as much as there is room for, and then fails.
        lines.write_to(&mut [0_u8; 2][..]);
        lines.push(b"kept;");
        let mut out = Vec::new();
        lines.write_to(&mut out);
        assert!(out.starts_with(b"kept;1 log lines were dropped here: "), "{}", String::from_utf8_lossy(&out));
    }
}
