//! What `enact check --scaling` says of two events is what admission makes of them.
//!
//! For sampled states and arguments one event is opened and another one arrives, as a part of a larger transaction and alone.
//! `ENACT_SCALING` says how many times the usual number of samples are tried (1), `ENACT_SEED` where the random numbers begin.

#[path = "../../../../rebel/tests/rebel/scaling/cases.rs"]
mod cases;
#[path = "../../../../rebel/tests/rebel/generated.rs"]
#[expect(dead_code, reason = "this test uses a part")]
mod generated;
mod oracle;
mod promise;
#[path = "../../../../rebel/tests/rebel/support.rs"]
#[expect(dead_code, reason = "this test uses a part")]
mod support;
#[path = "../../../../rebel/tests/rebel/universe.rs"]
#[expect(dead_code, reason = "this test uses a part")]
mod universe;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use enact_entities::{
    Admission, Attempt, Branch, EntityKey, Limits, Millis, Model as _, Rebel, Request, Slot, Strategy, TxId, Verdict,
    Work,
};
use enact_rebel::scaling::Concurrency;
use enact_rebel::{Source, Value, check};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use self::oracle::{AT, Met};
use crate::support::chance;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Samples the pairs of all classes; says what was met of each.
fn play(name: &str, sources: Vec<Source>, samples: impl Fn(&str) -> u64) -> Vec<(String, Met)> {
    let seed = number("ENACT_SEED", 0);
    let text: String = sources.iter().map(|source| source.text.as_str()).collect::<Vec<_>>().join("\n");
    let spec = Arc::new(check(sources).unwrap_or_else(|report| panic!("{name}: {report}\n{text}")));
    let model = Arc::new(Rebel::new(Arc::clone(&spec)));
    let samples = |pair: &str| samples(pair) * number("ENACT_SCALING", 1);
    let of_class = |scaling: enact_rebel::scaling::Scaling| {
        let told = format!("ENACT_SEED={seed} {name} {}", scaling.class());
        let found =
            promise::Promise { model: &model, scaling: &scaling, text: &text, told: &told }.check(seed, samples);
        scaling.pairs().iter().zip(found).map(|(pair, met)| (promise::name(&scaling, pair), met)).collect::<Vec<_>>()
    };
    spec.scaling().flat_map(of_class).collect()
}

fn sources(paths: &[PathBuf]) -> Vec<Source> {
    let read = |path: &PathBuf| Source::new(path.display().to_string(), fs::read_to_string(path).unwrap());
    paths.iter().map(read).collect()
}

fn rebel_files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "rebel"));
    paths.sort();
    paths
}

#[test]
fn admission_does_what_is_said_of_the_examples() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let single = rebel_files(&folder).into_iter().map(|path| vec![path]);
    let specifications: Vec<_> = single.chain([rebel_files(&folder.join("sepa"))]).collect();
    assert!(specifications.len() > 8, "there are examples");
    let mut total = Met::default();
    for paths in specifications {
        let met = play(&paths[0].display().to_string(), sources(&paths), |_| 30);
        total = met.iter().fold(total, |total, (_, met)| total + *met);
    }
    assert!(total.is_all(), "{total:?}");
}

#[test]
fn admission_does_what_is_said_of_random_specifications() {
    let mut runner = TestRunner::deterministic();
    let mut total = Met::default();
    for at in 0..16 * number("ENACT_SCALING", 1) {
        // Amounts of several currencies are left out.
        let text = generated::specification().new_tree(&mut runner).unwrap().current().replace("USD", "EUR");
        let met = play(&format!("random {at}\n{text}"), vec![Source::new("random.rebel", text.clone())], |_| 30);
        total = met.iter().fold(total, |total, (_, met)| total + *met);
    }
    assert!(total.is_all(), "{total:?}");
}

/// Each row is met by admission in every way that it leaves open, so that none says less than it could.
#[test]
fn each_case_is_met_in_all_the_ways_that_it_leaves_open() {
    let rows: Vec<_> = cases::ROWS.iter().map(|(open, incoming, ..)| format!("Thing: {open}, {incoming}")).collect();
    let samples = |pair: &str| if rows.iter().any(|row| row == pair) { 200 } else { 1 };
    let met = play("cases", vec![Source::new("cases.rebel", cases::CONTRACT)], samples);
    let mut missing = Vec::new();
    for (open, incoming, concurrency, _) in cases::ROWS {
        let name = format!("Thing: {open}, {incoming}");
        let found = met.iter().find(|(pair, _)| *pair == name).unwrap().1;
        let is_met = match concurrency {
            Concurrency::Never => found.refused > 0,
            Concurrency::Together => found.admitted > 0,
            Concurrency::UnlessSame | Concurrency::WhileFar => found.admitted > 0 && found.delayed > 0,
            Concurrency::InLine => found.alone > 0,
            Concurrency::Turns => found.delayed_alone > 0,
        };
        if !is_met {
            missing.push(format!("{open}, {incoming}: {concurrency:?}, {found:?}"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    play("timed", vec![Source::new("timed.rebel", cases::TIMED)], |_| 100);
}

/// How many parts of larger transactions are in progress together at one thing, if each does this with another number.
fn together(text: &str, event: &str) -> usize {
    let model = Arc::new(Rebel::new(Arc::new(check(vec![Source::new("thing.rebel", text)]).expect("a contract"))));
    let key = EntityKey::new("Thing", "a").unwrap();
    let class = Arc::clone(model.spec().class("Thing").unwrap());
    let begin = class.event("Begin").unwrap().call([]).unwrap();
    let base = model.next(&key, &model.initial(&key).unwrap(), &begin, AT).unwrap();
    let strategy = Strategy::Serializable;
    let mut admission = Admission::new(Arc::clone(&model), key, base, Slot::FIRST, strategy, Limits::default());
    let is_admitted = |tx: &u32| {
        let call = class.event(event).unwrap().call([("count", Value::Integer(1 << tx))]).unwrap();
        let branch =
            Branch { tx: TxId::from_u128((*tx).into()), attempt: Attempt::FIRST, work: Work::event(call), at: AT };
        let request = Request {
            branch,
            deadline: Millis(1_000),
            ordered: false,
            sole: false,
            certain: false,
            calls_known: false,
        };
        matches!(admission.request(request), Verdict::Admitted(..))
    };
    (1..40).take_while(is_admitted).count()
}

#[test]
fn exact_events_are_in_progress_in_any_number_and_others_as_long_as_there_are_few_outcomes() {
    assert_eq!(together(cases::TIMED, "Put"), 39);
    let moving = cases::TIMED.replace("this.pieces += count", "this.pieces += count, this.until = until");
    assert_eq!(together(&moving, "Put"), 4);
    assert_eq!(together(cases::SUM, "Hold"), 4);
}
