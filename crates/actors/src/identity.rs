//! The identity of an actor, in errors, logs and notices.
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::Ordering;

use enact_sync::global;
use enact_sync::unmodelled::{Arc, AtomicU64};

/// Names one actor among all that this process ever creates; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(u64);

impl ActorId {
    pub(crate) fn fresh() -> Self {
        global! {
            // Relaxed: only uniqueness matters.
            pub(crate) static NEXT: AtomicU64 = AtomicU64::new(1);
        }
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number behind the id.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Hashes numbers that are given out one after the other.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Spread over all bits, by the golden ratio: tables look at both ends.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Makes them for tables.
pub(crate) type HashById = BuildHasherDefault<IdHasher>;

/// An actor as people read it: its name and its id, `Counter#12`.
///
/// The name is the one given in the [`Spec`](crate::Spec), or else the actor's type.
///
/// ```
/// # use enact_actors::*;
/// # struct Counter;
/// # #[actor] impl Counter { fn touch(&self) {} }
/// # let system = System::builder().workers(1).build()?;
/// let till = system.spawn(Spec::new(Counter).name("till"));
/// assert_eq!(till.identity().name(), "till");
/// assert_eq!(till.identity().to_string(), format!("till#{}", till.id().get()));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Identity {
    id: ActorId,
    name: Name,
}

const _: () = assert!(size_of::<Identity>() <= 24, "every actor has one");

/// In two words: the function lies where the text's length would.
#[derive(Clone)]
pub(crate) enum Name {
    /// Tells the name of the actor's type.
    Type(fn() -> &'static str),
    Given(Arc<str>),
}

impl Name {
    pub(crate) fn of_type<A>() -> Self {
        Self::Type(type_name::<A>)
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Type(name) => name(),
            Self::Given(name) => name,
        }
    }
}

/// The name of type `A` without the path to it.
fn type_name<A>() -> &'static str {
    let full = std::any::type_name::<A>();
    let head = full.find('<').unwrap_or(full.len());
    full[..head].rfind("::").map_or(full, |at| &full[at + 2..])
}

impl Identity {
    pub(crate) fn new(id: ActorId, name: Name) -> Self {
        Self { id, name }
    }

    /// The actor's id.
    #[must_use]
    pub fn id(&self) -> ActorId {
        self.id
    }

    /// The actor's name; not unique.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Identity {}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name(), self.id.0)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
