//! Layout: what stands on a line of its own, or deeper, is what it looks like, and nothing changes its meaning silently.

use enact_rebel::{Source, Spec, Timestamp, Value, check};

const BATCH: &str = "
class Account
  approved: Boolean = true
  balance: Integer = 10
  initial new
    on Open(): opened
  opened
    on Take(amount: Integer)
      pre: amount > 0
           approved
           (amount < 100)
           \"enough\": balance >= amount
      post: this.balance -= amount
    on Disapprove()
      post: this.approved == false
class Batch
  initial drafted
    on Pay(from: Account, twice: Boolean): paid
      sync:
        from.Take(1)
        if twice:
          from.Take(2)
          from.Take(3)
        from.Take(4)
  final paid
";

fn load(text: &str) -> Spec {
    check(vec![Source::new("text.rebel", text)]).unwrap_or_else(|report| panic!("{report}"))
}

fn takes(spec: &Spec, twice: bool) -> Vec<i64> {
    let class = spec.class("Batch").expect("a class");
    let (key, now) = (class.key("b").expect("an id"), Timestamp::from_millis(0));
    let account = spec.class("Account").expect("a class");
    let from = enact_rebel::Reference { class: account.name().clone(), key: account.key("a").expect("an id") };
    let event = class.event("Pay").expect("an event");
    let call = event.call([("from", Value::Reference(from)), ("twice", Value::Boolean(twice))]).expect("it fits");
    let syncs = class.syncs(&key, &class.initial(), &call, now).expect("it is possible");
    let amount = |sync: &enact_rebel::Sync| match &sync.action {
        enact_rebel::Action::Do(call) => match call.arguments().get("amount") {
            Some(Value::Integer(amount)) => *amount,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    syncs.iter().map(amount).collect()
}

#[test]
fn a_condition_governs_all_lines_that_are_indented_below_it_and_no_other() {
    let spec = load(BATCH);
    assert_eq!(takes(&spec, true), [1, 2, 3, 4]);
    assert_eq!(takes(&spec, false), [1, 4]);
}

#[test]
fn a_line_break_separates_guards_as_a_comma_does() {
    for text in [BATCH.to_owned(), BATCH.replace("amount > 0\n           approved\n", "amount > 0, approved,\n")] {
        let spec = load(&text);
        let account = spec.class("Account").expect("a class");
        let (key, now) = (account.key("a").expect("an id"), Timestamp::from_millis(0));
        let call = |event: &str, arguments: &[(&str, Value)]| {
            account.event(event).expect("an event").call(arguments.iter().cloned()).expect("it fits")
        };
        let opened = account.next(&key, &account.initial(), &call("Open", &[]), now).expect("possible");
        let disapproved = account.next(&key, &opened, &call("Disapprove", &[]), now).expect("possible");
        let take = call("Take", &[("amount", Value::Integer(1))]);
        assert!(account.next(&key, &opened, &take, now).is_ok());
        let refused = account.next(&key, &disapproved, &take, now).expect_err("it is not approved");
        assert_eq!(refused[0].to_string(), "approved, where approved = false");
        let states: Vec<_> = account.states().iter().map(|state| state.name().to_string()).collect();
        assert_eq!(states, ["new", "opened"]);
    }
}

/// Variants, questions and aggregates.
const WAYS: &str = r#"
class Shelf
  name: String @identity
  row: Integer @identity
  stock: Set[Integer] = {}
  next: Shelf
  initial unbuilt
    on Build(then: Shelf): built
      pre: all(s in stock: s in 1 .. 9), then is built
      post: this.next = then
  built
    on Move(piece: Integer, to: Shelf)
      pre: piece in stock
           "it is full": to.stock.size < 3 or not can to.Put(piece)
      post: this.stock -= piece
      sync: to.Put(piece)
      variant last: empty
        pre: stock.size == 1, Shelf["a", 1] is built
        sync:
          next.Put(piece + 1)
          to.Put(count(s in stock where s > 2))
      variant other
        pre: next.next is built
    on Put(piece: Integer)
      post: this.stock += piece
  final empty
"#;

/// Effects under conditions and loops.
const BRANCHES: &str = r#"
class Depot
  stock: Map[String, Integer] = {}
  seen: Set[String] = {}
  count: Integer
  initial new
    on Open(first: Map[String, Integer], many: Boolean): open
      post:
        this.stock = first
        if many:
          this.count = first.size
          this.seen = first.keys
        else: this.count = 0
  open
    on Find(found: Set[String], twice: Boolean)
      post:
        for name in found:
          if name in stock: this.stock[name] += 1 else: this.seen += name
        this.count += 1
        if twice: for name in found: this.count += 1
        else:
          this.count += 2
          this.count -= 1
      sync:
        if twice:
          this.Lose("a")
        else: this.Lose("b")
    on Lose(name: String)
      post: if name in stock: this.stock -= name
"#;

/// The contracts that a reader sees first.
fn contracts() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut texts = vec![BATCH.to_owned(), WAYS.to_owned(), BRANCHES.to_owned()];
    for entry in std::fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "rebel") {
            texts.push(std::fs::read_to_string(path).expect("readable"));
        }
    }
    assert!(texts.len() > 1);
    texts
}

