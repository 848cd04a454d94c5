//! Programs that are measured: built on demand, started, and asked for one run at a time over a pipe.
//!
//! Libraries that Enact is compared with are no dependencies of it. Each set of them has a program of its own in
//! `bench/peers`, which reads one question a line and answers each with one line, until its input ends.
mod answer;
mod build;

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

pub(crate) use answer::Answer;
pub use answer::in_words;
pub(crate) use build::{cargo, cargo_program, cargo_versions, cmake, maven};

/// How long a program may take to end once it has nothing more to answer.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// How to start a program that was built.
#[derive(Debug, Clone)]
pub(crate) struct Start(Vec<OsString>);

impl Start {
    /// By these words: the program and its first arguments.
    pub(crate) fn of(words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self(words.into_iter().map(Into::into).collect())
    }

    /// What it prints when it is run with `arguments` and nothing to read, if it ends with success.
    pub(crate) fn printed(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new(&self.0[0]);
        let output = command.args(&self.0[1..]).args(arguments).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs it with further `arguments`.
    pub(crate) fn with(&self, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> io::Result<Program> {
        let mut child = Command::new(&self.0[0])
            .args(&self.0[1..])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take();
        let answers = lines_of(child.stdout.take().expect("asked for a pipe"));
        Ok(Program { questions, answers, child })
    }
}

/// A thread reads them, so that one can give up to wait for the next.
fn lines_of(output: ChildStdout) -> Receiver<io::Result<String>> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || BufReader::new(output).lines().try_for_each(|line| send.send(line)));
    lines
}

/// A program that runs; it ends with its input.
pub(crate) struct Program {
    /// Taken when the program is told to end.
    questions: Option<ChildStdin>,
    /// Closed when the program has closed its output.
    answers: Receiver<io::Result<String>>,
    child: Child,
}

impl Program {
    /// The answer to `question`, both without their ends of line.
    ///
    /// # Errors
    /// Those of the pipe; `UnexpectedEof` if the program has ended instead, having told people why.
    pub(crate) fn ask(&mut self, question: &str) -> io::Result<String> {
        self.tell(question)?;
        self.answers.recv().map_err(|_| io::ErrorKind::UnexpectedEof)?
    }

    /// The same; a program that takes longer than `time_max` is killed.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); `TimedOut` if it was killed.
    pub(crate) fn ask_within(&mut self, question: &str, time_max: Duration) -> io::Result<String> {
        self.tell(question)?;
        match self.answers.recv_timeout(time_max) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(RecvTimeoutError::Timeout) => {
                self.child.kill()?;
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    fn tell(&mut self, question: &str) -> io::Result<()> {
        let questions = self.questions.as_mut().expect("asked only while it runs");
        writeln!(questions, "{question}")?;
        questions.flush()
    }

    /// Its number in the operating system.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.questions.take());
        // The program has nothing left to read, so it ends, or is ended; how does not matter any more.
        let is_deaf = loop {
            match self.answers.recv_timeout(END_TIME_MAX) {
                Ok(_unasked) => {}
                Err(closed) => break closed == RecvTimeoutError::Timeout,
            }
        };
        if is_deaf {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(words: &[&str]) -> Program {
        Start::of([words[0]]).with(&words[1..]).expect("it can be started")
    }

    #[test]
    fn every_question_has_its_answer() {
        let mut echo = program(&["cat"]);
        assert_eq!(echo.ask("one").expect("it answers"), "one");
        let patient = Duration::from_secs(60);
        assert_eq!(echo.ask_within("two", patient).expect("it answers"), "two");
    }

    #[test]
    fn a_program_that_does_not_answer_in_time_is_killed() {
        let mut deaf = program(&["sleep", "1000000"]);
        let late = deaf.ask_within("anybody there?", Duration::from_millis(1)).expect_err("nobody is there");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let status = deaf.child.wait().expect("it has ended");
        assert!(!status.success(), "{status}");
    }

    #[test]
    fn what_a_program_prints_counts_if_it_ends_with_success() {
        assert_eq!(Start::of(["echo", "1.2"]).printed(&["3"]), Some("1.2 3".to_owned()));
        assert_eq!(Start::of(["false"]).printed(&[]), None);
        assert_eq!(Start::of(["no-such-program"]).printed(&[]), None);
    }

    #[test]
    fn a_program_that_has_ended_is_an_error() {
        // Whether the question can still be written depends on which of the two is faster.
        let ended = program(&["true"]).ask("anybody there?").expect_err("it has ended").kind();
        assert!(matches!(ended, io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe), "{ended}");
    }
}
