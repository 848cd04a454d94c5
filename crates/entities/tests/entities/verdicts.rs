//! What admission says of a newcomer while others are open. `W30` is Withdraw 30, `D` Deposit, `O` Open, `I` Interest (in
//! percent), `C` Close, `B` Block, `U` Unblock.

use std::sync::Arc;

use enact_entities::{
    Admission, Attempt, Branch, Decision, Limits, Millis, Model, Prospect, Relation, Request, Slot, Strategy,
    Timestamp, Values, Verdict, Wait, Why, Work,
};
use proptest::prelude::{Just, ProptestConfig, any, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;

use crate::support::bank::{Bank, Event, EventOf, Hand, InRebel, StateOf};
use crate::support::{key, tx};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Accept,
    Reject,
    Delay,
}

use Told::{Accept, Delay, Reject};

fn told<E>(verdict: &Verdict<E>) -> Told {
    match verdict {
        Verdict::Admitted(..) => Accept,
        Verdict::Rejected(_) => Reject,
        Verdict::Delayed | Verdict::Unanswered(_) | Verdict::OutOfOrder | Verdict::Busy => Delay,
    }
}

fn event<B: Bank>(text: &str) -> EventOf<B> {
    let (letter, amount) = text.split_at(1);
    let amount = amount.parse().unwrap_or(0);
    let name = match letter {
        "O" => "Open",
        "D" => "Deposit",
        "W" => "Withdraw",
        "I" => "Interest",
        "C" => "Close",
        "B" => "Block",
        "U" => "Unblock",
        other => panic!("no event {other}"),
    };
    B::account_event(name, amount)
}

fn request<E>(n: u128, event: E) -> Request<E> {
    Request {
        branch: Branch { tx: tx(n), attempt: Attempt::FIRST, work: Work::event(event), at: Timestamp(0) },
        deadline: Millis::NEVER,
        ordered: true,
        sole: false,
        certain: false,
        calls_known: false,
    }
}

fn admission<M: Model>(model: Arc<M>, base: M::State, strategy: Strategy, limits: Limits) -> Admission<M> {
    Admission::new(model, key("Account/A"), base, Slot::FIRST, strategy, limits)
}

/// State and balance, what is open, what comes, what it is told.
type Row<'a> = (&'a str, i64, &'a str, &'a str, Told);

