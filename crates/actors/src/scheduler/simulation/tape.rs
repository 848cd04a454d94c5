//! What happens in a system with one worker, noted.
//!
//! # Nothing is slower where nobody records
//! A recording is begun by two switches that are there anyway: turns are [traced](Traced), one at a time, and senders are
//! asked whether they may send, as they are while a system shuts down. Notes are made where these two lead, and nowhere else.
//!
//! # What noting costs
//! Time that passes while a note is made is left out, but for about one look at the clock a note, which is measured and taken
//! off. What is left of it is made good by [`Recording::of_a_run_of`].
//!
//! # What is not seen
//! What has a suspended turn go on. Where it holds its actor, it is taken for the turn of the last message that it has sent.
//! Turns that suspend and let others go first end for a recording, and begin again by themselves.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use enact_stm::hooks;
use enact_sync::Mutex;
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber, callsite, level_filters::LevelFilter, span};

use super::nanos;
use super::recording::{Draft, Recording, TurnIndex};
use crate::scheduler::Scheduler;
use crate::{ActorId, System, scheduler};

/// How many notes there is room for before memory has to be had.
const ROOM: usize = 1 << 16;

/// Where a system's notes are while it is recorded.
#[derive(Default)]
pub(crate) struct Tape(Mutex<Option<Notes>>);

struct Notes {
    began: Instant,
    /// What noting has taken on the worker, and on all other threads.
    lost_on_worker: Duration,
    lost_outside: Duration,
    list: Vec<(Duration, Note)>,
}

#[derive(Clone, Copy)]
enum Note {
    SentFromOutside(ActorId),
    Sent(ActorId),
    Begun(ActorId),
    Suspended(ActorId),
    Ended,
}

/// A turn that is noted; ends when dropped.
pub(crate) struct Noted<'t>(&'t Tape);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.note(Note::Ended);
    }
}

impl Tape {
    fn note(&self, note: Note) {
        let now = Instant::now();
        if let Some(notes) = &mut *self.0.lock() {
            let lost = if scheduler::is_worker() { &mut notes.lost_on_worker } else { &mut notes.lost_outside };
            notes.list.push(((now - notes.began).saturating_sub(*lost), note));
            *lost += now.elapsed();
        }
    }

    /// A message is sent.
    pub(crate) fn send(&self, to: ActorId) {
        self.note(if scheduler::is_worker() { Note::Sent(to) } else { Note::SentFromOutside(to) });
    }

    /// A turn begins, or goes on.
    pub(crate) fn begin_turn(&self, actor: ActorId) -> Noted<'_> {
        self.note(Note::Begun(actor));
        Noted(self)
    }

    /// The turn of this actor that has ended last is suspended, and holds it.
    pub(crate) fn suspend_turn(&self, actor: ActorId) {
        self.note(Note::Suspended(actor));
    }
}

/// Records what `run` does in `system`, which has one worker and nothing else to do.
///
/// # Panics
/// If `system` is recorded already, or has more than one worker.
pub fn record<R>(system: &System, run: impl FnOnce() -> R) -> (R, Recording) {
    let scheduler = system.scheduler();
    assert_eq!(scheduler.queues.stealers.len(), 1, "what several workers do at a time cannot be put in order");
    let notes = Notes {
        began: Instant::now(),
        lost_on_worker: Duration::ZERO,
        lost_outside: Duration::ZERO,
        list: Vec::with_capacity(ROOM),
    };
    assert!(scheduler.tape.0.lock().replace(notes).is_none(), "one recording at a time");
    let traced = Traced::begin();
    scheduler.ask_senders(true);
    let result = run();
    settle(scheduler);
    scheduler.ask_senders(false);
    drop(traced);
    let notes = scheduler.tape.0.lock().take().map(|notes| notes.list).unwrap_or_default();
    (result, Transcript::of(&notes, clock_ns()))
}

/// Waits until the last turn has ended.
fn settle(scheduler: &Scheduler) {
    debug_assert!(!hooks::is_in_a_transaction());
    scheduler.wait_until_settled(Instant::now() + Duration::from_secs(1));
}

/// What a look at the clock takes.
fn clock_ns() -> u64 {
    let read = || {
        let before = Instant::now();
        before.elapsed()
    };
    let shortest = (0..1_000).map(|_| read()).filter(|read| !read.is_zero()).min().unwrap_or_default();
    nanos(shortest)
}

