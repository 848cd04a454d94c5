//! The command line.

mod cluster;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "nats")]
use crate::failure::Failure;
use bytesize::ByteSize;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use enact_entities::{Limits, Strategies, Strategy};
#[cfg(feature = "nats")]
use enact_journal::nats;
#[cfg(feature = "postgres")]
use enact_journal::postgres;
#[cfg(any(feature = "nats", feature = "postgres"))]
use enact_journal::{Identity, Security};
use enact_rebel::Timestamp;
use enact_server::{Exposure, HostName, ListenAddress, Rate, Readers, RoleDemand, RoleDemandError, TlsFiles};

pub(crate) use self::cluster::Cluster;
#[cfg(feature = "nats")]
pub(crate) use self::cluster::{Nodes, RestoreCluster};

/// Transactional actors: entities declared by life cycle, preconditions and effects.
#[derive(Debug, Parser)]
#[command(name = "enact", version, about, after_help = crate::failure::EXIT_STATUS_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a folder with a specification, settings and a token, to begin with
    Init(Init),
    /// Serve the entities that a specification declares over HTTP
    Serve(Box<Serve>),
    /// Check a specification and print what is wrong with it
    Check(Check),
    /// Lay specifications out in the one way there is
    Fmt(Fmt),
    /// Make the lines of a file commands to a server that runs
    Import(Import),
    /// Hand on what changes in all objects of a server that runs, to standard output or to a web hook
    Follow(Follow),
    /// Erase the personal values of an object, and those that others have of it, in a server that runs
    Erase(Erase),
    /// Make a token by which a server knows a caller, or the line by which it knows a certificate
    Token(Token),
    /// Make the key that a server attests its journal with, and print the public key to verify that with
    SignKey {
        /// File to write, which does not exist yet; it gets mode 0600
        file: PathBuf,
    },
    /// Verify, back up, restore or export what has happened to the entities
    #[command(subcommand)]
    Journal(Journal),
    /// Find everything that has happened to the entities and that the specification does not allow
    Audit(Audit),
    /// Change the specification of a data directory that no server has open
    #[command(subcommand)]
    Contract(Contract),
    /// Look after several nodes, which `enact serve --cluster` starts
    #[command(subcommand)]
    Cluster(Cluster),
    /// Print what a shell completes commands and flags by, for a file that it reads
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the pages of the manual, one for each command
    Man {
        /// Folder to write to, such as `/usr/local/share/man/man1`
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Folder to write to, made when missing
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Contract {
    /// Print what `enact serve` would make of the entities under a specification; changes nothing
    Check(CheckContract),
    /// Take the last version of the specification back, as long as nothing has happened under it
    Rollback(Entities),
}

impl Contract {
    pub(crate) fn entities(&self) -> &Entities {
        match self {
            Self::Check(check) => &check.entities,
            Self::Rollback(entities) => entities,
        }
    }
}

/// Where entities are kept.
#[derive(Debug, Args)]
#[command(group(servers_of(["journal", "cluster"])))]
pub(crate) struct Entities {
    /// Directory that keeps the entities
    #[arg(long, value_name = "DIR", default_value = "enact-data")]
    pub(crate) data: PathBuf,
    /// The NATS servers, or the PostgreSQL database, that keep the entities of one server; a rollback takes them over from it. With --cluster,
    /// the database that keeps those of the nodes
    #[arg(long, value_name = "nats://HOST:PORT[,..]|postgres://USER@HOST/DB", conflicts_with = "data")]
    pub(crate) journal: Option<String>,
    /// Which journal there: streams `J<NUMBER>` and `S<NUMBER>` of the account, or rows of the schema
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "journal", conflicts_with = "cluster")]
    pub(crate) shard: u16,
    /// The NATS servers of several nodes; a rollback needs all of these stopped
    #[arg(long, value_name = "nats://HOST:PORT[,..]", conflicts_with = "data")]
    pub(crate) cluster: Option<String>,
    #[command(flatten)]
    pub(crate) security: JournalSecurity,
    #[command(flatten)]
    pub(crate) nodes: NodesSecurity,
}

