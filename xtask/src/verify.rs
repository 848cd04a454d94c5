//! Verifiers that need a nightly compiler, or more time than the gate has.
//!
//! Each is one command. A nightly compiler comes from `rustup toolchain install nightly --component miri,rust-src`.

use std::fs;
use std::process::Command;

use crate::{Outcome, command, root, run_to_end, target};

/// The crates with unsafe code.
const UNSAFE: [&str; 3] = ["enact-sync", "enact-stm", "enact-actors"];

/// Tests whose compiler is not that of the sanitizer, or that measure memory or explore schedules with another runtime.
const UNFIT: [&str; 3] = ["compile_fail", "footprint", "models"];

/// Runs the unit and integration tests of the crates with unsafe code under a sanitizer, the standard library included.
///
/// Address finds uses of memory that is gone, thread finds data races.
pub(crate) fn sanitize(sanitizer: &str) -> Outcome {
    for package in UNSAFE {
        let mut tests =
            command("cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu --no-fail-fast --lib -p");
        tests.arg(package);
        for test in tests_of(package)? {
            tests.args(["--test", &test]);
        }
        tests
            .env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"))
            .env("CARGO_TARGET_DIR", target().join(sanitizer))
            // Its frames are larger than what a turn may expect to find of its stack.
            .args(["--", "--skip", "calls_nest_beyond_the_stack"])
            // What hangs in a variable hangs on an address that is kept as a number: a leak to the sanitizer.
            .env("ASAN_OPTIONS", "detect_leaks=0");
        run_to_end(tests)?;
    }
    Ok(())
}

/// The names of the test programs of `package`.
fn tests_of(package: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let folder = root().join("crates").join(package.trim_start_matches("enact-")).join("tests");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_test = path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if is_test && !UNFIT.contains(&&*name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Interprets the unit tests of the crates with unsafe code, and most of their models once. ARCHITECTURE says why with these
/// flags.
pub(crate) fn miri() -> Outcome {
    let mut miri = command(
        "cargo +nightly miri test -p enact-sync -p enact-stm -p enact-actors --lib --test models -- --skip transactions::",
    );
    miri.env(
        "MIRIFLAGS",
        "-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks",
    );
    run_to_end(miri)
}

/// Plants a bug at a time and shows that the models find each.
pub(crate) fn planted() -> Outcome {
    for script in ["crates/stm/planted.sh", "crates/actors/planted.sh", "testing/models/planted.sh"] {
        run_to_end(Command::new(root().join(script)))?;
    }
    Ok(())
}

/// How long [`faults`] takes unless told otherwise.
pub(crate) const FAULTS_SECONDS: &str = "1200";

/// Kills, freezes and cuts off the nodes of a cluster and its servers at random, and moves shards, for so many seconds over NATS and then as many
/// over PostgreSQL, and prints what clients were told in all.
pub(crate) fn faults(seconds: &str) -> Outcome {
    let mut faults = command(
        "cargo test --release --locked -p enact-cli --features nats,postgres --test enact cluster::faults -- --nocapture --test-threads 1",
    );
    faults.env("ENACT_FAULTS_SECONDS", seconds);
    run_to_end(faults)
}

/// All scenarios of the commit protocol and of admission, and random damage, power cuts, faults between nodes, kills and attacks in numbers
/// that the gate has no time for: some hours.
pub(crate) fn soak() -> Outcome {
    let journal = "cargo test --release --locked -p enact-journal --test journal";
    let models = "cargo test --release --locked -p enact-models --test";
    let program = "cargo test --release --locked -p enact-cli --features nats,postgres --test";
    let served = format!("{program} enact");
    for (variable, count, tests) in [
        ("ENACT_DAMAGES", "100000", format!("{journal} random_damage")),
        ("ENACT_POWER_CUTS", "1000", format!("{journal} power_cut")),
        ("ENACT_SEEDS", "1000000", format!("{models} simulation -- --nocapture")),
        ("ENACT_SEEDS", "1000000", format!("{models} decider -- --nocapture")),
        ("ENACT_SCENARIOS", "all", format!("{models} commit")),
        ("ENACT_KILLS", "10000", format!("{served} crash")),
        ("ENACT_KILLS", "1000", format!("{served} identities -- --nocapture")),
        ("ENACT_ATTACK_REQUESTS", "10000", format!("{program} attacks -- --nocapture")),
        ("ENACT_FAULTS_SECONDS", FAULTS_SECONDS, format!("{served} cluster -- --include-ignored --nocapture")),
    ] {
        let mut soak = command(&tests);
        soak.env(variable, count);
        run_to_end(soak)?;
    }
    Ok(())
}
