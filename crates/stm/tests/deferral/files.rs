//! S4-L4 and S4-L5: durable output in a guaranteed order, and a pool of open files.
use std::sync::{Arc, Mutex};

use enact_stm::{Deferrable, TCell, TMap, atomically};
use tokio::sync::oneshot;

use crate::{Task, once};

/// What two devices were asked to do, in the order in which it happened.
type Trace = Arc<Mutex<Vec<&'static str>>>;

/// The buffer of listing 4: is it on the disk?
type Buffer = Deferrable<TCell<bool>, ()>;

struct Listing4 {
    trace: Trace,
    first: Arc<Deferrable<(), ()>>,
    first_buffer: Arc<Buffer>,
    second: Arc<Deferrable<(), ()>>,
    second_buffer: Arc<Buffer>,
}

impl Listing4 {
    fn new() -> Self {
        let buffer = || Arc::new(Deferrable::new(TCell::new(false), ()));
        Self {
            trace: Trace::default(),
            first: crate::object(()),
            first_buffer: buffer(),
            second: crate::object(()),
            second_buffer: buffer(),
        }
    }

    /// T1, lines 1 to 6; its `fsync` takes until `synced`.
    async fn t1(&self, synced: oneshot::Receiver<()>) {
        let synced = Mutex::new(Some(synced));
        atomically(|tx| {
            let synced = synced.lock().expect("no panic").take().expect("one attempt");
            let trace = Arc::clone(&self.trace);
            tx.defer_async((&self.first, &self.first_buffer), |(_, buffer)| {
                Box::pin(async move {
                    trace.lock().expect("no panic").push("write first");
                    synced.await.expect("the test goes on");
                    trace.lock().expect("no panic").push("sync first");
                    let is_durable = buffer.shared();
                    atomically(|tx| tx.write(is_durable, true)).await;
                })
            })
            .map(drop)
        })
        .await;
    }

    /// T2, lines 7 to 13.
    async fn t2(&self) {
        atomically(|tx| {
            let is_first_durable = tx.open(&self.first_buffer)?;
            if tx.read(is_first_durable)? {
                let trace = Arc::clone(&self.trace);
                tx.defer((&self.second, &self.second_buffer), move |(_, buffer)| {
                    trace.lock().expect("no panic").extend(["write second", "sync second"]);
                    let is_durable = buffer.shared();
                    once(|tx| tx.write(is_durable, true));
                })
                .map(drop)?;
            }
            Ok(())
        })
        .await;
    }

    fn trace(&self) -> Vec<&'static str> {
        self.trace.lock().expect("no panic").clone()
    }
}

// Case S4-L4.
#[test]
fn before_the_first_write_nothing_is_written_to_the_second_file() {
    let files = Listing4::new();
    assert!(Task::new(files.t2()).poll().is_some());
    assert_eq!(files.trace(), <[&str; 0]>::default());
}

// Case S4-L4.
#[test]
fn during_the_first_write_the_second_waits_and_follows_it() {
    let files = Listing4::new();
    let (sync, synced) = oneshot::channel();
    let mut t1 = Task::new(files.t1(synced));
    let mut t2 = Task::new(files.t2());
    assert!(t1.poll().is_none());
    assert!(t2.poll().is_none());
    assert_eq!((files.trace(), t2.wakes()), (vec!["write first"], 0));
    sync.send(()).expect("the operation waits");
    assert!(t1.poll().is_some());
    assert!(t2.wakes() > 0);
    assert!(t2.poll().is_some());
    assert_eq!(files.trace(), ["write first", "sync first", "write second", "sync second"]);
    assert!(once(|tx| {
        let is_durable = tx.open(&files.second_buffer)?;
        tx.read(is_durable)
    }));
}

// Case S4-L4.
#[test]
fn after_the_first_write_the_second_does_not_wait() {
    let files = Listing4::new();
    let (sync, synced) = oneshot::channel();
    sync.send(()).expect("kept until it is received");
    assert!(Task::new(files.t1(synced)).poll().is_some());
    assert!(Task::new(files.t2()).poll().is_some());
    assert_eq!(files.trace(), ["write first", "sync first", "write second", "sync second"]);
}

