//! Code of users that runs where nobody is to be told of its panics.
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`, most often a destructor, and ends its panic here: the panic hook has reported it, and it concerns neither the
/// transaction that happens to run `work` nor the rest of what is to be done.
pub(crate) fn contain(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        // The payload is the user's, too. What its destructor throws is leaked, so that this comes to an end.
        std::mem::forget(catch_unwind(AssertUnwindSafe(|| drop(payload))));
    }
}

/// Drops values one by one, whatever their destructors do.
pub(crate) fn drop_each<T>(values: impl IntoIterator<Item = T>) {
    for value in values {
        contain(|| drop(value));
    }
}
