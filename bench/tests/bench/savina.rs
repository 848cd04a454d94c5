//! Every benchmark of the Savina suite, small: each run's result is verified by its oracle.

use enact::{System, actor};
use enact_bench::savina::{BadSetting, Benchmark, Variant, Watch, suite};

fn benchmark(name: &str, settings: &[(&str, u64)]) -> Box<dyn Benchmark> {
    let mut named = suite().into_iter().find(|one| one.name() == name).unwrap_or_else(|| panic!("no {name}"));
    for (key, value) in settings {
        named.set(key, &value.to_string()).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    }
    named
}

/// Is asked whether the only worker has ended what it did before.
struct Probe;

#[actor]
impl Probe {
    fn answer(&self) {}
}

/// No actor of a run is left on a system with one worker.
#[track_caller]
fn check_nobody_is_left(system: &System, name: &str) {
    system.spawn(Probe).answer().wait().expect("it lives");
    let left: Vec<_> = system.actors().into_iter().filter(|actor| actor.name() != "Probe").collect();
    assert!(left.is_empty(), "{name}: {left:?}");
}

/// Runs all variants twice on one and on three workers, and gives messages and actors of a run of `port`.
#[track_caller]
fn check(name: &str, settings: &[(&str, u64)]) -> (u64, f64) {
    let benchmark = benchmark(name, settings);
    let mut sizes = (0, 0.0);
    for workers in [1, 3] {
        let system = System::builder().workers(workers).build().expect("threads");
        for &variant in benchmark.variants() {
            let mut run = benchmark.run(variant, &system).expect("possible parameters");
            for _ in 0..2 {
                let sample = run(Watch::Clock)
                    .unwrap_or_else(|wrong| panic!("{name}, {variant:?}, {workers} workers: {wrong:?}"));
                if workers == 1 {
                    check_nobody_is_left(&system, name);
                }
                if variant == Variant::Port {
                    sizes = (sample.work, sample.facts["actors"]);
                }
            }
        }
    }
    sizes
}

/// Messages and actors do not depend on timing.
#[track_caller]
fn check_sizes(name: &str, settings: &[(&str, u64)], messages: u64, actors: u32) {
    assert_eq!(check(name, settings), (messages, f64::from(actors)), "{name}: messages, actors");
}

#[test]
fn pp_plays_once_and_often() {
    check_sizes("pp", &[("pings", 1)], 4, 2);
    check_sizes("pp", &[("pings", 500)], 1_501, 2);
}

#[test]
fn count_counts_what_one_turn_sends() {
    check_sizes("count", &[("messages", 0)], 3, 2);
    check_sizes("count", &[("messages", 10_000)], 10_003, 2);
}

#[test]
fn fjt_shares_a_threads_messages_out() {
    check_sizes("fjt", &[("messages", 100), ("actors", 7)], 700, 7);
}

#[test]
fn fjc_makes_and_ends_actors() {
    check_sizes("fjc", &[("actors", 1_000)], 1_000, 1_000);
}

#[test]
fn thr_ends_where_the_hops_end() {
    for (actors, hops) in [(1, 0), (1, 5), (10, 100), (10, 107)] {
        check_sizes("thr", &[("actors", actors), ("hops", hops)], hops + 1 + 2 * actors, actors as u32);
    }
}

#[test]
fn cham_counts_each_meeting_twice() {
    check_sizes("cham", &[("creatures", 5), ("meetings", 300)], 1_215, 6);
    check_sizes("cham", &[("creatures", 3), ("meetings", 0)], 9, 4);
}

#[test]
fn big_pongs_come_from_whom_they_are_expected() {
    check_sizes("big", &[("pings", 50), ("workers", 8)], 824, 9);
}

#[test]
fn cdict_answers_every_request() {
    check_sizes("cdict", &[("workers", 4), ("requests", 300), ("keys", 64)], 2_409, 6);
}

#[test]
fn csll_inserts_in_order() {
    check_sizes("csll", &[("workers", 4), ("requests", 300)], 2_409, 6);
}

#[test]
fn pcbb_consumes_every_item_once() {
    let settings = [("producers", 4), ("consumers", 3), ("items", 50), ("produce_cost", 1), ("consume_cost", 0)];
    for buffer in [5, 50] {
        check_sizes("pcbb", &[&[("buffer", buffer)][..], &settings].concat(), 814, 8);
    }
}

#[test]
fn phil_eats_without_a_neighbour() {
    check("phil", &[("philosophers", 5), ("meals", 100)]);
    check("phil", &[("philosophers", 2), ("meals", 100)]);
}

