//! Oracles accept what is right and refuse what is wrong.
//!
//! [`Memory`] is a small transactional memory that is right, races, or forgets, as its parameter says.
#![expect(unused_lifetimes, reason = "the trait's lifetimes mean nothing to a memory that clones")]

use std::ops::Deref;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use super::*;

/// One transaction at a time.
const SOUND: u8 = 0;
/// Transactions run side by side without regard to each other; the first two that read a cell meet there.
const RACY: u8 = 1;
/// One at a time, but every second write is lost, unless it is the one that ends a game.
const FORGETFUL: u8 = 2;

struct Memory<const KIND: u8>;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Cell {
    number: AtomicI64,
    loads: AtomicU64,
    meeting: Barrier,
}

/// An attempt has to wait.
#[derive(Debug)]
struct Wait;

struct Owned<T>(T);

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<const KIND: u8> Memory<KIND> {
    fn forgets() -> bool {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        KIND == FORGETFUL && WRITES.fetch_add(1, SeqCst) % 2 == 1
    }

    fn attempt<R>(block: impl FnOnce(&mut ()) -> Result<R, Wait>) -> Result<R, Wait> {
        let _alone = (KIND != RACY).then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
        block(&mut ())
    }
}

impl<const KIND: u8> Stm for Memory<KIND> {
    type Cell = Cell;
    type Var<T: Clone + Send + Sync + 'static> = Mutex<T>;
    type Tx<'t, 'env: 't> = ();
    type Abort = Wait;
    type Read<'t, T: Clone + Send + Sync + 'static> = Owned<T>;
    type Tree = CloningTree<Self>;

    fn cell(number: i64) -> Cell {
        Cell { number: AtomicI64::new(number), loads: AtomicU64::new(0), meeting: Barrier::new(2) }
    }

    fn var<T: Clone + Send + Sync + 'static>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    fn atomically<'env, R, F: Fn(&mut ()) -> Result<R, Wait> + 'env>(block: F) -> R {
        loop {
            if let Ok(result) = Self::attempt(&block) {
                return result;
            }
            thread::yield_now();
        }
    }

    fn load<'t, 'env: 't>((): &mut (), cell: &'t Cell) -> Result<i64, Wait> {
        let number = cell.number.load(SeqCst);
        if KIND == RACY && cell.loads.fetch_add(1, SeqCst) < 2 {
            cell.meeting.wait();
        }
        Ok(number)
    }

    fn store<'t, 'env: 't>((): &mut (), cell: &'t Cell, number: i64) -> Result<(), Wait> {
        if number < 0 || !Self::forgets() {
            cell.number.store(number, SeqCst);
        }
        Ok(())
    }

    fn read<'t, 'env: 't, T: Clone + Send + Sync + 'static>((): &mut (), var: &'t Mutex<T>) -> Result<Owned<T>, Wait> {
        Self::get(&mut (), var).map(Owned)
    }

    fn write<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
        (): &mut (),
        var: &'t Mutex<T>,
        value: T,
    ) -> Result<(), Wait> {
        Self::set(&mut (), var, value)
    }

    fn retry<'t, 'env: 't, R>((): &mut ()) -> Result<R, Wait> {
        Err(Wait)
    }
}

impl<const KIND: u8> Cloning for Memory<KIND> {
    fn get<'t, 'env: 't, T: Clone + Send + Sync + 'static>((): &mut (), var: &Mutex<T>) -> Result<T, Wait> {
        Ok(var.lock().expect("no holder panics").clone())
    }

    fn set<'t, 'env: 't, T: Clone + Send + Sync + 'static>((): &mut (), var: &Mutex<T>, value: T) -> Result<(), Wait> {
        if !Self::forgets() {
            *var.lock().expect("no holder panics") = value;
        }
        Ok(())
    }
}

