//! The program of the peers: built by cargo in a workspace of its own, asked for one run at a time over a pipe.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use enact_workloads::stm::{Figures, Refusal, Run};

use super::StmBenchError;

/// The running program; it ends with its input.
pub(super) struct Peers {
    /// Taken when the program is told to end.
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    program: Child,
}

impl Peers {
    /// Builds the program in `directory`, optimised, and starts it.
    pub(super) fn build(directory: &Path) -> Result<Self, StmBenchError> {
        let started = executable(directory).and_then(|program| Self::start(&program));
        started.map_err(|source| StmBenchError::Build { directory: directory.to_owned(), source })
    }

    fn start(program: &Path) -> io::Result<Self> {
        let mut program = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let questions = program.stdin.take();
        let answers = BufReader::new(program.stdout.take().expect("asked for a pipe"));
        Ok(Self { questions, answers, program })
    }

    /// Lets `peer` run once; also gives the CPU time that the program used for it in all.
    pub(super) fn run(&mut self, peer: &str, run: Run) -> io::Result<(Result<Figures, Refusal>, Duration)> {
        let questions = self.questions.as_mut().expect("asked only while it runs");
        writeln!(questions, "{}", serde_json::to_string(&(peer, run))?)?;
        questions.flush()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        drop(self.questions.take());
        // The program has nothing left to read, so it ends; how does not matter any more.
        self.program.wait().ok();
    }
}

/// Builds the only program of the workspace in `directory`; cargo says where it is.
fn executable(directory: &Path) -> io::Result<PathBuf> {
    let built = Command::new("cargo")
        .args([
            "build",
            "--release",
            "--locked",
            "--package",
            "peer-stm",
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(directory)
        .stderr(Stdio::inherit())
        .output()?;
    if !built.status.success() {
        return Err(io::Error::other(format!("cargo ended with {}", built.status)));
    }
    let messages = built.stdout.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let mut executables =
        messages.filter_map(|message: serde_json::Value| Some(message["executable"].as_str()?.into()));
    executables.next_back().ok_or_else(|| io::Error::other("cargo built no program"))
}
