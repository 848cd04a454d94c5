//! Why a benchmark turns out as it does, where that is known of the benchmark itself, whatever the figures.

/// What a reader of its figures should know.
pub(super) fn of(benchmark: &str) -> Option<&'static str> {
    const COMPUTES: &str = "Dominated by computation: the runtime shows only in how evenly it shares the work out";
    const ONE_ALIVE: &str = "One message is on its way at a time, so a second worker cannot help: a library that keeps both actors on one \
                             thread, as actix on one arbiter does, saves the hand-over between threads";
    Some(match benchmark {
        "pp" | "thr" => ONE_ALIVE,
        "count" => "One turn sends all messages: the mailbox grows by what the sender is ahead",
        "fjt" => "A thread outside the runtime sends everything: it competes with the workers for the cores",
        "cham" => "Everybody talks to one actor, which cannot run on two workers: what counts is how cheaply it is fed",
        "fjc" | "uct" => "What counts is how cheaply an actor is made and ended",
        "logm" | "btx" => {
            "Each request is awaited by a turn that keeps its actor: what counts is the price of a future, a promise and a reply"
        }
        "csll" | "fbank" | "trapr" | "piprec" | "rmm" | "qsort" | "astar" | "nqn" => COMPUTES,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::suite;
    use super::*;

    #[test]
    fn reasons_are_of_benchmarks_that_exist() {
        let known = suite().iter().filter(|one| of(one.name()).is_some()).count();
        assert_eq!(known, 17, "a name of a reason is none of the suite's");
        assert_eq!(of("nonsense"), None);
    }
}
