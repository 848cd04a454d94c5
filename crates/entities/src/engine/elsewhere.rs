//! What an engine has to do with others: messages to them and from them, and what a crash has left between them.
//!
//! # Where things are kept
//! A transaction is coordinated by the engine that its command was submitted to. Participants there share its journal; those elsewhere keep their
//! promises in theirs. The decision is one record group of the coordinator's journal: the effects of the participants there and the list of
//! the others, which are told until they have acknowledged it. A coordinator has a lasting address: [`COORDINATOR`], with
//! the name of its engine.
//!
//! # After a crash
//! Decisions that are not acknowledged are [read](super::decisions) and told again. Entities with open promises are
//! [found](super::promises), and ask. A question on a transaction that is neither under way nor decided is answered with abort, and not
//! before the decisions have been read. Another engine may have taken the journal over since, and have decided it: so the answer waits for
//! a [barrier](super::barrier), unless the transaction has ended here.
//!
//! # Messages
//! A message may be lost: what wants an answer sends it again after a while, and at once when it hears that the other engine has begun anew. An
//! engine that has failed drops all that comes. One that stops promises nothing more, and has what is promised and decided settled. Then
//! it closes its journal and says nothing more to coordinators elsewhere: what
//! it cannot record the next owner of the journal is asked for again, and what it sees may be out of date by then.
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use enact_journal::{EntityKey, EntityKeyError, Journal};
use enact_sync::Mutex;
use tokio::sync::{Notify, mpsc};

use super::decisions::Decisions;
use super::envelope::{Envelope, MessageError, Preparation, Unrecorded};
use super::origin;
use super::promises::Promises;
use super::transaction::Transaction;
use super::transport::Transport;
use super::{Engine, Shared, moment};
use crate::admission::Request;
use crate::coordinator::{Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput};
use crate::message::{Prepare, Said, ToCoordinator, ToParticipant, Vote};
use crate::model::Model;
use crate::participant::{Durability, WriteId, Written};
use crate::record::DecisionRecord;
use crate::tx::TxId;

/// The class of the address of a coordinator; its id is the name of the engine.
const COORDINATOR: &str = ".coordinator";

/// How many messages wait for one transaction; it has what is beyond them sent again.
const INBOX_MAX: usize = 1_024;

/// How many messages wait until all decisions are known; those that say what is beyond them say it again.
const EARLY_MAX: usize = 4_096;

/// How long an answer waits for the journal to prove it; afterwards the participant asks again.
const DISMISSAL_MAX: Duration = Duration::from_secs(5);

/// How many transactions are known to have ended here.
const ENDED_MAX: usize = 4_096;

/// How long the engine waits before it reads again what the journal could not read.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A message for one transaction.
#[derive(Debug)]
pub(super) enum Letter<E> {
    /// A participant says something; of a promise that is not recorded, why.
    Said(Box<ToCoordinator<E>>, Option<Unrecorded>),
    /// Whether what is due at an entity elsewhere has happened.
    Due { has_happened: bool },
    /// What was sent to this engine before, or said by it, may be lost.
    Again { engine: Arc<str> },
}

/// The messages of one transaction, as long as it is under way.
pub(super) struct Inbox<E> {
    tx: TxId,
    letters: mpsc::Receiver<Letter<E>>,
    of: Arc<Inboxes<E>>,
}

impl<E> Inbox<E> {
    /// The next letter.
    ///
    /// # Cancel safety
    /// No letter is lost.
    pub(super) async fn next(&mut self) -> Letter<E> {
        self.letters.recv().await.expect("its sender is listed until it is dropped")
    }
}

impl<E> Drop for Inbox<E> {
    fn drop(&mut self) {
        self.of.open.lock().remove(&self.tx);
        self.of.ended.lock().add(self.tx);
    }
}

struct Inboxes<E> {
    open: Mutex<HashMap<TxId, mpsc::Sender<Letter<E>>>>,
    /// Those that have ended.
    ended: Mutex<Ended>,
}

/// The transactions that were added last.
#[derive(Default)]
struct Ended {
    known: HashSet<TxId>,
    in_order: VecDeque<TxId>,
}

