//! The way of a command or a read to the owner of its entity.
//!
//! What has had no effect for certain goes on to the next owner, for a second at most: a shard that is handed over is not noticed. What
//! may have had one is in doubt.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::connection::State;
use enact_entities::{
    ChangesOf, Command, Cursor, Doubt, EntityError, EntityKey, EraseError, Erasure, HistoryOf, HistoryPart, Model,
    ReadError, ReadMode, Receipt, SubmitError, TxId, View,
};
use tokio::time::{Instant, timeout};

use crate::fabric::{self, ASK, Answer, Question, Unasked, Unread};
use crate::hop;
use crate::hosted::{Hosted, Moved};
use crate::node::{Node, count};
use crate::shard::shard_of;

/// How long a request waits for a shard that no node serves.
const MOVING_MAX: Duration = Duration::from_secs(1);
/// How long an owner may take to erase.
const ERASING_MAX: Duration = Duration::from_secs(20);
/// How long it waits for news before it looks again.
const PAUSE: Duration = Duration::from_millis(20);
/// How much longer than its deadline an answer may be on its way.
const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// Where a shard is served.
enum Place<M: Model> {
    Here(Arc<Hosted<M>>),
    There { epoch: u64 },
    Nowhere,
}

/// Why a question has no answer.
enum Missed {
    /// Nothing was done, and it goes on to the next owner.
    Moved,
    /// The owner runs a program that cannot read it.
    Unread(EntityError),
}

impl From<Moved> for Missed {
    fn from(Moved: Moved) -> Self {
        Self::Moved
    }
}

impl<M: Model> Node<M> {
    fn place(&self, shard: u16) -> Place<M> {
        if let Some(hosted) = self.table.get(shard) {
            return Place::Here(hosted);
        }
        let epoch = self.views.borrow().served(shard, &self.options.contract);
        match epoch {
            Some(epoch) if self.client.connection_state() == State::Connected => Place::There { epoch },
            _ => Place::Nowhere,
        }
    }

    pub(crate) async fn submit(&self, mut command: Command<M::Event>) -> Result<Receipt, SubmitError> {
        let shard = self.shard_of(&command.key);
        let begun = Instant::now();
        let span = command.deadline;
        loop {
            let tx = TxId::fresh();
            command.deadline = span.saturating_sub(begun.elapsed());
            let answer = match self.place(shard) {
                Place::Here(hosted) => hosted.submit(tx, command.clone()).await,
                Place::There { epoch } => self.submit_there(shard, epoch, tx, &command).await,
                Place::Nowhere => Err(Moved),
            };
            match answer {
                Ok(answer) => return answer,
                Err(Moved) if begun.elapsed() >= span.min(MOVING_MAX) => {
                    return Err(SubmitError::Moved { entity: command.key });
                }
                Err(Moved) => self.wait_for_news().await,
            }
        }
    }

    async fn submit_there(
        &self,
        shard: u16,
        epoch: u64,
        tx: TxId,
        command: &Command<M::Event>,
    ) -> Result<Result<Receipt, SubmitError>, Moved> {
        count(&self.counts.forwarded);
        let patience = command.deadline + ON_ITS_WAY;
        let question = Question::Submit { tx, command: command.clone() };
        let subject = fabric::shard_subject(shard, epoch, ASK);
        match fabric::ask::<_, Answer<M::State, M::Event>>(&self.client, subject, &question, self.headers(), patience)
            .await
        {
            Ok(Answer::Submitted(answer)) => Ok(answer),
            Ok(Answer::Moved) | Err(Unasked::Nobody) => Err(Moved),
            Ok(Answer::Read(_) | Answer::History(_) | Answer::Changes(_) | Answer::Erased(_) | Answer::TooLarge)
            | Err(Unasked::Unknown) => {
                Ok(Err(SubmitError::InDoubt { tx, doubt: Doubt::Unanswered, graph: Vec::new() }))
            }
            Err(Unasked::TooLarge) => Ok(Err(too_large("the command").into())),
            Err(Unasked::Unread(cause)) => Ok(Err(unread(shard, &cause).into())),
        }
    }

    pub(crate) async fn read(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        span: Duration,
    ) -> Result<View<M::State>, ReadError> {
        match self.ask(self.shard_of(key), span, |left| Question::Read { key: key.clone(), mode, after, left }).await {
            Ok(Answer::Read(answer)) => answer,
            Ok(Answer::TooLarge) => Err(too_large("the entity").into()),
            Err(Missed::Unread(cause)) => Err(cause.into()),
            Ok(_) | Err(Missed::Moved) => Err(ReadError::Moved { entity: key.clone() }),
        }
    }

    /// A page that is more than a message may be is asked for again with half as many transactions.
    pub(crate) async fn history(
        &self,
        key: &EntityKey,
        part: HistoryPart,
        span: Duration,
    ) -> Result<HistoryOf<M>, ReadError> {
        let begun = Instant::now();
        let mut part = part;
        loop {
            let left = span.saturating_sub(begun.elapsed());
            match self.ask(self.shard_of(key), left, |left| Question::History { key: key.clone(), part, left }).await {
                Ok(Answer::History(answer)) => return answer,
                Ok(Answer::TooLarge) => {
                    part = part.half().ok_or_else(|| too_large("a transaction of the history"))?;
                }
                Err(Missed::Unread(cause)) => return Err(cause.into()),
                Ok(_) | Err(Missed::Moved) => return Err(ReadError::Moved { entity: key.clone() }),
            }
        }
    }

