//! What clients saw.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::{Answer, BenchError};

/// What one or more clients saw; latencies and counts are those of the window.
pub(crate) struct Tally {
    latency_us: Histogram<u64>,
    /// Requests that were acknowledged or refused within the window, whenever they were sent.
    pub(crate) settled: u64,
    /// Euros that acknowledged requests have added, whenever.
    pub(crate) added: i64,
    /// Requests whose outcome was not told, whenever.
    pub(crate) unknown: u64,
    pub(crate) refused: u64,
    pub(crate) turned_away: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        let latency_us = Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid");
        Self { latency_us, settled: 0, added: 0, unknown: 0, refused: 0, turned_away: 0 }
    }

    /// Counts an answer to a request that adds `adds`; `latency` if it is one of the window.
    pub(crate) fn count(&mut self, answer: Answer, adds: i64, latency: Option<Duration>) -> Result<(), BenchError> {
        let counted = u64::from(latency.is_some());
        match answer {
            Answer::Done => {
                self.added += adds;
                if let Some(latency) = latency {
                    self.latency_us.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
                }
            }
            Answer::Refused => self.refused += counted,
            Answer::TurnedAway { .. } => {
                self.turned_away += counted;
                self.unknown += 1;
            }
            Answer::Other { .. } => return Err(answer.unexpected()),
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.latency_us.add(&other.latency_us).expect("all tallies have the same bounds");
        self.settled += other.settled;
        self.added += other.added;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.turned_away += other.turned_away;
    }

    /// Accepts what is `found` where `opening` was, if it is what the acknowledged requests have brought. Of requests whose outcome was
    /// not told, which bring or take one at most, any part may have happened.
    ///
    /// # Errors
    /// [`BenchError::NotConserved`].
    pub(crate) fn explains(&self, found: i64, opening: i64) -> Result<(), BenchError> {
        let expected = opening + self.added;
        let is_right = found.abs_diff(expected) <= self.unknown;
        if is_right { Ok(()) } else { Err(BenchError::NotConserved { found, expected }) }
    }

    /// Acknowledged requests of the window.
    pub(crate) fn done(&self) -> u64 {
        self.latency_us.len()
    }

    /// The latency in milliseconds that this part of the acknowledged requests does not exceed.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn latency_ms(&self, part: f64) -> f64 {
        self.latency_us.value_at_quantile(part) as f64 / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(answers: impl IntoIterator<Item = (Answer, i64)>) -> Tally {
        let mut tally = Tally::new();
        for (answer, adds) in answers {
            tally.count(answer, adds, Some(Duration::from_micros(100))).expect("it is expected");
        }
        tally
    }

    #[test]
    fn what_is_found_must_be_what_acknowledged_requests_brought_but_for_those_whose_outcome_was_not_told() {
        let lost = || Answer::TurnedAway { status: 504, retry_after: None };
        let sure = tally([(Answer::Done, 1), (Answer::Done, -1), (Answer::Done, 1), (Answer::Refused, 1)]);
        let unsure = tally([(Answer::Done, 1), (lost(), 1), (lost(), -1)]);
        for (tally, found, is_right) in
            [(&sure, 11, true), (&sure, 10, false), (&sure, 12, false), (&unsure, 9, true), (&unsure, 13, true)]
        {
            assert_eq!(tally.explains(found, 10).is_ok(), is_right, "{found}");
        }
        assert!(unsure.explains(14, 10).is_err() && unsure.explains(8, 10).is_err());
        assert_eq!((sure.done(), sure.refused, unsure.turned_away), (3, 1, 2));
    }

    #[test]
    fn an_answer_that_no_workload_expects_ends_the_benchmark() {
        let other = Answer::Other { status: 422, body: "why".to_owned() };
        assert!(Tally::new().count(other, 1, None).is_err());
    }
}
