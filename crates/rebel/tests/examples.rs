//! The specifications that a newcomer reads first, run by a world of instances without any concurrency.

mod support;

use std::collections::{BTreeSet, HashMap};

use enact_rebel::{Instance, Reference, Refused, Relation, Source, Spec, Style, Type, Value, check, format};
use support::{NOW, call, field};

fn path(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn example(name: &str) -> Spec {
    let source = Source::new(name, std::fs::read_to_string(path(name)).unwrap());
    check(vec![source]).unwrap_or_else(|report| panic!("{report}"))
}

/// The names of all examples.
fn names() -> BTreeSet<String> {
    let directory = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")).unwrap();
    directory.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn examples_are_checked_without_a_warning() {
    for name in names() {
        let spec = example(&name);
        assert!(spec.warnings().diagnostics().is_empty(), "{}", spec.warnings());
    }
}

/// Listing 2 is written as in its paper.
#[test]
fn examples_are_laid_out_and_spelt_as_the_formatter_does() {
    for name in names().into_iter().filter(|name| name != "listing2.rebel") {
        let text = std::fs::read_to_string(path(&name)).unwrap();
        let style = Style { canonical: true, ..Style::default() };
        assert_eq!(format(Source::new(&name, &*text), style).unwrap(), text);
    }
}

/// Instances by address; an event happens with all its syncs or not at all.
struct World {
    spec: Spec,
    instances: HashMap<Reference, Instance>,
}

impl World {
    fn new(spec: Spec) -> Self {
        Self { spec, instances: HashMap::new() }
    }

    fn reference(&self, class: &str, key: &str) -> Reference {
        let class = self.spec.class(class).unwrap();
        class.reference(class.key(key).unwrap())
    }

    fn instance(&self, reference: &Reference) -> Instance {
        let initial = || self.spec.class(&reference.class).unwrap().initial();
        self.instances.get(reference).cloned().unwrap_or_else(initial)
    }

    fn field(&self, class: &str, key: &str, name: &str) -> String {
        field(&self.instance(&self.reference(class, key)), name)
    }

    fn happens(&mut self, class: &str, key: &str, event: &str, arguments: &[&str]) -> Result<(), Vec<String>> {
        let call = call(self.spec.class(class).unwrap(), event, arguments);
        let target = self.reference(class, key);
        let shown = |refused: Refused| refused.violations.iter().map(ToString::to_string).collect::<Vec<_>>();
        let accepted = self.spec.step(&self.instances, &target, &call, NOW).map_err(shown)?;
        self.instances.extend(accepted.after);
        Ok(())
    }
}

const ANN: &str = "NL91ABNA0417164300";
const BOB: &str = "GB82WEST12345698765432";
const BANK: &str = "DE89370400440532013000";

/// Ann has EUR 100, Bob EUR 50, the bank EUR 1.
fn bank() -> World {
    let mut world = World::new(example("bank.rebel"));
    for (iban, owner, deposit) in [(ANN, "Ann", "EUR 100.00"), (BOB, "Bob", "EUR 50.00"), (BANK, "Bank", "EUR 1.00")] {
        world.happens("Account", iban, "Open", &[owner, deposit]).unwrap();
    }
    world
}

fn refused<const N: usize>(result: Result<(), Vec<String>>, texts: [&str; N]) {
    let reasons = result.unwrap_err();
    assert!(
        reasons.len() == N && reasons.iter().zip(texts).all(|(reason, text)| reason.starts_with(text)),
        "{reasons:#?}"
    );
}

#[test]
fn listing_2_moves_money_between_accounts() {
    let mut world = World::new(example("listing2.rebel"));
    world.happens("Account", ANN, "Open", &["EUR 100.00"]).unwrap();
    world.happens("Account", BOB, "Open", &["EUR 0.00"]).unwrap();
    world.happens("MoneyTransfer", "t1", "Book", &["EUR 30.00", BOB, ANN]).unwrap();
    assert_eq!([ANN, BOB].map(|iban| world.field("Account", iban, "balance")), ["EUR 70.00", "EUR 30.00"]);
    refused(
        world.happens("MoneyTransfer", "t1", "Book", &["EUR 1.00", BOB, ANN]),
        ["`Book` is not possible in state `booked`"],
    );
    refused(world.happens("MoneyTransfer", "t2", "Book", &["EUR 70.01", BOB, ANN]), ["balance - amount ≥ €0"]);
    // The paper does not forbid a transfer to oneself: it takes, and then gives.
    world.happens("MoneyTransfer", "t3", "Book", &["EUR 70.00", ANN, ANN]).unwrap();
    assert_eq!(world.field("Account", ANN, "balance"), "EUR 70.00");
    refused(world.happens("MoneyTransfer", "t4", "Book", &["EUR 70.01", ANN, ANN]), ["balance - amount ≥ €0"]);
}

#[test]
fn an_urgent_transfer_costs_a_fee_and_can_be_reversed() {
    let mut world = bank();
    world.happens("Transfer", "t1", "BookUrgently", &["EUR 50.00", ANN, BOB, BANK]).unwrap();
    let balances = |world: &World| [ANN, BOB, BANK].map(|iban| world.field("Account", iban, "balance"));
    assert_eq!(balances(&world), ["EUR 49.95", "EUR 100.00", "EUR 1.05"]);
    assert_eq!(world.field("Transfer", "t1", "bookedOn"), "2026-11-21");
    world.happens("Transfer", "t1", "Reverse", &[]).unwrap();
    assert_eq!(balances(&world), ["EUR 99.95", "EUR 50.00", "EUR 1.05"]);
    // The fee of an amount this small rounds to nothing, so nobody collects one.
    world.happens("Transfer", "t2", "BookUrgently", &["EUR 5.00", ANN, BOB, BANK]).unwrap();
    assert_eq!(balances(&world), ["EUR 94.95", "EUR 55.00", "EUR 1.05"]);
}

#[test]
fn a_transfer_is_refused_in_the_words_of_its_author() {
    let mut world = bank();
    let mut book = |amount, from, to| world.happens("Transfer", "t", "Book", &[amount, from, to]);
    refused(book("EUR 100.01", ANN, BOB), ["insufficient funds: `balance + overdraftLimit - amount >= 0`"]);
    refused(book("EUR 1.00", ANN, ANN), ["payer and payee must be different accounts"]);
    refused(book("EUR 1.00", "NO9386011117947", BOB), ["`Withdraw` is not possible in state `unopened`"]);
    refused(book("USD 1.00", ANN, BOB), ["currency mismatch: EUR and USD"]);
    world.happens("Account", BOB, "Block", &[]).unwrap();
    world.happens("Transfer", "t", "Book", &["EUR 1.00", ANN, BOB]).unwrap();
    refused(world.happens("Account", BOB, "Close", &[]), ["`Close` is not possible in state `blocked`"]);
}

#[test]
fn an_account_may_be_overdrawn_within_its_limit() {
    let mut world = bank();
    world.happens("Account", ANN, "LimitOverdraft", &["EUR 20.00"]).unwrap();
    world.happens("Account", ANN, "Withdraw", &["EUR 120.00"]).unwrap();
    refused(world.happens("Account", ANN, "Withdraw", &["EUR 0.01"]), ["insufficient funds"]);
    refused(
        world.happens("Account", ANN, "LimitOverdraft", &["EUR 19.99"]),
        ["the balance is already below this limit"],
    );
    refused(world.happens("Account", ANN, "Interest", &["1%"]), ["an overdrawn account earns no interest"]);
    refused(world.happens("Account", ANN, "Close", &[]), ["the balance must be zero"]);
    world.happens("Account", ANN, "Deposit", &["EUR 20.00"]).unwrap();
    world.happens("Account", ANN, "Close", &[]).unwrap();
}

#[test]
fn interest_is_rounded_to_the_even_cent() {
    let mut world = bank();
    world.happens("Account", BANK, "Withdraw", &["EUR 0.95"]).unwrap();
    world.happens("Account", BANK, "Interest", &["10%"]).unwrap();
    assert_eq!(world.field("Account", BANK, "balance"), "EUR 0.05", "10 % of EUR 0.05 is half a cent, and 0 is even");
    refused(world.happens("Account", BANK, "Interest", &["25.01%"]), ["the interest rate must lie between 0% and 25%"]);
}

#[test]
fn savers_reach_a_goal_together_and_it_is_paid_out_at_once() {
    let mut world = bank();
    refused(
        world.happens("SavingsGoal", "boat", "Start", &["EUR 60.00", "2026-11-21", "NO9386011117947"]),
        ["the goal must be due in the future"],
    );
    refused(
        world.happens("SavingsGoal", "boat", "Start", &["EUR 60.00", "2027-01-01", "NO9386011117947"]),
        ["the account to pay out to must exist and not be closed"],
    );
    world.happens("SavingsGoal", "boat", "Start", &["EUR 60.00", "2027-01-01", BOB]).unwrap();
    world.happens("SavingsGoal", "boat", "Save", &["EUR 40.00", ANN]).unwrap();
    refused(world.happens("SavingsGoal", "boat", "Redeem", &[]), ["the goal is neither reached nor due"]);
    refused(world.happens("SavingsGoal", "boat", "Save", &["EUR 50.01", BOB]), ["insufficient funds"]);
    assert_eq!(world.field("SavingsGoal", "boat", "saved"), "EUR 40.00", "a refused part refuses the whole");
    world.happens("SavingsGoal", "boat", "Save", &["EUR 20.00", BOB]).unwrap();
    refused(world.happens("SavingsGoal", "boat", "Reward", &["EUR 0.10", ANN]), ["a saver cannot be the sponsor"]);
    world.happens("SavingsGoal", "boat", "Reward", &["EUR 0.10", BANK]).unwrap();
    let balances = |world: &World| [ANN, BOB, BANK].map(|iban| world.field("Account", iban, "balance"));
    assert_eq!(balances(&world), ["EUR 60.10", "EUR 30.10", "EUR 0.80"]);
    world.happens("SavingsGoal", "boat", "Redeem", &[]).unwrap();
    assert_eq!(balances(&world), ["EUR 60.10", "EUR 90.10", "EUR 0.80"]);
}

#[test]
fn what_may_overlap_in_the_bank_is_told_from_its_contract() {
    let spec = example("bank.rebel");
    let account = spec.class("Account").unwrap();
    for (open, incoming, expected) in [
        ("Deposit", "Deposit", Relation::Invariant),
        ("Withdraw", "Deposit", Relation::Invariant),
        ("Deposit", "Block", Relation::Invariant),
        ("Block", "Deposit", Relation::Invariant),
        ("Withdraw", "Withdraw", Relation::Dynamic),
        ("Open", "Close", Relation::Never),
        ("Close", "Withdraw", Relation::Dynamic),
        ("Deposit", "Open", Relation::Never),
    ] {
        assert_eq!(account.relation(open, incoming), Some(expected), "[{open}] | {incoming}");
    }
    let key = account.key(ANN).unwrap();
    let withdraw = account.linear(&key, &[call(account, "Withdraw", &["EUR 30.00"])], NOW).unwrap();
    assert_eq!(withdraw.states.len(), 1, "a withdrawal within an overdraft limit is decided by thresholds alone");
    let goal = spec.class("SavingsGoal").unwrap();
    assert_eq!(goal.relation("Save", "Redeem"), Some(Relation::Dynamic), "what is paid out is still being saved");
    let reference =
        Value::parse(&Type::Reference { class: "Account".into(), key: account.key_type().clone() }, ANN).unwrap();
    assert_eq!(reference, Value::Reference(account.reference(key)));
}
