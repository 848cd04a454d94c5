//! The static tables: exactly the published ones for the account, and sound for every specification tried.

use enact_rebel::{Class, EventCall, Instance, Key, Relation, Timestamp, Type, Value};

use crate::support::{self, class, key};

const ACCOUNT: &str = include_str!("specs/account.rebel");
const NOW: Timestamp = support::NOW;

/// Nine pairs are published as always compatible; Interest in progress before Close is a tenth that holds too.
#[test]
fn account_has_thirteen_never_pairs_and_ten_invariant_pairs_of_forty_nine() {
    use Relation::{Dynamic as D, Invariant as I, Never as N};
    let account = class(ACCOUNT, "Account");
    let events = ["Open", "Withdraw", "Deposit", "Interest", "Close", "Block", "Unblock"];
    let table = [
        // in progress: one row; incoming: one column, in the same order
        ("Open", [D, D, D, D, N, D, N]),
        ("Withdraw", [N, D, I, I, D, I, N]),
        ("Deposit", [N, D, I, I, D, I, N]),
        ("Interest", [N, D, I, I, I, I, N]),
        ("Close", [N, N, D, D, D, D, N]),
        ("Block", [N, D, D, D, D, D, D]),
        ("Unblock", [N, D, D, D, D, D, D]),
    ];
    let mut counts = [0, 0];
    for (open, row) in table {
        for (incoming, expected) in events.into_iter().zip(row) {
            assert_eq!(account.relation(open, incoming), Some(expected), "[{open}] | {incoming}");
            counts[0] += usize::from(expected == Relation::Never);
            counts[1] += usize::from(expected == Relation::Invariant);
        }
    }
    assert_eq!(counts, [13, 10]);
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
    let (mut never, mut same) = (true, true);
    let incoming = calls(class, incoming);
    for before in instances(class, key) {
        for open in calls(class, open) {
            let Ok(after) = class.next(key, &before, &open, NOW) else { continue };
            for incoming in &incoming {
                let verdicts = [&before, &after].map(|instance| class.next(key, instance, incoming, NOW).is_ok());
                let syncs = [&before, &after].map(|instance| class.syncs(key, instance, incoming, NOW).ok());
                never &= verdicts == [false, false];
                same &= verdicts[0] == verdicts[1] && (!verdicts[0] || syncs[0] == syncs[1]);
            }
        }
    }
    match (never, same) {
        (true, _) => Relation::Never,
        (_, true) => Relation::Invariant,
        _ => Relation::Dynamic,
    }
}

fn check_soundness(source: &str, name: &str) -> [usize; 2] {
    let class = class(source, name);
    let key = key(&class);
    let mut claimed = [0, 0];
    for open in class.events() {
        for incoming in class.events() {
            let claim = class.relation(open.name(), incoming.name()).unwrap();
            let tried = tried(&class, &key, open.name(), incoming.name());
            let is_sound = match claim {
                Relation::Never => tried == Relation::Never,
                Relation::Invariant => tried != Relation::Dynamic,
                _ => true,
            };
            assert!(is_sound, "[{}] | {}: claimed {claim:?}, tried {tried:?}", open.name(), incoming.name());
            claimed[0] += usize::from(claim == Relation::Never);
            claimed[1] += usize::from(claim == Relation::Invariant);
        }
    }
    claimed
}

#[test]
fn every_claim_for_the_account_holds_in_a_small_domain() {
    assert_eq!(check_soundness(ACCOUNT, "Account"), [13, 10]);
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
    let source = "
        class Tank
          litres: Integer = 0
          invariant litres >= 0
          initial new on Build(): built
          built
            on Fill(by: Integer) pre: by > 0 post: this.litres += by
            on Drain(by: Integer) pre: by > 0 post: this.litres -= by
            on Rinse(to: Integer) post: this.litres == to";
    let tank = class(source, "Tank");
    assert_eq!(tank.relation("Drain", "Fill"), Some(Relation::Invariant));
    assert_eq!(tank.relation("Fill", "Drain"), Some(Relation::Dynamic));
    assert_eq!(
        tank.relation("Fill", "Rinse"),
        Some(Relation::Invariant),
        "what it leads to does not depend on what was"
    );
    check_soundness(source, "Tank");
}

#[test]
fn an_event_that_moves_away_from_a_bound_on_two_fields_cannot_break_it() {
    let source = "
        class Pair
          a: Integer = 0
          b: Integer = 0
          invariant a + b <= 3
          invariant b - a >= -3
          initial new on Make(): made
          made
            on Up(k: Integer) pre: k > 0 post: this.a += k
            on Down(k: Integer) pre: k > 0 post: this.a -= k
            on Both(k: Integer) pre: k > 0 post: this.a -= k, this.b == b - k";
    let pair = class(source, "Pair");
    assert_eq!(pair.relation("Up", "Down"), Some(Relation::Invariant), "below both bounds");
    assert_eq!(pair.relation("Down", "Up"), Some(Relation::Dynamic));
    assert_eq!(pair.relation("Up", "Both"), Some(Relation::Dynamic), "`b - a` may fall or rise");
    check_soundness(source, "Pair");
}

