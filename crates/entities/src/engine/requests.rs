//! Requests that may be repeated: the same key and fingerprint get the same answer, without a second effect.
//!
//! # Scope
//! A key belongs to the principal and to the entity addressed: the same key of another principal, or sent to another
//! entity, is another one. All clients are one principal, as long as nothing tells them apart.
//!
//! # How an answer is kept
//! As one record of an entity of its own, written in the same atomic step as the effects it tells of; the journal itself
//! takes no second one. So nothing has to be rebuilt after a restart. Only requests that are running are in memory here.
//!
//! # How it is forgotten
//! Answers are kept for [`Answers::keep`]. The class of their entities names the [span](SPAN) of time in which the answer
//! was written; when all answers of a span are too old, the journal is told to [forget](Journal::forget) the class. A search
//! asks for the key in every span that may hold its answer, the next one included, for a clock that has been set back.
//! Nothing is ever written to a span that could have been forgotten.
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use enact_journal::{EntityKey, Journal, Seq};
use enact_sync::Mutex;
use sha2::{Digest, Sha256};

use super::error::{EntityError, SubmitError};
use super::{Receipt, Shared};
use crate::model::Model;
use crate::record::{AnswerRecord, Idempotency, Record};
use crate::tx::{Timestamp, TxId};

/// Milliseconds of time whose answers are forgotten together.
const SPAN: i64 = 6 * 60 * 60 * 1000;

/// Answers are not kept for longer: a search looks at every span.
const KEEP_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How the classes of answers begin; the number of their span follows.
const CLASS: &str = ".answer-";

/// How long answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answers {
    /// In milliseconds.
    keep: i64,
}

impl Answers {
    pub(super) fn kept_for(keep: Duration) -> Self {
        Self { keep: i64::try_from(keep.min(KEEP_MAX).as_millis()).expect("a year") }
    }

    /// Whether `class` is one of answers which are all too old at `now`.
    pub(super) fn are_over(self, class: &str, now: Timestamp) -> bool {
        let span = class.strip_prefix(CLASS).and_then(|span| span.parse::<i64>().ok());
        span.is_some_and(|span| span.saturating_add(1).saturating_mul(SPAN).saturating_add(self.keep) <= now.0)
    }

    fn is_kept(self, answer: &AnswerRecord, now: Timestamp) -> bool {
        now.0.saturating_sub(answer.at.0) < self.keep
    }

    /// The answer to an earlier request with the same key, if it is still kept, and where one of `now` goes.
    async fn find<M: Model, J: Journal>(
        self,
        journal: &J,
        digest: &str,
        now: Timestamp,
    ) -> Result<(Option<AnswerRecord>, Place), EntityError> {
        let present = now.0.div_euclid(SPAN);
        let oldest = now.0.saturating_sub(self.keep).div_euclid(SPAN);
        let mut place = Place { key: entity(present, digest), last: Seq::NONE };
        for span in (oldest..=present + 1).rev() {
            let key = entity(span, digest);
            let last = journal.last(&key).await?;
            if last == Seq::NONE {
                continue;
            }
            if span == present {
                place.last = last;
            }
            let answer = read::<M, J>(journal, &key, last).await?;
            if self.is_kept(&answer, now) {
                return Ok((Some(answer), place));
            }
        }
        Ok((None, place))
    }
}

/// Where an answer is written to: behind the last record of its entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) key: EntityKey,
    pub(super) last: Seq,
}

async fn read<M: Model, J: Journal>(journal: &J, entity: &EntityKey, last: Seq) -> Result<AnswerRecord, EntityError> {
    let misplaced = |seq| EntityError::Misplaced { entity: entity.clone(), seq };
    let record = journal.read(entity, Seq(last.0 - 1)).await?.pop().ok_or_else(|| misplaced(last))?;
    match Record::<M::Event>::decode(&record.payload) {
        Ok(Record::Decision(decision)) => Ok(decision.answer),
        Ok(Record::Answer(answer)) => Ok(*answer),
        Ok(_) => Err(misplaced(record.seq)),
        Err(cause) => Err(EntityError::undecodable(entity, record.seq, cause)),
    }
}

fn entity(span: i64, digest: &str) -> EntityKey {
    EntityKey::new(&format!("{CLASS}{span}"), digest).expect("a number and hexadecimal digits are valid names")
}

