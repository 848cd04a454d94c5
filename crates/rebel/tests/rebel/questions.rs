//! Questions to other instances: when they are asked, what they are answered, and what an event is with its answers.

use std::collections::BTreeMap;

use enact_rebel::{Action, Answered, EventCall, Fault, Instance, Question, Reference, Spec, Value, Violation};

use crate::support::{self, NOW, call, spec};

type World = BTreeMap<Reference, Instance>;

const CONTRACT: &str = r#"
    class Rate
      name: String @identity
      share: Percentage
      next: Rate
      uses: Integer = 0
      initial draft
        on Publish(of: Percentage, after: Rate): valid
          post: this.share = of, this.next = after
      valid
        on Use()
          pre: "used up": uses < 2
          post: this.uses += 1
        on Change(to: Percentage)
          post: this.share = to
        on Withdraw(): withdrawn
      final withdrawn

    class Loan
      rate: Rate
      sum: Money = EUR 100.00
      seen: Integer = 0
      initial wished
        on Take(of: Rate): taken
          post: this.rate = of
      taken
        on Accrue()
          pre: "no valid rate": rate is valid or rate.next is valid
          post: this.sum += sum * (if rate is valid then rate.share else rate.next.share)
        on Count()
          post: this.seen = rate.uses
          sync: rate.Use()
        on CountTwice(same: Loan)
          sync:
            same.Count()
            rate.Use()
            same.Count()
        on Small(limit: Money)
          pre: sum < limit, "too dear": rate.share < 5%
          post: this.seen = Rate["other"].uses
        on Cheapest(of: Set[Rate])
          pre: "one is dear": all(r in of where r is valid: r.share < 5%)
          post: this.seen = count(r in of where r.share < 1%) + sum(r in of: r.uses)
        on Spend()
          sync: if can rate.Use() and not finalized rate: rate.Use()
        on Named(name: String)
          pre: rate.name == name, Rate[name] is initialized
      taken
"#;

fn contract() -> Spec {
    spec(CONTRACT)
}

fn reference(spec: &Spec, class: &str, key: &str) -> Reference {
    let class = spec.class(class).unwrap();
    class.reference(class.key(key).unwrap())
}

fn step(
    spec: &Spec,
    world: &mut World,
    at: (&str, &str),
    event: &str,
    arguments: &[&str],
) -> Result<Vec<Action>, String> {
    let call = call(spec.class(at.0).unwrap(), event, arguments);
    let accepted = spec.step(world, &reference(spec, at.0, at.1), &call, NOW).map_err(|refused| refused.to_string())?;
    world.extend(accepted.after);
    let mut tasks: Vec<_> = accepted.work.into_values().flatten().collect();
    tasks.sort_by_key(|task| task.place);
    Ok(tasks.into_iter().map(|task| task.action).collect())
}

/// Two rates, the second behind the first, and a loan at the first.
fn world(spec: &Spec) -> World {
    let mut world = World::new();
    step(spec, &mut world, ("Rate", "a"), "Publish", &["2%", "b"]).unwrap();
    step(spec, &mut world, ("Rate", "b"), "Publish", &["10%", "a"]).unwrap();
    step(spec, &mut world, ("Loan", "l"), "Take", &["a"]).unwrap();
    world
}

fn field(world: &World, spec: &Spec, class: &str, key: &str, name: &str) -> String {
    support::field(&world[&reference(spec, class, key)], name)
}

/// What is asked of others, in order.
fn asked(actions: &[Action]) -> Vec<String> {
    let questions = actions.iter().filter_map(|action| match action {
        Action::Ask(question) => Some(question.to_string()),
        _ => None,
    });
    questions.collect()
}

