//! The interval domain: admission by one judgement on the outline of all outcomes.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use enact_rebel::{Class, EventCall, Instance, Outline, Verdict};
use proptest::prelude::*;

use crate::support::{NOW, call, class, key, run};

const ACCOUNT: &str = include_str!("specs/account.rebel");

/// What admission does with an incoming event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Accept,
    Reject,
    Delay,
}
use Answer::{Accept, Delay, Reject};

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Accepted => Accept,
            Verdict::Refused => Reject,
            Verdict::Unsure => Delay,
        }
    }
}

/// Events as the tables write them: `D20` deposits EUR 20, `Close` closes.
fn parse(account: &Class, event: &str) -> EventCall {
    let amount = |text: &str| format!("EUR {text}.00");
    match (event.split_at(1), event.split_once(' ')) {
        (_, Some(("Open", deposit))) => call(account, "Open", &[&amount(deposit)]),
        (_, Some(("Interest", rate))) => call(account, "Interest", &[rate]),
        (("D", sum), _) => call(account, "Deposit", &[&amount(sum)]),
        (("W", sum), _) => call(account, "Withdraw", &[&amount(sum)]),
        _ => call(account, event, &[]),
    }
}

/// The outline after admitting every open event.
fn admit(account: &Class, base: &Instance, open: &[EventCall]) -> Outline {
    open.iter().fold(account.outline(base), |outline, call| {
        let judgement = account.judge(&key(account), &outline, call, NOW);
        assert_eq!(judgement.verdict, Verdict::Accepted, "{call} is open");
        outline.join(&judgement.after)
    })
}

/// Every instance that the open events may lead to.
fn outcomes(account: &Class, base: &Instance, open: &[EventCall]) -> HashSet<Instance> {
    open.iter().fold(HashSet::from([base.clone()]), |outcomes, call| {
        let after: Vec<_> =
            outcomes.iter().filter_map(|before| account.next(&key(account), before, call, NOW).ok()).collect();
        outcomes.into_iter().chain(after).collect()
    })
}

/// The answer of the tree: the verdicts in all outcomes.
fn tree(account: &Class, outcomes: &HashSet<Instance>, incoming: &EventCall) -> Answer {
    let verdicts: HashSet<bool> =
        outcomes.iter().map(|before| account.next(&key(account), before, incoming, NOW).is_ok()).collect();
    match (verdicts.contains(&true), verdicts.contains(&false)) {
        (true, false) => Accept,
        (false, _) => Reject,
        _ => Delay,
    }
}

fn check(account: &Class, base: &Instance, table: &[(&[&str], &str, Answer)]) {
    for (open, incoming, expected) in table {
        let open: Vec<_> = open.iter().map(|event| parse(account, event)).collect();
        let incoming = parse(account, incoming);
        let outline = admit(account, base, &open);
        let judged = account.judge(&key(account), &outline, &incoming, NOW).verdict;
        assert_eq!(Answer::from(judged), *expected, "{open:?} | {incoming}");
        assert_eq!(tree(account, &outcomes(account, base, &open), &incoming), *expected, "tree: {open:?} | {incoming}");
    }
}

#[test]
fn additive_events_are_judged_as_by_the_tree_of_outcomes() {
    let account = class(ACCOUNT, "Account");
    let base = run(&account, &[("Open", &["EUR 100.00"])]);
    check(
        &account,
        &base,
        &[
            (&[], "D10", Accept),
            (&["D20"], "D10", Accept),
            (&["D20", "D30"], "D10", Accept),
            (&[], "W1000", Reject),
            (&["D20"], "W1000", Reject),
            (&["D20", "D30"], "W1000", Reject),
            (&["D100"], "W150", Delay),
            (&["W100"], "W100", Delay),
            (&["W10"], "W10", Accept),
            (&["W10", "W10", "W10"], "W10", Accept),
            (&["W10", "D10", "W10"], "W10", Accept),
            (&["D10"], "W105", Delay),
            (&["W60", "D60"], "W90", Delay),
            (&["W30"], "W70", Accept),
            (&["W30"], "W71", Delay),
            (&["W30", "W50"], "W20", Accept),
            (&["W30", "W50"], "W21", Delay),
            (&[], "D0", Reject),
            (&[], "D-5", Reject),
            (&["D10"], "D-5", Reject),
        ],
    );
}

