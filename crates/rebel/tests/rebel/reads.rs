//! Events that only read.

use std::collections::BTreeMap;

use enact_rebel::{Accepted, Action, Caller, Instance, Question, Reference, Refused, Spec, Value, Violation};

use crate::support::{NOW, call, spec};

const CLAIMS: &str = "
    roles handler
    class Clerk
      most: Integer = 0
      initial applicant
        on Hire(upTo: Integer): employed
          post: this.most = upTo
        read on Wants() -> Boolean
          return: true
      employed
        on Raise(by: Integer)
          post: this.most += by
        read on MayGrant(amount: Integer) -> Boolean
          let: half = amount * 2
          pre: \"an amount\": amount > 0
          return: half <= most * 2
        read on Limit() -> Integer by handler
          return: most
        on Fire(): gone
      final gone
        read on MayGrant(amount: Integer) -> Boolean
          pre: amount > 0
          return: false
    class Claim
      granted: Integer = 0
      initial draft
        on File(): filed
      filed
        on Grant(amount: Integer, clerk: Clerk)
          pre: \"above the limit\": clerk.MayGrant(amount)
          post: this.granted = amount
        on Most(clerk: Clerk) -> Integer
          post: this.granted = clerk.Limit()
          return: this.granted
        on Both(amount: Integer, clerk: Clerk)
          post: this.granted = amount
          sync:
            clerk.Raise(amount)
            if clerk.MayGrant(amount): this.Grant(amount, clerk)
        read on Possible(clerk: Clerk) -> Boolean
          pre: clerk is employed
          return: clerk.most > granted
";

struct Case {
    spec: Spec,
    world: BTreeMap<Reference, Instance>,
}

impl Case {
    fn new() -> Self {
        let mut case = Self { spec: spec(CLAIMS), world: BTreeMap::new() };
        case.happens("Clerk.Hire", &["100"]);
        case.happens("Claim.File", &[]);
        case
    }

    fn reference(&self, class: &str) -> Reference {
        let class = self.spec.class(class).unwrap();
        class.reference(class.key("1").unwrap())
    }

    fn step(&self, event: &str, arguments: &[&str]) -> Result<Accepted, Refused> {
        self.step_by(event, arguments, None)
    }

    fn step_by(&self, event: &str, arguments: &[&str], caller: Option<Caller>) -> Result<Accepted, Refused> {
        let (class, event) = event.split_once('.').unwrap();
        let call = call(self.spec.class(class).unwrap(), event, arguments).with_caller(caller);
        self.spec.step(&self.world, &self.reference(class), &call, NOW)
    }

    fn happens(&mut self, event: &str, arguments: &[&str]) {
        let step = self.step(event, arguments).unwrap_or_else(|refused| panic!("{refused}"));
        self.world.extend(step.after);
    }

    fn read(&self, event: &str, arguments: &[&str]) -> Result<Value, Vec<Violation>> {
        let (class, event) = event.split_once('.').unwrap();
        let at = self.reference(class);
        let class = self.spec.class(class).unwrap();
        let instance = self.world.get(&at).cloned().unwrap_or_else(|| class.initial());
        class.read(&at.key, &instance, &call(class, event, arguments), NOW)
    }
}

#[test]
fn a_guard_asks_what_a_read_event_of_another_instance_returns() {
    let mut case = Case::new();
    let granted = case.step("Claim.Grant", &["100", "1"]).unwrap();
    assert!(matches!(granted.work[&case.reference("Clerk")][0].action, Action::Ask(Question::Result(_))));
    assert!(!granted.after.contains_key(&case.reference("Clerk")), "it is asked, and not touched");
    let refused = case.step("Claim.Grant", &["101", "1"]).unwrap_err().to_string();
    assert!(
        refused.contains("above the limit: `clerk.MayGrant(amount)`, where clerk.MayGrant(amount) = false"),
        "{refused}"
    );
    case.happens("Clerk.Fire", &[]);
    assert!(case.step("Claim.Grant", &["1", "1"]).unwrap_err().to_string().contains("above the limit"));
}

#[test]
fn a_read_event_that_is_refused_has_no_value() {
    let case = Case::new();
    for arguments in [["0", "1"], ["1", "2"]] {
        let refused = case.step("Claim.Grant", &arguments).unwrap_err().to_string();
        assert!(
            refused.contains("`clerk.MayGrant(amount)` has no value: the instance refuses it"),
            "a guard and a life cycle refuse alike: {refused}"
        );
    }
}

#[test]
fn a_read_event_demands_a_role_of_the_caller_of_the_step() {
    let case = Case::new();
    let handler = Caller::new("bob", ["handler"]).unwrap();
    let step = case.step_by("Claim.Most", &["1"], Some(handler)).unwrap();
    assert_eq!(step.result, Some(Value::Integer(100)));
    assert!(case.step("Claim.Most", &["1"]).is_err());
}