#[test]
fn sbar_cuts_everybodys_hair() {
    check("sbar", &[("customers", 60), ("seats", 3), ("pause", 1), ("haircut", 50)]);
}

#[test]
fn cig_smokes_as_chosen() {
    check_sizes("cig", &[("rounds", 100), ("smokers", 20)], 221, 21);
}

#[test]
fn logm_takes_no_message_before_the_answer() {
    check_sizes("logm", &[("series", 4), ("terms", 200)], 2_417, 9);
}

#[test]
fn btx_moves_money_through_chains_of_waiting_accounts() {
    check_sizes("btx", &[("accounts", 20), ("transfers", 500)], 2_021, 21);
}

#[test]
fn rsort_sorts_through_a_stage_for_each_bit() {
    check_sizes("rsort", &[("values", 500), ("bits", 16)], 8_500, 18);
}

#[test]
fn fbank_joins_what_belongs_together() {
    check("fbank", &[("columns", 256), ("samples", 700), ("channels", 3)]);
    check("fbank", &[("columns", 1), ("samples", 20), ("channels", 2)]);
}

#[test]
fn sieve_grows_a_filter_at_a_time() {
    assert_eq!(check("sieve", &[("limit", 1_000), ("primes", 5)]).1, 35.0);
}

#[test]
fn uct_traverses_each_node_once() {
    check("uct", &[("nodes", 2_000)]);
}

#[test]
fn ofl_loses_no_customer() {
    check("ofl", &[("points", 2_000)]);
}

#[test]
fn trapr_adds_all_shares() {
    check_sizes("trapr", &[("pieces", 10_000), ("workers", 8)], 17, 9);
}

#[test]
fn piprec_adds_every_term() {
    check("piprec", &[("digits", 60), ("workers", 3)]);
    check("piprec", &[("digits", 400), ("workers", 4)]);
}

#[test]
fn rmm_adds_to_blocks_that_one_worker_owns() {
    check_sizes("rmm", &[("rows", 32), ("threshold", 64), ("workers", 5)], 229, 6);
}

#[test]
fn qsort_concatenates_in_order() {
    check("qsort", &[("values", 5_000), ("threshold", 100)]);
    check_sizes("qsort", &[("values", 10)], 1, 1);
}

#[test]
fn apsp_keeps_phases_apart() {
    check_sizes("apsp", &[("nodes", 24), ("block", 8)], 900, 9);
    check_sizes("apsp", &[("nodes", 5), ("block", 5)], 0, 1);
}

#[test]
fn sor_relaxes_across_the_border() {
    check("sor", &[("side", 6), ("iterations", 30)]);
    check("sor", &[("side", 7), ("iterations", 9)]);
}

#[test]
fn astar_reaches_the_target() {
    check("astar", &[("side", 8), ("threshold", 16), ("workers", 4)]);
}

#[test]
fn nqn_finds_all_solutions_or_enough() {
    check("nqn", &[("queens", 7), ("threshold", 3), ("workers", 4)]);
    check("nqn", &[("queens", 8), ("limit", 10)]);
    check("nqn", &[("queens", 3)]);
}

#[test]
fn the_suite_is_complete_and_says_what_can_be_set() {
    let suite = suite();
    assert_eq!(suite.len(), 28);
    for mut one in suite {
        for (key, value) in one.parameters() {
            assert_eq!(one.set(key, &value), Ok(()), "{}: {key}", one.name());
        }
        assert!(matches!(one.set("nonsense", "1"), Err(BadSetting::Unknown { .. })));
    }
    let mut big = benchmark("big", &[]);
    assert!(matches!(big.set("pings", "many"), Err(BadSetting::Value { .. })));
}

#[test]
fn parameters_that_do_not_fit_together_are_refused() {
    let system = System::builder().workers(1).build().expect("threads");
    for (name, key, value) in [
        ("pp", "pings", 0),
        ("thr", "actors", 0),
        ("cham", "creatures", 1),
        ("csll", "writes", 50),
        ("pcbb", "buffer", 40),
        ("btx", "accounts", 9),
        ("uct", "nodes", 10),
        ("rmm", "rows", 100),
        ("apsp", "block", 7),
        ("astar", "side", 1),
        ("nqn", "queens", 21),
    ] {
        let refused = benchmark(name, &[(key, value)]).run(Variant::Port, &system).err();
        assert!(matches!(refused, Some(BadSetting::Impossible { .. })), "{name}: {refused:?}");
    }
}
