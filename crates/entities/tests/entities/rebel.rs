//! Rebel specifications under the engine: the same protocol, the words of the contract.

use std::sync::Arc;

use enact_entities::{
    Admission, Attempt, Begin, Bound, Branch, Call, Calls, Coordinator, CoordinatorInput, CoordinatorOptions,
    CoordinatorOutput, Demand, Durability, Limits, Millis, Model, Reason, Rebel, Rejection, Relation, Reply, Request,
    Slot, Strategy, Term, Timestamp, ToParticipant, TxId, Verdict, Work,
};
use enact_rebel::{EventCall, Key, Money, Reference, Source, Spec, Value, check};
use proptest::prelude::{ProptestConfig, any, proptest};

use crate::support;
use crate::support::bank::{Bank, Hand, InRebel, Listing2};
use crate::support::key;
use crate::support::world::Net;

const BANK: &str = include_str!("support/bank.rebel");
const RICH: &str = include_str!("../../../../examples/bank.rebel");

fn load(text: &str) -> (Arc<Spec>, Arc<Rebel>) {
    let spec = check(vec![Source::new("test.rebel", text)]).unwrap_or_else(|report| panic!("{}", report.render(false)));
    let spec = Arc::new(spec);
    let model = Arc::new(Rebel::new(Arc::clone(&spec)));
    (spec, model)
}

/// A call with its arguments in their text forms.
fn call(spec: &Spec, class: &str, event: &str, arguments: &[(&str, &str)]) -> EventCall {
    let event = spec.class(class).and_then(|class| class.event(event)).expect("the contract has the event");
    let typed = arguments.iter().map(|(name, text)| {
        let param = event.params().iter().find(|param| **param.name() == **name).expect("the event has the parameter");
        (*name, Value::parse(param.ty(), text).expect("the argument has the form of its type"))
    });
    event.call(typed).expect("the arguments fit")
}

struct Bench {
    spec: Arc<Spec>,
    net: Net<Rebel>,
}

impl Bench {
    fn new(text: &str, durability: Durability) -> Self {
        let (spec, model) = load(text);
        Self { spec, net: Net::with(model, Strategy::Serializable, durability) }
    }

    fn event(&mut self, entity: &str, event: &str, arguments: &[(&str, &str)]) -> TxId {
        let call = call(&self.spec, key(entity).class(), event, arguments);
        let tx = self.net.event(entity, call);
        self.net.run();
        tx
    }

    fn done(&mut self, entity: &str, event: &str, arguments: &[(&str, &str)]) {
        let tx = self.event(entity, event, arguments);
        assert!(self.net.committed(tx), "{:?}", self.net.reply(tx));
    }

    /// The refusal in words.
    fn refusal(&mut self, entity: &str, event: &str, arguments: &[(&str, &str)]) -> String {
        let tx = self.event(entity, event, arguments);
        match self.net.reply(tx) {
            Some(Reply::Answered { result: Err(refusal), .. }) => refusal.to_string(),
            other => panic!("it is refused: {other:?}"),
        }
    }

    fn field(&self, entity: &str, field: &str) -> String {
        let state = self.net.participants[&key(entity)].admission().base();
        state.fields().get(field).map_or_else(String::new, ToString::to_string)
    }
}

const DURABILITIES: [Durability; 2] = [Durability::TwoPhase, Durability::Shared];

#[test]
fn e_a_transfer_in_rebel_moves_money_or_says_which_precondition_failed() {
    for durability in DURABILITIES {
        let mut bank = Bench::new(BANK, durability);
        bank.done("Account/A", "Open", &[("initialDeposit", "EUR 100.00")]);
        bank.done("Account/B", "Open", &[("initialDeposit", "EUR 100.00")]);
        let book = |amount| [("from", "A"), ("to", "B"), ("amount", amount)];
        bank.done("Transfer/T1", "Book", &book("EUR 30.00"));
        assert_eq!(
            (bank.field("Account/A", "balance"), bank.field("Account/B", "balance")),
            ("EUR 70.00".into(), "EUR 130.00".into())
        );
        assert_eq!(
            bank.refusal("Transfer/T2", "Book", &book("EUR 70.01")),
            "Account/A refuses Withdraw: insufficient funds with balance = EUR 70.00, amount = EUR 70.01"
        );
        assert_eq!(
            bank.refusal("Transfer/T1", "Book", &book("EUR 1.00")),
            "Transfer/T1 refuses Book: Book is not possible in state booked, only in init"
        );
        let to_itself = |amount| [("from", "A"), ("to", "A"), ("amount", amount)];
        bank.done("Transfer/T3", "Book", &to_itself("EUR 70.00"));
        assert_eq!(bank.field("Account/A", "balance"), "EUR 70.00");
        assert_eq!(
            bank.refusal("Transfer/T4", "Book", &to_itself("EUR 70.01")),
            "Account/A refuses Withdraw: insufficient funds with balance = EUR 70.00, amount = EUR 70.01"
        );
        bank.net.check_settled();
    }
}

