//! From a plan to text.

use super::WIDTH;
use super::comments::Comment;
use super::plan::{Plan, flat_width, width};
use super::spacing::is_apart;
use crate::source::Span;
use crate::syntax::token::Token;

/// How much deeper a line is indented that goes on with the one before it.
const CONTINUED: usize = 4;

pub(super) struct Printer<'a> {
    tokens: &'a [(Token, Span)],
    plan: &'a Plan<'a>,
    printed: String,
    line: String,
    /// Of the line that was begun last and is no continuation.
    indent: usize,
    /// Whether the tokens up to the next start of a line keep the breaks that they are written with.
    keeps_breaks: bool,
    /// Whether nothing may follow on this line.
    is_ended: bool,
}

impl<'a> Printer<'a> {
    pub(super) fn new(text: &str, tokens: &'a [(Token, Span)], plan: &'a Plan<'a>) -> Self {
        Self {
            tokens,
            plan,
            printed: String::with_capacity(text.len()),
            line: String::new(),
            indent: 0,
            keeps_breaks: false,
            is_ended: false,
        }
    }

    pub(super) fn print(mut self) -> String {
        let mut before = None;
        for index in 0..self.tokens.len() {
            self.comments(index);
            if let Some(indent) = self.plan.starts[index] {
                self.start(index, indent);
            }
            if !self.plan.texts[index].is_empty() {
                self.token(index, before);
                before = Some(index);
            }
        }
        self.end_line();
        self.printed
    }

    fn start(&mut self, index: usize, indent: usize) {
        self.end_line();
        let gap = &self.plan.gaps[index];
        let is_class = self.begins_class(index) && gap.comments.is_empty();
        if gap.follows_empty_line || is_class {
            self.empty_line();
        }
        self.begin_line(indent);
        self.indent = indent;
        let next = (index + 1..self.tokens.len()).find(|&next| self.plan.starts[next].is_some());
        let end = next.unwrap_or(self.tokens.len());
        self.keeps_breaks = indent + flat_width(self.plan, self.tokens, index..end) > WIDTH;
    }

    /// Whether a class begins here, `abstract` or `external` perhaps before it.
    fn begins_class(&self, index: usize) -> bool {
        let is_class = |index: usize| self.tokens.get(index).is_some_and(|(token, _)| *token == Token::Class);
        let is_word = self.tokens[index].0 == Token::Name && is_class(index + 1);
        (is_class(index) || is_word) && self.plan.starts[index] == Some(0)
    }

    /// Prints a token, the one at `before` being the last that was printed.
    fn token(&mut self, index: usize, before: Option<usize>) {
        let is_broken = self.plan.starts[index].is_none() && self.plan.gaps[index].breaks_line && self.keeps_breaks;
        if self.is_ended || is_broken {
            self.end_line();
            self.begin_line(self.indent + CONTINUED);
        } else if let Some(before) = before
            && self.plan.starts[index].is_none()
            && self.is_apart(before, index)
        {
            self.line.push(' ');
        }
        self.line.push_str(&self.plan.texts[index]);
    }

    fn is_apart(&self, before: usize, index: usize) -> bool {
        let earlier = before.checked_sub(1).map(|earlier| self.tokens[earlier].0);
        is_apart(earlier, self.tokens[before].0, self.tokens[index].0, self.plan.within[index])
            && !self.line.trim_start().is_empty()
    }

    fn comments(&mut self, index: usize) {
        let start = self.plan.starts[index];
        for (number, comment) in self.plan.gaps[index].comments.iter().enumerate() {
            let is_before_class = number == 0 && self.begins_class(index);
            if comment.begins_line || self.printed.is_empty() && self.line.is_empty() {
                self.comment_on_its_line(*comment, start, is_before_class);
            } else {
                self.comment_behind(*comment, start);
            }
        }
    }

    fn comment_on_its_line(&mut self, comment: Comment<'_>, start: Option<usize>, is_before_class: bool) {
        self.end_line();
        if comment.follows_empty_line || is_before_class {
            self.empty_line();
        }
        self.begin_line(start.unwrap_or(self.indent + CONTINUED));
        self.line.push_str(comment.text);
        self.is_ended = true;
    }

    fn comment_behind(&mut self, comment: Comment<'_>, start: Option<usize>) {
        let stands_below = self.is_ended;
        if stands_below {
            self.end_line();
            self.begin_line(start.unwrap_or(self.indent + CONTINUED));
        } else if width(self.line.trim_start()) > 0 {
            self.line.push_str(if comment.ends_line() { "  " } else { " " });
        }
        self.line.push_str(comment.text);
        self.is_ended = stands_below || comment.ends_line();
    }

    fn begin_line(&mut self, indent: usize) {
        self.line.extend(std::iter::repeat_n(' ', indent));
    }

    fn end_line(&mut self) {
        let line = self.line.trim_end();
        if !line.is_empty() {
            self.printed.push_str(line);
            self.printed.push('\n');
        }
        self.line.clear();
        self.is_ended = false;
    }

    /// One empty line, unless there is one or nothing was printed.
    fn empty_line(&mut self) {
        if !self.printed.is_empty() && !self.printed.ends_with("\n\n") {
            self.printed.push('\n');
        }
    }
}
