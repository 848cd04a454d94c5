//! Encryption of `enact serve`, of the commands that ask it, and of web hooks.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use enact_journal_kit::certificates::Authority;
use reqwest::{Client, RequestBuilder, StatusCode};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::served::{BANK, FREE_PORT, Served, program, serve, token};

/// A folder with a specification, tokens, and the certificates of a server and a client of one authority.
pub(crate) struct Place {
    directory: TempDir,
    pub(crate) authority: Authority,
    token: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a place for the test");
        let (token, line) = token("alice", &[]);
        let place = Self { directory, authority: Authority::new("one"), token };
        place.write("bank.rebel", BANK);
        place.write("tokens", &line);
        place.write("token", &place.token);
        place.write("ca.pem", &place.authority.pem);
        place.certify("server", &place.authority);
        place.certify("client", &place.authority);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("writable");
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).expect("ours");
    }

    /// Writes a certificate and its key.
    fn certify(&self, name: &str, authority: &Authority) {
        self.keep(name, authority.certificate());
    }

    pub(crate) fn keep(&self, name: &str, (certificate, key): (String, String)) {
        self.write(&format!("{name}.pem"), &certificate);
        self.write(&format!("{name}-key.pem"), &key);
    }

    pub(crate) fn command(&self, listen: &str, flags: &[&str]) -> Command {
        let mut command = serve(Path::new("bank.rebel"), Path::new("data"), listen);
        command.current_dir(self.directory.path()).args(flags);
        command
    }

    pub(crate) fn serve(&self, more: &[&str]) -> Served {
        Served::start(self.command(FREE_PORT, &[TLS, more].concat()))
    }

    /// A client that trusts the authority in `ca`, with the certificate `identity` if there is one.
    pub(crate) fn client(
        &self,
        ca: &str,
        identity: Option<&str>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path(ca)).expect("a certificate")).expect("of an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("known");
        let builder = builder.with_root_certificates(roots);
        let config = match identity {
            Some(name) => builder.with_client_auth_cert(self.chain(name), self.key(name)).expect("a pair"),
            None => builder.with_no_client_auth(),
        };
        // A connection of its own for each request.
        Client::builder().tls_backend_preconfigured(config).pool_max_idle_per_host(0).build().expect("a client")
    }

    fn chain(&self, name: &str) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_file(self.path(&format!("{name}.pem"))).expect("a certificate")]
    }

    fn key(&self, name: &str) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_file(self.path(&format!("{name}-key.pem"))).expect("a key")
    }

    /// The end of a command that asks a server.
    fn run(&self, command: &[&str]) -> Output {
        program().current_dir(self.directory.path()).args(command).output().expect("the program starts")
    }
}

const TLS: &[&str] = &["--tls-cert", "server.pem", "--tls-key", "server-key.pem"];
pub(crate) const CLIENT_CA: &[&str] = &["--tls-client-ca", "ca.pem"];
pub(crate) const TOKENS: &[&str] = &["--tokens", "tokens"];
const INSECURE: &[&str] = &["--insecure"];
pub(crate) const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