/// Has turns be traced, of which nobody wants to see the spans.
struct Traced(Option<Dispatch>);

impl Traced {
    fn begin() -> Self {
        Self(Some(Dispatch::new(Silent)))
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.0 = None;
        callsite::rebuild_interest_cache();
    }
}

struct Silent;

impl Subscriber for Silent {
    fn register_callsite(&self, _metadata: &'static Metadata<'static>) -> Interest {
        Interest::never()
    }

    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        false
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

/// Makes a recording of notes.
struct Transcript {
    draft: Draft,
    actors: std::collections::HashMap<ActorId, Known>,
    clock_ns: u64,
    /// The turn under way, when it began, and how many notes there were since.
    running: Option<(TurnIndex, Duration, u64)>,
    /// How many turns are nested in it.
    nested: usize,
    /// The turn that has ended last.
    last: Option<TurnIndex>,
}

struct Known {
    place: u32,
    /// The turns of its messages that wait.
    waiting: VecDeque<TurnIndex>,
    /// The suspended turn that holds it.
    held: Option<TurnIndex>,
}

impl Transcript {
    fn of(notes: &[(Duration, Note)], clock_ns: u64) -> Recording {
        let mut transcript = Self {
            draft: Draft::default(),
            actors: std::collections::HashMap::new(),
            clock_ns,
            running: None,
            nested: 0,
            last: None,
        };
        for &(at, note) in notes {
            transcript.add(at, note);
        }
        transcript.draft.finish()
    }

    fn add(&mut self, at: Duration, note: Note) {
        match note {
            Note::SentFromOutside(to) => {
                let turn = self.sent(to);
                self.draft.send_from_outside(nanos(at), turn);
            }
            Note::Sent(to) => {
                let turn = self.sent(to);
                if let Some((from, after_ns)) = self.within(at).or_else(|| Some((self.last?, u64::MAX))) {
                    self.draft.send(from, after_ns, turn);
                } else {
                    self.draft.send_from_outside(nanos(at), turn);
                }
            }
            Note::Begun(_) if self.running.is_some() => self.nested += 1,
            Note::Begun(actor) => {
                let turn = self.begun(at, actor);
                self.running = Some((turn, at, 0));
            }
            Note::Ended if self.nested > 0 => self.nested -= 1,
            Note::Ended => {
                if let Some((turn, cost_ns)) = self.within(at) {
                    self.draft.set_cost(turn, cost_ns);
                    (self.last, self.running) = (Some(turn), None);
                }
            }
            Note::Suspended(actor) => {
                if let (None, Some(last)) = (self.running, self.last) {
                    self.draft.hold_after(last);
                    self.known(actor).held = Some(last);
                }
            }
        }
    }

    /// The turn under way, and for how long it has run.
    fn within(&mut self, at: Duration) -> Option<(TurnIndex, u64)> {
        let (turn, begun, notes) = self.running.as_mut()?;
        *notes += 1;
        Some((*turn, nanos(at.saturating_sub(*begun)).saturating_sub(*notes * self.clock_ns)))
    }

    fn known(&mut self, actor: ActorId) -> &mut Known {
        let place = u32::try_from(self.actors.len()).expect("a recording fits into memory");
        let unknown = || Known { place, waiting: VecDeque::new(), held: None };
        self.actors.entry(actor).or_insert_with(unknown)
    }

    /// The turn of a message to `actor`.
    fn sent(&mut self, actor: ActorId) -> TurnIndex {
        let place = self.known(actor).place;
        let turn = self.draft.turn(place, 0);
        self.known(actor).waiting.push_back(turn);
        turn
    }

    /// The turn of `actor` that begins, or goes on.
    fn begun(&mut self, at: Duration, actor: ActorId) -> TurnIndex {
        let known = self.known(actor);
        let place = known.place;
        if let Some(held) = known.held.take() {
            let turn = self.draft.turn(place, 0);
            let answering = self.draft.last_sent(held).filter(|&answering| !self.draft.answers(answering));
            if let Some(answering) = answering.or(self.last) {
                self.draft.answer(answering, turn);
            }
            return turn;
        }
        if let Some(turn) = known.waiting.pop_front() {
            return turn;
        }
        let turn = self.draft.turn(place, 0);
        match self.last {
            Some(last) => self.draft.send(last, u64::MAX, turn),
            None => self.draft.send_from_outside(nanos(at), turn),
        }
        turn
    }
}
