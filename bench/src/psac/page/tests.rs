//! The page on fixed results: the default ahead of locking where an account is hot, behind it in `ycsb-t`, and not to be told apart in
//! `nosync`.
use enact_entities::Strategy;
use proptest::prelude::*;

use super::*;

const RESULTS: &str = include_str!("../../../browser/psac.json");

fn results() -> Report {
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

#[test]
fn every_experiment_and_strategy_is_in_every_report() {
    let document = document(&results());
    for text in [document.html(), document.markdown()] {
        for name in ["nosync", "hot", "ycsb-t", "Example CPU", "4 of 17 experiments", "enact-bench psac --experiments"]
        {
            assert!(text.contains(name), "{name} in {text}");
        }
        for strategy in Strategy::ALL {
            assert!(text.contains(&strategy.to_string()), "{strategy} in {text}");
        }
    }
}

#[test]
fn losing_rows_are_called_so_and_come_first() {
    let rows = table(&document(&results()).markdown(), "serializable beside locking, medians");
    let words: Vec<_> = rows.iter().map(|row| [0, 1, 3, 7].map(|place| row[place].as_str())).collect();
    assert_eq!(words[..2], [["ycsb-t", "1", "64", "behind"], ["ycsb-t", "1", "1", "behind"]]);
    let others: BTreeSet<_> =
        words[2..].iter().map(|[experiment, engines, _, verdict]| [experiment, engines, verdict]).collect();
    assert!(others.contains(&[&"hot", &"4", &"ahead"]) && others.contains(&[&"nosync", &"1", &"open"]), "{words:?}");
    assert_eq!(rows.len(), 13, "each place and number of clients has its row");
}

#[test]
fn throughput_and_latency_stand_beside_each_other_with_a_line_for_each_strategy() {
    let document = document(&results());
    let blocks = document.sections.iter().flat_map(|section| &section.blocks);
    let figures: Vec<_> =
        blocks.filter_map(|block| if let Block::Figures(figures) = block { Some(figures) } else { None }).collect();
    // bare in 1, 2 and 4 engines, nosync and ycsb-t in one, hot in 1, 2 and 4; hot in one engine stepped to overload; and what more engines
    // bring, hot with 1 client and with 64, and bare.
    assert_eq!(figures.len(), 3 + 5 + 1 + 1);
    let figures: Vec<_> = figures.into_iter().filter(|figures| figures.len() == 2).collect();
    for pair in &figures {
        let [rate, p99] = &pair[..] else { panic!("{pair:?}") };
        assert!(rate.caption.starts_with("transactions/s by "), "{rate:?}");
        assert!(["p99 in ms by clients", "transactions/s by engines"].contains(&p99.caption.as_str()), "{p99:?}");
    }
    let html = document.html();
    let described = "transactions/s by clients, in order of their number: locking ";
    let description =
        html.split(described).nth(1).and_then(|rest| rest.split("</desc>").next()).expect("a description");
    for strategy in ["locking-early-release ", "psac ", "serializable "] {
        assert!(description.contains(&format!("; {strategy}")), "{strategy} in {description}");
    }
}

#[test]
fn the_page_loads_nothing_has_no_number_that_is_none_and_ids_of_their_own() {
    let html = document(&results()).html();
    for never in ["http://", "https://", "src=", "@import", "url(", "NaN", ">inf", "Infinity"] {
        assert!(!html.contains(never), "{never} in {html}");
    }
    let mut ids: Vec<_> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn the_fits_stand_beside_what_they_were_made_of() {
    let fits = table(&document(&results()).markdown(), "Fits to Amdahl's law");
    assert_eq!(fits.len(), 8 + 1, "four strategies with 1 client and with 64, and bare: {fits:?}");
    // The rate falls to a third, and grows to three times that of one engine.
    let sigma = |strategy: &str| {
        let row = fits.iter().find(|row| row[2] == "64" && row[3] == strategy).expect("fitted");
        assert_eq!(row[4], "1, 2, 4");
        row[6].parse::<f64>().expect("a number")
    };
    assert!(sigma("locking") > 1.0 && sigma("serializable") < 0.3, "{fits:?}");
}

#[test]
fn each_strategy_is_stepped_to_overload_where_there_are_enough_numbers_of_clients() {
    let markdown = document(&results()).markdown();
    let rows = table(&markdown, "Where more clients bring no more");
    let words: Vec<_> = rows.iter().map(|row| [0, 1, 3].map(|place| row[place].as_str())).collect();
    assert_eq!(
        words,
        [
            ["hot, 1 engine", "locking", "16"],
            ["hot, 1 engine", "locking-early-release", "16"],
            ["hot, 1 engine", "psac", "256"],
            ["hot, 1 engine", "serializable", "256"],
        ],
        "two numbers of clients are no way"
    );
    let blocks =
        document(&results()).sections.into_iter().find(|section| section.id == "overload").expect("it is there").blocks;
    let [figures] = &blocks
        .iter()
        .filter_map(|block| if let Block::Figures(figures) = block { Some(figures) } else { None })
        .collect::<Vec<_>>()[..]
    else {
        panic!("one place: {blocks:?}")
    };
    let captions: Vec<_> = figures.iter().map(|figure| figure.caption.as_str()).collect();
    assert_eq!(captions, ["p50", "p95", "p99"].map(|name| format!("{name} in ms by transactions/s")));
}

#[test]
fn each_result_of_the_paper_has_a_row_with_ours_and_why_they_differ() {
    let mut results = results();
    let rows = |results: &Report| table(&document(results).markdown(), "Theirs and ours");
    let of =
        |rows: &[Vec<String>], name: &str| rows.iter().find(|row| row[0].starts_with(name)).expect("a row").clone();
    let before = rows(&results);
    assert_eq!(before.len(), 9);
    assert!(before.iter().all(|row| row.iter().all(|cell| !cell.is_empty())), "{before:?}");
    assert!(of(&before, "Bare")[2].starts_with("λ ") && of(&before, "Bare")[2].ends_with("64 clients"), "{before:?}");
    assert!(of(&before, "NoSync")[2].contains(" tx/s: nosync, 1 engine, 64 clients"), "{before:?}");
    assert_eq!(of(&before, "Figure 8")[2], "not measured");
    // As if what was done on a hot account had been done on a thousand.
    results
        .samples
        .iter_mut()
        .filter(|sample| sample.experiment == "hot")
        .for_each(|sample| sample.experiment = "sync1000".to_owned());
    let after = rows(&results);
    assert!(
        of(&after, "Sync1000 with 2PL")[2].starts_with("λ ") && of(&after, "Sync1000 with PSAC")[2].starts_with("λ ")
    );
    assert_ne!(of(&after, "Sync1000 with 2PL")[2], of(&after, "Sync1000 with PSAC")[2]);
    assert!(of(&after, "Figure 8")[2].starts_with("up to "), "{after:?}");
}

#[test]
fn without_locking_nothing_is_compared_and_without_engines_nothing_fitted() {
    let mut alone = results();
    alone.samples.retain(|sample| sample.strategy == "serializable" && sample.engines == 1);
    let document = document(&alone);
    assert!(document.highlights.is_empty());
    assert_eq!(
        document.sections.iter().map(|section| section.id).collect::<Vec<_>>(),
        ["experiments", "overload", "paper", "all", "method"]
    );
}

#[test]
fn few_rounds_claim_nothing() {
    let mut few = results();
    few.samples.truncate(few.samples.len() / 5 * 4);
    let rows = table(&document(&few).markdown(), "serializable beside locking, medians");
    assert!(rows.iter().all(|row| row[7] == "open" && row[6].is_empty()), "{rows:?}");
}

#[test]
fn results_that_are_read_again_are_those_that_were_written() {
    let written = serde_json::to_string(&results()).expect("JSON");
    let read: Report = serde_json::from_str(&written).expect("as written");
    assert_eq!(document(&read).html(), document(&results()).html());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever the rates are, every number is one, and every measurement has its row. Two rounds have no intervals, which take time.
    #[test]
    fn any_rates_make_a_report(rates in proptest::collection::vec(prop_oneof![Just(0.0), 1e-3..1e9_f64], 110)) {
        let mut results = results();
        results.samples.truncate(110);
        for (sample, rate) in results.samples.iter_mut().zip(rates) {
            sample.rate = rate;
        }
        let document = document(&results);
        let (html, markdown) = (document.html(), document.markdown());
        prop_assert!(!html.contains("NaN") && !html.contains(">inf") && !markdown.contains("NaN"));
        prop_assert_eq!(table(&markdown, "Every strategy, medians of verified windows").len(), 55);
    }
}
