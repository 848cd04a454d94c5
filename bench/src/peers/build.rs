//! Builds the programs of peers, optimised, with the tools of their languages.
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Start;

/// Builds `package`, which has one program, in the workspace around `directory`; cargo says where that is.
pub(crate) fn cargo_program(directory: &Path, package: &str) -> io::Result<PathBuf> {
    let arguments =
        ["build", "--release", "--locked", "--package", package, "--message-format", "json-render-diagnostics"];
    let built = run(directory, "cargo", &arguments)?;
    let messages = built.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let mut executables =
        messages.filter_map(|message: serde_json::Value| Some(message["executable"].as_str()?.into()));
    let last = executables.next_back();
    last.ok_or_else(|| io::Error::other("cargo built no program"))
}

/// Builds `package` as [`cargo_program`] does, to be started without further arguments.
pub(crate) fn cargo(directory: &Path, package: &str) -> io::Result<Start> {
    cargo_program(directory, package).map(|program| Start::of([program]))
}

/// The versions that the lock file of the workspace in `directory` has of `packages`, where cargo knows them.
pub(crate) fn cargo_versions(directory: &Path, packages: &[&str]) -> Vec<Option<String>> {
    let metadata = run(directory, "cargo", &["metadata", "--format-version", "1", "--locked"]).ok();
    let metadata: Option<serde_json::Value> = metadata.and_then(|json| serde_json::from_slice(&json).ok());
    let known = metadata.as_ref().and_then(|metadata| metadata["packages"].as_array());
    let version = |name: &&str| {
        let package = known?.iter().find(|package| package["name"] == **name)?;
        package["version"].as_str().map(str::to_owned)
    };
    packages.iter().map(version).collect()
}

/// Builds the Maven project in `directory`, whose archive bears `name` and names its main class; `options` are for the
/// Java virtual machine.
pub(crate) fn maven(directory: &Path, name: &str, options: &[&str]) -> io::Result<Start> {
    run(directory, "mvn", &["--batch-mode", "--quiet", "package"])?;
    let archive = directory.join("target").join(name).with_extension("jar");
    let mut start = vec!["java".into()];
    start.extend(options.iter().map(Into::into));
    start.extend(["-jar".into(), archive.into()]);
    Ok(Start(start))
}

/// Builds the `CMake` project in `directory`, whose program is `name`.
pub(crate) fn cmake(directory: &Path, name: &str) -> io::Result<Start> {
    run(directory, "cmake", &["-DCMAKE_BUILD_TYPE=Release", "-S", ".", "-B", "build"])?;
    run(directory, "cmake", &["--build", "build"])?;
    Ok(Start(vec![directory.join("build").join(name).into()]))
}

/// What `tool` prints, if it can be run in `directory` and ends with success; its complaints go to people.
fn run(directory: &Path, tool: &str, arguments: &[&str]) -> io::Result<Vec<u8>> {
    if !directory.is_dir() {
        return Err(io::Error::other(format!("there is no directory {}", directory.display())));
    }
    let ended = Command::new(tool).args(arguments).current_dir(directory).stderr(Stdio::inherit()).output();
    let output = ended.map_err(|source| io::Error::new(source.kind(), format!("{tool} cannot be run: {source}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(io::Error::other(format!("{tool} ended with {}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let own = Some(env!("CARGO_PKG_VERSION").to_owned());
        assert_eq!(cargo_versions(here, &["enact-bench", "no-such-package"]), [own, None]);
    }

    #[test]
    fn what_cannot_be_built_says_why() {
        let here = tempfile::tempdir().expect("a place for the test");
        let reason = |directory: &Path, tool| run(directory, tool, &[]).expect_err("not built").to_string();
        assert!(reason(&here.path().join("nowhere"), "true").starts_with("there is no directory"));
        assert!(reason(here.path(), "no-such-tool").starts_with("no-such-tool cannot be run: "));
        assert_eq!(reason(here.path(), "false"), "false ended with exit status: 1");
        assert!(run(here.path(), "true", &[]).is_ok());
    }
}
