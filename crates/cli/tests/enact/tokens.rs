//! `enact token` and `enact serve --tokens`: who calls, from the file to the answer, and what does not get out.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::served::{BANK, FREE_PORT, Served, enact, http, serve, token};

/// A directory with a specification and a file of tokens.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new(tokens: &str) -> Self {
        let place = Self { directory: tempfile::tempdir().expect("a place for the test") };
        fs::write(place.path("bank.rebel"), BANK).expect("writable");
        fs::write(place.path("tokens"), tokens).expect("writable");
        place.set_mode(0o600);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.path("tokens"), Permissions::from_mode(mode)).expect("ours");
    }

    fn serve(&self, more: &[&str]) -> Served {
        let mut command = serve(&self.path("bank.rebel"), &self.path("data"), FREE_PORT);
        command.arg("--tokens").arg(self.path("tokens")).args(more);
        Served::start(command)
    }

    /// The message with which `enact serve` refuses the file `name`.
    #[track_caller]
    fn refused(&self, name: &str) -> String {
        let mut command = serve(&self.path("bank.rebel"), &self.path("data"), FREE_PORT);
        let ended = command.arg("--tokens").arg(self.path(name)).output().expect("the program starts");
        let stderr = String::from_utf8(ended.stderr).expect("UTF-8");
        assert_eq!(ended.status.code(), Some(2), "{stderr}");
        assert!(ended.stdout.is_empty(), "it never listens");
        assert!(!self.path("data").exists(), "nothing was touched");
        stderr.replace(self.directory.path().to_str().expect("UTF-8"), "DIR")
    }
}

#[test]
fn a_token_is_256_bits_of_its_own_and_its_line_has_the_digest_alone() {
    let (token_a, line_a) = token("alice", &["teller,auditor", "teller"]);
    let (token_b, line_b) = token("alice", &[]);
    for (token, line) in [(&token_a, &line_a), (&token_b, &line_b)] {
        assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
        assert!(!line.contains(token.as_str()));
    }
    assert_ne!(token_a, token_b);
    assert!(line_a.ends_with(" alice auditor,teller"), "{line_a}");
    assert!(line_b.ends_with(" alice"), "{line_b}");
}

#[test]
fn a_caller_that_does_not_fit_gets_no_token() {
    for (arguments, message) in [
        (
            &["--id", "a b"][..],
            "error: there can be no such caller: the id of a caller is 1 to 128 letters, digits and \
          characters of `._:-`\n",
        ),
        (
            &["--id", ""],
            "error: there can be no such caller: the id of a caller is 1 to 128 letters, digits and \
          characters of `._:-`\n",
        ),
        (
            &["--id", "a", "--roles", "b,,c"],
            "error: there can be no such caller: a role is a word of 1 to 128 letters, digits \
          and `_` that begins with no digit, and nothing but a comma stands between two\n",
        ),
        (
            &["--id", "system"],
            "error: there can be no such caller: the id `system` is that of timed events and of nobody else: \
          choose another one\n",
        ),
        (
            &["--id", "a", "--roles", "system"],
            "error: there can be no such caller: the role `system` is that of timed events \
          and of nobody else: leave it out\n",
        ),
    ] {
        let ended = enact(&[&["token"], arguments].concat());
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        assert!(ended.stdout.is_empty(), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), message, "{arguments:?}");
    }
    assert_eq!(enact(&["token"]).status.code(), Some(2), "somebody has a token");
}

#[test]
fn a_file_that_others_may_use_is_refused_with_the_command_that_helps() {
    let place = Place::new("");
    for mode in [0o644, 0o640, 0o604, 0o620, 0o602, 0o666] {
        place.set_mode(mode);
        let expected = format!("error: DIR/tokens is open to other users (mode {mode:04o}): chmod 600 DIR/tokens\n");
        assert_eq!(place.refused("tokens"), expected);
    }
    symlink(place.path("tokens"), place.path("link")).expect("a link");
    let no_file = "is not a regular file; a file of tokens must be one, and no link to one";
    assert_eq!(place.refused("link"), format!("error: DIR/link {no_file}\n"));
    assert_eq!(place.refused("."), format!("error: DIR/. {no_file}\n"));
    assert_eq!(place.refused("none"), "error: cannot read DIR/none: No such file or directory (os error 2)\n");
}

