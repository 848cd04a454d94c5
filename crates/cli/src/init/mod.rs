//! `enact init`: a folder with all that `enact serve` needs, to begin with.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use enact_server::caller_from_outside;

use crate::failure::Failure;
use crate::{args, token};

const SPEC: &str = include_str!("bank.rebel");
const SETTINGS: &str = include_str!("enact.toml");
/// The caller of the token that is made.
const CALLER: &str = "teller-1";
const ROLE: &str = "teller";

/// Standard output has the token and nothing else, for a script to take it.
pub(crate) fn run(args: &args::Init) -> Result<(), Failure> {
    let folder = &args.folder;
    let caller = caller_from_outside(CALLER, [ROLE]).map_err(Failure::Caller)?;
    let token = token::random()?;
    let tokens = format!(
        "# SHA-256 digest of a token, id, roles; `enact token` makes more lines\n{}\n",
        token.line(&caller, None)
    );
    // Settings may get the password of a journal.
    let files = [("bank.rebel", SPEC, 0o644), ("enact.toml", SETTINGS, 0o600), ("tokens", tokens.as_str(), 0o600)];
    if let Some(path) = files.iter().map(|(name, ..)| folder.join(name)).find(|path| path.exists()) {
        return Err(Failure::Exists { path });
    }
    fs::create_dir_all(folder).map_err(|source| Failure::Unwritable { path: folder.clone(), source })?;
    for (name, text, mode) in files {
        let path = folder.join(name);
        write(&path, text, mode).map_err(|source| Failure::Unwritable { path, source })?;
    }
    println!("{token}");
    let settings = folder.join("enact.toml");
    eprintln!(
        "Made {}: the specification bank.rebel, the settings enact.toml, and the tokens by which callers are known. The line on standard \
         output is the token of `{CALLER}`, which has the role `{ROLE}`; it is shown only here and now.\n\n    \
         enact serve --config {}\n    \
         curl --header \"Authorization: Bearer $TOKEN\" --json '{{\"name\": \"Ada\", \"deposit\": \"EUR 100.00\"}}' \
         http://127.0.0.1:8080/Account/A1/Open",
        folder.display(),
        settings.display()
    );
    Ok(())
}

/// Writes a file that is not there yet.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
