//! Questions that any replica of a stream answers.

use std::time::Duration;

use async_nats::{Client, Message};
use serde_json::{Value, json};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::inbox::Inbox;
use super::wire::Stored;

/// How long a replica may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// A question that was not answered.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unanswered(String);

impl Unanswered {
    #[expect(clippy::needless_pass_by_value, reason = "errors come like this")]
    pub(super) fn because(why: impl ToString) -> Self {
        Self(why.to_string())
    }

    /// Nothing has come within `time`.
    pub(super) fn late(time: Duration) -> impl Fn(Elapsed) -> Self {
        move |_| Self(format!("no server has answered within {time:?}"))
    }
}

/// Messages in the order of the stream, and up to which sequence the replica that has answered has seen it.
pub(super) struct Seen {
    pub(super) messages: Vec<Stored>,
    pub(super) up_to: u64,
}

/// Asks any replica.
pub(super) struct Direct {
    client: Client,
    inbox: Inbox,
}

impl Direct {
    pub(super) async fn open(client: Client) -> Result<Self, Unanswered> {
        let inbox = Inbox::open(&client).await.map_err(Unanswered::because)?;
        Ok(Self { client, inbox })
    }

    /// The last message of each subject that has one. Without any, nothing says how far the replica has seen the stream.
    pub(super) async fn lasts(&self, stream: &str, subjects: &[String]) -> Result<Seen, Unanswered> {
        self.ask(stream, &json!({ "multi_last": subjects, "batch": subjects.len() })).await
    }

    /// Messages of the subjects that match `filter`, from the sequence `from` on, as many as there are up to the limits.
    pub(super) async fn page(
        &self,
        stream: &str,
        filter: &str,
        from: u64,
        limits: (usize, usize),
    ) -> Result<Vec<Stored>, Unanswered> {
        let (count, bytes) = limits;
        let question = json!({ "next_by_subj": filter, "seq": from.max(1), "batch": count, "max_bytes": bytes });
        Ok(self.ask(stream, &question).await?.messages)
    }

    /// The message with this sequence, if the replica has it.
    pub(super) async fn message(&self, stream: &str, sequence: u64) -> Result<Option<Stored>, Unanswered> {
        self.one(stream, &json!({ "seq": sequence })).await
    }

    /// The last message of a subject, if the replica has one.
    pub(super) async fn last(&self, stream: &str, subject: &str) -> Result<Option<Stored>, Unanswered> {
        self.one(stream, &json!({ "last_by_subj": subject })).await
    }

    async fn one(&self, stream: &str, question: &Value) -> Result<Option<Stored>, Unanswered> {
        let asked = self.client.request(subject(stream), question.to_string().into());
        let answer =
            timeout(SILENCE_MAX, asked).await.map_err(Unanswered::late(SILENCE_MAX))?.map_err(Unanswered::because)?;
        match answer.status.map(|status| status.as_u16()) {
            None => stored(answer).map(Some),
            Some(404) => Ok(None),
            Some(_) => Err(refused(&answer)),
        }
    }

    async fn ask(&self, stream: &str, question: &Value) -> Result<Seen, Unanswered> {
        let mut answers = self.inbox.answers();
        let asked = self.client.publish_with_reply(subject(stream), answers.subject(), question.to_string().into());
        asked.await.map_err(Unanswered::because)?;
        let mut messages = Vec::new();
        loop {
            let answer = timeout(SILENCE_MAX, answers.next()).await.map_err(Unanswered::late(SILENCE_MAX))?;
            let answer = answer.ok_or_else(|| Unanswered::because("the connection is closed"))?;
            match answer.status.map(|status| status.as_u16()) {
                None => messages.push(stored(answer)?),
                Some(204) => return Ok(Seen { messages, up_to: number(&answer, "Nats-UpTo-Sequence").unwrap_or(0) }),
                Some(404) if messages.is_empty() => return Ok(Seen { messages, up_to: 0 }),
                Some(_) => return Err(refused(&answer)),
            }
        }
    }
}

fn subject(stream: &str) -> String {
    format!("$JS.API.DIRECT.GET.{stream}")
}

fn number(message: &Message, header: &str) -> Option<u64> {
    message.headers.as_ref()?.get(header)?.as_str().parse().ok()
}

fn stored(message: Message) -> Result<Stored, Unanswered> {
    let sequence = number(&message, "Nats-Sequence");
    let headers = message.headers.unwrap_or_default();
    let subject = headers.get("Nats-Subject").map(|subject| subject.as_str().to_owned());
    let (Some(sequence), Some(subject)) = (sequence, subject) else {
        return Err(Unanswered::because("the answer is no message of a stream"));
    };
    Ok(Stored { sequence, subject, headers, payload: message.payload.into() })
}

fn refused(answer: &Message) -> Unanswered {
    let status = answer.status.map_or(0, |status| status.as_u16());
    Unanswered::because(format!("status {status}, {}", answer.description.as_deref().unwrap_or("no description")))
}
