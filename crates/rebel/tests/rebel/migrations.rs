//! From one version of a contract to the next: what has to be said, and what instances become.
//!
//! Each file of `migrations/` is a later version of the contract in `from.rebel`, with what is said of it beside it. After a change of
//! messages, `ENACT_UPDATE=1 cargo test -p enact-rebel --test rebel migrations` writes the files anew.

use std::fs;
use std::path::{Path, PathBuf};

use enact_rebel::{
    Instance, Migration, Source, Spec, Timestamp, Transformed, Value, Violation, check, only_adds_classes, say_the_same,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const FROM: &str = include_str!("migrations/from.rebel");

fn spec(text: &str) -> Spec {
    check(vec![Source::new("shop.rebel", text)]).unwrap_or_else(|report| panic!("{report}"))
}

fn later_versions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rebel/migrations");
    let entries = fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("readable").path());
    let is_later = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "rebel")
            && path.file_stem().is_some_and(|stem| stem != "from")
    };
    let mut paths: Vec<PathBuf> = entries.filter(is_later).collect();
    paths.sort();
    paths
}

fn lines(changes: &[Transformed]) -> String {
    changes.iter().map(|change| format!("{change}\n")).collect()
}

#[test]
fn every_later_version_is_taken_or_explained_as_the_file_beside_it_says() {
    let is_update = std::env::var_os("ENACT_UPDATE").is_some();
    let (mut different, mut accepted) = (String::new(), 0);
    let from = spec(FROM);
    for path in later_versions() {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("UTF-8");
        let text = fs::read_to_string(&path).expect("UTF-8");
        let said = match check(vec![Source::new(format!("{name}.rebel"), &text)]) {
            Err(report) => report.render(false),
            Ok(to) => match to.migration(&from) {
                Ok(migration) => {
                    assert!(name.starts_with("accepted"), "{name}");
                    assert_eq!((migration.from(), migration.to()), (1, 2));
                    accepted += 1;
                    lines(&migration.changes())
                }
                Err(report) => {
                    assert!(!name.starts_with("accepted") && report.has_errors(), "{name}: {report}");
                    report.render(false)
                }
            },
        };
        let said: String = said.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        let beside = path.with_extension("txt");
        if is_update {
            fs::write(&beside, &said).expect("writable");
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        if said != expected {
            different += &format!("{name}\nexpected\n{expected}\nsaid\n{said}\n");
        }
    }
    assert!(different.is_empty(), "{different}");
    assert!(accepted >= 3, "{accepted}");
}

#[test]
fn a_missing_line_that_is_told_as_an_edit_mends_what_is_missing() {
    let (from, mut tried) = (spec(FROM), 0);
    for path in later_versions() {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let source = |text: &str| vec![Source::new("shop.rebel", text)];
        let Ok(to) = check(source(&text)) else { continue };
        let Err(report) = to.migration(&from) else { continue };
        for diagnostic in report.diagnostics() {
            let Some(edit) = diagnostic.edit.as_ref().filter(|_| diagnostic.code.number() == "E702") else { continue };
            let mended = format!("{}{}{}", &text[..edit.span.start], edit.text, &text[edit.span.end..]);
            let left = check(source(&mended)).unwrap_or_else(|report| panic!("{report}")).migration(&from);
            let is_left = |report: &enact_rebel::Report| {
                report.diagnostics().iter().any(|other| other.message == diagnostic.message)
            };
            assert!(!left.is_err_and(|report| is_left(&report)), "{}", diagnostic.message);
            tried += 1;
        }
    }
    assert!(tried >= 2, "{tried}");
}

/// An account that has come where it is by random events, and what is known of it without a look at it.
struct Account {
    instance: Instance,
    holder: String,
    cents: i128,
    overdraft: i64,
    is_gold: bool,
    state: &'static str,
}

fn random_account(from: &Spec, random: &mut StdRng) -> Account {
    let class = from.class("Account").expect("the class");
    let (key, now) = (class.key("A").expect("a key"), Timestamp::from_millis(0));
    let happen = |instance: &Instance, event: &str, arguments: &[(&str, Value)]| {
        let call = class.event(event).expect("the event").call(arguments.iter().cloned()).expect("they fit");
        class.next(&key, instance, &call, now).expect("possible")
    };
    let (holder, cents) = (format!("h{}", random.random_range(0..99)), random.random_range(0..20_000_i128));
    let money = Value::Money(format!("EUR {}.{:02}", cents / 100, cents % 100).parse().expect("money"));
    let name = Value::String(holder.as_str().into());
    let instance = happen(&class.initial(), "Open", &[("name", name), ("deposit", money)]);
    let mut account = Account { instance, holder, cents, overdraft: 0, is_gold: false, state: "opened" };
    for _ in 0..random.random_range(0..9) {
        let by = random.random_range(-1_000..1_000);
        let (event, arguments) = match random.random_range(0..3) {
            0 => {
                account.is_gold = true;
                let ty = class.event("Promote").expect("the event").params()[0].ty();
                ("Promote", vec![("kind_", Value::parse(ty, "small").expect("a variant"))])
            }
            _ => {
                account.overdraft += by;
                ("Borrow", vec![("by", Value::Integer(by))])
            }
        };
        account.instance = happen(&account.instance, event, &arguments);
    }
    let last = [("opened", None), ("frozen", Some("Freeze")), ("closed", Some("Close"))];
    let (state, event) = last[random.random_range(0..last.len())];
    account.state = state;
    if let Some(event) = event {
        account.instance = happen(&account.instance, event, &[]);
    }
    account
}

fn cents_of(value: Option<&Value>) -> i128 {
    value.and_then(Value::number).expect("an amount")
}

#[test]
fn random_instances_become_instances_of_the_later_version_with_the_values_that_it_says() {
    let seed = std::env::var("ENACT_MIGRATION_SEED").map_or(20_150_523, |seed| seed.parse().expect("a number"));
    println!("repeat with: ENACT_MIGRATION_SEED={seed} cargo test -p enact-rebel --test rebel migrations");
    let mut random = StdRng::seed_from_u64(seed);
    let from = spec(FROM);
    let to = spec(include_str!("migrations/accepted_all_kinds_of_lines.rebel"));
    let migration = to.migration(&from).unwrap_or_else(|report| panic!("{report}"));
    let class = to.class("Account").expect("the class");
    let key = class.key("A").expect("a key");
    let mut states = Vec::new();
    for _ in 0..2_000 {
        let Account { instance, holder, cents, overdraft, is_gold, state } = random_account(&from, &mut random);
        let migrated = migration.instance("Account", &key, &instance).expect("a value").expect("not dropped");
        assert_eq!(migration.instance("Account", &key, &instance), Ok(Some(migrated.clone())), "the same again");
        assert_eq!(class.verify(&key, &migrated), Ok(()), "{instance:?}");
        let of = |name: &str| migrated.fields().get(name);
        assert_eq!(of("owner"), Some(&Value::String(holder.into())));
        assert_eq!(cents_of(of("balance")), cents);
        assert_eq!(cents_of(of("limit")), i128::from(overdraft) * 10);
        assert_eq!(of("rich"), Some(&Value::Boolean(cents > 10_000 && is_gold)));
        for same in ["grade", "kind", "tags"] {
            assert_eq!(of(same), instance.fields().get(same));
        }
        assert_eq!(&**migrated.state(), if state == "frozen" { "blocked" } else { state });
        if !states.contains(&state) {
            states.push(state);
        }
    }
    assert_eq!(states.len(), 3, "every state is reached: {states:?}");
}

fn migration(to: &str) -> Migration {
    spec(to).migration(&spec(FROM)).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn a_dropped_class_has_no_instances_any_more_and_a_field_that_is_dropped_begins_with_its_default() {
    let text = FROM.replace("class Note", "class Paper");
    let to = format!("module shop version 2\n{text}migrate from 1\n  drop Note\n  drop Account.overdraft\n");
    let migration = migration(&to);
    let from = spec(FROM);
    let note = from.class("Note").expect("the class");
    assert_eq!(migration.instance("Note", &note.key("1").expect("a key"), &note.initial()), Ok(None));
    let mut random = StdRng::seed_from_u64(1);
    let account = (0..99).map(|_| random_account(&from, &mut random)).find(|account| account.overdraft != 0);
    let instance = account.expect("one of them has borrowed").instance;
    let key = from.class("Account").expect("the class").key("A").expect("a key");
    let migrated = migration.instance("Account", &key, &instance).expect("a value").expect("not dropped");
    assert_eq!(migrated.fields().get("overdraft"), Some(&Value::Integer(0)));
}

#[test]
fn an_expression_without_a_value_names_itself_and_what_it_read() {
    let to = format!("module shop version 2\n{FROM}migrate from 1\n  Account.overdraft = overdraft * {}\n", i64::MAX);
    let from = spec(FROM);
    let mut random = StdRng::seed_from_u64(2);
    let account = (0..99).map(|_| random_account(&from, &mut random)).find(|account| account.overdraft > 1);
    let instance = account.expect("one of them has borrowed").instance;
    let key = from.class("Account").expect("the class").key("A").expect("a key");
    let violations = migration(&to).instance("Account", &key, &instance).expect_err("it overflows");
    assert!(
        matches!(&violations[..], [Violation::Arithmetic { place, values, .. }]
        if place.starts_with("Account.overdraft = ") && values.len() == 1),
        "{violations:?}"
    );
}

#[test]
fn what_is_no_instance_of_the_earlier_version_is_refused() {
    let migration = migration(&format!("module shop version 2\n{FROM}"));
    let from = spec(FROM);
    let (account, note) = (from.class("Account").expect("it"), from.class("Note").expect("it"));
    let key = account.key("A").expect("a key");
    let refused = migration.instance("Account", &key, &note.initial()).expect_err("another class");
    assert!(!refused.is_empty());
    let unknown = migration.instance("Nobody", &key, &note.initial()).expect_err("no class");
    assert!(matches!(&unknown[..], [Violation::UnknownClass { .. }]), "{unknown:?}");
}

#[test]
fn a_class_is_added_if_nothing_else_is_said_and_nothing_knew_it() {
    let source = |text: &str| vec![Source::new("a.rebel", text)];
    let class =
        |name: &str, more: &str| format!("class {name}\n  n: Integer = 0\n  initial i\n    on E(): s\n  s{more}\n");
    let (a, b) = (class("A", ""), class("B", ""));
    let both = format!("{a}\n{b}");
    for (earlier, later, is_added) in [
        (&a, &both, true),
        (&b, &both, true),
        (&a, &format!("// Another class.\n{b}\n/// The first one.\n{a}"), true),
        (&both, &format!("{a}\n{}\n{b}", class("C", "")), true),
        (&a, &a, true),
        (&both, &a, false),
        (&both, &format!("{b}\n{a}"), false),
        (&a, &format!("{}\n{b}", class("A", "\n    on F()")), false),
        (&a, &format!("{}\n{b}", class("A", "").replace("= 0", "= 1")), false),
        // What is governed by a line at the top, and what may be meant by a name that was there.
        (&a, &format!("rounding half-even\n{a}"), false),
        (&a, &format!("enum Colour {{ red, green }}\n{a}"), false),
        (&a, &format!("{a}\n{}", class("E", "")), false),
        (&a, &format!("{a}\n{}", class("n", "")), false),
        (&"class".to_owned(), &b, false),
    ] {
        assert_eq!(only_adds_classes(&source(earlier), &source(later)), is_added, "{earlier}\nbecomes\n{later}");
    }
    assert!(!only_adds_classes(&source(&a), &[source(&a), source(&b)].concat()), "another source");
}

#[test]
fn comments_layout_and_spellings_change_nothing_and_all_else_does() {
    let source = |text: &str| vec![Source::new("a.rebel", text)];
    let one = "class A\n  n: Integer = 0\n  initial i\n    on E(): s\n      post: this.n = 1\n  s\n";
    for same in [
        one.to_owned(),
        format!("// A comment.\n{one}"),
        format!("/// Documentation.\n{}", one.replace("Integer = 0", "Integer = 0  /* zero */")),
        one.replace("this.n = 1", "this.n == 1").replace("\n      post:", "\n\n        post:"),
    ] {
        assert!(say_the_same(&source(one), &source(&same)), "{same}");
    }
    let governed = "class A\n  initial i\n    on E(x: A, y: Boolean): s\n      sync:\n        if y:\n          x.F()\n          x.F()\n  s\n    on F()\n";
    let beside = governed.replace("          x.F()\n          x.F()", "          x.F()\n        x.F()");
    assert!(!say_the_same(&source(governed), &source(&beside)), "the same tokens, another meaning");
    for other in [one.replace("= 1", "= 2"), one.replace("on E", "on F"), one.replace("A\n", "B\n")] {
        assert!(!say_the_same(&source(one), &source(&other)), "{other}");
    }
    assert!(!say_the_same(&source("class"), &source("class ")), "what cannot be read is not compared");
}

#[test]
fn words_of_migrations_are_names_elsewhere() {
    let text = "class rename\n  module: Integer = 0\n  version: Integer = 0\n  initial migrate\n    on drop(state: Integer): from_\n      \
                post: this.module = state, this.version = 1\n  from_\n";
    assert_eq!(spec(text).version(), 1);
    // A source may be indented as a whole, and a comment stand before a line.
    let indented = format!("module m version 2\n{text}migrate from 1\n")
        .replace('\n', "\n   ")
        .replace("migrate from", "/* c */ migrate from");
    assert!(spec(&indented).migration(&spec(text)).is_ok());
    let moved = text.replace("version: Integer = 0", "to: Integer = 0").replace("this.version", "this.to");
    let to = spec(&format!(
        "module m.n version 7\n{moved}migrate from 1\n  rename rename.version to to\n  rename.module = module + 1\n"
    ));
    assert_eq!((to.version(), to.migration(&spec(text)).expect("all is said").from()), (7, 1));
}

#[test]
fn whatever_is_written_a_migration_is_refused_or_gives_instances_of_the_later_version() {
    let seed = std::env::var("ENACT_MIGRATION_SEED").map_or(20_150_523, |seed| seed.parse().expect("a number"));
    println!("repeat with: ENACT_MIGRATION_SEED={seed} cargo test -p enact-rebel --test rebel migrations");
    let mut random = StdRng::seed_from_u64(seed);
    let from = spec(FROM);
    let texts: Vec<String> = later_versions().iter().map(|path| fs::read_to_string(path).expect("UTF-8")).collect();
    let steps: Vec<&str> = texts
        .iter()
        .filter_map(|text| text.split_once("migrate from 1\n"))
        .flat_map(|(_, steps)| steps.lines())
        .collect();
    let (mut refused, mut migrated) = (0, 0);
    for _ in 0..1_500 {
        let text = &texts[random.random_range(0..texts.len())];
        let (head, _) = text.split_once("migrate from").unwrap_or((text, ""));
        let mut text = format!("{head}migrate from 1\n");
        for step in (0..random.random_range(0..9)).map(|_| steps[random.random_range(0..steps.len())]) {
            text += &format!("{step}\n");
        }
        let Ok(to) = check(vec![Source::new("shop.rebel", text)]) else { continue };
        let Ok(migration) = to.migration(&from) else {
            refused += 1;
            continue;
        };
        for _ in 0..5 {
            let Account { instance, .. } = random_account(&from, &mut random);
            let key = from.class("Account").expect("the class").key("A").expect("a key");
            match migration.instance("Account", &key, &instance) {
                Ok(Some(instance)) => {
                    migrated += 1;
                    assert_eq!(to.class("Account").expect("kept").verify_types(&key, &instance), Ok(()));
                }
                Ok(None) => panic!("accounts are in every version"),
                Err(violations) => {
                    assert!(matches!(&violations[..], [Violation::Arithmetic { .. }, ..]), "{violations:?}");
                }
            }
        }
    }
    assert!(refused > 100 && migrated > 100, "{refused} {migrated}");
}

#[test]
fn a_field_is_kept_if_its_new_type_has_all_values_that_it_may_have() {
    let version = |records: &str, fields: &str, version: u32| {
        let module = if version > 1 { format!("module shop version {version}\n") } else { String::new() };
        format!("{module}{records}class Order\n{fields}  initial none_yet\n    on Place(): placed\n  placed\n")
    };
    let records = |grades: &str, more: &str| {
        format!(
            "enum Grade {{ {grades} }}\nrecord Line\n  product: String\n  grade: Grade\n{more}record Box\n  line: Line\n"
        )
    };
    let fields = |note: &str, sum: &str| {
        format!("  boxes: List[Box] = []\n  named: Map[String, Line] = {{}}\n  note: {note}\n  sum: {sum}\n")
    };
    let earlier = spec(&version(&records("basic, gold", ""), &fields("String = \"\"", "Money(EUR) = EUR 0.00"), 1));
    let later = |records: &str, fields: &str| spec(&version(records, fields, 2)).migration(&earlier);
    let kept = later(&records("basic, silver, gold", ""), &fields("String? = none", "Money = EUR 0.00"));
    assert_eq!(kept.unwrap_or_else(|report| panic!("{report}")).changes(), []);
    for (records, fields, expected) in [
        (
            records("basic, gold", "  more: Integer\n"),
            fields("String = \"\"", "Money(EUR) = EUR 0.00"),
            &["`boxes` of `Order` is of type List[Box], which is another one", "`named` of `Order`"][..],
        ),
        (
            records("basic, gold", ""),
            fields("Integer = 0", "Money(USD) = USD 0.00"),
            &["`note` of `Order` is of type Integer, and was of type String", "`sum` of `Order` is of type Money(USD)"],
        ),
        (records("gold", ""), fields("String = \"\"", "Money(EUR) = EUR 0.00"), &["`boxes`", "`named`"]),
    ] {
        let report = later(&records, &fields).expect_err("some values are none of the new type");
        let messages: Vec<&str> = report.errors().map(|error| &*error.message).collect();
        assert_eq!(messages.len(), expected.len(), "{messages:?}");
        for (message, part) in messages.iter().zip(expected) {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn records_that_hold_each_other_many_times_are_compared_once() {
    let deep = (1..60).fold("record R0\n  n: Integer\n".to_owned(), |text, n| {
        format!("{text}record R{n}\n  a: R{0}\n  b: R{0}\n", n - 1)
    });
    let class = "class A\n  r: R59? = none\n  initial i\n    on E(): s\n  s\n";
    let earlier = spec(&format!("{deep}{class}"));
    let later = spec(&format!("module a version 2\n{deep}{class}"));
    assert_eq!(later.migration(&earlier).unwrap_or_else(|report| panic!("{report}")).changes(), []);
}
