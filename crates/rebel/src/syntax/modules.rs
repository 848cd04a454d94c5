//! The head of a source: its module and its imports, and names with dots.

use std::collections::{HashMap, HashSet};

use super::heading::{Heading, declared};
use super::parser::{Parsed, Parser};
use super::token::Token;
use super::tree::{File, Ident, Import, Module};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::{Source, Span};

/// What the modules that are checked together declare, by their names, as far as that is known before they are read.
///
/// `a.b.c` is a field of a field or a name of a module, which only the modules can tell.
#[derive(Debug)]
pub(crate) enum Modules {
    /// What each module declares.
    Known(HashMap<String, HashSet<String>>),
    /// One source is read by itself.
    Unknown,
}

impl Modules {
    pub(crate) fn of(sources: &[Source]) -> Self {
        let headings: Vec<Heading> = sources.iter().map(|source| Heading::read(&source.text)).collect();
        if headings.iter().all(|heading| heading.imports.is_empty()) {
            return Self::Known(HashMap::new());
        }
        let mut known: HashMap<String, HashSet<String>> = HashMap::new();
        for (heading, source) in headings.iter().zip(sources) {
            if let Some(module) = &heading.module {
                known.entry(module.to_string()).or_default().extend(declared(&source.text));
            }
        }
        Self::Known(known)
    }
}

/// The words of the head of a source, and of declarations that are words only where a declaration begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    Module,
    Import,
    Abstract,
    External,
    Event,
}

impl Parser<'_> {
    /// The declaration that a word begins here which is one only at the beginning of a declaration.
    pub(super) fn opening(&self) -> Option<Opening> {
        if self.peek() != Token::Name || !self.separates_here() || self.separates_after(1) {
            return None;
        }
        let opening = match self.slice(self.span()) {
            "module" => Opening::Module,
            "import" => Opening::Import,
            "abstract" => Opening::Abstract,
            "external" => Opening::External,
            "event" => Opening::Event,
            _ => return None,
        };
        let expected = match opening {
            Opening::Abstract | Opening::External => Token::Class,
            _ => Token::Name,
        };
        (self.peek_after(1) == expected).then_some(opening)
    }

    pub(super) fn module(&mut self, file: &mut File) -> Parsed<()> {
        let keyword = self.advance();
        let name = self.qualified_name()?;
        let mut version = None;
        if self.is_next_word("version") && !self.separates_here() {
            self.advance();
            version = self.version()?;
        }
        let span = keyword.to(self.last_span());
        self.end_of_line()?;
        if let Some(earlier) = &file.module {
            let diagnostic = Diagnostic::new(Code::Duplicate, keyword, "a file is one module", "a second one");
            self.report(diagnostic.and(earlier.name.span, "the first one").help("put it into a file of its own"));
            return Ok(());
        }
        if !file.imports.is_empty() || self.has_declared {
            let diagnostic = Diagnostic::new(Code::Syntax, keyword, "`module` after something else", "too late");
            self.report(diagnostic.help("the module is named in the first line of its file"));
        }
        file.module = Some(Module { name, version, span });
        Ok(())
    }

    fn version(&mut self) -> Parsed<Option<(u32, Span)>> {
        let span = self.expect(Token::Integer)?;
        match self.slice(span).parse() {
            Ok(version) if version > 0 => Ok(Some((version, span))),
            _ => {
                let message = format!("a version is a number from 1 to {}", u32::MAX);
                self.report(Diagnostic::new(Code::Literal, span, message, "no version"));
                Ok(None)
            }
        }
    }

    pub(super) fn import(&mut self, file: &mut File) -> Parsed<()> {
        let keyword = self.advance();
        let module = self.qualified_name()?;
        let mut names = None;
        if self.eat(Token::Colon) {
            names = Some(self.separated(Self::declared_name)?);
        }
        self.end_of_line()?;
        let end = names.iter().flatten().last().map_or(module.span, |last| last.span);
        if self.has_declared {
            let diagnostic = Diagnostic::new(Code::Syntax, keyword, "an import after a declaration", "too late");
            self.report(diagnostic.help("imports stand before all declarations, behind `module`"));
        }
        let import = Import { module, names, span: keyword.to(end) };
        self.learn(&import);
        file.imports.push(import);
        Ok(())
    }

    fn end_of_line(&mut self) -> Parsed<()> {
        if self.peek() == Token::End || self.follows_line() {
            return Ok(());
        }
        Err(self.unexpected("the end of the line"))
    }

    /// A name, perhaps with the module before it.
    pub(super) fn qualified_name(&mut self) -> Parsed<Ident> {
        let mut path = self.name()?;
        while self.peek() == Token::Dot && !self.separates_here() {
            self.advance();
            let part = self.name()?;
            path = Ident { name: format!("{}.{}", path.name, part.name).into(), span: path.span.to(part.span) };
        }
        Ok(path)
    }

    /// The names with dots that an import lets be written.
    fn learn(&mut self, import: &Import) {
        let path: Vec<String> = import.module.name.split('.').map(str::to_owned).collect();
        let names = match (&import.names, self.modules) {
            (Some(names), _) => Some(names.iter().map(|name| name.name.to_string()).collect()),
            (None, Modules::Known(known)) => Some(known.get(&*import.module.name).cloned().unwrap_or_default()),
            (None, Modules::Unknown) => None,
        };
        self.imported.push(Imported { path, names });
    }

    /// A name of an imported module that is written with its module, if one comes next. `is_event` says whether what stands before
    /// the next parenthesis is an event.
    pub(super) fn name_of_module(&mut self, is_event: bool) -> Option<Ident> {
        let length = self.imported.iter().filter_map(|import| self.reads_as(import, is_event)).max()?;
        let start = self.span();
        let mut name = String::new();
        let mut end: Span = start;
        for _ in 0..length {
            end = self.advance();
            name.push_str(self.slice(end));
        }
        Some(Ident { name: name.into(), span: start.to(end) })
    }

    /// How many tokens come next that are a name of this module.
    fn reads_as(&self, import: &Imported, is_event: bool) -> Option<usize> {
        let is = |distance: usize, word: &str| {
            self.peek_after(distance) == Token::Name && self.slice(self.span_after(distance)) == word
        };
        let mut at = 0;
        for part in &import.path {
            if !is(at, part) || self.peek_after(at + 1) != Token::Dot {
                return None;
            }
            at += 2;
        }
        if self.peek_after(at) != Token::Name {
            return None;
        }
        let follows = self.peek_after(at + 1);
        let is_name = match &import.names {
            // What stands before arguments here is an event, and what stands before it an instance.
            _ if is_event && follows == Token::LeftParenthesis => false,
            Some(names) => names.contains(self.slice(self.span_after(at))),
            // Where no name means anything yet, a path of members is read in the same way.
            None => false,
        };
        (is_name && !(1..=at).any(|distance| self.separates_after(distance))).then_some(at + 1)
    }
}

/// A module that is imported, and the names of it that may be written behind it if they are known.
pub(super) struct Imported {
    path: Vec<String>,
    names: Option<HashSet<String>>,
}
