//! `enact-bench vacation`.

use super::enact_bench;

#[test]
fn vacation_reports_every_team_or_what_the_oracle_found() {
    let small = ["vacation", "--rounds", "1", "--warm-up", "0", "-c", "40", "-p", "1,2", "-s", "2", "--cores", "4"];
    let output = enact_bench(&[small.as_slice(), &["--cost", "4"]].concat());
    let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{errors}");
    for team in ["original 1", "original 2", "kept 2", "split 1+2", "split 2+2"] {
        assert!(table.lines().any(|line| line.starts_with(&format!("| {team} "))), "{team} is not in\n{table}");
    }

    let naive = enact_bench(&[small.as_slice(), &["--cost", "0", "--messages", "naive", "--faults", "2"]].concat());
    let message = String::from_utf8_lossy(&naive.stderr);
    assert_eq!(naive.status.code(), Some(1), "{message}");
    assert!(message.contains("wrong result of split ") && message.contains("was processed"), "{message}");

    for wrong in [["--cost", "3"], ["-p", "0"], ["-s", "1,0"], ["-c", "0"], ["--rounds", "0"], ["--messages", "never"]]
    {
        let usage = enact_bench(&[["vacation"].as_slice(), &wrong].concat());
        assert_eq!(usage.status.code(), Some(2), "{wrong:?}");
    }
}
