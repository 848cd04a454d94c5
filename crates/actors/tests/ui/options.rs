//! What may stand in the attribute.
use enact_actors::actor;

struct Unknown;

#[actor(eager)]
impl Unknown {
    fn message(&self) {}
}

#[derive(Clone)]
struct Twice;

#[actor(speculative, speculative)]
impl Twice {
    fn message(&self) {}
}

struct TwoVisibilities;

#[actor(pub(self), crate = enact_actors, pub(crate))]
impl TwoVisibilities {
    fn message(&self) {}
}

struct NoPath;

#[actor(crate)]
impl NoPath {
    fn message(&self) {}
}

struct Quoted;

#[actor(crate = "enact_actors")]
impl Quoted {
    fn message(&self) {}
}

#[derive(Clone)]
struct Flag;

#[actor(speculative = true)]
impl Flag {
    fn message(&self) {}
}

fn send(handles: (&UnknownRef, &TwiceRef, &NoPathRef, &QuotedRef, &FlagRef)) {
    // There are no errors but those of the options.
    let _ = (handles.0.message(), handles.1.message(), handles.2.message(), handles.3.message(), handles.4.message());
}

fn main() {}
