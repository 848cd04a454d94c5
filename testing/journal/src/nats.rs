//! Servers of NATS as processes, for tests and benchmarks of the journal over NATS.
//!
//! The program is the `nats-server` in the path, or else in the target directory, where it is installed with `go install` if it is
//! not there yet. Without Go, tests pass over what they cannot do and say so, unless the variable `CI` is set.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs, thread};

use crate::link::{Flow, Link};

const MODULE: &str = "github.com/nats-io/nats-server/v2@v2.15.2";

/// The program, or `None` if there is none and it cannot be installed.
///
/// # Panics
/// In the latter case, if the variable `CI` is set.
pub fn program() -> Option<PathBuf> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PROGRAM.get_or_init(find) {
        Ok(program) => Some(program.clone()),
        Err(why) => {
            assert!(env::var_os("CI").is_none(), "the tests over NATS need a server: {why}");
            eprintln!("WARNING: passed over, there is no NATS server: {why}");
            None
        }
    }
}

fn find() -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(found) = env::split_paths(&path).map(|dir| dir.join("nats-server")).find(|program| is_recent(program)) {
        return Ok(found);
    }
    let this = env::current_exe().map_err(|error| error.to_string())?;
    // Cargo puts programs into `target/debug`, and those of tests and examples into `deps` and `examples` there.
    let is_inner = |dir: &Path| dir.ends_with("deps") || dir.ends_with("examples");
    let profile = this.parent().and_then(|dir| if is_inner(dir) { dir.parent() } else { Some(dir) });
    let target = profile.and_then(Path::parent).ok_or("this program is in no target directory")?;
    let bin = target.join("nats");
    let program = bin.join("nats-server");
    fs::create_dir_all(&bin).map_err(|error| error.to_string())?;
    // Of several test programs at once, one installs and the others wait.
    let lock = fs::File::create(bin.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if is_recent(&program) {
        return Ok(program);
    }
    let go = env::split_paths(&path).map(|dir| dir.join("go")).chain(["/usr/local/go/bin/go".into()]);
    let go = go.into_iter().find(|go| go.is_file()).ok_or("neither nats-server nor go is installed")?;
    let installed = Command::new(go).args(["install", MODULE]).env("GOBIN", &bin).output();
    let installed = installed.map_err(|error| error.to_string())?;
    if installed.status.success() { Ok(program) } else { Err(String::from_utf8_lossy(&installed.stderr).into_owned()) }
}

fn is_recent(program: &Path) -> bool {
    let version = Command::new(program).arg("--version").output();
    version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("v2.15."))
}

/// A server with `JetStream` that syncs each write; killed when dropped.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    name: String,
    directory: PathBuf,
    settings: String,
    port: u16,
    is_apart: bool,
    process: Option<Child>,
}

