//! `enact import`: the lines of a file become commands to a server that runs, in batches.
//!
//! # Once
//! Each command has an idempotency key that follows from the digest of the file and the number of its line. So a run that was killed is
//! repeated as it is: what was done before is answered from what the server has kept, and has no second effect.
//!
//! # Load
//! The file is read as batches are sent, of which two are under way: as many as a server lets one client have. What a server does not
//! take now (429, 503), or has not answered in time (504), is sent again, more and more slowly, until nothing has been answered for
//! as long as the user has patience.

mod commands;
mod flaw;
mod sending;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use self::commands::{Command, Commands, Entry};
use self::sending::{Sent, Server};
use crate::args;
use crate::failure::Failure;

/// How many batches are under way: a server has as many of one client at once.
const BATCHES_MAX: usize = 2;
/// What is around the commands of a batch.
const ENVELOPE_BYTES: usize = r#"{"commands":[]}"#.len();

/// Why a file is not imported, or not all of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error("--{option} is for CSV: a line of JSON says it itself")]
    OnlyForCsv { option: &'static str },
    #[error("the first line of {file} cannot be read: {why}")]
    Header { file: String, why: String },
    #[error("{file} has two columns `{column}`")]
    RepeatedColumn { file: String, column: String },
    #[error("{file} has no column `{column}`{}", advice(.column))]
    NoColumn { file: String, column: String },
    #[error("{url} takes no batches: {said}")]
    Server { url: String, said: String },
    #[error(
        "{lines} line{} without an answer, and those behind were not sent: {said}; repeat the command, which does nothing for the \
         second time", if *lines == 1 { "" } else { "s" }
    )]
    Unanswered { lines: usize, said: String },
    #[error("{lines} line{} refused", if *lines == 1 { " was" } else { "s were" })]
    Refused { lines: usize },
}

fn advice(column: &str) -> String {
    match column {
        "class" | "event" => format!("; `--{column}` says it for all lines"),
        _ => String::new(),
    }
}

impl ImportError {
    /// Whether the command line or the file is to blame, before anything was sent.
    pub(crate) fn is_of_usage(&self) -> bool {
        !matches!(self, Self::Server { .. } | Self::Unanswered { .. } | Self::Refused { .. })
    }
}

pub(crate) fn run(args: &args::Import) -> Result<(), Failure> {
    import(args).map_err(|failure| match failure {
        Failure::Input(source) => Failure::Unreadable { path: args.file.clone(), source },
        failure => failure,
    })
}

fn import(args: &args::Import) -> Result<(), Failure> {
    let server = Arc::new(Server::at(&args.url, args.token_file.as_deref(), &args.tls, args.patience)?);
    let digest = digest(args).map_err(Failure::Input)?;
    let file = File::open(&args.file).map_err(Failure::Input)?;
    let bar = progress(file.metadata().map_err(Failure::Input)?.len());
    let commands = Commands::of(args, BufReader::new(bar.wrap_read(file)), &digest)?;
    let report = Report::to(args.refused.as_deref(), bar)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(Import { server, commands, report, left: None, tally: Tally::default() }.run())
}

