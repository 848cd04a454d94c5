//! What steps wait for: cores, writers, and group commit.

use std::collections::VecDeque;

/// So many servers of one queue, first come, first served.
#[derive(Debug)]
pub(super) struct Servers<T> {
    idle: usize,
    waiting: VecDeque<(T, u64)>,
}

impl<T> Servers<T> {
    pub(super) fn new(count: usize) -> Self {
        Self { idle: count, waiting: VecDeque::new() }
    }

    /// Returns the task if it starts now; otherwise it waits, with how long it will take.
    pub(super) fn enter(&mut self, task: T, ns: u64) -> Option<T> {
        if self.idle == 0 {
            self.waiting.push_back((task, ns));
            return None;
        }
        self.idle -= 1;
        Some(task)
    }

    /// One is done: returns the task that takes its server, with how long that takes.
    pub(super) fn leave(&mut self) -> Option<(T, u64)> {
        let next = self.waiting.pop_front();
        self.idle += usize::from(next.is_none());
        next
    }
}

/// A writer that writes everything at once that waits for it.
#[derive(Debug)]
pub(super) struct Groups<T> {
    is_writing: bool,
    written: Vec<T>,
    waiting: Vec<T>,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Self { is_writing: false, written: Vec::new(), waiting: Vec::new() }
    }
}

impl<T> Groups<T> {
    /// Adds a record. Says whether a group begins with it.
    pub(super) fn enter(&mut self, task: T) -> bool {
        if self.is_writing {
            self.waiting.push(task);
            return false;
        }
        self.written.push(task);
        self.is_writing = true;
        true
    }

    /// The group is durable. Returns it, and whether the next one begins.
    pub(super) fn leave(&mut self) -> (Vec<T>, bool) {
        let next = std::mem::take(&mut self.waiting);
        self.is_writing = !next.is_empty();
        (std::mem::replace(&mut self.written, next), self.is_writing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_take_two_tasks_and_the_others_in_order() {
        let mut servers = Servers::new(2);
        assert_eq!([1, 2, 3, 4].map(|task| servers.enter(task, 10)), [Some(1), Some(2), None, None]);
        assert_eq!([servers.leave(), servers.leave(), servers.leave()], [Some((3, 10)), Some((4, 10)), None]);
        assert_eq!(servers.enter(5, 10), Some(5));
    }

    #[test]
    fn what_comes_while_a_group_is_written_is_the_next_group() {
        let mut groups = Groups::default();
        assert_eq!([1, 2, 3].map(|record| groups.enter(record)), [true, false, false]);
        assert_eq!(groups.leave(), (vec![1], true));
        assert!(!groups.enter(4));
        assert_eq!(groups.leave(), (vec![2, 3], true));
        assert_eq!(groups.leave(), (vec![4], false));
        assert!(groups.enter(5));
    }
}
