//! Long histories. The figures of `History::check` come from a million attempts:
//!
//!     ENACT_ATTEMPTS=1000000 cargo test --release -p enact-check --test check scale

use enact_check::{Anomaly, Criterion};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::programs::{Op, Plan, Size, perform, record};

fn attempts() -> Vec<Plan> {
    let attempts = std::env::var("ENACT_ATTEMPTS").map_or(20_000, |count| count.parse().expect("a number"));
    let mut random = ChaCha8Rng::seed_from_u64(1);
    perform(&mut random, Size { attempts, variables: 100, ops_max: 12 })
}

#[test]
fn a_long_history_is_checked_and_one_stale_read_at_its_end_is_found() {
    let mut plans = attempts();
    let coverage = record(&plans).check(Criterion::Opaque).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(coverage.committed_count + coverage.aborted_count, plans.len());
    assert!(coverage.dependency_count > 5 * plans.len(), "{coverage:?}");

    let (begin, end) = (plans[plans.len() - 1].end + 1, plans[plans.len() - 1].end + 2);
    plans.push(Plan { thread: 0, begin, end, is_committed: false, ops: vec![Op::Read(1, 0)] });
    let history = record(&plans);
    history.check(Criterion::StrictlySerializable).expect("nothing is asked of the last one");
    let error = history.check(Criterion::Opaque).expect_err("it reads what was replaced long ago");
    assert_eq!(error.anomaly(), Some(Anomaly::RealTime));
    assert_eq!(error.to_string().lines().count(), 3, "{error}");
}

#[test]
fn a_long_cycle_through_all_attempts_is_told_as_one_of_two() {
    let mut plans = attempts();
    let mut committed = plans.iter_mut().filter(|plan| plan.is_committed);
    let (first, last) = (committed.next().expect("many are"), committed.next_back().expect("many are"));
    // Each reads what the other writes; between them is everything else, in the order of time.
    let [x, y] = [1_000, 1_001];
    first.ops.extend([Op::Read(x, 1), Op::Write(y, 1)]);
    last.ops.extend([Op::Write(x, 1), Op::Read(y, 1)]);
    let error = record(&plans).check(Criterion::Opaque).expect_err("it is a cycle");
    assert_eq!(error.anomaly(), Some(Anomaly::G1c));
    assert_eq!(error.to_string().lines().count(), 3, "{error}");
}
