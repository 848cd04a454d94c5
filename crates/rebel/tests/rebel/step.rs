//! The atomic step: calls compose in order, invariants hold at its end, and what it refuses it leaves alone.

use std::collections::BTreeMap;

use enact_rebel::limits::{ACTS_MAX, INSTANCES_MAX};
use enact_rebel::{
    Accepted, Action, Caller, CallerError, EventCall, Instance, Question, Reference, Refused, Spec, Value, Violation,
};
use proptest::prelude::*;

use crate::support::{self, NOW, call, spec};

type World = BTreeMap<Reference, Instance>;

fn reference(spec: &Spec, class: &str, key: &str) -> Reference {
    let class = spec.class(class).unwrap();
    class.reference(class.key(key).unwrap())
}

fn step(spec: &Spec, world: &World, class: &str, key: &str, event: &str, args: &[&str]) -> Result<Accepted, Refused> {
    let call = call(spec.class(class).unwrap(), event, args);
    spec.step(world, &reference(spec, class, key), &call, NOW)
}

/// The world after steps that are accepted.
fn world(spec: &Spec, steps: &[(&str, &str, &str, &[&str])]) -> World {
    let mut world = World::new();
    for (class, key, event, arguments) in steps {
        let accepted = step(spec, &world, class, key, event, arguments).unwrap_or_else(|refused| panic!("{refused}"));
        world.extend(accepted.after);
    }
    world
}

fn field(world: &World, spec: &Spec, class: &str, key: &str, name: &str) -> String {
    support::field(&world[&reference(spec, class, key)], name)
}

const SHOP: &str = r#"
    class Account
      balance: Money = EUR 0.00
      initial unopened
        on Open(with: Money): opened
          post: this.balance == with
      opened
        on Deposit(amount: Money)
          pre: amount > 0
          post: this.balance += amount
        on Withdraw(amount: Money)
          pre: amount > 0, "insufficient funds": balance - amount >= 0
          post: this.balance -= amount
        on Close(): closed
          pre: "the balance must be zero": balance == EUR 0.00
      final closed
    class Batch
      initial new
        on Twice(from: Account, to: Account, amount: Money): paid
          sync:
            from.Withdraw(amount)
            to.Deposit(amount)
            from.Withdraw(amount)
            to.Deposit(amount)
        on Back(from: Account, to: Account, amount: Money): paid
          sync:
            from.Withdraw(amount)
            to.Deposit(amount)
            to.Withdraw(amount)
            from.Deposit(amount)
        on Empty(from: Account, to: Account, amount: Money): paid
          sync:
            from.Withdraw(amount)
            to.Deposit(amount)
            from.Close()
        on Create(account: Account, amount: Money): paid
          sync:
            account.Open(amount)
            account.Withdraw(amount)
            account.Close()
        on Ask(account: Account, amount: Money): paid
          sync:
            not account.Withdraw(amount)
            account.Deposit(amount)
        on AskAfter(account: Account, other: Batch, amount: Money): paid
          sync:
            account.Deposit(amount)
            other.Ask(account, amount)
      paid
"#;

fn shop() -> (Spec, World) {
    let spec = spec(SHOP);
    let world = world(&spec, &[("Account", "a", "Open", &["EUR 20.00"]), ("Account", "b", "Open", &["EUR 0.00"])]);
    (spec, world)
}

#[test]
fn two_equal_calls_are_two_calls() {
    let (spec, world) = shop();
    let paid = step(&spec, &world, "Batch", "1", "Twice", &["a", "b", "EUR 10.00"]).unwrap();
    let balance = |key| field(&paid.after, &spec, "Account", key, "balance");
    assert_eq!((balance("a"), balance("b")), ("EUR 0.00".into(), "EUR 20.00".into()));
}

#[test]
fn each_call_sees_what_came_before_its_guards_included() {
    let (spec, world) = shop();
    let refused = step(&spec, &world, "Batch", "1", "Twice", &["a", "b", "EUR 10.01"]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Batch 1.Twice: Account a.Withdraw: insufficient funds: `balance - amount >= 0`, \
         where balance = EUR 9.99, amount = EUR 10.01"
    );
    assert!(step(&spec, &world, "Batch", "1", "Back", &["a", "b", "EUR 20.00"]).is_ok(), "b has it by then");
    let emptied = step(&spec, &world, "Batch", "1", "Empty", &["a", "b", "EUR 20.00"]).unwrap();
    assert_eq!(**emptied.after[&reference(&spec, "Account", "a")].state(), *"closed", "the life cycle composes");
    assert!(step(&spec, &world, "Batch", "1", "Empty", &["a", "b", "EUR 19.00"]).is_err());
}

