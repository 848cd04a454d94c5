//! Messages that overtake each other, beside what changes their order.
use enact_actors::{ActorError, Promise, System, actor};
use enact_sync::thread;

use crate::model;

/// A store whose messages wait for room, or overtake each other.
#[derive(Default)]
struct Store {
    room: u32,
    taken: Vec<u32>,
}

#[actor]
impl Store {
    #[when(self.room > 0)]
    fn put(&mut self, item: u32) -> u32 {
        self.room -= 1;
        self.taken.push(item);
        item
    }
    fn add_room(&mut self) {
        self.room += 1;
    }
    #[priority(*urgency)]
    fn handle(&mut self, urgency: i32, item: u32) {
        self.taken.push(item);
    }
    #[priority(i32::MIN)]
    fn taken(&self) -> Vec<u32> {
        self.taken.clone()
    }
}

fn store(system: &System) -> StoreRef {
    system.spawn(Store::default())
}

//   runner                                     sender
//   guard of put: no room, set aside
//                                              adds room
//   goes to rest <- must ask the guard again
#[test]
fn a_guard_that_becomes_true_beside_a_push_is_not_missed() {
    for workers in 1..=2 {
        model(workers, |system| {
            let store = store(system);
            let other = store.clone();
            let sender = thread::spawn(move || {
                other.tell().add_room();
                other.tell().add_room();
            });
            let put = [store.put(1), store.put(2)];
            assert_eq!(put.map(Promise::wait), [Ok(1), Ok(2)]);
            sender.join().expect("it does not panic");
        });
    }
}

//   here                                           sender
//   adds room, stops
//                                                  puts 1, puts 2
//   <- at most one is taken, the rest is refused
#[test]
fn what_is_set_aside_beside_a_stop_is_taken_up_or_refused() {
    model(2, |system| {
        let store = store(system);
        let (other, exit) = (store.clone(), store.watch());
        let sender = thread::spawn(move || [other.put(1), other.put(2)].map(Promise::wait));
        store.tell().add_room();
        store.stop();
        exit.wait().expect("it ends");
        let [first, second] = sender.join().expect("it does not panic");
        assert!(matches!(first, Ok(1) | Err(ActorError::Stopped { .. })), "{first:?}");
        assert!(matches!(second, Err(ActorError::Stopped { .. })), "there is room for one: {second:?}");
    });
}

//   here                                    sender
//   sends 1 (0), 2 (1), 3 (0), 4 (1)        the same, from 11 on
//   <- 1 before 3, 2 before 4, 2 before 3
#[test]
fn each_senders_messages_of_one_priority_keep_their_order_and_more_urgent_ones_are_not_behind_later_ones() {
    model(2, |system| {
        let store = store(system);
        let other = store.clone();
        let send = |store: &StoreRef, of: u32| {
            store.tell().handle(0, of + 1);
            store.tell().handle(1, of + 2);
            store.tell().handle(0, of + 3);
            store.tell().handle(1, of + 4);
        };
        let sender = thread::spawn(move || send(&other, 10));
        send(&store, 0);
        sender.join().expect("it does not panic");
        let taken = store.taken().wait().expect("the actor lives");
        assert_eq!(taken.len(), 8);
        let at = |item: u32| taken.iter().position(|&taken| taken == item).expect("all are taken up");
        for of in [0, 10] {
            assert!(at(of + 1) < at(of + 3) && at(of + 2) < at(of + 4) && at(of + 2) < at(of + 3), "{taken:?}");
        }
    });
}
