//! The turns that run on this thread, innermost last.
//!
//! A thread has more than one when synchronous calls are run inline. The innermost frame says on whose behalf code
//! runs: whose child a spawned actor is, whose state [`Cx::with`](crate::Cx::with) may lend, and which turn it is that
//! polls a promise.
use std::cell::RefCell;
use std::task::Waker;

use enact_stm::hooks::{self, Depending};
use enact_sync::atomic::AtomicBool;
use enact_sync::unmodelled::Arc;

use crate::cell::Process;
use crate::deadlock::{self, Source, Suspension, TurnId, Verdict, Wait};
use crate::tentative::Tentative;
use crate::{ActorError, ActorId};

struct Frame {
    /// `None` while code runs that belongs to no turn, such as a promise's callback.
    process: Option<Arc<dyn Process>>,
    polled: Option<Polled>,
    /// Set while a tentative turn runs.
    tentative: Option<Arc<Tentative>>,
    /// Inside a tentative turn, what another one does depends on nothing.
    _independent: Option<Depending>,
}

/// An asynchronous turn while it is polled.
struct Polled {
    turn: TurnId,
    waker: Waker,
    waits: Waits,
    verdict: Option<Verdict>,
}

/// The promises that a turn has polled and that are still open.
///
/// They are kept from one poll to the next: another crate's combinators poll only what has woken them.
#[derive(Default)]
pub(crate) struct Waits(Vec<Awaited>);

struct Awaited {
    source: Arc<dyn Source>,
    /// Whether the promise keeps the turn's own waker, not that of a combinator.
    keeps_own_waker: bool,
}

impl Waits {
    fn add(&mut self, source: Arc<dyn Source>, keeps_own_waker: bool) {
        match self.0.iter_mut().find(|known| Arc::ptr_eq(&known.source, &source)) {
            Some(known) => known.keeps_own_waker = keeps_own_waker,
            None => self.0.push(Awaited { source, keeps_own_waker }),
        }
    }

    fn remove(&mut self, source: &Arc<dyn Source>) {
        self.0.retain(|known| !Arc::ptr_eq(&known.source, source));
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = Arc<dyn Source>> {
        self.0.iter().map(|known| Arc::clone(&known.source))
    }

    /// How many promises keep the turn's own waker.
    pub(crate) fn own_wakers(&self) -> usize {
        self.0.iter().filter(|known| known.keeps_own_waker).count()
    }
}

enact_sync::thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

fn innermost<R>(f: impl FnOnce(&mut Frame) -> R) -> Option<R> {
    FRAMES.try_with(|frames| frames.borrow_mut().last_mut().map(f)).ok().flatten()
}

/// Marks this thread as running turns of `process` until dropped.
pub(crate) fn enter(process: Arc<dyn Process>) -> Entered {
    push(Some(process))
}

/// Runs `f` as code that belongs to no turn.
pub(crate) fn outside_turns<R>(f: impl FnOnce() -> R) -> R {
    let _entered = innermost(|_| ()).map(|()| push(None));
    f()
}

fn push(process: Option<Arc<dyn Process>>) -> Entered {
    let independent = tentative().map(|_| hooks::depend_on_this_thread(None));
    let frame = Frame { process, polled: None, tentative: None, _independent: independent };
    FRAMES.with(|frames| frames.borrow_mut().push(frame));
    Entered(())
}

pub(crate) struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        let left = FRAMES.with(|frames| frames.borrow_mut().pop());
        drop(left);
    }
}

/// Marks the turn that runs in this frame as tentative until dropped.
pub(crate) fn enter_tentatively(tentative: Arc<Tentative>) -> Tentatively {
    let fate = tentative.open_fate().filter(|_| !cfg!(plant = "commit_before_the_dependency"));
    let depending = hooks::depend_on_this_thread(fate);
    innermost(|frame| frame.tentative = Some(tentative));
    Tentatively(depending)
}

