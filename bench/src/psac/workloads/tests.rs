//! Each oracle accepts what its contract does, and finds a fault that is planted in it.
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::engine::{Decider, EngineError, Engines, Records, Setup, Turn, Work, Workload};

/// What `count` commands came to, where `fault` stands in the contract instead of `sound`.
fn outcome<W: Workload>(workload: &W, count: u64, (sound, fault): (&str, &str)) -> Result<Work, EngineError> {
    assert!(W::CONTRACT.contains(sound), "{sound} is not in the contract");
    let directory = tempfile::tempdir().expect("a place for the test");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let setup = Setup {
        engines: 1,
        delay: Duration::ZERO,
        sync_min: None,
        decider: Decider::default(),
        records: Records::Directories,
    };
    runtime.block_on(async {
        let engines = Engines::start(&W::CONTRACT.replacen(sound, fault, 1), directory.path(), &setup).await?;
        engines.submit_all(workload.opening(&engines)).await?;
        let (mut work, mut draws) = (Work::default(), ChaCha8Rng::seed_from_u64(1));
        for number in 0..count {
            let draw = workload.draw(&engines, Turn { window: 0, client: 0, number }, &mut draws);
            work.take(draw, &engines, workload).await?;
        }
        workload.verify(&engines).await?;
        Ok(work)
    })
}

fn check<W: Workload>(new: impl Fn() -> W, count: u64, faults: &[(&str, &str, &str)]) -> Work {
    for &(sound, fault, found) in faults {
        let error = outcome(&new(), count, (sound, fault)).err();
        let error = error.unwrap_or_else(|| panic!("nobody notices {fault}"));
        assert!(error.to_string().contains(found), "{fault}: {error}");
    }
    outcome(&new(), count, ("class", "class")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn small_bank_finds_money_that_is_lost_or_made() {
    // Few customers have nearly all of the commands, so that some of them are poor.
    let faults = [
        ("to.Deposit(balance + Savings[customer].balance)", "to.Deposit(balance)", "cents, not"),
        ("this.balance -= charge", "this.balance -= amount", "cents, not"),
        ("by: Integer)\n      pre: \"insufficient funds\"", "by: Integer)\n      pre: \"too little\"", "no success"),
    ];
    let work = check(|| SmallBank::new(100, 5.0), 200, &faults);
    assert!(work.done() > 100 && work.refused > 0, "{work:?}");
}

#[test]
fn new_order_finds_numbers_that_repeat_and_stock_that_is_missing() {
    let faults = [
        ("this.nextOrder += 1", "this.nextOrder += 2", "goes on with"),
        ("return: at.nextOrder", "return: at.nextOrder + 1", "goes on with"),
        ("const refill: Integer = 91", "const refill: Integer = 90", "quantity of"),
        ("this.ordered += count", "this.ordered += 1", "ordered of"),
        ("if isRemote then 1 else 0", "1", "remoteOrders of"),
        ("for line in for_: line.supply.", "for line in for_: if not line.isRemote: line.supply.", "ordered of"),
        ("all(line in for_: line.item is sold)", "not all(line in for_: line.item is sold)", "no success"),
    ];
    let work = check(NewOrder::new, 150, &faults);
    assert!(work.refused > 0 && work.done() + work.refused == 150, "{work:?}");
}

#[test]
fn closed_economy_finds_an_update_that_is_lost() {
    let work = check(
        || ClosedEconomy::new(100, 0.99),
        50,
        &[("to.Write(to.balance + 1)", "to.Write(to.balance)", "cents, not")],
    );
    assert_eq!((work.done(), work.refused), (50, 0));
}

#[test]
fn tax_finds_what_was_collected_and_not_paid_and_the_reverse() {
    let faults = [
        ("to.Collect(amount)", "to.Collect(amount + 1)", "cents, not 50"),
        ("this.balance -= amount", "this.balance -= amount + 1", "cents, not"),
    ];
    assert_eq!(check(|| Tax::new(100), 50, &faults).done(), 50);
}

#[test]
fn aborts_finds_a_refusal_with_an_effect_and_one_that_is_missing() {
    let faults = [
        ("balance + amount <= most", "balance <= most", "was not refused"),
        ("balance + amount <= most", "balance > most", "no success"),
        ("to.Receive(amount)", "to.Receive(amount + 1 - 1), to.Receive(0 - 1)", "cents, not"),
    ];
    for (percent, refused) in [(0, 0), (100, 50)] {
        assert_eq!(check(|| Aborts::new(100, percent), 50, &[]).refused, refused);
    }
    let work = check(|| Aborts::new(100, 50), 50, &faults);
    assert!(work.done() > 0 && work.refused > 0, "{work:?}");
}

/// A client that could not be told from another would create what there is already.
#[test]
fn turns_have_names_of_their_own() {
    let turns = [(0, 1, 11), (0, 11, 1), (1, 0, 11), (1, 1, 1), (11, 0, 1)];
    let mut names = turns.map(|(window, client, number)| Turn { window, client, number }.to_string());
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}
