//! Recursive descent: how a source is read, token by token. What its parts consist of stands in the modules below.
//!
//! A part that cannot be read is reported once; the parser resumes at the next token that begins a part.

mod classes;
mod declarations;
mod events;
mod items;
mod versions;

use std::ops::Range;

use super::breaks::Breaks;
use super::layout::Layout;
use super::modules::{Imported, Modules, Opening};
use super::token::{Token, Tokens, tokenize};
use super::tree::{File, Ident};
use crate::diagnostic::{Code, Diagnostic};
use crate::limits::{DECLARATIONS_MAX, DEPTH_MAX, SOURCE_BYTES_MAX};
use crate::source::Span;

/// How many declarations were read, over all sources.
pub(crate) type Declarations = usize;

/// The error is already reported.
#[derive(Debug)]
pub(super) struct Reported;

pub(super) type Parsed<T> = Result<T, Reported>;

/// What says where an item ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separation {
    /// Line breaks and indentation, as documented.
    Lines,
    /// Commas and words alone: blanks and line breaks mean nothing.
    Words,
}

/// One source, read.
pub(crate) struct Parse {
    pub(crate) file: File,
    pub(crate) tokens: Vec<(Token, Span)>,
    pub(crate) breaks: Breaks,
    /// The tokens that are in no part of the tree, because a part was wrong.
    pub(crate) torn: Vec<Range<usize>>,
}

/// Reads one source. Reports what is wrong and returns what could be read.
pub(crate) fn parse(
    source: usize,
    text: &str,
    separation: Separation,
    modules: &Modules,
    declarations: &mut Declarations,
    report: &mut dyn FnMut(Diagnostic),
) -> Parse {
    if text.len() > SOURCE_BYTES_MAX {
        let span = Span { source, start: 0, end: 0 };
        let message = format!("a source has at most {} MiB, and this one is longer", SOURCE_BYTES_MAX >> 20);
        report(Diagnostic::new(Code::Limit, span, message, "too long").help("split it into several sources"));
        return Parse { file: File::default(), tokens: Vec::new(), breaks: Breaks::default(), torn: Vec::new() };
    }
    let mut tokens = tokenize(source, text, &mut |diagnostic| report(diagnostic));
    versions::find_words(text, &mut tokens.tokens);
    let layout = Layout::new(text, &tokens.tokens);
    let breaks = Breaks::default();
    let mut parser = Parser {
        text,
        tokens,
        layout,
        separation,
        modules,
        imported: Vec::new(),
        has_declared: false,
        is_before_event: false,
        breaks,
        position: 0,
        part: 0,
        torn: Vec::new(),
        depth: 0,
        section: 0,
        declarations,
        report,
    };
    let file = parser.file();
    Parse { file, tokens: parser.tokens.tokens, breaks: parser.breaks, torn: parser.torn }
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    tokens: Tokens,
    layout: Layout,
    pub(super) separation: Separation,
    pub(super) modules: &'a Modules,
    pub(super) imported: Vec<Imported>,
    /// Whether something was read that is no import.
    pub(super) has_declared: bool,
    /// Whether the names that come next end with an event.
    pub(super) is_before_event: bool,
    breaks: Breaks,
    position: usize,
    /// Where the part begins that is being read.
    part: usize,
    torn: Vec<Range<usize>>,
    /// How deep the expression that is being read nests.
    depth: usize,
    /// The first item of the section that is being read.
    section: usize,
    declarations: &'a mut Declarations,
    report: &'a mut dyn FnMut(Diagnostic),
}