pub(crate) struct Tentatively(#[expect(dead_code, reason = "undone when dropped")] Depending);

impl Drop for Tentatively {
    fn drop(&mut self) {
        let left = innermost(|frame| frame.tentative.take());
        drop(left);
    }
}

/// The tentative turn that this thread is in.
pub(crate) fn tentative() -> Option<Arc<Tentative>> {
    innermost(|frame| frame.tentative.clone()).flatten()
}

/// How many turns are nested on this thread.
pub(crate) fn depth() -> usize {
    FRAMES.with(|frames| frames.borrow().len())
}

/// The actor whose turn this thread is in.
pub(crate) fn current() -> Option<Arc<dyn Process>> {
    innermost(|frame| frame.process.clone()).flatten()
}

/// Whether this thread is in a turn of `actor`.
pub(crate) fn is_turn_of(actor: ActorId) -> bool {
    innermost(|frame| frame.process.as_ref().is_some_and(|process| process.id() == actor)).unwrap_or(false)
}

/// From here to [`end_poll`], promises that are polled are waits of `turn`.
pub(crate) fn begin_poll(turn: TurnId, waker: &Waker, waits: Waits, verdict: Option<Verdict>) {
    let polled = Polled { turn, waker: waker.clone(), waits, verdict };
    innermost(|frame| frame.polled = Some(polled));
}

/// What the turn that was polled waits for now.
pub(crate) fn end_poll() -> Waits {
    let Some(Polled { mut waits, verdict, .. }) = innermost(|frame| frame.polled.take()).flatten() else {
        return Waits::default();
    };
    // A promise that was not polled to be told of its verdict is out of this turn's hands.
    waits.0.retain(|known| {
        known.source.owner().is_some() && !verdict.as_ref().is_some_and(|verdict| verdict.concerns(&known.source))
    });
    waits
}

/// Records that the turn being polled waits for `source`, which keeps `waker`.
pub(crate) fn note_wait(source: Arc<dyn Source>, waker: &Waker) {
    innermost(|frame| {
        if let Some(polled) = &mut frame.polled {
            let keeps_own_waker = polled.waker.will_wake(waker);
            polled.waits.add(source, keeps_own_waker);
        }
    });
}

/// Records that the turn being polled waits for `source` no more.
pub(crate) fn forget_wait(source: &Arc<dyn Source>) {
    innermost(|frame| frame.polled.iter_mut().for_each(|polled| polled.waits.remove(source)));
}

/// The error for a wait of the turn being polled for `source`, if it was found to be dead.
pub(crate) fn take_verdict(source: &Arc<dyn Source>) -> Option<ActorError> {
    innermost(|frame| {
        let polled = frame.polled.as_mut()?;
        polled.verdict.take_if(|verdict| verdict.concerns(source)).map(Verdict::into_error)
    })
    .flatten()
}

/// Enters all turns of this thread as blocked: each waits for the one it called, the innermost for `wait`.
///
/// `None` if the thread is in no turn, or in code that belongs to none.
pub(crate) fn block(wait: Wait, waker: &Waker) -> Option<Blocked> {
    let frames: Vec<_> = FRAMES.with(|frames| {
        let frames = frames.borrow();
        frames
            .iter()
            .map(|frame| Some((frame.process.as_ref()?.identity(), frame.polled.as_ref().map(|polled| polled.turn))))
            .collect::<Option<_>>()
    })?;
    if frames.is_empty() {
        return None;
    }
    // The fate of a tentative turn wakes it, too.
    let opaque = tentative().is_some_and(|tentative| tentative.open_fate().is_some());
    let callees = frames.iter().skip(1).map(|(callee, _)| Wait::Actor(callee.id())).collect::<Vec<_>>();
    let waits = callees.into_iter().chain([wait]);
    let suspensions: Vec<Suspension> = frames
        .into_iter()
        .zip(waits)
        .map(|((actor, turn), wait)| Suspension {
            turn: turn.unwrap_or_else(TurnId::fresh),
            actor,
            holds: true,
            waits: vec![wait],
            opaque,
            woken: Arc::new(AtomicBool::new(false)),
            waker: waker.clone(),
        })
        .collect();
    let turns = suspensions.iter().map(|suspension| suspension.turn).collect();
    deadlock::suspend(suspensions);
    Some(Blocked(turns))
}

/// The turns of a blocked thread in the graph of waits, until dropped.
pub(crate) struct Blocked(Vec<TurnId>);

impl Blocked {
    /// Takes the turns out of the graph; the error if the wait was found to be dead.
    pub(crate) fn end(mut self) -> Option<ActorError> {
        let verdicts: Vec<_> = self.0.drain(..).filter_map(deadlock::resume).collect();
        verdicts.into_iter().next_back().map(Verdict::into_error)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        for turn in self.0.drain(..) {
            deadlock::resume(turn);
        }
    }
}
