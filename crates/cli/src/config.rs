//! Settings of `enact serve` that are no flags: variables of the environment, and a file.
//!
//! # Precedence
//! A flag, then the variable `ENACT_` and its name, then the file of `--config`, then the default. What comes first is taken whole: a
//! list is not added to another one.
//!
//! # One parser
//! The file becomes words of the command line, so that a value is read, and refused, in one way wherever it stands. Its keys are the
//! names of the flags without their dashes, and `spec` the files of the specification. A path in it is relative to its folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::error::{ContextKind, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, value_parser};
use thiserror::Error;
use toml::de::{DeTable, DeValue};

use crate::args::Cli;
use crate::failure::Failure;

/// The command whose settings these are.
const SERVE: &str = "serve";
/// The key of the files of the specification, which have no flag.
const SPEC: &str = "spec";

/// Why a file of settings is not taken.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {problem}", path.display())]
    Entry { path: PathBuf, line: usize, problem: EntryError },
}

/// What is wrong with an entry of a file of settings.
#[derive(Debug, Error)]
pub(crate) enum EntryError {
    #[error("{0}")]
    Syntax(String),
    #[error("there is no setting `{key}`; there are {known}")]
    Unknown { key: String, known: String },
    #[error("`{key}` must be {expected}, and is of type {found}")]
    Kind { key: String, found: &'static str, expected: &'static str },
    #[error("{0}")]
    Value(String),
}

/// What the words of a command line ask for, with the environment and the file that they name. Wrong usage, and a question for help, end
/// the process at once.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, Failure> {
    let command = command();
    let words = with_file(&command, words)?;
    let parsed = command.try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    Ok(parsed.unwrap_or_else(|error| error.exit()))
}

/// The command line, with a variable of the environment for each setting of `enact serve`.
pub(crate) fn command() -> Command {
    Cli::command().mut_subcommand(SERVE, |serve| {
        serve.mut_args(|arg| match key(&arg) {
            Some(key) => {
                let variable = format!("ENACT_{}", key.to_uppercase().replace('-', "_"));
                // One of them may have a password in it.
                arg.env(variable).hide_env_values(true)
            }
            None => arg,
        })
    })
}

/// The name of a setting.
fn key(arg: &Arg) -> Option<String> {
    match arg.get_long() {
        Some("help") => None,
        Some(long) => Some(long.to_owned()),
        None => Some(SPEC.to_owned()),
    }
}

/// The words, with those that the file of `--config` adds behind the command.
fn with_file(command: &Command, words: Vec<OsString>) -> Result<Vec<OsString>, ConfigError> {
    // What is missing may be in the file.
    let lenient = command.clone().mut_subcommand(SERVE, |serve| serve.ignore_errors(true));
    let Ok(given) = lenient.ignore_errors(true).try_get_matches_from(&words) else { return Ok(words) };
    let Some(given) = given.subcommand_matches(SERVE) else { return Ok(words) };
    let Some(path) = given.get_one::<PathBuf>("config") else { return Ok(words) };
    let text = fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.clone(), source })?;
    let file = File { command, folder: path.parent().unwrap_or(Path::new("")) };
    let added = file.words(&text, given).map_err(|(offset, problem)| {
        let line = 1 + text[..offset.min(text.len())].matches('\n').count();
        ConfigError::Entry { path: path.clone(), line, problem }
    })?;
    let behind = 1 + words.iter().position(|word| word == SERVE).expect("the command that was parsed");
    let (before, rest) = words.split_at(behind);
    Ok([before, &added, rest].concat())
}

/// A file of settings in a folder.
struct File<'a> {
    command: &'a Command,
    folder: &'a Path,
}

