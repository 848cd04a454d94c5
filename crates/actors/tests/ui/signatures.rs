//! What a handler's signature may not be, each with advice at the place.
#![allow(unused_variables)]
use enact_actors::{Cx, actor};

struct Strict;

#[actor]
impl Strict {
    fn consumes(self) {}
    fn boxed(self: Box<Self>) {}
    fn borrows(&self, text: &str) {}
    fn borrows_inside(&self, texts: Vec<&str>) {}
    fn lends(&self) -> &Self {
        self
    }
    fn generic<T: Send>(&self, value: T) {}
    fn lifetime<'a>(&'a self, text: &'a str) {}
    fn opaque_argument(&self, items: impl Iterator<Item = u8>) {}
    fn opaque_answer(&self) -> impl Sized {}
    fn pattern(&self, (left, right): (u8, u8)) {}
    fn cx_late(&self, n: u8, cx: &Cx<Self>) {}
    fn cx_by_value(&self, cx: Cx<Self>) {}
    fn not_async(cx: Cx<Self>) {}
    async fn cx_by_reference(cx: &Cx<Self>) {}
    unsafe fn not_safe(&self) {}
    const fn constant(&self) {}
    fn tell(&self) {}
}

trait Trait {
    fn method(&self);
}

#[actor]
impl Trait for Strict {
    fn method(&self) {}
}

#[actor]
impl dyn Trait {
    fn other(&self) {}
}

fn main() {}
