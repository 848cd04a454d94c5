//! No input makes the checker, the diagnostics or the interpreter panic, run away or overflow the stack.

use std::sync::{Arc, LazyLock};

use enact_rebel::{
    Class, Code, EventCall, Fault, Instance, Report, Source, Spec, Type, Value, Violation, check, limits,
};
use proptest::prelude::*;

use crate::support::{self, NOW, call, class, key, next};

const SOURCES: [&str; 6] = [
    include_str!("specs/modules.rebel"),
    include_str!("../../../../examples/listing2.rebel"),
    include_str!("../../../../examples/bank.rebel"),
    include_str!("specs/account.rebel"),
    include_str!("specs/depot.rebel"),
    include_str!("migrations/accepted_all_kinds_of_lines.rebel"),
];

/// The version before the last of the sources.
const EARLIER: &str = include_str!("migrations/from.rebel");

/// Checks and draws; what is fine must be able to begin.
fn check_and_draw(text: &str) {
    let sources = support::sources("fuzz", text);
    match check(sources.clone()) {
        Ok(spec) => {
            let _ = spec.warnings().render(true);
            spec.classes().for_each(|class| try_everything_once(class));
            name_all_touches(&spec);
            let earlier = check(vec![Source::new("earlier", EARLIER)]).unwrap();
            match spec.migration(&earlier) {
                Ok(migration) => assert!(migration.to() > 1),
                Err(report) => draw(&sources, &report),
            }
        }
        Err(report) => draw(&sources, &report),
    }
}

/// What each event touches stands in the sources.
fn name_all_touches(spec: &Spec) {
    for footprint in spec.footprints() {
        for touch in footprint.touches() {
            assert!(!touch.to_string().is_empty() && !touch.because.is_empty());
            touch.because.iter().for_each(|span| _ = spec.warnings().locate(*span));
        }
    }
}

fn draw(sources: &[Source], report: &Report) {
    assert!(report.has_errors());
    for diagnostic in report.diagnostics() {
        for label in &diagnostic.labels {
            let text = &sources[label.span.source].text;
            assert!(text.get(label.span.start..label.span.end).is_some(), "{diagnostic:?}");
        }
    }
    let _ = report.render(false);
}

/// One value of every type.
fn some_value(ty: &Type) -> Value {
    let text = match ty {
        Type::Boolean => "true",
        Type::Integer => "1",
        Type::Money => "EUR 1.00",
        Type::Percentage => "1%",
        Type::Currency => "EUR",
        Type::Iban => "NL91ABNA0417164300",
        Type::Date => "2026-11-21",
        Type::Timestamp => "2026-11-21T09:30:00.000Z",
        Type::Reference { .. } => {
            ["NL91ABNA0417164300", "1"].into_iter().find(|text| Value::parse(ty, text).is_ok()).unwrap()
        }
        Type::Enum(enumeration) => &*enumeration.variants[0],
        Type::Set(_) | Type::Map(_) => "{}",
        _ => "a",
    };
    Value::parse(ty, text).unwrap()
}

/// Follows every event from the initial instance as far as it goes.
fn try_everything_once(class: &Class) {
    let key = key(class);
    let mut instance = class.initial();
    for event in class.events().iter().chain(class.events()) {
        let given = event.params().iter().filter(|param| param.default().is_none());
        let call = event.call(given.map(|param| (&**param.name(), some_value(param.ty())))).unwrap();
        let result = class.next(&key, &instance, &call, NOW);
        let judged = class.judge(&key, &class.outline(&instance), &call, NOW).verdict;
        match &result {
            Ok(_) => assert_ne!(judged, enact_rebel::Verdict::Refused),
            Err(violations) => {
                assert!(!violations.is_empty());
                assert_ne!(judged, enact_rebel::Verdict::Accepted);
            }
        }
        let _ = class.syncs(&key, &instance, &call, NOW);
        if let Some(linear) = class.linear(&key, std::slice::from_ref(&call), NOW) {
            assert_eq!(linear.happens_in(&instance), result.is_ok());
        }
        instance = result.unwrap_or(instance);
    }
}