impl Ended {
    fn add(&mut self, tx: TxId) {
        if self.known.insert(tx) {
            self.in_order.push_back(tx);
        }
        if self.in_order.len() > ENDED_MAX
            && let Some(first) = self.in_order.pop_front()
        {
            self.known.remove(&first);
        }
    }
}

/// The other engines, and what is between them and this one.
pub(super) struct Elsewhere<E> {
    transport: Arc<dyn Transport>,
    coordinator: EntityKey,
    inboxes: Arc<Inboxes<E>>,
    pub(super) decisions: Decisions,
    pub(super) promises: Promises,
    /// What is said of transactions that nothing is known of, until all decisions of earlier runs are known.
    early: Mutex<Option<Vec<ToCoordinator<E>>>>,
    /// Whether it promises nothing more.
    is_refusing: AtomicBool,
    is_closing: AtomicBool,
    /// A promise was settled, or a decision acknowledged.
    settled: Notify,
}

impl<E: Clone + serde::Serialize + serde::de::DeserializeOwned + Send + 'static> Elsewhere<E> {
    pub(super) fn new(transport: Arc<dyn Transport>) -> Result<Self, EntityKeyError> {
        Ok(Self {
            coordinator: EntityKey::new(COORDINATOR, transport.here())?,
            transport,
            inboxes: Arc::new(Inboxes { open: Mutex::default(), ended: Mutex::default() }),
            decisions: Decisions::new(),
            promises: Promises::new(),
            early: Mutex::new(Some(Vec::new())),
            is_refusing: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            settled: Notify::new(),
        })
    }

    /// The address of the coordinators of this engine.
    pub(super) const fn coordinator(&self) -> &EntityKey {
        &self.coordinator
    }

    /// The name of the engine that has `entity`, if that is another one.
    pub(super) fn engine_of(&self, entity: &EntityKey) -> Option<&str> {
        Some(self.transport.engine_of(entity)).filter(|&engine| engine != self.transport.here())
    }

    /// The messages for `tx` from now on.
    pub(super) fn inbox(&self, tx: TxId) -> Inbox<E> {
        let (sender, letters) = mpsc::channel(INBOX_MAX);
        self.inboxes.open.lock().insert(tx, sender);
        Inbox { tx, letters, of: Arc::clone(&self.inboxes) }
    }

    /// Whether this engine has ended it, of late.
    fn has_ended(&self, tx: TxId) -> bool {
        self.inboxes.ended.lock().known.contains(&tx)
    }

    fn is_under_way(&self, tx: TxId) -> bool {
        self.inboxes.open.lock().contains_key(&tx)
    }

    /// Sends a message to the participant `to`, of which `left` is the time until its deadline.
    pub(super) fn ask(&self, to: EntityKey, prepare: Prepare<E>, left: Duration, version: u32) {
        let Prepare { coordinator, request, .. } = prepare;
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let Request { branch, ordered, sole, certain, calls_known, .. } = request;
        let engine = to.clone();
        let preparation =
            Preparation { to, coordinator, branch, left_ms, ordered, sole, certain, calls_known, version };
        self.send(&engine, &Envelope::Prepare(preparation));
    }

    /// Sends a message to the engine that has `entity`.
    pub(super) fn send(&self, entity: &EntityKey, envelope: &Envelope<E>) {
        self.transport.send(self.transport.engine_of(entity), envelope.encode());
    }

    /// Tells a coordinator elsewhere what a participant says, unless the journal is being closed.
    pub(super) fn say(&self, message: ToCoordinator<E>, unrecorded: Option<Unrecorded>) {
        if self.is_closing() {
            return;
        }
        let engine = message.to.id().to_owned();
        self.transport.send(&engine, Envelope::Said { message, unrecorded }.encode());
    }

    /// Takes no more requests for promises, and waits until none is open here and everybody has acknowledged what was decided here.
    ///
    /// # Cancel safety
    /// Promises are refused as soon as the future has been polled.
    pub(super) async fn settle(&self) {
        self.is_refusing.store(true, Ordering::SeqCst);
        loop {
            let settled = self.settled.notified();
            if self.promises.are_settled() && self.decisions.are_acknowledged() {
                return;
            }
            settled.await;
        }
    }

    /// Something that [`settle`](Self::settle) waits for may have happened.
    pub(super) fn has_settled(&self) {
        self.settled.notify_waiters();
    }

    /// Says nothing more to coordinators elsewhere: the journal is about to be closed.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    /// Has all transactions that wait for an answer of `engine` send again what they want from it.
    fn send_again(&self, engine: &str) {
        let engine: Arc<str> = engine.into();
        for inbox in self.inboxes.open.lock().values() {
            // A transaction with that many letters does not wait.
            drop(inbox.try_send(Letter::Again { engine: Arc::clone(&engine) }));
        }
    }

    /// Keeps what is said of a transaction that nothing is known of, as long as not all decisions are known; otherwise gives it back.
    fn keep_early(&self, heard: ToCoordinator<E>) -> Option<ToCoordinator<E>> {
        let mut early = self.early.lock();
        let Some(early) = &mut *early else { return Some(heard) };
        if early.len() < EARLY_MAX {
            early.push(heard);
        }
        None
    }

    /// Gives a letter to its transaction, if that is under way; otherwise gives it back.
    fn deliver(&self, tx: TxId, letter: Letter<E>) -> Option<Letter<E>> {
        let Some(sender) = self.inboxes.open.lock().get(&tx).cloned() else { return Some(letter) };
        // One too many is lost, and sent again.
        drop(sender.try_send(letter));
        None
    }
}

