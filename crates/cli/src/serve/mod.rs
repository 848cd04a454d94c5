//! `enact serve`: entities over HTTP, from a data directory, from streams of NATS, from tables of PostgreSQL, or as one of several nodes.
//!
//! # Order
//! Whatever can refuse to start does so before anything is touched: the specification, then the tokens, the certificate and the key of
//! attestations, then the address, then the journal, which is locked or taken over from then on, then the contract that its entities
//! were written under. A later version of it is adopted only if the operator says so. Only then is it said that the server listens;
//! connections made meanwhile wait.
//!
//! On the first signal the server takes no more connections, answers what runs, lets the engine finish and closes the
//! journal; requests and commands have one time for that, together (`--drain`), whatever clients do. A second signal ends the process at once, which
//! loses nothing that was acknowledged: recovery is the same as after a crash.

#[cfg(feature = "nats")]
mod cluster;
mod issuer;
mod supervisor;

use std::io::{self, Write};
#[cfg(feature = "nats")]
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use enact_entities::{
    Engine, EngineOptions, Entities, Limits as AdmissionLimits, Rebel, Retention, ShutdownError, Strategies,
};
use enact_journal::disk::{Disk, OsDisk, SlowDisk};
#[cfg(feature = "nats")]
use enact_journal::nats::{Nats, Options as NatsOptions};
#[cfg(feature = "postgres")]
use enact_journal::postgres::{Options as PostgresOptions, Postgres};
use enact_journal::{Attester, Embedded, Journal, OpenError, Options as JournalOptions, SigningKey, SubjectKeys};
use enact_rebel::{Event, Field, Param, Source, Spec, Type};
use enact_server::{IN_FLIGHT_MAX, Issuer, Limits, Listener, Options, Readers, Tls, Tokens, router};
use reqwest::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tracing::{info, warn};

use crate::contract::{self, Change, ContractError, Undecided};
use crate::failure::Failure;
use crate::log::Log;
use crate::traces::Traces;
use crate::{args, log, sign_key, spec, traces};

pub(crate) fn run(args: &args::Serve) -> Result<(), Failure> {
    let traces = Traces::of(args)?;
    let log = log::to_stderr(&args.log, args.log_format, traces.as_ref())?;
    let done = start(args, &log);
    drop(traces);
    log.end(done)
}

fn start(args: &args::Serve, log: &Log) -> Result<(), Failure> {
    let is_database = args.journal.as_deref().is_some_and(args::is_database);
    #[cfg(not(feature = "nats"))]
    if args.journal.is_some() && !is_database || args.cluster.is_some() {
        return Err(Failure::WithoutNats);
    }
    #[cfg(feature = "nats")]
    args.of_nodes().transpose()?;
    #[cfg(not(feature = "postgres"))]
    if is_database {
        return Err(Failure::WithoutPostgres);
    }
    #[cfg(feature = "postgres")]
    if is_database && args.cluster.is_none() && args.replicas.is_some() {
        return Err(Failure::Replicas);
    }
    let sources = spec::read(&args.spec.files)?;
    let spec = spec::check_and(sources.clone(), |report| log.say(report))?;
    if let Some(class) = spec.classes().find(|class| class.is_external()) {
        return Err(Failure::External { class: class.name().to_string() });
    }
    let strategies = strategies(args, &spec)?;
    #[cfg(any(feature = "nats", feature = "postgres"))]
    if args.retain.is_some() && (args.journal.is_some() || args.cluster.is_some()) {
        return Err(Failure::Retain);
    }
    let readers = readers(args, &spec)?;
    if let Some(name) = personal(&spec) {
        let is_cluster = args.cluster.is_some();
        if is_cluster && args.subject_keys_secret.is_none() {
            return Err(Failure::Secretless { name });
        }
        if !is_cluster && args.subject_keys.is_none() {
            return Err(Failure::Keyless { name });
        }
    }
    let tokens = args.tokens.as_deref().map(Tokens::read).transpose()?;
    let issuer = issuer::of(&args.oidc)?;
    let keys = Keys {
        tls: args.tls.files().map(Tls::read).transpose()?,
        sign_key: args.sign_key.as_deref().map(sign_key::read).transpose()?,
    };
    let limits = Limits::within(raise_file_limit());
    let limits = Limits { farewell: limits.farewell.min(args.drain / 2), ..limits };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Runtime)?;
    let ended = runtime.block_on(serve(
        args,
        strategies,
        limits,
        Access { tokens, issuer, readers },
        keys,
        sources,
        Arc::new(spec),
    ));
    // Readings of long histories, and questions about many objects, have threads of their own, which nobody needs to wait for.
    runtime.shutdown_background();
    ended
}

