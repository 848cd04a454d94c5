//! The report on fixed results: Enact twice as fast as the best other library in `count`, half as fast in `pp`, and not to
//! be told apart in `nqn`.
use proptest::prelude::*;

use super::*;

const RESULTS: &str = include_str!("../../../browser/savina.json");

fn results() -> Results {
    serde_json::from_str(RESULTS).expect("results as they are written")
}

/// The cells of the rows of the table with `caption` in Markdown.
fn table(markdown: &str, caption: &str) -> Vec<Vec<String>> {
    let (_, rest) =
        markdown.split_once(&format!("{caption}:\n\n")).unwrap_or_else(|| panic!("no {caption}: {markdown}"));
    let rows = rest.lines().take_while(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

fn row<'a>(rows: &'a [Vec<String>], first: &[&str]) -> &'a [String] {
    let is_it = |row: &&Vec<String>| row.iter().zip(first).all(|(cell, name)| cell == name);
    &rows.iter().find(is_it).unwrap_or_else(|| panic!("no row {first:?}: {rows:?}"))[first.len()..]
}

#[test]
fn every_benchmark_and_contender_is_in_every_report() {
    let document = document(&[results()]);
    for text in [document.html(), document.markdown()] {
        for name in ["pp w1", "pp w2", "count w1", "count w2", "nqn w1", "nqn w2", "rmm w2", "Ping Pong"] {
            assert!(text.contains(name), "{name} in {text}");
        }
        for name in ["enact port", "tokio", "actix", "pekko", "tokio 1.54.0", "pekko unknown", "Example CPU"] {
            assert!(text.contains(name), "{name} in {text}");
        }
        assert!(text.contains("enact-bench savina pp count nqn rmm --peers --workers 1,2 --iterations 7"), "{text}");
    }
}

#[test]
fn the_page_loads_nothing_and_has_no_number_that_is_none() {
    let html = document(&[results()]).html();
    for never in ["http://", "https://", "src=", "@import", "url(", "NaN", ">inf", "Infinity"] {
        assert!(!html.contains(never), "{never} in {html}");
    }
    assert_eq!(html.matches("<svg").count(), html.matches("<desc").count());
    // Against the best and each of three others, rates of seven benchmarks, scaling of three benchmarks.
    assert_eq!(html.matches("<svg").count(), 4 + 7 + 3);
}

