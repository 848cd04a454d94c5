//! The turns that run on this thread, innermost last.
//!
//! A thread has more than one when synchronous calls are run inline. The innermost frame says on whose behalf code
//! runs: whose child a spawned actor is, whose state [`Cx::with`](crate::Cx::with) may lend, and which turn it is that
//! polls a promise.
#![expect(unsafe_code, reason = "a frame borrows the actor that its guard borrows")]
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr;
use std::task::Waker;

use enact_stm::hooks::{self, Depending};
use enact_sync::unmodelled::Arc;

use crate::cell::ActorCell;
use crate::deadlock::{self, Sleeper, Source, Suspension, Turn, TurnId, Verdict, Wait};
use crate::scheduler::Scheduler;
use crate::tentative::Tentative;
use crate::{ActorError, ActorId};

struct Frame {
    /// Null while code runs that belongs to no turn, such as a promise's callback.
    actor: *const ActorCell,
    polled: Option<Box<Polled>>,
    /// Set while a tentative turn runs.
    tentative: Option<Arc<Tentative>>,
    /// Inside a tentative turn, what another one does depends on nothing.
    independent: Option<Depending>,
}

impl Frame {
    const fn of(actor: *const ActorCell) -> Self {
        Self { actor, polled: None, tentative: None, independent: None }
    }

    fn actor(&self) -> Option<&ActorCell> {
        // SAFETY: null, or borrowed by the guard that takes this frame away when it is dropped.
        unsafe { self.actor.as_ref() }
    }
}

/// The frames of one thread. Most threads have one at a time, which is entered and left without touching a list.
struct Frames {
    /// The innermost; means nothing while there is none.
    innermost: Frame,
    outer: Vec<Frame>,
    depth: usize,
}

impl Frames {
    const fn none() -> Self {
        Self { innermost: Frame::of(ptr::null()), outer: Vec::new(), depth: 0 }
    }

    fn innermost(&mut self) -> Option<&mut Frame> {
        if self.depth == 0 { None } else { Some(&mut self.innermost) }
    }

    fn push(&mut self, actor: *const ActorCell) {
        if self.depth > 0 {
            self.nest();
        }
        self.depth += 1;
        self.innermost.actor = actor;
    }

    fn nest(&mut self) {
        if self.is_bare() {
            // What lies there is known, and is not read again just after it was written.
            return self.outer.push(Frame::of(self.innermost.actor));
        }
        let independent = self.innermost.tentative.is_some().then(|| hooks::depend_on_this_thread(None));
        let outer = std::mem::replace(&mut self.innermost, Frame::of(ptr::null()));
        self.innermost.independent = independent;
        self.outer.push(outer);
    }

    /// Whether the innermost frame is its actor and nothing else.
    fn is_bare(&self) -> bool {
        let Frame { actor: _, polled, tentative, independent } = &self.innermost;
        polled.is_none() && tentative.is_none() && independent.is_none()
    }

    /// Takes the innermost frame away; gives what is left of it, if anything.
    fn pop(&mut self) -> Option<Frame> {
        self.depth -= 1;
        let is_bare = self.is_bare();
        let Some(outer) = self.outer.pop() else {
            return (!is_bare).then(|| std::mem::replace(&mut self.innermost, Frame::of(ptr::null())));
        };
        let left = std::mem::replace(&mut self.innermost, outer);
        if is_bare {
            // There is nothing in it to be dropped.
            std::mem::forget(left);
            return None;
        }
        Some(left)
    }

    fn outermost_first(&self) -> impl Iterator<Item = &Frame> {
        self.outer.iter().chain((self.depth > 0).then_some(&self.innermost))
    }
}

/// An asynchronous turn while it is polled, and what is kept of it from one poll to the next.
pub(crate) struct Polled {
    turn: TurnId,
    /// What the turn's own waker points to.
    own_waker: *const (),
    waits: Waits,
    verdict: Option<Box<Verdict>>,
}