/// A judgement on the path on which everything commits would accept each of these, and an abort would overdraw.
#[test]
fn an_abort_of_an_open_deposit_is_reckoned_with() {
    let account = class(ACCOUNT, "Account");
    let base = run(&account, &[("Open", &["EUR 100.00"])]);
    check(
        &account,
        &base,
        &[
            (&["D30", "W30"], "W90", Delay),
            (&["D30", "W60"], "W60", Delay),
            (&["D30", "W90"], "W30", Delay),
            (&["D60", "W30"], "W90", Delay),
            (&["D60", "W60"], "W60", Delay),
            (&["D60", "W60"], "W90", Delay),
            (&["D60", "W90"], "W30", Delay),
            (&["D90", "W60"], "W60", Delay),
        ],
    );
}

#[test]
fn the_life_cycle_is_judged_in_every_state_that_may_be() {
    let account = class(ACCOUNT, "Account");
    let opened = run(&account, &[("Open", &["EUR 100.00"])]);
    let empty = run(&account, &[("Open", &["EUR 100.00"]), ("Withdraw", &["EUR 100.00"])]);
    let blocked = run(&account, &[("Open", &["EUR 100.00"]), ("Block", &[])]);
    check(&account, &empty, &[(&["Close"], "W1", Reject), (&["Close"], "D1", Delay)]);
    check(
        &account,
        &opened,
        &[
            (&["Block"], "W1", Delay),
            (&["W1"], "Block", Accept),
            (&["Block"], "Block", Delay),
            (&["Interest 1%"], "Close", Reject),
        ],
    );
    check(&account, &empty, &[(&["Interest 1%"], "Close", Accept)]);
    check(&account, &account.initial(), &[(&["Open 50"], "Close", Reject)]);
    check(&account, &blocked, &[(&["Unblock"], "Open 50", Reject)]);
}

/// Figure 3 of the paper on path-sensitive atomic commit: a decided event is certain, so the outcomes shrink.
#[test]
fn figure_3_rejects_the_third_withdrawal_while_the_first_is_open() {
    let account = class(ACCOUNT, "Account");
    let base = run(&account, &[("Open", &["EUR 100.00"])]);
    let [c1, c2, c3] = ["W30", "W50", "W60"].map(|event| parse(&account, event));
    let range = |outline: &Outline| {
        let (low, high) = account.range_within(outline, "balance").unwrap();
        [low.to_string(), high.to_string()]
    };
    let judge = |outline: &Outline, call| account.judge(&key(&account), outline, call, NOW);

    let base = account.outline(&base);
    let after_c1 = base.join(&judge(&base, &c1).after);
    assert_eq!(range(&after_c1), ["EUR 70.00", "EUR 100.00"]);
    let committed_c2 = judge(&after_c1, &c2).after;
    let after_c2 = after_c1.join(&committed_c2);
    assert_eq!(range(&after_c2), ["EUR 20.00", "EUR 100.00"]);
    assert_eq!(judge(&after_c2, &c3).verdict, Verdict::Unsure);
    assert_eq!(range(&committed_c2), ["EUR 20.00", "EUR 50.00"]);
    assert_eq!(judge(&committed_c2, &c3).verdict, Verdict::Refused);
}

#[test]
fn what_would_leave_the_range_of_numbers_is_not_accepted() {
    let account = class(ACCOUNT, "Account");
    let most = "EUR 9999999999999999999999999999999999.99";
    let base = run(&account, &[("Open", &["EUR 100.00"])]);
    let deposit = call(&account, "Deposit", &["EUR 6000000000000000000000000000000000.00"]);
    let judge = |outline: &Outline, call: &EventCall| account.judge(&key(&account), outline, call, NOW).verdict;
    let outline = admit(&account, &base, std::slice::from_ref(&deposit));
    assert_eq!(judge(&outline, &deposit), Verdict::Unsure, "one fits, two do not");
    assert_eq!(judge(&outline, &call(&account, "Deposit", &[most])), Verdict::Unsure);
    assert_eq!(judge(&outline, &parse(&account, "D1")), Verdict::Accepted);
}

