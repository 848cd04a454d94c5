//! Rounds: one thread writes and syncs for all that wait.
//!
//! A call that changes something adds it to the next round and waits for the end of that. The first thread that finds the
//! writer free takes it, and with it the round; meanwhile others add to the round after. What a round does is decided when it
//! is taken: what the one before has done already is not done twice, and a call that finds its wish granted has waited until
//! that was durable.
//!
//! # Who may touch what
//! * `state`: any thread, for as long as a look takes; no lock is held over a read, a write or a sync.
//! * the file: readers at any time; the thread that has the [`Writer`] alone changes it.
//!
//! # Order
//! A key is in the index after the sync that made it durable. It is out of the index after the sync that made its end durable,
//! and is overwritten after that: a reader that has found it in the index finds it whole, or its end.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, OnceLock};

use enact_sync::{Condvar, Mutex, MutexGuard};
use ring::rand::SystemRandom;

use super::SubjectKeysError;
use super::file::Writer;
use super::format::{Digest, Identity, Place, Stage};
use super::index::{Index, Last};

/// The index, and the rounds that change it.
pub(super) struct Rounds {
    state: Mutex<State>,
    /// Signals that a round has ended.
    ended: Condvar,
    source: SystemRandom,
}

struct State {
    index: Index,
    /// With the thread that runs a round, if one does.
    writer: Option<Writer>,
    next: Round,
    /// Why nothing is changed any more.
    failed: Option<SubjectKeysError>,
}

/// What is asked for together.
#[derive(Default)]
struct Round {
    creates: BTreeSet<Digest>,
    destroys: Vec<(Digest, u32)>,
    end: Arc<OnceLock<End>>,
}

/// What became of a round.
#[derive(Clone)]
struct End {
    created: Result<(), SubjectKeysError>,
    /// For each of `destroys`, whether it has destroyed a key.
    destroyed: Result<Vec<bool>, SubjectKeysError>,
}

/// What a round changes.
struct Plan {
    creates: Vec<Identity>,
    destroys: BTreeMap<Digest, Place>,
    destroyed: Vec<bool>,
}

impl Rounds {
    pub(super) fn new(writer: Writer, index: Index) -> Self {
        let state = State { index, writer: Some(writer), next: Round::default(), failed: None };
        Self { state: Mutex::new(state), ended: Condvar::new(), source: SystemRandom::new() }
    }

    pub(super) fn last(&self, digest: &Digest) -> Option<Last> {
        self.state.lock().index.last(digest)
    }

    /// As [`last`](Self::last), unless nothing is changed any more.
    pub(super) fn last_to_use(&self, digest: &Digest) -> Result<Option<Last>, SubjectKeysError> {
        let state = self.state.lock();
        state.check()?;
        Ok(state.index.last(digest))
    }

    /// Creates a key unless there is one. Waits until it is durable.
    pub(super) fn create(&self, digest: Digest) -> Result<(), SubjectKeysError> {
        let mut state = self.state.lock();
        state.check()?;
        if state.index.live(&digest).is_some() {
            return Ok(());
        }
        state.next.creates.insert(digest);
        let end = Arc::clone(&state.next.end);
        self.finish(state, &end).created
    }

    /// Destroys the key unless its generation is higher. Waits until it is overwritten.
    pub(super) fn destroy(&self, digest: Digest, generation: u32) -> Result<bool, SubjectKeysError> {
        let mut state = self.state.lock();
        state.check()?;
        // What a round has taken out of the index it may not have overwritten yet.
        let is_at_rest = state.writer.is_some();
        if is_at_rest && state.live_up_to(&digest, generation).is_none() {
            return Ok(false);
        }
        let number = state.next.destroys.len();
        state.next.destroys.push((digest, generation));
        let end = Arc::clone(&state.next.end);
        self.finish(state, &end).destroyed.map(|destroyed| destroyed[number])
    }

    /// Waits for the end of a round, and runs it if nobody else does.
    fn finish<'a>(&'a self, mut state: MutexGuard<'a, State>, end: &OnceLock<End>) -> End {
        loop {
            if let Some(end) = end.get() {
                return end.clone();
            }
            state = match state.writer.take() {
                Some(writer) => self.run(state, writer),
                None => self.ended.wait(state),
            };
        }
    }

    /// Runs the next round.
    fn run<'a>(&'a self, mut state: MutexGuard<'a, State>, writer: Writer) -> MutexGuard<'a, State> {
        let round = mem::take(&mut state.next);
        let plan = state.plan(&round);
        let checked = state.check();
        drop(state);
        let mut turn = Turn { rounds: self, writer: Some(writer), round: round.end, result: None };
        turn.result = Some(checked.and_then(|()| self.write(turn.writer.as_mut().expect("until the drop"), &plan)));
        drop(turn);
        self.state.lock()
    }

    /// Does what `plan` says.
    ///
    /// # Errors
    /// When nothing is known of what was done. What was refused stands in the end of the round.
    fn write(&self, writer: &mut Writer, plan: &Plan) -> Result<End, SubjectKeysError> {
        let Plan { creates, destroys, destroyed } = plan;
        let mut created = Ok(());
        if !creates.is_empty() || !destroys.is_empty() {
            let appended = writer.append(creates, &self.source)?;
            writer.file.set_stage(destroys.values().copied(), Stage::Ending)?;
            writer.file.sync()?;
            let slots = appended.unwrap_or_else(|refused| {
                created = Err(refused);
                Vec::new()
            });
            writer.extend(&slots)?;
            self.state.lock().publish(&slots, destroys);
        }
        if !destroys.is_empty() {
            writer.file.overwrite(destroys.values().copied())?;
        }
        Ok(End { created, destroyed: Ok(destroyed.clone()) })
    }
}

