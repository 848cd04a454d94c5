//! Random programs, performed one attempt after the other: histories that are fine by construction.

use std::collections::BTreeMap;

use enact_check::{History, Recorder, Token, Variable};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// An attempt as it will be recorded.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) thread: u32,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) is_committed: bool,
    pub(crate) ops: Vec<Op>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Read(u64, u64),
    /// A token greater than all before.
    Write(u64, u64),
    /// A new token, and the one whose place it takes.
    Replace(u64, u64, u64),
}

/// How large a program is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) attempts: usize,
    pub(crate) variables: u64,
    pub(crate) ops_max: usize,
}

/// Time between two attempts if they did not overlap.
const PACE: u64 = 100;

/// Performs random attempts in the order in which they are returned. Each has its effect at a moment of its own, and
/// seems to begin before that and to end after it, so that neighbours overlap.
pub(crate) fn perform(random: &mut ChaCha8Rng, size: Size) -> Vec<Plan> {
    let mut state: BTreeMap<u64, u64> = BTreeMap::new();
    let mut last_token = 0;
    let attempts = (1..).take(size.attempts).map(|number: u64| {
        let moment = 2 * PACE + number * PACE;
        let (begin, end) = (moment - random.random_range(0..2 * PACE), moment + random.random_range(0..2 * PACE));
        let is_committed = random.random_bool(0.75);
        let mut own = state.clone();
        let ops = (0..random.random_range(0..=size.ops_max)).map(|_| {
            let variable = random.random_range(0..size.variables);
            let current = own.get(&variable).copied().unwrap_or(0);
            if random.random_bool(0.6) {
                return Op::Read(variable, current);
            }
            last_token += random.random_range(1..4);
            // Every second variable tells what was replaced; its tokens are in no order.
            let increases = variable.is_multiple_of(2);
            let token = if increases { last_token } else { u64::MAX - last_token };
            own.insert(variable, token);
            if increases { Op::Write(variable, token) } else { Op::Replace(variable, current, token) }
        });
        let ops = ops.collect();
        if is_committed {
            state = own;
        }
        Plan { thread: random.random_range(0..4), begin, end, is_committed, ops }
    });
    attempts.collect()
}

/// The history of these attempts.
pub(crate) fn record(plans: &[Plan]) -> History {
    let mut recorders = [0, 1, 2, 3].map(Recorder::new);
    for plan in plans {
        let recorder = &mut recorders[plan.thread as usize];
        recorder.begin(plan.begin);
        for &op in &plan.ops {
            match op {
                Op::Read(variable, token) => recorder.read(Variable(variable), Token(token)),
                Op::Write(variable, token) => recorder.write(Variable(variable), Token(token)),
                Op::Replace(variable, replaced, token) => {
                    recorder.replace(Variable(variable), Token(replaced), Token(token));
                }
            }
        }
        if plan.is_committed { recorder.commit(plan.end) } else { recorder.abort(plan.end) }
    }
    History::merge(recorders)
}