#[test]
fn the_first_variant_whose_guards_hold_happens() {
    let spec = spec(
        r#"
    class Account
      balance: Money = EUR 0.00
      initial unopened
        on Open(with: Money)
          pre: "nothing is owed": with >= 0
          variant rich: vip
            pre: with > EUR 1000.00
            post: this.balance = with * 101%
          variant plain: opened
            post: this.balance = with
      opened, vip
        on Move(to: Account, amount: Money)
          pre: amount > 0
          post: this.balance -= amount
          sync: to.Get(amount)
          variant empty: closed
            pre: "not empty": balance == amount
            sync: to.Get(EUR 1.00)
          variant rest: opened
            pre: "not enough": balance > amount, "the other is no vip": to is vip
        on Get(amount: Money)
          post: this.balance += amount
      final closed
"#,
    );
    let mut world = World::new();
    let done = |world: &mut World, key: &str, event: &str, arguments: &[&str]| {
        let accepted = step(&spec, world, "Account", key, event, arguments).map_err(|refused| refused.to_string())?;
        world.extend(accepted.after);
        Ok::<_, String>(world[&reference(&spec, "Account", key)].state().to_string())
    };
    assert_eq!(done(&mut world, "a", "Open", &["EUR 2000.00"]).unwrap(), "vip");
    assert_eq!(done(&mut world, "b", "Open", &["EUR 2.00"]).unwrap(), "opened");
    assert_eq!(done(&mut world, "b", "Move", &["a", "EUR 1.00"]).unwrap(), "opened");
    assert_eq!(
        done(&mut world, "b", "Move", &["a", "EUR 1.50"]).unwrap_err(),
        "Account b.Move: not empty: `balance == amount`, where balance = EUR 1.00, amount = EUR 1.50; \
         not enough: `balance > amount`, where balance = EUR 1.00, amount = EUR 1.50",
        "the guards of all variants are told"
    );
    assert_eq!(
        done(&mut world, "b", "Move", &["a", "USD 1.00"]).unwrap_err(),
        "Account b.Move: currency mismatch: EUR and USD, in `balance > amount`, where balance = EUR 1.00, amount = USD 1.00",
        "a fault on the way refuses"
    );
    assert_eq!(done(&mut world, "b", "Move", &["a", "EUR 1.00"]).unwrap(), "closed");
    assert_eq!(
        done(&mut world, "a", "Move", &["b", "EUR 1.00"]).unwrap_err(),
        "Account a.Move: not empty: `balance == amount`, where balance = EUR 2023.00, amount = EUR 1.00; \
         the other is no vip: `to is vip`, where to is vip = false, to = b"
    );
    let balance = |key| field(&world, &spec, "Account", key, "balance");
    assert_eq!((balance("a"), balance("b")), ("EUR 2023.00".into(), "EUR 0.00".into()));
}

#[test]
fn an_instance_is_created_and_then_called_in_one_step() {
    let (spec, world) = shop();
    let accepted = step(&spec, &world, "Batch", "1", "Create", &["n", "EUR 5.00"]).unwrap();
    assert_eq!(**accepted.after[&reference(&spec, "Account", "n")].state(), *"closed");
}

#[test]
fn a_condition_is_read_when_its_event_is_taken_up() {
    let (spec, world) = shop();
    let ask = |amount| step(&spec, &world, "Batch", "1", "Ask", &["b", amount]);
    assert!(ask("EUR 1.00").is_ok(), "what the event itself calls comes after");
    let refused = step(&spec, &world, "Batch", "1", "AskAfter", &["b", "2", "EUR 1.00"]).unwrap_err();
    assert!(matches!(refused.violations[..], [Violation::Condition { .. }]), "what came before is seen: {refused}");
    assert_eq!(refused.at, reference(&spec, "Account", "b"));
    assert_eq!(refused.path.len(), 2, "the event that asks is the last one");
}

