//! Random histories: those that are fine pass, and those that were tampered with get the verdict of the definition.

use std::collections::BTreeMap;

use enact_check::oracle::{ATTEMPTS_MAX, is_explained};
use enact_check::{Anomaly, CheckError, Criterion, Cycle, Dependency, Malformed, Violation};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::programs::{Op, Plan, Size, perform, record};
use crate::seeds::for_seeds;

const CRITERIA: [Criterion; 3] = [Criterion::Serializable, Criterion::StrictlySerializable, Criterion::Opaque];

#[test]
fn what_was_performed_serially_raises_no_alarm() {
    for_seeds("no_alarm", 10_000, |random| {
        let size = Size {
            attempts: random.random_range(0..30),
            variables: random.random_range(1..8),
            ops_max: random.random_range(1..8),
        };
        let plans = perform(random, size);
        let history = record(&plans);
        for criterion in CRITERIA {
            let coverage =
                history.check(criterion).unwrap_or_else(|error| panic!("{criterion:?}: {error}\n{plans:#?}"));
            assert_eq!(coverage.committed_count + coverage.aborted_count, plans.len());
        }
    });
}

#[test]
fn what_was_tampered_with_gets_the_verdict_of_the_definition() {
    let mut verdicts: BTreeMap<Option<Anomaly>, usize> = BTreeMap::new();
    let mut malformed_count = 0;
    for_seeds("tampered", 10_000, |random| {
        let size = Size {
            attempts: random.random_range(2..=ATTEMPTS_MAX),
            variables: random.random_range(1..5),
            ops_max: random.random_range(2..7),
        };
        let mut plans = perform(random, size);
        for _ in 0..random.random_range(1..5) {
            tamper(random, &mut plans);
        }
        let history = record(&plans);
        for criterion in CRITERIA {
            let found = history.check(criterion);
            let is_fine = is_explained(&history, criterion);
            assert_eq!(found.is_ok(), is_fine, "{criterion:?}: {found:?}\n{plans:#?}");
            match found {
                Ok(_) => *verdicts.entry(None).or_default() += 1,
                Err(CheckError::Malformed(Malformed::ReplacedTwice { .. } | Malformed::ReplacedNothing { .. })) => {
                    malformed_count += 1;
                }
                Err(CheckError::Malformed(other)) => panic!("{other}\n{plans:#?}"),
                Err(CheckError::Violation(violation)) => {
                    *verdicts.entry(Some(violation.anomaly())).or_default() += 1;
                    if let Violation::Cycle(cycle) = violation {
                        check_cycle(&cycle, &plans);
                    }
                }
            }
        }
    });
    println!("{verdicts:?}, {malformed_count} malformed");
    let is_one_seed = std::env::var_os("ENACT_SEED").is_some();
    assert!(is_one_seed || verdicts.len() == 11 && malformed_count > 0, "every verdict is reached: {verdicts:?}");
}

