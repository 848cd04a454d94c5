//! The hooks for layers above: fates, effects, dependencies.
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;

use enact_stm::hooks::{self, Decision, Fate, Retracted};
use enact_stm::{Deferrable, Failed, TCell, TVar, atomically, snapshot, try_atomically};

use crate::executor::Step;
use crate::forms::{FORMS, elsewhere, panic_of, set};
use crate::undecided::Undecided;

/// What has happened, in its order.
#[derive(Clone, Default)]
struct Story(Arc<Mutex<Vec<String>>>);

impl Story {
    fn tell(&self, what: impl Into<String>) {
        self.0.lock().expect("not poisoned").push(what.into());
    }

    fn teller(&self, what: &str) -> impl FnOnce() + Send + 'static {
        let (story, what) = (self.clone(), what.to_owned());
        move || story.tell(what)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }
}

#[test]
fn every_attempt_has_a_fate_of_its_own() {
    for form in FORMS {
        let (x, fates) = (TCell::new(0), Mutex::new(Vec::new()));
        form.run(atomically(|tx| {
            let seen = tx.read(&x)?;
            let fate = hooks::fate(tx);
            assert!(fate.is_same(&hooks::fate(tx)) && fate.decision().is_none());
            if tx.attempt() == 1 {
                elsewhere(|| set(&x, 1));
            }
            fates.lock().expect("not poisoned").push(fate);
            tx.write(&x, seen + 1)
        }));
        let fates = fates.into_inner().expect("not poisoned");
        let (last, lost) = fates.split_last().expect("attempts");
        assert!(!lost.is_empty() && lost.iter().all(|fate| fate.decision() == Some(Decision::Aborted)), "{form:?}");
        assert_eq!(last.decision(), Some(Decision::Committed), "{form:?}");
        assert!(lost.iter().all(|fate| !fate.is_same(last)), "{form:?}");
    }
}

#[test]
fn a_part_has_a_fate_of_its_own_and_shares_that_of_the_whole_if_it_stands() {
    let fates = |fails: bool| {
        let made = Mutex::new(None);
        let result = try_atomically(|tx| {
            let whole = hooks::fate(tx);
            let stands = tx.nested(|tx| Ok::<_, Failed<()>>(hooks::fate(tx)))?.expect("it stands");
            let mut inner = None;
            let failed = tx.nested(|tx| {
                inner = Some(tx.nested(|tx| Ok::<_, Failed<()>>(hooks::fate(tx)))?.expect("it stands so far"));
                Err::<(), _>(Failed::Error(hooks::fate(tx)))
            })?;
            let failed = failed.expect_err("it fails");
            let inner = inner.expect("it was made");
            assert_eq!([&whole, &stands].map(Fate::decision), [None; 2], "as long as the whole goes on");
            assert_eq!([&failed, &inner].map(Fate::decision), [Some(Decision::Aborted); 2], "with the part, at once");
            assert!(!whole.is_same(&stands));
            *made.lock().expect("not poisoned") = Some([whole, stands]);
            if fails { Err(Failed::Error(())) } else { Ok(()) }
        })
        .run();
        assert_eq!(result.is_err(), fails);
        made.into_inner().expect("not poisoned").expect("made").map(|fate| fate.decision())
    };
    assert_eq!(fates(false), [Some(Decision::Committed); 2]);
    assert_eq!(fates(true), [Some(Decision::Aborted); 2]);
}

#[test]
fn effects_of_a_commit_happen_in_order_and_before_deferred_operations() {
    for form in FORMS {
        let (story, x, log) = (Story::default(), Arc::new(TCell::new(0)), Arc::new(Deferrable::new((), ())));
        form.run(atomically(|tx| {
            hooks::on_commit(tx, story.teller("first"));
            hooks::on_abort(tx, story.teller("not this"));
            tx.nested(|tx| {
                hooks::on_commit(tx, story.teller("nor this"));
                hooks::on_abort(tx, story.teller("part undone 1"));
                hooks::on_abort(tx, story.teller("part undone 2"));
                Err::<(), _>(Failed::Error(()))
            })?
            .expect_err("it fails");
            let teller = story.teller("operation");
            tx.defer((&log,), move |_| teller()).map(drop)?;
            tx.write(&*x, 1)?;
            let (story, seen) = (story.clone(), Arc::clone(&x));
            // An effect may run transactions, which see the commit.
            hooks::on_commit(tx, move || story.tell(format!("x is {}", atomically(|tx| tx.read(&*seen)).run())));
            Ok(())
        }));
        assert_eq!(story.take(), ["part undone 2", "part undone 1", "first", "x is 1", "operation"], "{form:?}");
    }
}

