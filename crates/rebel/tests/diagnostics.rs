//! Bad specifications: what is found, where, and what the help says.

use std::collections::HashSet;

use enact_rebel::{Code, Report, Source, check};

fn report(text: &str) -> Report {
    match check(vec![Source::new("bad.rebel", text)]) {
        Ok(spec) => spec.warnings().clone(),
        Err(report) => report,
    }
}

/// A source, and per finding: its code, the text its first label points at, and a part of its message and help.
type Case = (&'static str, &'static [(Code, &'static str, &'static str)]);

/// A class around `fields` and the parts of an event of an existing instance.
macro_rules! event {
    ($parts:literal) => {
        concat!(
            "class Other initial i on Make(): made\nmade on Ping() on Take(sum: Integer) pre: sum > 0 ",
            "class A id: String @identity n: Integer = 0 balance: Money = EUR 0.00 flag: Boolean = false ",
            "other: Other tags: Set[String] = {} initial i on Begin(o: Other): s post: this.other == o\ns on E",
            $parts
        )
    };
}

const CASES: &[Case] = &[
    // Characters and literals.
    ("class A initial i # on E(): s\ns", &[(Code::UnknownCharacter, "#", "unexpected character `#`")]),
    (event!("() pre: flag && flag"), &[(Code::UnknownCharacter, "&&", "write `and`")]),
    (
        event!("() pre: n / 2 == 1"),
        &[(Code::UnknownCharacter, "/", "multiply by a percentage"), (Code::Syntax, "2", "expected")],
    ),
    ("class Kl\u{e4}ss initial i", &[(Code::UnknownCharacter, "\u{e4}", "ASCII letters")]),
    (
        event!("() pre: \"no end"),
        &[(Code::UnknownCharacter, "\"no end", "end it with `\"`"), (Code::Syntax, "", "expected")],
    ),
    ("class A initial i /* no end", &[(Code::UnknownCharacter, "/* no end", "`*/`")]),
    (event!("() pre: balance > EUX 5.00"), &[(Code::Literal, "EUX 5.00", "did you mean `EUR`?")]),
    (event!("() pre: balance > EUR 5.001"), &[(Code::Literal, "EUR 5.001", "EUR has at most 2 decimals, not 3")]),
    (event!("() pre: balance > JPY 5.1"), &[(Code::Literal, "JPY 5.1", "JPY has at most 0 decimals, not 1")]),
    (event!("() pre: today > 2025-02-29"), &[(Code::Literal, "2025-02-29", "no day of the calendar")]),
    (
        event!("() pre: n > 9223372036854775808"),
        &[(Code::Literal, "9223372036854775808", "outside the range of Integer")],
    ),
    (event!("() pre: \"a\\q\": flag"), &[(Code::Literal, "\"a\\q\"", "the escapes are")]),
    (
        "const c: Integer = 9223372036854775807 + 1 class A n: Integer = c initial i",
        &[(Code::Literal, "9223372036854775807 + 1", "this has no value: the result is out of range")],
    ),
    // Layout.
    (
        "class A n: Integer = 0 initial i on E(to: Integer): s pre: to == n\n",
        &[(Code::UnknownState, "s", "has no state `s`")],
    ),
    (
        "class A\n  approved: Boolean = true\n  initial i\n    on E(to: Integer): s\n      pre: to == 1 approved\n  s\n",
        &[(Code::Layout, "approved", "a line of its own")],
    ),
    (
        "class A\n  initial i\n    on E(to: Integer): s\n      pre: to == 1\n    s\n",
        &[(Code::Layout, "s", "as deep as the fields")],
    ),
    (
        "class A\n  initial i\n    on E(to: Integer): i\n      pre: to == 1,\n  final s\n",
        &[(Code::Layout, ",", "remove it")],
    ),
    (event!("() pre: n > 0, -n < 5"), &[(Code::Layout, "-", "parentheses")]),
    (event!("(b: Boolean) sync: if b: other.Ping()\n  other.Ping()"), &[(Code::Layout, "other", "governs")]),
    (event!("(b: Boolean) sync: if b: other.Ping(), other.Ping()"), &[(Code::Layout, ",", "governs")]),
    (
        event!("(b: Boolean)\n  sync:\n    if b:\n    other.Ping()"),
        &[(Code::Layout, "other", "indent what it governs")],
    ),
    (
        event!("(b: Boolean)\n  sync:\n    if b:\n        other.Ping()\n      other.Ping()"),
        &[(Code::Layout, "other", "all indented alike")],
    ),
    // Syntax.
    ("class initial i", &[(Code::Syntax, "initial", "`initial` is a word of the language")]),
    ("klass A initial i", &[(Code::Syntax, "klass", "expected `class`, `enum`, `const` or `fn`")]),
    (event!("() post: n == 1"), &[(Code::Syntax, "n", "`this.field` is the new value")]),
    (event!("() post: this.n = 1"), &[(Code::Syntax, "=", "write `==`")]),
    (event!("() pre: 1 < n < 3"), &[(Code::Syntax, "<", "write `a < b and b < c`")]),
    (
        event!("() post: this.n == 1 pre: flag"),
        &[(Code::Syntax, "pre", "one `pre:`, then one `post:`, then one `sync:`")],
    ),
    (event!("() sync: this.E()"), &[(Code::Syntax, "this", "another instance")]),
    (event!("() pre: (n + 1) instate s"), &[(Code::Syntax, "(n + 1)", "a parameter or a field")]),
    ("class A on E(): s", &[(Code::Syntax, "on", "expected a field or a state before the first event")]),
    ("class A initial i on E(): s\ns late: Integer", &[(Code::Syntax, "late", "before the first state")]),
    ("class A initial i invariant true", &[(Code::Syntax, "invariant", "before the first state")]),
    ("rounding sideways class A initial i", &[(Code::Syntax, "sideways", "the rules are half-even, half-up")]),
    // One finding each, in one run: the parser goes on after an error.
    (
        "class A\n  x(Integer)\n  initial i class B y: initial i enum C { a,, b }",
        &[
            (Code::Syntax, "(", "expected"),
            (Code::Syntax, "initial", "expected a name"),
            (Code::Syntax, ",", "expected a name"),
        ],
    ),
    // Names.
    ("class A initial i class A initial i", &[(Code::Duplicate, "A", "`A` is already a class")]),
    ("enum Money { a } class A initial i", &[(Code::Duplicate, "Money", "a type of the language")]),
    ("class A x: Integer = 0 x: Integer = 0 initial i", &[(Code::Duplicate, "x", "a field twice")]),
    (
        "class A\n  x\n  Integer\n  initial i",
        &[
            (Code::Duplicate, "Integer", "write `name: Type` to declare a field"),
            (Code::UnreachableState, "x", ""),
            (Code::UnreachableState, "Integer", ""),
        ],
    ),
    (event!("(n: Integer) pre: n > 0"), &[(Code::Duplicate, "n", "the parameter `n` hides a field")]),
    ("class A s: Integer = 0 initial i on E(): s\ns", &[(Code::Duplicate, "s", "named like a field")]),
    ("class A initial i on E(_s: Integer): _s\n_s", &[(Code::Duplicate, "_s", "named like a parameter")]),
    (
        "const s: Integer = 1 class A n: Integer = s initial i on E(): s\ns",
        &[(Code::Duplicate, "s", "named like a constant")],
    ),
    (event!("(x: Integer, x: Integer) pre: x > 0"), &[(Code::Duplicate, "x", "a parameter twice")]),
    (event!("(o: Set[Other]) sync: for o in o: o.Ping()"), &[(Code::Duplicate, "o", "hides another one")]),
    ("rounding up rounding down class A initial i", &[(Code::Duplicate, "rounding", "declared twice")]),
    ("enum E { a, b, a } class A e: E = E.a initial i", &[(Code::Duplicate, "a", "a variant twice")]),
    ("class A x: Mony initial i", &[(Code::UnknownType, "Mony", "did you mean `Money`?")]),
    (
        "class A x: Acount = 0 initial i class Account initial i",
        &[(Code::UnknownType, "Acount", "did you mean `Account`?")],
    ),
    ("class A x: Set = {} initial i", &[(Code::UnknownType, "Set", "as in `Set[Account]`")]),
    (event!("() pre: balanse > 0"), &[(Code::UnknownName, "balanse", "did you mean `balance`?")]),
    (event!("() pre: Other"), &[(Code::UnknownName, "Other", "`Other` is a class, not a value")]),
    (event!("() post: this.balanec == EUR 1.00"), &[(Code::UnknownName, "balanec", "did you mean `balance`?")]),
    (
        "fn twice(n: Integer): Integer = n + n class A n: Integer = twize(2) initial i",
        &[
            (Code::UnknownName, "twize", "did you mean `twice`?"),
            (Code::Unused, "twice", "a function that nothing uses"),
        ],
    ),
    (
        "class A initial i on E(): opend\nopened",
        &[
            (Code::UnknownState, "opend", "did you mean `opened`?"),
            (Code::UnreachableState, "opened", "no event leads to"),
        ],
    ),
    (event!("() pre: other instate mdae"), &[(Code::UnknownState, "mdae", "did you mean `made`?")]),
    (event!("() sync: other.Pong()"), &[(Code::UnknownEvent, "Pong", "did you mean `Ping`?")]),
    ("enum E { red, blue } class A e: E = E.blu initial i", &[(Code::UnknownMember, "blu", "did you mean `blue`?")]),
    (
        event!("() pre: balance.amount > 0"),
        &[(Code::UnknownMember, "amount", "the only property of Money is `currency`")],
    ),
    (event!("() pre: other.n > 0"), &[(Code::UnknownMember, "n", "an event reads only its own instance")]),
    // Types.
    (event!("() pre: n"), &[(Code::TypeMismatch, "n", "expected Boolean, found Integer")]),
    (event!("() post: this.balance == 5"), &[(Code::TypeMismatch, "5", "as in `EUR 5.00`")]),
    ("class A p: Percentage = 5 initial i", &[(Code::TypeMismatch, "5", "as in `5%`")]),
    ("class A t: Set[Set[String]] = {} initial i", &[(Code::TypeMismatch, "Set[Set[String]]", "a set of sets")]),
    (event!("() sync: for x in other: x.Ping()"), &[(Code::TypeMismatch, "other", "`for` needs a set")]),
    (event!("() pre: balance > 5"), &[(Code::Operands, "balance > 5", "write an amount with its currency")]),
    (event!("() pre: balance + 5% > 0"), &[(Code::Operands, "balance + 5%", "a percentage of an amount is")]),
    (event!("() pre: flag < flag"), &[(Code::Operands, "flag < flag", "`<` is not defined for Boolean and Boolean")]),
    (event!("() pre: n in tags"), &[(Code::Operands, "n in tags", "needs a set of the type of `x`")]),
    (event!("() post: this.flag += true"), &[(Code::Operands, "this.flag += true", "`+=` is not defined for Boolean")]),
    (event!("() sync: other.Take()"), &[(Code::ArgumentCount, "other.Take()", "takes 1 argument, not 0")]),
    (event!("() sync: other.Take(flag)"), &[(Code::TypeMismatch, "flag", "expected Integer, found Boolean")]),
    (event!("() sync: n.Take(1)"), &[(Code::NotAReference, "n", "give it the type of a class")]),
    (
        event!("(os: Set[Other]) sync: os.Ping()"),
        &[(Code::NotAReference, "os", "write `for x in the_set: x.Event(..)`")],
    ),
    (event!("() pre: {} == {}"), &[(Code::EmptySet, "{}", "cannot be told")]),
    // Life cycles.
    (
        "class A\n  opened on E(): opened",
        &[(Code::InitialState, "A", "write `initial` before the state"), (Code::UnreachableState, "opened", "")],
    ),
    ("class A initial i on E(): s initial j on E(): s\ns", &[(Code::InitialState, "j", "more than one initial state")]),
    ("class A initial i on E()", &[(Code::EntersInitial, "E", "write `: state` after the parameters")]),
    ("class A initial i on E(): s\ns on Back(): i", &[(Code::EntersInitial, "i", "leads into the initial state")]),
    ("class A initial i on E(): s final s on F(): s", &[(Code::LeavesFinal, "F", "leaves the final state `s`")]),
    (
        "class A initial i on E(): s on E(): t\ns\nt",
        &[(Code::RepeatedTransition, "E", "join the two declarations"), (Code::UnreachableState, "t", "")],
    ),
    (
        "class A initial i on E(a: Integer): s pre: a > 0\ns on E(a: Money) pre: a > 0",
        &[(Code::EventSignature, "E", "the same parameters in every state")],
    ),
    ("class A k: Money @identity initial i", &[(Code::Identity, "k", "a String, an Integer or an Iban")]),
    ("class A k: Integer @identity l: Integer @identity initial i", &[(Code::Identity, "@identity", "one identity")]),
    ("class A k: Integer @identity = 5 initial i", &[(Code::Identity, "5", "an identity has no default")]),
    // Values of fields.
    (
        "class A b: Money c: Money initial i on E(): s post: this.b == EUR 1.00\ns",
        &[(Code::FieldWithoutValue, "E", "add `this.c == ..` to `post:`")],
    ),
    (
        "class A b: Integer initial i on E(): s pre: b > 0 post: this.b == 1\ns",
        &[(Code::ReadBeforeValue, "b", "give the field a default")],
    ),
    (event!("() post: this.id == \"x\""), &[(Code::IdentityAssigned, "id", "never changes")]),
    (event!("() post: this.n == 1, this.n += 1"), &[(Code::AssignedTwice, "this.n += 1", "join the two effects")]),
    (event!("() pre: this.n > 1"), &[(Code::NewValueRead, "this.n", "write `n`")]),
    (
        "const c: Date = today class A d: Date = c initial i",
        &[(Code::OutOfPlace, "today", "only events happen at a time")],
    ),
    ("class A invariant now > now initial i", &[(Code::OutOfPlace, "now", ""), (Code::OutOfPlace, "now", "")]),
    (
        "fn f(a: Integer): Boolean = this == a class A invariant f(1) initial i",
        &[(Code::OutOfPlace, "this", "as a parameter")],
    ),
    // What may not depend on itself.
    (
        "const a: Integer = b const b: Integer = a class A n: Integer = a initial i",
        &[(Code::Recursion, "a", "a needs b needs a")],
    ),
    (
        "fn f(n: Integer): Integer = f(n) class A n: Integer = f(1) initial i",
        &[(Code::Recursion, "f", "there is no recursion")],
    ),
    (
        "class A b: B initial i on Make(x: B): s post: this.b == x\ns on E() sync: b.F() \
         class B a: A initial i on Make(x: A): s post: this.a == x\ns on F() sync: a.E()",
        &[(Code::SyncCycle, "b.F()", "A.E -> B.F -> A.E")],
    ),
    (
        event!("() pre: flag or initialized other"),
        &[(Code::NestedCondition, "initialized other", "its own line in `pre:`")],
    ),
    // Warnings.
    ("class A initial i on E(): s\ns\nt", &[(Code::UnreachableState, "t", "no event leads to the state `t`")]),
    (event!("(x: Integer)"), &[(Code::Unused, "x", "begin its name with `_`")]),
    ("const unused: Integer = 1 class A initial i", &[(Code::Unused, "unused", "a constant that nothing uses")]),
    ("class A initial i on E(): s\ns internal on F()", &[(Code::NeverSynced, "F", "call it in a `sync:`")]),
    (event!("() pre: 1 < 2"), &[(Code::DecidedGuard, "1 < 2", "this guard always holds")]),
    (
        event!("(x: Integer) pre: x > 5, x < 3"),
        &[(Code::NeverEnabled, "x > 5", "`E` never happens: its guards contradict each other")],
    ),
    (
        "class A n: Integer = 0 invariant n > 0 initial i on Make(): s\ns",
        &[(Code::BrokenByCreation, "n > 0", "`Make` always breaks this invariant")],
    ),
    (
        "class B initial i on Make(): s\ns on F() class A initial i on E(b: B): s sync: not b.F(), b.F()\ns",
        &[(Code::Contradiction, "not b.F()", "one of the two always refuses the step")],
    ),
    (
        "class B initial i on Make(): s\ns class A initial i on E(b: B): s sync: b.Make(), b.Make()\ns",
        &[(Code::NeverTogether, "b.Make()", "never possible after `Make`")],
    ),
];

