//! The contract, kept by the journal in memory.

use enact_journal::Memory;
use enact_journal_kit::contract::{Harness, block_on};

#[derive(Default)]
struct InMemory(Memory);

impl Harness for InMemory {
    type Journal = Memory;

    async fn open(&mut self) -> Memory {
        self.0 = self.0.crash();
        self.0.clone()
    }

    async fn crash(&mut self, journal: Memory) {
        self.0 = journal.crash();
    }
}

enact_journal_kit::contract_tests!(InMemory::default(), block_on);