impl Entities {
    /// The database that keeps them, if one does.
    pub(crate) fn database(&self) -> Option<&str> {
        self.journal.as_deref().filter(|address| is_database(address))
    }

    /// The nodes that serve them, if there are some.
    #[cfg(feature = "nats")]
    pub(crate) fn of_nodes(&self) -> Option<Result<Nodes, Failure>> {
        let addresses = self.cluster.as_deref()?;
        Some(Nodes::of(addresses, self.journal.as_deref(), &self.security, &self.nodes))
    }
}

/// The flags by which servers are named, of which each may be given.
fn servers_of<const N: usize>(flags: [&'static str; N]) -> ArgGroup {
    ArgGroup::new("servers").args(flags).multiple(true)
}

/// Whether an address of a journal is one of PostgreSQL; otherwise it is one of NATS.
pub(crate) fn is_database(address: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme))
}

#[derive(Debug, Args)]
pub(crate) struct CheckContract {
    #[command(flatten)]
    pub(crate) spec: SpecFiles,
    #[command(flatten)]
    pub(crate) entities: Entities,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Journal {
    /// Read every byte of a data directory that no server has open, or of a backup, or every record of a journal on servers, beside the
    /// one that writes it or not, and print what is damaged; changes nothing
    Verify {
        #[command(flatten)]
        records: Records,
        /// A backup, instead of a directory
        #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "journal"])]
        backup: Option<PathBuf>,
        /// Hold the directory against its attestations, which are signed with the private key of this public one; a file may have several
        #[arg(long, value_name = "FILE", conflicts_with_all = ["backup", "journal"])]
        public_key: Option<PathBuf>,
    },
    /// Take the log as it is, without a manifest or with a damaged one, unless it is damaged itself; no server may have it open
    Adopt(DataDirectory),
    /// Say what is damaged of a data directory that no server has open, and which records are missing; with --to, build a new directory of
    /// what is left. Changes nothing in the damaged one
    Repair(Repair),
    /// Write what has happened to all entities to one file, while a server keeps them or not
    Backup {
        /// File to write, which does not exist yet
        file: PathBuf,
        #[command(flatten)]
        records: Records,
    },
    /// Build a new data directory, or fill a new journal on servers, from a backup
    Restore(Restore),
    /// Print each event that has happened as a line of JSON, while a server keeps the entities or not
    Export {
        #[command(flatten)]
        records: Records,
        /// A backup, instead of a directory
        #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "journal"])]
        backup: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// File that `enact journal backup` has written
    pub(crate) file: PathBuf,
    /// Directory to build; it is empty or does not exist
    #[arg(long, value_name = "DIR", default_value = "enact-data")]
    pub(crate) data: PathBuf,
    /// The NATS servers or the PostgreSQL database to fill instead of a directory; there is no journal of this number yet
    #[arg(
        long,
        value_name = "nats://HOST:PORT[,..]|postgres://USER@HOST/DB",
        conflicts_with = "data",
        group = "servers"
    )]
    pub(crate) journal: Option<String>,
    /// Which journal there: streams `J<NUMBER>` and `S<NUMBER>` of the account, or rows of the schema
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "journal")]
    pub(crate) shard: u16,
    #[command(flatten)]
    pub(crate) security: JournalSecurity,
    /// How many NATS servers keep each record; 1 by default
    #[arg(long, value_name = "COUNT", requires = "journal")]
    pub(crate) replicas: Option<NonZeroUsize>,
    /// Leave out what has happened after this time, such as `2026-11-21T09:30:00Z`: the first transaction that is later, and all
    /// that was recorded behind it
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct Repair {
    /// Directory that keeps the entities; it may be on a file system that is read-only
    #[arg(long, value_name = "DIR", default_value = "enact-data")]
    pub(crate) data: PathBuf,
    /// NATS servers or a PostgreSQL database: refused, as these have tools of their own
    #[arg(long, value_name = "nats://HOST:PORT[,..]|postgres://USER@HOST/DB", conflicts_with = "data", hide = true)]
    pub(crate) journal: Option<String>,
    /// Backup of the same directory that has what is missing
    #[arg(long, value_name = "BACKUP")]
    pub(crate) from: Option<PathBuf>,
    /// Directory to build; it is empty or does not exist. Without it, nothing is written
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Leave out the first record that is missing and all behind it, which are so many
    #[arg(long, value_name = "COUNT", requires = "to")]
    pub(crate) lose: Option<u64>,
}

