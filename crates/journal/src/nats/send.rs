//! What becomes of one group: the writer's state machine, without a server.
//!
//! # Problem
//! A server that does not answer may have stored the group, may store it yet, or never has seen it. Nobody is told anything until
//! that is certain.
//!
//! # How it becomes certain
//! Each attempt expects the same last sequence of the stream, the one behind which the group belongs. So at most one of all
//! attempts is ever stored, and as soon as anything stands at the next sequence the fate of all of them is decided for good.
//! The machine repeats the group until the server says that it is stored, or something stands there.
//!
//! | answer | means | next |
//! |---|---|---|
//! | stored | durable | answer all |
//! | wrong last sequence | an attempt has been stored, or another message | look at the next sequence |
//! | … mine stands there | durable | answer all |
//! | … another one stands there | no attempt has an effect, now or later | fenced |
//! | … nothing, and the stream is longer | a replica that is behind has answered | again |
//! | … nothing, and the stream ends where it should | an entity's own expectation failed, or an attempt is still on its way | again; in doubt when it stays so |
//! | in process | an attempt has not been decided | again, soon |
//! | time-out, no responder, closed, incomplete, anything else | unknown | again |
//! | stream or disk full, nothing unknown before | no effect | refused |
//! | … after an attempt of unknown fate | that one may be stored | look, and again |

use std::time::Duration;

use super::wire::Answer;
use crate::journal::{AppendError, Refusal};
use crate::remote::Fate;

/// The stream, or a subject, ends elsewhere than expected.
const WRONG_LAST: u64 = 10071;
/// The same, for messages that the server is still processing.
const IN_PROCESS: u64 = 10164;
/// The account, the server or its disk has no space left, which is seen before anything is stored.
const NO_SPACE: [u64; 3] = [10002, 10023, 10047];
/// The store did not take it; the reason says whether a limit of the stream was met.
const NOT_STORED: u64 = 10077;

/// How often the same unexplained refusal is taken for one that passes.
const UNEXPLAINED_MAX: u32 = 5;

/// A group whose fate is being found out.
#[derive(Debug)]
pub(super) struct Sending {
    /// The sequence behind which it belongs, in every attempt.
    last: u64,
    /// How many records it has.
    count: u64,
    attempts: u32,
    /// An attempt may have been stored, or may be yet.
    is_unknown: bool,
    /// Refusals in a row that nothing explains.
    unexplained: u32,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send the group again, after a while.
    Send {
        after: Duration,
    },
    /// Look at what stands behind the last sequence.
    Look,
    Ended(Fate),
}

/// What stands behind the last sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The first record of the group.
    Ours,
    /// Another message: an owner record, or one of nobody knows whom.
    Another { by: String },
    /// Nothing, and the stream ends at `last`.
    Nothing { last: u64 },
    /// It could not be seen.
    Unseen,
}

impl Sending {
    /// A group of `count` records behind the sequence `last`.
    pub(super) fn new(last: u64, count: usize) -> Self {
        Self { last, count: count as u64, attempts: 0, is_unknown: false, unexplained: 0 }
    }

    /// What every attempt expects to be the last sequence of the stream.
    pub(super) fn expected(&self) -> u64 {
        self.last
    }

    /// The number of the next attempt.
    pub(super) fn attempt(&self) -> u32 {
        self.attempts
    }

    /// How long the next attempt is given: 0.6 s, doubled up to 2 s.
    pub(super) fn time_out(&self) -> Duration {
        Duration::from_millis(600 << self.attempts.min(2)).min(Duration::from_secs(2))
    }

    /// Takes what has come back of an attempt.
    pub(super) fn answered(&mut self, answer: Answer) -> Next {
        self.attempts += 1;
        match answer {
            Answer::Stored { sequence } if sequence == self.last + self.count => Next::Ended(Fate::Durable),
            Answer::Stored { sequence } => self.doubt(format!(
                "the server stored {} records behind {} and says that the last is {sequence}",
                self.count, self.last
            )),
            Answer::Refused { code: WRONG_LAST, .. } => Next::Look,
            Answer::Refused { code: IN_PROCESS, .. } => Next::Send { after: Duration::from_millis(1) },
            Answer::Refused { code, why } if is_full(code, &why) => {
                if self.is_unknown {
                    self.unexplained = 0;
                    return Next::Look;
                }
                Next::Ended(Fate::Not(Refusal::StorageFull { why }.into()))
            }
            Answer::Refused { code, why } => {
                tracing::warn!(code, why, "the server did not take a group of records; it is sent again");
                self.unknown()
            }
            Answer::Nothing => self.unknown(),
        }
    }

