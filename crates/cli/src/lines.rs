//! Where lines of sources begin, for output that names many places.

use enact_rebel::{Position, Source, Span};

/// The sources of a specification, with the offsets at which their lines begin.
pub(crate) struct Lines {
    files: Vec<(Source, Vec<usize>)>,
}

impl Lines {
    pub(crate) fn of(sources: &[Source]) -> Self {
        let begins = |text: &str| std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { files: sources.iter().map(|source| (source.clone(), begins(&source.text))).collect() }
    }

    /// The name of the source of `span`, and where the span begins and ends there, as
    /// [`Report::locate`](enact_rebel::Report::locate) says.
    pub(crate) fn locate(&self, span: Span) -> (&str, Position, Position) {
        let (Source { name, text }, begins) = &self.files[span.source];
        let position = |offset: usize| {
            let line = begins.partition_point(|begin| *begin <= offset);
            Position { line, column: 1 + text[begins[line - 1]..offset].chars().count() }
        };
        (name, position(span.start), position(span.end))
    }
}