/// A key may hold bytes that a name may not, and more of them.
fn digest(addressed: &EntityKey, request: &Idempotency) -> String {
    let mut digest = Sha256::new();
    if let Some(principal) = &request.principal {
        // The name of an entity does not begin with a zero byte, so this is none.
        digest.update([0]);
        digest.update((principal.len() as u64).to_be_bytes());
        digest.update(principal);
    }
    // A name has no zero byte.
    let digest = digest.chain_update(addressed.as_str()).chain_update([0]).chain_update(&request.key).finalize();
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all that is written to it");
        text
    })
}

/// The requests that are running, by the digests of their keys, with their fingerprints and transactions.
#[derive(Debug, Default)]
pub(super) struct Running(Mutex<HashMap<String, ([u8; 32], TxId)>>);

/// A request that holds its key until it is dropped.
pub(super) struct Repeatable<'a> {
    place: Place,
    _held: Held<'a>,
}

impl Repeatable<'_> {
    /// Where its answer is written to.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

struct Held<'a> {
    running: &'a Running,
    digest: String,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.digest);
    }
}

/// Lets a request to `addressed` in that is new; otherwise says what it is told instead.
pub(super) async fn admit<'a, M: Model, J: Journal>(
    engine: &'a Arc<Shared<M, J>>,
    tx: TxId,
    addressed: &EntityKey,
    request: &Idempotency,
) -> Result<Repeatable<'a>, Result<Receipt, SubmitError>> {
    let held = hold(&engine.running, tx, addressed, request).map_err(Err)?;
    match engine.answers.find::<M, J>(&engine.journal, &held.digest, engine.time.time()).await {
        Ok((None, place)) => Ok(Repeatable { place, _held: held }),
        Ok((Some(answer), _)) => Err(replay(answer, request)),
        Err(cause) => Err(Err(cause.into())),
    }
}

fn hold<'a>(
    running: &'a Running,
    tx: TxId,
    addressed: &EntityKey,
    request: &Idempotency,
) -> Result<Held<'a>, SubmitError> {
    let digest = digest(addressed, request);
    let mut requests = running.0.lock();
    match requests.get(&digest) {
        Some((fingerprint, tx)) if *fingerprint == request.fingerprint => {
            Err(SubmitError::KeyInUse { tx: *tx, graph: Vec::new() })
        }
        Some(_) => Err(SubmitError::KeyReused),
        None => {
            requests.insert(digest.clone(), (request.fingerprint, tx));
            Ok(Held { running, digest })
        }
    }
}

fn replay(answer: AnswerRecord, request: &Idempotency) -> Result<Receipt, SubmitError> {
    if answer.idempotency.as_ref() != Some(request) {
        return Err(SubmitError::KeyReused);
    }
    match answer.result {
        Ok(done) => {
            Ok(Receipt { tx: answer.tx, state: done.state, result: done.result.map(|value| *value), replayed: true })
        }
        Err(refusal) => Err(SubmitError::Refused { refusal, replayed: true }),
    }
}

#[cfg(test)]
mod tests {
    use enact_journal::{Kind, Memory, NewRecord};
    use enact_journal_kit::contract::block_on;
    use proptest::prelude::*;

    use super::*;
    use crate::record::Done;
    use crate::{Rebel, Record};

    const DAY: i64 = 24 * 60 * 60 * 1000;

    fn kept_for(millis: i64) -> Answers {
        Answers::kept_for(Duration::from_millis(millis.unsigned_abs()))
    }

    fn find(journal: &Memory, answers: Answers, now: i64) -> (Option<Timestamp>, Place) {
        let found = answers.find::<Rebel, Memory>(journal, "d", Timestamp(now));
        let (answer, place) = block_on(found).expect("readable");
        (answer.map(|answer| answer.at), place)
    }

    /// Writes an answer of the time `at`, as a request of that time does.
    fn write(journal: &Memory, answers: Answers, at: i64) {
        let (_, Place { key, last }) = find(journal, answers, at);
        let answer =
            AnswerRecord { tx: TxId::from_u128(1), at: Timestamp(at), idempotency: None, result: Ok(Done::default()) };
        let record = Record::<<Rebel as Model>::Event>::Answer(Box::new(answer));
        let (kind, payload) = (Kind(record.kind()), record.encode());
        block_on(journal.append(vec![NewRecord { entity: key, expected: last, kind, payload }])).expect("durable");
    }

