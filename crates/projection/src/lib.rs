//! Questions about many entities at once.
//!
//! A [`Projection`] follows the [changes](enact_entities::Changes) of all entities and keeps what these have made of each, in tables
//! ordered by identity and by the indexes that the classes declare. A [`Query`] is answered from them, in pages.
//!
//! # What an answer shows
//! Before it answers, a projection takes up all changes that there are. So an answer has every transaction that was acknowledged before
//! the question came, unless an earlier one at the same entity is not decided yet; and never one that is not certain. Each object of a page
//! is as a transaction has left it; one that cannot have changed as the journal says, which no engine can use, is in none; two pages, and the objects of different shards, may be of different moments.
//!
//! # What it costs
//! Nothing until the first question, which reads the journal once; then each change is applied once more. The tables lie in a file without
//! a name, with 16 MiB of them in memory.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use enact_entities::{Command, Engine, EngineOptions, Rebel};
//! use enact_journal::Memory;
//! use enact_projection::{Projection, Query};
//! use enact_rebel::{Source, Value, check};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = Arc::new(check(vec![Source::new("shop.rebel", "
//!     class Stock
//!       pieces: Integer = 0
//!       index pieces
//!       initial empty
//!         on Fill(by: Integer): filled
//!           post: this.pieces += by
//!       filled
//! ")])?);
//! let fill = spec.class("Stock").and_then(|stock| stock.event("Fill")).ok_or("it is declared")?;
//! let engine = Engine::new(Rebel::new(Arc::clone(&spec)), Memory::new(), EngineOptions::default());
//! let deadline = Duration::from_secs(10);
//! for (name, pieces) in [("tea", 3), ("rice", 20), ("salt", 7)] {
//!     let event = fill.call([("by", Value::Integer(pieces))]).expect("it is a number");
//!     engine.submit(Command { key: format!("Stock/{name}").parse()?, event, then: Vec::new(), idempotency: None, deadline }).await?;
//! }
//!
//! let stock = spec.class("Stock").ok_or("it is declared")?;
//! let projection = Projection::new(engine, None);
//! let query = Query::parse(stock, [("pieces.ge", "5")]).expect("it fits the class");
//! let page = projection.find(&query, None, 100, deadline).await?;
//! let names: Vec<&str> = page.found.iter().map(|object| object.key.id()).collect();
//! assert_eq!(names, ["salt", "rice"], "in the order of the index");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod error;
mod follow;
mod mark;
mod query;
mod scratch;
mod tables;

pub use self::error::ProjectionError;
pub use self::follow::Projection;
pub use self::mark::{Mark, ParseMarkError};
pub use self::query::{Query, QueryError, is_ordered};
pub use self::tables::{Found, Page};
