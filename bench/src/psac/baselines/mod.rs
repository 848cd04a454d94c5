//! What the layers below a transaction cost, each with the one before it: HTTP answers, a fresh actor for each request, an actor out of
//! many that are kept, and an object of an engine whose record is forced before the answer.
//!
//! A node has a listener, an actor system and an engine of its own; nodes share nothing but the machine. Each client has a connection to
//! one node, and asks for one of its counters, drawn uniformly. The other experiments have no HTTP in them.
//!
//! # Oracle
//! A fresh actor has counted to one. Kept actors and objects have counted what was acknowledged.
//!
//! # Source
//! *Path-Sensitive Atomic Commit*, section 5: Bare, Simple, Sharding and Persistence.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::http::StatusCode;
use axum::routing::post;
use enact::actors::ActorError;
use enact::{Cx, System, actor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::cost::serve_on;
use crate::engine::{EngineError, Engines, Setup, Window, Windows, Work};
use crate::served::{BenchError, Client};

/// How long the actors of a node may take to end.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);
/// Counters of a node.
const COUNTERS: usize = 1_000;
const CONTRACT: &str = include_str!("counter.rebel");

/// How far down a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// HTTP answers.
    Bare,
    /// And a fresh actor.
    Simple,
    /// And one of many that are kept instead.
    Sharded,
    /// And an object whose record is forced.
    Persistent,
}

impl Layer {
    fn path(self) -> &'static str {
        match self {
            Self::Bare => "/bare",
            Self::Simple => "/simple",
            Self::Sharded => "/sharded",
            Self::Persistent => "/persistent",
        }
    }

    /// Runs every window on new nodes, and verifies what they have counted in the end.
    ///
    /// # Errors
    /// [`EngineError`] when a request has no success, or the oracle refuses the result.
    pub(super) async fn run(self, windows: &Windows<'_>) -> Result<Vec<Window>, EngineError> {
        let mut nodes = Vec::new();
        for number in 0..windows.setup.engines {
            nodes.push(Running::start(self, &windows.directory.join(number.to_string()), &windows.setup).await?);
        }
        let acknowledged = Arc::new(AtomicU64::new(0));
        let mut all = Vec::new();
        for &clients in windows.clients {
            let ask = |client: u32, over| {
                let address = nodes[client as usize % nodes.len()].address;
                ask(self, address, client, over, Arc::clone(&acknowledged))
            };
            all.push(Window::run(clients, windows.length, ask).await?);
        }
        let mut counted = 0;
        for node in &nodes {
            counted += node.counted().await?;
            node.stop().await?;
        }
        // The clients have been joined.
        let expected = acknowledged.load(Ordering::Relaxed);
        self.accept(counted, expected)?;
        Ok(all)
    }
}

impl Layer {
    /// Accepts what the counters say, if there are any that are kept, where so many requests were acknowledged.
    fn accept(self, counted: u64, acknowledged: u64) -> Result<(), EngineError> {
        let is_right = match self {
            Self::Bare | Self::Simple => counted == 0,
            Self::Sharded | Self::Persistent => counted == acknowledged,
        };
        let wrong = || EngineError::Wrong(format!("the counters say {counted}, not {acknowledged}"));
        if is_right { Ok(()) } else { Err(wrong()) }
    }
}

