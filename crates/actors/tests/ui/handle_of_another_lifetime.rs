//! A handle is of its actor's type and of none that is a sub- or supertype: its holder could change the state to a
//! value, or take it to be one, that it is not.
use enact_actors::{Handle, actor};

struct Hook<T> {
    call: T,
}

#[actor]
impl<T: Send + 'static> Hook<T> {
    fn replace(&mut self, call: T) -> T {
        std::mem::replace(&mut self.call, call)
    }
}

fn accept_less(handle: Handle<Hook<fn(&'static str)>>) -> Handle<Hook<fn(&str)>> {
    handle
}

fn promise_less(handle: Handle<Hook<fn(&str)>>) -> Handle<Hook<fn(&'static str)>> {
    handle
}

fn main() {}
