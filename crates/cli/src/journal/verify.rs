//! `enact journal verify` of a directory, or of a journal on servers.

#[cfg(any(feature = "nats", feature = "postgres"))]
use enact_journal::{CheckError, ReadError, Verified};

#[cfg(any(feature = "nats", feature = "postgres"))]
use super::groups::remote;
use crate::args;
use crate::failure::Failure;

/// Reads all of a journal, and prints what is damaged.
pub(super) fn run(records: &args::Records) -> Result<(), Failure> {
    match records.journal.as_deref() {
        None => super::report(&records.data, enact_journal::verify(&records.data)),
        #[cfg(feature = "postgres")]
        Some(address) if args::is_database(address) => {
            use enact_journal::Journal as _;
            use enact_journal::postgres::Postgres;

            let options = records.security.database(address, records.shard);
            let place = options.to_string();
            let found = remote::runtime()?.block_on(async {
                let opened = Postgres::look(options).await;
                let journal = opened.map_err(|source| Failure::Postgres { place: place.clone(), source })?;
                Ok::<_, Failure>((journal.check().await, journal.verify().await))
            })?;
            report(place, found)
        }
        #[cfg(not(feature = "postgres"))]
        Some(address) if args::is_database(address) => Err(Failure::WithoutPostgres),
        #[cfg(feature = "nats")]
        Some(addresses) => {
            use enact_journal::Journal as _;

            let servers = records.security.servers(addresses);
            let place = remote::place(&servers, records.shard);
            let found = remote::runtime()?.block_on(async {
                let journal = remote::look(&servers, records.shard).await?;
                Ok::<_, Failure>((journal.check().await, journal.verify().await))
            })?;
            report(place, found)
        }
        #[cfg(not(feature = "nats"))]
        Some(_) => Err(Failure::WithoutNats),
    }
}

/// Prints what was found at `place`: of how it is kept, and of its records.
#[cfg(any(feature = "nats", feature = "postgres"))]
fn report(place: String, found: (Result<(), CheckError>, Result<Verified, ReadError>)) -> Result<(), Failure> {
    let (checked, read) = found;
    let mut is_sound = true;
    match checked {
        Ok(()) => {}
        Err(CheckError::Unsafe { why }) => {
            println!("{why}");
            is_sound = false;
        }
        Err(CheckError::Unavailable { why }) => {
            return Err(Failure::Read { place, source: ReadError::Unavailable { why } });
        }
    }
    match read {
        Ok(Verified { entities, records }) if is_sound => {
            println!("sound: entities {entities}, records {records}");
            return Ok(());
        }
        Ok(_) => {}
        Err(ReadError::Damaged(damage)) => println!("{damage}"),
        Err(source) => return Err(Failure::Read { place, source }),
    }
    Err(Failure::Damaged { path: place.into() })
}