#[test]
fn e_conditions_in_rebel_refuse_in_the_words_of_the_contract() {
    let mut bank = Bench::new(BANK, Durability::Shared);
    assert_eq!(
        bank.refusal("Pledge/P", "Make", &[("from", "A")]),
        "Account/A does not meet what Pledge/P.Make demands: \
         the donor must exist, and it is in state init; the donor must not be blocked, and it is in state init"
    );
    bank.done("Account/A", "Open", &[("initialDeposit", "EUR 100.00")]);
    bank.done("Pledge/P", "Make", &[("from", "A")]);
    // The donor is a field: only the vote of the pledge says whom it calls.
    bank.done("Account/B", "Open", &[("initialDeposit", "EUR 100.00")]);
    bank.done("Pledge/P", "Redeem", &[("to", "B"), ("amount", "EUR 60.00")]);
    assert_eq!(bank.field("Account/B", "balance"), "EUR 160.00");
    bank.done("Pledge/Q", "Make", &[("from", "A")]);
    let possible = bank.refusal("Pledge/Q", "Forgive", &[("amount", "EUR 40.00")]);
    assert!(possible.ends_with("and it is in state opened"), "{possible}");
    bank.done("Pledge/Q", "Forgive", &[("amount", "EUR 40.01")]);
    bank.net.check_settled();
}

#[test]
fn listing_2_runs_as_it_is_printed() {
    let mut bank = Bench::new(include_str!("../../../../examples/listing2.rebel"), Durability::TwoPhase);
    let (a, b) = ("NL91ABNA0417164300", "GB29NWBK60161331926819");
    bank.done(&format!("Account/{a}"), "Open", &[("initialDeposit", "EUR 100.00")]);
    bank.done(&format!("Account/{b}"), "Open", &[("initialDeposit", "EUR 0.00")]);
    bank.done("MoneyTransfer/1", "Book", &[("amount", "EUR 30.00"), ("from", a), ("to", b)]);
    assert_eq!(bank.field(&format!("Account/{b}"), "balance"), "EUR 30.00");
    bank.net.check_settled();
}

#[test]
fn an_identity_has_one_key_and_every_other_spelling_is_no_entity() {
    let (_, model) = load(include_str!("../../../../examples/listing2.rebel"));
    assert!(model.initial(&key("Account/NL91ABNA0417164300")).is_some());
    for other in ["Account/nl91abna0417164300", "Account/NL00ABNA0417164300", "Nobody/1"] {
        assert!(model.initial(&key(other)).is_none(), "{other}");
    }
}

#[test]
fn a_call_of_an_entity_whose_id_no_key_can_hold_is_refused() {
    let mut bank = Bench::new(BANK, Durability::Shared);
    bank.done("Account/A", "Open", &[("initialDeposit", "EUR 100.00")]);
    let refusal = bank.refusal("Transfer/T", "Book", &[("from", "A"), ("to", "no/where"), ("amount", "EUR 1.00")]);
    assert!(refusal.contains("cannot be called"), "{refusal}");
}

