//! What the scheduler's simulation records, and that it is replayed.

use std::time::Duration;

use enact_actors::simulation::{Setting, record, replay};
use enact_actors::{Cx, System, actor};

struct Counter {
    sum: u64,
}

#[actor]
impl Counter {
    fn add(&mut self, number: u64) -> u64 {
        self.sum += number;
        self.sum
    }
}

struct Asker {
    counter: CounterRef,
}

#[actor]
impl Asker {
    /// Asks so often, and is suspended each time.
    async fn ask(&mut self, times: u64) -> u64 {
        let mut sum = 0;
        for number in 0..times {
            sum = self.counter.add(number).await.expect("it lives");
        }
        sum
    }

    /// Sends itself so many messages, one by one.
    fn go_round(&mut self, cx: &Cx<Self>, times: u64) {
        if times > 0 {
            cx.handle().tell().go_round(times - 1);
        }
    }
}

#[test]
fn each_turn_is_recorded_up_to_where_it_is_suspended_and_replayed_on_any_number_of_workers() {
    let system = System::builder().workers(1).build().unwrap();
    let asker = system.spawn(Asker { counter: system.spawn(Counter { sum: 0 }) });
    assert_eq!(asker.ask(4).wait(), Ok(6), "nobody records it");
    let (sum, recording) = record(&system, || {
        asker.tell().go_round(9);
        asker.ask(5).wait()
    });
    assert_eq!(sum, Ok(16));
    // Those that go round, those of the counter, and the pieces of the one that asks.
    assert_eq!(recording.turns(), 10 + 5 + 6);
    let shown = format!("{recording:?}");
    let [held, answered] = ["holds: true", "answers: Some"].map(|part| shown.matches(part).count());
    assert_eq!([held, answered], [5, 5], "{shown}");
    let wall = Duration::from_micros(210);
    let recording = recording.of_a_run_of(wall);
    assert!(wall.abs_diff(recording.work()) < Duration::from_nanos(10), "{:?}", recording.work());
    for workers in [1, 2, 8] {
        let setting = Setting { workers, line: Duration::from_nanos(100) };
        let outcome = replay(&recording, &setting, 0, 3);
        assert!(outcome.elapsed >= 3 * recording.work(), "one message at a time: {outcome:?}");
    }
}

#[test]
fn a_system_is_recorded_again_and_again_and_shuts_down_in_between() {
    let system = System::builder().workers(1).build().unwrap();
    let counter = system.spawn(Counter { sum: 0 });
    for round in 1..4 {
        let (sum, recording) = record(&system, || counter.add(1).wait());
        assert_eq!((sum, recording.turns()), (Ok(round), 1));
    }
    system.shutdown(Duration::from_secs(5)).wait().unwrap();
    let (refused, recording) = record(&system, || counter.add(1).wait());
    assert!(refused.is_err());
    assert!(recording.work().is_zero(), "it was not taken up");
}
