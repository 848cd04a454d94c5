//! The locks that transactions are compared with: one around all data of a workload.

/// A kind of lock, with its condition variable.
pub trait Locks: 'static {
    /// A lock around `T`.
    type Lock<T: Send>: Lock<T>;
    /// Where threads wait for a change.
    type Condition: Default + Send + Sync;

    /// Waits until `may_go` holds, then changes the data; all that wait look again.
    fn change_when<T: Send>(
        lock: &Self::Lock<T>,
        condition: &Self::Condition,
        may_go: impl FnMut(&T) -> bool,
        change: impl FnOnce(&mut T),
    );
}

/// A lock around `T`.
pub trait Lock<T>: Send + Sync {
    /// A lock that is free.
    fn new(data: T) -> Self;
    /// Runs `f` while the lock is held.
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R;
}

/// Those of the standard library.
#[derive(Debug)]
pub struct Std;

impl<T: Send> Lock<T> for std::sync::Mutex<T> {
    fn new(data: T) -> Self {
        Self::new(data)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.lock().expect("no holder panics"))
    }
}

impl Locks for Std {
    type Lock<T: Send> = std::sync::Mutex<T>;
    type Condition = std::sync::Condvar;

    #[inline]
    fn change_when<T: Send>(
        lock: &Self::Lock<T>,
        condition: &Self::Condition,
        mut may_go: impl FnMut(&T) -> bool,
        change: impl FnOnce(&mut T),
    ) {
        let held = lock.lock().expect("no holder panics");
        let mut held = condition.wait_while(held, |data| !may_go(data)).expect("no holder panics");
        change(&mut held);
        drop(held);
        condition.notify_all();
    }
}

/// Those of the crate `parking_lot`.
#[derive(Debug)]
pub struct ParkingLot;

impl<T: Send> Lock<T> for parking_lot::Mutex<T> {
    fn new(data: T) -> Self {
        Self::new(data)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.lock())
    }
}

impl Locks for ParkingLot {
    type Lock<T: Send> = parking_lot::Mutex<T>;
    type Condition = parking_lot::Condvar;

    #[inline]
    fn change_when<T: Send>(
        lock: &Self::Lock<T>,
        condition: &Self::Condition,
        mut may_go: impl FnMut(&T) -> bool,
        change: impl FnOnce(&mut T),
    ) {
        let mut held = lock.lock();
        condition.wait_while(&mut held, |data| !may_go(data));
        change(&mut held);
        drop(held);
        condition.notify_all();
    }
}