#[test]
fn a_call_whose_arguments_change_is_not_invariant() {
    let source = "
        class Account initial new on Open(): opened\n        opened on Deposit(sum: Integer)
        class Goal
          saved: Integer = 0
          payout: Account
          other: Boolean = false
          initial new on Start(to: Account): saving post: this.payout == to
          saving
            on Save(sum: Integer) post: this.saved += sum
            on Note() post: this.other == true
            on Pay() sync: payout.Deposit(saved)";
    let goal = class(source, "Goal");
    assert_eq!(goal.relation("Save", "Pay"), Some(Relation::Dynamic), "the amount paid depends on what is saved");
    assert_eq!(goal.relation("Note", "Pay"), Some(Relation::Invariant));
    check_soundness(source, "Goal");
}

#[test]
fn a_currency_that_may_change_is_not_invariant() {
    let source = "
        class Purse
          inside: Money
          initial new on Make(): made post: this.inside == EUR 0.00
          made
            on Exchange(other: Money) pre: other > 0 post: this.inside == other
            on Add(sum: Money) pre: sum > 0 post: this.inside += sum";
    let purse = class(source, "Purse");
    assert_eq!(purse.relation("Exchange", "Add"), Some(Relation::Dynamic), "the sum may be of the other currency");
    assert_eq!(purse.relation("Add", "Add"), Some(Relation::Invariant));
    check_soundness(source, "Purse");
}

#[test]
fn the_same_event_in_two_states_is_invariant_over_a_change_of_state_only_if_it_does_the_same() {
    let source = |blocked: &str| {
        format!(
            "
        class Box
          n: Integer = 0
          initial new on Make(): opened
          opened, blocked on Put(k: Integer) pre: k > 0 post: this.n += k
          opened on Block(): blocked
          {blocked}"
        )
    };
    let shared = source("");
    assert_eq!(class(&shared, "Box").relation("Block", "Put"), Some(Relation::Invariant));
    check_soundness(&shared, "Box");
    let split = "
        class Box
          n: Integer = 0
          initial new on Make(): opened
          opened on Put(k: Integer) pre: k > 0 post: this.n += k
                 on Block(): blocked
          blocked on Put(k: Integer) pre: k > 1 post: this.n += k";
    assert_eq!(class(split, "Box").relation("Block", "Put"), Some(Relation::Dynamic));
    check_soundness(split, "Box");
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
    let [never, invariant] = check_soundness(source, "Account");
    assert_eq!([never, invariant], [11, 35], "a change detector: of 121 pairs");
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
            on Raise(k: Integer, b: Boolean)
              pre: k >= 0
              post:
                if b: this.cap += k else: this.cap += 1
                if flag: this.n -= 1
            on Twice(k: Integer)
              pre: k >= 0
              post:
                this.n -= k
                if flag: this.n -= 1
            on Flip(b: Boolean)
              post: if b: this.flag = not flag
            on Set(k: Integer)
              post: if flag: this.n = k else: this.n = 0
            on Spend(k: Integer)
              pre: n >= k
              post: for i in 1 .. k: this.n -= 1";
    let pair = class(source, "Box");
    let relation = |open, incoming| pair.relation(open, incoming).unwrap();
    assert_eq!(relation("Lower", "Twice"), Relation::Invariant, "whatever is taken away, the bound is kept");
    assert_eq!(relation("Raise", "Lower"), Relation::Invariant);
    assert_eq!(relation("Lower", "Set"), Relation::Invariant, "which value it gives depends on what is kept");
    assert_eq!(relation("Flip", "Set"), Relation::Dynamic);
    assert_eq!(relation("Lower", "Spend"), Relation::Dynamic);
    check_soundness(source, "Box");

    let amounts = "
        class Purse
          inside: Money
          initial new on Make(): made post: this.inside = EUR 0.00
          made
            on Give(sum: Money, b: Boolean) pre: sum > 0 post: if b: this.inside += sum
            on Twice(sum: Money)
              pre: sum > 0
              post:
                this.inside += sum
                if inside > 0: this.inside += sum
            on Change(to: Money, b: Boolean) post: if b: this.inside = to";
    let purse = class(amounts, "Purse");
    assert_eq!(purse.relation("Give", "Give"), Some(Relation::Invariant), "it keeps its currency");
    assert_eq!(purse.relation("Twice", "Give"), Some(Relation::Invariant));
    assert_eq!(purse.relation("Change", "Give"), Some(Relation::Dynamic));
    check_soundness(amounts, "Purse");
}
