//! Checkers of recorded histories: whether what transactions have read and written can be explained by a serial order.
//!
//! Each thread keeps a [`Recorder`] and tells it of every attempt, also of those that end in an abort. Merged, they are
//! a [`History`], which is checked against a [`Criterion`]. What cannot be explained is reported by the name that the
//! literature gives it, with the attempts that contradict each other.
//!
//! ```
//! use enact_check::{Anomaly, Criterion, History, Recorder, Tickets, Token, Variable};
//!
//! let (tickets, x) = (Tickets::default(), Variable(0));
//! let [mut one, mut two] = [0, 1].map(Recorder::new);
//! one.begin(tickets.next()); // before the attempt does anything
//! one.read(x, Token::INITIAL);
//! two.begin(tickets.next());
//! two.read(x, Token::INITIAL);
//! one.write(x, Token(1));
//! one.commit(tickets.next()); // after the commit has returned
//! two.write(x, Token(2));
//! two.commit(tickets.next());
//! let history = History::merge([one, two]);
//! let error = history.check(Criterion::Opaque).expect_err("the update of the first is lost");
//! assert_eq!(error.anomaly(), Some(Anomaly::LostUpdate));
//! println!("{error}");
//! ```
//!
//! # What a test has to provide
//! * *Tokens*: what is read must tell which write it comes from, so no variable holds the same token twice, and before
//!   all writes it holds [`Token::INITIAL`]. A value such as `thread << 40 | count` does.
//! * *The order of versions*: the order in which the committed writes of one variable took effect. Either its tokens
//!   increase ([`Recorder::write`]), or every write names the token that it replaced ([`Recorder::replace`]), which a
//!   transaction knows if it reads what it writes.
//! * *Tickets*: numbers in the order of real time, from [`Tickets`] or from elsewhere. The first is drawn before the
//!   attempt begins, the second after it has ended: an attempt may seem longer than it was, never shorter.
//!
//! # Sources
//! Adya, *Weak Consistency*, for the graph and the names G0 to G2; Guerraoui and Kapalka, *On the Correctness of
//! Transactional Memory*, for opacity; Kingsbury and Alvaro, *Elle*, for finding the anomaly in the graph.
#![forbid(unsafe_code)]

mod access;
mod check;
mod components;
mod graph;
mod history;
mod name;
pub mod oracle;
mod versions;
mod violation;

pub use check::{Coverage, Criterion};
pub use history::{AttemptId, History, Recorder, Tickets, Token, Variable};
pub use violation::{Anomaly, CheckError, Cycle, Dependency, Malformed, Step, Violation};
