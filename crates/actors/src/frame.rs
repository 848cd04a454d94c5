//! The turns that run on this thread, innermost last.
//!
//! A thread has more than one when synchronous calls are run inline. The innermost frame says on whose behalf code
//! runs: whose child a spawned actor is, whose state [`Cx::with`](crate::Cx::with) may lend, and which turn it is that
//! polls a promise.
#![expect(unsafe_code, reason = "a frame has the addresses of its actor and of the frame outside")]
use std::cell::{Cell, RefCell};
use std::task::{Wake, Waker};
use std::{iter, ptr};

use enact_stm::hooks::{self, Depending};
use enact_sync::unmodelled::Arc;

use crate::cell::{ActorCell, TurnWaker};
use crate::deadlock::{self, Sleeper, Source, Suspension, Turn, TurnId, Verdict, Wait};
use crate::scheduler::Scheduler;
use crate::tentative::Tentative;
use crate::{ActorError, ActorId};

/// Whose turns run on this thread. It lies on the thread's stack, in [`run`], and knows the one outside of it.
struct Frame {
    /// Null while code runs that belongs to no turn, such as a promise's callback.
    actor: *const Arc<ActorCell>,
    /// Null for the outermost.
    outer: *const Frame,
    polled: RefCell<Option<Box<Polled>>>,
    /// Set while a tentative turn runs.
    tentative: RefCell<Option<Arc<Tentative>>>,
}

impl Frame {
    fn actor(&self) -> Option<&Arc<ActorCell>> {
        // SAFETY: null, or what the caller of `run_turns` has of an actor whose turns it runs. A caller that gives it
        // away, or ends it, does nothing afterwards that could look here: no user's code, and no other frame.
        unsafe { self.actor.as_ref() }
    }

    fn outer(&self) -> Option<&Self> {
        // SAFETY: null, or a frame of a `run` which the one of this frame is in.
        unsafe { self.outer.as_ref() }
    }

    #[inline]
    fn is_tentative(&self) -> bool {
        self.tentative.borrow().is_some()
    }
}

