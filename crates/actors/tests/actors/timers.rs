//! Delayed and repeated turns, by a paused clock.

use std::sync::mpsc;
use std::time::Duration;

use enact_actors::{ActorError, Cx, ExitReason, Promise, System, Timer, actor};
use tokio::runtime::Runtime;

const SECOND: Duration = Duration::from_secs(1);

/// A clock that moves only when told to, and a system that goes by it.
fn paused() -> (Runtime, System) {
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let system = System::builder().workers(1).tokio(clock.handle().clone()).build().unwrap();
    (clock, system)
}

fn pass(clock: &Runtime, time: Duration) {
    clock.block_on(async {
        // Lets timers that were just set take their place.
        tokio::task::yield_now().await;
        tokio::time::advance(time).await;
        // And those that are due ring.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    });
}

#[derive(Default)]
struct Bell {
    rings: u32,
}

#[actor]
impl Bell {
    fn ring_after(&mut self, cx: &Cx<Self>, delay: Duration) -> Timer {
        cx.after(delay, |bell, _| bell.rings += 1)
    }

    fn ring_every(&mut self, cx: &Cx<Self>, period: Duration) -> Timer {
        cx.every(period, |bell, _| bell.rings += 1)
    }

    fn ring_and_cancel(&mut self, cx: &Cx<Self>, other: Timer) -> Timer {
        let other = Cancelling(other);
        cx.after(SECOND, move |bell, _| {
            bell.rings += 1;
            drop(other);
        })
    }

    async fn give_context(cx: Cx<Self>, to: mpsc::Sender<Cx<Self>>) {
        to.send(cx).unwrap();
    }

    fn rings(&self) -> u32 {
        self.rings
    }

    fn cancel(&self, timer: Timer) -> bool {
        timer.cancel()
    }

    fn cancel_when_due(&self, timer: Timer, due: mpsc::Sender<()>, go_on: mpsc::Receiver<()>) -> bool {
        due.send(()).unwrap();
        go_on.recv().unwrap();
        timer.cancel()
    }
}

#[test]
fn a_delayed_turn_runs_when_its_time_has_come_and_once() {
    let (clock, system) = paused();
    let bell = system.spawn(Bell::default());
    bell.ring_after(3 * SECOND).wait().unwrap();
    for (passed, rings) in [(2, 0), (2, 1), (9, 1)] {
        pass(&clock, passed * SECOND);
        assert_eq!(bell.rings().wait(), Ok(rings));
    }
}

#[test]
fn a_repeated_turn_runs_again_and_again_until_cancelled() {
    let (clock, system) = paused();
    let bell = system.spawn(Bell::default());
    let timer = bell.ring_every(SECOND).wait().unwrap();
    for rings in 1..5 {
        pass(&clock, SECOND);
        assert_eq!(bell.rings().wait(), Ok(rings));
    }
    assert!(timer.cancel());
    assert!(!timer.cancel());
    pass(&clock, 10 * SECOND);
    assert_eq!(bell.rings().wait(), Ok(4));
}

#[test]
fn a_turn_cancelled_by_its_actor_does_not_run_even_if_its_time_has_come() {
    let (clock, system) = paused();
    let bell = system.spawn(Bell::default());
    let timer = bell.ring_after(SECOND).wait().unwrap();
    let (due, is_due) = mpsc::channel();
    let (go_on, until) = mpsc::channel();
    let cancelled = bell.cancel_when_due(timer, due, until);
    is_due.recv().unwrap();
    pass(&clock, 2 * SECOND);
    go_on.send(()).unwrap();
    assert_eq!(cancelled.wait(), Ok(true));
    assert_eq!(bell.rings().wait(), Ok(0));
    let timer = bell.ring_after(SECOND).wait().unwrap();
    pass(&clock, 2 * SECOND);
    assert_eq!(bell.rings().wait(), Ok(1));
    assert_eq!(bell.cancel(timer).wait(), Ok(false));
}

#[test]
fn a_repeated_turn_does_not_keep_its_actor_alive() {
    let (_clock, system) = paused();
    let bell = system.spawn(Bell::default());
    bell.ring_every(SECOND).wait().unwrap();
    let exit = bell.watch();
    drop(bell);
    assert_eq!(exit.wait().unwrap().reason, ExitReason::Released);
}

#[test]
fn a_stop_waits_for_no_timer() {
    let (_clock, system) = paused();
    let bell = system.spawn(Bell::default());
    let timer = bell.ring_after(SECOND).wait().unwrap();
    bell.stop();
    assert_eq!(bell.watch().wait().unwrap().reason, ExitReason::Stopped);
    assert!(!timer.cancel());
}

#[test]
fn an_actor_that_has_ended_is_given_no_timer() {
    let (clock, system) = paused();
    let bell = system.spawn(Bell::default());
    let (gives, given) = mpsc::channel();
    bell.give_context(gives).wait().unwrap();
    let cx = given.recv().unwrap();
    bell.stop();
    assert_eq!(bell.watch().wait().unwrap().reason, ExitReason::Stopped);
    let timers = [cx.after(SECOND, |_, _| unreachable!()), cx.every(SECOND, |_, _| unreachable!())];
    pass(&clock, 2 * SECOND);
    assert_eq!(timers.map(|timer| timer.cancel()), [false; 2]);
}

#[test]
fn a_promise_times_out_by_the_clock_of_its_runtime() {
    let (clock, _system) = paused();
    let error = clock.block_on(async {
        let (promise, _resolver) = Promise::<()>::pair();
        promise.timeout(1000 * SECOND).await
    });
    assert_eq!(error, Err(ActorError::Timeout { after: 1000 * SECOND }));
}

#[test]
fn an_actor_that_lived_by_a_timer_ends_when_that_is_cancelled() {
    let (clock, system) = paused();
    let bell = system.spawn(Bell::default());
    let exit = bell.watch();
    let timers = [(); 2].map(|()| bell.ring_after(SECOND).wait().unwrap());
    drop(bell);
    // The only worker has seen that the last handle is gone.
    settle(&system);
    assert!(timers[0].cancel());
    settle(&system);
    assert!(!exit.is_ready(), "it has another one");
    assert!(timers[1].cancel());
    assert_eq!(exit.wait().unwrap().reason, ExitReason::Released);
    drop(clock);
}

/// Cancels a timer when it is dropped.
struct Cancelling(Timer);

impl Drop for Cancelling {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[test]
fn what_an_alarm_drops_when_it_is_cancelled_may_use_its_actors_timers() {
    let (clock, system) = paused();
    let bell = system.spawn(Bell::default());
    let other = bell.ring_after(SECOND).wait().unwrap();
    let timer = bell.ring_and_cancel(other.clone()).wait().unwrap();
    assert!(timer.cancel());
    pass(&clock, SECOND / 2);
    assert!(!other.cancel(), "it has been");
}

#[test]
fn timers_outlive_the_runtime_of_their_clock() {
    let (clock, system) = paused();
    let bell = system.spawn(Bell::default());
    let (tell, told) = mpsc::channel();
    let set = |bell: &BellRef, name: &'static str, timer: fn(&Cx<Bell>, Ring) -> Timer| {
        let tell = tell.clone();
        bell.run(move |_, cx| timer(cx, Box::new(move || tell.send(name).unwrap()))).wait().unwrap()
    };
    let after = |cx: &Cx<Bell>, ring: Ring| cx.after(MOMENT, move |_, _| ring());
    let every = |cx: &Cx<Bell>, ring: Ring| cx.every(MOMENT, move |_, _| ring());
    let timeout = {
        let (open, resolver) = Promise::<()>::pair();
        let _inside = clock.enter();
        (open.timeout(MOMENT), resolver)
    };
    set(&bell, "set before", after);
    drop(clock);
    assert_eq!(told.recv(), Ok("set before"));
    set(&bell, "set afterwards", after);
    assert_eq!(told.recv(), Ok("set afterwards"));
    assert_eq!(timeout.0.wait(), Err(ActorError::Timeout { after: MOMENT }));
    let repeated = set(&bell, "again", every);
    (0..3).for_each(|_| assert_eq!(told.recv(), Ok("again")));
    assert!(repeated.cancel());
    drop(tell);
    // The alarm has dropped what it would have called.
    assert!(told.iter().all(|name| name == "again"));
}

/// Calls the test.
type Ring = Box<dyn Fn() + Send>;

/// Passes by itself.
const MOMENT: Duration = Duration::from_millis(1);

/// Has the only worker do what it has been given so far.
fn settle(system: &System) {
    let other = system.spawn(Bell::default());
    // For each ask from outside, the worker owes a run to what it has itself: more than there are to come.
    (0..16).for_each(|_| _ = other.rings().wait().unwrap());
}