/// A piece of the language.
fn piece() -> impl Strategy<Value = String> {
    let word = prop::sample::select(
        "class enum const fn rounding invariant initial final internal on pre post sync if then else for in not and or \
         initialized instate this now today true false @identity @key module import version abstract external event extends needs index use as A B a b x half - even up Money Integer Boolean Set \
         Percentage Iban String Date ( ) { } [ ] , : . = == ≡ != ≠ < <= ≤ > >= ≥ + - * += -= \"t\" \" €1 € EUR USD 5 0 5% \
         module version migrate from rename drop state to -> \
         9223372036854775808 2026-02-30 /* // /// é \u{202e} \u{0} ; / & | ! $ @ %"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    word.prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_checked(text in any::<String>()) {
        check_and_draw(&text);
    }

    #[test]
    fn any_sequence_of_words_is_checked(words in prop::collection::vec(piece(), 0..60)) {
        check_and_draw(&words.join(" "));
        check_and_draw(&words.concat());
    }

    /// A sound specification with a few words put in, taken out or exchanged is mostly still readable.
    #[test]
    fn any_damaged_specification_is_checked(
        source in prop::sample::select(&SOURCES[..]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..3, piece()), 1..6),
    ) {
        let mut words: Vec<String> = source.split_inclusive([' ', '\n', '(', ')', ',', '.']).map(str::to_owned).collect();
        for (place, kind, piece) in edits {
            let index = place.index(words.len());
            match kind {
                0 => { words.remove(index); }
                1 => words.insert(index, format!("{piece} ")),
                _ => words[index] = format!("{piece} "),
            }
        }
        check_and_draw(&words.concat());
    }

    #[test]
    fn any_call_and_instance_from_outside_is_answered(
        json in prop::sample::select(vec![
            r#"{"state":"opened","fields":{"balance":{"Money":"EUR 5.00"},"holder":{"String":"x"},"overdraftLimit":{"Money":"EUR 0.00"}}}"#,
            r#"{"state":"opened","fields":{"balance":{"Integer":5}}}"#,
            r#"{"state":"opened","fields":{}}"#,
            r#"{"state":"nowhere","fields":{"a":{"Boolean":true}}}"#,
            r#"{"state":"unopened","fields":{"balance":{"Set":[{"Set":[]},{"Integer":1}]}}}"#,
        ]),
        call in prop::sample::select(vec![
            r#"{"event":"Withdraw","arguments":{"amount":{"Money":"EUR 5.00"}}}"#,
            r#"{"event":"Withdraw","arguments":{"amount":{"Integer":5}}}"#,
            r#"{"event":"Withdraw","arguments":{}}"#,
            r#"{"event":"Interest","arguments":{"rate":{"Percentage":"1%"},"x":{"Boolean":true}}}"#,
            r#"{"event":"Interest","arguments":{"rate":{"Percentage":"1%"}}}"#,
            r#"{"event":"Nothing","arguments":{}}"#,
        ]),
    ) {
        static CLASS: LazyLock<Arc<Class>> = LazyLock::new(|| class(SOURCES[2], "Account"));
        let account = &*CLASS;
        let (instance, call): (Instance, EventCall) = (serde_json::from_str(json).unwrap(), serde_json::from_str(call).unwrap());
        let _ = account.next(&key(account), &instance, &call, NOW);
        let _ = account.syncs(&key(account), &instance, &call, NOW);
        let _ = account.verify(&key(account), &instance);
        let _ = account.judge(&key(account), &account.outline(&instance), &call, NOW);
        let _ = account.linear(&key(account), std::slice::from_ref(&call), NOW);
    }
}

fn only_code(text: &str) -> Vec<Code> {
    let report = check(vec![Source::new("limits", text)]).unwrap_err();
    let _ = report.render(false);
    let mut codes: Vec<Code> = report.errors().map(|diagnostic| diagnostic.code).collect();
    codes.dedup();
    codes
}

fn guard(expression: &str) -> String {
    format!("class A n: Integer = 0 initial a on E(): b pre: {expression}\nb")
}

#[test]
fn nesting_is_accepted_up_to_the_limit_and_refused_above() {
    // The comparison and the guard around the parentheses take levels of their own.
    let parentheses = |depth| guard(&format!("{}1{} == 1", "(".repeat(depth), ")".repeat(depth)));
    assert!(check(vec![Source::new("deep", parentheses(limits::DEPTH_MAX - 2))]).is_ok());
    assert_eq!(only_code(&parentheses(limits::DEPTH_MAX + 1)), [Code::Limit]);
    let sum = |terms| guard(&format!("{} == 1", vec!["1"; terms].join(" + ")));
    assert!(check(vec![Source::new("long", sum(limits::DEPTH_MAX - 1))]).is_ok());
    assert_eq!(only_code(&sum(limits::DEPTH_MAX + 1)), [Code::Limit]);
    let opens = [
        "(",
        "not ",
        "-",
        "{",
        "if ",
        "f(",
        "if true then 1 else ",
        "count(x in ",
        "all(x in {1}: ",
        "A[",
        "initialized A[",
        "1 in (",
        "[",
        "{1: ",
        "f(x: ",
        "x[",
        "x.get(",
        "x with (a: ",
        "none ?? ",
        "1 / ",
        "list(x in [",
        "map(x in xs: 1 -> ",
    ];
    for open in opens {
        assert!(only_code(&guard(&open.repeat(100_000))).contains(&Code::Limit), "{open}");
    }
    let nested_types = format!("class A n: {}Integer", "Set[".repeat(100_000));
    assert_eq!(only_code(&nested_types), [Code::Limit]);
    for open in ["List[", "Map[Integer, "] {
        assert_eq!(only_code(&format!("class A n: {}Integer", open.repeat(100_000))), [Code::Limit], "{open}");
    }
    let nested_steps = format!("class A a: A initial i on E(): i sync: {}", "if true: ".repeat(100_000));
    assert_eq!(only_code(&nested_steps), [Code::Limit]);
}