enact_sync::thread_local! {
    /// Null while there is none.
    static INNERMOST: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

#[inline]
fn innermost<R>(f: impl FnOnce(&Frame) -> R) -> Option<R> {
    let frame = INNERMOST.with(Cell::get);
    // SAFETY: null, or the frame of a `run` that this is called in.
    unsafe { frame.as_ref() }.map(f)
}

/// As [`innermost`], with the turn that is polled there, if one is.
#[inline]
fn polled<R>(f: impl FnOnce(&mut Polled) -> R) -> Option<R> {
    innermost(|frame| frame.polled.borrow_mut().as_deref_mut().map(f)).flatten()
}

/// Runs `f` in a frame of its own.
#[inline]
fn run<R>(actor: *const Arc<ActorCell>, f: impl FnOnce() -> R) -> R {
    let outer = INNERMOST.with(Cell::get);
    let is_tentative = is_tentative();
    // What another turn does in the middle of a tentative one depends on nothing.
    let _independent = is_tentative.then(|| hooks::depend_on_this_thread(None));
    let frame = Frame { actor, outer, polled: RefCell::default(), tentative: RefCell::default() };
    INNERMOST.with(|innermost| innermost.set(&raw const frame));
    let _left = Left { outer };
    f()
}

/// The innermost frame is `outer` again when this is dropped.
struct Left {
    outer: *const Frame,
}

impl Drop for Left {
    #[inline]
    fn drop(&mut self) {
        INNERMOST.with(|innermost| innermost.set(self.outer));
    }
}

/// An asynchronous turn while it is polled, and what is kept of it from one poll to the next.
pub(crate) struct Polled {
    turn: TurnId,
    /// What the waker points to that the turn is polled with.
    own_waker: *const (),
    waits: Waits,
    verdict: Option<Box<Verdict>>,
}

impl Default for Polled {
    fn default() -> Self {
        Self { turn: TurnId::NONE, own_waker: ptr::null(), waits: Waits::default(), verdict: None }
    }
}

// SAFETY: the pointer is compared and nothing else.
unsafe impl Send for Polled {}

impl Polled {
    /// For `turn`, which has not been polled yet.
    pub(crate) fn begin(&mut self, turn: TurnId) {
        self.turn = turn;
        if self.waits.first.is_some() {
            self.waits = Waits::default();
        }
    }

    /// Takes out of the waits what has been answered, and what a verdict was about.
    fn forget_what_is_over(&mut self) {
        let verdict = self.verdict.take();
        // A promise that was not polled to be told of its verdict is out of this turn's hands.
        self.waits.retain(|known| {
            (known.keeps == Keeps::NoneYet || known.source.owner().is_some())
                && !verdict.as_ref().is_some_and(|verdict| verdict.concerns(Arc::as_ptr(&known.source).cast()))
        });
    }

    /// What the turn waits for.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Takes out the promise that the turn waits for, if it is the [only](Waits::only) one.
    pub(crate) fn take_only(&mut self) -> Option<Awaited> {
        self.waits.first.take()
    }

    /// Has the turn, which waits for nothing, wait for what it has waited for before.
    pub(crate) fn wait_for(&mut self, awaited: Awaited) {
        self.waits.first = Some(awaited);
    }

    /// Leaves the turn's waker where that was put off to the end of the poll, or wakes the turn if its answer has come.
    pub(crate) fn leave_waker(&mut self, turn: &Arc<TurnWaker>) {
        for known in self.waits.all_mut().filter(|known| known.keeps == Keeps::NoneYet) {
            known.keeps = Keeps::Own;
            let was_left = known.source.leave_waker(known.reader, Waker::from(Arc::clone(turn)));
            if !was_left && !cfg!(planted = "overlook_an_answer") {
                turn.wake_by_ref();
            }
        }
    }
}

/// The promises that a turn has polled and that are still open.
///
/// They are kept from one poll to the next: another crate's combinators poll only what has woken them.
#[derive(Default)]
pub(crate) struct Waits {
    /// None only if there are no others.
    first: Option<Awaited>,
    others: Vec<Awaited>,
}

/// A promise that a turn has polled and that was open.
pub(crate) struct Awaited {
    source: Arc<dyn Source>,
    /// The ticket of the reader: others may wait for the same.
    reader: u64,
    keeps: Keeps,
}

/// Which waker a promise keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// The turn's.
    Own,
    /// That of a combinator.
    Another,
    /// None before the poll has ended, then the turn's own.
    NoneYet,
}

impl Awaited {
    /// The actor that was asked, if it was one.
    pub(crate) fn asked(&self) -> Option<ActorId> {
        self.source.asked()
    }

    /// Whether the answer has come.
    pub(crate) fn is_over(&self) -> bool {
        self.source.is_settled()
    }

    /// Where the promise lies.
    pub(crate) fn promise(&self) -> usize {
        Arc::as_ptr(&self.source).addr()
    }

    fn is<S: Source + 'static>(&self, source: &Arc<S>, reader: u64) -> bool {
        self.reader == reader && ptr::eq(Arc::as_ptr(&self.source).cast::<()>(), Arc::as_ptr(source).cast())
    }
}

impl Waits {
    fn all(&self) -> impl Iterator<Item = &Awaited> {
        self.first.iter().chain(&self.others)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Awaited> {
        self.first.iter_mut().chain(&mut self.others)
    }

    #[inline]
    fn note<S: Source + 'static>(&mut self, source: &Arc<S>, reader: u64, keeps: Keeps) {
        if self.first.is_none() {
            self.first = Some(Awaited { source: Arc::<S>::clone(source), reader, keeps });
        } else {
            self.note_another(source, reader, keeps);
        }
    }