/// What the server proves itself by, and what it signs the journal with.
struct Keys {
    tls: Option<Tls>,
    sign_key: Option<SigningKey>,
}

/// The first field or parameter that is personal.
fn personal(spec: &Spec) -> Option<String> {
    let is_personal = |ty: &Type| matches!(ty, Type::Personal(_));
    spec.classes().find_map(|class| {
        let field = class.fields().iter().find(|field| is_personal(field.ty())).map(Field::name);
        let mut params = class.events().iter().flat_map(Event::params);
        let name = field.or_else(|| params.find(|param| is_personal(param.ty())).map(Param::name))?;
        Some(format!("{}.{name}", class.name()))
    })
}

/// For how long a server runs before it discards any history: by then the clock has been put right.
const RETAIN_AFTER: Duration = Duration::from_secs(60 * 60);

fn strategies(args: &args::Serve, spec: &Spec) -> Result<Strategies, Failure> {
    let strategies = args.strategies().map_err(|why| Failure::Admission { why })?;
    let classes = spec.classes().map(|class| &**class.name());
    strategies.check(classes).map_err(|unknown| Failure::Admission { why: format!("--admission {unknown}") })?;
    Ok(strategies)
}

fn readers(args: &args::Serve, spec: &Spec) -> Result<Readers, Failure> {
    let readers = args.readers().map_err(|why| Failure::Readers { why })?;
    readers.check(spec).map_err(|unknown| Failure::Readers { why: format!("--readers {unknown}") })?;
    Ok(readers)
}

/// By what callers are known, and what each may do.
struct Access {
    tokens: Option<Tokens>,
    /// With the client that asks it for its keys.
    issuer: Option<(Issuer, Client)>,
    readers: Readers,
}

fn open(args: &args::Serve, options: &EngineOptions, sign_key: Option<SigningKey>) -> Result<Embedded, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::at(&args.data)?);
    let disk = match args.sync_min {
        Some(sync) => {
            warn!(?sync, "each sync takes so long at least, to measure with");
            Arc::new(SlowDisk::new(disk, sync))
        }
        None => disk,
    };
    let (how, is_over) = (JournalOptions::default(), options.are_answers_over());
    match sign_key {
        Some(key) => Embedded::open_attested(disk, how, Attester::new(key, now_ms), is_over),
        None => Embedded::open_without(disk, how, is_over),
    }
}

/// The time, in milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

async fn serve(
    args: &args::Serve,
    strategies: Strategies,
    limits: Limits,
    access: Access,
    keys: Keys,
    sources: Vec<Source>,
    spec: Arc<Spec>,
) -> Result<(), Failure> {
    let Keys { tls, sign_key } = keys;
    let listener = listen(args).await?;
    let address = listener.address();
    let signals = Signals::catch().map_err(Failure::Runtime)?;
    let missing = args.missing_for_others();
    if !address.ip().is_loopback() && !missing.is_empty() {
        let missing = missing.join(", and ");
        warn!(%address, missing, "INSECURE: other machines can reach this server, read what is said to it, or ask as anybody");
    }
    if args.security.journal_insecure {
        warn!("INSECURE: what is said to the servers of the journal may be read and changed on its way");
    }
    let listener = match &tls {
        Some(tls) => {
            let kept = tls.clone();
            keep_current(async move |asked| kept.keep_current(&asked).await)?;
            listener.with_tls(tls.clone())
        }
        None => listener,
    };

    if let Some(kept) = access.tokens.clone() {
        keep_current(async move |asked| kept.keep_current(&asked).await)?;
    }
    if let Some((issuer, client)) = access.issuer.clone() {
        keep_current(async move |asked| {
            issuer.keep_current(&asked, |url| issuer::fetch(client.clone(), url)).await;
        })?;
    }

    let options = EngineOptions {
        strategies,
        limits: AdmissionLimits {
            open_max: args.open_max.get(),
            delayed_max: args.delayed_max,
            overtakes_max: args.overtakes_max,
            ..AdmissionLimits::default()
        },
        live_bytes_max: usize::try_from(args.memory.as_u64()).unwrap_or(usize::MAX),
        keep_answers: args.keep_answers,
        retention: args.retain.map(|keep| Retention { keep, begin_after: RETAIN_AFTER }),
        barrier_reads: args.barrier_reads,
        ..EngineOptions::default()
    };
    let subject_keys = args
        .subject_keys
        .as_deref()
        .map(|path| SubjectKeys::open(path).map_err(|source| Failure::SubjectKeys { path: path.to_owned(), source }));
    let subject_keys = subject_keys.transpose()?;
    let begun = Instant::now();
    let start = Start { args, subject_keys, options, limits, access, sources, spec, listener, signals, begun };
    #[cfg(feature = "nats")]
    if let Some(nodes) = args.of_nodes() {
        return start.join(nodes?).await;
    }
    #[cfg(feature = "postgres")]
    if let Some(address) = args.journal.as_deref().filter(|address| args::is_database(address)) {
        let options = PostgresOptions { node: node(), ..args.security.database(address, args.shard) };
        let place = options.to_string();
        let opened = Postgres::open(options).await;
        let journal = opened.map_err(|source| Failure::Postgres { place: place.clone(), source })?;
        return start.serve(journal, &place, None).await;
    }
    #[cfg(feature = "nats")]
    if let Some(addresses) = &args.journal {
        let options = over_nats(args, addresses);
        let place = format!("{} (shard {})", options.servers, args.shard);
        let opened = Nats::open(options).await;
        let journal = opened.map_err(|source| Failure::Nats { place: place.clone(), source })?;
        return start.serve(journal, &place, None).await;
    }
    let journal =
        open(args, &start.options, sign_key).map_err(|source| Failure::Data { path: args.data.clone(), source })?;
    let objects = start.spec.classes().map(|class| journal.count(class.name())).sum();
    start.serve(journal, &args.data.display().to_string(), Some(objects)).await
}

