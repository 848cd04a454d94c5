//! A grammar as the reference writes it, and sentences of it.

use std::collections::HashMap;
use std::iter::Peekable;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// How deep rules may be nested before a sentence takes the shortest way to its end.
const DEPTH: usize = 24;

#[derive(Debug)]
enum Term {
    Word(String),
    Rule(String),
    All(Vec<Term>),
    Any(Vec<Term>),
    Optional(Box<Term>),
    Repeated(Box<Term>),
}

pub(crate) struct Grammar {
    rules: HashMap<String, Term>,
    /// How deep the shortest sentence of each rule nests.
    heights: HashMap<String, usize>,
}

impl Grammar {
    /// # Panics
    /// If the text is no grammar, or a rule has no sentence.
    pub(crate) fn parse(text: &str) -> Self {
        let mut words = words(text).into_iter().peekable();
        let mut rules = HashMap::new();
        while let Some(name) = words.next() {
            assert_eq!(words.next().as_deref(), Some("="), "after {name}");
            rules.insert(name, alternatives(&mut words));
            assert_eq!(words.next().as_deref(), Some(";"));
        }
        let mut grammar = Self { rules, heights: HashMap::new() };
        while grammar.heights.len() < grammar.rules.len() {
            let found: Vec<(String, usize)> = grammar
                .rules
                .iter()
                .filter(|(name, _)| !grammar.heights.contains_key(*name))
                .filter_map(|(name, term)| Some((name.clone(), grammar.height(term)? + 1)))
                .collect();
            assert!(!found.is_empty(), "rules without a sentence");
            grammar.heights.extend(found);
        }
        grammar
    }

    /// How deep the shortest sentence nests, if one is known.
    fn height(&self, term: &Term) -> Option<usize> {
        match term {
            Term::Word(_) | Term::Optional(_) | Term::Repeated(_) => Some(0),
            Term::Rule(name) if terminal(name).is_some() => Some(0),
            Term::Rule(name) => self.heights.get(name).copied(),
            Term::All(terms) => terms.iter().map(|term| self.height(term)).try_fold(0, |a, b| Some(a.max(b?))),
            Term::Any(terms) => terms.iter().filter_map(|term| self.height(term)).min(),
        }
    }

    /// A sentence of a rule, the same for the same seed.
    pub(crate) fn sentence(&self, rule: &str, seed: u64) -> String {
        let mut sentence = Sentence { random: StdRng::seed_from_u64(seed), text: String::new(), indent: 0 };
        self.say(&Term::Rule(rule.to_owned()), 0, &mut sentence);
        sentence.text
    }

    fn say(&self, term: &Term, depth: usize, sentence: &mut Sentence) {
        let likely = if depth < DEPTH / 4 { 0.6 } else { 0.2 };
        let goes_on = |sentence: &mut Sentence| depth < DEPTH && sentence.random.random_bool(likely);
        match term {
            Term::Word(word) => sentence.word(word),
            Term::Rule(name) => match (terminal(name), &**name) {
                (_, "NL") => sentence.end_line(),
                (_, "INDENT") => sentence.indent += 2,
                (_, "DEDENT") => sentence.indent -= 2,
                (Some(words), _) => {
                    let word = words.choose(&mut sentence.random).expect("there are some");
                    sentence.word(word);
                }
                (None, _) => self.say(&self.rules[name], depth + 1, sentence),
            },
            Term::All(terms) => terms.iter().for_each(|term| self.say(term, depth, sentence)),
            Term::Any(terms) if depth < DEPTH => {
                let term = terms.choose(&mut sentence.random).expect("there are some");
                self.say(term, depth, sentence);
            }
            Term::Any(terms) => {
                let shortest = terms.iter().min_by_key(|term| self.height(term));
                self.say(shortest.expect("there are some"), depth, sentence);
            }
            Term::Optional(term) => {
                if goes_on(sentence) {
                    self.say(term, depth, sentence);
                }
            }
            Term::Repeated(term) => {
                while goes_on(sentence) {
                    self.say(term, depth, sentence);
                }
            }
        }
    }
}

struct Sentence {
    random: StdRng,
    text: String,
    indent: usize,
}

impl Sentence {
    fn word(&mut self, word: &str) {
        if self.text.is_empty() || self.text.ends_with('\n') {
            self.text.extend(std::iter::repeat_n(' ', self.indent));
        } else {
            self.text.push(' ');
        }
        // An item does not begin with `-`.
        if word == "-" && (self.text.ends_with(", ") || self.text.trim_end_matches(' ').ends_with(['\n', ':'])) {
            self.text.push_str("0 ");
        }
        self.text.push_str(word);
    }

    fn end_line(&mut self) {
        self.text.push('\n');
    }
}

/// What stands for a rule that the grammar leaves to the text before it.
fn terminal(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "NL" | "INDENT" | "DEDENT" => &[],
        "name" => &["a", "b", "from", "Kind", "x_1", "_y", "use"],
        "number" => &["0", "12"],
        "positive" => &["1", "12"],
        "money" => &["EUR 12.50", "€5", "JPY 3"],
        "percentage" => &["2.5%", "100%"],
        "date" => &["2026-11-21"],
        "decimal" => &["0.5", "12.50"],
        "span" => &["15 minutes", "1 month", "0 days"],
        "typed" => &["Iban \"NL91 ABNA 0417 1643 00\"", "Time \"18:30\"", "Timestamp \"2026-11-21T10:00:00Z\""],
        "currency" => &["EUR", "JPY"],
        "text" => &["\"\"", "\"a \\\"b\\\" : c\""],
        _ => return None,
    })
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => rest[1..].find('"').expect("a word ends") + 2,
            c if c.is_ascii_alphabetic() => rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        words.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    words
}

fn alternatives(words: &mut Peekable<std::vec::IntoIter<String>>) -> Term {
    let mut terms = vec![sequence(words)];
    while words.next_if_eq("|").is_some() {
        terms.push(sequence(words));
    }
    if terms.len() == 1 { terms.remove(0) } else { Term::Any(terms) }
}

fn sequence(words: &mut Peekable<std::vec::IntoIter<String>>) -> Term {
    let mut terms = Vec::new();
    while let Some(word) = words.next_if(|word| !["|", ")", "]", "}", ";"].contains(&word.as_str())) {
        let mut bracketed = |closer: &str| {
            let inner = alternatives(words);
            assert_eq!(words.next().as_deref(), Some(closer));
            inner
        };
        terms.push(match word.as_str() {
            "(" => bracketed(")"),
            "[" => Term::Optional(Box::new(bracketed("]"))),
            "{" => Term::Repeated(Box::new(bracketed("}"))),
            _ => match word.strip_prefix('"') {
                Some(word) => Term::Word(word.trim_end_matches('"').to_owned()),
                None => Term::Rule(word),
            },
        });
    }
    Term::All(terms)
}
