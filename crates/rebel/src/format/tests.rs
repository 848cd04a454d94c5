//! What is printed is read as what was printed.

use super::{Style, format};
use crate::source::Source;
use crate::syntax::{Modules, Separation, parse};

/// The syntax tree of a source without the places in it.
fn tree(text: &str, separation: Separation) -> String {
    let mut report = |diagnostic: crate::Diagnostic| panic!("{}\n{text}", diagnostic.message);
    let parse = parse(0, text, separation, &Modules::Unknown, &mut 0, &mut report);
    let tree = format!("{:?}", parse.file);
    let mut rest = tree.as_str();
    let mut without_places = String::new();
    while let Some(at) = rest.find("Span {") {
        without_places.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[rest.find('}').expect("a place ends") + 1..];
    }
    without_places + rest
}

fn formatted(text: &str, style: Style) -> String {
    format(Source::new("a.rebel", text), style).unwrap_or_else(|report| panic!("{report}\n{text}"))
}

/// Formats, and shows that the result means the same and stays as it is.
#[track_caller]
fn shown(text: &str, style: Style) -> String {
    let separation = if style.from_free { Separation::Words } else { Separation::Lines };
    let once = formatted(text, style);
    assert_eq!(tree(&once, Separation::Lines), tree(text, separation), "{once}");
    let again = formatted(&once, Style { from_free: false, ..style });
    assert_eq!(again, once, "formatting again changes more");
    once
}

const STYLES: [Style; 2] = [Style { canonical: false, from_free: false }, Style { canonical: true, from_free: false }];

#[test]
fn the_examples_keep_their_meaning() {
    for text in [
        include_str!("../../../../examples/bank.rebel"),
        include_str!("../../../../examples/listing2.rebel"),
        include_str!("../../tests/rebel/specs/account.rebel"),
    ] {
        for style in STYLES {
            shown(text, style);
        }
    }
}

#[test]
fn the_bank_is_laid_out_and_spelled_as_it_is_printed() {
    let bank = include_str!("../../../../examples/bank.rebel");
    for style in STYLES {
        assert_eq!(formatted(bank, style), bank);
    }
}

#[test]
fn a_source_without_layout_gets_one() {
    let free = "rounding half-up const c: Money = €5 enum E { a, b } fn f(x: Integer): Integer = -x * (2 - 1) \
                class A key: String @identity n: Integer = 0 invariant \"small\": n < 10 initial i on New(to: A): o \
                pre: to instate o, f(1) < 2 post: this.n == 1, this.n == 2 o internal on E(x: Set[A]) : o sync: \
                if n > 1: for a in x: a.E({}) not key.E(x) final f class B initial i on C(): o final o";
    assert_eq!(
        shown(free, Style { from_free: true, ..Style::default() }),
        "rounding half-up
const c: Money = €5
enum E { a, b }
fn f(x: Integer): Integer = -x * (2 - 1)

class A
  key: String @identity
  n: Integer = 0
  invariant \"small\": n < 10
  initial i
    on New(to: A): o
      pre: to instate o, f(1) < 2
      post: this.n == 1, this.n == 2
  o
    internal on E(x: Set[A]): o
      sync:
        if n > 1: for a in x: a.E({})
        not key.E(x)
  final f

class B
  initial i
    on C(): o
  final o
"
    );
}

#[test]
fn comments_stay_where_they_stood() {
    let text = "// first

/* wide */ class A // behind the name
  /// What n is.
  n: Integer // behind a field
  // before a state


  initial i // behind a state
    // before an event
    on New(): o /* inside */
      // before a section
      post: // behind a keyword
        this.n == 1 // behind an effect
        // before an effect
        and 2 // inside an expression
        + 3
  final o
  // at the end
";
    let printed = shown(text, Style::default());
    for line in text.lines().filter(|line| line.contains("/")) {
        let comment =
            line[line.find('/').expect("it is there")..].trim_end_matches("class A // behind the name").trim();
        assert!(printed.contains(comment), "{comment} in\n{printed}");
    }
    assert_eq!(printed.matches("\n\n").count(), 2, "one empty line of several\n{printed}");
}