#[derive(Debug, Args)]
#[command(group(servers_of(["cluster"])))]
pub(crate) struct Audit {
    #[command(flatten)]
    pub(crate) spec: SpecFiles,
    #[command(flatten)]
    pub(crate) records: Records,
    /// A backup, instead of a directory
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "journal"])]
    pub(crate) backup: Option<PathBuf>,
    /// The NATS servers of several nodes: all shards, while nodes serve them or not. With --journal, those are in that database
    #[arg(long, value_name = "nats://HOST:PORT[,..]", conflicts_with_all = ["data", "shard", "backup"])]
    pub(crate) cluster: Option<String>,
    #[command(flatten)]
    pub(crate) nodes: NodesSecurity,
    /// Print each finding as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where records are.
#[derive(Debug, Args)]
pub(crate) struct Records {
    /// Directory that keeps the entities
    #[arg(long, value_name = "DIR", default_value = "enact-data")]
    pub(crate) data: PathBuf,
    /// The NATS servers, or the PostgreSQL database, that keep the entities of one server, instead of a directory
    #[arg(
        long,
        value_name = "nats://HOST:PORT[,..]|postgres://USER@HOST/DB",
        conflicts_with = "data",
        group = "servers"
    )]
    pub(crate) journal: Option<String>,
    /// Which journal there: streams `J<NUMBER>` and `S<NUMBER>` of the account, or rows of the schema
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "journal")]
    pub(crate) shard: u16,
    #[command(flatten)]
    pub(crate) security: JournalSecurity,
}

/// By what a command and the servers of a journal know each other.
#[derive(Debug, Default, Args)]
pub(crate) struct JournalSecurity {
    /// File of the authorities in PEM, one of which vouches for the servers of `--journal` or `--cluster`, instead of those of the system:
    /// nothing is said to them without encryption
    #[arg(long, value_name = "FILE", requires = "servers")]
    journal_ca: Option<PathBuf>,
    /// File of the certificate in PEM that these servers demand of their clients, and of those between it and its authority
    #[arg(long, value_name = "FILE", requires_all = ["servers", "journal_key"])]
    journal_cert: Option<PathBuf>,
    /// File of its private key in PEM, which not everybody may read
    #[arg(long, value_name = "FILE", requires_all = ["servers", "journal_cert"])]
    journal_key: Option<PathBuf>,
    /// File of what these servers know the user by, which not everybody may read: a `.creds` file of NATS; or, of a user that the address
    /// names, the password in its first line
    #[arg(long, value_name = "FILE", requires = "servers")]
    journal_credentials: Option<PathBuf>,
    /// Allow servers on other machines without encryption, where their addresses do not ask for it
    #[arg(long, requires = "servers")]
    pub(crate) journal_insecure: bool,
}

/// By what a command and the servers at which nodes meet know each other, where the journals of the nodes are elsewhere.
#[derive(Debug, Default, Args)]
pub(crate) struct NodesSecurity {
    /// File of what the NATS servers of `--cluster` know the user by, as `--journal-credentials`, which is for the database then; all other flags
    /// of `--journal-` are for both
    #[arg(long, value_name = "FILE", requires_all = ["cluster", "journal"])]
    cluster_credentials: Option<PathBuf>,
}

