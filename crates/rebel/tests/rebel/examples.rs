//! The specifications that a newcomer reads first, run by a world of instances without any concurrency.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use enact_rebel::{
    Caller, Instance, RecordValue, Reference, Refused, Relation, Source, Spec, Style, Type, Value, check, format,
};

use crate::support::{NOW, call, field};

/// The sources of an example: a file, or a folder of modules.
fn sources(path: &Path) -> Vec<Source> {
    if path.is_dir() {
        let mut modules: Vec<PathBuf> = path.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        modules.sort();
        return modules.iter().flat_map(|module| sources(module)).collect();
    }
    vec![Source::new(path.file_name().unwrap().to_string_lossy(), std::fs::read_to_string(path).unwrap())]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn example(name: &str) -> Spec {
    check(sources(&folder().join(name))).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn examples_are_checked_without_a_warning_and_laid_out() {
    for entry in folder().read_dir().unwrap() {
        let sources = sources(&entry.unwrap().path());
        let name = sources[0].name.clone();
        let spec = check(sources.clone()).unwrap_or_else(|report| panic!("{report}"));
        assert!(spec.warnings().diagnostics().is_empty(), "{}", spec.warnings());
        // Listing 2 is spelt as the paper spells it.
        let style = Style { canonical: true, ..Style::default() };
        for source in sources.into_iter().filter(|_| name != "listing2.rebel") {
            let text = source.text.clone();
            assert_eq!(format(source, style).expect("it is accepted"), text);
        }
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

/// What happens in time: who calls, when, what becomes of it.
struct Days {
    world: World,
    callers: Vec<(&'static str, Caller)>,
}

impl Days {
    fn new(example_name: &str, callers: &[(&'static str, &[&str])]) -> Self {
        let caller = |(id, roles): &(&'static str, &[&str])| (*id, Caller::new(id, roles.iter().copied()).unwrap());
        Self { world: World::new(example(example_name)), callers: callers.iter().map(caller).collect() }
    }

    /// What was due before an event, and why the event was refused, if it was.
    fn at(
        &mut self,
        at: &str,
        who: &str,
        (class, key, event): (&str, &str, &str),
        arguments: &[&str],
    ) -> (Vec<String>, String) {
        let Value::Timestamp(at) = Value::parse(&Type::Timestamp, at).unwrap() else { panic!("{at}") };
        let caller = self.callers.iter().find(|(id, _)| *id == who).unwrap().1.clone();
        let declared = self.world.spec.class(class).unwrap();
        let target = declared.reference(declared.key(key).unwrap());
        let values = declared.event(event).unwrap().params().iter().zip(arguments);
        let values: Vec<_> = values.map(|(param, text)| (param.name().clone(), value(param.ty(), text))).collect();
        let values = values.iter().map(|(name, value)| (&**name, value.clone()));
        let call = declared.event(event).unwrap().call(values).unwrap().with_caller(caller);
        let timely = self.world.spec.step_in_time(&self.world.instances, &target, &call, at);
        self.world.instances.extend(timely.after);
        let refusal = timely.result.err().map(|refused| refused.violations[0].to_string());
        (timely.due.iter().map(|happened| happened.due.event.to_string()).collect(), refusal.unwrap_or_default())
    }

    #[track_caller]
    fn happens(&mut self, at: &str, who: &str, event: (&str, &str, &str), arguments: &[&str]) {
        assert_eq!(self.at(at, who, event, arguments), (vec![], String::new()));
    }

    fn state(&self, class: &str, key: &str) -> String {
        self.world.instance(&self.world.reference(class, key)).state().to_string()
    }
}

/// A value of a type, of which `gold N` is the goods that are gold alone.
fn value(ty: &Type, text: &str) -> Value {
    let (Type::Record(record), Some(gold)) = (ty, text.strip_prefix("gold ")) else {
        return Value::parse(ty, text).unwrap();
    };
    let fields = record.fields.iter().map(|(name, ty)| match &**name {
        "gold" => (name.clone(), Value::parse(ty, gold).unwrap()),
        _ => (name.clone(), Value::Map(Arc::default())),
    });
    Value::Record(Arc::new(RecordValue { of: record.name.clone(), fields: fields.collect() }))
}

const ID: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

#[test]
fn the_bank_waits_for_four_days_and_takes_back_what_it_advanced() {
    for (asked, is_late) in [("2026-03-04T23:59:59.999Z", false), ("2026-03-05T00:00:00Z", true)] {
        let mut bank = revolving();
        bank.happens("2026-03-04T12:00:00Z", "bank", ("Account", BOB, "Deposit"), &["EUR 7.00"]);
        let (due, refused) = bank.at(asked, "bank", ("Collection", ID, "Settle"), &[]);
        let balance = |key| bank.world.field("Account", key, "balance");
        if is_late {
            assert_eq!(due, ["Return"]);
            assert_eq!(refused, "`Settle` is not possible in state `returned`, only in `revolving`");
            assert_eq!([balance(ANN), balance(BOB)], ["EUR 0.00", "EUR 7.00"]);
        } else {
            assert_eq!((due, &*refused), (vec![], ""));
            assert_eq!([balance(ANN), balance(BOB)], ["EUR 7.00", "EUR 0.00"]);
        }
        assert_eq!(bank.world.field("Advances", "EUR", "owed"), "EUR 0.00");
    }
}

/// The bank has paid Ann 7 euros for Bob on the first of March.
fn revolving() -> Days {
    const NOON: &str = "2026-03-01T12:00:00Z";
    let mut bank = Days::new("sepa", &[("bank", &[])]);
    bank.happens(NOON, "bank", ("Advances", "EUR", "Open"), &[]);
    bank.happens(NOON, "bank", ("Account", ANN, "Open"), &[]);
    bank.happens(NOON, "bank", ("Account", BOB, "Open"), &[]);
    let mandate = format!("{ANN}:rent");
    bank.happens(NOON, "bank", ("Mandate", &mandate, "Sign"), &[BOB]);
    bank.happens(NOON, "bank", ("Collection", ID, "Create"), &[&mandate, "EUR 7.00", "2026-03-01"]);
    bank.happens(NOON, "bank", ("Collection", ID, "Revolve"), &[]);
    bank
}

#[test]
fn a_refund_is_due_within_eight_weeks_and_within_thirteen_months_without_a_mandate() {
    let too_late = "it is too late for a refund";
    let cases = [
        (false, "2026-04-26T23:59:59Z", ""),
        (false, "2026-04-27T00:00:00Z", too_late),
        (true, "2027-04-01T23:59:59Z", ""),
        (true, "2027-04-02T00:00:00Z", too_late),
    ];
    for (is_revoked, at, expected) in cases {
        let mut bank = revolving();
        bank.happens("2026-03-02T12:00:00Z", "bank", ("Account", BOB, "Deposit"), &["EUR 7.00"]);
        bank.happens("2026-03-02T12:00:00Z", "bank", ("Collection", ID, "Settle"), &[]);
        if is_revoked {
            bank.happens("2026-03-03T12:00:00Z", "bank", ("Mandate", &format!("{ANN}:rent"), "Revoke"), &[]);
        }
        let (_, refused) = bank.at(at, "bank", ("Collection", ID, "Refund"), &[]);
        assert!(refused.starts_with(expected) && refused.is_empty() == expected.is_empty(), "{at}: {refused}");
    }
}

#[test]
fn an_offer_expires_a_quarter_of_an_hour_after_its_last_change() {
    let mut game = Days::new("trade.rebel", &[("game", &["game"]), ("ada", &["player"]), ("ben", &["player"])]);
    for player in ["ada", "ben"] {
        game.happens("2026-03-01T12:00:00Z", "game", ("Player", player, "Join"), &["5"]);
    }
    game.happens("2026-03-01T12:00:00Z", "ada", ("Offer", ID, "Propose"), &["ben", "gold 0", "gold 0"]);
    game.happens("2026-03-01T12:14:59Z", "ben", ("Offer", ID, "Change"), &["gold 0", "gold 0"]);
    game.happens("2026-03-01T12:29:58Z", "ben", ("Offer", ID, "Confirm"), &["2"]);
    let (due, refused) = game.at("2026-03-01T12:29:59Z", "ada", ("Offer", ID, "Confirm"), &["2"]);
    assert_eq!((due, game.state("Offer", ID)), (vec!["Expire".to_owned()], "expired".to_owned()));
    assert_eq!(refused, "`Confirm` is not possible in state `expired`, only in `open`");
}

#[test]
fn a_proposal_that_nobody_confirms_goes_back_after_two_weeks() {
    let callers: &[(&str, &[&str])] =
        &[("office", &["office"]), ("carl", &["customer"]), ("hanna", &["handler"]), ("simon", &["supervisor"])];
    let mut claims = Days::new("claims.rebel", callers);
    claims.happens("2026-03-01T12:00:00Z", "office", ("Employee", "hanna", "Hire"), &[]);
    claims.happens("2026-03-01T12:00:00Z", "carl", ("Claim", ID, "File"), &["EUR 9.00"]);
    claims.happens("2026-03-01T12:00:00Z", "hanna", ("Claim", ID, "Accept"), &[]);
    claims.happens("2026-03-01T12:00:00Z", "hanna", ("Claim", ID, "Grant"), &["EUR 9.00"]);
    let (due, refused) = claims.at("2026-03-15T11:59:59Z", "simon", ("Claim", ID, "Confirm"), &[]);
    assert!(due.is_empty() && refused.starts_with("above your limit"), "{refused}");
    let (due, refused) = claims.at("2026-03-15T12:00:00Z", "simon", ("Claim", ID, "Confirm"), &[]);
    assert_eq!((due, claims.state("Claim", ID)), (vec!["Return".to_owned()], "assessed".to_owned()));
    assert_eq!(refused, "`Confirm` is not possible in state `assessed`, only in `proposed`");
}