async fn listen(args: &args::Serve) -> Result<Listener, Failure> {
    let bound = Listener::bind_to(&args.listen, args.exposure()).await;
    bound.map_err(|source| match source.is_of_exposure() {
        true => Failure::Exposed { missing: args.missing_for_others().join(", and "), source },
        false => source.into(),
    })
}

/// Has files read again, and at once when there is a `SIGHUP`.
fn keep_current<F>(keep: impl FnOnce(Arc<Notify>) -> F) -> Result<(), Failure>
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut hangup = signal(SignalKind::hangup()).map_err(Failure::Runtime)?;
    let asked = Arc::new(Notify::new());
    let kept = keep(Arc::clone(&asked));
    tokio::spawn(async move {
        let told = async {
            while hangup.recv().await.is_some() {
                asked.notify_one();
            }
        };
        tokio::join!(told, kept);
    });
    Ok(())
}

/// All that is ready before the journal is.
struct Start<'a> {
    args: &'a args::Serve,
    subject_keys: Option<SubjectKeys>,
    options: EngineOptions,
    limits: Limits,
    access: Access,
    sources: Vec<Source>,
    spec: Arc<Spec>,
    listener: Listener,
    signals: Signals,
    /// When the journal was turned to.
    begun: Instant,
}

impl Start<'_> {
    /// Serves what `journal` has, which is at `place`, until a signal or a failure: so many `objects`, where that is known.
    async fn serve<J: Journal>(mut self, journal: J, place: &str, objects: Option<usize>) -> Result<(), Failure> {
        let subject_keys = self.subject_keys.take();
        let Self { args, sources, spec, .. } = &self;
        let records = journal.volume().last.map(|last| last.0);
        let contract = |source| Failure::Contract { place: place.to_owned(), source };
        let examined = contract::examine(&journal, sources, spec, Undecided::Served).await.map_err(contract)?;
        match examined.change {
            Change::First | Change::None => {}
            Change::Additions => info!("the specification has got further classes under one version"),
            Change::Compatible { entities, .. } => {
                info!(entities, "the specification has changed under one version; every entity is what it was");
            }
            Change::Version(ref plan) if args.adopt => info!("adopting the specification {plan}"),
            Change::Version(plan) => return Err(contract(ContractError::NotAdopted { plan: Box::new(plan) })),
        }
        let model = contract::adopt(&journal, sources, examined).await.map_err(contract)?;
        self.say_started(place, objects, records);

        let engine = Engine::new(model, journal, self.options.clone());
        if let (Some(keys), Some(path)) = (subject_keys, &self.args.subject_keys) {
            let kept = engine.keep_personal(keys).await;
            kept.map_err(|source| Failure::Vault { path: path.clone(), source })?;
        }
        let (maintained, closed) = (engine.clone(), engine.clone());
        let life = Life {
            failed: async move {
                tokio::select! {
                    _ = maintained.failed() => (),
                    never = maintained.maintain() => match never {},
                }
            },
            end: async move |patience| closed.shutdown(patience).await,
        };
        self.present(engine, life).await
    }

    /// Says what is served, and how long it took to find it.
    fn say_started(&self, place: &str, objects: Option<usize>, records: Option<u64>) {
        let recovered_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        info!(version = env!("CARGO_PKG_VERSION"), journal = place, objects, records, recovered_ms, "started");
    }

    /// Answers requests for `entities` until a signal or a failure.
    async fn present<E, F, C>(self, entities: E, life: Life<F, C>) -> Result<(), Failure>
    where
        E: Entities<Model = Rebel>,
        F: Future<Output = ()>,
        C: AsyncFnOnce(Duration) -> Result<(), ShutdownError>,
    {
        let Self { args, limits, access: Access { tokens, issuer, readers }, listener, signals, .. } = self;
        let (address, exposure) = (listener.address(), args.exposure());
        let in_flight_max = IN_FLIGHT_MAX.min(limits.connections_max / 2);
        info!(connections_max = limits.connections_max, in_flight_max, "limits");
        info!(strategies = %entities.strategies(), "admission");
        let hosts = args.hosts.iter().chain(args.listen.name()).cloned().collect();
        // Beside a log of its own, which is where this process writes; a database is elsewhere.
        let scratch = args.journal.is_none().then(|| args.data.clone());
        let (listen, issuer, rate) = (address.ip(), issuer.map(|(issuer, _)| issuer), args.rate_limit);
        let traces = args.traces.is_some().then_some(traces::JOIN);
        let erasers = args.erasers.clone();
        let options = Options {
            listen,
            hosts,
            exposure,
            tokens,
            demands_certificates: args.tls.tls_client_ca.is_some(),
            issuer,
            readers,
            erasers,
            rate,
            in_flight_max,
            scratch,
            traces,
        };
        let router = router(entities, options);
        let scheme = if args.tls.tls_cert.is_some() { "https" } else { "http" };
        let listening = format!("listening on {scheme}://{address}");
        announce(&listening);
        supervisor::tell_ready(&listening);

        let stop = async {
            let stopped = tokio::select! {
                () = signals.stop() => (false, Instant::now()),
                () = life.failed => (true, Instant::now()),
            };
            supervisor::tell_stopping();
            stopped
        };
        let (has_failed, stopping) = listener.serve(router, limits, stop, args.drain).await;
        let closed = (life.end)(args.drain.saturating_sub(stopping.elapsed())).await;
        if has_failed {
            return Err(Failure::Engine);
        }
        closed?;
        info!("stopped");
        Ok(())
    }
}

