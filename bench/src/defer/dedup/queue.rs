//! The queue between two stages, with locks and with transactions; without a bound in both.
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use enact_stm::{TCell, TQueue, atomically};

/// A queue that threads of one stage fill and threads of the next one empty.
pub(super) trait Queue<T>: Sync {
    /// An empty queue that `producers` threads will fill.
    fn filled_by(producers: usize) -> Self;
    /// Appends `item`; never waits.
    fn push(&self, item: T);
    /// The oldest item; waits for one, and gives none when all producers have ended.
    fn pop(&self) -> Option<T>;
    /// One of the producers has ended.
    fn end_producer(&self);
}

/// A lock and a condition.
pub(super) struct LockQueue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    producers: usize,
}

impl<T: Send> Queue<T> for LockQueue<T> {
    fn filled_by(producers: usize) -> Self {
        Self { state: Mutex::new(State { items: VecDeque::new(), producers }), changed: Condvar::new() }
    }

    fn push(&self, item: T) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).items.push_back(item);
        self.changed.notify_one();
    }

    fn pop(&self) -> Option<T> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_waiting = |state: &mut State<T>| state.items.is_empty() && state.producers > 0;
        let waited = self.changed.wait_while(state, is_waiting);
        waited.unwrap_or_else(PoisonError::into_inner).items.pop_front()
    }

    fn end_producer(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).producers -= 1;
        self.changed.notify_all();
    }
}

/// A transactional queue, and how many may still fill it.
pub(super) struct TxQueue<T: Send + Sync + 'static> {
    items: TQueue<T>,
    producers: TCell<u64>,
}

impl<T: Clone + Send + Sync + 'static> Queue<T> for TxQueue<T> {
    fn filled_by(producers: usize) -> Self {
        Self { items: TQueue::unbounded(), producers: TCell::new(producers as u64) }
    }

    fn push(&self, item: T) {
        atomically(|tx| self.items.push(tx, item.clone())).run();
    }

    fn pop(&self) -> Option<T> {
        atomically(|tx| match self.items.try_pop(tx)? {
            Some(item) => Ok(Some(item.clone())),
            None if tx.read(&self.producers)? == 0 => Ok(None),
            None => tx.retry(),
        })
        .run()
    }

    fn end_producer(&self) {
        atomically(|tx| tx.update(&self.producers, |producers| producers - 1).map(drop)).run();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::in_parallel;

    /// Three producers, two consumers: every item is taken once, those of one producer in their order.
    fn check<Q: Queue<(usize, u32)>>() {
        const ITEMS: u32 = 300;
        let queue = Q::filled_by(3);
        let (taken, _) = in_parallel(5, |number| {
            if number < 3 {
                (0..ITEMS).for_each(|item| queue.push((number, item)));
                queue.end_producer();
            }
            let is_consumer = number >= 3;
            std::iter::from_fn(|| if is_consumer { queue.pop() } else { None }).collect::<Vec<_>>()
        });
        for of_consumer in &taken {
            for producer in 0..3 {
                let items: Vec<_> = of_consumer.iter().filter(|item| item.0 == producer).collect();
                assert!(items.is_sorted(), "{items:?}");
            }
        }
        let mut all = taken.concat();
        all.sort_unstable();
        assert_eq!(all, (0..3).flat_map(|producer| (0..ITEMS).map(move |item| (producer, item))).collect::<Vec<_>>());
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn lock_queue_gives_every_item_once_and_in_order() {
        check::<LockQueue<_>>();
    }

    #[test]
    fn transactional_queue_gives_every_item_once_and_in_order() {
        check::<TxQueue<_>>();
    }
}
