//! `enact cluster`: what an operator sees of several nodes, and does with them.

use std::fmt::Write as _;

use enact_cluster::{Agreed, JoinError, ShardStatus, Status, agreed, drain, move_shard, status};

use crate::failure::Failure;
use crate::journal::cluster as backups;
use crate::{args, secret};

pub(crate) fn run(args: &args::Cluster) -> Result<(), Failure> {
    match args {
        args::Cluster::Status { cluster, json } => block_on(print_status(&cluster.nodes()?, *json)),
        args::Cluster::Check { cluster } => block_on(check(&cluster.nodes()?)),
        args::Cluster::Verify { backup: Some(directory), .. } => backups::verify_backup(directory),
        args::Cluster::Verify { cluster: Some(addresses), journal, security, nodes, .. } => {
            block_on(verify_all(&args::Nodes::of(addresses, journal.as_deref(), security, nodes)?))
        }
        args::Cluster::Verify { .. } => unreachable!("the command line has one of them"),
        args::Cluster::Backup { directory, cluster } => backups::back_up(directory, cluster.nodes()?),
        args::Cluster::Secret { file } => secret::make(file),
        args::Cluster::Restore(args) => backups::restore(args),
        args::Cluster::Drain { node, cluster, patience } => block_on(async {
            let nodes = &cluster.nodes()?;
            drain(&nodes.servers, node, *patience).await.map_err(|source| unseen(nodes, source))?;
            println!("{node} has no shards");
            Ok(())
        }),
        args::Cluster::Move { shard, node, force, cluster, patience } => block_on(async {
            let servers = cluster.nodes()?.servers;
            let moved = move_shard(&servers, *shard, node.as_deref(), *force, *patience).await;
            let owner = moved.map_err(|source| Failure::Unmoved { shard: *shard, source })?;
            println!("shard {shard} is served by {owner}");
            Ok(())
        }),
    }
}

fn block_on(done: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(done)
}

async fn print_status(nodes: &args::Nodes, json: bool) -> Result<(), Failure> {
    let status = status(&nodes.servers, &nodes.journals).await.map_err(|source| unseen(nodes, source))?;
    if json {
        println!("{}", serde_json::to_string(&status).expect("it has a text form"));
    } else {
        print!("{}", in_words(&status));
    }
    Ok(())
}

async fn check(nodes: &args::Nodes) -> Result<(), Failure> {
    let status = status(&nodes.servers, &nodes.journals).await.map_err(|source| unseen(nodes, source))?;
    let problems = status.problems();
    problems.iter().for_each(|problem| println!("{problem}"));
    if !problems.is_empty() {
        return Err(Failure::Unsound { problems: problems.len() });
    }
    println!("sound: nodes {}, shards {}", status.nodes.len(), status.shards.len());
    Ok(())
}

/// Reads all shards, also behind one that is damaged.
async fn verify_all(nodes: &args::Nodes) -> Result<(), Failure> {
    let agreed = agreed(&nodes.servers, &nodes.journals).await.map_err(|source| unseen(nodes, source))?;
    let Agreed { shards, journals, .. } = agreed;
    let (mut entities, mut records, mut damaged) = (0, 0, 0);
    for shard in 0..shards {
        match journals.verify(shard).await {
            Ok(verified) => {
                entities += verified.entities;
                records += verified.records;
            }
            Err(cause) if cause.is_damage() => {
                println!("shard {shard}: {cause}");
                damaged += 1;
            }
            Err(source) => return Err(Failure::Unverified { shard, source }),
        }
    }
    if damaged > 0 {
        return Err(Failure::Unsound { problems: damaged });
    }
    println!("sound: shards {shards}, entities {entities}, records {records}");
    Ok(())
}

fn unseen(nodes: &args::Nodes, source: JoinError) -> Failure {
    Failure::Join { place: nodes.servers.to_string(), source }
}

/// Nodes and shards as tables.
fn in_words(status: &Status) -> String {
    let mut nodes = vec![["NODE", "ADDRESS", "VERSION", "SHARDS"].map(str::to_owned)];
    nodes.extend(status.nodes.iter().map(|node| {
        let shards = match (node.is_leaving, node.is_waiting, node.is_cut_off) {
            (true, ..) => format!("{} (leaving)", node.shards),
            (_, true, _) => format!("{} (waiting)", node.shards),
            (.., true) => format!("{} (cut off)", node.shards),
            _ => node.shards.to_string(),
        };
        [node.name.clone(), node.address.clone(), node.version.clone(), shards]
    }));
    let mut shards = vec![["SHARD", "OWNER", "EPOCH", "LAST", "SERVERS"].map(str::to_owned)];
    shards.extend(status.shards.iter().map(|shard| {
        let ShardStatus { owner, moved_to, epoch, last, replicas, flaw, .. } = shard;
        let last = if flaw.is_some() { "?".to_owned() } else { last.to_string() };
        let replicas: Vec<String> = replicas
            .iter()
            .map(|replica| match replica.is_current {
                true => replica.server.clone(),
                false => format!("{} ({} behind)", replica.server, replica.lag),
            })
            .collect();
        let epoch = match (owner, epoch) {
            (_, Some(epoch)) => epoch.to_string(),
            (Some(_), None) => "opening".to_owned(),
            (None, None) => "-".to_owned(),
        };
        let mut owner = owner.clone().unwrap_or_else(|| "-".to_owned());
        if let Some(node) = moved_to {
            write!(owner, " (moved to {node})").expect("a string takes all that is written to it");
        }
        [shard.shard.to_string(), owner, epoch, last, replicas.join(", ")]
    }));
    let refused = status.refused.as_ref().map(|why| format!("\nThe last specification to adopt was refused: {why}\n"));
    format!("{}\n{}{}", table(&nodes), table(&shards), refused.unwrap_or_default())
}

fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: Vec<usize> = (0..N).map(|n| rows.iter().map(|row| row[n].len()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let line = row.iter().zip(&widths).fold(String::new(), |mut line, (cell, width)| {
            write!(line, "{cell:width$}  ").expect("a string takes all that is written to it");
            line
        });
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
