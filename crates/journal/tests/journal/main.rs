//! The journal through its public interface: its contract, its failures, its limits.

mod attestations;
mod backups;
mod checkpoints;
mod compaction;
mod contract_embedded;
mod contract_memory;
mod contract_sim;
mod damage;
mod directory;
mod feeding;
mod forgetting;
mod group_commit;
mod in_doubt;
mod looking;
mod memory;
mod model;
mod power_cuts;
mod processes;
mod random_damage;
mod salvage;
mod snapshots;
mod subject_keys;
mod tombstones;
mod vanishing;
mod workload;
