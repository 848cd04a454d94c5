//! The page on backups, line by line, with the real program: a backup under load, a restore to a time, an export.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use enact_journal::{BackupReader, Embedded, Journal, LogBuilder, OpenError, Options};
use enact_rebel::Timestamp;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::served::{FREE_PORT, Served, program, serve};

const PAGE: &str = include_str!("../../../../docs/operations/backup.md");
/// The time that the page restores to, and the address that it serves the result at.
const PAGE_TIME: &str = "2026-11-28T09:30:00Z";
const PAGE_LISTEN: &str = "127.0.0.1:8081";
const ACCOUNTS: usize = 6;
const CLIENTS: usize = 3;
/// Cents on each account when it is opened.
const OPENED: i64 = 10_000;

/// A command of the page and what it prints there.
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) printed: String,
}

/// The commands in the `console` blocks of a page.
pub(crate) fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let (true, Some(command)) = (is_console, line.strip_prefix("$ ")) {
            steps.push(Step { command: command.to_owned(), printed: String::new() });
        } else if let (true, Some(step)) = (is_console, steps.last_mut()) {
            step.printed += &format!("{line}\n");
        }
    }
    steps
}

/// The directory in which the commands of the page are typed.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().expect("a directory");
        fs::create_dir(place.path().join(".tools")).expect("a directory");
        let program = fs::canonicalize(program().get_program()).expect("the program is there");
        symlink(program, place.path().join(".tools/enact")).expect("a link");
        let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bank.rebel");
        fs::copy(spec, place.path().join("bank.rebel")).expect("copied");
        Self(place)
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn run(&self, command: &str) -> Output {
        let path = std::env::var("PATH").expect("the environment has a path");
        let path = format!("{}:{path}", self.path(".tools").display());
        let bash = Command::new("bash").args(["-c", command]).current_dir(&self.0).env("PATH", path).output();
        bash.expect("bash starts")
    }

    /// What a command prints that does what it has to.
    #[track_caller]
    pub(crate) fn done(&self, command: &str) -> String {
        let Output { status, stdout, stderr } = self.run(command);
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success() && stderr.is_empty(), "{command}: {status}, {stderr}");
        String::from_utf8(stdout).expect("text")
    }

    /// What a command says that is refused with this status.
    #[track_caller]
    pub(crate) fn refused(&self, command: &str, status: i32) -> String {
        let ended = self.run(command);
        let said = String::from_utf8(ended.stderr).expect("text");
        assert_eq!(ended.status.code(), Some(status), "{command}: {said}");
        said
    }

    /// Builds the directory `data` of the records in `backup`, in segments of 4 KiB, with a checkpoint of those that are sealed.
    pub(crate) async fn restore_in_segments(&self, backup: &str, data: &str) {
        const SEGMENT_BYTES: u32 = 4096;
        let mut log = LogBuilder::begin(&self.path(data), SEGMENT_BYTES).expect("a new directory");
        for group in BackupReader::open(&self.path(backup)).expect("a backup") {
            log.push(group.expect("whole")).expect("written");
        }
        log.finish().expect("durable");
        let options = Options { segment_bytes: SEGMENT_BYTES, checkpoint_bytes: 1, ..Options::default() };
        let journal = open(&self.path(data), options);
        while !self.path(data).join("checkpoint").exists() {
            tokio::task::yield_now().await;
        }
        journal.close().await.expect("closed");
    }

    pub(crate) fn serve(&self, data: &str) -> Served {
        Served::start(serve(&self.path("bank.rebel"), &self.path(data), FREE_PORT))
    }
}

/// Opens the journal in `data`, which this process may just have closed: a program that another test starts has its lock for a moment.
pub(crate) fn open(data: &Path, options: Options) -> Embedded {
    loop {
        match Embedded::open(data, options) {
            Err(OpenError::InUse { .. }) => std::thread::yield_now(),
            opened => return opened.expect("no server has it open"),
        }
    }
}

/// Numbers and what follows from them as `0`, so that two runs compare.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if masked.ends_with('0') => {}
            '0'..='9' => masked.push('0'),
            letter => masked.push(letter),
        }
    }
    masked
}

/// What two lines have in common that say the same of other records.
pub(crate) fn shape(printed: &str) -> Vec<String> {
    let shape = |line: &str| match serde_json::from_str::<BTreeMap<String, Value>>(line) {
        Ok(line) => line.into_keys().collect::<Vec<_>>().join(" "),
        Err(_) => masked(line),
    };
    printed.lines().map(shape).collect()
}

/// The account with this number.
pub(crate) fn iban(number: usize) -> String {
    let account = format!("ABNA{number:010}");
    let digits = format!("{account}NL00").chars().fold(0, |rest, letter| {
        let digit = letter.to_digit(36).expect("letters and digits");
        (rest * if digit > 9 { 100 } else { 10 } + digit) % 97
    });
    format!("NL{:02}{account}", 98 - digits)
}

