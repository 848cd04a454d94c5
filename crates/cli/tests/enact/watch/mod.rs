//! What an operator watches a server with: the dashboard, the alarms and their run-book. Their queries ask for what `/metrics` has.

mod promql;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use self::promql::{Query, Sample};
#[cfg(feature = "nats")]
use crate::nodes::Nodes;
use crate::served::{BANK, FREE_PORT, Served, http, serve};

const DASHBOARD: &str = include_str!("../../../../../docs/operations/deploy/dashboard.json");
const ALARMS: &str = include_str!("../../../../../docs/operations/deploy/alarms.yaml");
const RUN_BOOK: &str = include_str!("../../../../../docs/operations/alarms.md");
const MANUAL: &str = include_str!("../../../../../docs/operations/serve.md");

/// An alarm of the rules.
#[derive(Debug, Default)]
struct Alarm {
    group: String,
    name: String,
    query: String,
    /// The texts that a person sees.
    annotations: Vec<String>,
}

/// The alarms of a file that has each of its values in one line.
fn alarms() -> Vec<Alarm> {
    let (mut group, mut alarms) = (String::new(), Vec::<Alarm>::new());
    for line in ALARMS.lines() {
        let Some((key, value)) = line.trim().trim_start_matches("- ").split_once(": ") else { continue };
        match (key, alarms.last_mut()) {
            ("name", _) => value.clone_into(&mut group),
            ("alert", _) => {
                alarms.push(Alarm { group: group.clone(), name: value.to_owned(), ..Alarm::default() });
            }
            ("expr", Some(alarm)) => value.clone_into(&mut alarm.query),
            ("summary" | "runbook_url", Some(alarm)) => alarm.annotations.push(value.to_owned()),
            _ => {}
        }
    }
    alarms
}

/// The queries of the panels, each with its panel and the text of its legend.
fn panels() -> Vec<(String, String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            queries.push((text(&panel["title"]), text(&target["expr"]), text(&target["legendFormat"])));
        }
    }
    queries
}

/// The names that a text puts between double braces.
fn places(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").skip(1).map(|rest| rest.split("}}").next().expect("a part").trim().trim_start_matches("$labels."))
}

async fn scrape(url: &str) -> Vec<Sample> {
    let text = http().get(format!("{url}/metrics")).send().await.expect("serving").text().await.expect("a text");
    text.lines().filter(|line| !line.starts_with('#')).map(Sample::read).collect()
}

/// What a server shows that has done some of everything: among that, two payments of which one depends on the other.
async fn samples_under_load() -> Vec<Sample> {
    let directory = tempfile::tempdir().expect("a directory");
    let spec = directory.path().join("bank.rebel");
    std::fs::write(&spec, BANK).expect("writable");
    let mut command = serve(&spec, &directory.path().join("data"), FREE_PORT);
    command.args(["--sync-min", "20ms"]);
    let bank = Served::start(command);
    for id in ["A", "B"] {
        let (status, _) = bank.post(&format!("/Account/{id}/Open"), json!({ "initialDeposit": "EUR 100.00" })).await;
        assert_eq!(status, 200);
    }
    assert_eq!(bank.get("/Account/A").await.0, 200);
    assert_eq!(bank.get("/Account/C").await.0, 404);
    // Whether the second one is possible depends on the first.
    let body = || json!({ "amount": "EUR 60.00", "to": "B" });
    loop {
        let (first, second) = tokio::join!(bank.post("/Account/A/Pay", body()), bank.post("/Account/A/Pay", body()));
        assert!(first.0 == 200 && second.0 == 409 || first.0 == 409 && second.0 == 200, "{first:?} {second:?}");
        let samples = scrape(&bank.url("")).await;
        if samples.iter().any(|sample| sample.name == "enact_delayed_total") {
            return samples;
        }
        let (status, _) = bank.post("/Account/A/Deposit", json!({ "amount": "EUR 60.00" })).await;
        assert_eq!(status, 200);
    }
}

