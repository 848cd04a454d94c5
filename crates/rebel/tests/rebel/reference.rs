//! The reference in `docs/rebel.md` is true, and so are the examples of `docs/guide/patterns.md`.

use enact_rebel::footprint::{Commutes, Footprint, Mode, Term};
use enact_rebel::{Source, Style, check, format};

use crate::grammar::Grammar;
use crate::rows;
use crate::support;

const PAGE: &str = include_str!("../../../../docs/rebel.md");
const PATTERNS: &str = include_str!("../../../../docs/guide/patterns.md");
const SENTENCES: u64 = 5_000;

/// The blocks of a page in a language.
fn blocks(page: &'static str, language: &str) -> impl Iterator<Item = &'static str> {
    page.split("\n```").skip(1).step_by(2).filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'))
}

#[test]
fn every_example_is_accepted_and_laid_out() {
    let [examples, patterns] = [PAGE, PATTERNS].map(|page| blocks(page, "rebel").collect::<Vec<_>>());
    assert!(examples.len() >= 8 && patterns.len() >= 7, "the pages have examples");
    for example in examples.into_iter().chain(patterns) {
        let example = format!("{example}\n");
        let sources = support::sources("example.rebel", &example);
        let spec = check(sources.clone()).unwrap_or_else(|report| panic!("{report}"));
        // An example of declarations uses none of them.
        let is_whole = example.contains("class ");
        assert!(!is_whole || spec.warnings().diagnostics().is_empty(), "{}", spec.warnings());
        let style = Style { canonical: true, ..Style::default() };
        for source in sources {
            let text = source.text.clone();
            assert_eq!(format(source, style).expect("it is accepted"), text);
        }
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
            for ty in TYPES {
                let of = |general: &str| match general {
                    "T" => ty.to_owned(),
                    "T?" => format!("{}?", ty.trim_end_matches('?')),
                    general => general.replace("[T", &format!("[{ty}")),
                };
                let row = [symbol.to_owned(), of(left), of(right), of(result)];
                if row[1..3].iter().all(|operand| TYPES.contains(&&**operand)) {
                    rows.push(row);
                }
            }
        }
    }
    // What is optional already is not made so once more.
    rows.retain(|[symbol, left, _, result]| symbol != "??" || left.ends_with('?') && !result.ends_with("??"));
    rows.sort();
    rows.dedup();
    rows
}

const TYPES: [&str; 23] = [
    "Boolean",
    "Currency",
    "Date",
    "Decimal(2)",
    "Duration",
    "Iban",
    "Id",
    "Integer",
    "Integer?",
    "Kind",
    "List[Integer]",
    "List[Money]",
    "Map[Integer, Boolean]",
    "Money",
    "Money?",
    "Percentage",
    "Period",
    "Set[Integer]",
    "Set[Money]",
    "String",
    "Thing",
    "Time",
    "Timestamp",
];
const SYMBOLS: [&str; 16] =
    ["!=", "*", "+", "-", "/", "<", "<=", "==", ">", ">=", "??", "and", "div", "in", "mod", "or"];

#[test]
fn the_table_of_operators_is_what_the_checker_accepts() {
    let mut accepted = Vec::new();
    for symbol in SYMBOLS {
        for left in TYPES {
            for right in TYPES {
                accepted.extend(result_of(symbol, left, right));
            }
        }
    }
    accepted.sort();
    let said = operators();
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
    // What is there widens to what is optional, so the narrower one is tried first.
    let present = [left, right].map(|ty| ty.trim_end_matches('?'));
    let results = present.into_iter().chain([left, right, "Boolean", "Integer", "Duration", "Decimal(4)"]);
    let result = results.into_iter().find(|result| is_defined(result))?;
    Some([symbol, left, right, result].map(str::to_owned))
}

#[test]
fn every_sentence_of_the_grammar_is_read_and_printed_as_it_is_read() {
    let grammar = Grammar::parse(blocks(PAGE, "ebnf").next().expect("the page has a grammar"));
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

#[test]
fn each_construct_touches_what_its_row_says() {
    let rows = rows::rows();
    assert!(rows.len() >= 50, "the table has rows");
    for row in rows {
        let spec = support::spec(&row.text);
        let found = touches(&spec.footprint("Shelf", "Try").expect("the event of the row"));
        assert_eq!(found, row.touches, "{}\n{}", row.construct, row.text);
    }
}

/// What an event touches beside its own state, as the reference writes it.
fn touches(footprint: &Footprint) -> Vec<String> {
    let (first, others) = footprint.touches().split_first().expect("its own state");
    assert_eq!(first.to_string(), "this: its state Read");
    let written = others.iter().map(|touch| match touch.instance {
        Term::This => format!("{} {}", touch.place, touch.mode),
        _ => touch.to_string(),
    });
    written.collect()
}

#[test]
fn modes_commute_as_the_table_says() {
    const MODES: [Mode; 8] =
        [Mode::Read, Mode::Test, Mode::Add, Mode::Insert, Mode::Delete, Mode::Assign, Mode::Call, Mode::Question];
    let rows = rows::table("| mode | the event | commutes in one place with |\n");
    assert_eq!(rows.len(), MODES.len());
    for (mode, row) in MODES.iter().zip(rows) {
        let commuting = MODES.iter().filter(|other| mode.commutes(**other) == Commutes::Always);
        let commuting: Vec<String> = commuting.map(ToString::to_string).collect();
        assert_eq!((row[0], row[2]), (&*mode.to_string(), &*commuting.join(", ")));
    }
}
