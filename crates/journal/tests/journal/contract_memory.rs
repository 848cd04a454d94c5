//! The contract, kept by the journal in memory.

use enact_journal::Memory;
use enact_journal_kit::contract::{Harness, TakeOver, block_on};

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

impl TakeOver for InMemory {
    async fn take_over(&mut self, earlier: &Memory) -> Memory {
        self.0 = earlier.take_over("another");
        self.0.clone()
    }
}

enact_journal_kit::contract_tests!(InMemory::default(), block_on);
enact_journal_kit::take_over_tests!(InMemory::default(), block_on);
