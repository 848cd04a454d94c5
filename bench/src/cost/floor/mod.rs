//! The floor: a durable bank over HTTP with nothing that is not needed for its answers.
//!
//! Requests and answers are those of Enact for `examples/bank.rebel`, as far as the benchmark asks for them: an account is opened,
//! paid into, and read; a transfer is booked. Each change is in memory before it is in the log, and is answered when it is in the
//! log.
mod log;

use std::collections::HashMap;
use std::io;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use self::log::Log;

/// The command of the program under which it is the floor.
pub const FLOOR_COMMAND: &str = "cost-floor";

/// Where the floor keeps its log.
#[derive(Debug, Clone, clap::Args)]
pub struct FloorOptions {
    /// Directory that keeps the log; made when missing
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The time that a sync takes at least, such as `1000us`
    #[arg(long, value_name = "TIME", value_parser = microseconds)]
    pub sync_min: Option<Duration>,
}

fn microseconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix("us").and_then(|number| number.parse().ok());
    number.map(Duration::from_micros).ok_or_else(|| "a number of microseconds, such as 1000us".to_owned())
}

/// Serves until the process is killed, and says on its first line where.
///
/// # Errors
/// What the system refuses.
pub fn serve_floor(options: &FloorOptions) -> io::Result<()> {
    std::fs::create_dir_all(&options.data)?;
    let log = Log::start(&options.data.join("log"), options.sync_min)?;
    let bank = Bank { accounts: Mutex::default(), transfers: Mutex::default(), log, next_tx: AtomicU64::new(1) };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(router(Arc::new(bank))))
}

async fn serve(router: Router) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    io::stdout().flush()?;
    serve_on(listener, router).await
}

/// Serves whatever comes to `listener`, as the server does, until it cannot accept.
pub(crate) async fn serve_on(listener: TcpListener, router: Router) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(router.clone());
        // A client that closes its connection ends it.
        tokio::spawn(async move { drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await) });
    }
}

fn router(bank: Arc<Bank>) -> Router {
    Router::new()
        .route("/health", get(async || Json(Health { status: "serving", insecure: false })))
        .route("/Account/{id}", get(account))
        .route("/Account/{id}/Open", post(open))
        .route("/Account/{id}/Deposit", post(deposit))
        .route("/Transfer/{id}/Book", post(book))
        .with_state(bank)
}

/// Balances in cents, transfers by their ids, and the log.
struct Bank {
    accounts: Mutex<HashMap<String, i64>>,
    transfers: Mutex<HashMap<String, Booked>>,
    log: Log,
    next_tx: AtomicU64,
}

/// What is kept of a transfer.
struct Booked {
    _payer: String,
    _payee: String,
    _cents: i64,
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
    insecure: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    #[serde(rename = "owner")]
    _owner: String,
    initial_deposit: String,
}

#[derive(Deserialize)]
struct Deposit {
    amount: String,
}

#[derive(Deserialize)]
struct Book {
    amount: String,
    from: String,
    to: String,
}

#[derive(Serialize)]
struct Done {
    transaction: String,
    id: String,
    state: &'static str,
}

#[derive(Serialize)]
struct Account {
    fields: Fields,
}

#[derive(Serialize)]
struct Fields {
    balance: String,
}

type Answer<T> = Result<Json<T>, StatusCode>;

async fn account(State(bank): State<Arc<Bank>>, Path(id): Path<String>) -> Answer<Account> {
    let cents = *lock(&bank.accounts).get(&id).ok_or(StatusCode::NOT_FOUND)?;
    Ok(Json(Account { fields: Fields { balance: format!("EUR {}.{:02}", cents / 100, cents % 100) } }))
}

async fn open(State(bank): State<Arc<Bank>>, Path(id): Path<String>, Json(open): Json<Open>) -> Answer<Done> {
    let cents = cents(&open.initial_deposit)?;
    lock(&bank.accounts).insert(id.clone(), cents);
    bank.log([("Account", &id, cents)], id.clone(), "opened").await
}

async fn deposit(State(bank): State<Arc<Bank>>, Path(id): Path<String>, Json(deposit): Json<Deposit>) -> Answer<Done> {
    let cents = cents(&deposit.amount)?;
    *lock(&bank.accounts).get_mut(&id).ok_or(StatusCode::NOT_FOUND)? += cents;
    bank.log([("Account", &id, cents)], id.clone(), "opened").await
}

async fn book(State(bank): State<Arc<Bank>>, Path(id): Path<String>, Json(book): Json<Book>) -> Answer<Done> {
    let cents = cents(&book.amount)?;
    let Book { from, to, .. } = book;
    {
        let mut accounts = lock(&bank.accounts);
        if !accounts.contains_key(&to) {
            return Err(StatusCode::NOT_FOUND);
        }
        let payer = accounts.get_mut(&from).ok_or(StatusCode::NOT_FOUND)?;
        if *payer < cents {
            return Err(StatusCode::CONFLICT);
        }
        *payer -= cents;
        *accounts.get_mut(&to).expect("it is there") += cents;
    }
    let booked = Booked { _payer: from.clone(), _payee: to.clone(), _cents: cents };
    lock(&bank.transfers).insert(id.clone(), booked);
    bank.log([("Transfer", &id, cents), ("Account", &from, -cents), ("Account", &to, cents)], id.clone(), "booked")
        .await
}

impl Bank {
    /// Appends a record for each object, and answers when they are durable.
    async fn log<const N: usize>(
        &self,
        records: [(&str, &String, i64); N],
        id: String,
        state: &'static str,
    ) -> Answer<Done> {
        let tx = self.next_tx.fetch_add(1, Ordering::Relaxed);
        let durable = self.log.append(|bytes| {
            for (class, id, cents) in records {
                let length = u32::try_from(class.len() + id.len() + 16).expect("a head is smaller");
                bytes.extend_from_slice(&length.to_le_bytes());
                bytes.extend_from_slice(&tx.to_le_bytes());
                bytes.extend_from_slice(&cents.to_le_bytes());
                bytes.extend_from_slice(class.as_bytes());
                bytes.extend_from_slice(id.as_bytes());
            }
        });
        durable.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok(Json(Done { transaction: format!("00000000-0000-7000-8000-{tx:012x}"), id, state }))
    }
}

/// The cents of an amount such as `EUR 1.00`.
fn cents(amount: &str) -> Result<i64, StatusCode> {
    let read = || {
        let (euros, cents) = amount.strip_prefix("EUR ")?.split_once('.')?;
        let (euros, cents): (i64, i64) = (euros.parse().ok()?, cents.parse().ok().filter(|_| cents.len() == 2)?);
        let amount = euros.checked_mul(100)?.checked_add(cents)?;
        (amount > 0).then_some(amount)
    };
    read().ok_or(StatusCode::UNPROCESSABLE_ENTITY)
}

/// What a panicking thread held is whole: no lock is held across one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
