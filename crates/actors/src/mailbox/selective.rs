//! Which of the messages that wait is taken up next, where that is not for their arrival alone to say.
//!
//! # Where a message is
//! It arrives with all others, and is put into the queue of its priority when the actor looks for the next one. That is
//! the first of the highest priority. If its guard refuses it, it is set aside, with the others of its handler and
//! priority: they are older than all in the queue of that priority, and come before those as soon as their guard admits
//! them.
//!
//! An actor without priorities has a selective queue only while messages with guards wait: all others are taken up as
//! they come.
//!
//! # When a guard is asked
//! When the message is the next one; then, if a turn was taken since, which may have changed the state, whenever the
//! actor looks for the next one. The first message of a handler is asked for all, if the guard looks at nothing but the
//! state.
//!
//! What depends on an open transaction may never have been sent. It stays at the head of its queue until that is
//! decided, and its guard is asked only then: so what is set aside counts, and guards see no tentative state.
use std::collections::{BTreeMap, VecDeque};
use std::ptr;

use enact_stm::hooks::Fate;

use super::records::{Front, Guard, Operations, Records};
use crate::cell::Lender;
use crate::deadlock::TurnId;
use crate::turn::Panic;

/// The messages of one actor that wait and were looked at.
pub(crate) struct SelectiveQueue {
    /// Whether there are priorities other than 0.
    are_ranked: bool,
    /// By priority; none is empty.
    by_priority: BTreeMap<i32, Records>,
    /// By priority; none is empty.
    aside: BTreeMap<i32, Vec<Aside>>,
    /// How many were ever set aside.
    set_aside: u64,
    /// Whether a turn was taken since the guards of all that is set aside were asked.
    asks_again: bool,
}

/// Messages of one handler that its guard has refused, in the order of their arrival.
struct Aside {
    operations: &'static Operations,
    records: Records,
    /// How many had been set aside before each of them.
    numbers: VecDeque<u64>,
}

/// What the actor does next.
pub(crate) enum Choice {
    /// It takes a message up.
    TakesUp,
    /// It waits, because the next message may never have been sent.
    WaitsFor(Fate),
    /// The next message was set aside; there may be others.
    SetAside,
    /// The guard of the message has panicked.
    Fails(Panic),
    /// Nothing: no message waits that is admitted.
    Rests,
}

impl From<Result<(), Panic>> for Choice {
    fn from(admitted: Result<(), Panic>) -> Self {
        admitted.map_or_else(Self::Fails, |()| Self::TakesUp)
    }
}

impl SelectiveQueue {
    pub(crate) fn new(are_ranked: bool) -> Self {
        Self { are_ranked, by_priority: BTreeMap::new(), aside: BTreeMap::new(), set_aside: 0, asks_again: false }
    }

    /// Whether what has just arrived can be the next.
    pub(crate) fn are_ranked(&self) -> bool {
        self.are_ranked
    }

    /// Whether messages wait that no guard has refused since the last turn.
    pub(crate) fn have_messages(&self) -> bool {
        !self.by_priority.is_empty()
            || (self.asks_again && !self.aside.is_empty() && !cfg!(planted = "rest_without_asking"))
    }

    /// Whether nothing is left that would have to be looked at before what comes.
    pub(crate) fn are_done(&self) -> bool {
        !self.are_ranked && self.by_priority.is_empty() && self.aside.is_empty()
    }

    /// The state may be another: guards are asked again.
    pub(crate) fn ask_again(&mut self) {
        self.asks_again = true;
    }