#[cfg(any(feature = "nats", feature = "postgres"))]
impl JournalSecurity {
    fn security(&self) -> Security {
        let Self { journal_ca, journal_cert, journal_key, journal_credentials, journal_insecure } = self;
        let identity = journal_cert.clone().zip(journal_key.clone());
        Security {
            authorities: journal_ca.clone(),
            identity: identity.map(|(certificates, key)| Identity { certificates, key }),
            credentials: journal_credentials.clone(),
            allows_plain: *journal_insecure,
        }
    }

    /// The NATS servers at `addresses`.
    #[cfg(feature = "nats")]
    pub(crate) fn servers(&self, addresses: &str) -> nats::Servers {
        nats::Servers { security: self.security(), ..nats::Servers::at(addresses) }
    }

    /// A journal in the database at `address`.
    #[cfg(feature = "postgres")]
    pub(crate) fn database(&self, address: &str, shard: u16) -> postgres::Options {
        postgres::Options { shard, security: self.security(), ..postgres::Options::at(address) }
    }
}

impl Serve {
    /// The nodes that it is one of, if it is.
    #[cfg(feature = "nats")]
    pub(crate) fn of_nodes(&self) -> Option<Result<Nodes, Failure>> {
        let addresses = self.cluster.as_deref()?;
        Some(Nodes::of(addresses, self.journal.as_deref(), &self.security, &self.nodes))
    }
}

impl Audit {
    /// The journal, in words.
    pub(crate) fn place(&self) -> String {
        match (&self.backup, self.cluster.as_ref().or(self.records.journal.as_ref())) {
            (Some(file), _) => file.display().to_string(),
            (None, Some(address)) => crate::serve::without_passwords(address),
            (None, None) => self.records.data.display().to_string(),
        }
    }

    /// The nodes whose shards are audited, if it is those.
    #[cfg(feature = "nats")]
    pub(crate) fn of_nodes(&self) -> Option<Result<Nodes, Failure>> {
        let addresses = self.cluster.as_deref()?;
        let Records { journal, security, .. } = &self.records;
        Some(Nodes::of(addresses, journal.as_deref(), security, &self.nodes))
    }
}