#[test]
fn an_effect_that_panics_does_not_keep_deferred_operations_from_running() {
    for form in FORMS {
        let log = Arc::new(Deferrable::new(TCell::new(0), ()));
        let message = panic_of(|| {
            form.run(atomically(|tx| {
                hooks::on_commit(tx, || panic!("on purpose"));
                tx.defer((&log,), |(log,)| set(log.shared(), 1)).map(drop)
            }));
        });
        assert_eq!(message, "on purpose", "{form:?}");
        // This waits until the operation has given the object back.
        let lines = form.run(atomically(|tx| tx.open(&log).and_then(|lines| tx.read(lines))));
        assert_eq!(lines, 1, "{form:?}");
    }
}

#[test]
fn effects_of_an_abort_happen_for_every_attempt_that_fails_whatever_the_reason() {
    for form in FORMS {
        let (story, x) = (Story::default(), TCell::new(0));
        form.run(atomically(|tx| {
            let seen = tx.read(&x)?;
            if tx.attempt() == 1 {
                hooks::on_abort(tx, story.teller("conflict"));
                elsewhere(|| set(&x, 1));
            } else {
                hooks::on_commit(tx, story.teller("commit"));
            }
            tx.write(&x, seen)
        }));
        let failed = form.run(try_atomically(|tx| {
            hooks::on_abort(tx, story.teller("error"));
            hooks::on_commit(tx, story.teller("not this"));
            Err::<(), _>(Failed::Error(()))
        }));
        assert_eq!(failed, Err(()));
        panic_of(|| {
            form.run(atomically(|tx| {
                hooks::on_abort(tx, story.teller("panic"));
                assert!(tx.attempt() != 1, "on purpose");
                Ok(())
            }));
        });
        assert_eq!(story.take(), ["conflict", "commit", "error", "panic"], "{form:?}");
    }
    let (story, x) = (Story::default(), TCell::new(0));
    let mut waits = Step::new(atomically(|tx| {
        tx.read(&x)?;
        hooks::on_abort(tx, story.teller("retry"));
        tx.retry::<()>()
    }));
    assert!(waits.poll().is_pending());
    assert_eq!(story.take(), ["retry"], "when it falls asleep");
    waits.cancel();
    assert_eq!(story.take(), [""; 0]);
}

#[test]
fn a_snapshot_commits_its_effects() {
    let (story, fate) = (Story::default(), Mutex::new(None));
    snapshot(|tx| {
        hooks::on_commit(tx, story.teller("commit"));
        hooks::on_abort(tx, story.teller("not this"));
        *fate.lock().expect("not poisoned") = Some(hooks::fate(tx));
        Ok(())
    });
    let fate = fate.into_inner().expect("not poisoned").expect("made");
    assert_eq!((story.take(), fate.decision()), (vec!["commit".to_owned()], Some(Decision::Committed)));
}

#[test]
fn a_dependent_commits_after_its_dependency_and_not_before() {
    let (x, y) = (TCell::new(0), TCell::new(0));
    thread::scope(|scope| {
        let first = Undecided::begin(scope, &x, 1);
        let dependent = hooks::depending_on(first.fate.clone(), atomically(|tx| tx.write(&y, 1)));
        let mut step = Step::new(dependent);
        assert!(step.poll().is_pending());
        assert_eq!(snapshot(|tx| tx.read(&y)), 0);
        first.decide(true);
        assert_eq!((step.wakes(), step.poll()), (1, Poll::Ready(Ok(1))));
        assert_eq!(snapshot(|tx| Ok((tx.read(&x)?, tx.read(&y)?))), (1, 1));
    });
}

#[test]
fn a_dependent_of_an_aborted_one_never_happens() {
    let (x, y, story) = (TCell::new(0), TCell::new(0), Story::default());
    thread::scope(|scope| {
        let first = Undecided::begin(scope, &x, 1);
        let mut step = Step::new(hooks::depending_on(
            first.fate.clone(),
            atomically(|tx| {
                hooks::on_commit(tx, story.teller("not this"));
                hooks::on_abort(tx, story.teller("undone"));
                tx.write(&y, 1)
            }),
        ));
        assert!(step.poll().is_pending());
        first.decide(false);
        assert_eq!((step.wakes(), step.poll()), (1, Poll::Ready(Err(Retracted))));
        assert_eq!((snapshot(|tx| tx.read(&y)), story.take()), (0, vec!["undone".to_owned()]));
        assert!(!step.is_registered());
    });
}

