//! Random histories of the protocol, cut by the rules and by brute force.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Work;
use crate::admission::{Answer, Branch};
use crate::audit::{Decided, Held, Holding, disagreements};
use crate::participant::Durability;
use crate::record::{AnswerRecord, DecisionRecord, Done, Prepared};
use crate::tx::{Attempt, Timestamp};

const SHARDS: usize = 3;
const TRANSACTIONS: usize = 4;

/// A step of one transaction, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Promise {
        tx: usize,
        shard: usize,
    },
    Decide {
        tx: usize,
    },
    Commit {
        tx: usize,
        shard: usize,
    },
    /// A promise to an earlier attempt, of which the request came late; it is aborted.
    Late {
        tx: usize,
        shard: usize,
    },
    End {
        tx: usize,
    },
    /// A record of a transaction of one shard.
    Other,
}

/// What becomes durable together in one journal.
#[derive(Clone, Debug)]
struct Written {
    first: u64,
    last: u64,
    steps: Vec<Step>,
}

/// What all journals have, and where they ended at three times.
#[derive(Debug, Default)]
struct History {
    /// The shard of the coordinator of each transaction, and one that has no part in it, if there is one.
    coordinators: Vec<(usize, Option<usize>)>,
    journals: [Vec<Written>; SHARDS],
    looks: Vec<Vec<u64>>,
}

impl History {
    /// Plays `choices`: each lets a journal write a group of what may happen there, or has its end taken as the next one.
    fn play(coordinators: Vec<(usize, Option<usize>)>, choices: &[(u8, u8, bool)]) -> Self {
        let mut history = Self { coordinators, ..Self::default() };
        let mut looks = Vec::new();
        for &(of, len, is_look) in choices {
            if is_look && looks.len() < 3 * SHARDS {
                looks.push(history.end(looks.len() % SHARDS));
            } else {
                history.write(usize::from(of) % SHARDS, usize::from(of) / SHARDS, usize::from(len));
            }
        }
        for look in looks.len()..3 * SHARDS {
            looks.push(history.end(look % SHARDS));
        }
        history.looks = looks.chunks(SHARDS).map(<[u64]>::to_vec).collect();
        history
    }

    fn end(&self, shard: usize) -> u64 {
        self.journals[shard].last().map_or(0, |written| written.last)
    }

    fn has(&self, shard: usize, step: Step) -> bool {
        self.journals[shard].iter().any(|written| written.steps.contains(&step))
    }

    /// The shards of the participants with promises.
    fn participants(&self, tx: usize) -> impl Iterator<Item = usize> {
        let (coordinator, without) = self.coordinators[tx];
        (0..SHARDS).filter(move |shard| *shard != coordinator && Some(*shard) != without)
    }

    /// All that may be written there, as all before it is durable.
    fn next(&self, shard: usize) -> Vec<Step> {
        let mut next = vec![Step::Other];
        for tx in 0..TRANSACTIONS {
            let (coordinator, _) = self.coordinators[tx];
            let steps = if shard == coordinator {
                let all = |step: fn(usize, usize) -> Step| self.participants(tx).all(|of| self.has(of, step(tx, of)));
                vec![
                    (Step::Decide { tx }, all(|tx, shard| Step::Promise { tx, shard })),
                    (Step::End { tx }, all(|tx, shard| Step::Commit { tx, shard })),
                ]
            } else {
                let has_part = self.participants(tx).any(|participant| participant == shard);
                vec![
                    (Step::Promise { tx, shard }, has_part),
                    (Step::Commit { tx, shard }, has_part && self.has(coordinator, Step::Decide { tx })),
                    (Step::Late { tx, shard }, has_part),
                ]
            };
            next.extend(steps.into_iter().filter(|(step, may)| *may && !self.has(shard, *step)).map(|(step, _)| step));
        }
        next
    }

    fn write(&mut self, shard: usize, which: usize, len: usize) {
        let next = self.next(shard);
        let steps: Vec<Step> =
            next.iter().cycle().skip(which % next.len()).take(len.min(next.len())).copied().collect();
        let first = self.end(shard) + 1;
        let last = first + steps.len() as u64 - 1;
        self.journals[shard].push(Written { first, last, steps });
    }