#[derive(Debug, Args)]
pub(crate) struct DataDirectory {
    /// Directory that keeps the entities
    #[arg(long, value_name = "DIR", default_value = "enact-data")]
    pub(crate) data: PathBuf,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("callers").args(["tokens", "oidc_issuer"]).multiple(true)), group(servers_of(["journal", "cluster"])))]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) spec: SpecFiles,
    /// File of settings: `listen = "localhost:8080"` is `--listen localhost:8080`. A flag precedes a variable such as `ENACT_LISTEN`, and that
    /// the file; paths in it are relative to its folder, and `spec` is the files of the specification
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address, or name of one, to listen on; port 0 takes any free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    pub(crate) listen: ListenAddress,
    /// DNS name that requests may call the server by, besides localhost and what it listens on; may be repeated
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<HostName>,
    /// File of the tokens and certificates by which callers are known, of mode 0600; `enact token` makes its lines. It is read
    /// again once a minute and on SIGHUP. Without it, no request has a caller
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) oidc: Oidc,
    /// Roles one of which a caller must have to read: objects and their histories, queries, changes, `/metrics` and `/openapi.json`; `*` is for
    /// every caller. May be repeated for single classes, such as `--readers Account=teller,auditor`, and for `metrics` and `openapi.json`.
    /// What has no rule is for anybody, as is `/health`
    #[arg(long, value_name = "ROLE,..|NAME=ROLE,..", requires = "callers", value_parser = Reading::parse)]
    pub(crate) readers: Vec<Reading>,
    /// How many requests a caller, or a client without one, may send in a second, such as `50`, and how many at once, such as `50,200`. A
    /// batch counts as its commands. Further ones are answered with 429
    #[arg(long, value_name = "PER_SECOND[,BURST]")]
    pub(crate) rate_limit: Option<Rate>,
    #[command(flatten)]
    pub(crate) tls: ServerTls,
    /// Directory that keeps the entities; made when missing
    #[arg(long, value_name = "DIR", default_value = "enact-data")]
    pub(crate) data: PathBuf,
    /// File of the private key that the journal is attested with, of mode 0600, which `enact sign-key` makes: what somebody without it changes
    /// in the data directory is found by `enact journal verify --public-key`
    #[arg(long, value_name = "FILE", conflicts_with = "servers")]
    pub(crate) sign_key: Option<PathBuf>,
    /// Directory of the keys that personal values are sealed with, of mode 0700; made when missing. Keep it apart from the journal and its
    /// backups: who has both can read what is sealed, and who has lost it cannot
    #[arg(long, value_name = "DIR", conflicts_with = "cluster")]
    pub(crate) subject_keys: Option<PathBuf>,
    /// File of the secret that hides the keys of personal values from the servers of a cluster, which keep them for all nodes; of mode 0600.
    /// `enact cluster secret` makes it, and each node has the same
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub(crate) subject_keys_secret: Option<PathBuf>,
    /// Roles one of which a caller must have to erase the personal values of somebody; `*` is for every caller. Without it, nobody may where
    /// callers are known
    #[arg(long, value_name = "ROLE,..", requires = "callers")]
    pub(crate) erasers: Option<RoleDemand>,
    /// Keep the entities in streams of NATS servers and not in a directory, such as `tls://h1:4222,tls://h2:4222`, or in tables of
    /// PostgreSQL, such as `postgres://enact@host/bank?schema=enact`. A server that is started on the same streams or tables takes
    /// them over from this one. With --cluster, the database in which all nodes keep them; the first node decides, for ever
    #[arg(long, value_name = "nats://HOST:PORT[,..]|postgres://USER@HOST/DB", conflicts_with = "data")]
    pub(crate) journal: Option<String>,
    /// Be one of several nodes that meet at these NATS servers, such as `tls://h1:4222,tls://h2:4222`, and share the entities, which are in
    /// streams there, or in the database of --journal. Every node answers for every entity
    #[arg(long, value_name = "nats://HOST:PORT[,..]", conflicts_with = "data", requires = "node")]
    pub(crate) cluster: Option<String>,
    /// The name of this node, which no other one has: letters, digits, `-` and `_`
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pub(crate) node: Option<String>,
    /// How many parts the entities are in, each of which is served by one node at a time; the first node decides, for ever
    #[arg(long, value_name = "COUNT", default_value_t = 12, requires = "cluster")]
    pub(crate) shards: u16,
    /// How long a node counts as alive that is not heard of any more; its entities are served by others then. Whole seconds, 13 at least
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = humantime::parse_duration, requires = "cluster")]
    pub(crate) lease: Duration,
    #[command(flatten)]
    pub(crate) security: JournalSecurity,
    #[command(flatten)]
    pub(crate) nodes: NodesSecurity,
    /// How many NATS servers keep each record and each lease, to begin with: 1, or 3 with `--cluster`, by default. With three nothing is lost
    /// with one of them
    #[arg(long, value_name = "COUNT", requires = "servers")]
    pub(crate) replicas: Option<NonZeroUsize>,
    /// Which journal there: streams `J<NUMBER>` and `S<NUMBER>` of the account, or rows of the schema
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "journal", conflicts_with = "cluster")]
    pub(crate) shard: u16,
    /// Answer reads and refusals only behind a record that shows that no other server had taken the entities over. Without it, one that
    /// they were taken from may show what was true before, until it is asked to write; with --cluster, nodes count on their leases
    #[arg(long, requires = "servers")]
    pub(crate) barrier_reads: bool,
    /// Adopt a specification of a later version than the entities have; `enact contract check` says what that changes. With
    /// --cluster: wait until no node has the specification that they are served under, then adopt this one
    #[arg(long)]
    pub(crate) adopt: bool,
    /// About how much memory objects may take that are kept for the next command, such as `64MiB`; more are read from disk
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub(crate) memory: ByteSize,
    /// For how long a command that is repeated under its Idempotency-Key gets its earlier answer, such as `90m` or `7days`;
    /// a year at most
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = humantime::parse_duration)]
    pub(crate) keep_answers: Duration,
    /// For how long what has happened to an object is kept after it has come to a final state, such as `90days`; an hour at
    /// least. Then only the state stays, and the space is used again. For ever, if it is not given
    #[arg(long, value_name = "TIME", value_parser = retention)]
    pub(crate) retain: Option<Duration>,
    /// When an event may overlap with others of the same object that are not decided yet: `locking`, never (two-phase
    /// locking); `locking-early-release`, as soon as the one before is on its way to the disk; `psac`, whenever its
    /// preconditions hold on every outcome (path-sensitive atomic commit); `serializable`, as `psac`, and only if all outcomes
    /// are those of some serial order. May be repeated for single classes, such as `--admission Account=psac`; a transaction has
    /// the weakest guarantee of the classes it touches, and all but `psac` are serializable
    #[arg(long, value_name = "MODE|CLASS=MODE", default_value = "serializable", value_parser = Admission::parse)]
    pub(crate) admission: Vec<Admission>,
    /// How many events of one object may be undecided at once; with `--admission locking` it is one
    #[arg(long, value_name = "COUNT", default_value_t = NonZeroUsize::new(Limits::default().open_max).expect("one may be open"))]
    pub(crate) open_max: NonZeroUsize,
    /// How many events may wait at one entity; a further one is turned away
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().delayed_max)]
    pub(crate) delayed_max: usize,
    /// How many events may pass one that waits for its turn; with 0 they have their turns in the order in which they came
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().overtakes_max)]
    pub(crate) overtakes_max: usize,
    /// The time that a sync takes at least, to measure what a slower disk would do
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, hide = true)]
    pub(crate) sync_min: Option<Duration>,
    /// Allow an address that other machines can reach without encryption, or without a way to know callers
    #[arg(long)]
    pub(crate) insecure: bool,
    /// How long a server that is told to stop finishes what it has begun. What is not answered by then is in doubt
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) drain: Duration,
    /// Collector of OpenTelemetry that takes a span of each request by OTLP over HTTP, such as `http://127.0.0.1:4318`. Without it,
    /// requests have no spans
    #[arg(long, value_name = "URL")]
    pub(crate) traces: Option<String>,
    /// Which log lines go to standard error, such as `warn` or `info,enact_server=debug`
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub(crate) log: String,
    /// How they look
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// Whose signed tokens are taken.
#[derive(Debug, Args)]
pub(crate) struct Oidc {
    /// Issuer of OpenID Connect whose JSON Web Tokens are taken, beside those of `--tokens`: its address as it stands in them (`iss`), such as
    /// `https://id.example.com/realms/bank`. Its keys are fetched there
    #[arg(long, value_name = "URL", requires = "oidc_audience")]
    pub(crate) oidc_issuer: Option<String>,
    /// What the tokens must be meant for (`aud`)
    #[arg(long, value_name = "NAME", requires = "oidc_issuer")]
    pub(crate) oidc_audience: Option<String>,
    /// The claim of the tokens that has the roles; dots lead into objects, such as `realm_access.roles`
    #[arg(long, value_name = "CLAIM", default_value = "roles", requires = "oidc_issuer")]
    pub(crate) oidc_roles: String,
    /// File of the authorities in PEM, one of which vouches for the issuer, instead of those of the system
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    pub(crate) oidc_ca: Option<PathBuf>,
}