/// Changes one thing that a wrong implementation might.
fn tamper(random: &mut ChaCha8Rng, plans: &mut [Plan]) {
    let writes: Vec<(u64, u64)> = plans.iter().flat_map(|plan| &plan.ops).filter_map(written).collect();
    let (at, other) = (random.random_range(0..plans.len()), random.random_range(0..plans.len()));
    match random.random_range(0..8) {
        // Reads another version.
        0..3 => {
            let Some(&Op::Read(variable, old)) = plans[at].ops.iter().find(|op| matches!(op, Op::Read(..))) else {
                return;
            };
            let versions: Vec<u64> = writes.iter().filter(|write| write.0 == variable).map(|write| write.1).collect();
            let new = versions.choose(random).copied().unwrap_or(random.random_range(0..2));
            let only_once = random.random_bool(0.2);
            let reads =
                plans[at].ops.iter_mut().filter(|op| matches!(**op, Op::Read(v, t) if (v, t) == (variable, old)));
            reads.take(if only_once { 1 } else { usize::MAX }).for_each(|op| *op = Op::Read(variable, new));
        }
        3 => plans[at].is_committed ^= true,
        // Seems to have run at another time.
        4 => (plans[at].begin, plans[at].end) = (plans[other].begin, plans[other].end),
        // Two exchange what they have done, but not their fates.
        5 => {
            let ops = std::mem::take(&mut plans[at].ops);
            let ops = std::mem::replace(&mut plans[other].ops, ops);
            if at != other {
                plans[at].ops = ops;
            } else {
                plans[at].ops.reverse();
            }
        }
        // Two writes of one variable exchange their places in its order.
        6 => {
            let mut writes: Vec<_> = plans.iter_mut().flat_map(|plan| &mut plan.ops).collect();
            writes.retain(|op| matches!(op, Op::Write(..)));
            let Some(Op::Write(variable, _)) = writes.choose(random).map(|op| **op) else { return };
            writes.retain(|op| matches!(**op, Op::Write(of, _) if of == variable));
            let (one, other) = (random.random_range(0..writes.len()), random.random_range(0..writes.len()));
            let (first, second) = (*writes[one], *writes[other]);
            (*writes[one], *writes[other]) = (second, first);
        }
        _ => {
            let ops = &mut plans[at].ops;
            if ops.len() > 1 {
                let last = ops.len() - 1;
                ops.swap(random.random_range(0..last), last);
            }
        }
    }
}

fn written(op: &Op) -> Option<(u64, u64)> {
    match *op {
        Op::Read(..) => None,
        Op::Write(variable, token) | Op::Replace(variable, _, token) => Some((variable, token)),
    }
}

/// Each step of a cycle must be true of what was recorded, and its name must be that of its steps.
fn check_cycle(cycle: &Cycle, plans: &[Plan]) {
    let plan = |id: enact_check::AttemptId| {
        let mut of_thread = plans.iter().filter(|plan| plan.thread == id.thread);
        of_thread.nth(id.number as usize).expect("it was recorded")
    };
    let next = cycle.steps.iter().cycle().skip(1);
    let (mut antis, mut reads, mut moments) = (0, 0, 0);
    for (step, next) in cycle.steps.iter().zip(next) {
        assert_eq!(step.to, next.from);
        let (from, to) = (plan(step.from), plan(step.to));
        assert_eq!(step.is_committed, from.is_committed);
        let has = |plan: &Plan, write: (u64, u64)| plan.ops.iter().any(|op| written(op) == Some(write));
        let has_read =
            |plan: &Plan, read: (u64, u64)| plan.ops.iter().any(|op| matches!(*op, Op::Read(v, t) if (v, t) == read));
        let is_true = match step.dependency {
            Dependency::Write { variable, before, after } => {
                has(from, (variable.0, before.0)) && has(to, (variable.0, after.0))
            }
            Dependency::Read { variable, token } => {
                reads += 1;
                has(from, (variable.0, token.0)) && has_read(to, (variable.0, token.0))
            }
            Dependency::Anti { variable, before, after } => {
                antis += 1;
                has_read(from, (variable.0, before.0)) && has(to, (variable.0, after.0))
            }
            Dependency::RealTime => {
                moments += 1;
                from.end < to.begin
            }
        };
        assert!(is_true, "{step}\n{plans:#?}");
    }
    let is_named = match cycle.anomaly {
        Anomaly::G0 => (antis, reads, moments) == (0, 0, 0),
        Anomaly::G1c => (antis, moments) == (0, 0) && reads > 0,
        Anomaly::GSingle => (antis, moments) == (1, 0),
        Anomaly::G2Item => antis >= 2 && moments == 0,
        Anomaly::LostUpdate => cycle.steps.len() == 2 && antis > 0 && moments == 0,
        Anomaly::RealTime => moments > 0,
        Anomaly::Internal | Anomaly::Unwritten | Anomaly::G1a | Anomaly::G1b => false,
    };
    assert!(is_named, "{cycle}");
    let mut passed: Vec<_> = cycle.steps.iter().map(|step| step.from).collect();
    passed.sort_unstable();
    passed.dedup();
    assert_eq!(passed.len(), cycle.steps.len(), "no attempt twice: {cycle}");
}