#[test]
fn a_call_on_another_instance_that_depends_on_the_outcome_is_not_accepted() {
    let source = "
        class Account initial new on Open(): opened\n        opened on Deposit(sum: Integer)
        class Goal
          saved: Integer = 0
          payout: Account
          initial new on Start(to: Account): saving post: this.payout == to
          saving
            on Save(sum: Integer) pre: sum > 0 post: this.saved += sum
            on Pay(): paid pre: saved >= 10 sync: payout.Deposit(saved)
            on Gift(): paid sync: payout.Deposit(1)
          final paid";
    let goal = class(source, "Goal");
    let base = run(&goal, &[("Start", &["me"]), ("Save", &["20"])]);
    let outline = admit(&goal, &base, &[call(&goal, "Save", &["5"])]);
    let judge = |outline: &Outline, event| goal.judge(&key(&goal), outline, &call(&goal, event, &[]), NOW).verdict;
    assert_eq!(judge(&goal.outline(&base), "Pay"), Verdict::Accepted);
    assert_eq!(judge(&outline, "Pay"), Verdict::Unsure, "20 or 25 would be paid");
    assert_eq!(judge(&outline, "Gift"), Verdict::Accepted);
}

fn event() -> impl Strategy<Value = (&'static str, i64)> {
    prop_oneof![
        4 => (Just("Deposit"), -2_i64..60),
        4 => (Just("Withdraw"), -2_i64..60),
        2 => (Just("Interest"), -1_i64..120),
        1 => (prop_oneof![Just("Block"), Just("Unblock"), Just("Close")], Just(0_i64)),
    ]
}

fn event_call(account: &Class, (event, number): (&str, i64)) -> EventCall {
    match event {
        "Deposit" | "Withdraw" => call(account, event, &[&format!("EUR {number}.00")]),
        "Interest" => call(account, event, &[&format!("{number}%")]),
        _ => call(account, event, &[]),
    }
}

proptest! {
    /// Whatever the open events: what is accepted on the outline is accepted in every outcome, what is refused in none,
    /// and after additive events nothing that the tree decides is left undecided.
    #[test]
    fn a_judgement_holds_in_every_outcome(events in prop::collection::vec(event(), 0..7), incoming in event()) {
        static CLASS: LazyLock<Arc<Class>> = LazyLock::new(|| class(ACCOUNT, "Account"));
        let account = &*CLASS;
        let base = run(account, &[("Open", &["EUR 100.00"])]);
        let (mut outline, mut open) = (account.outline(&base), Vec::new());
        for event in events {
            let call = event_call(account, event);
            let judgement = account.judge(&key(account), &outline, &call, NOW);
            if judgement.verdict == Verdict::Accepted {
                outline = outline.join(&judgement.after);
                open.push((event.0, call));
            }
        }
        let is_additive = open.iter().all(|(name, _)| matches!(*name, "Deposit" | "Withdraw"))
            && matches!(incoming.0, "Deposit" | "Withdraw");
        let calls: Vec<_> = open.into_iter().map(|(_, call)| call).collect();
        let incoming = event_call(account, incoming);
        let judged = Answer::from(account.judge(&key(account), &outline, &incoming, NOW).verdict);
        let expected = tree(account, &outcomes(account, &base, &calls), &incoming);
        prop_assert!(judged == expected || (judged == Delay && !is_additive), "{:?} | {}: {:?}, tree {:?}", calls, incoming, judged, expected);
    }
}

