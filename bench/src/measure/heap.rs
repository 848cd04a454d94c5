//! What a program allocates: counted by its global allocator, which only the program itself can bring along.
use serde::{Deserialize, Serialize};

/// Memory that all threads of a process have asked for in a stretch of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocations {
    /// How often; to grow or to shrink what is there counts once more.
    pub count: u64,
    /// How much in all, in bytes: of what is grown only the growth.
    pub bytes: u64,
}

/// Runs what it is given, and says what the whole process allocated meanwhile.
pub type CountAllocations = fn(&mut dyn FnMut()) -> Allocations;
