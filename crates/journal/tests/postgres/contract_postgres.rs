//! The contract, kept by the journal over one server.

use enact_journal_kit::contract::block_on;

use crate::support::OverPostgres;

enact_journal_kit::contract_tests!(
    match OverPostgres::new() {
        Some(harness) => harness,
        None => return,
    },
    block_on
);

enact_journal_kit::take_over_tests!(
    match OverPostgres::new() {
        Some(harness) => harness,
        None => return,
    },
    block_on
);