/// The verdict with the hints of the model and, for the bank by hand, from the outcomes alone.
fn check(strategy: Strategy, rows: &[Row<'_>]) {
    check_bank::<Hand>(&Hand::load(), strategy, rows);
    check_bank::<Hand>(&Hand::plain(), strategy, rows);
    check_bank::<InRebel>(&InRebel::load(), strategy, rows);
}

fn check_bank<B: Bank>(model: &Arc<B::Model>, strategy: Strategy, rows: &[Row<'_>]) {
    for &(life, balance, open, incoming, expected) in rows {
        let base = B::account(model, life, balance);
        let mut account = admission(Arc::clone(model), base, strategy, Limits::default());
        for (n, text) in (1..).zip(open.split_whitespace()) {
            let verdict = account.request(request(n, event::<B>(text)));
            assert_eq!(told(&verdict), Accept, "{life} {balance} [{open}]: {text} is open");
        }
        let verdict = account.request(request(100, event::<B>(incoming)));
        assert_eq!(told(&verdict), expected, "{strategy:?}: {life} {balance} [{open}] | {incoming}: {verdict:?}");
    }
}

const BOTH: [Strategy; 2] = [Strategy::Psac, Strategy::Serializable];

#[test]
fn b_the_verdict_holds_in_every_outcome_or_in_none_or_is_delayed() {
    for strategy in BOTH {
        check(
            strategy,
            &[
                ("opened", 100, "", "D10", Accept),
                ("opened", 100, "D20", "D10", Accept),
                ("opened", 100, "D20 D30", "D10", Accept),
                ("opened", 100, "", "W1000", Reject),
                ("opened", 100, "D20", "W1000", Reject),
                ("opened", 100, "D20 D30", "W1000", Reject),
                ("opened", 100, "D100", "W150", Delay),
                ("opened", 100, "W100", "W100", Delay),
                ("opened", 100, "W10", "W10", Accept),
                ("opened", 100, "W10 W10 W10", "W10", Accept),
                ("opened", 100, "W10 D10 W10", "W10", Accept),
                ("blocked", 100, "U", "O50", Reject),
                ("opened", 100, "D10", "W105", Delay),
                ("opened", 100, "W60 D60", "W90", Delay),
                ("opened", 100, "W30", "W70", Accept),
                ("opened", 100, "W30", "W71", Delay),
                ("opened", 100, "W30 W50", "W20", Accept),
                ("opened", 100, "W30 W50", "W21", Delay),
                ("opened", 100, "", "D0", Reject),
                ("opened", 100, "", "D-5", Reject),
                ("opened", 100, "D10", "D-5", Reject),
            ],
        );
    }
}

#[test]
fn b_abort_safety_no_verdict_relies_on_a_commit_that_may_not_come() {
    for strategy in BOTH {
        check(
            strategy,
            &[
                ("opened", 100, "D30 W30", "W90", Delay),
                ("opened", 100, "D30 W60", "W60", Delay),
                ("opened", 100, "D30 W90", "W30", Delay),
                ("opened", 100, "D60 W30", "W90", Delay),
                ("opened", 100, "D60 W60", "W60", Delay),
                ("opened", 100, "D60 W60", "W90", Delay),
                ("opened", 100, "D60 W90", "W30", Delay),
                ("opened", 100, "D60 W90", "W60", Delay),
            ],
        );
    }
}

#[test]
fn b_life_cycle_is_part_of_the_verdict() {
    check(
        Strategy::Psac,
        &[
            ("opened", 0, "C", "W1", Reject),
            ("opened", 0, "C", "D1", Delay),
            ("opened", 100, "B", "W1", Delay),
            ("opened", 100, "W1", "B", Accept),
            ("opened", 100, "B", "B", Delay),
            ("init", 0, "O50", "C", Reject),
            ("opened", 100, "I1", "C", Reject),
            ("opened", 100, "", "C", Reject),
            ("opened", 0, "I1", "C", Accept),
            ("opened", 0, "", "C", Accept),
        ],
    );
}

#[test]
fn b_serializable_also_delays_what_would_make_an_open_event_impossible() {
    check(
        Strategy::Serializable,
        &[
            ("opened", 0, "C", "W1", Reject),
            ("opened", 0, "C", "D1", Delay),
            ("opened", 100, "B", "W1", Delay),
            ("opened", 100, "W1", "B", Delay),
            ("opened", 0, "I1", "C", Delay),
            ("opened", 100, "I1", "C", Reject),
            ("opened", 75, "I1", "I1", Accept),
        ],
    );
    // What commutes in this state is seen in the outcomes; of changes that differ it is not looked for.
    let row = |told| [("opened", 100, "I1", "I2", told)];
    check_bank::<Hand>(&Hand::plain(), Strategy::Serializable, &row(Accept));
    check_bank::<InRebel>(&InRebel::load(), Strategy::Serializable, &row(Delay));
}

#[test]
fn b_static_the_account_has_13_never_and_10_invariant_pairs_of_49() {
    check_static::<Hand>(&Hand::load());
}

const EVENTS: [&str; 7] = ["Open", "Withdraw", "Deposit", "Interest", "Close", "Block", "Unblock"];

/// Counts the table and compares every claim of it with all states and amounts of a small domain.
fn check_static<B: Bank>(model: &B::Model) {
    let account = key("Account/A");
    let next = |state: &StateOf<B>, event: &EventOf<B>| model.next(&account, state, event, Timestamp(0)).ok();
    let lives = ["init", "opened", "blocked", "closed"];
    let all = lives.iter().flat_map(|life| [0, 1, 2, 50, 100].map(|balance| (*life, balance)));
    let states: Vec<StateOf<B>> = all
        .filter(|&(life, balance)| balance == 0 || ["opened", "blocked"].contains(&life))
        .map(|(life, balance)| B::account(model, life, balance))
        .collect();
    let amounts = [-1, 0, 1, 2, 49, 50, 51, 100];
    let (mut never, mut invariant) = (0, 0);
    for open in EVENTS {
        for incoming in EVENTS {
            let sample = |name| B::account_event(name, 50);
            let relation = model.relation(&account, &sample(open), &sample(incoming));
            never += usize::from(relation == Relation::Never);
            invariant += usize::from(relation == Relation::Invariant);
            for state in &states {
                for first in amounts.map(|amount| B::account_event(open, amount)) {
                    let Some(after) = next(state, &first) else { continue };
                    for second in amounts.map(|amount| B::account_event(incoming, amount)) {
                        let (before, after) = (next(state, &second).is_some(), next(&after, &second).is_some());
                        match relation {
                            Relation::Never => assert!(!before && !after, "[{first:?}] | {second:?} in {state:?}"),
                            Relation::Invariant => assert_eq!(before, after, "[{first:?}] | {second:?} in {state:?}"),
                            Relation::Dynamic => {}
                        }
                    }
                }
            }
        }
    }
    assert_eq!((never, invariant), (13, 10));
}

#[test]
fn b_merge_equal_outcomes_are_one() {
    for (open, outcomes) in [(8, 9), (12, 13)] {
        let model = Hand::plain();
        let mut account =
            admission(Arc::clone(&model), Hand::account(&model, "opened", 100), Strategy::Psac, Limits::default());
        for n in 1..=open {
            assert_eq!(told(&account.request(request(n, Hand::deposit(1)))), Accept);
        }
        assert_eq!(account.outcomes().map(|outcomes| outcomes.len()), Some(outcomes));
    }
}

#[test]
fn b_outcomes_max_delays_what_would_cause_one_more_and_admits_what_does_not() {
    let model = Hand::plain();
    let limits = Limits { outcomes_max: 8, ..Limits::default() };
    let mut account = admission(Arc::clone(&model), Hand::account(&model, "opened", 100), Strategy::Psac, limits);
    for (n, amount) in [(1, 1), (2, 2), (3, 4)] {
        assert_eq!(told(&account.request(request(n, Hand::deposit(amount)))), Accept);
    }
    assert_eq!(account.outcomes().map(|outcomes| outcomes.len()), Some(8));
    assert_eq!(told(&account.request(request(4, Hand::deposit(8)))), Delay);
    let waits = account.waits_for(tx(4)).expect("it is delayed");
    let [wait] = &waits[..] else { panic!("three alike: {waits:?}") };
    assert_eq!((wait.tx, wait.others, &wait.why), (tx(1), 2, &Why::Outcomes { outcomes_max: 8 }));
    let settled = account.decide(tx(1), Decision::Abort).settled;
    assert!(matches!(settled[..], [(_, Verdict::Admitted(..))]), "{settled:?}");
}

#[test]
fn b_outcomes_max_of_one_admits_what_is_alone_also_when_it_has_waited_and_tries_nothing_out() {
    let model = Hand::plain();
    let limits = Limits { outcomes_max: 1, ..Limits::default() };
    let mut account = admission(Arc::clone(&model), Hand::account(&model, "opened", 100), Strategy::Psac, limits);
    assert_eq!(told(&account.request(request(1, Hand::deposit(1)))), Accept);
    for n in [2, 3] {
        assert_eq!(told(&account.request(request(n, Hand::deposit(1)))), Delay);
        let waits = account.waits_for(tx(n)).expect("it is delayed");
        assert!(matches!(waits[..], [Wait { why: Why::Outcomes { outcomes_max: 1 }, .. }]), "{waits:?}");
    }
    for (decided, admitted) in [(1, 2), (2, 3)] {
        let settled = account.decide(tx(decided), Decision::Commit).settled;
        assert!(matches!(settled[..], [(found, Verdict::Admitted(..))] if found == tx(admitted)), "{settled:?}");
    }
}

#[test]
fn b_interval_many_linear_events_need_no_outcomes() {
    let model = Hand::load();
    let mut account = admission(
        Arc::clone(&model),
        Hand::account(&model, "opened", 100_000),
        Strategy::Serializable,
        Limits::default(),
    );
    for n in 1..=600 {
        let event = if n % 2 == 0 { Hand::deposit(n) } else { Hand::withdraw(n) };
        assert_eq!(told(&account.request(request(n.unsigned_abs().into(), event))), Accept, "{n}");
    }
    assert_eq!(account.outcomes(), None, "there are too many to look at");
    let range = account.range().expect("the sums tell");
    let values = Values::Between { low: "EUR 10000.00".into(), high: "EUR 190300.00".into() };
    assert_eq!(range.fields[0].values, values);
    assert_eq!(told(&account.request(request(5000, Hand::interest(1)))), Delay, "not linear");
}

#[test]
fn b_mode_serializable_delays_what_changes_an_open_verdict_or_does_not_commute() {
    let capped = Event::DepositUpTo(5000, 10_000);
    let rows = [
        (capped, Hand::deposit(10), Accept, Delay),
        (Hand::deposit(50), Hand::interest(10), Accept, Delay),
        (Hand::deposit(50), Hand::deposit(10), Accept, Accept),
        (Hand::withdraw(30), Hand::withdraw(50), Accept, Accept),
    ];
    for hints in [true, false] {
        for (open, incoming, psac, serializable) in rows.clone() {
            for (strategy, expected) in [(Strategy::Psac, psac), (Strategy::Serializable, serializable)] {
                let model = Arc::new(Hand { hints });
                let base = Hand::account(&model, "opened", 100);
                let mut account = admission(model, base, strategy, Limits::default());
                assert_eq!(told(&account.request(request(1, open.clone()))), Accept);
                let verdict = account.request(request(2, incoming.clone()));
                assert_eq!(told(&verdict), expected, "{strategy:?}, hints {hints}: [{open:?}] | {incoming:?}");
            }
        }
    }
}

#[test]
fn b_bound_delays_even_the_independent_until_one_is_decided() {
    for strategy in BOTH {
        let model = Hand::load();
        let limits = Limits { open_max: 3, ..Limits::default() };
        let mut account = admission(Arc::clone(&model), Hand::account(&model, "opened", 100), strategy, limits);
        for n in 1..=3 {
            assert_eq!(told(&account.request(request(n, Hand::deposit(1)))), Accept);
        }
        assert_eq!(told(&account.request(request(4, Hand::deposit(1)))), Delay);
        let settled = account.decide(tx(2), Decision::Commit).settled;
        assert!(matches!(settled[..], [(_, Verdict::Admitted(..))]), "{settled:?}");
    }
}

#[test]
fn asking_again_gives_the_same_answer_and_no_second_reservation() {
    let model = Hand::load();
    let mut account =
        admission(Arc::clone(&model), Hand::account(&model, "opened", 100), Strategy::Psac, Limits::default());
    let first = account.request(request(1, Hand::withdraw(60)));
    assert_eq!(account.request(request(1, Hand::withdraw(60))), first);
    assert_eq!(told(&account.request(request(2, Hand::withdraw(60)))), Delay);
    assert_eq!(told(&account.request(request(2, Hand::withdraw(60)))), Delay);
    assert_eq!((account.in_progress().count(), account.delayed_count()), (1, 1));
}

#[test]
fn a_delay_says_which_decision_it_waits_for_and_what_follows_from_it() {
    for hints in [true, false] {
        let model = Arc::new(Hand { hints });
        let base = Hand::account(&model, "opened", 100);
        let mut account = admission(model, base, Strategy::Psac, Limits::default());
        account.request(request(1, Hand::withdraw(30)));
        account.request(request(2, Hand::withdraw(50)));
        account.request(request(3, Hand::withdraw(60)));
        let waits = account.waits_for(tx(3)).expect("it is delayed");
        let [wait] = &waits[..] else { panic!("figure 3: it depends on the second alone: {waits:?}") };
        let Why::Verdict { if_committed, if_aborted, .. } = wait.why else { panic!("{wait:?}") };
        assert_eq!((wait.tx, if_committed, if_aborted), (tx(2), Prospect::Fails, Prospect::Passes));
    }
}

/// A step of a random history: an amount to add (negative: withdraw), or the decision on one of the open.
#[derive(Clone, Debug)]
enum Act {
    Request(Event),
    Decide(usize, bool),
}

fn additive() -> impl Generator<Value = Event> {
    prop_oneof![
        (1i64..60).prop_map(Hand::deposit),
        (1i64..60).prop_map(Hand::withdraw),
        (1i128..6000, 5000i128..15_000).prop_map(|(amount, limit)| Event::DepositUpTo(amount, limit)),
    ]
}

fn any_event() -> impl Generator<Value = Event> {
    prop_oneof![
        4 => additive(),
        1 => (0i64..3).prop_map(Hand::interest),
        1 => Just(Event::Block),
        1 => Just(Event::Unblock),
        1 => Just(Event::Close),
        1 => Just(Event::Open(5000)),
        1 => (-3i64..1).prop_map(Hand::deposit),
    ]
}

fn acts(event: impl Generator<Value = Event>) -> impl Generator<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => event.prop_map(Act::Request),
        1 => (0usize..8, any::<bool>()).prop_map(|(which, commit)| Act::Decide(which, commit)),
    ];
    proptest::collection::vec(act, 1..14)
}

