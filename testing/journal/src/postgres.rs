//! Servers of PostgreSQL as processes, for tests and benchmarks of the journal over PostgreSQL.
//!
//! The programs are those in the path, or else those of the newest package. Without them, tests pass over what they cannot do and say so,
//! unless the variable `CI` is set.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::{env, fs, thread};

/// The directory of `initdb` and `postgres`, or `None` if there is none.
///
/// # Panics
/// In the latter case, if the variable `CI` is set.
pub fn programs() -> Option<PathBuf> {
    static PROGRAMS: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = PROGRAMS.get_or_init(find).clone();
    if found.is_none() {
        assert!(env::var_os("CI").is_none(), "the tests over PostgreSQL need `initdb` and `postgres`");
        eprintln!("WARNING: passed over, there is no PostgreSQL: install the package `postgresql`");
    }
    found
}

fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let packages = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut packages: Vec<PathBuf> = packages.map(|version| version.path().join("bin")).collect();
    // The versions have two digits.
    packages.sort();
    let mut places = env::split_paths(&path).chain(packages.into_iter().rev());
    places.find(|place| ["initdb", "postgres"].iter().all(|program| place.join(program).is_file()))
}

/// The server that tests of one program share which neither kill nor configure theirs. It ends with the program, which then leaves nothing.
///
/// # Panics
/// If it does not start.
pub fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Option<(Server, Child)>> = OnceLock::new();
    let start = || {
        let (programs, directory) =
            (programs()?, env::temp_dir().join(format!("enact-postgres-{}", std::process::id())));
        fs::create_dir(&directory).expect("a directory of this program");
        let mut cleaning = Command::new("sh");
        cleaning.args(["-c", r#"read -r _; until rm -rf "$1"; do :; done"#, "sh"]).arg(&directory);
        // What it reads ends with this program.
        cleaning.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Some((Server::start(&programs, &directory), cleaning.spawn().expect("a shell")))
    };
    SHARED.get_or_init(start).as_ref().map(|(server, _)| server)
}

/// A server that syncs each commit and lets everybody of this machine in; killed when dropped.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    data: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Server {
    /// Starts a new server that keeps its files in `directory`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(programs: &Path, directory: &Path) -> Self {
        Self::start_with(programs, directory, &["--data-checksums"], "")
    }

    /// Starts a new server with other arguments for `initdb`, and more settings.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_with(programs: &Path, directory: &Path, arguments: &[&str], settings: &str) -> Self {
        let data = place(directory);
        let mut make = as_user(&programs.join("initdb"));
        make.args(["--auth=trust", "--username=enact", "--encoding=UTF8", "--locale=C", "--no-sync", "--pgdata"]);
        run(make.arg(&data).args(arguments));
        let mut server = Self { programs: programs.to_owned(), data, port: free_port(), process: None };
        server.configure(settings);
        server.restart();
        server
    }

    /// A server on a copy of the files of this one, which must not run meanwhile, that does not run yet.
    ///
    /// # Panics
    /// If this one runs, or the files cannot be copied.
    pub fn copy(&self, directory: &Path) -> Self {
        assert!(self.process.is_none(), "it runs");
        let data = place(directory);
        run(Command::new("cp").args(["--archive", "--no-target-directory"]).arg(&self.data).arg(&data));
        Self { programs: self.programs.clone(), data, port: free_port(), process: None }
    }

    /// Makes a [copy](Self::copy) a standby, which says that it is `name` and follows the one of the servers at `ports` that takes writes, and starts
    /// it with more settings.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_standby(&mut self, name: &str, ports: &[u16], settings: &str) {
        let hosts = vec!["127.0.0.1"; ports.len()].join(",");
        let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        self.keep("standby.signal", "");
        self.configure(&format!(
            "primary_conninfo = 'host={hosts} port={ports} user=enact application_name={name} target_session_attrs=read-write'\n\
             wal_retrieve_retry_interval = '100ms'\n{settings}"
        ));
        self.restart();
    }

    /// Gives it other settings, which count from its next start or [reload](Self::reload) on.
    ///
    /// # Panics
    /// If the file with the configuration cannot be written.
    pub fn configure(&self, settings: &str) {
        let port = self.port;
        let text = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nmax_connections = 300\njit = off\n\
             shared_buffers = 128MB\n{settings}\n"
        );
        fs::write(self.data.join("postgresql.conf"), text).expect("the configuration");
    }

    /// Gives it a file of its own that nobody else reads, such as a key, beside its settings. Returns what these call it.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn keep(&self, name: &str, text: &str) -> String {
        let path = self.data.join(name);
        fs::write(&path, text).expect("the file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        if is_root() {
            run(Command::new("chown").arg(user()).arg(&path));
        }
        name.to_owned()
    }

    /// Lets it read its settings again.
    ///
    /// # Panics
    /// If it does not run.
    pub fn reload(&self) {
        self.signal("HUP");
    }

    /// Where clients find its database.
    pub fn address(&self) -> String {
        Self::address_at(self.port)
    }

    /// The same over another port, which leads there.
    pub fn address_at(port: u16) -> String {
        Self::address_at_any(&[port])
    }

    /// The same at the one of several ports that takes writes.
    pub fn address_at_any(ports: &[u16]) -> String {
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("postgres://enact@{}/postgres", hosts.join(","))
    }

    /// The port of clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it keeps its files.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The process that has started all others of the server.
    ///
    /// # Panics
    /// If it does not run.
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }

    /// Kills all processes of the server, at once and without a goodbye.
    ///
    /// # Panics
    /// If the system does not let it.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        // Held, it starts no others.
        let id = process.id().to_string();
        signal("STOP", &id);
        let children = children(&id);
        process.kill().expect("killed");
        children.iter().for_each(|child| signal("KILL", child));
        process.wait().expect("its end");
    }

    /// Stops the server, which closes all connections and writes what is in memory to its files.
    ///
    /// # Panics
    /// If it does not run.
    pub fn stop(&mut self) {
        self.signal("INT");
        self.process.take().expect("it runs").wait().expect("its end");
    }

    /// Freezes all processes of the server: connections stay, and nothing is answered.
    ///
    /// # Panics
    /// If it does not run.
    pub fn freeze(&self) {
        let id = self.id().to_string();
        // Held, it starts no others.
        signal("STOP", &id);
        children(&id).iter().for_each(|child| signal("STOP", child));
    }

    /// Lets a server go on that was [frozen](Self::freeze).
    ///
    /// # Panics
    /// If it does not run.
    pub fn resume(&self) {
        let id = self.id().to_string();
        children(&id).iter().for_each(|child| signal("CONT", child));
        signal("CONT", &id);
    }

    /// Kills the server if it runs, and starts it on what is there; returns as soon as it takes connections.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        // What was killed may take a moment to be gone.
        let mut said = String::new();
        for _ in 0..100 {
            match self.try_start() {
                Ok(()) => return,
                Err(why) if why.contains("shared memory block") => said = why,
                Err(why) => panic!("the server ended: {why}"),
            }
        }
        panic!("the server ended: {said}");
    }

    fn try_start(&mut self) -> Result<(), String> {
        let mut command = as_user(&self.programs.join("postgres"));
        command.arg("-D").arg(&self.data).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let (started, starting) = channel();
        // The server ends with the thread that has started it, which reads its log: so it ends with this program at the latest.
        thread::spawn(move || {
            let mut process = command.spawn().expect("the server starts");
            let log = BufReader::new(process.stderr.take().expect("its log"));
            let mut starting = Some((started, process));
            let mut said = String::new();
            for line in log.lines().map_while(Result::ok) {
                if starting.is_some() {
                    said.push_str(&line);
                    said.push('\n');
                }
                if line.contains("database system is ready to accept")
                    && let Some((started, process)) = starting.take()
                {
                    started.send(Ok(process)).expect("somebody waits");
                }
            }
            if let Some((started, mut process)) = starting {
                process.wait().expect("its end");
                started.send(Err(said)).expect("somebody waits");
            }
        });
        self.process = Some(starting.recv().expect("an answer")?);
        Ok(())
    }

    /// Sends the server a signal, such as `HUP`.
    ///
    /// # Panics
    /// If it does not run, or there is no program `kill`.
    pub fn signal(&self, signal: &str) {
        self::signal(signal, &self.id().to_string());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a process a signal; it may have ended.
///
/// # Panics
/// If there is no program `kill`.
pub fn signal(signal: &str, process: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), process]).stderr(Stdio::null()).status();
    sent.expect("the program `kill`");
}

