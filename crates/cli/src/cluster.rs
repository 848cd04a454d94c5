//! `enact cluster`: what an operator sees of several nodes, and does with them.

use std::fmt::Write as _;

use enact_cluster::{JoinError, Servers, ShardStatus, Status, drain, move_shard, shards, status, verify};

use crate::failure::Failure;
use crate::journal::cluster as backups;
use crate::{args, secret};

pub(crate) fn run(args: &args::Cluster) -> Result<(), Failure> {
    match args {
        args::Cluster::Status { cluster, json } => block_on(print_status(cluster, *json)),
        args::Cluster::Check { cluster } => block_on(check(cluster)),
        args::Cluster::Verify { backup: Some(directory), .. } => backups::verify_backup(directory),
        args::Cluster::Verify { servers: Some(addresses), security, .. } => {
            block_on(verify_all(&security.servers(addresses)))
        }
        args::Cluster::Verify { .. } => unreachable!("the command line has one of them"),
        args::Cluster::Backup { directory, cluster } => backups::back_up(directory, cluster.to_servers()),
        args::Cluster::Secret { file } => secret::make(file),
        args::Cluster::Restore(args) => backups::restore(args),
        args::Cluster::Drain { node, cluster, patience } => block_on(async {
            drain(&cluster.to_servers(), node, *patience).await.map_err(|source| unseen(cluster, source))?;
            println!("{node} has no shards");
            Ok(())
        }),
        args::Cluster::Move { shard, node, force, cluster, patience } => block_on(async {
            let moved = move_shard(&cluster.to_servers(), *shard, node.as_deref(), *force, *patience).await;
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

async fn print_status(cluster: &args::Servers, json: bool) -> Result<(), Failure> {
    let status = status(&cluster.to_servers()).await.map_err(|source| unseen(cluster, source))?;
    if json {
        println!("{}", serde_json::to_string(&status).expect("it has a text form"));
    } else {
        print!("{}", in_words(&status));
    }
    Ok(())
}

async fn check(cluster: &args::Servers) -> Result<(), Failure> {
    let status = status(&cluster.to_servers()).await.map_err(|source| unseen(cluster, source))?;
    let problems = status.problems();
    problems.iter().for_each(|problem| println!("{problem}"));
    if !problems.is_empty() {
        return Err(Failure::Unsound { problems: problems.len() });
    }
    println!("sound: nodes {}, shards {}", status.nodes.len(), status.shards.len());
    Ok(())
}

/// Reads all shards, also behind one that is damaged.
async fn verify_all(servers: &Servers) -> Result<(), Failure> {
    let unseen = |source| Failure::Join { place: servers.to_string(), source };
    let shards = shards(servers).await.map_err(unseen)?;
    let (mut entities, mut records, mut damaged) = (0, 0, 0);
    for shard in 0..shards {
        match verify(servers, shard).await {
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

fn unseen(cluster: &args::Servers, source: JoinError) -> Failure {
    Failure::Join { place: cluster.to_servers().to_string(), source }
}

/// Nodes and shards as tables.
fn in_words(status: &Status) -> String {
    let mut nodes = vec![["NODE", "ADDRESS", "VERSION", "SHARDS"].map(str::to_owned)];
    nodes.extend(status.nodes.iter().map(|node| {
        let shards = match (node.is_leaving, node.is_waiting) {
            (true, _) => format!("{} (leaving)", node.shards),
            (_, true) => format!("{} (waiting)", node.shards),
            _ => node.shards.to_string(),
        };
        [node.name.clone(), node.address.clone(), node.version.clone(), shards]
    }));
    let mut shards = vec![["SHARD", "OWNER", "EPOCH", "LAST", "SERVERS"].map(str::to_owned)];
    shards.extend(status.shards.iter().map(|shard| {
        let ShardStatus { owner, moved_to, epoch, last, replicas, .. } = shard;
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
        [shard.shard.to_string(), owner, epoch, last.to_string(), replicas.join(", ")]
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
