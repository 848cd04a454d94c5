//! Wakes those that follow the changes of an engine.
//!
//! # Problem
//! A change can be told as soon as its record is durable and what was open before it at its entity is decided. Followers have to learn of that
//! without looking all the time, and commands must not pay for followers that there are not.
//!
//! # When something is announced
//! In the turn in which an entity learns that more of it is decided, durably: a commit when its record is durable, an abort, which may have no
//! record, and what a recovery has found.
//!
//! # No lost wake-up
//! A follower subscribes, looks, and waits. Once it has subscribed, it waits for a version of the channel that it has not seen, and each
//! announcement is a new one. While it subscribes, either the announcer sees the subscription, or the look sees what is announced: the announcer
//! makes a change visible before it asks whether anybody follows, the follower subscribes before it looks, and both have a fence in between.
use enact_sync::atomic::ordered;
use tokio::sync::watch;

/// Announces that there may be changes that nobody has been told yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Announcer(watch::Sender<()>);

impl Announcer {
    /// Wakes all followers; to be called in a turn, when the change can be found.
    ///
    /// # Complexity
    /// A load, if nobody follows.
    pub(super) fn announce(&self) {
        // Behind the lock of the turn, which is a read-modify-write.
        ordered();
        if self.0.receiver_count() > 0 {
            self.0.send_replace(());
        }
    }

    /// Tells of what is announced from now on.
    pub(super) fn news(&self) -> News {
        let news = News(self.0.subscribe());
        // Behind the count of receivers, which is another.
        ordered();
        news
    }
}

/// Tells a follower of the [changes](super::Engine::changes) of an engine when to look for them.
#[derive(Clone, Debug)]
pub struct News(watch::Receiver<()>);

impl News {
    /// Waits until there may be more changes than when this was made, or when the last wait ended. What was announced in between is one
    /// piece of news.
    ///
    /// A follower that makes it, looks, and looks again after each wait, misses nothing, and sometimes finds nothing. An engine that stops or
    /// fails, and what waits for an entity that has panicked, are not announced: look now and then without news as well.
    ///
    /// # Cancel safety
    /// Dropping the future loses no news.
    pub async fn wait(&mut self) {
        if self.0.changed().await.is_err() {
            // The engine is gone.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};
    use std::task::{Context, Poll, Waker};
    use std::{pin, thread};

    use super::*;

    fn is_told(news: &mut News) -> bool {
        matches!(pin::pin!(news.wait()).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
    }

    /// What a follower does, and what happens beside it.
    #[derive(Clone, Copy)]
    enum Step {
        Follower,
        Engine,
    }

    /// Every order of so many steps of both.
    fn orders(of_follower: usize, of_engine: usize) -> Vec<Vec<Step>> {
        let behind = |step: Step, rest: Vec<Vec<Step>>| rest.into_iter().map(move |rest| [vec![step], rest].concat());
        match (of_follower, of_engine) {
            (0, 0) => vec![Vec::new()],
            (0, _) => behind(Step::Engine, orders(0, of_engine - 1)).collect(),
            (_, 0) => behind(Step::Follower, orders(of_follower - 1, 0)).collect(),
            _ => {
                let first = behind(Step::Follower, orders(of_follower - 1, of_engine));
                first.chain(behind(Step::Engine, orders(of_follower, of_engine - 1))).collect()
            }
        }
    }

    /// Two changes become durable, each before it is announced, while a follower subscribes, looks, waits, and looks when it was told.
    #[test]
    fn no_change_is_missed_in_any_order_of_steps() {
        let orders = orders(6, 4);
        assert_eq!(orders.len(), 210);
        for order in orders {
            let (announcer, mut durable, mut found) = (Announcer::default(), 0, 0);
            let (mut news, mut is_to_look, mut of_follower, mut of_engine) = (None, true, 0, 0);
            for step in order {
                match step {
                    Step::Engine if of_engine % 2 == 0 => durable += 1,
                    Step::Engine => announcer.announce(),
                    Step::Follower if of_follower == 0 => news = Some(announcer.news()),
                    Step::Follower if of_follower % 2 == 1 && is_to_look => found = durable,
                    Step::Follower if of_follower % 2 == 1 => {}
                    Step::Follower => is_to_look = is_told(news.as_mut().expect("it has subscribed")),
                }
                match step {
                    Step::Engine => of_engine += 1,
                    Step::Follower => of_follower += 1,
                }
            }
            let is_told = of_follower == 6 && is_told(news.as_mut().expect("it has subscribed"));
            assert!(found == 2 || is_told, "{found} of 2 were found");
        }
    }

    #[test]
    fn news_of_many_changes_are_one_piece() {
        let announcer = Announcer::default();
        let mut news = announcer.news();
        assert!(!is_told(&mut news), "nothing is new");
        (0..3).for_each(|_| announcer.announce());
        assert!(is_told(&mut news));
        assert!(!is_told(&mut news), "all are told together");
        drop(announcer);
        assert!(!is_told(&mut news), "there will be none");
    }

    /// As often as it takes for both to be in the middle of it at once.
    #[test]
    fn a_follower_that_subscribes_while_a_change_is_announced_finds_it_or_is_told() {
        const ROUNDS: usize = 20_000;
        let (announcer, begin) = (Announcer::default(), Arc::new(Barrier::new(2)));
        let durable = Arc::new(AtomicUsize::new(0));
        let engine = {
            let (announcer, durable, begin) = (announcer.clone(), Arc::clone(&durable), Arc::clone(&begin));
            thread::spawn(move || {
                for round in 1..=ROUNDS {
                    begin.wait();
                    // As a turn does behind an append.
                    durable.swap(round, Ordering::Relaxed);
                    announcer.announce();
                    begin.wait();
                }
            })
        };
        for round in 1..=ROUNDS {
            begin.wait();
            let mut news = announcer.news();
            let found = durable.load(Ordering::Relaxed);
            begin.wait();
            assert!(found == round || is_told(&mut news), "round {round}");
        }
        engine.join().expect("no panic");
    }
}
