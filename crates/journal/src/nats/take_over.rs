//! Begins a reign: appends an owner record, behind which no earlier writer's append fits any more.
//!
//! The record expects to follow the last owner record, not the last message: so one that takes over from a busy writer comes
//! through at the first try, and of two that take over at once one begins before the other. A try of unknown fate is found again by
//! its token. Each owner record has its ordinal, so that the list of all is known to be complete: positions depend on it.

use std::time::Duration;

use async_nats::{Client, HeaderMap};
use tokio::time::{Instant, sleep, timeout};

use super::OpenError;
use super::direct::{Direct, Unanswered};
use super::reign::Reign;
use super::wire::{Answer, Names, OWNER, Owner, Stored};

/// How long a server may take to store the owner record.
const ANSWER_MAX: Duration = Duration::from_millis(600);
const PAUSE: Duration = Duration::from_millis(5);
const PAGE: (usize, usize) = (1000, 4 << 20);

pub(super) async fn take_over(
    client: &Client,
    direct: &Direct,
    names: &Names,
    node: &str,
    deadline: Instant,
) -> Result<Reign, OpenError> {
    // No other subject or token of any client is the same.
    let token = client.new_inbox();
    loop {
        match attempt(client, direct, names, node, &token).await {
            Ok(Some(epoch)) => return Ok(Reign::of(names.clone(), owners(direct, names, epoch, deadline).await?)),
            Ok(None) => {}
            Err(cause) if Instant::now() > deadline => return Err(OpenError::unreachable(cause)),
            Err(cause) => tracing::debug!(%cause, "the journal was not taken over; trying again"),
        }
        if Instant::now() > deadline {
            return Err(OpenError::unreachable("no server has stored the record of the new writer"));
        }
        sleep(PAUSE).await;
    }
}

/// Looks at the stream as it is, up to its message `last` at least; its last reign.
pub(super) async fn look(direct: &Direct, names: &Names, last: u64, deadline: Instant) -> Result<Reign, OpenError> {
    loop {
        let why = match direct.lasts(&names.stream(), &[names.owner()]).await {
            Ok(seen) if seen.up_to >= last => {
                let epoch = seen.messages.first().map_or(0, |owner| owner.sequence);
                let owners = if epoch == 0 { Vec::new() } else { owners(direct, names, epoch, deadline).await? };
                return Ok(Reign::until(names.clone(), owners, last));
            }
            Ok(_) => "no server has all that was written".to_owned(),
            Err(cause) => cause.to_string(),
        };
        if Instant::now() > deadline {
            return Err(OpenError::unreachable(why));
        }
        sleep(PAUSE).await;
    }
}

/// Tries once; the epoch, if the record is stored.
async fn attempt(
    client: &Client,
    direct: &Direct,
    names: &Names,
    node: &str,
    token: &str,
) -> Result<Option<u64>, Unanswered> {
    let last = direct.last(&names.stream(), &names.owner()).await?;
    let (sequence, ordinal) = match &last {
        None => (0, 0),
        Some(last) => {
            let owner = Owner::decode(last).ok_or_else(|| Unanswered::because("an owner record cannot be read"))?;
            if owner.token == token {
                return Ok(Some(last.sequence));
            }
            (last.sequence, owner.ordinal)
        }
    };
    let owner = Owner { ordinal: ordinal + 1, token: token.to_owned(), node: node.to_owned() };
    let mut headers = HeaderMap::new();
    headers.insert(OWNER, owner.header());
    headers.insert("Nats-Expected-Stream", names.stream());
    headers.insert("Nats-Expected-Last-Subject-Sequence", sequence.to_string());
    let sent = client.request_with_headers(names.owner(), headers, owner.node.into());
    let Ok(Ok(answer)) = timeout(ANSWER_MAX, sent).await else { return Ok(None) };
    match Answer::decode(&answer.payload) {
        Answer::Stored { sequence } => Ok(Some(sequence)),
        // Another one was faster, or a replica that is behind was asked for the last one.
        Answer::Refused { code: 10071 | 10164, .. } | Answer::Nothing => Ok(None),
        Answer::Refused { code, why } => Err(Unanswered::because(format!("{why} (code {code})"))),
    }
}

/// The sequences of all owner records up to that of `epoch`.
async fn owners(direct: &Direct, names: &Names, epoch: u64, deadline: Instant) -> Result<Vec<u64>, OpenError> {
    let mut owners: Vec<u64> = Vec::new();
    while owners.last() != Some(&epoch) {
        let from = owners.last().map_or(1, |last| last + 1);
        let page = direct.page(&names.stream(), &names.owner(), from, PAGE).await.unwrap_or_default();
        let before = owners.len();
        for message in page.iter().take_while(|message| message.sequence <= epoch) {
            owners.push(follow(owners.len(), message).ok_or(OpenError::Owners { sequence: message.sequence })?);
        }
        if owners.len() == before {
            if Instant::now() > deadline {
                return Err(OpenError::unreachable("no server has all owner records"));
            }
            sleep(PAUSE).await;
        }
    }
    Ok(owners)
}

/// The sequence of `message`, if it is the owner record that follows so many others.
fn follow(count: usize, message: &Stored) -> Option<u64> {
    let owner = Owner::decode(message)?;
    (owner.ordinal == count as u64 + 1).then_some(message.sequence)
}
