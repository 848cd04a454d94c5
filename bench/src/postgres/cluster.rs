//! PostgreSQL: a new cluster for each run, new tables for each measurement, and a pool of connections.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::Semaphore;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::ledger::{OPENING, Order, Workload};
use super::window::{Bank, Teller, missing};
use super::{PostgresError, refused};
use crate::measure::Process;
use crate::peers::{Program, Start};
use crate::served::Answer;

/// How long the server may take to start; apt may have to install it first.
const START_TIME_MAX: Duration = Duration::from_secs(600);

/// A running server with a new cluster, which ends and leaves nothing when this is dropped, or this process ends.
pub(super) struct Cluster {
    _program: Program,
    server: Process,
    sockets: String,
    version: String,
}

impl Cluster {
    /// Has `program` run a server in `directory` that allows so many connections, and one more for tables.
    ///
    /// Returns why there is none if it says so.
    ///
    /// # Errors
    /// [`PostgresError::System`] if the program cannot be run, or says nothing that is known.
    pub(super) fn start(
        program: &Path,
        directory: &Path,
        connections: u32,
    ) -> Result<Result<Self, String>, PostgresError> {
        let directory = directory.canonicalize().map_err(refused(directory))?;
        let start = Start::of([program]);
        let mut running =
            start.with([directory.as_os_str(), connections.to_string().as_ref()]).map_err(refused(program))?;
        let answer = running.ask_within("where", START_TIME_MAX).map_err(refused(program))?;
        let mut words = answer.splitn(4, ' ');
        match (words.next(), words.next().map(str::parse), words.next(), words.next()) {
            (Some("ready"), Some(Ok(id)), Some(sockets), Some(version)) => Ok(Ok(Self {
                _program: running,
                server: Process::of(id),
                sockets: sockets.to_owned(),
                version: version.to_owned(),
            })),
            _ => match answer.strip_prefix("none ") {
                Some(reason) => Ok(Err(reason.to_owned())),
                None => Err(refused(program)(std::io::Error::other(format!("it says {answer:?}")))),
            },
        }
    }

    /// Of the server.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    async fn connect(&self) -> Result<Client, PostgresError> {
        let mut config = Config::new();
        config.host_path(&self.sockets).user("bench").dbname("postgres");
        let (client, connection) = config.connect(NoTls).await?;
        // What ends a connection is told to the one that uses it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }
}

/// New tables with the accounts of a workload, and so many connections.
pub(super) struct Database {
    server: Process,
    admin: Client,
    pool: Rc<Pool>,
}

struct Pool {
    free: RefCell<Vec<Session>>,
    permits: Semaphore,
}

/// A connection, and what was prepared on it.
struct Session {
    client: Client,
    book: Statement,
    open: Statement,
}

impl Session {
    async fn new(cluster: &Cluster) -> Result<Self, PostgresError> {
        let client = cluster.connect().await?;
        let book = client.prepare("SELECT book($1, $2, $3, 1)").await?;
        let open = client.prepare("INSERT INTO account VALUES ($1, $2)").await?;
        Ok(Self { client, book, open })
    }

    async fn submit(&self, order: Order) -> Result<Answer, PostgresError> {
        let done = match order {
            Order::Open(account) => self.client.execute(&self.open, &[&account, &OPENING]).await,
            Order::Book { id, payer, payee } => self.client.execute(&self.book, &[&id.number(), &payer, &payee]).await,
        };
        match done {
            Ok(_) => Ok(Answer::Done),
            Err(error) if error.code() == Some(&SqlState::CHECK_VIOLATION) => Ok(Answer::Refused),
            Err(error) => Err(error.into()),
        }
    }
}

