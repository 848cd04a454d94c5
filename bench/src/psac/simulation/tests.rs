//! Laws that the simulation keeps, and cases whose result is known in closed form.

use super::accounts::Rule;
use super::climb::{Load, calibrate};
use super::costs::{Cores, Costs, Forced, Journal, Times};
use super::world::{Outcome, Setup};

const REQUEST_US: f64 = 100.0;
const COORDINATE_US: f64 = 200.0;
const VOTE_US: f64 = 30.0;
const DECIDE_US: f64 = 50.0;
const APPLY_US: f64 = 20.0;
const WRITE_US: f64 = 1_000.0;

/// Fixed times, more cores and writers than anybody asks for, and one shard.
fn costs() -> Costs {
    Costs {
        cores: Cores::EachNode(10_000),
        request_us: REQUEST_US,
        coordinate_us: COORDINATE_US,
        vote_us: VOTE_US,
        decide_us: DECIDE_US,
        apply_us: APPLY_US,
        message_us: 0.0,
        append_us: 0.0,
        journal: Journal::Store { writers: 10_000, write_us: WRITE_US },
        forced: Forced::EveryStep,
        patience_ms: None,
        shards: 1,
        apart_max: 1,
        times: Times::Fixed,
    }
}

fn setup(costs: &Costs) -> Setup<'_> {
    let (nodes, delay_ms, users, accounts) = (1, 0.0, 1, 1_000);
    Setup { costs, nodes, delay_ms, rule: Rule::Psac, users, accounts, seed: 1, warm_up: 500, timed: 5_000 }
}

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{found} is not {expected}");
}

#[test]
fn one_client_waits_for_the_sum_of_all_steps() {
    let costs = costs();
    let us = REQUEST_US + COORDINATE_US + 2.0 * VOTE_US + DECIDE_US + 4.0 * WRITE_US;
    let Outcome { rate, mean_ms, p50_ms, failures, .. } = setup(&costs).run();
    assert_near(mean_ms, us / 1e3, 0.001);
    assert_near(p50_ms, us / 1e3, 0.001);
    assert_near(rate, 1e6 / us, 0.001);
    assert_eq!(failures, 0.0);
}

#[test]
fn one_client_of_several_nodes_waits_for_what_travels_too() {
    // Two shards on two nodes: every other coordinator, and every other account, is elsewhere. A coordinator that is elsewhere takes a message
    // there and one back, an account too, and each of four appends a round trip.
    let costs = Costs { shards: 2, ..costs() };
    let (delay_ms, timed) = (10.0, 10_000);
    let still = REQUEST_US + COORDINATE_US + 2.0 * VOTE_US + DECIDE_US + 4.0 * WRITE_US;
    let travels = (4.0 * 2.0 + 0.5 * 2.0 + 2.0 * 0.5 * 2.0) * delay_ms;
    let found = Setup { nodes: 2, delay_ms, timed, ..setup(&costs) }.run();
    assert_near(found.mean_ms, still / 1e3 + travels, 0.02);
}

/// How long the first account of a transfer is held: two votes, the decision, and the outcome, each durable.
const HELD_US: f64 = VOTE_US + DECIDE_US + APPLY_US + 4.0 * WRITE_US;

fn hot(costs: &Costs, rule: Rule, users: usize) -> f64 {
    Setup { accounts: 2, rule, users, ..setup(costs) }.run().rate
}

#[test]
fn under_locking_a_hot_account_serves_one_transfer_while_it_is_held() {
    assert_near(hot(&costs(), Rule::Locking, 64), 1e6 / HELD_US, 0.01);
}

#[test]
fn with_eight_open_a_hot_account_serves_eight_times_as_many() {
    assert_near(hot(&costs(), Rule::Psac, 256), 8e6 / HELD_US, 0.01);
}

#[test]
fn under_intervals_a_hot_account_holds_nobody_up() {
    let costs = costs();
    let alone = Setup { rule: Rule::Locking, accounts: 2, ..setup(&costs) }.run().rate;
    // All users move in step, and the clock stops in the middle of one.
    assert_near(hot(&costs, Rule::Intervals, 256), 256.0 * alone, 0.05);
}

#[test]
fn full_cores_serve_what_they_can() {
    let costs = Costs { cores: Cores::EachNode(2), ..costs() };
    let us = REQUEST_US + COORDINATE_US + 2.0 * VOTE_US + DECIDE_US + 2.0 * APPLY_US;
    let found = Setup { users: 200, rule: Rule::Intervals, ..setup(&costs) }.run();
    assert_near(found.rate, 2e6 / us, 0.01);
    assert_near(found.cpu, 1.0, 0.01);
}

