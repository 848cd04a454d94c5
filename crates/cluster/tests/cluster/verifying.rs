//! All records of a shard are read while it is served, and one too many is found.

use enact_cluster::{VerifyError, shard_of};
use enact_journal::{Damage, Flaw, ReadError};

use crate::bank::{ACCOUNTS, Bank, insist};

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_does_not_follow_the_one_before_it_is_found() {
    let Some(bank) = Bank::over_one() else { return };
    let a = bank.join("a").await;
    let journals = bank.agreed().await;
    bank.open_all(&a).await;
    let mut entities = 0;
    for shard in 0..12 {
        entities += journals.verify(shard).await.expect("sound").entities;
    }
    assert!(entities >= ACCOUNTS, "{entities}");
    insist(&a, bank.deposit(3, "after")).await;

    let entity = "Account/3".parse().expect("a key");
    let shard = shard_of(&entity, 12);
    let client = async_nats::connect(bank.servers[0].address()).await.expect("connected");
    let context = async_nats::jetstream::new(client);
    let stream = context.get_stream(format!("J{shard}")).await.expect("its stream");
    let subject = format!("j.{shard}.e.Account.3");
    let last = stream.get_last_raw_message_by_subject(&subject).await.expect("its last record");
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("R", last.headers.get("R").expect("the header of records").clone());
    let stored = context.publish_with_headers(subject, headers, last.payload).await.expect("sent");
    stored.await.expect("the stream takes it");
    let found = journals.verify(shard).await.expect_err("it is there twice");
    let VerifyError::Read(ReadError::Damaged(Damage { flaw, .. })) = &found else { panic!("{found}") };
    assert!(matches!(flaw, Flaw::Chain { entity: of, .. } if *of == entity), "{found}");
    assert!(found.is_damage());
    assert!(!journals.verify(99).await.expect_err("there is none").is_damage());
}
