//! Source texts and places in them.

/// A source text with the name that diagnostics give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Usually a file name. Only shown, never opened.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Source {
    /// A source called `name`.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// A range of bytes in one of the sources given to [`check`](crate::check). Ends lie on character boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The index of the source.
    pub source: usize,
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// The smallest span from the start of this one to the end of `other`, both of one source.
    pub(crate) fn to(self, other: Span) -> Span {
        Span { end: other.end.max(self.start), ..self }
    }
}
