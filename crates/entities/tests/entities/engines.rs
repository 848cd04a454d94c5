//! Engines with a journal each: what becomes of a transaction over several of them, whatever is lost and whichever of them crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use enact_entities::{
    Command, Cursor, Engine, EngineOptions, EntityKey, HistoryPart, ReadError, ReadMode, Record, SubmitError,
    SystemClock, Transport, View,
};
use enact_journal::{Fault, Journal, Memory, Position};
use enact_sync::Mutex;
use proptest::prelude::*;
use tokio::task::JoinHandle;

use crate::changes::{follow, told};
use crate::support::bank::{Event, Hand, State};
use crate::support::chance::Chance;
use crate::support::client::{LONG, balance, book, command, open, repeatable, until};
use crate::support::key;

type Bank = Engine<Hand, Memory>;

const NAMES: [&str; 2] = ["north", "south"];

/// North has everything but what has a name that begins with S.
fn place(entity: &EntityKey) -> usize {
    usize::from(entity.id().starts_with('S'))
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    Lost,
    Doubled,
    Late,
}

/// The fate of the next message, by the number of the engine that sends it.
type Fates = Box<dyn FnMut(usize) -> Fate + Send>;

/// A run of an engine, by its number, which ends with its task.
type Run = (usize, JoinHandle<()>);

/// Two engines, and a network between them that misbehaves on command.
#[derive(Clone)]
struct World {
    banks: Arc<Mutex<Vec<Option<Bank>>>>,
    journals: Arc<Mutex<[Memory; 2]>>,
    fate: Arc<Mutex<Fates>>,
    running: Arc<Mutex<Vec<Run>>>,
}

/// The network as one run of one engine has it.
struct Wire {
    world: World,
    here: usize,
    is_cut: Arc<AtomicBool>,
}

impl Transport for Wire {
    fn here(&self) -> &str {
        NAMES[self.here]
    }

    fn engine_of(&self, entity: &EntityKey) -> &str {
        NAMES[place(entity)]
    }

    fn send(&self, engine: &str, message: Vec<u8>) {
        if self.is_cut.load(Ordering::SeqCst) {
            return;
        }
        let to = NAMES.iter().position(|name| *name == engine).expect("there are two");
        let (world, fate) = (self.world.clone(), (self.world.fate.lock())(self.here));
        let deliver = move || {
            let bank = world.banks.lock()[to].clone();
            bank.map_or(Ok(()), |bank| bank.receive(&message)).expect("engines understand each other");
        };
        match fate {
            Fate::Lost => {}
            Fate::Arrives => deliver(),
            Fate::Doubled => {
                deliver();
                deliver();
            }
            Fate::Late => drop(tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                deliver();
            })),
        }
    }
}

impl World {
    fn new() -> Self {
        let world = Self {
            banks: Arc::new(Mutex::new(vec![None, None])),
            journals: Arc::new(Mutex::new([Memory::new(), Memory::new()])),
            fate: Arc::new(Mutex::new(Box::new(|_| Fate::Arrives))),
            running: Arc::default(),
        };
        (0..2).for_each(|here| world.start(here));
        world
    }

    fn start(&self, here: usize) {
        let is_cut = Arc::new(AtomicBool::new(false));
        let wire = Arc::new(Wire { world: self.clone(), here, is_cut: Arc::clone(&is_cut) });
        let (model, journal) = (Hand { hints: true }, self.journals.lock()[here].clone());
        let options = EngineOptions::default();
        let bank = Engine::with_transport(model, journal, options, Arc::new(SystemClock), wire).expect("a name");
        self.banks.lock()[here] = Some(bank.clone());
        let task = tokio::spawn(async move {
            // What is cut when the task ends is the run.
            let _cut = Cut(is_cut);
            match bank.maintain().await {}
        });
        self.running.lock().push((here, task));
    }