#[test]
fn a_field_a_state_and_a_path_of_another_instance_are_read() {
    let spec = contract();
    let mut world = world(&spec);
    step(&spec, &mut world, ("Loan", "l"), "Accrue", &[]).unwrap();
    assert_eq!(field(&world, &spec, "Loan", "l", "sum"), "EUR 102.00");
    step(&spec, &mut world, ("Rate", "a"), "Withdraw", &[]).unwrap();
    step(&spec, &mut world, ("Loan", "l"), "Accrue", &[]).unwrap();
    assert_eq!(field(&world, &spec, "Loan", "l", "sum"), "EUR 112.20", "the rate behind it counts");
    step(&spec, &mut world, ("Rate", "b"), "Withdraw", &[]).unwrap();
    assert_eq!(
        step(&spec, &mut world, ("Loan", "l"), "Accrue", &[]).unwrap_err(),
        "Loan l.Accrue: no valid rate: `rate is valid or rate.next is valid`, where rate is valid = false, rate = a, \
         rate.next is valid = false, rate.next = b",
    );
    step(&spec, &mut world, ("Loan", "l"), "Named", &["a"]).unwrap();
}

#[test]
fn what_is_not_needed_is_not_asked() {
    let spec = contract();
    let mut world = world(&spec);
    let actions = step(&spec, &mut world, ("Loan", "l"), "Accrue", &[]).unwrap();
    assert_eq!(asked(&actions), ["is valid", "share"], "the rate behind is left out");
    let loan = spec.class("Loan").unwrap();
    let key = loan.key("l").unwrap();
    let questions = |instance: &Instance, call: &EventCall| loan.questions(&key, instance, call, NOW);
    let taken = &world[&reference(&spec, "Loan", "l")];
    // What refuses without an answer refuses.
    assert_eq!(questions(taken, &call(loan, "Small", &["EUR 1.00"])), []);
    // Guards and effects ask in one round.
    let small = call(loan, "Small", &["EUR 500.00"]);
    let share = (reference(&spec, "Rate", "a"), Question::Field("share".into()));
    let uses = (reference(&spec, "Rate", "other"), Question::Field("uses".into()));
    assert_eq!(questions(taken, &small), [share.clone(), uses.clone()]);
    let answered = |percent: &str| {
        let answer = Some(Value::Percentage(percent.parse().unwrap()));
        let (of, question) = share.clone();
        small.clone().with_answers(vec![Answered { of, question, answer }])
    };
    assert_eq!(questions(taken, &answered("7%")), [], "it is too dear");
    assert_eq!(
        questions(taken, &answered("2%")),
        [(reference(&spec, "Rate", "other"), Question::Field("uses".into()))]
    );
}

#[test]
fn others_are_asked_as_they_are_when_the_event_is_taken_up() {
    let spec = contract();
    let mut world = world(&spec);
    step(&spec, &mut world, ("Loan", "l"), "Count", &[]).unwrap();
    assert_eq!(field(&world, &spec, "Loan", "l", "seen"), "0", "before what it calls itself");
    step(&spec, &mut world, ("Loan", "m"), "Take", &["b"]).unwrap();
    step(&spec, &mut world, ("Loan", "n"), "Take", &["b"]).unwrap();
    let refused = step(&spec, &mut world, ("Loan", "m"), "CountTwice", &["n"]).unwrap_err();
    assert_eq!(
        refused, "Loan m.CountTwice: Loan n.Count: Rate b.Use: used up: `uses < 2`, where uses = 2",
        "the second count is taken up when two have used it"
    );
    for _ in 0..3 {
        step(&spec, &mut world, ("Loan", "m"), "Spend", &[]).unwrap();
    }
    assert_eq!(field(&world, &spec, "Rate", "b", "uses"), "2", "what cannot be is not called");
}

