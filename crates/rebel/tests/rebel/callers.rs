//! Roles, and what an event knows of its caller.

use std::collections::BTreeMap;

use enact_rebel::{Accepted, Caller, Instance, Reference, Refused, Spec, Value, Violation};

use crate::support::{NOW, call, spec};

const CLAIMS: &str = "
    roles customer, handler, office
    class Claim
      filedBy: String = \"\"
      sum: Integer = 0
      log: Log
      initial draft
        on File(sum_: Integer, log_: Log) by customer: filed
          post: this.sum = sum_, this.filedBy = caller.id, this.log = log_
      filed
        on Accept() by handler, office: accepted
          pre: \"nobody handles an own claim\": caller.id != filedBy
        on Raise(by: Integer)
          let: most = if caller has office then 100 else 10
          pre: \"too much\": by <= most
          post: this.sum += by
        on Drop(): dropped
          pre: caller has system or caller has handler
        on Note()
          sync: log.Write(caller.id)
        on Ask()
          pre: not can log.Write(\"x\")
      final accepted, dropped
    class Log
      last: String = \"\"
      initial none
        on Open(): open
      open
        on Write(by: String) by handler
          post: this.last = by
        on Stamp() by system
";

struct Case {
    spec: Spec,
    world: BTreeMap<Reference, Instance>,
}

impl Case {
    fn new() -> Self {
        let mut case = Self { spec: spec(CLAIMS), world: BTreeMap::new() };
        case.happens("Log.Open", &[], None);
        case.happens("Claim.File", &["5", "1"], Some(&alice(&["customer"])));
        case
    }

    fn step(&self, event: &str, arguments: &[&str], caller: Option<&Caller>) -> Result<Accepted, Refused> {
        let (class, event) = event.split_once('.').unwrap();
        let class = self.spec.class(class).unwrap();
        let call = call(class, event, arguments).with_caller(caller.cloned());
        self.spec.step(&self.world, &class.reference(class.key("1").unwrap()), &call, NOW)
    }

    fn happens(&mut self, event: &str, arguments: &[&str], caller: Option<&Caller>) {
        let step = self.step(event, arguments, caller).unwrap_or_else(|refused| panic!("{refused}"));
        self.world.extend(step.after);
    }

    fn refusal(&self, event: &str, arguments: &[&str], caller: Option<&Caller>) -> String {
        self.step(event, arguments, caller).unwrap_err().to_string()
    }
}

fn alice(roles: &[&str]) -> Caller {
    Caller::new("alice", roles.iter().copied()).unwrap()
}

fn bob(roles: &[&str]) -> Caller {
    Caller::new("bob", roles.iter().copied()).unwrap()
}

#[test]
fn an_event_demands_one_of_its_roles_before_it_looks_at_the_life_cycle() {
    let mut case = Case::new();
    let refused = case.step("Claim.Accept", &[], Some(&bob(&["customer"]))).unwrap_err();
    let roles = vec!["handler".into(), "office".into()];
    assert_eq!(refused.violations, [Violation::Role { event: "Accept".into(), roles }]);
    assert_eq!(
        case.refusal("Claim.Accept", &[], None),
        "Claim 1.Accept: `Accept` needs one of the roles `handler`, `office`, which the caller does not have"
    );
    case.happens("Claim.Accept", &[], Some(&bob(&["office"])));
    let late = case.step("Claim.Accept", &[], Some(&bob(&["customer"]))).unwrap_err();
    assert!(matches!(late.violations[..], [Violation::Role { .. }]), "{late}");
    let late = case.step("Claim.Accept", &[], Some(&bob(&["office"]))).unwrap_err();
    assert!(matches!(late.violations[..], [Violation::LifeCycle { .. }]), "{late}");
}

#[test]
fn an_event_reads_the_id_of_the_caller_and_a_refusal_shows_it() {
    let case = Case::new();
    let filed = case.world.values().find_map(|instance| instance.fields().get("filedBy"));
    assert_eq!(filed, Some(&Value::String("alice".into())));
    assert_eq!(
        case.refusal("Claim.Accept", &[], Some(&alice(&["handler"]))),
        "Claim 1.Accept: nobody handles an own claim: `caller.id != filedBy`, where caller.id = alice, filedBy = alice"
    );
}

#[test]
fn without_a_caller_an_event_that_reads_its_id_is_refused_and_it_has_no_role() {
    let mut case = Case::new();
    let refused = case.step("Claim.Note", &[], None).unwrap_err();
    assert_eq!(refused.violations, [Violation::Role { event: "Note".into(), roles: Vec::new() }]);
    assert_eq!(refused.to_string(), "Claim 1.Note: `Note` needs a caller, and none is known");
    case.happens("Claim.Raise", &["10"], None);
    assert!(case.refusal("Claim.Raise", &["11"], None).contains("too much"));
    case.happens("Claim.Raise", &["11"], Some(&bob(&["office"])));
    assert!(case.refusal("Claim.Drop", &[], None).ends_with(
        "caller has system or caller has handler, where caller has system = false, caller has handler = false"
    ));
}

#[test]
fn system_is_the_role_of_the_caller_of_timed_events_alone() {
    let mut case = Case::new();
    assert!(case.refusal("Log.Stamp", &[], Some(&bob(&["handler", "office"]))).contains("the role `system`"));
    case.happens("Log.Stamp", &[], Some(&Caller::system()));
    case.happens("Claim.Drop", &[], Some(&Caller::system()));
}

#[test]
fn a_called_event_is_called_by_the_caller_of_the_step() {
    let mut case = Case::new();
    let refused = case.step("Claim.Note", &[], Some(&bob(&["customer"]))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Claim 1.Note: Log 1.Write: `Write` needs the role `handler`, which the caller does not have"
    );
    case.happens("Claim.Note", &[], Some(&bob(&["handler"])));
    let last = case.world.values().find_map(|instance| instance.fields().get("last"));
    assert_eq!(last, Some(&Value::String("bob".into())));
}

#[test]
fn an_event_is_possible_only_for_a_caller_with_its_role() {
    let case = Case::new();
    assert!(case.step("Claim.Ask", &[], Some(&bob(&["customer"]))).is_ok());
    assert!(case.step("Claim.Ask", &[], None).is_ok());
    assert!(case.step("Claim.Ask", &[], Some(&bob(&["handler"]))).is_err());
}

#[test]
fn what_admission_knows_in_advance_depends_on_the_caller() {
    let spec = spec(
        "
        roles teller
        class Account
          balance: Integer = 0
          initial none
            on Open(): open
          open
            on Take(n: Integer) by teller
              pre: balance - n >= 0
              post: this.balance -= n
            on Give(n: Integer)
              pre: caller has teller or n < 10
              post: this.balance += n
    ",
    );
    let class = spec.class("Account").unwrap();
    let key = class.key("1").unwrap();
    let open = class.next(&key, &class.initial(), &call(class, "Open", &[]), NOW).unwrap();
    let linear = |event: &str, caller: Option<Caller>| {
        let call = call(class, event, &["20"]).with_caller(caller);
        let judged = class.judge(&key, &class.outline(&open), &call, NOW).verdict;
        (class.linear(&key, &[call], NOW).is_some(), judged)
    };
    let teller = || Some(bob(&["teller"]));
    assert!(linear("Take", teller()).0 && linear("Give", teller()).0);
    assert_eq!(linear("Take", None), (false, enact_rebel::Verdict::Refused));
    assert!(!linear("Give", None).0);
}

#[test]
fn words_of_roles_stay_names_elsewhere() {
    spec(
        "
        roles by, has, roles, on_
        class A
          by: Integer = 0
          roles: Integer = 0
          has: Boolean = true
          initial none
            on Make(from: Integer) by by, has, roles: by_
          by_
            on roles(id: String) by on_
              pre: has, by > roles, caller.id == id
            on has()
              pre: by == 1
                   has
    ",
    );
}