#[test]
fn a_dependent_thread_sleeps_until_the_decision() {
    for commits in [true, false] {
        let (x, y) = (TCell::new(0), TCell::new(0));
        thread::scope(|scope| {
            let first = Undecided::begin(scope, &x, 1);
            let (says, said) = mpsc::channel();
            let (fate, y) = (first.fate.clone(), &y);
            let dependent = scope.spawn(move || {
                hooks::depending_on(
                    fate,
                    atomically(|tx| {
                        says.send(()).expect("the test listens");
                        tx.write(y, 1)
                    }),
                )
                .run()
            });
            said.recv().expect("it runs at once");
            first.decide(commits);
            assert_eq!(dependent.join().expect("it ends"), if commits { Ok(1) } else { Err(Retracted) });
        });
    }
}

#[test]
fn a_dependent_that_has_read_what_its_dependency_writes_runs_again_and_sees_it() {
    for only_reads in [true, false] {
        let (x, y) = (TCell::new(0), TCell::new(0));
        thread::scope(|scope| {
            let first = Undecided::begin(scope, &x, 1);
            let mut step = Step::new(hooks::depending_on(
                first.fate.clone(),
                atomically(|tx| {
                    let seen = tx.read(&x)?;
                    if !only_reads {
                        tx.write(&y, 10 + seen)?;
                    }
                    Ok((seen, tx.attempt() >= 2))
                }),
            ));
            assert!(step.poll().is_pending());
            first.decide(true);
            assert_eq!(step.poll(), Poll::Ready(Ok((1, true))), "not (0, false), which was true before");
        });
        assert_eq!(y.into_inner(), if only_reads { 0 } else { 11 });
    }
}

#[test]
fn a_dependent_that_waits_holds_no_lock_and_runs_again_after_a_conflict() {
    let (x, y, boxed) = (TCell::new(0), TCell::new(0), TVar::new(0));
    thread::scope(|scope| {
        let first = Undecided::begin(scope, &x, 1);
        let mut step = Step::new(hooks::depending_on(
            first.fate.clone(),
            atomically(|tx| {
                tx.update(&y, |n| n + 1)?;
                tx.update(&boxed, |n| n + 1)?;
                Ok(tx.attempt() >= 2)
            }),
        ));
        assert!(step.poll().is_pending());
        // On this very thread, so it would not come back if it had to wait.
        set(&y, 10);
        set(&boxed, 10);
        assert!(step.poll().is_pending());
        first.decide(true);
        assert_eq!(step.poll(), Poll::Ready(Ok(true)));
    });
    assert_eq!((y.into_inner(), boxed.into_inner()), (11, 11));
}

#[test]
fn a_dependent_that_sleeps_is_ended_by_the_abort_and_woken_by_the_commit() {
    for commits in [true, false] {
        let x = TCell::new(0);
        thread::scope(|scope| {
            let first = Undecided::begin(scope, &x, 1);
            let waits = atomically(|tx| if tx.read(&x)? == 0 { tx.retry() } else { Ok("seen") });
            let mut step = Step::new(hooks::depending_on(first.fate.clone(), waits));
            assert!(step.poll().is_pending());
            first.decide(commits);
            assert!(step.wakes() >= 1);
            assert_eq!(step.poll(), Poll::Ready(if commits { Ok("seen") } else { Err(Retracted) }));
            assert!(!step.is_registered());
        });
    }
}

#[test]
fn a_decision_between_the_look_and_the_wait_is_not_lost() {
    for commits in [true, false] {
        let (x, y) = (TCell::new(0), TCell::new(0));
        thread::scope(|scope| {
            let first = Mutex::new(Some(Undecided::begin(scope, &x, 1)));
            let fate = first.lock().expect("not poisoned").as_ref().expect("begun").fate.clone();
            let result = hooks::depending_on(
                fate,
                atomically(|tx| {
                    let seen = tx.read(&x)?;
                    if let Some(first) = first.lock().expect("not poisoned").take() {
                        first.decide(commits);
                    }
                    tx.write(&y, seen + 10)
                }),
            )
            .run();
            assert_eq!(result, if commits { Ok(11) } else { Err(Retracted) });
        });
    }
}

