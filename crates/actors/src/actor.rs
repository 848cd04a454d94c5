//! What makes a type an actor.
use std::ops::Deref;

use enact_stm::Tx;

use crate::{Handle, Spec, scheduler};

/// A type whose values live as actors; implemented by [`#[actor]`](macro@crate::actor).
pub trait Actor: Sized + Send + 'static {
    /// The typed handle of these actors.
    type Ref: From<Handle<Self>> + Deref<Target = Handle<Self>> + Clone + Send + Sync + 'static;

    /// How to copy the state for a tentative turn; none unless the actor is speculative.
    #[doc(hidden)]
    const COPY: Option<fn(&Self) -> Self> = None;

    /// Whether messages have priorities.
    #[doc(hidden)]
    const HAS_PRIORITIES: bool = false;

    /// Makes this value an actor of the system in whose turn it is called, as a child of the actor whose turn it is.
    ///
    /// # Panics
    /// Outside a turn; use [`System::spawn`](crate::System::spawn) there.
    ///
    /// ```
    /// # use enact_actors::*;
    /// struct Leaf(u64);
    /// #[actor]
    /// impl Leaf {
    ///     fn value(&self) -> u64 {
    ///         self.0
    ///     }
    /// }
    /// struct Tree;
    /// #[actor]
    /// impl Tree {
    ///     fn grow(&mut self, n: u64) -> LeafRef {
    ///         Leaf(n).spawn()
    ///     }
    /// }
    /// let system = System::builder().workers(1).build()?;
    /// let leaf = system.spawn(Tree).grow(3).wait().unwrap();
    /// assert_eq!(leaf.value().wait(), Ok(3));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    fn spawn(self) -> Self::Ref {
        let parent = crate::frame::current()
            .expect("`Actor::spawn` is called in a turn of an actor; elsewhere, use `System::spawn`");
        scheduler::spawn(parent.scheduler(), Spec::new(self), Some(&parent))
    }

    /// As [`spawn`](Self::spawn), if `tx` commits: see [`Cx::spawn_within`](crate::Cx::spawn_within).
    ///
    /// # Panics
    /// Outside a turn; use [`System::spawn_within`](crate::System::spawn_within) there.
    fn spawn_within(self, tx: &mut Tx<'_, '_>) -> Self::Ref {
        let parent = crate::frame::current()
            .expect("`Actor::spawn_within` is called in a turn of an actor; elsewhere, use `System::spawn_within`");
        scheduler::spawn_within(tx, parent.scheduler(), Spec::new(self), Some(&parent))
    }
}

/// A state that a tentative turn can be undone on, because it changes through `&mut self` only: the turn then works on a
/// copy. Types that change behind `&self` and are `Sync` all the same, such as atomics and locks, cannot be told from others.
#[diagnostic::on_unimplemented(
    message = "a speculative actor is `Sync`: what `{Self}` changes through `&self` could not be undone",
    label = "`{Self}` is not `Sync`",
    note = "a tentative turn is undone by giving up the copy that it has made of the state when it first needed `&mut self`",
    note = "instead of a `Cell` or `RefCell`, take a plain field and change it in handlers with `&mut self`; add `+ Sync` to \
            trait objects"
)]
pub trait Restorable {}

#[diagnostic::do_not_recommend]
impl<A: Sync> Restorable for A {}

/// How a speculative actor is copied.
pub fn copy<A: Clone + Restorable>(state: &A) -> A {
    state.clone()
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
pub(crate) mod tests {
    use super::*;

    /// An actor without messages of its own.
    pub(crate) struct Bare;

    #[derive(Clone)]
    pub(crate) struct BareRef(Handle<Bare>);

    impl Actor for Bare {
        type Ref = BareRef;
    }

    impl From<Handle<Bare>> for BareRef {
        fn from(handle: Handle<Bare>) -> Self {
            Self(handle)
        }
    }

    impl Deref for BareRef {
        type Target = Handle<Bare>;

        fn deref(&self) -> &Handle<Bare> {
            &self.0
        }
    }
}