    fn record(&self, step: Step) -> Option<(EntityKey, Record<u8>)> {
        let id = |tx: usize| TxId::from_u128(tx as u128 + 1);
        Some(match step {
            Step::Promise { tx, shard } | Step::Late { tx, shard } => {
                let slot = if matches!(step, Step::Late { .. }) { late(tx) } else { slot(tx) };
                let promise = Record::Prepared(Box::new(Prepared {
                    branch: Branch {
                        tx: id(tx),
                        attempt: Attempt::FIRST,
                        work: Work::of_events(Vec::new()),
                        at: Timestamp(0),
                    },
                    slot,
                    coordinator: entity(".coordinator", self.coordinators[tx].0),
                    answer: Answer { calls: Vec::new(), answers: Vec::new(), state: None, in_line: false },
                    version: 1,
                    durability: Durability::TwoPhase,
                    overlap: None,
                }));
                (entity("E", shard), promise)
            }
            Step::Decide { tx } => {
                let answer =
                    AnswerRecord { tx: id(tx), at: Timestamp(0), idempotency: None, result: Ok(Done::default()) };
                let participants = self.participants(tx).map(|shard| (entity("E", shard), slot(tx))).collect();
                let decision = DecisionRecord { tx: id(tx), attempt: Attempt::FIRST, participants, answer };
                (entity(".decisions", self.coordinators[tx].0), Record::Decision(Box::new(decision)))
            }
            Step::Commit { tx, shard } => {
                (entity("E", shard), Record::Outcome { tx: id(tx), slot: slot(tx), decision: Decision::Commit })
            }
            Step::End { tx } => (entity(".decisions", self.coordinators[tx].0), Record::End { tx: id(tx) }),
            Step::Other => return None,
        })
    }

    /// Where the rules cut it, which see nothing but what is between the first looks and the last ones.
    fn cut(&self) -> Vec<u64> {
        let [settled, ends, seen] = &self.looks[..] else { panic!("three times") };
        let mut cuts = Cuts::new(ends.iter().map(|end| Position(*end)).collect());
        for (shard, journal) in self.journals.iter().enumerate() {
            for written in journal.iter().filter(|of| settled[shard] < of.first && of.last <= seen[shard]) {
                for (entity, record) in written.steps.iter().filter_map(|step| self.record(*step)) {
                    cuts.add(shard as u16, Position(written.first), &entity, &record);
                }
            }
        }
        cuts.cut().into_iter().map(|Position(cut)| cut).collect()
    }

    /// Whether an audit finds nothing wrong between the parts before the cut.
    fn is_sound(&self, cut: &[u64]) -> bool {
        let is_in = |shard: usize, step: Step| {
            self.journals[shard].iter().any(|of| of.last <= cut[shard] && of.steps.contains(&step))
        };
        (0..TRANSACTIONS).all(|tx| {
            let (coordinator, _) = self.coordinators[tx];
            let named = self.participants(tx).map(|shard| (entity("E", shard), slot(tx))).collect();
            let decisions: Vec<_> = is_in(coordinator, Step::Decide { tx })
                .then_some(Decided { position: (), participants: named })
                .into_iter()
                .collect();
            let held = |shard, slot, holding| Held { position: (), entity: entity("E", shard), slot, holding };
            let held: Vec<_> = self
                .participants(tx)
                .flat_map(|shard| {
                    [
                        (Step::Promise { tx, shard }, slot(tx), Holding::Promised),
                        (Step::Late { tx, shard }, late(tx), Holding::Promised),
                        (Step::Commit { tx, shard }, slot(tx), Holding::Committed),
                    ]
                    .map(|(step, slot, holding)| is_in(shard, step).then(|| held(shard, slot, holding)))
                })
                .flatten()
                .collect();
            let acknowledged = is_in(coordinator, Step::End { tx }).then_some(());
            disagreements(&decisions, &held, acknowledged, |()| true).is_empty()
        })
    }

