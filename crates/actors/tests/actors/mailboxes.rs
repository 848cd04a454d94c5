//! Bounded mailboxes: nothing is dropped without a word.

use std::sync::mpsc;

use enact_actors::{ActorError, Cx, Mailbox, Promise, Spec, System, WhenFull, actor};

/// Takes messages, one at a time when told to.
#[derive(Default)]
struct Slow {
    taken: Vec<u64>,
}

#[actor]
impl Slow {
    fn hold_thread(&self, started: mpsc::Sender<()>, until: mpsc::Receiver<()>) {
        started.send(()).unwrap();
        let _released = until.recv();
    }

    fn put(&mut self, n: u64) -> u64 {
        self.taken.push(n);
        n
    }

    fn taken(&self) -> Vec<u64> {
        self.taken.clone()
    }

    async fn suspended(cx: Cx<Self>, n: u64) -> u64 {
        cx.wait_for(|slow| !slow.taken.is_empty()).await;
        n
    }
}

fn slow(system: &System, capacity: usize, when_full: WhenFull) -> (SlowRef, mpsc::Sender<()>) {
    let slow = system.spawn(Spec::new(Slow::default()).mailbox(Mailbox::bounded(capacity, when_full)));
    let (started, is_started) = mpsc::channel();
    let (release, until) = mpsc::channel();
    slow.tell().hold_thread(started, until);
    is_started.recv().unwrap();
    (slow, release)
}

#[test]
fn a_full_mailbox_that_fails_takes_n_messages_and_refuses_the_next_of_every_kind() {
    for capacity in [1, 2, 7] {
        let system = System::builder().workers(1).build().unwrap();
        let (slow, release) = slow(&system, capacity, WhenFull::Fail);
        let full = ActorError::Full { actor: slow.identity(), capacity };
        let accepted: Vec<_> = (0..capacity as u64).map(|n| slow.put(n)).collect();
        assert_eq!(slow.put(100).wait(), Err(full.clone()));
        assert_eq!(slow.tell().put(101).accepted(), Err(full.clone()));
        assert_eq!(slow.run(|_, _| ()).wait(), Err(full));
        release.send(()).unwrap();
        for (n, answer) in (0..).zip(accepted) {
            assert_eq!(answer.wait(), Ok(n));
        }
        assert_eq!(slow.taken().wait(), Ok((0..capacity as u64).collect()));
    }
}

#[test]
fn a_full_mailbox_that_waits_blocks_threads_and_keeps_their_order() {
    let system = System::builder().workers(1).build().unwrap();
    let (slow, release) = slow(&system, 2, WhenFull::Wait);
    let senders: Vec<_> = (0..3)
        .map(|sender| {
            let slow = slow.clone();
            std::thread::spawn(move || {
                (0..50).for_each(|n| slow.tell().put(sender * 100 + n).accepted().unwrap());
            })
        })
        .collect();
    release.send(()).unwrap();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let taken = slow.taken().wait().unwrap();
    assert_eq!(taken.len(), 150);
    for sender in 0..3 {
        let own: Vec<_> = taken.iter().filter(|&&n| n / 100 == sender).map(|n| n % 100).collect();
        assert_eq!(own, (0..50).collect::<Vec<_>>());
    }
}

/// Sends in its turns.
struct Producer;

#[actor]
impl Producer {
    fn produce(&self, to: SlowRef, count: u64) -> bool {
        (0..count).all(|n| to.tell().put(n).accepted().is_ok())
    }

    async fn produce_async(cx: Cx<Self>, to: SlowRef, count: u64) -> bool {
        let _ = cx;
        (0..count).all(|n| to.tell().put(n).accepted().is_ok())
    }
}

#[test]
fn a_turn_that_waits_for_room_does_not_stop_its_only_worker() {
    for ask in [ProducerRef::produce, ProducerRef::produce_async] {
        let system = System::builder().workers(1).build().unwrap();
        let to = system.spawn(Spec::new(Slow::default()).mailbox(Mailbox::bounded(3, WhenFull::Wait)));
        let producers: Vec<_> = (0..4).map(|_| ask(&system.spawn(Producer), to.clone(), 100)).collect();
        assert_eq!(Promise::join_all(producers).wait(), Ok(vec![true; 4]));
        assert_eq!(to.taken().wait().unwrap().len(), 400);
    }
}

#[test]
fn a_sender_that_waits_for_room_learns_of_the_actors_end() {
    let system = System::builder().workers(1).build().unwrap();
    let (slow, release) = slow(&system, 1, WhenFull::Wait);
    let first = slow.put(1);
    let (about_to_send, is_about_to_send) = mpsc::channel();
    let sender = {
        let slow = slow.clone();
        std::thread::spawn(move || {
            about_to_send.send(()).unwrap();
            slow.tell().put(2).accepted()
        })
    };
    is_about_to_send.recv().unwrap();
    slow.kill();
    release.send(()).unwrap();
    let stopped = ActorError::Stopped { actor: slow.identity() };
    assert_eq!(first.wait(), Err(stopped.clone()));
    assert_eq!(sender.join().unwrap(), Err(stopped));
}

#[test]
fn what_an_actor_owes_itself_is_never_refused() {
    let system = System::builder().workers(1).build().unwrap();
    let (slow, release) = slow(&system, 2, WhenFull::Fail);
    let suspended = [slow.suspended(1), slow.suspended(2)];
    release.send(()).unwrap();
    // Each may be refused as long as the mailbox is full; the suspended turns are resumed in any case.
    while slow.put(5).wait().is_err() {}
    assert_eq!(suspended.map(Promise::wait), [Ok(1), Ok(2)]);
}