#[test]
fn cores_that_nodes_share_serve_no_more_than_those_of_one() {
    let full = |cores, nodes| {
        let costs = Costs { cores, shards: 16, ..costs() };
        Setup { nodes, users: 400, rule: Rule::Intervals, ..setup(&costs) }.run().rate
    };
    assert_near(full(Cores::Shared(2), 4), full(Cores::EachNode(2), 1), 0.01);
    assert!(full(Cores::EachNode(2), 4) > 3.0 * full(Cores::Shared(2), 4));
}

#[test]
fn a_group_takes_all_records_that_wait_in_its_shard() {
    let costs = Costs { journal: Journal::Groups { write_us: WRITE_US }, ..costs() };
    let one = setup(&costs).run().rate;
    // One shard, so each write may carry a record of everybody.
    let many = Setup { users: 64, accounts: 5_000, ..setup(&costs) }.run();
    assert!(many.rate > 20.0 * one, "{one} and {many:?}");
    assert!(many.rate < 64.0 * one, "what waits for the next group takes longer: {one} and {many:?}");
}

#[test]
fn votes_in_the_shard_of_the_coordinator_need_not_be_forced() {
    let costs = Costs { forced: Forced::VotesElsewhere, ..costs() };
    let us = REQUEST_US + COORDINATE_US + 2.0 * VOTE_US + DECIDE_US + WRITE_US;
    assert_near(setup(&costs).run().mean_ms, us / 1e3, 0.001);
}

/// Many users, several nodes, times that vary, and accounts that are wanted by several at once.
fn busy(costs: &Costs, rule: Rule, seed: u64) -> Setup<'_> {
    Setup { nodes: 5, delay_ms: 0.5, users: 100, accounts: 50, rule, seed, ..setup(costs) }
}

#[test]
fn users_are_as_many_as_the_rate_times_the_latency() {
    let costs = Costs { cores: Cores::EachNode(4), ..Costs::measured() };
    for (rule, seed) in [(Rule::Locking, 1), (Rule::Psac, 2), (Rule::Intervals, 3)] {
        let found = Setup { timed: 10_000, ..busy(&costs, rule, seed) }.run();
        // Little's law; nobody gives up.
        assert_near(found.rate * found.mean_ms / 1e3, 100.0, 0.03);
    }
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_one_others() {
    let costs = Costs::of_the_paper(1.0);
    let outcome = |seed| busy(&costs, Rule::Psac, seed).run();
    assert_eq!(outcome(7), outcome(7));
    assert_ne!(outcome(7), outcome(8));
}

/// The oracle is part of every run: that each transfer ends once, that nothing stays open, and that money is conserved.
#[test]
fn transfers_that_are_given_up_end_once_and_leave_nothing_open() {
    for seed in 0..2 {
        for (rule, forced) in [(Rule::Locking, Forced::EveryStep), (Rule::Psac, Forced::VotesElsewhere)] {
            let patient = Costs { patience_ms: None, forced, ..Costs::of_the_paper(1.0) };
            let hasty = Costs { patience_ms: Some(30.0), ..patient.clone() };
            let outcome = |costs| Setup { users: 200, timed: 1_000, ..busy(costs, rule, seed) }.run();
            assert_eq!(outcome(&patient).failures, 0.0, "seed {seed}");
            assert!(outcome(&hasty).failures > 0.0, "seed {seed}: {rule} made nobody wait");
        }
    }
}

#[test]
fn the_load_is_stepped_up_to_where_more_users_bring_no_more() {
    let costs = Costs { cores: Cores::EachNode(1), ..costs() };
    let load = Load { factor: 2.0, users_max: 4_096, rounds: 1, transfers: 1_000, seed: 1 };
    let peak = load.climb(&Setup { rule: Rule::Intervals, ..setup(&costs) });
    let us = REQUEST_US + COORDINATE_US + 2.0 * VOTE_US + DECIDE_US + 2.0 * APPLY_US;
    assert_near(peak.outcome.rate, 1e6 / us, 0.02);
    assert!(peak.users < 128, "{peak:?}");
    let few = Load { users_max: 4, ..load }.climb(&Setup { rule: Rule::Intervals, ..setup(&costs) });
    assert_eq!(few.users, 16, "the first step is always taken");
}

#[test]
fn the_factor_is_found_with_which_a_rate_is_reached() {
    assert_near(calibrate(491.0, |factor| 982.0 / factor + 3.0), 982.0 / 488.0, 0.01);
}
