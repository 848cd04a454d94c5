//! On which CPU a worker wakes up.
//!
//! Where a thread runs that is woken is for the kernel to decide, and some put it beside its waker though another CPU is
//! idle: that of a virtual machine may pack threads on few CPUs on purpose. There it queues up behind its waker; and where
//! that one goes on running, as a worker does that has work for two, both share one CPU until the kernel balances its load,
//! milliseconds later.
//!
//! A worker wakes another only for work that is worth a second CPU, and says so here: it rules its own out for the moment of
//! the wake-up. A thread that somebody has bound to certain CPUs is left alone. On other systems than Linux the
//! kernel decides; the threads of a model and of an interpreter have no CPU.
#[cfg(all(target_os = "linux", not(any(enact_loom, enact_shuttle, miri))))]
pub(super) use self::linux::Placement;
#[cfg(not(all(target_os = "linux", not(any(enact_loom, enact_shuttle, miri)))))]
pub(super) use self::other::Placement;

#[cfg(all(target_os = "linux", not(any(enact_loom, enact_shuttle, miri))))]
mod linux {
    use std::sync::LazyLock;

    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// A thread that may be woken on another CPU than its waker's, and the CPUs that the system leaves it; none if
    /// somebody has bound it to fewer.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Placement(Option<(Pid, CpuSet)>);

    thread_local! {
        static OF_THIS_THREAD: Placement = Placement(Placement::find());
    }

    impl Placement {
        pub(in super::super) fn of_this_thread() -> Self {
            OF_THIS_THREAD.try_with(|placement| *placement).unwrap_or(Self(None))
        }

        fn find() -> Option<(Pid, CpuSet)> {
            let allowed = sched_getaffinity(None).ok()?;
            sched_setaffinity(None, &EVERYWHERE).ok()?;
            if sched_getaffinity(None).ok()? == allowed {
                return Some((gettid(), allowed));
            }
            // A thread that stays unbound runs, too: only not where it was told to.
            let _ = sched_setaffinity(None, &allowed);
            None
        }

        /// Calls `wake`, which wakes the thread, with this thread's CPU ruled out meanwhile, if there is another one.
        pub(in super::super) fn wake_apart(self, wake: impl FnOnce()) {
            let is_ruled_out = self.rule_this_cpu_out();
            wake();
            if is_ruled_out && let Some((thread, _)) = self.0 {
                // Everywhere, and not where it was allowed before: what the system leaves it may grow. It fails only if
                // the thread has ended.
                let _ = sched_setaffinity(Some(thread), &EVERYWHERE);
            }
        }

        fn rule_this_cpu_out(self) -> bool {
            let Some((thread, allowed)) = self.0 else { return false };
            let mut apart = allowed;
            apart.unset(sched_getcpu());
            // A thread that was bound since is left alone.
            apart.count() > 0
                && sched_getaffinity(Some(thread)).is_ok_and(|now| now == allowed)
                && sched_setaffinity(Some(thread), &apart).is_ok()
        }
    }

    static EVERYWHERE: LazyLock<CpuSet> = LazyLock::new(|| {
        let mut everywhere = CpuSet::new();
        (0..CpuSet::MAX_CPU).for_each(|cpu| everywhere.set(cpu));
        everywhere
    });

    #[cfg(test)]
    mod tests {
        use std::sync::mpsc;
        use std::thread;

        use super::*;

        /// Has a thread go through `prepare`, and then be woken after `change`; gives the CPUs that it may run on while
        /// it wakes up, and afterwards.
        fn wake(prepare: impl FnOnce() + Send + 'static, change: impl FnOnce(Pid)) -> (Placement, CpuSet, CpuSet) {
            let (ready, is_ready) = mpsc::channel();
            let (wakes, woken) = mpsc::channel();
            let (tells, told) = mpsc::channel();
            let thread = thread::spawn(move || {
                prepare();
                ready.send((Placement::of_this_thread(), gettid())).unwrap();
                woken.iter().for_each(|()| tells.send(sched_getaffinity(None).unwrap()).unwrap());
                sched_getaffinity(None).unwrap()
            });
            let (placement, id) = is_ready.recv().unwrap();
            change(id);
            let mut meanwhile = None;
            placement.wake_apart(|| {
                wakes.send(()).unwrap();
                meanwhile = told.recv().ok();
            });
            drop(wakes);
            (placement, meanwhile.unwrap(), thread.join().unwrap())
        }

        fn only(cpu: usize) -> CpuSet {
            let mut only = CpuSet::new();
            only.set(cpu);
            only
        }

        /// Runs `test` on a thread that may use only the first CPU of those that the system leaves it: with that one, and
        /// with all.
        fn on_one_cpu(test: impl FnOnce(usize, CpuSet) + Send + 'static) {
            let thread = thread::spawn(|| {
                sched_setaffinity(None, &EVERYWHERE).unwrap();
                let allowed = sched_getaffinity(None).unwrap();
                let here = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
                sched_setaffinity(None, &only(here)).unwrap();
                test(here, allowed);
            });
            thread.join().unwrap();
        }

        fn unbind() {
            sched_setaffinity(None, &EVERYWHERE).unwrap();
        }

        #[test]
        fn a_thread_that_runs_where_it_likes_is_woken_on_another_cpu_than_its_waker_and_runs_where_it_likes_again() {
            on_one_cpu(|here, allowed| {
                let (_, meanwhile, afterwards) = wake(unbind, |_| ());
                let mut apart = allowed;
                apart.unset(here);
                assert_eq!(meanwhile, if apart.count() > 0 { apart } else { allowed });
                assert_eq!(afterwards, allowed);
            });
        }

        #[test]
        fn a_thread_that_was_bound_stays_where_it_was_bound() {
            on_one_cpu(|here, allowed| {
                let (placement, meanwhile, afterwards) = wake(|| (), |_| ());
                assert_eq!(placement.0.is_none(), allowed.count() > 1, "bound to {here} of {allowed:?}");
                assert_eq!([meanwhile, afterwards], [only(here); 2]);
            });
        }

        #[test]
        fn a_thread_that_is_bound_while_it_sleeps_stays_where_it_was_bound() {
            on_one_cpu(|here, _| {
                let bind = |thread| sched_setaffinity(Some(thread), &only(here)).unwrap();
                let (_, meanwhile, afterwards) = wake(unbind, bind);
                assert_eq!([meanwhile, afterwards], [only(here); 2]);
            });
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(enact_loom, enact_shuttle, miri)))))]
mod other {
    #[derive(Clone, Copy)]
    pub(in super::super) struct Placement;

    impl Placement {
        pub(in super::super) fn of_this_thread() -> Self {
            Self
        }

        pub(in super::super) fn wake_apart(self, wake: impl FnOnce()) {
            wake();
        }
    }
}
