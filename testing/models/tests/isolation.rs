//! Figure 9 of the paper, found by a search: under `psac` two transactions may be applied in opposite orders.

use enact_entities::Strategy;
use enact_models::isolation::search;

#[test]
fn the_smallest_history_under_psac_that_no_order_explains_has_two_transactions_and_four_events() {
    let found = search(Strategy::Psac, 2).expect("the protocol holds").found.expect("there is one");
    println!("{found}");
    assert_eq!((found.transaction_count(), found.event_count()), (2, 4));
}

#[test]
fn a_serial_order_explains_every_history_of_two_transactions_under_serializable() {
    let search = search(Strategy::Serializable, 2).expect("a serial order explains each history");
    println!("{search}");
    assert!(search.found.is_none() && search.states > 10_000, "{search}");
}
