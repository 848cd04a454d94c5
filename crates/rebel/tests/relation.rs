//! The static table: exactly the published one for the account, and sound for every specification tried.

mod support;

use enact_rebel::{Class, EventCall, Instance, Key, Relation, Timestamp, Type, Value};
use support::{class, key};

const ACCOUNT: &str = include_str!("specs/account.rebel");
const NOW: Timestamp = support::NOW;

#[test]
fn account_has_thirteen_never_pairs_of_forty_nine() {
    use Relation::{Dynamic as D, Never as N};
    let account = class(ACCOUNT, "Account");
    let events = ["Open", "Withdraw", "Deposit", "Interest", "Close", "Block", "Unblock"];
    let table = [
        // in progress: one row; incoming: one column, in the same order
        ("Open", [D, D, D, D, N, D, N]),
        ("Withdraw", [N, D, D, D, D, D, N]),
        ("Deposit", [N, D, D, D, D, D, N]),
        ("Interest", [N, D, D, D, D, D, N]),
        ("Close", [N, N, D, D, D, D, N]),
        ("Block", [N, D, D, D, D, D, D]),
        ("Unblock", [N, D, D, D, D, D, D]),
    ];
    let mut count = 0;
    for (open, row) in table {
        for (incoming, expected) in events.into_iter().zip(row) {
            assert_eq!(account.relation(open, incoming), Some(expected), "[{open}] | {incoming}");
            count += usize::from(expected == Relation::Never);
        }
    }
    assert_eq!(count, 13);
    assert_eq!(account.relation("Open", "Nothing"), None);
}

/// All calls of an event with arguments of a small domain.
fn calls(class: &Class, event: &str) -> Vec<EventCall> {
    let event = class.event(event).unwrap();
    let mut calls = vec![Vec::new()];
    for param in event.params() {
        let values = domain(param.ty());
        calls = calls
            .into_iter()
            .flat_map(|call| {
                values.iter().map(move |value| {
                    let mut call: Vec<(&str, Value)> = call.clone();
                    call.push((param.name(), value.clone()));
                    call
                })
            })
            .collect();
    }
    calls.into_iter().map(|arguments| event.call(arguments).unwrap()).collect()
}

fn domain(ty: &Type) -> Vec<Value> {
    let texts: &[&str] = match ty {
        Type::Boolean => &["true", "false"],
        Type::Integer => &["-1", "0", "1", "2", "3"],
        Type::Money => &["EUR -0.01", "EUR 0.00", "EUR 0.01", "EUR 0.02", "EUR 50.00", "EUR 50.01", "USD 0.01"],
        Type::Percentage => &["-100%", "-1%", "0%", "1%", "60%", "100%"],
        Type::String => &["a", "b"],
        Type::Reference { .. } => &["x", "y"],
        other => panic!("no domain for {other}"),
    };
    texts.iter().map(|text| Value::parse(ty, text).unwrap()).collect()
}

/// Every instance that satisfies the class, with fields of the small domain.
fn instances(class: &Class, key: &Key) -> Vec<Instance> {
    let mut fields = vec![serde_json::Map::new()];
    for field in class.fields() {
        let values = domain(field.ty());
        fields = fields
            .into_iter()
            .flat_map(|fields| {
                values.iter().map(move |value| {
                    let mut fields = fields.clone();
                    fields.insert(field.name().to_string(), serde_json::to_value(value).unwrap());
                    fields
                })
            })
            .collect();
    }
    let mut instances = vec![class.initial()];
    for state in class.states().iter().filter(|state| state.name() != class.initial().state()) {
        for fields in &fields {
            let json = serde_json::json!({ "state": state.name(), "fields": fields });
            let instance: Instance = serde_json::from_value(json).unwrap();
            if class.verify(key, &instance).is_ok() {
                instances.push(instance);
            }
        }
    }
    instances
}

/// What a table entry may at most claim, found by trying everything in the small domain.
fn tried(class: &Class, key: &Key, open: &str, incoming: &str) -> Relation {
    let incoming = calls(class, incoming);
    for before in instances(class, key) {
        for open in calls(class, open) {
            let Ok(after) = class.next(key, &before, &open, NOW) else { continue };
            for incoming in &incoming {
                if [&before, &after].iter().any(|instance| class.next(key, instance, incoming, NOW).is_ok()) {
                    return Relation::Dynamic;
                }
            }
        }
    }
    Relation::Never
}

