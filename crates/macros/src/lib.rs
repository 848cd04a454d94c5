//! The procedural macros of Enact.
#![forbid(unsafe_code)]

mod actor;
mod choosing;
mod handle;
mod handler;
mod word;

use proc_macro::TokenStream;

/// Makes a type an actor: each method of the impl block becomes a message, and a handle with the same methods is
/// generated.
///
/// For `impl Counter`, the handle is `CounterRef`. A method with a receiver, or whose first argument is `cx: Cx<Self>`,
/// is a *handler*; other functions (such as `new`) stay what they are. Methods that are no messages belong in an
/// ordinary impl block of the type. A type has one block with this attribute, which holds all its messages.
///
/// | handler | turn |
/// |---|---|
/// | `fn m(&mut self, ..) -> T`, or `&self` | runs to completion |
/// | `async fn m(&mut self, ..) -> T` | keeps the actor while it waits |
/// | `async fn m(cx: Cx<Self>, ..) -> T` | lets the actor take other messages while it waits |
/// | `.. -> Forward<T>`, so written | answers with a `T`, or has somebody else answer |
///
/// The attribute knows `Cx` and `Forward` by their names: an alias of theirs is a type like any other.
///
/// A handler with `self` may take `cx: &Cx<Self>` next. Other arguments are owned and `Send`; the answer, too. An
/// `async` handler that keeps the actor takes `&mut self`; with `&self`, the type must also be `Sync`.
///
/// Documentation, visibility, `#[cfg]` and `#[deprecated]` of a handler carry over to the handle's method. The handle is
/// as visible as the most visible handler; say `#[actor(pub)]`, `#[actor(pub(crate))]` or `#[actor(pub(self))]` to set
/// it, which must be the visibility of the type itself. Further options follow, separated by commas.
///
/// `#[actor(speculative)]` makes the actor take up messages of transactions that are still open, on a copy of its state. Other
/// actors wait for the decision; the outcome is the same. The type is `Clone` and `Sync`. The copy is made when a turn first
/// needs `&mut self`; what a turn changes through `&self` is not undone. So a `Cell` or a `RefCell` in the state does not
/// compile. The compiler does not see that atomics, `Mutex`, `RwLock`, `OnceLock` and whatever an `Arc` shares change
/// through `&self`, too: keep them for what may survive a turn that has never been, such as counts of attempts.
///
/// The generated code names `enact-actors` or `enact` as the manifest of your crate does. A crate that reaches them through
/// another one says where one of the two is, as a path: `#[actor(crate = my_facade::enact)]`.
///
/// Inside the impl block, handlers are still ordinary functions: a synchronous call on oneself is a method call.
///
/// # Priorities
/// `#[priority(EXPR)]` gives each message of a handler a priority, an `i32`. The sender evaluates the expression, over
/// references to the arguments. All other messages have 0, and so have what the actor owes itself, such as timers, and
/// turns that go on after an `.await` beside which others run.
///
/// Before each turn, the actor looks at all that waits, and takes up the message of the *highest* priority; of several
/// the one that came first. Messages of one sender keep their order only within a priority. Nothing keeps a message of
/// low priority from waiting for ever. A `kill` overtakes all; a `stop` comes after all. If the message that is the
/// next one belongs to a transaction that is still open, and the actor is not speculative, it waits for the decision,
/// also before those that come meanwhile.
///
/// ```
/// # use enact_actors::{Promise, Resolver, System, actor};
/// #[derive(Default)]
/// struct Surgery {
///     treated: Vec<String>,
/// }
///
/// #[actor]
/// impl Surgery {
///     #[priority(i32::from(*severity))]
///     fn treat(&mut self, severity: u8, name: String) {
///         self.treated.push(name);
///     }
///     /// Comes first, and keeps the others waiting until the morning.
///     #[priority(i32::MAX)]
///     async fn open_at(&mut self, asleep: Resolver<()>, morning: Promise<()>) {
///         asleep.resolve(());
///         morning.await.unwrap();
///     }
///     #[priority(-1)]
///     fn treated(&self) -> Vec<String> {
///         self.treated.clone()
///     }
/// }
///
/// let system = System::builder().workers(1).build()?;
/// let surgery = system.spawn(Surgery::default());
/// let ((sleeps, asleep), (morning, comes)) = (Promise::pair(), Promise::pair());
/// let opens = surgery.open_at(asleep, morning);
/// sleeps.wait().unwrap();
/// surgery.tell().treat(0, "cold".into());
/// surgery.tell().treat(9, "heart".into());
/// surgery.tell().treat(9, "stroke".into());
/// let treated = surgery.treated();
/// comes.resolve(());
/// assert_eq!(opens.wait(), Ok(()));
/// assert_eq!(treated.wait().unwrap(), ["heart", "stroke", "cold"]);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Guards
/// `#[when(EXPR)]` says in which states messages of a handler can be taken up. The actor evaluates the expression over
/// `self`, shared, and references to the arguments, when the message is the next one. While it is false, the message is
/// set aside, and others overtake it. After each turn, which may have changed the state, it is looked at again: before
/// newer messages of its priority, and in order of arrival among those that are set aside. A guard depends on nothing
/// else: what changes it is a turn of the actor.
///
/// A message that is set aside still counts in a bounded mailbox, which must have room for one that changes the state.
/// It survives a restart. It fails with `Stopped` when the actor ends: after a `stop` as soon as no message is left
/// that can be taken up, and without handles as
/// soon as nothing else keeps it. If the guard panics, the message fails, and the actor with it, as
/// if its turn had. A message of an open transaction is looked at when that has committed; a speculative actor, too,
/// waits for it. `cx.wait_for` waits in the middle of a turn instead.
///
/// A guard that does not read arguments is cheap however many messages wait: one of them is asked for all. Otherwise
/// each message of the handler that is set aside is asked after each turn.
///
/// ```
/// # use enact_actors::{System, actor};
/// struct Buffer {
///     items: Vec<u32>,
///     room: usize,
/// }
///
/// #[actor]
/// impl Buffer {
///     #[when(self.items.len() < self.room)]
///     fn put(&mut self, item: u32) {
///         self.items.push(item);
///     }
///     #[when(!self.items.is_empty())]
///     fn take(&mut self) -> u32 {
///         self.items.remove(0)
///     }
///     #[when(self.items.len() >= *count)]
///     fn peek(&self, count: usize) -> Vec<u32> {
///         self.items[..count].to_vec()
///     }
/// }
///
/// let system = System::builder().workers(2).build()?;
/// let buffer = system.spawn(Buffer { items: Vec::new(), room: 2 });
/// let taken = buffer.take();
/// let two = buffer.peek(2);
/// for item in [1, 2, 3] {
///     buffer.tell().put(item);
/// }
/// assert_eq!((taken.wait(), two.wait()), (Ok(1), Ok(vec![2, 3])));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # All kinds of turns
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

/// Lets a `TCell` hold a newtype: implements `Word` for a struct with one field, which is a
/// `Word` itself.
///
/// ```
/// use enact_stm::{TCell, Word, atomically};
///
/// #[derive(Debug, Clone, Copy, PartialEq, Word)]
/// struct Seat {
///     number: u16,
/// }
///
/// let next = TCell::new(Seat { number: 7 });
/// let taken = atomically(|tx| tx.read(&next)).run();
/// assert_eq!(taken, Seat { number: 7 });
/// ```
#[proc_macro_derive(Word)]
pub fn word(item: TokenStream) -> TokenStream {
    word::expand(item.into()).into()
}
