//! A bank that is killed again and again while its clients create things: what is there is what they were told, once,
//! under the ids that they were told, and made by the caller that they are.
//!
//! Requests name no instance that they create: the server names it after caller, class and idempotency key, or an event
//! names it by `fresh`. All requests of a round have one key, so that callers, classes and instances must keep it apart.
//! Tokens are replaced and withdrawn between a kill and the next start, and clients repeat what was not answered with
//! those they have then.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::served::{FREE_PORT, Served, enact, of_any_request, serve, token};

const BANK: &str = "
module bank version 1

roles teller, auditor

class Branch
  accounts: Integer = 0
  deposits: Integer = 0
  cards: Integer = 0
  visits: Integer = 0

  initial closed
    on Found(): open
  open
    internal on Opened(deposit: Integer)
      post: this.accounts += 1, this.deposits += deposit
    internal on Issued(count: Integer)
      post: this.cards += count
    internal on Visited()
      post: this.visits += 1

class Account
  id: Id @identity
  branch: Branch
  openedBy: String
  balance: Integer
  cards: Set[Card] = {}
  reports: Set[Report] = {}

  initial unopened
    on Open(at: Branch, deposit: Integer) -> Card by teller: opened
      let: card = fresh(Card)
      post: this.branch = at, this.openedBy = caller.id, this.balance = deposit, this.cards += card
      sync: card.Issue(this, 0), at.Opened(deposit), at.Issued(1)
      return: card
  opened
    on Order(amount: Integer) -> Set[Card] by teller
      let: one = fresh(Card)
           two = fresh(Card)
      pre: \"insufficient funds\": balance >= 2 * amount
      post: this.balance -= 2 * amount, this.cards += {one, two}
      sync: one.Issue(this, amount), two.Issue(this, amount), branch.Issued(2)
      return: {one, two}
    internal on Reported(report: Report)
      post: this.reports += report

class Card
  number: Id @identity
  account: Account
  value: Integer
  issuedBy: String

  initial none
    internal on Issue(of: Account, amount: Integer): issued
      post: this.account = of, this.value = amount, this.issuedBy = caller.id
  issued

class Report
  id: Id @identity
  account: Account
  filedBy: String

  initial draft
    on File(about: Account) by auditor: filed
      post: this.account = about, this.filedBy = caller.id
      sync: about.Reported(this)
  filed

class Visit
  id: Id @identity
  ofTeller: Boolean
  ofAuditor: Boolean

  initial outside
    on Enter(at: Branch): inside
      post: this.ofTeller = caller has teller, this.ofAuditor = caller has auditor
      sync: at.Visited()
  inside
";

const CLIENTS: usize = 8;
const REQUESTS_PER_ROUND: usize = 6;
/// At most so many answers lie between two kills.
const ANSWERS_PER_KILL: usize = 200;

/// A caller that has tokens and a role.
type Caller = &'static str;
const ROLES: [(Caller, &str); 2] = [("alice", "teller"), ("bob", "auditor")];
const CALLERS: [Option<Caller>; 3] = [Some("alice"), Some("bob"), None];

/// What an operator keeps: the specification, the data, and the file of tokens.
struct Site {
    directory: TempDir,
    held: BTreeMap<Caller, Held>,
    /// Tokens that were in the file once, and are to be refused.
    withdrawn: Vec<String>,
}

/// The tokens of a caller, with their lines.
#[derive(Clone, Debug)]
struct Held {
    tokens: Vec<(String, String)>,
    /// Whether the lines are in the file.
    is_listed: bool,
}