impl Server {
    /// Starts a server that keeps its files in `directory`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(program: &Path, directory: &Path) -> Self {
        Self::start_with(program, directory, "", "")
    }

    /// Starts a server with more settings than it needs: for `JetStream`, and for all of it.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_with(program: &Path, directory: &Path, jetstream: &str, settings: &str) -> Self {
        let [port] = free_ports();
        let mut server = Self::configured(program, directory, "single", port, jetstream, settings);
        server.restart();
        server
    }

    /// Starts three servers that make a cluster.
    ///
    /// # Panics
    /// If they do not start.
    pub fn start_three(program: &Path, directory: &Path) -> [Self; 3] {
        let mut servers = Self::configured_three(program, directory);
        servers.iter_mut().for_each(Self::restart);
        servers
    }

    /// The same, in process groups of their own: what interrupts this program from a terminal does not stop them.
    ///
    /// # Panics
    /// If they do not start.
    pub fn start_three_apart(program: &Path, directory: &Path) -> [Self; 3] {
        let mut servers = Self::configured_three(program, directory);
        for server in &mut servers {
            server.is_apart = true;
            server.restart();
        }
        servers
    }

    /// The same, and each hears of the others over the routes alone.
    ///
    /// # Panics
    /// If they do not start.
    pub fn start_three_linked(program: &Path, directory: &Path) -> ([Self; 3], Routes) {
        let ports = free_ports();
        let routes = Routes::between(ports);
        let mut servers = [0, 1, 2].map(|n| {
            // They would tell each other of ways beside the links.
            let nowhere = "advertise: \"127.0.0.1:1\",";
            Self::configured_clustered(program, directory, n, ports[n], &routes.of(n), nowhere)
        });
        servers.iter_mut().for_each(Self::restart);
        (servers, routes)
    }

    fn configured_three(program: &Path, directory: &Path) -> [Self; 3] {
        let routes: [u16; 3] = free_ports();
        [0, 1, 2].map(|n| Self::configured_clustered(program, directory, n, routes[n], &routes, ""))
    }

    /// The server `n` of three, which listens for the others at `port` and finds them at `routes`.
    fn configured_clustered(program: &Path, directory: &Path, n: usize, port: u16, routes: &[u16], more: &str) -> Self {
        let [clients] = free_ports();
        let routes = routes.iter().fold(String::new(), |mut all, port| {
            write!(all, "nats-route://127.0.0.1:{port}, ").expect("a string takes all that is written to it");
            all
        });
        let settings = format!(
            "cluster {{ name: test, listen: \"127.0.0.1:{port}\", {more} no_advertise: true, routes: [ {routes} ] }}"
        );
        Self::configured(program, directory, &format!("n{n}"), clients, "", &settings)
    }

    fn configured(program: &Path, directory: &Path, name: &str, port: u16, jetstream: &str, settings: &str) -> Self {
        let server = Self {
            program: program.to_owned(),
            name: name.to_owned(),
            directory: directory.to_owned(),
            settings: settings.to_owned(),
            port,
            is_apart: false,
            process: None,
        };
        server.configure(jetstream);
        server
    }

    /// Gives it other settings for `JetStream`, which count from its next start on.
    ///
    /// # Panics
    /// If the file with the configuration cannot be written.
    pub fn configure(&self, jetstream: &str) {
        let Self { name, port, settings, .. } = self;
        let store = self.store();
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\nserver_name: {name}\n{settings}\n\
             jetstream {{ store_dir: {store:?}, sync_interval: always {jetstream} }}\n"
        );
        fs::write(self.config(), text).expect("the configuration");
    }

    fn config(&self) -> PathBuf {
        self.directory.join(format!("{}.conf", self.name))
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it keeps its files.
    pub fn store(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// Where clients find it.
    pub fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port of clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server, at once and without a goodbye.
    ///
    /// # Panics
    /// If the system does not let it.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("killed");
            process.wait().expect("its end");
        }
    }

    /// Kills the server if it runs, and starts it on what is there; returns as soon as it takes connections.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        let mut command = Command::new(&self.program);
        if self.is_apart {
            command.process_group(0);
        }
        let mut process = command
            .arg("--config")
            .arg(self.config())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let log = BufReader::new(process.stderr.take().expect("its log"));
        self.process = Some(process);
        let mut lines = log.lines().map_while(Result::ok);
        let mut said = String::new();
        let is_ready = lines.by_ref().any(|line| {
            said.push_str(&line);
            said.push('\n');
            line.contains("Server is ready")
        });
        assert!(is_ready, "the server ended: {said}");
        // It must not wait for a reader of its log.
        thread::spawn(move || lines.for_each(drop));
    }

    /// Sends the server a signal, such as `STOP` or `CONT`.
    ///
    /// # Panics
    /// If it does not run, or there is no program `kill`.
    pub fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("it runs");
        let sent = Command::new("kill").args([&format!("-{signal}"), &process.id().to_string()]).status();
        assert!(sent.expect("sent").success(), "{signal}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The links between three servers.
#[derive(Debug)]
pub struct Routes {
    /// From each server to each other one, which it connects to.
    links: Vec<([usize; 2], Link)>,
}

impl Routes {
    fn between(ports: [u16; 3]) -> Self {
        let pairs = (0..3).flat_map(|from| (0..3).map(move |to| [from, to])).filter(|[from, to]| from != to);
        Self { links: pairs.map(|pair| (pair, Link::to(ports[pair[1]]))).collect() }
    }

    /// Where the server `from` finds the others.
    fn of(&self, from: usize) -> Vec<u16> {
        self.links.iter().filter(|(pair, _)| pair[0] == from).map(|(_, link)| link.port()).collect()
    }

    /// Lets flow like this what the server `n` sends to the others, and what they send to it.
    pub fn set(&self, n: usize, sent: Flow, received: Flow) {
        for (pair, link) in &self.links {
            if pair[0] == n {
                link.set(sent, received);
            } else if pair[1] == n {
                link.set(received, sent);
            }
        }
    }
}

/// Ports that nobody listens at.
fn free_ports<const N: usize>() -> [u16; N] {
    // All are held until all are known, so that they differ.
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("its address").port())
}
