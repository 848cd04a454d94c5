//! Nobody waits for ever: fairness, overload, and locking as the plain two-phase locking it must be.

use std::collections::{BTreeMap, VecDeque};

use enact_entities::{
    Admission, Attempt, Branch, Decision, Durability, Limits, Millis, Reply, Request, Slot, Strategy, Timestamp,
    Verdict, Why, Work,
};

use crate::support::bank::{Bank, Event, Hand};
use crate::support::chance::{Chance, for_seeds};
use crate::support::world::{Packet, World};
use crate::support::{key, tx};

fn request(n: u128, event: Event) -> Request<Event> {
    Request {
        branch: Branch { tx: tx(n), attempt: Attempt::FIRST, work: Work::event(event), at: Timestamp(0) },
        deadline: Millis(n as u64 * 10),
        ordered: true,
        sole: false,
        certain: false,
        calls_known: false,
    }
}

fn account(hints: bool, strategy: Strategy, limits: Limits) -> Admission<Hand> {
    let model = std::sync::Arc::new(Hand { hints });
    let base = Hand::account(&model, "opened", 100);
    Admission::new(model, key("Account/A"), base, Slot::FIRST, strategy, limits)
}

/// Deposits of 100 that overlap for ever and all abort; returns after how many the withdrawal of 150 has its verdict.
fn overtakes_until_verdict(hints: bool, overtakes_max: usize, rounds: u128, decision: Decision) -> Option<u128> {
    let mut account = account(hints, Strategy::Psac, Limits { overtakes_max, ..Limits::default() });
    account.request(request(1000, Hand::deposit(100)));
    assert_eq!(account.request(request(1, Hand::withdraw(150))), Verdict::Delayed);
    let mut open = VecDeque::from([tx(1000)]);
    for n in 1..=rounds {
        if let Verdict::Admitted(..) = account.request(request(1000 + n, Hand::deposit(100))) {
            open.push_back(tx(1000 + n));
        }
        let oldest = open.pop_front()?;
        let settled = account.decide(oldest, decision).settled;
        for (settled, verdict) in settled {
            match (settled == tx(1), verdict) {
                (true, Verdict::Rejected(_)) if decision == Decision::Abort => return Some(n),
                (true, Verdict::Admitted(..)) if decision == Decision::Commit => return Some(n),
                (false, Verdict::Admitted(..)) => open.push_back(settled),
                other => panic!("{other:?}"),
            }
        }
    }
    None
}

#[test]
fn g_a_waiting_withdrawal_is_overtaken_at_most_f_times_by_what_could_change_its_verdict() {
    for hints in [true, false] {
        assert_eq!(overtakes_until_verdict(hints, usize::MAX, 500, Decision::Abort), None, "without the rule: never");
        assert_eq!(overtakes_until_verdict(hints, 16, 500, Decision::Abort), Some(17));
        assert_eq!(overtakes_until_verdict(hints, 0, 500, Decision::Abort), Some(1));
        assert_eq!(overtakes_until_verdict(hints, 16, 500, Decision::Commit), Some(1));
    }
}

#[test]
fn g_a_newcomer_that_waits_behind_another_says_so_and_one_that_does_not_concern_it_passes() {
    let mut account = account(true, Strategy::Psac, Limits { overtakes_max: 0, ..Limits::default() });
    account.request(request(1, Hand::deposit(100)));
    assert_eq!(account.request(request(2, Hand::withdraw(150))), Verdict::Delayed);
    assert_eq!(account.request(request(3, Hand::deposit(100))), Verdict::Delayed);
    let waits = account.waits_for(tx(3)).expect("it is delayed");
    assert_eq!((waits[0].tx, waits[0].event.as_str()), (tx(2), "Withdraw"));
    assert_eq!(waits[0].why, Why::Turn { overtaken: 0 });
    // From the outcomes it can be seen that 20 more change nothing for 150: neither 120 nor 220 lies across.
    let mut account = self::account(false, Strategy::Psac, Limits { overtakes_max: 0, ..Limits::default() });
    account.request(request(1, Hand::deposit(100)));
    account.request(request(2, Hand::withdraw(150)));
    assert!(matches!(account.request(request(3, Hand::deposit(20))), Verdict::Admitted(..)));
    assert_eq!(account.request(request(4, Hand::deposit(40))), Verdict::Delayed, "with both, 160 lies across");
}

#[test]
fn g_an_expired_one_lets_those_behind_it_pass() {
    let mut account = account(true, Strategy::Psac, Limits { overtakes_max: 0, ..Limits::default() });
    account.request(request(1, Hand::deposit(100)));
    account.request(request(2, Hand::withdraw(150)));
    account.request(request(3, Hand::deposit(100)));
    assert_eq!(account.next_deadline(), Some(Millis(20)));
    assert!(account.expire(Millis(19)).expired.is_empty());
    let after = account.expire(Millis(20));
    assert_eq!(after.expired[0].0, tx(2));
    assert!(matches!(after.settled[..], [(settled, Verdict::Admitted(..))] if settled == tx(3)));
}

