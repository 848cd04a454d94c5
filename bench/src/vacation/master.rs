//! The actor that counts what is done.
use enact::{Resolver, actor};
use enact_workloads::vacation::Commit;

/// Waits for a number of commits and hands them over together.
pub(super) struct Master {
    awaited: usize,
    commits: Vec<Commit>,
    all_done: Option<Resolver<Vec<Commit>>>,
}

impl Master {
    pub(super) fn new(awaited: usize, all_done: Resolver<Vec<Commit>>) -> Self {
        Self { awaited, commits: Vec::with_capacity(awaited), all_done: Some(all_done) }
    }
}

#[actor(pub(super))]
impl Master {
    /// Counts `commit`. One too many comes only after a mistake, which shows in the state.
    pub(super) fn done(&mut self, commit: Commit) {
        self.commits.push(commit);
        if self.commits.len() == self.awaited
            && let Some(all_done) = self.all_done.take()
        {
            all_done.resolve(std::mem::take(&mut self.commits));
        }
    }
}
