//! The graph of waits, and the wait that can never end.
//!
//! # Problem
//! A turn that holds its actor while it waits (`async fn(&mut self)`, a synchronous call, a send that waits for room)
//! can close a circle: the answer it waits for needs an actor that waits, over any number of steps, for this one.
//! Such a wait fails at once with the circle's names.
//!
//! # The graph
//! Nodes are suspended turns. A turn waits for sources (promises) and actors; a promise knows its [`Owner`], the one
//! whose progress its answer needs: an actor that has the message in its mailbox or in its turn, a cooperative turn
//! that let go of its actor, or other promises. *Holders* are the suspended turns whose actor takes nothing else.
//!
//! # When a wait is dead
//! As the greatest fixed point of these rules, so that a circle counts:
//! * a source is dead if its owner is: an actor is dead while its holder is; a cooperative turn if its actor's holder
//!   is, or it is itself; *all* of several promises as soon as one is; *any* of them when every one is;
//! * a suspended turn is dead if everything it waits for is dead and nothing else could wake it, or if it needs an
//!   actor whose holder is dead. "Nothing else": no foreign code keeps its waker, for instance a timer or a socket.
//!
//! # What is entered
//! A turn that waits for long. One that suspends is entered by its worker when it has waited for some milliseconds, or
//! before the worker sleeps or blocks (`cell/suspended.rs`): most turns go on before that and never come here. A circle
//! loses nothing by it, since none of its turns goes on.
//!
//! # Which turn is told
//! The turn that is entered last and closes the circle; for it, only its own wait must be dead, not what else could
//! wake it: within this turn the answer cannot come. It goes on with the error, and with it the rest.
//!
//! A dead wait need not be one in a circle: it can lead to a circle of others. Each dead turn needs other dead turns,
//! so that every way over them ends in a set of turns that all lead to each other and nowhere else. If the turn that is
//! judged is in such a set, it is told. If not, a member of a set that it leads to is told first (its own judgement,
//! which must be under way, finds that it is), and the rest is judged again, with that member for one that goes on.
//! This ends, because each member told is one less, and then either the turn is told or its wait is not dead: so of
//! each circle somebody is told, and no turn that could still be answered.
//!
//! # Exact under concurrency
//! Turns are entered in the part of the graph that their actor belongs to, each with a lock of its own, so that turns of
//! different actors hardly ever meet. Each circle has a last edge; the turn that enters it looks at the others
//! afterwards. A promise is handed on before `owner_changed` looks for holders, and a holder is counted before it looks
//! at owners, with a fence in between on both sides: one of the two sees the other.
//!
//! Most waits lead over a few turns to one that can go on. They are followed one part at a time, and what can go on when
//! it is looked at ends the matter: if it waits later, it looks itself. Anything else is judged with all parts locked,
//! where nothing changes but answers, which come.
//!
//! # Limits
//! A promise waited for through another crate's combinators still counts as a wait of the turn, but the turn then also
//! counts as one that something else could wake. Circles with two such turns are left to their time-outs.
mod graph;
mod search;

use std::cell::Cell;
use std::sync::atomic::{Ordering, fence};
use std::task::Waker;

use enact_sync::global;
use enact_sync::unmodelled::{Arc, AtomicU64, LazyLock, Weak};
use smallvec::SmallVec;

use self::graph::{Graph, Leads, turns_behind};
use crate::cell::TurnWaker;
use crate::error::Cycle;
use crate::{ActorError, ActorId, Identity};

/// Names one turn that can be suspended, among all of this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TurnId(pub(crate) u64);

impl TurnId {
    /// Names no turn.
    pub(crate) const NONE: Self = Self(0);

    /// Taken from the thread's own block, so that threads do not meet at a counter.
    pub(crate) fn fresh() -> Self {
        const BLOCK: u64 = 1024;
        static NEXT_BLOCK: AtomicU64 = AtomicU64::new(1);
        std::thread_local! {
            static NEXT: Cell<u64> = const { Cell::new(0) };
        }
        let next = NEXT.get();
        let id = if next.is_multiple_of(BLOCK) { NEXT_BLOCK.fetch_add(1, Ordering::Relaxed) * BLOCK } else { next };
        NEXT.set(id + 1);
        Self(id)
    }
}

/// A ticket for a reader that leaves its waker later. No promise gives out such a one by itself.
pub(crate) fn fresh_ticket() -> u64 {
    TurnId::fresh().0 | 1 << 63
}

/// A turn that can be suspended, with its actor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Turn {
    pub(crate) id: TurnId,
    pub(crate) actor: ActorId,
}

/// Whose progress an answer needs.
#[derive(Clone)]
pub(crate) enum Owner {
    /// Something outside the runtime.
    Unknown,
    /// The actor that has the message, waiting or in its turn.
    Actor(ActorId),
    /// A cooperative turn of an actor.
    Turn(Turn),
    /// Another answer.
    Needs(Weak<dyn Source>),
    /// Several other answers.
    All(Vec<Weak<dyn Source>>),
    /// One of several other answers.
    Any(Vec<Weak<dyn Source>>),
}