    /// Kills an engine: nothing that it has not written, nor anything that it would say, is heard of again.
    async fn kill(&self, here: usize) {
        let crashed = self.journals.lock()[here].crash();
        self.banks.lock()[here] = None;
        self.journals.lock()[here] = crashed;
        let ended: Vec<_> = self.running.lock().extract_if(.., |(of, _)| *of == here).collect();
        for (_, task) in ended {
            task.abort();
            let _ = task.await;
        }
    }

    async fn restart(&self, here: usize) {
        self.kill(here).await;
        self.start(here);
    }

    fn bank(&self, here: usize) -> Bank {
        self.banks.lock()[here].clone().expect("it is running")
    }

    fn journal(&self, here: usize) -> Memory {
        self.journals.lock()[here].clone()
    }

    async fn balance(&self, account: &str) -> i128 {
        balance(&self.bank(place(&key(account))), account).await
    }

    /// `N` with north and `S` with south have EUR 100 each.
    async fn with_accounts() -> Self {
        let world = Self::new();
        for account in ["Account/N", "Account/S"] {
            open(&world.bank(place(&key(account))), account, 10_000).await;
        }
        world
    }

    fn submit(&self, command: Command<Event>) -> JoinHandle<Result<(), SubmitError>> {
        let bank = self.bank(place(&command.key));
        tokio::spawn(async move { bank.submit(command).await.map(drop) })
    }

    fn lose_everything(&self, loses: bool) {
        *self.fate.lock() = Box::new(move |_| if loses { Fate::Lost } else { Fate::Arrives });
    }
}

struct Cut(Arc<AtomicBool>);