#[test]
fn the_deepest_expression_is_evaluated_without_overflow_of_the_stack() {
    let depth = limits::DEPTH_MAX - 4;
    let source = guard(&format!("{}true", "not ".repeat(depth)));
    let a = class(&source, "A");
    assert!(next(&a, &a.initial(), "E", &[]).is_ok());
    let nested = |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
    for deepest in [
        nested("min(1, ", "1", ")"),
        nested("[", "1", "]") + ".size",
        nested("{1: ", "1", "}") + ".size",
        nested("[", "1", "][0]"),
        nested("(m ?? ", "1", ")"),
        nested("f(a: ", "1", ")"),
        nested("first(x in [1]: ", "1", ")!").replace("x in", "_x in"),
    ] {
        let source = format!("fn f(a: Integer): Integer = a\n{}", guard(&format!("{deepest} == 1")));
        let source = source.replace("n: Integer = 0", "m: Integer? = none");
        match check(vec![Source::new("deepest", &source)]) {
            Ok(spec) => {
                let a = spec.class("A").unwrap();
                assert!(next(a, &a.initial(), "E", &[]).is_ok(), "{}", &deepest[..20]);
                name_all_touches(&spec);
            }
            Err(report) => assert!(report.errors().all(|found| found.code == Code::Limit), "{report}"),
        }
    }
}

#[test]
fn the_deepest_aggregates_and_ranges_are_evaluated_without_overflow_of_the_stack() {
    let depth = limits::DEPTH_MAX / 2 - 4;
    let nested = (0..depth).fold("true".to_owned(), |inner, level| format!("all(v{level} in {{1}}: {inner})"));
    // What is compared is evaluated once, or this would take longer than the world has time.
    let within = (0..depth).fold("1".to_owned(), |inner, _| format!("(if {inner} in 0 .. 2 then 1 else 2)"));
    for guarded in [nested, format!("{within} == 1")] {
        let spec = support::spec(&guard(&guarded));
        let a = spec.class("A").unwrap();
        assert!(next(a, &a.initial(), "E", &[]).is_ok());
        name_all_touches(&spec);
    }
}

#[test]
fn variants_and_the_values_of_an_identity_have_limits() {
    let variants = |count: usize| {
        let variants: String = (0..count).map(|number| format!("      variant v{number}: b\n")).collect();
        format!("class A\n  initial a\n    on E()\n{variants}  b\n")
    };
    assert!(check(vec![Source::new("many", variants(limits::VARIANTS_MAX))]).is_ok());
    assert_eq!(only_code(&variants(limits::VARIANTS_MAX + 1)), [Code::Limit]);
    // Each class doubles the values of the one before.
    let mut source = String::from("class A0\n  n: Integer @identity\n  initial none\n");
    for number in 1..=limits::KEY_FIELDS_MAX.ilog2() {
        let before = number - 1;
        source += &format!("class A{number}\n  a: A{before} @identity\n  b: A{before} @identity\n  initial none\n");
    }
    assert!(check(vec![Source::new("wide", source.clone())]).is_ok());
    let last = limits::KEY_FIELDS_MAX.ilog2();
    source += &format!("class B\n  a: A{last} @identity\n  n: Integer @identity\n  initial none\n");
    assert_eq!(only_code(&source), [Code::Limit]);
}

#[test]
fn calls_of_functions_count_towards_the_depth() {
    let mut source = String::from("fn f0(n: Integer): Integer = n\n");
    for index in 1..=limits::DEPTH_MAX {
        source.push_str(&format!("fn f{index}(n: Integer): Integer = f{}(n)\n", index - 1));
    }
    source.push_str(&guard("f256(n) == 0"));
    assert_eq!(only_code(&source), [Code::Limit]);
}

