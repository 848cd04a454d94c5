//! Messages of different types, side by side in one piece of memory.
//!
//! A message is a value of a type of its own: the handler's arguments and the reply that it owes. Here it is a *record*: a
//! header that says what can be done with it, and the value behind it. So a message costs no allocation of its own, and
//! those that wait lie in the order in which they are taken up. One that is told, without arguments, is a single word.
//!
//! Nothing here is shared between threads: a queue is behind its mailbox's lock or belongs to the runner.
//!
//! # Invariant
//! From `head` to the end of `words` there are whole records. A record is the address of its [`Operations`]; then, if that is
//! marked by being odd, the [`Fate`] that the message depends on; then as many words as the operations say, which hold a
//! value of the type that they are of. While there is [`Room`] for a value, nobody uses the queue. Values are moved by
//! copying their words, which every Rust value allows. A record before `head` has been moved out.
#![expect(unsafe_code, reason = "values of different types in one piece of memory")]
use std::mem::{self, MaybeUninit};
use std::ptr;

use enact_stm::hooks::{Decision, Fate};

use super::buffers::BUFFERS;
use crate::cell::Lender;
use crate::deadlock::TurnId;
use crate::turn::{Begun, Panic, contain};
use crate::{ActorError, scheduler};

/// What a queue keeps room for when it is empty, in words: 8 KiB.
const KEPT_WORDS: usize = 1024;
/// A larger value lies in a box of its own, in words.
const INLINE_WORDS_MAX: usize = 128;

/// What a mailbox holds.
pub(crate) trait Record: Send + Sized + 'static {
    /// The name of the handler.
    const HANDLER: &'static str;
    const KIND: Kind;
    /// Whether its turn can call another actor synchronously, and so block its thread.
    const MAY_CALL: bool = true;
    /// Whether it has a priority of its own.
    const IS_RANKED: bool = false;
    const GUARD: Guard = Guard::None;

    /// Takes it up.
    fn begin(self, lender: &mut Lender) -> Begun;
    /// Answers it with an error instead; panics of what it carries end here.
    fn refuse(self, error: ActorError);

    /// Where the promise lies that it keeps.
    fn promise(&self) -> Option<usize> {
        None
    }

    fn priority(&self) -> i32 {
        0
    }

    /// Whether it can be taken up in this state; panics as the guard does.
    fn is_admitted(&self, _lender: &mut Lender) -> bool {
        true
    }
}

/// What a guard looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guard {
    /// There is none.
    None,
    /// The state alone: what it says of one message holds for all of the handler.
    State,
    /// The state and what the message carries.
    Message,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Runs to completion.
    Plain,
    /// Has the state until it ends.
    Held,
    /// Lets others go first while it waits.
    Cooperative,
    /// A cooperative turn was woken.
    Resumption,
}

/// What can be done with the value behind a header.
pub(crate) struct Operations {
    pub(crate) handler: &'static str,
    pub(crate) kind: Kind,
    pub(crate) may_call: bool,
    /// How long the value is.
    words: usize,
    /// Moves the value out of where it is, and takes it up; then, after a plain turn, those of its type that follow it.
    begin: unsafe fn(*const Word, &'static Self, &mut Records, &mut Lender, &mut usize) -> Begun,
    /// Moves the value out of where it is, and refuses it.
    refuse: unsafe fn(*const Word, ActorError),
    /// Asks the value where it is.
    promise: unsafe fn(*const Word) -> Option<usize>,
    /// Asks the value where it is; 0 without.
    priority: Option<unsafe fn(*const Word) -> i32>,
    pub(crate) guard: Guard,
    /// Asks the value where it is; admitted without.
    is_admitted: Option<unsafe fn(*const Word, &mut Lender) -> bool>,
}

pub(super) type Word = MaybeUninit<u64>;

/// A value that ends with a word.
#[repr(C, align(8))]
struct Padded<T>(T);

const _: () = assert!(align_of::<Padded<()>>() == align_of::<Word>(), "a value may lie wherever a word may");

/// What a record begins with, to be written.
pub(crate) struct Header {
    operations: &'static Operations,
    /// Without its commit, the message was never sent.
    dependency: Option<Fate>,
}

/// What a record begins with, as it lies in the queue.
#[derive(Clone, Copy)]
pub(crate) struct Front<'q> {
    pub(crate) operations: &'static Operations,
    dependency: Option<&'q Fate>,
}