/// Plays one history on an admission that tries nothing out and is told nothing in advance, and under a lock.
fn one_outcome_is_a_lock(strategy: Strategy, balance: i64, acts: &[Act]) {
    let limits = |outcomes_max| Limits { outcomes_max, overtakes_max: usize::MAX, ..Limits::default() };
    let start = Hand::account(&Hand::plain(), "opened", balance);
    let mut one = admission(Hand::plain(), start.clone(), strategy, limits(1));
    let mut lock = admission(Hand::plain(), start, Strategy::Locking, limits(16));
    for (n, act) in (1..).zip(acts) {
        match act {
            Act::Request(event) => {
                let (a, b) = (one.request(request(n, event.clone())), lock.request(request(n, event.clone())));
                assert_eq!(a, b, "{event:?} in {act:?}");
            }
            Act::Decide(_, commit) => {
                let Some(tx) = lock.in_progress().next().map(|entry| entry.branch.tx) else { continue };
                let decision = if *commit { Decision::Commit } else { Decision::Abort };
                assert_eq!(one.decide(tx, decision), lock.decide(tx, decision));
            }
        }
        assert_eq!(one.base(), lock.base());
    }
}

/// Plays one history on an admission with all its shortcuts and on one that looks at outcomes only.
fn same_with_and_without_shortcuts(strategy: Strategy, balance: i64, acts: &[Act]) {
    // Fairness counts differ by design: the sums see a possible change where the outcomes see none.
    let limits = Limits { open_max: 7, outcomes_max: 1_024, overtakes_max: usize::MAX, ..Limits::default() };
    let start = Hand::account(&Hand::load(), "opened", balance);
    let mut fast = admission(Hand::load(), start.clone(), strategy, limits.clone());
    let mut slow = admission(Hand::plain(), start, strategy, limits);
    for (n, act) in (1..).zip(acts) {
        match act {
            Act::Request(event) => {
                let (a, b) = (fast.request(request(n, event.clone())), slow.request(request(n, event.clone())));
                assert_eq!(a, b, "{event:?} in {act:?}");
            }
            Act::Decide(which, commit) => {
                let open: Vec<_> = slow.in_progress().filter(|entry| !entry.committed).collect();
                let Some(entry) = open.get(which % open.len().max(1)) else { continue };
                let decision = if *commit { Decision::Commit } else { Decision::Abort };
                assert_eq!(fast.decide(entry.branch.tx, decision), slow.decide(entry.branch.tx, decision));
            }
        }
        assert_eq!(fast.base(), slow.base());
        assert_eq!(fast.certain(), slow.certain());
        assert_eq!(fast.range(), slow.range());
        assert_eq!(fast.outcomes(), slow.outcomes());
    }
}

#[test]
fn a_refusal_counts_what_is_committed_and_not_applied() {
    // Two times one percent of one euro; the second is committed behind the first.
    let acts = [
        Act::Request(Hand::interest(1)),
        Act::Request(Hand::interest(1)),
        Act::Decide(1, true),
        Act::Request(Hand::close()),
    ];
    same_with_and_without_shortcuts(Strategy::Psac, 1, &acts);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn b_interval_additive_events_get_the_verdicts_of_the_outcomes(balance in 0i64..150, acts in acts(additive())) {
        for strategy in BOTH {
            same_with_and_without_shortcuts(strategy, balance, &acts);
        }
    }

    #[test]
    fn b_interval_and_static_table_never_differ_from_the_outcomes(balance in 0i64..150, acts in acts(any_event())) {
        for strategy in BOTH {
            same_with_and_without_shortcuts(strategy, balance, &acts);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn b_outcomes_max_of_one_is_a_lock_where_nothing_is_told_in_advance(balance in 0i64..150, acts in acts(additive())) {
        for strategy in BOTH {
            one_outcome_is_a_lock(strategy, balance, &acts);
        }
    }
}
