//! What ends the program, and with which exit status: the one mapping table.

use std::error::Error as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;
use std::{io, iter, thread};

use enact_entities::{DecodeError, ShutdownError, VaultError};
use enact_journal::{BackupError, BuildError, CloseError, EntityKey, OpenError, Position, SubjectKeysError};
#[cfg(any(feature = "nats", feature = "postgres"))]
use enact_journal::{ReadError, SecurityError};
use enact_rebel::Timestamp;
use enact_server::{BindError, IssuerUrlError, TlsError, TokenLineError, TokensError};
use thiserror::Error;

use crate::client::ClientError;
use crate::config::ConfigError;
use crate::contract::ContractError;
use crate::erase::EraseError;
use crate::follow::FollowError;
use crate::import::ImportError;
use crate::journal::RepairError;
use crate::key_file::KeyFileError;
use crate::traces::TracesError;
use crate::trust::TrustError;

/// How long the message of a failure waits for a reader of standard error.
const UNREAD_MAX: Duration = Duration::from_secs(1);

/// The table as users read it.
pub(crate) const EXIT_STATUS_HELP: &str = "\
Exit status:
  0  done
  1  the specification has errors, or warnings that are denied, or is not laid out, or has classes that cannot be served
  2  wrong usage, or a file of the specification or of tokens or of keys, or a backup, cannot be read, written or taken; or there is no class
  3  cannot listen on the address
  4  the data directory, or the journal over NATS or PostgreSQL, cannot be used: in use, unreadable, unsafe or damaged; or a
     backup is damaged; or the name of the node is in use, or `enact cluster check` or `enact audit` has found something
  5  the data directory holds entities that the specification does not describe, or is not to be changed so
  6  failed while serving; what was acknowledged is kept
  7  lines that `enact import` has sent were refused, or not all of them were answered; or `enact follow` cannot go on";