#[test]
fn an_event_with_its_answers_is_decided_on_its_own_instance_alone() {
    let spec = contract();
    let mut world = world(&spec);
    let before = world[&reference(&spec, "Loan", "l")].clone();
    let actions = step(&spec, &mut world, ("Loan", "l"), "Accrue", &[]).unwrap();
    let Some(Action::Do(done)) = actions.last() else { panic!("{actions:?}") };
    assert_eq!(done.answers().len(), 2);
    let loan = spec.class("Loan").unwrap();
    let key = loan.key("l").unwrap();
    assert_eq!(loan.act(&key, &before, done, NOW).unwrap(), world[&reference(&spec, "Loan", "l")]);
    let stored = serde_json::to_string(done).unwrap();
    assert_eq!(serde_json::from_str::<EventCall>(&stored).unwrap(), *done, "{stored}");
    // Without them it is refused, and it is told what is missing.
    let refused = loan.act(&key, &before, &call(loan, "Accrue", &[]), NOW).unwrap_err();
    assert!(matches!(&refused[..], [Violation::Arithmetic { fault: Fault::Unanswered { .. }, .. }]), "{refused:?}");
    // Answers that a caller sends along count for nothing.
    let (of, question) = (reference(&spec, "Rate", "a"), Question::Field("share".into()));
    let forged = Answered { of, question, answer: Some(Value::Percentage("90%".parse().unwrap())) };
    let forged = call(loan, "Accrue", &[]).with_answers(vec![forged]);
    let accepted = spec.step(&world, &reference(&spec, "Loan", "l"), &forged, NOW).unwrap();
    assert_eq!(support::field(&accepted.after[&reference(&spec, "Loan", "l")], "sum"), "EUR 104.04");
}

#[test]
fn an_aggregate_asks_for_all_of_its_elements_at_once() {
    let spec = contract();
    let mut world = world(&spec);
    let loan = spec.class("Loan").unwrap();
    let key = loan.key("l").unwrap();
    let taken = &world[&reference(&spec, "Loan", "l")];
    let first = loan.questions(&key, taken, &call(loan, "Cheapest", &["{\"a\", \"b\"}"]), NOW);
    let asked: Vec<String> = first.iter().map(|(of, question)| format!("{of} {question}")).collect();
    let all = ["Rate a is valid", "Rate b is valid", "Rate a share", "Rate b share", "Rate a uses", "Rate b uses"];
    assert_eq!(asked, all);
    assert_eq!(
        step(&spec, &mut world, ("Loan", "l"), "Cheapest", &["{\"a\", \"b\", \"c\"}"]).unwrap_err(),
        "Loan l.Cheapest: one is dear: `all(r in of where r is valid: r.share < 5%)`, where of = {\"a\", \"b\", \"c\"}"
    );
    step(&spec, &mut world, ("Rate", "a"), "Use", &[]).unwrap();
    step(&spec, &mut world, ("Loan", "l"), "Cheapest", &["{\"a\"}"]).unwrap();
    assert_eq!(field(&world, &spec, "Loan", "l", "seen"), "1");
}

#[test]
fn a_question_for_what_is_not_there_is_a_fault_where_it_is_read() {
    let spec = contract();
    let mut world = World::new();
    step(&spec, &mut world, ("Loan", "l"), "Take", &["nowhere"]).unwrap();
    assert_eq!(
        step(&spec, &mut world, ("Loan", "l"), "Small", &["EUR 500.00"]).unwrap_err(),
        "Loan l.Small: `rate.share` has no value: the instance does not exist, in `rate.share < 5%`, where rate = nowhere"
    );
    assert_eq!(
        step(&spec, &mut world, ("Loan", "l"), "Accrue", &[]).unwrap_err(),
        "Loan l.Accrue: `rate.next` has no value: the instance does not exist, in `rate is valid or rate.next is valid`, \
         where rate is valid = false, rate = nowhere"
    );
    // A default is a value.
    step(&spec, &mut world, ("Loan", "l"), "Count", &[]).unwrap_err();
    assert_eq!(
        step(&spec, &mut world, ("Loan", "l"), "Named", &[""]).unwrap_err(),
        "Loan l.Named: rate.name == name, where rate = nowhere, name = "
    );
}

