//! `enact import` against the real server: its page, what is refused, and what happens once although it is sent twice.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Output, Stdio};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::backup::steps;
use crate::served::{BANK, FREE_PORT, Served, program, serve, token};

const PAGE: &str = include_str!("../../../../docs/operations/import.md");

/// A directory with files to import, and a server.
struct Desk {
    directory: tempfile::TempDir,
    bank: Served,
}

impl Desk {
    fn new(spec: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("bank.rebel");
        fs::write(&file, spec).expect("written");
        let bank = Served::start(serve(&file, &directory.path().join("data"), FREE_PORT));
        Self { directory, bank }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.directory.path().join(name), text).expect("written");
    }

    fn import(&self, arguments: &[&str]) -> Output {
        import(self.directory.path(), &self.bank.url(""), arguments)
    }
}

fn import(directory: &Path, url: &str, arguments: &[&str]) -> Output {
    let mut command = program();
    command.current_dir(directory).arg("import").args(arguments).args(["--url", url]);
    command.output().expect("the program starts")
}

/// What an import printed and said, and its status.
fn told(Output { status, stdout, stderr }: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_an_import_prints() {
    let desk = Desk::new(include_str!("../../../../examples/bank.rebel"));
    for step in steps(PAGE) {
        let words: Vec<&str> = step.command.split(' ').collect();
        match words[..] {
            ["cat", file] => desk.write(file, &step.printed),
            ["enact", "import", ..] => {
                let (_, stdout, stderr) = told(desk.import(&words[2..]));
                let (lines, error) = match stderr.rfind("error: ") {
                    Some(at) => stderr.split_at(at),
                    None => (&*stderr, ""),
                };
                assert_eq!(format!("{lines}{stdout}{error}"), step.printed, "{}", step.command);
            }
            _ => panic!("the page has another command: {}", step.command),
        }
    }
    let (_, account) = desk.bank.get("/Account/NL20INGB0001234567").await;
    assert_eq!(account["fields"]["balance"], "EUR 55.00");
    let (_, account) = desk.bank.get("/Account/NL91ABNA0417164300").await;
    assert_eq!(account["fields"]["holder"], "Lovelace, Ada");
}

/// Deeper than a server reads, so that all of its batch is refused.
const DEEP: &str = r#"{"class": "Account", "id": "x", "event": "Open", "arguments": {"a": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}}"#;

/// Accounts to be opened, one a line, with ten lines in between that are wrong.
struct Accounts {
    lines: usize,
    /// The number of each, what it is, and the status and a part of what is told of it.
    wrong: [(usize, &'static str, Option<u64>, &'static str); 10],
}

impl Accounts {
    /// As many lines as `ENACT_IMPORT_LINES` says.
    fn new() -> Self {
        let lines = std::env::var("ENACT_IMPORT_LINES").map_or(5_000, |lines| lines.parse().expect("a number"));
        println!("repeat with: ENACT_IMPORT_LINES={lines} cargo test -p enact-cli --test enact import");
        let wrong = [
            (1, "no JSON", None, "column 1: expected `{`, as each line is one JSON object, found `no`"),
            (2, "[1]", None, "column 1: expected `{`, as each line is one JSON object, found `[`"),
            (
                lines / 4,
                r#"{"class": "Account", "id": "x", "event": "Open", "arguments": {"initialDeposit": "EUR -1.00"}}"#,
                Some(409),
                "initialDeposit >= EUR 0.00",
            ),
            (
                lines / 4 + 1,
                r#"{"class": "Account", "id": "x", "event": "Open", "arguments": {"initialDeposit": "1"}}"#,
                Some(422),
                "not as declared: `initialDeposit`",
            ),
            (
                lines / 4 + 2,
                r#"{"class": "Account", "id": "x", "event": "Open", "arguments": {"a": 1, "a": 2}}"#,
                Some(422),
                "\"a\" stands twice",
            ),
            (
                lines / 2,
                r#"{"class": "Safe", "id": "x", "event": "Open", "arguments": {}}"#,
                Some(404),
                "no class `Safe`",
            ),
            (lines / 2 + 1, DEEP, Some(422), "nested deeper"),
            (
                lines / 2 + 2,
                r#"{"class": "Account", "id": "x", "event": "Receive", "arguments": {"amount": "EUR 1.00"}}"#,
                Some(404),
                "no event `Receive`",
            ),
            (
                lines - 200,
                r#"{"class": "Account", "id": "x/y", "event": "Open", "arguments": {"initialDeposit": "EUR 1.00"}}"#,
                Some(422),
                "not as declared: `id`",
            ),
            (
                lines,
                r#"{"class": "Account", "id": "x", "event": "Deposit", "arguments": {"amount": "EUR 1.00"}"#,
                None,
                "column 88: expected the rest of the object, found the end",
            ),
        ];
        Self { lines, wrong }
    }

    fn text(&self) -> String {
        let line = |number: usize| match self.wrong.iter().find(|(at, ..)| *at == number) {
            Some((_, line, ..)) => (*line).to_owned(),
            None => {
                let arguments = json!({ "initialDeposit": format!("EUR {number}.00") });
                json!({ "class": "Account", "id": format!("a{number}"), "event": "Open", "arguments": arguments })
                    .to_string()
            }
        };
        (1..=self.lines).map(|number| line(number) + "\n").collect()
    }

    /// What has happened behind an import: each account is opened, once, and with its own deposit.
    fn opened(&self) -> BTreeMap<String, String> {
        let is_right = |number: &usize| self.wrong.iter().all(|(at, ..)| at != number);
        let right = (1..=self.lines).filter(is_right);
        right.map(|number| (format!("a{number}"), format!("EUR {number}.00"))).collect()
    }

    /// Checks what an import says, of whose lines so many were done `before`, and what it tells of those that were refused.
    fn check(&self, desk: &Desk, output: Output, before: RangeInclusive<usize>) {
        let done = self.lines - self.wrong.len();
        let (status, stdout, stderr) = told(output);
        assert_eq!((status, &*stderr), (Some(7), "error: 10 lines were refused\n"));
        let rest = stdout.strip_prefix(&format!("imported: done {done}, of which before ")).expect("all are done");
        let (found, rest) = rest.split_once(';').expect("more follows");
        assert!(before.contains(&found.parse().expect("a number")), "{found} of {before:?}");
        assert_eq!(rest, " refused 10; not answered 0\n");
        let refused = fs::read_to_string(desk.directory.path().join("refused.jsonl")).expect("written");
        let mut refused: Vec<Value> = refused.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        refused.sort_unstable_by_key(|refused| refused["line"].as_u64());
        for (refused, (at, _, status, why)) in refused.iter().zip(&self.wrong) {
            let Value::Object(problem) = &refused["problem"] else { panic!("{refused}") };
            let found = (&refused["line"], problem.get("status").and_then(Value::as_u64));
            assert_eq!(found, (&json!(at), *status), "{refused}");
            let reason = problem["detail"].as_str().expect("a text");
            assert!(reason.contains(why), "{refused}");
        }
        assert_eq!(refused.len(), self.wrong.len());
    }
}

/// The deposit with which each account was opened, and how far the journal goes, as soon as the server has time to say it.
async fn opened(bank: &Served) -> (BTreeMap<String, String>, String) {
    let (mut opened, mut after) = (BTreeMap::new(), "0.0.0".to_owned());
    loop {
        let (status, mut page) = bank.get(&format!("/-/changes?limit=1000&after={after}")).await;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            continue;
        }
        assert_eq!(status, StatusCode::OK, "{page}");
        let Value::Array(changes) = page["changes"].take() else { panic!("{page}") };
        if changes.is_empty() {
            return (opened, after);
        }
        for change in changes {
            let (event, id) = (&change["events"][0], change["id"].as_str().expect("a text").to_owned());
            assert_eq!(event["event"], "Open");
            let deposit = event["arguments"]["initialDeposit"].as_str().expect("a text").to_owned();
            assert_eq!(opened.insert(id, deposit), None, "{change} is the first");
        }
        after = page["next"].as_str().expect("a text").to_owned();
    }
}

