//! N queens. No library here has a mailbox with priorities that is open to its users, so urgent work waits in a heap.
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use enact_workloads::savina::{Board, is_safe, search};
use serde::{Deserialize, Serialize};

use crate::stage::{Behaviour, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct Queens {
    queens: usize,
    threshold: usize,
    workers: usize,
    priorities: u64,
    limit: usize,
}

struct Master<L: Library> {
    workers: Vec<L::Ref<Worker<L>>>,
    limit: usize,
    sent: usize,
    done: usize,
    solutions: Vec<Board>,
    is_stopping: bool,
    confirmed: usize,
    report: Report<Found>,
    _presence: Presence,
}

#[derive(Serialize)]
pub(super) struct Found {
    works: usize,
    solutions: Vec<Board>,
}

enum ToMaster {
    Work(u64, Board),
    Solution(Board),
    Done,
    Confirm,
}

impl<L: Library> Behaviour<L> for Master<L> {
    type Message = ToMaster;

    fn handle(&mut self, message: ToMaster, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToMaster::Work(priority, board) => {
                let worker = &self.workers[self.sent % self.workers.len()];
                L::tell(worker, ToWorker::Work(priority, Work { board, master: me() }));
                self.sent += 1;
            }
            ToMaster::Solution(board) => {
                self.solutions.push(board);
                if self.solutions.len() == self.limit {
                    self.stop_workers(me());
                }
            }
            ToMaster::Done => {
                self.done += 1;
                if self.done == self.sent {
                    self.stop_workers(me());
                }
            }
            ToMaster::Confirm => {
                self.confirmed += 1;
                if self.confirmed == self.workers.len() {
                    self.report.give(Found { works: self.sent, solutions: std::mem::take(&mut self.solutions) });
                    return STOP;
                }
            }
        }
        NEXT
    }
}

impl<L: Library> Master<L> {
    fn stop_workers(&mut self, me: L::Ref<Self>) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            self.workers.iter().for_each(|worker| L::tell(worker, ToWorker::Exit(me.clone())));
        }
    }
}

struct Worker<L: Library> {
    queens: usize,
    threshold: usize,
    /// By priority and arrival.
    agenda: BTreeMap<(u64, u64), Work<L>>,
    arrivals: u64,
    _presence: Presence,
}

/// A board to extend, and for whom.
struct Work<L: Library> {
    board: Board,
    master: L::Ref<Master<L>>,
}

enum ToWorker<L: Library> {
    Work(u64, Work<L>),
    TakeUp,
    Exit(L::Ref<Master<L>>),
}

impl<L: Library> Behaviour<L> for Worker<L> {
    type Message = ToWorker<L>;

    fn handle(&mut self, message: ToWorker<L>, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToWorker::Work(priority, work) => {
                self.arrivals += 1;
                self.agenda.insert((priority, self.arrivals), work);
                if self.agenda.len() == 1 {
                    L::tell(&me(), ToWorker::TakeUp);
                }
            }
            ToWorker::TakeUp => {
                if let Some(((priority, _), Work { board, master })) = self.agenda.pop_first() {
                    self.extend(priority, board, &master);
                    L::tell(&master, ToMaster::Done);
                }
                if !self.agenda.is_empty() {
                    L::tell(&me(), ToWorker::TakeUp);
                }
            }
            ToWorker::Exit(master) => {
                L::tell(&master, ToMaster::Confirm);
                return STOP;
            }
        }
        NEXT
    }
}

impl<L: Library> Worker<L> {
    fn extend(&self, priority: u64, mut board: Board, master: &L::Ref<Master<L>>) {
        if board.len() >= self.threshold.min(self.queens) {
            search(&mut board, self.queens, &mut |solution| L::tell(master, ToMaster::Solution(solution.to_vec())));
            return;
        }
        for column in (0..self.queens as u8).filter(|&column| is_safe(&board, column)) {
            let extended = board.iter().copied().chain([column]).collect();
            L::tell(master, ToMaster::Work(priority.saturating_sub(1), extended));
        }
    }
}

impl Program for Queens {
    type Found = Option<Found>;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Option<Found>> {
        let (report, reported) = reports();
        let worker = |_| {
            stage.spawn(Worker {
                queens: self.queens,
                threshold: self.threshold,
                agenda: BTreeMap::new(),
                arrivals: 0,
                _presence: stage.presence(),
            })
        };
        let master = Master {
            workers: (0..self.workers).map(worker).collect(),
            limit: self.limit,
            sent: 0,
            done: 0,
            solutions: Vec::new(),
            is_stopping: false,
            confirmed: 0,
            report,
            _presence: stage.presence(),
        };
        L::tell(&stage.spawn(master), ToMaster::Work(self.priorities - 1, Board::new()));
        Box::new(move || reported.only())
    }
}