impl<M: Model, J: Journal> Engine<M, J> {
    /// Takes a message that another engine has sent by its [`Transport`].
    ///
    /// # Errors
    /// If it is not a message of an engine that this one understands. It has no effect then.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    pub fn receive(&self, message: &[u8]) -> Result<(), MessageError> {
        let envelope = Envelope::<M::Event>::decode(message)?;
        let shared = &self.shared;
        if let Some(elsewhere) = &shared.elsewhere
            && shared.is_sound()
        {
            shared.receive(elsewhere, envelope);
        }
        Ok(())
    }

    /// Sends again what waits for an answer of `engine`, which has begun anew: what was on the way to it or from it may be lost.
    ///
    /// Without this it is sent again after a while, which becomes longer each time. An engine that is not waited for hears nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    pub fn send_again(&self, engine: &str) {
        let shared = &self.shared;
        let Some(elsewhere) = &shared.elsewhere else { return };
        let Ok(coordinator) = EntityKey::new(COORDINATOR, engine) else { return };
        if !shared.is_sound() || elsewhere.is_closing() {
            return;
        }
        elsewhere.send_again(engine);
        for entity in elsewhere.promises.entities() {
            if let Ok(live) = shared.directory.get(&entity) {
                let coordinator = coordinator.clone();
                drop(live.turn(move |entity| entity.ask_again(coordinator)));
                shared.directory.release(&live);
            }
        }
    }
}

impl<M: Model, J: Journal> Shared<M, J> {
    fn receive(self: &Arc<Self>, elsewhere: &Elsewhere<M::Event>, envelope: Envelope<M::Event>) {
        match envelope {
            Envelope::Prepare(_) | Envelope::LetDue { .. } if elsewhere.is_refusing.load(Ordering::SeqCst) => {}
            Envelope::Decide { .. } if elsewhere.is_closing() => {}
            Envelope::Prepare(preparation) => self.promise(elsewhere, preparation),
            Envelope::Decide { to, decide } if elsewhere.engine_of(&to).is_none() => {
                let Ok(live) = self.directory.get(&to) else { return };
                let kept = Arc::clone(&live);
                drop(live.turn(move |entity| entity.decide_elsewhere(decide, kept)));
                self.directory.release(&live);
            }
            Envelope::Said { message, unrecorded } => self.heard(elsewhere, message, unrecorded),
            Envelope::LetDue { entity, by, left_ms, coordinator, tx } if elsewhere.engine_of(&entity).is_none() => {
                let engine = Arc::clone(self);
                origin::spawn(async move {
                    let due = engine.let_due(&entity, by);
                    let due = tokio::time::timeout(Duration::from_millis(left_ms), due).await;
                    let has_happened = matches!(due, Ok(Ok(_)));
                    if let Some(elsewhere) = &engine.elsewhere {
                        let name = coordinator.id().to_owned();
                        let due = Envelope::<M::Event>::Due { coordinator, tx, has_happened };
                        elsewhere.transport.send(&name, due.encode());
                    }
                });
            }
            Envelope::Due { tx, has_happened, .. } => drop(elsewhere.deliver(tx, Letter::Due { has_happened })),
            // It has moved, or the sender believes so.
            Envelope::Decide { .. } | Envelope::LetDue { .. } => {}
        }
    }