fn euros(cents: i64) -> String {
    format!("EUR {}.{:02}", cents / 100, cents % 100)
}

async fn balances(bank: &Served) -> Vec<i64> {
    let mut balances = Vec::new();
    for number in 0..ACCOUNTS {
        let (status, account) = bank.get(&format!("/Account/{}", iban(number))).await;
        assert_eq!(status, StatusCode::OK, "{account}");
        let balance = account["fields"]["balance"].as_str().expect("a balance");
        let cents: String = balance.chars().filter(char::is_ascii_digit).collect();
        balances.push(cents.parse().expect("digits"));
    }
    balances
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp::from_millis(i64::try_from(since.as_millis()).expect("not far from now"))
}

/// Clients that transfer money until they are told to stop.
struct Load<'a> {
    bank: &'a Served,
    is_over: AtomicBool,
    booked: AtomicUsize,
}

impl<'a> Load<'a> {
    fn on(bank: &'a Served) -> Self {
        Self { bank, is_over: AtomicBool::new(false), booked: AtomicUsize::new(0) }
    }

    async fn client(&self, name: &str, client: usize) {
        let mut n = client;
        while !self.is_over.load(Ordering::Relaxed) {
            n += CLIENTS;
            let (from, to) = (iban(n % ACCOUNTS), iban((n * 5 + 1) % ACCOUNTS));
            if from == to {
                continue;
            }
            let transfer = json!({ "amount": euros(1 + (n * 37 % 500) as i64), "from": from, "to": to });
            let (status, answer) = self.bank.post(&format!("/Transfer/{name}-{n}/Book"), transfer).await;
            // An account may be empty.
            assert!([StatusCode::OK, StatusCode::CONFLICT].contains(&status), "{answer}");
            self.booked.fetch_add(usize::from(status == StatusCode::OK), Ordering::Relaxed);
        }
    }

    /// Lets the clients work while `meanwhile` runs.
    async fn during<T>(&self, name: &str, meanwhile: impl Future<Output = T>) -> T {
        let clients = async {
            tokio::join!(self.client(name, 0), self.client(name, 1), self.client(name, 2));
        };
        let meanwhile = async {
            let done = meanwhile.await;
            self.is_over.store(true, Ordering::Relaxed);
            done
        };
        tokio::join!(clients, meanwhile).1
    }

