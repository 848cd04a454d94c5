//! Programs of peers: built on demand, started, and asked for one run at a time over a pipe.
//!
//! Libraries that Enact is compared with are no dependencies of it. Each set of them has a program of its own under
//! `peers/`, which reads one question a line and answers each with one line, until its input ends.
mod build;

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(crate) use build::{cargo, cmake, maven};

/// How to start a program that was built.
#[derive(Debug, Clone)]
pub(crate) struct Start(Vec<OsString>);

impl Start {
    /// Runs it with further `arguments`.
    pub(crate) fn with(&self, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> io::Result<Program> {
        let mut child = Command::new(&self.0[0])
            .args(&self.0[1..])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("asked for a pipe"));
        Ok(Program { questions, answers, child })
    }
}

/// A program that runs; it ends with its input.
pub(crate) struct Program {
    /// Taken when the program is told to end.
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    child: Child,
}

impl Program {
    /// The answer to `question`, both without their ends of line.
    ///
    /// # Errors
    /// Those of the pipe; `UnexpectedEof` if the program has ended instead, having told people why.
    pub(crate) fn ask(&mut self, question: &str) -> io::Result<String> {
        let questions = self.questions.as_mut().expect("asked only while it runs");
        writeln!(questions, "{question}")?;
        questions.flush()?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(answer)
    }

    /// Its number in the operating system.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.questions.take());
        // The program has nothing left to read, so it ends; how does not matter any more.
        self.child.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(words: &[&str]) -> Program {
        Start(vec![words[0].into()]).with(&words[1..]).expect("it can be started")
    }

    #[test]
    fn every_question_has_its_answer() {
        let mut echo = program(&["cat"]);
        assert_eq!(echo.ask("one").expect("it answers"), "one\n");
        assert_eq!(echo.ask("two").expect("it answers"), "two\n");
    }

    #[test]
    fn a_program_that_has_ended_is_an_error() {
        // Whether the question can still be written depends on which of the two is faster.
        let ended = program(&["true"]).ask("anybody there?").expect_err("it has ended").kind();
        assert!(matches!(ended, io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe), "{ended}");
    }
}