    /// Takes what stands behind the last sequence.
    pub(super) fn found(&mut self, found: Found) -> Next {
        match found {
            Found::Ours => Next::Ended(Fate::Durable),
            #[cfg(planted = "expect_anew")]
            Found::Another { .. } => {
                self.last += 1;
                self.again()
            }
            Found::Another { by } => Next::Ended(Fate::Not(Refusal::Fenced { epoch: self.last + 1, by }.into())),
            Found::Nothing { last } if last == self.last => {
                self.unexplained += 1;
                if self.unexplained == UNEXPLAINED_MAX {
                    return self.doubt(format!(
                        "the server refuses a group behind {}, where the stream ends: an entity was read from a server that \
                         lacks records",
                        self.last
                    ));
                }
                self.again()
            }
            Found::Nothing { .. } | Found::Unseen => self.again(),
        }
    }

    fn unknown(&mut self) -> Next {
        self.is_unknown = true;
        self.unexplained = 0;
        self.again()
    }

    /// Sends again, later each time: 10 ms, doubled up to 320 ms.
    fn again(&self) -> Next {
        Next::Send { after: Duration::from_millis(5 << self.attempts.min(6)) }
    }

    fn doubt(&self, why: String) -> Next {
        Next::Ended(Fate::Not(AppendError::InDoubt { why }))
    }
}

