//! The gate: what has to hold before a change lands.
//!
//! Needs the Rust toolchain, git, curl, Go 1.26 or `nats-server`, PostgreSQL 15 or later (`initdb` and `postgres`), Node.js 20, and
//! Chromium or apt to get it. On a clean machine with two cores each step has a budget in minutes. A step that needs more is marked in
//! the table at the end, which is a reason to look at it and no failure: how fast a machine is says nothing about a change.

use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::{Outcome, command, root, run_to_end, target, tidy};

const TEST_COMMAND: &str = "cargo test --workspace --all-features";
const MAIN_COMMAND: &str = "cargo run --release -- serve examples/bank.rebel";
const URL: &str = "http://127.0.0.1:8080";

struct Step {
    name: &'static str,
    budget_minutes: u64,
    run: fn() -> Outcome,
}

/// In this order, each once.
const STEPS: [Step; 14] = [
    Step { name: "the README's commands are the gate's", budget_minutes: 0, run: readme_names_the_commands },
    Step { name: "style", budget_minutes: 0, run: style },
    Step { name: "tests", budget_minutes: 12, run: tests },
    Step { name: "clippy", budget_minutes: 3, run: clippy },
    Step { name: "documentation", budget_minutes: 1, run: documentation },
    Step { name: "models", budget_minutes: 9, run: models },
    Step { name: "the main command", budget_minutes: 1, run: serves_the_bank },
    Step { name: "attacks on the released program", budget_minutes: 2, run: attacks },
    Step { name: "kills of the released program", budget_minutes: 1, run: kills },
    Step { name: "the report in a browser", budget_minutes: 1, run: report_in_a_browser },
    Step { name: "benchmarks of the served bank", budget_minutes: 1, run: benchmarks_of_the_served_bank },
    Step { name: "the peers build", budget_minutes: 1, run: peers },
    Step { name: "what is published is whole", budget_minutes: 0, run: packages },
    Step { name: "licences, bans and sources", budget_minutes: 1, run: dependencies },
];

/// Runs all steps until one fails, and prints what each has taken.
pub(crate) fn run() -> Outcome {
    env::set_current_dir(root())?;
    let start = Instant::now();
    let mut taken = Vec::new();
    let mut failed = None;
    for step in &STEPS {
        println!("\n== {} (at {} s, {} of disk free)", step.name, start.elapsed().as_secs(), disk_free()?);
        let begun = Instant::now();
        let outcome = (step.run)();
        taken.push((step, begun.elapsed()));
        if let Err(why) = outcome {
            failed = Some(format!("{}: {why}", step.name));
            break;
        }
    }
    print_table(&taken, start.elapsed());
    failed.map_or(Ok(()), |why| Err(why.into()))
}

fn print_table(taken: &[(&Step, Duration)], whole: Duration) {
    println!("\n{:<40} minutes  budget", "step");
    for (step, time) in taken {
        let minutes = minutes(*time);
        // A step without a budget of its own is over in seconds.
        let is_over = minutes > step.budget_minutes.max(1) as f64;
        println!("{:<40} {minutes:>7.1}  {:>6}{}", step.name, step.budget_minutes, if is_over { "  over" } else { "" });
    }
    let budget: u64 = STEPS.iter().map(|step| step.budget_minutes).sum();
    println!("{:<40} {:>7.1}  {budget:>6}", "sum", minutes(whole));
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

fn disk_free() -> Result<String, Box<dyn Error>> {
    let output = Command::new("df").args(["-h", "--output=avail", "."]).output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().last().unwrap_or_default().trim().to_owned())
}

fn line(line: &str) -> Outcome {
    run_to_end(command(line))
}

fn readme_names_the_commands() -> Outcome {
    let readme = fs::read_to_string("README.md")?;
    for command in [TEST_COMMAND, MAIN_COMMAND] {
        if !readme.lines().any(|line| line == command) {
            return Err(format!("the README does not name `{command}`").into());
        }
    }
    Ok(())
}

fn style() -> Outcome {
    line("cargo fmt --all --check")?;
    line("cargo fmt --all --check --manifest-path bench/peers/Cargo.toml")?;
    line("cargo fmt --check --manifest-path testing/fuzz/Cargo.toml")?;
    tidy::run()
}

