//! Three servers of NATS and three nodes on this machine, to try out what several machines do.
//!
//!     cluster PROGRAM SPEC
//!
//! starts PROGRAM three times for SPEC, on ports 8081 to 8083 of this machine, and stops all of it when it is interrupted or its standard
//! input ends. Nothing is kept.

mod nodes;

use std::error::Error;
use std::path::Path;

use tokio::io::{AsyncReadExt, stdin};

use self::nodes::Nodes;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [enact, spec] = &words[..] else { return Err("give a program and a specification".into()) };
    let nodes = Nodes::start(Path::new(enact), Path::new(spec), [8081, 8082, 8083])?;
    println!("three servers of NATS: {}", nodes.servers());
    nodes.urls().zip(nodes::NAMES).for_each(|(url, name)| println!("node {name}: {url}"));
    println!("stop with Ctrl-C, or by the end of standard input");
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = end_of_input() => {}
    }
    Ok(())
}

async fn end_of_input() {
    let mut bytes = [0; 256];
    while stdin().read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}
