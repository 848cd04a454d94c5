//! The figures of Path-Sensitive Atomic Commit, step by step. Amounts are euros; `balances` are the possible outcomes.

use enact_entities::{
    Admission, Attempt, Branch, Decision, Limits, Millis, Request, Slot, Strategy, Timestamp, Verdict, Work,
};

use crate::support::bank::{Bank, Hand, InRebel, Listing2};
use crate::support::{key, tx};

enum Do {
    Withdraw(i64),
    Deposit(i64),
    /// The decision to commit has its place in the journal.
    Precommit,
    Commit,
    Abort,
}

use Do::{Abort, Commit, Deposit, Precommit, Withdraw};

#[derive(Debug, PartialEq)]
enum Said {
    Admitted,
    Delayed,
    Rejected,
}

use Said::{Admitted, Delayed, Rejected};

/// One arrow of a figure: which action does what; what it is told; what that settles; the outcomes; the applied balance.
type Row<'a> = (u128, Do, Option<Said>, &'a [(u128, Said)], &'a [i64], i64);

fn said<E>(verdict: &Verdict<E>) -> Said {
    match verdict {
        Verdict::Admitted(..) => Admitted,
        Verdict::Delayed => Delayed,
        Verdict::Rejected(_) => Rejected,
        Verdict::Unanswered(_) | Verdict::OutOfOrder | Verdict::Busy => panic!("no figure has this"),
    }
}