impl Site {
    fn new() -> Self {
        let held = ROLES.map(|(caller, role)| (caller, Held { tokens: vec![token(caller, &[role])], is_listed: true }));
        let directory = tempfile::tempdir().expect("a place for the test");
        let site = Self { directory, held: BTreeMap::from(held), withdrawn: vec![token("alice", &["teller"]).0] };
        fs::write(site.path("bank.rebel"), BANK).expect("writable");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Leaves each caller its tokens, or gives it a new one beside them or in their place, or takes them out of the file
    /// until the next change.
    fn change_tokens(&mut self, random: &mut StdRng) {
        for (caller, role) in ROLES {
            let held = self.held.get_mut(caller).expect("it has tokens");
            match random.random_range(0..6) {
                _ if !held.is_listed => self.replace_tokens(caller, role),
                0 => held.is_listed = false,
                1 | 2 => held.tokens.push(token(caller, &[role])),
                3 | 4 => self.replace_tokens(caller, role),
                _ => {}
            }
        }
    }

    fn replace_tokens(&mut self, caller: Caller, role: &str) {
        let new = Held { tokens: vec![token(caller, &[role])], is_listed: true };
        let old = self.held.insert(caller, new).expect("it has tokens");
        self.withdrawn.extend(old.tokens.into_iter().map(|(token, _)| token));
    }

    fn serve(&self) -> Served {
        let listed = self.held.values().filter(|held| held.is_listed).flat_map(|held| &held.tokens);
        let lines: String = listed.map(|(_, line)| format!("{line}\n")).collect();
        fs::write(self.path("tokens"), lines).expect("writable");
        fs::set_permissions(self.path("tokens"), Permissions::from_mode(0o600)).expect("ours");
        let mut command = serve(&self.path("bank.rebel"), &self.path("data"), FREE_PORT);
        command.arg("--tokens").arg(self.path("tokens"));
        Served::start(command)
    }

    fn running(&self, server: &Served) -> Option<Running> {
        Some(Running { base: server.url(""), held: self.held.clone() })
    }

    /// Tokens that the server must not take: those that callers have and that are not in the file, and the last ones that were
    /// taken out of it.
    fn refused(&self) -> impl Iterator<Item = &str> {
        let unlisted = self.held.values().filter(|held| !held.is_listed).flat_map(|held| &held.tokens);
        self.withdrawn.iter().rev().take(10).map(String::as_str).chain(unlisted.map(|(token, _)| token.as_str()))
    }
}

/// The server of the moment, and the tokens that its clients have.
#[derive(Clone, Debug)]
struct Running {
    base: String,
    held: BTreeMap<Caller, Held>,
}

#[derive(Clone, Debug)]
struct Request {
    caller: Option<Caller>,
    path: String,
    key: String,
    body: Value,
}

impl Request {
    fn event(&self) -> &str {
        self.path.rsplit('/').next().expect("a path ends with its event")
    }

    /// The instance in the path, if there is one.
    fn addressed(&self) -> Option<&str> {
        let mut parts = self.path.split('/').skip(2);
        parts.next().filter(|_| parts.next().is_some())
    }

    /// Whether the caller has the role that the contract demands.
    fn is_allowed(&self) -> bool {
        match self.event() {
            "Open" | "Order" => self.caller == Some("alice"),
            "File" => self.caller == Some("bob"),
            _ => true,
        }
    }
}

/// What a client was told in the end.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    status: StatusCode,
    body: Value,
}

/// How a client came to its answer.
#[derive(Clone, Debug)]
struct Told {
    answer: Answer,
    /// Whether the request had happened when it was sent for the last time.
    is_replayed: bool,
    /// Whether an answer was lost before.
    was_lost: bool,
}

/// What all clients have seen.
#[derive(Debug, Default)]
struct Seen {
    answers: Mutex<Vec<(Request, Answer)>>,
    /// How many answers there were, of any kind.
    count: watch::Sender<usize>,
    lost: AtomicUsize,
    unauthenticated: AtomicUsize,
    /// Requests that had happened although their answer was lost.
    recovered: AtomicUsize,
}

#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    running: watch::Receiver<Option<Running>>,
    seen: Arc<Seen>,
}

