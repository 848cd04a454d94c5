//! A node that stops while others want its entities for their transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use enact_entities::{Entities, SubmitError};

use crate::bank::{ACCOUNTS, Bank, DEADLINE, settled, total};

const CLIENTS: usize = 48;
const ROUNDS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_delays_transfers_over_shards_and_refuses_none() {
    let Some(bank) = Bank::over_one() else { return };
    let bank = Arc::new(bank);
    let [stays, mut leaves] = bank.nodes(["a", "b"]).await;
    bank.open_all(&stays).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let clients = (0..CLIENTS).map(|client| {
        let (bank, node, is_over) = (Arc::clone(&bank), stays.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut booked = 0;
            while !is_over.load(Ordering::Relaxed) {
                let (from, to) = ((client + booked) % ACCOUNTS, (client + 5 * booked + 1) % ACCOUNTS);
                let to = if from == to { (to + 1) % ACCOUNTS } else { to };
                match node.submit(bank.transfer(&format!("{client}.{booked}"), 1, from, to)).await {
                    // An account may have run dry.
                    Ok(_) | Err(SubmitError::Refused { .. }) => booked += 1,
                    // It has not happened, and its entity is about to be served.
                    Err(SubmitError::Moved { .. }) => {}
                    Err(other) => panic!("transfer {client}.{booked}: {other}"),
                }
            }
            booked
        })
    });
    let clients: Vec<_> = clients.collect();
    for _ in 0..ROUNDS {
        leaves.leave(DEADLINE).await;
        settled(std::slice::from_ref(&stays)).await;
        leaves = bank.join("b").await;
        settled(&[stays.clone(), leaves.clone()]).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.await.expect("nothing is refused") > 0);
    }
    assert_eq!(total(&stays).await, 100 * ACCOUNTS as i64);
}