fn check(strategy: Strategy, rows: &[Row<'_>]) {
    check_bank::<Hand>(strategy, rows);
    check_bank::<InRebel>(strategy, rows);
    check_bank::<Listing2>(strategy, rows);
}

fn check_bank<B: Bank>(strategy: Strategy, rows: &[Row<'_>]) {
    let model = B::load();
    let base = B::account(&model, "opened", 100);
    let mut account = Admission::new(model.clone(), key(B::ACCOUNT), base, Slot::FIRST, strategy, Limits::default());
    for (step, (action, act, told, settles, outcomes, applied)) in rows.iter().enumerate() {
        let step = step + 1;
        let action = tx(*action);
        let decision = match act {
            Withdraw(_) | Deposit(_) | Precommit => None,
            Commit => Some(Decision::Commit),
            Abort => Some(Decision::Abort),
        };
        let settled = match (decision, act) {
            (Some(decision), _) => {
                assert_eq!(*told, None, "step {step}: a decision is told nothing");
                account.decide(action, decision).settled
            }
            (None, Withdraw(amount) | Deposit(amount)) => {
                let event = if matches!(act, Withdraw(_)) { B::withdraw(*amount) } else { B::deposit(*amount) };
                let request = Request {
                    branch: Branch { tx: action, attempt: Attempt::FIRST, work: Work::event(event), at: Timestamp(0) },
                    deadline: Millis::NEVER,
                    ordered: true,
                    sole: false,
                    certain: false,
                    calls_known: false,
                };
                assert_eq!(Some(said(&account.request(request))).as_ref(), told.as_ref(), "step {step}");
                Vec::new()
            }
            (None, Precommit) => {
                let slot = account.find(action).expect("it is open").slot;
                account.precommit(action, slot).settled
            }
            (None, Commit | Abort) => unreachable!("they are decisions"),
        };
        let settled: Vec<_> = settled.iter().map(|(tx, verdict)| (tx.as_u128(), said(verdict))).collect();
        assert_eq!(settled, *settles, "step {step}: settled");
        let mut found: Vec<i128> =
            account.outcomes().expect("they are few").iter().map(|state| B::balance(&model, state) / 100).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(found, outcomes.iter().map(|&n| n.into()).collect::<Vec<i128>>(), "step {step}: outcomes");
        assert_eq!(B::balance(&model, account.base()) / 100, i128::from(*applied), "step {step}: applied");
    }
}

// Figure 1 with early lock release: the second one starts when the first is on its way to the journal.
#[test]
fn figure_1_with_early_release_admits_the_second_withdrawal_when_the_first_has_its_place_in_the_journal() {
    check(
        Strategy::LockingEarlyRelease,
        &[
            (1, Withdraw(30), Some(Admitted), &[], &[100, 70], 100),
            (2, Withdraw(50), Some(Delayed), &[], &[100, 70], 100),
            (1, Precommit, None, &[(2, Admitted)], &[100, 70, 20], 100),
            (1, Commit, None, &[], &[70, 20], 70),
            (2, Precommit, None, &[], &[70, 20], 70),
            (2, Commit, None, &[], &[20], 20),
        ],
    );
}

// Figure 3 with early lock release: what depends on the outcome of the second withdrawal waits for that.
#[test]
fn figure_3_with_early_release_rejects_the_third_withdrawal_when_the_second_is_durable() {
    check(
        Strategy::LockingEarlyRelease,
        &[
            (1, Withdraw(30), Some(Admitted), &[], &[100, 70], 100),
            (1, Precommit, None, &[], &[100, 70], 100),
            (2, Withdraw(50), Some(Admitted), &[], &[100, 70, 20], 100),
            (2, Precommit, None, &[], &[100, 70, 20], 100),
            (3, Withdraw(60), Some(Delayed), &[], &[100, 70, 20], 100),
            (2, Commit, None, &[(3, Rejected)], &[20], 100),
            (1, Commit, None, &[], &[20], 20),
        ],
    );
}

// The second one builds on the first, and aborts with it: the third waits until it has.
#[test]
fn early_release_dooms_what_builds_on_an_aborted_one() {
    check(
        Strategy::LockingEarlyRelease,
        &[
            (1, Deposit(30), Some(Admitted), &[], &[130, 100], 100),
            (1, Precommit, None, &[], &[130, 100], 100),
            (2, Withdraw(120), Some(Admitted), &[], &[130, 100, 10], 100),
            (2, Precommit, None, &[], &[130, 100, 10], 100),
            (1, Abort, None, &[], &[100], 100),
            (3, Withdraw(100), Some(Delayed), &[], &[100], 100),
            (2, Abort, None, &[(3, Admitted)], &[100, 0], 100),
            (3, Commit, None, &[], &[0], 0),
        ],
    );
}

// Case A1.
#[test]
fn figure_1_locking_delays_the_second_withdrawal_until_the_first_is_decided() {
    check(
        Strategy::Locking,
        &[
            (1, Withdraw(30), Some(Admitted), &[], &[100, 70], 100),
            (2, Withdraw(50), Some(Delayed), &[], &[100, 70], 100),
            (1, Commit, None, &[(2, Admitted)], &[70, 20], 70),
            (2, Commit, None, &[], &[20], 20),
        ],
    );
}

// Case A2.
#[test]
fn figure_2_both_withdrawals_start_and_the_later_commit_is_applied_in_order() {
    for strategy in [Strategy::Psac, Strategy::Serializable] {
        check(
            strategy,
            &[
                (1, Withdraw(30), Some(Admitted), &[], &[100, 70], 100),
                (2, Withdraw(50), Some(Admitted), &[], &[100, 70, 50, 20], 100),
                (2, Commit, None, &[], &[50, 20], 100),
                (1, Commit, None, &[], &[20], 20),
            ],
        );
    }
}

// Case A3.
#[test]
fn figure_3_the_third_withdrawal_is_rejected_while_the_first_is_still_open() {
    for strategy in [Strategy::Psac, Strategy::Serializable] {
        check(
            strategy,
            &[
                (1, Withdraw(30), Some(Admitted), &[], &[100, 70], 100),
                (2, Withdraw(50), Some(Admitted), &[], &[100, 70, 50, 20], 100),
                (3, Withdraw(60), Some(Delayed), &[], &[100, 70, 50, 20], 100),
                (2, Commit, None, &[(3, Rejected)], &[50, 20], 100),
                (1, Commit, None, &[], &[20], 20),
            ],
        );
    }
}

// Case A8.
#[test]
fn figure_10_locking_starts_the_second_withdrawal_when_the_first_aborts() {
    check(
        Strategy::Locking,
        &[
            (1, Withdraw(30), Some(Admitted), &[], &[100, 70], 100),
            (2, Withdraw(50), Some(Delayed), &[], &[100, 70], 100),
            (1, Abort, None, &[(2, Admitted)], &[100, 50], 100),
            (2, Commit, None, &[], &[50], 50),
        ],
    );
}

// Case A9.
#[test]
fn figure_11_an_abort_of_the_head_applies_the_deferred_commit_behind_it() {
    check(
        Strategy::Psac,
        &[
            (1, Withdraw(30), Some(Admitted), &[], &[100, 70], 100),
            (2, Withdraw(50), Some(Admitted), &[], &[100, 70, 50, 20], 100),
            (2, Commit, None, &[], &[50, 20], 100),
            (1, Abort, None, &[], &[50], 50),
        ],
    );
}

// Case A10.
#[test]
fn draining_the_heads_stops_before_the_next_open_one() {
    check(
        Strategy::Psac,
        &[
            (1, Withdraw(30), Some(Admitted), &[], &[100, 70], 100),
            (2, Withdraw(50), Some(Admitted), &[], &[100, 70, 50, 20], 100),
            (4, Deposit(5), Some(Admitted), &[], &[105, 100, 75, 70, 55, 50, 25, 20], 100),
            (2, Commit, None, &[], &[55, 50, 25, 20], 100),
            (1, Abort, None, &[], &[55, 50], 50),
            (4, Commit, None, &[], &[55], 55),
        ],
    );
}
