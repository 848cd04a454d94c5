//! Servers and programs that know each other by certificates and users; what is asked to be encrypted is never plain.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use enact_journal::nats::{Nats, OpenError, Options, Servers};
use enact_journal::{Identity, Journal, NewRecord, Security, SecurityError};
use enact_journal_kit::certificates::{Authority, Files};
use enact_journal_kit::contract::{block_on, block_on_for};
use enact_journal_kit::nats::{Server, program};
use nkeys::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::records::{read_all, record};
use crate::support::{Processes, Single};

fn identity([certificates, key]: [PathBuf; 2]) -> Identity {
    Identity { certificates, key }
}

/// A folder of files of a server and its clients.
struct Place {
    folder: TempDir,
    files: Files,
}

impl Deref for Place {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        Self { files: Files::within(folder.path()), folder }
    }

    /// All that a server and its clients have of `authority`.
    fn certify(&self, authority: &Authority) {
        self.write("ca.pem", &authority.pem);
        self.write("trusted.pem", &authority.pem);
        self.keep("server", authority.certificate_for(&["localhost", "127.0.0.2"]));
        self.keep("client", authority.certificate_for(&["client"]));
    }

    /// By what a client is known to the server.
    fn security(&self) -> Security {
        Security {
            authorities: Some(self.path("trusted.pem")),
            identity: Some(identity(self.kept("client"))),
            credentials: Some(self.path("password")),
            allows_plain: false,
        }
    }

    /// A server that speaks with clients alone that have a certificate, and a password.
    fn serve(&self) -> Option<Server> {
        let settings = format!(
            "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}
             authorization {{ user: bank, password: {PASSWORD:?} }}",
            self.path("server.pem"),
            self.path("server-key.pem"),
            self.path("ca.pem"),
        );
        Some(Server::start_with(&program()?, self.folder.path(), "", &settings))
    }
}

const PASSWORD: &str = "open sesame";

fn options(addresses: &str, security: Security) -> Options {
    Options::at(Servers { security, ..Servers::at(addresses) })
}

fn refusal(options: Options) -> OpenError {
    let refusal = block_on(Processes::default().open(options)).expect_err("it does not open");
    assert!(!format!("{refusal} {refusal:?}").contains(PASSWORD), "{refusal:?}");
    refusal
}

/// Makes `record` durable: for a journal that knows nothing of new files, the servers are away.
fn append(journal: &Nats, record: NewRecord) {
    let appended = block_on_for(Duration::from_secs(60), journal.append(vec![record]));
    appended.expect("it knows the server again").expect("durable");
}

#[test]
fn a_journal_over_mutual_tls_outlives_its_server_and_the_certificates_of_all() {
    let files = Place::new();
    files.certify(&Authority::new("one"));
    files.write("password", &format!("{PASSWORD}\n"));
    let Some(mut server) = files.serve() else { return };
    let mut processes = Processes::default();
    let address = format!("nats://bank@localhost:{}", server.port());
    let options = options(&address, files.security());
    assert!(!format!("{options:?}").contains("bank"));
    let journal = block_on(processes.open(options)).expect("it opens");
    append(&journal, record(1, 0, b"x"));
    server.restart();
    append(&journal, record(1, 1, b"y"));
    server.kill();
    files.certify(&Authority::new("two"));
    server.restart();
    append(&journal, record(1, 2, b"z"));
    server.kill();
    files.write("trusted.pem", "");
    files.write("client.pem", "");
    server.restart();
    // What cannot be used changes nothing.
    append(&journal, record(1, 3, b"!"));
    assert_eq!(read_all(&journal).len(), 4);
}