    /// Asks an entity for a promise to a coordinator elsewhere.
    fn promise(self: &Arc<Self>, elsewhere: &Elsewhere<M::Event>, preparation: Preparation<M::Event>) {
        let Preparation { to, coordinator, branch, left_ms, ordered, sole, certain, calls_known, version } =
            preparation;
        if elsewhere.engine_of(&to).is_some() {
            return;
        }
        let (tx, attempt) = (branch.tx, branch.attempt);
        let live = match self.directory.get(&to) {
            Ok(live) if version == self.model.version() => live,
            refused => {
                let unrecorded = if let Err(cause) = refused {
                    tracing::warn!(%tx, entity = %to, %cause, "an entity cannot promise anything");
                    Unrecorded::from(&cause)
                } else {
                    tracing::warn!(%tx, version, "an engine with another version of the contract asks for a promise");
                    Unrecorded::Overloaded
                };
                let said = Said::Vote(Vote::NotRecorded);
                let message = ToCoordinator { to: coordinator, from: to, tx, attempt, said };
                return elsewhere.say(message, Some(unrecorded));
            }
        };
        let deadline = self.clock.after(Duration::from_millis(left_ms));
        let request = Request { branch, deadline, ordered, sole, certain, calls_known };
        let prepare = Prepare { coordinator, durability: Durability::TwoPhase, request };
        let kept = Arc::clone(&live);
        drop(live.turn(move |entity| entity.prepare_elsewhere(prepare, kept)));
        self.directory.release(&live);
    }

    /// Gives what a participant says to its transaction; one that is over has been aborted, or has been acknowledged. That one is not known
    /// says nothing as long as it is not certain that the journal is still this engine's.
    fn heard(
        self: &Arc<Self>,
        elsewhere: &Elsewhere<M::Event>,
        heard: ToCoordinator<M::Event>,
        unrecorded: Option<Unrecorded>,
    ) {
        if heard.to != elsewhere.coordinator {
            return;
        }
        let tx = heard.tx;
        let deliver = |heard, unrecorded| match elsewhere.deliver(tx, Letter::Said(heard, unrecorded)) {
            Some(Letter::Said(heard, unrecorded)) => Some((*heard, unrecorded)),
            _ => None,
        };
        let Some((heard, unrecorded)) = deliver(Box::new(heard), unrecorded) else { return };
        let Some(heard) = elsewhere.keep_early(heard) else { return };
        // All decisions are known now, and this one may have become known in between.
        let Some((heard, _)) = deliver(Box::new(heard), unrecorded) else { return };
        let options = CoordinatorOptions::new(Durability::Shared);
        let mut nobody = Coordinator::new(Arc::clone(&self.model), elsewhere.coordinator.clone(), options);
        for output in nobody.step(CoordinatorInput::Heard(heard), self.clock.now()) {
            if let CoordinatorOutput::Append { write, .. } = output {
                let is_known = elsewhere.has_ended(tx);
                return drop(origin::spawn(Arc::clone(self).dismiss(nobody, write, is_known)));
            }
        }
    }

