//! The contract, kept by the embedded journal on a simulated disk.

use enact_journal::Embedded;
use enact_journal_kit::contract::{Harness, block_on};
use enact_journal_kit::sim::SimDisk;

struct OnSimDisk {
    disk: SimDisk,
    crash: fn(&SimDisk),
}

impl Harness for OnSimDisk {
    type Journal = Embedded;

    async fn open(&mut self) -> Embedded {
        crate::workload::open(self.disk.mount()).expect("the journal opens")
    }

    async fn crash(&mut self, journal: Embedded) {
        (self.crash)(&self.disk);
        drop(journal);
    }
}

mod power_cut {
    use super::*;

    enact_journal_kit::contract_tests!(OnSimDisk { disk: SimDisk::new(1), crash: SimDisk::power_cut }, block_on);
}

mod power_cut_that_keeps_nothing {
    use super::*;

    fn harness() -> OnSimDisk {
        OnSimDisk { disk: SimDisk::new(2), crash: |disk| disk.power_cut_keeping(|_| false) }
    }

    enact_journal_kit::contract_tests!(harness(), block_on);
}

mod kill {
    use super::*;

    enact_journal_kit::contract_tests!(OnSimDisk { disk: SimDisk::new(3), crash: SimDisk::kill }, block_on);
}
