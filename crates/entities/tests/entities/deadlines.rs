//! At the deadline there is an answer, whatever is waited for.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use enact_entities::{
    Awaited, Command, Doubt, Durability, Engine, EngineOptions, Millis, ReadError, ReadMode, Receipt, ShutdownError,
    Strategy, SubmitError, View,
};
use enact_journal::{EntityKey, Fault, Journal, Memory};
use enact_journal_kit::sim::{Hang, SimDisk};
use tokio::time::Instant;

use crate::support::altered::Altered;
use crate::support::bank::{Bank as _, Event, Hand, State};
use crate::support::client::{
    Bank, LONG, balance, bank_over, book, command, disk_with_an_account, keyed_deposit, open, reopened, repeatable,
    until,
};
use crate::support::key;
use crate::support::watched::{Watched, Watcher};
use crate::support::world::{Packet, World};

/// A disk that hangs, until dropped: a test that fails must not wait for its journal.
struct Hanging<'a>(&'a SimDisk);

impl<'a> Hanging<'a> {
    fn on(disk: &'a SimDisk, what: Hang) -> Self {
        disk.hang(what);
        Self(disk)
    }
}

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Account B with 100 euros beside account A.
async fn disk_with_two_accounts() -> SimDisk {
    let disk = disk_with_an_account().await;
    let bank = reopened(&disk);
    open(&bank, "Account/B", 10_000).await;
    bank.shutdown(LONG).await.expect("the journal closes");
    disk
}

fn deposit(cents: i128) -> Command<Event> {
    command("Account/A", Event::Deposit(cents))
}