impl Drop for Cut {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_between_engines_happens_in_both() {
    let world = World::with_accounts().await;
    world.submit(book(1, "Account/N", "Account/S", 3_000)).await.unwrap().expect("there is enough");
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (7_000, 13_000));
    world.submit(book(2, "Account/S", "Account/N", 13_000)).await.unwrap().expect("there is enough");
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (20_000, 0));
    // And once more from what the journals say.
    for here in 0..2 {
        world.restart(here).await;
    }
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (20_000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_in_one_engine_leaves_nothing_in_the_other() {
    let world = World::with_accounts().await;
    let refused = world.submit(book(1, "Account/S", "Account/N", 10_001)).await.unwrap();
    let Err(SubmitError::Refused { refusal, .. }) = refused else { panic!("there is not so much: {refused:?}") };
    assert_eq!(refusal.entity, key("Account/S"));
    // Nothing is promised any more: all that there is can be taken.
    world.submit(command("Account/N", Event::Withdraw(10_000))).await.unwrap().expect("there is enough");
    world.submit(command("Account/S", Event::Withdraw(10_000))).await.unwrap().expect("there is enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_over_two_engines_waits_for_two_appends() {
    let world = World::with_accounts().await;
    let (north, south) = (world.journal(0), world.journal(1));
    north.hold();
    south.hold();
    let transfer = world.submit(book(1, "Account/N", "Account/S", 3_000));
    until(|| south.waiting_count() == 1).await;
    assert_eq!(north.waiting_count(), 0, "nothing is written before the promise is durable");
    south.sync(1);
    until(|| north.waiting_count() == 1).await;
    north.sync(1);
    transfer.await.unwrap().expect("there is enough");
    // The outcome waits for nobody, and nobody for it.
    until(|| south.waiting_count() == 1).await;
    south.release();
    north.release();
    assert_eq!(world.balance("Account/S").await, 13_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_whose_journal_was_taken_over_does_not_say_that_what_it_does_not_know_is_aborted() {
    let world = World::with_accounts().await;
    let old = world.bank(0);
    let _its_task: Vec<_> = world.running.lock().extract_if(.., |(of, _)| *of == 0).collect();
    let taken_over = world.journals.lock()[0].take_over("another north");
    world.journals.lock()[0] = taken_over;
    world.start(0);
    // The request for the promise arrives, and nothing more.
    let sent = AtomicUsize::new(0);
    let first = move |here| here == 1 || sent.fetch_add(1, Ordering::SeqCst) == 0;
    *world.fate.lock() = Box::new(move |here| if first(here) { Fate::Arrives } else { Fate::Lost });
    world.submit(book(1, "Account/N", "Account/S", 3_000)).await.unwrap().expect("there is enough");
    world.kill(0).await;

    world.banks.lock()[0] = Some(old.clone());
    world.lose_everything(false);
    world.bank(1).send_again("north");
    tokio::select! {
        () = until(|| old.failure().is_some()) => {}
        balance = world.balance("Account/S") => panic!("it was told to abort, and has {balance}"),
    }
    world.start(0);
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (7_000, 13_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_counted_once_with_the_engines_that_it_is_of() {
    let world = World::with_accounts().await;
    world.submit(book(1, "Account/N", "Account/S", 3_000)).await.unwrap().expect("there is enough");
    world.submit(book(2, "Account/N", "Account/S", 10_001)).await.unwrap().expect_err("there is not so much");
    world.submit(command("Account/S", Event::Deposit(1))).await.unwrap().expect("it is possible");
    let spans = |here: usize| world.bank(here).metrics().spans;
    // What an account was opened with, and a deposit, is of one.
    assert_eq!((spans(0), spans(1)), (vec![1, 1, 0, 0, 0, 0, 0, 0], vec![2, 0, 0, 0, 0, 0, 0, 0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_are_elsewhere_promise_at_the_same_time() {
    let world = World::with_accounts().await;
    open(&world.bank(1), "Account/S2", 10_000).await;
    let south = world.journal(1);
    south.hold();
    let transfer = world.submit(book(1, "Account/S", "Account/S2", 3_000));
    until(|| south.waiting_count() == 2).await;
    south.release();
    transfer.await.unwrap().expect("there is enough");
    assert_eq!((world.balance("Account/S").await, world.balance("Account/S2").await), (7_000, 13_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_full_disk_of_another_engine_is_named() {
    let world = World::with_accounts().await;
    world.journal(1).fail_next(Fault::Refused);
    let refused = world.submit(book(1, "Account/N", "Account/S", 3_000)).await.unwrap();
    let Err(SubmitError::StorageFull { why }) = refused else { panic!("it cannot promise: {refused:?}") };
    assert_eq!(why, "engine south: as commanded");
    world.submit(book(2, "Account/N", "Account/S", 10_000)).await.unwrap().expect("nothing is promised any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_engine_has_is_submitted_and_read_there() {
    let world = World::with_accounts().await;
    let submitted = world.bank(0).submit(command("Account/S", Event::Deposit(1))).await;
    let engine = "south".to_owned();
    assert_eq!(submitted, Err(SubmitError::Elsewhere { entity: key("Account/S"), engine: engine.clone() }));
    let read = world.bank(0).read(&key("Account/S"), ReadMode::Applied, None, LONG).await;
    assert!(matches!(&read, Err(ReadError::Elsewhere { engine: of, .. }) if *of == engine), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_lost_is_sent_again() {
    let world = World::with_accounts().await;
    // The question, the vote, the decision, its acknowledgement.
    for lost in 0..4 {
        let mut sent = 0;
        *world.fate.lock() = Box::new(move |_| {
            sent += 1;
            if sent == lost + 1 { Fate::Lost } else { Fate::Arrives }
        });
        let before = world.journal(0).last(&key(".decisions/all")).await.expect("open").0;
        world.submit(book(lost, "Account/N", "Account/S", 1_000)).await.unwrap().expect("nothing else is wrong");
        while world.journal(0).last(&key(".decisions/all")).await.expect("open").0 < before + 2 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (6_000, 14_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_engine_costs_the_deadline_and_nothing_else() {
    let world = World::with_accounts().await;
    world.lose_everything(true);
    let mut transfer = book(1, "Account/N", "Account/S", 3_000);
    transfer.deadline = Duration::from_millis(50);
    let told = world.submit(transfer.clone()).await.unwrap();
    assert!(matches!(told, Err(SubmitError::Timeout { .. })), "{told:?}");
    world.lose_everything(false);
    assert_eq!(world.balance("Account/N").await, 10_000);
    transfer.deadline = LONG;
    world.submit(transfer).await.unwrap().expect("nothing has happened before");
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (7_000, 13_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_that_stop_together_let_the_commands_of_each_other_end() {
    let world = World::with_accounts().await;
    world.lose_everything(true);
    let transfer = world.submit(book(1, "Account/N", "Account/S", 3_000));
    let (north, south) = (world.bank(0), world.bank(1));
    until(|| north.metrics().commands == 1).await;
    assert!(south.drain(LONG).await);
    let refused = world.submit(command("Account/S", Event::Deposit(1))).await.unwrap();
    assert!(matches!(refused, Err(SubmitError::Stopping)), "{refused:?}");
    // Only now is the promise asked for.
    world.lose_everything(false);
    north.send_again("south");
    assert!(north.drain(LONG).await);
    transfer.await.unwrap().expect("all promise what it needs");
    for bank in [north, south] {
        bank.shutdown(LONG).await.expect("the journal closes");
    }
}

/// How many promises and decisions the engine number `here` has written, and how many of both it has written to be settled.
async fn written(world: &World, here: usize) -> (usize, usize) {
    let records = world.journal(here).crash().feed(Position::START, 100_000).await.expect("readable");
    let decoded = records.iter().map(|read| match read.entity.class() {
        "Account" | "Transfer" | ".decisions" => Record::<Event>::decode(&read.payload).expect("a record"),
        class => panic!("records of {class} are not expected"),
    });
    decoded.fold((0, 0), |(open, settled), record| match record {
        Record::Prepared(_) => (open + 1, settled),
        Record::Decision(decision) if !decision.participants.is_empty() => (open + 1, settled),
        Record::Outcome { .. } | Record::End { .. } => (open, settled + 1),
        _ => (open, settled),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_that_stop_together_leave_nothing_undecided() {
    for round in 0..20 {
        let world = World::with_accounts().await;
        let (north, south) = (world.bank(0), world.bank(1));
        let transfers = (0..40).map(|n| {
            let (from, to) = if n % 2 == 0 { ("Account/N", "Account/S") } else { ("Account/S", "Account/N") };
            world.submit(book(n, from, to, 1))
        });
        let transfers: Vec<_> = transfers.collect();
        until(|| transfers.iter().filter(|transfer| transfer.is_finished()).count() > round).await;
        assert_eq!(tokio::join!(north.drain(LONG), south.drain(LONG)), (true, true));
        let (north, south) = tokio::join!(north.shutdown(LONG), south.shutdown(LONG));
        north.and(south).expect("the journals close");
        for here in 0..2 {
            let (open, settled) = written(&world, here).await;
            assert_eq!(open, settled, "engine {here} in round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_engine_that_closes_cannot_promise_the_next_one_is_asked_for() {
    let world = World::with_accounts().await;
    let north = world.journal(0);
    north.hold();
    let first = world.submit(book(1, "Account/S", "Account/N", 10_000));
    until(|| north.waiting_count() == 1).await;
    let asked = Arc::new(AtomicBool::new(false));
    let sent = Arc::clone(&asked);
    *world.fate.lock() = Box::new(move |_| {
        sent.store(true, Ordering::SeqCst);
        Fate::Arrives
    });
    // It waits in the south until it is known whether the first one takes all that is there.
    let second = world.submit(book(2, "Account/S", "Account/N", 1));
    until(|| asked.load(Ordering::SeqCst)).await;
    world.bank(1).shutdown(LONG).await.expect("the journal closes");
    north.release();
    first.await.unwrap().expect("it was promised");
    assert!(!second.is_finished(), "the engine that was asked says nothing more");
    world.restart(1).await;
    world.bank(0).send_again("south");
    let refused = second.await.unwrap();
    assert!(matches!(refused, Err(SubmitError::Refused { .. })), "{refused:?}");
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (20_000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_outlives_a_crash_and_is_kept() {
    let world = World::with_accounts().await;
    let (north, south) = (world.journal(0), world.journal(1));
    north.hold();
    let transfer = world.submit(book(1, "Account/S", "Account/N", 10_000));
    // South has promised; the decision is on its way to the disk.
    until(|| north.waiting_count() == 1).await;
    drop(south);
    world.restart(1).await;
    let withdrawn = Command { deadline: Duration::from_millis(50), ..command("Account/S", Event::Withdraw(10_000)) };
    let told = world.submit(withdrawn).await.unwrap();
    assert!(matches!(told, Err(SubmitError::Timeout { .. })), "it is promised to another: {told:?}");
    north.release();
    transfer.await.unwrap().expect("it was promised");
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (20_000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_durable_decision_a_crash_of_the_coordinator_aborts() {
    let world = World::with_accounts().await;
    let north = world.journal(0);
    north.hold();
    let transfer = world.submit(book(1, "Account/S", "Account/N", 10_000));
    until(|| north.waiting_count() == 1).await;
    world.restart(0).await;
    assert!(matches!(transfer.await.unwrap(), Err(SubmitError::InDoubt { .. })));
    // South asks, and is told to give its promise up.
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (10_000, 10_000));
    world.submit(command("Account/S", Event::Withdraw(10_000))).await.unwrap().expect("nothing is promised");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_comes_before_decisions_can_be_read_is_answered_as_soon_as_they_are() {
    let world = World::with_accounts().await;
    world.journal(0).hold();
    let transfer = world.submit(book(1, "Account/S", "Account/N", 10_000));
    until(|| world.journal(0).waiting_count() == 1).await;
    world.kill(0).await;
    drop(transfer);
    let north = world.journal(0);
    north.fail_reads(true);
    world.start(0);
    // South asks once, and whatever it asks later is lost.
    let asked = Arc::new(AtomicUsize::new(0));
    let asks = Arc::clone(&asked);
    *world.fate.lock() =
        Box::new(
            move |from| {
                if from == 1 && asks.fetch_add(1, Ordering::SeqCst) > 0 { Fate::Lost } else { Fate::Arrives }
            },
        );
    world.bank(1).send_again("north");
    until(|| asked.load(Ordering::SeqCst) > 0).await;
    let records = || async { world.journal(1).last(&key("Account/S")).await.expect("open") };
    let promised = records().await;
    north.fail_reads(false);
    while records().await == promised {
        assert!(asked.load(Ordering::SeqCst) < 6, "the question was forgotten");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_decision_is_told_after_a_crash_of_the_coordinator() {
    let world = World::with_accounts().await;
    let (north, south) = (world.journal(0), world.journal(1));
    north.hold();
    let transfer = world.submit(book(1, "Account/S", "Account/N", 10_000));
    until(|| north.waiting_count() == 1).await;
    world.lose_everything(true);
    north.release();
    transfer.await.unwrap().expect("the decision is durable");
    world.restart(0).await;
    // Neither did the participant write what it was not told.
    drop(south);
    world.restart(1).await;
    world.lose_everything(false);
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (20_000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_asks_for_an_entity_and_its_promise_is_settled_after_a_crash() {
    let world = World::with_accounts().await;
    let north = world.journal(0);
    north.hold();
    let transfer = world.submit(book(1, "Account/S", "Account/N", 10_000));
    until(|| north.waiting_count() == 1).await;
    let records = || async { world.journal(1).last(&key("Account/S")).await.expect("open") };
    let promised = records().await;
    world.restart(0).await;
    world.restart(1).await;
    drop(transfer);
    // An outcome follows the promise, though the account is not asked for anything.
    while records().await == promised {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_forgotten_when_everybody_has_acknowledged_it_and_not_before() {
    let world = World::with_accounts().await;
    let (north, decisions) = (world.journal(0), key(".decisions/all"));
    let written = || async { north.last(&decisions).await.expect("open").0 };
    let south = world.journal(1);
    south.hold();
    let transfer = world.submit(book(1, "Account/N", "Account/S", 3_000));
    until(|| south.waiting_count() == 1).await;
    south.sync(1);
    transfer.await.unwrap().expect("there is enough");
    until(|| south.waiting_count() == 1).await;
    assert_eq!(written().await, 1, "the outcome is not durable");
    south.release();
    while written().await == 1 {
        tokio::task::yield_now().await;
    }
    // Neither is anything of a transaction within one engine kept.
    world.submit(book(2, "Account/N", "Account/N2", 1)).await.unwrap().expect_err("there is no such account");
    open(&world.bank(0), "Account/N2", 10_000).await;
    world.submit(book(3, "Account/N", "Account/N2", 1)).await.unwrap().expect("there is enough");
    assert_eq!(written().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_key_gets_one_answer_over_engines_and_crashes() {
    let world = World::with_accounts().await;
    let transfer = repeatable(book(1, "Account/S", "Account/N", 6_000), "t-1", 1);
    world.submit(transfer.clone()).await.unwrap().expect("there is enough");
    for here in 0..2 {
        let again = world.bank(0).submit(transfer.clone()).await.expect("it has been answered");
        assert!(again.replayed);
        world.restart(here).await;
    }
    assert!(world.bank(0).submit(transfer).await.expect("it has been answered").replayed);
    assert_eq!((world.balance("Account/N").await, world.balance("Account/S").await), (16_000, 4_000));
}

/// Transfers of both directions over a network that loses, doubles and reorders, while the engines crash at random moments.
async fn storm(seed: u64) {
    const ACCOUNTS: [&str; 4] = ["Account/N1", "Account/N2", "Account/S1", "Account/S2"];
    const TRANSFERS: usize = 40;
    const GIFT: i128 = 7;
    let world = World::new();
    for account in ACCOUNTS {
        open(&world.bank(place(&key(account))), account, 10_000).await;
    }
    let mut network = Chance::new(seed);
    *world.fate.lock() = Box::new(move |_| match network.below(10) {
        0 => Fate::Lost,
        1 => Fate::Doubled,
        2 => Fate::Late,
        _ => Fate::Arrives,
    });
    let mut chance = Chance::new(seed ^ 0x5eed);
    let mut told = Vec::new();
    let mut victim = chance.below(2);
    for number in 0..TRANSFERS {
        let from = chance.below(4);
        let to = (from + 1 + chance.below(3)) % 4;
        let amount = 1 + chance.below(3_000) as i128;
        let mut transfer = book(number, ACCOUNTS[from], ACCOUNTS[to], amount);
        transfer.key = key(&format!("Transfer/{}{number}", chance.pick(&["N", "S"])));
        transfer.deadline = Duration::from_millis(700);
        // A third of them are not alone in their transaction.
        let gift = (number % 3 == 0).then(|| chance.below(4));
        transfer.then = gift.map(|to| (key(ACCOUNTS[to]), Event::Deposit(GIFT))).into_iter().collect();
        let transfer_key = transfer.key.clone();
        told.push((transfer_key, (from, to, amount, gift), world.submit(transfer)));
        // Some end before the next crash, some after it.
        if number % 4 == 3 {
            let of = number - chance.below(4);
            let started = std::time::Instant::now();
            until(|| told[of].2.is_finished() || started.elapsed() > Duration::from_millis(30)).await;
        }
        // What is written from here on is lost with the crash, unless it is made durable before.
        if number % 10 == 6 {
            world.journal(victim).hold();
        }
        if number % 10 == 8 {
            world.journal(victim).sync(chance.below(3));
        }
        if number % 10 == 9 {
            world.restart(victim).await;
            victim = chance.below(2);
        }
    }
    let mut balances = [10_000_i128; 4];
    world.lose_everything(false);
    let mut outcomes = [0; 3];
    for (transfer, (from, to, amount, gift), task) in told {
        let told = task.await.unwrap();
        // A read waits until what is open there is decided.
        let view = world.bank(place(&transfer)).read(&transfer, ReadMode::Certain, None, LONG).await;
        let is_booked = matches!(view, Ok(View::One { state: State::Transfer { booked: true }, .. }));
        if is_booked {
            balances[from] -= amount;
            balances[to] += amount;
            gift.iter().for_each(|to| balances[*to] += GIFT);
        }
        match told {
            Ok(()) => {
                outcomes[0] += 1;
                assert!(is_booked, "seed {seed}: {transfer} was acknowledged");
            }
            Err(SubmitError::InDoubt { .. }) => outcomes[2] += 1,
            Err(cause) => {
                outcomes[1] += 1;
                assert!(!is_booked, "seed {seed}: {transfer} was told {cause}");
            }
        }
    }
    let mut found = [0; 4];
    for (index, account) in ACCOUNTS.iter().enumerate() {
        found[index] = world.balance(account).await;
    }
    println!("seed {seed}: {} done, {} not done, {} in doubt", outcomes[0], outcomes[1], outcomes[2]);
    assert_eq!(found, balances, "seed {seed}: {outcomes:?} done, not done, in doubt");
    // Also from the journals alone.
    for here in 0..2 {
        world.restart(here).await;
    }
    for (account, expected) in ACCOUNTS.iter().zip(balances) {
        assert_eq!(world.balance(account).await, expected, "seed {seed}: {account} after a restart");
    }
    for here in 0..2 {
        check_changes(
            &world.bank(here),
            &ACCOUNTS.map(key).into_iter().filter(|account| place(account) == here).collect::<Vec<_>>(),
            seed,
        )
        .await;
    }
}

/// What is told of all changes is what is told of each account, whatever the pages.
async fn check_changes(bank: &Bank, accounts: &[EntityKey], seed: u64) {
    let changes = follow(bank, Cursor::START, 1_000).await;
    let all: Vec<_> = changes.iter().map(told).collect();
    for limit in [1, 5] {
        let in_pages = follow(bank, Cursor::START, limit).await;
        assert_eq!(in_pages.iter().map(told).collect::<Vec<_>>(), all, "seed {seed}: in pages of {limit}");
    }
    for account in accounts {
        let part = HistoryPart::Page { after: None, limit: usize::MAX };
        let history = bank.history(account, part, LONG).await.expect("it can be read").transactions;
        let history: Vec<_> = history.into_iter().map(|past| (past.slot, past.tx, past.events)).collect();
        let told = changes.iter().filter(|change| change.entity == *account);
        let told: Vec<_> = told.map(|change| (change.slot, change.tx, change.events.clone())).collect();
        assert_eq!(told, history, "seed {seed}: {account}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_whatever_happens_between_engines() {
    let seeds = std::env::var("ENACT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    for seed in 0..seeds {
        storm(seed).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Bytes of another version are an error, and whatever comes leaves the engine as it was.
    #[test]
    fn bytes_that_are_no_message_have_no_effect(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let bank = World::new().bank(0);
            let mut versioned = vec![4];
            versioned.extend(&bytes);
            let is_of_this_program = matches!(bytes.first(), Some(3 | 4));
            prop_assert!(is_of_this_program || bank.receive(&bytes).is_err());
            if bank.receive(&versioned).is_err() {
                prop_assert_eq!(bank.failure(), None);
            }
            open(&bank, "Account/N", 10_000).await;
            prop_assert_eq!(balance(&bank, "Account/N").await, 10_000);
            Ok(())
        })?;
    }
}
