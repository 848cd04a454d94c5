//! Promises made from promises.
//!
//! What a derived promise waits for is recorded in it, so that a deadlock through combinators is still seen.
use std::time::Duration;

use enact_sync::Mutex;
use enact_sync::unmodelled::{Arc, Weak};

use super::cell::{Outcome, contain_callback as contain};
use super::{Promise, Resolver};
use crate::deadlock::{Owner, Source};
use crate::{ActorError, tentative, timer};

impl<T: Send + 'static> Promise<T> {
    /// The promise of what `f` makes of the value.
    ///
    /// `f` runs exactly once if a value comes, on the thread that brings it, or at once if it is there; it should be
    /// short. A panic in it fails the promise with [`ActorError::CallbackPanicked`]. What a tentative turn asks for is
    /// done when the turn is definitive.
    pub fn map<U: Send + 'static>(self, f: impl FnOnce(T) -> U + Send + 'static) -> Promise<U> {
        let (mapped, resolver) = self.derive();
        tentative::perform(move || {
            self.on_settled(move |outcome| resolver.settle(outcome.and_then(|value| contain(|| f(value)))));
        });
        mapped
    }

    /// The promise of the promise that `f` makes of the value.
    ///
    /// `f` runs as in [`map`](Self::map).
    pub fn and_then<U: Send + 'static>(self, f: impl FnOnce(T) -> Promise<U> + Send + 'static) -> Promise<U> {
        self.chain(move |outcome| outcome.and_then(|value| contain(|| f(value))).unwrap_or_else(Promise::failed_with))
    }

    /// This promise, or if it fails the one that `f` makes of the error.
    ///
    /// `f` runs as in [`map`](Self::map), if the promise fails.
    pub fn or_else(self, f: impl FnOnce(ActorError) -> Promise<T> + Send + 'static) -> Self {
        self.chain(move |outcome| match outcome {
            Ok(value) => Promise::ready(value),
            Err(error) => contain(|| f(*error)).unwrap_or_else(Promise::failed_with),
        })
    }

    fn chain<U: Send + 'static>(self, next: impl FnOnce(Outcome<T>) -> Promise<U> + Send + 'static) -> Promise<U> {
        let (chained, resolver) = self.derive();
        tentative::perform(move || self.on_settled(move |outcome| next(outcome).settle_into(resolver)));
        chained
    }

    /// Both values, or the error of the first that fails.
    pub fn join<U: Send + 'static>(self, other: Promise<U>) -> Promise<(T, U)> {
        let sources = [weak(&self), weak(&other)].into_iter().flatten().collect();
        let (joined, resolver) = Promise::owed_by(Owner::All(sources));
        let halves = Arc::new(Mutex::new((None, None, Some(resolver))));
        let others = Arc::clone(&halves);
        self.on_settled(move |outcome| record(&halves, outcome, |halves, value| halves.0 = Some(value)));
        other.on_settled(move |outcome| record(&others, outcome, |halves, value| halves.1 = Some(value)));
        joined
    }

    /// All values in the order of the promises, or the error of the first that fails.
    pub fn join_all(promises: impl IntoIterator<Item = Self>) -> Promise<Vec<T>> {
        let promises: Vec<Self> = promises.into_iter().collect();
        if promises.is_empty() {
            return Promise::ready(Vec::new());
        }
        let (joined, resolver) = Promise::owed_by(Owner::All(promises.iter().filter_map(weak).collect()));
        let gather = Arc::new(Mutex::new(Gather {
            missing: promises.len(),
            values: promises.iter().map(|_| None).collect(),
            resolver: Some(resolver),
        }));
        for (at, promise) in promises.into_iter().enumerate() {
            let gather = Arc::clone(&gather);
            promise.on_settled(move |outcome| Gather::add(&gather, at, outcome));
        }
        joined
    }

    /// The first answer to arrive, be it a value or an error; [`ActorError::Abandoned`] if there is no promise.
    pub fn race(promises: impl IntoIterator<Item = Self>) -> Self {
        let promises: Vec<Self> = promises.into_iter().collect();
        let (first, resolver) = Promise::owed_by(Owner::Any(promises.iter().filter_map(weak).collect()));
        let resolver = Arc::new(Mutex::new(Some(resolver)));
        for promise in promises {
            let resolver = Arc::clone(&resolver);
            promise.on_settled(move |outcome| settle_first(&resolver, outcome));
        }
        first
    }

    /// This promise, or [`ActorError::Timeout`] when `after` has passed.
    ///
    /// The time is tokio's, of the runtime that this is called in. If there is none, or if it ends before, the process has a
    /// clock of its own.
    ///
    /// The message is not taken back; its answer is discarded.
    pub fn timeout(self, after: Duration) -> Self {
        // Owed by the clock, too: a wait with an end is never a deadlock.
        let (bounded, resolver) = Promise::owed_by(Owner::Unknown);
        let resolver = Arc::new(Mutex::new(Some(resolver)));
        let late = Arc::clone(&resolver);
        let alarm = timer::alarm(after, move || settle_first(&late, Err(Box::new(ActorError::Timeout { after }))));
        self.on_settled(move |outcome| {
            alarm.cancel();
            settle_first(&resolver, outcome);
        });
        bounded
    }

    /// A promise whose answer needs this one's.
    fn derive<U: Send + 'static>(&self) -> (Promise<U>, Resolver<U>) {
        Promise::owed_by(weak(self).map_or(Owner::Unknown, Owner::Needs))
    }

    fn settle_into(self, resolver: Resolver<T>) {
        if let Some(source) = weak(&self) {
            resolver.now_owed_by(Owner::Needs(source));
        }
        self.on_settled(move |outcome| resolver.settle(outcome));
    }
}