/// The answer to `command` when no other one with its key is running.
async fn answer<J: Journal>(bank: &Bank<J>, command: &Command<Event>) -> Result<Receipt, SubmitError> {
    loop {
        match bank.submit(command.clone()).await {
            Err(SubmitError::KeyInUse { .. }) => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
}

/// Asks with longer and longer deadlines until it says `expected`.
async fn comes_to(expected: &Option<Awaited>, ask: impl AsyncFn(Duration) -> Option<Awaited>) {
    let mut deadline = Duration::from_millis(10);
    loop {
        let awaited = ask(deadline).await;
        if awaited == *expected {
            return;
        }
        assert!(deadline < LONG, "waits for {awaited:?}, not for {expected:?}");
        deadline *= 2;
    }
}

/// Fails unless `command` times out while it waits for `expected`.
async fn times_out<J: Journal>(bank: &Bank<J>, command: Command<Event>, expected: Awaited) {
    comes_to(&Some(expected), async |deadline| match answer(bank, &Command { deadline, ..command.clone() }).await {
        Err(SubmitError::Timeout { awaited, waits_for, .. }) => {
            assert!(waits_for.is_empty());
            Some(awaited)
        }
        other => panic!("nothing was recorded: {other:?}"),
    })
    .await;
}

/// Fails unless `command` is in doubt while its record is written.
async fn is_left_in_doubt<J: Journal>(bank: &Bank<J>, command: Command<Event>) {
    comes_to(&None, async |deadline| match answer(bank, &Command { deadline, ..command.clone() }).await {
        Err(SubmitError::Timeout { awaited, .. }) => Some(awaited),
        Err(SubmitError::InDoubt { doubt: Doubt::Recording, .. }) => None,
        other => panic!("the disk hangs: {other:?}"),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_whose_reads_hang_is_named_at_the_deadline_and_nothing_happens() {
    let disk = disk_with_an_account().await;
    let bank = reopened(&disk);
    let hanging = Hanging::on(&disk, Hang::Reads);
    times_out(&bank, deposit(1), Awaited::Load(key("Account/A"))).await;
    comes_to(&Some(Awaited::Load(key("Account/A"))), async |deadline| {
        match bank.read(&key("Account/A"), ReadMode::Certain, None, deadline).await {
            Err(ReadError::Timeout { awaited, .. }) => Some(awaited),
            other => panic!("the disk hangs: {other:?}"),
        }
    })
    .await;
    times_out(&bank, keyed_deposit(), Awaited::Key).await;
    drop(hanging);
    assert_eq!(balance(&bank, "Account/A").await, 10_100);
    assert!(bank.submit(keyed_deposit()).await.expect("its answer can be read").replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_that_cannot_be_loaded_holds_up_the_others_until_the_deadline_only() {
    let disk = disk_with_two_accounts().await;
    let bank = reopened(&disk);
    assert_eq!(balance(&bank, "Account/A").await, 10_100);
    let hanging = Hanging::on(&disk, Hang::Reads);
    times_out(&bank, book(1, "Account/A", "Account/B", 10_000), Awaited::Load(key("Account/B"))).await;
    // It waits while the transfer is open.
    bank.submit(command("Account/A", Event::Withdraw(10_000))).await.expect("the transfer has been given up");
    drop(hanging);
    assert_eq!((balance(&bank, "Account/A").await, balance(&bank, "Account/B").await), (100, 10_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_stands_in_line_at_its_deadline_is_recorded_and_answered_when_those_before_it_are_decided() {
    let disk = disk_with_two_accounts().await;
    let bank = reopened(&disk);
    assert_eq!(balance(&bank, "Account/A").await, 10_100);
    let hanging = Hanging::on(&disk, Hang::Reads);
    // It is open at A, and B cannot be loaded.
    let transfer = Command { deadline: LONG, ..book(1, "Account/A", "Account/B", 10_000) };
    let transfer = tokio::spawn({
        let bank = bank.clone();
        async move { bank.submit(transfer).await }
    });
    let number = AtomicU8::new(0);
    let last = || {
        let key = format!("interest-{}", number.load(Ordering::Relaxed));
        repeatable(command("Account/A", Event::Interest(10)), &key, 1)
    };
    comes_to(&None, async |deadline| {
        number.fetch_add(1, Ordering::Relaxed);
        match answer(&bank, &Command { deadline, ..last() }).await {
            Err(SubmitError::InDoubt { doubt: Doubt::InLine, tx, graph }) => {
                let [interest, transfer] = &graph[..] else { panic!("two wait: {graph:?}") };
                assert_eq!((interest.tx, &interest.awaited), (tx, &Awaited::Line(key("Account/A"))));
                assert_eq!((interest.waits_for[0].event.as_str(), interest.waits_for[0].tx), ("Withdraw", transfer.tx));
                assert_eq!(transfer.awaited, Awaited::Load(key("Account/B")));
                None
            }
            // The transfer has not come to A.
            Ok(_) => Some(Awaited::Entity(key("Account/A"))),
            // Its deadline came too early.
            Err(SubmitError::InDoubt { doubt: Doubt::Recording, .. }) => Some(Awaited::Record),
            Err(SubmitError::Timeout { awaited, .. }) => Some(awaited),
            other => panic!("it is possible whatever becomes of the transfer: {other:?}"),
        }
    })
    .await;
    drop(hanging);
    transfer.await.expect("no panic").expect("it is covered");
    assert!(answer(&bank, &last()).await.expect("it happened").replayed);
    assert_eq!(balance(&bank, "Account/B").await, 20_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_being_written_at_the_deadline_is_in_doubt_until_it_is_written() {
    for what in [Hang::Writes, Hang::Syncs] {
        let disk = disk_with_an_account().await;
        let bank = reopened(&disk);
        assert_eq!(balance(&bank, "Account/A").await, 10_100);
        let hanging = Hanging::on(&disk, what);
        let doubtful = repeatable(deposit(7), "d-2", 2);
        is_left_in_doubt(&bank, doubtful.clone()).await;
        let again = bank.submit(doubtful.clone()).await;
        let Err(SubmitError::KeyInUse { tx, graph }) = again else { panic!("{what:?}: {again:?}") };
        assert!(matches!(&graph[..], [link] if link.tx == tx && link.awaited == Awaited::Record), "{graph:?}");
        assert_eq!(bank.failure(), None);
        drop(hanging);
        assert!(answer(&bank, &doubtful).await.expect("it is recorded").replayed, "{what:?}");
        assert_eq!(balance(&bank, "Account/A").await, 10_107);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_a_disk_that_hangs() {
    let disk = disk_with_an_account().await;
    let bank = reopened(&disk);
    assert_eq!(balance(&bank, "Account/A").await, 10_100);
    let hanging = Hanging::on(&disk, Hang::Syncs);
    is_left_in_doubt(&bank, deposit(1)).await;
    let stopped = bank.shutdown(Duration::ZERO).await;
    assert!(matches!(stopped, Err(ShutdownError::Unclosed { under_way: 1, .. })), "{stopped:?}");
    // Nothing waits for the journal, not even its last owner.
    drop(bank);
    drop(hanging);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_that_was_loaded_is_appended_to_without_asking_where_its_records_end() {
    let journal = Memory::new();
    let bank = bank_over(Altered::without_ends(journal.clone()), EngineOptions::default());
    bank.submit(command("Account/A", Event::Open(10_000))).await.expect("possible");
    bank.submit(deposit(1)).await.expect("possible");
    assert_eq!(bank.shutdown(LONG).await, Ok(()));
    let bank = bank_over(Altered::without_ends(journal.crash()), EngineOptions::default());
    bank.submit(deposit(1)).await.expect("possible");
    assert_eq!(balance(&bank, "Account/A").await, 10_002);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_cannot_take_the_record_is_named_at_the_deadline() {
    let journal = Memory::new();
    let bank = bank_over(Altered::without_ends(journal.clone()), EngineOptions::default());
    bank.submit(command("Account/A", Event::Open(10_000))).await.expect("possible");
    // Where its records end is asked anew after a refusal.
    journal.fail_next(Fault::Refused);
    let refused = bank.submit(deposit(1)).await;
    assert!(matches!(refused, Err(SubmitError::StorageFull { .. })), "{refused:?}");
    times_out(&bank, deposit(1), Awaited::Journal).await;
    assert_eq!(bank.shutdown(LONG).await, Ok(()), "the command has ended");
}

/// Ten new commands for each turn that the entity takes: its queue only grows, and no tick comes through.
#[test]
fn a_deadline_is_served_by_the_first_turn_after_it_however_long_the_queue_is() {
    let mut world = World::new(Strategy::Serializable, Durability::Shared);
    world.account("Account/A", 100);
    let open = world.event("Account/A", Hand::withdraw(60));
    world.run_except(|packet| packet.is_decision() && packet.tx() == open);
    let mut delayed = Vec::new();
    for _ in 0..50 {
        delayed.push(world.event("Account/A", Hand::withdraw(60)));
        world.run_except(Packet::is_decision);
        world.now = world.now + Millis(1);
    }
    let (mut turns, mut late) = (0, 0);
    while turns < 2_000 {
        for _ in 0..10 {
            world.event("Account/A", Hand::deposit(1));
        }
        let next = world.net.iter().position(|packet| matches!(packet, Packet::Down(..)) && !packet.is_decision());
        world.deliver(next.expect("there is always more"));
        turns += 1;
        let next = world.participants[&key("Account/A")].admission().next_deadline();
        late += usize::from(next.is_some_and(|deadline| deadline <= world.now));
        world.now = world.now + Millis(1);
    }
    assert_eq!(late, 0, "turns after which a deadline had come and was not served");
    let queued = world.net.iter().filter(|packet| packet.is_prepare()).count();
    assert!(queued > 15_000, "the load is ten times what is served: {queued}");
    let admission = world.participants[&key("Account/A")].admission();
    assert!(delayed.iter().all(|tx| admission.delayed_attempt(*tx).is_none()), "all have been told");
}

/// What the deposits of an account wait for.
struct Turns {
    /// Heard by a turn that has begun.
    begun: mpsc::Receiver<()>,
    over: mpsc::SyncSender<()>,
}

/// Keeps an account in its turn with each deposit of 666 cents until the turn is over.
struct LongTurns {
    begin: mpsc::Sender<()>,
    over: Mutex<mpsc::Receiver<()>>,
}

impl Watcher for LongTurns {
    fn hear(&self, _: &EntityKey, event: &Event) {
        if *event == Event::Deposit(666) {
            self.begin.send(()).expect("the test goes on");
            self.over.lock().expect("no panic").recv().expect("the test goes on");
        }
    }
}

fn bank_with_long_turns(journal: &Memory) -> (Engine<Watched<LongTurns>, Memory>, Turns) {
    let ((begin, begun), (over, wait)) = (mpsc::channel(), mpsc::sync_channel(0));
    let model = Watched(LongTurns { begin, over: Mutex::new(wait) });
    (Engine::new(model, journal.clone(), EngineOptions::default()), Turns { begun, over })
}

/// Has the account begin a long turn, on a thread of its own.
fn begin_a_long_turn(bank: &Engine<Watched<LongTurns>, Memory>, turns: &Turns) -> JoinHandle<()> {
    let bank = bank.clone();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(bank.submit(deposit(666))).expect("it is possible");
    });
    turns.begun.recv().expect("the thread goes on");
    thread
}

/// Ends each turn until the thread has its answer.
fn end_the_turn(turns: &Turns, thread: JoinHandle<()>) {
    while !thread.is_finished() {
        turns.over.try_send(()).ok();
        thread::yield_now();
    }
    thread.join().expect("no panic");
}

#[tokio::test]
async fn an_entity_whose_turn_goes_on_is_named_at_the_deadline_and_nothing_happens() {
    let (bank, turns) = bank_with_long_turns(&Memory::new());
    bank.submit(command("Account/A", Event::Open(10_000))).await.expect("it is new");
    let thread = begin_a_long_turn(&bank, &turns);
    let late = bank.submit(Command { deadline: Duration::from_millis(10), ..deposit(1) }).await;
    let entity = Awaited::Entity(key("Account/A"));
    assert!(matches!(&late, Err(SubmitError::Timeout { awaited, .. }) if *awaited == entity), "{late:?}");
    end_the_turn(&turns, thread);
    match bank.read(&key("Account/A"), ReadMode::Certain, None, LONG).await {
        Ok(View::One { state: State::Account { balance, .. }, .. }) => assert_eq!(balance, 10_666),
        other => panic!("the account is open: {other:?}"),
    }
    assert_eq!(bank.shutdown(LONG).await, Ok(()), "the command has ended");
}

/// The entity has delayed the command, and is in a long turn before it can say so.
#[tokio::test]
async fn a_deadline_is_answered_within_20_ms_also_if_the_entity_does_not_get_to_say_why() {
    let journal = Memory::new();
    let (bank, turns) = bank_with_long_turns(&journal);
    bank.submit(command("Account/A", Event::Open(10_000))).await.expect("it is new");
    journal.hold();
    let submit = |command: Command<Event>| {
        let bank = bank.clone();
        tokio::spawn(async move { bank.submit(command).await })
    };
    let first = submit(command("Account/A", Event::Withdraw(6_000)));
    until(|| journal.waiting_count() > 0).await;
    let dependent = repeatable(command("Account/A", Event::Withdraw(6_000)), "w", 1);
    let late = submit(dependent.clone());
    // Its key is held as soon as it has begun.
    tokio::task::yield_now().await;
    let is_delayed = async || match bank.submit(dependent.clone()).await {
        Err(SubmitError::KeyInUse { graph, .. }) => graph.first().is_some_and(|link| !link.waits_for.is_empty()),
        other => panic!("it waits: {other:?}"),
    };
    while !is_delayed().await {
        tokio::task::yield_now().await;
    }
    let thread = begin_a_long_turn(&bank, &turns);
    let submitted = Instant::now();
    // From here on time passes only while nothing else happens.
    tokio::time::pause();
    let answer = late.await.expect("no panic");
    assert!(Instant::now() <= submitted + LONG + Duration::from_millis(20), "{:?} late", submitted.elapsed() - LONG);
    assert!(matches!(&answer, Err(SubmitError::Timeout { awaited: Awaited::Entity(_), .. })), "{answer:?}");
    tokio::time::resume();
    journal.release();
    end_the_turn(&turns, thread);
    first.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_caller_is_gone_is_given_up_at_its_deadline() {
    let disk = disk_with_an_account().await;
    let bank = reopened(&disk);
    let hanging = Hanging::on(&disk, Hang::Reads);
    let caller = tokio::spawn({
        let (bank, command) = (bank.clone(), Command { deadline: Duration::from_millis(10), ..keyed_deposit() });
        async move { bank.submit(command).await }
    });
    until(|| disk.hanging_count() > 0).await;
    caller.abort();
    assert!(caller.await.map_or_else(|error| error.is_cancelled(), |answer| answer.is_err()));
    // Its key is free again although the disk still hangs.
    let again = Command { deadline: Duration::from_millis(10), ..keyed_deposit() };
    let answer = answer(&bank, &again).await;
    assert!(matches!(answer, Err(SubmitError::Timeout { .. })), "{answer:?}");
    drop(hanging);
}