    /// Changes that are more than a message may be are asked for again, half as many.
    pub(crate) async fn changes(
        &self,
        shard: u16,
        after: Cursor,
        limit: usize,
        span: Duration,
    ) -> Result<ChangesOf<M>, ReadError> {
        let begun = Instant::now();
        let mut limit = limit;
        loop {
            let left = span.saturating_sub(begun.elapsed());
            match self.ask(shard, left, |left| Question::Changes { after, limit, left }).await {
                Ok(Answer::Changes(answer)) => return answer,
                Ok(Answer::TooLarge) if limit > 1 => limit /= 2,
                Ok(Answer::TooLarge) => return Err(too_large("a change").into()),
                Err(Missed::Unread(cause)) => return Err(cause.into()),
                Ok(_) | Err(Missed::Moved) => {
                    let why = format!("no node serves shard {shard} at this moment");
                    return Err(EntityError::Told { why, is_transient: true }.into());
                }
            }
        }
    }

    /// Erases the personal values of `subject` where it is. Erasing twice is erasing once, so that an owner that does not answer may be asked
    /// again.
    pub(crate) async fn erase(&self, subject: &EntityKey, by: Option<&str>) -> Result<Erasure, EraseError> {
        let shard = self.shard_of(subject);
        let begun = Instant::now();
        loop {
            let answer = match self.place(shard) {
                Place::Here(hosted) => hosted.erase(subject, by).await,
                Place::There { epoch } => self.erase_there(shard, epoch, subject, by).await,
                Place::Nowhere => Err(Moved),
            };
            match answer {
                Ok(answer) => return answer,
                Err(Moved) if begun.elapsed() >= MOVING_MAX => {
                    return Err(EraseError::Moved { subject: subject.clone() });
                }
                Err(Moved) => self.wait_for_news().await,
            }
        }
    }

    async fn erase_there(
        &self,
        shard: u16,
        epoch: u64,
        subject: &EntityKey,
        by: Option<&str>,
    ) -> Result<Result<Erasure, EraseError>, Moved> {
        count(&self.counts.forwarded);
        let question = Question::<M::Event>::Erase { subject: subject.clone(), by: by.map(str::to_owned) };
        let to = fabric::shard_subject(shard, epoch, ASK);
        match fabric::ask::<_, Answer<M::State, M::Event>>(&self.client, to, &question, self.headers(), ERASING_MAX)
            .await
        {
            Ok(Answer::Erased(answer)) => Ok(answer),
            Ok(Answer::Moved) | Err(Unasked::Nobody | Unasked::TooLarge) => Err(Moved),
            Err(Unasked::Unread(cause)) => Ok(Err(EraseError::Closed { why: unread(shard, &cause).to_string() })),
            Ok(_) | Err(Unasked::Unknown) => Ok(Err(EraseError::Unanswered { subject: subject.clone() })),
        }
    }

    fn shard_of(&self, key: &EntityKey) -> u16 {
        shard_of(key, self.options.shards)
    }

    /// Asks the owner of `shard` what has no effect, with the time that is left.
    async fn ask(
        &self,
        shard: u16,
        span: Duration,
        question: impl Fn(Duration) -> Question<M::Event>,
    ) -> Result<Answer<M::State, M::Event>, Missed> {
        let begun = Instant::now();
        loop {
            let left = span.saturating_sub(begun.elapsed());
            let answer = match self.place(shard) {
                Place::Here(hosted) => hosted.answer(question(left)).await.map_err(Missed::from),
                Place::There { epoch } => self.ask_there(shard, epoch, &question(left), left).await,
                Place::Nowhere => Err(Missed::Moved),
            };
            match answer {
                Err(Missed::Moved) if begun.elapsed() < span.min(MOVING_MAX) => self.wait_for_news().await,
                answer => return answer,
            }
        }
    }

    async fn ask_there(
        &self,
        shard: u16,
        epoch: u64,
        question: &Question<M::Event>,
        left: Duration,
    ) -> Result<Answer<M::State, M::Event>, Missed> {
        count(&self.counts.forwarded);
        let subject = fabric::shard_subject(shard, epoch, ASK);
        match fabric::ask(&self.client, subject, question, self.headers(), left + ON_ITS_WAY).await {
            Err(Unasked::Unread(cause)) => Err(Missed::Unread(unread(shard, &cause))),
            Ok(Answer::Moved) | Err(_) => Err(Missed::Moved),
            Ok(answer) => Ok(answer),
        }
    }

    fn headers(&self) -> Option<HeaderMap> {
        hop::headers(self.options.traces)
    }

    /// Waits until leases or claims have changed, and no longer than a moment.
    async fn wait_for_news(&self) {
        let mut views = self.views.clone();
        views.mark_unchanged();
        // A node that stops hears of nothing any more.
        drop(timeout(PAUSE, views.changed()).await);
    }
}

/// What a client is told of it; the operator, in the log.
fn unread(shard: u16, cause: &Unread) -> EntityError {
    tracing::error!(shard, %cause, "the owner of a shard cannot be asked");
    EntityError::Told { why: format!("shard {shard}: {cause}"), is_transient: true }
}

fn too_large(what: &str) -> EntityError {
    EntityError::Told { why: format!("{what} is larger than a message between nodes may be"), is_transient: false }
}
