//! The program as it is best distributed: optimised for what it was seen to do.
//!
//! A compiler that knows which branches are taken, and which functions run together, makes commands take a fifth to a quarter less
//! CPU time. It learns that from counters in a program of the same code.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::{Outcome, command, run_to_end, target};

/// What the counting program is asked to do: commands that wait for nobody, some that have an object in common, and some that do not
/// commute.
const LOADS: [&str; 2] = [
    "cost --clients 64 --seconds 5 --warm-up 0 --rounds 1",
    "hot --clients 64 --seconds 1 --warm-up 0 --rounds 1 --admission serializable",
];

/// Builds the program, with all its journals, with counters, lets it serve the benchmarks, and builds it again with what was counted. Prints where it lies.
pub(crate) fn run() -> Outcome {
    let tools = Tools::find()?;
    let folder = env::current_dir()?.join(target()).join("guided");
    let counts = folder.join("counts");
    // Counts of other code would be taken for those of this one.
    fs::remove_dir_all(&counts).or_else(|error| if counts.exists() { Err(error) } else { Ok(()) })?;
    fs::create_dir_all(&counts)?;

    let counting = tools.build(&folder, &format!("-Cprofile-generate={}", counts.display()))?;
    for load in LOADS {
        let mut benchmark = command("cargo run -p enact-bench --bin enact-bench --");
        benchmark.args(load.split(' ')).arg("--program").arg(&counting);
        run_to_end(benchmark)?;
    }
    let merged = counts.join("merged.profdata");
    let mut merge = Command::new(&tools.merger);
    merge.arg("merge").arg("--output").arg(&merged).arg(&counts);
    run_to_end(merge)?;
    let program = tools.build(&folder, &format!("-Cprofile-use={}", merged.display()))?;
    println!("{}", program.display());
    Ok(())
}

struct Tools {
    host: String,
    merger: PathBuf,
}

impl Tools {
    fn find() -> Result<Self, Box<dyn std::error::Error>> {
        let print = |what: &str| -> Result<String, Box<dyn std::error::Error>> {
            let output = Command::new("rustc").args(["--print", what]).output()?;
            Ok(String::from_utf8(output.stdout)?.trim().to_owned())
        };
        let merger = Path::new(&print("target-libdir")?).with_file_name("bin").join("llvm-profdata");
        if !merger.exists() {
            let place = merger.display();
            return Err(format!("{place} is missing: install it with `rustup component add llvm-tools`").into());
        }
        Ok(Self { host: print("host-tuple")?, merger })
    }

    /// The program, built with these flags. A target is named so that they are not those of build scripts, too.
    fn build(&self, folder: &Path, flags: &str) -> Result<PathBuf, Box<dyn std::error::Error>> {
        let mut build = command("cargo build --release --locked -p enact-cli --features nats,postgres --target");
        build.arg(&self.host).env("CARGO_TARGET_DIR", folder).env("RUSTFLAGS", flags);
        run_to_end(build)?;
        Ok(folder.join(&self.host).join("release/enact"))
    }
}
