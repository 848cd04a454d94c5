//! Nodes as processes over servers of NATS in processes of their own.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use enact_journal_kit::nats::{Server, program};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) const NAMES: [&str; 3] = ["n1", "n2", "n3"];

/// Three nodes; dropped, they stop, and then what they have stored their records in.
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    servers: [Server; 3],
    _directory: TempDir,
}

impl Nodes {
    /// Starts `enact` for `spec` on these ports; on any free one in place of 0.
    pub(crate) fn start(enact: &Path, spec: &Path, ports: [u16; 3]) -> Result<Self, Box<dyn Error>> {
        let nats = program().ok_or("there is no NATS server: install Go, and it is built")?;
        let directory = tempfile::tempdir()?;
        let servers = Server::start_three_apart(&nats, directory.path());
        let mut nodes = Self { nodes: Vec::new(), servers, _directory: directory };
        for (name, port) in NAMES.into_iter().zip(ports) {
            let node = Node::start(enact, spec, &nodes.servers(), name, port)?;
            nodes.nodes.push(node);
        }
        Ok(nodes)
    }

    /// The addresses of the servers, separated by commas.
    pub(crate) fn servers(&self) -> String {
        self.servers.each_ref().map(Server::address).join(",")
    }

    /// Where the nodes listen, in the order of their names.
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.url.as_str())
    }
}

struct Node {
    process: Child,
    url: String,
}

impl Node {
    fn start(enact: &Path, spec: &Path, servers: &str, name: &str, port: u16) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(enact);
        command.arg("serve").arg(spec).args(["--cluster", servers, "--node", name, "--log", "warn"]);
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        // An interrupt from the terminal reaches the one that started it alone: a second signal would end it at once.
        command.process_group(0);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take();
        let mut node = Self { process, url: String::new() };
        let mut line = String::new();
        BufReader::new(output.ok_or("it has an output")?).read_line(&mut line)?;
        let url = line.strip_prefix("listening on ").ok_or_else(|| format!("node {name} does not serve"))?;
        url.trim_end().clone_into(&mut node.url);
        Ok(node)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        // It may have ended by itself.
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        let _ = self.process.wait();
    }
}
