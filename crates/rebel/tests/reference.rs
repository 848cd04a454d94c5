//! The reference in `docs/rebel.md` is true.

mod grammar;

use enact_rebel::{Source, Style, check, format};

use self::grammar::Grammar;

const PAGE: &str = include_str!("../../../docs/rebel.md");
const SENTENCES: u64 = 5_000;

/// The blocks of a language.
fn blocks(language: &str) -> impl Iterator<Item = &'static str> {
    PAGE.split("\n```").skip(1).step_by(2).filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'))
}

#[test]
fn every_example_is_accepted_and_laid_out() {
    let examples: Vec<&str> = blocks("rebel").collect();
    assert!(examples.len() >= 8, "the page has examples");
    for example in examples {
        let example = format!("{example}\n");
        let source = || Source::new("example.rebel", &example);
        let spec = check(vec![source()]).unwrap_or_else(|report| panic!("{report}"));
        // An example of declarations uses none of them.
        let is_whole = example.contains("class ");
        assert!(!is_whole || spec.warnings().diagnostics().is_empty(), "{}", spec.warnings());
        let style = Style { canonical: true, ..Style::default() };
        assert_eq!(format(source(), style).expect("it is accepted"), example);
    }
}

/// The rows of the table of operators, `T` replaced by each of `TYPES`.
fn operators() -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for line in PAGE.lines().filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
        let [symbols, left, right, result] = columns[..] else { continue };
        let symbols = symbols.split_whitespace().map(|symbol| symbol.trim_matches('`'));
        for symbol in symbols.filter(|symbol| SYMBOLS.contains(symbol)) {
            let is_general = [left, right].iter().any(|ty| *ty == "T" || *ty == "Set[T]");
            for ty in if is_general { &TYPES[..] } else { &["T"] } {
                let needs_element = [left, right].contains(&"Set[T]");
                if !needs_element || !ty.starts_with("Set") {
                    let of = |general: &str| match general {
                        "T" => (*ty).to_owned(),
                        "Set[T]" => format!("Set[{ty}]"),
                        other => other.to_owned(),
                    };
                    rows.push([symbol.to_owned(), of(left), of(right), of(result)]);
                }
            }
        }
    }
    rows.sort();
    rows
}

const TYPES: [&str; 13] = [
    "Boolean",
    "Currency",
    "Date",
    "Iban",
    "Integer",
    "Kind",
    "Money",
    "Percentage",
    "String",
    "Thing",
    "Timestamp",
    "Set[Integer]",
    "Set[Money]",
];
const SYMBOLS: [&str; 12] = ["!=", "*", "+", "-", "<", "<=", "==", ">", ">=", "and", "in", "or"];

#[test]
fn the_table_of_operators_is_what_the_checker_accepts() {
    let types: Vec<String> = TYPES
        .iter()
        .flat_map(|ty| [(*ty).to_owned(), format!("Set[{ty}]")])
        .filter(|ty| !ty.starts_with("Set[Set"))
        .collect();
    let mut accepted = Vec::new();
    for symbol in SYMBOLS {
        for left in &types {
            for right in &types {
                accepted.extend(result_of(symbol, left, right));
            }
        }
    }
    accepted.sort();
    accepted.dedup();
    let mut said = operators();
    // `Set[Money]` stands among the types, and for `Set[T]` too.
    let of_sets = types.iter().filter(|ty| ty.starts_with("Set["));
    said.extend(of_sets.flat_map(|ty| ["==", "!="].map(|symbol| [symbol, ty, ty, "Boolean"].map(str::to_owned))));
    said.sort();
    said.dedup();
    let missing: Vec<_> = accepted.iter().filter(|row| !said.contains(row)).collect();
    let refused: Vec<_> = said.iter().filter(|row| !accepted.contains(row)).collect();
    assert!(missing.is_empty() && refused.is_empty(), "not said: {missing:?}, not accepted: {refused:?}");
}

/// The operator with its operands and the type of its result, if it is defined.
fn result_of(symbol: &str, left: &str, right: &str) -> Option<[String; 4]> {
    let declared = "enum Kind { a, b }\nclass Thing\n  initial none\n    on Make(): made\n  final made\n";
    let is_defined = |result: &str| {
        let text = format!("{declared}fn f(left: {left}, right: {right}): {result} = left {symbol} right\n");
        check(vec![Source::new("f.rebel", text)]).is_ok()
    };
    let result = [left, right, "Boolean", "Integer"].into_iter().find(|result| is_defined(result))?;
    Some([symbol, left, right, result].map(str::to_owned))
}

#[test]
fn every_sentence_of_the_grammar_is_read_and_printed_as_it_is_read() {
    let grammar = Grammar::parse(blocks("ebnf").next().expect("the page has a grammar"));
    let style = Style::default();
    for seed in 0..SENTENCES {
        let sentence = grammar.sentence("file", seed);
        let printed = format(Source::new("sentence.rebel", &sentence), style);
        let printed = printed.unwrap_or_else(|report| panic!("seed {seed}: {report}\n{sentence}"));
        let again = format(Source::new("printed.rebel", &printed), style);
        let again = again.unwrap_or_else(|report| panic!("seed {seed}: {report}"));
        let differs = again.lines().zip(printed.lines()).find(|(again, printed)| again != printed);
        assert!(differs.is_none() && again.len() == printed.len(), "seed {seed}: {differs:#?}");
    }
}