/// The pool of listing 5: at most so many files are open. The private part is what the system would know.
struct Pool {
    files: TMap<u32, ()>,
    open_count: TCell<usize>,
}

#[derive(Default)]
struct System {
    open: std::collections::HashSet<u32>,
    most: usize,
    /// The next close of this file fails.
    stuck: Option<u32>,
}

const OPEN_MAX: usize = 3;

#[derive(Debug, PartialEq)]
struct CloseFailed(u32);

fn pool(stuck: Option<u32>) -> Arc<Deferrable<Pool, System>> {
    let shared = Pool { files: TMap::new(), open_count: TCell::new(0) };
    Arc::new(Deferrable::new(shared, System { stuck, ..System::default() }))
}

/// Makes sure that a file is open, closing another one if there are too many.
fn open_file(pool: &Arc<Deferrable<Pool, System>>, file: u32) -> Result<(), CloseFailed> {
    let outcome = once(|tx| {
        let shared = tx.open(pool)?;
        if shared.files.contains_key(tx, &file)? {
            return Ok(None);
        }
        let mut victim = None;
        if tx.read(&shared.open_count)? == OPEN_MAX {
            let smallest =
                shared.files.entries(tx)?.into_iter().map(|(file, ())| *file).min().expect("the pool is full");
            shared.files.remove(tx, &smallest)?;
            victim = Some(smallest);
        } else {
            tx.update(&shared.open_count, |n| n + 1)?;
        }
        shared.files.insert(tx, file, ())?;
        tx.defer((pool,), move |(pool,)| {
            if let Some(victim) = victim {
                if pool.stuck.take_if(|stuck| *stuck == victim).is_some() {
                    // The books are put right before anybody else can look at them.
                    let shared = pool.shared();
                    once(|tx| {
                        shared.files.insert(tx, victim, ())?;
                        shared.files.remove(tx, &file).map(drop)
                    });
                    return Err(CloseFailed(victim));
                }
                pool.open.remove(&victim);
            }
            pool.open.insert(file);
            pool.most = pool.most.max(pool.open.len());
            Ok(())
        })
        .map(Some)
    });
    outcome.map_or(Ok(()), |deferred| deferred.take().expect("the operation has ended"))
}

fn assert_books_are_right(pool: Arc<Deferrable<Pool, System>>) {
    let (mut listed, count) = once(|tx| {
        let shared = tx.open(&pool)?;
        let files: Vec<u32> = shared.files.entries(tx)?.into_iter().map(|(file, ())| *file).collect();
        Ok((files, tx.read(&shared.open_count)?))
    });
    let system = crate::private_of(pool);
    let mut open: Vec<u32> = system.open.into_iter().collect();
    listed.sort_unstable();
    open.sort_unstable();
    assert_eq!((&listed, count), (&open, open.len()));
    assert!(system.most <= OPEN_MAX, "{} files were open", system.most);
}

// Case S4-L5.
#[test]
fn there_are_never_more_open_files_than_allowed_and_the_books_are_right() {
    let pool = pool(None);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                for n in 0..60 {
                    assert_eq!(open_file(pool, (n * 5 + thread) % 11), Ok(()));
                }
            });
        }
    });
    assert_books_are_right(pool);
}

// Case S4-L5.
#[test]
fn a_close_that_fails_is_told_after_the_commit_and_the_pool_stays_consistent() {
    let pool = pool(Some(0));
    for file in 0..OPEN_MAX as u32 {
        assert_eq!(open_file(&pool, file), Ok(()));
    }
    let failures = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (pool, failures) = (&pool, &failures);
            scope.spawn(move || {
                for file in (10..40).filter(|file| file % 4 == thread) {
                    let failure = open_file(pool, file).err();
                    failures.lock().expect("no panic").extend(failure);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert_eq!(failures, [CloseFailed(0)], "once, and everybody who waited got what they wanted");
    assert_books_are_right(pool);
}
