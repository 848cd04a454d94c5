//! What a delay says: what is not decided, with values, on whom it depends, and what follows from each decision.

use std::sync::{Arc, OnceLock};

use enact_entities::{
    Admission, Attempt, Branch, Call, Condition, Decision, Limits, Millis, Model, Rebel, Request, Slot, Strategy,
    Timestamp, Verdict, Work,
};
use enact_rebel::{EventCall, Instance, Source, Type, Value, check};

use crate::support::{key, tx};

const SPEC: &str = r#"
class Account
  name: String @identity
  holder: String = ""
  balance: Money
  limit: Money
  tags: Set[String] = {}

  initial unopened
    on Open(amount: Money): opened
      post: this.balance = amount, this.limit = amount * 0
  opened
    on Deposit(amount: Money)
      pre: "more than zero": amount > 0
      post: this.balance += amount
    on Withdraw(amount: Money)
      pre: "more than zero": amount > 0, "insufficient funds": balance - amount >= 0
      post: this.balance -= amount
    on Overdraw(amount: Money)
      pre: "within the limit": balance + limit - amount >= 0
      post: this.balance -= amount
    on Interest(rate: Percentage)
      post: this.balance += balance * rate
    on Rename(to: String)
      post: this.holder = to
    on RenamedFrom(from: String, to: String)
      pre: "it has another holder": holder == from
      post: this.holder = to
    on Tag(tag: String)
      post: this.tags += tag
    on Tagged(tag: String)
      pre: "it has the tag": tag in tags
    on Untag(tag: String)
      post: this.tags -= tag
    on Double(most: Money)
      pre: "not too rich": balance * 2 <= most
    on Block(): blocked
    on Close(): closed
      pre: "nothing is left": balance == 0
  blocked
    on Unblock(): opened
  final closed
"#;

fn model() -> Arc<Rebel> {
    static MODEL: OnceLock<Arc<Rebel>> = OnceLock::new();
    let load = || {
        let spec = check(vec![Source::new("account.rebel", SPEC)]);
        Arc::new(Rebel::new(Arc::new(spec.unwrap_or_else(|report| panic!("{}", report.render(false))))))
    };
    Arc::clone(MODEL.get_or_init(load))
}

/// `Withdraw EUR 30.00`: an event with its arguments, in the order in which they are declared.
fn event(text: &str) -> EventCall {
    let model = model();
    let class = model.spec().class("Account").expect("declared");
    let (name, arguments) = text.split_once(' ').unwrap_or((text, ""));
    let event = class.event(name).expect("declared");
    let texts = arguments.split(", ");
    let value = |ty: &Type, text: &str| match ty {
        Type::String => Value::String(text.into()),
        ty => Value::parse(ty, text).expect("a value"),
    };
    let arguments = event.params().iter().zip(texts).map(|(param, text)| (&**param.name(), value(param.ty(), text)));
    event.call(arguments).expect("the arguments fit")
}

struct Account {
    admission: Admission<Rebel>,
    next: u128,
}

impl Account {
    /// One with EUR 100.00.
    fn new(strategy: Strategy, limits: Limits) -> Self {
        let (model, account) = (model(), key("Account/A"));
        let unopened: Instance = model.initial(&account).expect("there are accounts");
        let opened = model.next(&account, &unopened, &event("Open EUR 100.00"), Timestamp(0)).expect("possible");
        Self { admission: Admission::new(model, account, opened, Slot::FIRST, strategy, limits), next: 1 }
    }

    fn serializable() -> Self {
        Self::new(Strategy::Serializable, Limits::default())
    }

    fn request(&mut self, work: Work<EventCall>, sole: bool) -> Verdict<EventCall> {
        let branch = Branch { tx: tx(self.next), attempt: Attempt::FIRST, work, at: Timestamp(0) };
        self.next += 1;
        self.admission.request(Request {
            branch,
            deadline: Millis::NEVER,
            ordered: true,
            sole,
            certain: false,
            calls_known: false,
        })
    }

    /// A part of a larger transaction that is admitted; its number.
    fn opens(mut self, text: &str) -> Self {
        let verdict = self.request(Work::event(event(text)), false);
        assert!(matches!(verdict, Verdict::Admitted(..)), "{text}: {verdict:?}");
        self
    }

    /// What a part of a larger transaction waits for.
    fn waits(&mut self, work: Work<EventCall>) -> String {
        let verdict = self.request(work, false);
        assert!(matches!(verdict, Verdict::Delayed), "{verdict:?}");
        self.said(self.next - 1)
    }

    fn said(&mut self, number: u128) -> String {
        let waits = self.admission.waits_for(tx(number)).expect("it waits");
        let text = waits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        // The ids of the tests end in their number.
        text.replace("00000000-0000-0000-0000-00000000000", "T")
    }