const _: () = assert!(align_of::<Operations>() > 1, "an address that is odd is a mark");
const _: () = assert!(size_of::<*const Operations>() <= size_of::<Word>() && size_of::<Fate>() <= size_of::<Word>());
const _: () = assert!(align_of::<Fate>() <= align_of::<Word>());

impl<'q> Front<'q> {
    /// How long the header is, in words.
    #[inline]
    fn words(self) -> usize {
        1 + usize::from(self.dependency.is_some())
    }

    /// The name of the handler and its kind, if nothing has to be asked before it is called.
    #[inline]
    pub(crate) fn if_free(self) -> Option<(&'static str, Kind)> {
        let Operations { handler, kind, guard, .. } = self.operations;
        (*guard == Guard::None && self.dependency.is_none()).then_some((*handler, *kind))
    }

    /// What the message depends on, as long as that is open.
    #[inline]
    pub(crate) fn open_fate(self) -> Option<&'q Fate> {
        self.dependency.filter(|fate| fate.decision().is_none())
    }

    /// Whether what the message depends on was aborted.
    #[inline]
    pub(crate) fn is_retracted(self) -> bool {
        self.dependency.is_some_and(|fate| fate.decision() == Some(Decision::Aborted))
    }
}

impl Operations {
    const fn of<R: Record>() -> &'static Self {
        const {
            &Self {
                handler: R::HANDLER,
                kind: R::KIND,
                may_call: R::MAY_CALL,
                words: size_of::<Padded<R>>() / size_of::<Word>(),
                begin: begin::<R>,
                refuse: refuse::<R>,
                promise: promise::<R>,
                priority: if R::IS_RANKED { Some(priority::<R>) } else { None },
                guard: R::GUARD,
                is_admitted: if matches!(R::GUARD, Guard::None) { None } else { Some(is_admitted::<R>) },
            }
        }
    }
}

/// Also takes up the records of the same type that follow, which costs much less than to look at each anew: as many as
/// `budget` says with the first, and only as long as each turn ends at once, the next message depends on nothing, and the
/// actor can go on.
///
/// # Safety
/// A `Padded<R>` starts at `at`, which is used by nobody else from now on, and `operations` are of `R`.
unsafe fn begin<R: Record>(
    mut at: *const Word,
    operations: &'static Operations,
    records: &mut Records,
    lender: &mut Lender,
    budget: &mut usize,
) -> Begun {
    loop {
        // SAFETY: as the caller vouches, or what was moved out below.
        let Padded(record) = unsafe { at.cast::<Padded<R>>().read() };
        let begun = record.begin(lender);
        scheduler::spend_turn(budget);
        if *budget == 0 || !matches!(begun, Begun::Ended) || !lender.cell().goes_on_at_once() {
            return begun;
        }
        let Some(next) = records.advance_to_another(operations) else { return begun };
        lender.cell().mailbox.make_room();
        at = next;
    }
}

/// # Safety
/// A `Padded<R>` starts at `at`, and is used by nobody else from now on.
unsafe fn refuse<R: Record>(at: *const Word, error: ActorError) {
    // SAFETY: as the caller vouches.
    let Padded(record) = unsafe { at.cast::<Padded<R>>().read() };
    record.refuse(error);
}

/// # Safety
/// A `Padded<R>` starts at `at`, and nobody changes it meanwhile.
unsafe fn promise<R: Record>(at: *const Word) -> Option<usize> {
    // SAFETY: as the caller vouches.
    let Padded(record) = unsafe { &*at.cast::<Padded<R>>() };
    record.promise()
}

/// # Safety
/// As [`promise`].
unsafe fn priority<R: Record>(at: *const Word) -> i32 {
    // SAFETY: as the caller vouches.
    let Padded(record) = unsafe { &*at.cast::<Padded<R>>() };
    record.priority()
}