#[test]
fn what_a_read_event_returns_is_that_of_the_moment_in_which_the_asking_event_is_taken_up() {
    let case = Case::new();
    // The condition of the call is read before the clerk is raised, and the guard of the call afterwards.
    let step = case.step("Claim.Both", &["90", "1"]).unwrap();
    assert_eq!(step.after[&case.reference("Clerk")].fields().get("most"), Some(&Value::Integer(190)));
    let step = case.step("Claim.Both", &["150", "1"]).unwrap();
    assert_eq!(step.work[&case.reference("Claim")].len(), 1, "and not the other way round");
}

#[test]
fn an_event_with_the_answer_of_a_read_event_is_replayed_alone() {
    let case = Case::new();
    let step = case.step("Claim.Grant", &["100", "1"]).unwrap();
    let Action::Do(call) = &step.work[&case.reference("Claim")][0].action else { panic!() };
    let bytes = serde_json::to_vec(call).unwrap();
    let call = serde_json::from_slice(&bytes).unwrap();
    let class = case.spec.class("Claim").unwrap();
    let at = case.reference("Claim");
    let replayed = class.act(&at.key, &case.world[&at], &call, NOW).unwrap();
    assert_eq!(replayed, step.after[&at]);
}

#[test]
fn a_read_event_is_asked_from_outside_and_never_happens() {
    let mut case = Case::new();
    assert_eq!(case.read("Clerk.MayGrant", &["100"]), Ok(Value::Boolean(true)));
    assert!(matches!(case.read("Clerk.MayGrant", &["0"]).unwrap_err()[..], [Violation::Guard { .. }]));
    assert!(matches!(case.read("Clerk.Wants", &[]).unwrap_err()[..], [Violation::LifeCycle { .. }]));
    assert!(matches!(case.read("Clerk.Raise", &["1"]).unwrap_err()[..], [Violation::UnknownEvent { .. }]));
    let refused = case.step("Clerk.MayGrant", &["100"]).unwrap_err();
    assert_eq!(refused.violations, [Violation::Read { event: "MayGrant".into() }]);
    case.happens("Clerk.Fire", &[]);
    assert_eq!(case.read("Clerk.MayGrant", &["100"]), Ok(Value::Boolean(false)), "also of what is final");
    case.world.clear();
    assert_eq!(case.read("Clerk.Wants", &[]), Ok(Value::Boolean(true)), "and of what is not created");
}

#[test]
fn a_read_event_that_is_refused_as_a_step_asks_nobody() {
    let spec = spec(
        "
        class Shop
          until: Timestamp
          initial none
            on Open(): open
              post: this.until = now
          open
            internal on Close(): closed
            after until: Close
          final closed
        class Client
          shop: Shop
          initial none
            on Begin(at: Shop): begun
              post: this.shop = at
          begun
            read on MayCome() -> Boolean
              return: shop is open
        ",
    );
    let mut world = BTreeMap::new();
    let mut step = |class: &str, event: &str, arguments: &[&str]| {
        let class = spec.class(class).unwrap();
        let (of, call) = (class.reference(class.key("it").unwrap()), call(class, event, arguments));
        spec.step(&world, &of, &call, NOW).map(|accepted| world.extend(accepted.after))
    };
    step("Shop", "Open", &[]).unwrap();
    step("Client", "Begin", &["it"]).unwrap();
    let refused = step("Client", "MayCome", &[]).unwrap_err();
    assert_eq!(
        refused.violations,
        [Violation::Read { event: "MayCome".into() }],
        "the shop is not met, where something is due"
    );
}

#[test]
fn a_read_event_that_is_asked_from_outside_may_ask_others() {
    let case = Case::new();
    let (class, at) = (case.spec.class("Claim").unwrap(), case.reference("Claim"));
    let mut asking = call(class, "Possible", &["1"]);
    let mut rounds = 0;
    loop {
        let questions = class.questions(&at.key, &case.world[&at], &asking, NOW);
        if questions.is_empty() {
            break;
        }
        rounds += 1;
        let clerk = case.spec.class("Clerk").unwrap();
        let mut answers = asking.answers().to_vec();
        answers.extend(questions.into_iter().map(|(of, question)| {
            let answer = clerk.answer(&of.key, &case.world[&of], &question, NOW);
            enact_rebel::Answered { of, question, answer }
        }));
        asking = asking.with_answers(answers);
    }
    assert_eq!(rounds, 1, "a state and a field in one round");
    assert_eq!(class.read(&at.key, &case.world[&at], &asking, NOW), Ok(Value::Boolean(true)));
}

#[test]
fn read_is_a_name_elsewhere() {
    spec(
        "
        class A
          read: Integer = 0
          initial none
            on Make(): read_
          read_
            on read(by: Integer)
              post: this.read = by
            read on Read() -> Integer
              return: read
        class B
          initial none
            on read(): read
          read
            on Read()
    ",
    );
}
