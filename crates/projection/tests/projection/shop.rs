//! Things with a value of each kind that has an order.
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{Command, Engine, EngineOptions, Rebel};
use enact_journal::Memory;
use enact_projection::{Page, Projection, Query};
use enact_rebel::{Class, EventCall, Source, Value, check};

pub(crate) const LONG: Duration = Duration::from_secs(600);

const CONTRACT: &str = "
enum Colour { red, green }

class Thing
  number: Integer @identity
  count: Integer = 0
  limit: Integer?
  price: Money = EUR 0.00
  label: String = \"\"
  colour: Colour = Colour.red

  index price
  index label, count
  index limit
  index colour
  index number, count

  initial unmade
    on Set(newCount: Integer, newLimit: Integer?, newPrice: Money, newLabel: String, newColour: Colour): made
      post: this.count = newCount, this.limit = newLimit, this.price = newPrice, this.label = newLabel, this.colour = newColour
  made
    on Set(newCount: Integer, newLimit: Integer?, newPrice: Money, newLabel: String, newColour: Colour)
      post: this.count = newCount, this.limit = newLimit, this.price = newPrice, this.label = newLabel, this.colour = newColour
    on Spoil(): spoilt
  final spoilt

class Box
  initial closed
    on Open(): opened
  opened
";

pub(crate) type Shop = Engine<Rebel, Memory>;

pub(crate) fn shop(journal: &Memory) -> Shop {
    let spec =
        check(vec![Source::new("shop.rebel", CONTRACT)]).unwrap_or_else(|report| panic!("{}", report.render(false)));
    Engine::new(Rebel::new(spec.into()), journal.clone(), EngineOptions::default())
}

pub(crate) fn class(shop: &Shop, name: &str) -> Arc<Class> {
    Arc::clone(shop.model().spec().class(name).expect("it is declared"))
}

/// The event with these arguments, as texts.
pub(crate) fn event(shop: &Shop, of: &str, name: &str, arguments: &[&str]) -> EventCall {
    let class = class(shop, of);
    let event = class.event(name).expect("it is declared");
    let typed = event.params().iter().zip(arguments);
    let typed = typed.map(|(param, text)| (&**param.name(), Value::parse(param.ty(), text).expect("it is one")));
    event.call(typed).expect("they fit")
}

pub(crate) async fn submit(shop: &Shop, key: &str, event: EventCall) {
    let command =
        Command { key: key.parse().expect("a key"), event, then: Vec::new(), idempotency: None, deadline: LONG };
    shop.submit(command).await.unwrap_or_else(|error| panic!("{key}: {error}"));
}

/// The ids of all that fulfil a query, in pages of `limit`.
pub(crate) async fn all(projection: &Projection<Shop>, query: &Query, limit: usize) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let Page { found, next } = projection.find(query, after.clone(), limit, LONG).await.expect("it answers");
        assert!(found.len() <= limit);
        ids.extend(found.into_iter().map(|object| object.key.id().to_owned()));
        // As a client keeps it.
        let Some(next) = next else { return ids };
        let next = Some(next.to_string().parse().expect("it is one"));
        assert_ne!(next, after, "it goes on");
        after = next;
    }
}
