//! The queue between two stages, with locks and with transactions; without a bound in both.
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use enact_stm::{TCell, TVar, atomically};

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

/// Two lists in transactional variables: producers and consumers conflict only when the front is used up.
pub(super) struct TxQueue<T: Send + Sync + 'static> {
    /// The oldest item first.
    front: TVar<List<T>>,
    /// The latest item first.
    back: TVar<List<T>>,
    producers: TCell<u64>,
}

impl<T: Clone + Send + Sync + 'static> Queue<T> for TxQueue<T> {
    fn filled_by(producers: usize) -> Self {
        let (front, back) = (TVar::new(List::EMPTY), TVar::new(List::EMPTY));
        Self { front, back, producers: TCell::new(producers as u64) }
    }

    fn push(&self, item: T) {
        atomically(|tx| tx.update(&self.back, |back| back.with(item.clone())).map(drop)).run();
    }

    fn pop(&self) -> Option<T> {
        atomically(|tx| {
            if let Some(node) = &tx.read(&self.front)?.0 {
                tx.write(&self.front, node.rest.clone())?;
                return Ok(Some(node.item.clone()));
            }
            let all = tx.read(&self.back)?.reversed();
            let Some(oldest) = &all.0 else {
                return if tx.read(&self.producers)? == 0 { Ok(None) } else { tx.retry() };
            };
            tx.write(&self.back, List::EMPTY)?;
            tx.write(&self.front, oldest.rest.clone())?;
            Ok(Some(oldest.item.clone()))
        })
        .run()
    }

    fn end_producer(&self) {
        atomically(|tx| tx.update(&self.producers, |producers| producers - 1).map(drop)).run();
    }
}

/// A list whose versions share their ends.
struct List<T>(Option<Arc<Node<T>>>);

struct Node<T> {
    item: T,
    rest: List<T>,
}

impl<T> List<T> {
    const EMPTY: Self = Self(None);

    fn with(&self, item: T) -> Self {
        Self(Some(Arc::new(Node { item, rest: self.clone() })))
    }
}

impl<T: Clone> List<T> {
    fn reversed(&self) -> Self {
        let (mut reversed, mut rest) = (Self::EMPTY, self);
        while let Some(node) = &rest.0 {
            reversed = reversed.with(node.item.clone());
            rest = &node.rest;
        }
        reversed
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Node by node: a recursion as deep as the list is long would not fit on the stack.
impl<T> Drop for List<T> {
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut node) = next.and_then(Arc::into_inner) {
            next = node.rest.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::in_parallel;

    use super::*;

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

    #[test]
    fn a_list_of_a_million_items_is_dropped_without_recursion() {
        drop((0..1_000_000).fold(List::EMPTY, |list, item| list.with(item)));
    }
}
