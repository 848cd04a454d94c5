//! `enact journal`: what is in a data directory that no server has open.

use enact_journal::{Verification, adopt, verify};

use crate::args;
use crate::failure::Failure;

pub(crate) fn run(args: &args::Journal) -> Result<(), Failure> {
    let (done, args::DataDirectory { data }) = match args {
        args::Journal::Verify(directory) => (verify(&directory.data), directory),
        args::Journal::Adopt(directory) => (adopt(&directory.data), directory),
    };
    let found = done.map_err(|source| Failure::Journal { path: data.clone(), source })?;
    for damage in &found.damages {
        println!("{damage}");
    }
    if !found.is_sound() {
        return Err(Failure::Damaged { path: data.clone() });
    }
    println!("{}", in_words(&found));
    Ok(())
}

fn in_words(found: &Verification) -> String {
    let Verification { segment_count, entity_count, last, torn_bytes, .. } = found;
    let torn = match torn_bytes {
        0 => String::new(),
        bytes => format!(", and {bytes} bytes that a crash has torn"),
    };
    format!("sound: segments {segment_count}, entities {entity_count}, records {last}{torn}")
}
