//! What a specification may be at most. Every limit is refused with a diagnostic or a fault, never with a panic.

/// Bytes of one source.
pub const SOURCE_BYTES_MAX: usize = 16 << 20;

/// How deep expressions, types and calls nest, calls of functions included.
pub const DEPTH_MAX: usize = 256;

/// Declarations of one specification: classes, fields, invariants, states, events, parameters, variants, constants,
/// functions, guards, effects and calls.
pub const DECLARATIONS_MAX: usize = 1_000_000;

/// Classes that one class extends, those included that these extend.
pub const EXTENDED_MAX: usize = 16;

/// Events of one class that have a table of [`Relation`](crate::Relation)s, with a cell for every pair. A class with more has
/// none, which is said as a warning.
pub const RELATED_EVENTS_MAX: usize = 256;

/// Evaluation steps of one call of the interpreter; an element of a set that is copied or visited is a step.
pub const FUEL: u32 = 1_000_000;

/// Variants of one event in one state.
pub const VARIANTS_MAX: usize = 64;

/// Values that one identity consists of, those of instances that it refers to included.
pub const KEY_FIELDS_MAX: usize = 16;

/// Elements of one range.
pub const ELEMENTS_MAX: usize = 10_000;

/// Elements of one list, set or map.
pub const COLLECTION_MAX: usize = 10_000;

/// Bytes of a text that an operation makes.
pub const TEXT_BYTES_MAX: usize = 65_536;

/// Touches of other events in one [footprint](crate::footprint::Footprint), of those that it calls and asks about.
pub const FOOTPRINT_MAX: usize = 1_000;

/// Events of one step, the first one and all that are called.
pub const ACTS_MAX: usize = 10_000;

/// Instances that one step touches or asks.
pub const INSTANCES_MAX: usize = 1_000;

/// Diagnostics that are reported; the rest is counted.
pub const DIAGNOSTICS_MAX: usize = 200;

/// Timers of one state.
pub const TIMERS_MAX: usize = 64;

/// Due events that come before one step.
pub const DUE_MAX: usize = 100;
