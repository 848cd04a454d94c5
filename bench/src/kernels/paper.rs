//! What the paper measured.
use super::{Kernel, Variant};

/// Where, and on what.
pub(super) const SOURCE: &str = "paper: M. Andrieux, Safe concurrent abstractions for multicore OCaml, tables 1 to 4, \
     on an Intel i7-1165G7 with 8 threads";

/// Kernels a second. Those of Ackermann's and Syracuse's native function are from the log of the paper's repository.
pub(super) fn rate(kernel: Kernel, variant: Variant) -> Option<f64> {
    use Variant::{Await, Forward, Native, Rayon, Seq, Sync};
    Some(match (kernel, variant) {
        (Kernel::Ackermann, Await) => 267.0,
        (Kernel::Ackermann, Forward) => 348.0,
        (Kernel::Ackermann, Sync) => 6_447.0,
        (Kernel::Ackermann, Native) => 81_585.0,
        (Kernel::Syracuse, Await) => 1_785.0,
        (Kernel::Syracuse, Forward) => 3_879.0,
        (Kernel::Syracuse, Sync) => 46_838.0,
        (Kernel::Syracuse, Native) => 300_769.0,
        (Kernel::Ring, Await) => 4.28,
        (Kernel::Ring, Forward) => 11.8,
        (Kernel::Ring, Sync) => 4.15,
        (Kernel::Matrix, Await) => 8.90,
        (Kernel::Matrix, Seq) => 3.22,
        // There, the parallel loop is one of Domainslib.
        (Kernel::Matrix, Rayon) => 10.0,
        _ => return None,
    })
}
