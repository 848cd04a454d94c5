//! The page on a first day, line by line, with the real program: what an operator does who has never seen it.

use std::process::Stdio;

use crate::backup::{Place, Step, shape, steps};
use crate::served::{Served, program};

const PAGE: &str = include_str!("../../../../docs/operations/first-day.md");
const SERVE: &str = "enact serve --config bank/enact.toml";
/// How the page stops the server, and has it read its files.
const STOP: &str = "pkill -TERM -f 'enact serve --config bank/enact.toml'";
const HANGUP: &str = "pkill -HUP -f 'enact serve --config bank/enact.toml'";
/// Where the page finds the server.
const HOST: &str = "https://localhost:8080";

/// The server of the page, at a port that is free.
fn serve(place: &Place) -> Served {
    let mut command = program();
    command.args(["serve", "--config", "bank/enact.toml", "--listen", "127.0.0.1:0"]).current_dir(place.path(""));
    Served::start({
        command.stdin(Stdio::null());
        command
    })
}

/// Each command does what the page says that it does, in this order.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_who_follows_the_page_is_told_at_each_step_what_happened() {
    let place = Place::new();
    let mut server: Option<Served> = None;
    let steps = steps(PAGE);
    assert!(steps.len() > 20, "the page has its commands");
    for Step { command, printed } in steps {
        match (&*command, &server) {
            (SERVE, _) => {
                let started = serve(&place);
                assert_eq!(printed, "listening on https://127.0.0.1:8080\n");
                assert_eq!(started.url(""), format!("https://{}", started.address()));
                server = Some(started);
            }
            (STOP, Some(_)) => {
                let stopped = server.take().expect("it runs");
                stopped.signal(rustix::process::Signal::TERM);
                let (status, log) = stopped.ended();
                assert!(status.success() && log.contains("stopped"), "{status}: {log}");
            }
            (HANGUP, Some(server)) => {
                server.signal(rustix::process::Signal::HUP);
                // The page's next command has the old token, which counts until the file is read.
                let old = command_of(
                    server,
                    &format!(
                        "curl -s -o /dev/null -w '%{{http_code}}' --cacert bank/cert.pem -H \
                     \"Authorization: Bearer $(cat teller.token)\" {HOST}/Account/A1"
                    ),
                );
                while place.done(&old) == "200" {
                    tokio::task::yield_now().await;
                }
            }
            (command, server) => {
                let asked = server.as_ref().map_or_else(|| command.to_owned(), |server| command_of(server, command));
                let said = place.done(&asked);
                assert_eq!(shape(&said), shape(&printed), "{command}: {said}");
                if printed.len() == 4 {
                    assert_eq!(said, printed, "{command}");
                }
            }
        }
    }
    assert!(server.is_some(), "in the end it serves");
}

/// The command, at the address of the server.
fn command_of(server: &Served, command: &str) -> String {
    command.replace(HOST, &format!("https://localhost:{}", server.address().port()))
}