#[test]
fn calls_are_known_before_the_state_is_exactly_if_no_field_is_read() {
    let (spec, model) = load(BANK);
    let book = call(&spec, "Transfer", "Book", &[("from", "A"), ("to", "B"), ("amount", "EUR 1.00")]);
    let Calls::Known(calls) = model.calls(&key("Transfer/T"), None, &book, Timestamp(0)) else { panic!("they are") };
    assert_eq!(calls.iter().map(|call| call.key.to_string()).collect::<Vec<_>>(), ["Account/A", "Account/B"]);
    let redeem = call(&spec, "Pledge", "Redeem", &[("to", "B"), ("amount", "EUR 1.00")]);
    assert_eq!(model.calls(&key("Pledge/P"), None, &redeem, Timestamp(0)), Calls::DependsOnState);
    let make = call(&spec, "Pledge", "Make", &[("from", "A")]);
    let Calls::Known(calls) = model.calls(&key("Pledge/P"), None, &make, Timestamp(0)) else { panic!("they are") };
    let demands: Vec<_> = calls.into_iter().map(|call| call.action).collect();
    assert!(matches!(&demands[..], [
        enact_entities::Action::Condition(exists),
        enact_entities::Action::Condition(opened)
    ] if exists.demand == Demand::Initialized && opened.demand == Demand::InState(vec!["opened".into()])));
}

#[test]
fn a_coordinator_says_that_it_knows_the_calls_exactly_if_no_field_is_read() {
    let (spec, model) = load(BANK);
    let first_asked = |entity: &str, event: EventCall| {
        let options = CoordinatorOptions::new(Durability::Shared);
        let mut coordinator = Coordinator::new(Arc::clone(&model), key("Coordinator/C"), options);
        let (tx, calls) = (TxId::from_u128(1), vec![Call::event(key(entity), event)]);
        let begin = Begin { tx, calls, at: Timestamp(0), deadline: Millis(1_000), idempotency: None };
        match coordinator.step(CoordinatorInput::Begin(begin), Millis(0)).remove(0) {
            CoordinatorOutput::Send { message: ToParticipant::Prepare(prepare), .. } => prepare.request.calls_known,
            other => panic!("{other:?}"),
        }
    };
    let book = call(&spec, "Transfer", "Book", &[("from", "A"), ("to", "B"), ("amount", "EUR 1.00")]);
    assert!(first_asked("Transfer/T", book));
    let redeem = call(&spec, "Pledge", "Redeem", &[("to", "B"), ("amount", "EUR 1.00")]);
    assert!(!first_asked("Pledge/P", redeem));
}

#[test]
fn a_vote_tells_calls_unless_the_coordinator_knows_them() {
    let (spec, model) = load(BANK);
    let told = |calls_known| {
        let (entity, limits) = (key("Transfer/T"), Limits::default());
        let initial = model.initial(&entity).expect("the contract has the class");
        let mut transfer =
            Admission::new(Arc::clone(&model), entity, initial, Slot::FIRST, Strategy::Serializable, limits);
        let book = call(&spec, "Transfer", "Book", &[("from", "A"), ("to", "B"), ("amount", "EUR 1.00")]);
        let (tx, work) = (TxId::from_u128(1), Work::event(book));
        let branch = Branch { tx, attempt: Attempt::FIRST, work, at: Timestamp(0) };
        let (deadline, certain) = (Millis(1_000), false);
        let request = Request { branch, deadline, ordered: true, sole: false, certain, calls_known };
        match transfer.request(request) {
            Verdict::Admitted(_, answer) => answer,
            other => panic!("{other:?}"),
        }
    };
    let (full, short) = (told(false), told(true));
    assert_eq!(full.calls.iter().map(Vec::len).collect::<Vec<_>>(), [2]);
    assert_eq!((short.calls.len(), &short.state), (0, &full.state));
}

#[test]
fn static_relations_come_from_the_contract() {
    let model = InRebel::load();
    let never = |open: &str, incoming: &str| {
        let events = [open, incoming].map(|name| InRebel::account_event(name, 50));
        model.relation(&key("Account/A"), &events[0], &events[1]) == Relation::Never
    };
    let events = ["Open", "Withdraw", "Deposit", "Interest", "Close", "Block", "Unblock"];
    let pairs = events.iter().flat_map(|open| events.iter().map(move |incoming| (open, incoming)));
    assert_eq!(pairs.filter(|(open, incoming)| never(open, incoming)).count(), 13);
}