/// Why the program ends without having done what was asked.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error("the specification has {errors} error{}", if *errors == 1 { "" } else { "s" })]
    Spec { errors: usize },
    #[error(
        "{file}:1:1: the specification declares no class, so there is nothing to serve: declare one, such as `class Account`"
    )]
    NoClass { file: String },
    #[error("`{class}` is an external class, and no participant is connected that keeps its objects")]
    External { class: String },
    #[error("the specification has {warnings} warning{}, and none is allowed", if *warnings == 1 { "" } else { "s" })]
    Warnings { warnings: usize },
    #[error("{files} file{} not laid out; `enact fmt` does it", if *files == 1 { " is" } else { "s are" })]
    Unformatted { files: usize },
    #[error("cannot write {}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{} exists already, and is left as it is: name another folder", path.display())]
    Exists { path: PathBuf },
    #[error("{} has no files that end in `.rebel`", path.display())]
    Empty { path: PathBuf },
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{why}")]
    Admission { why: String },
    #[error("{why}")]
    Readers { why: String },
    #[error("`{filter}` is not a filter of log lines: {why}")]
    LogFilter { filter: String, why: String },
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error("--oidc-issuer")]
    Issuer(#[from] IssuerUrlError),
    #[error("there can be no such caller")]
    Caller(#[source] TokenLineError),
    #[error("no line can be made of the certificate")]
    Certificate(#[source] TrustError),
    #[error("the operating system gives no random bytes")]
    Random(#[source] getrandom::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    #[error("give {missing}, or accept the risk with --insecure")]
    Exposed { missing: String, source: BindError },
    #[error(transparent)]
    Listen(#[from] BindError),
    #[error("cannot serve from {}", path.display())]
    Data { path: PathBuf, source: OpenError },
    #[error("cannot look after {}", path.display())]
    Journal { path: PathBuf, source: OpenError },
    #[error("the journal in {} is damaged", path.display())]
    Damaged { path: PathBuf },
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error("cannot restore to {}", path.display())]
    Restore { path: PathBuf, source: BuildError },
    #[cfg(feature = "nats")]
    #[error("cannot restore to {place}")]
    RestoreStreams { place: String, source: enact_journal::nats::BuildError },
    #[cfg(feature = "nats")]
    #[error(transparent)]
    Directory(#[from] crate::journal::cluster::DirectoryError),
    #[cfg(feature = "nats")]
    #[error(
        "not all shards are restored for certain, and no node serves them: remove the streams J0, S0 and so on of all shards, or the schema of the \
         database, and the stream `KV_enact`, and restore them again"
    )]
    HalfRestored {
        #[source]
        cause: Box<Failure>,
    },
    #[cfg(feature = "postgres")]
    #[error("cannot restore to {place}")]
    RestoreTables { place: String, source: enact_journal::postgres::BuildError },
    #[error(
        "{entity} had not ended by that time, or just before, and its history was discarded after it ended at {ended}: restore to a time \
         more than an hour after that, or from an earlier backup"
    )]
    Unrestorable { entity: EntityKey, ended: Timestamp },
    #[error("not repaired")]
    Repair(#[from] RepairError),
    #[error("record {position}, of {entity}, cannot be read")]
    Record { position: Position, entity: EntityKey, source: DecodeError },
    #[cfg(any(feature = "nats", feature = "postgres"))]
    #[error("cannot read {place}")]
    Read { place: String, source: ReadError },
    #[error(
        "the specification does not allow what has happened: {findings} finding{}", if *findings == 1 { "" } else { "s" }
    )]
    NotAllowed { findings: u64 },
    #[error("no spans can be sent")]
    Traces(#[from] TracesError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Erase(#[from] EraseError),
    #[error(
        "`{name}` is personal, and the keys of personal values have no place: give `--subject-keys DIR`, a directory apart from the journal"
    )]
    Keyless { name: String },
    #[error(
        "`{name}` is personal, and the keys of personal values would be open to the servers: give `--subject-keys-secret FILE`, the same for \
         each node; `enact cluster secret FILE` makes one"
    )]
    Secretless { name: String },
    #[error("cannot use the keys of personal values in {}", path.display())]
    SubjectKeys { path: PathBuf, source: SubjectKeysError },
    #[error("cannot keep personal values with the keys in {}", path.display())]
    Vault { path: PathBuf, source: VaultError },
    #[error("cannot read the file")]
    Input(#[source] io::Error),
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    #[error(
        "cannot keep what is known of transactions in the directory for temporary files: make space there, or name another one by TMPDIR"
    )]
    Temporary(#[source] io::Error),
    #[error("cannot audit {place}")]
    Audit { place: String, source: ContractError },
    #[error("cannot serve from {place}")]
    Contract { place: String, source: ContractError },
    #[cfg(feature = "nats")]
    #[error("cannot use {place}")]
    Nats { place: String, source: enact_journal::nats::OpenError },
    #[cfg(feature = "nats")]
    #[error("cannot look at {place}")]
    Shard { place: String, source: Box<enact_cluster::OpenError> },
    #[cfg(feature = "nats")]
    #[error(
        "--cluster names the NATS servers, and --journal beside it a PostgreSQL database: leave --journal out to keep the entities at those servers"
    )]
    TwoJournals,
    #[cfg(feature = "nats")]
    #[error("the nodes at {place}")]
    Join { place: String, source: enact_cluster::JoinError },
    #[cfg(feature = "nats")]
    #[error("shard {shard} cannot be read")]
    Unverified { shard: u16, source: enact_cluster::VerifyError },
    #[cfg(feature = "nats")]
    #[error("shard {shard} is not moved")]
    Unmoved { shard: u16, source: enact_cluster::MoveError },
    #[cfg(feature = "nats")]
    #[error("{problems} thing{} to mend", if *problems == 1 { "" } else { "s" })]
    Unsound { problems: usize },
    #[cfg(not(feature = "nats"))]
    #[error("this program was built without NATS: build it with `cargo build --release -p enact-cli --features nats`")]
    WithoutNats,
    #[cfg(feature = "postgres")]
    #[error("cannot use {place}")]
    Postgres { place: String, source: enact_journal::postgres::OpenError },
    #[cfg(feature = "postgres")]
    #[error(
        "--replicas is for NATS: on how many standbys PostgreSQL keeps a record is its setting `synchronous_standby_names`"
    )]
    Replicas,
    #[cfg(any(feature = "nats", feature = "postgres"))]
    #[error("--retain is for a data directory: a stream of NATS or a table of PostgreSQL keeps every record for ever")]
    Retain,
    #[cfg(not(feature = "postgres"))]
    #[error(
        "this program was built without PostgreSQL: build it with `cargo build --release -p enact-cli --features postgres`"
    )]
    WithoutPostgres,
    #[error("cannot close the journal in {}", path.display())]
    Close { path: PathBuf, source: CloseError },
    #[error("the operating system refuses threads or signals")]
    Runtime(#[source] io::Error),
    #[error("the log says why")]
    Logged { status: ExitCode },
    #[error("stopped serving; the log says why")]
    Engine,
    #[error("stopped uncleanly; what was acknowledged is kept")]
    Shutdown(#[from] ShutdownError),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        let status = match self {
            Self::Logged { status } => return *status,
            Self::Spec { .. } | Self::External { .. } | Self::Warnings { .. } | Self::Unformatted { .. } => 1,
            Self::Unreadable { .. }
            | Self::Unwritable { .. }
            | Self::Exists { .. }
            | Self::Empty { .. }
            | Self::NoClass { .. }
            | Self::Config(_)
            | Self::Admission { .. }
            | Self::Readers { .. }
            | Self::LogFilter { .. }
            | Self::Tokens(_)
            | Self::Tls(_)
            | Self::Issuer(_)
            | Self::KeyFile(_)
            | Self::Caller(_)
            | Self::Certificate(_)
            | Self::Traces(_)
            | Self::Client(_) => 2,
            #[cfg(not(feature = "nats"))]
            Self::WithoutNats => 2,
            #[cfg(feature = "nats")]
            Self::TwoJournals => 2,
            #[cfg(feature = "postgres")]
            Self::Replicas => 2,
            #[cfg(any(feature = "nats", feature = "postgres"))]
            Self::Retain => 2,
            #[cfg(not(feature = "postgres"))]
            Self::WithoutPostgres => 2,
            Self::Listen(_) | Self::Exposed { .. } => 3,
            #[cfg(any(feature = "nats", feature = "postgres"))]
            _ if self.insecurity().is_some_and(SecurityError::is_of_settings) => 2,
            #[cfg(feature = "nats")]
            Self::Join { source, .. } if source.is_of_usage() => 2,
            #[cfg(feature = "nats")]
            Self::Join { source, .. } if source.is_of_contract() => 5,
            #[cfg(feature = "nats")]
            Self::Unmoved { source: enact_cluster::MoveError::NoShard { .. }, .. } => 2,
            #[cfg(feature = "nats")]
            Self::Nats { .. }
            | Self::Shard { .. }
            | Self::Join { .. }
            | Self::Unverified { .. }
            | Self::Unmoved { .. }
            | Self::Unsound { .. } => 4,
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } | Self::RestoreTables { .. } => 4,
            #[cfg(feature = "nats")]
            Self::RestoreStreams { .. } | Self::HalfRestored { .. } => 4,
            #[cfg(feature = "nats")]
            Self::Directory(error) => {
                if error.is_damage() {
                    4
                } else {
                    2
                }
            }
            #[cfg(any(feature = "nats", feature = "postgres"))]
            Self::Read { .. } => 4,
            Self::Repair(error) if error.is_of_usage() => 2,
            Self::Backup(BackupError::Damaged(_)) | Self::Repair(_) => 4,
            Self::Backup(_) | Self::Output(_) | Self::Input(_) | Self::Temporary(_) => 2,
            Self::Follow(_) | Self::Erase(_) => 7,
            Self::SubjectKeys { .. } | Self::Vault { .. } => 4,
            Self::Keyless { .. } | Self::Secretless { .. } => 2,
            Self::Import(error) => {
                if error.is_of_usage() {
                    2
                } else {
                    7
                }
            }
            Self::Data { .. }
            | Self::Journal { .. }
            | Self::Damaged { .. }
            | Self::Restore { .. }
            | Self::Record { .. }
            | Self::Unrestorable { .. }
            | Self::NotAllowed { .. }
            | Self::Close { .. } => 4,
            Self::Contract { source, .. } | Self::Audit { source, .. } if source.is_of_the_directory() => 4,
            Self::Contract { .. } | Self::Audit { .. } => 5,
            Self::Runtime(_) | Self::Random(_) | Self::Engine | Self::Shutdown(_) => 6,
        };
        ExitCode::from(status)
    }

    /// Prints the failure with what caused it, in one line. The program ends without it if nobody reads it.
    pub(crate) fn say(&self) {
        if matches!(self, Self::Logged { .. }) {
            return;
        }
        let line = format!("error: {}", self.in_words());
        let (done, written) = mpsc::channel();
        thread::spawn(move || {
            eprintln!("{line}");
            done.send(())
        });
        // An error says that the time is over or that the thread has ended: both are the end of trying.
        written.recv_timeout(UNREAD_MAX).unwrap_or_default();
    }

    /// The failure with what caused it, in one line.
    pub(crate) fn in_words(&self) -> String {
        let causes = iter::successors(self.source(), |&cause| cause.source());
        let words = causes.fold(self.to_string(), |words, cause| format!("{words}: {cause}"));
        #[cfg(any(feature = "nats", feature = "postgres"))]
        if let Some(remedy) = self.insecurity().and_then(remedy) {
            return format!("{words}; {remedy}");
        }
        match self {
            Self::Data { path, source: OpenError::Damaged(_) } => {
                format!("{words}; `enact journal repair --data {}` says what is lost, and what to do", path.display())
            }
            _ => words,
        }
    }

    /// Why the program and the servers of a journal do not trust each other.
    #[cfg(any(feature = "nats", feature = "postgres"))]
    fn insecurity(&self) -> Option<&SecurityError> {
        #[cfg(feature = "nats")]
        use enact_cluster::{JoinError, MoveError, VerifyError};
        #[cfg(feature = "nats")]
        use enact_journal::nats;
        #[cfg(feature = "postgres")]
        use enact_journal::postgres;

        match self {
            #[cfg(feature = "nats")]
            Self::Nats { source: nats::OpenError::Security(cause), .. }
            | Self::RestoreStreams { source: nats::BuildError::Open(nats::OpenError::Security(cause)), .. }
            | Self::Join { source: JoinError::Security(cause), .. }
            | Self::Unmoved { source: MoveError::Join(JoinError::Security(cause)), .. } => Some(cause),
            #[cfg(feature = "nats")]
            Self::Shard { source, .. } => source.insecurity(),
            #[cfg(feature = "nats")]
            Self::Unverified { source: VerifyError::Open(source), .. } => source.insecurity(),
            #[cfg(feature = "postgres")]
            Self::Postgres { source: postgres::OpenError::Security(cause), .. }
            | Self::RestoreTables {
                source: postgres::BuildError::Open(postgres::OpenError::Security(cause)), ..
            } => Some(cause),
            _ => None,
        }
    }
}

/// Which flags help when the servers of a journal are not trusted, or do not trust the program.
#[cfg(any(feature = "nats", feature = "postgres"))]
fn remedy(insecurity: &SecurityError) -> Option<&'static str> {
    match insecurity {
        SecurityError::Unencrypted | SecurityError::Disabled => {
            Some("or, where no address asks for encryption, accept the risk with --journal-insecure")
        }
        SecurityError::UnknownAuthority => Some("`--journal-ca FILE` names its authority"),
        SecurityError::OtherName { .. } => Some("call the server as its certificate does"),
        SecurityError::IdentityDemanded => Some("give one with `--journal-cert FILE` and `--journal-key FILE`"),
        _ => None,
    }
}
