//! `enact completions` and `enact man`: what shells and `man` know of the command line.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap_complete::Shell;

use crate::config;
use crate::failure::Failure;

/// Prints the completions of a shell. A reader that closes the pipe early is no failure.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut config::command(), "enact", &mut script);
    match io::stdout().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Writes a page for each command to `folder`, over earlier ones.
pub(crate) fn pages(folder: &Path) -> Result<(), Failure> {
    let unwritable = |source| Failure::Unwritable { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(unwritable)?;
    clap_mangen::generate_to(config::command(), folder).map_err(unwritable)
}
