//! What is recorded: attempts, with what they have read and written.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A transactional variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(pub u64);

/// A version of a variable: what one write has left there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// What every variable holds before all writes; no write may leave it.
    pub const INITIAL: Self = Self(0);
}

/// One attempt of a transaction: the `number`th of its thread, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The thread.
    pub thread: u32,
    /// Its place among the attempts of the thread.
    pub number: u32,
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{}", self.0)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}/{}", self.thread, self.number)
    }
}

/// Numbers in the order of real time, for all threads together.
///
/// A thread that draws one synchronises with all that have drawn before, which may hide the errors of a weak memory order. A
/// test that looks for those takes its tickets elsewhere, such as from rounds between barriers.
#[derive(Debug, Default)]
pub struct Tickets(AtomicU64);

impl Tickets {
    /// The next one.
    pub fn next(&self) -> u64 {
        // The total order of the draws is the order of real time, whatever else the threads do.
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Read(Variable, Token),
    /// The new token, and the one it replaced if the recorder says so.
    Write(Variable, Token, Option<Token>),
}

impl Op {
    pub(crate) const fn variable(self) -> Variable {
        match self {
            Self::Read(variable, _) | Self::Write(variable, ..) => variable,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) is_committed: bool,
    /// Its operations among those of the recorder, in program order.
    ops: Range<usize>,
}

/// Keeps the attempts of one thread. Recording is a push to a vector.
#[derive(Clone, Debug)]
pub struct Recorder {
    thread: u32,
    attempts: Vec<Attempt>,
    ops: Vec<Op>,
    is_open: bool,
}

impl Recorder {
    /// For the thread of this number, which no other recorder of the history has.
    #[must_use]
    pub const fn new(thread: u32) -> Self {
        Self { thread, attempts: Vec::new(), ops: Vec::new(), is_open: false }
    }

    /// An attempt begins: `ticket` was drawn before it did anything.
    ///
    /// # Panics
    /// If the one before has not ended.
    pub fn begin(&mut self, ticket: u64) {
        assert!(!self.is_open, "attempt {} of thread {} has not ended", self.attempts.len(), self.thread);
        self.is_open = true;
        let ops = self.ops.len()..self.ops.len();
        self.attempts.push(Attempt { begin: ticket, end: u64::MAX, is_committed: false, ops });
    }

    /// It has read this token.
    ///
    /// # Panics
    /// If no attempt is under way.
    pub fn read(&mut self, variable: Variable, token: Token) {
        self.push(Op::Read(variable, token));
    }

    /// It has written this token, which is greater than all that committed attempts have written before.
    ///
    /// # Panics
    /// If no attempt is under way.
    pub fn write(&mut self, variable: Variable, token: Token) {
        self.push(Op::Write(variable, token, None));
    }

    /// It has written `token`, which takes the place of `replaced`.
    ///
    /// # Panics
    /// If no attempt is under way.
    pub fn replace(&mut self, variable: Variable, replaced: Token, token: Token) {
        self.push(Op::Write(variable, token, Some(replaced)));
    }

    /// The attempt has committed: `ticket` was drawn afterwards.
    ///
    /// # Panics
    /// If no attempt is under way.
    pub fn commit(&mut self, ticket: u64) {
        self.end(ticket, true);
    }

    /// The attempt has ended without an effect: `ticket` was drawn afterwards.
    ///
    /// # Panics
    /// If no attempt is under way.
    pub fn abort(&mut self, ticket: u64) {
        self.end(ticket, false);
    }

    fn push(&mut self, op: Op) {
        assert!(self.is_open, "thread {} is between two attempts", self.thread);
        self.ops.push(op);
    }

    fn end(&mut self, ticket: u64, is_committed: bool) {
        assert!(self.is_open, "thread {} is between two attempts", self.thread);
        self.is_open = false;
        let attempt = self.attempts.last_mut().expect("one is under way");
        (attempt.end, attempt.is_committed, attempt.ops.end) = (ticket, is_committed, self.ops.len());
    }
}

/// The attempts of all threads.
#[derive(Clone, Debug)]
pub struct History {
    recorders: Vec<Recorder>,
    /// The index of the first attempt of each recorder.
    firsts: Vec<usize>,
    attempt_count: usize,
}

impl History {
    /// Puts together what the threads have recorded. An attempt that has not ended counts as one that will abort.
    pub fn merge(recorders: impl IntoIterator<Item = Recorder>) -> Self {
        let mut recorders: Vec<_> = recorders.into_iter().collect();
        let (mut firsts, mut attempt_count) = (Vec::with_capacity(recorders.len()), 0);
        for recorder in &mut recorders {
            if recorder.is_open {
                recorder.abort(u64::MAX);
            }
            firsts.push(attempt_count);
            attempt_count += recorder.attempts.len();
        }
        Self { recorders, firsts, attempt_count }
    }

    /// How many attempts there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.attempt_count
    }

    /// Whether nothing is recorded.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.attempt_count == 0
    }

    /// All attempts with their operations, in the order of their indices.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = (&Attempt, &[Op])> {
        self.recorders
            .iter()
            .flat_map(|recorder| recorder.attempts.iter().map(|attempt| (attempt, &recorder.ops[attempt.ops.clone()])))
    }

    fn place(&self, index: usize) -> (&Recorder, usize) {
        let recorder = self.firsts.partition_point(|&first| first <= index) - 1;
        (&self.recorders[recorder], index - self.firsts[recorder])
    }

    pub(crate) fn attempt(&self, index: usize) -> &Attempt {
        let (recorder, number) = self.place(index);
        &recorder.attempts[number]
    }

    pub(crate) fn id(&self, index: usize) -> AttemptId {
        let (recorder, number) = self.place(index);
        AttemptId { thread: recorder.thread, number: u32::try_from(number).expect("fewer than 2^32 attempts") }
    }
}