#[test]
fn an_error_of_a_dependent_counts_only_if_the_dependency_has_happened() {
    for commits in [true, false] {
        let (x, y) = (TCell::new(0), TCell::new(0));
        thread::scope(|scope| {
            let first = Undecided::begin(scope, &x, 1);
            let fails = try_atomically(|tx| {
                tx.write(&y, 1)?;
                Err::<(), _>(Failed::Error(tx.read(&x)?))
            });
            let mut step = Step::new(hooks::depending_on(first.fate.clone(), fails));
            assert!(step.poll().is_pending());
            first.decide(commits);
            assert_eq!(step.poll(), Poll::Ready(if commits { Ok(Err(1)) } else { Err(Retracted) }));
        });
        assert_eq!(y.into_inner(), 0);
    }
}

#[test]
fn a_dependent_that_is_cancelled_has_no_effect() {
    let (x, y, story) = (TCell::new(0), TCell::new(0), Story::default());
    thread::scope(|scope| {
        let first = Undecided::begin(scope, &x, 1);
        let mut step = Step::new(hooks::depending_on(
            first.fate.clone(),
            atomically(|tx| {
                hooks::on_abort(tx, story.teller("undone"));
                tx.write(&y, 1)
            }),
        ));
        assert!(step.poll().is_pending());
        step.cancel();
        assert_eq!(story.take(), ["undone"], "at once");
        first.decide(true);
        assert!(!step.is_registered());
    });
    assert_eq!((x.into_inner(), y.into_inner()), (1, 0));
}

#[test]
fn a_chain_of_dependents_is_decided_by_its_beginning() {
    for commits in [true, false] {
        let (x, y) = (TCell::new(0), [const { 0 }; 20].map(TCell::new));
        thread::scope(|scope| {
            let first = Undecided::begin(scope, &x, 1);
            let (mut fate, mut steps) = (first.fate.clone(), Vec::new());
            for cell in &y {
                let own = Arc::new(Mutex::new(None));
                let made = Arc::clone(&own);
                let mut step = Step::new(hooks::depending_on(
                    fate,
                    atomically(move |tx| {
                        *made.lock().expect("not poisoned") = Some(hooks::fate(tx));
                        tx.write(cell, 1)
                    }),
                ));
                assert!(step.poll().is_pending());
                fate = own.lock().expect("not poisoned").clone().expect("it has run");
                steps.push(step);
            }
            first.decide(commits);
            for step in &mut steps {
                assert_eq!((step.wakes(), step.poll()), (1, Poll::Ready(if commits { Ok(1) } else { Err(Retracted) })));
            }
        });
        assert_eq!(y.map(TCell::into_inner), [i32::from(commits); 20]);
    }
}

#[test]
fn a_thread_knows_whether_it_is_in_a_transaction() {
    assert!(!hooks::is_in_a_transaction());
    assert!(atomically(|_| Ok(hooks::is_in_a_transaction())).run());
    assert!(snapshot(|_| Ok(hooks::is_in_a_transaction())));
    assert!(!atomically(|_| Ok(elsewhere(hooks::is_in_a_transaction))).run());
    assert!(!hooks::is_in_a_transaction());
}

#[test]
fn what_begins_on_a_dependent_thread_depends_without_knowing_it() {
    for commits in [true, false] {
        let (x, y) = (TCell::new(0), TCell::new(0));
        thread::scope(|scope| {
            let first = Undecided::begin(scope, &x, 1);
            let mut step = Step::new(atomically(|tx| {
                let seen = tx.read(&x)?;
                tx.write(&y, 10 + seen)
            }));
            let depending = hooks::depend_on_this_thread(Some(first.fate.clone()));
            assert!(step.poll().is_pending());
            let independent = hooks::depend_on_this_thread(None);
            assert_eq!(snapshot(|tx| tx.read(&y)), 0, "and at once: a guard inside another");
            drop((independent, depending));
            first.decide(commits);
            if commits {
                assert_eq!(step.poll(), Poll::Ready(11));
            } else {
                let panic = catch_unwind(AssertUnwindSafe(|| step.poll())).expect_err("there is no answer");
                assert!(panic.is::<Retracted>());
            }
        });
        assert_eq!(y.into_inner(), if commits { 11 } else { 0 });
    }
}

