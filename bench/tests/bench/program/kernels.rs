//! `enact-bench kernels`.

use super::enact_bench;

const TINY: [&str; 8] = ["--repeat", "1", "--iterations", "1", "--warm-up", "0", "--rows", "8"];

#[test]
fn kernels_measures_every_kernel_in_every_variant_and_writes_all_samples() {
    let directory = tempfile::tempdir().expect("a place for the test");
    let json = directory.path().join("kernels.json");
    let json_path = json.to_str().expect("UTF-8");
    let ended = enact_bench(&[&["kernels", "--workers", "2", "--json", json_path][..], &TINY].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{stdout}\n{stderr}");

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    let races = report["races"].as_array().expect("races").iter().map(|race| {
        let contenders = race["contenders"].as_array().expect("contenders").iter();
        let names = contenders.map(|one| {
            assert_eq!(one["samples"][0]["work"], 1, "{race}");
            one["name"].as_str().expect("a name")
        });
        (race["workload"].as_str().expect("a name"), names.collect::<Vec<_>>().join(", "))
    });
    let ways = "await, forward, sync, native".to_owned();
    let expected = [
        ("ackermann", ways.clone()),
        ("syracuse", ways.clone()),
        ("loop", "await, held, sync, native".to_owned()),
        ("ring", ways),
        ("matrix", "await, seq, rayon".to_owned()),
    ];
    assert_eq!(races.collect::<Vec<_>>(), expected);

    // The paper's table 2: forward is 121 % faster than await; its table 4: the actors lose 11 % to the parallel loop.
    for (kernel, variant, to, in_paper) in
        [("syracuse", "forward", "await", 2.17), ("ring", "sync", "await", 0.97), ("matrix", "await", "rayon", 0.89)]
    {
        let ratios = report["ratios"].as_array().expect("ratios");
        let is_it = |one: &&serde_json::Value| one["kernel"] == kernel && one["variant"] == variant && one["to"] == to;
        let ratio = ratios.iter().find(is_it).unwrap_or_else(|| panic!("{kernel} {variant}: {report}"));
        assert!(ratio["speed_up"].as_f64() > Some(0.0), "{ratio}");
        assert!(ratio["in_paper"].as_f64().is_some_and(|rate| (rate - in_paper).abs() < 0.006), "{ratio}");
        let row = format!("{variant} / {to}");
        let shown = stdout.lines().find(|line| line.contains(kernel) && line.contains(&row)).expect("a row for each");
        let cells: Vec<_> = shown.split('|').map(str::trim).collect();
        assert!(cells.contains(&in_paper.to_string().as_str()), "{shown}");
    }
}

#[test]
fn kernels_refuses_what_it_cannot_run() {
    for (arguments, status, complaint) in [
        (&["nonsense"][..], 2, "possible values: ackermann, syracuse, loop, ring, matrix"),
        (&["--repeat", "0"], 2, "number would be zero"),
        (&["matrix", "--rows", "8", "--repeat", "1", "--json", "/nowhere/report"], 1, "cannot write /nowhere/report"),
    ] {
        let ended = enact_bench(&[&["kernels", "--iterations", "1", "--warm-up", "0"], arguments].concat());
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
    }
}