#[test]
fn a_withdrawal_in_rebel_is_linear_and_names_money_by_field_and_currency() {
    let model = InRebel::load();
    let account = InRebel::account(&model, "opened", 100);
    let (balance, cents) = model.numbers(&key("Account/A"), &account)[0];
    assert_eq!(cents, 10_000);
    assert_eq!(model.show(&key("Account/A"), balance, 1_250), ("balance".into(), "EUR 12.50".into()));
    let linear = model.linear(&key("Account/A"), &[InRebel::withdraw(30)], Timestamp(0)).expect("it is linear");
    assert_eq!((linear.states, linear.deltas), (vec!["opened".to_owned()], vec![(balance, -3_000)]));
    assert!(linear.thresholds.iter().any(|threshold| threshold.bound == Bound::AtLeast(3_000)
        && threshold.terms == [Term { field: balance, negative: false }]));
    let (spec, rich) = load(RICH);
    let account = key(Listing2::ACCOUNT);
    let linear = |amount| {
        let deposit = call(&spec, "Account", "Deposit", &[("amount", amount)]);
        rich.linear(&account, std::slice::from_ref(&deposit), Timestamp(0)).expect("it is linear")
    };
    assert_ne!(linear("USD 1.00").deltas[0].0, linear("EUR 1.00").deltas[0].0, "two currencies are two fields");
}

fn request<E>(n: u128, event: E) -> Request<E> {
    let (tx, attempt, work) = (support::tx(n), Attempt::FIRST, Work::event(event));
    Request {
        branch: Branch { tx, attempt, work, at: Timestamp(0) },
        deadline: Millis::NEVER,
        ordered: true,
        sole: false,
        certain: false,
        calls_known: false,
    }
}

/// An account of the rich bank with 1,000 euros and 500 more to overdraw.
fn rich_account(strategy: Strategy) -> (Arc<Spec>, Admission<Rebel>) {
    let (spec, model) = load(RICH);
    let account = key(Listing2::ACCOUNT);
    let open = call(&spec, "Account", "Open", &[("owner", "Ada"), ("initialDeposit", "EUR 1000.00")]);
    let limit = call(&spec, "Account", "LimitOverdraft", &[("limit", "EUR 500.00")]);
    let next = |state, event: &EventCall| model.next(&account, &state, event, Timestamp(0)).expect("possible");
    let base = next(next(model.initial(&account).expect("it is an id"), &open), &limit);
    let limits = Limits::default();
    let admission = Admission::new(Arc::clone(&model), account, base, Slot::FIRST, strategy, limits);
    (spec, admission)
}

#[test]
fn another_currency_is_refused_whatever_is_open() {
    let (spec, mut account) = rich_account(Strategy::Serializable);
    let deposit = |amount| call(&spec, "Account", "Deposit", &[("amount", amount)]);
    assert!(matches!(account.request(request(1, deposit("EUR 1.00"))), Verdict::Admitted(..)));
    let verdict = account.request(request(2, deposit("USD 1.00")));
    let Verdict::Rejected(Rejection { refusal, .. }) = verdict else { panic!("it is refused") };
    assert!(matches!(refusal.reasons[..], [Reason::Arithmetic { .. }]), "{refusal}");
}

#[test]
fn additions_that_fit_one_by_one_and_not_together_are_not_admitted_together() {
    for strategy in [Strategy::Psac, Strategy::Serializable] {
        let (spec, mut account) = rich_account(strategy);
        let amount = format!("EUR {}.00", Money::MINOR_MAX / 100 / 10 * 6);
        let huge = || call(&spec, "Account", "Deposit", &[("amount", &amount)]);
        let first = account.request(request(1, huge()));
        let second = account.request(request(2, huge()));
        assert!(matches!((&first, &second), (Verdict::Admitted(..), Verdict::Delayed)), "{first:?}, {second:?}");
        let settled = account.decide(support::tx(1), enact_entities::Decision::Commit).settled;
        assert!(matches!(settled[..], [(_, Verdict::Rejected(_))]));
    }
}

#[test]
fn the_rich_bank_admits_many_withdrawals_at_once_within_the_overdraft_limit() {
    let (spec, mut admission) = rich_account(Strategy::Serializable);
    // Distinct amounts, so that looking at outcomes would be hopeless: 1 to 50 is 1,275 in all.
    for n in 1..=50 {
        let withdraw = call(&spec, "Account", "Withdraw", &[("amount", &format!("EUR {n}.00"))]);
        assert!(matches!(admission.request(request(n, withdraw)), Verdict::Admitted(..)), "{n}");
    }
    let withdraw = |amount| call(&spec, "Account", "Withdraw", &[("amount", amount)]);
    assert!(matches!(admission.request(request(51, withdraw("EUR 225.00"))), Verdict::Admitted(..)));
    assert!(matches!(admission.request(request(52, withdraw("EUR 0.01"))), Verdict::Delayed));
    assert!(matches!(admission.request(request(53, withdraw("EUR 1500.01"))), Verdict::Rejected(_)));
}