const ACCOUNTS: [&str; 3] = ["accounts.jsonl", "--refused", "refused.jsonl"];

#[tokio::test(flavor = "multi_thread")]
async fn each_wrong_line_of_thousands_is_told_all_others_are_done_and_a_second_import_changes_nothing() {
    let (desk, accounts) = (Desk::new(BANK), Accounts::new());
    desk.write("accounts.jsonl", accounts.text());
    accounts.check(&desk, desk.import(&ACCOUNTS), 0..=0);
    let (all, end) = opened(&desk.bank).await;
    assert!(all == accounts.opened(), "{} accounts are there", all.len());
    let done = all.len();
    accounts.check(&desk, desk.import(&ACCOUNTS), done..=done);
    assert!(opened(&desk.bank).await == (all, end), "nothing has happened");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_with_wrong_lines_that_was_killed_is_repeated_and_ends_like_one_that_was_not() {
    let (desk, accounts) = (Desk::new(BANK), Accounts::new());
    desk.write("accounts.jsonl", accounts.text());
    let mut command = program();
    command.current_dir(&desk.directory).arg("import").args(ACCOUNTS).args(["--url", &desk.bank.url("")]);
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let middle = format!("/Account/a{}?mode=applied", accounts.lines / 3);
    while desk.bank.get(&middle).await.1["state"] != "opened" {}
    killed.kill().expect("still ours");
    assert_eq!(killed.wait().expect("killed").signal(), Some(9), "it was killed before its end");
    // The server goes on with what it has got.
    let (before, right) = (opened(&desk.bank).await.0.len(), accounts.opened().len());
    accounts.check(&desk, desk.import(&ACCOUNTS), before..=right - 1);
    let (all, _) = opened(&desk.bank).await;
    assert!(all == accounts.opened(), "{} accounts are there", all.len());
}

/// The cents that an account has, as soon as the server has time to say it.
async fn cents(bank: &Served, number: usize) -> i64 {
    loop {
        let (status, account) = bank.get(&format!("/Account/a{number}?mode=applied")).await;
        if status == StatusCode::OK {
            let balance = account["fields"]["balance"].as_str().expect("a balance");
            let digits: String = balance.chars().filter(char::is_ascii_digit).collect();
            return digits.parse().expect("digits");
        }
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{account}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_was_killed_is_repeated_without_a_second_effect() {
    const ACCOUNTS: usize = 10;
    const DEPOSITS: usize = 6_000;
    let desk = Desk::new(BANK);
    let accounts: String = (0..ACCOUNTS).map(|number| format!("a{number},EUR 0.00\n")).collect();
    desk.write("accounts.csv", format!("id,initialDeposit\n{accounts}"));
    assert_eq!(told(desk.import(&["accounts.csv", "--class", "Account", "--event", "Open"])).0, Some(0));
    let deposits: String = (0..DEPOSITS).map(|number| format!("a{},EUR 0.01\n", number % ACCOUNTS)).collect();
    desk.write("deposits.csv", format!("id,amount\n{deposits}"));
    let arguments = ["deposits.csv", "--class", "Account", "--event", "Deposit"];
    let mut command = program();
    command.current_dir(&desk.directory).arg("import").args(arguments).args(["--url", &desk.bank.url("")]);
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    while cents(&desk.bank, 0).await == 0 {}
    killed.kill().expect("still ours");
    assert_eq!(killed.wait().expect("killed").signal(), Some(9), "it was killed before its end");
    let (status, stdout, stderr) = told(desk.import(&arguments));
    assert_eq!((status, &*stderr), (Some(0), ""));
    let before = stdout.strip_prefix("imported: done 6000, of which before ").expect("all are done");
    let (before, rest) = before.split_once(';').expect("more follows");
    let before: usize = before.parse().expect("a number");
    assert!((1..DEPOSITS).contains(&before), "{before}");
    assert_eq!(rest, " refused 0; not answered 0\n");
    for number in 0..ACCOUNTS {
        assert_eq!(cents(&desk.bank, number).await, (DEPOSITS / ACCOUNTS) as i64, "a{number}");
    }
}

const SHOP: &str = r#"
roles clerk
class Item
  id: Id @identity
  name: String
  note: String?
  pieces: Integer
  sizes: Set[Integer]
  sold: Boolean
  initial new
    on List(title: String, remark: String?, count: Integer = 1, fits: Set[Integer], isSold: Boolean): listed
      post: this.name = title, this.note = remark, this.pieces = count, this.sizes = fits, this.sold = isSold
  listed
    on Withdraw() by clerk: gone
  final gone
"#;

#[tokio::test(flavor = "multi_thread")]
async fn cells_of_csv_may_be_quoted_absent_or_json() {
    let desk = Desk::new(SHOP);
    let [one, other] = ["01a20078-cae1-7477-9acd-448bb5c93e51", "01a20078-cae1-7477-9acd-448bb5c93e52"];
    let text = format!(
        "key,class,title,remark,count,fits,isSold\r\n\
         {one},Item,\"Hat, \"\"large\"\"\",\"two\nlines\",,\"[58, 60]\",true\r\n\
         {other},Item,Cap,,3,[],false\r\n\
         ,Item,Scarf,,,[],false\r\n\
         {one},Item\r\n\
         {other},Item,Cap,,3,nonsense,false\r\n"
    );
    desk.write("items.csv", text);
    let arguments = ["items.csv", "--event", "List", "--id", "key", "--json", "fits", "--json", "isSold"];
    let (status, stdout, stderr) = told(desk.import(&arguments));
    assert_eq!(stdout, "imported: done 3, of which before 0; refused 2; not answered 0\n", "{stderr}");
    assert_eq!(status, Some(7));
    assert_eq!(
        stderr.lines().take(2).collect::<Vec<_>>(),
        [
            r#"{"line":6,"problem":{"detail":"2 cells, and the header has 7"}}"#,
            r#"{"line":7,"problem":{"detail":"`fits` is no JSON, column 1: expected a value, found `nonsense`"}}"#
        ]
    );
    let fields = async |id: &str| desk.bank.get(&format!("/Item/{id}")).await.1["fields"].clone();
    assert_eq!(
        fields(one).await,
        json!({ "name": "Hat, \"large\"", "note": "two\nlines", "pieces": 1, "sizes": [58, 60], "sold": true })
    );
    assert_eq!(fields(other).await, json!({ "name": "Cap", "note": null, "pieces": 3, "sizes": [], "sold": false }));
    let again = told(desk.import(&arguments)).1;
    assert_eq!(again, "imported: done 3, of which before 3; refused 2; not answered 0\n", "the scarf is one, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_does_not_say_what_its_lines_are_is_refused_before_anything_is_sent() {
    let desk = Desk::new(BANK);
    for (text, arguments, said) in [
        ("id\na1\n", &["--event", "Open"][..], "t.csv has no column `class`; `--class` says it for all lines"),
        ("id\na1\n", &["--class", "Account"], "t.csv has no column `event`; `--event` says it for all lines"),
        ("id\na1\n", &["--class", "A", "--event", "E", "--id", "iban"], "t.csv has no column `iban`"),
        ("id\na1\n", &["--class", "A", "--event", "E", "--json", "x"], "t.csv has no column `x`"),
        ("id,x,x\na1\n", &["--class", "A", "--event", "E"], "t.csv has two columns `x`"),
        ("id\na1\n", &["--class", "A", "--format", "json"], "--class is for CSV: a line of JSON says it itself"),
    ] {
        desk.write("t.csv", text);
        let (status, stdout, stderr) = told(desk.import(&[&["t.csv"], arguments].concat()));
        assert_eq!((status, &*stdout, &*stderr), (Some(2), "", &*format!("error: {said}\n")));
    }
    let (status, ..) = told(desk.import(&["none.csv"]));
    assert_eq!(status, Some(2));
    let (status, _, said) = told(import(desk.directory.path(), "nowhere", &["t.csv"]));
    assert_eq!(status, Some(2), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_have_the_caller_of_the_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let (clerk, line) = token("c1", &["clerk"]);
    fs::write(path("tokens"), line + "\n").expect("written");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(path("tokens"), private).expect("it is ours");
    fs::write(path("shop.rebel"), SHOP).expect("written");
    let mut command = serve(&path("shop.rebel"), &path("data"), FREE_PORT);
    command.arg("--tokens").arg(path("tokens"));
    let shop = Served::start(command);
    let id = "01a20078-cae1-7477-9acd-448bb5c93e51";
    let item = json!({ "title": "Hat", "fits": [], "isSold": false });
    let list = json!({ "class": "Item", "id": id, "event": "List", "arguments": item });
    fs::write(path("list.jsonl"), list.to_string()).expect("written");
    let withdraw = json!({ "class": "Item", "id": id, "event": "Withdraw" });
    fs::write(path("withdraw.jsonl"), withdraw.to_string()).expect("written");
    fs::write(path("clerk"), clerk + "\n").expect("written");
    fs::write(path("stranger"), "nobody-knows-me\n").expect("written");
    fs::write(path("empty"), "").expect("written");
    let run = |arguments: &[&str]| told(import(directory.path(), &shop.url(""), arguments));
    assert_eq!(run(&["list.jsonl"]).0, Some(0));
    let (status, _, said) = run(&["withdraw.jsonl"]);
    assert!(status == Some(7) && said.contains("Withdraw needs the role clerk"), "{said}");
    let (status, _, said) = run(&["withdraw.jsonl", "--token-file", "stranger"]);
    assert!(status == Some(7) && said.contains("takes no batches"), "{said}");
    assert_eq!(run(&["withdraw.jsonl", "--token-file", "empty"]).0, Some(2));
    assert_eq!(run(&["withdraw.jsonl", "--token-file", "clerk"]).0, Some(0));
}

/// Serves one answer after the other, each to a request of its own; returns the bodies of the requests.
fn answering(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind(FREE_PORT).expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let answered = std::thread::spawn(move || {
        let answer = |answer: String| {
            let (mut client, _) = listener.accept().expect("a request");
            let mut reader = BufReader::new(client.try_clone().expect("a handle"));
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a header");
                let line = line.trim_end().to_lowercase();
                if let Some(bytes) = line.strip_prefix("content-length: ") {
                    length = bytes.parse().expect("a number");
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("the body");
            client.write_all(answer.as_bytes()).expect("the answer is taken");
            String::from_utf8(body).expect("text")
        };
        answers.into_iter().map(answer).collect()
    });
    (url, answered)
}

fn http(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nretry-after: 0\r\nconnection: close\r\n\r\n{body}", body.len())
}

#[test]
fn what_the_server_does_not_take_now_is_sent_again_under_the_same_keys() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("two.jsonl"), "{\"class\":\"A\"}\n\n  {}\n").expect("written");
    let busy = json!({ "status": 503, "detail": "busy" });
    let doubt = json!({ "status": 504, "type": "urn:enact:problem:in-doubt", "detail": "in doubt" });
    let done = json!({ "status": 200 });
    let refused = json!({ "status": 409, "type": "urn:enact:problem:refused", "detail": "no" });
    let running = json!({ "status": 409, "type": "urn:enact:problem:key-in-use", "detail": "running" });
    let results = |results: &[&Value]| http("200 OK", &json!({ "results": results }).to_string());
    let (url, answered) = answering(vec![
        http("503 Service Unavailable", ""),
        http("429 Too Many Requests", "{}"),
        // An answer that is cut off.
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{".to_owned(),
        results(&[&busy, &doubt]),
        results(&[&done, &running]),
        results(&[&refused]),
    ]);
    let (status, stdout, stderr) = told(import(directory.path(), &url, &["two.jsonl"]));
    assert_eq!(stdout, "imported: done 1, of which before 0; refused 1; not answered 0\n", "{stderr}");
    assert_eq!(status, Some(7));
    assert!(stderr.starts_with(r#"{"line":3,"problem":{"detail":"no","#), "{stderr}");
    let bodies = answered.join().expect("it has answered");
    let commands = |body: &String| {
        let body: Value = serde_json::from_str(body).expect("JSON");
        body["commands"].as_array().expect("commands").clone()
    };
    let first = commands(&bodies[0]);
    assert_eq!(first.len(), 2);
    let key = |command: &Value| command["idempotency_key"].as_str().expect("a key").to_owned();
    assert!(key(&first[0]).ends_with("-1") && key(&first[1]).ends_with("-3"), "{first:?}");
    assert!(bodies[1..5].iter().all(|body| *body == bodies[0]) && bodies[4] == bodies[0]);
    assert_eq!(commands(&bodies[5]), first[1..]);
}

#[test]
fn a_server_that_answers_nothing_leaves_lines_without_an_answer() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("one.jsonl"), "{}\n").expect("written");
    let closed = TcpListener::bind(FREE_PORT).expect("a port");
    let url = format!("http://{}", closed.local_addr().expect("bound"));
    drop(closed);
    let (status, stdout, stderr) = told(import(directory.path(), &url, &["one.jsonl", "--patience", "0s"]));
    assert_eq!(status, Some(7));
    assert_eq!(stdout, "imported: done 0, of which before 0; refused 0; not answered 1\n");
    assert!(stderr.starts_with("error: 1 line without an answer") && stderr.contains("repeat the command"), "{stderr}");
}

#[test]
fn a_batch_has_at_most_as_many_commands_and_bytes_as_a_server_takes() {
    let directory = tempfile::tempdir().expect("a directory");
    let line = |bytes: usize| format!("{{\"id\":\"{}\"}}\n", "x".repeat(bytes));
    let done = |count: usize| http("200 OK", &json!({ "results": vec![json!({ "status": 200 }); count] }).to_string());
    let large = 1_500_000;
    let lines = line(large).repeat(3) + &line(5 << 20) + &line(1).repeat(1_001);
    fs::write(directory.path().join("large.jsonl"), lines).expect("written");
    // Two are sent at once, and answered in this order.
    let (url, answered) = answering(vec![done(2), done(1_000), done(2)]);
    let (_, stdout, stderr) = told(import(directory.path(), &url, &["large.jsonl"]));
    let bodies = answered.join().expect("it has answered");
    let counts: Vec<usize> = bodies.iter().map(|body| body.matches("idempotency_key").count()).collect();
    assert_eq!(counts, [2, 1_000, 2], "{stdout}{stderr}");
    assert!(stderr.contains(r#"{"line":4,"problem":{"detail":"the line is longer than "#), "{stderr}");
}