/// What the entities do by themselves.
struct Life<F, C> {
    /// Looks after them, until they have failed, which the log says.
    failed: F,
    /// Ends them within a time.
    end: C,
}

/// The machine and the process: those whom a journal is taken over from are told.
#[cfg(any(feature = "nats", feature = "postgres"))]
fn node() -> String {
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{machine}, process {}", std::process::id())
}

/// How the journal over NATS is opened.
#[cfg(feature = "nats")]
fn over_nats(args: &args::Serve, addresses: &str) -> NatsOptions {
    NatsOptions {
        shard: args.shard,
        replicas: args.replicas.map_or(1, NonZeroUsize::get),
        node: node(),
        ..NatsOptions::at(args.security.servers(addresses))
    }
}

/// The servers of a journal, as they may stand in a log.
pub(crate) fn without_passwords(addresses: &str) -> String {
    // Parameters of a database may have a password, too.
    let addresses = addresses.split('?').next().unwrap_or_default();
    let servers: Vec<&str> =
        addresses.split(',').map(|address| address.rsplit_once('@').map_or(address, |(_, server)| server)).collect();
    servers.join(",")
}

/// Says on standard output that the server is ready, which its starter waits for.
fn announce(line: &str) {
    let mut out = io::stdout();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
        warn!(%error, "nobody reads standard output: {line}");
    }
}

/// How many files may be open. Each connection is one, and a journal that cannot open one has failed: take all that the
/// system grants.
fn raise_file_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let granted = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            warn!(%error, ?current, "cannot raise the limit on open files");
            current
        }
    };
    granted.and_then(|granted| usize::try_from(granted).ok()).unwrap_or(usize::MAX)
}

/// What asks a server to stop, and what would end it otherwise.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Caught so that a file at its greatest size fails a write and does not kill the process.
    _file_too_large: Signal,
    /// Caught where there is no file to read again, too: it would kill the process.
    _hangup: Signal,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            _file_too_large: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
            _hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the first signal; from then on a second one ends the process.
    async fn stop(mut self) {
        self.next().await;
        info!("stopping: what is admitted is finished first; a second signal stops at once");
        tokio::spawn(async move {
            let number = self.next().await.as_raw_value();
            std::process::exit(128 + number);
        });
    }

    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        }
    }
}
