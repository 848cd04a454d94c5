//! Questions to other instances: when they are asked, what they are answered, and what an event is with its answers.

mod support;

use std::collections::BTreeMap;

use enact_rebel::{Action, Answered, EventCall, Fault, Instance, Question, Reference, Spec, Value, Violation};
use support::{NOW, call, spec};

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
