//! Who makes a step happen, as far as the specification may know it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::value::Name;

/// The id and the only role of the caller of timed events.
const SYSTEM: &str = "system";

/// The caller of a step: an id and the roles that it has.
///
/// A caller is that of the whole step: the calls that an event makes carry the one of the event. Equal callers have the
/// same id and the same roles. It is journaled with the call; one that is read from a journal is taken as it was
/// written.
///
/// ```
/// use enact_rebel::Caller;
/// let alice = Caller::new("alice", ["teller", "auditor", "teller"]).unwrap();
/// assert_eq!(alice.roles().join(", "), "auditor, teller");
/// assert!(alice.has("teller") && !alice.has("system"));
/// assert!(Caller::new("system", []).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    id: Name,
    roles: Arc<[Name]>,
}

/// Why there is no such [`Caller`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum CallerError {
    /// The id is that of timed events.
    #[error("the id `{SYSTEM}` is that of timed events and of nobody else: choose another one")]
    SystemId,
    /// One of the roles is that of timed events.
    #[error("the role `{SYSTEM}` is that of timed events and of nobody else: leave it out")]
    SystemRole,
}

impl Caller {
    /// A caller from outside. The roles may come in any order and more than once.
    ///
    /// # Errors
    /// [`CallerError`]: the id or a role is `system`, which nobody from outside is.
    pub fn new<'a>(id: &str, roles: impl IntoIterator<Item = &'a str>) -> Result<Self, CallerError> {
        let mut roles: Vec<Name> = roles.into_iter().map(Name::from).collect();
        roles.sort();
        roles.dedup();
        if id == SYSTEM {
            return Err(CallerError::SystemId);
        }
        if roles.iter().any(|role| **role == *SYSTEM) {
            return Err(CallerError::SystemRole);
        }
        Ok(Self { id: id.into(), roles: roles.into() })
    }

    /// The caller of timed events: the id is `system`, and so is the only role.
    #[must_use]
    pub fn system() -> Self {
        Self { id: SYSTEM.into(), roles: Arc::new([SYSTEM.into()]) }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &Name {
        &self.id
    }

    /// Its roles, each once, in the order of their names.
    #[must_use]
    pub fn roles(&self) -> &[Name] {
        &self.roles
    }

    /// Whether it has `role`.
    #[must_use]
    pub fn has(&self, role: &str) -> bool {
        self.roles.iter().any(|has| **has == *role)
    }
}