/// An answer in the eyes of the graph.
pub(crate) trait Source: Send + Sync {
    /// Whose progress it needs; `None` once it has come.
    fn owner(&self) -> Option<Owner>;
    /// The actor that was asked, if it was one; it may have handed the duty to answer on since.
    fn asked(&self) -> Option<ActorId>;
    /// Whether the answer has come.
    fn is_settled(&self) -> bool;
    /// Leaves `waker` under the reader's ticket, unless the answer has come. Returns whether it did.
    fn leave_waker(&self, ticket: u64, waker: Waker) -> bool;
    /// Has its readers look again: another crate's combinators poll only what has woken them.
    fn wake_readers(&self);
}

pub(crate) enum Wait {
    Answer(Arc<dyn Source>),
    /// For the actor to take up its next message.
    Actor(ActorId),
}

/// A turn that gives its thread up, or blocks it.
pub(crate) struct Suspension {
    pub(crate) turn: TurnId,
    pub(crate) actor: Identity,
    /// Whether the actor takes nothing else meanwhile.
    pub(crate) holds: bool,
    pub(crate) waits: SmallVec<[Wait; 1]>,
    /// Whether something that the graph does not know could wake the turn.
    pub(crate) opaque: bool,
    pub(crate) sleeper: Sleeper,
}

impl Suspension {
    /// The turn that this is about.
    pub(crate) fn turn(&self) -> Turn {
        Turn { id: self.turn, actor: self.actor.id() }
    }
}

/// The turns to be woken.
pub(crate) enum Sleeper {
    Turn(Arc<TurnWaker>),
    Thread(Waker),
}

impl Sleeper {
    fn is_woken(&self) -> bool {
        match self {
            Self::Turn(turn) => turn.is_woken(),
            Self::Thread(_) => false,
        }
    }

    fn waker(&self) -> Waker {
        match self {
            Self::Turn(turn) => Waker::from(Arc::clone(turn)),
            Self::Thread(waker) => waker.clone(),
        }
    }
}

/// The finding that one wait of a turn can never end.
pub(crate) struct Verdict {
    wait: Wait,
    cycle: Cycle,
}

impl Verdict {
    /// Whether this is about a wait for what lies at `source`.
    pub(crate) fn concerns(&self, source: *const ()) -> bool {
        matches!(&self.wait, Wait::Answer(answer) if std::ptr::eq(Arc::as_ptr(answer).cast(), source))
    }

    pub(crate) fn into_error(self) -> ActorError {
        ActorError::Deadlock { cycle: self.cycle }
    }
}

global! {
    /// The process's own.
    pub(crate) static GRAPH: LazyLock<Graph> = LazyLock::new(Graph::default);
}

/// Enters the turns of a blocked thread, the last one at the far end of a chain of synchronous calls.
///
/// If a circle closes, the last turn is told and woken; [`resume`] then returns the verdict.
pub(crate) fn suspend(suspensions: impl IntoIterator<Item = Suspension>) {
    suspensions.into_iter().map(enter).last().into_iter().for_each(judge);
}

/// A turn that has been entered, and where its waits lead.
pub(crate) struct Entered {
    turn: Turn,
    leads: Leads,
}

/// Enters a turn, which is to be [judged](judge) afterwards.
pub(crate) fn enter(suspension: Suspension) -> Entered {
    GRAPH.enter(suspension)
}

/// Looks for a circle that a turn has closed, and wakes the turns that are to be told.
pub(crate) fn judge(Entered { turn, leads }: Entered) {
    GRAPH.judge(turn, leads).into_iter().for_each(Told::wake);
}

/// Takes a turn out again; what was found about it, if anything.
pub(crate) fn resume(turn: Turn) -> Option<Box<Verdict>> {
    GRAPH.take_out(turn).and_then(|node| node.verdict)
}

/// To be called after an answer that somebody may wait for has come to need the progress of `owner`: a circle may have
/// closed by that.
pub(crate) fn owner_changed(owner: Owner) {
    // A turn takes a duty on while it runs. What it waits for later is looked at when it is suspended.
    if matches!(owner, Owner::Turn(_)) || cfg!(planted = "forget_a_new_owner") {
        return;
    }
    // Pairs with the fence in `Graph::enter`.
    fence(Ordering::SeqCst);
    let mut behind = Vec::new();
    turns_behind(owner, &|actor| GRAPH.holder(actor), &mut |turn| behind.push(turn));
    if !behind.is_empty() {
        judge_again(behind);
    }
}

/// Judges turns that an answer has come to need.
#[cold]
fn judge_again(turns: Vec<Turn>) {
    let leading = turns.into_iter().filter_map(|turn| Some((turn, GRAPH.leads(turn)?)));
    let told: Vec<Told> = leading.flat_map(|(turn, leads)| GRAPH.judge(turn, leads)).collect();
    told.into_iter().for_each(Told::wake);
}

/// A turn that is to be told that a wait of its is dead.
struct Told {
    turn: Waker,
    source: Option<Arc<dyn Source>>,
}

impl Told {
    fn wake(self) {
        if let Some(source) = self.source {
            source.wake_readers();
        }
        self.turn.wake();
    }
}