#[test]
fn an_evaluation_that_doubles_with_every_function_runs_out_of_fuel() {
    let mut source = String::from("fn f0(n: Integer): Integer = n\n");
    for index in 1..40 {
        source.push_str(&format!("fn f{index}(n: Integer): Integer = f{0}(n) + f{0}(n)\n", index - 1));
    }
    let a = class(&format!("{source}{}", guard("f39(n) == 0")), "A");
    let violations = next(&a, &a.initial(), "E", &[]).unwrap_err();
    assert!(matches!(violations[0], Violation::Arithmetic { fault: Fault::OutOfFuel, .. }), "{violations:?}");
    let call = call(&a, "E", &[]);
    assert_eq!(a.judge(&key(&a), &a.outline(&a.initial()), &call, NOW).verdict, enact_rebel::Verdict::Unsure);
    assert_eq!(only_code(&format!("{source}const c: Integer = f39(1)\n{}", guard("n == c"))), [Code::Literal]);
}

#[test]
fn sources_and_declarations_are_limited_and_a_large_class_has_no_table() {
    let fill = |bytes: usize| format!("{}{}", guard("true"), " ".repeat(bytes - guard("true").len()));
    assert!(check(vec![Source::new("full", fill(limits::SOURCE_BYTES_MAX))]).is_ok());
    assert_eq!(only_code(&fill(limits::SOURCE_BYTES_MAX + 1)), [Code::Limit]);

    // The class, its two states and its event with one guard take five.
    let constants = |count: usize| {
        let constants: Vec<usize> = (0..count).collect();
        let declared = |index: &usize| format!("const c{index}: Integer = {index}\n");
        let parts = constants.chunks(limits::DECLARATIONS_MAX / 4).map(|part| part.iter().map(declared).collect());
        let class = "class A initial a on E(): b pre: true\nb".to_owned();
        check(parts.chain([class]).map(|text: String| Source::new("full", text)).collect())
    };
    assert!(constants(limits::DECLARATIONS_MAX - 5).is_ok());
    let refused = constants(limits::DECLARATIONS_MAX - 4).unwrap_err();
    assert_eq!(refused.errors().map(|error| error.code).collect::<Vec<_>>(), [Code::Limit]);

    let events = |count: usize| {
        let events: String = (0..count).map(|index| format!("on E{index}(): b ")).collect();
        format!("class A initial a {events}\nb")
    };
    let has_table = |count: usize| {
        let spec = check(vec![Source::new("full", events(count))]).expect("it is sound");
        spec.warnings().diagnostics().iter().all(|warning| warning.code != Code::AnalysisLimit)
    };
    assert!(has_table(limits::RELATED_EVENTS_MAX));
    assert!(!has_table(limits::RELATED_EVENTS_MAX + 1));
}

#[test]
fn a_class_of_the_greatest_size_is_checked() {
    let fields: String = (0..3000).map(|index| format!("f{index}: Money = EUR 0.00 ")).collect();
    let event = |index| format!("on E{index}(x: Money) pre: f{index} >= x, f0 + f1 >= x post: this.f{index} += x ");
    let events: String = (0..limits::RELATED_EVENTS_MAX - 1).map(event).collect();
    let source = format!("class A {fields} initial a on Begin(): b\nb {events}");
    assert!(check(vec![Source::new("large", source)]).is_ok());
}

#[test]
fn too_many_findings_are_counted_and_not_kept() {
    let fields: String = (0..limits::DIAGNOSTICS_MAX + 5).map(|index| format!("f{index}: Mony{index} = 0 ")).collect();
    let report = check(vec![Source::new("many", format!("class A {fields} initial a"))]).unwrap_err();
    assert_eq!((report.diagnostics().len(), report.omitted()), (limits::DIAGNOSTICS_MAX, 5));
    assert!(report.render(false).contains("5 more findings are not shown"));
}

/// A source cannot write to the terminal on which the diagnostic is read, nor reverse the text around it.
#[test]
fn control_characters_of_the_source_are_not_drawn() {
    let report = check(vec![Source::new("a\u{1b}[2Jb", "class A x: \u{1b}[31m\u{202e} initial a")]).unwrap_err();
    let drawn = report.render(false);
    assert!(!drawn.contains(['\u{1b}', '\u{202e}']), "{drawn}");
    let coloured = report.render(true);
    assert!(coloured.contains('\u{1b}') && !coloured.contains("\u{1b}[2J"), "{coloured}");
}

#[test]
fn a_very_long_line_is_named_and_not_drawn() {
    let report =
        check(vec![Source::new("long", format!("class A x: Mony {} initial a", " ".repeat(100_000)))]).unwrap_err();
    let drawn = report.render(false);
    assert!(drawn.len() < 1000 && drawn.contains("[E102] long:1: there is no type `Mony`"), "{}", drawn.len());
}

/// What is edited above is fine to begin with.
#[test]
fn every_source_that_is_edited_is_a_contract() {
    for source in SOURCES {
        check(support::sources("source", source)).unwrap_or_else(|report| panic!("{report}"));
        check_and_draw(source);
    }
}
