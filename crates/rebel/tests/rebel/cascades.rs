//! One mistake is one finding.

use enact_rebel::{Source, check};

use crate::support;

const BANK: &str = include_str!("../../../../examples/bank.rebel");

/// Where the names of a text stand, comments and texts apart.
fn names(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let length = |is_in: fn(char) -> bool| rest.find(|c| !is_in(c)).unwrap_or(rest.len());
        let first = rest.chars().next().expect("it is not empty");
        at += match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            c if c.is_ascii_alphabetic() => {
                let word = length(|c| c.is_ascii_alphanumeric() || c == '_');
                found.push((at, at + word));
                word
            }
            c => c.len_utf8(),
        };
    }
    found
}

/// What the errors say.
fn errors(text: &str) -> Vec<String> {
    match check(vec![Source::new("bank.rebel", text)]) {
        Ok(_) => Vec::new(),
        Err(report) => report.errors().map(|error| format!("{} {}", error.code, error.message)).collect(),
    }
}

#[test]
fn a_misspelt_name_is_reported_once_in_each_scope_that_uses_it_and_nothing_else_is() {
    let names = names(BANK);
    let words =
        ["class", "const", "fn", "rounding", "half", "even", "initial", "final", "internal", "on", "pre", "post"];
    let others = ["sync", "if", "for", "in", "and", "or", "not", "instate", "this", "today", "invariant", "identity"];
    let mut tried = 0;
    for &(start, end) in &names {
        let word = &BANK[start..end];
        // A number's currency is no name.
        if words.contains(&word) || others.contains(&word) || BANK[end..].starts_with(" 0") {
            continue;
        }
        let wrong = format!("{}{word}Zzq{}", &BANK[..start], &BANK[end..]);
        let found = errors(&wrong);
        let speaks_of = |name: &str| found.iter().filter(|error| error.contains(&format!("`{name}`"))).count();
        let misspelt = format!("{word}Zzq");
        assert!(
            found.iter().all(|error| error.contains(&misspelt) || error.contains(&format!("`{word}`"))),
            "{word} at {start}: {found:#?}"
        );
        // Where a use is misspelt, it is the one thing that is wrong. Where a declaration is, its uses are unknown.
        assert!(speaks_of(&misspelt) == 0 || found.len() == 1, "{word} at {start}: {found:#?}");
        assert!(speaks_of(word) > 0 || found.len() <= 1, "{word} at {start}: {found:#?}");
        tried += 1;
    }
    assert!(tried > 200, "{tried}");
}

/// The tokens of a text, as far as blanks, names and numbers tell, comments and texts apart.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let names = names(text);
    let mut found = names.clone();
    let is_in_name = |at: usize| names.iter().any(|(start, end)| (*start..*end).contains(&at));
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let first = rest.chars().next().expect("it is not empty");
        at += match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            c => {
                if !c.is_whitespace() && !is_in_name(at) && !c.is_ascii_digit() {
                    found.push((at, at + c.len_utf8()));
                }
                c.len_utf8()
            }
        };
    }
    found.sort_unstable();
    found
}

#[test]
fn a_missing_token_is_not_reported_as_many_mistakes() {
    let (mut tried, mut several) = (0, Vec::new());
    for (start, end) in tokens(BANK) {
        let found = errors(&format!("{}{}", &BANK[..start], &BANK[end..]));
        // Where the name of a declaration is missing, its uses are unknown.
        let is_name = BANK[start..end].starts_with(|c: char| c.is_ascii_alphabetic());
        let unknown = |error: &&String| is_name && error.contains(&format!("`{}`", &BANK[start..end]));
        let others = found.iter().filter(|error| !unknown(error)).count();
        tried += 1;
        if others > 2 {
            several.push((&BANK[start..end], start, found));
        }
    }
    // Where the name of a state is missing, its events are those of the state before.
    assert!(tried > 500 && several.len() <= 5, "{tried}, {several:#?}");
}

/// Two modules, with classes that extend, shared events, and names from one in the other.
const MODULES: &str = include_str!("specs/modules.rebel");

#[test]
fn a_misspelt_name_of_a_module_is_reported_where_it_is_looked_up_and_nothing_else_is() {
    let words = "module bank accounts transfers version rounding half up enum const event needs abstract class extends index use as \
                 initial final on pre post sync import is this invariant identity";
    let (mut tried, mut several) = (0, Vec::new());
    for (start, end) in names(MODULES) {
        let word = &MODULES[start..end];
        let is_heading = MODULES[..start].ends_with("---- ") || MODULES[end..].starts_with(".rebel");
        let is_word = words.split_whitespace().any(|other| other == word) || is_heading || word == "rebel";
        // A number's currency is no name.
        if is_word || MODULES[end..].starts_with(" 0") || word == "EUR" {
            continue;
        }
        let wrong = format!("{}{word}Zzq{}", &MODULES[..start], &MODULES[end..]);
        let found: Vec<String> = match check(support::sources("bank.rebel", &wrong)) {
            Ok(_) => Vec::new(),
            Err(report) => report.errors().map(|error| format!("{} {}", error.code, error.message)).collect(),
        };
        let misspelt = format!("{word}Zzq");
        let is_about = |error: &String| error.contains(&misspelt) || error.contains(&format!("`{word}`"));
        let once = found.iter().filter(|error| error.contains(&misspelt)).count() <= 1;
        if !(found.iter().all(is_about) && once) {
            several.push((word, start, found));
        }
        tried += 1;
    }
    assert!(tried > 120 && several.is_empty(), "{tried}: {several:#?}");
}
