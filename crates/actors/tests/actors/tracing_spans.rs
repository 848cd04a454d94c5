//! A turn has a span at trace level, and none otherwise.

use std::sync::{Arc, Mutex};

use enact_actors::{Cx, System, actor};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry, reload};

use crate::process::in_a_process_of_its_own;

/// Collects the names of handlers from the spans of turns.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Handler(Option<String>);

impl tracing::field::Visit for Handler {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        if field.name() == "handler" {
            self.0 = Some(value.into());
        }
    }

    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}

impl<S: tracing::Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &tracing::span::Attributes<'_>, _: &tracing::Id, _: Context<'_, S>) {
        let mut handler = Handler(None);
        attributes.record(&mut handler);
        self.0.lock().unwrap().extend(handler.0);
    }
}

struct Traced;

#[actor]
impl Traced {
    fn plain(&self) {}

    async fn cooperative(cx: Cx<Self>) {
        cx.yield_now().await;
    }
}

/// What collects spans hears of every turn of the process.
#[test]
fn each_turn_has_a_span_while_trace_level_is_on() {
    in_a_process_of_its_own("tracing_spans::each_turn_has_a_span_while_trace_level_is_on", || {
        let spans = Spans::default();
        let (filter, level) = reload::Layer::new(LevelFilter::DEBUG);
        tracing::subscriber::set_global_default(Registry::default().with(filter).with(spans.clone())).unwrap();
        let system = System::builder().workers(1).build().unwrap();
        let traced = system.spawn(Traced);
        traced.plain().wait().unwrap();
        assert!(spans.0.lock().unwrap().is_empty());
        level.reload(LevelFilter::TRACE).unwrap();
        traced.plain().wait().unwrap();
        traced.cooperative().wait().unwrap();
        assert_eq!(*spans.0.lock().unwrap(), ["plain", "cooperative", "cooperative"]);
    });
}