// SAFETY: the pointer is compared and nothing else.
unsafe impl Send for Polled {}

impl Polled {
    /// For turns that `waker` wakes.
    pub(crate) fn new(waker: &Waker) -> Self {
        Self { turn: TurnId::NONE, own_waker: waker.data(), waits: Waits::default(), verdict: None }
    }

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
                && !verdict.as_ref().is_some_and(|verdict| verdict.concerns(&known.source))
        });
    }

    /// What the turn waits for.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Leaves the turn's waker where that was put off to the end of the poll, or wakes the turn if its answer has come.
    pub(crate) fn leave_waker(&mut self, waker: &Waker) {
        for known in self.waits.all_mut().filter(|known| known.keeps == Keeps::NoneYet) {
            known.keeps = Keeps::Own;
            let was_left = known.source.leave_waker(known.reader, waker);
            if !was_left && !cfg!(plant = "overlook_an_answer") {
                waker.wake_by_ref();
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

struct Awaited {
    source: Arc<dyn Source>,
    /// The ticket of the reader: others may wait for the same.
    reader: u64,
    keeps: Keeps,
}

/// Which waker a promise keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// The turn's own.
    Own,
    /// That of a combinator.
    Another,
    /// None before the poll has ended, then the turn's own.
    NoneYet,
}

impl Awaited {
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

    fn note<S: Source + 'static>(&mut self, source: &Arc<S>, reader: u64, keeps: Keeps) {
        if let Some(known) = self.all_mut().find(|known| known.is(source, reader)) {
            known.keeps = keeps;
            return;
        }
        let awaited = Awaited { source: Arc::<S>::clone(source), reader, keeps };
        if self.first.is_none() {
            self.first = Some(awaited);
        } else {
            self.others.push(awaited);
        }
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
    pub(crate) fn only(&self) -> Option<&Arc<dyn Source>> {
        let first = self.first.as_ref()?;
        (first.keeps == Keeps::NoneYet && self.others.is_empty()).then_some(&first.source)
    }

    /// How many promises keep the turn's own waker.
    pub(crate) fn own_wakers(&self) -> usize {
        self.all().filter(|known| known.keeps == Keeps::Own).count()
    }
}

enact_sync::thread_local! {
    static FRAMES: RefCell<Frames> = const { RefCell::new(Frames::none()) };
}

#[inline]
fn innermost<R>(f: impl FnOnce(&mut Frame) -> R) -> Option<R> {
    FRAMES.try_with(|frames| frames.borrow_mut().innermost().map(f)).ok().flatten()
}

/// Marks this thread as running turns of `actor` until dropped.
#[inline]
pub(crate) fn enter(actor: &ActorCell) -> Entered<'_> {
    push(actor)
}

/// Runs `f` as code that belongs to no turn.
pub(crate) fn outside_turns<R>(f: impl FnOnce() -> R) -> R {
    let _entered = innermost(|_| ()).map(|()| push(ptr::null()));
    f()
}

#[inline]
fn push<'a>(actor: *const ActorCell) -> Entered<'a> {
    FRAMES.with(|frames| frames.borrow_mut().push(actor));
    Entered(PhantomData)
}

pub(crate) struct Entered<'a>(PhantomData<&'a ActorCell>);

impl Drop for Entered<'_> {
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

/// Whether this thread is in a tentative turn.
#[inline]
pub(crate) fn is_tentative() -> bool {
    innermost(|frame| frame.tentative.is_some()).unwrap_or(false)
}

/// The tentative turn that this thread is in.
#[inline]
pub(crate) fn tentative() -> Option<Arc<Tentative>> {
    innermost(|frame| frame.tentative.clone()).flatten()
}

/// The actor whose turn this thread is in.
pub(crate) fn current() -> Option<Arc<ActorCell>> {
    innermost(|frame| frame.actor().map(ActorCell::me)).flatten()
}

