//! Callers whose tokens an issuer of OpenID Connect has signed, from its keys, which are fetched over TLS, to the answer.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use enact_journal_kit::certificates::Authority;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey};
use reqwest::StatusCode;
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::served::{BANK, FREE_PORT, Served, http, program, serve};

/// An issuer with one key, which serves its description and its keys until the test ends.
pub(crate) struct Issuer {
    pub(crate) url: String,
    key: KeyPair,
}

/// The name of its key.
const KEY: &str = "k1";
/// What its tokens are for.
pub(crate) const AUDIENCE: &str = "bank";

impl Issuer {
    /// One whose certificate is of `authority`.
    pub(crate) fn start(authority: &Authority) -> Self {
        let (certificate, key) = authority.certificate();
        let certificates = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("known");
        let config = Arc::new(builder.with_no_client_auth().with_single_cert(certificates, key).expect("a pair"));
        let listener = TcpListener::bind(FREE_PORT).expect("a port");
        let url = format!("https://{}/bank", listener.local_addr().expect("bound"));
        let issuer = Self { url: url.clone(), key: signing_key() };
        let description = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") });
        let keys = json!({ "keys": [published(&issuer.key)] });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
                let mut reader = BufReader::new(StreamOwned::new(session, stream));
                let mut line = String::new();
                // A client that does not trust it sends nothing.
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    continue;
                }
                let answer = match line.split(' ').nth(1) {
                    Some("/bank/.well-known/openid-configuration") => &description,
                    Some("/bank/keys") => &keys,
                    path => panic!("asked for {path:?}"),
                };
                let answer = answer.to_string();
                let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}", answer.len());
                write!(reader.get_mut(), "{head}\r\n\r\n{answer}").expect("open");
                reader.get_mut().conn.send_close_notify();
                reader.get_mut().flush().expect("open");
            }
        });
        issuer
    }

    /// The flags of a server that takes its tokens.
    pub(crate) fn flags<'a>(&'a self, ca: &'a str) -> [&'a str; 6] {
        ["--oidc-issuer", &self.url, "--oidc-audience", AUDIENCE, "--oidc-ca", ca]
    }

    /// A token of `subject` with these roles.
    pub(crate) fn token(&self, subject: &str, roles: &[&str]) -> String {
        self.token_with(&json!({ "alg": "EdDSA", "kid": KEY }), &self.claims(subject, roles))
    }

    pub(crate) fn claims(&self, subject: &str, roles: &[&str]) -> Value {
        let end = now() + 3_600;
        json!({ "iss": self.url, "aud": AUDIENCE, "sub": subject, "exp": end, "realm": { "roles": roles } })
    }

    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        signed(&self.key, header, claims)
    }
}

/// A token that somebody has signed who is not the issuer.
pub(crate) fn forged(header: &Value, claims: &Value) -> String {
    signed(&signing_key(), header, claims)
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
}

fn signing_key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ED25519).expect("a key")
}

fn published(key: &KeyPair) -> Value {
    json!({ "kty": "OKP", "crv": "Ed25519", "kid": KEY, "use": "sig", "x": BASE64.encode(key.public_key_raw()) })
}

fn signed(key: &KeyPair, header: &Value, claims: &Value) -> String {
    let message = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
    let signature = key.sign(message.as_bytes()).expect("signed");
    format!("{message}.{}", BASE64.encode(signature))
}

/// A folder with a specification and the certificate of an authority.
struct Place(TempDir);

impl Place {
    fn new(authority: &Authority) -> Self {
        let place = Self(tempfile::tempdir().expect("a place for the test"));
        fs::write(place.path("bank.rebel"), BANK).expect("writable");
        fs::write(place.path("ca.pem"), &authority.pem).expect("writable");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn serve(&self, flags: &[&str]) -> Served {
        let mut command = serve(&self.path("bank.rebel"), &self.path("data"), FREE_PORT);
        command.args(flags).args(["--oidc-roles", "realm.roles", "--log", "trace"]);
        Served::start(command)
    }
}

async fn open(server: &Served, account: &str, token: &str) -> StatusCode {
    let request = http().post(server.url(&format!("/Account/{account}/Open"))).bearer_auth(token);
    request.json(&json!({ "initialDeposit": "EUR 1.00" })).send().await.expect("serving").status()
}

#[tokio::test]
async fn a_server_knows_callers_by_the_tokens_of_an_issuer_and_keeps_none() {
    let authority = Authority::new("one");
    let place = Place::new(&authority);
    let issuer = Issuer::start(&authority);
    let ca = place.path("ca.pem");
    let server = place.serve(&issuer.flags(ca.to_str().expect("UTF-8")));
    let token = issuer.token("alice", &["teller"]);
    assert_eq!(open(&server, "a", &token).await, 200);
    let (_, history) = server.get("/Account/a/-/history").await;
    assert_eq!(history["transactions"][0]["events"][0]["caller"], format!("{}#alice", issuer.url));
    let forgery = forged(&json!({ "alg": "EdDSA", "kid": KEY }), &issuer.claims("alice", &["teller"]));
    assert_eq!(open(&server, "b", &forgery).await, 401);
    assert_eq!(open(&server, "c", "opaque").await, 401, "there is no file of tokens");
    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert!(status.success() && log.contains("the keys of the issuer are known"), "{log}");
    assert!(!log.contains(&token) && !log.contains(&forgery), "in the log");
}

#[tokio::test]
async fn a_start_without_the_keys_of_the_issuer_says_what_is_wrong_and_what_to_do() {
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let place = Place::new(&other);
    let issuer = Issuer::start(&authority);
    let ca = place.path("ca.pem");
    let server = place.serve(&issuer.flags(ca.to_str().expect("UTF-8")));
    assert_eq!(open(&server, "a", &issuer.token("alice", &[])).await, 503);
    server.signal(Signal::TERM);
    let (_, log) = server.ended();
    let line = log.lines().find(|line| line.contains("ERROR")).expect("an error");
    for part in ["cannot be fetched", &issuer.url, "--oidc-issuer", "--oidc-ca", "503"] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[test]
fn an_issuer_that_can_be_none_is_refused_before_anything_is_touched() {
    let place = Place::new(&Authority::new("one"));
    for (flags, said) in [
        (
            &["--oidc-issuer", "http://id.example.com", "--oidc-audience", "b"][..],
            "error: --oidc-issuer: `http://id.example.com` is no issuer",
        ),
        (&["--oidc-issuer", "https://id.example.com"], "--oidc-audience <NAME>"),
        (&["--oidc-audience", "b"], "--oidc-issuer <URL>"),
        (&["--oidc-roles", "groups"], "--oidc-issuer <URL>"),
        (&["--readers", "teller"], "--oidc-issuer <URL>"),
        (&["--oidc-issuer", "https://id.example.com", "--oidc-audience", "b", "--oidc-ca", "none.pem"], "none.pem"),
    ] {
        let mut command = program();
        command.current_dir(place.0.path()).args(["serve", "bank.rebel", "--listen", FREE_PORT]).args(flags);
        let ended = command.output().expect("the program starts");
        let stderr = String::from_utf8(ended.stderr).expect("UTF-8");
        assert_eq!(ended.status.code(), Some(2), "{flags:?}: {stderr}");
        assert!(stderr.contains(said), "{said} in {stderr}");
        assert!(!place.path("enact-data").exists(), "nothing was touched");
    }
}