impl Client {
    /// Sends `request` to whatever server runs, until it is answered.
    async fn send(&self, request: &Request) -> Told {
        let mut running = self.running.clone();
        let mut was_lost = false;
        for attempt in 0.. {
            let Running { base, held } =
                running.wait_for(Option::is_some).await.expect("the test runs").clone().expect("checked");
            let held = request.caller.map(|caller| &held[caller]);
            let sending = self.http.post(format!("{base}{}", request.path));
            let sending = match held {
                Some(held) => sending.bearer_auth(&held.tokens[attempt % held.tokens.len()].0),
                None => sending,
            };
            let sending = sending.header("idempotency-key", &request.key).header("enact-deadline-ms", "30000");
            // Lost on the way, there or back: the client cannot know which, and asks again.
            let Ok(response) = sending.json(&request.body).send().await else {
                was_lost = true;
                self.seen.lost.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                continue;
            };
            let status = response.status();
            let is_replayed = response.headers().get("idempotency-replayed").is_some_and(|value| value == "true");
            let Ok(body) = response.json().await.map(of_any_request) else { continue };
            self.seen.count.send_modify(|count| *count += 1);
            // A server that was started meanwhile, on the port of the one before, has other tokens.
            if !running.has_changed().expect("the test runs") {
                let is_refused = held.is_some_and(|held| !held.is_listed);
                assert_eq!(status == StatusCode::UNAUTHORIZED, is_refused, "{request:?}: {status} {body}");
            }
            match (status, body["type"].as_str().unwrap_or_default()) {
                (StatusCode::OK, _)
                | (StatusCode::CONFLICT, "urn:enact:problem:refused")
                | (StatusCode::FORBIDDEN, "urn:enact:problem:forbidden") => {
                    return Told { answer: Answer { status, body }, is_replayed, was_lost };
                }
                // The caller has no token for now.
                (StatusCode::UNAUTHORIZED, "urn:enact:problem:unauthenticated") => {
                    self.seen.unauthenticated.fetch_add(1, Ordering::Relaxed);
                }
                // Another sending still runs, or the server is full or in doubt about it.
                (StatusCode::CONFLICT, "urn:enact:problem:key-in-use")
                | (StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) => {}
                _ => panic!("{request:?}: {status} {body}"),
            }
        }
        unreachable!("there are no more numbers of attempts")
    }

    /// Sends rounds of requests, some of them twice at the same time, until it `is_over`.
    async fn rounds(self, number: usize, seed: u64, is_over: Arc<AtomicBool>) {
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(1 + number as u64));
        let mut accounts: Vec<String> = Vec::new();
        let mut round = 0;
        while !is_over.load(Ordering::Relaxed) {
            let mut requests = requests(&format!("{number}-{round}"), &accounts, &mut random);
            requests.shuffle(&mut random);
            for request in requests.into_iter().take(REQUESTS_PER_ROUND) {
                let answer = if random.random_bool(0.25) {
                    let (one, other) = tokio::join!(self.send(&request), self.send(&request));
                    assert!(one.is_replayed || other.is_replayed, "{request:?} happened twice: {one:?} {other:?}");
                    assert_eq!(one.answer, other.answer, "{request:?}");
                    one.answer
                } else {
                    let told = self.send(&request).await;
                    self.seen.recovered.fetch_add(usize::from(told.was_lost && told.is_replayed), Ordering::Relaxed);
                    told.answer
                };
                if request.event() == "Open" && answer.status == StatusCode::OK {
                    accounts.push(text(&answer.body["id"]));
                }
                self.seen.answers.lock().expect("no client fails").push((request, answer));
            }
            round += 1;
        }
    }

    /// The same request has the same answer as before.
    async fn is_answered_again(&self, request: &Request, answer: &Answer) {
        let told = self.send(request).await;
        assert_eq!((&told.answer, told.is_replayed), (answer, true), "{request:?}");
    }

    /// A token that is not in the file proves nothing, and nothing is done.
    async fn is_refused(&self, base: &str, token: &str) {
        let sending = self.http.post(format!("{base}/Visit/Enter")).bearer_auth(token);
        let sending = sending.header("idempotency-key", "stolen").json(&json!({ "at": "main" }));
        let answer = sending.send().await.expect("serving");
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        let body = of_any_request(answer.json().await.expect("every answer is JSON"));
        assert_eq!(body["type"], "urn:enact:problem:unauthenticated");
    }
}

