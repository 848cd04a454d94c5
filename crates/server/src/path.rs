//! Where a request leads, by its path.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// What is at a path. The parts of a path are as they were sent, see [`Part::decoded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// `/health`
    Health,
    /// `/health/ready`
    Readiness,
    /// `/metrics`
    Metrics,
    /// `/openapi.json`
    Description,
    /// `/-/batch`
    Batch,
    /// `/-/changes`
    Changes,
    /// `/{Class}`
    Class(Part<'a>),
    /// `/{Class}/{id}`, or `/{Class}/{Event}`
    Pair(Part<'a>, Part<'a>),
    /// `/{Class}/{id}/-/history`
    History(Part<'a>, Part<'a>),
    /// `/{Class}/{id}/-/erase`
    Erasure(Part<'a>, Part<'a>),
    /// `/{Class}/{id}/{Event}`
    Event(Part<'a>, Part<'a>, Part<'a>),
}

/// What stands between two slashes of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<'a>(&'a str);

impl<'a> Place<'a> {
    /// What is at `path`, if anything. Only the last part of a path must not be empty.
    pub(crate) fn at(path: &'a str) -> Option<Self> {
        let mut parts = path.strip_prefix('/')?.split('/');
        let place = match (parts.next()?, parts.next(), parts.next(), parts.next(), parts.next()) {
            ("health", None, ..) => Self::Health,
            ("health", Some("ready"), None, ..) => Self::Readiness,
            ("metrics", None, ..) => Self::Metrics,
            ("openapi.json", None, ..) => Self::Description,
            ("-", Some("batch"), None, ..) => Self::Batch,
            ("-", Some("changes"), None, ..) => Self::Changes,
            (class, Some(id), Some("-"), Some("history"), None) => Self::History(Part(class), Part(id)),
            (class, Some(id), Some("-"), Some("erase"), None) => Self::Erasure(Part(class), Part(id)),
            (class, None, ..) if !class.is_empty() => Self::Class(Part(class)),
            (class, Some(second), None, ..) if !second.is_empty() => Self::Pair(Part(class), Part(second)),
            (class, Some(id), Some(event), None, _) if !event.is_empty() => {
                Self::Event(Part(class), Part(id), Part(event))
            }
            _ => return None,
        };
        Some(place)
    }
}

impl<'a> Part<'a> {
    /// The part without percent-encoding, if that is UTF-8.
    pub(crate) fn decoded(self) -> Option<Cow<'a, str>> {
        percent_decode_str(self.0).decode_utf8().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_what_its_parts_name() {
        let pair = |class, second| Some(Place::Pair(Part(class), Part(second)));
        let event = |class, id, event| Some(Place::Event(Part(class), Part(id), Part(event)));
        for (path, expected) in [
            ("/health", Some(Place::Health)),
            ("/health/ready", Some(Place::Readiness)),
            ("/metrics", Some(Place::Metrics)),
            ("/openapi.json", Some(Place::Description)),
            ("/-/batch", Some(Place::Batch)),
            ("/-/changes", Some(Place::Changes)),
            ("/health/other", pair("health", "other")),
            ("/health/ready/Open", event("health", "ready", "Open")),
            ("/metrics/a", pair("metrics", "a")),
            ("/Account/A", pair("Account", "A")),
            ("/Account/A/Open", event("Account", "A", "Open")),
            ("/Account//Open", event("Account", "", "Open")),
            ("//A", pair("", "A")),
            ("/%68ealth", Some(Place::Class(Part("%68ealth")))),
            ("", None),
            ("*", None),
            ("/", None),
            ("//", None),
            ("/Account", Some(Place::Class(Part("Account")))),
            ("/Account/", None),
            ("/Account//", None),
            ("/Account/A/", None),
            ("/Account/A/Open/", None),
            ("/Account/A/Open/more", None),
            ("/Account/A/-/history", Some(Place::History(Part("Account"), Part("A")))),
            ("/Account/A/-/history/", None),
            ("/Account/A/-/erase", Some(Place::Erasure(Part("Account"), Part("A")))),
            ("/Account/A/-/other", None),
            ("/Account/A/history", event("Account", "A", "history")),
            ("/health/", None),
            ("Account/A", None),
        ] {
            assert_eq!(Place::at(path), expected, "{path}");
        }
    }

    #[test]
    fn a_part_is_decoded_once_and_must_be_utf8() {
        for (sent, expected) in [
            ("A", Some("A")),
            ("%41", Some("A")),
            ("a%2Fb", Some("a/b")),
            ("%2541", Some("%41")),
            ("%", Some("%")),
            ("%ff", None),
        ] {
            assert_eq!(Part(sent).decoded().as_deref(), expected, "{sent}");
        }
    }
}
