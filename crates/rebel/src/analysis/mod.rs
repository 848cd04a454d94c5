//! What can be told of events before they happen.

use crate::model::Class;

/// How the verdict on one event depends on another that is still in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// It may depend on it.
    Dynamic,
}

pub(crate) fn with_relations(class: Class) -> Class {
    class
}
