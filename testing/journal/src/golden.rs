//! Golden messages: what each release says to others, kept for ever, and read by every later one.
//!
//! A folder has a file for each version. A line of it has the name of a message and its bytes: as text if they are some, and else in
//! hexadecimal digits. With `ENACT_WRITE_GOLDEN=1` the file of the present version is written.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

/// A message with its name, which no other has.
pub type Named = (&'static str, Vec<u8>);

/// Compares `messages` with the golden file of `version` in `folder`, and lets `read` read those of all versions.
///
/// # Panics
/// If there is no such file, `messages` are others, or one of some version cannot be read.
pub fn check(folder: &Path, version: &str, messages: &[Named], read: impl Fn(&str, &[u8]) -> Result<(), String>) {
    let names: BTreeSet<&str> = messages.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), messages.len(), "each has a name of its own");
    let golden = folder.join(version).with_added_extension("txt");
    let now: String = messages.iter().map(|(name, bytes)| format!("{name} {}\n", shown(bytes))).collect();
    if env::var_os("ENACT_WRITE_GOLDEN").is_some() {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(&golden, &now).expect("writable");
    }
    let kept = fs::read_to_string(&golden).unwrap_or_default();
    for (kept, now) in kept.lines().zip(now.lines()) {
        assert_eq!(kept, now, "another message than in {}, see docs/compatibility.md", golden.display());
    }
    assert_eq!(kept.lines().count(), now.lines().count(), "other messages than in {}", golden.display());
    for file in fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        for line in fs::read_to_string(&path).expect("readable").lines() {
            let (name, bytes) = line.split_once(' ').expect("a name and bytes");
            read(name, &parsed(bytes)).unwrap_or_else(|why| panic!("{name} of {}: {why}", path.display()));
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) if text.chars().all(|char| matches!(char, ' '..='~')) => format!("\"{text}\""),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn parsed(shown: &str) -> Vec<u8> {
    match shown.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) => text.into(),
        None => {
            let digits = |at: usize| u8::from_str_radix(&shown[at..at + 2], 16).expect("two digits");
            (0..shown.len()).step_by(2).map(digits).collect()
        }
    }
}