#[test]
fn a_server_that_is_not_trusted_or_does_not_trust_is_refused_with_the_reason() {
    let files = Place::new();
    let authority = Authority::new("one");
    files.certify(&authority);
    files.write("password", PASSWORD);
    files.write("wrong", "another");
    files.write("other-ca.pem", &Authority::new("other").pem);
    let stranger = identity(files.keep("stranger", Authority::new("other").certificate_for(&["client"])));
    let expired = identity(files.keep("expired", authority.expired_certificate_for(&["client"])));
    let Some(mut server) = files.serve() else { return };
    let (port, secure) = (server.port(), files.security());
    let at = |host: &str| format!("tls://bank@{host}:{port}");
    let other_name = SecurityError::OtherName {
        expected: "127.0.0.1".to_owned(),
        presented: ["localhost", "127.0.0.2"].map(str::to_owned).into(),
    };
    let refused = |why: &str| SecurityError::IdentityRefused { why: why.to_owned() };
    for (address, security, expected) in [
        (at("localhost"), Security { authorities: None, ..secure.clone() }, SecurityError::UnknownAuthority),
        (
            at("localhost"),
            Security { authorities: Some(files.path("other-ca.pem")), ..secure.clone() },
            SecurityError::UnknownAuthority,
        ),
        (at("127.0.0.1"), secure.clone(), other_name),
        (at("localhost"), Security { identity: None, ..secure.clone() }, SecurityError::IdentityDemanded),
        (at("localhost"), Security { identity: Some(stranger), ..secure.clone() }, refused("UnknownCA")),
        (at("localhost"), Security { identity: Some(expired), ..secure.clone() }, refused("CertificateExpired")),
    ] {
        let refusal = refusal(options(&address, security));
        assert!(matches!(&refusal, OpenError::Security(cause) if *cause == expected), "{refusal:?}, not {expected:?}");
    }
    let wrong = Security { credentials: Some(files.path("wrong")), ..secure.clone() };
    let refusal_of_wrong = refusal(options(&at("localhost"), wrong)).to_string();
    assert!(refusal_of_wrong.contains("authorization violation"), "{refusal_of_wrong}");

    files.keep("server", authority.expired_certificate_for(&["localhost"]));
    server.restart();
    let refusal = refusal(options(&at("localhost"), secure));
    assert!(matches!(&refusal, OpenError::Security(SecurityError::Expired)), "{refusal:?}");
}

#[test]
fn files_and_addresses_that_cannot_be_used_are_named_before_anybody_is_asked() {
    let files = Place::new();
    let authority = Authority::new("one");
    files.certify(&authority);
    files.keep("other", authority.certificate());
    files.write("password", PASSWORD);
    files.write("empty", "");
    files.write("exposed", PASSWORD);
    fs::set_permissions(files.path("exposed"), fs::Permissions::from_mode(0o644)).expect("ours");
    files.write("broken", "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n");
    files.write("bad.creds", "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n");
    let seed =
        format!("-----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n", PASSWORD.replace(' ', "A"));
    files.write("worse.creds", &format!("-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n{seed}"));
    let (path, secure) = (|name: &str| files.path(name), files.security());
    let with_authorities = |name: &str| Security { authorities: Some(path(name)), ..secure.clone() };
    let with_credentials = |name: &str| Security { credentials: Some(path(name)), ..secure.clone() };
    let with_identity = |certificates: &str, key: &str| {
        let identity = Identity { certificates: path(certificates), key: path(key) };
        Security { identity: Some(identity), ..secure.clone() }
    };
    let (named, nobody) = ("tls://bank@nowhere", "tls://nowhere");
    for (address, security, said) in [
        (named, with_authorities("none"), "cannot read DIR/none: No such file or directory"),
        (named, with_authorities("empty"), "DIR/empty has no certificate in PEM"),
        (named, with_authorities("broken"), "DIR/broken is malformed: "),
        (
            named,
            with_identity("client.pem", "other-key.pem"),
            "DIR/client.pem and DIR/other-key.pem do not go together",
        ),
        (named, with_identity("client.pem", "client.pem"), "DIR/client.pem has no private key in PEM"),
        (named, with_identity("client.pem", "exposed"), "DIR/exposed is open to all users (mode 0644): chmod 600"),
        (named, with_credentials("exposed"), "DIR/exposed is open to all users (mode 0644): chmod 600"),
        (named, with_credentials("empty"), "DIR/empty has no password in its first line"),
        (named, with_credentials("bad.creds"), "the addresses name different users, or one besides a `.creds` file"),
        ("tls://bank:x@nowhere", secure.clone(), "the addresses name different users, or one besides"),
        (nobody, secure.clone(), "DIR/password has no NATS USER JWT, as a `.creds` file has"),
        (nobody, with_credentials("bad.creds"), "DIR/bad.creds has no USER NKEY SEED"),
        (nobody, with_credentials("worse.creds"), "DIR/worse.creds is malformed: its seed is none"),
    ] {
        let refusal = refusal(options(address, security));
        assert!(matches!(&refusal, OpenError::Security(cause) if cause.is_of_settings()), "{refusal:?}");
        let refusal = refusal.to_string().replace(files.folder.path().to_str().expect("UTF-8"), "DIR");
        assert!(refusal.starts_with(said), "{said}: {refusal}");
    }
}

/// A server that says that it does not encrypt, or somebody between who says so; what it is told.
fn stripped() -> (u16, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let told = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let info = r#"{"server_id":"x","version":"2.15.2","host":"x","port":1,"headers":true,"max_payload":1048576,"proto":1}"#;
        client.write_all(format!("INFO {info}\r\n").as_bytes()).expect("sent");
        let mut told = vec![0; 4096];
        let count = client.read(&mut told).expect("told something");
        told.truncate(count);
        client.write_all(b"-ERR 'Unknown Protocol Operation'\r\n").expect("sent");
        told
    });
    (port, told)
}

