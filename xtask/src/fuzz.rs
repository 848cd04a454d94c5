//! Fuzz targets: inputs that a fuzzer derives from what the last ones have reached.

use std::fs;

use crate::{Outcome, command, root, run_to_end, target};

/// What libFuzzer needs to see where an input goes, as `cargo fuzz` asks for it.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Build scripts are not to be instrumented, so the platform is named.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Runs each target for `seconds`. Inputs that reached something new are kept in the target folder and used by the next run;
/// an input that fails is left beside them.
pub(crate) fn run(seconds: &str) -> Outcome {
    let seconds: u32 = seconds.parse().map_err(|_| format!("{seconds} is no number of seconds"))?;
    let folder = root().join("testing/fuzz");
    let built = target().join("fuzz");
    let built = if built.is_absolute() { built } else { root().join(built) };
    let mut build = command("cargo +nightly build --release --locked --target");
    build.arg(PLATFORM).current_dir(&folder).env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", &built);
    run_to_end(build)?;
    let mut names: Vec<_> =
        fs::read_dir(folder.join("src/bin"))?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    names.sort();
    for path in names {
        let name = path.file_stem().expect("a target has a name");
        let corpus = built.join("corpus").join(name);
        fs::create_dir_all(&corpus)?;
        let mut fuzz = std::process::Command::new(built.join(PLATFORM).join("release").join(name));
        fuzz.arg(&corpus)
            .arg(format!("-max_total_time={seconds}"))
            .args(["-max_len=4096", "-timeout=20", "-rss_limit_mb=4096", "-print_final_stats=1"])
            .arg(format!("-artifact_prefix={}/", built.display()));
        run_to_end(fuzz)?;
    }
    Ok(())
}
