//! `cargo xtask semver`: whether the crates still offer what their last release did.
//!
//! Compares the public items of each published crate with those at the last tag `v*` before this commit, by rustdoc. What
//! the rules of semantic versioning demand of the next version follows from that; `docs/compatibility.md` says when this
//! is run, and what it does not see.

use std::env;
use std::error::Error;
use std::process::Command;

use crate::{Outcome, command, root, run_to_end, target};

const CARGO_SEMVER_CHECKS: &str = "0.51.0";

pub(crate) fn run() -> Outcome {
    env::set_current_dir(root())?;
    let Some(release) = last_release()? else {
        println!("there is no release to compare with: no tag `v*` is an ancestor of this commit");
        return Ok(());
    };
    let tools = env::current_dir()?.join(target()).join("tools");
    let mut install = command("cargo install --quiet --locked --debug --root");
    install.arg(&tools).arg(format!("cargo-semver-checks@{CARGO_SEMVER_CHECKS}"));
    run_to_end(install)?;
    println!("compared with {release}:");
    let mut check = Command::new(tools.join("bin/cargo-semver-checks"));
    check.args(["semver-checks", "--workspace", "--all-features", "--baseline-rev", &release]);
    run_to_end(check)
}

/// The tag of the last release before this commit.
fn last_release() -> Result<Option<String>, Box<dyn Error>> {
    let tags = command("git tag --list v[0-9]* --merged HEAD --sort=-version:refname").output()?;
    if !tags.status.success() {
        return Err(format!("git tag ended with {}", tags.status).into());
    }
    Ok(String::from_utf8(tags.stdout)?.lines().next().map(str::to_owned))
}