#[test]
fn nothing_is_said_in_the_clear_when_it_must_be_encrypted_whatever_the_server_says() {
    let files = Place::new();
    files.certify(&Authority::new("one"));
    let authorities = Security { authorities: Some(files.path("ca.pem")), ..Security::default() };
    let identity =
        Security { identity: Some(identity(files.kept("client"))), allows_plain: true, ..Security::default() };
    let leave = Security { allows_plain: true, ..Security::default() };
    for (scheme, host, security) in [
        ("tls", "127.0.0.1", Security::default()),
        ("tls", "127.0.0.1", leave),
        ("nats", "127.0.0.1", authorities),
        ("nats", "127.0.0.1", identity),
        // Not a loopback address, and the same machine.
        ("nats", "0.0.0.0", Security::default()),
    ] {
        let (port, told) = stripped();
        let refusal = refusal(options(&format!("{scheme}://bank:secret@{host}:{port}"), security));
        assert!(matches!(&refusal, OpenError::Security(SecurityError::Unencrypted)), "{scheme}://{host}: {refusal:?}");
        let told = told.join().expect("no panic");
        // The beginning of a handshake.
        assert!(told.starts_with(&[22, 3]), "{scheme}://{host}: {}", String::from_utf8_lossy(&told));
    }
}

#[test]
fn a_server_elsewhere_that_does_not_encrypt_is_used_only_with_leave() {
    let Some(single) = Single::start() else { return };
    let address = format!("nats://0.0.0.0:{}", single.server.port());
    let refusal = refusal(options(&address, Security::default()));
    assert!(matches!(&refusal, OpenError::Security(SecurityError::Unencrypted)), "{refusal:?}");
    let leave = Security { allows_plain: true, ..Security::default() };
    block_on(Processes::default().open(options(&address, leave))).expect("it opens");
}

/// A claim that `by` signs, as NATS has them.
fn signed(by: &KeyPair, subject: &str, kind: &str, more: &Value) -> String {
    let mut claim = json!({ "jti": "1", "iat": 1, "iss": by.public_key(), "name": kind, "sub": subject, "nats": more });
    (claim["nats"]["type"], claim["nats"]["version"]) = (kind.into(), 2.into());
    let encoded = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let head = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let text = format!("{}.{}", encoded(&head), encoded(&claim));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(by.sign(text.as_bytes()).expect("signed"));
    format!("{text}.{signature}")
}

#[test]
fn a_user_is_known_by_a_file_of_credentials_that_is_read_again() {
    let Some(program) = program() else { return };
    let files = Place::new();
    let (operator, account, system) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let limits = json!({
        "limits": { "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
                    "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1 },
    });
    let of_operator = |key: &KeyPair, more: &Value| signed(&operator, &key.public_key(), "account", more);
    // What the server knows: users of the account, but for those that it has revoked.
    let known = |revoked: &[&KeyPair]| {
        let mut of_account = limits.clone();
        of_account["revocations"] = revoked.iter().map(|user| (user.public_key(), json!(2))).collect();
        let text = format!(
            "operator: {}
             system_account: {}
             resolver: MEMORY
             resolver_preload: {{ {}: {}, {}: {} }}",
            signed(&operator, &operator.public_key(), "operator", &json!({})),
            system.public_key(),
            system.public_key(),
            of_operator(&system, &json!({ "limits": { "subs": -1, "data": -1, "payload": -1, "conn": -1 } })),
            account.public_key(),
            of_operator(&account, &of_account),
        );
        files.write("known.conf", &text);
    };
    known(&[]);
    let mut server = Server::start_with(&program, files.folder.path(), "", "include 'known.conf'");
    let credentials = |of: &KeyPair, user: &KeyPair| {
        let jwt = signed(of, &user.public_key(), "user", &json!({ "subs": -1, "data": -1, "payload": -1 }));
        let seed = user.seed().expect("its seed");
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\nKeep it.\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    };
    let [first, second, stranger] = [(); 3].map(|()| KeyPair::new_user());
    files.write("bank.creds", &credentials(&account, &first));
    files.write("stranger.creds", &credentials(&KeyPair::new_account(), &stranger));
    let with = |name: &str| Security { credentials: Some(files.path(name)), ..Security::default() };
    let refused = refusal(options(&server.address(), with("stranger.creds"))).to_string();
    assert!(refused.contains("authorization violation"), "{refused}");
    let mut processes = Processes::default();
    let journal = block_on(processes.open(options(&server.address(), with("bank.creds")))).expect("it opens");
    append(&journal, record(1, 0, b"x"));
    server.kill();
    known(&[&first]);
    files.write("bank.creds", &credentials(&account, &second));
    server.restart();
    append(&journal, record(1, 1, b"y"));
}
