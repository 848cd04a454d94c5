//! N queens: workers divide the search for solutions among each other, deeper boards first.
//!
//! The published limit on solutions is far above their number, so that the search is exhaustive; the strict variant is
//! told to stop long before that.
use std::collections::HashSet;

use enact::{Cx, actor};
use enact_workloads::savina::{Board, is_safe, search};
use serde::Deserialize;

use super::oracle::{Wrong, equal, holds, within};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

/// The limit of the strict variant.
const STRICT_LIMIT: usize = 1_000;

parameters! {
    /// N queens.
    Queens {
        /// How many queens there are, and how many rows the board has.
        queens: usize = 12,
        /// From how many queens on a worker goes on alone.
        threshold: usize = 4,
        /// How many workers there are.
        workers: usize = 20,
        /// How many priorities there are.
        priorities: i32 = 10,
        /// How many solutions are enough.
        limit: usize = 1_500_000,
    }
}

/// Whether all queens of a board are safe.
fn is_solution(board: &[u8], queens: usize) -> bool {
    board.len() == queens
        && (0..queens).all(|row| usize::from(board[row]) < queens && is_safe(&board[..row], board[row]))
}

struct Master {
    workers: Vec<WorkerRef>,
    limit: usize,
    sent: usize,
    done: usize,
    solutions: Vec<Board>,
    is_stopping: bool,
    confirmed: usize,
    report: Report<Found>,
    _presence: Presence,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Found {
    works: usize,
    solutions: Vec<Board>,
}

#[actor]
impl Master {
    fn work(&mut self, cx: &Cx<Self>, priority: i32, board: Board) {
        self.workers[self.sent % self.workers.len()].tell().work(priority, board, cx.handle());
        self.sent += 1;
    }

    fn solution(&mut self, cx: &Cx<Self>, board: Board) {
        self.solutions.push(board);
        if self.solutions.len() == self.limit {
            self.stop_workers(cx);
        }
    }

    fn done(&mut self, cx: &Cx<Self>) {
        self.done += 1;
        if self.done == self.sent {
            self.stop_workers(cx);
        }
    }

    fn confirm(&mut self, cx: &Cx<Self>) {
        self.confirmed += 1;
        if self.confirmed == self.workers.len() {
            self.report.give(Found { works: self.sent, solutions: std::mem::take(&mut self.solutions) });
            cx.stop();
        }
    }
}

impl Master {
    fn stop_workers(&mut self, cx: &Cx<Self>) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            self.workers.iter().for_each(|worker| drop(worker.tell().exit(cx.handle())));
        }
    }
}

struct Worker {
    queens: usize,
    threshold: usize,
    _presence: Presence,
}

#[actor]
impl Worker {
    /// Lower numbers come first.
    #[priority(-*priority)]
    fn work(&mut self, priority: i32, board: Board, master: MasterRef) {
        self.extend(priority, board, &master);
        master.tell().done();
    }

    fn exit(&mut self, cx: &Cx<Self>, master: MasterRef) {
        master.tell().confirm();
        cx.stop();
    }
}

impl Worker {
    fn extend(&self, priority: i32, mut board: Board, master: &MasterRef) {
        if board.len() >= self.threshold.min(self.queens) {
            search(&mut board, self.queens, &mut |solution| drop(master.tell().solution(solution.to_vec())));
            return;
        }
        for column in (0..self.queens as u8).filter(|&column| is_safe(&board, column)) {
            let extended = board.iter().copied().chain([column]).collect();
            master.tell().work((priority - 1).max(0), extended);
        }
    }
}

/// Counts this board and all that follow from it, by the columns and diagonals that are attacked: another way than
/// [`search`]'s.
fn count(all: u32, columns: u32, left: u32, right: u32, row: usize, by_row: &mut [u64]) {
    by_row[row] += 1;
    let mut free = all & !(columns | left | right);
    while free != 0 {
        let queen = free & free.wrapping_neg();
        free ^= queen;
        count(all, columns | queen, (left | queen) << 1, (right | queen) >> 1, row + 1, by_row);
    }
}

pub(super) struct Prepared {
    limit: usize,
    /// Boards without attacks, by number of queens.
    boards: Vec<u64>,
}