#[test]
fn an_internal_event_is_refused_as_the_first_call() {
    let spec = spec(
        "class A
           initial i
             on Make(): s
           s
             internal on Go()
             on Run(other: A)
               sync: other.Go()",
    );
    let world = world(&spec, &[("A", "1", "Make", &[]), ("A", "2", "Make", &[])]);
    let refused = step(&spec, &world, "A", "1", "Go", &[]).unwrap_err();
    assert!(matches!(refused.violations[..], [Violation::Internal { .. }]));
    assert!(step(&spec, &world, "A", "1", "Run", &["2"]).is_ok());
}

#[test]
fn invariants_hold_at_the_end_of_the_step_and_not_in_between() {
    let spec = spec(
        "class Bag
           items: Set[Integer] = {}
           invariant \"a bag holds two\": items.size <= 2
           initial bought
             on Buy(a: Integer, b: Integer): used
               post: this.items == {a, b}
           used
             on Put(item: Integer)
               post: this.items += item
             on Take(item: Integer)
               post: this.items -= item
         class Swap
           initial new
             on PutFirst(bag: Bag, put: Integer, take: Integer): done
               sync:
                 bag.Put(put)
                 bag.Take(take)
             on PutOnly(bag: Bag, put: Integer): done
               sync: bag.Put(put)
           done",
    );
    let world = world(&spec, &[("Bag", "b", "Buy", &["1", "2"])]);
    let swapped = step(&spec, &world, "Swap", "s", "PutFirst", &["b", "3", "1"]).unwrap();
    assert_eq!(field(&swapped.after, &spec, "Bag", "b", "items"), "{2, 3}");
    let refused = step(&spec, &world, "Swap", "s", "PutOnly", &["b", "3"]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Bag b: a bag holds two: `items.size <= 2`, where items = {1, 2, 3}",
        "no call is to blame"
    );
}

#[test]
fn a_step_has_bounds_that_are_reached_and_not_passed() {
    let spec = spec(
        "class Leaf
           initial i
             on Touch(): s
           s
             on Touch()
         class Root
           initial i
             on Each(leaves: Set[Leaf], times: Set[Integer]): s
               sync: for n in times: for leaf in leaves: leaf.Touch()
           s",
    );
    let run = |leaves: usize, times: usize| {
        let set = |count: usize| {
            let items: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            format!("{{{}}}", items.join(", "))
        };
        let quoted: Vec<String> = (0..leaves).map(|n| format!("\"{n}\"")).collect();
        let leaves = format!("{{{}}}", quoted.join(", "));
        step(&spec, &World::new(), "Root", "r", "Each", &[&leaves, &set(times)])
    };
    let limit = |result: Result<Accepted, Refused>| match &result.unwrap_err().violations[..] {
        [Violation::Limit { limit, .. }] => *limit,
        other => panic!("{other:?}"),
    };
    assert!(run(INSTANCES_MAX - 1, 1).is_ok(), "the first instance counts");
    assert_eq!(limit(run(INSTANCES_MAX, 1)), INSTANCES_MAX);
    assert!(run(9, (ACTS_MAX - 1) / 9).is_ok());
    assert_eq!(limit(run(10, ACTS_MAX / 10)), ACTS_MAX);
}

/// Accounts that pay, transfers of which each calls the next layer, in every shape that a graph of calls can have.
const GRAPH: &str = r#"
    class Account
      balance: Integer = 0
      initial unopened
        on Open(with: Integer): opened
          post: this.balance == with
      opened
        internal on Add(amount: Integer)
          post: this.balance += amount
        internal on Take(amount: Integer)
          pre: balance - amount >= 0
          post: this.balance -= amount
    class Transfer
      from: Account
      to: Account
      amount: Integer = 0
      next: Set[Transfer] = {}
      repeats: Set[Integer] = {}
      initial unmade
        on Make(payer: Account, payee: Account, sum: Integer, following: Set[Transfer], times: Set[Integer]): made
          post: this.from == payer, this.to == payee, this.amount == sum, this.next == following, this.repeats == times
      made
        internal on Third()
          sync:
            from.Take(amount)
            to.Add(amount)
        internal on Second()
          sync:
            for n in repeats: from.Take(amount)
            for n in repeats: to.Add(amount)
            for t in next: t.Third()
        on First()
          sync:
            from.Take(amount)
            for t in next: t.Second()
            for n in repeats: for t in next: t.Second()
            to.Add(amount)
"#;

#[derive(Clone, Debug)]
struct Payment {
    from: usize,
    to: usize,
    amount: i64,
    next: Vec<usize>,
    repeats: Vec<usize>,
}

