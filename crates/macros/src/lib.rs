//! The procedural macros of Enact.
#![forbid(unsafe_code)]

mod actor;
mod handle;
mod handler;

use proc_macro::TokenStream;

/// Makes a type an actor: each method of the impl block becomes a message, and a handle with the same methods is
/// generated.
///
/// For `impl Counter`, the handle is `CounterRef`. A method with a receiver, or whose first argument is `cx: Cx<Self>`,
/// is a *handler*; other functions (such as `new`) stay what they are. Methods that are no messages belong in an
/// ordinary impl block of the type.
///
/// | handler | turn |
/// |---|---|
/// | `fn m(&mut self, ..) -> T`, or `&self` | runs to completion |
/// | `async fn m(&mut self, ..) -> T` | keeps the actor while it waits |
/// | `async fn m(cx: Cx<Self>, ..) -> T` | lets the actor take other messages while it waits |
/// | `.. -> Forward<T>`, so written | answers with a `T`, or has somebody else answer |
///
/// A handler with `self` may take `cx: &Cx<Self>` next. Other arguments are owned and `Send`; the answer, too. An
/// `async` handler that keeps the actor takes `&mut self`; with `&self`, the type must also be `Sync`.
///
/// Documentation, visibility, `#[cfg]` and `#[deprecated]` of a handler carry over to the handle's method. The handle is
/// as visible as the most visible handler; say `#[actor(pub)]`, `#[actor(pub(crate))]` or `#[actor(pub(self))]` to set
/// it, which must be the visibility of the type itself.
///
/// `#[actor(speculative)]`, or `#[actor(pub, speculative)]`, has the actor take up messages of transactions that are still
/// open, on a copy of its state: the type is `Clone`. Other actors wait for the decision; the outcome is the same.
///
/// Inside the impl block, handlers are still ordinary functions: a synchronous call on oneself is a method call.
///
/// ```
/// use enact_actors::{Cx, Forward, System, actor};
///
/// struct Counter {
///     n: i64,
/// }
///
/// #[actor]
/// impl Counter {
///     /// Adds `k`.
///     fn add(&mut self, k: i64) {
///         self.n += k;
///     }
///     fn value(&self) -> i64 {
///         self.n
///     }
///     fn ask(&mut self, cx: &Cx<Self>, other: CounterRef) -> Forward<i64> {
///         other.forward(cx).value()
///     }
///     async fn held(&mut self, other: CounterRef) -> i64 {
///         other.value().await.unwrap_or(0) + self.n
///     }
///     async fn open(cx: Cx<Self>, other: CounterRef) -> i64 {
///         let theirs = other.value().await.unwrap_or(0);
///         cx.with(|counter| counter.n + theirs)
///     }
/// }
///
/// let system = System::builder().workers(2).build()?;
/// let (a, b) = (system.spawn(Counter { n: 1 }), system.spawn(Counter { n: 10 }));
/// a.tell().add(1);
/// assert_eq!(a.ask(b.clone()).wait(), Ok(10));
/// assert_eq!(a.held(b.clone()).wait(), Ok(12));
/// assert_eq!(a.open(b).wait(), Ok(12));
/// # Ok::<(), std::io::Error>(())
/// ```
#[proc_macro_attribute]
pub fn actor(options: TokenStream, item: TokenStream) -> TokenStream {
    actor::expand(options.into(), &item.into()).into()
}