/// All that a round may send, by every caller, with or without the role for it.
fn requests(key: &str, accounts: &[String], random: &mut StdRng) -> Vec<Request> {
    let mut sent = vec![("/Account/Open".to_owned(), json!({ "at": "main", "deposit": random.random_range(0..100) }))];
    sent.push(("/Visit/Enter".to_owned(), json!({ "at": "main" })));
    if let Some(account) = accounts.choose(random) {
        sent.push((format!("/Account/{account}/Order"), json!({ "amount": random.random_range(0..40) })));
        sent.push(("/Report/File".to_owned(), json!({ "about": account })));
    }
    let by = |caller| {
        sent.iter().map(move |(path, body)| {
            let (path, body) = (path.clone(), body.clone());
            Request { caller, path, key: key.to_owned(), body }
        })
    };
    CALLERS.into_iter().flat_map(by).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is a text")).to_owned()
}

/// The instances that the answers name, by class and id, in their states and with their fields.
type Instances = BTreeMap<(&'static str, String), Value>;

/// What there must be after `answers`: each that is 200 made one instance, and those that it says.
///
/// # Panics
/// If two of them name the same one, or one is no answer to its request.
fn expected(answers: &[(Request, Answer)]) -> Instances {
    let mut made = Instances::new();
    let mut make = |class, id: String, state: &str, fields: Value| {
        let instance = json!({ "class": class, "id": id, "state": state, "fields": fields });
        assert!(made.insert((class, id.clone()), instance).is_none(), "{class}/{id} was made twice");
    };
    let mut reports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // By account: what is left, and the cards.
    let mut accounts: BTreeMap<String, (i64, BTreeSet<String>)> = BTreeMap::new();
    let (mut deposits, mut card_count, mut visits) = (0, 0, 0);
    for (request, Answer { status, body }) in answers {
        match (request.is_allowed(), *status, request.event()) {
            (false, StatusCode::FORBIDDEN, _) => continue,
            (true, StatusCode::OK, _) | (true, StatusCode::CONFLICT, "Order") => {}
            _ => panic!("{request:?}: {status} {body}"),
        }
        let sent = &request.body;
        let id = request.addressed().map_or_else(|| text(&body["id"]), str::to_owned);
        let card = |account: &str, value| json!({ "account": account, "value": value, "issuedBy": "alice" });
        match request.event() {
            "Open" => {
                let (new, deposit) = (text(&body["result"]), sent["deposit"].as_i64().expect("an Integer"));
                make("Card", new.clone(), "issued", card(&id, 0));
                (deposits, card_count) = (deposits + deposit, card_count + 1);
                accounts.insert(id, (deposit, BTreeSet::from([new])));
            }
            "Order" => {
                let amount = sent["amount"].as_i64().expect("an Integer");
                // A client has accounts of its own, and their requests are answered in this order.
                let (balance, cards) = accounts.get_mut(&id).expect("it was opened");
                assert_eq!(*status == StatusCode::OK, *balance >= 2 * amount, "{request:?} of {balance}: {body}");
                if *status == StatusCode::CONFLICT {
                    continue;
                }
                let new: BTreeSet<String> = body["result"].as_array().expect("a set").iter().map(text).collect();
                assert_eq!(new.len(), 2, "{body}");
                (*balance, card_count) = (*balance - 2 * amount, card_count + 2);
                new.iter().for_each(|new| make("Card", new.clone(), "issued", card(&id, amount)));
                cards.extend(new);
            }
            "File" => {
                let about = text(&sent["about"]);
                make("Report", id.clone(), "filed", json!({ "account": about, "filedBy": "bob" }));
                reports.entry(about).or_default().insert(id);
            }
            _ => {
                let (alice, bob) = (request.caller == Some("alice"), request.caller == Some("bob"));
                make("Visit", id, "inside", json!({ "ofTeller": alice, "ofAuditor": bob }));
                visits += 1;
            }
        }
    }
    let branch = json!({ "accounts": accounts.len(), "deposits": deposits, "cards": card_count, "visits": visits });
    make("Branch", "main".to_owned(), "open", branch);
    for (id, (balance, cards)) in accounts {
        let reports = reports.remove(&id).unwrap_or_default();
        let fields =
            json!({ "branch": "main", "openedBy": "alice", "balance": balance, "cards": cards, "reports": reports });
        make("Account", id, "opened", fields);
    }
    made
}

/// What `enact contract check` says of the instances in the data directory: those of each class, whether a request can
/// name them or not.
fn counted(site: &Site) -> String {
    let next = BANK.replace("version 1", "version 2").replace("\n\n  initial", "\n  more: Integer = 0\n\n  initial");
    fs::write(site.path("next.rebel"), format!("{next}\nmigrate from 1\n")).expect("writable");
    let [spec, data] = ["next.rebel", "data"].map(|name| site.path(name).to_str().expect("UTF-8").to_owned());
    let checked = enact(&["contract", "check", &spec, "--data", &data]);
    let said = String::from_utf8(checked.stdout).expect("UTF-8");
    let line = said.lines().find(|line| line.starts_with("entities: "));
    line.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&checked.stderr))).to_owned()
}