#[test]
fn the_rich_bank_transfers_with_a_fee_and_reverses() {
    for durability in DURABILITIES {
        let mut bank = Bench::new(RICH, durability);
        let (ada, bob, house) = ("NL91ABNA0417164300", "GB29NWBK60161331926819", "DE89370400440532013000");
        for account in [ada, bob, house] {
            let arguments = [("owner", "somebody"), ("initialDeposit", "EUR 1000.00")];
            bank.done(&format!("Account/{account}"), "Open", &arguments);
        }
        let [amount, from, to] = [("amount", "EUR 100.00"), ("from", ada), ("to", bob)];
        bank.done("Transfer/t1", "BookUrgently", &[amount, from, to, ("house", house)]);
        bank.done("Transfer/t2", "Book", &[amount, from, to]);
        let balance = |bank: &Bench, account| bank.field(&format!("Account/{account}"), "balance");
        assert_eq!(balance(&bank, ada), "EUR 799.90");
        assert_eq!(balance(&bank, bob), "EUR 1200.00");
        assert_eq!(balance(&bank, house), "EUR 1000.10");
        bank.done("Transfer/t1", "Reverse", &[]);
        assert_eq!(balance(&bank, ada), "EUR 899.90");
        bank.done(&format!("Account/{bob}"), "Block", &[]);
        let refused = bank.refusal("Transfer/t2", "Reverse", &[]);
        assert!(refused.contains("Withdraw is not possible in state blocked"), "{refused}");
        bank.net.check_settled();
    }
}

#[test]
fn many_savers_are_rewarded_in_one_transaction() {
    let mut bank = Bench::new(RICH, Durability::Shared);
    let savers = ["NL91ABNA0417164300", "GB29NWBK60161331926819"];
    let sponsor = "DE89370400440532013000";
    for account in savers.iter().chain([&sponsor]) {
        bank.done(&format!("Account/{account}"), "Open", &[("owner", "x"), ("initialDeposit", "EUR 100.00")]);
    }
    bank.done("SavingsGoal/boat", "Start", &[("goal", "EUR 50.00"), ("until", "2030-01-01"), ("payout", savers[0])]);
    for saver in savers {
        bank.done("SavingsGoal/boat", "Save", &[("amount", "EUR 25.00"), ("from", saver)]);
    }
    bank.done("SavingsGoal/boat", "Reward", &[("bonus", "EUR 5.00"), ("sponsor", sponsor)]);
    bank.done("SavingsGoal/boat", "Redeem", &[]);
    assert_eq!(bank.field(&format!("Account/{}", savers[0]), "balance"), "EUR 130.00");
    assert_eq!(bank.field(&format!("Account/{}", savers[1]), "balance"), "EUR 80.00");
    assert_eq!(bank.field(&format!("Account/{sponsor}"), "balance"), "EUR 90.00");
    bank.net.check_settled();
}

#[test]
fn a_transaction_over_calls_of_its_own_needs_no_class() {
    let mut net = Net::with(Listing2::load(), Strategy::Serializable, Durability::TwoPhase);
    let (a, b) = (key("Account/NL91ABNA0417164300"), key("Account/GB29NWBK60161331926819"));
    let tx = net.start(vec![Call::event(a.clone(), Listing2::open(10)), Call::event(b, Listing2::open(20))]);
    net.run();
    assert!(net.committed(tx));
    let tx = net.event("MoneyTransfer/1", Listing2::book(&key("Account/GB29NWBK60161331926819"), &a, 20));
    net.run();
    assert!(net.committed(tx));
    net.check_settled();
}

