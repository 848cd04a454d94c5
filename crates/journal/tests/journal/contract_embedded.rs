//! The contract, kept by the embedded journal in a directory of the operating system.

use std::cmp::Reverse;
use std::path::PathBuf;

use enact_journal::{Embedded, Options};
use enact_journal_kit::contract::{Harness, block_on};
use tempfile::TempDir;

/// A crash leaves a directory as it is at that moment: the journal is opened on a copy of its files.
struct InDirectory {
    dir: TempDir,
    path: PathBuf,
    crash_count: u32,
}

impl InDirectory {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("data");
        Self { dir, path, crash_count: 0 }
    }
}

impl Harness for InDirectory {
    type Journal = Embedded;

    async fn open(&mut self) -> Embedded {
        Embedded::open(&self.path, Options { segment_bytes: 4096, ..Options::default() }).expect("the journal opens")
    }

    async fn crash(&mut self, journal: Embedded) {
        self.crash_count += 1;
        let image = self.dir.path().join(format!("after-crash-{}", self.crash_count));
        std::fs::create_dir(&image).expect("a directory");
        restrict(&image);
        let entries = std::fs::read_dir(&self.path).expect("the data directory");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        // The manifest, then snapshots, then later segments before earlier ones: while the writer goes on, each file
        // that is copied is at least as new as those that rest on it, as on a disk.
        names.sort_unstable_by_key(|name| (name != "manifest", Reverse(name.clone())));
        for name in names {
            // A segment may get its final name between listing and copying; nobody was told of its records then.
            if std::fs::copy(self.path.join(&name), image.join(&name)).is_err() {
                assert!(name.to_string_lossy().ends_with(".new"), "{name:?}");
            }
        }
        drop(journal);
        self.path = image;
    }
}

fn restrict(dir: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700)).expect("permissions");
}

enact_journal_kit::contract_tests!(InDirectory::new(), block_on);