impl Queens {
    fn boards(&self) -> Vec<u64> {
        let mut by_row = vec![0; self.queens + 1];
        count((1 << self.queens) - 1, 0, 0, 0, 0, &mut by_row);
        by_row
    }
}

impl Program for Queens {
    const NAME: &'static str = "nqn";
    const TITLE: &'static str = "N-Queens First K Solutions";
    const VARIANTS: &'static [Variant] = &[Variant::Port, Variant::Strict];
    type Prepared = Prepared;
    type Found = Option<Found>;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.workers > 0 && (1..=20).contains(&self.queens) && self.limit > 0 && self.priorities > 0;
        (!possible).then_some("there is a worker, a priority, a solution to find, and there are 1 to 20 queens")
    }

    fn prepare(&self, variant: Variant) -> Prepared {
        let limit = if variant == Variant::Strict { self.limit.min(STRICT_LIMIT) } else { self.limit };
        Prepared { limit, boards: self.boards() }
    }

    fn start(&self, prepared: &Prepared, stage: &Stage) -> Findings<Option<Found>> {
        let (report, reported) = reports();
        let worker =
            |_| stage.spawn(Worker { queens: self.queens, threshold: self.threshold, _presence: stage.presence() });
        let master = Master {
            workers: (0..self.workers).map(worker).collect(),
            limit: prepared.limit,
            sent: 0,
            done: 0,
            solutions: Vec::new(),
            is_stopping: false,
            confirmed: 0,
            report,
            _presence: stage.presence(),
        };
        stage.spawn(master).tell().work(self.priorities - 1, Board::new());
        Box::new(move || reported.only())
    }

    fn verify(&self, Prepared { limit, boards }: &Prepared, found: &Option<Found>) -> Result<Verified, Wrong> {
        let Found { works, solutions } = found.as_ref().unwrap_or(const { &Found { works: 0, solutions: Vec::new() } });
        let exist = boards[self.queens] as usize;
        let works_max = boards[..=self.threshold.min(self.queens)].iter().sum::<u64>() as usize;
        if *limit > exist {
            equal("solutions", solutions.len(), exist)?;
            equal("works", *works, works_max)?;
        } else {
            within("solutions", solutions.len() as u64, *limit as u64, exist as u64)?;
            within("works", *works as u64, 1, works_max as u64)?;
        }
        holds("all are solutions", solutions.iter().all(|board| is_solution(board, self.queens)))?;
        equal("different solutions", solutions.iter().collect::<HashSet<_>>().len(), solutions.len())?;
        let messages = 3 * works - 1 + solutions.len() + 2 * self.workers;
        Ok(Verified::after(messages as u64).with_fact("solutions", solutions.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let published = [1, 12, 110, 756, 4080, 16852, 52856, 120_104, 195_270, 222_720, 160_964, 68264, 14200];
        assert_eq!(Queens::default().boards(), published);
        for (queens, solutions) in [(8, 92), (9, 352), (10, 724), (11, 2680)] {
            assert_eq!(Queens { queens, ..Queens::default() }.boards()[queens], solutions);
        }
    }

    #[test]
    fn an_attacked_queen_a_solution_found_twice_or_lost_is_refused() {
        let program = Queens { queens: 6, ..Queens::default() };
        let prepared = program.prepare(Variant::Port);
        let works = prepared.boards[..=4].iter().sum::<u64>() as usize;
        let mut solutions = Vec::new();
        search(&mut Board::new(), 6, &mut |board| solutions.push(board.to_vec()));
        let verdict = |solutions: &[Board]| {
            program.verify(&prepared, &Some(Found { works, solutions: solutions.to_vec() })).is_ok()
        };
        assert_eq!(solutions.len(), 4);
        assert!(verdict(&solutions));
        assert!(!verdict(&solutions[1..]));
        let twice: Vec<_> = solutions[1..].iter().chain([&solutions[1]]).cloned().collect();
        assert!(!verdict(&twice));
        let mut attacked = solutions.clone();
        attacked[2].swap(1, 4);
        assert!(!verdict(&attacked));
    }
}