    #[test]
    fn an_answer_is_found_until_it_is_too_old_also_by_a_clock_that_was_set_back() {
        let begin = 80_000 * SPAN;
        for at in [begin, begin + 1, begin + SPAN / 2, begin + SPAN - 1] {
            for keep in [1, SPAN / 3, SPAN, DAY, 30 * DAY] {
                let (journal, answers) = (Memory::new(), kept_for(keep));
                write(&journal, answers, at);
                for (now, is_found) in [
                    (at - SPAN, true),
                    (at - 1, true),
                    (at, true),
                    (at + keep / 2, true),
                    (at + keep - 1, true),
                    (at + keep, false),
                    (at + keep + SPAN, false),
                    (at + keep + 30 * DAY, false),
                ] {
                    let found = find(&journal, answers, now).0;
                    assert_eq!(found, is_found.then_some(Timestamp(at)), "{at} {keep} {now}");
                }
            }
        }
    }

    #[test]
    fn a_new_answer_stands_behind_one_that_is_too_old_and_is_the_one_that_is_found() {
        let (journal, answers, at) = (Memory::new(), kept_for(1000), 80_000 * SPAN);
        for number in 0..4 {
            let now = at + number * 2000;
            let (found, place) = find(&journal, answers, now);
            assert_eq!((found, place.last.0), (None, number.unsigned_abs()));
            write(&journal, answers, now);
            assert_eq!(find(&journal, answers, now + 999).0, Some(Timestamp(now)));
        }
    }

    #[test]
    fn the_same_key_of_another_entity_or_another_principal_is_another_key() {
        let (a, b) = (EntityKey::new("Account", "A").unwrap(), EntityKey::new("Account", "B").unwrap());
        let digest = |addressed, principal: Option<&str>, key: &str| {
            let principal = principal.map(str::to_owned);
            digest(addressed, &Idempotency { key: key.to_owned(), principal, fingerprint: [0; 32] })
        };
        let all = [
            digest(&a, None, "k"),
            digest(&a, None, "k2"),
            digest(&b, None, "k"),
            digest(&a, None, ""),
            digest(&a, Some("p"), "k"),
            digest(&a, Some("q"), "k"),
            digest(&b, Some("p"), "k"),
            digest(&a, Some(""), "k"),
            digest(&a, None, "p\0k"),
            digest(&a, Some("p"), "Account/A\0k"),
            digest(&a, Some("pAccount/A\0"), "k"),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other != one), "{index}");
        }
    }

    #[test]
    fn the_key_of_a_request_without_a_principal_is_where_it_was_before_there_were_principals() {
        let account = EntityKey::new("Account", "A").unwrap();
        let request = Idempotency { key: "k".to_owned(), principal: None, fingerprint: [0; 32] };
        // printf 'Account/A\0k' | sha256sum
        let expected = "ce4689b3a79352d5dcbb27063e693e84c6722bb89befecb8140aa52b0970eb2a";
        assert_eq!(digest(&account, &request), expected);
    }

    #[test]
    fn only_answers_are_ever_forgotten() {
        for class in ["Account", ".contract", ".answer", ".answer-", ".answer-x", "answer-1", ".transaction"] {
            assert!(!kept_for(0).are_over(class, Timestamp(i64::MAX)), "{class}");
        }
    }

    proptest! {
        /// What is forgotten at one time is neither found nor written at any later one, nor a span earlier.
        #[test]
        fn nothing_that_is_still_looked_for_is_forgotten(at in 0..1000 * SPAN, later in 0..100 * SPAN, keep in 0..30 * DAY) {
            let answers = kept_for(keep);
            let class = format!("{CLASS}{}", at.div_euclid(SPAN));
            let now = at + later;
            if answers.are_over(&class, Timestamp(now)) {
                let oldest = (now - keep).div_euclid(SPAN);
                prop_assert!(at.div_euclid(SPAN) < oldest);
                prop_assert!(now - at >= keep);
            }
            prop_assert!(answers.are_over(&class, Timestamp(at + keep + SPAN)));
        }
    }
}