#[test]
fn items_stay_on_one_line_or_get_one_each() {
    let text = "class A\n  n: Integer\n  m: Integer\n  initial i\n    on New(x: Integer): o\n      pre: x > 1, x > 2\n      \
                post: this.n = 1\n        this.m = 2\n  final o\n";
    let printed = shown(text, Style::default());
    assert!(printed.contains("      pre: x > 1, x > 2\n"), "{printed}");
    assert!(printed.contains("      post: this.n = 1\n            this.m = 2\n"), "{printed}");
}

#[test]
fn items_on_lines_of_their_own_have_no_commas() {
    let guards = ["x > 1", "(x) < 2", "\"set\": x in {1, 2}", "y", "(y)"];
    let text = format!(
        "class A\n  n: Integer\n  initial i\n    on New(x: Integer, y: Boolean): o\n      pre: {}\n      post: this.n = 1\n  \
                final o\n",
        guards.join(",\n           ")
    );
    assert!(shown(&text, Style::default()).contains(&guards.join("\n           ")));
}

#[test]
fn an_expression_that_is_too_long_keeps_its_breaks_and_a_short_one_is_joined() {
    let long = "aaaaaaaaaaaaaaaaaaaa == 1 ";
    let guard = format!("{long}\n   and {long}\n and {long}\n    and {long} and {long}");
    let text = format!(
        "class A\n  aaaaaaaaaaaaaaaaaaaa: Integer = 1\n  initial i\n    on E(): o\n      pre: aaaaaaaaaaaaaaaaaaaa == 1\n\
                     and true\n  o\n    on F(): o\n      pre: {guard}\n"
    );
    let printed = shown(&text, Style::default());
    assert!(printed.contains("pre: aaaaaaaaaaaaaaaaaaaa == 1 and true\n"), "{printed}");
    let broken = "aaaaaaaaaaaaaaaaaaaa == 1\n          and aaaaaaaaaaaaaaaaaaaa == 1\n          and";
    assert!(printed.contains(broken), "{printed}");
}

#[test]
fn canonical_spelling_is_one() {
    let text = "class A\n  n: Money = €0\n  initial i\n    on New(a: A, b: A): o\n      pre: initialized a, b instate {o, p}, \
                n ≥ € 1, n ≡ €1, n ≠ EUR   2.00\n      post: this.n ≡ €3\n  o, p\n    on E(): o\n      post: this.n == €4\n";
    let canonical = Style { canonical: true, ..Style::default() };
    let printed = formatted(text, canonical);
    for expected in [
        "n: Money = EUR 0",
        "pre: a is initialized, b is {o, p}, n >= EUR 1, n == EUR 1, n != EUR 2.00",
        "post: this.n = EUR 3",
        "post: this.n = EUR 4",
    ] {
        assert!(printed.contains(expected), "{expected} in\n{printed}");
    }
    assert_eq!(formatted(&printed, canonical), printed);
}

#[test]
fn a_question_that_would_bind_otherwise_keeps_its_spelling() {
    let guards = [
        "true == initialized b",
        "initialized b == true",
        "not initialized b.c",
        "initialized B[1] or b is initialized",
    ];
    let canonical = Style { canonical: true, ..Style::default() };
    for guard in guards {
        let text = format!("class A\n  initial i\n    on New(b: A): o\n      pre: {guard}\n  o\n");
        assert!(formatted(&text, canonical).contains(guard), "{guard}");
    }
}

#[test]
fn several_comments_on_the_first_line_stand_below_each_other() {
    let printed = shown("/* a */ /* b */ // c\nclass A\n  initial i /* d */ /* e */ // f\n", Style::default());
    assert_eq!(printed, "/* a */\n/* b */\n// c\nclass A\n  initial i /* d */ /* e */  // f\n");
}

