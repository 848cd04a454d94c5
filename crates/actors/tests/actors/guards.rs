//! Messages that wait until the state admits them.

use std::time::Duration;

use enact_actors::{ActorError, Cx, ExitReason, Mailbox, Promise, Resolver, Restarts, Spec, System, WhenFull, actor};

use crate::open_transaction::Open;

/// A store of limited size.
#[derive(Default)]
struct Store {
    room: u32,
    items: Vec<u32>,
    closed: bool,
    log: Vec<u32>,
}

#[actor]
impl Store {
    #[when(self.room > 0)]
    fn put(&mut self, item: u32) -> u32 {
        self.room -= 1;
        self.items.push(item);
        self.log.push(item);
        item
    }
    /// Waits for this very item.
    #[when(self.items.contains(item))]
    fn take(&mut self, item: u32) {
        self.items.retain(|known| *known != item);
        self.log.push(100 + item);
        self.room += 1;
    }
    #[when(self.closed && self.room > *least)]
    #[priority(*urgency)]
    fn check(&mut self, urgency: i32, least: u32) {
        self.log.push(1_000 + urgency.unsigned_abs());
    }
    #[when(self.room > 0)]
    async fn put_slowly(&mut self, item: u32, until: Promise<()>) {
        _ = until.await;
        self.put(item);
    }
    #[when(self.closed)]
    async fn when_closed(cx: Cx<Self>) -> usize {
        cx.with(|store| store.log.len())
    }
    fn add_room(&mut self, room: u32) {
        self.room += room;
    }
    /// Goes on when the promise is kept, though the mailbox be full.
    async fn add_room_later(cx: Cx<Self>, room: u32, until: Promise<()>, begun: Resolver<()>) {
        begun.resolve(());
        _ = until.await;
        cx.with(|store| store.room += room);
    }
    fn close(&mut self) {
        self.closed = true;
    }
    #[when(self.room > 0 || fail_on(*on, self.log.len()))]
    fn fail_in_guard(&mut self, on: usize) {
        self.log.push(u32::try_from(on).expect("it is small"));
    }
    fn log(&self) -> Vec<u32> {
        self.log.clone()
    }
}

fn fail_on(on: usize, len: usize) -> bool {
    assert!(on != len, "the guard fails");
    false
}

/// A system with an empty store, which has room for so many items.
fn store(room: u32) -> (System, StoreRef) {
    let system = System::builder().workers(2).build().expect("threads");
    let store = system.spawn(Store { room, ..Store::default() });
    (system, store)
}

#[test]
fn a_message_waits_until_its_guard_admits_it_and_others_overtake_it() {
    let (_system, store) = store(0);
    let put = [1, 2, 3].map(|item| store.put(item));
    assert_eq!(store.log().wait(), Ok(vec![]), "it comes after them and is taken up before");
    store.tell().add_room(2);
    assert_eq!(store.log().wait(), Ok(vec![1, 2]));
    store.tell().add_room(1);
    assert_eq!(put.map(Promise::wait), [Ok(1), Ok(2), Ok(3)]);
}

#[test]
fn what_was_set_aside_comes_in_order_of_arrival_and_before_newer_messages() {
    let (_system, store) = store(0);
    // Two handlers wait for the same.
    store.tell().put(1);
    store.tell().put_slowly(2, Promise::ready(()));
    store.tell().put(3);
    store.tell().put_slowly(4, Promise::ready(()));
    store.run(|_, _| ()).wait().expect("all are set aside");
    store.tell().add_room(5);
    store.tell().put(5);
    assert_eq!(store.log().wait(), Ok(vec![1, 2, 3, 4, 5]));
}

#[test]
fn a_guard_over_arguments_is_asked_for_each_message() {
    let (_system, store) = store(2);
    let [second, first, third] = [2, 1, 3].map(|item| store.take(item));
    store.tell().put(1);
    store.tell().put(2);
    assert_eq!((first.wait(), second.wait()), (Ok(()), Ok(())));
    assert_eq!(store.log().wait(), Ok(vec![1, 101, 2, 102]));
    store.tell().put(3);
    assert_eq!(third.wait(), Ok(()));
}

#[test]
fn each_turn_that_admits_another_leads_to_the_next() {
    let (_system, store) = store(1);
    let taken: Vec<_> = (1..=50).map(|item| store.take(item)).collect();
    for item in 1..=50 {
        store.tell().put(item);
    }
    let expected: Vec<_> = (1..=50).flat_map(|item| [item, 100 + item]).collect();
    assert!(taken.into_iter().all(|taken| taken.wait() == Ok(())));
    assert_eq!(store.log().wait(), Ok(expected));
}

#[test]
fn what_the_last_turn_of_a_run_admits_is_taken_up_in_the_next() {
    let (_system, store) = store(0);
    for others in 0..200 {
        let put = store.put(1);
        drop(store.run(move |_, cx| {
            let own = cx.handle();
            (0..others).for_each(|_| drop(own.tell().add_room(0)));
            own.tell().add_room(1);
        }));
        assert_eq!(put.timeout(Duration::from_secs(60)).wait(), Ok(1), "after {others} others");
    }
}

#[test]
fn messages_set_aside_keep_their_priority() {
    let (_system, store) = store(9);
    let checks = [(1, 0), (3, 5), (2, 0), (3, 1), (4, 20)].map(|(urgency, least)| store.check(urgency, least));
    store.run(|_, _| ()).wait().expect("the more urgent are set aside");
    store.tell().add_room(0);
    store.tell().close();
    let [a, b, c, d, never] = checks;
    assert_eq!([a, b, c, d].map(Promise::wait), [const { Ok(()) }; 4]);
    assert_eq!(store.log().wait(), Ok(vec![1_003, 1_003, 1_002, 1_001]));
    store.kill();
    assert!(matches!(never.wait(), Err(ActorError::Stopped { .. })));
}

