//! Admission against a decider that knows nothing of fields: what it admits is possible in every outcome of what is in progress and
//! commutes with it, and what it refuses is possible in none.
//!
//! It may make a newcomer wait that the decider would not: how often is told by kind of transaction. `ENACT_SEEDS` says how many
//! scenarios are played (10,000 unless told otherwise), `ENACT_SEED` which one alone.

mod mixes;
mod scenario;

use enact_models::{Judgement, Seeds};
use mixes::Mix;
use scenario::Scenario;

#[test]
fn what_is_admitted_is_possible_in_every_outcome_and_what_is_refused_in_none() {
    let seeds = Seeds::of_environment("decider", 10_000);
    let mixes = Mix::all();
    let seen = seeds.play(|seed| Scenario::play(&mixes[seed as usize % mixes.len()], seed));
    println!("{} scenarios; needlessly delayed is what the decider would not delay", seeds.len());
    println!("{:>28} {:>10} {:>10} {:>10} {:>10} {:>10}", "", "asked", "admitted", "refused", "delayed", "needlessly");
    for mix in &mixes {
        let of_mix = || seen.iter().filter(|(seen, _)| seen.mix == mix.name);
        let count = |judgement| of_mix().filter(|(seen, _)| seen.judgement == judgement).map(|(_, n)| n).sum::<u64>();
        let needless: u64 = of_mix().filter(|(seen, _)| seen.is_needless).map(|(_, n)| n).sum();
        let counts = [Judgement::Admit, Judgement::Reject, Judgement::Delay].map(count);
        let [admitted, refused, delayed] = counts;
        let asked: u64 = counts.iter().sum();
        println!("{:>28} {asked:>10} {admitted:>10} {refused:>10} {delayed:>10} {needless:>10}", mix.name);
        assert!(seeds.is_chosen() || counts.iter().all(|&count| count > 0), "{} shows each judgement", mix.name);
    }
}