impl Database {
    pub(super) async fn open(cluster: &Cluster, workload: &Workload, connections: u32) -> Result<Self, PostgresError> {
        let admin = cluster.connect().await?;
        admin.batch_execute(include_str!("procedure.sql")).await?;
        let opened = "INSERT INTO account SELECT number, $2 FROM generate_series(0, $1::bigint - 1) AS number";
        admin.execute(opened, &[&i64::from(workload.accounts), &OPENING]).await?;
        // Nothing of what was before is left to do within the window.
        admin.batch_execute("VACUUM ANALYZE account, transfer").await?;
        admin.batch_execute("CHECKPOINT").await?;
        let sessions = try_join_all((0..connections).map(|_| Session::new(cluster))).await?;
        let pool = Pool { permits: Semaphore::new(sessions.len()), free: RefCell::new(sessions) };
        Ok(Self { server: cluster.server, admin, pool: Rc::new(pool) })
    }
}

/// A client of the pool.
pub(super) struct Customer(Rc<Pool>);

impl Teller for Customer {
    async fn submit(&mut self, order: Order) -> Result<Answer, PostgresError> {
        let _permit = self.0.permits.acquire().await.expect("it is never closed");
        let session = self.0.free.borrow_mut().pop().expect("there is one for each permit");
        let answer = session.submit(order).await;
        self.0.free.borrow_mut().push(session);
        answer
    }
}

impl Bank for Database {
    type Teller = Customer;

    const LOOKED_AT_MAX: usize = usize::MAX;

    async fn tellers(&self, clients: u32) -> Result<Vec<Customer>, PostgresError> {
        Ok((0..clients).map(|_| Customer(Rc::clone(&self.pool))).collect())
    }

    fn cpu_time(&self) -> Option<Duration> {
        self.server.cpu_time_with_children()
    }