#[test]
fn turns_of_every_kind_have_guards() {
    let (_system, store) = store(0);
    let len = store.when_closed();
    store.tell().put_slowly(7, Promise::ready(()));
    store.tell().add_room(1);
    store.tell().close();
    assert_eq!(len.wait(), Ok(1));
}

#[test]
fn a_stop_refuses_what_no_guard_admits_any_more() {
    let (_system, store) = store(0);
    let put = [1, 2].map(|item| store.put(item));
    store.tell().add_room(1);
    store.stop();
    let [first, second] = put.map(Promise::wait);
    assert_eq!(first, Ok(1));
    assert!(matches!(second, Err(ActorError::Stopped { .. })));
    assert_eq!(store.watch().wait().map(|exit| exit.reason), Ok(ExitReason::Stopped));
}

#[test]
fn an_actor_without_handles_does_not_wait_for_its_guards() {
    let (_system, store) = store(0);
    let exit = store.watch();
    let put = store.put(1);
    drop(store);
    assert!(matches!(put.wait(), Err(ActorError::Stopped { .. })));
    assert_eq!(exit.wait().map(|exit| exit.reason), Ok(ExitReason::Released));
}

#[test]
fn a_restart_keeps_what_is_set_aside_and_asks_again() {
    let system = System::builder().workers(2).build().expect("threads");
    let mut room = 0;
    let store = system.spawn(Spec::restarting(Restarts::at_most(1, Duration::from_secs(600)), move || {
        room += 1;
        Store { room: room - 1, ..Store::default() }
    }));
    let put = store.put(1);
    let failed = store.run(|_, _| panic!("as told"));
    assert!(matches!(failed.wait(), Err(ActorError::Panicked { .. })));
    assert_eq!(put.wait(), Ok(1));
}

#[test]
fn a_guard_that_panics_fails_its_message_and_the_actor() {
    for on in [0, 1] {
        let (_system, store) = store(0);
        let exit = store.watch();
        let failed = store.fail_in_guard(on);
        let waits = store.when_closed();
        // One guard fails at once, the other when it is asked again.
        drop(store.run(|store, _| store.log.push(0)));
        match failed.wait() {
            Err(ActorError::Panicked { text, .. }) => assert_eq!(&*text, "the guard fails"),
            other => panic!("{on}: {other:?}"),
        }
        assert!(matches!(waits.wait(), Err(ActorError::Stopped { .. })));
        assert!(matches!(exit.wait().map(|exit| exit.reason), Ok(ExitReason::Panicked { .. })));
    }
}

/// Has a turn add room as soon as the resolver is used, however full the mailbox is.
fn more_room(store: &StoreRef, room: u32) -> Resolver<()> {
    let (until, more) = Promise::pair();
    let (begun, begins) = Promise::pair();
    store.tell().add_room_later(room, until, begins);
    begun.wait().expect("the turn begins");
    more
}

#[test]
fn what_is_set_aside_fills_a_bounded_mailbox_until_it_is_taken_up() {
    let system = System::builder().workers(2).build().expect("threads");
    let store = system.spawn(Spec::new(Store::default()).mailbox(Mailbox::bounded(3, WhenFull::Fail)));
    for _ in 0..3 {
        let more = more_room(&store, 3);
        let put = [1, 2].map(|item| store.put(item));
        store.run(|_, _| ()).wait().expect("there is room, and both are set aside");
        let [third, fourth] = [3, 4].map(|item| store.put(item));
        assert!(matches!(fourth.wait(), Err(ActorError::Full { .. })));
        more.resolve(());
        assert_eq!((put.map(Promise::wait), third.wait()), ([Ok(1), Ok(2)], Ok(3)));
    }
}

#[test]
fn a_call_that_waits_for_its_guard_counts_in_a_bounded_mailbox() {
    let system = System::builder().workers(2).build().expect("threads");
    let store = system.spawn(Spec::new(Store::default()).mailbox(Mailbox::bounded(2, WhenFull::Fail)));
    for _ in 0..20 {
        let more = more_room(&store, 1);
        let called = system.spawn(Helper).put(store.clone());
        more.resolve(());
        assert_eq!(called.wait(), Ok(Ok(1)));
    }
}

struct Helper;

#[actor]
impl Helper {
    fn put(&mut self, cx: &Cx<Self>, store: StoreRef) -> Result<u32, ActorError> {
        store.call(cx).put(1)
    }
}

#[test]
fn a_call_of_an_idle_actor_waits_for_the_guard() {
    let (system, store) = store(0);
    let called = system.spawn(Helper).put(store.clone());
    store.tell().add_room(1);
    assert_eq!(called.wait(), Ok(Ok(1)));
    store.tell().add_room(1);
    assert_eq!(system.spawn(Helper).put(store.clone()).wait(), Ok(Ok(1)), "admitted at once");
}

#[test]
fn an_undecided_message_holds_the_actor_and_is_asked_when_decided() {
    for commits in [true, false] {
        let (_system, store) = store(0);
        let receiver = store.clone();
        let open = Open::begin(move |tx| _ = receiver.tell_within(tx).put(1));
        let put = store.put(2);
        store.tell().add_room(1);
        open.decide(commits);
        if !commits {
            assert_eq!(put.wait(), Ok(2));
        }
        assert_eq!(store.log().wait(), Ok(vec![if commits { 1 } else { 2 }]));
    }
}
