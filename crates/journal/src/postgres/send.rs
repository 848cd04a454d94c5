//! What becomes of one group: the writer's state machine, without a server.
//!
//! # Problem
//! A server that does not answer may have committed the group, may commit it yet, or never has seen it. Nobody is told anything until
//! that is certain.
//!
//! # How it becomes certain
//! Each attempt inserts rows at the same positions, which are unique, and only as long as the reign lasts. So at most one of all attempts
//! is ever committed. After one of unknown fate the writer looks before it does anything else: it locks the owner's row, and so
//! waits for what other sessions do under it, and then looks at the first position of the group.
//!
//! | answer | means | next |
//! |---|---|---|
//! | all rows inserted | durable | answer all |
//! | no row inserted | the reign is over | look |
//! | a row is there already | an attempt has been committed, or a row of nobody knows whom | look |
//! | disk full, nothing unknown before | no effect | refused |
//! | … after an attempt of unknown fate | that one may be committed | look |
//! | another error | no effect of this attempt | again |
//! | time-out, connection lost, a warning | unknown | look |
//! | … mine stands there | durable | answer all |
//! | … the reign is over, and mine does not stand there | no attempt has an effect, now or later | fenced |
//! | … nothing stands there | not committed yet | again |
//! | … another row stands there, or nothing however often it is refused | somebody has changed the tables | in doubt |
//! | … nothing could be seen | unknown | look again |

use std::time::Duration;

use crate::journal::{AppendError, Refusal};
use crate::remote::Fate;

/// How often the same unexplained refusal is taken for one that passes.
const UNEXPLAINED_MAX: u32 = 5;

/// A group whose fate is being found out.
#[derive(Debug)]
pub(super) struct Sending {
    /// How many records it has.
    count: u64,
    attempts: u32,
    looks: u32,
    /// An attempt may have been committed, or may be yet.
    is_unknown: bool,
    /// Refusals in a row that nothing explains.
    unexplained: u32,
}

/// What to do next, after a while.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Send {
        after: Duration,
    },
    /// Look at what stands at the first position of the group.
    Look {
        after: Duration,
    },
    Ended(Fate),
}

/// What has come back of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// So many rows were inserted, and that is committed.
    Inserted(u64),
    /// A row with one of the positions, or of one of the entities with one of the numbers, is there already.
    Taken,
    /// The disk is full. Nothing was inserted.
    Full { why: String },
    /// The server has refused it for another reason. Nothing was inserted.
    Refused { why: String },
    /// Nothing that says what became of it.
    Nothing,
}

/// What stands at the first position of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A record of this reign.
    Ours,
    /// None of this reign, and that is over: `by` has begun the reign `epoch`.
    Over { epoch: u64, by: String },
    /// Nothing, and the reign goes on.
    Nothing,
    /// A record of another reign, and this one goes on.
    Foreign,
    /// It could not be seen.
    Unseen,
}

impl Sending {
    /// A group of `count` records.
    pub(super) fn new(count: usize) -> Self {
        Self { count: count as u64, attempts: 0, looks: 0, is_unknown: false, unexplained: 0 }
    }

    /// How long the next attempt is given: 5 s, doubled up to 40 s. A group is at most 16 MiB, and a disk may be slow.
    pub(super) fn time_out(&self) -> Duration {
        Duration::from_secs(5 << self.attempts.min(3))
    }

    /// Takes what has come back of an attempt.
    pub(super) fn answered(&mut self, answer: Answer) -> Next {
        self.attempts += 1;
        match answer {
            Answer::Inserted(count) if count == self.count => Next::Ended(Fate::Durable),
            Answer::Inserted(0) | Answer::Taken => Next::Look { after: Duration::ZERO },
            Answer::Inserted(count) => doubt(format!("the server inserted {count} rows of {}", self.count)),
            Answer::Full { .. } if self.is_unknown => {
                self.unexplained = 0;
                Next::Look { after: Duration::ZERO }
            }
            Answer::Full { why } => Next::Ended(Fate::Not(Refusal::StorageFull { why }.into())),
            Answer::Refused { why } => {
                tracing::warn!(why, "the server did not take a group of records; it is sent again");
                self.unexplained = 0;
                Next::Send { after: pause(self.attempts) }
            }
            Answer::Nothing => {
                self.is_unknown = true;
                self.unexplained = 0;
                self.look_again()
            }
        }
    }

    /// Takes what stands at the first position of the group.
    pub(super) fn found(&mut self, found: Found) -> Next {
        match found {
            Found::Ours => Next::Ended(Fate::Durable),
            Found::Over { epoch, by } => Next::Ended(Fate::Not(Refusal::Fenced { epoch, by }.into())),
            Found::Unseen => self.look_again(),
            Found::Nothing | Found::Foreign => {
                self.looks = 0;
                self.unexplained += 1;
                if self.unexplained == UNEXPLAINED_MAX {
                    return doubt("the tables have rows that no writer has inserted".to_owned());
                }
                Next::Send { after: pause(self.attempts) }
            }
        }
    }

    fn look_again(&mut self) -> Next {
        self.looks += 1;
        Next::Look { after: pause(self.looks) }
    }
}

/// 10 ms, doubled up to 320 ms.
fn pause(attempts: u32) -> Duration {
    Duration::from_millis(5 << attempts.min(6))
}