    /// The join of all sound cuts between the first looks and the second ones.
    fn largest(&self) -> Vec<u64> {
        let [settled, ends, _] = &self.looks[..] else { panic!("three times") };
        let places = |shard: usize| -> Vec<u64> {
            let ends_of_groups = self.journals[shard].iter().map(|written| written.last);
            std::iter::once(0).chain(ends_of_groups).filter(|at| (settled[shard]..=ends[shard]).contains(at)).collect()
        };
        let mut largest = vec![0; SHARDS];
        for a in places(0) {
            for b in places(1) {
                for c in places(2) {
                    if self.is_sound(&[a, b, c]) {
                        largest.iter_mut().zip([a, b, c]).for_each(|(most, at)| *most = at.max(*most));
                    }
                }
            }
        }
        largest
    }
}

fn entity(class: &str, number: usize) -> EntityKey {
    EntityKey::new(class, &number.to_string()).expect("a key")
}

fn slot(tx: usize) -> Slot {
    Slot(tx as u64 + 1)
}

/// The slot of a promise that nobody decides on.
fn late(tx: usize) -> Slot {
    Slot(slot(tx).0 + TRANSACTIONS as u64)
}

proptest! {
    #[test]
    fn a_cut_is_sound_keeps_all_that_was_settled_and_is_the_largest_such_cut(
        coordinators in vec((0..SHARDS, prop::option::of(0..SHARDS)), TRANSACTIONS),
        choices in vec((any::<u8>(), 1..4u8, prop::bool::weighted(0.15)), 0..90),
    ) {
        let history = History::play(coordinators, &choices);
        let cut = history.cut();
        prop_assert!(history.is_sound(&cut), "{cut:?} of {history:?}");
        let [settled, ends, _] = &history.looks[..] else { panic!("three times") };
        prop_assert!((0..SHARDS).all(|shard| (settled[shard]..=ends[shard]).contains(&cut[shard])), "{cut:?} of {history:?}");
        prop_assert_eq!(&cut, &history.largest(), "{:?}", history);
    }
}

/// Groups of one step each, and the cut of all of them. The first transaction has parts in all shards, the second one in the first two.
fn check(steps: &[(usize, Step)], ends: [u64; SHARDS], expected: [u64; SHARDS]) {
    let mut history =
        History { coordinators: vec![(0, None), (1, Some(2)), (0, None), (0, None)], ..History::default() };
    for &(shard, step) in steps {
        let first = history.end(shard) + 1;
        history.journals[shard].push(Written { first, last: first, steps: vec![step] });
    }
    let seen = (0..SHARDS).map(|shard| history.end(shard)).collect();
    history.looks = vec![vec![0; SHARDS], ends.to_vec(), seen];
    assert_eq!(history.cut(), expected, "{steps:?} up to {ends:?}");
}

#[test]
fn what_relies_on_something_behind_a_cut_is_cut_with_all_behind_it() {
    use Step::{Commit, Decide, End, Late, Other, Promise};

    let promises = [(1, Promise { tx: 0, shard: 1 }), (2, Promise { tx: 0, shard: 2 })];
    let decided = [promises.as_slice(), &[(0, Decide { tx: 0 }), (0, Other)]].concat();
    check(&decided, [2, 1, 1], [2, 1, 1]);
    check(&decided, [2, 1, 0], [0, 1, 0]);
    let commits = [(1, Commit { tx: 0, shard: 1 }), (2, Other), (2, Commit { tx: 0, shard: 2 }), (2, Other)];
    let committed = [decided.as_slice(), &commits].concat();
    check(&committed, [2, 2, 4], [2, 2, 4]);
    check(&committed, [0, 2, 4], [0, 1, 2]);
    // The decision goes with a promise, and the other commit with the decision.
    check(&committed, [2, 0, 4], [0, 0, 2]);
    let ended = [committed.as_slice(), &[(0, End { tx: 0 }), (0, Other)]].concat();
    check(&ended, [4, 2, 4], [4, 2, 4]);
    check(&ended, [4, 1, 4], [2, 1, 4]);
    // Nothing relies on a promise that came late.
    let late = [ended.as_slice(), &[(1, Late { tx: 0, shard: 1 })]].concat();
    check(&late, [4, 2, 4], [4, 2, 4]);
    // A promise to another coordinator stands behind the decision that is cut.
    let second = [(0, Promise { tx: 1, shard: 0 }), (1, Decide { tx: 1 }), (1, Other)];
    let both = [decided.as_slice(), &second].concat();
    check(&both, [3, 3, 1], [3, 3, 1]);
    check(&both, [3, 3, 0], [0, 1, 0]);
}