#[test]
fn g_serializable_interest_is_not_starved_by_deposits_that_never_stop() {
    for hints in [true, false] {
        let mut account = account(hints, Strategy::Serializable, Limits::default());
        account.request(request(1000, Hand::deposit(1)));
        assert_eq!(account.request(request(1, Hand::interest(10))), Verdict::Delayed);
        let mut open = VecDeque::from([tx(1000)]);
        let mut rounds = 0;
        while account.find(tx(1)).is_none_or(|interest| interest.committed) {
            rounds += 1;
            assert!(rounds < 20, "it does not commute with what is let past it");
            if let Verdict::Admitted(..) = account.request(request(1000 + rounds, Hand::deposit(1))) {
                open.push_back(tx(1000 + rounds));
            }
            let oldest = open.pop_front().expect("something is open");
            account.decide(oldest, Decision::Commit);
        }
        assert_eq!(rounds, 17);
    }
}

#[test]
fn g_the_list_of_the_delayed_has_a_limit_and_takes_more_when_it_has_emptied() {
    let mut account = account(true, Strategy::Locking, Limits { delayed_max: 100, ..Limits::default() });
    account.request(request(1, Hand::deposit(1)));
    for n in 2..=101 {
        assert_eq!(account.request(request(n, Hand::deposit(1))), Verdict::Delayed);
    }
    assert_eq!(account.request(request(102, Hand::deposit(1))), Verdict::Busy);
    account.decide(tx(1), Decision::Commit);
    assert_eq!(account.request(request(102, Hand::deposit(1))), Verdict::Delayed);
}

#[test]
fn g_a_busy_entity_turns_a_transaction_away_and_a_later_one_succeeds() {
    let mut world = World::new(Strategy::Locking, Durability::TwoPhase);
    world.participant_options.limits.delayed_max = 100;
    world.account("Account/A", 100);
    let all: Vec<_> = (0..102).map(|_| world.event("Account/A", Hand::deposit(1))).collect();
    world.run_except(Packet::is_decision);
    assert_eq!(world.reply(all[101]), Some(&Reply::Busy { entity: key("Account/A") }));
    world.run();
    assert!(all[..101].iter().all(|&tx| world.committed(tx)));
    world.done("Account/A", Hand::deposit(1));
    assert_eq!(world.balance("Account/A"), 202);
    world.check_settled();
}

#[test]
fn g_opposed_transfers_never_wait_for_each_other() {
    for strategy in Strategy::ALL {
        let mut world = World::new(strategy, Durability::TwoPhase);
        world.account("Account/A", 100);
        world.account("Account/B", 100);
        let (a, b) = (key("Account/A"), key("Account/B"));
        for round in 0..100 {
            let there = world.event(&format!("Transfer/T{round}"), Hand::book(&a, &b, 100));
            let back = world.event(&format!("Transfer/U{round}"), Hand::book(&b, &a, 100));
            let began = world.now;
            world.run();
            assert_eq!(world.now, began, "nobody waited for a deadline");
            assert!(world.reply(there).is_some() && world.reply(back).is_some());
            assert_eq!(world.balance("Account/A") + world.balance("Account/B"), 200);
        }
        world.check_settled();
    }
}

/// Plain two-phase locking of one entity: one holder, the others in a queue.
#[derive(Default)]
struct Lock {
    holder: Option<(u128, i128)>,
    queue: VecDeque<(u128, i128)>,
    balance: i128,
}

impl Lock {
    /// Gives the lock to the first in the queue whose guard holds; says who was admitted and who was refused.
    fn grant(&mut self) -> Vec<(u128, bool)> {
        let mut told = Vec::new();
        while self.holder.is_none()
            && let Some((n, delta)) = self.queue.pop_front()
        {
            let holds = delta != 0 && self.balance + delta >= 0;
            told.push((n, holds));
            self.holder = holds.then_some((n, delta));
        }
        told
    }

    fn request(&mut self, n: u128, delta: i128) -> Vec<(u128, bool)> {
        self.queue.push_back((n, delta));
        self.grant()
    }

    fn decide(&mut self, commit: bool) -> Vec<(u128, bool)> {
        let (_, delta) = self.holder.take().expect("somebody holds it");
        self.balance += if commit { delta } else { 0 };
        self.grant()
    }
}

#[test]
fn g_locking_is_plain_two_phase_locking_on_1000_random_schedules() {
    for_seeds("g_locking", 1_000, |seed| {
        let mut chance = Chance::new(seed);
        let mut account = account(seed % 2 == 0, Strategy::Locking, Limits::default());
        let mut lock = Lock { balance: 10_000, ..Lock::default() };
        let mut events = BTreeMap::new();
        for n in 1..=30 {
            let (expected, found) = if chance.percent(60) || lock.holder.is_none() {
                let euros = chance.below(120) as i64;
                let deposit = chance.percent(40);
                let event = if deposit { Hand::deposit(euros) } else { Hand::withdraw(euros) };
                events.insert(n, event.clone());
                let delta = i128::from(if deposit { euros } else { -euros }) * 100;
                let mut found = vec![(tx(n), account.request(request(n, event)))];
                found.retain(|(_, verdict)| *verdict != Verdict::Delayed);
                (lock.request(n, delta), found)
            } else {
                let (holder, _) = lock.holder.expect("it was checked");
                let commit = chance.percent(70);
                let decision = if commit { Decision::Commit } else { Decision::Abort };
                (lock.decide(commit), account.decide(tx(holder), decision).settled)
            };
            let found: Vec<_> = found
                .into_iter()
                .map(|(tx, verdict)| match verdict {
                    Verdict::Admitted(..) => (tx.as_u128(), true),
                    Verdict::Rejected(_) => (tx.as_u128(), false),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(found, expected, "step {n}");
            assert_eq!(Hand::balance(&Hand::load(), account.base()), lock.balance, "step {n}");
        }
    });
}