impl File<'_> {
    /// The words that it stands for, but for settings that were `given` otherwise; or what is wrong, and where.
    fn words(&self, text: &str, given: &ArgMatches) -> Result<Vec<OsString>, (usize, EntryError)> {
        let syntax = |error: toml::de::Error| {
            (error.span().map_or(0, |span| span.start), EntryError::Syntax(error.message().to_owned()))
        };
        let table = DeTable::parse(text).map_err(syntax)?.into_inner();
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let (mut files, mut flags) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            let at = |problem| (key.span().start, problem);
            let arg = self.arg(key.get_ref()).map_err(at)?;
            let added = self.entry(arg, key.get_ref(), value.get_ref()).map_err(at)?;
            let is_given = matches!(
                given.value_source(arg.get_id().as_str()),
                Some(ValueSource::CommandLine | ValueSource::EnvVariable)
            );
            if is_given {
                continue;
            }
            if arg.is_positional() { files.extend(added) } else { flags.extend(added) }
        }
        Ok([files, flags].concat())
    }

    fn arg(&self, named: &str) -> Result<&Arg, EntryError> {
        let serve = self.command.find_subcommand(SERVE).expect("there is such a command");
        let settings =
            || serve.get_arguments().filter_map(|arg| Some((key(arg)?, arg)).filter(|(key, _)| key != "config"));
        let found = settings().find(|(key, _)| key == named).map(|(_, arg)| arg);
        found.ok_or_else(|| {
            let known: Vec<String> =
                settings().filter(|(_, arg)| !arg.is_hide_set()).map(|(key, _)| format!("`{key}`")).collect();
            EntryError::Unknown { key: named.to_owned(), known: known.join(", ") }
        })
    }

    /// The words that an entry stands for.
    fn entry(&self, arg: &Arg, key: &str, value: &DeValue<'_>) -> Result<Vec<OsString>, EntryError> {
        let wrong = |expected| EntryError::Kind { key: key.to_owned(), found: value.type_str(), expected };
        if !arg.get_action().takes_values() {
            let is_set = value.as_bool().ok_or_else(|| wrong("`true` or `false`"))?;
            return Ok(if is_set { vec![format!("--{key}").into()] } else { Vec::new() });
        }
        let values = match value {
            DeValue::Array(values) if is_list(arg) => values.iter().map(|value| text(value.get_ref())).collect(),
            value => text(value).map(|text| vec![text]),
        };
        let expected = if is_list(arg) { "a text, or a list of them" } else { "a text or a number" };
        let values = values.ok_or_else(|| wrong(expected))?;
        let words: Vec<_> = values.iter().map(|value| self.word(arg, key, value)).collect();
        if !arg.is_positional() {
            words.iter().try_for_each(|word| self.check(key, word))?;
        }
        Ok(words)
    }

    fn word(&self, arg: &Arg, key: &str, value: &str) -> OsString {
        let is_path = arg.get_value_parser().type_id() == value_parser!(PathBuf).type_id();
        let value = if is_path { self.folder.join(value).into_os_string() } else { value.into() };
        if arg.is_positional() {
            return value;
        }
        let mut word = OsString::from(format!("--{key}="));
        word.push(value);
        word
    }

    /// Whether a flag takes its value; what else is missing on the command line does not matter.
    fn check(&self, key: &str, word: &OsString) -> Result<(), EntryError> {
        let parsed = self.command.clone().try_get_matches_from(["enact".into(), SERVE.into(), word.clone()]);
        let Err(error) = parsed else { return Ok(()) };
        let is_about_it =
            error.get(ContextKind::InvalidArg).is_some_and(|arg| arg.to_string().starts_with(&format!("--{key} ")));
        if !is_about_it || !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
            return Ok(());
        }
        let text = error.to_string();
        let said = text.strip_prefix("error: ").unwrap_or(&text).split("\n\n").next().unwrap_or_default();
        Err(EntryError::Value(said.lines().map(str::trim).collect::<Vec<_>>().join(" ")))
    }
}

/// Whether a setting has several values.
fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// A value as it would stand on the command line.
fn text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}