    /// Tells what `nobody` has to say as soon as its record is durable: at once, if the transaction has ended here.
    async fn dismiss(self: Arc<Self>, mut nobody: Coordinator<M>, write: WriteId, is_known: bool) {
        let Some(elsewhere) = &self.elsewhere else { return };
        if !is_known && self.prove(moment(DISMISSAL_MAX)).await.is_err() {
            return;
        }
        let written = CoordinatorInput::Written { write, result: Written::Durable };
        for output in nobody.step(written, self.clock.now()) {
            if let CoordinatorOutput::Send { to, message: ToParticipant::Decide(decide) } = output {
                let engine = to.clone();
                elsewhere.send(&engine, &Envelope::Decide { to, decide });
            }
        }
    }

    /// Takes up what earlier runs have left between this engine and others.
    pub(super) async fn resume(self: &Arc<Self>) {
        let Some(elsewhere) = &self.elsewhere else { return };
        loop {
            match elsewhere.decisions.restore::<M::Event, J>(&self.journal).await {
                Ok(decisions) => {
                    decisions.into_iter().for_each(|decision| self.tell_again(elsewhere, decision));
                    let early = elsewhere.early.lock().take();
                    early.into_iter().flatten().for_each(|heard| self.heard(elsewhere, heard, None));
                    break;
                }
                Err(cause) if cause.is_transient() => {
                    tracing::warn!(%cause, "decisions cannot be read; nobody elsewhere is told any");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                Err(cause) => return self.fail(cause.to_string()),
            }
        }
        loop {
            match elsewhere.promises.restore::<M::Event, J>(&self.journal).await {
                Ok(entities) => {
                    for entity in entities {
                        if let Ok(live) = self.directory.get(&entity) {
                            let kept = Arc::clone(&live);
                            drop(live.turn(move |entity| entity.keep(kept)));
                        }
                    }
                    return;
                }
                Err(cause) if cause.is_transient() => {
                    tracing::warn!(%cause, "promises cannot be read; an entity asks for its decision when it is asked for something");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                Err(cause) => return self.fail(cause.to_string()),
            }
        }
    }

    fn tell_again(self: &Arc<Self>, elsewhere: &Elsewhere<M::Event>, decision: DecisionRecord) {
        // A transaction of this run tells its own, whose record may have been read before it has heard that it is durable.
        if elsewhere.is_under_way(decision.tx) {
            return;
        }
        // A participant that asks finds it under way from now on.
        let inbox = elsewhere.inbox(decision.tx);
        tokio::spawn(Transaction::resumed(Arc::clone(self), decision, inbox));
    }

    /// Keeps the position before the first open promise.
    pub(super) async fn save_promises(&self) {
        let Some(image) = self.elsewhere.as_ref().and_then(|elsewhere| elsewhere.promises.snapshot()) else { return };
        if let Err(cause) = self.journal.save_snapshot(image).await {
            tracing::warn!(%cause, "the position of promises is not kept; the next start takes longer");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tx::{Attempt, Slot};

    /// Keeps what is sent.
    #[derive(Default)]
    struct Sent(Mutex<Vec<String>>);

    impl Transport for Sent {
        fn here(&self) -> &str {
            "south"
        }

        fn engine_of(&self, _: &EntityKey) -> &str {
            "north"
        }

        fn send(&self, engine: &str, _: Vec<u8>) {
            self.0.lock().push(engine.to_owned());
        }
    }

    #[test]
    fn an_engine_that_closes_its_journal_says_nothing_more_to_coordinators() {
        let sent = Arc::new(Sent::default());
        let elsewhere = Elsewhere::<String>::new(Arc::clone(&sent) as Arc<dyn Transport>).expect("a name");
        let say = |said| {
            let to = EntityKey::new(COORDINATOR, "north").expect("a key");
            let from = EntityKey::new("Account", "S").expect("a key");
            elsewhere.say(ToCoordinator { to, from, tx: TxId::from_u128(1), attempt: Attempt::FIRST, said }, None);
        };
        say(Said::Vote(Vote::NotRecorded));
        say(Said::Ack(Slot(1)));
        assert_eq!(*sent.0.lock(), ["north", "north"]);
        elsewhere.close();
        say(Said::Vote(Vote::NotRecorded));
        say(Said::Ask(Slot(2)));
        assert_eq!(sent.0.lock().len(), 2);
    }
}
