//! Files as text: a row for each 32 bytes that are not all zero, with their offset, as `xxd -c 32 -g 0` prints them without
//! its last column. `xxd -r` makes the file again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const ROW_LEN: usize = 32;

pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (row, at) in bytes.chunks(ROW_LEN).zip((0..).step_by(ROW_LEN)) {
        let is_last = at + row.len() == bytes.len();
        if is_last || row.iter().any(|byte| *byte != 0) {
            let digits: String = row.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!("{at:08x}: {digits}\n");
        }
    }
    text
}

fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.lines() {
        let (offset, digits) = line.split_once(": ").expect("an offset and digits");
        bytes.resize(usize::from_str_radix(offset, 16).expect("an offset"), 0);
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
        bytes.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")));
    }
    bytes
}

/// Writes the files of the directory `from`, but for its lock, as text to `to`.
pub(crate) fn pack(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("a directory") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a name").to_str().expect("text");
        if name != "lock" {
            fs::write(to.join(format!("{name}.hex")), text(&fs::read(&path).expect("a file"))).expect("writable");
        }
    }
}

/// Makes a data directory `to` of the texts in `from`.
pub(crate) fn unpack(from: &Path, to: &Path) {
    fs::create_dir(to).expect("writable");
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).expect("ours");
    for entry in fs::read_dir(from).expect("a directory") {
        let path = entry.expect("readable").path();
        unpack_file(&path, &to.join(path.file_stem().expect("a name")));
    }
}

pub(crate) fn unpack_file(from: &Path, to: &Path) {
    fs::write(to, bytes(&fs::read_to_string(from).expect("text"))).expect("writable");
    fs::set_permissions(to, fs::Permissions::from_mode(0o600)).expect("ours");
}

#[test]
fn a_file_is_the_same_when_it_was_text() {
    for len in [0, 1, 31, 32, 33, 200] {
        let mut file: Vec<u8> = (0..len).map(|n| n as u8).collect();
        file.extend([0; 70]);
        assert_eq!(bytes(&text(&file)), file, "{len}");
        file.push(1);
        assert_eq!(bytes(&text(&file)), file, "{len}");
    }
}