impl Client {
    fn of(running: watch::Receiver<Option<Running>>) -> Self {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().expect("plain HTTP");
        Self { http, running, seen: Arc::default() }
    }
}

#[tokio::test]
async fn a_token_in_the_place_of_another_has_the_keys_of_its_caller_and_the_other_is_refused() {
    let mut site = Site::new();
    let mut server = site.serve();
    assert_eq!(server.post("/Branch/main/Found", json!({})).await.0, StatusCode::OK);
    let (current, running) = watch::channel(site.running(&server));
    let client = Client::of(running);
    let request = |caller, path: &str, body| {
        let (path, key) = (path.to_owned(), "k".to_owned());
        Request { caller, path, key, body }
    };
    let open = |caller| request(caller, "/Account/Open", json!({ "at": "main", "deposit": 7 }));
    let requests = [
        open(Some("alice")),
        open(Some("bob")),
        open(None),
        request(Some("alice"), "/Visit/Enter", json!({ "at": "main" })),
        request(Some("bob"), "/Visit/Enter", json!({ "at": "main" })),
    ];
    let mut answers = Vec::new();
    for request in requests {
        let Told { answer, is_replayed, .. } = client.send(&request).await;
        assert!(!is_replayed && (answer.status == StatusCode::OK) == request.is_allowed(), "{request:?}: {answer:?}");
        answers.push((request, answer));
    }
    // What a caller is forbidden stays so under its key, also when it has the role.
    for bobs_role in ["auditor", "teller"] {
        server.kill();
        site.replace_tokens("alice", "teller");
        site.replace_tokens("bob", bobs_role);
        server = site.serve();
        current.send_replace(site.running(&server));
        for token in site.refused() {
            client.is_refused(&server.url(""), token).await;
        }
        for (request, answer) in &answers {
            client.is_answered_again(request, answer).await;
        }
    }
    let anew = Request { key: "another".to_owned(), ..open(Some("bob")) };
    let answer = client.send(&anew).await.answer;
    let (_, account) = server.get(&format!("/Account/{}", text(&answer.body["id"]))).await;
    assert_eq!(account["fields"]["openedBy"], "bob");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_double_no_instance_leave_none_alone_and_mistake_no_caller() {
    let seed = std::env::var("ENACT_CRASH_SEED").map_or(20_150_523, |seed| seed.parse().expect("a number"));
    let kills = std::env::var("ENACT_KILLS").map_or(20, |kills| kills.parse().expect("a number"));
    println!(
        "repeat with: ENACT_CRASH_SEED={seed} ENACT_KILLS={kills} cargo test -p enact-cli --test enact identities"
    );
    let mut random = StdRng::seed_from_u64(seed);
    let mut site = Site::new();
    let mut server = site.serve();
    assert_eq!(server.post("/Branch/main/Found", json!({})).await.0, StatusCode::OK);

    let (current, running) = watch::channel(site.running(&server));
    let client = Client::of(running);
    let (seen, is_over) = (Arc::clone(&client.seen), Arc::new(AtomicBool::new(false)));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client.clone().rounds(number, seed, Arc::clone(&is_over)));
    }
    let mut progress = seen.count.subscribe();
    for _ in 0..kills {
        let answers = *progress.borrow_and_update() + random.random_range(1..ANSWERS_PER_KILL);
        tokio::select! {
            reached = progress.wait_for(|count| *count >= answers) => drop(reached.expect("clients run")),
            Some(ended) = clients.join_next() => panic!("a client has ended before the last kill: {ended:?}"),
        }
        for token in site.refused() {
            client.is_refused(&server.url(""), token).await;
        }
        current.send_replace(None);
        server.kill();
        site.change_tokens(&mut random);
        server = site.serve();
        for token in site.refused() {
            client.is_refused(&server.url(""), token).await;
        }
        current.send_replace(site.running(&server));
        let known = seen.answers.lock().expect("no client fails").clone();
        let is_admitted = |request: &Request| request.caller.is_none_or(|caller| site.held[caller].is_listed);
        for (request, answer) in known.sample(&mut random, 10).filter(|(request, _)| is_admitted(request)) {
            client.is_answered_again(request, answer).await;
        }
    }

    // All callers get a new token and have what they still ask for answered.
    current.send_replace(None);
    server.kill();
    ROLES.into_iter().for_each(|(caller, role)| site.replace_tokens(caller, role));
    let server = site.serve();
    current.send_replace(site.running(&server));
    is_over.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let answers = seen.answers.lock().expect("no client fails").clone();
    for (request, answer) in &answers {
        client.is_answered_again(request, answer).await;
    }

    let expected = expected(&answers);
    for ((class, id), instance) in &expected {
        assert_eq!(server.get(&format!("/{class}/{id}")).await, (StatusCode::OK, instance.clone()));
    }
    server.kill();
    let classes = ["Account", "Branch", "Card", "Report", "Visit"].map(|class| {
        let count = expected.keys().filter(|(of, _)| *of == class).count();
        format!("{class} {count}")
    });
    let count = expected.len();
    assert_eq!(counted(&site), format!("entities: {count}, of which {count} change ({})", classes.join(", ")));

    let of_status = |status| answers.iter().filter(|(_, answer)| answer.status == status).count();
    let [lost, unauthenticated, recovered] =
        [&seen.lost, &seen.unauthenticated, &seen.recovered].map(|count| count.load(Ordering::Relaxed));
    let [made, refused, forbidden] = [StatusCode::OK, StatusCode::CONFLICT, StatusCode::FORBIDDEN].map(of_status);
    println!(
        "{count} instances; answers: {made} done, {refused} refused, {forbidden} forbidden, {unauthenticated} \
         unauthenticated, {lost} lost; {recovered} had happened when they were sent again"
    );
    for (count, of) in [
        (refused, "refusals"),
        (forbidden, "callers without a role"),
        (unauthenticated, "callers without a token"),
        (lost, "lost answers"),
        (recovered, "requests that a kill kept from being answered but not from happening"),
    ] {
        assert!(count > 0, "the run must see {of}");
    }
}