/// By what a server proves itself, and knows its clients.
#[derive(Debug, Args)]
pub(crate) struct ServerTls {
    /// File of the certificate, and those between it and its authority, in PEM: what is said is encrypted. It is read again on SIGHUP, and
    /// when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File of its private key in PEM, which not everybody may read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File of the authorities of clients in PEM: a client without a certificate of one of them is not answered
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
}

impl ServerTls {
    /// The files, if what is said is to be encrypted.
    pub(crate) fn files(&self) -> Option<TlsFiles> {
        let (certificates, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles { certificates, key, client_authorities: self.tls_client_ca.clone() })
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people, in colours on a terminal
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) spec: SpecFiles,
    /// Take warnings for errors
    #[arg(long)]
    pub(crate) deny_warnings: bool,
    /// Print which places each event touches, of which objects, in which way, and because of which lines
    #[arg(long)]
    pub(crate) footprint: bool,
    /// Print which events may be in progress at one entity together, why others wait, and what would help
    #[arg(long)]
    pub(crate) scaling: bool,
    /// Print what was found as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Fmt {
    /// Files to lay out, each in its place; of a directory all that end in `.rebel`, and `-` is from standard input to
    /// standard output
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Change nothing; name the files that would change, and end with status 1 if there are some
    #[arg(long)]
    pub(crate) check: bool,
    /// Print one spelling of what has several, such as `=` in effects and `x is opened`
    #[arg(long)]
    pub(crate) canonical: bool,
    /// Read files of the time before line breaks had a meaning
    #[arg(long)]
    pub(crate) from_free: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// File of which each line is a command: as JSON, as in a batch, or as CSV with a header
    pub(crate) file: PathBuf,
    /// The server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
    /// What the lines are; without it, a file that ends in `.csv` is CSV, and any other one is JSON
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<ImportFormat>,
    /// The class of all lines of CSV, instead of a column `class`
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<String>,
    /// The event of all lines of CSV, instead of a column `event`
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: Option<String>,
    /// The column of CSV that has the id, instead of `id`
    #[arg(long, value_name = "COLUMN")]
    pub(crate) id: Option<String>,
    /// A column of CSV whose cells are JSON, such as `true` or `[1, 2]`, and not text; may be repeated
    #[arg(long, value_name = "COLUMN")]
    pub(crate) json: Vec<String>,
    /// File whose first line is the token of the caller, which `enact token` has made
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: ClientTls,
    /// File to write the lines to that are refused, with what the server says, instead of standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) refused: Option<PathBuf>,
    /// How long to go on when the server answers nothing
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub(crate) patience: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Follow {
    /// The server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
    /// File that has the cursor of the last change that was handed on, to go on behind it
    #[arg(long, value_name = "FILE")]
    pub(crate) cursor: Option<PathBuf>,
    /// Changes of this class only; may be repeated
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Vec<String>,
    /// Send the changes there, some at a time, instead of printing each as a line of JSON
    #[arg(long, value_name = "URL")]
    pub(crate) post: Option<String>,
    /// End when there are no more changes
    #[arg(long)]
    pub(crate) once: bool,
    /// File whose first line is the token of the caller, which `enact token` has made
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: ClientTls,
    /// How long to go on when the server, or the receiver, does not answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub(crate) patience: Duration,
}

/// What `enact erase` is told.
#[derive(Debug, Args)]
pub(crate) struct Erase {
    /// The class of the object whose values they are
    pub(crate) class: String,
    /// Its identity
    pub(crate) id: String,
    /// The server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
    /// File whose first line is the token of the caller, which `enact token` has made
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: ClientTls,
}

/// By what a command knows a server over TLS, and the server it.
#[derive(Debug, Args)]
pub(crate) struct ClientTls {
    /// File of the authorities in PEM, one of which vouches for a server at `https://`, instead of those of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// File of the certificate in PEM that a server demands of its clients
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File of its private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// What the lines of a file are that is imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// Each line is a command as it stands in a batch
    Json,
    /// The first line names the columns
    Csv,
}

impl Import {
    pub(crate) fn format(&self) -> ImportFormat {
        let is_csv = self.file.extension().is_some_and(|extension| extension == "csv");
        self.format.unwrap_or(if is_csv { ImportFormat::Csv } else { ImportFormat::Json })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Token {
    /// Id of the caller that the token or certificate stands for; several may stand for one
    #[arg(long, value_name = "ID")]
    pub(crate) id: String,
    /// Roles of the caller
    #[arg(long, value_name = "ROLE,ROLE...", value_delimiter = ',')]
    pub(crate) roles: Vec<String>,
    /// The time from which on it stands for nobody, such as `2027-01-01T00:00:00Z`; for ever without it
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Timestamp>,
    /// File of the caller's certificate in PEM, by which a server with `--tls-client-ca` knows the caller, instead of a token
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SpecFiles {
    /// Files of the specification, read together; of a directory all that end in `.rebel`, and `-` is standard input. Modules that
    /// a single file imports are found beside it
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// One value of `--admission`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// All classes without one of their own, if there is none.
    pub(crate) class: Option<String>,
    pub(crate) strategy: Strategy,
}

impl Admission {
    fn parse(text: &str) -> Result<Self, String> {
        let (class, mode) = match text.split_once('=') {
            Some((class, mode)) => (Some(class), mode),
            None => (None, text),
        };
        let strategy = Strategy::ALL.into_iter().find(|strategy| strategy.to_string() == mode);
        let strategy = strategy.ok_or_else(|| {
            let modes = Strategy::ALL.map(|strategy| format!("`{strategy}`")).join(", ");
            format!("`{mode}` is no mode of admission; there are {modes}")
        })?;
        Ok(Self { class: class.map(str::to_owned), strategy })
    }
}

/// How long histories are kept. A mistake of a unit must not cost them.
fn retention(text: &str) -> Result<Duration, String> {
    const MIN: Duration = Duration::from_secs(60 * 60);
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time >= MIN { Ok(time) } else { Err("an hour at least: what is discarded does not come back".to_owned()) }
}

/// One value of `--readers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// A class, or another first part of paths; all without one of their own, if there is none.
    pub(crate) name: Option<String>,
    pub(crate) demand: RoleDemand,
}

impl Reading {
    fn parse(text: &str) -> Result<Self, RoleDemandError> {
        let (name, demand) = match text.split_once('=') {
            Some((name, demand)) => (Some(name.to_owned()), demand),
            None => (None, text),
        };
        Ok(Self { name, demand: demand.parse()? })
    }
}

impl Serve {
    /// Who may read; a name or the rest has one rule only.
    pub(crate) fn readers(&self) -> Result<Readers, String> {
        let mut seen = BTreeSet::new();
        let mut readers = Readers::default();
        for Reading { name, demand } in &self.readers {
            if !seen.insert(name) {
                return Err(match name {
                    Some(name) => format!("--readers {name}={demand}: `{name}` has a rule already"),
                    None => format!("--readers {demand}: there is a rule for all names already"),
                });
            }
            readers = match name {
                Some(name) => readers.with(name, demand.clone()),
                None => readers.with_others(demand.clone()),
            };
        }
        Ok(readers)
    }

    /// From where the server may be reached, with what it has.
    pub(crate) fn exposure(&self) -> Exposure {
        match self.missing_for_others().as_slice() {
            _ if self.insecure => Exposure::Insecure,
            [] => Exposure::Protected,
            _ => Exposure::Loopback,
        }
    }

    /// What a server that other machines can reach has to have, and this one has not.
    pub(crate) fn missing_for_others(&self) -> Vec<&'static str> {
        let has_callers = self.tokens.is_some() || self.oidc.oidc_issuer.is_some() || self.tls.tls_client_ca.is_some();
        let rows = [
            (self.tls.tls_cert.is_none(), "--tls-cert FILE and --tls-key FILE"),
            (!has_callers, "--tokens FILE, --oidc-issuer URL or --tls-client-ca FILE"),
        ];
        rows.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, flags)| flags).collect()
    }

    /// The strategies of all classes; a class or the rest has one only.
    pub(crate) fn strategies(&self) -> Result<Strategies, String> {
        let mut seen = BTreeSet::new();
        let mut strategies = Strategies::default();
        for Admission { class, strategy } in &self.admission {
            if !seen.insert(class) {
                return Err(match class {
                    Some(class) => format!("--admission {class}={strategy}: `{class}` has a mode already"),
                    None => format!("--admission {strategy}: there is a mode for all classes already"),
                });
            }
            strategies = match class {
                Some(class) => strategies.with(class, *strategy),
                None => strategies.with_others(*strategy),
            };
        }
        Ok(strategies)
    }
}