/// What an event of these sections asks in the first round.
fn first_round(sections: &str) -> Vec<String> {
    let source = format!(
        "
        record Line
          x: Integer
          y: Integer
        class Pair
          left: String @identity
          right: String @identity
          initial none
            on Make(): made
          final made
        class Peer
          number: Integer = 1
          fee: Money = EUR 1.00
          rate: Percentage = 1%
          name: String = \"n\"
          near: Peer
          peers: Set[Peer] = {{}}
          initial none
            on Make(to: Peer): made
              post: this.near = to
          made
            on Call(n: Integer)
              pre: number + n > 0
            read on Read(n: Integer) -> Integer
              return: number + n
        class Asker
          stock: Map[Integer, Integer] = {{}}
          line: Line = Line(0, 0)
          initial none
            on Ask(a: Peer, b: Peer, n: Integer): done
{sections}
          final done
        "
    );
    let spec = spec(&source);
    let asker = spec.class("Asker").unwrap();
    let call = call(asker, "Ask", &["a", "b", "0"]);
    let questions = asker.questions(&asker.key("it").unwrap(), &asker.initial(), &call, NOW);
    questions.iter().map(|(of, question)| format!("{} {question}", of.key)).collect()
}

#[test]
fn all_operands_are_asked_for_in_one_round() {
    let guards = [
        ("a.number + b.number > 0", ["a number", "b number"]),
        ("a.number > b.number", ["a number", "b number"]),
        ("a.fee * b.rate > 0", ["a fee", "b rate"]),
        ("a.number in {b.number}", ["a number", "b number"]),
        ("(a.peers + b.near).size > 0", ["a peers", "b near"]),
        ("(a.peers - b.near).size > 0", ["a peers", "b near"]),
        ("count(i in a.number .. b.number) > 0", ["a number", "b number"]),
        ("a.number + 1 in b.number .. 9", ["a number", "b number"]),
        ("Pair[a.name, b.name] == Pair[\"x\", \"y\"]", ["a name", "b name"]),
        ("Line(a.number, b.number) == line", ["a number", "b number"]),
        ("line with (x: a.number, y: b.number) == line", ["a number", "b number"]),
        ("[a.number, b.number].size > 0", ["a number", "b number"]),
        ("{a.number: b.number}.size > 0", ["a number", "b number"]),
        ("a.near.Read(b.number) > 0", ["a near", "b number"]),
        ("can a.near.Call(b.number)", ["a near", "b number"]),
    ];
    for (guard, expected) in guards {
        assert_eq!(first_round(&format!("              pre: {guard}")), expected, "{guard}");
    }
    let sections = [
        "              post: this.stock[a.number] = b.number",
        "              post: this.stock[n] = a.number, this.line.x = b.number",
        "              sync: a.Call(a.number + b.number)",
        "              sync:\n                a.Call(a.number)\n                b.Call(b.number)",
        "              sync:\n                if n == 0:\n                  a.Call(a.number)\n                  b.Call(b.number)",
        "              sync:\n                for c in [a, b]: c.Call(c.number)",
    ];
    for section in sections {
        assert_eq!(first_round(section), ["a number", "b number"], "{section}");
    }
}

#[test]
fn only_guards_refuse_without_an_answer() {
    let asked = [
        ("              pre: a.number > 0, n > 0", &[][..]),
        ("              pre: a.number > 0, 1 div n > 0", &[]),
        ("              post: this.stock[a.number] = 1 div n", &["a number"]),
        ("              post: this.stock[a.number] = 1\n              sync: b.Call(1 div n)", &["a number"]),
    ];
    for (section, expected) in asked {
        assert_eq!(first_round(section), expected, "{section}");
    }
}

#[test]
fn a_fault_is_told_and_not_that_an_answer_is_missing() {
    let spec = spec(
        "
        class Peer
          number: Integer = 1
          initial none
            on Take(_n: Integer): taken
          final taken
        class Asker
          x: Integer = 0
          initial none
            on Choose(peer: Peer, n: Integer)
              variant first: done
                pre: peer.number > 0, 1 div n > 0
              variant second: done
            on Work(peer: Peer, n: Integer): done
              post: this.x = peer.number
              sync: peer.Take(1 div n)
          final done
        ",
    );
    for (event, place) in [("Choose", "1 div n > 0"), ("Work", "peer.Take(1 div n)")] {
        let refused = step(&spec, &mut World::new(), ("Asker", "it"), event, &["p", "0"]).unwrap_err();
        let told = format!("Asker it.{event}: this divides by zero, in `{place}`");
        assert!(refused.starts_with(&told), "{refused}");
    }
}
