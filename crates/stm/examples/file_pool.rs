//! A pool of open files with a limit, as in a storage engine: reading what is open goes on in parallel, and opening
//! one file by closing another is one step for everybody who looks at the pool.
//!
//! The books are shared variables; the files themselves are private to deferred operations, which make the system calls.
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, thread};

use enact_stm::{Deferrable, TCell, TMap, atomically, snapshot};

const OPEN_MAX: usize = 3;

/// What transactions see: which files are open, and when each was used last.
struct Books {
    used: TMap<u32, Arc<TCell<u64>>>,
    clock: TCell<u64>,
}

struct Pool {
    directory: PathBuf,
    object: Arc<Deferrable<Books, HashMap<u32, File>>>,
}

impl Pool {
    fn new(directory: &Path) -> Self {
        let books = Books { used: TMap::new(), clock: TCell::new(0) };
        Self { directory: directory.to_owned(), object: Arc::new(Deferrable::new(books, HashMap::new())) }
    }

    /// Makes sure that a file is open; closes the one that was not used for longest if there are too many.
    fn open(&self, file: u32) -> io::Result<()> {
        let opening = atomically(|tx| {
            let books = tx.open(&self.object)?;
            let now = tx.update(&books.clock, |clock| clock + 1)?;
            if let Some(used) = books.used.get(tx, &file)? {
                tx.write(&**used, now)?;
                return Ok(None);
            }
            let mut open = Vec::new();
            for (file, used) in books.used.entries(tx)? {
                open.push((tx.read(&**used)?, *file));
            }
            let victim = if open.len() < OPEN_MAX { None } else { open.into_iter().min().map(|(_, victim)| victim) };
            if let Some(victim) = victim {
                books.used.remove(tx, &victim)?;
            }
            books.used.insert(tx, file, Arc::new(TCell::new(now)))?;
            let path = self.directory.join(file.to_string());
            tx.defer((&self.object,), move |(files,)| {
                victim.map(|victim| files.remove(&victim));
                let opened = File::options().create(true).append(true).open(path);
                let opened = opened.map(|opened| drop(files.insert(file, opened)));
                if opened.is_err() {
                    // The books are put right before anybody can look at them again.
                    let books = files.shared();
                    atomically(|tx| books.used.remove(tx, &file).map(drop)).run();
                }
                assert!(files.len() <= OPEN_MAX);
                opened
            })
            .map(Some)
        })
        .run();
        opening.map_or(Ok(()), |outcome| outcome.take().expect("the operation has ended"))
    }
}

fn main() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let pool = Pool::new(directory.path());
    thread::scope(|scope| {
        for thread in 0..3 {
            let pool = &pool;
            scope.spawn(move || (0..40).for_each(|n| pool.open((n * thread) % 7).expect("the directory is there")));
        }
    });
    let failed = Pool::new(&directory.path().join("missing")).open(1);
    assert_eq!(failed.expect_err("no such directory").kind(), io::ErrorKind::NotFound);

    let (books, files) = Arc::into_inner(pool.object).expect("nobody uses the pool").into_inner();
    let mut listed = snapshot(|tx| Ok(books.used.entries(tx)?.into_iter().map(|(file, _)| *file).collect::<Vec<_>>()));
    let mut open: Vec<u32> = files.into_keys().collect();
    listed.sort_unstable();
    open.sort_unstable();
    println!("open: {open:?}");
    assert_eq!((&open, open.len()), (&listed, OPEN_MAX));
    Ok(())
}