/// What tells this import from others: the file, and what its lines are made to mean.
fn digest(args: &args::Import) -> io::Result<String> {
    let mut digest = Sha256::new();
    for (name, value) in [("class", &args.class), ("event", &args.event), ("id", &args.id)] {
        if let Some(value) = value {
            digest.update(format!("{name}\0{value}\0"));
        }
    }
    args.json.iter().for_each(|column| digest.update(format!("json\0{column}\0")));
    let mut file = File::open(&args.file)?;
    let mut bytes = vec![0; 1 << 16];
    loop {
        match file.read(&mut bytes)? {
            0 => break,
            read => digest.update(&bytes[..read]),
        }
    }
    // Half of it tells files apart.
    Ok(digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

/// A bar for people, and nothing for others.
fn progress(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {eta} {msg}");
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    bar.with_style(style.expect("a sound template"))
}

struct Import<R> {
    server: Arc<Server>,
    commands: Commands<R>,
    report: Report,
    /// A command that did not fit into the last batch.
    left: Option<Command>,
    tally: Tally,
}

/// What has become of the lines.
#[derive(Default)]
struct Tally {
    done: usize,
    /// Of those done, the ones that had been done before.
    replayed: usize,
    refused: usize,
    unanswered: usize,
    /// Why some are not answered.
    said: String,
}

impl<R: Read> Import<R> {
    async fn run(mut self) -> Result<(), Failure> {
        let mut under_way = JoinSet::new();
        loop {
            while under_way.len() < BATCHES_MAX && self.tally.unanswered == 0 {
                let batch = self.batch()?;
                if batch.is_empty() {
                    break;
                }
                let server = Arc::clone(&self.server);
                under_way.spawn(async move { server.send(batch).await });
            }
            let Some(sent) = under_way.join_next().await else { break };
            self.take(sent.expect("sending does not panic")?)?;
        }
        self.sum_up()
    }

    /// The next commands, as many as a batch may have.
    fn batch(&mut self) -> Result<Vec<Command>, Failure> {
        let (mut batch, mut bytes) = (Vec::new(), ENVELOPE_BYTES);
        while batch.len() < enact_server::BATCH_COMMANDS_MAX {
            let command = match self.left.take() {
                Some(command) => command,
                None => match self.commands.next_entry().map_err(Failure::Input)? {
                    None => break,
                    Some(Entry::Command(command)) => command,
                    Some(Entry::Unfit { line, why }) => {
                        self.tally.refused += 1;
                        self.report.refused(line, &json!({ "detail": why }))?;
                        continue;
                    }
                },
            };
            bytes += command.json.len() + 1;
            if bytes > enact_server::BATCH_BYTES_MAX && !batch.is_empty() {
                self.left = Some(command);
                break;
            }
            batch.push(command);
        }
        Ok(batch)
    }

    fn take(&mut self, sent: Sent) -> Result<(), Failure> {
        let Sent { done, replayed, refused, unanswered, said } = sent;
        self.tally.done += done;
        self.tally.replayed += replayed;
        self.tally.refused += refused.len();
        self.tally.unanswered += unanswered;
        if unanswered > 0 {
            self.tally.said = said;
        }
        refused.iter().try_for_each(|(line, problem)| self.report.refused(*line, problem))?;
        self.report.bar.set_message(format!("done {}, refused {}", self.tally.done, self.tally.refused));
        Ok(())
    }

    fn sum_up(mut self) -> Result<(), Failure> {
        let Tally { done, replayed, refused, unanswered, said } = self.tally;
        self.report.end()?;
        println!("imported: done {done}, of which before {replayed}; refused {refused}; not answered {unanswered}");
        match (unanswered, refused) {
            (0, 0) => Ok(()),
            (0, lines) => Err(ImportError::Refused { lines }.into()),
            (lines, _) => Err(ImportError::Unanswered { lines, said }.into()),
        }
    }
}

/// Says which lines were refused.
struct Report {
    /// Standard error without one.
    file: Option<BufWriter<File>>,
    path: std::path::PathBuf,
    bar: ProgressBar,
}

impl Report {
    fn to(path: Option<&Path>, bar: ProgressBar) -> Result<Self, Failure> {
        let path = path.map(Path::to_owned);
        let create =
            |path: &Path| File::create(path).map_err(|source| Failure::Unwritable { path: path.to_owned(), source });
        let file = path.as_deref().map(create).transpose()?.map(BufWriter::new);
        Ok(Self { file, path: path.unwrap_or_else(|| "standard error".into()), bar })
    }

    fn refused(&mut self, line: u64, problem: &Json) -> Result<(), Failure> {
        let said = json!({ "line": line, "problem": problem });
        let written = match &mut self.file {
            Some(file) => writeln!(file, "{said}"),
            None if io::stderr().is_terminal() => self.bar.suspend(|| writeln!(io::stderr(), "{said}")),
            None => writeln!(io::stderr(), "{said}"),
        };
        written.map_err(|source| Failure::Unwritable { path: self.path.clone(), source })
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        let flushed = self.file.as_mut().map_or(Ok(()), Write::flush);
        flushed.map_err(|source| Failure::Unwritable { path: self.path.clone(), source })
    }
}