    async fn balances(&self, accounts: u32) -> Result<Vec<i64>, PostgresError> {
        let all = "SELECT balance FROM account WHERE id < $1 ORDER BY id";
        let rows = self.admin.query(all, &[&i64::from(accounts)]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Primary keys keep them from being there twice.
    async fn expect_made(&self, orders: &[Order]) -> Result<(), PostgresError> {
        let (mut opened, mut booked) = (Vec::new(), Vec::new());
        for order in orders {
            match order {
                Order::Open(account) => opened.push(*account),
                Order::Book { id, .. } => booked.push(id.number()),
            }
        }
        for (table, ids) in [("account", opened), ("transfer", booked)] {
            let absent = format!("SELECT id FROM unnest($1::bigint[]) AS id EXCEPT SELECT id FROM {table} LIMIT 1");
            if let Some(row) = self.admin.query_opt(&absent, &[&ids]).await? {
                return Err(missing(format!("{table} {}", row.get::<_, i64>(0))));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::OrderId;
    use super::super::window::{Window, verify};
    use super::*;
    use crate::psac::Experiment;
    use crate::served::block_on;

    const WINDOW: Window = Window { warm_up: Duration::ZERO, length: Duration::from_millis(200), seed: 1, clients: 24 };

    fn run_program() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/peers/postgres/run"))
    }

    /// A cluster in a directory of its own, which outlives it; nothing where there is no PostgreSQL, which is said.
    fn cluster() -> Option<(tempfile::TempDir, Cluster)> {
        let directory = tempfile::tempdir_in("/tmp").expect("a place for the test");
        // A user without privileges passes through.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).expect("it is ours");
        match Cluster::start(run_program(), directory.path(), 8).expect("the program runs") {
            Ok(cluster) => Some((directory, cluster)),
            Err(reason) => {
                eprintln!("NOT RUN: {reason}");
                None
            }
        }
    }

    fn book(turn: u32, payer: i64, payee: i64) -> Order {
        Order::Book { id: OrderId { client: 0, turn }, payer, payee }
    }

    #[test]
    fn what_the_procedure_refuses_has_no_effect_and_a_transfer_happens_once() {
        let Some((_directory, cluster)) = cluster() else { return };
        let run = async {
            let database = Database::open(&cluster, &Workload::new(Experiment::NoSync), 1).await?;
            let [mut teller] = <[Customer; 1]>::try_from(database.tellers(1).await?).ok().expect("one");
            database.admin.batch_execute("UPDATE account SET balance = id").await?;
            assert!(matches!(teller.submit(book(1, 0, 1)).await?, Answer::Refused), "there is nothing on 0");
            assert!(matches!(teller.submit(book(1, 1, 0)).await?, Answer::Done));
            for wrong in [book(1, 0, 1), book(2, 0, 7), book(3, 7, 0)] {
                assert!(teller.submit(wrong).await.is_err(), "{wrong:?}");
            }
            assert!(database.expect_made(&[book(1, 1, 0)]).await.is_ok());
            assert!(database.expect_made(&[book(1, 1, 0), book(2, 0, 7)]).await.is_err());
            assert_eq!(database.balances(2).await?, [1, 0]);
            Ok::<_, PostgresError>(())
        };
        block_on(run).expect("it answers");
    }

    #[test]
    fn the_oracle_accepts_what_clients_that_share_connections_have_booked() {
        let Some((_directory, cluster)) = cluster() else { return };
        let run = async {
            for experiment in [Experiment::NoSync, Experiment::Sync100, Experiment::Hot] {
                let workload = Workload::new(experiment);
                WINDOW.measure(&Database::open(&cluster, &workload, 8).await?, &workload).await?;
            }
            Ok::<_, PostgresError>(())
        };
        block_on(run).expect("it holds what was acknowledged");
    }

    #[test]
    fn the_oracle_refuses_a_balance_that_is_wrong_and_an_object_that_is_not_there() {
        let Some((_directory, cluster)) = cluster() else { return };
        let run = async {
            for (experiment, damage, complaint) in [
                (Experiment::Sync100, "UPDATE account SET balance = balance + 1 WHERE id = 1", "account 1 holds"),
                (Experiment::Sync100, "DELETE FROM account WHERE id = 1", "there are 99 accounts"),
                (Experiment::Sync100, "DELETE FROM transfer WHERE id = 0", "transfer 0 was acknowledged"),
                (Experiment::NoSync, "DELETE FROM account WHERE id = 2", "account 2 was acknowledged"),
            ] {
                let workload = Workload::new(experiment);
                let database = Database::open(&cluster, &workload, 8).await?;
                let (_, ledger) = WINDOW.ask(&database, &workload).await?;
                database.admin.batch_execute(damage).await?;
                let wrong = verify(&database, &ledger).await.expect_err(damage).to_string();
                assert!(wrong.contains(complaint), "{damage}: {wrong}");
            }
            Ok::<_, PostgresError>(())
        };
        block_on(run).expect("it answers");
    }

    #[test]
    fn nothing_of_a_cluster_is_left_in_the_end() {
        let Some((directory, cluster)) = cluster() else { return };
        let (server, sockets) = (cluster.server, cluster.sockets.clone());
        assert!(server.cpu_time_with_children().is_some() && Path::new(&sockets).exists());
        assert_eq!(directory.path().read_dir().expect("it is there").count(), 1);
        drop(cluster);
        assert_eq!(server.cpu_time_with_children(), None, "it has ended");
        assert!(!Path::new(&sockets).exists());
        assert_eq!(directory.path().read_dir().expect("it is there").count(), 0);
    }

    #[test]
    fn a_program_without_a_database_says_why() {
        let here = tempfile::tempdir().expect("a place for the test");
        let program = here.path().join("run");
        let says = |words: &str| {
            std::fs::write(&program, format!("#!/bin/sh\nread -r _; echo '{words}'\n")).expect("written");
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
            Cluster::start(&program, here.path(), 1).map(Result::err)
        };
        assert_eq!(says("none it rains").expect("a reason"), Some("it rains".to_owned()));
        assert!(says("ready now").is_err());
    }
}
