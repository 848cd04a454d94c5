//! A log with group commit: a thread writes and syncs all that has gathered while it wrote and synced what was before.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// The end of the log.
pub(super) struct Log(Arc<Shared>);

struct Shared {
    gathered: Mutex<Batch>,
    not_empty: Condvar,
}

/// What is written and synced at once, and the requests that wait for it.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Log {
    /// A new log at `path`, whose syncs take `sync_min` at least.
    pub(super) fn start(path: &Path, sync_min: Option<Duration>) -> io::Result<Self> {
        let file = File::create_new(path)?;
        let shared = Arc::new(Shared { gathered: Mutex::default(), not_empty: Condvar::new() });
        let own = Arc::clone(&shared);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || own.write_all(file, sync_min.unwrap_or_default()))?;
        Ok(Self(shared))
    }

    /// Adds what `write` writes to the next batch. Resolves when it is durable; fails if the log cannot be written.
    pub(super) fn append(&self, write: impl FnOnce(&mut Vec<u8>)) -> oneshot::Receiver<()> {
        let (durable, is_durable) = oneshot::channel();
        let mut batch = self.0.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut batch.bytes);
        batch.waiting.push(durable);
        if batch.waiting.len() == 1 {
            self.0.not_empty.notify_one();
        }
        is_durable
    }
}

impl Shared {
    /// Writes batch after batch. What waits when the disk refuses one is not answered, nor is anything after it.
    fn write_all(&self, mut file: File, sync_min: Duration) {
        let mut batch = Batch::default();
        loop {
            let gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
            let mut gathered = self
                .not_empty
                .wait_while(gathered, |gathered| gathered.waiting.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *gathered, &mut batch);
            drop(gathered);
            let begin = Instant::now();
            if let Err(error) = file.write_all(&batch.bytes).and_then(|()| file.sync_data()) {
                eprintln!("error: the log cannot be written: {error}");
                std::process::exit(1);
            }
            thread::sleep(sync_min.saturating_sub(begin.elapsed()));
            batch.bytes.clear();
            // A client that has left does not wait.
            batch.waiting.drain(..).for_each(|durable| _ = durable.send(()));
        }
    }
}