/// Asks both banks for the same events, one after the other while all before it stay open, and returns what the contract said:
/// the same as the bank by hand, whose every verdict is one of all outcomes, but that what commutes in some states only is
/// delayed. That one is the last.
fn verdicts_of_both(balance: i64, strategy: Strategy, events: &[(&str, i64)]) -> Vec<&'static str> {
    // Room for every subset of what is open, beside each one: where outcomes run out, only what needs none of them goes on.
    let outcomes_max = events.len() << events.len();
    let limits = Limits { overtakes_max: usize::MAX, outcomes_max, ..Limits::default() };
    let (rebel, hand) = (InRebel::load(), Hand::plain());
    let (state, other) = (InRebel::account(&rebel, "opened", balance), Hand::account(&hand, "opened", balance));
    let mut left = Admission::new(rebel, key("Account/A"), state, Slot::FIRST, strategy, limits.clone());
    let mut right = Admission::new(hand, key("Account/A"), other, Slot::FIRST, strategy, limits);
    let mut verdicts = Vec::new();
    for (n, &(name, amount)) in (1..).zip(events) {
        let verdict = told(&left.request(request(n, InRebel::account_event(name, amount))));
        let by_hand = told(&right.request(request(n, Hand::account_event(name, amount))));
        verdicts.push(verdict);
        if (verdict, by_hand, strategy) == ("delayed", "admitted", Strategy::Serializable) {
            break;
        }
        assert_eq!(verdict, by_hand, "{name} {amount} as number {n}");
    }
    verdicts
}

#[test]
fn interests_that_are_a_cent_apart_in_the_other_order_are_not_open_together() {
    // 75.00 + 6 % = 79.50, + 49 % of that, 38.955, = 118.46; 75.00 + 49 % = 111.75, + 6 % of that, 6.705, = 118.45.
    let interests = [("Interest", 6), ("Interest", 49)];
    assert_eq!(verdicts_of_both(75, Strategy::Serializable, &interests), ["admitted", "delayed"]);
    assert_eq!(verdicts_of_both(75, Strategy::Psac, &interests), ["admitted", "admitted"]);
    // 100.00 + 6 % + 50 % = 159.00 = 100.00 + 50 % + 6 %; but that is so of few balances, and is not looked for.
    let exact = [("Interest", 6), ("Interest", 50)];
    assert_eq!(verdicts_of_both(100, Strategy::Serializable, &exact), ["admitted", "delayed"]);
    assert_eq!(verdicts_of_both(75, Strategy::Serializable, &[("Interest", 6); 5]), ["admitted"; 5]);
}

#[test]
fn what_is_linear_is_admitted_where_the_outcomes_of_others_are_too_many() {
    let limits = Limits { outcomes_max: 16, ..Limits::default() };
    let (rebel, hand) = (InRebel::load(), Hand::plain());
    let (state, other) = (InRebel::account(&rebel, "opened", 15), Hand::account(&hand, "opened", 15));
    let serializable = Strategy::Serializable;
    let mut rebel = Admission::new(rebel, key("Account/A"), state, Slot::FIRST, serializable, limits.clone());
    let mut hand = Admission::new(hand, key("Account/A"), other, Slot::FIRST, serializable, limits);
    // The sums of the subsets of four are 16 different balances.
    for (n, amount) in (1..).zip([1, 2, 4, 8]) {
        assert_eq!(told(&rebel.request(request(n, InRebel::deposit(amount)))), "admitted");
        assert_eq!(told(&hand.request(request(n, Hand::deposit(amount)))), "admitted");
    }
    assert_eq!(told(&rebel.request(request(5, InRebel::deposit(16)))), "admitted");
    assert_eq!(told(&hand.request(request(5, Hand::deposit(16)))), "delayed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The linear form, put to use by the interval domain, against the outcomes of the interpreter.
    #[test]
    fn rebel_and_the_bank_by_hand_get_the_same_verdicts(
        balance in 0i64..150,
        psac in any::<bool>(),
        acts in proptest::collection::vec((0usize..9, 1i64..70), 1..10),
    ) {
        let kinds = ["Withdraw", "Withdraw", "Withdraw", "Deposit", "Deposit", "Deposit", "Interest", "Block", "Close"];
        let strategy = if psac { Strategy::Psac } else { Strategy::Serializable };
        let events: Vec<_> = acts.into_iter().map(|(kind, amount)| (kinds[kind], amount)).collect();
        verdicts_of_both(balance, strategy, &events);
    }
}

fn told<E>(verdict: &Verdict<E>) -> &'static str {
    match verdict {
        Verdict::Admitted(..) => "admitted",
        Verdict::Rejected(_) => "rejected",
        Verdict::Delayed => "delayed",
        Verdict::Unanswered(_) | Verdict::OutOfOrder | Verdict::Busy => "turned away",
    }
}