#[test]
fn every_bad_specification_is_explained() {
    assert!(CASES.len() > 80);
    let mut wrong = String::new();
    for (text, expected) in CASES {
        let report = report(text);
        let found: Vec<(Code, &str)> = report
            .diagnostics()
            .iter()
            .map(|diagnostic| (diagnostic.code, &text[diagnostic.labels[0].span.start..diagnostic.labels[0].span.end]))
            .collect();
        let wanted: Vec<(Code, &str)> = expected.iter().map(|(code, label, _)| (*code, *label)).collect();
        let is_said = report.diagnostics().iter().zip(*expected).all(|(diagnostic, (_, _, part))| {
            diagnostic.message.contains(part) || diagnostic.help.as_ref().is_some_and(|help| help.contains(part))
        });
        if found != wanted || !is_said {
            wrong.push_str(&format!("wanted {expected:?}\nfound {found:?}\n{report}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_code_is_shown_by_a_bad_specification() {
    let shown: HashSet<Code> =
        CASES.iter().flat_map(|(_, expected)| expected.iter().map(|(code, _, _)| *code)).collect();
    for code in Code::ALL {
        // The limits have tests of their own.
        assert!(shown.contains(code) || matches!(code, Code::Limit | Code::AnalysisLimit), "{code}");
    }
    let numbers: HashSet<&str> = Code::ALL.iter().map(|code| code.number()).collect();
    assert_eq!(numbers.len(), Code::ALL.len(), "every code has a number of its own");
}

#[test]
fn errors_come_before_warnings_and_both_in_the_order_of_the_source() {
    let report = report("class A initial i on E(): s\ns\nt class B x: Mony initial i on E(y: Integer): z");
    let codes: Vec<&str> = report.diagnostics().iter().map(|diagnostic| diagnostic.code.number()).collect();
    assert_eq!(codes, ["E102", "E104", "W001", "W002"]);
    assert_eq!((report.errors().count(), report.has_errors()), (2, true));
}

#[test]
fn a_diagnostic_is_drawn_with_its_place_and_its_help() {
    let text = "class Account\n  balance: Money = €0\n  initial init\n    on Open(): opened\n  opened\n    on Withdraw(amount: Money)\n      pre: amount > €0, balanse - amount ≥ €0\n";
    let expected = "\
[E103] Error: nothing is called `balanse` here
   ╭─[ bad.rebel:7:25 ]
   │
 7 │       pre: amount > €0, balanse - amount ≥ €0
   │                         ───┬─── \u{20}
   │                            ╰───── unknown
   │\u{20}
   │ Help: did you mean `balance`?
───╯
";
    assert_eq!(report(text).render(false), expected, "\n{}", report(text).render(false));
}

#[test]
fn findings_in_several_sources_name_theirs() {
    let sources = vec![
        Source::new("one.rebel", "class A b: B initial i on Make(x: B): s post: this.b == x\ns on E() sync: b.F(1)"),
        Source::new("two.rebel", "class B initial i on Make(): s\ns on F()"),
    ];
    let drawn = check(sources).unwrap_err().render(false);
    assert!(drawn.contains("one.rebel:2:") && drawn.contains("`F` takes 0 arguments, not 1"), "{drawn}");
}