/// Ends a round, also one whose thread panics: nobody waits for ever.
struct Turn<'a> {
    rounds: &'a Rounds,
    writer: Option<Writer>,
    round: Arc<OnceLock<End>>,
    result: Option<Result<End, SubjectKeysError>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let panicked = || Err(SubjectKeysError::Failed { why: "a thread has panicked".to_owned() });
        let result = self.result.take().unwrap_or_else(panicked);
        let mut state = self.rounds.state.lock();
        let end = result.unwrap_or_else(|error| {
            state.failed.get_or_insert_with(|| error.as_lasting());
            End { created: Err(error.clone()), destroyed: Err(error) }
        });
        state.writer = self.writer.take();
        self.round.get_or_init(|| end);
        self.rounds.ended.notify_all();
    }
}

impl State {
    fn check(&self) -> Result<(), SubjectKeysError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Where the live key of the subject is, if its generation is not higher.
    fn live_up_to(&self, digest: &Digest, generation: u32) -> Option<Place> {
        self.index.last(digest).filter(|last| last.generation <= generation)?.live
    }

    fn plan(&self, round: &Round) -> Plan {
        let is_keyless = |digest: &&Digest| self.index.live(digest).is_none();
        let identity = |digest: &Digest| Identity { digest: *digest, generation: self.index.next_generation(digest) };
        let creates = round.creates.iter().filter(is_keyless).map(identity).collect();
        let mut destroys = BTreeMap::new();
        let mut destroyed = Vec::with_capacity(round.destroys.len());
        for (digest, generation) in &round.destroys {
            let place = self.live_up_to(digest, *generation);
            // The first of several calls has destroyed it.
            destroyed.push(place.is_some_and(|place| destroys.insert(*digest, place).is_none()));
        }
        Plan { creates, destroys, destroyed }
    }

    fn publish(&mut self, slots: &[(Identity, Place)], destroys: &BTreeMap<Digest, Place>) {
        for (identity, place) in slots {
            let follows = self.index.add(*identity, Some(*place));
            assert!(follows, "generation {} at {place:?} follows on no key that ended", identity.generation);
        }
        destroys.keys().for_each(|digest| self.index.end(digest));
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use enact_sync::{Arc, thread};

    use super::*;
    use crate::disk::DiskFile;
    use crate::subject_keys::file::KeyFile;

    /// A file that takes everything and keeps nothing: rounds read none of it.
    #[derive(Debug)]
    struct Sink {
        is_panicking: bool,
    }

    impl DiskFile for Sink {
        fn size(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn read_at(&self, _offset: u64, _buf: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn set_size(&self, _size: u64) -> io::Result<()> {
            Ok(())
        }

        fn is_linked(&self) -> io::Result<bool> {
            Ok(true)
        }

        fn sync(&self) -> io::Result<()> {
            assert!(!self.is_panicking, "as it was asked to");
            // Others may come meanwhile.
            thread::yield_now();
            Ok(())
        }
    }

    fn rounds(is_panicking: bool) -> Arc<Rounds> {
        let file = KeyFile { file: std::sync::Arc::new(Sink { is_panicking }), store: [0; 16] };
        let writer = Writer { file, end: Place::FIRST, lesser_mark: 0 };
        Arc::new(Rounds::new(writer, Index::with_capacity(0)))
    }

    #[cfg(not(any(enact_loom, enact_shuttle)))]
    #[test]
    fn a_panic_of_the_thread_that_writes_fails_the_store() {
        let rounds = rounds(true);
        let first = Arc::clone(&rounds);
        thread::spawn(move || first.create([1; 16])).join().unwrap_err();
        let failed = rounds.create([2; 16]).unwrap_err();
        assert!(matches!(failed, SubjectKeysError::Failed { .. }), "{failed}");
        assert_eq!(rounds.last(&[1; 16]), None);
    }

    /// Explored by the model checkers: `--cfg enact_loom`, filter `interleaving`.
    #[test]
    fn every_interleaving_of_creates_and_destroys_answers_everybody() {
        const ADA: Digest = [1; 16];
        enact_sync::explore(1000, || {
            let rounds = rounds(false);
            let destroyed = |rounds: &Rounds, generation| {
                rounds.create(ADA).unwrap();
                usize::from(rounds.destroy(ADA, generation).unwrap())
            };
            let other = Arc::clone(&rounds);
            let other = thread::spawn(move || destroyed(&other, 1));
            let destroyed_count = destroyed(&rounds, u32::MAX) + other.join().unwrap();
            let last = rounds.last(&ADA).unwrap();
            let live_count = usize::from(last.live.is_some());
            assert_eq!(destroyed_count + live_count, last.generation as usize, "each key lives or was destroyed once");
        });
    }
}