/// Effects under conditions on arguments, and on fields that are open.
const BRANCHING: &str = "
    class Tank
      litres: Integer = 50
      spilt: Integer = 0
      locked: Boolean = false
      invariant litres >= 0
      initial new on Build(): built
      built
        on Fill(by: Integer, twice: Boolean)
          pre: by > 0, litres + by * 2 <= 200
          post:
            this.litres += by
            if twice: this.litres += by
        on Drain(by: Integer)
          pre: by > 0, litres >= by
          post: if locked: this.spilt += by else: this.litres -= by
        on Level(to: Integer)
          post: if litres > to: this.litres = to
        on Drip(times: Integer)
          pre: litres >= times
          post: for time in 1 .. times: this.litres -= 1
        on Lock(closed: Boolean)
          post: if closed: this.locked = true else: this.locked = false";

fn tank_call() -> impl Strategy<Value = EventCall> {
    static CLASS: LazyLock<Arc<Class>> = LazyLock::new(|| class(BRANCHING, "Tank"));
    let text = |event: &'static str, arguments: Vec<String>| {
        call(&CLASS, event, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    prop_oneof![
        (-1_i64..80, any::<bool>()).prop_map(move |(by, twice)| text("Fill", vec![by.to_string(), twice.to_string()])),
        (-1_i64..80).prop_map(move |by| text("Drain", vec![by.to_string()])),
        (-1_i64..150).prop_map(move |to| text("Level", vec![to.to_string()])),
        (0_i64..60).prop_map(move |times| text("Drip", vec![times.to_string()])),
        any::<bool>().prop_map(move |closed| text("Lock", vec![closed.to_string()])),
    ]
}

proptest! {
    /// Effects under conditions too: what is accepted on the outline is accepted in every outcome, and what is refused in none.
    #[test]
    fn a_judgement_of_effects_under_conditions_holds_in_every_outcome(
        events in prop::collection::vec(tank_call(), 0..7),
        incoming in tank_call(),
    ) {
        let tank = class(BRANCHING, "Tank");
        let base = run(&tank, &[("Build", &[])]);
        let (mut outline, mut open) = (tank.outline(&base), Vec::new());
        for call in events {
            let judgement = tank.judge(&key(&tank), &outline, &call, NOW);
            if judgement.verdict == Verdict::Accepted {
                outline = outline.join(&judgement.after);
                open.push(call);
            }
        }
        let judged = Answer::from(tank.judge(&key(&tank), &outline, &incoming, NOW).verdict);
        let outcomes = outcomes(&tank, &base, &open);
        prop_assert!(judged == tree(&tank, &outcomes, &incoming) || judged == Delay, "{:?} | {}: {:?}", open, incoming, judged);
        // Every outcome lies within the outline.
        let (low, high) = tank.range_within(&outline, "litres").unwrap();
        for outcome in &outcomes {
            let litres = outcome.fields().get("litres").unwrap();
            prop_assert!(low <= *litres && *litres <= high, "{:?} leads to {} outside of {} to {}", open, litres, low, high);
        }
    }
}

#[test]
fn a_condition_that_is_decided_is_judged_by_its_branch() {
    let tank = class(BRANCHING, "Tank");
    let base = tank.outline(&run(&tank, &[("Build", &[])]));
    let judge = |outline: &Outline, event: &str, arguments: &[&str]| {
        tank.judge(&key(&tank), outline, &call(&tank, event, arguments), NOW)
    };
    let locked = judge(&base, "Lock", &["true"]);
    assert_eq!(judge(&locked.after, "Drain", &["50"]).verdict, Verdict::Accepted);
    let either = base.join(&locked.after);
    let drained = judge(&either, "Drain", &["50"]);
    assert_eq!(drained.verdict, Verdict::Accepted);
    let range = |outline: &Outline, field| {
        tank.range_within(outline, field).map(|(low, high)| [low.to_string(), high.to_string()])
    };
    assert_eq!(range(&drained.after, "litres"), Some(["0".into(), "50".into()]));
    assert_eq!(range(&drained.after, "spilt"), Some(["0".into(), "50".into()]));
    assert_eq!(judge(&base, "Drip", &["3"]).verdict, Verdict::Unsure, "a loop is not looked into");
}