fn doubt(why: String) -> Next {
    Next::Ended(Fate::Not(AppendError::InDoubt { why }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 3;

    #[derive(Clone)]
    enum Said {
        Answer(Answer),
        Found(Found),
    }
    use Said::{Answer as A, Found as F};

    const DONE: Said = A(Answer::Inserted(COUNT));
    const NO_ROW: Said = A(Answer::Inserted(0));
    const TAKEN: Said = A(Answer::Taken);
    const LOST: Said = A(Answer::Nothing);
    const OURS: Said = F(Found::Ours);
    const NOTHING: Said = F(Found::Nothing);
    const FOREIGN: Said = F(Found::Foreign);
    const UNSEEN: Said = F(Found::Unseen);

    fn full() -> Said {
        A(Answer::Full { why: "no space".to_owned() })
    }

    fn refused() -> Said {
        A(Answer::Refused { why: "lock timeout".to_owned() })
    }

    fn over() -> Said {
        F(Found::Over { epoch: 8, by: "n2".to_owned() })
    }

    /// Plays what is said to a group; what it does next.
    fn play(said: &[Said]) -> Next {
        let mut sending = Sending::new(COUNT as usize);
        let mut next = Next::Send { after: Duration::ZERO };
        for said in said {
            next = match (next, said.clone()) {
                (Next::Send { .. }, A(answer)) => sending.answered(answer),
                (Next::Look { .. }, F(found)) => sending.found(found),
                (next, _) => panic!("that is not what it asks for: {next:?}"),
            };
        }
        next
    }

    fn durable() -> Next {
        Next::Ended(Fate::Durable)
    }

    fn fenced() -> Next {
        Next::Ended(Fate::Not(Refusal::Fenced { epoch: 8, by: "n2".to_owned() }.into()))
    }

    fn is_in_doubt(next: &Next) -> bool {
        matches!(next, Next::Ended(Fate::Not(AppendError::InDoubt { .. })))
    }

    fn repeated(said: &[Said], times: u32) -> Vec<Said> {
        (0..times).flat_map(|_| said.to_vec()).collect()
    }

    #[test]
    fn a_group_is_durable_if_all_of_it_was_inserted() {
        assert_eq!(play(&[DONE]), durable());
        for other in [1, COUNT - 1, COUNT + 1] {
            assert!(is_in_doubt(&play(&[A(Answer::Inserted(other))])), "{other}");
        }
    }

    #[test]
    fn an_attempt_of_unknown_fate_is_looked_for_before_anything_else_is_sent() {
        assert!(matches!(play(&[LOST]), Next::Look { .. }));
        assert!(matches!(play(&[LOST, UNSEEN, UNSEEN]), Next::Look { .. }), "until it was seen");
        assert_eq!(play(&[LOST, OURS]), durable());
        assert_eq!(play(&[LOST, UNSEEN, over()]), fenced());
        assert!(matches!(play(&[LOST, NOTHING]), Next::Send { .. }));
        assert_eq!(play(&[LOST, NOTHING, DONE]), durable());
    }

    /// What was on its way when nothing stood there yet.
    #[test]
    fn an_attempt_that_is_late_makes_the_next_one_find_it() {
        assert_eq!(play(&[LOST, NOTHING, TAKEN, OURS]), durable());
        assert_eq!(play(&[LOST, NOTHING, LOST, NOTHING, TAKEN, OURS]), durable());
    }

    #[test]
    fn a_reign_that_is_over_refuses_what_does_not_stand_there() {
        assert_eq!(play(&[NO_ROW, over()]), fenced());
        assert_eq!(play(&[TAKEN, over()]), fenced());
        assert_eq!(play(&[LOST, NOTHING, NO_ROW, over()]), fenced());
        assert_eq!(play(&[LOST, NOTHING, NO_ROW, OURS]), durable(), "a late attempt came before the end");
    }

    #[test]
    fn a_full_disk_refuses_nothing_of_which_an_attempt_may_be_committed() {
        assert_eq!(play(&[full()]), Next::Ended(Fate::Not(Refusal::StorageFull { why: "no space".to_owned() }.into())));
        assert_eq!(play(&[refused(), full()]), play(&[full()]));
        assert_eq!(play(&[LOST, NOTHING, full(), OURS]), durable());
        assert_eq!(play(&[LOST, NOTHING, full(), over()]), fenced());
        let long = [vec![LOST, NOTHING], repeated(&[full(), NOTHING], 100)].concat();
        assert!(matches!(play(&long), Next::Send { .. }), "however long it stays full");
    }

    #[test]
    fn rows_of_nobody_knows_whom_are_in_doubt_when_they_stay() {
        for once in [[TAKEN, NOTHING], [TAKEN, FOREIGN], [NO_ROW, NOTHING]] {
            assert!(matches!(play(&repeated(&once, UNEXPLAINED_MAX - 1)), Next::Send { .. }));
            assert!(is_in_doubt(&play(&repeated(&once, UNEXPLAINED_MAX))), "nobody is told that it has no effect");
        }
    }

    #[test]
    fn however_often_no_answer_comes_nobody_is_told_anything() {
        assert!(matches!(play(&repeated(&[LOST, NOTHING], 100)), Next::Send { .. }));
        assert!(matches!(play(&repeated(&[refused()], 100)), Next::Send { .. }));
        assert!(matches!(play(&[vec![LOST], repeated(&[UNSEEN], 100)].concat()), Next::Look { .. }));
    }

    #[test]
    fn pauses_grow_up_to_a_third_of_a_second_and_time_outs_up_to_forty_seconds() {
        let pauses = (1..8).map(|times| match play(&[vec![LOST], repeated(&[UNSEEN], times)].concat()) {
            Next::Look { after } => after.as_millis(),
            next => panic!("{next:?}"),
        });
        assert_eq!(pauses.collect::<Vec<_>>(), [20, 40, 80, 160, 320, 320, 320]);
        let mut sending = Sending::new(1);
        let time_outs = [(); 5].map(|()| {
            let time_out = sending.time_out().as_secs();
            sending.answered(Answer::Nothing);
            time_out
        });
        assert_eq!(time_outs, [5, 10, 20, 40, 40]);
    }
}
