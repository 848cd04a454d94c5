//! Servers and programs that know each other by certificates and users; what is asked to be encrypted is never plain.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::ops::Deref;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use enact_journal::postgres::{OpenError, Options, Postgres};
use enact_journal::{Identity, Journal, NewRecord, Security, SecurityError};
use enact_journal_kit::certificates::{Authority, Files};
use enact_journal_kit::contract::{block_on, block_on_for};
use tempfile::TempDir;

use crate::records::{read_all, record};
use crate::support::{Admin, Processes, Single, fresh};

fn identity([certificates, key]: [PathBuf; 2]) -> Identity {
    Identity { certificates, key }
}

const PASSWORD: &str = "open sesame";

/// A server that speaks TLS alone with journals, and the files of its clients.
struct Secure {
    single: Single,
    authority: Authority,
    files: Files,
    _folder: TempDir,
}

impl Deref for Secure {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

impl Secure {
    fn start() -> Option<Self> {
        let single = Single::start()?;
        let admin = Admin::of(&single.options());
        admin.does(&format!("ALTER ROLE enact PASSWORD '{PASSWORD}'; CREATE ROLE till LOGIN SUPERUSER; CREATE ROLE admin LOGIN SUPERUSER"));
        drop(admin);
        let folder = tempfile::tempdir().expect("a directory");
        let files = Files::within(folder.path());
        let mut secure = Self { single, authority: Authority::new("one"), files, _folder: folder };
        secure.write("password", &format!("{PASSWORD}\n"));
        // A till is known by its certificate, which has its name, and others by a password.
        let rules =
            "hostssl all till all cert map=tills\nhostssl all all all scram-sha-256\nhostnossl all admin all trust\n";
        secure.single.server.keep("pg_hba.conf", rules);
        secure.single.server.keep("pg_ident.conf", "tills /^.*$ till\n");
        secure.certify("one");
        secure.single.server.configure(
            "ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server-key.pem'\nssl_ca_file = 'ca.pem'",
        );
        secure.single.server.restart();
        Some(secure)
    }

    /// All that the server and its clients have are of a new authority.
    fn certify(&mut self, name: &str) {
        self.authority = Authority::new(name);
        self.single.server.keep("ca.pem", &self.authority.pem);
        self.certify_server(self.authority.certificate_for(&["localhost"]));
        self.write("ca.pem", &self.authority.pem);
        self.keep("client", self.authority.certificate_for(&["client"]));
    }

    fn certify_server(&self, (certificate, key): (String, String)) {
        self.single.server.keep("server.pem", &certificate);
        self.single.server.keep("server-key.pem", &key);
    }

    fn address(&self, user: &str, host: &str) -> String {
        format!("postgres://{user}@{host}:{}/postgres", self.single.server.port())
    }

    fn trusting(&self) -> Security {
        Security { authorities: Some(self.path("ca.pem")), ..Security::default() }
    }

    fn with_password(&self) -> Security {
        Security { credentials: Some(self.path("password")), ..self.trusting() }
    }