/// Asks for one counter after the other until the window is over.
async fn ask(
    layer: Layer,
    address: SocketAddr,
    client: u32,
    over: Instant,
    acknowledged: Arc<AtomicU64>,
) -> Result<Work, EngineError> {
    let mut connection = Client::connect(address).await.map_err(refused)?;
    let mut draws = ChaCha8Rng::seed_from_u64(u64::from(client));
    let mut work = Work::default();
    while Instant::now() < over {
        work.begin_turn();
        let path = format!("{}/{}", layer.path(), draws.random_range(0..COUNTERS));
        let begun = Instant::now();
        let (status, _, body) = connection.exchange(&path, "").await.map_err(refused)?;
        if status != 200 || layer == Layer::Simple && body != "1" {
            return Err(EngineError::Wrong(format!("{path} was answered with {status}: {body}")));
        }
        work.note(begun);
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    Ok(work)
}

fn refused(failed: BenchError) -> EngineError {
    EngineError::System { what: "a request".to_owned(), source: io::Error::other(failed) }
}

struct Counter {
    count: u64,
}

#[actor]
impl Counter {
    fn count(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn count_and_stop(&mut self, cx: &Cx<Self>) -> u64 {
        cx.stop();
        self.count()
    }

    fn counted(&self) -> u64 {
        self.count
    }
}

/// What requests reach. A layer has what it needs.
struct Node {
    system: System,
    kept: HashMap<String, CounterRef>,
    objects: Option<Engines>,
}

/// A node that listens, until this is dropped.
struct Running {
    node: Arc<Node>,
    address: SocketAddr,
    server: JoinHandle<io::Result<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn names() -> impl Iterator<Item = String> {
    (0..COUNTERS).map(|number| number.to_string())
}

impl Running {
    async fn start(layer: Layer, directory: &Path, setup: &Setup) -> Result<Self, EngineError> {
        let failed = |source| EngineError::System { what: "a node".to_owned(), source };
        let system = System::builder().build().map_err(failed)?;
        let kept = match layer {
            Layer::Sharded => names().map(|name| (name, system.spawn(Counter { count: 0 }))).collect(),
            Layer::Bare | Layer::Simple | Layer::Persistent => HashMap::new(),
        };
        let objects = match layer {
            Layer::Persistent => {
                let engines = Engines::start(CONTRACT, directory, &Setup { engines: 1, ..setup.clone() }).await?;
                let begin = names().map(|name| engines.request("Counter", &name, "Begin", &[])).collect();
                engines.submit_all(begin).await?;
                Some(engines)
            }
            Layer::Bare | Layer::Simple | Layer::Sharded => None,
        };
        let node = Arc::new(Node { system, kept, objects });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let server = tokio::spawn(serve_on(listener, router(Arc::clone(&node))));
        Ok(Self { node, address, server })
    }

    /// What all counters say.
    async fn counted(&self) -> Result<u64, EngineError> {
        let mut counted = 0;
        for counter in self.node.kept.values() {
            let died = |error: ActorError| EngineError::Wrong(format!("a counter died: {error}"));
            counted += counter.counted().await.map_err(died)?;
        }
        if let Some(engines) = &self.node.objects {
            let sum = engines.sum("Counter", &names().collect::<Vec<_>>(), "count").await?;
            counted += u64::try_from(sum).map_err(|_| EngineError::Wrong(format!("the counters say {sum}")))?;
        }
        Ok(counted)
    }

    async fn stop(&self) -> Result<(), EngineError> {
        if let Some(engines) = &self.node.objects {
            engines.stop().await?;
        }
        // What has not ended by then has nothing to do any more.
        drop(self.node.system.shutdown(STOP_TIME_MAX).await);
        Ok(())
    }
}

fn router(node: Arc<Node>) -> Router {
    Router::new()
        .route("/bare/{counter}", post(async || "0"))
        .route("/simple/{counter}", post(simple))
        .route("/sharded/{counter}", post(sharded))
        .route("/persistent/{counter}", post(persistent))
        .with_state(node)
}

type Answer = Result<String, StatusCode>;

async fn simple(State(node): State<Arc<Node>>) -> Answer {
    told(node.system.spawn(Counter { count: 0 }).count_and_stop().await)
}

async fn sharded(State(node): State<Arc<Node>>, UrlPath(counter): UrlPath<String>) -> Answer {
    told(node.kept.get(&counter).ok_or(StatusCode::NOT_FOUND)?.count().await)
}

async fn persistent(State(node): State<Arc<Node>>, UrlPath(counter): UrlPath<String>) -> Answer {
    let engines = node.objects.as_ref().ok_or(StatusCode::NOT_FOUND)?;
    let counted = engines.submit(&engines.request("Counter", &counter, "Count", &[])).await;
    counted.map(|receipt| receipt.state.unwrap_or_default()).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
}

fn told(count: Result<u64, ActorError>) -> Answer {
    count.map(|count| count.to_string()).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Decider, Records};

    const LAYERS: [Layer; 4] = [Layer::Bare, Layer::Simple, Layer::Sharded, Layer::Persistent];

    fn setup(engines: usize) -> Setup {
        Setup {
            engines,
            delay: Duration::ZERO,
            sync_min: None,
            decider: Decider::default(),
            records: Records::Directories,
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_layer_answers_on_one_node_and_on_three_and_counts_what_it_acknowledges() {
        for engines in [1, 3] {
            for layer in LAYERS {
                let directory = tempfile::tempdir().expect("a place for the test");
                let length = Duration::from_millis(100);
                let windows = Windows { directory: directory.path(), setup: setup(engines), clients: &[1, 4], length };
                let windows = layer.run(&windows).await.expect("it counts");
                assert_eq!(windows.len(), 2);
                assert!(windows.iter().all(|window| window.work.done() > 0), "{layer:?}: {windows:?}");
            }
        }
    }

    /// That the counter is kept is what tells these layers from the one before.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_counter_is_fresh_or_kept_and_an_object_is_in_the_journal_when_it_is_answered() {
        let directory = tempfile::tempdir().expect("a place for the test");
        let mut answers = Vec::new();
        for layer in LAYERS {
            let journal = directory.path().join(layer.path().trim_start_matches('/'));
            let running = Running::start(layer, &journal, &setup(1)).await.expect("it starts");
            let mut client = Client::connect(running.address).await.expect("it listens");
            for _ in 0..2 {
                let (status, _, body) = client.exchange(&format!("{}/7", layer.path()), "").await.expect("it answers");
                answers.push((status, body.to_owned()));
            }
            let counted = running.counted().await.expect("they count");
            assert_eq!(counted, if layer == Layer::Sharded || layer == Layer::Persistent { 2 } else { 0 }, "{layer:?}");
            assert_eq!(journal.exists(), layer == Layer::Persistent, "{layer:?}");
            running.stop().await.expect("it stops");
        }
        let expected = ["0", "0", "1", "1", "1", "2", "counting", "counting"].map(|body| (200, body.to_owned()));
        assert_eq!(answers, expected);
    }

    #[test]
    fn the_oracle_refuses_a_count_that_was_lost_or_made() {
        for layer in [Layer::Sharded, Layer::Persistent] {
            assert!(layer.accept(5, 5).is_ok());
            assert!(layer.accept(4, 5).is_err() && layer.accept(6, 5).is_err(), "{layer:?}");
        }
        assert!(Layer::Simple.accept(0, 5).is_ok() && Layer::Simple.accept(1, 5).is_err());
    }
}