/// All that a text means, if it is a contract.
fn meaning(text: &str) -> Option<String> {
    let spec = check(vec![Source::new("text.rebel", text)]).ok()?;
    let classes = format!("{:?}", spec.classes().collect::<Vec<_>>());
    // Where it stands is no part of it.
    let mut parts = classes.split("Span {");
    let first = parts.next().unwrap_or_default().to_owned();
    Some(parts.filter_map(|part| part.split_once('}')).fold(first, |meaning, (_, rest)| meaning + rest))
}

#[track_caller]
fn check_is_same_or_refused(original: &Option<String>, changed: &str, what: &str) -> bool {
    let after = meaning(changed);
    assert!(after.is_none() || after == *original, "{what} changes the meaning:\n{changed}");
    after.is_some()
}

/// The places of commas outside of comments and texts.
fn commas(text: &str) -> Vec<usize> {
    let (mut found, mut at) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        let code = line.split("//").next().unwrap_or_default();
        let mut is_text = false;
        for (place, letter) in code.char_indices() {
            is_text ^= letter == '"';
            if letter == ',' && !is_text {
                found.push(at + place);
            }
        }
        at += line.len();
    }
    found
}

#[test]
fn no_comma_that_is_missing_changes_a_contract_silently() {
    for text in contracts() {
        let original = meaning(&text);
        for comma in commas(&text) {
            let changed = [&text[..comma], " ", &text[comma + 1..]].concat();
            check_is_same_or_refused(&original, &changed, "a missing comma");
        }
    }
}

#[test]
fn no_line_that_is_broken_at_a_comma_changes_a_contract_silently() {
    for text in contracts() {
        let original = meaning(&text);
        for comma in commas(&text) {
            for indentation in 0..14 {
                let broken = ["\n", &" ".repeat(indentation)].concat();
                let changed = [&text[..=comma], &broken, text[comma + 1..].trim_start_matches(' ')].concat();
                check_is_same_or_refused(&original, &changed, "a broken line");
            }
        }
    }
}

#[test]
fn no_two_lines_that_are_joined_change_a_contract_silently() {
    let mut accepted = 0;
    for text in contracts() {
        let original = meaning(&text);
        let lines: Vec<&str> = text.lines().collect();
        for first in 0..lines.len() - 1 {
            if lines[first].contains("//") || lines[first + 1].contains("//") {
                continue;
            }
            let joined = format!("{} {}", lines[first], lines[first + 1].trim_start());
            let changed = [&lines[..first], &[joined.as_str()], &lines[first + 2..]].concat().join("\n");
            accepted += usize::from(check_is_same_or_refused(&original, &changed, "a joined line"));
        }
    }
    assert!(accepted > 10, "some joins are harmless");
}

#[test]
fn no_line_that_is_indented_otherwise_changes_a_contract_silently() {
    for text in contracts() {
        let original = meaning(&text);
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
            let code = lines[at].trim_start();
            if code.is_empty() || code.starts_with("//") || at == 0 {
                continue;
            }
            for indentation in 0..16 {
                let moved = [" ".repeat(indentation).as_str(), code].concat();
                let changed = [&lines[..at], &[moved.as_str()], &lines[at + 1..]].concat().join("\n");
                let after = meaning(&changed);
                // A call or an effect that is moved into a block, or out of one, stands on the page as such.
                let is_effect = text == BRANCHES && code.contains("this.");
                let is_step = code.contains(").") || code.contains('.') && code.ends_with(')') || is_effect;
                let is_same = after.is_none() || after == original;
                assert!(is_same || is_step, "a line indented by {indentation} changes the meaning:\n{changed}");
            }
        }
    }
}

#[test]
fn a_comment_of_several_lines_hides_no_error() {
    let comment = "/* one line\n   and another */ ";
    for wrong in [
        "clas A\n  n: Integer = 0",
        "class A\n  n Integer\n  initial i\n    on E(): o\n  final o",
        "class A\n  initial i\n    onn E(): o\n  final o",
        "class A\n  initial i\n    on E: o\n  final o",
        "class A\n  initial i\n    on E(): o\n      pre: 1 1\n  final o",
    ] {
        assert!(check(vec![Source::new("wrong.rebel", wrong)]).is_err(), "{wrong}");
        let words: Vec<usize> = wrong.match_indices(|c: char| c.is_ascii_alphanumeric()).map(|(at, _)| at).collect();
        let starts = words.iter().filter(|&&at| at == 0 || !wrong.as_bytes()[at - 1].is_ascii_alphanumeric());
        for &at in starts {
            let commented = format!("{}{comment}{}", &wrong[..at], &wrong[at..]);
            assert!(check(vec![Source::new("wrong.rebel", &commented)]).is_err(), "{commented}");
        }
    }
}
