//! Nodes that are not what they seem: two with one name, and those whose clocks are wrong.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::workload::{Reading, Workload};
use super::{Place, balances, open_all, serves};
use crate::served::Served;

const SEED: u64 = 20_261_129;

#[test]
fn of_two_nodes_that_start_at_once_with_one_name_one_joins_and_the_other_one_says_why_not() {
    let Some(place) = Place::over_one() else { return };
    let start = || {
        let command = place.command("a");
        std::thread::spawn(|| Served::start(command))
    };
    let both = [start(), start()].map(std::thread::JoinHandle::join);
    let joined = both.iter().filter(|started| started.is_ok()).count();
    let said: Vec<String> =
        both.into_iter().filter_map(Result::err).map(|said| *said.downcast().expect("text")).collect();
    assert_eq!(joined, 1, "{said:?}");
    assert!(said[0].contains("another node is called a") && said[0].contains("exit status: 4"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_frozen_ends_when_another_one_has_its_name() {
    let Some(place) = Place::over_one() else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    open_all(&a).await;
    serves(&b, 6).await;
    b.signal(Signal::STOP);
    let second = place.serve("b");
    serves(&second, 6).await;
    let expected = balances(&second).await;
    b.signal(Signal::CONT);
    let (ended, log) = b.ended();
    assert_eq!(ended.code(), Some(6), "{log}");
    assert!(log.contains("another node is called b"), "{log}");
    assert_eq!(balances(&second).await, expected);
    assert_eq!(balances(&a).await, expected);
}

/// A library that sets the wall clock of the program that it is loaded into.
fn clock(directory: &Path) -> PathBuf {
    let library = directory.join("clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/enact/cluster/clock.c");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
    assert!(built.expect("what links Rust programs compiles C").success());
    library
}

fn ahead(mut command: Command, library: &Path, seconds: i64) -> Command {
    command.env("LD_PRELOAD", library).env("CLOCK_AHEAD", seconds.to_string());
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_are_an_hour_from_each_other_delay_nothing_and_an_operator_sees_them() {
    let Some(place) = Place::over_one() else { return };
    let library = clock(place.directory.path());
    let a = place.serve("a");
    let [b, c] = [("b", 3_600), ("c", -3_600)]
        .map(|(node, seconds)| Served::start(ahead(place.command(node), &library, seconds)));
    for node in [&a, &b, &c] {
        serves(node, 4).await;
    }
    let bases = [a.url(""), b.url(""), c.url("")];
    let workload = Workload::start(&bases, SEED, Reading::BehindEachDeposit).await;
    workload.goes_on().await;
    let mut check = crate::served::program();
    check.args(["cluster", "check", "--cluster", &place.servers()]);
    let checked = ahead(check, &library, -3_600).output().expect("it ends");
    let said = String::from_utf8(checked.stdout).expect("UTF-8");
    let difference = said.lines().find_map(|line| line.strip_prefix("the clock of a server is ")?.split_once(" ms"));
    let millis: u64 = difference.expect("a finding").0.parse().expect("a number");
    assert!(millis.abs_diff(3_600_000) < 60_000, "{said}");
    b.signal(Signal::STOP);
    serves(&a, 6).await;
    workload.goes_on().await;
    b.signal(Signal::CONT);
    for node in [&a, &b, &c] {
        serves(node, 4).await;
    }
    workload.goes_on().await;
    workload.end().await;
}