    /// What `text` says if it waits as a part of a larger transaction.
    fn delays(&mut self, text: &str) -> String {
        self.waits(Work::event(event(text)))
    }
}

#[test]
fn a_verdict_names_the_number_what_it_must_be_and_what_follows_from_each_decision() {
    let mut account =
        Account::new(Strategy::Psac, Limits::default()).opens("Withdraw EUR 30.00").opens("Withdraw EUR 50.00");
    assert_eq!(
        account.delays("Withdraw EUR 60.00"),
        "balance is between EUR 20.00 and EUR 100.00 and must be at least EUR 60.00: it depends on Withdraw of T2 (fails if \
         it commits, passes if it aborts)"
    );
}

#[test]
fn a_verdict_over_a_sum_names_all_its_fields() {
    let mut account = Account::serializable().opens("Withdraw EUR 50.00");
    assert_eq!(
        account.delays("Overdraw EUR 60.00"),
        "balance + limit is between EUR 50.00 and EUR 100.00 and must be at least EUR 60.00: it depends on Withdraw of T1 \
         (fails if it commits, passes if it aborts)"
    );
}

#[test]
fn those_that_do_the_same_and_matter_alike_are_one() {
    let mut account = Account::serializable();
    for _ in 0..3 {
        account = account.opens("Withdraw EUR 20.00");
    }
    assert_eq!(
        account.delays("Withdraw EUR 70.00"),
        "balance is between EUR 40.00 and EUR 100.00 and must be at least EUR 70.00: it depends on 3 Withdraw (the first of \
         T1)"
    );
}

#[test]
fn a_verdict_that_hangs_on_the_life_cycle_names_the_states() {
    let mut account = Account::serializable().opens("Block");
    assert_eq!(
        account.delays("Withdraw EUR 1.00"),
        "it is opened or blocked and must be opened: it depends on Block of T1 (fails if it commits, passes if it aborts)"
    );
}

#[test]
fn a_verdict_that_hangs_on_a_content_names_what_it_may_be() {
    let mut account = Account::serializable().opens("Rename Ada");
    assert_eq!(
        account.delays("RenamedFrom Ada, Bob"),
        "holder is \"\" or Ada and must be Ada: it depends on Rename of T1 (passes if it commits, fails if it aborts)"
    );
    let mut account = Account::serializable().opens("Tag vip");
    assert_eq!(
        account.delays("Tagged vip"),
        "vip in tags is false or true and must be true: it depends on Tag of T1 (passes if it commits, fails if it aborts)"
    );
}

#[test]
fn a_verdict_that_is_told_by_outcomes_names_the_rule_in_the_words_of_its_author() {
    let mut account = Account::serializable().opens("Withdraw EUR 30.00");
    assert_eq!(
        account.delays("Double EUR 150.00"),
        "one outcome refuses it, by: not too rich with balance = EUR 100.00, most = EUR 150.00: it depends on Withdraw of T1 \
         (passes if it commits, fails if it aborts)"
    );
}

#[test]
fn a_turn_on_a_place_names_it_how_many_are_open_how_many_come_first_and_what_would_help() {
    let mut account = Account::serializable();
    for _ in 0..3 {
        account = account.opens("Deposit EUR 1.00");
    }
    assert_eq!(
        account.delays("Interest 3%"),
        "3 Deposit (the first of T1) are open on balance; Interest takes its turn after them (alone, it would not have to wait)"
    );
    assert_eq!(
        account.delays("Interest 4%"),
        "3 Deposit (the first of T1) are open on balance; Interest takes its turn after them, 1 older one is before it \
         (alone, it would not have to wait)"
    );
}

#[test]
fn the_hint_is_true_what_it_names_is_admitted_alone() {
    let mut account = Account::serializable().opens("Deposit EUR 1.00");
    assert!(account.delays("Interest 3%").ends_with("(alone, it would not have to wait)"));
    let alone = account.request(Work::event(event("Interest 3%")), true);
    assert!(matches!(alone, Verdict::Admitted(_, answer) if answer.in_line));
}

#[test]
fn an_element_of_a_set_is_named_with_its_set() {
    let mut account = Account::serializable().opens("Tag vip");
    assert_eq!(
        account.delays("Untag vip"),
        "Tag of T1 is open on vip in tags; Untag takes its turn after it (alone, it would not have to wait)"
    );
}