    fn note_another<S: Source + 'static>(&mut self, source: &Arc<S>, reader: u64, keeps: Keeps) {
        if let Some(known) = self.all_mut().find(|known| known.is(source, reader)) {
            known.keeps = keeps;
            return;
        }
        self.others.push(Awaited { source: Arc::<S>::clone(source), reader, keeps });
    }

    /// Takes the first one out.
    #[inline]
    fn remove_first(&mut self) {
        let next = if self.others.is_empty() { None } else { Some(self.others.remove(0)) };
        self.first = next;
    }

    #[inline(always)]
    fn remove<S: Source + 'static>(&mut self, source: &Arc<S>, reader: u64) {
        match &self.first {
            None => {}
            Some(first) if first.is(source, reader) => self.remove_first(),
            Some(_) => self.others.retain(|known| !known.is(source, reader)),
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&Awaited) -> bool) {
        self.others.retain(&is_kept);
        if self.first.as_ref().is_some_and(|first| !is_kept(first)) {
            self.remove_first();
        }
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = Arc<dyn Source>> {
        self.all().map(|known| Arc::clone(&known.source))
    }

    /// The promise that is waited for, if it is one and keeps no waker yet.
    #[inline]
    pub(crate) fn only(&self) -> Option<&Awaited> {
        let first = self.first.as_ref()?;
        (first.keeps == Keeps::NoneYet && self.others.is_empty()).then_some(first)
    }
}

/// Runs `f` as turns of `actor`.
#[inline]
pub(crate) fn run_turns<R>(actor: &Arc<ActorCell>, f: impl FnOnce() -> R) -> R {
    run(actor, f)
}

/// Runs `f` as code that belongs to no turn.
pub(crate) fn outside_turns<R>(f: impl FnOnce() -> R) -> R {
    if innermost(|_| ()).is_some() { run(ptr::null(), f) } else { f() }
}

/// Marks the turn that runs in this frame as tentative until dropped.
pub(crate) fn enter_tentatively(tentative: Arc<Tentative>) -> Tentatively {
    let fate = tentative.open_fate().filter(|_| !cfg!(planted = "commit_before_the_dependency"));
    let depending = hooks::depend_on_this_thread(fate);
    innermost(|frame| frame.tentative.replace(Some(tentative)));
    Tentatively(depending)
}

pub(crate) struct Tentatively(#[expect(dead_code, reason = "undone when dropped")] Depending);

impl Drop for Tentatively {
    fn drop(&mut self) {
        let left = innermost(|frame| frame.tentative.take());
        drop(left);
    }
}

/// Whether this thread is in a tentative turn.
#[inline]
pub(crate) fn is_tentative() -> bool {
    innermost(Frame::is_tentative).unwrap_or(false)
}

/// The tentative turn that this thread is in.
#[inline]
pub(crate) fn tentative() -> Option<Arc<Tentative>> {
    innermost(|frame| frame.tentative.borrow().clone()).flatten()
}

/// The actor whose turn this thread is in.
pub(crate) fn current() -> Option<Arc<ActorCell>> {
    innermost(|frame| frame.actor().map(Arc::clone)).flatten()
}

/// Whether this thread is in a turn of an actor of `scheduler`.
pub(crate) fn is_turn_in(scheduler: &Arc<Scheduler>) -> bool {
    innermost(|frame| frame.actor().is_some_and(|actor| Arc::ptr_eq(actor.scheduler(), scheduler))).unwrap_or(false)
}

/// Whether this thread is in a turn of `actor`.
pub(crate) fn is_turn_of(actor: ActorId) -> bool {
    innermost(|frame| frame.actor().is_some_and(|known| known.id() == actor)).unwrap_or(false)
}

/// From here to [`end_poll`], promises that are polled are waits of the turn, which is polled with `waker`.
#[inline]
pub(crate) fn begin_poll(mut polled: Box<Polled>, waker: &Waker, verdict: Option<Box<Verdict>>) {
    polled.own_waker = waker.data();
    if verdict.is_some() {
        polled.verdict = verdict;
    }
    innermost(|frame| frame.polled.replace(Some(polled)));
}

/// The turn that was polled, with what it waits for now.
#[inline]
pub(crate) fn end_poll() -> Box<Polled> {
    let polled = innermost(|frame| frame.polled.take()).flatten();
    let mut polled = polled.expect("a poll that ends has begun in this frame");
    // One that has been answered does no harm; only more of them are looked through.
    if polled.verdict.is_some() || !polled.waits.others.is_empty() {
        polled.forget_what_is_over();
    }
    polled
}

/// Records that the turn being polled waits for `source`, and puts it off to the end of the poll to leave its waker there:
/// the answer may come before. The ticket under which it will; none if `waker` is not the one that the turn is polled
/// with, or if this wait was found to be dead.
pub(crate) fn wait_at_the_end<S: Source + 'static>(source: &Arc<S>, ticket: Option<u64>, waker: &Waker) -> Option<u64> {
    polled(|polled| {
        let is_dead = polled.verdict.as_ref().is_some_and(|verdict| verdict.concerns(Arc::as_ptr(source).cast()));
        if is_dead || !ptr::eq(polled.own_waker, waker.data()) {
            return None;
        }
        let reader = ticket.unwrap_or_else(deadlock::fresh_ticket);
        polled.waits.note(source, reader, Keeps::NoneYet);
        Some(reader)
    })
    .flatten()
}