/// How many pairs are claimed to be refused.
fn check_soundness(source: &str, name: &str) -> usize {
    let class = class(source, name);
    let key = key(&class);
    let mut claimed = 0;
    for open in class.events() {
        for incoming in class.events() {
            if class.relation(open.name(), incoming.name()).unwrap() == Relation::Never {
                let tried = tried(&class, &key, open.name(), incoming.name());
                assert_eq!(tried, Relation::Never, "[{}] | {}", open.name(), incoming.name());
                claimed += 1;
            }
        }
    }
    claimed
}

#[test]
fn every_claim_for_the_account_holds_in_a_small_domain() {
    assert_eq!(check_soundness(ACCOUNT, "Account"), 13);
}

/// The claims for the account are also complete: trying everything finds no further pair.
#[test]
fn no_pair_of_the_account_is_missed() {
    let account = class(ACCOUNT, "Account");
    let key = key(&account);
    for open in account.events() {
        for incoming in account.events() {
            let claim = account.relation(open.name(), incoming.name()).unwrap();
            assert_eq!(
                claim,
                tried(&account, &key, open.name(), incoming.name()),
                "[{}] | {}",
                open.name(),
                incoming.name()
            );
        }
    }
}

#[test]
fn an_invariant_that_every_instance_satisfies_is_used() {
    let tank = |invariant: &str| {
        format!(
            "
        class Tank
          litres: Integer = 0
          {invariant}
          initial new on Build(): built
          built
            on Fill(by: Integer) pre: by > 0 post: this.litres += by
            on Mend() pre: litres < 0
          final gone"
        )
    };
    let (with, without) = (tank("invariant litres >= 0"), tank(""));
    assert_eq!(class(&with, "Tank").relation("Fill", "Mend"), Some(Relation::Never));
    assert_eq!(class(&without, "Tank").relation("Fill", "Mend"), Some(Relation::Dynamic));
    assert_eq!(check_soundness(&with, "Tank"), check_soundness(&without, "Tank") + 3);
}

#[test]
fn every_claim_for_overdrafts_flags_and_functions_holds_in_a_small_domain() {
    let source = "
        fn after(b: Money, rate: Percentage): Money = b + b * rate
        fn either(a: Boolean, b: Boolean): Boolean = a or b
        class Account
          balance: Money
          limit: Money
          flag: Boolean = false
          invariant limit >= 0
          invariant balance + limit >= 0
          initial new
            on Open(first: Money): opened
              pre: first >= 0
              post: this.balance == first, this.limit == first * 0
          opened
            on Withdraw(sum: Money) pre: sum > 0, balance + limit - sum >= 0 post: this.balance -= sum
            on Deposit(sum: Money) pre: sum > 0 post: this.balance += sum
            on Limit(to: Money) pre: to >= 0, balance + to >= 0 post: this.limit == to
            on Grow(rate: Percentage) pre: rate >= 0, either(flag, balance >= 0) post: this.balance == after(balance, rate)
            on Shrink(rate: Percentage) pre: rate < 0, rate > -100% post: this.balance += balance * rate
            on Flag(to: Boolean) post: this.flag == to
            on Capped(sum: Money) pre: sum > 0, balance < EUR 50.00 or flag post: this.balance += sum
            on Exact(sum: Money) pre: balance != sum
            on Choose(sum: Money) post: this.balance == if flag then balance else balance + sum
            on Close(): closed pre: balance == EUR 0.00, limit == EUR 0.00
          final closed";
    assert_eq!(check_soundness(source, "Account"), 11, "a change detector: of 121 pairs");
}

#[test]
fn every_claim_for_effects_under_conditions_holds_in_a_small_domain() {
    let source = "
        class Box
          n: Integer = 0
          cap: Integer = 2
          flag: Boolean = false
          invariant n <= cap
          initial new on Make(): made
          made
            on Lower(k: Integer, b: Boolean)
              pre: k >= 0
              post: if b: this.n -= k
            on Sink(b: Boolean)
              pre: n <= 0
              post: if b: this.n -= 1 else: this.n -= 2
            on Lift()
              pre: n > 1
            on Raise(k: Integer, b: Boolean)
              pre: k >= 0
              post:
                if b: this.cap += k else: this.cap += 1
                if flag: this.n -= 1
            on Spend(k: Integer)
              pre: n >= k
              post: for i in 1 .. k: this.n -= 1";
    let relation = |open, incoming| class(source, "Box").relation(open, incoming).unwrap();
    assert_eq!(relation("Sink", "Lift"), Relation::Never, "neither way lifts it");
    assert_eq!(relation("Lower", "Lift"), Relation::Dynamic);
    assert!(check_soundness(source, "Box") > 0);
}