/// A new place in `directory` for the files of a server.
fn place(directory: &Path) -> PathBuf {
    let data = directory.join("data");
    fs::create_dir(&data).expect("a place for its files");
    if is_root() {
        // Another user has to get there.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("it is ours");
        run(Command::new("chown").arg(user()).arg(&data));
    }
    data
}

/// A port that nobody listens at.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// The processes that the process has started.
fn children(id: &str) -> Vec<String> {
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    children.split_whitespace().map(str::to_owned).collect()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("--user").output();
    id.is_ok_and(|id| id.stdout == b"0\n")
}

/// The user that runs servers if this one is root, which they refuse.
fn user() -> &'static str {
    static USER: OnceLock<bool> = OnceLock::new();
    let has_its_own = USER.get_or_init(|| {
        let known = Command::new("id").arg("postgres").stdout(Stdio::null()).stderr(Stdio::null()).status();
        known.is_ok_and(|known| known.success())
    });
    if *has_its_own { "postgres" } else { "nobody" }
}

/// Runs a program that ends with the thread that has started it.
fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if is_root() {
        let group = Command::new("id").args(["--group", user()]).output().expect("the program `id`");
        let group = String::from_utf8(group.stdout).expect("a number");
        command.args(["--reuid", user(), "--regid", group.trim(), "--clear-groups"]);
        // It may not be let into that of this process.
        command.current_dir("/");
    }
    command.arg(program);
    command
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    assert!(output.status.success(), "{command:?} says {}", String::from_utf8_lossy(&output.stderr));
}
