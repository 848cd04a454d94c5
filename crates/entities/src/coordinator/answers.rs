//! The answers that repeated requests get again.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::record::{AnswerRecord, Idempotency};
use crate::tx::TxId;

/// The answers under the keys of clients; the oldest ones are forgotten first.
pub(super) struct Answers {
    requests: BTreeMap<String, Remembered>,
    /// The keys of the answered, oldest first.
    answered: VecDeque<String>,
    answered_max: usize,
}

#[derive(Debug)]
enum Remembered {
    Running { fingerprint: [u8; 32] },
    Answered { fingerprint: [u8; 32], answer: AnswerRecord },
}

/// What is known of a request that arrives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing: it runs now.
    New,
    /// The same request is running.
    Running,
    /// The same request was answered.
    Answered(AnswerRecord),
    /// Another request has the key.
    Reused,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.requests.fmt(f)
    }
}

impl<R: fmt::Debug> fmt::Debug for Recent<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.replies.fmt(f)
    }
}

impl Answers {
    pub(super) fn new(answered_max: usize) -> Self {
        Self { requests: BTreeMap::new(), answered: VecDeque::new(), answered_max }
    }

    /// Says what is known of a request; one that is new counts as running from now on.
    pub(super) fn begin(&mut self, request: &Idempotency) -> Known {
        let fingerprint = request.fingerprint;
        match self.requests.get(&request.key) {
            None => {
                self.requests.insert(request.key.clone(), Remembered::Running { fingerprint });
                Known::New
            }
            Some(Remembered::Running { fingerprint: other } | Remembered::Answered { fingerprint: other, .. })
                if *other != fingerprint =>
            {
                Known::Reused
            }
            Some(Remembered::Running { .. }) => Known::Running,
            Some(Remembered::Answered { answer, .. }) => Known::Answered(answer.clone()),
        }
    }

    /// A running request ended without an answer: it may be repeated as a new one.
    pub(super) fn cancel(&mut self, request: &Idempotency) {
        self.requests.remove(&request.key);
    }

    /// Keeps an answer, if the request had a key.
    pub(super) fn keep(&mut self, answer: &AnswerRecord) {
        let Some(Idempotency { key, fingerprint, .. }) = &answer.idempotency else { return };
        let remembered = Remembered::Answered { fingerprint: *fingerprint, answer: answer.clone() };
        if let Some(Remembered::Answered { .. }) = self.requests.insert(key.clone(), remembered) {
            return;
        }
        self.answered.push_back(key.clone());
        if self.answered.len() > self.answered_max
            && let Some(oldest) = self.answered.pop_front()
        {
            self.requests.remove(&oldest);
        }
    }

    /// All answers, oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &AnswerRecord> {
        self.answered.iter().filter_map(|key| match self.requests.get(key) {
            Some(Remembered::Answered { answer, .. }) => Some(answer),
            _ => None,
        })
    }
}

/// The replies to transactions that ended, by their ids; the oldest ones are forgotten first.
pub(super) struct Recent<R> {
    replies: BTreeMap<TxId, R>,
    order: VecDeque<TxId>,
    max: usize,
}

impl<R> Recent<R> {
    pub(super) fn new(max: usize) -> Self {
        Self { replies: BTreeMap::new(), order: VecDeque::new(), max }
    }

    pub(super) fn get(&self, tx: TxId) -> Option<&R> {
        self.replies.get(&tx)
    }

    pub(super) fn keep(&mut self, tx: TxId, reply: impl FnOnce() -> R) {
        if self.max == 0 {
            return;
        }
        if self.replies.insert(tx, reply()).is_none() {
            self.order.push_back(tx);
        }
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.replies.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Done;
    use crate::tx::Timestamp;

    fn request(key: &str, fingerprint: u8) -> Idempotency {
        Idempotency { key: key.into(), principal: None, fingerprint: [fingerprint; 32] }
    }

    fn answer(key: &str, tx: u128) -> AnswerRecord {
        let result = Ok(Done::default());
        AnswerRecord { tx: TxId::from_u128(tx), at: Timestamp(0), idempotency: Some(request(key, 1)), result }
    }

    #[test]
    fn a_key_runs_once_and_answers_the_same_for_ever() {
        let mut answers = Answers::new(2);
        assert_eq!(answers.begin(&request("a", 1)), Known::New);
        assert_eq!(answers.begin(&request("a", 1)), Known::Running);
        assert_eq!(answers.begin(&request("a", 2)), Known::Reused);
        answers.keep(&answer("a", 7));
        assert_eq!(answers.begin(&request("a", 1)), Known::Answered(answer("a", 7)));
        assert_eq!(answers.begin(&request("a", 2)), Known::Reused);
    }

    #[test]
    fn a_cancelled_key_may_run_again() {
        let mut answers = Answers::new(2);
        answers.begin(&request("a", 1));
        answers.cancel(&request("a", 1));
        assert_eq!(answers.begin(&request("a", 2)), Known::New);
    }

    #[test]
    fn the_oldest_answer_is_forgotten_beyond_the_limit_and_not_before() {
        let mut answers = Answers::new(2);
        answers.keep(&answer("a", 1));
        answers.keep(&answer("b", 2));
        assert_eq!(answers.begin(&request("a", 1)), Known::Answered(answer("a", 1)));
        answers.keep(&answer("c", 3));
        assert_eq!(answers.begin(&request("a", 1)), Known::New);
        assert_eq!(answers.all().count(), 2);
    }

    #[test]
    fn recent_replies_are_bounded() {
        let mut recent = Recent::new(1);
        recent.keep(TxId::from_u128(1), || "one");
        recent.keep(TxId::from_u128(2), || "two");
        assert_eq!((recent.get(TxId::from_u128(1)), recent.get(TxId::from_u128(2))), (None, Some(&"two")));
    }
}