#[test]
fn a_reliance_names_what_it_would_do_and_what_the_other_relies_on() {
    let capped = r#"
class Account
  name: String @identity
  balance: Integer = 90
  initial fresh
    on Start(): opened
  opened
    on Fill(by: Integer)
      pre: "it holds a hundred": balance <= 100
      post: this.balance += by
    on Add(by: Integer)
      post: this.balance += by
"#;
    let spec =
        check(vec![Source::new("capped.rebel", capped)]).unwrap_or_else(|report| panic!("{}", report.render(false)));
    let model = Arc::new(Rebel::new(Arc::new(spec)));
    let declared = |name: &str| model.spec().class("Account").and_then(|class| class.event(name)).expect("declared");
    let call = |name: &str, by| declared(name).call([("by", Value::Integer(by))]).expect("it fits");
    let account = key("Account/A");
    let start = declared("Start").call([] as [(&str, Value); 0]).expect("it fits");
    let state = model.initial(&account).and_then(|fresh| model.next(&account, &fresh, &start, Timestamp(0)).ok());
    let state = state.expect("it can begin");
    let limits = Limits::default();
    let mut admission = Admission::new(Arc::clone(&model), account, state, Slot::FIRST, Strategy::Serializable, limits);
    let mut request = |number, event| {
        let branch = Branch { tx: tx(number), attempt: Attempt::FIRST, work: Work::event(event), at: Timestamp(0) };
        admission.request(Request {
            branch,
            deadline: Millis::NEVER,
            ordered: true,
            sole: false,
            certain: false,
            calls_known: false,
        })
    };
    assert!(matches!(request(1, call("Fill", 5)), Verdict::Admitted(..)));
    assert!(matches!(request(2, call("Add", 20)), Verdict::Delayed));
    let waits = admission.waits_for(tx(2)).expect("it waits");
    let said = format!("Add would take balance to 110; Fill of {} relies on at most 100", tx(1));
    assert_eq!(waits.iter().map(ToString::to_string).collect::<Vec<_>>(), [said]);
}

#[test]
fn a_condition_that_another_relies_on_is_quoted() {
    let mut account = Account::serializable();
    let opened = Condition::in_state(["opened"], "the account must be in use");
    let relies = Work::of([Call::condition(key("Account/A"), opened).action]);
    assert!(matches!(account.request(relies, false), Verdict::Admitted(..)));
    let said = account.delays("Block");
    assert!(said.starts_with("Block would make it blocked; "), "{said}");
    assert!(said.ends_with(" relies on \"the account must be in use\""), "{said}");
}

#[test]
fn an_answer_names_what_is_asked_for() {
    let mut account = Account::serializable().opens("Deposit EUR 5.00").opens("Rename Ada");
    let question = enact_entities::Question::Field("balance".to_owned());
    assert_eq!(
        account.waits(Work::of([enact_entities::Action::Ask(question)])),
        "balance is between EUR 100.00 and EUR 105.00: it depends on Deposit of T1"
    );
}

#[test]
fn a_bound_says_how_many_are_open_and_a_turn_how_often_it_was_passed() {
    let limits = Limits { open_max: 2, ..Limits::default() };
    let mut account = Account::new(Strategy::Serializable, limits).opens("Deposit EUR 1.00").opens("Deposit EUR 2.00");
    assert_eq!(
        account.delays("Deposit EUR 3.00"),
        "2 are open, as many as may be; Deposit waits until one is decided, such as Deposit of T1"
    );
    let limits = Limits { overtakes_max: 1, ..Limits::default() };
    let mut account = Account::new(Strategy::Psac, limits).opens("Withdraw EUR 50.00");
    account.delays("Withdraw EUR 60.00");
    let mut account = account.opens("Deposit EUR 20.00");
    let said = account.delays("Deposit EUR 20.00");
    assert_eq!(said, "Withdraw of T2 came earlier and was passed once; Deposit takes its turn after it");
}

#[test]
fn what_waits_for_one_in_line_says_so_and_one_in_line_says_behind_whom() {
    let mut account = Account::serializable().opens("Deposit EUR 1.00");
    assert!(matches!(account.request(Work::event(event("Interest 10%")), true), Verdict::Admitted(..)));
    account.admission.decide(tx(2), Decision::Commit);
    assert_eq!(account.said(2), "Interest is decided and stands in line behind Deposit of T1 which is not");
    let said = account.delays("Deposit EUR 1.00");
    assert_eq!(
        said,
        "Interest of T2 is decided and is applied after those before it; Deposit is a part of a larger transaction and waits \
         until then"
    );
}

#[test]
fn an_explanation_names_a_bounded_number_of_kinds_whatever_is_open() {
    let mut account = Account::serializable();
    for number in 0..1_000 {
        let work = Work::of_events((0..=number % 40).map(|_| event("Deposit EUR 1.00")));
        assert!(matches!(account.request(work, false), Verdict::Admitted(..)), "{number}");
    }
    account.delays("Interest 3%");
    let waits = account.admission.waits_for(tx(account.next - 1)).expect("it waits");
    assert!(waits.len() <= 16, "{}", waits.len());
}