#[test]
fn figures_have_ids_of_their_own() {
    let html = document(&[results(), results()]).html();
    let mut ids: Vec<_> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn tables_have_the_numbers_that_were_measured() {
    let markdown = document(&[results()]).markdown();
    let times = table(&markdown, "Medians of verified runs, with 95 % bootstrap intervals");
    assert_eq!(row(&times, &["pp w2", "enact port"])[0], "20", "25 ms with one worker, 0.8 times that with two");
    assert_eq!(row(&times, &["pp w2", "tokio"])[..1], ["10"]);
    assert_eq!(row(&times, &["pp w2", "tokio"])[7..], ["0.50", "0.50 to 0.50", "1 of 7"]);
    assert_eq!(row(&times, &["count w1", "enact port"])[4..5], ["20.0M"], "1,000,003 messages in 50 ms");
    assert_eq!(row(&times, &["count w1", "enact port"])[7..9], ["", ""], "nobody is compared with itself");

    let memory = table(&markdown, "Peak resident memory in MiB, medians");
    assert_eq!(row(&memory, &["pp w1"]), ["8.50", "6.25", "5.50", "280"]);
    let heap = table(&markdown, "Heap allocations of one run");
    assert_eq!(row(&heap, &["nqn w1", "enact port"]), ["29.0k", "1", "1.16M", "40", "29.0k"]);
    let cold = table(&markdown, "From nothing to the first verified result, medians");
    assert_eq!(row(&cold, &["pekko"])[0], "936", "900 ms times the scatter of its rounds, 1.04 in the median");
    assert_eq!(row(&cold, &["tokio"])[2..3], ["0.80"], "2 ms to 2.5 ms");
    let scaling = table(&markdown, "Median messages a second by worker threads");
    assert_eq!(row(&scaling, &["nqn", "enact port"]), ["72.5k", "145k"]);
    assert!(scaling.iter().all(|row| row[0] != "rmm"), "it was run on one number of workers only");
}

#[test]
fn losing_rows_are_called_so_and_come_first() {
    let markdown = document(&[results()]).markdown();
    let overview = table(&markdown, "Enact and the best other library");
    let words: Vec<_> = overview.iter().map(|row| (row[0].as_str(), row[3].as_str(), row[7].as_str())).collect();
    let expected = [
        ("pp w1", "tokio", "behind"),
        ("pp w2", "tokio", "behind"),
        ("nqn w1", "pekko", "open"),
        ("nqn w2", "pekko", "open"),
        ("count w1", "tokio", "ahead"),
        ("count w2", "tokio", "ahead"),
        ("rmm w2", "tokio", ""),
    ];
    assert_eq!(words, expected);
    assert_eq!(overview[6][2], "no result");
}

#[test]
fn the_summary_is_three_sentences_of_the_data() {
    let summary = document(&[results()]).summary;
    let [run, faster, costs] = &summary[..] else { panic!("{summary:?}") };
    // Six benchmarks of seven rounds with four contenders (two in nqn), and one with one.
    let samples = 7 * (4 + 4 + 4 + 4 + 2 + 2 + 1);
    assert_eq!(
        *run,
        format!(
            "Enact 0.1.0 ran 4 of the 28 programs of the Savina suite beside 3 other contenders, on 2 cores of Example CPU: \
             {samples} verified runs in interleaved rounds."
        )
    );
    assert!(
        faster.contains("each of 6 comparisons it is ahead in 2, behind in 2, and cannot be told apart in 2"),
        "{faster}"
    );
    assert!(faster.contains("0.50 times (pp w1) to 2 times (count w2) theirs, 1 times in the median"), "{faster}");
    let disturbed = samples / 7;
    assert!(costs.starts_with("Heap allocations a message: 1 in the median program; "), "{costs}");
    assert!(costs.contains("after 2.50 ms") && costs.contains(&format!("{disturbed} are marked")), "{costs}");
}

#[test]
fn who_has_no_result_is_named_with_the_reason() {
    let markdown = document(&[results()]).markdown();
    for line in [
        "* Failed: rmm w2, enact port: wrong result: product: 3 where 4 was expected",
        "* Failed: nqn w1, tokio: it has not answered within 300 s and was killed",
        "* Not built: without caf: cmake cannot be run: entity not found",
    ] {
        assert!(markdown.lines().any(|other| other == line), "{line} in {markdown}");
    }
}

#[test]
fn several_measurements_have_numbers_and_machines_of_their_own() {
    let mut later = results();
    later.machine.processor = Some("Another CPU".to_owned());
    let markdown = document(&[results(), later]).markdown();
    for text in ["pp w1 #1", "pp w1 #2", "Measurement #2", "Example CPU and 2 cores of Another CPU", "pekko #2"] {
        assert!(markdown.contains(text), "{text} in {markdown}");
    }
}

#[test]
fn without_peers_nothing_is_claimed() {
    let mut alone = results();
    alone.libraries.clear();
    alone.benchmarks.retain(|result| result.benchmark == "pp");
    alone.benchmarks.iter_mut().for_each(|result| result.race.series.truncate(1));
    let document = document(&[alone]);
    assert!(document.highlights.is_empty());
    assert!(document.summary[1].starts_with("No other library took part"), "{:?}", document.summary);
    assert!(!document.markdown().contains("divided by that of each other library"));
}

#[test]
fn results_that_are_read_again_are_those_that_were_written() {
    let written = serde_json::to_string(&results()).expect("JSON");
    let read: Results = serde_json::from_str(&written).expect("as written");
    assert_eq!(serde_json::to_string(&read).expect("JSON"), written);
    assert_eq!(document(&[read]).html(), document(&[results()]).html());
}

#[test]
fn results_of_another_format_are_refused() {
    let other = RESULTS.replacen("\"format\":1", "\"format\":2", 1);
    let refused = serde_json::from_str::<Results>(&other).expect_err("unknown").to_string();
    assert!(refused.contains("format 2 where 1 is known"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever the times are, every number is one, and every contender has its row.
    #[test]
    fn any_times_make_a_report(walls_ns in proptest::collection::vec(1..u64::MAX / 4, 8)) {
        let mut results = results();
        results.benchmarks.truncate(2);
        let series = results.benchmarks.iter_mut().flat_map(|result| &mut result.race.series);
        for (series, pair) in series.zip(walls_ns.windows(2)) {
            series.samples.truncate(2);
            for (sample, &wall_ns) in series.samples.iter_mut().zip(pair) {
                sample.lap.wall = std::time::Duration::from_nanos(wall_ns);
            }
        }
        results.benchmarks.iter_mut().flat_map(|result| &mut result.race.series).for_each(|series| series.samples.truncate(2));
        let document = document(&[results]);
        let (html, markdown) = (document.html(), document.markdown());
        prop_assert!(!html.contains("NaN") && !html.contains(">inf") && !markdown.contains("NaN"));
        let times = table(&markdown, "Medians of verified runs, with 95 % bootstrap intervals");
        prop_assert_eq!(times.len(), 8);
    }
}
