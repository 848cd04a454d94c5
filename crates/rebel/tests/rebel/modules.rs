//! Modules, and what classes take from others.

use std::collections::BTreeMap;

use enact_rebel::{Class, Code, Report, Source, Spec, Style, Type, check, format, limits};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::support::{self, field, next};

/// Accounts in one module, transfers in another.
const BANK: &str = include_str!("specs/modules.rebel");

fn accepted(text: &str) -> Spec {
    check(support::sources("one.rebel", text)).unwrap_or_else(|report| panic!("{report}"))
}

/// What is said of the text, in the order of the report.
fn findings(text: &str) -> Vec<String> {
    let report = match check(support::sources("one.rebel", text)) {
        Ok(spec) => spec.warnings().clone(),
        Err(report) => report,
    };
    let said = |report: &Report| {
        let found = report.diagnostics().iter();
        found.map(|found| format!("{} {}", found.code, found.message)).collect()
    };
    said(&report)
}

#[test]
fn a_module_sees_what_it_declares_and_what_it_imports() {
    let spec = accepted(BANK);
    assert_eq!(spec.warnings().diagnostics(), []);
    let modules: Vec<(&str, Option<u32>)> =
        spec.modules().iter().map(|module| (&**module.name(), module.version())).collect();
    assert_eq!(modules, [("bank.accounts", Some(2)), ("bank.transfers", None)]);
    let classes: Vec<(&str, Option<&str>)> =
        spec.classes().map(|class| (&**class.name(), class.module().map(|module| &**module))).collect();
    let accounts = Some("bank.accounts");
    assert_eq!(classes, [("Checking", accounts), ("Savings", accounts), ("Transfer", Some("bank.transfers"))]);
}

#[test]
fn a_name_that_is_not_imported_is_not_known() {
    let module =
        "// ---- a.rebel ----\nmodule a\nenum Kind { x }\nconst one: Integer = 1\n// ---- b.rebel ----\nmodule b\n";
    let uses = "fn f(k: Kind): Boolean = k == Kind.x\nconst two: Integer = one + one\n";
    assert_eq!(
        findings(&format!("{module}{uses}")),
        [
            "E102 `Kind` is declared in the module `a`, and not imported here",
            "E103 `one` is declared in the module `a`, and not imported here"
        ]
    );
    for import in ["import a\n", "import a: one, Kind\n", "import a: Kind\nimport a: one\n"] {
        assert_eq!(findings(&format!("{module}{import}{uses}")), [""; 0], "{import}");
    }
    let written = "import a\nfn f(k: a.Kind): Boolean = k == a.Kind.x\nconst two: Integer = a.one + a.one\n";
    assert_eq!(findings(&format!("{module}{written}")), [""; 0]);
}

#[test]
fn files_without_modules_are_one_namespace_and_with_one_module_each_is_its_own() {
    let files =
        "// ---- a.rebel ----\nconst one: Integer = 1\n// ---- b.rebel ----\nfn f(n: Integer): Boolean = n == one\n";
    assert_eq!(findings(files), ["W002 `f` is a function that nothing uses"]);
    let with_module = format!("{files}// ---- c.rebel ----\nmodule c\nenum Kind {{ x }}\n");
    assert_eq!(
        findings(&with_module),
        [
            "E103 `one` is declared in a.rebel, which is no module that can be imported",
            "W002 `one` is a constant that nothing uses",
            "W002 `f` is a function that nothing uses"
        ]
    );
}

#[test]
fn records_functions_and_constants_of_other_modules_are_used_as_those_of_the_own_one() {
    let text = "// ---- a.rebel ----
module a
import b: Size
record Line
  size: Size
  cost: Money
const none_: List[Line] = []
fn cost(lines: List[Line]): Money = sum(line in lines: line.cost, EUR 0.00)
// ---- b.rebel ----
module b
import a
import a: none_
record Size
  width: Integer
class Order
  lines: List[Line] = none_
  total: Money = EUR 0.00
  initial draft
    on Place(width: Integer): placed
      let: line = a.Line(size: Size(width: width), cost: EUR 2.00)
      post: this.lines = [line, line], this.total = a.cost([line, line])
  placed
";
    let spec = accepted(text);
    assert_eq!(spec.warnings().diagnostics(), []);
    let order = class(&spec, "Order");
    let placed = next(&order, &order.initial(), "Place", &["3"]).expect("it is possible");
    assert_eq!(field(&placed, "total"), "EUR 4.00");
    assert!(field(&placed, "lines").starts_with("[Line(size: Size(width: 3)"), "{}", field(&placed, "lines"));
}