    /// Waits until so many transfers are booked.
    async fn booked(&self, count: usize) {
        while self.booked.load(Ordering::Relaxed) < count {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_restores_to_the_money_of_the_moment() {
    let place = Place::new();
    let bank = place.serve("bank-data");
    for number in 0..ACCOUNTS {
        let open = json!({ "owner": "Ada", "initialDeposit": euros(OPENED) });
        let (status, answer) = bank.post(&format!("/Account/{}/Open", iban(number)), open).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    let load = Load::on(&bank);
    load.during("before", load.booked(40)).await;
    let (moment, before) = (now(), balances(&bank).await);
    assert_eq!(before.iter().sum::<i64>(), OPENED * ACCOUNTS as i64);
    // The next transaction has a later time.
    while now() <= moment {
        std::hint::spin_loop();
    }
    let path = format!("/Account/{}/Deposit", iban(0));
    let (_, deposited) = bank.post(&path, json!({ "amount": "EUR 1000.00" })).await;
    let deposited = deposited["transaction"].as_str().expect("it is done").to_owned();

    let [backup, verify, restore, verify_restored, export, serve] = &steps(PAGE)[..] else { panic!("six commands") };
    let load = Load::on(&bank);
    let printed = load
        .during("after", async {
            load.booked(20).await;
            tokio::task::block_in_place(|| {
                // The high-water mark reaches the deposit within 100 ms.
                while !place.done("enact journal export --data bank-data").contains(&deposited) {}
                place.done(&backup.command)
            })
        })
        .await;
    assert_eq!(shape(&printed), shape(&backup.printed), "{printed}");
    assert_eq!(shape(&place.done(&verify.command)), shape(&verify.printed));

    let restore_then = restore.command.replace(PAGE_TIME, &moment.to_string());
    assert_ne!(restore_then, restore.command, "the page restores to {PAGE_TIME}");
    let printed = place.done(&restore_then);
    assert_eq!(shape(&printed), shape(&restore.printed), "{printed}");
    for step in [verify_restored, export] {
        let printed = place.done(&step.command);
        assert_eq!(shape(&printed), shape(&step.printed), "{}: {printed}", step.command);
    }
    assert_eq!(serve.command, format!("enact serve bank.rebel --data bank-restored --listen {PAGE_LISTEN}"));
    let restored = place.serve("bank-restored");
    assert_eq!(balances(&restored).await, before, "the money of {moment}");
    let (status, _) = restored.post(&path, json!({ "amount": "EUR 1.00" })).await;
    assert_eq!(status, StatusCode::OK, "it goes on");

    place.done("enact journal restore bank.backup --data bank-whole");
    let whole = place.serve("bank-whole");
    assert_eq!(
        balances(&whole).await.iter().sum::<i64>(),
        OPENED * ACCOUNTS as i64 + 100_000,
        "no transfer is there in part"
    );
    assert!(
        fs::read_dir(place.path(""))
            .expect("there")
            .all(|entry| { !entry.expect("readable").file_name().to_string_lossy().ends_with(".new") })
    );
}

/// A bank with one account and a deposit, whose server was stopped.
async fn small_bank(place: &Place) {
    let bank = place.serve("bank-data");
    let account = iban(1);
    for (event, body) in [
        ("Open", json!({ "owner": "Ada", "initialDeposit": "EUR 1.00" })),
        ("Deposit", json!({ "amount": "EUR 2.50" })),
        ("Withdraw", json!({ "amount": "EUR 100.00" })),
    ] {
        bank.post(&format!("/Account/{account}/{event}"), body).await;
    }
    bank.signal(rustix::process::Signal::TERM);
    assert!(bank.ended().0.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_backup_is_refused_with_its_place_and_nothing_is_restored() {
    let place = Place::new();
    small_bank(&place).await;
    place.done("enact journal backup bank.backup --data bank-data");
    let whole = fs::read(place.path("bank.backup")).expect("there");
    for at in [3, 40, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(place.path("damaged.backup"), bytes).expect("written");
        for command in
            ["verify --backup damaged.backup", "export --backup damaged.backup", "restore damaged.backup --data new"]
        {
            let said = place.refused(&format!("enact journal {command}"), 4);
            assert!(said.starts_with("error: ") && said.contains("damaged.backup is damaged at byte "), "{said}");
        }
        assert!(!place.path("new").exists() && !place.path("new.new").exists(), "byte {at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_keeps_what_has_happened_at_its_time_and_nothing_later() {
    let place = Place::new();
    small_bank(&place).await;
    place.done("enact journal backup bank.backup --data bank-data");
    let all = place.done("enact journal export --backup bank.backup");
    let times: Vec<Timestamp> = all
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line["at"].as_str().expect("a time").parse().expect("a time")
        })
        .collect();
    let [opened, deposited] = times[..] else { panic!("two events, not {times:?}") };
    place.done(&format!("enact journal restore bank.backup --data all --until {deposited}"));
    assert_eq!(place.done("enact journal export --data all"), all);
    let earlier = Timestamp::from_millis(opened.millis() - 1);
    let printed = place.done(&format!("enact journal restore bank.backup --data none --until {earlier}"));
    assert!(
        printed.starts_with("restored: groups 1, records 1\nleft out: groups 2, "),
        "the contract is left: {printed}"
    );
    assert_eq!(place.done("enact journal export --data none"), "");
    place.refused("enact journal restore bank.backup --data other --until yesterday", 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_not_overwritten() {
    let place = Place::new();
    small_bank(&place).await;
    place.done("enact journal backup bank.backup --data bank-data");
    let said = place.refused("enact journal backup bank.backup --data bank-data", 2);
    assert_eq!(said, "error: bank.backup is there already: a backup overwrites nothing\n");
    let said = place.refused("enact journal restore bank.backup --data bank-data", 4);
    assert_eq!(said, "error: cannot restore to bank-data: bank-data is there already, and not empty\n");
    place.refused("enact journal backup other.backup --data none", 4);
    assert!(!place.path("other.backup").exists() && !place.path("none").exists());
    fs::write(place.path("other.backup.new"), "").expect("written");
    let said = place.refused("enact journal backup other.backup --data bank-data", 2);
    assert!(said.starts_with("error: other.backup.new is there: "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_the_events_that_have_happened_and_no_others() {
    let place = Place::new();
    small_bank(&place).await;
    let exported = place.done("enact journal export --data bank-data");
    let lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let shown = |line: &Value| json!([line["class"], line["id"], line["event"], line["arguments"], line["version"]]);
    assert_eq!(
        lines.iter().map(shown).collect::<Vec<_>>(),
        [
            json!(["Account", iban(1), "Open", { "owner": "Ada", "initialDeposit": "EUR 1.00" }, 1]),
            json!(["Account", iban(1), "Deposit", { "amount": "EUR 2.50" }, 1]),
        ]
    );
    place.done("enact journal backup bank.backup --data bank-data");
    assert_eq!(place.done("enact journal export --backup bank.backup"), exported);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_whose_reader_has_gone_ends_quietly() {
    let place = Place::new();
    small_bank(&place).await;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut export = program();
    export.args(["journal", "export", "--data"]).arg(place.path("bank-data")).stdout(writer);
    let ended = export.stderr(std::process::Stdio::piped()).spawn().expect("it starts").wait_with_output();
    let Output { status, stderr, .. } = ended.expect("it ends");
    assert!(status.success() && stderr.is_empty(), "{status}: {}", String::from_utf8_lossy(&stderr));
}
