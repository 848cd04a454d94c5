//! Memory of queues that have been long, for others that become so.
//!
//! A burst of messages makes queues grow, and when it is over they are short again. Given back to the allocator, such memory
//! often goes back to the system, and comes again page by page with the next burst, which costs more than the messages. And
//! an allocator that has threads wait for each other, asleep, does so where one thread frees or enlarges what another had
//! allocated, as senders and receivers do with every queue. So some memory is kept here: at most 13 MiB a process.
use enact_sync::unmodelled::LazyLock;
use enact_sync::{Mutex, global};

use super::records::Word;

/// The first buffer of a queue, in words: a message with an argument and a reply. An idle actor keeps it.
const FIRST: usize = 3;
/// The shortest buffer that is kept, in words.
const SHORTEST: usize = 32;
/// The longest, in words.
const LONGEST: usize = SHORTEST << (CLASSES - 1);
/// How many lengths there are, each twice the one before.
const CLASSES: usize = 13;
/// How much is kept of each length, in words: 1 MiB.
const KEPT_OF_EACH: usize = 1 << 17;

pub(super) type Buffer = Vec<Word>;

/// Empty buffers by length, of all systems of the process.
#[derive(Default)]
pub(crate) struct Buffers([Mutex<Vec<Buffer>>; CLASSES]);

global! {
    /// The process's own.
    pub(crate) static BUFFERS: LazyLock<Buffers> = LazyLock::new(Buffers::default);
}

impl Buffers {
    /// An empty buffer of at least so many words.
    pub(super) fn take(&self, words: usize) -> Buffer {
        let words = if words <= FIRST { FIRST } else { words.next_power_of_two() };
        let kept = class_of(words).and_then(|class| self.0[class].lock().pop());
        kept.unwrap_or_else(|| Vec::with_capacity(words))
    }

    /// Keeps a buffer that is not needed any more, if it is of a length that is kept and there are not too many.
    pub(super) fn put(&self, mut buffer: Buffer) {
        let Some(class) = class_of(buffer.capacity()) else { return };
        buffer.clear();
        let mut kept = self.0[class].lock();
        if (kept.len() + 1) * buffer.capacity() <= KEPT_OF_EACH {
            kept.push(buffer);
        }
    }
}

/// Which list buffers of exactly so many words are in.
fn class_of(words: usize) -> Option<usize> {
    let is_kept = words.is_power_of_two() && (SHORTEST..=LONGEST).contains(&words);
    is_kept.then(|| words.ilog2() as usize - SHORTEST.ilog2() as usize)
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_for_what_needs_more_than_half_of_it() {
        let buffers = Buffers::default();
        let buffer = buffers.take(2 * SHORTEST);
        let at = buffer.as_ptr();
        buffers.put(buffer);
        let others = [SHORTEST, 2 * SHORTEST + 1].map(|words| buffers.take(words));
        assert!(others.iter().all(|other| other.as_ptr() != at));
        let again = buffers.take(SHORTEST + 1);
        assert_eq!((again.as_ptr(), again.len(), again.capacity()), (at, 0, 2 * SHORTEST));
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of buffers, and no unsafe code")]
    fn no_more_is_kept_than_what_was_said() {
        let buffers = Buffers::default();
        for length in (0..=CLASSES).map(|class| SHORTEST << class) {
            (0..2 * KEPT_OF_EACH / length + 1).for_each(|_| buffers.put(Vec::with_capacity(length)));
        }
        let kept: Vec<usize> = buffers.0.iter().map(|kept| kept.lock().iter().map(Vec::capacity).sum()).collect();
        assert_eq!(kept, [KEPT_OF_EACH; CLASSES]);
        assert_eq!(KEPT_OF_EACH * CLASSES * size_of::<Word>(), 13 << 20);
    }
}