    fn with_certificate(&self) -> Security {
        Security { identity: Some(identity(self.kept("client"))), ..self.trusting() }
    }
}

fn options(address: &str, security: Security) -> Options {
    Options { security, ..Options::at(address) }
}

fn refusal(options: Options) -> OpenError {
    let refusal = block_on(Processes::default().open(options)).expect_err("it does not open");
    assert!(!format!("{refusal} {refusal:?}").contains(PASSWORD), "{refusal:?}");
    refusal
}

/// Makes `record` durable: for a journal that knows nothing of new files, the server is away.
fn append(journal: &Postgres, record: NewRecord) {
    let appended = block_on_for(Duration::from_secs(60), journal.append(vec![record]));
    appended.expect("it knows the server again").expect("durable");
}

#[test]
fn a_journal_over_tls_outlives_its_server_and_the_certificates_and_password_of_all() {
    let Some(mut secure) = Secure::start() else { return };
    let mut processes = Processes::default();
    // A password is proved over the channel that it is meant for.
    let address = secure.address("enact", "localhost");
    let bound = options(&format!("{address}?channel_binding=require&sslmode=verify-full"), secure.with_password());
    let journal = block_on(processes.open(bound)).expect("it opens");
    append(&journal, record(1, 0, b"x"));
    Admin::of(&options(&secure.address("admin", "127.0.0.1"), Security::default()))
        .does("ALTER ROLE enact PASSWORD 'another'");
    secure.write("password", "another");
    secure.single.server.restart();
    append(&journal, record(1, 1, b"y"));
    drop(journal);

    let by_certificate = options(&secure.address("till", "localhost"), secure.with_certificate());
    let journal = block_on(processes.open(by_certificate)).expect("it opens");
    append(&journal, record(1, 2, b"z"));
    secure.single.server.kill();
    secure.certify("two");
    secure.single.server.restart();
    append(&journal, record(1, 3, b"!"));
    assert_eq!(read_all(&journal).len(), 4);
}

#[test]
fn a_server_that_is_not_trusted_or_does_not_trust_is_refused_with_the_reason() {
    let Some(mut secure) = Secure::start() else { return };
    let (enact, till) = (secure.address("enact", "localhost"), secure.address("till", "localhost"));
    let other = Authority::new("other");
    secure.write("other-ca.pem", &other.pem);
    secure.write("wrong", "another");
    secure.write("empty", "");
    let stranger = identity(secure.keep("stranger", other.certificate_for(&["client"])));
    let expired = identity(secure.keep("expired", secure.authority.expired_certificate_for(&["client"])));
    let certificate = secure.with_certificate();
    let other_name =
        SecurityError::OtherName { expected: "127.0.0.1".to_owned(), presented: vec!["localhost".to_owned()] };
    let refused = |why: &str| SecurityError::IdentityRefused { why: why.to_owned() };
    let empty = SecurityError::Empty { path: secure.path("empty"), expected: "certificate in PEM" };
    for (address, security, expected) in [
        (format!("{enact}?sslmode=require"), Security::default(), SecurityError::UnknownAuthority),
        (
            enact.clone(),
            Security { authorities: Some(secure.path("other-ca.pem")), ..Security::default() },
            SecurityError::UnknownAuthority,
        ),
        (secure.address("enact", "127.0.0.1"), secure.with_password(), other_name),
        (till.clone(), secure.trusting(), SecurityError::IdentityDemanded),
        (till.clone(), Security { identity: Some(stranger), ..secure.trusting() }, refused("UnknownCA")),
        (till.clone(), Security { identity: Some(expired), ..secure.trusting() }, refused("CertificateExpired")),
        (till.clone(), Security { authorities: Some(secure.path("empty")), ..Security::default() }, empty),
        (format!("{enact}?sslmode=disable"), secure.trusting(), SecurityError::Disabled),
        (
            format!("{}?sslmode=disable", secure.address("enact", "0.0.0.0")),
            Security::default(),
            SecurityError::Disabled,
        ),
    ] {
        let refusal = refusal(options(&address, security));
        assert!(matches!(&refusal, OpenError::Security(cause) if *cause == expected), "{refusal:?}, not {expected:?}");
        assert!(!refusal.is_unsafe());
    }
    // The server demands what the address does not ask for.
    for (address, security, said) in [
        (
            &enact,
            Security { credentials: Some(secure.path("wrong")), ..secure.trusting() },
            "password authentication failed",
        ),
        (&enact, Security::default(), "no encryption"),
    ] {
        let refusal = refusal(options(address, security));
        assert!(matches!(&refusal, OpenError::Refused { why, .. } if why.contains(said)), "{refusal:?}");
    }
    secure.certify_server(secure.authority.expired_certificate_for(&["localhost"]));
    secure.single.server.restart();
    let refusal = refusal(options(&till, certificate));
    assert!(matches!(&refusal, OpenError::Security(SecurityError::Expired)), "{refusal:?}");
}

/// A server that says that it does not encrypt, or somebody between who says so; what it is told beside the question.
fn stripped() -> (u16, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let told = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut question = [0; 8];
        client.read_exact(&mut question).expect("a question");
        assert_eq!(question, [0, 0, 0, 8, 4, 210, 22, 47], "whether it encrypts");
        client.write_all(b"N").expect("sent");
        let mut told = Vec::new();
        client.read_to_end(&mut told).expect("the end");
        told
    });
    (port, told)
}

#[test]
fn nothing_is_said_in_the_clear_when_it_must_be_encrypted_whatever_the_server_says() {
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("ca.pem");
    fs::write(&file, Authority::new("one").pem).expect("writable");
    let leave = Security { allows_plain: true, ..Security::default() };
    let trusting = Security { authorities: Some(file), ..leave.clone() };
    for (host, parameters, security) in [
        ("127.0.0.1", "?sslmode=require", leave.clone()),
        ("127.0.0.1", "", trusting.clone()),
        ("127.0.0.1", "?sslmode=prefer", trusting),
        // Not a loopback address, and the same machine.
        ("0.0.0.0", "", Security::default()),
        ("0.0.0.0", "?sslmode=prefer", Security::default()),
        ("localhost", "?hostaddr=0.0.0.0", Security::default()),
    ] {
        let (port, told) = stripped();
        let address = format!("postgres://enact:secret@{host}:{port}/db{parameters}");
        let refusal = refusal(options(&address, security));
        assert!(matches!(&refusal, OpenError::Security(SecurityError::Unencrypted)), "{address}: {refusal:?}");
        assert_eq!(told.join().expect("no panic"), b"", "{address}");
    }
}

#[test]
fn a_server_elsewhere_that_does_not_encrypt_is_used_only_with_leave() {
    let Some(here) = fresh() else { return };
    let elsewhere = Options { server: here.server.replace("127.0.0.1", "0.0.0.0"), ..here };
    let refusal = refusal(elsewhere.clone());
    assert!(matches!(&refusal, OpenError::Security(SecurityError::Unencrypted)), "{refusal:?}");
    let security = Security { allows_plain: true, ..Security::default() };
    block_on(Processes::default().open(Options { security, ..elsewhere })).expect("it opens");
}