fn tests() -> Outcome {
    let mut tests = command(TEST_COMMAND);
    // Without a NATS server, which `go install` gets, or PostgreSQL, they fail instead of being passed over.
    tests.env("CI", "1");
    // Those with servers mostly wait for them, and for leases.
    tests.env("RUST_TEST_THREADS", (3 * thread::available_parallelism()?.get()).to_string());
    run_to_end(tests)
}

fn clippy() -> Outcome {
    line("cargo clippy --workspace --all-features --all-targets --locked -- -D warnings")
}

fn documentation() -> Outcome {
    let mut doc = command("cargo doc --workspace --all-features --no-deps --locked");
    doc.env("RUSTDOCFLAGS", "-D warnings");
    run_to_end(doc)
}

/// A process that ends with the step that started it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The README's main command, started for real and asked over HTTP. Its build is a plain one, which says what it lacks.
fn serves_the_bank() -> Outcome {
    let mut server = Server(command(MAIN_COMMAND).spawn()?);
    let curl = |options: &[&str], path: &str| {
        let mut curl = command("curl --silent --show-error --fail-with-body");
        curl.args(options).arg(format!("{URL}{path}"));
        run_to_end(curl)
    };
    curl(&["--retry", "600", "--retry-delay", "1", "--retry-connrefused"], "/health")?;
    curl(&["--output", "/dev/null"], "/openapi.json")?;
    let account = "/Account/NL91ABNA0417164300";
    curl(&["--json", r#"{"owner": "Ada", "initialDeposit": "EUR 10.00"}"#], &format!("{account}/Open"))?;
    curl(&[], account)?;
    println!();
    line(&format!("kill -TERM {}", server.0.id()))?;
    let status = server.0.wait()?;
    if !status.success() {
        return Err(format!("the server ended with {status}").into());
    }
    for journal in ["nats://127.0.0.1:4222", "postgres://enact@127.0.0.1/bank"] {
        let mut elsewhere = Command::new(target().join("release/enact"));
        elsewhere.args(["serve", "examples/bank.rebel", "--journal", journal]);
        let status = elsewhere.status()?;
        if status.code() != Some(2) {
            return Err(format!("over {journal}, a plain build ended with {status}").into());
        }
    }
    Ok(())
}

/// The test `name` of the program as the tests of the workspace have built it. Alone, it and what it depends on would be built again, with
/// fewer features.
fn test_of_the_program(name: &str) -> Result<Command, Box<dyn Error>> {
    let mut build = command("cargo test --locked --workspace --all-features --tests --no-run --message-format=json");
    let output = build.stderr(Stdio::inherit()).output()?;
    let messages = String::from_utf8(output.stdout)?;
    let name = format!(r#""name":"{name}""#);
    let is_it = |message: &&str| message.contains(r#""kind":["test"]"#) && message.contains(&name);
    let message = messages.lines().find(is_it).ok_or_else(|| format!("cargo has no test with {name}"))?;
    let (_, path) = message.split_once(r#""executable":""#).ok_or_else(|| format!("no executable with {name}"))?;
    let path = path.split('"').next().unwrap_or_default();
    let mut tests = Command::new(path);
    tests.current_dir(root().join("crates/cli")).arg("--nocapture");
    Ok(tests)
}

/// With the limits that its users have, and more requests than the tests have time for unoptimised.
fn attacks() -> Outcome {
    let mut attacks = test_of_the_program("attacks")?;
    attacks.env("ENACT_PROGRAM", root().join(target()).join("release/enact")).env("ENACT_ATTACK_REQUESTS", "1000");
    run_to_end(attacks)
}

/// What holds over a crash and over a change of the contract, in the program that its users have.
fn kills() -> Outcome {
    let mut kills = test_of_the_program("enact")?;
    kills
        .args(["crash::", "erase::", "first_day::", "identities::", "timers::", "versions::"])
        .env("ENACT_PROGRAM", root().join(target()).join("release/enact"))
        .env("ENACT_KILLS", "100");
    run_to_end(kills)
}

/// Fixed results make it the same page every time.
fn report_in_a_browser() -> Outcome {
    let mut browser = Command::new(Path::new("bench/browser/run"));
    browser.arg(target().join("debug/enact-bench"));
    run_to_end(browser)
}

/// A few seconds of load on the program that the main command has built, and on nodes that come and go; the money is counted.
fn benchmarks_of_the_served_bank() -> Outcome {
    for benchmark in [
        "transfers --clients 1,8",
        "cost --clients 8 --accounts 10 --requests health,deposit-hot,transfer",
        "hot --clients 8 --mixes withdrawals-near-zero,constants-different --admission locking,serializable",
        "neighbours --clients 2 --hot-clients 1 --accounts 10",
        "postgres --clients 1,8 --connections 4 --experiments nosync,sync100,hot",
        "deadlines --clients 64 --accounts 10 --deadline-ms 5",
    ] {
        let mut command = Command::new(target().join("debug/enact-bench"));
        command.args(benchmark.split(' ')).args(["--seconds", "1", "--warm-up", "0", "--rounds", "1", "--program"]);
        command.arg(target().join("release/enact"));
        run_to_end(command)?;
    }
    let mut batches = Command::new(target().join("debug/enact-bench"));
    batches.args([
        "batches",
        "--transfers",
        "1300",
        "--accounts",
        "10",
        "--rounds",
        "1",
        "--warm-up",
        "0",
        "--program",
    ]);
    batches.arg(target().join("release/enact"));
    run_to_end(batches)?;
    let mut nodes = Command::new(target().join("debug/enact-bench"));
    nodes.args(["nodes", "--rounds", "1", "--lease", "13"]);
    run_to_end(nodes)
}

/// What runs under a model checker. What loom explores takes minutes of one core, and runs beside the others, as the
/// build of the released program does.
fn models() -> Outcome {
    let mut transactions = model("enact-stm", "loom", "--test models");
    transactions.env("LOOM_MAX_PREEMPTIONS", "2");
    let beside = [transactions, command("cargo build --release --locked")];
    let beside = beside.map(|mut command| command.spawn().map(|process| (command, Server(process))));
    other_models()?;
    for started in beside {
        let (command, mut process) = started?;
        let status = process.0.wait()?;
        if !status.success() {
            return Err(format!("{command:?} ended with {status}").into());
        }
    }
    Ok(())
}

fn other_models() -> Outcome {
    let mut transactions = model("enact-stm", "shuttle", "--test models");
    // A fifth, which takes 3 GB of memory: what a schedule leaves behind stays.
    transactions.env("ENACT_SCHEDULES", "20000");
    run_to_end(transactions)?;
    let mut actors = model("enact-actors", "shuttle", "--test models");
    // A twenty-fifth of what they explore unless told otherwise, which takes two minutes of both cores.
    actors.env("ENACT_SCHEDULES", "4000");
    run_to_end(actors)?;
    run_to_end(model("enact-journal", "loom", "--lib interleaving"))
}

fn model(package: &str, checker: &str, tests: &str) -> Command {
    let mut model = command(&format!("cargo test --profile models --locked -p {package} {tests}"));
    model.env("RUSTFLAGS", format!("--cfg enact_{checker}")).env("CARGO_TARGET_DIR", target().join(checker));
    model
}

fn peers() -> Outcome {
    line("cargo clippy --manifest-path bench/peers/Cargo.toml --workspace --all-targets --locked -- -D warnings")
}

/// Builds the packages of all published crates, without compiling them again.
fn packages() -> Outcome {
    line("cargo publish --workspace --dry-run --no-verify --allow-dirty --locked --quiet")
}

/// The version of cargo-deny that reads `deny.toml`.
const CARGO_DENY: &str = "0.20.2";

/// Installs cargo-deny, unoptimised, unless it is there.
fn dependencies() -> Outcome {
    let tools = target().join("tools");
    let mut install = command("cargo install --quiet --locked --debug --root");
    install.arg(&tools).arg(format!("cargo-deny@{CARGO_DENY}"));
    run_to_end(install)?;
    let mut deny = Command::new(tools.join("bin/cargo-deny"));
    deny.args(["--all-features", "--locked", "check", "licenses", "bans", "sources"]);
    run_to_end(deny)
}