fn is_full(code: u64, why: &str) -> bool {
    // Whether a store that failed has stored it nobody knows, but where it was over a limit.
    NO_SPACE.contains(&code) || code == NOT_STORED && why.contains("maximum")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: u64 = 70;
    const COUNT: usize = 3;

    #[derive(Clone)]
    enum Said {
        Answer(Answer),
        Found(Found),
    }
    use Said::{Answer as A, Found as F};

    fn stored(sequence: u64) -> Said {
        A(Answer::Stored { sequence })
    }

    fn refused(code: u64) -> Said {
        A(Answer::Refused { code, why: "maximum bytes exceeded".to_owned() })
    }

    const NOTHING: Said = A(Answer::Nothing);
    const OURS: Said = F(Found::Ours);
    const UNSEEN: Said = F(Found::Unseen);
    const BEHIND: Said = F(Found::Nothing { last: LAST + 3 });
    const ENDS_HERE: Said = F(Found::Nothing { last: LAST });

    fn another() -> Said {
        F(Found::Another { by: "n2".to_owned() })
    }

    /// Plays what is said to a group; its fate, if it has one by then, how often it was sent, and the last pause.
    fn play(said: &[Said]) -> (Option<Fate>, u32, Duration) {
        let mut sending = Sending::new(LAST, COUNT);
        let (mut next, mut pause) = (Next::Send { after: Duration::ZERO }, Duration::ZERO);
        for said in said {
            next = match (next, said.clone()) {
                (Next::Send { .. }, A(answer)) => sending.answered(answer),
                (Next::Look, F(found)) => sending.found(found),
                (next, _) => panic!("that is not what it asks for: {next:?}"),
            };
            assert_eq!(sending.expected(), LAST, "no attempt ever expects anything else");
            if let Next::Send { after } = next {
                pause = after;
            }
        }
        let sent = sending.attempt();
        match next {
            Next::Ended(fate) => (Some(fate), sent, pause),
            Next::Send { .. } | Next::Look => (None, sent, pause),
        }
    }

    fn repeated(said: &[Said], times: u32) -> Vec<Said> {
        (0..times).flat_map(|_| said.to_vec()).collect()
    }

    fn fate(said: &[Said]) -> Option<Fate> {
        play(said).0
    }

    fn fenced() -> Option<Fate> {
        Some(Fate::Not(Refusal::Fenced { epoch: LAST + 1, by: "n2".to_owned() }.into()))
    }

    fn full() -> Option<Fate> {
        Some(Fate::Not(Refusal::StorageFull { why: "maximum bytes exceeded".to_owned() }.into()))
    }

    fn is_in_doubt(fate: &Option<Fate>) -> bool {
        matches!(fate, Some(Fate::Not(AppendError::InDoubt { .. })))
    }

    #[test]
    fn a_stored_group_is_durable_if_it_stands_where_it_belongs() {
        assert_eq!(fate(&[stored(LAST + 3)]), Some(Fate::Durable));
        for elsewhere in [0, LAST, LAST + 2, LAST + 4] {
            assert!(is_in_doubt(&fate(&[stored(elsewhere)])), "{elsewhere}");
        }
    }

    #[test]
    fn a_wrong_last_sequence_is_durable_if_an_earlier_attempt_stands_there() {
        assert_eq!(fate(&[NOTHING, refused(WRONG_LAST), OURS]), Some(Fate::Durable));
    }

    #[test]
    fn a_wrong_last_sequence_is_fenced_if_another_message_stands_there() {
        assert_eq!(fate(&[refused(WRONG_LAST), another()]), fenced());
        assert_eq!(fate(&[NOTHING, refused(10176), refused(WRONG_LAST), another()]), fenced());
    }

    #[test]
    fn a_replica_that_is_behind_is_asked_again() {
        let mut said = Vec::new();
        for _ in 0..100 {
            said.extend([refused(WRONG_LAST), BEHIND]);
        }
        assert_eq!((fate(&said), play(&said).1), (None, 100));
        said.extend([refused(WRONG_LAST), another()]);
        assert_eq!(fate(&said), fenced());
    }

    #[test]
    fn what_cannot_be_seen_is_asked_again() {
        assert_eq!(fate(&[refused(WRONG_LAST), UNSEEN]), None);
        assert_eq!(fate(&[refused(WRONG_LAST), UNSEEN, refused(WRONG_LAST), OURS]), Some(Fate::Durable));
    }

    /// The stream is where it should be: an entity's own expectation has failed, unless an attempt is still on its way.
    #[test]
    fn an_unexplained_refusal_is_in_doubt_when_it_stays() {
        let once = [refused(WRONG_LAST), ENDS_HERE];
        assert_eq!(fate(&repeated(&once, UNEXPLAINED_MAX - 1)), None);
        assert!(is_in_doubt(&fate(&repeated(&once, UNEXPLAINED_MAX))), "nobody is told that it has no effect");
        assert_eq!(fate(&[NOTHING, refused(WRONG_LAST), ENDS_HERE, stored(LAST + 3)]), Some(Fate::Durable));
        assert_eq!(fate(&[NOTHING, refused(WRONG_LAST), ENDS_HERE, refused(WRONG_LAST), OURS]), Some(Fate::Durable));
    }

    #[test]
    fn what_is_in_process_is_asked_again_soon() {
        assert_eq!(play(&[refused(IN_PROCESS)]), (None, 1, Duration::from_millis(1)));
    }

    #[test]
    fn what_says_nothing_is_sent_again_later_each_time() {
        let unknown = [NOTHING, refused(10176), refused(10008), refused(10059), refused(0)];
        let mut pauses = Vec::new();
        for count in 1..=unknown.len() {
            let (fate, sent, pause) = play(&unknown[..count]);
            assert_eq!((fate, sent), (None, count as u32));
            pauses.push(pause);
        }
        assert!(pauses.is_sorted_by(|earlier, later| earlier < later), "{pauses:?}");
    }

    #[test]
    fn time_outs_are_doubled_up_to_two_seconds() {
        let mut sending = Sending::new(LAST, COUNT);
        let time_outs = [(); 4].map(|()| {
            let time_out = sending.time_out().as_millis();
            sending.answered(Answer::Nothing);
            time_out
        });
        assert_eq!(time_outs, [600, 1200, 2000, 2000]);
    }

    #[test]
    fn a_full_stream_refuses_what_was_sent_once() {
        for code in [10002, 10023, 10047, NOT_STORED] {
            assert_eq!(fate(&[refused(code)]), full(), "{code}");
        }
        assert_eq!(fate(&[refused(IN_PROCESS), refused(10047)]), full());
    }

    /// The attempt that was not answered may be what has filled the stream.
    #[test]
    fn a_full_stream_refuses_nothing_of_which_an_attempt_may_be_stored() {
        assert_eq!(fate(&[NOTHING, refused(10047), OURS]), Some(Fate::Durable));
        assert_eq!(fate(&[NOTHING, refused(10047), another()]), fenced());
        assert_eq!(fate(&[NOTHING, refused(10047), BEHIND, refused(10047), OURS]), Some(Fate::Durable));
        let long = [vec![NOTHING], repeated(&[refused(10047), ENDS_HERE], 100)].concat();
        assert_eq!(fate(&long), None, "however long it stays full");
        assert_eq!(fate(&[long, vec![stored(LAST + 3)]].concat()), Some(Fate::Durable));
    }

    #[test]
    fn a_store_that_failed_for_another_reason_has_perhaps_stored_it() {
        let failed = A(Answer::Refused { code: NOT_STORED, why: "input/output error".to_owned() });
        assert_eq!(fate(std::slice::from_ref(&failed)), None);
        assert_eq!(fate(&[failed, refused(10047), OURS]), Some(Fate::Durable));
    }
}