#[test]
fn a_malformed_line_is_refused_with_file_and_line_and_without_its_content() {
    let (secret, line) = token("alice", &["teller"]);
    let digest = line.split(' ').next().expect("a digest");
    let digest_rule =
        "the first word is no SHA-256 digest in 64 hexadecimal digits; `enact token` prints the line".to_owned();
    let role_rule = "a role is a word of 1 to 128 letters, digits and `_` that begins with no digit, and nothing but a \
                     comma stands between two";
    for (text, at, rule) in [
        (format!("{line}\n{line}\n"), 2, "the first word is that of line 1: leave one of them out".to_owned()),
        (format!("alice {digest}\n"), 1, digest_rule.clone()),
        (format!("\n# mine\n{secret}x alice\n"), 3, digest_rule.clone()),
        (format!("{}\n", &line[1..]), 1, digest_rule),
        (format!("{digest}\n"), 1, "the id of the caller is missing behind the first word".to_owned()),
        (
            format!("{digest} alice@{secret}\n"),
            1,
            "the id of a caller is 1 to 128 letters, digits and characters of `._:-`".to_owned(),
        ),
        (format!("{digest} alice teller, {secret}\n"), 1, role_rule.to_owned()),
        (
            format!("dns:{secret}* till\n"),
            1,
            "a certificate is named by `uri:` and a URI, `dns:` and a name, or `sha256:` and 64 hexadecimal digits"
                .to_owned(),
        ),
        (
            "dns:till a\ndns:Till b\n".to_owned(),
            2,
            "the first word is that of line 1: leave one of them out".to_owned(),
        ),
        (
            format!("{line} {secret}\n"),
            1,
            "there is more than belongs into a line: a digest or a name of a certificate, an id, roles, which nothing but commas separate, and until=TIME"
                .to_owned(),
        ),
    ] {
        let message = Place::new(&text).refused("tokens");
        assert_eq!(message, format!("error: DIR/tokens:{at}: {rule}\n"));
        assert!(!message.contains(&secret) && !message.contains(digest), "{message}");
    }
}

async fn open(server: &Served, account: &str, authorization: Option<&str>) -> (StatusCode, String) {
    let mut request = http().post(server.url(&format!("/Account/{account}/Open")));
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let answer = request.json(&json!({ "initialDeposit": "EUR 1.00" })).send().await.expect("serving");
    (answer.status(), format!("{:?}\n{}", answer.headers().clone(), answer.text().await.expect("a text")))
}

#[tokio::test]
async fn a_server_knows_its_tokens_and_tells_nobody() {
    let (new, new_line) = token("alice", &["teller"]);
    let (old, old_line) = token("alice", &["teller"]);
    let (unknown, _) = token("alice", &["teller"]);
    let place = Place::new(&format!("# of alice\n{new_line}\n\n{old_line} # until Friday\n"));
    let server = place.serve(&["--log", "trace"]);
    let mut answers = String::new();
    for (account, authorization, expected) in [
        ("none", None, 200),
        ("new", Some(format!("Bearer {new}")), 200),
        ("old", Some(format!("Bearer {old}")), 200),
        ("unknown", Some(format!("Bearer {unknown}")), 401),
        ("scheme", Some(format!("Basic {new}")), 401),
        ("bare", Some(new.clone()), 401),
    ] {
        let (status, answer) = open(&server, account, authorization.as_deref()).await;
        assert_eq!(status, expected, "{account}: {answer}");
        answers += &answer;
    }
    let (_, description): (_, Value) = server.get("/openapi.json").await;
    assert!(description["components"]["securitySchemes"]["bearer"].is_object());
    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert!(status.success() && log.contains("answered"), "{log}");
    for secret in [&new, &old, &unknown, &new_line[..64].to_owned(), &old_line[..64].to_owned()] {
        assert!(!answers.contains(secret.as_str()), "in an answer");
        assert!(!log.contains(secret.as_str()), "in the log");
        for file in fs::read_dir(place.path("data")).expect("readable") {
            let bytes = fs::read(file.expect("readable").path()).expect("readable");
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "in the journal");
        }
    }
}

