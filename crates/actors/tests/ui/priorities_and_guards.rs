//! Where a priority or a guard makes no sense.
#![allow(unused_variables)]
use enact_actors::actor;

struct Strict {
    n: i32,
}

#[actor]
impl Strict {
    #[priority(self.n)]
    fn priority_of_the_state(&self) {}
    #[priority]
    fn no_priority(&self) {}
    #[priority(1)]
    #[priority(2)]
    fn two_priorities(&self) {}
    #[when(*n > 0)]
    fn guard_without_state(&self, n: i32) {}
    #[when(self.n > 0)]
    #[when(self.n < 9)]
    fn two_guards(&self) {}
    #[when()]
    fn no_guard(&self) {}
    #[priority(1)]
    fn no_handler() {}
    #[when(true)]
    fn no_message(n: i32) -> Self {
        Self { n }
    }
}

struct Typed {
    n: i32,
}

#[actor]
impl Typed {
    #[priority("high")]
    fn priority_is_no_number(&self) {}
    #[when(self.n)]
    fn guard_is_no_condition(&self) {}
    #[when({ self.n += 1; true })]
    fn guard_changes_the_state(&self) {}
    #[when(self.n > cx)]
    fn guard_reads_what_it_is_not_given(&self) {}
}

fn main() {}