impl<const KIND: u8> AsyncStm for Memory<KIND> {
    async fn hand_over(turn: &Cell, player: usize) -> bool {
        loop {
            if let Ok(goes_on) = Self::attempt(|tx| hand_over::<Self>(tx, turn, player)) {
                return goes_on;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Every thread runs its operation at least once; players need time to move a few times.
fn two_threads(workload: Workload) -> Run {
    let plays = matches!(workload, Workload::Pingpong | Workload::PingpongTasks);
    Run { workload, threads: 2, length: Duration::from_millis(if plays { 50 } else { 5 }) }
}

fn run_on<const KIND: u8>(workload: Workload) -> Result<Figures, Refusal> {
    match workload {
        Workload::PingpongTasks => between_tasks::<Memory<KIND>>(two_threads(workload)),
        _ => run::<Memory<KIND>>(two_threads(workload)),
    }
}

#[test]
fn oracles_accept_a_sound_memory() {
    for workload in Workload::ALL {
        let figures = run_on::<SOUND>(workload).unwrap_or_else(|refusal| panic!("{workload}: {refusal}"));
        assert!(figures.operations > 0, "{workload}");
        assert_eq!(figures.beside.is_some(), workload == Workload::Sum1000W1, "{workload}");
        let may_wait = matches!(workload, Workload::Pingpong | Workload::PingpongTasks);
        assert_eq!(figures.aborts, (!may_wait).then_some(0), "{workload}");
    }
}

#[test]
fn oracles_accept_locks() {
    for workload in Workload::ALL {
        for result in [run_locked::<Std>(two_threads(workload)), run_locked::<ParkingLot>(two_threads(workload))] {
            match workload {
                Workload::PingpongTasks => assert_eq!(result, Err(Refusal::NotOffered { workload })),
                _ => assert_eq!(result.map(|figures| figures.aborts), Ok(None), "{workload}"),
            }
        }
    }
}

#[test]
fn atomics_have_the_counters_only() {
    for workload in Workload::ALL {
        let offered = matches!(workload, Workload::Counter | Workload::CounterOwn);
        assert_eq!(run_atomic(two_threads(workload)).is_ok(), offered, "{workload}");
    }
}

#[test]
fn the_counter_refuses_an_update_lost_between_two_threads() {
    let refusal = run_on::<RACY>(Workload::Counter).expect_err("two additions to the same number");
    let Refusal::Wrong { what: Verified::Counter, expected, found } = refusal else { panic!("{refusal}") };
    assert!(found < expected, "{refusal}");
}

#[test]
fn oracles_refuse_lost_writes() {
    use Verified::{Counter, Keys, Money, PlacedMoney, Size, SumSeen, Turns};
    #[rustfmt::skip]
    let rows: [(Workload, &[Verified]); 9] = [
        (Workload::Counter,       &[Counter]),
        (Workload::CounterOwn,    &[Counter]),
        (Workload::Transfer,      &[Money, PlacedMoney]),
        (Workload::Sum1000W1,     &[SumSeen, Money, PlacedMoney]),
        (Workload::Read10k,       &[Counter]),
        (Workload::Hash20,        &[Size, Keys]),
        (Workload::Bst20,         &[Size, Keys]),
        (Workload::Pingpong,      &[Turns]),
        (Workload::PingpongTasks, &[Turns]),
    ];
    for (workload, refused_by) in rows {
        match run_on::<FORGETFUL>(workload) {
            Err(Refusal::Wrong { what, .. }) if refused_by.contains(&what) => {}
            other => panic!("{workload}: {other:?}"),
        }
    }
}

#[test]
fn keys_that_do_not_ascend_are_out_of_place() {
    assert_eq!(in_order(vec![1, 2, 7]).1, 0);
    assert_eq!(in_order(vec![1, 1, 7, 2]).1, 2);
}

#[test]
fn names_are_the_same_in_reports_and_on_the_pipe() {
    for workload in Workload::ALL {
        let sent = serde_json::to_value(workload).expect("a name");
        assert_eq!(sent, workload.name());
    }
}