#[test]
fn a_field_and_a_module_of_one_name_are_told_apart_by_what_follows() {
    let text = "
// ---- account.rebel ----
module account
const limit: Money = EUR 500.00
class Account
  balance: Money = EUR 0.00
  initial unopened
    on Open(): opened
  opened
    on Deposit(amount: Money)
      post: this.balance += amount
// ---- order.rebel ----
module order
import account
class Order
  account: Account
  initial draft
    on Place(by: Account): placed
      post: this.account = by
  placed
    on Pay(amount: Money): paid
      pre: account is opened, account.balance >= amount
      sync: account.Deposit(amount), account.Account[\"a\"].Deposit(amount)
  final paid
";
    assert_eq!(findings(text.trim_start()), [""; 0]);
}

#[test]
fn classes_of_modules_may_import_each_other_in_a_circle() {
    let text = "// ---- a.rebel ----
module a
import b: B
class A
  other: B
  initial none
    on Make(other_: B): made
      post: this.other = other_
  made
// ---- b.rebel ----
module b
import a: A
class B
  other: A
  initial none
    on Make(other_: A): made
      post: this.other = other_
  made
";
    assert_eq!(findings(text), [""; 0]);
}

fn class(spec: &Spec, name: &str) -> std::sync::Arc<Class> {
    spec.class(name).unwrap_or_else(|| panic!("there is no {name}")).clone()
}

#[test]
fn a_class_without_members_of_its_own_ends_where_the_next_declaration_begins() {
    let base = "abstract class Base\n  a: Money\n  initial none_yet\n    on Open(line: Line): open\n      post:\n        \
                this.a = line.price\n  open\n";
    for next in ["record Line\n  price: Money\n", "\nrecord Line\n\n  price: Money\n"] {
        let text = format!("{base}class Sub extends Base\n{next}");
        let spec = accepted(&text);
        assert!(spec.class("Sub").is_some(), "{text}");
        for canonical in [false, true] {
            let style = Style { canonical, from_free: false };
            let printed = format(Source::new("one.rebel", text.clone()), style).expect("the text can be read");
            accepted(&printed);
        }
    }
}

#[test]
fn a_class_that_extends_another_has_what_that_one_has_with_its_own_constants() {
    let spec = accepted(BANK);
    let (checking, savings) = (class(&spec, "Checking"), class(&spec, "Savings"));
    assert!(spec.class("Account").is_none(), "an abstract class has no instances");
    let fields = |class: &Class| class.fields().iter().map(|field| field.name().to_string()).collect::<Vec<_>>();
    assert_eq!(fields(&checking), ["balance", "floor"]);
    assert_eq!(fields(&savings), ["balance", "floor", "kind"]);
    assert_eq!(field(&checking.initial(), "floor"), "EUR 0.00");
    assert_eq!(field(&savings.initial(), "floor"), "EUR 11.00", "`least + EUR 1.00`");
    assert_eq!(savings.invariants().len(), 1);
    // 13.00 is not 11.00 and two percent of 13.00, but there is no bonus here.
    let opened = |class: &Class, deposit| next(class, &class.initial(), "Open", &[&format!("EUR {deposit}")]);
    assert!(opened(&savings, "10.99").is_err());
    let account = opened(&savings, "200.00").expect("it is enough");
    assert!(opened(&checking, "0.00").is_ok());
    // The event that is used in its place leaves more than the one it replaces, and has the name of that one.
    assert!(next(&savings, &account, "Withdraw", &["EUR 100.01"]).is_err());
    let less = next(&savings, &account, "Withdraw", &["EUR 100.00"]).expect("100.00 are left");
    assert_eq!(field(&less, "balance"), "EUR 100.00");
    let taken = next(&savings, &account, "Take", &["EUR 1.00"]).expect("enough is left");
    assert_eq!(&**taken.state(), "blocked");
    let withdraw = savings.event("Withdraw").expect("it is used");
    assert_eq!(withdraw.params().len(), 1, "what `use` gives is no parameter");
    assert_eq!(withdraw.documentation(), "Takes money out.");
}

#[test]
fn copied_text_means_what_it_means_where_it_stands() {
    let text = "// ---- a.rebel ----
module a
rounding up
const rate: Percentage = 10%
enum Kind { plain, gold }
fn share(amount: Money): Money = amount * rate
event Earn(amount: Money, kind: Kind) needs (sum: Money)
  pre: kind == Kind.gold
  post: this.sum += share(amount) + amount * rate
abstract class Base
  sum: Money = EUR 0.00
  of: Kind = Kind.gold
  initial none
    on Make(): made
  made
    on Add(amount: Money)
      post: this.sum += amount * rate
// ---- b.rebel ----
module b
import a: Base, Earn, Kind
rounding down
const rate: Percentage = 50%
class Sub extends Base
  half: Money = EUR 0.05 * rate
  made
    use Earn(kind: Kind.gold)
    on Own(amount: Money)
      post: this.sum += amount * rate
";
    let spec = accepted(text);
    let sub = class(&spec, "Sub");
    assert_eq!(field(&sub.initial(), "half"), "EUR 0.02", "rounded down, by half");
    let made = next(&sub, &sub.initial(), "Make", &[]).expect("it is possible");
    for (event, sum) in [("Add", "0.01"), ("Earn", "0.02"), ("Own", "0.02")] {
        let after = next(&sub, &made, event, &["EUR 0.05"]).expect("it is possible");
        assert_eq!(field(&after, "sum"), format!("EUR {sum}"), "{event}");
    }
}

#[test]
fn a_mistake_in_copied_text_is_reported_once_and_one_of_a_copy_names_the_class() {
    let text = "
abstract class Base(least: Money)
  sum: Money = least
  initial none
    on Make(): made
  made
    on Add(amount: Mony)
      pre: amount > unknown
class One extends Base(EUR 1.00)
class Two extends Base(EUR 2.00)
class Three extends Base(EUR 3.00)
  rate: Percentage
";
    let report = check(vec![Source::new("one.rebel", text)]).unwrap_err();
    let found: Vec<(&str, Vec<&str>)> = report
        .diagnostics()
        .iter()
        .map(|found| (found.code.number(), found.labels.iter().map(|label| &*label.text).collect()))
        .collect();
    assert_eq!(
        found,
        [
            ("E401", vec!["creates an instance", "without a default", "copied by `Three`"]),
            ("E102", vec!["no such type"]),
            ("E103", vec!["unknown"])
        ]
    );
}

#[test]
fn a_chain_of_classes_has_a_limit() {
    let chain = |length: usize| {
        let mut text = String::from("class C0\n  initial none\n    on Make(): made\n  made\n");
        for number in 1..=length {
            text += &format!("class C{number} extends C{}\n  f{number}: Integer = {number}\n", number - 1);
        }
        text
    };
    let longest = accepted(&chain(limits::EXTENDED_MAX));
    let last = class(&longest, &format!("C{}", limits::EXTENDED_MAX));
    assert_eq!(last.fields().len(), limits::EXTENDED_MAX);
    let report = check(vec![Source::new("long", chain(limits::EXTENDED_MAX + 1))]).unwrap_err();
    let codes: Vec<Code> = report.diagnostics().iter().map(|found| found.code).collect();
    assert_eq!(codes, [Code::Limit]);
}

#[test]
fn copies_are_declarations_of_which_there_are_not_too_many() {
    let guards = "true, ".repeat(9_999);
    let mut text =
        format!("abstract class Wide\n  initial none\n    on Make(): made\n      pre: {guards}true\n  made\n");
    for number in 0..100 {
        text += &format!("class C{number} extends Wide\n");
    }
    let report = check(vec![Source::new("wide", text)]).unwrap_err();
    assert_eq!(report.errors().map(|found| found.code).collect::<Vec<_>>(), [Code::Limit]);
}

#[test]
fn the_public_tree_has_indexes_and_external_classes() {
    let text = "
class Order
  number: Integer @identity
  due: Money = EUR 0.00
  payer: Payer
  index due
  index payer, number
  initial draft
    on Place(by: Payer): placed
      post: this.payer = by
      sync: by.Note(number)
  final placed
external class Payer
  initial none
    on Join(): joined
  joined
    on Note(order: Integer)
";
    let spec = accepted(text);
    assert_eq!(spec.warnings().diagnostics(), []);
    let (order, payer) = (class(&spec, "Order"), class(&spec, "Payer"));
    assert_eq!(order.indexes(), [vec!["due".into()], vec!["payer".into(), "number".into()]]);
    assert_eq!((order.is_external(), payer.is_external()), (false, true));
    assert_eq!(order.module(), None);
    assert!(matches!(order.fields()[1].ty(), Type::Reference { .. }));
}

#[test]
fn words_of_modules_and_reuse_are_names_everywhere_else() {
    let text = "
class event_
  module: Integer = 0
  import: Integer = 0
  use: Integer = 0
  index: Integer = 0
  extends: Integer = 0
  initial abstract
    on Make(version: Integer, needs: Integer): external
      post: this.module = version, this.use = needs, this.index = 1
  external
    on as(event: Integer): external
      pre: module + import + use + index + extends < event
";
    assert_eq!(findings(text), [""; 0]);
}

#[test]
fn modules_are_laid_out_as_they_are_written() {
    for source in support::sources("one.rebel", BANK) {
        let text = source.text.clone();
        assert_eq!(format(source, Style { canonical: true, ..Style::default() }).expect("it can be read"), text);
    }
}

/// The declarations of a file behind its heading, each with the comments before it.
fn declarations(text: &str) -> (String, Vec<String>) {
    let begins_heading = |line: &&str| ["module ", "import ", "rounding "].iter().any(|word| line.starts_with(word));
    let count = text.split_inclusive('\n').filter(begins_heading).count();
    let last = text.split_inclusive('\n').enumerate().filter(|(_, line)| begins_heading(line)).nth(count.max(1) - 1);
    let heading_lines = last.map_or(0, |(number, _)| number + 1);
    let mut heading: String = text.split_inclusive('\n').take(heading_lines).collect();
    let mut parts: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in text.split_inclusive('\n').skip(heading_lines) {
        let is_inside = line.starts_with([' ', '\t', '\n', '\r']);
        if is_inside {
            parts.last_mut().unwrap_or(&mut heading).push_str(line);
        } else {
            if !is_open {
                parts.push(String::new());
            }
            parts.last_mut().expect("there is one").push_str(line);
        }
        is_open = line.starts_with("//") || is_open && line.trim().is_empty();
    }
    (heading, parts)
}

/// The classes as they are written out, by their names, without the places in them.
fn without_places(spec: &Spec) -> BTreeMap<String, String> {
    let described = |class: &std::sync::Arc<Class>| {
        let text = format!("{class:?}");
        let mut parts = text.split("Span {");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + part.split_once('}').map_or("", |(_, rest)| rest))
    };
    spec.classes().map(|class| (class.name().to_string(), described(class))).collect()
}

#[test]
fn the_order_of_files_and_of_declarations_never_matters() {
    let examples = [
        BANK,
        include_str!("../../../../examples/bank.rebel"),
        include_str!("../../../../examples/listing2.rebel"),
        include_str!("specs/account.rebel"),
    ];
    let mut differing = 0;
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let text = examples[random.random_range(0..examples.len())];
        let mut sources = support::sources("one.rebel", text);
        let before = without_places(&check(sources.clone()).unwrap_or_else(|report| panic!("{report}")));
        for source in &mut sources {
            let (heading, mut parts) = declarations(&source.text);
            parts.shuffle(&mut random);
            let shuffled = format!("{heading}\n{}", parts.concat());
            differing += usize::from(shuffled.trim() != source.text.trim());
            source.text = shuffled;
        }
        sources.shuffle(&mut random);
        let after = check(sources).unwrap_or_else(|report| panic!("seed {seed}: {report}"));
        let after = without_places(&after);
        for (name, class) in &before {
            assert_eq!(after.get(name), Some(class), "seed {seed}: {name}");
        }
        assert_eq!(after.len(), before.len());
    }
    assert!(differing > 20, "{differing}");
}
