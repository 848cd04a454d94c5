//! What a transaction means, case by case: the laws of waiting and choosing, bad use, memory, the hooks. A test is named after
//! the case and the rule it shows. Isolation, what comes from Clojure and destructors are in `process`.
mod bad_use;
#[allow(dead_code, reason = "the other program needs more of it")]
mod executor;
mod failing;
mod faults_of_others;
mod forms;
mod hooks;
mod keeping;
mod laws;
mod limits;
mod links;
mod memory;
mod undecided;
mod variables;
mod waiting;
mod watching;