#[test]
fn a_source_with_errors_is_not_printed() {
    let report = format(Source::new("a.rebel", "class A\n  initial"), Style::default()).unwrap_err();
    assert!(report.errors().count() > 0);
}

#[test]
fn words_of_modules_are_names_in_a_source_without_layout() {
    let free = "class A extends: Integer = 0 index: Integer = 0 initial abstract on E(): event event on F(use: Integer): event \
                final external class B initial i on C(): module module";
    assert_eq!(
        shown(free, Style { from_free: true, ..Style::default() }),
        "class A
  extends: Integer = 0
  index: Integer = 0
  initial abstract
    on E(): event
  event
    on F(use: Integer): event
  final external

class B
  initial i
    on C(): module
  module
"
    );
}

/// The layout of effects that are written on lines below `post:`, or behind it.
#[track_caller]
fn effects(written: &str) -> String {
    let text = format!(
        "class A\n  n: Integer\n  m: Integer\n  initial i\n    on New(x: Integer): o\n      {written}\n  final o\n"
    );
    let printed = shown(&text, Style::default());
    let from = printed.find("      post:").expect("it is there");
    printed[from..].trim_end_matches("\n  final o\n").to_owned()
}

#[test]
fn what_governs_effects_stands_on_lines_below_the_section() {
    for text in [
        "      post: if x > 1: this.n = 1 else: this.n = 2",
        "      post: for i in 1 .. x: this.n += i",
        "      post:\n        this.m = 1\n        if x > 1: this.n = 1 else: this.n = 2",
        "      post:\n        if x > 1: this.n = 1\n        else: this.n = 2",
        "      post:\n        if x > 1:\n          this.n = 1\n          this.m = 1\n        else: this.n = 2",
        "      post:\n        for i in 1 .. x:\n          if i > 2:\n            this.n += i\n          else:\n            this.m += i\n        this.m += 2",
        "      post:\n        // why\n        if x > 1: this.n = 1\n        // or else\n        else: this.n = 2  // so",
    ] {
        assert_eq!(effects(text.trim_start()), text);
    }
    assert_eq!(
        effects("post: this.m = 1, if x > 1: this.n = 1 else: this.n = 2"),
        "      post:\n        this.m = 1\n        if x > 1: this.n = 1 else: this.n = 2"
    );
    assert_eq!(
        effects("post: if x > 1:\n              this.n = 1\n            else: this.n = 2"),
        "      post:\n        if x > 1:\n          this.n = 1\n        else: this.n = 2"
    );
    let long = "this.n += 1000000000000 + 2000000000000 + x";
    assert_eq!(
        effects(&format!("post: if x > 1: {long} else: {long}")),
        format!("      post:\n        if x > 1: {long}\n        else: {long}")
    );
}

#[test]
fn the_effects_of_a_branch_have_one_spelling_too() {
    let text = "class A\n  n: Integer\n  initial i\n    on New(x: Integer): o\n      post: if x ≥ 1: this.n ≡ 1 else: this.n == x\n  final o\n";
    let canonical = Style { canonical: true, ..Style::default() };
    let printed = formatted(text, canonical);
    assert!(printed.contains("post: if x >= 1: this.n = 1 else: this.n = x\n"), "{printed}");
}

#[test]
fn a_default_stands_apart_from_what_it_is_of() {
    let text = "record R\n  n: Integer=1\n\nfn f(a:Integer=1,b: Integer  = -2): Integer = a+b\n\nclass A(c: Integer=3)\n  initial i\n    \
                on New( x: Integer=f( 1 ), y: R = R(n:2) ): o\n  final o\n";
    let printed = shown(text, Style::default());
    for line in [
        "  n: Integer = 1\n",
        "fn f(a: Integer = 1, b: Integer = -2): Integer = a + b\n",
        "class A(c: Integer = 3)\n",
        "    on New(x: Integer = f(1), y: R = R(n: 2)): o\n",
    ] {
        assert!(printed.contains(line), "{line} in\n{printed}");
    }
}