const ACCOUNTS: usize = 3;
const TRANSFERS: usize = 4;

fn payment() -> impl Strategy<Value = Payment> {
    let list = |max: usize, len: usize| prop::collection::vec(0..max, 0..len);
    (0..ACCOUNTS, 0..ACCOUNTS, -3..8_i64, list(TRANSFERS, 3), list(3, 3))
        .prop_map(|(from, to, amount, next, repeats)| Payment { from, to, amount, next, repeats })
}

fn payments(spec: &Spec, balances: [i64; ACCOUNTS], payments: &[Payment]) -> World {
    let mut world = World::new();
    let set = |items: &[usize], quote: &str| {
        let items: Vec<String> = items.iter().map(|item| format!("{quote}{item}{quote}")).collect();
        format!("{{{}}}", items.join(", "))
    };
    for (key, balance) in balances.iter().enumerate() {
        let opened = step(spec, &world, "Account", &key.to_string(), "Open", &[&balance.to_string()]);
        world.extend(opened.unwrap().after);
    }
    for (key, payment) in payments.iter().enumerate() {
        let Payment { from, to, amount, next, repeats } = payment;
        let arguments = [from.to_string(), to.to_string(), amount.to_string(), set(next, "\""), set(repeats, "")];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let made = step(spec, &world, "Transfer", &key.to_string(), "Make", &arguments);
        world.extend(made.unwrap().after);
    }
    world
}

fn total(world: &World) -> i64 {
    let balance = |instance: &Instance| match instance.fields().get("balance") {
        Some(Value::Integer(balance)) => *balance,
        _ => 0,
    };
    world.values().map(balance).sum()
}

/// What a participant does with its part of a step, alone.
fn folded(spec: &Spec, world: &World, target: &Reference, tasks: &[enact_rebel::Task]) -> Option<Instance> {
    let class = spec.class(&target.class).unwrap();
    let mut instance = world.get(target).cloned().unwrap_or_else(|| class.initial());
    for task in tasks {
        match &task.action {
            Action::Do(call) => instance = class.act(&target.key, &instance, call, NOW).ok()?,
            asked => {
                if !class.holds(&target.key, &instance, asked, NOW) {
                    return None;
                }
            }
        }
    }
    class.broken_invariants(&target.key, &instance, NOW).is_empty().then_some(instance)
}