/// # Safety
/// As [`promise`].
unsafe fn is_admitted<R: Record>(at: *const Word, lender: &mut Lender) -> bool {
    // SAFETY: as the caller vouches.
    let Padded(record) = unsafe { &*at.cast::<Padded<R>>() };
    record.is_admitted(lender)
}

/// Room for the value of one record at the end of a queue, whose header is there already.
#[must_use = "the queue counts on the value"]
pub(crate) struct Room(*mut Word);

/// A queue that is not to be touched before the room in it is filled.
pub(crate) struct Reserved<G, T> {
    pub(crate) room: Room,
    /// Keeps others from the queue, and the queue where it is.
    pub(crate) guard: G,
    pub(crate) outcome: T,
}

/// Puts `record` where `reserve` finds room for it, or gives it back if there is none.
#[inline]
pub(crate) fn put<R: Record, G, T, E>(
    record: R,
    dependency: Option<Fate>,
    reserve: impl FnOnce(Header) -> Result<Reserved<G, T>, E>,
) -> Result<T, (R, E)> {
    if const { size_of::<R>() > INLINE_WORDS_MAX * size_of::<Word>() || align_of::<R>() > align_of::<Word>() } {
        put_inline(Boxed(Box::new(record)), dependency, reserve).map_err(|(Boxed(record), error)| (*record, error))
    } else {
        put_inline(record, dependency, reserve)
    }
}

#[inline]
fn put_inline<R: Record, G, T, E>(
    record: R,
    dependency: Option<Fate>,
    reserve: impl FnOnce(Header) -> Result<Reserved<G, T>, E>,
) -> Result<T, (R, E)> {
    match reserve(Header { operations: Operations::of::<R>(), dependency }) {
        Ok(Reserved { room: Room(at), guard, outcome }) => {
            // SAFETY: the header that stands before it says that there is room for a value of this type.
            unsafe { at.cast::<Padded<R>>().write(Padded(record)) };
            drop(guard);
            Ok(outcome)
        }
        Err(error) => Err((record, error)),
    }
}

/// Records in the order in which they came.
#[derive(Default)]
pub(crate) struct Records {
    words: Vec<Word>,
    head: usize,
}

