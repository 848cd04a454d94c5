//! The program and the servers of its journal know each other by certificates and users, and say why they do not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use enact_journal_kit::certificates::Authority;
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::served::{BANK, FREE_PORT, Served, program, run};

const PASSWORD: &str = "open-sesame";
const CA: [&str; 2] = ["--journal-ca", "ca.pem"];

/// A folder with a specification, and the certificates of a server and of the program.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a place for the test"));
        let authority = Authority::new("one");
        place.write("bank.rebel", BANK);
        place.write("password", PASSWORD);
        place.write("ca.pem", &authority.pem);
        for (name, (certificate, key)) in
            [("server", authority.certificate_for(&["localhost"])), ("client", authority.certificate_for(&["client"]))]
        {
            place.write(&format!("{name}.pem"), &certificate);
            place.write(&format!("{name}-key.pem"), &key);
        }
        place
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("writable");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("ours");
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = program();
        command.current_dir(self.0.path()).args(words);
        command
    }

    fn serve(&self, words: &[&str]) -> Served {
        let serve = ["serve", "bank.rebel", "--listen", FREE_PORT, "--log", "debug"];
        Served::start(self.command(&[&serve, words].concat()))
    }

    /// What the program prints, which does what it should.
    fn does(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = run(self.command(words));
        let said = String::from_utf8([stderr, stdout].concat()).expect("UTF-8");
        assert!(status.success() && !said.contains(PASSWORD), "{words:?}: {status}, {said}");
        said
    }

    /// Checks that the program ends with this status, and says this.
    fn refuses(&self, words: &[&str], status: i32, said: &str) {
        let output = run(self.command(words));
        let words_of_it = String::from_utf8([output.stderr, output.stdout].concat()).expect("UTF-8");
        assert!(output.status.code() == Some(status) && words_of_it.contains(said), "{words:?}: {words_of_it}");
        assert!(!words_of_it.contains(PASSWORD), "{words_of_it}");
    }
}