fn weak<T: Send + 'static>(promise: &Promise<T>) -> Option<Weak<dyn Source>> {
    promise.source().map(|source| Arc::downgrade(&source))
}

fn settle_first<T: Send + 'static>(resolver: &Mutex<Option<Resolver<T>>>, outcome: Outcome<T>) {
    let first = resolver.lock().take();
    if let Some(resolver) = first {
        resolver.settle(outcome);
    }
}

type Halves<T, U> = (Option<T>, Option<U>, Option<Resolver<(T, U)>>);

fn record<T: Send + 'static, U: Send + 'static, V>(
    halves: &Mutex<Halves<T, U>>,
    outcome: Outcome<V>,
    put: impl FnOnce(&mut Halves<T, U>, V),
) {
    let mut halves = halves.lock();
    let outcome = match outcome {
        Ok(value) => {
            put(&mut halves, value);
            match (halves.0.take(), halves.1.take()) {
                (Some(left), Some(right)) => Ok((left, right)),
                (left, right) => {
                    (halves.0, halves.1) = (left, right);
                    return;
                }
            }
        }
        Err(error) => Err(error),
    };
    let resolver = halves.2.take();
    drop(halves);
    if let Some(resolver) = resolver {
        resolver.settle(outcome);
    }
}

struct Gather<T: Send + 'static> {
    missing: usize,
    values: Vec<Option<T>>,
    resolver: Option<Resolver<Vec<T>>>,
}

impl<T: Send + 'static> Gather<T> {
    fn add(gather: &Mutex<Self>, at: usize, outcome: Outcome<T>) {
        let mut gather = gather.lock();
        let outcome = match outcome {
            Ok(value) => {
                gather.values[at] = Some(value);
                gather.missing -= 1;
                if gather.missing > 0 {
                    return;
                }
                Ok(gather.values.drain(..).flatten().collect())
            }
            Err(error) => Err(error),
        };
        let resolver = gather.resolver.take();
        drop(gather);
        if let Some(resolver) = resolver {
            resolver.settle(outcome);
        }
    }
}