impl Records {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.words.len()
    }

    /// Adds a record at the end, whose value is to be filled in before the queue is used again.
    pub(crate) fn push(&mut self, Header { operations, dependency }: Header) -> Room {
        let header_words = 1 + usize::from(dependency.is_some());
        let words = header_words + operations.words;
        self.make_room(words);
        let at = self.words.spare_capacity_mut().as_mut_ptr().cast::<Word>();
        let address = ptr::from_ref(operations).map_addr(|address| address | usize::from(dependency.is_some()));
        // SAFETY: there is room for the header, whose parts are as long as a word.
        unsafe { at.cast::<*const Operations>().write(address) };
        if let Some(dependency) = dependency {
            // SAFETY: as before.
            unsafe { at.wrapping_add(1).cast::<Fate>().write(dependency) };
        }
        let end = self.words.len() + words;
        // SAFETY: that is within the capacity, and a word need not be initialised.
        unsafe { self.words.set_len(end) };
        // SAFETY: behind the header there is room for the value.
        Room(unsafe { at.add(header_words) })
    }

    /// How the first record begins.
    #[inline]
    pub(crate) fn front(&self) -> Option<Front<'_>> {
        (!self.is_empty()).then(|| self.front_at(self.head))
    }

    /// How the record begins that begins at `at`.
    #[inline]
    fn front_at(&self, at: usize) -> Front<'_> {
        let words = self.words[at..].as_ptr();
        // SAFETY: a record begins at `at`, with the address of its operations.
        let address = unsafe { words.cast::<*const Operations>().read() };
        let is_marked = address.addr() & 1 == 1;
        // SAFETY: without the mark it is that of a constant.
        let operations = unsafe { &*address.map_addr(|address| address & !1) };
        // SAFETY: the mark says that a dependency follows.
        let dependency = is_marked.then(|| unsafe { &*words.wrapping_add(1).cast::<Fate>() });
        Front { operations, dependency }
    }

    /// The value of the record that begins at `at` with `front`.
    #[inline]
    fn value_at(&self, at: usize, front: Front<'_>) -> *const Word {
        self.words[at + front.words()..].as_ptr()
    }

    /// Takes the first record up, and if its turn ends at once, those of its type that follow it. They are `budget` at most,
    /// which says then how many are left of it; one if they have guards to be asked before.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub(crate) fn begin_front(&mut self, lender: &mut Lender, budget: &mut usize) -> Begun {
        let (operations, value) = self.advance();
        // SAFETY: the value behind the header is of the type that its operations are of, and was moved out.
        unsafe { (operations.begin)(value, operations, self, lender, budget) }
    }

    /// Refuses the first record.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn refuse_front(&mut self, error: ActorError) {
        let (operations, value) = self.advance();
        // SAFETY: as in `begin_front`.
        unsafe { (operations.refuse)(value, error) };
    }

    /// Moves the first record out, which stays readable until the queue is used again.
    #[inline]
    fn advance(&mut self) -> (&'static Operations, *const Word) {
        let front = self.front().expect("a record is taken from a queue that has one");
        let value = self.value_at(self.head, front);
        let (operations, words) = (front.operations, front.words() + front.operations.words);
        let dependency = front.dependency.map(ptr::from_ref);
        self.head += words;
        // SAFETY: the record has been moved out, and this is the part of it that is not handed on.
        drop(dependency.map(|dependency| unsafe { dependency.read() }));
        (operations, value)
    }

    /// Moves the first record out if its operations are these, by their address, and it depends on nothing; gives its value.
    #[inline]
    fn advance_to_another(&mut self, operations: &'static Operations) -> Option<*const Word> {
        if self.is_empty() {
            return None;
        }
        let header = self.words[self.head..].as_ptr();
        // SAFETY: a record begins there, with the address of its operations.
        if !ptr::eq(unsafe { header.cast::<*const Operations>().read() }, operations) {
            return None;
        }
        self.head += 1 + operations.words;
        Some(header.wrapping_add(1))
    }

    /// Where the promise lies that the first record keeps, if nothing has to be asked before it is taken up.
    pub(crate) fn free_front_promise(&self) -> Option<usize> {
        let front = self.front()?;
        front.if_free()?;
        let value = self.value_at(self.head, front);
        // SAFETY: the value behind the header is of the type that its operations are of, and borrowed with the queue.
        unsafe { (front.operations.promise)(value) }
    }

    /// The priority of the first record.
    pub(crate) fn front_priority(&self) -> Option<i32> {
        let front = self.front()?;
        let Some(priority) = front.operations.priority else { return Some(0) };
        let value = self.value_at(self.head, front);
        // SAFETY: as in `free_front_promise`.
        Some(unsafe { priority(value) })
    }

    /// The first of so many records, by its number from the front, that its guard admits, or whose guard panics.
    pub(crate) fn first_admitted(&self, of: usize, lender: &mut Lender) -> Option<(usize, Result<(), Panic>)> {
        self.starts().take(of).enumerate().find_map(|(number, at)| match contain(|| self.is_admitted_at(at, lender)) {
            Ok(true) => Some((number, Ok(()))),
            Ok(false) => None,
            Err(panic) => Some((number, Err(panic))),
        })
    }

    fn is_admitted_at(&self, at: usize, lender: &mut Lender) -> bool {
        let front = self.front_at(at);
        let Some(is_admitted) = front.operations.is_admitted else { return true };
        let value = self.value_at(at, front);
        // SAFETY: as in `free_front_promise`.
        unsafe { is_admitted(value, lender) }
    }

    /// Where the records begin.
    fn starts(&self) -> impl Iterator<Item = usize> {
        let from = |at| (at < self.words.len()).then_some(at);
        std::iter::successors(from(self.head), move |&at| from(self.end_of(at)))
    }

    fn end_of(&self, at: usize) -> usize {
        let front = self.front_at(at);
        at + front.words() + front.operations.words
    }

    /// Moves the record with this number, counted from the front, behind those of `other`.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn move_to(&mut self, other: &mut Self, number: usize) {
        let start = self.starts().nth(number).expect("a record is moved out of a queue that has it");
        let end = self.end_of(start);
        if other.is_empty() {
            other.clear();
        }
        other.make_room(end - start);
        other.words.extend_from_slice(&self.words[start..end]);
        self.remove(start, end);
    }

    /// Forgets the record from `start` to `end`, which has been moved out.
    fn remove(&mut self, start: usize, end: usize) {
        if start > self.head {
            self.words.drain(start..end);
            return;
        }
        self.head = end;
        if self.is_empty() {
            self.clear();
        } else if self.head > KEPT_WORDS && self.head > self.words.len() / 2 {
            // What is moved up is less than what was taken out since it was last done.
            self.words.drain(..self.head);
            self.head = 0;
        }
    }

    /// Takes the first resumption out, wherever it is.
    pub(crate) fn take_resumption(&mut self) -> Option<TurnId> {
        let start = self.starts().find(|&at| self.front_at(at).operations.kind == Kind::Resumption)?;
        let value = self.value_at(start, self.front_at(start));
        // SAFETY: behind a header of that kind there is a `Resumption`.
        let Padded(Resumption(turn)) = unsafe { value.cast::<Padded<Resumption>>().read() };
        // A resumption has no dependency that would have to be dropped.
        self.remove(start, self.end_of(start));
        Some(turn)
    }

    /// Moves all records of `other` behind those that are here.
    pub(crate) fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            mem::swap(self, other);
        } else {
            self.make_room(other.words.len() - other.head);
            self.words.extend_from_slice(&other.words[other.head..]);
        }
        other.words.clear();
        other.head = 0;
    }

    /// Has an empty queue begin at the front of its memory; gives back what is more than a little.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.head = 0;
        if self.words.capacity() > KEPT_WORDS {
            BUFFERS.put(mem::replace(&mut self.words, BUFFERS.take(KEPT_WORDS)));
        }
    }

    /// Makes room for so many words more.
    #[inline]
    fn make_room(&mut self, words: usize) {
        if self.words.capacity() - self.words.len() < words {
            self.grow(words);
        }
    }

    #[cold]
    fn grow(&mut self, words: usize) {
        // Not by reallocation, which waits for other users of the arena that the memory is from, and with it all senders to this actor.
        let mut longer = BUFFERS.take((self.words.len() + words).max(2 * self.words.capacity()));
        longer.extend_from_slice(&self.words[self.head..]);
        self.head = 0;
        BUFFERS.put(mem::replace(&mut self.words, longer));
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        while !self.is_empty() {
            self.refuse_front(ActorError::Abandoned);
        }
        BUFFERS.put(mem::take(&mut self.words));
    }
}

