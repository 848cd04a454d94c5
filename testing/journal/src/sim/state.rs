//! What is in the files, what of it is durable, and what a power cut makes of that.

use std::collections::BTreeMap;

use super::fate::Fate;

/// The unit in which a power cut keeps or loses what was written.
const SECTOR: u64 = 512;

/// A change of the disk.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Create {
        name: String,
    },
    Write {
        file: FileId,
        offset: u64,
        bytes: Vec<u8>,
    },
    SetSize {
        file: FileId,
        size: u64,
    },
    Sync {
        file: FileId,
    },
    /// A sync that failed: what was to be synced stays visible and is not written by a later sync either.
    LoseUnsynced {
        file: FileId,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
    SyncNames,
}

pub(super) type FileId = u64;

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    files: BTreeMap<FileId, Content>,
    names: Names,
}

#[derive(Clone, Debug, Default)]
struct Names {
    visible: BTreeMap<String, FileId>,
    durable: BTreeMap<String, FileId>,
    unsynced: Vec<NameChange>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Bind(String, FileId),
    Rename(String, String),
    Unbind(String),
}

#[derive(Clone, Debug, Default)]
struct Content {
    visible: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Piece>,
}

/// The part of a change that is kept or lost as a whole.
#[derive(Clone, Debug)]
enum Piece {
    Bytes { offset: u64, bytes: Vec<u8> },
    Size(u64),
}

impl Piece {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Bytes { offset, bytes } => {
                let (from, to) = (*offset as usize, *offset as usize + bytes.len());
                content.resize(content.len().max(to), 0);
                content[from..to].copy_from_slice(bytes);
            }
            Self::Size(size) => content.resize(*size as usize, 0),
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, FileId>) {
        match self {
            Self::Bind(name, file) => {
                names.insert(name.clone(), *file);
            }
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Unbind(name) => {
                names.remove(name);
            }
        }
    }
}

impl State {
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { name } => {
                let file = self.files.keys().next_back().map_or(0, |last| last + 1);
                self.files.insert(file, Content::default());
                self.names.change(NameChange::Bind(name.clone(), file));
            }
            Change::Write { file, offset, bytes } => {
                let content = self.files.entry(*file).or_default();
                Piece::Bytes { offset: *offset, bytes: bytes.clone() }.apply(&mut content.visible);
                content.unsynced.extend(sectors(*offset, bytes));
            }
            Change::SetSize { file, size } => {
                let content = self.files.entry(*file).or_default();
                Piece::Size(*size).apply(&mut content.visible);
                content.unsynced.push(Piece::Size(*size));
            }
            Change::Sync { file } => {
                let content = self.files.entry(*file).or_default();
                for piece in content.unsynced.drain(..) {
                    piece.apply(&mut content.durable);
                }
            }
            Change::LoseUnsynced { file } => self.files.entry(*file).or_default().unsynced.clear(),
            Change::Rename { from, to } => self.names.change(NameChange::Rename(from.clone(), to.clone())),
            Change::Remove { name } => self.names.change(NameChange::Unbind(name.clone())),
            Change::SyncNames => {
                for change in self.names.unsynced.drain(..) {
                    change.apply(&mut self.names.durable);
                }
            }
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.visible.keys()
    }

    pub(super) fn file(&self, name: &str) -> Option<FileId> {
        self.names.visible.get(name).copied()
    }

    pub(super) fn is_linked(&self, file: FileId) -> bool {
        self.names.visible.values().any(|named| *named == file)
    }

    /// The visible name of a file; empty if it has none any more.
    pub(super) fn name(&self, file: FileId) -> String {
        let named = self.names.visible.iter().find(|(_, named)| **named == file);
        named.map(|(name, _)| name.clone()).unwrap_or_default()
    }

    pub(super) fn bytes(&self, file: FileId) -> &[u8] {
        self.files.get(&file).map_or(&[], |content| &content.visible)
    }

    pub(super) fn set_bytes(&mut self, file: FileId, bytes: Vec<u8>) {
        self.files.insert(file, Content { visible: bytes.clone(), durable: bytes, unsynced: Vec::new() });
    }

    /// Bytes in all files.
    pub(super) fn size(&self) -> u64 {
        self.names.visible.values().map(|file| self.bytes(*file).len() as u64).sum()
    }

    /// How many pieces a power cut may keep or lose.
    pub(super) fn unsynced_count(&self) -> usize {
        let pieces: usize = self.files.values().map(|content| content.unsynced.len()).sum();
        pieces + self.names.unsynced.len()
    }

    /// The power goes: of what was not synced only that remains which `fate` keeps. Changes of names are kept up to
    /// the first one that is not.
    pub(super) fn cut(&mut self, fate: &mut dyn Fate) {
        for content in self.files.values_mut() {
            let synced = content.durable.len();
            for mut piece in content.unsynced.drain(..) {
                if fate.keeps() {
                    if let Piece::Bytes { bytes, .. } = &mut piece {
                        bytes.truncate(fate.tears(bytes.len()));
                    }
                    piece.apply(&mut content.durable);
                }
            }
            content.durable.truncate(fate.cuts(synced, content.durable.len()));
            content.visible.clone_from(&content.durable);
        }
        let mut is_kept = true;
        for change in self.names.unsynced.drain(..) {
            is_kept = is_kept && fate.keeps();
            if is_kept {
                change.apply(&mut self.names.durable);
            }
        }
        self.names.visible.clone_from(&self.names.durable);
    }
}

impl Names {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.visible);
        self.unsynced.push(change);
    }
}

fn sectors(offset: u64, bytes: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut offset, mut bytes) = (offset, bytes);
    while !bytes.is_empty() {
        let len = (SECTOR - offset % SECTOR).min(bytes.len() as u64) as usize;
        pieces.push(Piece::Bytes { offset, bytes: bytes[..len].to_vec() });
        (offset, bytes) = (offset + len as u64, &bytes[len..]);
    }
    pieces
}