/// The sum of all changes that the events of one step make to balances, read off their arguments.
fn moved(accepted: &Accepted, target: &Reference) -> i64 {
    let change = |call: &EventCall| match (&**call.event(), call.arguments().get("amount")) {
        ("Add", Some(Value::Integer(amount))) => *amount,
        ("Take", Some(Value::Integer(amount))) => -amount,
        _ => 0,
    };
    let tasks = accepted.work.get(target).into_iter().flatten();
    tasks.filter_map(|task| if let Action::Do(call) = &task.action { Some(change(call)) } else { None }).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn money_is_conserved_over_random_call_graphs_with_repetitions(
        balances in [0..60_i64, 0..60_i64, 0..60_i64],
        made in prop::collection::vec(payment(), TRANSFERS),
        first in 0..TRANSFERS,
    ) {
        let spec = spec(GRAPH);
        let world = payments(&spec, balances, &made);
        let target = reference(&spec, "Transfer", &first.to_string());
        let go = call(spec.class("Transfer").unwrap(), "First", &[]);
        let result = spec.step(&world, &target, &go, NOW);
        prop_assert_eq!(&spec.step(&world, &target, &go, NOW), &result, "the same input gives the same result");
        let Ok(accepted) = result else { return Ok(()) };
        let mut after = world.clone();
        after.extend(accepted.after.clone());
        prop_assert_eq!(total(&after), total(&world));
        for key in 0..ACCOUNTS {
            let account = reference(&spec, "Account", &key.to_string());
            let balance = |world: &World| match world[&account].fields().get("balance") {
                Some(Value::Integer(balance)) => *balance,
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(balance(&after) - balance(&world), moved(&accepted, &account));
        }
        for (target, tasks) in &accepted.work {
            let alone = folded(&spec, &world, target, tasks);
            let expected = accepted.after.get(target).or_else(|| world.get(target)).cloned();
            prop_assert_eq!(alone, expected, "the step is the fold of the work at each instance");
        }
        let mut places: Vec<usize> = accepted.work.values().flatten().map(|task| task.place).collect();
        places.sort_unstable();
        prop_assert!(places.iter().copied().eq(0..places.len()), "every task has its own place");
        for (target, tasks) in &accepted.work {
            prop_assert!(tasks.is_sorted_by_key(|task| task.place), "{:?}", target);
        }
    }
}

const RELAY: &str = r#"
    class Lamp
      uses: Integer = 0
      initial off
        on Light(): lit
      lit
        on Use()
          pre: uses < 9
          post: this.uses += 1
    class Relay
      initial new
        on Pass(next: Relay, lamp: Lamp): done
          pre: "the lamp is broken": can lamp.Use()
          sync:
            not lamp.Light()
            next.Take(lamp)
            if can lamp.Use(): lamp.Use()
        on Take(lamp: Lamp): done
          sync: lamp.Use()
      done
"#;

/// The callers of all events that `action` names, in a call, a condition or a question.
fn caller_of(action: &Action) -> Option<Option<&Caller>> {
    match action {
        Action::Do(call) | Action::Impossible(call) | Action::Ask(Question::Possible(call)) => Some(call.caller()),
        _ => None,
    }
}

#[test]
fn every_event_of_a_step_has_the_caller_of_the_first() {
    let spec = spec(RELAY);
    let world = world(&spec, &[("Lamp", "l", "Light", &[])]);
    let pass = call(spec.class("Relay").unwrap(), "Pass", &["2", "l"]);
    for caller in [None, Some(Caller::new("alice", ["teller"]).unwrap()), Some(Caller::system())] {
        let pass = pass.clone().with_caller(caller.clone());
        let accepted = spec.step(&world, &reference(&spec, "Relay", "1"), &pass, NOW).unwrap();
        let tasks: Vec<_> = accepted.work.values().flatten().collect();
        let callers: Vec<_> = tasks.iter().filter_map(|task| caller_of(&task.action)).collect();
        assert_eq!(callers.len(), 6, "Pass, Take, Use twice, what must be impossible and what is asked: {tasks:?}");
        assert!(callers.iter().all(|found| *found == caller.as_ref()), "{callers:?}");
        let answered = tasks.iter().filter_map(|task| match &task.action {
            Action::Do(call) => Some(call.answers()),
            _ => None,
        });
        let questions: Vec<_> = answered.flatten().map(|answered| Action::Ask(answered.question.clone())).collect();
        assert!(!questions.is_empty());
        assert!(questions.iter().all(|asked| caller_of(asked) == Some(caller.as_ref())), "{questions:?}");
    }
}

#[test]
fn a_caller_has_its_roles_in_one_order_and_is_never_the_system() {
    let caller = Caller::new("alice", ["b", "a", "b"]).unwrap();
    assert_eq!(caller, Caller::new("alice", ["a", "b"]).unwrap());
    assert_eq!((&**caller.id(), caller.roles().join(" ")), ("alice", "a b".to_owned()));
    assert!(caller.has("a") && caller.has("b") && !caller.has("c") && !caller.has(""));
    assert_eq!(Caller::new("system", []), Err(CallerError::SystemId));
    assert_eq!(Caller::new("alice", ["a", "system"]), Err(CallerError::SystemRole));
    assert!(Caller::new("System", ["SYSTEM"]).is_ok(), "names are compared as they are written");
    let system = Caller::system();
    assert!(&**system.id() == "system" && system.has("system") && system.roles().len() == 1);
}

#[test]
fn a_call_without_a_caller_is_stored_and_read_as_before_there_were_callers() {
    let spec = spec(RELAY);
    let light = call(spec.class("Lamp").unwrap(), "Light", &[]);
    let before = serde_json::json!({ "event": "Light", "arguments": {} });
    assert_eq!(serde_json::to_value(&light).unwrap(), before);
    assert_eq!(serde_json::from_value::<EventCall>(before).unwrap(), light);

    let by_alice = light.with_caller(Caller::new("alice", ["teller"]).unwrap());
    let mut stored = serde_json::to_value(&by_alice).unwrap();
    assert_eq!(stored["caller"], serde_json::json!({ "id": "alice", "roles": ["teller"] }));
    assert_eq!(serde_json::from_value::<EventCall>(stored.clone()).unwrap(), by_alice);
    stored["caller"]["name"] = "Alice".into();
    assert!(serde_json::from_value::<EventCall>(stored).is_err(), "what is not known is refused");
}
