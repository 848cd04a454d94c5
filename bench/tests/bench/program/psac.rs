//! `enact-bench psac`.

use super::enact_bench;

/// The samples of a run that takes a second for each measurement.
fn samples(arguments: &[&str]) -> Vec<serde_json::Value> {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("psac.json");
    let to = ["--seconds", "1", "--rounds", "1", "--json", json.to_str().expect("UTF-8")];
    let ended = enact_bench(&[&["psac"], arguments, &to].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("the oracles found what was acknowledged"), "{stdout}");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    report["samples"].as_array().expect("samples").clone()
}

#[test]
fn psac_measures_each_strategy_in_one_engine_and_in_two_and_counts_the_money() {
    let what = ["--experiments", "nosync,sync100", "--strategies", "locking,serializable"];
    let how = ["--engines", "1,2", "--delays-ms", "0.5", "--clients", "1"];
    let samples = samples(&[&what[..], &how].concat());
    assert_eq!(samples.len(), 2 * 2 * 2, "{samples:?}");
    assert!(samples.iter().all(|sample| sample["p50_ms"].as_f64() > Some(0.0)), "{samples:?}");
    // Messages travel where there are several engines.
    let set_up = |sample: &serde_json::Value| (sample["engines"].as_u64(), sample["delay_ms"].as_f64());
    let is_set_up = |sample: &serde_json::Value| [(Some(1), Some(0.0)), (Some(2), Some(0.5))].contains(&set_up(sample));
    assert!(samples.iter().all(is_set_up), "{samples:?}");
}

#[test]
fn psac_runs_known_benchmarks_and_tells_refused_commands_from_those_that_are_turned_away() {
    let what = "tax,smallbank,neworder,ycsb-t,aborts0,aborts1,aborts10,aborts50";
    let samples = samples(&["--experiments", what, "--strategies", "serializable", "--engines", "2", "--clients", "8"]);
    let taken: Vec<_> = samples.iter().map(|sample| sample["experiment"].as_str().expect("a name")).collect();
    assert_eq!(taken, what.split(',').collect::<Vec<_>>());
    for sample in &samples {
        assert!(sample["p50_ms"].as_f64() > Some(0.0), "{sample}");
        assert_eq!(sample["turned_away"].as_u64(), Some(0), "{sample}");
        match sample["experiment"].as_str().expect("a name") {
            "tax" | "aborts0" => assert_eq!(sample["refused"].as_u64(), Some(0), "{sample}"),
            "aborts50" => assert!(sample["refused"].as_u64() > Some(0), "{sample}"),
            _ => {}
        }
    }
}

#[test]
fn psac_measures_each_baseline_once_whatever_the_strategies_and_the_delays_are() {
    let what = "bare,simple,sharded,persistent";
    let set_up = ["--strategies", "locking,static", "--engines", "1,2", "--delays-ms", "0,5", "--clients", "3"];
    let samples = samples(&[&["--experiments", what][..], &set_up].concat());
    let taken: Vec<_> =
        samples.iter().map(|sample| (sample["experiment"].as_str(), sample["engines"].as_u64())).collect();
    let expected: Vec<_> = what.split(',').flat_map(|name| [1, 2].map(|engines| (Some(name), Some(engines)))).collect();
    assert_eq!(taken, expected);
    let is_baseline = |sample: &serde_json::Value| sample["strategy"] == "none" && sample["delay_ms"] == 0.0;
    assert!(samples.iter().all(|sample| is_baseline(sample) && sample["rate"].as_f64() > Some(0.0)), "{samples:?}");
}

#[test]
fn psac_compares_with_static_independence() {
    let samples = samples(&["--experiments", "hot", "--strategies", "static", "--engines", "1", "--clients", "8"]);
    let [sample] = &samples[..] else { panic!("{samples:?}") };
    assert_eq!(sample["strategy"], "static");
    assert!(sample["rate"].as_f64() > Some(0.0), "{sample}");
}

#[test]
fn psac_runs_on_the_nodes_of_a_cluster_and_counts_the_money() {
    // Says that it is passed over if there is none.
    let Some(_) = enact_journal_kit::nats::program() else { return };
    let what = ["--cluster", "--experiments", "sync100", "--strategies", "psac", "--engines", "2", "--clients", "4"];
    let samples = samples(&what);
    let [sample] = &samples[..] else { panic!("{samples:?}") };
    assert_eq!((sample["engines"].as_u64(), sample["strategy"].as_str()), (Some(2), Some("psac")));
    assert!(sample["p50_ms"].as_f64() > Some(0.0), "{sample}");
}

#[test]
fn psac_refuses_a_cluster_of_baselines_or_of_static_independence_or_with_syncs_of_its_own() {
    for (wrong, status) in [
        (["--experiments", "bare"], 1),
        (["--strategies", "static"], 1),
        (["--sync-min-ms", "1"], 2),
        (["--delays-ms", "1"], 2),
    ] {
        let ended = enact_bench(&[&["psac", "--cluster"], &wrong[..]].concat());
        assert_eq!(ended.status.code(), Some(status), "{wrong:?}");
    }
}

#[test]
fn psac_refuses_an_exponent_that_is_none() {
    for wrong in ["-1", "11", "NaN", "much"] {
        let usage = enact_bench(&["psac", &format!("--zipf={wrong}")]);
        assert_eq!(usage.status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn pages_of_psac_made_later_are_those_made_at_once() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let page = |name: &str| std::fs::read_to_string(path(name)).expect("written");
    let small = ["psac", "--experiments", "hot", "--strategies", "locking,serializable", "--engines", "1,2,3"];
    let short = ["--clients", "2", "--seconds", "1", "--rounds", "1"];
    let (json, once, later) =
        (path("a.json"), [path("once.html"), path("once.md")], [path("later.html"), path("later.md")]);
    let pages = |to: &[String; 2]| ["--html".to_owned(), to[0].clone(), "--markdown".to_owned(), to[1].clone()];
    let run = |arguments: &[&str], to: &[String; 2]| {
        let pages = pages(to);
        let ended = enact_bench(&[arguments, &pages.each_ref().map(String::as_str)].concat());
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
        ended.stdout
    };
    let measured = run(&[&small[..], &short, &["--json", &json]].concat(), &once);
    assert!(String::from_utf8_lossy(&measured).contains("Amdahl's law"), "three numbers of engines");
    assert_eq!(run(&["report", &json], &later), measured);
    assert_eq!(page("once.html"), page("later.html"));
    assert_eq!(page("once.md"), page("later.md"));

    let two = enact_bench(&["report", &json, &json]);
    let complaint = String::from_utf8_lossy(&two.stderr).into_owned();
    assert_eq!(two.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("have a page each"), "{complaint}");
}