/// Records that the turn being polled waits for `source`, which keeps the waker of a combinator.
pub(crate) fn note_wait<S: Source + 'static>(source: &Arc<S>, reader: u64) {
    polled(|polled| polled.waits.note(source, reader, Keeps::Another));
}

/// Records that the turn being polled waits no more for what lies at `source`.
pub(crate) fn forget_wait<S: Source + 'static>(source: &Arc<S>, reader: u64) {
    polled(|polled| polled.waits.remove(source, reader));
}

/// As [`forget_wait`], if the reader has ever waited; returns whether no wait of the turn was found to be dead.
#[inline]
pub(crate) fn end_wait<S: Source + 'static>(source: &Arc<S>, ticket: Option<u64>) -> bool {
    let ended = polled(|polled| {
        if polled.verdict.is_some() {
            return false;
        }
        ticket.into_iter().for_each(|reader| polled.waits.remove(source, reader));
        true
    });
    ended.unwrap_or(true)
}

/// The error for a wait of the turn being polled for `source`, if it was found to be dead.
pub(crate) fn take_verdict<S: Source>(source: &Arc<S>) -> Option<ActorError> {
    let at = Arc::as_ptr(source).cast();
    polled(|polled| polled.verdict.take_if(|verdict| verdict.concerns(at)).map(|verdict| verdict.into_error()))
        .flatten()
}

/// Enters all turns of this thread as blocked: each waits for the one it called, the innermost for `wait`.
///
/// `None` if the thread is in no turn, or in code that belongs to none.
pub(crate) fn block(wait: Wait, waker: &Waker) -> Option<Blocked> {
    let mut frames = innermost(|innermost| {
        let turn = |frame: &Frame| frame.polled.borrow().as_ref().map(|polled| polled.turn);
        let outwards = iter::successors(Some(innermost), |frame| frame.outer());
        outwards.map(|frame| Some((frame.actor()?.identity().clone(), turn(frame)))).collect::<Option<Vec<_>>>()
    })
    .flatten()?;
    frames.reverse();
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
            waits: [wait].into_iter().collect(),
            opaque,
            sleeper: Sleeper::Thread(waker.clone()),
        })
        .collect();
    let turns = suspensions.iter().map(Suspension::turn).collect();
    deadlock::suspend(suspensions);
    Some(Blocked(turns))
}

/// The turns of a blocked thread in the graph of waits, until dropped.
pub(crate) struct Blocked(Vec<Turn>);

impl Blocked {
    /// Takes the turns out of the graph; the error if the wait was found to be dead.
    pub(crate) fn end(mut self) -> Option<ActorError> {
        let verdicts: Vec<_> = self.0.drain(..).filter_map(deadlock::resume).collect();
        verdicts.into_iter().next_back().map(|verdict| verdict.into_error())
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        for turn in self.0.drain(..) {
            deadlock::resume(turn);
        }
    }
}
