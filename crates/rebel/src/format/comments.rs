//! What stands between two tokens.

/// A comment, documentation included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comment<'a> {
    pub(super) text: &'a str,
    /// Whether a line break stands before it.
    pub(super) begins_line: bool,
    /// Whether an empty line stands before it.
    pub(super) follows_empty_line: bool,
}

impl Comment<'_> {
    /// Whether it goes to the end of its line.
    pub(super) fn ends_line(&self) -> bool {
        self.text.starts_with("//")
    }
}

/// The comments of a gap, and what follows the last one.
#[derive(Debug)]
pub(super) struct Gap<'a> {
    pub(super) comments: Vec<Comment<'a>>,
    /// Whether a line break stands before the token that ends the gap.
    pub(super) breaks_line: bool,
    /// Whether an empty line stands before it.
    pub(super) follows_empty_line: bool,
}

impl<'a> Gap<'a> {
    /// The gap that `text` is: blanks, line breaks and comments.
    pub(super) fn new(mut text: &'a str) -> Self {
        let mut comments = Vec::new();
        loop {
            let blank = text.len() - text.trim_start().len();
            let breaks = text[..blank].matches('\n').count();
            text = &text[blank..];
            let end = match text.as_bytes() {
                [b'/', b'/', ..] => text.find('\n').unwrap_or(text.len()),
                [b'/', b'*', ..] => text[2..].find("*/").map_or(text.len(), |at| at + 4),
                // Nothing else stands between tokens that were read without an error.
                _ => return Self { comments, breaks_line: breaks > 0, follows_empty_line: breaks > 1 },
            };
            let comment = text[..end].trim_end();
            comments.push(Comment { text: comment, begins_line: breaks > 0, follows_empty_line: breaks > 1 });
            text = &text[end..];
        }
    }
}