/// Whether this thread is in a turn of an actor of `scheduler`, and in how many turns.
pub(crate) fn depth_in(scheduler: &Arc<Scheduler>) -> Option<usize> {
    let is_near = innermost(|frame| frame.actor().is_some_and(|actor| Arc::ptr_eq(actor.scheduler(), scheduler)));
    is_near.unwrap_or(false).then(|| FRAMES.with(|frames| frames.borrow().depth))
}

/// Whether this thread is in a turn of `actor`.
pub(crate) fn is_turn_of(actor: ActorId) -> bool {
    innermost(|frame| frame.actor().is_some_and(|known| known.id() == actor)).unwrap_or(false)
}

/// From here to [`end_poll`], promises that are polled are waits of the turn.
#[inline]
pub(crate) fn begin_poll(mut polled: Box<Polled>, verdict: Option<Box<Verdict>>) {
    if verdict.is_some() {
        polled.verdict = verdict;
    }
    innermost(|frame| frame.polled = Some(polled));
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

/// Records that the turn being polled waits for `source` alone, and puts it off to the end of the poll to leave its
/// waker there: the answer may come before. The ticket under which it will; none if the turn waits for more, if `waker` is
/// not its own, or if `source` keeps one under another ticket.
pub(crate) fn wait_at_the_end<S: Source + 'static>(source: &Arc<S>, ticket: Option<u64>, waker: &Waker) -> Option<u64> {
    innermost(|frame| {
        let polled = frame.polled.as_mut()?;
        if !ptr::eq(polled.own_waker, waker.data()) || polled.verdict.is_some() {
            return None;
        }
        match (&polled.waits.first, ticket) {
            (None, None) => {
                let reader = deadlock::fresh_ticket();
                polled.waits.first = Some(Awaited { source: Arc::<S>::clone(source), reader, keeps: Keeps::NoneYet });
                Some(reader)
            }
            (Some(known), Some(reader)) if known.is(source, reader) && polled.waits.only().is_some() => Some(reader),
            _ => None,
        }
    })
    .flatten()
}

/// Records that the turn being polled waits for `source`, which keeps `waker`.
pub(crate) fn note_wait<S: Source + 'static>(source: &Arc<S>, reader: u64, waker: &Waker) {
    innermost(|frame| {
        if let Some(polled) = &mut frame.polled {
            let is_own = ptr::eq(polled.own_waker, waker.data());
            polled.waits.note(source, reader, if is_own { Keeps::Own } else { Keeps::Another });
        }
    });
}

/// Records that the turn being polled waits no more for what lies at `source`.
pub(crate) fn forget_wait<S: Source + 'static>(source: &Arc<S>, reader: u64) {
    innermost(|frame| frame.polled.iter_mut().for_each(|polled| polled.waits.remove(source, reader)));
}

/// Whether a wait of the turn being polled was found to be dead.
#[inline]
pub(crate) fn has_verdict() -> bool {
    innermost(|frame| frame.polled.as_ref().is_some_and(|polled| polled.verdict.is_some())).unwrap_or(false)
}

/// As [`forget_wait`], unless [`has_verdict`], and if the reader has ever waited; whether there is none.
#[inline]
pub(crate) fn end_wait<S: Source + 'static>(source: &Arc<S>, ticket: Option<u64>) -> bool {
    let ended = innermost(|frame| {
        let Some(polled) = &mut frame.polled else { return true };
        if polled.verdict.is_some() {
            return false;
        }
        ticket.into_iter().for_each(|reader| polled.waits.remove(source, reader));
        true
    });
    ended.unwrap_or(true)
}

/// The error for a wait of the turn being polled for `source`, if it was found to be dead.
pub(crate) fn take_verdict(source: &Arc<dyn Source>) -> Option<ActorError> {
    innermost(|frame| {
        let polled = frame.polled.as_mut()?;
        polled.verdict.take_if(|verdict| verdict.concerns(source)).map(|verdict| verdict.into_error())
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
            .outermost_first()
            .map(|frame| Some((frame.actor()?.identity().clone(), frame.polled.as_ref().map(|polled| polled.turn))))
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