/// The wake-up of a cooperative turn.
pub(crate) struct Resumption(pub(crate) TurnId);

impl Record for Resumption {
    const HANDLER: &'static str = "";
    const KIND: Kind = Kind::Resumption;

    fn begin(self, _lender: &mut Lender) -> Begun {
        Begun::Resumes(self.0)
    }

    fn refuse(self, _error: ActorError) {}
}

/// A record that is too long, or asks for more than a word's alignment, in a box.
struct Boxed<R>(Box<R>);

impl<R: Record> Record for Boxed<R> {
    const HANDLER: &'static str = R::HANDLER;
    const KIND: Kind = R::KIND;
    const MAY_CALL: bool = R::MAY_CALL;
    const IS_RANKED: bool = R::IS_RANKED;
    const GUARD: Guard = R::GUARD;

    fn begin(self, lender: &mut Lender) -> Begun {
        (*self.0).begin(lender)
    }

    fn refuse(self, error: ActorError) {
        (*self.0).refuse(error);
    }

    fn promise(&self) -> Option<usize> {
        self.0.promise()
    }

    fn priority(&self) -> i32 {
        self.0.priority()
    }

    fn is_admitted(&self, lender: &mut Lender) -> bool {
        self.0.is_admitted(lender)
    }
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests;