async fn open(served: &Served, id: &str) {
    let (status, body) = served.post(&format!("/Account/{id}/Open"), json!({ "initialDeposit": "EUR 5.00" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

/// Stops the server; what it has logged has no password.
fn stop(served: Served) -> String {
    served.signal(Signal::TERM);
    let (ended, log) = served.ended();
    assert!(ended.success() && !log.contains(PASSWORD), "{log}");
    log
}

#[cfg(feature = "nats")]
#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_commands_speak_with_nats_over_mutual_tls_and_say_why_they_do_not() {
    use enact_journal_kit::nats::{Server, program};

    let place = Place::new();
    let path = |name: &str| place.0.path().join(name);
    let settings = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}
         authorization {{ user: bank, password: {PASSWORD:?} }}",
        path("server.pem"),
        path("server-key.pem"),
        path("ca.pem"),
    );
    let Some(program) = program() else { return };
    let mut nats = Server::start_with(&program, place.0.path(), "", &settings);
    let address = format!("tls://bank@localhost:{}", nats.port());
    let other_name = format!("tls://bank@127.0.0.1:{}", nats.port());
    let (certificate, key) = (["--journal-cert", "client.pem"], ["--journal-key", "client-key.pem"]);
    let credentials = ["--journal-credentials", "password"];
    let known = [CA, certificate, key, credentials].concat();

    let cluster = ["--cluster", &address];
    let node = place.serve(&[&cluster[..], &known, &["--node", "a", "--replicas", "1", "--lease", "13s"]].concat());
    open(&node, "A1").await;
    for (words, said) in [
        (&["cluster", "status"][..], "a "),
        (&["cluster", "verify"], "sound: shards 12"),
        (&["cluster", "backup", "backup"], "backed up: shards 12"),
        (&["cluster", "move", "3", "a"], "shard 3 is served by a"),
        (&["audit", "bank.rebel"], "clean: shards 12"),
        (&["contract", "check", "bank.rebel"], "nothing changes"),
    ] {
        let printed = place.does(&[words, &cluster, &known].concat());
        assert!(printed.contains(said), "{words:?}: {printed}");
    }
    stop(node);

    // The same as settings of a file, whose paths are relative to it; the password is in the address.
    let with_password = address.replace("bank@", &format!("bank:{PASSWORD}@"));
    let file = format!(
        "journal = {with_password:?}\nshard = 99\njournal-ca = \"ca.pem\"\njournal-cert = \"client.pem\"\n\
         journal-key = \"client-key.pem\"\n"
    );
    place.write("enact.toml", &file);
    let served = place.serve(&["--config", "enact.toml"]);
    open(&served, "A1").await;
    nats.restart();
    open(&served, "A2").await;
    stop(served);
    let journal = ["--journal", &address, "--shard", "99"];
    for (words, said) in [
        (&["journal", "verify"][..], "sound: entities"),
        (&["journal", "backup", "bank.backup"], "backed up: "),
        (&["journal", "export"], "\"event\":\"Open\""),
        (&["contract", "check", "bank.rebel"], "nothing changes"),
    ] {
        let printed = place.does(&[words, &journal, &known].concat());
        assert!(printed.contains(said), "{words:?}: {printed}");
    }
    let restored = ["--journal", &address, "--shard", "98"];
    assert!(place.does(&[&["journal", "restore", "bank.backup"], &restored[..], &known].concat()).contains("restored"));

    let serve = ["serve", "bank.rebel", "--listen", FREE_PORT];
    let unknown = "no authority that is known here vouches for the certificate of the server; `--journal-ca FILE` names its authority";
    let demanded =
        "the server demands a certificate of its clients; give one with `--journal-cert FILE` and `--journal-key FILE`";
    let named =
        "the certificate of the server is for localhost, not for 127.0.0.1; call the server as its certificate does";
    let but_ca = [certificate, key, credentials].concat();
    let but_certificate = [CA, credentials].concat();
    for (words, status, said) in [
        ([&serve, &journal[..], &but_ca].concat(), 4, unknown),
        ([&["cluster", "status"], &cluster[..], &but_ca].concat(), 4, unknown),
        ([&["journal", "restore", "bank.backup"], &journal[..], &but_certificate].concat(), 4, demanded),
        ([&["cluster", "move", "3"], &cluster[..], &but_certificate].concat(), 4, demanded),
        ([&["journal", "verify", "--journal", &other_name], &known[..]].concat(), 4, named),
        ([&serve, &journal[..], &["--journal-ca", "none.pem"]].concat(), 2, "cannot read none.pem"),
        (
            [&["cluster", "verify"], &cluster[..], &["--journal-ca", "password"]].concat(),
            2,
            "password has no certificate in PEM",
        ),
        ([&serve, &journal[..], &certificate].concat(), 2, "--journal-key <FILE>"),
        ([&serve, &CA[..]].concat(), 2, "--journal <"),
        ([&["journal", "export"], &CA[..]].concat(), 2, "--journal <"),
    ] {
        place.refuses(&words, status, said);
    }
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_database_elsewhere_is_spoken_to_over_tls_or_with_leave_that_is_logged() {
    use enact_journal_kit::postgres::{Server, programs};

    let place = Place::new();
    let Some(programs) = programs() else { return };
    let mut database = Server::start(&programs, place.0.path());
    let at = |host: &str| format!("postgres://enact@{host}:{}/postgres?schema=bank", database.port());
    // Not a loopback address, and the same machine.
    let (here, elsewhere) = (at("localhost"), at("0.0.0.0"));
    let (here, elsewhere) = (["--journal", &here], ["--journal", &elsewhere]);
    let serve = ["serve", "bank.rebel", "--listen", FREE_PORT];
    let plain = "the server does not encrypt, and what is said must be encrypted: let it speak TLS; or, where no address asks for \
                 encryption, accept the risk with --journal-insecure";
    place.refuses(&[&serve, &elsewhere[..]].concat(), 4, plain);
    let served = place.serve(&[&elsewhere[..], &["--journal-insecure"]].concat());
    open(&served, "A1").await;
    assert!(stop(served).contains("INSECURE: what is said to the servers of the journal may be read"));

    let pem = |name: &str| fs::read_to_string(place.0.path().join(name)).expect("readable");
    database.keep("server.pem", &pem("server.pem"));
    database.keep("server-key.pem", &pem("server-key.pem"));
    database.configure("ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server-key.pem'");
    database.keep("pg_hba.conf", "hostssl all all all trust\n");
    database.restart();
    let served = place.serve(&[&here[..], &CA].concat());
    database.restart();
    open(&served, "A2").await;
    assert!(!stop(served).contains("INSECURE"));
    for (words, said) in [
        (&["journal", "verify"][..], "sound: entities"),
        (&["journal", "backup", "bank.backup"], "backed up: "),
        (&["contract", "check", "bank.rebel"], "nothing changes"),
    ] {
        let printed = place.does(&[words, &here, &CA].concat());
        assert!(printed.contains(said), "{words:?}: {printed}");
    }
    let named = "the certificate of the server is for localhost, not for 0.0.0.0";
    for (words, status, said) in [
        ([&serve, &elsewhere[..], &CA].concat(), 4, named),
        ([&["journal", "restore", "bank.backup", "--shard", "1"], &elsewhere[..], &CA].concat(), 4, named),
        ([&serve, &["--journal", "postgres://enact@db1/bank?sslmode=disable"][..]].concat(), 2, "`sslmode=disable`"),
    ] {
        place.refuses(&words, status, said);
    }
}