    /// Looks for the next message among all that wait and those in `hand`, and leaves the one that is taken up, or
    /// fails, at the front there. `waits_for` says what the actor has to wait for before a message.
    pub(crate) fn choose(
        &mut self,
        hand: &mut Records,
        lender: &mut Lender,
        waits_for: impl FnOnce(Front<'_>) -> Option<Fate>,
    ) -> Choice {
        if self.are_ranked || !self.by_priority.is_empty() {
            self.take_in(hand);
        }
        // Without priorities, all can stay in the hand: that is their queue.
        if !self.are_ranked
            && let Some(queue) = self.by_priority.remove(&0)
        {
            *hand = queue;
        }
        let is_in_hand = !hand.is_empty();
        let highest =
            if is_in_hand { Some(0) } else { self.by_priority.last_key_value().map(|(&priority, _)| priority) };
        if let Some(choice) = self.choose_aside(highest.unwrap_or(i32::MIN), hand, lender) {
            return choice;
        }
        let Some(highest) = highest else { return Choice::Rests };
        let queue = if is_in_hand { &*hand } else { &self.by_priority[&highest] };
        let front = queue.front().expect("a queue has messages");
        if let Some(fate) = waits_for(front) {
            return Choice::WaitsFor(fate);
        }
        let operations = front.operations;
        let admitted = if front.is_retracted() {
            Some(Ok(()))
        } else {
            queue.first_admitted(1, lender).map(|(_, admitted)| admitted)
        };
        let (to, choice) = match admitted {
            Some(admitted) => {
                self.asks_again = true;
                if is_in_hand {
                    return admitted.into();
                }
                (hand, admitted.into())
            }
            None => {
                let aside = Self::aside_for(&mut self.aside, highest, operations, &mut self.set_aside);
                if is_in_hand {
                    hand.move_to(aside, 0);
                    return Choice::SetAside;
                }
                (aside, Choice::SetAside)
            }
        };
        if let Some(queue) = self.by_priority.get_mut(&highest) {
            queue.move_to(to, 0);
            if queue.is_empty() {
                self.by_priority.remove(&highest);
            }
        }
        choice
    }

    /// Puts what has arrived into its queues.
    fn take_in(&mut self, arrived: &mut Records) {
        if self.are_ranked {
            while let Some(priority) = arrived.front_priority() {
                arrived.move_to(self.by_priority.entry(priority).or_default(), 0);
            }
        } else if !arrived.is_empty() {
            self.by_priority.entry(0).or_default().append(arrived);
        }
    }

    /// Where the next message that is set aside is put.
    fn aside_for<'a>(
        aside: &'a mut BTreeMap<i32, Vec<Aside>>,
        priority: i32,
        operations: &'static Operations,
        set_aside: &mut u64,
    ) -> &'a mut Records {
        let handlers = aside.entry(priority).or_default();
        let known = handlers.iter().position(|aside| ptr::eq(aside.operations, operations));
        let at = known.unwrap_or_else(|| {
            handlers.push(Aside { operations, records: Records::default(), numbers: VecDeque::new() });
            handlers.len() - 1
        });
        handlers[at].numbers.push_back(*set_aside);
        *set_aside += 1;
        &mut handlers[at].records
    }

    /// The oldest message of the highest priority, `at_least` so high, that was set aside and is admitted now.
    fn choose_aside(&mut self, at_least: i32, hand: &mut Records, lender: &mut Lender) -> Option<Choice> {
        if !self.asks_again {
            return None;
        }
        let Self { by_priority: queues, aside, .. } = self;
        let mut asked = aside.range_mut(at_least..).rev();
        let chosen = asked.find_map(|(&priority, handlers)| {
            let admitted =
                handlers.iter().enumerate().filter_map(|(at, aside)| Some((at, aside.first_admitted(lender)?)));
            let (at, (position, admitted)) =
                admitted.min_by_key(|&(at, (position, _))| handlers[at].numbers[position])?;
            if !hand.is_empty() {
                queues.entry(0).or_default().append(hand);
            }
            handlers[at].records.move_to(hand, position);
            handlers[at].numbers.remove(position);
            if handlers[at].records.is_empty() {
                handlers.remove(at);
            }
            Some((priority, handlers.is_empty(), admitted))
        });
        let Some((priority, was_last, admitted)) = chosen else {
            // Those of lower priority were not asked.
            self.asks_again = self.aside.first_key_value().is_some_and(|(&lowest, _)| lowest < at_least);
            return None;
        };
        if was_last {
            self.aside.remove(&priority);
        }
        Some(admitted.into())
    }

    /// Takes the wake-up of a turn out, wherever it is, after what is in `hand` was taken in.
    pub(crate) fn take_resumption(&mut self, hand: &mut Records) -> Option<TurnId> {
        self.take_in(hand);
        let queue = self.by_priority.get_mut(&0)?;
        let turn = queue.take_resumption()?;
        if queue.is_empty() {
            self.by_priority.remove(&0);
        }
        self.asks_again = true;
        Some(turn)
    }

    /// All that wait.
    pub(crate) fn into_queues(self) -> impl Iterator<Item = Records> {
        let aside = self.aside.into_values().flatten().map(|aside| aside.records);
        self.by_priority.into_values().chain(aside)
    }
}

impl Aside {
    fn first_admitted(&self, lender: &mut Lender) -> Option<(usize, Result<(), Panic>)> {
        let asked = if self.operations.guard == Guard::State { 1 } else { usize::MAX };
        self.records.first_admitted(asked, lender)
    }
}