impl Parser<'_> {
    fn file(&mut self) -> File {
        let mut file = File::default();
        let mut rounding_at: Option<Span> = None;
        loop {
            let start = self.position;
            self.part = start;
            self.breaks.begin_line(start, 0);
            let opening = self.opening();
            let is_heading = matches!(opening, Some(Opening::Module | Opening::Import));
            let parsed = match self.peek() {
                Token::End => return file,
                _ if opening == Some(Opening::Module) => self.module(&mut file),
                _ if opening == Some(Opening::Import) => self.import(&mut file),
                _ if opening == Some(Opening::Event) => self.shared().map(|shared| file.shared.push(shared)),
                _ if opening.is_some() => self.class().map(|class| file.classes.push(class)),
                Token::Class => self.class().map(|class| file.classes.push(class)),
                Token::Enum => self.enumeration().map(|enumeration| file.enums.push(enumeration)),
                Token::Const => self.constant().map(|constant| file.constants.push(constant)),
                Token::Fn => self.function().map(|function| file.functions.push(function)),
                Token::Rounding => self.rounding(&mut rounding_at).map(|rounding| file.rounding = rounding),
                Token::Name if self.begins_roles() => self.roles().map(|roles| file.roles.extend(roles)),
                Token::Migrate => self.migrate().map(|migrate| file.migrations.push(migrate)),
                Token::Name if self.begins_record() => self.record().map(|record| file.records.push(record)),
                _ => Err(self.unexpected("`class`, `enum`, `record`, `const` or `fn`")),
            };
            self.has_declared |= !is_heading;
            if parsed.is_err() {
                self.resume(start, |token| {
                    matches!(
                        token,
                        Token::Class
                            | Token::Enum
                            | Token::Const
                            | Token::Fn
                            | Token::Rounding
                            | Token::Migrate
                            | Token::End
                    )
                });
            }
        }
    }

    /// Whether something that is no token, and is reported, stands before the next token.
    fn follows_unknown(&self) -> bool {
        self.tokens.behind_unknown.binary_search(&self.position).is_ok()
    }

    /// Whether a line that begins with the next token may begin an item.
    pub(super) fn separates_here(&self) -> bool {
        self.separates_after(0)
    }

    /// The same of the token that stands `distance` behind the next one.
    pub(super) fn separates_after(&self, distance: usize) -> bool {
        self.separation == Separation::Lines && self.layout.begins_line(self.position + distance)
    }

    pub(super) fn begins_line(&self) -> bool {
        self.layout.begins_line(self.position)
    }

    /// Whether the line ends before the next token, as far as lines mean something.
    pub(super) fn follows_line(&self) -> bool {
        self.begins_line() || self.separation == Separation::Words
    }

    /// The place of the token before the next one.
    pub(super) fn last_span(&self) -> Span {
        self.tokens.tokens[self.position.saturating_sub(1)].1
    }

    /// How deep the line of the next token is indented.
    pub(super) fn indentation(&self) -> usize {
        self.layout.indentation(self.position)
    }

    pub(super) fn separated<T>(&mut self, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Begins a nested part. What fails inside stays entered; [`Parser::resume`] leaves all.
    pub(super) fn enter(&mut self) -> Parsed<()> {
        if self.depth >= DEPTH_MAX {
            return Err(self.too_deep(self.span()));
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn too_deep(&mut self, span: Span) -> Reported {
        let message = format!("this nests deeper than {DEPTH_MAX} levels");
        self.fail(Diagnostic::new(Code::Limit, span, message, "too deep").help("move a part into a `fn`"))
    }

    fn declare(&mut self) -> Parsed<()> {
        *self.declarations += 1;
        if *self.declarations <= DECLARATIONS_MAX {
            return Ok(());
        }
        let reported = if *self.declarations == DECLARATIONS_MAX + 1 {
            let message = format!("a specification has at most {DECLARATIONS_MAX} declarations");
            self.fail(Diagnostic::new(Code::Limit, self.span(), message, "one too many"))
        } else {
            Reported
        };
        self.position = self.tokens.tokens.len() - 1;
        Err(reported)
    }

    pub(super) fn declared_name(&mut self) -> Parsed<Ident> {
        self.declare()?;
        self.name()
    }

    pub(super) fn name(&mut self) -> Parsed<Ident> {
        let span = self.expect(Token::Name)?;
        Ok(Ident { name: self.slice(span).into(), span })
    }

    /// The documentation that stands before the next token.
    pub(super) fn documentation(&self) -> String {
        let documentation = &self.tokens.documentation;
        let found = documentation.binary_search_by_key(&self.position, |(index, _)| *index);
        found.map_or_else(|_| String::new(), |index| documentation[index].1.clone())
    }

    pub(super) fn peek(&self) -> Token {
        self.peek_after(0)
    }

    pub(super) fn peek_after(&self, distance: usize) -> Token {
        self.tokens.tokens.get(self.position + distance).map_or(Token::End, |(token, _)| *token)
    }

    /// Whether the next token is this word, which is one only here.
    pub(super) fn is_next_word(&self, word: &str) -> bool {
        self.peek() == Token::Name && self.slice(self.span()) == word
    }

    /// Whether the token before the next one is this word.
    pub(super) fn is_last_word(&self, word: &str) -> bool {
        let last = self.position.checked_sub(1).map(|last| self.tokens.tokens[last]);
        last.is_some_and(|(token, span)| token == Token::Name && self.slice(span) == word)
    }

    /// The place of the next token.
    pub(super) fn span(&self) -> Span {
        self.span_after(0)
    }

    /// The place of the token that stands `distance` behind the next one, which is there.
    pub(super) fn span_after(&self, distance: usize) -> Span {
        self.tokens.tokens[self.position + distance].1
    }

    pub(super) fn slice(&self, span: Span) -> &str {
        &self.text[span.start..span.end]
    }

    /// Takes the next token; the end stays.
    pub(super) fn advance(&mut self) -> Span {
        let span = self.span();
        if self.position + 1 < self.tokens.tokens.len() {
            self.position += 1;
        }
        span
    }

    pub(super) fn eat(&mut self, token: Token) -> bool {
        let is_next = self.peek() == token;
        if is_next {
            self.advance();
        }
        is_next
    }

    pub(super) fn expect(&mut self, token: Token) -> Parsed<Span> {
        if self.peek() == token { Ok(self.advance()) } else { Err(self.unexpected(token.shown())) }
    }

    /// Takes the bracket that closes the one at `opener`. If a part begins where it is due, the fault is at the opener.
    pub(super) fn close(&mut self, opener: Span, closer: Token) -> Parsed<Span> {
        if self.peek() == closer || !self.peek().begins_part() {
            return self.expect(closer);
        }
        let message = format!("this `{}` is not closed", self.slice(opener));
        let diagnostic = Diagnostic::new(Code::Syntax, opener, message, "opened here");
        let due = Span { start: self.span().start, end: self.span().start, ..opener };
        Err(self.fail(diagnostic.and(due, format!("expected {} before this", closer.shown()))))
    }

    pub(super) fn unexpected(&mut self, expected: &str) -> Reported {
        // What stands between is reported, and may be all that is wrong.
        if self.follows_unknown() {
            return Reported;
        }
        let (token, span) = (self.peek(), self.span());
        let found = if token == Token::Name { format!("`{}`", self.slice(span)) } else { token.shown().to_owned() };
        let message = format!("expected {expected}, found {found}");
        let mut diagnostic = Diagnostic::new(Code::Syntax, span, message, format!("expected {expected}"));
        if expected == Token::Name.shown()
            && self.slice(span).bytes().all(|byte| byte.is_ascii_lowercase())
            && span.end > span.start
        {
            diagnostic =
                diagnostic.help(format!("`{}` is a word of the language; choose another name", self.slice(span)));
        }
        self.fail(diagnostic)
    }

    pub(super) fn fail(&mut self, diagnostic: Diagnostic) -> Reported {
        (self.report)(diagnostic);
        Reported
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        (self.report)(diagnostic);
    }

    /// Skips to the next token that `begins` something, and at least one token if none was read since `start`.
    fn resume(&mut self, start: usize, begins: impl Fn(Token) -> bool) {
        self.depth = 0;
        if self.position == start {
            self.advance();
        }
        while !begins(self.peek()) && self.opening().is_none() {
            self.advance();
        }
        self.torn.push(self.part..self.position);
    }
}