/// Nobody starts the server anew: one token takes the place of another, and the other is refused from then on.
#[tokio::test]
async fn tokens_are_replaced_and_revoked_while_the_server_runs() {
    let ((old, old_line), (new, new_line)) = (token("alice", &["teller"]), token("alice", &["teller"]));
    let place = Place::new(&old_line);
    let server = place.serve(&[]);
    let write = |text: &str| fs::write(place.path("tokens"), text).expect("writable");
    let mut accounts = (0..).map(|number| format!("a{number}"));
    let mut status = async |token: &str| {
        let account = accounts.next().expect("there is no end");
        open(&server, &account, Some(&format!("Bearer {token}"))).await.0.as_u16()
    };
    assert_eq!((status(&old).await, status(&new).await), (200, 401));
    write(&format!("{old_line}\n{new_line}\n"));
    // The signal is taken up at some time.
    while status(&new).await != 200 {
        server.signal(Signal::HUP);
    }
    assert_eq!(status(&old).await, 200, "both are valid");
    write(&new_line);
    while status(&old).await != 401 {
        server.signal(Signal::HUP);
    }
    assert_eq!(status(&new).await, 200);
    write("not a line");
    server.signal(Signal::HUP);
    write(&format!("{new_line} until=2020-01-01T00:00:00Z"));
    while status(&new).await != 401 {
        server.signal(Signal::HUP);
    }
    server.signal(Signal::TERM);
    let (ended, log) = server.ended();
    assert!(ended.success() && log.contains("callers are known by other tokens"), "{log}");
}

#[test]
fn a_token_ends_when_it_is_told() {
    let made = enact(&["token", "--id", "alice", "--roles", "teller", "--until", "2027-01-01T00:00:00Z"]);
    let text = String::from_utf8(made.stdout).expect("text");
    let line = text.lines().nth(1).expect("the line");
    assert!(line.ends_with(" alice teller until=2027-01-01T00:00:00.000Z"), "{line}");
    let refused = enact(&["token", "--id", "alice", "--until", "tomorrow"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[tokio::test]
async fn a_journal_is_served_with_tokens_after_it_was_without_and_back() {
    let (token, line) = token("alice", &[]);
    let place = Place::new(&line);
    let bearer = format!("Bearer {token}");
    let plain = || Served::start(serve(&place.path("bank.rebel"), &place.path("data"), FREE_PORT));
    for (account, has_tokens) in [("a", false), ("b", true), ("c", false)] {
        let server = if has_tokens { place.serve(&[]) } else { plain() };
        assert_eq!(open(&server, account, Some(&bearer)).await.0, 200);
        for earlier in ["a", "b", "c"].into_iter().take_while(|earlier| *earlier <= account) {
            assert_eq!(server.get(&format!("/Account/{earlier}")).await.0, 200, "{earlier}");
        }
        server.kill();
    }
}

#[tokio::test]
async fn a_client_that_asks_too_often_is_refused_and_a_caller_from_the_same_address_is_not() {
    let (token, line) = token("alice", &[]);
    let place = Place::new(&line);
    let server = place.serve(&["--rate-limit", "1,3"]);
    let bearer = format!("Bearer {token}");
    let mut accounts = (0..).map(|number| format!("a{number}"));
    let mut status = async |bearer: Option<&str>| open(&server, &accounts.next().expect("no end"), bearer).await.0;
    assert_eq!(status(None).await, 200);
    // One more a second, and each takes next to no time.
    while status(None).await != 429 {}
    assert_eq!(status(Some(&bearer)).await, 200);
    let mut command = serve(&place.path("bank.rebel"), &place.path("data"), FREE_PORT);
    let refused = command.args(["--rate-limit", "0"]).output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("requests per second, from 1 to 1000000"), "{refused:?}");
}