/// Fails unless `query` asks for metrics, labels and values that `samples` have, and `texts` for labels that it leaves.
fn check(what: &str, query: &str, texts: &[String], samples: &[Sample]) {
    let read = Query::read(query).unwrap_or_else(|why| panic!("{what}: {why} in {query}"));
    assert!(!read.selectors.is_empty(), "{what} asks for nothing");
    for selector in &read.selectors {
        assert!(
            samples.iter().any(|sample| selector.takes(sample)),
            "{what}: there is nothing that {selector:?} takes, in {query}"
        );
        for label in selector.labels.iter().map(|matched| &matched.label).chain(&read.kept) {
            assert!(selector.has(label, samples), "{what}: {} has no label {label}, in {query}", selector.metric);
        }
    }
    for label in texts.iter().flat_map(|text| places(text)) {
        let is_left = match read.is_aggregated {
            true => read.kept.iter().any(|kept| kept == label),
            false => read.selectors.iter().any(|selector| selector.has(label, samples)),
        };
        assert!(is_left, "{what} shows the label {label}, which {query} does not leave");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_the_dashboard_and_the_alarms_ask_for_is_there() {
    let mut samples = samples_under_load().await;
    // Prometheus itself says whether it has had an answer.
    samples.push(Sample::read("up 1"));
    for (panel, query, legend) in panels() {
        check(&panel, &query, &[legend], &samples);
    }
    let (of_nodes, of_all): (Vec<_>, Vec<_>) = alarms().into_iter().partition(|alarm| alarm.group == "enact-cluster");
    assert!(of_all.len() >= 10 && !of_nodes.is_empty(), "the rules are read");
    for alarm in of_all {
        check(&alarm.name, &alarm.query, &alarm.annotations, &samples);
    }
    #[cfg(feature = "nats")]
    if enact_journal_kit::nats::program().is_some() {
        let directory = tempfile::tempdir().expect("a directory");
        let spec = directory.path().join("bank.rebel");
        std::fs::write(&spec, BANK).expect("writable");
        let nodes = Nodes::start(Path::new(crate::served::program().get_program()), &spec, [0; 3]).expect("they serve");
        let samples = scrape(nodes.urls().next().expect("a node")).await;
        for alarm in of_nodes {
            check(&alarm.name, &alarm.query, &alarm.annotations, &samples);
        }
    }
}

#[test]
fn a_query_for_what_is_not_there_is_found() {
    let samples = [
        Sample::read(r#"enact_refused_total{class="Account",event="Pay"} 1"#),
        Sample::read(r#"enact_append_seconds_bucket{le="+Inf"} 1"#),
    ];
    let is_whole =
        |query: &str, text: &str| std::panic::catch_unwind(|| check("it", query, &[text.to_owned()], &samples)).is_ok();
    for (query, text, expected) in [
        ("rate(enact_refused_total[5m])", "{{class}} {{instance}}", true),
        (
            r#"sum by (event) (rate(enact_refused_total{instance=~"$instance"}[$__rate_interval])) > 0.5"#,
            "{{event}}",
            true,
        ),
        ("histogram_quantile(0.5, sum by (le) (rate(enact_append_seconds_bucket[5m])))", "half", true),
        ("rate(enact_refuse_total[5m])", "", false),
        (r#"enact_refused_total{event="Deposit"}"#, "", false),
        (r#"enact_refused_total{event!="Pay"}"#, "", false),
        (r#"enact_refused_total{cause="verdict"}"#, "", false),
        ("sum by (cause) (enact_refused_total)", "", false),
        ("sum by (event) (enact_refused_total)", "{{class}}", false),
        ("enact_refused_total", "{{cause}}", false),
        ("rates(enact_refused_total[5m])", "", false),
        ("rate(enact_refused_total[5m]", "", false),
        ("1", "", false),
    ] {
        assert_eq!(is_whole(query, text), expected, "{query}, {text}");
    }
}

#[test]
fn each_alarm_has_its_section_of_the_run_book_and_each_section_its_alarm() {
    let sections: BTreeMap<&str, &str> =
        RUN_BOOK.split("\n## ").skip(1).map(|section| section.split_once('\n').expect("a title")).collect();
    let alarms = alarms();
    let names: BTreeSet<&str> = alarms.iter().map(|alarm| alarm.name.as_str()).collect();
    assert_eq!(sections.keys().copied().collect::<BTreeSet<_>>(), names);
    assert_eq!(names.len(), alarms.len(), "no name is there twice");
    for alarm in &alarms {
        let parts: Vec<&str> =
            sections[alarm.name.as_str()].lines().filter_map(|line| line.strip_prefix("* **")).collect();
        let begins = ["Means:**", "See:**", "Do:**", "Over**"];
        assert!(
            parts.len() == 4 && parts.iter().zip(begins).all(|(part, begin)| part.starts_with(begin)),
            "{}",
            alarm.name
        );
        let anchor = format!("docs/operations/alarms.md#{}", alarm.name.to_lowercase());
        assert!(alarm.annotations.iter().any(|text| text.ends_with(&anchor)), "{} leads to its section", alarm.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manual_says_what_each_series_of_a_server_is() {
    let families: BTreeSet<String> =
        samples_under_load().await.into_iter().map(|sample| family(&sample.name)).collect();
    let named = |family: &String| MANUAL.contains(&format!("`{family}`")) || MANUAL.contains(&format!("`{family}{{"));
    let unnamed: Vec<&String> = families.iter().filter(|family| !named(family)).collect();
    assert!(unnamed.is_empty(), "serve.md does not name {unnamed:?}");
}

/// The metric to which a series belongs.
fn family(name: &str) -> String {
    let part = ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
    part.unwrap_or(name).to_owned()
}
