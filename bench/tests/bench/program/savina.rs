//! `enact-bench savina` and `enact-bench report`.

use std::path::Path;

use serde_json::Value;

use super::enact_bench;

const TINY: [&str; 4] = ["--iterations", "1", "--warm-up", "0"];

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("written")).expect("JSON")
}

/// Workloads with the contenders that have results.
fn races(results: &Value) -> Vec<(&str, Vec<&str>)> {
    let races = results["benchmarks"].as_array().expect("benchmarks").iter().map(|result| {
        let contenders = result["race"]["contenders"].as_array().expect("contenders").iter();
        let names = contenders.map(|one| one["name"].as_str().expect("a name"));
        (result["race"]["workload"].as_str().expect("a name"), names.collect())
    });
    races.collect()
}

#[test]
fn savina_measures_what_is_named_in_all_variants_and_writes_all_samples() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("savina.json");
    let json_path = json.to_str().expect("UTF-8");
    let arguments =
        ["pp", "phil", "--variant", "port,strict", "--workers", "2", "--set", "pings=20", "--set", "meals=5"];
    let ended = enact_bench(&[&["savina", "--json", json_path][..], &arguments, &TINY].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("pp: Ping Pong, pings=20"), "{stdout}");

    let results = read(&json);
    assert_eq!(races(&results), [("pp", vec!["enact port"]), ("phil", vec!["enact port", "enact strict"])]);
    let pp = &results["benchmarks"][0];
    assert_eq!(pp["race"]["contenders"][0]["samples"][0]["work"], 61, "three messages a ping, and one more");
    assert_eq!(results["cold_start"]["contenders"][0]["name"], "enact");
    let heap = &pp["heap"]["enact port"];
    assert_eq!(heap["messages"], 61);
    assert!(heap["count"].as_u64() > Some(0) && heap["bytes"].as_u64() > Some(0), "{heap}");
}

#[test]
fn savina_runs_every_size_on_every_number_of_workers() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("savina.json");
    let arguments = ["thr", "rmm", "--set", "hops=10", "--set", "rows=16", "--set", "threshold=64"];
    let lists = ["--scale", "1,4", "--workers", "1,2", "--json", json.to_str().expect("UTF-8")];
    let ended = enact_bench(&[&["savina"][..], &arguments, &lists, &TINY].concat());
    let stdout = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{}", String::from_utf8_lossy(&ended.stderr));
    assert!(stdout.contains("rmm: no parameter makes it longer and nothing else"), "{stdout}");

    let results = read(&json);
    let workloads: Vec<_> = races(&results).into_iter().map(|(workload, _)| workload).collect();
    assert_eq!(workloads, ["thr x1 w1", "thr x1 w2", "thr x4 w1", "thr x4 w2", "rmm x1 w1", "rmm x1 w2"]);
    let of_the_last = &results["benchmarks"][3];
    assert_eq!((&of_the_last["parameters"]["hops"], &of_the_last["workers"]), (&"40".into(), &2.into()));
    assert_eq!(of_the_last["race"]["contenders"][0]["samples"][0]["work"], 40 + 1 + 2 * 100);
}

#[test]
fn who_takes_too_long_is_killed_and_the_others_have_results() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("savina.json");
    let arguments = ["pp", "thr", "--set", "pings=1000000000", "--set", "hops=10", "--limit-s", "4"];
    let ended = enact_bench(&[&["savina", "--json", json.to_str().expect("UTF-8")][..], &arguments, &TINY].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{stdout}\n{stderr}");
    let complaint = "pp, enact port: it has not answered within 4 s and was killed";
    assert!(stdout.contains(&format!("failed: {complaint}")) && stderr.contains(complaint), "{stdout}\n{stderr}");
    let results = read(&json);
    assert_eq!(races(&results), [("pp", vec![]), ("thr", vec!["enact port"])]);
    assert_eq!(results["dropouts"][0]["contender"], "enact port");
}

#[test]
fn pages_made_later_are_those_made_at_once() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let page = |name: &str| std::fs::read_to_string(path(name)).expect("written");
    let at_once =
        ["--json", &path("a.json"), "--html", &path("once.html"), "--markdown", &path("once.md")].map(str::to_owned);
    let measured = [&["savina", "pp", "--set", "pings=20"][..], &at_once.each_ref().map(String::as_str), &TINY];
    let ended = enact_bench(&measured.concat());
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let later = ["report", &path("a.json"), "--html", &path("later.html"), "--markdown", &path("later.md")];
    let reported = enact_bench(&later);
    assert_eq!(reported.status.code(), Some(0), "{}", String::from_utf8_lossy(&reported.stderr));
    assert_eq!(reported.stdout, ended.stdout);
    assert_eq!(page("once.html"), page("later.html"));
    assert_eq!(page("once.md"), page("later.md"));
    assert!(page("once.md").contains("\n    enact-bench savina pp --set pings=20 --json "), "{}", page("once.md"));
}

#[test]
fn report_refuses_what_are_no_results() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let other = directory.path().join("other.json");
    std::fs::write(&other, "{\"title\": \"something else\"}").expect("a file");
    for (file, complaint) in
        [("/nowhere.json", "cannot read /nowhere.json"), (other.to_str().expect("UTF-8"), "holds no results of")]
    {
        let ended = enact_bench(&["report", file]);
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(complaint), "{stderr}");
    }
}

#[test]
fn savina_refuses_what_it_cannot_run() {
    for (arguments, status, complaint) in [
        (&["nonsense"][..], 2, "possible values: pp, count"),
        (&["pp", "--set", "pings"], 2, "KEY=VALUE"),
        (&["pp", "--set", "pongs=1"], 1, "no parameter `pongs`; known are pings"),
        (&["pp", "--set", "pings=many"], 1, "`many` is no value for `pings`"),
        (&["pp", "--variant", "stash"], 1, "no such variant"),
        (&["pp", "--set", "pings=0"], 1, "there is at least one ping"),
    ] {
        let ended = enact_bench(&[&["savina"], arguments, &TINY].concat());
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
    }
}