const MANDATES: &str = r#"
enum Kind { once, monthly }

class Creditor
  iban: Iban @identity
  booked: Integer = 0
  initial unknown
    on Join(): member
  member
    on Book(): member
      post: this.booked += 1

class Mandate
  creditor: Creditor @identity
  number: Integer @identity
  kind: Kind
  initial drawn
    on Sign(of: Kind): signed
      pre: "numbers begin with 1": number > 0
           creditor is member
      post: this.kind = of
  signed
    on Revoke(): revoked
  final revoked

class Collection
  of: Mandate @identity
  due: Date @identity
  initial drafted
    on Settle(): settled
      pre: "no mandate": of is signed
           "this day is over": not Collection[of, due + 1] is settled
           "not with us": of.creditor == Creditor[of.creditor.iban]
      sync: of.creditor.Book()
  final settled

class Day
  day: Date @identity
  initial ahead
    on Begin(creditor: Iban, number: Integer): running
      sync: Collection[Mandate[Creditor[creditor], number], day].Settle()
  final running
"#;

#[test]
fn e_an_identity_of_several_fields_names_one_entity_and_is_read_by_its_fields() {
    let mut bench = Bench::new(MANDATES, Durability::TwoPhase);
    const ANN: &str = "NL91ABNA0417164300";
    let mandate = format!("Mandate/{ANN}:7");
    bench.done(&format!("Creditor/{ANN}"), "Join", &[]);
    let refusal = bench.refusal(&format!("Mandate/{ANN}:0"), "Sign", &[("of", "once")]);
    assert!(refusal.ends_with("numbers begin with 1"), "{refusal}");
    bench.done(&mandate, "Sign", &[("of", "monthly")]);
    bench.done(&format!("Collection/{ANN}:7:2026-11-25"), "Settle", &[]);
    let refusal = bench.refusal(&format!("Collection/{ANN}:7:2026-11-24"), "Settle", &[]);
    assert!(refusal.contains("this day is over"), "{refusal}");
    bench.done("Day/2026-11-26", "Begin", &[("creditor", ANN), ("number", "7")]);
    assert_eq!(bench.field(&format!("Creditor/{ANN}"), "booked"), "2");
    bench.done(&mandate, "Revoke", &[]);
    let refusal = bench.refusal("Day/2026-11-27", "Begin", &[("creditor", ANN), ("number", "7")]);
    assert!(refusal.contains("no mandate"), "{refusal}");
    // Another number of fields, or another spelling, names nothing.
    for nobody in ["Mandate/NL91ABNA0417164300", "Collection/NL91ABNA0417164300:07:2026-11-25", "Day/2026-11-31"] {
        assert_eq!(bench.net.model.initial(&key(nobody)), None, "{nobody}");
    }
}

/// What is stored may be older than the contract, or no work of the language at all.
#[test]
fn a_reference_whose_texts_hold_the_sign_that_joins_them_means_no_entity() {
    let (spec, model) = load(
        "
        class Pair
          left: String @identity
          right: String @identity
          initial new
            on Touch(): touched
          final touched
        class Hand
          initial still
            on Reach(pair: Pair): done
              sync: pair.Touch()
          final done
        ",
    );
    let reference = |left: &str| {
        let parts = [Key::String(left.into()), Key::String("c".into())];
        Value::Reference(Reference { class: "Pair".into(), key: Key::Composite(parts.into()) })
    };
    let reach = spec.class("Hand").and_then(|class| class.event("Reach")).expect("it is declared");
    for (left, is_one) in [("a", true), ("a:b", false)] {
        let reach = reach.call([("pair", reference(left))]).expect("two texts");
        let calls = model.calls(&key("Hand/h"), None, &reach, Timestamp(0));
        let Calls::Known(calls) = calls else { panic!("they do not depend on a state: {calls:?}") };
        assert_eq!(model.initial(&calls[0].key).is_some(), is_one, "{}", calls[0].key);
    }
}