#[test]
fn other_machines_reach_only_what_is_encrypted_and_knows_its_callers_unless_asked_for() {
    let place = Place::new();
    for (listen, is_loopback) in [(FREE_PORT, true), ("localhost:0", true), ("[::1]:0", true), ("0.0.0.0:0", false)] {
        for tls in [&[][..], TLS, &[TLS, CLIENT_CA].concat()] {
            for tokens in [&[][..], TOKENS] {
                for insecure in [&[][..], INSECURE] {
                    let flags = [tls, tokens, insecure].concat();
                    let mut missing = Vec::new();
                    if tls.is_empty() {
                        missing.push("--tls-cert FILE and --tls-key FILE");
                    }
                    if tokens.is_empty() && !flags.contains(&"--tls-client-ca") {
                        missing.push("--tokens FILE, --oidc-issuer URL or --tls-client-ca FILE");
                    }
                    let what = format!("{listen} {flags:?}");
                    let command = place.command(listen, &flags);
                    if is_loopback || missing.is_empty() || !insecure.is_empty() {
                        let server = Served::start(command);
                        assert_eq!(server.url("").starts_with("https://"), !tls.is_empty(), "{what}");
                        server.signal(Signal::TERM);
                        let (_, log) = server.ended();
                        assert_eq!(log.contains("INSECURE"), !is_loopback && !missing.is_empty(), "{what}: {log}");
                    } else {
                        let ended = { command }.output().expect("the program starts");
                        let said = String::from_utf8(ended.stderr).expect("UTF-8");
                        assert_eq!((ended.status.code(), &*ended.stdout), (Some(3), &b""[..]), "{what}");
                        let message =
                            format!("error: give {}, or accept the risk with --insecure: ", missing.join(", and "));
                        assert!(said.contains(&message) && said.contains("other machines"), "{what}: {said}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_server_with_a_certificate_speaks_tls_of_both_versions_and_nothing_else() {
    let place = Place::new();
    let other = Authority::new("other");
    place.write("other.pem", &other.pem);
    let server = place.serve(&["--drain", "2s"]);
    for versions in [BOTH, &[&TLS12], &[&TLS13]] {
        let client = place.client("ca.pem", None, versions);
        let opened = client.post(server.url("/Account/A/Open")).json(&json!({ "initialDeposit": "EUR 1.00" }));
        assert!([200, 409].contains(&opened.send().await.expect("encrypted").status().as_u16()), "{versions:?}");
        let large = client.get(server.url("/openapi.json")).send().await.expect("encrypted");
        assert!(large.json::<Value>().await.expect("whole")["paths"].is_object());
    }
    let mistrust = place.client("other.pem", None, BOTH).get(server.url("/health")).send().await;
    assert!(mistrust.expect_err("of nobody it knows").is_connect());
    let mut plain = TcpStream::connect(server.address()).await.expect("listening");
    plain.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("open");
    let mut answer = Vec::new();
    // An alert, or a reset.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    // Clients that agree on no keys do not hold up a stop.
    let _silent = TcpStream::connect(server.address()).await.expect("listening");
    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert!(status.success() && !log.contains("requests still run"), "{log}");
}

#[tokio::test]
async fn with_authorities_of_clients_nobody_is_answered_without_a_certificate_of_theirs() {
    let place = Place::new();
    place.certify("stranger", &Authority::new("other"));
    let server = place.serve(CLIENT_CA);
    for (identity, is_answered) in [(Some("client"), true), (Some("stranger"), false), (None, false)] {
        for versions in [BOTH, &[&TLS12]] {
            let asked = place.client("ca.pem", identity, versions).get(server.url("/health")).send().await;
            assert_eq!(asked.is_ok(), is_answered, "{identity:?}: {asked:?}");
        }
    }
    let description = place.client("ca.pem", Some("client"), BOTH).get(server.url("/openapi.json"));
    let description: Value = description.send().await.expect("answered").json().await.expect("JSON");
    assert_eq!(description["components"]["securitySchemes"]["mutualTLS"]["type"], "mutualTLS");
}

/// Who an account was opened by, of a client with this certificate and token; or the status that it got instead.
async fn opener(
    place: &Place,
    server: &Served,
    account: &str,
    identity: &str,
    token: Option<&str>,
) -> Result<Value, u16> {
    let client = place.client("ca.pem", Some(identity), BOTH);
    let answer = async |request: RequestBuilder| {
        let request = token.iter().fold(request, RequestBuilder::bearer_auth);
        request.send().await.expect("encrypted")
    };
    let open = client.post(server.url(&format!("/Account/{account}/Open")));
    let opened = answer(open.json(&json!({ "initialDeposit": "EUR 1.00" }))).await;
    if opened.status() != StatusCode::OK {
        return Err(opened.status().as_u16());
    }
    let history = answer(client.get(server.url(&format!("/Account/{account}/-/history")))).await;
    let history: Value = history.json().await.expect("JSON");
    Ok(history["transactions"][0]["events"][0]["caller"].clone())
}

#[tokio::test]
async fn a_certificate_is_its_caller_unless_the_header_says_another_and_until_its_line_ends() {
    let place = Place::new();
    for (file, name) in [("till", "till.bank.example"), ("door", "door.bank.example"), ("old", "old.bank.example")] {
        place.keep(file, place.authority.certificate_for(&[name]));
    }
    let line = |file: &str, more: &[&str]| {
        let certificate = format!("{file}.pem");
        let made = place.run(&[&["token", "--id", file, "--certificate", &certificate], more].concat());
        assert!(made.status.success(), "{made:?}");
        (String::from_utf8(made.stdout).expect("UTF-8"), String::from_utf8(made.stderr).expect("UTF-8"))
    };
    let (till, said) = line("till", &["--roles", "teller"]);
    assert_eq!(till, "dns:till.bank.example till teller\n");
    let digest = said.split('`').find(|word| word.starts_with("sha256:")).expect("another name");
    let (old, _) = line("old", &["--until", "2020-01-01T00:00:00Z"]);
    let alice = fs::read_to_string(place.path("tokens")).expect("readable");
    place.write("tokens", &format!("{alice}\n{till}{old}"));
    let server = place.serve(&[CLIENT_CA, TOKENS].concat());
    for (account, identity, bearer, expected) in [
        ("a", "till", None, Ok(json!("till"))),
        ("b", "till", Some(&*place.token), Ok(json!("alice"))),
        ("c", "till", Some("none"), Err(401)),
        ("d", "door", None, Ok(json!(null))),
        ("e", "door", Some(&*place.token), Ok(json!("alice"))),
        ("f", "old", None, Err(401)),
        ("g", "old", Some(&*place.token), Ok(json!("alice"))),
    ] {
        assert_eq!(opener(&place, &server, account, identity, bearer).await, expected, "{account}");
    }
    // The same certificate by its other name, and another caller; the signal is taken up at some time.
    place.write("tokens", &format!("{digest} drawer"));
    let mut accounts = (0..).map(|number| format!("again{number}"));
    let mut again = async || opener(&place, &server, &accounts.next().expect("no end"), "till", None).await;
    while again().await == Ok(json!("till")) {
        server.signal(Signal::HUP);
    }
    assert_eq!(again().await, Ok(json!("drawer")));
    let broken = place.run(&["token", "--id", "till", "--certificate", "tokens"]);
    assert_eq!((broken.status.code(), &*broken.stdout), (Some(2), &b""[..]));
    assert!(String::from_utf8_lossy(&broken.stderr).contains("no certificate in PEM"), "{broken:?}");
}

#[tokio::test]
async fn a_signal_replaces_the_certificate_and_an_unfit_one_changes_nothing() {
    let place = Place::new();
    let server = place.serve(&[]);
    let (next, last) = (Authority::new("next"), Authority::new("last"));
    place.write("next.pem", &next.pem);
    let answers = async |ca: &str| place.client(ca, None, BOTH).get(server.url("/health")).send().await.is_ok();
    assert!(answers("ca.pem").await && !answers("next.pem").await);
    // The signal is taken up at some time.
    place.certify("server", &next);
    while !answers("next.pem").await {
        server.signal(Signal::HUP);
    }
    assert!(!answers("ca.pem").await);
    // A certificate without its key.
    place.write("server.pem", &last.certificate().0);
    server.signal(Signal::HUP);
    assert!(answers("next.pem").await);
    place.write("server-key.pem", "no key");
    server.signal(Signal::HUP);
    assert!(answers("next.pem").await);
    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert!(status.success() && log.contains("new connections get another certificate"), "{log}");
    assert!(log.contains("the certificate stays as it was"), "{log}");
}

#[test]
fn commands_know_a_server_by_its_authority_and_it_them_by_their_certificate() {
    let place = Place::new();
    place.write("other.pem", &Authority::new("other").pem);
    place.write("accounts.csv", "class,event,id,initialDeposit\nAccount,Open,A,EUR 1.00\n");
    let server = place.serve(&[CLIENT_CA, TOKENS].concat());
    let url = server.url("");
    let import = ["import", "accounts.csv", "--url", &url, "--patience", "0s", "--token-file", "token"];
    let follow = ["follow", "--once", "--url", &url, "--patience", "0s", "--token-file", "token"];
    let (known, client) = (["--tls-ca", "ca.pem"], ["--tls-cert", "client.pem", "--tls-key", "client-key.pem"]);
    for command in [&import[..], &follow] {
        for (flags, status) in [
            (&[][..], 7),
            (&["--tls-ca", "other.pem"], 7),
            (&known, 7),
            (&["--tls-ca", "tokens"], 2),
            (&["--tls-cert", "client.pem"], 2),
            (&[known, ["--tls-cert", "client.pem"]].concat(), 2),
            (&[&known[..], &client].concat(), 0),
        ] {
            let ended = place.run(&[command, flags].concat());
            assert_eq!(ended.status.code(), Some(status), "{flags:?}: {}", String::from_utf8_lossy(&ended.stderr));
        }
    }
    let followed = place.run(&[&follow[..], &known, &client].concat());
    assert!(String::from_utf8_lossy(&followed.stdout).contains(r#""event":"Open""#), "{followed:?}");
}

/// A receiver over TLS that takes everything; the heads and bodies that it gets.
fn hook(place: &Place) -> (String, mpsc::Receiver<(String, Value)>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("known");
    let config = builder.with_no_client_auth().with_single_cert(place.chain("server"), place.key("server"));
    let config = Arc::new(config.expect("a pair"));
    let listener = TcpListener::bind(FREE_PORT).expect("a port");
    let url = format!("https://{}/changes", listener.local_addr().expect("bound"));
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut reader = BufReader::new(StreamOwned::new(session, stream));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).unwrap_or(0) == 0 {
                    break;
                }
            }
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            // A client that does not trust it sends nothing.
            let Some(length) = length else { continue };
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            write!(reader.get_mut(), "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").expect("open");
            if tell.send((head, serde_json::from_slice(&body).expect("JSON"))).is_err() {
                return;
            }
        }
    });
    (url, told)
}

#[tokio::test]
async fn a_hook_is_told_over_tls_and_never_the_token() {
    let place = Place::new();
    let server = Served::start(place.command(FREE_PORT, TOKENS));
    assert_eq!(server.post("/Account/A/Open", json!({ "initialDeposit": "EUR 1.00" })).await.0, StatusCode::OK);
    let (hook, told) = hook(&place);
    let url = server.url("");
    let follow = ["follow", "--once", "--url", &url, "--post", &hook, "--token-file", "token", "--patience", "0s"];
    assert_eq!(place.run(&follow).status.code(), Some(7), "nobody vouches for it");
    let done = place.run(&[&follow[..], &["--tls-ca", "ca.pem"]].concat());
    assert!(done.status.success(), "{done:?}");
    let (head, body) = told.recv_timeout(Duration::from_secs(60)).expect("told");
    assert_eq!(body["changes"][0]["events"][0]["event"], "Open");
    assert!(!head.contains("authorization") && !head.contains(&place.token), "{head}");
}

/// What a container is asked now and then.
#[test]
fn the_health_check_of_the_container_holds_whether_the_server_encrypts_or_not_and_as_long_as_it_runs() {
    let file = include_str!("../../../../docs/operations/deploy/Dockerfile");
    let check = file.lines().find(|line| line.starts_with("HEALTHCHECK ")).and_then(|line| line.split_once(" CMD "));
    let (_, check) = check.expect("it has one");
    let place = Place::new();
    for flags in [&[][..], TLS] {
        let server = Served::start(place.command(FREE_PORT, flags));
        let check = check.replace("127.0.0.1:8080", &server.address().to_string());
        let holds = || Command::new("sh").args(["-c", &check]).status().expect("it ends").code();
        assert_eq!(holds(), Some(0), "{flags:?}");
        server.kill();
        assert_eq!(holds(), Some(1), "{flags:?}");
    }
}
