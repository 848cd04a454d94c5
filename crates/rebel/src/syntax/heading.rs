//! What a source says of modules, read without the rest of it.

use std::collections::HashSet;

use logos::Logos;

use super::token::Token;
use crate::value::Name;

/// The module that a source is, and those that it imports.
///
/// Found at the head of the source, so that what it imports can be looked for before it is checked. A head that is wrong is read
/// as far as it goes; [`check`](crate::check) says what is wrong with it.
///
/// ```
/// use enact_rebel::Heading;
/// let heading = Heading::read("module shop.orders version 2\nimport shop.stock: Product\nclass Order");
/// assert_eq!(heading.module.as_deref(), Some("shop.orders"));
/// assert_eq!(heading.imports, ["shop.stock".into()]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    /// The name of the module, with its dots.
    pub module: Option<Name>,
    /// The names of the modules that it imports, in their order.
    pub imports: Vec<Name>,
}

impl Heading {
    /// The heading of a source. Never fails.
    ///
    /// # Complexity
    /// Linear in the length of the heading.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut heading = Self::default();
        let mut words = Words { lexer: Token::lexer(text), next: None };
        words.advance();
        if words.eat_word("module") {
            heading.module = words.path();
            if words.eat_word("version") && matches!(words.next, Some((Token::Integer, _))) {
                words.advance();
            }
        }
        while words.eat_word("import") {
            heading.imports.extend(words.path());
            if matches!(words.next, Some((Token::Colon, _))) {
                words.advance();
                while words.is_name() {
                    words.advance();
                    if matches!(words.next, Some((Token::Comma, _))) {
                        words.advance();
                    } else {
                        break;
                    }
                }
            }
        }
        heading
    }
}

/// The names that a source seems to declare for others.
pub(super) fn declared(text: &str) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut is_declared = false;
    for (token, range) in Token::lexer(text).spanned() {
        let Ok(token) = token else { continue };
        if is_declared && token == Token::Name {
            names.insert(text[range.clone()].to_owned());
        }
        let is_word = token == Token::Name && matches!(&text[range], "event" | "record");
        is_declared = is_word || matches!(token, Token::Class | Token::Enum | Token::Const | Token::Fn);
    }
    names
}

/// Tokens with the next one looked at, documentation and what is no token apart.
struct Words<'a> {
    lexer: logos::Lexer<'a, Token>,
    next: Option<(Token, &'a str)>,
}

impl Words<'_> {
    fn advance(&mut self) {
        self.next = loop {
            match self.lexer.next() {
                None => break None,
                Some(Ok(token)) if token != Token::Documentation => break Some((token, self.lexer.slice())),
                Some(_) => {}
            }
        };
    }

    fn is_name(&self) -> bool {
        matches!(self.next, Some((Token::Name, _)))
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let is_next = self.next.is_some_and(|(token, text)| token == Token::Name && text == word);
        if is_next {
            self.advance();
        }
        is_next
    }

    /// Names with dots between them.
    fn path(&mut self) -> Option<Name> {
        let mut path = String::new();
        while let Some((Token::Name, text)) = self.next {
            path.push_str(text);
            self.advance();
            if !matches!(self.next, Some((Token::Dot, _))) {
                return Some(path.into());
            }
            path.push('.');
            self.advance();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_ends_where_the_declarations_begin() {
        let read = |text| {
            let Heading { module, imports } = Heading::read(text);
            (module.unwrap_or_default().to_string(), imports.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(read(""), (String::new(), vec![]));
        assert_eq!(
            read("// first\nmodule a\n/// of b\nimport b.c\nimport d: X, Y\nclass import"),
            ("a".into(), vec!["b.c".into(), "d".into()])
        );
        assert_eq!(read("import\nclass A"), (String::new(), vec![]));
        assert_eq!(read("class A\nimport b"), (String::new(), vec![]));
    }

    #[test]
    fn what_is_declared_is_found_without_reading_what_it_is() {
        let mut found: Vec<String> =
            declared("enum E { a }\nconst c: Integer = d\nfn f() \nabstract class A\nevent X()\nrecord R ;")
                .into_iter()
                .collect();
        found.sort();
        assert_eq!(found, ["A", "E", "R", "X", "c", "f"]);
    }
}
