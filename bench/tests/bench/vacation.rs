//! `bench vacation`: every version against its oracle, with and without faults, and the oracle against the naive one.
//!
//! S0-vac of the transactional actors' cases: everybody is served once, seats sold are seats missing, four items a
//! customer at most, the bill is the sum of the prices.

use std::error::Error as _;

use clap::{Args, FromArgMatches};
use enact_bench::vacation::{Options, Report, VacationError, run};
use enact_workloads::vacation::WrongVacation;

/// Runs as the command line would, once, without warm-up.
fn bench(arguments: &str) -> Result<Report, VacationError> {
    let command = Options::augment_args(clap::Command::new("vacation").no_binary_name(true));
    let words = ["--rounds", "1", "--warm-up", "0", "--cores", "2"].into_iter().chain(arguments.split_whitespace());
    let matches = command.try_get_matches_from(words).expect("well-formed arguments");
    run(&Options::from_arg_matches(&matches).expect("valid arguments"))
}

/// Runs all versions in several teams; the oracle accepts each.
fn check(arguments: &str) -> Report {
    let teams = "--primaries 1,3 --secondaries 1,3 --workers 2";
    bench(&format!("{teams} {arguments}")).unwrap_or_else(|wrong| panic!("{arguments}: {wrong}: {:?}", wrong.source()))
}

/// So few items that everybody meets everybody, and some get nothing.
const CROWDED: &str = "-c 150 -r 2 -q 2 --cost 0";

// Case S0-vac.
#[test]
fn all_versions_leave_what_their_serial_replay_leaves() {
    check("-c 200 --cost 0");
    check(CROWDED);
}

#[test]
fn tickets_are_hashed_and_their_passwords_are_right() {
    check("-c 12 --cost 4");
}

#[test]
fn draws_of_each_attempt_replay() {
    check(&format!("{CROWDED} --draws fresh"));
}

// Case S0-vac.
#[test]
fn bookings_of_tickets_that_fail_vanish() {
    for messages in ["dependency", "delay"] {
        check(&format!("-c 200 --cost 0 --faults 8 --messages {messages}"));
        check(&format!("{CROWDED} --faults 2 --draws fresh --messages {messages}"));
    }
}

#[test]
fn messages_that_outlive_their_transaction_book_twice() {
    let wrong = bench("-p 2 -s 2 -c 200 --cost 0 --faults 8 --messages naive").expect_err("the oracle finds it");
    let VacationError::Wrong { team, wrong } = &wrong else { panic!("{wrong}") };
    assert_eq!(team, "split 2+2");
    assert!(matches!(wrong, WrongVacation::Slot { times: 2.., .. }), "{wrong}");
}

#[test]
fn report_has_every_team_and_the_simulation() {
    let text = check("-c 50 --cost 0").to_string();
    for row in ["original 1", "original 3", "kept 3", "split 1+1", "split 3+3"] {
        let line = text.lines().find(|line| line.starts_with(&format!("| {row} ")));
        let cells = line.unwrap_or_else(|| panic!("{row} is not in\n{text}")).split('|').count();
        assert_eq!(cells, 11, "{row}");
    }
    for part in ["split 1+1 takes ", " times as long as original 1", "Simulated speed-ups on 2 cores", "| 2 "] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn json_and_picture_are_written() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    check(&format!("-c 50 --cost 0 --json {} --picture {}", path("vacation.json"), path("vacation.svg")));
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path("vacation.json")).expect("written")).expect("JSON");
    // Two original ones, two that keep, and two by two split.
    assert_eq!(json["races"][0]["contenders"].as_array().map(Vec::len), Some(8));
    assert_eq!(json["races"][0]["contenders"][7]["name"], "split 3+3");
    assert_eq!(json["races"][0]["contenders"][7]["samples"][0]["work"], 50);
    assert_eq!(json["predicted_s"].as_array().map(Vec::len), Some(8));
    assert_eq!(json["simulated"]["split"].as_array().map(Vec::len), Some(2));
    let picture = std::fs::read_to_string(path("vacation.svg")).expect("written");
    for words in ["<svg", "primaries p", "secondaries s", "split, s = 1", "</svg>"] {
        assert!(picture.contains(words), "{words}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    for option in ["--json", "--picture"] {
        let failed = bench(&format!("-p 1 -s 1 -c 5 --cost 0 {option} /nowhere/file")).expect_err("no such directory");
        assert_eq!(failed.to_string(), "cannot write /nowhere/file");
    }
}