#[test]
fn what_has_slept_elsewhere_depends_from_its_next_attempt_on() {
    let (x, y, z) = (TCell::new(0), TCell::new(0), TCell::new(0));
    let mut step = Step::new(atomically(|tx| if tx.read(&x)? == 0 { tx.retry() } else { tx.write(&y, 1) }));
    assert!(step.poll().is_pending());
    set(&x, 1);
    thread::scope(|scope| {
        let first = Undecided::begin(scope, &z, 1);
        let depending = hooks::depend_on_this_thread(Some(first.fate.clone()));
        assert!(step.poll().is_pending());
        drop(depending);
        assert_eq!(snapshot(|tx| tx.read(&y)), 0);
        first.decide(true);
    });
    assert!(step.poll().is_ready());
    assert_eq!(snapshot(|tx| tx.read(&y)), 1);
}

#[test]
fn a_run_or_a_snapshot_on_a_dependent_thread_waits_for_the_decision() {
    for commits in [true, false] {
        let x = TCell::new(0);
        thread::scope(|scope| {
            let first = Undecided::begin(scope, &x, 1);
            let (fate, x) = (first.fate.clone(), &x);
            let (says, said) = mpsc::channel();
            let dependents = [true, false].map(|by_snapshot| {
                let (says, fate) = (says.clone(), fate.clone());
                scope.spawn(move || {
                    let _depending = hooks::depend_on_this_thread(Some(fate));
                    says.send(()).expect("the test listens");
                    let read =
                        || if by_snapshot { snapshot(|tx| tx.read(x)) } else { atomically(|tx| tx.read(x)).run() };
                    catch_unwind(AssertUnwindSafe(read)).map_err(|panic| panic.is::<Retracted>())
                })
            });
            said.iter().take(dependents.len()).for_each(drop);
            first.decide(commits);
            for dependent in dependents {
                assert_eq!(dependent.join().expect("it ends"), if commits { Ok(1) } else { Err(true) });
            }
        });
    }
}

#[test]
fn a_dependency_that_has_committed_costs_nothing() {
    let (x, y) = (TCell::new(0), TCell::new(0));
    let fate = atomically(|tx| {
        tx.write(&x, 1)?;
        Ok(hooks::fate(tx))
    })
    .run();
    let _depending = hooks::depend_on_this_thread(Some(fate));
    let attempts = atomically(|tx| {
        let seen = tx.read(&x)?;
        tx.write(&y, seen)?;
        Ok(tx.attempt())
    });
    assert_eq!(Step::new(attempts).poll(), Poll::Ready(1));
    assert_eq!(snapshot(|tx| tx.read(&y)), 1);
}

thread_local! {
    static HANDED_OVER: RefCell<Option<mpsc::Sender<()>>> = const { RefCell::new(None) };
}

#[test]
fn a_run_hands_over_before_it_sleeps_and_not_before_it_runs_again() {
    let (x, other) = (TCell::new(0), TCell::new(0));
    let (tells, told) = mpsc::channel();
    thread::scope(|scope| {
        HANDED_OVER.set(Some(tells));
        let _handing_over = hooks::hand_over_on_this_thread(|work| {
            HANDED_OVER.with_borrow(|tells| tells.as_ref().expect("it is set").send(())).expect("the test listens");
            work();
        });
        atomically(|tx| {
            let seen = tx.read(&other)?;
            if tx.attempt() == 1 {
                elsewhere(|| set(&other, 0));
            }
            tx.write(&other, seen)
        })
        .run();
        assert!(told.try_recv().is_err(), "to run again is not to wait");
        let x = &x;
        scope.spawn(move || {
            told.recv().expect("the thread tells before it sleeps");
            set(x, 1);
            told.iter().for_each(drop);
        });
        atomically(|tx| if tx.read(x)? == 0 { tx.retry() } else { Ok(()) }).run();
        HANDED_OVER.set(None);
    });
}

#[test]
fn a_fate_wakes_each_of_many_once_however_often_they_ask() {
    let x = TCell::new(0);
    let steps = thread::scope(|scope| {
        let first = Undecided::begin(scope, &x, 1);
        let mut steps: Vec<_> = (0..100)
            .map(|_| {
                let fate = first.fate.clone();
                Step::new(std::future::poll_fn(move |cx| fate.poll(cx.waker())))
            })
            .collect();
        for _ in 0..3 {
            assert!(steps.iter_mut().all(|step| step.poll().is_pending()));
        }
        first.decide(true);
        steps
    });
    for mut step in steps {
        assert_eq!((step.wakes(), step.poll()), (1, Poll::Ready(Decision::Committed)));
    }
}
